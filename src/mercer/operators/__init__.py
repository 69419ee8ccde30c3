"""Matrices one can multiply by, without always having them."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
