"""Gaussian process classification: Laplace, EP and variational inference."""
