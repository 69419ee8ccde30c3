"""Certificates computed again in 50 digits: none claims more than is true.

``python tools/torture/certificates.py --cases 500 --seed 1`` draws problems for the estimators that
have a `solution_`: penalties and prices from 1e-8 to 1e12, weights, rows given twice, rows far from
the origin. Kernel matrix, objective and the minimum itself (or, of losses with kinks, the dual
value) are then computed in 50 digits from what the fitted model shows. A certificate that is
smaller than the truth is a fault, and so is `converged` where the truth is more than was asked for.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any, NamedTuple

import mpmath
import numpy as np

import mercer
from mercer.errors import MercerError

mpmath.mp.dps = 50
EPS = float(np.finfo(float).eps)
FULL = 1 - 1e-12  # a coefficient from this part of its bound on is at the bound

exact = np.frompyfunc(lambda x: mpmath.mpf(float(x)), 1, 1)
exp = np.frompyfunc(mpmath.exp, 1, 1)
log1p = np.frompyfunc(mpmath.log1p, 1, 1)


class Truth(NamedTuple):
    """A certificate in 50 digits; `size` is how large the numbers are that float64 had to add."""

    primal: Any
    gap: Any
    residual: Any
    size: Any
    asked: Any  # the largest gap, or residual, of what has converged
    blur: Any = None  # `size` of the residual, where there is a gap too


class Case(NamedTuple):
    """A problem that was drawn: the model to fit and its data."""

    name: str
    model: Any
    X: np.ndarray
    y: np.ndarray
    w: np.ndarray | None


# ---- kernels, losses and linear systems in 50 digits ----


def gram(kernel: Any, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Return a matrix of kernel values, from the formulas."""
    A, B = exact(X), exact(Z)
    if isinstance(kernel, mercer.RBF):
        scale = mpmath.mpf(float(kernel.length_scale))
        squares = sum(np.subtract.outer(a, b) ** 2 for a, b in zip(A.T, B.T, strict=True))
        return exp(-squares / (2 * scale**2))
    inner = A @ B.T
    if isinstance(kernel, mercer.Polynomial):
        return (inner + mpmath.mpf(float(kernel.offset))) ** int(kernel.degree)
    return inner


def _margin(phi: Callable, slope: Callable, bend: Callable) -> tuple[Callable, ...]:
    """Return value, slope and curvature of a loss of y·f."""
    return (
        lambda y, z: phi(y * z),
        lambda y, z: y * slope(y * z),
        lambda y, z: bend(y * z),
    )


def _smooth(loss: Any) -> tuple[Callable, ...]:
    """Return value, slope and curvature of a smooth loss."""
    name, one = type(loss).__name__, mpmath.mpf(1)
    if name == "Squared":
        return lambda y, z: (z - y) ** 2 / 2, lambda y, z: z - y, lambda y, z: 0 * z + one
    if name == "Huber":
        d = mpmath.mpf(float(loss.delta))
        return (
            lambda y, z: np.minimum(abs(z - y), d) * (abs(z - y) - np.minimum(abs(z - y), d) / 2),
            lambda y, z: np.minimum(np.maximum(z - y, -d), d),
            lambda y, z: np.where(abs(z - y) < d, one, 0 * one),
        )
    if name == "SquaredHinge":
        return _margin(
            lambda m: np.maximum(0 * m, 1 - m) ** 2,
            lambda m: np.minimum(0 * m, 2 * (m - 1)),
            lambda m: np.where(m < 1, 2 * one, 0 * one),
        )
    if name == "Exponential":
        return _margin(lambda m: exp(-m), lambda m: -exp(-m), lambda m: exp(-m))
    return _margin(
        lambda m: log1p(exp(-m)), lambda m: -1 / (1 + exp(m)), lambda m: 1 / (2 + exp(m) + exp(-m))
    )


def _kinked(loss: Any, y: np.ndarray, z: np.ndarray, u: np.ndarray) -> tuple[Any, Any]:
    """Return the values at z of a loss with kinks, and its conjugate at u put into its range."""
    name, e = type(loss).__name__, z - y
    if name == "Hinge":
        return np.maximum(0 * z, 1 - y * z), np.minimum(np.maximum(y * u, -1), 0)
    if name == "Pinball":
        q = mpmath.mpf(float(loss.quantile))
        return np.maximum(-q * e, (1 - q) * e), y * np.minimum(np.maximum(u, -q), 1 - q)
    width = mpmath.mpf(float(getattr(loss, "epsilon", 0.0)))
    u = np.minimum(np.maximum(u, -1), 1)
    return np.maximum(0 * z, abs(e) - width), y * u + width * abs(u)


def solve(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Solve a linear system by elimination with pivots."""
    A, b = A.copy(), b.copy()
    for i in range(len(b)):
        p = i + int(np.argmax(abs(A[i:, i])))
        A[[i, p]], b[[i, p]] = A[[p, i]], b[[p, i]]
        factor = A[i + 1 :, i] / A[i, i]
        A[i + 1 :, i:] -= np.multiply.outer(factor, A[i, i:])
        b[i + 1 :] -= factor * b[i]
    for i in reversed(range(len(b))):
        b[i] = (b[i] - A[i, i + 1 :] @ b[i + 1 :]) / A[i, i]
    return b


def norm(v: np.ndarray) -> Any:
    """Return the length of a vector."""
    return mpmath.sqrt(v @ v)


# ---- regularised risks: Σ c ℓ(y, f + b) + ½α‖f‖² ----


class Risk(NamedTuple):
    """A problem over f = Ka, and what the model says is its answer.

    Values f of the answer and its square are given apart: with features they are those of their
    weights.
    """

    K: np.ndarray
    y: np.ndarray
    c: np.ndarray
    alpha: Any
    offset: bool
    loss: Any
    a: np.ndarray
    b: Any
    f: np.ndarray
    square: Any

    def size(self) -> Any:
        """Return the sum of what is added, without signs."""
        reach = abs(self.K) @ abs(self.a)
        return self.alpha * (abs(self.a) @ reach) + self.c @ (reach + abs(self.b) + abs(self.y) + 1)


def smooth_gap(p: Risk) -> tuple[Any, Any]:
    """Return the objective and by how much it is above the minimum, which Newton's method finds."""
    value, slope, bend = _smooth(p.loss)
    n, a, b = len(p.y), p.a.copy(), p.b
    primal = p.c @ value(p.y, p.f + b) + p.alpha * p.square / 2

    def objective(a: np.ndarray, b: Any) -> Any:
        f = p.K @ a
        return p.c @ value(p.y, f + b) + p.alpha * (a @ f) / 2

    best = objective(a, b)
    for _ in range(60):
        f = p.K @ a
        g, h = p.c * slope(p.y, f + b), p.c * bend(p.y, f + b)
        lack = np.append(p.alpha * a + g, [g.sum()] if p.offset else [])
        A = h[:, None] * p.K + p.alpha * np.eye(n, dtype=int)
        if p.offset:
            total = h.sum() or mpmath.mpf(10) ** -30
            A = np.block([[A, h[:, None]], [(h @ p.K)[None], np.array([[total]])]])
        step, length = solve(A, -lack), mpmath.mpf(1)
        then = objective(a + step[:n], b + sum(step[n:]))
        while then > best and length > 1e-6:
            length /= 4
            then = objective(a + length * step[:n], b + length * sum(step[n:]))
        gains = abs(then - best) > mpmath.mpf(10) ** -32 * abs(best)
        if not gains and (length == 1 or norm(step) <= 1e-30 * norm(a)):
            return primal, primal - min(then, best)
        if then > best:
            break
        a, b, best = a + length * step[:n], b + length * sum(step[n:]), then
    return primal, None


def kinked_gap(p: Risk) -> tuple[Any, Any]:
    """Return the objective and how far the dual value of the coefficients is below it."""
    values, conjugate = _kinked(p.loss, p.y, p.f + p.b, -p.alpha * p.a / p.c)
    primal = p.c @ values + p.alpha * p.square / 2
    dual = -(p.c @ conjugate) - p.alpha * (p.a @ (p.K @ p.a)) / 2
    return primal, primal - dual


def gap_of(p: Risk, tol: float) -> Truth:
    """Return objective and gap of one problem."""
    kinks = type(p.loss).__name__ in ("Hinge", "Pinball", "Absolute", "EpsilonInsensitive")
    primal, gap = (kinked_gap if kinks else smooth_gap)(p)
    lower = 0 if gap is None else primal - gap
    return Truth(primal, gap, None, p.size(), tol * max(abs(primal), abs(lower)))


def _sum(parts: list[Truth]) -> Truth:
    """Return the truth of several problems together."""
    gaps = [part.gap for part in parts]
    total = None if any(gap is None for gap in gaps) else sum(gaps)
    primal, size, asked = (sum(part[i] for part in parts) for i in (0, 3, 4))
    return Truth(primal, total, None, size, asked)


# ---- what the certificate of a fitted model is in truth, for a kernel matrix ----


def _weights(case: Case) -> np.ndarray:
    return exact(np.ones(len(case.y)) if case.w is None else case.w)


def _targets(case: Case) -> np.ndarray:
    """Return the targets as numbers; of two classes −1 and 1."""
    if case.name in LABELS:
        return exact(np.where(case.y == case.model.classes_[1], 1.0, -1.0))
    return exact(np.asarray(case.y, dtype=float))


def margins(case: Case, K: np.ndarray) -> Truth:
    """Return primal value and gap of a margin machine."""
    model, w = case.model, _weights(case)
    there = np.asarray(w > 0, dtype=bool)
    count = np.size(getattr(model, "intercept_", 0.0))
    columns = np.reshape(model.function_.coef, (len(model.support_), count)).T
    parts = []

    def part(at: np.ndarray, column: Any, y: Any, c: Any, b: Any, loss: Any, on: bool) -> Risk:
        a = exact(np.zeros(len(K)))
        a[model.support_] = exact(column)
        f, M = (K @ a)[at], K[np.ix_(at, at)]
        return Risk(M, y, c, mpmath.mpf(1), on, loss, a[at], b, f, a[at] @ f)

    offset = bool(getattr(model, "fit_intercept", True))
    if isinstance(model, mercer.OneClassSVM):
        at = np.flatnonzero(there)
        level = exact(model.offset_)[0]
        p = part(at, columns[0], 0 * w[at], w[at], 0 * level, None, True)
        short = np.maximum(0 * p.f, level - p.f)
        risk = p.c @ short - mpmath.mpf(model.nu) * p.c.sum() * level
        primal, gap = p.square / 2 + risk, p.square + risk
        size = p.size() + p.c.sum() * abs(level)
        asked = model.tol * max(abs(primal), abs(primal - gap))
        least = 4 * EPS * len(w) ** 0.5 * size  # the minimum may be 0
        return Truth(primal, gap, None, size, asked + least)
    if isinstance(model, mercer.SVR | mercer.NuSVR):
        at, nu = np.flatnonzero(there), isinstance(model, mercer.NuSVR)
        width = model.epsilon_ if nu else model.epsilon
        loss = mercer.losses.EpsilonInsensitive(float(width))
        c = mpmath.mpf(float(model.C)) * w[at]
        b = exact(np.atleast_1d(model.intercept_))[0]
        p = part(at, columns[0], exact(case.y)[at], c, b, loss, offset)
        if not nu:
            return gap_of(p, model.tol)
        primal, _ = kinked_gap(p)
        primal += mpmath.mpf(model.nu) * c.sum() * mpmath.mpf(float(width))
        dual = p.y @ p.a - p.square / 2
        asked = model.tol * max(abs(primal), abs(dual))
        return Truth(primal, primal - dual, None, p.size() + c.sum() * abs(width), asked)
    classes = model.classes_
    pairs: list[tuple[Any, Any]] = [(classes[1], classes[0])]
    if len(classes) > 2:
        several = (
            combinations(classes, 2) if model.multi_class == "ovo" else ((c, None) for c in classes)
        )
        pairs = list(several)
    prices = np.broadcast_to(model.C_ if isinstance(model, mercer.NuSVC) else model.C, len(pairs))
    for (one, other), column, b, C in zip(pairs, columns, model.intercept_, prices, strict=True):
        at = np.flatnonzero(there & ((case.y == one) | (other is None) | (case.y == other)))
        s = exact(np.where(case.y[at] == one, 1.0, -1.0))
        price = mpmath.mpf(float(C)) * w[at]
        p = part(at, column, s, price, mpmath.mpf(float(b)), mercer.losses.Hinge(), offset)
        parts.append(gap_of(p, model.tol))
    return _sum(parts)


def risks(case: Case, K: np.ndarray) -> Truth:
    """Return objective and gap of a regularised risk with an intercept."""
    model, w = case.model, _weights(case)
    at = np.flatnonzero(np.asarray(w > 0, dtype=bool))
    loss = getattr(model, "loss_", None) or mercer.losses.Squared()
    alpha, a = mpmath.mpf(float(model.alpha_)), exact(np.ravel(model.dual_coef_))[at]
    K, b = K[np.ix_(at, at)], exact(np.ravel(model.intercept_))[0]
    v = vars(model).get("coef_")
    if v is None:
        f = K @ a
        square = a @ f
    else:
        phi, v = exact(np.asarray(model.kernel_.features(case.X[at]))), exact(np.ravel(v))
        K, f, square = phi @ phi.T, phi @ v, v @ v
    p = Risk(K, _targets(case)[at], w[at], alpha, bool(model.fit_intercept), loss, a, b, f, square)
    return gap_of(p, model.tol)


def ridges(case: Case, K: np.ndarray) -> Truth:
    """Return objective, gap and relative residual of a ridge regression by an exact solver."""
    truth, model, w = risks(case, K), case.model, _weights(case)
    y = _targets(case)
    a, b = exact(np.ravel(model.dual_coef_)), exact(np.ravel(model.intercept_))[0]
    alpha, v = mpmath.mpf(float(model.alpha_)), vars(model)["coef_"]
    if v is None:
        beta = w * (y - K @ a - b)
        lack, scale = norm(beta - alpha * a), norm(w * y)
        slope = abs(a.sum()) / (abs(a).sum() or 1)
        blur = norm(w * (abs(K) @ abs(a) + abs(b) + abs(y))) / scale
    else:
        phi, v = exact(np.asarray(model.kernel_.features(case.X))), exact(np.ravel(v))
        beta = w * (y - phi @ v - b)
        lack, scale = norm(phi.T @ beta - alpha * v), norm(abs(phi).T @ (w * abs(y)))
        slope = abs(beta.sum()) / (w * abs(y)).sum()
        blur = norm(abs(phi).T @ (w * (abs(phi) @ abs(v) + abs(b) + abs(y)))) / scale
    residual = max(lack / scale, slope) if model.fit_intercept else lack / scale
    return truth._replace(residual=residual, blur=blur)


def centres(case: Case, K: np.ndarray) -> Truth:
    """Return objective and gap of squares over the span of centres, which are some of the rows.

    The problem of `Falkon` has a jitter on the diagonal of the centres' matrix, and its objective
    has it too.
    """
    model, w = case.model, _weights(case)
    y = _targets(case)
    a, b = exact(np.ravel(model.dual_coef_)), exact(np.ravel(model.intercept_))[0]
    alpha, m = mpmath.mpf(float(model.alpha_)), len(a)
    at = [int(np.flatnonzero((case.X == z).all(1))[0]) for z in model.X_fit_]
    jitter = mpmath.mpf(float(model.solution_.extra["jitter"]))
    Z, G = K[:, at], K[np.ix_(at, at)] + jitter * np.eye(m, dtype=int)

    def objective(a: np.ndarray, b: Any) -> Any:
        return w @ (y - Z @ a - b) ** 2 / 2 + alpha * (a @ (G @ a)) / 2

    left = np.hstack([Z, np.ones((len(y), 1), dtype=int)]) if model.fit_intercept else Z
    A = left.T @ (w[:, None] * left)
    A[:m, :m] += alpha * G
    A = A + mpmath.mpf(10) ** -42 * sum(A.diagonal()) * np.eye(len(A), dtype=int)
    best = solve(A, left.T @ (w * y))
    primal = objective(a, b)
    gap = primal - min(primal, objective(best[:m], sum(best[m:])))
    size = alpha * (abs(a) @ (abs(G) @ abs(a))) + w @ (abs(Z) @ abs(a) + abs(b) + abs(y)) ** 2
    return Truth(primal, gap, None, size, model.tol * abs(primal))


def processes(case: Case, K: np.ndarray) -> Truth:
    """Return the relative residual of a Gaussian process."""
    model, w = case.model, _weights(case)
    a, y = exact(np.ravel(model.dual_coef_)), _targets(case)
    noise = mpmath.mpf(float(np.ravel(model.scaled_noise_)[0]))
    rest = y - exact(np.ravel(model.y_mean_))[0]
    lack = K @ a + noise / w * a - rest
    size = (norm(abs(K) @ abs(a)) + norm(noise / w * a)) / norm(rest)
    return Truth(None, None, norm(lack) / norm(rest), size, mpmath.mpf("1e-6"))


def classes(case: Case, K: np.ndarray) -> Truth:
    """Return Newton's step from the mode of Laplace's method, relative to f."""
    model, w = case.model, _weights(case)
    t = _targets(case)
    f = K @ exact(np.ravel(model.dual_coef_))
    slope, h = w * t / (1 + exp(t * f)), w / (2 + exp(f) + exp(-f))
    step = solve(K * h + np.eye(len(K), dtype=int), f - K @ slope)
    least = 0.01 * len(f) ** 0.5
    scale = max(norm(f), least)
    return Truth(None, None, norm(step) / scale, norm(abs(K) @ abs(slope)) / scale, 1e-6)


def components(case: Case, K: np.ndarray) -> Truth:
    """Return the largest ‖Au − λu‖/λ₁ of the centred kernel matrix."""
    model, w = case.model, _weights(case)
    root = np.frompyfunc(mpmath.sqrt, 1, 1)(w)
    H = np.eye(len(w), dtype=int) - np.multiply.outer(0 * w + 1, w / w.sum())
    A = root[:, None] * (H @ K @ H.T) * root
    values, U = exact(model.eigenvalues_), exact(model.eigenvectors_)
    top = max(values)
    worst = max(norm(column) for column in (A @ U - U * values).T) / top
    size = max(abs(K).sum(1) * w) / top if model.axes_ is None else mpmath.mpf(len(w))
    return Truth(None, None, worst, size, mpmath.mpf("1e-6"))


def clusters(case: Case, K: np.ndarray) -> Truth:
    """Return the share of points that are nearer to another centre than to theirs."""
    model, w = case.model, _weights(case)
    member = (model.labels_[:, None] == np.arange(model.n_clusters)) * w[:, None]
    member = member / member.sum(0)
    inner = K @ member
    far = K.diagonal()[:, None] - 2 * inner + (member * inner).sum(0)
    better = far[np.arange(len(K)), model.labels_] - far.min(1)
    wrong = np.asarray(better > 64 * EPS * abs(K).max(), dtype=bool)
    return Truth(None, None, w[wrong].sum() / w.sum(), mpmath.mpf(0), mpmath.mpf(0))


def sparse(case: Case, K: np.ndarray) -> Truth:
    """Return objective and gap of Σℓ + α‖v‖₁: the minimum by Newton's method on the support.

    It is one where the signs stay and no other column wants to come in; else nobody knows.
    """
    model, y, l1 = case.model, _targets(case), mpmath.mpf(float(case.model.alpha))
    value, slope, bend = _smooth(mercer.losses.as_loss(case.model.loss))
    A, v = K[:, model.support_], exact(np.ravel(model.dual_coef_))
    b, signs, m = exact(np.ravel(model.intercept_))[0], np.sign(np.ravel(model.dual_coef_)), len(v)
    primal = sum(value(y, A @ v + b)) + l1 * sum(abs(v))
    size = sum(abs(A) @ abs(v) + abs(b) + abs(y) + 1) + l1 * sum(abs(v))
    if not isinstance(model, mercer.L1VMClassifier):
        size = sum((abs(A) @ abs(v) + abs(b) + abs(y)) ** 2) + l1 * sum(abs(v))
    unknown = Truth(primal, None, None, size, mpmath.mpf(0))
    left, x = np.hstack([A, np.ones((len(y), 1), dtype=int)]), np.append(v, b)
    force = np.append(l1 * exact(signs), 0)
    for _ in range(60):
        g = slope(y, left @ x)
        try:
            step = solve(left.T @ (bend(y, left @ x)[:, None] * left), -(left.T @ g + force))
        except ZeroDivisionError:
            return unknown
        x = x + step
        if norm(step) <= mpmath.mpf(10) ** -35 * norm(x):
            break
    else:
        return unknown
    stays = bool((x[:m] * signs >= 0).all())
    if not stays or abs(K.T @ slope(y, left @ x)).max() > l1 * (1 + mpmath.mpf(10) ** -25):
        return unknown
    least = sum(value(y, left @ x)) + l1 * sum(abs(x[:m]))
    return Truth(primal, primal - least, None, size, model.tol * abs(primal))


# ---- problems ----


def _loss(rng: np.random.Generator, kind: str) -> Any:
    losses = mercer.losses
    if kind == "classification":
        return rng.choice(
            [losses.Logistic(), losses.SquaredHinge(), losses.Exponential(), losses.Hinge()]
        )
    q, d = float(rng.uniform(0.05, 0.95)), float(10 ** rng.uniform(-3, 1))
    several = [losses.Squared(), losses.Huber(d), losses.Pinball(q), losses.Absolute()]
    return rng.choice([*several, losses.EpsilonInsensitive(d)])


#: name → the kind of targets, the model for a kernel, a penalty, and how it is judged
KINDS: dict[str, tuple[str, Callable[[Any, float, Any], Any], Callable[[Case, Any], Truth]]] = {
    "SVC": ("several", lambda k, s, r: mercer.SVC(k, s, **_machine(r)), margins),
    "NuSVC": ("labels", lambda k, s, r: mercer.NuSVC(k, r.uniform(0.05, 0.5)), margins),
    "SVR": ("numbers", lambda k, s, r: mercer.SVR(k, s, **_machine(r)), margins),
    "NuSVR": ("numbers", lambda k, s, r: mercer.NuSVR(k, r.uniform(0.1, 0.9), s), margins),
    "OneClassSVM": ("numbers", lambda k, s, r: mercer.OneClassSVM(k, r.uniform(0.1, 0.9)), margins),
    "KernelERM, labels": (
        "labels",
        lambda k, s, r: mercer.KernelERM(k, _loss(r, "classification"), s, **_risk(r)),
        risks,
    ),
    "KernelERM, numbers": (
        "numbers",
        lambda k, s, r: mercer.KernelERM(k, _loss(r, "regression"), s, **_risk(r)),
        risks,
    ),
    "KernelLogisticRegression": (
        "labels",
        lambda k, s, r: mercer.KernelLogisticRegression(k, s, **_risk(r)),
        risks,
    ),
    "KernelHuberRegressor": (
        "numbers",
        lambda k, s, r: mercer.KernelHuberRegressor(k, s, **_risk(r)),
        risks,
    ),
    "KernelQuantileRegressor": (
        "numbers",
        lambda k, s, r: mercer.KernelQuantileRegressor(k, r.uniform(0.1, 0.9), s, **_risk(r)),
        risks,
    ),
    "KernelRidge, cholesky": (
        "numbers",
        lambda k, s, r: mercer.KernelRidge(k, s, fit_intercept=_coin(r), solver="cholesky"),
        ridges,
    ),
    "KernelRidge, cg": (
        "numbers",
        lambda k, s, r: mercer.KernelRidge(k, s, **_risk(r), solver="cg"),
        ridges,
    ),
    "KernelRidge, falkon": (
        "numbers",
        lambda k, s, r: mercer.KernelRidge(
            k, s, **_risk(r), solver="falkon", n_centers=8, random_state=int(r.integers(2**31))
        ),
        centres,
    ),
    "KernelRidgeClassifier": (
        "labels",
        lambda k, s, r: mercer.KernelRidgeClassifier(k, s, fit_intercept=_coin(r)),
        ridges,
    ),
    "GaussianProcessRegressor": (
        "numbers",
        lambda k, s, r: mercer.GaussianProcessRegressor(k, s, optimizer=None),
        processes,
    ),
    "GaussianProcessClassifier": (
        "labels",
        lambda k, s, r: mercer.GaussianProcessClassifier(k, optimizer=None),
        classes,
    ),
    "L1VMRegressor": ("numbers", lambda k, s, r: mercer.L1VMRegressor(k, _l1(r)), sparse),
    "L1VMClassifier": ("labels", lambda k, s, r: mercer.L1VMClassifier(k, _l1(r)), sparse),
    "KernelKMeans": (
        "numbers",
        lambda k, s, r: mercer.KernelKMeans(3, k, random_state=0),
        clusters,
    ),
    "KernelPCA": ("numbers", lambda k, s, r: mercer.KernelPCA(3, k), components),
}

LABELS = {name for name, (targets, *_) in KINDS.items() if targets == "labels"}


def _coin(rng: Any) -> bool:
    return bool(rng.random() < 0.5)


def _l1(rng: Any) -> float:
    return float(10 ** rng.uniform(-3, 4))


def _machine(rng: Any) -> dict[str, Any]:
    return {"fit_intercept": _coin(rng), "tol": float(10 ** rng.uniform(-8, -2))}


def _risk(rng: Any) -> dict[str, Any]:
    return {"fit_intercept": _coin(rng), "tol": float(10 ** rng.uniform(-9, -3))}


def draw(seed: int, number: int) -> tuple[Case, Callable[[Case, Any], Truth]]:
    """Draw a problem."""
    rng = np.random.default_rng([seed, number])
    name = list(KINDS)[number % len(KINDS)]
    targets, make, judge = KINDS[name]
    n, d = int(rng.integers(10, 31)), int(rng.integers(1, 5))
    X = rng.standard_normal((n, d))
    f = np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(n)
    if rng.random() < 0.3:  # rows given twice, with targets of their own
        X[n // 2 :] = X[: n - n // 2]
    kernel = rng.choice(
        [mercer.RBF(float(10 ** rng.uniform(-1, 2))), mercer.Linear(), mercer.Polynomial(2, 1.0)]
    )
    if rng.random() < 0.3:
        X = X + 10 ** rng.uniform(1, 4 if isinstance(kernel, mercer.RBF) else 2)
    y = f * 10 ** rng.uniform(-4, 4)
    if targets != "numbers":
        cuts = [-0.4, 0.4] if targets == "several" and _coin(rng) else [float(np.median(f))]
        y = np.digitize(f, cuts)
    w = rng.uniform(0.2, 3.0, n) if rng.random() < 0.4 and "L1VM" not in name else None
    strength = float(10 ** rng.uniform(-8, 12))
    return Case(name, make(kernel, strength, rng), X, y, w), judge


def judge(seed: int, number: int) -> tuple[str, str, str]:
    """Return the kind of a case, how it ended and why.

    "tight" are certificates that converged, "open" those that say they did not, "refused" what was
    not fitted and "unknown" what even 50 digits do not decide; else a "fault".
    """
    case, recompute = draw(seed, number)
    told = f"[{number}] {case.model!r}, {len(case.y)} rows: "
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            case.model.fit(case.X, case.y, **({} if case.w is None else {"sample_weight": case.w}))
        except MercerError:
            return case.name, "refused", ""
    kernel = case.model.kernel_
    rounded, right = exact(np.asarray(kernel(case.X), dtype=float)), gram(kernel, case.X, case.X)
    apart, reach = abs(rounded - right).max(), float(abs(case.X).max())
    if isinstance(kernel, mercer.RBF):  # differences of far rows have the rounding of the rows
        reach /= float(kernel.length_scale)
    if apart > 32 * EPS * (abs(right).max() + reach):
        return case.name, "fault", f"{told}kernel values are wrong by {float(apart):.2g}"
    end, why = _compared(case, recompute(case, rounded))
    if end == "fault":  # of the exact matrix too?
        end, why = _compared(case, recompute(case, right))
    return case.name, end, told + why if why else ""


def _compared(case: Case, true: Truth) -> tuple[str, str]:
    """Return how the certificate of a fitted model compares with the truth, and why."""
    said, unit = case.model.solution_, 4 * EPS * len(case.y) ** 0.5
    for name in ("gap", "residual"):
        value, claim = getattr(true, name), getattr(said, name)
        rest = unit * (true.size if name == "gap" or true.blur is None else true.blur)
        if value is None:
            continue
        told = f"{name} {mpmath.nstr(value, 8)} (rounding {float(rest):.2g})"
        if claim is None or claim < (1 - 1e-6) * value - rest:
            return "fault", f"says {name} {claim!r}, but has {told}"
        asked = true.asked if name == "gap" or true.blur is None else case.model.tol
        if said.converged and value > 1.01 * asked:
            return "fault", f"converged, asked for {float(asked):.3g}, but has {told}"
    if true.primal is not None:
        off = abs(said.primal - true.primal)
        if true.gap is not None:  # a gap may be larger than the truth, and the value with it
            off -= max(0, said.gap - true.gap)
        if off > 1e-9 * abs(true.primal) + 64 * EPS * true.size:
            return "fault", f"says primal {said.primal!r}, is {mpmath.nstr(true.primal, 17)}"
    if true.gap is None and true.residual is None:
        return "unknown", ""
    return "tight" if said.converged else "open", ""


ENDS = ("tight", "open", "refused", "unknown", "fault")


def run(cases: int, seed: int, first: int = 0) -> Iterator[tuple[str, str, str]]:
    """Judge certificates and yield the kind, how each ended, and why."""
    for number in range(first, first + cases):
        yield judge(seed, number)


def main(argv: list[str] | None = None) -> int:
    """Print the table of a campaign; 1 when there was a fault."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    options = parser.parse_args(argv)
    counts: Counter[tuple[str, str]] = Counter()
    for name, end, why in run(options.cases, options.seed, options.first):
        counts[name, end] += 1
        if end == "fault":
            print(why, flush=True)
    print(f"{'':>26}" + "".join(f"{end:>9}" for end in ENDS) + f"   seed {options.seed}")
    for name in KINDS:
        print(f"{name:>26}" + "".join(f"{counts[name, end]:>9}" for end in ENDS))
    return 1 if any(counts[name, "fault"] for name in KINDS) else 0


if __name__ == "__main__":
    sys.exit(main())
