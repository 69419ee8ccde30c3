"""Principal components, of the points or of their images in feature space."""

from mercer.models.pca.kernel_pca import KernelPCA
from mercer.models.pca.linear_pca import PCA

__all__ = ["PCA", "KernelPCA"]
