"""Sparse weights on prototypes."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
