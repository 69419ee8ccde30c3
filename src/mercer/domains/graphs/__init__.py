"""Graphs as points: one graph, collections of them, how they are read, their nodes."""
