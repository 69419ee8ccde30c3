"""Certificates of clusters, recomputed from the definition: dense matrices and double loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["certify_dp_means", "certify_embedding", "dp_means_violation"]


def dp_means_violation(squares: Any, labels: Any, penalty: float, weights: Any = None) -> float:
    """Return by how much a partition can be improved by moving or by opening, from its definition.

    The larger of what a point is nearer to another mean than to its own, and what a point is
    farther than `penalty` from its own mean where a cluster around it would lower the objective;
    in squares of distances.

    Parameters
    ----------
    squares : array of shape (n, n)
        Squared distances between the points.
    labels : array of shape (n,)
        Their clusters.
    penalty : float
        The cost of a cluster.
    weights : array of shape (n,), optional
        Weights of the points.

    Examples
    --------
    >>> from mercer.testing.partitions import dp_means_violation
    >>> dp_means_violation([[0.0, 9.0], [9.0, 0.0]], [0, 0], 2.0)
    0.25
    """
    D, labels = np.asarray(squares, dtype=float), np.asarray(labels)
    w = np.ones(len(D)) if weights is None else np.asarray(weights, dtype=float)
    there = np.flatnonzero(w > 0)
    to_means = []
    for c in np.unique(labels[there]):
        m = np.where(labels == c, w, 0.0)
        m /= m.sum()
        to_means.append(D @ m - 0.5 * (m @ D @ m))  # ‖x − Σ mⱼxⱼ‖² from squares between points
    distances = np.array(to_means).T
    column = np.searchsorted(np.unique(labels[there]), labels)
    own = distances[np.arange(len(D)), np.minimum(column, distances.shape[1] - 1)]
    worst = float((own - distances.min(axis=1))[there].max())
    for i in there:
        saved = float(w @ np.maximum(own - D[i], 0.0))
        if own[i] > penalty and saved > penalty:
            worst = max(worst, float(own[i]) - penalty)
    return worst


def certify_dp_means(model: Any, X: Any, y: Any) -> float:
    """Return the violation of the conditions of DP-means, relative to the largest square.

    Parameters
    ----------
    model : DPMeans
        Fitted without weights.
    X : training points
        What it was fitted on.
    y : ignored
        There is no target.
    """
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=float)
    if model.kernel is None:
        Z = X - X.mean(axis=0)
        D = ((Z[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2)
        scale = float((Z * Z).sum(axis=1).max())
    else:
        K = np.asarray(model.kernel_(X), dtype=float)
        lengths = np.diagonal(K)
        D, scale = lengths[:, None] + lengths[None, :] - 2 * K, float(lengths.max())
    slack = 1e-14 * scale  # of the penalty, which may be one of the distances
    return max(0.0, dp_means_violation(D, model.labels_, model.penalty_ + slack)) / (scale or 1.0)


def certify_embedding(model: Any, X: Any, y: Any) -> float:
    """Return the largest residual ‖Sz − λz‖/‖z‖ of an embedding, S written out.

    Parameters
    ----------
    model : SpectralClustering
        Fitted, with weights or without.
    X : training points
        What it was fitted on.
    y : ignored
        There is no target.
    """
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=float)
    A = np.array(model.kernel_(X), dtype=float)
    w = np.ones(len(A)) if model.sample_weight_ is None else model.sample_weight_
    there = w > 0
    A, w, U = A[np.ix_(there, there)], w[there], model.embedding_[there]
    np.fill_diagonal(A, np.diagonal(A) * np.maximum(w - 1, 0) / w)
    degrees = A @ w
    degrees = np.where(degrees > 0, degrees, 1.0)
    scale = np.sqrt(w / degrees)
    Z = U * np.sqrt(w * degrees)[:, None]
    gaps = scale[:, None] * (A @ (scale[:, None] * Z)) - (1 - model.eigenvalues_) * Z
    return float((np.linalg.norm(gaps, axis=0) / np.linalg.norm(Z, axis=0)).max())
