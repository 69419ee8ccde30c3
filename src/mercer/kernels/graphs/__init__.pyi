from mercer.kernels.graphs.graphlet import Graphlet as Graphlet
from mercer.kernels.graphs.histograms import (
    NeighborhoodHash as NeighborhoodHash,
    VertexHistogram as VertexHistogram,
    WeisfeilerLehman as WeisfeilerLehman,
    WeisfeilerLehmanOptimalAssignment as WeisfeilerLehmanOptimalAssignment,
)
from mercer.kernels.graphs.nodes import (
    Diffusion as Diffusion,
    RegularizedLaplacian as RegularizedLaplacian,
)
from mercer.kernels.graphs.paths import (
    AttributedPath as AttributedPath,
    ShortestPath as ShortestPath,
)
from mercer.kernels.graphs.propagation import (
    Propagation as Propagation,
    uniforms as uniforms,
)
from mercer.kernels.graphs.walks import RandomWalk as RandomWalk

__all__ = [
    "AttributedPath",
    "Diffusion",
    "Graphlet",
    "NeighborhoodHash",
    "Propagation",
    "RandomWalk",
    "RegularizedLaplacian",
    "ShortestPath",
    "VertexHistogram",
    "WeisfeilerLehman",
    "WeisfeilerLehmanOptimalAssignment",
]
