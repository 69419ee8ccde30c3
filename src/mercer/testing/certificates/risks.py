"""Certificates of regularised risk estimators from their definitions: residuals, values, gap."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import brentq, minimize, root
from scipy.special import logsumexp, softmax, xlogy

from mercer import kernels as mk
from mercer.domains import GramRows
from mercer.engines.passes import row_pass
from mercer.losses import (
    Exponential,
    Hinge,
    Huber,
    Logistic,
    Pinball,
    Squared,
    SquaredHinge,
    as_loss,
)
from mercer.operators import Gram, LowRank
from mercer.solvers import Centred, FalkonNewton, FeatureERM, SmoothERM, SoftmaxERM, Solution
from mercer.testing.certificates.margins import FULL, violation
from mercer.testing.checks import require, to_numpy


def risk_residual(model: Any, X: Any, y: Any) -> float:
    """Return how far a fitted model is from its optimality conditions, relatively.

    Of smooth losses ‖alpha a + wℓ'‖/‖wℓ'‖, or where weights v of features were found
    ‖alpha v + Φᵀwℓ'‖/‖\\|Φ\\|ᵀ\\|wℓ'\\|‖, for the squared loss with wy below the line, y less its
    median if there is an offset. Of losses with kinks the largest violation of the dual's
    conditions, relative to the largest target, or where weights v of features were found
    ‖v − Φᵀa‖/‖\\|Φ\\|ᵀ\\|a\\|‖ if that is larger. The largest over one-against-the-rest problems.
    """
    at, K, W = _parts(model, X)
    a = _columns(model)[at]
    loss, targets = _targets(model, at)
    z = K @ a + np.atleast_1d(model.intercept_)
    if not model.loss_.smooth:
        f, apart = K @ a, 0.0
        if vars(model)["coef_"] is not None:
            f, apart = feature_values(model, at, a)
        columns = zip(f.T, a.T, targets.T, strict=True)
        return max(apart, *(_violation(model, *column, W[:, 0]) for column in columns))
    if vars(model)["coef_"] is None:
        G = _risk(loss, targets, z, W)[1]
        lack, scale = model.alpha_ * a + G, _size(model, targets, W, G)
    else:
        phi, v = _features(model, at)
        z = phi @ v + np.atleast_1d(model.intercept_)
        G = _risk(loss, targets, z, W)[1]
        if model.fit_intercept_:
            phi = phi - W[:, 0] @ phi / W.sum()
        lack = model.alpha_ * v + phi.T @ G
        scale = abs(phi).T @ abs(_size(model, targets, W, G))
    axis = None if loss is None else 0
    return float(np.max(np.linalg.norm(lack, axis=axis) / np.linalg.norm(scale, axis=axis)))


def _size(model: Any, targets: np.ndarray, W: np.ndarray, G: np.ndarray) -> np.ndarray:
    """Return what residuals are relative to: slopes, or for the squared loss targets."""
    if not isinstance(model.loss_, Squared):
        return G
    return W * (targets - np.median(targets) * model.fit_intercept_)


def risk_objective(model: Any, X: Any) -> float:
    """Return the objective of a fitted model, summed over one-against-the-rest problems."""
    at, K, W = _parts(model, X)
    a = _columns(model)[at]
    loss, targets = _targets(model, at)
    f = K @ a
    risk, _ = _risk(loss, targets, f + np.atleast_1d(model.intercept_), W)
    return risk + 0.5 * model.alpha_ * float((a * f).sum())


def feature_values(model: Any, at: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the values Φv of some rows, and how far v is from Φᵀa relative to |Φ|ᵀ|a|."""
    phi, v = _features(model, at)
    values = phi @ v
    if model.fit_intercept_:
        phi = phi - phi.mean(axis=0)
    scale = np.linalg.norm(np.abs(phi).T @ np.abs(a), axis=0)
    lack = np.linalg.norm(v - phi.T @ a, axis=0)
    return values, float(np.max(lack / np.maximum(scale, 1e-300)))


def _parts(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows of positive weight, their Gram matrix and weights (a column)."""
    n = len(model.y_fit_)
    w = np.ones(n) if model.sample_weight_ is None else model.sample_weight_
    at = np.flatnonzero(w)
    if isinstance(model.kernel_.domain, GramRows):
        K = np.asarray(X, dtype=float)[np.ix_(at, at)]
    else:
        K = np.asarray(model.kernel_(model.kernel_.domain.take(model.X_fit_, at)), dtype=float)
    return at, K, w[at, None]


def _features(model: Any, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the features of some rows and their weights, a column for each problem."""
    phi = model.kernel_._features(model.kernel_.domain.take(model.X_fit_, at))
    phi = to_numpy(phi).astype(float)
    return phi, np.reshape(model.coef_, (-1, phi.shape[1])).T


def _columns(model: Any) -> np.ndarray:
    return np.reshape(model.dual_coef_, (len(model.y_fit_), -1))


def _targets(model: Any, at: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return the loss and a column of targets for each problem, or None and those of softmax."""
    y = model.y_fit_[at]
    if model.loss_.kind != "classification":
        return model.loss_, y[:, None]
    k = len(model.classes_)
    own = (y[:, None] == np.arange(k)).astype(float)
    if k > 2 and isinstance(model.loss_, Logistic):
        return None, own
    return model.loss_, (2 * own - 1)[:, 1:] if k == 2 else 2 * own - 1


def _violation(model: Any, f: np.ndarray, a: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    """Return by how much a coefficient that may fall has a larger slope than one that may rise."""
    lowest, highest = -np.ones(len(y)), np.ones(len(y))
    if isinstance(model.loss_, Hinge):  # φ' is −1 or 0 of the margin y f
        lowest, highest = np.minimum(-y, 0.0), np.maximum(-y, 0.0)
    elif isinstance(model.loss_, Pinball):  # τ for each unit above f, 1 − τ below
        lowest, highest = model.loss_.quantile * lowest, (1.0 - model.loss_.quantile) * highest
    epsilon = getattr(model.loss_, "epsilon", 0.0)
    up = model.alpha_ * a < -w * lowest * FULL - 1e-300
    down = model.alpha_ * a > -w * highest * FULL + 1e-300
    rise = f - y + np.where(a >= 0, epsilon, -epsilon)
    fall = f - y + np.where(a > 0, epsilon, -epsilon)
    slopes, none = np.r_[rise, fall], np.zeros(len(y), dtype=bool)
    worst = violation(slopes, np.r_[up, none], np.r_[none, down], free=not model.fit_intercept_)
    centre = np.median(y) if model.fit_intercept_ and model.loss_.kind == "regression" else 0.0
    return worst / float(np.abs(y - centre).max())


# ---- Smooth regularised risks judged from scratch: residuals, gaps, and the minimum by L-BFGS ----


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
    K, w = to_numpy(problem.K), weights_of(problem)
    if isinstance(problem.K, LowRank) and problem.K.F.shape[1] < len(w):
        Phi = problem.K.F - (w @ problem.K.F / w.sum() if problem.offset else 0.0)
        v = Phi.T @ a
        f = Phi @ v
        g = risk_of(problem, f + best_offset(problem, f))[1]
        lack, scale = problem.alpha * v + Phi.T @ g, np.abs(Phi).T @ np.abs(g)
    else:
        f = K @ a
        g = risk_of(problem, f + best_offset(problem, f))[1]
        lack, scale = problem.alpha * a + g, g
    size = float(np.linalg.norm(scale))
    return float(np.linalg.norm(lack)) / size if size > 0 else float(np.linalg.norm(lack))


def check_smooth_answer(solver: Any, problem: Any, solution: Solution) -> None:
    """The objective is what the solution says, its gap bounds the truth, and L-BFGS agrees."""
    K, a = to_numpy(problem.K), solution.value
    b = np.asarray(solution.extra["intercept"])
    f = problem.K.F @ (problem.K.F.T @ a) if isinstance(problem.K, LowRank) else K @ a
    risk, g = risk_of(problem, f + b)
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


def weights_of(problem: Any) -> np.ndarray:
    """Return the weights of a problem, 1 where it has none."""
    n = len(problem.y)
    return np.ones(n) if problem.weights is None else np.asarray(problem.weights, dtype=float)


def _of_softmax(problem: Any) -> bool:
    return isinstance(problem, SoftmaxERM) or getattr(problem, "classes", 2) > 2


def risk_of(problem: Any, z: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the risk and its slopes, from the definitions."""
    w = weights_of(problem)
    if _of_softmax(problem):
        return _risk(None, np.eye(problem.classes)[problem.y], z, w[:, None])
    return _risk(as_loss(problem.loss), np.asarray(problem.y, dtype=float), z, w)


def _risk(loss: Any, y: np.ndarray, z: np.ndarray, w: np.ndarray) -> tuple[float, np.ndarray]:
    """Return Σ wℓ and wℓ'; without a loss of softmax, where y are the indicators of the classes.

    There the slopes are w(p − y), 1 − p of the own class as the sum of the others.
    """
    if loss is not None:
        return float((w * loss.value(y, z)).sum()), w * loss.gradient(y, z)
    value = float(w[:, 0] @ (logsumexp(z, axis=1) - (y * z).sum(1)))
    others = softmax(z, axis=1) * (1 - y)
    return value, w * (others - y * others.sum(1, keepdims=True))


def best_offset(problem: Any, f: np.ndarray) -> Any:
    """Return the offset at which the slopes sum to 0."""
    if not problem.offset:
        return 0.0
    if not _of_softmax(problem):
        reach = 1e3 * (1 + np.abs(f).max() + np.abs(np.asarray(problem.y)).max())
        reach = min(reach, 300.0) if as_loss(problem.loss).kind == "classification" else reach
        return brentq(lambda b: risk_of(problem, f + b)[1].sum(), -reach, reach, xtol=1e-14)

    def sums(free: np.ndarray) -> np.ndarray:
        return risk_of(problem, f + np.r_[0.0, free])[1].sum(0)[1:]

    def risk(free: np.ndarray) -> tuple[float, np.ndarray]:
        return risk_of(problem, f + np.r_[0.0, free])[0], sums(free)

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
            risk, g = risk_of(problem, root_K @ u + b * problem.offset)
        slope = np.concatenate(
            [(root_K.T @ g + problem.alpha * u).ravel(), np.atleast_1d(g.sum(0)) * problem.offset]
        )
        value = risk + 0.5 * problem.alpha * float((u * u).sum())
        return (value, slope) if np.isfinite(value) else (1e300, np.zeros(len(x)))

    start = np.zeros(count + int(np.prod(c)))
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-12, "maxcor": 30}
    return float(minimize(objective, start, jac=True, method="L-BFGS-B", options=options).fun)


# ---- Problems of regularised risk over features, and what their certificates must be ----


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


def feature_gap(problem: FeatureERM, V: np.ndarray) -> float:
    """Return primal minus dual value relative to the larger, at the best offset for the weights."""
    Phi, y, w = to_numpy(problem.Phi), np.asarray(problem.y), weights_of(problem)
    f = Phi @ V
    risk, g = risk_of(problem, f + best_offset(problem, f))
    u = (g.T / w).T
    if _of_softmax(problem):
        p = np.maximum(u + np.eye(problem.classes)[y], 0.0)
        conjugate = xlogy(p, p).sum(1)
    else:
        conjugate = problem.loss.conjugate(y, u)
    primal = risk + 0.5 * problem.alpha * float((V**2).sum())
    dual = float(-w @ conjugate - ((Phi.T @ g) ** 2).sum() / (2 * problem.alpha))
    return (primal - dual) / max(abs(primal), abs(dual), 1e-300)


def check_feature_answer(solver: Any, problem: FeatureERM, solution: Solution) -> None:
    """The values are those of the answer, and no other weights are better by more than the gap."""
    Phi, V, b = to_numpy(problem.Phi), solution.value, np.ravel(solution.extra["intercept"])

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        weights, offset = x[: V.size].reshape(V.shape), x[V.size :] * problem.offset
        risk, g = risk_of(problem, Phi @ weights + (offset if _of_softmax(problem) else offset[0]))
        slopes = (Phi.T @ g + problem.alpha * weights).ravel()
        value = risk + 0.5 * problem.alpha * float((weights**2).sum())
        return value, np.append(slopes, g.sum(0) * problem.offset)

    risk = risk_of(problem, Phi @ V + solution.extra["intercept"])[0]
    primal = risk + 0.5 * problem.alpha * float((V**2).sum())
    said = float(solution.primal)  # type: ignore[arg-type]
    require(abs(said - primal) <= 1e-9 * (1 + abs(primal)), f"{solver!r}: primal {said!r}")
    best = minimize(objective, np.zeros(V.size + b.size), jac=True).fun
    gap = float(solution.gap)  # type: ignore[arg-type]
    require(0 <= gap, f"{solver!r}: gap {gap!r} < 0")
    require(
        primal - gap <= best + 1e-9 * (1 + abs(best)), f"{solver!r}: the dual value is too high"
    )


# ---- Laws of solvers on centres: problems, their gradient written out in full, and the least
# risk.


def centred_problems(rng: np.random.Generator) -> list[tuple[str, Centred]]:
    """Return problems whose targets are signs, so that both losses take them."""
    X = rng.standard_normal((60, 2))
    y = np.where(X[:, :1] + 0.8 * rng.standard_normal((60, 1)) > 0, 1.0, -1.0)
    w = rng.integers(0, 3, 60).astype(float)
    k, Z = mk.RBF(), X[:12]
    twice = np.concatenate([Z, Z[:4]])

    def problem(Z: np.ndarray, alpha: float, offset: bool, weights: Any = None) -> Centred:
        return Centred(row_pass(k, X, Z, y, weights), k(Z), alpha, offset)

    return [
        ("plain", problem(Z, 0.5, False)),
        ("an offset", problem(Z, 0.5, True)),
        ("weights", problem(Z, 0.5, True, w)),
        ("duplicated centres", problem(twice, 0.5, False)),
        ("one centre", problem(Z[:1], 0.5, True)),
        ("all points", problem(X, 1.0, False)),
    ]


def _centred_parts(solver: Any, problem: Centred) -> tuple[Any, ...]:
    rows: Any = problem.rows
    n, m = rows.bound.shape
    K = np.asarray(rows.bound.tile(slice(0, n), slice(0, m)), dtype=float)
    w = np.ones(n) if rows.w is None else rows.w
    loss = as_loss(solver.loss, "law") if isinstance(solver, FalkonNewton) else Squared()
    return K, np.asarray(problem.gram), rows.y[:, 0], w, loss


def _centred_risk(
    solver: Any, problem: Centred, a: np.ndarray, b: float
) -> tuple[float, np.ndarray]:
    """Return the risk and its gradient in a and, last, in b."""
    K, G, y, w, loss = _centred_parts(solver, problem)
    f = K @ a + b
    slope = w * loss.gradient(y, f)
    value = float(w @ loss.value(y, f)) + 0.5 * problem.alpha * float(a @ G @ a)
    slopes = K.T @ slope + problem.alpha * (G @ a)
    return value, np.append(slopes, slope.sum() if problem.offset else 0.0)


def centred_residual(solver: Any, problem: Centred, value: Any) -> float:
    """Return the norm of the gradient at an answer, relative to that at the start.

    Least squares leave the offset out of both, and start from the mean.
    """
    a, b = value[0][:, 0], float(value[1][0])
    gradient = _centred_risk(solver, problem, a, b)[1]
    if isinstance(solver, FalkonNewton):
        start = _centred_risk(solver, problem, np.zeros_like(a), 0.0)[1]
        return float(np.linalg.norm(gradient) / np.linalg.norm(start))
    _, _, y, w, _ = _centred_parts(solver, problem)
    mean = float(w @ y / w.sum()) if problem.offset else 0.0
    start = _centred_risk(solver, problem, np.zeros_like(a), mean)[1]
    return float(np.linalg.norm(gradient[:-1]) / np.linalg.norm(start[:-1]))


def check_centred_answer(solver: Any, problem: Centred, solution: Solution) -> None:
    """Coefficients and offset have their shapes, and no other function has a smaller risk."""
    m = int(problem.rows.m)
    a, b = solution.value
    require(a.shape == (m, 1) and b.shape == (1,), f"{solver!r}: shapes {a.shape}, {b.shape}")
    if not solution.converged:
        return
    held = slice(None) if problem.offset else slice(0, m)

    def risk(v: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _centred_risk(solver, problem, v[:m], v[m] if problem.offset else 0.0)
        return value, gradient[held]

    start = np.append(a[:, 0], b)[held]
    best = minimize(risk, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    mine = risk(start)[0]
    require(mine <= best.fun + 1e-6 * abs(mine), f"{solver!r}: risk {mine}, least {best.fun}")
    gap = float(solution.gap)  # type: ignore[arg-type]
    require(
        mine - best.fun <= gap + 1e-9 * abs(mine) and gap <= solver.tol * abs(mine),
        f"{solver!r}: the gap is {gap}, the risk {mine} and the least {best.fun}",
    )
    primal = float(solution.primal)  # type: ignore[arg-type]
    require(abs(primal - mine) <= 1e-8 * abs(mine), f"{solver!r}: says {primal}, is {mine}")
