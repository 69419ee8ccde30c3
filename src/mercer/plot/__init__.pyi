from mercer.plot.points import (
    ClustersDisplay as ClustersDisplay,
    DensityDisplay as DensityDisplay,
    ProjectionDisplay as ProjectionDisplay,
)
from mercer.plot.process import (
    EvidenceDisplay as EvidenceDisplay,
    PosteriorDisplay as PosteriorDisplay,
)
from mercer.plot.samples import (
    DependenceDisplay as DependenceDisplay,
    NullDisplay as NullDisplay,
    WitnessDisplay as WitnessDisplay,
)

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
