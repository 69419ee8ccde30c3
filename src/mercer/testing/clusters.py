"""Certificates of clusterings, recomputed from scratch."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import GramRows

__all__ = ["certify_clusters"]

EPS = float(np.finfo(float).eps)
PIVOTS = 1e-12


def certify_clusters(model: Any, X: Any, y: Any = None, weights: Any = None) -> float:
    """Return the share of the points, by weight, that are nearer to another centre than to theirs.

    From the definition: means over the clusters and all squared distances, by differences of
    features where the kernel has them, else by the Gram matrix (that of the features of the pivots,
    where those were used). Centres of mini-batches are taken as they are. Nearer by less than the
    rounding of sums of n numbers, of the size of those that are added here, is equally near.
    """
    points: Any = X if isinstance(X, tuple | list) or sp.issparse(X) else np.asarray(X, dtype=float)
    labels = model.labels_
    n, k = len(labels), int(labels.max()) + 1
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    member = np.where(labels[:, None] == np.arange(k), w[:, None], 0.0)
    member /= member.sum(axis=0)
    matrix = isinstance(model.kernel_.domain, GramRows)
    if model.method_ != "exact":
        kept = model.X_fit_
        cross = points[:, kept] if matrix else model.kernel_(points, kept)
        own = points[np.ix_(kept, kept)] if matrix else model.kernel_(kept)
    if model.method_ == "exact" and model.center_features_ is not None:
        gaps, sizes = _by_features(model.kernel_.features(points), member)
    elif model.method_ == "minibatch":
        inner = cross @ model.center_coef_
        gaps, sizes = _by_products(
            inner, np.einsum("ij,ij->j", model.center_coef_, own @ model.center_coef_)
        )
    else:
        if model.method_ == "nystrom":
            values, vectors = np.linalg.eigh(own)
            there = values > 1e-14 * values[-1]
            half = cross @ vectors[:, there] / np.sqrt(values[there])
            K = half @ half.T
        else:
            K = points if matrix else np.asarray(model.kernel_(points), dtype=float)
        inner = K @ member
        gaps, sizes = _by_products(inner, np.einsum("ij,ij->j", member, inner))
    every = np.arange(n)
    # A root that is cut off has fewer digits than a sum.
    part = PIVOTS if model.method_ == "nystrom" else 4 * (8 + n**0.5) * EPS
    slack = part * (sizes + sizes[every, labels][:, None])
    wrong = (gaps[every, labels][:, None] - gaps > slack).any(axis=1)
    return float(w @ wrong) / float(w.sum())


def _by_products(inner: np.ndarray, squares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ‖μ‖² − 2⟨φ(x), μ⟩, and the size of the numbers in it."""
    return squares - 2 * inner, squares + 2 * np.abs(inner)


def _by_features(F: Any, member: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ‖φ(x) − μ‖² by differences, and the size of the numbers in it."""
    F = np.asarray(F.toarray() if sp.issparse(F) else F, dtype=float)
    F = F - np.median(F, axis=0)
    means = member.T @ F
    gaps = np.stack([((F - mean) ** 2).sum(axis=1) for mean in means], axis=1)
    lengths = (F**2).sum(axis=1)
    return gaps, lengths[:, None] + (means**2).sum(axis=1)
