"""Certificates of Gaussian process classification, recomputed by dense algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, ndtr, softmax

from mercer.domains import GramRows
from mercer.testing.checks import require

__all__ = ["certify_classes"]


def certify_classes(model: Any, X: Any, y: Any) -> float:
    """Return ‖f − Kw∇log p(f)‖/‖f‖ at f = K dual_coef_, the worst of one-vs-rest's classes.

    Of methods other than Laplace's, whose equations are others, what they say themselves. For all
    of them probabilities at the training rows must be probabilities.
    """
    points = model.X_fit_
    if isinstance(model.kernel_.domain, GramRows):
        points = np.asarray(X, dtype=float)[np.ix_(model.X_fit_, model.X_fit_)]
    shares = model.predict_proba(X)
    sums = shares.min() >= 0 and np.allclose(shares.sum(axis=1), 1.0)
    require(sums, f"{model!r}: predict_proba returns what are no probabilities")
    if model.method != "laplace":
        return float(model.solution_.residual)
    K = np.asarray(model.kernel_(points), dtype=float)
    w = np.ones(len(K)) if model.sample_weight_ is None else model.sample_weight_
    f = K @ model.dual_coef_
    codes, C = model.y_fit_.astype(int), len(model.classes_)
    if model.multi_class_ == "softmax":
        slope = np.eye(C)[codes] - softmax(f, axis=1)
        return _relative(f - K @ (w[:, None] * slope), f)
    columns = f[:, None] if f.ndim == 1 else f
    classes = [1] if C == 2 else range(C)
    worst = 0.0
    for c, g in zip(classes, columns.T, strict=True):
        t = np.where(codes == c, 1.0, -1.0)
        z = t * g
        if model.link == "logit":
            slope = t * expit(-z)
        else:
            slope = t * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) / ndtr(z)
        worst = max(worst, _relative(g - K @ (w * slope), g))
    return worst


def _relative(gap: np.ndarray, f: np.ndarray) -> float:
    size = float(np.linalg.norm(gap))
    return size / float(np.linalg.norm(f) or size) if size else 0.0
