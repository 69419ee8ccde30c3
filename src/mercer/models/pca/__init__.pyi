from mercer.models.pca.components import THIN as THIN, n_features as n_features
from mercer.models.pca.dual import pivots_allowed as pivots_allowed
from mercer.models.pca.kernel_pca import (
    PEERS as PEERS,
    KernelPCA as KernelPCA,
    check_parameters as check_parameters,
    pick_solver as pick_solver,
)
from mercer.models.pca.linear_pca import PCA as PCA

__all__ = ["PCA", "KernelPCA"]
