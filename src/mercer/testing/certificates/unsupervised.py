"""Certificates of clusters, recomputed from the definition: dense matrices and double loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import GramRows

# ---- Certificates of clusterings, recomputed from scratch ----


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


# ---- Certificates of principal components: residuals of the eigenproblem, from its definition ----


def certify_components(model: Any, X: Any, y: Any) -> float:
    """Return the largest ‖A u − λ u‖/λ₁, A = √W(I − U)K(I − U)√W written out.

    What a low-rank approximation may leave out of A is subtracted: its trace bounds its norm.
    """
    points: Any = X if isinstance(X, tuple | list) else np.asarray(X, dtype=float)
    n = len(points)
    w = np.ones(n) if model.sample_weight_ is None else model.sample_weight_
    H, root = np.eye(n) - w / w.sum(), np.sqrt(w)
    if model.axes_ is None:
        A = root[:, None] * (H @ np.asarray(model.kernel_(points)) @ H.T) * root
    else:  # centred before they are multiplied, features far from 0 keep their digits
        F = root[:, None] * _centred(model.kernel_.features(points), w)
        A = F @ F.T
    values, U = model.eigenvalues_, model.eigenvectors_
    top = float(values.max(initial=0.0)) or 1.0
    residual = float(np.linalg.norm(A @ U - U * values, axis=0).max(initial=0.0)) / top
    left_out = model.approximation_error_ * float(np.trace(A)) / top
    return max(0.0, residual - left_out)


def certify_axes(model: Any, X: Any, y: Any = None, weights: Any = None) -> float:
    """Return the largest ‖S v − σ² v‖/σ₁² over the components, S = Σ w(x − μ)(x − μ)ᵀ written out.

    Besides, how far the components are from orthonormal, and their shares from σ²/tr S.
    """
    points = np.asarray(X, dtype=float)
    w = np.ones(len(points)) if weights is None else np.asarray(weights, dtype=float)
    near = np.sqrt(w)[:, None] * _centred(points, w)
    V, squares = model.components_.T, model.singular_values_**2
    total = float(np.einsum("ij,ij->", near, near))
    V, squares, shares = V[:, squares > 0], squares[squares > 0], model.explained_variance_ratio_
    if not len(squares):
        return 0.0
    apart = near.T @ (near @ V) - V * squares
    worst = float(np.linalg.norm(apart, axis=0).max()) / squares[0]
    worst = max(worst, float(np.abs(V.T @ V - np.eye(len(squares))).max()))
    return max(worst, float(np.abs(shares[: len(squares)] - squares / total).max()))


def _centred(rows: Any, w: np.ndarray) -> np.ndarray:
    rows = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=float)
    near = rows - rows[0]
    return np.asarray(near - w / w.sum() @ near)


# ---- Certificates of bandwidths by the leave-one-out likelihood, recomputed from scratch ----


def certify_bandwidth(model: Any, X: Any = None, y: Any = None) -> float:
    """Return the slope of the mean leave-one-out log-likelihood by log h at the bandwidth found.

    From the definition, with all pairs in memory: p₋ᵢ is a sum of wⱼ φ(s), of which
    −2s φ′(s) is the slope, and −d is that of h⁻ᵈ. Of "tophat" there is no slope: by how much the
    mean is larger at the best of all distances.
    """
    w = np.ones(len(model.X_fit_)) if model.sample_weight_ is None else model.sample_weight_
    points, w = model.X_fit_[w > 0] / model.bandwidth_, w[w > 0]
    p = {"euclidean": 2, "manhattan": 1, "chebyshev": np.inf}.get(model.metric_, model.metric_)
    s = np.linalg.norm(points[:, None] - points, ord=p, axis=2) ** 2
    counts = np.broadcast_to(w, s.shape).copy()
    np.fill_diagonal(counts, 0.0)
    share, d = w / w.sum(), points.shape[1]
    if model.smoothing_ == "tophat":
        distances = np.sqrt(np.unique(s[s > 0]))
        means = [_mean_of_balls(s, counts, share, r, d) for r in distances * (1 + 1e-12)]
        return max(0.0, max(means) - _mean_of_balls(s, counts, share, 1.0, d))
    # Relative to the nearest that counts: far from all others exponentials would vanish.
    near = np.where(counts > 0, s, np.inf).min(axis=1)[:, None]
    values, slopes = _profile(model.smoothing_, s, near)
    whole = (counts * values).sum(axis=1)
    return float(abs(share @ ((counts * slopes).sum(axis=1) / whole) - d))


def _mean_of_balls(s: np.ndarray, counts: np.ndarray, share: np.ndarray, h: float, d: int) -> float:
    """Return the mean of the logarithms of weights within h over hᵈ."""
    with np.errstate(divide="ignore"):
        return float(share @ np.log((counts * (s < h * h)).sum(axis=1))) - d * float(np.log(h))


def _profile(name: str, s: np.ndarray, near: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return φ(s) and −2s φ′(s), exponentials relative to that of the nearest point."""
    r = np.sqrt(s)
    if name == "gaussian":
        value = np.exp(-0.5 * (s - near))
        return value, s * value
    if name == "exponential":
        value = np.exp(np.sqrt(near) - r)
        return value, r * value
    inside, a = s < 1.0, 0.5 * np.pi * r
    value, slope = {
        "epanechnikov": (1.0 - s, 2.0 * s),
        "triangular": (1.0 - r, r),
        "biweight": ((1.0 - s) ** 2, 4.0 * s * (1.0 - s)),
        "cosine": (np.cos(a), a * np.sin(a)),
    }[name]
    return np.where(inside, value, 0.0), np.where(inside, slope, 0.0)


# ---- partitions ----


def dp_means_violation(squares: Any, labels: Any, penalty: float, weights: Any = None) -> float:
    """Return by how much a partition can be improved by moving or by opening, from its definition.

    The larger of what a point is nearer to another mean than to its own, and what a point is
    farther than `penalty` from its own mean where a cluster around it would lower the objective;
    in squares of distances.

    Examples
    --------
    >>> from mercer.testing.certificates.unsupervised import dp_means_violation
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
    """Return the violation of the conditions of DP-means, relative to the largest square."""
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


def _joined(K: np.ndarray, X: np.ndarray, k: int) -> np.ndarray:
    """Return the graph of the k nearest points, itself counted, of which equal rows are one."""
    _, first, place = np.unique(X, axis=0, return_index=True, return_inverse=True)
    place = place.ravel()
    K = K[np.ix_(first, first)]
    squares = np.diagonal(K)[:, None] + np.diagonal(K) - 2 * K
    np.fill_diagonal(squares, -np.inf)
    C = np.zeros_like(K)
    for row, at in zip(C, np.argsort(squares, axis=1)[:, :k], strict=True):
        row[at] = 1.0
    return (0.5 * (C + C.T))[np.ix_(place, place)]


def certify_embedding(model: Any, X: Any, y: Any) -> float:
    """Return the largest residual ‖Sz − λz‖/‖z‖ of an embedding, S written out."""
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=float)
    A = np.array(model.kernel_(X), dtype=float)
    w = np.ones(len(A)) if model.sample_weight_ is None else model.sample_weight_
    there = w > 0
    A, w, U = A[np.ix_(there, there)], w[there], model.embedding_[there]
    if model.affinity == "nearest_neighbors":
        precomputed = not model.kernel_.domain.holds_points
        A = _joined(A, np.eye(len(A)) if precomputed else X[there], model.n_neighbors)
    np.fill_diagonal(A, np.diagonal(A) * np.maximum(w - 1, 0) / w)
    degrees = A @ w
    degrees = np.where(degrees > 0, degrees, 1.0)
    scale = np.sqrt(w / degrees)
    Z = U * np.sqrt(w * degrees)[:, None]
    gaps = scale[:, None] * (A @ (scale[:, None] * Z)) - (1 - model.eigenvalues_) * Z
    return float((np.linalg.norm(gaps, axis=0) / np.linalg.norm(Z, axis=0)).max())
