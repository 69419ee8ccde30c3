"""Least squares and smooth risks in the span of centres, one pass over the rows at a time."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
