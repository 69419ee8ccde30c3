"""Groups of points that are near one another in feature space."""

from mercer.models.cluster.dpmeans import DPMeans, penalty_from_k
from mercer.models.cluster.kmeans import KernelKMeans
from mercer.models.cluster.spectral import SpectralClustering

__all__ = ["DPMeans", "KernelKMeans", "SpectralClustering", "penalty_from_k"]
