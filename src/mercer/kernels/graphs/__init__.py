"""Kernels between graphs, and on the nodes of one graph."""

from mercer.kernels.graphs.attributed_path import AttributedPath
from mercer.kernels.graphs.diffusion import Diffusion
from mercer.kernels.graphs.graphlet import Graphlet
from mercer.kernels.graphs.neighborhood_hash import NeighborhoodHash
from mercer.kernels.graphs.random_walk import RandomWalk
from mercer.kernels.graphs.regularized_laplacian import RegularizedLaplacian
from mercer.kernels.graphs.shortest_path import ShortestPath
from mercer.kernels.graphs.vertex_histogram import VertexHistogram
from mercer.kernels.graphs.weisfeiler_lehman import WeisfeilerLehman

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
