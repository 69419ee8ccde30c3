"""Quadratic problems in a box with sums: the dual of every margin machine."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
