"""Gaussian process classification: Laplace, EP and variational inference."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
