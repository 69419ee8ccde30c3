"""From the rows of an embedding to clusters: k-means, or the pivots of a QR factorisation."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.linalg import qr, svd
from sklearn.exceptions import ConvergenceWarning

from mercer.errors import InvalidInput

__all__ = ["WAYS", "assign", "cleaned", "cluster_means", "nearest"]

WAYS = ("kmeans", "cluster_qr")
SAME = 1e-6  # relative spread of a column up to which it is constant


def assign(
    U: np.ndarray, weights: np.ndarray, k: int, way: str, n_init: int, random_state: Any
) -> np.ndarray:
    """Return the clusters of the rows of U, numbered by falling weight.

    Parameters
    ----------
    U : ndarray of shape (n, m)
        The embedding.
    weights : ndarray of shape (n,)
        Weights > 0.
    k : int
        How many clusters.
    way : {"kmeans", "cluster_qr"}
        How.
    n_init : int
        Starts of k-means.
    random_state : RandomState
        Of k-means.
    """
    if way == "cluster_qr":
        return ordered(_by_pivots(U, k), weights, U)
    from sklearn.cluster import KMeans

    # k-means++ draws from sums of weights along the rows: in an order that is their own a weight of
    # 2 draws what two rows would, and the order in which rows were given has no effect.
    order = np.argsort(U @ random_state.standard_normal(U.shape[1]), kind="stable")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        model = KMeans(k, n_init=n_init, random_state=random_state)
        labels = np.empty(len(U), dtype=np.int64)
        labels[order] = model.fit_predict(U[order], sample_weight=weights[order])
    return ordered(labels, weights, U)


def _by_pivots(U: np.ndarray, k: int) -> np.ndarray:
    """Return clusters from the directions of k rows that are far from one another.

    A. Damle, V. Minden, L. Ying, Simple, direct and efficient multi-way spectral clustering,
    Information and Inference 8 (2019): rows of a cluster point in nearly one direction, a pivoted
    QR of Uᵀ finds one of each, and the nearest orthogonal matrix turns these to the axes.
    """
    if U.shape[1] != k:
        raise InvalidInput(
            f"SpectralClustering: assign_labels='cluster_qr' needs as many components as clusters, "
            f"got n_components={U.shape[1]} and n_clusters={k}; leave n_components out."
        )
    pivots = qr(U.T, mode="r", pivoting=True, check_finite=False)[-1][:k]
    left, _, right = svd(U[pivots].T, check_finite=False)
    return np.abs(U @ (left @ right)).argmax(axis=1)


def ordered(labels: np.ndarray, weights: np.ndarray, U: np.ndarray) -> np.ndarray:
    """Return labels without gaps: the heaviest cluster is 0; of equally heavy ones, by means.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        Any numbers.
    weights : ndarray of shape (n,)
        Weights > 0.
    U : ndarray of shape (n, m)
        The points; the mean that is first in lexicographic order, up to rounding, goes first.
    """
    _, labels = np.unique(labels, return_inverse=True)
    total = np.bincount(labels, weights)
    means = cluster_means(U, labels, weights) / (np.abs(U).max(axis=0) + 1e-300)
    keys = [*np.round(means.T[::-1], 6), -np.round(total / total.sum(), 12)]
    order = np.lexsort(keys)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    return number[labels].astype(np.int64)


def cluster_means(U: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weighted mean of each cluster."""
    sums = np.stack([np.bincount(labels, weights * column) for column in U.T], axis=1)
    return np.asarray(sums / np.bincount(labels, weights)[:, None])


def nearest(U: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return the nearest centre of each row."""
    squares = (centres * centres).sum(axis=1) - 2 * (U @ centres.T)
    return squares.argmin(axis=1).astype(np.int64)


def cleaned(U: np.ndarray) -> np.ndarray:
    """Return U with constant columns constant, and a rule for the signs of columns.

    Of a connected graph the first eigenvector is constant, and its rounding would be clustered if
    there were nothing else. The first entry of (nearly) largest modulus is positive.
    """
    means, size = U.mean(axis=0), np.abs(U)
    U = np.where(np.abs(U - means).max(axis=0) <= SAME * size.max(axis=0), means, U)
    first = np.argmax(size >= (1.0 - 1e-6) * size.max(axis=0), axis=0)
    return np.asarray(U * np.where(U[first, np.arange(U.shape[1])] < 0, -1.0, 1.0))
