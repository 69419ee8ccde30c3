from mercer.plot.clusters import ClustersDisplay as ClustersDisplay
from mercer.plot.density import DensityDisplay as DensityDisplay
from mercer.plot.dependence import DependenceDisplay as DependenceDisplay
from mercer.plot.evidence import EvidenceDisplay as EvidenceDisplay
from mercer.plot.null import NullDisplay as NullDisplay
from mercer.plot.posterior import PosteriorDisplay as PosteriorDisplay
from mercer.plot.projection import ProjectionDisplay as ProjectionDisplay
from mercer.plot.witness import WitnessDisplay as WitnessDisplay

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
