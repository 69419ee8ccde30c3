"""Model files: one safe, whole, checked file for a fitted model; no pickle, no code."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
