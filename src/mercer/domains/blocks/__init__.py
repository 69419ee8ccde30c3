"""Rows that arrive in blocks: from arrays, files, generators and clusters."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
