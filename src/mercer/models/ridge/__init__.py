"""Kernel ridge regression, its classifier and its structured outputs."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
