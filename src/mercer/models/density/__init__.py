"""Densities by smoothing kernels, and what follows from them: Bayes' rule, local averages."""

__all__: list[str] = []
