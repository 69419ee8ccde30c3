"""Gaussian process regression: evidence, posterior, left-out rows, updates."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
