"""Two rings: components that unroll them, clusters that follow them, and points off both.

Run it with ``python examples/rings.py``; it takes a second. With a file name it also draws the
picture: ``python examples/rings.py rings.png`` (needs matplotlib).
"""

from __future__ import annotations

import sys

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score

from mercer import PCA, RBF, KernelKMeans, KernelPCA, SpectralClustering

N = 300


def rings(seed: int = 0, n: int = N) -> tuple[np.ndarray, np.ndarray]:
    """Return points near two circles of radius 1 and 3, and which circle."""
    rng = np.random.default_rng(seed)
    ring = np.arange(n) % 2
    radius = np.where(ring == 0, 1.0, 3.0) + 0.15 * rng.normal(size=n)
    angle = rng.uniform(0, 2 * np.pi, n)
    return radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]), ring


def main(picture: str | None = None) -> None:
    """Tell the story."""
    X, ring = rings()
    components(X, ring)
    denoise(X)
    novelty(X)
    clusters(X, ring)
    if picture is not None:
        draw(X, ring, picture)


def components(X: np.ndarray, ring: np.ndarray) -> None:
    """Ask a linear classifier, which sees two components only, for the ring."""
    print("1. Share of points whose ring a line in the plane of two components tells")
    for name, model in (("PCA", PCA(2)), ("kernel PCA", KernelPCA(2, RBF(1.5)))):
        Z = model.fit_transform(X)
        share = LogisticRegression().fit(Z, ring).score(Z, ring)
        known = model.explained_variance_ratio_.sum()
        print(f"   {name:11} {share:4.0%}   (variance explained: {known:.0%})")


def denoise(X: np.ndarray) -> None:
    """Go to fourteen components and back: what is left is on the rings."""
    model = KernelPCA(14, RBF(0.7), fit_inverse_transform=True).fit(X)
    back = model.inverse_transform(model.transform(X))
    print("\n2. Distance to the nearest ring, root mean square")
    for name, points in (("as measured", X), ("from 14 components", back)):
        r = np.linalg.norm(points, axis=1)
        off = np.minimum(abs(r - 1), abs(r - 3))
        print(f"   {name:18} {np.sqrt((off**2).mean()):.3f}")


def novelty(X: np.ndarray) -> None:
    """Look at what the components do not explain of points off the rings."""
    model = KernelPCA(0.95, RBF(0.5)).fit(X)  # a scale below the width of the hole
    usual = model.reconstruction_error(X)
    print("\n3. Reconstruction error: is a point like those of the fit?")
    print(f"   of the points of the fit: 95 % are below {np.quantile(usual, 0.95):.3f}")
    for name, point in (("the middle", [0.0, 0.0]), ("between", [2.0, 0.0]), ("on a ring", [0, 3])):
        print(f"   {name:10} {model.reconstruction_error([point])[0]:.3f}")


def clusters(X: np.ndarray, ring: np.ndarray) -> None:
    """Compare clusters with the rings: 1 is the same partition, 0 is chance."""
    print("\n4. Clusters against the rings (adjusted Rand index)")
    models = {
        "k-means": KernelKMeans(2, "linear", random_state=0),
        "kernel k-means": KernelKMeans(2, RBF(1.0), n_init=20, random_state=0),
        "spectral": SpectralClustering(2, RBF(0.4), random_state=0),
    }
    for name, model in models.items():
        print(f"   {name:15} {adjusted_rand_score(ring, model.fit_predict(X)):+.2f}")


def draw(X: np.ndarray, ring: np.ndarray, path: str) -> None:
    """Draw the rings, both planes of components, and the clusters."""
    from matplotlib.figure import Figure

    from mercer.plot import ClustersDisplay, ProjectionDisplay

    figure = Figure(figsize=(12, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    ProjectionDisplay.from_estimator(PCA(2).fit(X), X, ring, ax=left)
    ProjectionDisplay.from_estimator(KernelPCA(2, RBF(1.5)).fit(X), X, ring, ax=middle)
    model = SpectralClustering(2, RBF(0.4), random_state=0).fit(X)
    ClustersDisplay.from_estimator(model, X, ax=right)
    for axes, title in zip((left, middle, right), ("PCA", "kernel PCA", "spectral"), strict=True):
        axes.set_title(title, loc="left", fontsize="medium")
    figure.savefig(path, dpi=150)
    print(f"   picture: {path}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
