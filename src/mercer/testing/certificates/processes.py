"""Certificates of Gaussian process regression, recomputed by dense algebra and by differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import erfcx, expit, softmax

from mercer.domains import GramRows
from mercer.models.gp.classes import as_link, expected, expected_softmax
from mercer.testing.checks import require
from mercer.testing.oracles import BinaryLikelihood, integrate_posterior

STEP = 1e-3  # of a logarithm, for central differences
GAIN = 0.05  # nats that a converged search may leave in one direction


def certify_process(model: Any, X: Any, y: Any) -> float:
    """Return the residual of C·a = y − mean, relative to y, and require that θ is optimal.

    C is made of the kernel and the noise anew. Where a search says that it has converged, no
    parameter that is not at a bound may gain evidence by a Newton step, from differences of
    `dense_evidence`.
    """
    points = _points(model, X)
    K, scale = np.asarray(model.kernel_(points), dtype=float), model.y_scale_
    w = 1.0 if model.sample_weight_ is None else model.sample_weight_
    K[np.diag_indices_from(K)] += model.scaled_noise_ / w
    a = model.dual_coef_.reshape(len(K), -1)
    H = basis_columns(model, points)
    mean = model.y_mean_ if H is None else model.y_mean_ + scale * (H @ model.basis_coef_)
    targets = model.y_fit_.reshape(len(K), -1)
    size = np.linalg.norm(targets - model.y_mean_, axis=0)
    rest = K @ a - (targets - mean)
    residual = np.linalg.norm(rest, axis=0) / np.where(size > 0, size, 1.0)
    search = model.search_
    searched = search is not None and "did not begin" not in search.message
    if searched and search.converged and not model.priors:
        for i, name in enumerate(model.theta_names_):
            gain, slope = _gain(model, points, i)
            at = {side: f"{side} bound" in search.message for side in ("lower", "upper")}
            held = (slope < 0 and at["lower"]) or (slope > 0 and at["upper"])
            held = held and name in search.message
            require(gain <= GAIN or held, f"{model!r}: {name} could gain {gain:.3g} nats")
    return float(residual.max())


def dense_evidence(model: Any, X: Any, theta: np.ndarray) -> float:
    """Return the log evidence of y at log-parameters θ, by its definition in the units of y."""
    points = _points(model, X)
    kernel, level = model._current_parameters().read(theta)
    K = np.asarray(kernel(points), dtype=float)
    scale, n = model.y_scale_, len(K)
    scaled = model.scaled_noise_ if level is None else level / np.mean(scale**2)
    w = np.ones(n) if model.sample_weight_ is None else model.sample_weight_
    H, total = _user_basis(model, points), 0.0
    for j in range(len(scale)):
        noise = np.broadcast_to(scaled * scale[j] ** 2, (n,))
        C = scale[j] ** 2 * K + np.diag(noise / w)
        t = model.y_fit_.reshape(n, -1)[:, j] - (model.y_mean_[j] if H is None else 0.0)
        square, dimension = t @ np.linalg.solve(C, t), n
        total -= 0.5 * np.linalg.slogdet(C)[1]
        if H is not None:
            A, b = H.T @ np.linalg.solve(C, H), H.T @ np.linalg.solve(C, t)
            square, dimension = square - b @ np.linalg.solve(A, b), n - H.shape[1]
            total -= 0.5 * np.linalg.slogdet(A)[1]
        total -= 0.5 * (square + dimension * np.log(2 * np.pi))
        some = noise > 0  # without noise a row given twice counts once
        v, r = w[some], noise[some]
        total -= 0.5 * float(((v - 1) * np.log(2 * np.pi * r) + np.log(v)).sum())
    return float(total)


def basis_columns(model: Any, points: Any) -> np.ndarray | None:
    """Return the centred and scaled basis of the mean of a model at points."""
    if model.basis_coef_ is None:
        return None
    ones = np.ones((len(model.y_fit_), 1))
    if model.basis_scale_ is None:
        return ones
    used = model.basis_scale_ > 0
    rows = points.toarray() if sp.issparse(points) else points
    return np.hstack([ones, (rows - model.basis_center_)[:, used] / model.basis_scale_[used]])


def _user_basis(model: Any, points: Any) -> np.ndarray | None:
    H = basis_columns(model, points)
    if H is None or model.basis_scale_ is None:
        return H
    used = model.basis_scale_ > 0
    return np.hstack([H[:, :1], H[:, 1:] * model.basis_scale_[used] + model.basis_center_[used]])


def _gain(model: Any, points: Any, i: int) -> tuple[float, float]:
    """Return what a Newton step in parameter i alone would gain, and the slope there."""
    e = STEP * np.eye(len(model.theta_))[i]
    low, mid, high = (dense_evidence(model, points, model.theta_ + s * e) for s in (-1, 0, 1))
    slope, bend = (high - low) / (2 * STEP), (high - 2 * mid + low) / STEP**2
    return slope**2 / (2 * max(-bend, 1.0)), slope


def _points(model: Any, X: Any) -> Any:
    if isinstance(model.kernel_.domain, GramRows):
        return np.asarray(X, dtype=float)[np.ix_(model.X_fit_, model.X_fit_)]
    return model.X_fit_


# ---- Certificate of expectation propagation: tilted and marginal moments, by dense algebra ----


class _Shifted:
    """The likelihood of one value m + f, for f ~ N(0, v)."""

    shape = (1,)
    weights = None

    def __init__(self, t: float, power: float, link: str, m: float):
        self.m = m
        self.each = BinaryLikelihood(np.array([t]), np.array([power]), link)

    def __call__(self, F: np.ndarray) -> np.ndarray:
        return self.each(self.m + F)


def moment_mismatch(K: Any, t: Any, w: Any, link: str, coef: Any, sites: Any) -> float:
    """Return the largest relative mismatch of tilted and marginal means and variances.

    A row of weight w has max(w, 1) equal sites, of p to the power min(w, 1); their precisions add
    up to `sites`, and their shifts to ν = a + Sμ, since the coefficients are a = ν − Sμ.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Prior covariance.
    t, w : ndarray of shape (n,)
        Labels −1 and 1, and weights.
    link : {"logit", "probit"}
        The likelihood.
    coef, sites : ndarray of shape (n,)
        Coefficients of the posterior mean, and total precisions of the sites.
    """
    root = np.sqrt(sites)
    B = np.eye(len(K)) + root[:, None] * K * root
    mean = K @ coef
    variance = np.diagonal(K - K @ (root[:, None] * np.linalg.solve(B, root[:, None] * K)))
    copies, powers = np.maximum(w, 1.0), np.minimum(w, 1.0)
    tau, nu = sites / copies, (coef + sites * mean) / copies
    worst = 0.0
    for i, s in enumerate(variance):
        if s <= 1e-12 * K[i, i]:
            continue
        v = s / (1.0 - tau[i] * s)
        m = (mean[i] - nu[i] * s) / (1.0 - tau[i] * s)
        exact = integrate_posterior([[v]], _Shifted(t[i], powers[i], link, m))
        worst = max(
            worst,
            abs(exact.mean[0] + m - mean[i]) / np.sqrt(s),
            abs(exact.covariance[0, 0] / s - 1.0),
        )
    return float(worst)


# ---- Certificate of variational inference: both conditions of its maximum, by dense algebra ----


def stationarity(
    K: np.ndarray, labels: np.ndarray, w: np.ndarray, link: Any, coef: np.ndarray, sites: np.ndarray
) -> float:
    """Return the larger relative residual of coef = w E ∂ log p and sites = −w E ∂² log p.

    The averages are over N(K coef, (K⁻¹ + Λ)⁻¹) with Λ the sites, class by class.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Prior covariance.
    labels : ndarray of shape (n,) or (n, C)
        −1 and 1, or one column a class with 1 for that of the row; then the likelihood is softmax.
    w : ndarray of shape (n,)
        Weights.
    link : {"logit", "probit"} or Link
        The likelihood of two classes.
    coef, sites : ndarray like `labels`
        Coefficients of the posterior mean, and precisions of the sites.
    """
    columns = sites.reshape(len(K), -1)
    var = np.stack([_variances(K, column) for column in columns.T], axis=1)
    if labels.ndim == 1:
        _, first, second, *_ = expected(as_link(link), labels, K @ coef, var[:, 0])
        return max(_relative(coef, w * first), _relative(sites, -w * second))
    _, p, bend, *_ = expected_softmax(K @ coef, var)
    return max(
        _relative(coef, w[:, None] * (labels - p)),
        _relative(sites, w[:, None] * np.einsum("icc->ic", bend)),
    )


def _variances(K: np.ndarray, sites: np.ndarray) -> np.ndarray:
    """Return diag((K⁻¹ + Λ)⁻¹); of 1 − Λv and kᵢᵢ − v the larger has more digits."""
    root = np.sqrt(sites)
    B = np.eye(len(K)) + root[:, None] * K * root
    kept = np.diagonal(np.linalg.inv(B))
    V = np.linalg.solve(np.linalg.cholesky(B), root[:, None] * K)
    direct = np.diagonal(K) - np.square(V).sum(axis=0)
    return np.where(kept < 0.5, (1.0 - kept) / np.where(sites > 0, sites, 1.0), direct)


def _relative(value: np.ndarray, target: np.ndarray) -> float:
    gap, size = float(np.linalg.norm(value - target)), float(np.linalg.norm(target))
    return gap / (size or gap) if gap else 0.0


# ---- Certificates of Gaussian process classification, recomputed by dense algebra ----


def certify_classes(model: Any, X: Any, y: Any) -> float:
    """Return how far f = K dual_coef_ is from the mode, the worst of one-vs-rest's classes.

    That is Newton's step ‖(I + KW)⁻¹(f − Kw∇log p(f))‖ of Laplace's method as a part of ‖f‖, no
    value of f taken as smaller than 0.01; of expectation
    propagation how far tilted and marginal moments are apart; of variational inference both
    conditions of its maximum. For all of them probabilities at the training rows must be
    probabilities.
    """
    points = model.X_fit_
    if isinstance(model.kernel_.domain, GramRows):
        points = np.asarray(X, dtype=float)[np.ix_(model.X_fit_, model.X_fit_)]
    shares = model.predict_proba(X)
    sums = shares.min() >= 0 and np.allclose(shares.sum(axis=1), 1.0)
    require(sums, f"{model!r}: predict_proba returns what are no probabilities")
    K = np.asarray(model.kernel_(points), dtype=float)
    n, C = len(K), len(model.classes_)
    w = np.ones(n) if model.sample_weight_ is None else model.sample_weight_
    f, codes = K @ model.dual_coef_, model.y_fit_.astype(int)
    if model.multi_class_ == "softmax" and model.method_ == "vi":
        return stationarity(K, np.eye(C)[codes], w, "logit", model.dual_coef_, model.sites_)
    if model.multi_class_ == "softmax":
        p = softmax(f, axis=1)
        W = np.zeros((C, n, C, n))
        for i in range(n):
            W[:, i, :, i] = w[i] * (np.diag(p[i]) - np.outer(p[i], p[i]))
        slope = w[:, None] * (np.eye(C)[codes] - p)
        return _step(np.kron(np.eye(C), K), W.reshape(n * C, n * C), slope.T.ravel(), f.T.ravel())
    columns = f[:, None] if f.ndim == 1 else f
    classes = [1] if C == 2 else range(C)
    worst = 0.0
    for k, (c, g) in enumerate(zip(classes, columns.T, strict=True)):
        t = np.where(codes == c, 1.0, -1.0)
        if model.method_ in ("ep", "vi"):
            judge = moment_mismatch if model.method_ == "ep" else stationarity
            a, sites = (A.reshape(n, -1)[:, k] for A in (model.dual_coef_, model.sites_))
            worst = max(worst, judge(K, t, w, model.link_, a, sites))
            continue
        z = t * g
        if model.link_ == "logit":
            slope, bend = t * expit(-z), expit(z) * expit(-z)
        else:
            with np.errstate(over="ignore"):
                hazard = np.sqrt(2 / np.pi) / erfcx(-z / np.sqrt(2))
            slope, bend = t * hazard, hazard * (z + hazard)
        worst = max(worst, _step(K, np.diag(w * bend), w * slope, g))
    return worst


def _step(K: np.ndarray, W: np.ndarray, slope: np.ndarray, f: np.ndarray) -> float:
    gap = f - K @ slope
    step = np.linalg.solve(np.eye(len(K)) + K @ W, gap)
    return float(np.linalg.norm(step) / max(np.linalg.norm(f), 0.01 * len(f) ** 0.5))


# ---- Certificates of sparse Gaussian process regression, recomputed by dense algebra ----


def _matrices(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return K_uu, K_fu and the diagonal of K for the training rows X."""
    kernel, U = model.kernel_, model.X_fit_
    if isinstance(kernel.domain, GramRows):
        K = np.asarray(X, dtype=float)
        return K[np.ix_(U, U)], K[:, U], K.diagonal()
    if isinstance(X, np.ndarray):
        X = X.astype(float)
    elif sp.issparse(X):
        X = X.toarray()
    U = U.toarray() if sp.issparse(U) else U
    return kernel(U), kernel(X, U), kernel.diag(X)


def certify_sparse_process(model: Any, X: Any, y: Any) -> float:
    """Return the relative residual of K_uf P(z − K_fu α) = K_uu α, of a fit without weights.

    The objective that the model tells must be that of its definition, where n × n matrices give it
    to some digits.
    """
    corner, cross, diagonal = _matrices(model, X)
    Z = (np.reshape(y, (len(cross), -1)) - model.y_mean_) / model.y_scale_
    a = model.dual_coef_.reshape(len(corner), -1) / model.y_scale_
    p = np.broadcast_to(1.0 / np.asarray(model.scaled_noise_), len(cross))
    L = np.asarray(model.inducing_factor_)
    if model.method == "fitc":
        A = np.linalg.solve(L, cross.T)
        p = 1.0 / (np.maximum(diagonal - (A * A).sum(0), 0.0) + model.scaled_noise_)
    right = np.abs(cross).T @ (p[:, None] * np.abs(Z))
    gap = cross.T @ (p[:, None] * (Z - cross @ a)) - corner @ a
    size = np.linalg.norm(right, axis=0)
    residual = np.linalg.norm(gap, axis=0) / np.where(size > 0, size, 1.0)
    value, told = dense_sparse_evidence(model, X, y), model.log_marginal_likelihood_value_
    limit = 1e-6 * max(1.0, abs(value), float(np.sum(diagonal * p)))
    require(abs(value - told) <= limit, f"{model!r}: says {told}, the objective is {value}")
    upper = model.log_evidence_upper_
    require(upper is None or upper >= told - limit, f"{model!r}: {upper} is below {told}")
    return float(residual.max())


def dense_sparse_evidence(model: Any, X: Any, y: Any) -> float:
    """Return Titsias' bound or FITC's log evidence of y from n × n matrices, without weights."""
    _, cross, diagonal = _matrices(model, X)
    n = len(cross)
    A = np.linalg.solve(np.asarray(model.inducing_factor_), cross.T)
    Q = A.T @ A
    left = np.maximum(diagonal - Q.diagonal(), 0.0)
    noise = np.broadcast_to(model.scaled_noise_, (n,))
    C = Q + np.diag(noise + (left if model.method == "fitc" else 0.0))
    total = 0.0
    for z, mean, scale in zip(np.reshape(y, (n, -1)).T, model.y_mean_, model.y_scale_, strict=True):
        z = (z - mean) / scale
        total -= 0.5 * (z @ np.linalg.solve(C, z) + np.linalg.slogdet(C)[1])
        total -= 0.5 * n * np.log(2 * np.pi) + n * np.log(scale)
        total -= 0.5 * float((left / noise).sum()) if model.method == "vfe" else 0.0
    return float(total)
