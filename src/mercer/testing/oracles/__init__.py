"""Definitions in plain Python, written apart from the fast code."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
