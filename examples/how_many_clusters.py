"""How many clusters? DP-means lets a price decide, and a price follows from a guess.

Run it with ``python examples/how_many_clusters.py``; it takes a second. With a file name it also
draws the picture: ``python examples/how_many_clusters.py clusters.png`` (needs matplotlib).
"""

from __future__ import annotations

import sys

import numpy as np

from mercer import DPMeans, KernelKMeans, penalty_from_k

CENTRES = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0], [7.0, 7.0], [12.0, 2.0]])


def points(seed: int = 0, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Return points around five centres, and which centre."""
    rng = np.random.default_rng(seed)
    which = rng.integers(0, len(CENTRES), n)
    return CENTRES[which] + 0.8 * rng.normal(size=(n, 2)), which


def main(picture: str | None = None) -> None:
    """Tell the story."""
    X, _ = points()
    prices(X)
    model = guesses(X)
    deviance(X)
    if picture is not None:
        draw(X, model, picture)


def prices(X: np.ndarray) -> None:
    """Raise the price of a cluster."""
    print("1. The price of a cluster, and how many are worth it")
    for penalty in (2.0, 5.0, 10.0, 20.0, 40.0, 100.0):
        model = DPMeans(penalty).fit(X)
        print(
            f"   {penalty:5.0f}   {model.n_clusters_:3d} clusters, objective {model.objective_:.0f}"
        )


def guesses(X: np.ndarray) -> DPMeans:
    """Turn a guess of the number into a price."""
    print("\n2. A guess of the number, the price that follows, and the clusters found")
    for k in (3, 5, 8):
        penalty = penalty_from_k(X, k)
        model = DPMeans(penalty).fit(X)
        print(f"   about {k}: price {penalty:6.1f}, {model.n_clusters_} clusters")
    return DPMeans(penalty_from_k(X, 5)).fit(X)


def deviance(X: np.ndarray) -> None:
    """Watch the deviance of k-means fall with the number of clusters."""
    print("\n3. The deviance of k-means: it always falls, most where a cluster is needed")
    before = None
    for k in range(1, 9):
        inertia = KernelKMeans(k, "linear", n_init=5, random_state=0).fit(X).inertia_
        fall = "" if before is None else f", {before - inertia:8.0f} less"
        print(f"   {k} clusters: {inertia:8.0f}{fall}")
        before = inertia


def draw(X: np.ndarray, model: DPMeans, path: str) -> None:
    """Draw the clusters and the regions that new points fall in."""
    from matplotlib.figure import Figure

    from mercer.plot import ClustersDisplay

    figure = Figure(figsize=(6, 4), layout="constrained")
    ClustersDisplay.from_estimator(model, X, ax=figure.subplots())
    figure.savefig(path, dpi=150)
    print(f"   picture: {path}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
