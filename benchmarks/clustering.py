"""Clustering: kernel k-means against one read of the Gram matrix, spectral against its peer."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.cluster import KMeans, SpectralClustering as Peer
from sklearn.metrics import adjusted_rand_score
from timing import Row, best_of

from mercer import RBF, KernelKMeans, SpectralClustering
from mercer.errors import NotConverged
from mercer.models.cluster.spaces import GramSpace

__all__ = ["rows"]


def rows(rounds: int = 3) -> list[Row]:
    """Time every method of clustering."""
    return [*sweeps(rounds=rounds), *plain(rounds=rounds), *spectral(rounds=rounds)]


def blobs(n: int, d: int, k: int) -> np.ndarray:
    """Return points around k centres that overlap."""
    rng = np.random.default_rng(0)
    return 2.0 * rng.standard_normal((k, d))[rng.integers(0, k, n)] + rng.standard_normal((n, d))


def sweeps(n: int = 10000, d: int = 20, k: int = 10, rounds: int = 3) -> list[Row]:
    """Time a full sweep against K @ v, one read of K on all cores, and a whole fit."""
    X = blobs(n, d, k)
    K = RBF(5.0)(X)
    rng = np.random.default_rng(1)
    labels, v = rng.integers(0, k, n), rng.standard_normal(n)
    space = GramSpace(K, K.diagonal().copy(), np.ones(n))
    onehot = np.zeros((n, k))
    onehot[np.arange(n), labels] = 1.0

    def sweep() -> object:
        space.forget()
        return space.look(labels, k)

    def numpy_sweep() -> np.ndarray:
        mass = onehot.sum(axis=0)
        inner = K @ onehot / mass
        squares = (onehot * inner).sum(axis=0) / mass
        return np.argmin(squares - 2 * inner, axis=1)

    sweep()  # compiles
    ours, read, peer = best_of(rounds + 2, sweep, lambda: K @ v, numpy_sweep)
    one = KernelKMeans(k, "precomputed", random_state=0)
    (whole,) = best_of(1, lambda: one.fit(K))
    each = whole / one.n_iter_
    note = (
        f"a fit of {one.n_iter_} sweeps with its checks {whole:.2f} s, {each / read:.2f} reads each"
    )
    name = f"kernel k-means sweep n={n}, k={k}"
    return [Row(name, ours, peer, "NumPy", read, "K @ v", note=note)]


def plain(n: int = 100_000, d: int = 20, k: int = 10, rounds: int = 3) -> list[Row]:
    """Time plain k-means from one start against scikit-learn's, as many sweeps of both."""
    X = blobs(n, d, k)
    ours = KernelKMeans(k, "linear", init=X[:k], max_iter=20)
    peer = KMeans(k, init=X[:k], n_init=1, max_iter=20, tol=0.0)

    def fit() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            ours.fit(X)

    mine, other = best_of(rounds, fit, lambda: peer.fit(X))
    off = abs(ours.inertia_ / peer.inertia_ - 1)
    note = f"{ours.n_iter_} and {peer.n_iter_} sweeps; inertia within {off:.1e}"
    return [Row(f"linear k-means n={n}, k={k}", mine, other, "KMeans", note=note)]


def rings(n: int, k: int) -> np.ndarray:
    """Return points on k rings around one another."""
    rng = np.random.default_rng(0)
    t, radius = rng.uniform(0, 2 * np.pi, n), 1.0 + np.arange(n) % k
    return radius[:, None] * np.column_stack([np.cos(t), np.sin(t)]) + 0.05 * rng.standard_normal(
        (n, 2)
    )


def _times(rounds: int, ours: object, peer: object, X: np.ndarray) -> list[float]:
    return best_of(rounds, lambda: ours.fit(X), lambda: peer.fit(X))  # type: ignore[attr-defined]


def spectral(n: int = 3000, rounds: int = 3) -> list[Row]:
    """Time spectral clustering against scikit-learn's, the same kernel and starts of k-means.

    Rings are found with a narrow kernel, whose eigenvalues crowd at 1.
    """
    table = []
    for name, X, k, scale in (
        ("blobs", blobs(n, 20, 8), 8, 3.0),
        ("rings", rings(n, 3), 3, 0.15),
    ):
        ours = SpectralClustering(k, RBF(scale), random_state=0)
        peer = Peer(k, gamma=0.5 / scale**2, random_state=0)
        mine, other = _times(rounds, ours, peer, X)
        same = adjusted_rand_score(ours.labels_, peer.labels_)
        residual = ours.solution_.residual
        note = f"target 1×; adjusted Rand index of the two {same:.4f}; {residual:.0e} residual"
        table.append(
            Row(f"spectral {name} n={n}, k={k}", mine, other, "SpectralClustering", note=note)
        )
    return table
