"""Certificates of clusterings, recomputed from scratch."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains import GramRows

__all__ = ["certify_clusters"]

SLACK = 1e-9  # of the largest inner products: nearer by less is equally near


def certify_clusters(model: Any, X: Any, y: Any = None, weights: Any = None) -> float:
    """Return the share of the points, by weight, that are nearer to another centre than to theirs.

    From the definition: the Gram matrix (that of the features of the pivots, where those were
    used), means over the clusters, and all squared distances. Centres of mini-batches are taken as
    they are.
    """
    points: Any = X if isinstance(X, tuple | list) else np.asarray(X, dtype=float)
    labels = model.labels_
    n, k = len(labels), int(labels.max()) + 1
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    matrix = isinstance(model.kernel_.domain, GramRows)
    if model.method_ == "exact":
        K = points if matrix else np.asarray(model.kernel_(points), dtype=float)
    else:
        cross = points[:, model.X_fit_] if matrix else model.kernel_(points, model.X_fit_)
        own = points[np.ix_(model.X_fit_, model.X_fit_)] if matrix else model.kernel_(model.X_fit_)
    if model.method_ == "nystrom":
        K = cross @ np.linalg.pinv(own, rcond=1e-14, hermitian=True) @ cross.T
    if model.method_ == "minibatch":
        inner = cross @ model.centre_coef_
        squares = np.einsum("ij,ij->j", model.centre_coef_, own @ model.centre_coef_)
    else:
        member = np.where(labels[:, None] == np.arange(k), w[:, None], 0.0)
        member /= member.sum(axis=0)
        inner = K @ member
        squares = np.einsum("ij,ij->j", member, inner)
    gaps = squares - 2 * inner
    slack = SLACK * (np.abs(inner).max(axis=1) + squares.max())
    wrong = gaps[np.arange(n), labels] - gaps.min(axis=1) > slack
    return float(w @ wrong) / float(w.sum())
