from mercer.kernels.graphs.graphlet import Graphlet as Graphlet
from mercer.kernels.graphs.histograms import (
    NeighborhoodHash as NeighborhoodHash,
    VertexHistogram as VertexHistogram,
    WeisfeilerLehman as WeisfeilerLehman,
)
from mercer.kernels.graphs.nodes import (
    Diffusion as Diffusion,
    RegularizedLaplacian as RegularizedLaplacian,
)
from mercer.kernels.graphs.paths import (
    AttributedPath as AttributedPath,
    ShortestPath as ShortestPath,
)
from mercer.kernels.graphs.walks import RandomWalk as RandomWalk

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
