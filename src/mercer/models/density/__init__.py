"""Densities by smoothing kernels, and what follows from them: Bayes' rule, local averages."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
