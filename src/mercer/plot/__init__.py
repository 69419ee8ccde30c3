"""Pictures of fitted models: Display classes that hold what is drawn, and draw it."""

from mercer.plot.clusters import ClustersDisplay
from mercer.plot.density import DensityDisplay
from mercer.plot.dependence import DependenceDisplay
from mercer.plot.evidence import EvidenceDisplay
from mercer.plot.null import NullDisplay
from mercer.plot.posterior import PosteriorDisplay
from mercer.plot.projection import ProjectionDisplay
from mercer.plot.witness import WitnessDisplay

__all__ = [
    "ClustersDisplay",
    "DensityDisplay",
    "DependenceDisplay",
    "EvidenceDisplay",
    "NullDisplay",
    "PosteriorDisplay",
    "ProjectionDisplay",
    "WitnessDisplay",
]
