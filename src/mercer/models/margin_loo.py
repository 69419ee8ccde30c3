"""Leave-one-out values of support vector machines: the span rule, and fits where it fails."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from mercer.domains import GramRows
from mercer.engines import pick
from mercer.errors import InvalidInput, NotSeparable
from mercer.models.ridge_data import take_rows
from mercer.models.span import leaves_box, span_loo
from mercer.models.span_refits import check_enough, only_one, refitted, rows_to_doubt
from mercer.models.training import same_points

__all__ = ["loo_values"]


def loo_values(model: Any, X: Any, verb: str = "loo") -> np.ndarray:
    """Return the values of a support vector machine at its training points, each left out.

    Parameters
    ----------
    model : MarginMachine
        The fitted machine.
    X : collection of n points
        The training points, or the training Gram matrix.
    verb : str, default="loo"
        The method that asks.

    Returns
    -------
    array of shape (n, problems)
        Left-out values of every two-class problem.
    """
    check_is_fitted(model)
    owner = f"{type(model).__name__}.{verb}"
    if X is None:
        raise InvalidInput(
            f"{owner}: the model keeps only its support vectors, so the training points must be "
            f"given: {verb}(X), with the Gram matrix for a precomputed kernel."
        )
    points = model._check_new(X)
    _check_training(model, points, owner)
    fitted, kernel, support = model._values(X), model.kernel_, model.support_
    n, offset = len(fitted), bool(model.fit_intercept)
    y, w = vars(model).get("y_fit_"), vars(model).get("weights_fit_")
    w = np.ones(n) if w is None else w
    check_enough(int(np.count_nonzero(w)), offset, owner)
    features = kernel._n_features(points)
    values, leave = fitted.copy(), np.zeros(n, dtype=bool)
    columns, several = model._columns().T, len(model.intercept_) > 1
    for j, coef in enumerate(columns):
        used = np.flatnonzero(coef)
        if not len(used):
            continue
        rows = support[used]
        mine, a, b = take_rows(kernel, points, rows), coef[used], model.intercept_[j]
        free = model.support_kind_[used] == "margin"
        if several and not free.all():
            # Bound in some problem; here only if inside of the margin by more than the tolerance.
            engine = pick(mine)
            f = engine.to_numpy(engine.matmul(kernel, mine, None, a)) + b
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
        return _without(model, points, i, y, w, values, owner)

    return refitted(values, fitted, spread, again, owner, leave)


def _box(a: np.ndarray, free: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the coefficients: 0 and C w with the sign of each."""
    bound = ~free & (w > 0)
    C = float((np.abs(a[bound]) / w[bound]).max()) if bound.any() else np.inf
    end = np.where(a > 0, 1.0, -1.0) * C * np.where(w > 0, w, 1.0)
    return np.minimum(end, 0.0), np.maximum(end, 0.0)


def _without(
    model: Any,
    points: Any,
    i: int,
    y: np.ndarray,
    w: np.ndarray,
    values: np.ndarray,
    owner: str,
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
            raise only_one(i, owner)
        targets = model.classes_[targets]
        settings |= {"class_weight": None, "probability": False}
    part = take_rows(kernel, points, others)
    try:
        fit = clone(model).set_params(**settings).fit(part, targets, sample_weight=w[others])
    except (InvalidInput, NotSeparable):  # ν may be too large without the row
        return values[i]
    if isinstance(kernel.domain, GramRows):
        return fit._values(points[i, others][None, :])[0]
    return fit._values(kernel.domain.take(points, [i]))[0]


def _check_training(model: Any, points: Any, owner: str) -> None:
    """Refuse points that are plainly not those of the fit: the support vectors must be in place."""
    domain, support = model.kernel_.domain, model.support_
    if isinstance(domain, GramRows):
        domain.check_square(points)
        return
    n, y = domain.size(points), vars(model).get("y_fit_")
    last = int(support.max(initial=-1))
    other = n <= last or (y is not None and n != len(y))
    if other or not same_points(domain, domain.take(points, support), model.support_vectors_):
        where = "its rows differ from the support vectors"
        if other:
            where = f"it has {n} rows" + ("" if y is None else f", the fit had {len(y)}")
        raise InvalidInput(
            f"{owner}: X is not what the model was fitted on: {where}. The model keeps its support "
            "vectors only; pass the training points again, in the same order."
        )
