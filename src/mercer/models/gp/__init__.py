"""Gaussian processes: regression, classification and sparse regression, tuned by their evidence."""

__all__: list[str] = []
