from mercer.plot.effects import EffectsDisplay as EffectsDisplay
from mercer.plot.explanations import (
    ExplanationDisplay as ExplanationDisplay,
    PairsDisplay as PairsDisplay,
)
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
    "EffectsDisplay",
    "EvidenceDisplay",
    "ExplanationDisplay",
    "ImportancesDisplay",
    "MetricDisplay",
    "NullDisplay",
    "PairsDisplay",
    "PosteriorDisplay",
    "ProjectionDisplay",
    "WitnessDisplay",
]
