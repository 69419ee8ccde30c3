"""The span rule: what a machine with bounded coefficients would say at its own points without them.

Let the free coefficients of a solution be those strictly inside their bounds. If taking point p
away leaves the others free, bound or zero as they are, the free ones make up for it by solving
their optimality conditions again, and the value at x_p becomes (Vapnik and Chapelle 2000; Chapelle,
Vapnik, Bousquet and Mukherjee 2002)

    f₋p(x_p) = f(x_p) − a_p S_p².

S_p² is the squared distance from φ(x_p) to the span of the other free points (their affine span
with an offset). With C the free block of K and P its inverse, P = C⁻¹ − C⁻¹11ᵀC⁻¹/(1ᵀC⁻¹1) with an
offset, it is 1/P_pp for a free point, and k(x_p, x_p) − kᵀC⁻¹k + (1 − 1ᵀC⁻¹k)²/(1ᵀC⁻¹1) for one at
its bound, k = k(x_p, free points).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from mercer.domains import same_points
from mercer.errors import InvalidInput, NotConverged, NotSeparable, speaking_for, users_level, who
from mercer.kernels import Kernel, around_mean
from mercer.memory import require_memory, row_blocks
from mercer.models.margin.machines import columns_of, machine_values
from mercer.models.margin.problems import way_back
from mercer.operators import gram_of
from mercer.solvers import factor

# Of the mean diagonal, added to the free block: points in the span of others make it singular.
RIDGE = 1e-10
LEAVES = 1e-3  # of its box, by which a coefficient must leave it for the rule to be doubted


def span_loo(
    kernel: Kernel, points: Any, coef: np.ndarray, free: np.ndarray, intercept: float, offset: bool
) -> np.ndarray:
    """Return the values of Σ aᵢ k(xᵢ, ·) + b at its points, each left out, by the span rule.

    An approximation: exact where taking the point away makes no other coefficient reach or leave a
    bound. Points whose coefficient is 0 keep their value, which is exact.

    For a precomputed kernel the points are the square matrix of their kernel values. `free` says
    which coefficients are strictly inside their bounds, `offset` whether b was fitted, that is Σaᵢ
    is fixed.
    """
    coef = np.asarray(coef, dtype=float)
    values = gram_of(kernel, points) @ coef + float(intercept)
    return values - span_moves(kernel, points, coef, free, offset)


def span_moves(
    kernel: Kernel, points: Any, coef: np.ndarray, free: np.ndarray, offset: bool
) -> np.ndarray:
    """Return a_p S_p² of every point; the parameters are those of `span_loo`."""
    coef, free = np.asarray(coef, dtype=float), np.asarray(free, dtype=bool)
    moves = np.zeros(len(coef))
    used = np.flatnonzero((coef != 0) | free)
    if len(used):
        inside = points if len(used) == len(coef) else kernel.domain.subset(points, used)
        moves[used] = coef[used] * span_squares(kernel, inside, free[used], offset)
    return moves


def span_squares(kernel: Kernel, points: Any, free: np.ndarray, offset: bool) -> np.ndarray:
    """Return S² of each point: free ones from the other free ones, the rest from all free ones.

    Where the rule has no answer, that is with an offset and no other free point to make up for the
    one left out, it is k(x, x): the others, all at their bounds, stay as they are.
    """
    diagonal = np.asarray(gram_of(kernel, points).diagonal(), dtype=float)
    inside, others = np.flatnonzero(free), np.flatnonzero(~free)
    out = diagonal.copy()
    m = len(inside)
    if m == 0 or not diagonal.any() or (offset and m == 1 and not len(others)):
        return out
    require_memory(
        24 * m * m,
        f"the span rule: 3 × the {m} × {m} matrix of the free support vectors",
        "Use a larger alpha or a smaller C, which make more of them bound",
    )
    f, shift = _factored(kernel, points, inside, diagonal, offset)
    inverse, h, total = f.inverse_diagonal(), np.zeros(m), np.inf
    if offset:
        h = f.solve(np.ones(m))
        total = float(h.sum())
        inverse -= h**2 / total
    alone = inverse <= 1e-12 / (diagonal[inside] + shift + float(diagonal.max()))
    out[inside] = np.where(alone, diagonal[inside], 1 / np.where(alone, 1.0, inverse))
    for rows in row_blocks(len(others), 32 * m):
        at = others[rows]
        k = _block(kernel, points, at, inside) + shift
        half = f.half_solve(np.ascontiguousarray(k.T))
        square = diagonal[at] + shift - np.einsum("ij,ij->j", half, half)
        out[at] = np.maximum(square, 0.0) + ((1 - k @ h) ** 2 / total if offset else 0.0)
    return out


def leaves_box(
    kernel: Kernel,
    points: Any,
    coef: np.ndarray,
    free: np.ndarray,
    box: tuple[np.ndarray, np.ndarray],
    offset: bool,
) -> np.ndarray:
    """Return which points the free ones cannot make up for: some would leave its box.

    Without p the free coefficients become a − P_{·p} a_p/P_pp if p is free, else
    a + a_p (Pk + h/1ᵀh) with h = C⁻¹1. It needs the m × n matrix of these: for few points.

    Parameters
    ----------
    kernel, points, coef, free, offset
        As for `span_loo`.
    box : tuple of two arrays of shape (n,)
        The ends of the coefficients.
    """
    inside = np.flatnonzero(free)
    m, out = len(inside), np.zeros(len(coef), dtype=bool)
    diagonal = np.asarray(gram_of(kernel, points).diagonal(), dtype=float)
    used = np.flatnonzero(coef)
    if m == 0 or not diagonal.any() or not len(used):
        return out
    f, shift = _factored(kernel, points, inside, diagonal, offset)
    h = f.solve(np.ones(m))
    total = float(h.sum())
    k = _block(kernel, points, inside, used) + shift
    place = {int(at): j for j, at in enumerate(inside)}
    for j, at in enumerate(used):
        if free[at]:
            k[:, j] = np.arange(m) == place[int(at)]
    change = f.solve(k)
    if offset:
        change += np.outer(h, (~free[used] - h @ k) / total)
    own = np.array([change[place[int(at)], j] if free[at] else -1.0 for j, at in enumerate(used)])
    with np.errstate(divide="ignore", invalid="ignore"):
        new = coef[inside][:, None] - change * (coef[used] / own)
    low, high = (end[inside][:, None] for end in box)
    width = np.where(np.isfinite(high - low), high - low, np.abs(coef).max())
    room = LEAVES * width
    gone = (new < low - room) | (new > high + room)
    gone[[place[int(at)] for at in used if free[at]], np.flatnonzero(free[used])] = False
    out[used] = gone.any(axis=0)
    return out


def _factored(
    kernel: Kernel, points: Any, inside: np.ndarray, diagonal: np.ndarray, offset: bool
) -> tuple[Any, float]:
    """Return the factor of the free block, and what was added to its entries.

    With an offset k may be replaced by k + τ, which makes a free block of low rank definite.
    """
    shift = float(diagonal.mean()) if offset else 0.0
    C = _block(kernel, points, inside, None) + shift
    ridge = RIDGE * float(np.trace(C)) / len(inside)
    return factor(C, ridge, overwrite=True, owner=kernel), shift


def _block(kernel: Kernel, points: Any, rows: np.ndarray, columns: np.ndarray | None) -> np.ndarray:
    """Return a block of the Gram matrix of the points; without columns the symmetric one."""
    if columns is None:
        K = gram_of(kernel, kernel.domain.subset(points, rows))
    else:
        K = gram_of(kernel, *kernel.domain.pair(points, rows, columns))
    return np.asarray(K.to_dense(), dtype=float)


# ---- Which values of the span rule cannot be believed, and fits without the row in their place.
# The rule lets only the free points answer when a point goes. Where they are few, as with few
# features, and a bound coefficient is large, for a small alpha or a large C, no free point may be
# left in some direction of feature space; then the rule moves the value as far as the coefficient
# reaches, though points that now lie at their bounds would stop it much earlier.


FAILS = "the span rule does not hold for this fit"
SMALL, REFITS = 200, 50  # rows up to which all doubtful ones are fitted again; else so many
PROBES = 5  # of many rows, so many are fitted first: where the rule holds there, it is believed
PER_FEATURE = 50  # rows for each feature, from which the part D/n of an error does no harm
TINY = 10  # so few rows are all fitted again


def refitted(
    values: np.ndarray,
    fitted: np.ndarray,
    spread: np.ndarray,
    again: Callable[[int], np.ndarray | float],
    leave: np.ndarray | None = None,
    small: int = SMALL,
) -> np.ndarray:
    """Return values of the span rule, those that moved too far replaced by those of fits.

    Parameters
    ----------
    values : ndarray of shape (n, p)
        Values of p problems by the rule, each row left out.
    fitted : ndarray of shape (n, p)
        Values of the fit.
    spread : ndarray of shape (p,)
        The size of its errors: of many rows a move that is not larger does no harm, of few one of
        half the size.
    again : callable
        Returns the values at a row of a fit without it.
    leave : ndarray of bool, shape (n,), optional
        Rows without which other coefficients would leave their box, by the rule.
    small : int
        Rows up to which all doubtful ones are fitted again.
    """
    n, out = len(values), values.copy()
    moves = np.abs(values - fitted)
    lost = ~np.isfinite(values)
    far = moves > (0.0 if n <= TINY else 0.5 * spread if n <= small else spread)
    doubtful = np.flatnonzero((far | lost).any(axis=1) | (False if leave is None else leave))
    if not len(doubtful):
        return out
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.where(lost, np.inf, moves / np.where(spread > 0, spread, 1.0)).max(axis=1)
    doubtful = doubtful[np.argsort(-size[doubtful], kind="stable")]
    bad, limit = 0, len(doubtful) if n <= small else REFITS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        for done, i in enumerate(doubtful[:limit]):
            if n > small and done == PROBES and not bad:
                return out
            out[i] = again(int(i))
            off = np.abs(out[i] - values[i])
            bad += not bool((off <= np.maximum(spread, 0.5 * moves[i])).all())
    rest = len(doubtful) - limit
    if rest > 0 and bad:
        warnings.warn(
            f"{who()}: {FAILS}: {bad} of the {limit} rows that it moves most were off by more than "
            f"half of the move, and {rest} others that it moves far, or whose absence would break "
            "bounds, are unreliable. Use cross-validation, such as mercer.search, or a larger "
            "alpha (a smaller C).",
            UserWarning,
            stacklevel=users_level(),
        )
    return out


def rows_to_doubt(n: int, free: int, features: int | None) -> bool:
    """Return whether to look for rows without which coefficients leave their boxes.

    Of D features a row changes about D/n of its own error, which the rule may miss; for n > 50 D
    that does no harm.
    """
    few = features is not None and n <= PER_FEATURE * features and 4 * free <= n
    return n <= SMALL or few


def check_enough(n: int, offset: bool) -> None:
    """Refuse to leave a row out where nothing would be left to fit."""
    if n < 2 and offset:
        raise InvalidInput(
            f"{who()}: with an offset it needs at least 2 rows of positive weight, got {n}; give "
            "more rows."
        )


def only_one(row: int) -> InvalidInput:
    """Return the refusal to leave out the only row of a class."""
    return InvalidInput(
        f"{who()}: row {row} is the only one of its class, so there is no fit without it; give "
        "more rows of that class."
    )


# ---- Leave-one-out values of support vector machines: the span rule, and fits where it fails ----


def loo_values(model: Any, X: Any, verb: str = "loo") -> np.ndarray:
    """Return the values of a support vector machine at its training points, each left out.

    X are the training points, or the training Gram matrix; one column for each two-class problem.
    """
    check_is_fitted(model)
    with speaking_for(f"{type(model).__name__}.{verb}"):
        if X is None:
            raise InvalidInput(
                f"{who()}: the model keeps only its support vectors, so the training points must "
                f"be given: {verb}(X), with the Gram matrix for a precomputed kernel."
            )
        points = model._check_new(X)
        _check_training(model, points)
        fitted, kernel, support = machine_values(model, X), model.kernel_, model.support_
        n, offset = len(fitted), bool(model.fit_intercept)
        y, w = vars(model).get("y_fit_"), vars(model).get("weights_fit_")
        w = np.ones(n) if w is None else w
        check_enough(int(np.count_nonzero(w)), offset)
        features = kernel._n_features(points)
        values, leave = fitted.copy(), np.zeros(n, dtype=bool)
        columns, several = columns_of(model).T, len(model.intercept_) > 1
        near = around_mean(kernel, points) if offset else points
        for j, coef in enumerate(columns):
            used = np.flatnonzero(coef)
            if not len(used):
                continue
            rows = support[used]
            mine, a, b = kernel.domain.subset(near, rows), coef[used], model.intercept_[j]
            if near is not points:
                b += way_back(kernel, points[rows], mine, a)
            free = model.support_kind_[used] == "margin"
            if several and not free.all():
                # Bound in some problem; here only if inside of the margin by more than the
                # tolerance.
                f = gram_of(kernel, mine) @ a + b
                free |= np.sign(a) * f >= 1 - 2 * float(model.solution_.residual)
            values[rows, j] = span_loo(kernel, mine, a, free, b, offset)
            if rows_to_doubt(n, int(free.sum()), features):
                leave[rows] |= leaves_box(kernel, mine, a, free, _box(a, free, w[rows]), offset)
        if y is None:  # of a file from before fits kept their targets
            return values
        labels = hasattr(model, "classes_")
        size = 1.0 if labels else float(np.average(np.abs(y - fitted[:, 0]), weights=w))
        spread = np.full(fitted.shape[1], size)
        leave &= w > 0

        def again(i: int) -> np.ndarray:
            return _without(model, points, i, y, w, values)

        return refitted(values, fitted, spread, again, leave)


def _box(a: np.ndarray, free: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the coefficients: 0 and C w with the sign of each."""
    bound = ~free & (w > 0)
    C = float((np.abs(a[bound]) / w[bound]).max()) if bound.any() else np.inf
    end = np.where(a > 0, 1.0, -1.0) * C * np.where(w > 0, w, 1.0)
    return np.minimum(end, 0.0), np.maximum(end, 0.0)


def _without(
    model: Any, points: Any, i: int, y: np.ndarray, w: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Return the values at a row of a fit without it; kernel and weights are those of the fit."""
    kernel = model.kernel_
    others = np.flatnonzero(w)
    others = others[others != i]
    settings: dict[str, Any] = {"kernel": kernel}
    targets = y[others]
    if not len(others):
        return np.zeros(values.shape[1])
    if hasattr(model, "classes_"):
        if not (targets == y[i]).any():
            raise only_one(i)
        targets = model.classes_[targets]
        settings |= {"class_weight": None, "probability": False}
    part = kernel.domain.subset(points, others)
    try:
        fit = clone(model).set_params(**settings).fit(part, targets, sample_weight=w[others])
    except (InvalidInput, NotSeparable):  # ν may be too large without the row
        return values[i]
    return machine_values(fit, kernel.domain.as_new(points, [i], others))[0]


def _check_training(model: Any, points: Any) -> None:
    """Refuse points that are plainly not those of the fit: the support vectors must be in place."""
    domain, support = model.kernel_.domain, model.support_
    domain.check_training(points)
    if not domain.holds_points:
        return
    n, y = domain.size(points), vars(model).get("y_fit_")
    last = int(support.max(initial=-1))
    other = n <= last or (y is not None and n != len(y))
    if other or not same_points(domain, domain.take(points, support), model.support_vectors_):
        where = "its rows differ from the support vectors"
        if other:
            where = f"it has {n} rows" + ("" if y is None else f", the fit had {len(y)}")
        raise InvalidInput(
            f"{who()}: X is not what the model was fitted on: {where}. The model keeps its support "
            "vectors only; pass the training points again, in the same order."
        )
