"""Probabilities of a margin classifier, from held-out decision values of warm-started folds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import update_wrapper
from types import MethodType
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from mercer.checks import Clock
from mercer.errors import speaks, users_level, who
from mercer.estimator import Sample
from mercer.models.margin.folds import (
    Tally,
    deal_folds,
    fold_machines,
    machines_of_folds,
    values_at,
    with_time_left,
)
from mercer.models.margin.machines import columns_of, has_pairs, machine_values
from mercer.models.margin.problems import votes
from mercer.solvers import Rows

# ---- From decision values to probabilities that agree with predictions: sigmoid and coupling ----
# A margin machine says on which side a point lies, not how surely. Held-out decision values f,
# from folds of the training rows, show how often each value is right; Platt's sigmoid P(y = 1 |
# f) = 1/(1 + exp(Af + B)), A < 0, is fitted to them (J. Platt, 1999; the Newton method is that of
# Lin, Lin & Weng, 2007). Several classes are coupled from their pairs by the second method of Wu,
# Lin & Weng (2004).
#
# The answer never contradicts `predict`. Where the fitted probabilities favour another class than
# the one predicted, the nearest probabilities (in Euclidean distance) that do not are given
# instead; for two classes that is ½ : ½. If the fitted ones are true, no other probabilities that
# agree with the prediction have a smaller expected Brier score or (two classes) log loss.


STEPS = 100
LEAST_SLOPE = 1e-6  # of the sigmoid's exponent over the range of the decision values
TILT = 1e-3  # part of the slope that is left where a probability is held at ½
CERTAIN = 1e-7  # pairwise probabilities stay so far from 0 and 1
CHUNK = 2**21  # entries of the systems of equations solved at once


# ------------------------------------------------------------------------------------ the sigmoid
def fit_sigmoid(
    values: np.ndarray, positive: np.ndarray, weights: np.ndarray | None = None
) -> tuple[float, float]:
    r"""Fit P(y = 1 | f) = 1/(1 + exp(Af + B)) with A < 0 to held-out decision values.

    Minimises the weighted log loss to the targets (N₊ + 1)/(N₊ + 2) and 1/(N₋ + 2), N the weights
    of the classes; these are Platt's, and keep A finite where the values separate the classes. A
    weight of 2 is the value given twice.

    Where larger values do not make the positive class likelier, as on noise, or all values are the
    same, the best slope with A < 0 is 0. Then |A| is 10⁻⁶ over the largest value, so that the
    order of the values is kept, and B makes every probability the frequency of the class.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.models.margin.probabilities import fit_sigmoid
    >>> A, B = fit_sigmoid(np.array([-2.0, -1.0, 1.0, 2.0]), np.array([False, False, True, True]))
    >>> round(A, 3), abs(B) < 1e-9
    (-0.674, True)
    """
    f, positive = np.asarray(values, dtype=float), np.asarray(positive, dtype=bool)
    w = np.ones(len(f)) if weights is None else np.asarray(weights, dtype=float)
    above, below = float(w[positive].sum()), float(w[~positive].sum())
    t = np.where(positive, (above + 1) / (above + 2), 1 / (below + 2))
    scale = float(np.abs(f).max(initial=0.0)) or 1.0
    z = f / scale
    start = float(np.log((above + 1) / (below + 1)))
    slope, offset = _newton(z, t, w, start) if np.ptp(z) > 1e-12 else (0.0, start)
    if not slope > LEAST_SLOPE:
        slope = LEAST_SLOPE
        mean = float((w * t).sum() / w.sum())
        offset = float(np.log(mean / max(1 - mean, np.finfo(float).eps)))
    return -slope / scale, -offset


def _newton(z: np.ndarray, t: np.ndarray, w: np.ndarray, offset: float) -> tuple[float, float]:
    """Minimise Σ w (log(1 + eᵍ) − tg), g = sz + b, by Newton steps that are halved until it falls.

    Lin, Lin & Weng (2007), algorithm 1; convex, so a step that lowers nothing means the minimum.
    """
    slope = 0.0
    total = float(w.sum())

    def loss(s: float, b: float) -> float:
        g = s * z + b
        return float((w * (np.logaddexp(0.0, g) - t * g)).sum())

    value = loss(slope, offset)
    for _ in range(STEPS):
        p = 0.5 * (1 + np.tanh(0.5 * (slope * z + offset)))
        error, curve = w * (p - t), w * p * (1 - p)
        gs, gb = float((error * z).sum()), float(error.sum())
        if max(abs(gs), abs(gb)) <= 1e-12 * total:
            break
        ridge = 1e-12 * float(curve.sum()) + 1e-300
        ss, sb = float((curve * z * z).sum()) + ridge, float((curve * z).sum())
        bb = float(curve.sum()) + ridge
        det = ss * bb - sb * sb
        if not det > 0:
            break
        ds, db = -(bb * gs - sb * gb) / det, -(ss * gb - sb * gs) / det
        descent, step = gs * ds + gb * db, 1.0
        while step > 1e-10:
            trial = loss(slope + step * ds, offset + step * db)
            if trial < value + 1e-4 * step * descent:
                break
            step *= 0.5
        else:
            break
        slope, offset, value = slope + step * ds, offset + step * db, trial
    return slope, offset


def _exponent(values: np.ndarray, A: float, B: float) -> np.ndarray:
    """Return the log odds of the positive class, with the sign of the decision value.

    Where −(Af + B) has another sign it is held next to 0, on a small part of the slope so that the
    order of the values is kept; never so near that the probability would round to ½.
    """
    f = np.asarray(values, dtype=float)
    g = -(A * f + B)
    side = np.where(f > 0, 1.0, -1.0)  # a value of 0 is predicted as the first class
    return side * np.maximum(np.maximum(side * g, -A * TILT * np.abs(f)), 1e-15 * (f != 0))


def from_sign(values: np.ndarray, A: float, B: float) -> np.ndarray:
    """Return the probabilities of two classes; the second has more than ½ where values > 0.

    The second column never falls as the value grows.
    """
    return np.exp(log_from_sign(values, A, B))


def log_from_sign(values: np.ndarray, A: float, B: float) -> np.ndarray:
    """Return logarithms of what `from_sign` returns, accurate where that rounds to 0 or 1."""
    g = _exponent(values, A, B)
    return np.stack([-np.logaddexp(0.0, g), -np.logaddexp(0.0, -g)], axis=1)


# ---------------------------------------------------------------------------------- several classes
def couple(R: np.ndarray) -> np.ndarray:
    r"""Return class probabilities from those of all pairs.

    Minimises :math:`\sum_i \sum_{j \ne i} (r_{ji} p_i - r_{ij} p_j)^2` over Σp = 1, the second
    method of Wu, Lin & Weng (2004): one linear system with the matrix
    :math:`Q_{ii} = \sum_{s \ne i} r_{si}^2`, :math:`Q_{ij} = -r_{ji} r_{ij}` and a multiplier.
    Exact where the pairs are consistent, :math:`r_{ij} = p_i/(p_i + p_j)`.

    ``R[:, i, j]`` is the probability of class i where it is i or j; the diagonal is not read.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.models.margin.probabilities import couple
    >>> p = np.array([0.5, 0.3, 0.2])
    >>> couple((p[:, None] / (p[:, None] + p))[None]).round(12)
    array([[0.5, 0.3, 0.2]])
    """
    m, K, _ = R.shape
    out = np.empty((m, K))
    step = max(1, CHUNK // (K + 1) ** 2)
    for begin in range(0, m, step):
        r = np.clip(R[begin : begin + step], CERTAIN, 1 - CERTAIN)
        r = r * (1 - np.eye(K))
        A = np.ones((len(r), K + 1, K + 1))
        A[:, K, K] = 0.0
        A[:, :K, :K] = -r * r.transpose(0, 2, 1)
        A[:, range(K), range(K)] = (r * r).sum(axis=1)
        b = np.zeros((len(r), K + 1, 1))
        b[:, K] = 1.0
        p = np.maximum(np.linalg.solve(A, b)[:, :K, 0], 0.0)
        out[begin : begin + step] = p / p.sum(axis=1, keepdims=True)
    return out


def agree(P: np.ndarray, winner: np.ndarray) -> np.ndarray:
    """Return the nearest probabilities whose largest is that of the class predicted.

    The Euclidean projection onto {p : p_winner ≥ p_k, Σp = 1}: the winner and those above it get
    their common mean, from the largest down, as long as they exceed it. A part in 10¹² goes to the
    winner, so that ``argmax`` finds it.
    """
    P = np.array(P, dtype=float)
    rows = np.flatnonzero(P.argmax(axis=1) != winner)
    if not len(rows):
        return P
    Q, w, at = P[rows], winner[rows], np.arange(len(rows))
    others = Q.copy()
    others[at, w] = -np.inf
    others = -np.sort(-others, axis=1)[:, :-1]
    sums = Q[at, w][:, None] + np.cumsum(others, axis=1)
    means = sums / np.arange(2, Q.shape[1] + 1)
    before = np.concatenate([Q[at, w][:, None], means[:, :-1]], axis=1)
    last = (others > before).sum(axis=1) - 1
    level = means[at, last]
    Q = np.minimum(Q, level[:, None])
    Q[at, w] = level * (1 + 1e-12)
    P[rows] = Q / Q.sum(axis=1, keepdims=True)
    return P


def from_pairs(values: np.ndarray, A: np.ndarray, B: np.ndarray, winner: np.ndarray) -> np.ndarray:
    """Return probabilities of K classes from the decision values of all pairs, coupled.

    The pairs are (0, 1), (0, 2), …, one column each, positive for the first class of the pair; the
    largest probability is that of the winner.
    """
    K = round(0.5 + np.sqrt(0.25 + 2 * len(A)))
    i, j = np.triu_indices(K, 1)
    first = 0.5 * (1 + np.tanh(-0.5 * (A * values + B)))
    R = np.full((len(values), K, K), 0.5)
    R[:, i, j], R[:, j, i] = first, 1 - first
    return agree(couple(R), winner)


def from_rest(values: np.ndarray, A: np.ndarray, B: np.ndarray, winner: np.ndarray) -> np.ndarray:
    """Return probabilities of K classes from the decision values of each against the rest.

    One column a class, positive for it. The sigmoids are normalised; the largest is that of the
    winner.
    """
    log = -np.logaddexp(0.0, A * values + B)
    P = np.exp(log - log.max(axis=1, keepdims=True))
    return agree(P / P.sum(axis=1, keepdims=True), winner)


# ---- probabilities ----


@speaks
def fit_probabilities(model: Any, data: Sample, rows: Rows, clock: Clock) -> None:
    """Fit the sigmoid of every two-class problem, and store it in the model.

    Five stratified folds on the rows of the fit itself; each begins at the full solution without
    the coefficients of the points it leaves out, which takes few steps where few change.

    `max_time` limits the whole fit, whose clock is given.
    """
    n = len(data.y)
    fold, counts = deal_folds(data, rows, model.random_state)
    full = np.zeros((len(model.intercept_), n))
    support = model.support_
    full[:, support if data.kept is None else np.searchsorted(data.kept, support)] = columns_of(
        model
    ).T
    values, tally = np.empty((n, len(full))), Tally()
    numbers = np.unique(fold)
    together: list[Any] = []
    if not rows.in_memory:  # a device solves all folds side by side
        part = with_time_left(model, clock)
        jobs = [(part, data, np.flatnonzero(fold != k), list(full)) for k in numbers]
        together = machines_of_folds(jobs, rows)
    for i, k in enumerate(numbers):
        held = np.flatnonzero(fold == k)
        if together:
            machines = together[i]
        else:
            part = with_time_left(model, clock)
            machines = fold_machines(part, data, rows, np.flatnonzero(fold != k), list(full))
        values[held] = values_at(rows, machines, held)
        tally.count(machines)
    tally.warn("behind the probabilities", "these are approximate")
    if counts.min() < 2:
        name = data.classes[int(counts.argmin())]  # type: ignore[index]
        warnings.warn(
            f"{who()}: class {name!s} has one point, and no other to learn it from while that "
            "one is held out: the probabilities are not calibrated. Give more rows of it, or "
            "use decision_function.",
            UserWarning,
            stacklevel=users_level(),
        )
    sigmoids = []
    for k, task in enumerate(model._tasks(data)):
        at: Any = slice(None) if task.index is None else task.index
        sigmoids.append(fit_sigmoid(values[at, k], task.signs > 0, data.weights[at]))
    model.probA_, model.probB_ = np.array(sigmoids).T.copy()


class offered:
    """A method that exists with ``probability=True``; without, the reason is in the error."""

    def __init__(self, method: Callable):
        self.method = method
        update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self.method
        if not getattr(model, "probability", False):
            raise AttributeError(
                f"{type(model).__name__}: it has no {self.method.__name__}; fit with "
                "probability=True."
            )
        return MethodType(self.method, model)


def _sigmoids(model: Any) -> tuple[np.ndarray, np.ndarray]:
    check_is_fitted(model)
    if "probA_" not in vars(model):
        raise NotFittedError(
            f"{type(model).__name__}: it was fitted with probability=False and has no "
            "probabilities; fit with probability=True."
        )
    return model.probA_, model.probB_


def probabilities(model: Any, X: Any) -> np.ndarray:
    """Return the probability of each class at new points, shape (n, n_classes)."""
    A, B = _sigmoids(model)
    values, k = machine_values(model, X), len(model.classes_)
    if k == 2:
        return from_sign(values[:, 0], A[0], B[0])
    if has_pairs(model):
        return from_pairs(values, A, B, votes(values, k).argmax(axis=1))
    return from_rest(values, A, B, values.argmax(axis=1))


def log_probabilities(model: Any, X: Any) -> np.ndarray:
    """Return logarithms of `probabilities`; of two classes without rounding to 0 first."""
    A, B = _sigmoids(model)
    if len(model.classes_) == 2:
        return log_from_sign(machine_values(model, X)[:, 0], A[0], B[0])
    with np.errstate(divide="ignore"):
        return np.log(probabilities(model, X))
