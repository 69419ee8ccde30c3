"""The certificates of margin machines from their definitions: objectives, gap, optimality."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from mercer import models as mm
from mercer.domains import GramRows
from mercer.losses import EpsilonInsensitive, Hinge
from mercer.testing.checks import require

FULL = 1 - 1e-12  # a coefficient from this part of its bound on is at the bound


class Certified(NamedTuple):
    """What a solution says of itself, recomputed; `scale` is how large the numbers added were."""

    primal: float
    dual: float
    residual: float
    scale: float


def certify_margin(model: Any, X: Any, y: Any, sample_weight: Any = None) -> Certified:
    """Return the certificate of a fitted margin machine, in float64 and from the definitions.

    Of several two-class problems the sums of the values and the largest violation.

    Parameters
    ----------
    model : estimator
        SVC, NuSVC, SVR, NuSVR or OneClassSVM, fitted to what follows.
    X, y : training data
        As given to ``fit``; the Gram matrix when precomputed.
    sample_weight : array, optional
        As given to ``fit``.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import SVC
    >>> from mercer.testing.certificates.margins import certify_margin
    >>> X, y = [[0.0], [1.0]], [0, 1]
    >>> round(certify_margin(SVC("linear", 10.0).fit(X, y), X, y).dual, 6)
    2.0
    """
    X = np.asarray(X, dtype=float)
    precomputed = isinstance(model.kernel_.domain, GramRows)
    K = X if precomputed else np.asarray(model.kernel_(X), dtype=float)
    w = np.ones(len(K)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    if isinstance(model, mm.SVC | mm.NuSVC):
        return _merged(list(_two_sides(model, K, np.asarray(y), w)))
    a = np.zeros(len(K))
    a[model.support_] = model.dual_coef_[0]
    there = w > 0
    a, f, w = a[there], (K @ a)[there], w[there]
    if isinstance(model, mm.OneClassSVM):
        return _one_class(model, a, f, w)
    return _tube(model, a, f, np.asarray(y, dtype=float)[there], w)


def check_margin(model: Any, X: Any, y: Any, sample_weight: Any, what: str) -> None:
    """Require that `solution_` says what `certify_margin` finds, converged or not.

    Values and gap agree to 1e-6. So does the residual of what has converged; of what was stopped it
    may be larger than the truth (of a point with both signs, or one a rounding below its bound),
    never smaller.
    """
    said, true = model.solution_, certify_margin(model, X, y, sample_weight)
    gap, size = true.primal - true.dual, max(abs(true.primal), abs(true.dual))
    for name, got, want, limit in (
        ("primal", said.primal, true.primal, 1e-6 * size),
        ("dual", said.dual, true.dual, 1e-6 * size),
        ("gap", said.gap, gap, 1e-6 * gap + 1e-10 * size),
    ):
        same = got == want or abs(got - want) <= limit  # both are ∞ inside a hard margin
        require(same, f"{what}: {name} is {want!r}, it says {got!r}")
    limit = 1e-6 * true.residual + 1e-11 * true.scale
    wrong = true.residual - said.residual
    if said.converged:
        wrong = abs(wrong)
    require(wrong <= limit, f"{what}: residual is {true.residual!r}, it says {said.residual!r}")


def _two_sides(model: Any, K: np.ndarray, y: np.ndarray, w: np.ndarray) -> Any:
    """Yield the certificate of every two-class problem."""
    classes, w = model.classes_, w * _class_weights(model.class_weight, y, w)
    pairs: list[tuple[Any, Any]] = [(classes[1], classes[0])]
    if len(classes) > 2 and model.multi_class == "ovo":
        pairs = list(combinations(classes, 2))
    elif len(classes) > 2:
        pairs = [(c, None) for c in classes]
    prices = np.broadcast_to(model.C_ if isinstance(model, mm.NuSVC) else model.C, len(pairs))
    columns = np.reshape(model.function_.coef, (len(model.support_), -1)).T
    for (one, other), column, b, C in zip(pairs, columns, model.intercept_, prices, strict=True):
        at = np.flatnonzero((w > 0) & ((y == one) | (other is None) | (y == other)))
        full = np.zeros(len(K))
        full[model.support_] = column
        s = np.where(y[at] == one, 1.0, -1.0)
        yield _classifier(full[at], (K @ full)[at], s, b, C * w[at], bool(model.fit_intercept))


def _classifier(
    a: np.ndarray, f: np.ndarray, s: np.ndarray, b: float, bound: np.ndarray, offset: bool
) -> Certified:
    """½‖f‖² + Σ bound·hinge against −½‖f‖² − Σ bound·hinge*, bound = C w.

    Without a price, f is stretched until the hinge is 0. The slopes of the dual objective are
    G = f − y.
    """
    square, alpha = float(a @ f), s * a
    if alpha.min() < 0 or (alpha > bound / FULL).any():
        return Certified(np.inf, -np.inf, np.inf, 1.0)
    if np.isinf(bound).all():
        width = float((s * (f + b)).min())
        primal = 0.5 * square / width**2 if width > 0 else np.inf
        conjugate = -float(alpha.sum())
    else:
        primal = 0.5 * square + float(bound @ Hinge().value(s, f + b))
        conjugate = float(bound @ Hinge().conjugate(s, -np.clip(alpha / bound, 0.0, 1.0) * s))
    room, used = alpha < bound * FULL, alpha > 0
    up, down = np.where(s > 0, room, used), np.where(s > 0, used, room)
    worst = violation(f - s, up, down, free=not offset)
    return Certified(primal, -0.5 * square - conjugate, worst, float(abs(f).max() + 1))


def _tube(model: Any, a: np.ndarray, f: np.ndarray, y: np.ndarray, w: np.ndarray) -> Certified:
    """½‖f‖² + C Σ w ℓ_ε (+ CνWε) against −½‖f‖² − C Σ w ℓ_ε*, as Σ|a| pays for ν."""
    by_nu, square, bound = isinstance(model, mm.NuSVR), float(a @ f), model.C * w
    if (abs(a) > bound / FULL).any():
        return Certified(np.inf, -np.inf, np.inf, 1.0)
    loss = EpsilonInsensitive(model.epsilon_ if by_nu else model.epsilon)
    primal = 0.5 * square + float(bound @ loss.value(y, f + model.intercept_[0]))
    paid = EpsilonInsensitive(0.0) if by_nu else loss
    dual = -0.5 * square - float(bound @ paid.conjugate(y, -np.clip(a / bound, -1.0, 1.0)))
    if by_nu:
        primal += model.nu * float(bound.sum()) * model.epsilon_
    G, zero = f - y, bool(model.fit_intercept)
    rise = a < bound * FULL, a > 0  # may gain, may lose
    fall = a < 0, a > -bound * FULL
    if not by_nu:
        slopes = np.concatenate([G + loss.epsilon, G - loss.epsilon])
        up, down = (np.concatenate(sets) for sets in zip(rise, fall, strict=True))
        worst = violation(slopes, up, down, free=not zero)
    elif zero:
        worst = max(violation(G, *rise), violation(G, *fall))
    else:
        up, down = np.concatenate([rise[0], fall[1]]), np.concatenate([rise[1], fall[0]])
        worst = violation(np.concatenate([G, -G]), up, down)
    return Certified(primal, dual, worst, float(abs(f).max() + abs(y).max()))


def _one_class(model: Any, a: np.ndarray, f: np.ndarray, w: np.ndarray) -> Certified:
    """½‖f‖² − νWρ + Σ w max(0, ρ − f) against −½‖f‖²; slopes are compared with ρ as stored."""
    square, level = float(a @ f), float(model.offset_[0])
    primal = 0.5 * square - model.nu * w.sum() * level + float(w @ np.maximum(0.0, level - f))
    worst = violation(f - level, a < w * FULL, a > 0, free=True)
    return Certified(primal, -0.5 * square, worst, float(abs(f).max()))


def violation(slopes: np.ndarray, up: np.ndarray, down: np.ndarray, free: bool = False) -> float:
    """Return by how much a variable that may fall has a larger slope than one that may rise.

    Without a sum to keep (`free`), every variable is compared with the slope 0.
    """
    high = float(slopes[down].max(initial=0.0 if free else -np.inf))
    low = float(slopes[up].min(initial=0.0 if free else np.inf))
    return max(0.0, high, -low) if free else max(0.0, high - low)


def _class_weights(class_weight: Any, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    if class_weight is None:
        return np.ones(len(y))
    if isinstance(class_weight, dict):
        return np.array([class_weight.get(label, 1.0) for label in y.tolist()])
    present = np.unique(y[w > 0])
    totals = {c: w[y == c].sum() for c in present}
    return np.array([w.sum() / (len(present) * totals[c]) if c in totals else 0.0 for c in y])


def _merged(parts: list[Certified]) -> Certified:
    primal, dual = (float(sum(part[i] for part in parts)) for i in (0, 1))
    return Certified(primal, dual, max(p.residual for p in parts), max(p.scale for p in parts))
