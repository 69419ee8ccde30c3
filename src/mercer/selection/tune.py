"""Tune kernel parameters and penalty together: exact leave-one-out, or folds along a path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from mercer.errors import InvalidInput
from mercer.models import SVC, SVR, TableClassifier, TableRegressor
from mercer.models.ridge import RidgeBase
from mercer.selection.folds import FoldSearch
from mercer.selection.loo import LooSearch
from mercer.selection.result import TuneResult

__all__ = ["tune"]


def tune(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    max_iter: int = 50,
    max_points: int = 2000,
    max_time: float | None = None,
    fixed: Sequence[str] = (),
    bounds: Mapping[str, tuple[float, float]] | None = None,
    random_state: Any = 0,
) -> TuneResult:
    """Choose kernel parameters and penalty together, and fit the model with them.

    The tunable parameters of a kernel are those of ``kernel.theta_names``: give
    ``RBF([1.0] * d)`` for one length scale a column. The search starts from the kernel's own
    parameters (words such as "median" resolved on X) and from these with all length scales times
    1/3 and 3.

    Ridge models: minimises log E(θ, log α), E the exact mean squared leave-one-out error, by
    L-BFGS-B with the exact gradient, from the best of the starts with its best α. An evaluation
    costs about 2n³ flops. The error has many local minima in a period: start near it, or hold it
    with `fixed` or `bounds`.

    `SVC`: minimises the share of rows that five stratified folds get wrong; of parameters with the
    same share the least held-out hinge loss decides, then the smallest C. For every kernel all
    folds and all C share one Gram matrix, each C starting from the solution of the one before:
    first C from 10⁻² to 10³ in units of 1/mean k(x, x), then around the best. A compass search
    moves all length scales together, then every parameter by itself, by factors that shrink from
    √3 to 1.1. A kernel of several parameters starts also from those that a ridge classifier would
    be tuned to.

    `SVR`: the same with the mean squared held-out error; C is in units of the standard deviation of
    y over mean k(x, x). ε stays as it is.

    Both are means over the folds, in which rows count by `sample_weight`; a `class_weight` of the
    model counts in its fits, not in the error. For another criterion, such as balanced accuracy or
    the area under a curve, use scikit-learn's ``GridSearchCV`` with `scoring`. A kernel costs one
    Gram matrix and five solutions for each C, eleven C at a start and five later; folds that cannot
    make it the best any more are left out.

    Parameters
    ----------
    model : KernelRidge, KernelRidgeClassifier, SVC, SVR, TableRegressor or TableClassifier
        The model; not changed.
    X : collection of n points
        Training points.
    y : array of shape (n,) or (n, n_outputs)
        Targets or class labels.
    sample_weight : array of shape (n,), optional
        Weights.
    max_iter : int, default=50
        Iterations of L-BFGS-B; for `SVC` and `SVR` the kernels tried after the starts.
    max_points : int, default=2000
        Tune on at most so many rows, drawn at random, which `TuneResult` then says; the final fit
        uses all.
    max_time : float, optional
        Seconds after which the best so far is taken.
    fixed : sequence of str, optional
        Kernel parameters to leave as they are, by their ``kernel.theta_names``, with or without
        ``kernel__`` in front; or "C".
    bounds : dict of str to (low, high), optional
        Ranges of kernel parameters, by the same names; or of "C".
    random_state : int, RandomState or None, default=0
        For the choice of rows, and of the folds.

    Returns
    -------
    TuneResult
        The fitted model, its score and a table of what was tried.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRidge, tune
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(60)
    >>> result = tune(KernelRidge("rbf"), X, y)
    >>> bool(result.score < 0.02)
    True
    """
    options: dict[str, Any] = {
        "max_iter": max_iter,
        "max_points": max_points,
        "max_time": max_time,
        "fixed": fixed,
        "bounds": bounds,
        "random_state": random_state,
    }
    if isinstance(model, TableRegressor | TableClassifier):
        return _tune_table(model, X, y, sample_weight, options)
    if not isinstance(model, RidgeBase | SVC | SVR):
        raise InvalidInput(
            f"tune: got a {type(model).__module__.partition('.')[0]} {type(model).__name__}; tune "
            "takes mercer's KernelRidge, KernelRidgeClassifier, SVC, SVR, TableRegressor and "
            "TableClassifier. In front of a pipeline, tune on the transformed X."
        )
    options = _checked(options)
    if isinstance(model, SVC | SVR):
        return _tune_folds(model, X, y, sample_weight, options)
    fresh = clone(model)
    data = fresh._prepare(X, y, sample_weight)
    offset, rng = bool(fresh.fit_intercept), options["random_state"]
    search = LooSearch(data, offset, max_points, max_time, rng)
    search.restrict(options["fixed"], options["bounds"])
    converged, message = search.run(max_iter)
    kernel, alpha, score = search.best
    with np.errstate(over="ignore"):
        score *= search.unit * search.unit
        table = [{**row, "error": row["error"] * search.unit * search.unit} for row in search.table]
    tuned = clone(model).set_params(kernel=kernel, alpha=alpha)
    tuned.fit(X, y, sample_weight=sample_weight)
    params, weighted = {"alpha": alpha, **_kernel_params(kernel)}, data.weights is not None
    used, given = len(search.T), np.count_nonzero(data.weights) if weighted else len(data.T)
    message += _part(used, int(given))
    return TuneResult(tuned, score, params, table, converged, message, n_points=used)


def _tune_folds(model: Any, X: Any, y: Any, sample_weight: Any, options: dict) -> TuneResult:
    search = FoldSearch(model, X, y, sample_weight, options)
    converged, message = search.run()
    search.tally.warn(type(model).__name__, "in the folds of tune", "its errors are approximate")
    best = search.best
    tuned = clone(model).set_params(kernel=best.kernel, C=best.C)
    tuned.fit(X, y, sample_weight=sample_weight)
    params = {"C": best.C, **_kernel_params(best.kernel)}
    criterion = "held-out mean squared error"
    if search.classifier:
        criterion = "share of held-out rows that are wrong"
    used = len(search.data.y)
    message += _part(used, search.given)
    return TuneResult(tuned, best.error, params, search.table, converged, message, criterion, used)


def _part(used: int, given: int) -> str:
    """Say on how many rows the parameters were chosen, where these are not all."""
    return f"; chosen on {used} of {given} rows" if used < given else ""


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options in canonical form, or refuse them."""
    for name, low in (("max_points", 3), ("max_iter", 0)):
        value = options[name]
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < low:
            raise InvalidInput(f"tune: {name}={value!r}; give a whole number of {low} or more.")
    seconds, fixed = options["max_time"], options["fixed"]
    if seconds is not None and not (isinstance(seconds, int | float | np.number) and seconds >= 0):
        raise InvalidInput(f"tune: max_time={seconds!r}; give seconds, or None for no limit.")
    try:
        rng = check_random_state(options["random_state"])
    except ValueError as error:
        raise InvalidInput(f"tune: random_state: {error}") from None
    names = [fixed] if isinstance(fixed, str) else list(fixed or ())
    limits = dict(options["bounds"] or {})
    return {**options, "random_state": rng, "fixed": names, "bounds": limits}


def _kernel_params(kernel: Any) -> dict[str, Any]:
    """Return what was tuned of a kernel, as ``set_params`` of the model takes it."""
    held = kernel.get_params()
    names = dict.fromkeys(name.partition("[")[0] for name in kernel.theta_names)
    return {f"kernel__{name}": held[name] for name in names}


def _tune_table(model: Any, X: Any, y: Any, sample_weight: Any, options: dict) -> TuneResult:
    """Tune the kernel model that a table model has inside, then fit the table model with it."""
    inside = model._inside(X, y, sample_weight)
    result = tune(inside.model, inside.Z, inside.target, inside.weights, **options)
    penalty = {name: result.params[name] for name in ("alpha", "C") if name in result.params}
    tuned = clone(model).set_params(kernel=result.model.kernel_, **penalty)
    tuned.fit(X, y, sample_weight=sample_weight)
    unit = inside.scale * inside.scale
    table = [{**row, "error": row["error"] * unit} for row in result.table]
    return replace(result, model=tuned, score=result.score * unit, table=table)
