"""Components, clusters and densities."""

from __future__ import annotations

from sklearn.cluster import KMeans, SpectralClustering as PeerSpectral
from sklearn.decomposition import (
    PCA as PeerPCA,
    KernelPCA as PeerKernelPCA,
)
from sklearn.neighbors import KernelDensity as PeerDensity

import mercer
from mercer import RBF

from .base import PEER, Work, Works, blobs, regression, sizes, width

__all__ = ["WORKS"]


def kernel_pca_fit(n: int, d: int, k: int = 5) -> Works:
    """Leading components."""
    X = blobs(n, d)
    return {
        "mercer": lambda: mercer.KernelPCA(k, RBF(width(d))).fit(X),
        PEER: lambda: PeerKernelPCA(k, kernel="rbf", gamma=1 / d).fit(X),
    }


def kernel_pca_transform(n: int, d: int, rows: int = 1000, k: int = 5) -> Works:
    """New points in leading components."""
    X, New = blobs(n, d), regression(rows, d, 1)[0]
    ours = mercer.KernelPCA(k, RBF(width(d))).fit(X)
    peer = PeerKernelPCA(k, kernel="rbf", gamma=1 / d).fit(X)
    return {"mercer": lambda: ours.transform(New), PEER: lambda: peer.transform(New)}


def pca_fit(n: int, d: int, k: int = 2) -> Works:
    """Linear components."""
    X = blobs(n, d)
    k = min(k, d)
    return {
        "mercer": lambda: mercer.PCA(k).fit_transform(X),
        PEER: lambda: PeerPCA(k).fit_transform(X),
    }


def kmeans_fit(n: int, d: int, k: int = 5) -> Works:
    """Linear k-means, ten starts."""
    X = blobs(n, d)
    return {
        "mercer": lambda: mercer.KernelKMeans(k, mercer.Linear(), n_init=10, random_state=0).fit(X),
        PEER: lambda: KMeans(k, n_init=10, random_state=0).fit(X),
    }


def spectral_fit(n: int, d: int, k: int = 5) -> Works:
    """Spectral clustering by an RBF kernel."""
    X = blobs(n, d)
    return {
        "mercer": lambda: mercer.SpectralClustering(k, RBF(width(d)), random_state=0).fit(X),
        PEER: lambda: PeerSpectral(k, gamma=1 / d, random_state=0).fit(X),
    }


def density_score(n: int, d: int, rows: int = 1000) -> Works:
    """Log densities of new points."""
    X, New = blobs(n, d), blobs(rows, d)
    ours, peer = mercer.KernelDensity(1.0).fit(X), PeerDensity(bandwidth=1.0).fit(X)
    return {"mercer": lambda: ours.score_samples(New), PEER: lambda: peer.score_samples(New)}


WORKS: dict[str, Work] = {
    "KernelPCA fit": Work(
        "Without labels", kernel_pca_fit, sizes((100, 5), (300, 10), (1000, 10), (3000, 20))
    ),
    "KernelPCA transform": Work(
        "Without labels",
        kernel_pca_transform,
        sizes((300, 10), rows=1) + sizes((300, 10), (2000, 20), rows=1000),
        others={"rows": (1, 1000)},
    ),
    "PCA fit_transform": Work(
        "Without labels", pca_fit, sizes((100, 5), (300, 50), (3000, 20), (2000, 200), (50000, 20))
    ),
    "k-means fit": Work(
        "Without labels", kmeans_fit, sizes((100, 5), (300, 10), (3000, 20), (20000, 20))
    ),
    "SpectralClustering fit": Work(
        "Without labels", spectral_fit, sizes((100, 5), (200, 5), (1000, 10), (2000, 10)), 2000
    ),
    "KernelDensity score_samples": Work(
        "Without labels",
        density_score,
        sizes((100, 2), rows=100) + sizes((3000, 3), (3000, 20), rows=1000),
        others={"rows": (1, 1000)},
    ),
}
