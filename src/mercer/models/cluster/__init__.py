"""Groups of points that are near one another in feature space."""

from mercer.models.cluster.dpmeans import DPMeans
from mercer.models.cluster.penalty_rule import penalty_from_k

__all__ = ["DPMeans", "penalty_from_k"]
