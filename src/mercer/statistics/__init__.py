"""Samples in, p-value out: are two distributions one, are two variables independent."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
