"""Kernels between graphs, and on the nodes of one graph."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
