from mercer.models.cluster.affinity import (
    default_rank as default_rank,
    pick_spectral_method as pick_spectral_method,
    spectral_bytes as spectral_bytes,
)
from mercer.models.cluster.dpmeans import DPMeans as DPMeans, penalty_from_k as penalty_from_k
from mercer.models.cluster.kmeans import METHODS as METHODS, KernelKMeans as KernelKMeans
from mercer.models.cluster.kmeans_fit import (
    BATCH_BYTES as BATCH_BYTES,
    batch_that_fits as batch_that_fits,
    pick_method as pick_method,
    pivot_bytes as pivot_bytes,
)
from mercer.models.cluster.lloyd import WINDOW as WINDOW
from mercer.models.cluster.spaces import ARRAYS as ARRAYS
from mercer.models.cluster.spectral import SpectralClustering as SpectralClustering

__all__ = ["DPMeans", "KernelKMeans", "SpectralClustering", "penalty_from_k"]
