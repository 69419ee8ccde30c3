from mercer.plot.metrics import (
    ImportancesDisplay as ImportancesDisplay,
    MetricDisplay as MetricDisplay,
)
from mercer.plot.points import (
    ClustersDisplay as ClustersDisplay,
    DensityDisplay as DensityDisplay,
    NullDisplay as NullDisplay,
    ProjectionDisplay as ProjectionDisplay,
)
from mercer.plot.process import (
    EvidenceDisplay as EvidenceDisplay,
    PosteriorDisplay as PosteriorDisplay,
)
from mercer.plot.samples import (
    DependenceDisplay as DependenceDisplay,
    WitnessDisplay as WitnessDisplay,
)

__all__ = [
    "ClustersDisplay",
    "DensityDisplay",
    "DependenceDisplay",
    "EvidenceDisplay",
    "ImportancesDisplay",
    "MetricDisplay",
    "NullDisplay",
    "PosteriorDisplay",
    "ProjectionDisplay",
    "WitnessDisplay",
]
