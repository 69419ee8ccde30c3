"""Pictures of fitted models: Display classes that hold what is drawn, and draw it."""

from mercer.plot.evidence import EvidenceDisplay
from mercer.plot.null import NullDisplay
from mercer.plot.posterior import PosteriorDisplay

__all__ = ["EvidenceDisplay", "NullDisplay", "PosteriorDisplay"]
