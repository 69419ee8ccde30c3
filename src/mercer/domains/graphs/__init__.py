"""Graphs as points: one graph, collections of them, how they are read, their nodes."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
