from mercer.models.cluster.dpmeans import DPMeans as DPMeans, penalty_from_k as penalty_from_k
from mercer.models.cluster.kmeans import KernelKMeans as KernelKMeans
from mercer.models.cluster.spectral import SpectralClustering as SpectralClustering

__all__ = ["DPMeans", "KernelKMeans", "SpectralClustering", "penalty_from_k"]
