"""Gaussian processes: regression, classification and sparse regression, tuned by their evidence."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
