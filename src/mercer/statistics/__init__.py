"""Samples in, p-value out: are two distributions one, are two variables independent."""

__all__: list[str] = []
