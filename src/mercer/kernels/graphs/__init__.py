"""Kernels between graphs, and on the nodes of one graph."""

from mercer.kernels.graphs.graphlet import Graphlet
from mercer.kernels.graphs.histograms import NeighborhoodHash, VertexHistogram, WeisfeilerLehman
from mercer.kernels.graphs.nodes import Diffusion, RegularizedLaplacian
from mercer.kernels.graphs.paths import AttributedPath, ShortestPath
from mercer.kernels.graphs.walks import RandomWalk

__all__ = [
    "AttributedPath",
    "Diffusion",
    "Graphlet",
    "NeighborhoodHash",
    "RandomWalk",
    "RegularizedLaplacian",
    "ShortestPath",
    "VertexHistogram",
    "WeisfeilerLehman",
]
