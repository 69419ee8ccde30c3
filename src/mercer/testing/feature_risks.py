"""Problems of regularised risk over features, and what their certificates must be."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import brentq, minimize, root
from scipy.special import logsumexp, softmax, xlogy

from mercer.losses import Huber, Logistic, Squared, SquaredHinge
from mercer.solvers import FeatureERM, Solution
from mercer.testing.checks import require

__all__ = ["check_feature_answer", "feature_gap", "feature_problems"]


def feature_problems(rng: np.random.Generator) -> list[tuple[str, FeatureERM]]:
    """Return one problem of each loss, and what is degenerate among them."""
    X = rng.standard_normal((40, 3)) + 1.0
    t = X @ [1.0, -2.0, 0.5] + 0.5 * rng.standard_normal(40)
    y, w = np.where(t > t.mean(), 1.0, -1.0), rng.uniform(0.3, 2, 40)
    y[:6] *= -1
    codes = np.searchsorted([-1.0, 1.0], t - t.mean())
    return [
        ("logistic", FeatureERM(X, y, Logistic(), 1.0)),
        ("weighted", FeatureERM(X, y, Logistic(), 0.3, w)),
        ("no offset", FeatureERM(X, y, Logistic(), 2.0, offset=False)),
        ("softmax", FeatureERM(X, codes, Logistic(), 1.0, w, classes=3)),
        ("squared hinge", FeatureERM(X, y, SquaredHinge(), 1.0)),
        ("squared", FeatureERM(X, t, Squared(), 1.0)),
        ("huber", FeatureERM(X, t, Huber(0.5), 1.0, w)),
        ("sparse", FeatureERM(sp.random(40, 9, 0.2, random_state=0), y, Logistic(), 1.0)),
        ("no features", FeatureERM(np.zeros((4, 1)), y[:4], Logistic(), 1.0)),
    ]


def _parts(problem: FeatureERM) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    Phi = problem.Phi.toarray() if sp.issparse(problem.Phi) else np.asarray(problem.Phi, float)
    w = np.ones(len(Phi)) if problem.weights is None else np.asarray(problem.weights, float)
    return Phi, np.asarray(problem.y), w


def _losses(problem: FeatureERM, z: np.ndarray) -> np.ndarray:
    if problem.classes > 2:
        return logsumexp(z, axis=1) - np.take_along_axis(z, np.asarray(problem.y)[:, None], 1)[:, 0]
    return problem.loss.value(problem.y, z)


def feature_gap(problem: FeatureERM, V: np.ndarray) -> float:
    """Return primal minus dual value relative to the larger, at the best offset for the weights."""
    Phi, y, w = _parts(problem)
    f = Phi @ V
    z = f + _best_offset(problem, f, w) if problem.offset else f
    u = _slopes(problem, z)
    if problem.classes > 2:
        p = u + np.eye(problem.classes)[y]
        conjugate = xlogy(p, p).sum(1)
    else:
        conjugate = problem.loss.conjugate(y, u)
    G = Phi.T @ (w * u.T).T
    primal = float(w @ _losses(problem, z) + 0.5 * problem.alpha * (V**2).sum())
    dual = float(-w @ conjugate - (G**2).sum() / (2 * problem.alpha))
    return (primal - dual) / max(abs(primal), abs(dual), 1e-300)


def _slopes(problem: FeatureERM, z: np.ndarray) -> np.ndarray:
    if problem.classes > 2:
        return softmax(z, axis=1) - np.eye(problem.classes)[problem.y]
    return problem.loss.gradient(problem.y, z)


def _best_offset(problem: FeatureERM, f: np.ndarray, w: np.ndarray) -> Any:
    """Return the offset at which the slopes sum to zero; the last class has none of its own."""
    if problem.classes == 2:
        return brentq(lambda b: float(w @ _slopes(problem, f + b)), -1e3, 1e3, xtol=1e-14)

    def sums(b: np.ndarray) -> np.ndarray:
        return (w @ _slopes(problem, f + np.append(b, 0.0)))[:-1]

    return np.append(root(sums, np.zeros(problem.classes - 1), tol=1e-13).x, 0.0)


def check_feature_answer(solver: Any, problem: FeatureERM, solution: Solution) -> None:
    """The values are those of the answer, and no other weights are better by more than the gap."""
    Phi, _, w = _parts(problem)
    V, b = solution.value, solution.extra["intercept"]
    primal = float(w @ _losses(problem, Phi @ V + b) + 0.5 * problem.alpha * (V**2).sum())
    said = float(solution.primal)  # type: ignore[arg-type]
    require(abs(said - primal) <= 1e-9 * (1 + abs(primal)), f"{solver!r}: primal {said!r}")
    shape = V.shape

    def value(x: np.ndarray) -> float:
        weights, offset = np.split(x, [V.size])
        z = Phi @ weights.reshape(shape) + (offset if problem.offset else 0.0)
        return float(w @ _losses(problem, z) + 0.5 * problem.alpha * (weights**2).sum())

    best = minimize(value, np.zeros(V.size + np.size(b))).fun
    gap = float(solution.gap)  # type: ignore[arg-type]
    require(0 <= gap, f"{solver!r}: gap {gap!r} < 0")
    require(
        primal - gap <= best + 1e-9 * (1 + abs(best)), f"{solver!r}: the dual value is too high"
    )
