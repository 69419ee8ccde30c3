"""Smooth regularised risks judged from scratch: residuals, gaps, and the minimum by L-BFGS."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize, root
from scipy.special import logsumexp, softmax

from mercer import kernels as mk
from mercer.losses import Exponential, Huber, Logistic, Squared, SquaredHinge
from mercer.operators import Gram, LowRank
from mercer.solvers import SmoothERM, SoftmaxERM, Solution
from mercer.testing.checks import require

__all__ = ["check_smooth_answer", "smooth_problems", "smooth_residual"]


def smooth_problems(
    kind: type, K: np.ndarray, X: np.ndarray, rng: np.random.Generator
) -> list[tuple[str, Any]]:
    """Return problems of every smooth loss, or of softmax, and what is degenerate among them."""
    n = len(K)
    t = np.sin(X[:, 0]) + 0.2 * rng.standard_t(2, n)
    s = np.where(t + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)
    w = rng.uniform(0.5, 2, n)
    twice = np.r_[:n, :10]
    if kind is SmoothERM:
        return [
            ("logistic", SmoothERM(K, s, Logistic(), 0.1, w)),
            ("logistic without offset", SmoothERM(K, s, Logistic(), 1.0, None, False)),
            ("logistic, separable", SmoothERM(K, np.sign(X[:, 0]), Logistic(), 1e-6)),
            ("squared hinge", SmoothERM(K, s, SquaredHinge(), 0.3, w)),
            ("exponential", SmoothERM(K, s, Exponential(), 0.3, w)),
            ("squares", SmoothERM(K, t, Squared(), 0.1, w)),
            ("Huber", SmoothERM(K, t, Huber(0.2), 0.05, w)),
            ("Huber, mostly outliers", SmoothERM(K, 100 * t, Huber(0.01), 0.1)),
            ("features", SmoothERM(LowRank(X), s, Logistic(), 0.5, w)),
            ("far features", SmoothERM(LowRank(X + 100.0), s, Logistic(), 0.5, w)),
            ("lazy", SmoothERM(Gram(mk.RBF(), X, keep=False), t, Huber(0.5), 0.1)),
            ("rows given twice", SmoothERM(K[np.ix_(twice, twice)], s[twice], Logistic(), 0.1)),
            ("no kernel", SmoothERM(np.zeros((n, n)), s, Logistic(), 0.1)),
            ("a constant kernel", SmoothERM(np.ones((n, n)), s, Logistic(), 0.1)),
            ("a constant target", SmoothERM(K, np.full(n, 3.0), Huber(), 0.1)),
            ("one row", SmoothERM(np.array([[2.0]]), [5.0], Squared(), 0.5)),
            ("a large penalty", SmoothERM(K, s, Logistic(), 1e12, w)),
        ]
    c = np.digitize(t, [-0.5, 0.5])
    c[:3] = [0, 1, 2]
    return [
        ("three classes", SoftmaxERM(K, c, 3, 0.1, w)),
        ("without offsets", SoftmaxERM(K, c, 3, 0.5, None, False)),
        ("two classes", SoftmaxERM(K, (s > 0).astype(int), 2, 0.2, w)),
        ("features", SoftmaxERM(LowRank(X), c, 3, 0.5, w)),
        ("a small penalty", SoftmaxERM(K, c, 3, 1e-4, w)),
        ("no kernel", SoftmaxERM(np.zeros((n, n)), c, 3, 0.1)),
        ("rows given twice", SoftmaxERM(K[np.ix_(twice, twice)], c[twice], 3, 0.1)),
        ("a large penalty", SoftmaxERM(K, c, 3, 1e12, w)),
    ]


def smooth_residual(problem: Any, a: np.ndarray) -> float:
    """Return ‖alpha a + wℓ'‖/‖wℓ'‖ with the best offset; over features, of their weights."""
    K, w = _matrix(problem), _weights(problem)
    if isinstance(problem.K, LowRank) and problem.K.F.shape[1] < len(w):
        Phi = problem.K.F - (w @ problem.K.F / w.sum() if problem.offset else 0.0)
        v = Phi.T @ a
        f = Phi @ v
        g = _risk(problem, f + _best_offset(problem, f))[1]
        lack, scale = problem.alpha * v + Phi.T @ g, np.abs(Phi).T @ np.abs(g)
    else:
        f = K @ a
        g = _risk(problem, f + _best_offset(problem, f))[1]
        lack, scale = problem.alpha * a + g, g
    size = float(np.linalg.norm(scale))
    return float(np.linalg.norm(lack)) / size if size > 0 else float(np.linalg.norm(lack))


def check_smooth_answer(solver: Any, problem: Any, solution: Solution) -> None:
    """The objective is what the solution says, its gap bounds the truth, and L-BFGS agrees."""
    K, a = _matrix(problem), solution.value
    b = np.asarray(solution.extra["intercept"])
    f = problem.K.F @ (problem.K.F.T @ a) if isinstance(problem.K, LowRank) else K @ a
    risk, g = _risk(problem, f + b)
    primal = risk + 0.5 * problem.alpha * float((a * f).sum())
    said, gap = float(solution.primal), float(solution.gap)  # type: ignore[arg-type]
    require(abs(said - primal) <= 1e-7 * abs(primal) + 1e-12, f"{solver!r}: {said} is {primal}")
    require(gap >= 0, f"{solver!r}: gap {gap} < 0")
    agreed = said - gap == solution.dual
    require(agreed, f"{solver!r}: primal − gap is not the dual value")
    if not solution.converged:
        return
    require(gap <= 1.01 * solver.tol * said + 1e-12, f"{solver!r}: converged with gap {gap}")
    if problem.offset:
        require(np.abs(g.sum(0)).max() <= 1e-9 * np.abs(g).sum() + 1e-12, f"{solver!r}: offset")
    best = _minimum(problem, K)
    require(
        said <= best + 1e-6 * abs(best) + 1e-9
        and best >= said - 2 * gap - 1e-9 * abs(said) - 1e-12,
        f"{solver!r}: {said!r}, by L-BFGS {best!r}",
    )


def _matrix(problem: Any) -> np.ndarray:
    K = problem.K
    return np.asarray(K if isinstance(K, np.ndarray) else K.to_dense(), dtype=float)


def _weights(problem: Any) -> np.ndarray:
    n = problem.K.shape[0]
    return np.ones(n) if problem.weights is None else np.asarray(problem.weights, dtype=float)


def _risk(problem: Any, z: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the risk and its slopes, from the definitions."""
    w = _weights(problem)
    if isinstance(problem, SmoothERM):
        y = np.asarray(problem.y, dtype=float)
        value = float(w @ problem.loss.value(y, z))
        return value, w * problem.loss.gradient(y, z)
    Y = np.eye(problem.classes)[problem.y]
    value = float(w @ (logsumexp(z, axis=1) - (Y * z).sum(1)))
    others = softmax(z, axis=1) * (1 - Y)
    return value, w[:, None] * (others - Y * others.sum(1, keepdims=True))


def _best_offset(problem: Any, f: np.ndarray) -> Any:
    """Return the offset at which the slopes sum to 0."""
    if not problem.offset:
        return 0.0
    if isinstance(problem, SmoothERM):
        reach = 1e3 * (1 + np.abs(f).max() + np.abs(np.asarray(problem.y)).max())
        reach = min(reach, 300.0) if problem.loss.kind == "classification" else reach
        return brentq(lambda b: _risk(problem, f + b)[1].sum(), -reach, reach, xtol=1e-14)

    def sums(free: np.ndarray) -> np.ndarray:
        return _risk(problem, f + np.r_[0.0, free])[1].sum(0)[1:]

    def risk(free: np.ndarray) -> tuple[float, np.ndarray]:
        return _risk(problem, f + np.r_[0.0, free])[0], sums(free)

    near = minimize(risk, np.zeros(problem.classes - 1), jac=True, method="BFGS").x
    return np.r_[0.0, root(sums, near, tol=1e-14).x]


def _minimum(problem: Any, K: np.ndarray) -> float:
    """Return the minimum of the objective over values in the range of K and offsets."""
    values, vectors = np.linalg.eigh(K)
    keep = values > 1e-12 * max(values.max(), 1e-300)
    root_K = vectors[:, keep] * np.sqrt(values[keep])  # f = root_K u has norm ‖u‖
    c = () if isinstance(problem, SmoothERM) else (problem.classes,)
    shape, count = (root_K.shape[1], *c), root_K.shape[1] * int(np.prod(c))

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        u, b = x[:count].reshape(shape), x[count:] if c else x[count]
        with np.errstate(over="ignore", invalid="ignore"):
            risk, g = _risk(problem, root_K @ u + b * problem.offset)
        slope = np.concatenate(
            [(root_K.T @ g + problem.alpha * u).ravel(), np.atleast_1d(g.sum(0)) * problem.offset]
        )
        value = risk + 0.5 * problem.alpha * float((u * u).sum())
        return (value, slope) if np.isfinite(value) else (1e300, np.zeros(len(x)))

    start = np.zeros(count + int(np.prod(c)))
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-12, "maxcor": 30}
    return float(minimize(objective, start, jac=True, method="L-BFGS-B", options=options).fun)
