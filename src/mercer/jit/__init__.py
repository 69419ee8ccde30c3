"""Tight loops: compiled functions only, flat arrays in and out, no threads of their own."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
