"""Kernels, points and estimators to test with."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
