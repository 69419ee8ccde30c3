"""Certificates of fitted models, recomputed from scratch: what a law compares `solution_` with."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from mercer import models as mm
from mercer.domains import GramRows
from mercer.estimator import choose_class
from mercer.models.margin import is_margin
from mercer.testing.certificates.margins import FULL, certify_margin, violation
from mercer.testing.certificates.processes import (
    certify_classes,
    certify_process,
    certify_sparse_process,
)
from mercer.testing.certificates.risks import feature_values, risk_residual
from mercer.testing.certificates.unsupervised import (
    certify_axes,
    certify_bandwidth,
    certify_clusters,
    certify_components,
    certify_dp_means,
    certify_embedding,
)
from mercer.testing.checks import require, to_numpy
from mercer.testing.examples import VectorStudy
from mercer.testing.laws import certify_sparse


def _ridge_residual(model: Any, X: Any, y: Any) -> float:
    """Return how far a fit is from the minimum of the penalised squares, relatively.

    The larger of the gradients by the function and by the offset. With β = W(y − f − b), dual, they
    are β − αa relative to Wy and, since αa = β, Σa relative to Σ|a|; primal, Φᵀβ − αv relative to
    |Φ|ᵀW|y| and Σβ relative to ΣW|y|.
    """
    points = X if isinstance(model.kernel_.domain, GramRows) else model.X_fit_
    points, targets = np.asarray(points, dtype=float), model.y_fit_
    W = np.ones((len(targets), 1))
    if model.sample_weight_ is not None:
        W = model.sample_weight_[:, None]
    a = np.reshape(model.dual_coef_, (len(targets), -1))
    v = vars(model)["coef_"]  # of the primal problem; None when the dual was solved
    if v is None:
        f = np.asarray(model.kernel_(points), dtype=float) @ a
        beta = W * (targets - f - np.atleast_1d(model.intercept_))
        gradient, scale = beta - model.alpha_ * a, W * targets
        slope = abs(a.sum(0)) / abs(a).sum(0)
    else:
        phi = to_numpy(model.kernel_.features(points))
        v = np.reshape(v, (phi.shape[1], -1))
        beta = W * (targets - phi @ v - np.atleast_1d(model.intercept_))
        gradient, scale = phi.T @ beta - model.alpha_ * v, abs(phi).T @ (W * abs(targets))
        slope = abs(beta.sum(0)) / (W * abs(targets)).sum(0)
    residual = np.linalg.norm(gradient, axis=0) / np.linalg.norm(scale, axis=0)
    return float(np.maximum(residual, slope).max() if model.fit_intercept else residual.max())


def _share_of_mistakes(model: Any, X: Any, y: Any) -> float:
    """Return the share of training points (times classes) that a perceptron's rule calls mistakes.

    From the definition: values by the whole Gram matrix, the norm by aᵀKa + b².
    """
    K = np.asarray(model.kernel_(np.asarray(X, dtype=float)))
    rows = model.support_
    a = np.reshape(model.dual_coef_, (len(rows), -1))
    b, half = np.atleast_1d(model.intercept_), np.atleast_1d(model.target_margin_) / 2
    positive = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
    signs = np.where(np.asarray(y)[:, None] == positive, 1.0, -1.0)
    if model.variant == "margin":
        half = half * np.sqrt((a * (K[np.ix_(rows, rows)] @ a)).sum(0) + b**2)
    return float((signs * (K[:, rows] @ a + b) <= half).mean())


def _margin_violation(model: Any, X: Any, y: Any) -> float:
    """Return the largest violation of the optimality conditions of a margin machine."""
    return certify_margin(model, X, y).residual


def _quantile_violation(model: Any, X: Any, y: Any) -> float:
    """Return the largest violation of the optimality conditions of a quantile, relative to y.

    f − y rises with a coefficient that may rise and falls with one that may fall; with an offset
    these slopes are compared with one another, without it with 0.
    """
    points = X if isinstance(model.kernel_.domain, GramRows) else model.X_fit_
    K, y = np.asarray(model.kernel_(points), dtype=float), model.y_fit_
    offset = model.fit_intercept_
    size, worst = float(abs(y - np.median(y) * offset).max()), 0.0
    coefficients = np.reshape(model.dual_coef_, (len(y), -1))
    values, apart = K @ coefficients, 0.0
    if model.coef_ is not None:
        values, apart = feature_values(model, np.arange(len(y)), coefficients)
    levels = np.atleast_1d(model.quantile_)
    for level, a, f in zip(levels, coefficients.T, values.T, strict=True):
        up = model.alpha_ * a < level * FULL
        down = model.alpha_ * a > (level - 1) * FULL
        worst = max(worst, violation(f - y, up, down, free=not offset))
    return max(apart, worst / size)


#: Class → function(fitted model, training X, training y): the residual, recomputed from scratch.
CERTIFICATES: dict[type, Callable[[Any, Any, Any], float]] = {
    mm.DPMeans: certify_dp_means,
    mm.GaussianProcessClassifier: certify_classes,
    mm.GaussianProcessRegressor: certify_process,
    mm.KernelDensity: certify_bandwidth,
    mm.KernelERM: risk_residual,
    mm.KernelHuberRegressor: risk_residual,
    mm.KernelKMeans: certify_clusters,
    mm.KernelLogisticRegression: risk_residual,
    mm.KernelPCA: certify_components,
    mm.KernelPerceptron: _share_of_mistakes,
    mm.KernelQuantileRegressor: _quantile_violation,
    mm.KernelRidge: _ridge_residual,
    mm.KernelRidgeClassifier: _ridge_residual,
    mm.L1VM: certify_sparse,
    mm.L1VMClassifier: certify_sparse,
    mm.L1VMRegressor: certify_sparse,
    mm.NuSVC: _margin_violation,
    mm.NuSVR: _margin_violation,
    mm.OneClassSVM: _margin_violation,
    mm.PCA: certify_axes,
    mm.SVC: _margin_violation,
    mm.SVR: _margin_violation,
    mm.SparseGaussianProcessRegressor: certify_sparse_process,
    mm.SpectralClustering: certify_embedding,
    mm.StructuredKernelRidge: _ridge_residual,
}


# ---- The law of leave-one-out: its verbs say of training rows what the others say of new ones ----


def law_left_out(study: VectorStudy) -> None:
    """Check that `loo` returns what `predict` returns, and its other verbs what theirs return."""
    model = study.fitted()
    if not hasattr(model, "loo"):
        return
    rows = study.rows(study.train)
    predict = model.predict if hasattr(model, "predict") else model.score_samples
    said, predicted = _said(study, model, "loo", rows), np.asarray(predict(rows))
    require(
        said.shape == predicted.shape and said.dtype.kind == predicted.dtype.kind,
        f"{model!r}: loo returns {said.dtype} of shape {said.shape}, predict {predicted.dtype} of "
        f"shape {predicted.shape}",
    )
    if not is_classifier(model):
        return
    require(np.isin(said, model.classes_).all(), f"{model!r}: loo returns what is no class")
    if hasattr(model, "decision_function"):
        values = _said(study, model, "loo_decision_function", rows)
        shape = model.decision_function(rows).shape
        require(values.shape == shape, f"{model!r}: loo_decision_function has not shape {shape}")
        same = bool((choose_class(values, model.classes_) == said).all())
        require(same, f"{model!r}: loo and loo_decision_function choose other classes")
    if hasattr(model, "loo_proba"):
        shares = _said(study, model, "loo_proba", rows)
        sums = shares.min() >= 0 and np.allclose(shares.sum(axis=1), 1.0)
        require(sums, f"{model!r}: loo_proba returns what are no probabilities")
        same = bool((model.classes_[shares.argmax(axis=1)] == said).all())
        require(same, f"{model!r}: loo and loo_proba choose other classes")


def _said(study: VectorStudy, model: Any, verb: str, rows: Any) -> np.ndarray:
    """Return the answer of a verb, which is given the training points again if it takes them."""
    call = getattr(model, verb)
    asked = signature(call).parameters.get("X")
    said = np.asarray(call() if asked is None else call(rows))
    kept = not (study.precomputed or is_margin(model))  # has it the points?
    if asked is not None and asked.default is None and kept:
        same = np.array_equal(np.asarray(call()), said)
        require(same, f"{model!r}: {verb} says something else when it is given the points again")
    return said
