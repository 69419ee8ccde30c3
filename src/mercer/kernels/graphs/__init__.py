"""Kernels between graphs, and on the nodes of one graph."""

__all__: list[str] = []
