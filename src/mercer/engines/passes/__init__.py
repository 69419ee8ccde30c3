"""Passes over rows: in memory, on a device, from files and on a cluster."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
