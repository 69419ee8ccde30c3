"""Certificates of Gaussian process classification, recomputed by dense algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import erfcx, expit, softmax

from mercer.domains import GramRows
from mercer.testing.checks import require
from mercer.testing.site_certificates import moment_mismatch
from mercer.testing.variational_certificates import stationarity

__all__ = ["certify_classes"]


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
