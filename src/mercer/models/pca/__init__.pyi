from mercer.models.pca.kernel_pca import KernelPCA as KernelPCA
from mercer.models.pca.linear_pca import PCA as PCA

__all__ = ["PCA", "KernelPCA"]
