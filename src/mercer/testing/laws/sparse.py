"""Sparse weights judged from scratch: violations, gaps, and the minimum by another method."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize

from mercer.domains import GramRows
from mercer.errors import speaks
from mercer.estimator import class_weights
from mercer.features import Prototypes
from mercer.losses import as_loss
from mercer.solvers import SparseERM
from mercer.testing.certificates import best_offset, risk_of, weights_of
from mercer.testing.checks import require


def sparse_problems(
    K: np.ndarray, X: np.ndarray, rng: np.random.Generator
) -> list[tuple[str, SparseERM]]:
    """Return problems of every loss and penalty, and what is degenerate among them."""
    n = len(K)
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(n)
    s = np.where(y + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)
    w = rng.uniform(0.5, 2, n)
    twice = np.hstack([K[:, :8], K[:, :8]])
    return [
        ("lasso", SparseERM(K, y, "squared", 0.3)),
        ("elastic net, weights", SparseERM(K, y, "squared", 0.5, 0.5, w)),
        ("ridge", SparseERM(K, y, "squared", 0.2, 0.0, w, False)),
        ("small penalty", SparseERM(K, y, "squared", 1e-4)),
        ("columns given twice", SparseERM(twice, y, "squared", 0.1, 1.0, None, False)),
        ("more columns than rows", SparseERM(K[:9], y[:9], "squared", 0.05)),
        ("logistic", SparseERM(K, s, "logistic", 0.5, 1.0, w)),
        ("logistic elastic net", SparseERM(K, s, "logistic", 0.1, 0.7)),
        ("logistic ridge", SparseERM(K, s, "logistic", 0.1, 0.0, w, False)),
        ("squared hinge", SparseERM(K, s, "squared_hinge", 0.5, 1.0, w)),
        ("a large penalty", SparseERM(K, y, "squared", 1e6)),
        ("constant columns", SparseERM(np.ones((n, 3)), y, "squared", 0.1)),
        ("no column", SparseERM(np.zeros((n, 2)), s, "logistic", 0.1)),
        ("a constant target", SparseERM(K, np.full(n, 3.0), "squared", 0.1)),
    ]


def _parts(problem: SparseERM) -> tuple[np.ndarray, float, float]:
    """Return the columns, and the weights of |v| and of v²/2."""
    l1 = problem.alpha * problem.l1_ratio
    return np.asarray(problem.A, dtype=float), l1, problem.alpha - l1


def sparse_violation(problem: SparseERM, v: np.ndarray, b: float | None = None) -> float:
    """Return the largest violation of the optimality conditions, relative to its terms.

    Of weights v with an offset b, by default the best one. The terms are as large as
    tᵢ = wᵢ(|ℓ'(yᵢ, 0)| + ℓ''(yᵢ, 0)(|A||v| + |b|)ᵢ): of the weights max |A|ᵀt, of the offset Σt.
    """
    A, l1, l2 = _parts(problem)
    y, w, loss = np.asarray(problem.y, dtype=float), weights_of(problem), as_loss(problem.loss)
    z = A @ v
    b = best_offset(problem, z) if b is None else b
    theta = risk_of(problem, z + b)[1]
    bend = A.T @ theta + l2 * v
    off = np.where(v != 0, abs(bend + l1 * np.sign(v)), np.maximum(0.0, abs(bend) - l1))
    middle = w @ y / w.sum() if problem.offset and problem.loss == "squared" else 0.0
    bends = {"squared": 1.0, "logistic": 0.25, "squared_hinge": 2.0}[problem.loss]
    terms = abs(loss.gradient(y - middle, np.zeros(len(y))))
    terms = w * (terms + bends * (abs(A) @ abs(v) + abs(b - middle)))
    worst = float(off.max(initial=0.0)) / (float((abs(A).T @ terms).max(initial=0.0)) or 1.0)
    if problem.offset:
        worst = max(worst, abs(float(theta.sum())) / (float(terms.sum()) or 1.0))
    return worst


def check_sparse_answer(solver: Any, problem: SparseERM, solution: Any) -> None:
    """Primal, dual and gap are those of the definition, and no other method finds a lower value."""
    A, l1, l2 = _parts(problem)
    v, b, w = solution.value, solution.extra["offset"], weights_of(problem)
    require(v.shape == (A.shape[1],), f"{solver!r}: shape {v.shape}")
    risk, theta = risk_of(problem, A @ v + b)
    primal = float(risk + l1 * abs(v).sum() + 0.5 * l2 * (v @ v))
    size = abs(primal) + risk_of(problem, np.full(len(A), b))[0] + 1e-300
    slack = 1e-10 * size
    require(abs(primal - solution.primal) <= slack, f"{solver!r}: primal {primal}, not as told")
    require(solution.gap >= 0, f"{solver!r}: gap {solution.gap} < 0")
    require(abs(solution.primal - solution.dual - solution.gap) <= slack, f"{solver!r}: gap")
    steepest = float(abs(A.T @ theta).max(initial=0.0))
    theta = theta * (min(1.0, l1 / max(steepest, 1e-300)) if l2 == 0 else 1.0)
    u = abs(A.T @ theta)
    dual = -float(w @ as_loss(problem.loss).conjugate(np.asarray(problem.y), theta / w))
    dual -= float((np.maximum(0.0, u - l1) ** 2).sum()) / (2 * l2) if l2 > 0 else 0.0
    require(dual <= solution.primal + 1e-8 * size, f"{solver!r}: above the dual {dual}")
    if not solution.converged:
        return
    limit = solver.tol * max(abs(solution.primal), abs(solution.dual)) + 1e-12 * size
    limit += 1e-30 * float(w @ np.asarray(problem.y, dtype=float) ** 2)  # of rounded targets
    require(solution.gap <= limit, f"{solver!r}: converged with gap {solution.gap:.3g}")
    best = _minimum(problem)
    require(
        primal <= best + 2 * limit + 1e-7 * size, f"{solver!r}: {primal!r}, another finds {best!r}"
    )


def _minimum(problem: SparseERM) -> float:
    """Return the minimum as L-BFGS finds it over v = p − q with p, q ≥ 0."""
    A, l1, l2 = _parts(problem)
    m = A.shape[1]

    def value(x: np.ndarray) -> tuple[float, np.ndarray]:
        p, q, b = x[:m], x[m : 2 * m], x[2 * m]
        v = p - q
        risk, slopes = risk_of(problem, A @ v + b)
        g = A.T @ slopes + l2 * v
        total = risk + l1 * float(p.sum() + q.sum()) + 0.5 * l2 * float(v @ v)
        return total, np.concatenate([g + l1, -g + l1, [slopes.sum() * problem.offset]])

    bounds = [(0, None)] * (2 * m) + [(None, None)]
    options = {"maxiter": 3000, "maxfun": 6000, "ftol": 1e-15, "gtol": 1e-10}
    found = minimize(value, np.zeros(2 * m + 1), jac=True, bounds=bounds, options=options)
    return float(found.fun)


@speaks("certify_sparse")
def certify_sparse(model: Any, X: Any, y: Any) -> float:
    """Return the largest violation of the optimality conditions of an `L1VM`, from its data."""
    y, name = np.asarray(y), "squared"
    if model._risk().kind == "classification":
        classes = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
        targets = [np.where(y == c, 1.0, -1.0) for c in classes]
        name = "squared_hinge" if "hinge" in str(model.loss) else "logistic"
    else:
        targets = [y.astype(float)]
    if isinstance(model.kernel_.domain, GramRows):
        X = np.asarray(X, dtype=float)
        X = 0.5 * (X + X.T)  # of a matrix in single precision only this part counts
    candidates = Prototypes(
        model.kernel_, model.prototypes, n_prototypes=model.n_prototypes, random_state=0
    ).fit(X)
    A, where = candidates.transform(X), candidates.prototype_indices_
    column = {int(i): j for j, i in enumerate(range(A.shape[1]) if where is None else where)}
    V = np.zeros((A.shape[1], len(targets)))
    used = [column[int(i)] for i in model.support_]
    V[used] = np.reshape(model.dual_coef_, (len(used), len(targets)))
    weights = None
    if model.class_weight is not None:
        weights = class_weights(model.class_weight, y, None)
    penalty, offset = (model.alpha, model.l1_ratio), bool(model.fit_intercept)
    return max(
        sparse_violation(SparseERM(A, t, name, *penalty, weights, offset), v, float(b))
        for t, v, b in zip(targets, V.T, np.atleast_1d(model.intercept_), strict=True)
    )
