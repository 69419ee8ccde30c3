"""Gaussian processes on inducing points."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
