"""Which search tunes a model by a criterion: a gradient, paths along C, or a compass."""

from __future__ import annotations

import copy
import time
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer.errors import InvalidInput
from mercer.estimator.sample import FitData
from mercer.models import SVC, SVR, KernelRidge, KernelRidgeClassifier
from mercer.models.margin.folds import FOLDS
from mercer.selection.compass import CompassSearch
from mercer.selection.folds import FoldSearch
from mercer.selection.loo import LooSearch, as_columns, theta_of_ridge
from mercer.selection.result import TuneResult
from mercer.selection.ridge_evidence import EvidenceSearch
from mercer.selection.tune_errors import HeldOut, LeftOut, fold_list, warn_of_failures
from mercer.selection.tune_over import Plan, make_plan
from mercer.selection.tune_process import PROCESSES, as_plain_model, tune_process
from mercer.selection.tune_rows import TuneData, rows_that_fit, tune_data

__all__ = ["SMOOTH", "tune_one"]

#: Models whose leave-one-out error and evidence have exact gradients.
SMOOTH = (KernelRidge, KernelRidgeClassifier)


def tune_one(model: Any, X: Any, y: Any, sample_weight: Any, options: dict) -> TuneResult:
    """Tune a model by the search that suits it and the criterion; the model is not fitted yet."""
    criterion, wish = options["criterion"], options["over"]
    if isinstance(model, PROCESSES):
        if criterion == "evidence":
            return tune_process(model, X, y, sample_weight, options)
        model = as_plain_model(model, y)
    if isinstance(model, SMOOTH) and criterion != "cv":
        return _tune_ridge(model, X, y, sample_weight, options)
    usual = options["scoring"] is None and type(options["cv"]) is int and options["cv"] == FOLDS
    if not (isinstance(model, SVC | SVR) and criterion == "cv" and usual):
        return _tune_compass(model, X, y, sample_weight, options)
    if wish is None:
        return _tune_folds(model, X, y, sample_weight, options)
    seed = copy.deepcopy(options["random_state"])
    data = tune_data(model, X, y, sample_weight, options["max_points"], seed)
    plan = _plan(model, data, options)
    if any(axis.name != "C" or axis.kind == "choice" for axis in plan.axes):
        return _tune_compass(model, X, y, sample_weight, options)
    options = {**options, "fixed": plan.fixed, "bounds": plan.bounds}
    return _tune_folds(model, X, y, sample_weight, options)


def _plan(model: Any, data: TuneData, options: dict, rows: int | None = None) -> Plan:
    units = data.units if rows is None else replace(data.units, rows=rows)
    wish, fixed, bounds = options["over"], options["fixed"], options["bounds"]
    return make_plan(model, data.kernel, units, wish, fixed, bounds)


def _tune_ridge(model: Any, X: Any, y: Any, sample_weight: Any, options: dict) -> TuneResult:
    """Tune a ridge model by the gradient of its leave-one-out error, or of its evidence."""
    fresh = clone(model)
    data = fresh._prepare(X, y, sample_weight)
    offset, fixed, bounds = bool(fresh.fit_intercept), options["fixed"], options["bounds"]
    if options["over"] is not None:
        whole = TuneData(data.kernel, data.X, data.T, data.weights, False, len(data.T))
        plan = _plan(model, whole, options)
        odd = [axis.name for axis in plan.axes if axis.name != "alpha"]
        if odd:
            raise InvalidInput(
                f"tune: {odd[0]!r} has no gradient; give over a list of choices for it, or use "
                "criterion='cv'."
            )
        fixed, bounds = plan.fixed, plan.bounds
    likely = options["criterion"] == "evidence"
    kind = EvidenceSearch if likely else LooSearch
    limit, rng = options["max_time"], options["random_state"]
    most = rows_that_fit(data.kernel, data.X, options["max_points"])
    search = kind(data, offset, most, limit, rng)
    search.restrict(fixed, bounds, model.alpha)
    converged, message = search.run(options["max_iter"])
    kernel, alpha, score = search.best
    table = [{**row, "error": search.in_units(row["error"])} for row in search.table]
    tuned = clone(model).set_params(kernel=kernel, alpha=alpha)
    params, weighted = {"alpha": alpha, **_kernel_params(kernel)}, data.weights is not None
    used, given = len(search.T), np.count_nonzero(data.weights) if weighted else len(data.T)
    message += _part(used, int(given))
    criterion = "minus log evidence" if likely else TuneResult.criterion
    score = search.in_units(score)
    return TuneResult(tuned, score, params, table, converged, message, criterion, used)


def _tune_folds(model: Any, X: Any, y: Any, sample_weight: Any, options: dict) -> TuneResult:
    search = FoldSearch(model, X, y, sample_weight, options)
    converged, message = search.run()
    search.tally.warn(type(model).__name__, "in the folds of tune", "its errors are approximate")
    best = search.best
    tuned = clone(model).set_params(kernel=best.kernel, C=best.C)
    params = {"C": best.C, **_kernel_params(best.kernel)}
    criterion = "held-out mean squared error"
    if search.classifier:
        criterion = "share of held-out rows that are wrong"
    used = len(search.data.y)
    message += _part(used, search.given)
    return TuneResult(tuned, best.error, params, search.table, converged, message, criterion, used)


def _tune_compass(model: Any, X: Any, y: Any, sample_weight: Any, options: dict) -> TuneResult:
    """Tune a model by a compass search of its errors on folds, or with each row left out."""
    began, limit, rng = time.monotonic(), options["max_time"], options["random_state"]
    data = tune_data(model, X, y, sample_weight, options["max_points"], rng)
    errors: Any
    if options["criterion"] == "loo":
        errors, plan = LeftOut(model, data), _plan(model, data, options)
        errors.check(plan.axes)
    else:
        folds = fold_list(data, options["cv"], rng)
        plan = _plan(model, data, options, rows=1 + min(len(train) for train, _ in folds))
        errors = HeldOut(model, data, folds, options["scoring"])
    if plan.empty and not options["fixed"]:
        raise InvalidInput(
            f"tune: there is nothing to tune: {data.kernel!r} has no parameters to tune, and "
            f"{type(model).__name__} has no penalty; give over a dict of names to choices."
        )
    guess = None
    if np.count_nonzero(plan.box[:, 0] < plan.box[:, 1]) > 1:
        guess = _of_ridge(data, plan, limit, options["max_iter"])
    left = None if limit is None else max(0.0, limit - (time.monotonic() - began))
    search = CompassSearch(errors, data.kernel, plan, options["max_iter"], left, guess)
    errors.deadline = search.deadline
    converged, message = search.run()
    errors.warn(type(model).__name__)
    best = search.best
    warn_of_failures(search.lost())
    tuned = clone(model).set_params(kernel=best.kernel, **best.settings)
    inner = {f"kernel__{name}": value for name, value in best.inner.items()}
    params = {**best.settings, **inner, **_kernel_params(best.kernel)}
    message += _part(len(data), data.given)
    criterion, used = errors.criterion, len(data)
    return TuneResult(tuned, best.error, params, search.table, converged, message, criterion, used)


def _of_ridge(data: TuneData, plan: Plan, limit: float | None, max_iter: int) -> Any:
    """Return the θ that a ridge model would be tuned to, where y is numbers or classes."""
    try:
        if data.classifier:
            classes, labels = np.unique(np.asarray(data.y), return_inverse=True)
            T = as_columns(labels.ravel(), len(classes))
        else:
            T = np.asarray(data.y, dtype=float).reshape(len(data), -1)
    except (TypeError, ValueError):
        return None
    if not np.isfinite(T).all():
        return None
    ridge = FitData(data.kernel, data.X, T, data.weights, T.shape[1] == 1)
    return theta_of_ridge(ridge, plan.box, None if limit is None else 0.5 * limit, max_iter)


def _part(used: int, given: int) -> str:
    """Say on how many rows the parameters were chosen, where these are not all."""
    return f"; chosen on {used} of {given} rows" if used < given else ""


def _kernel_params(kernel: Any) -> dict[str, Any]:
    """Return what was tuned of a kernel, as ``set_params`` of the model takes it."""
    held = kernel.get_params()
    names = dict.fromkeys(name.partition("[")[0] for name in kernel.theta_names)
    return {f"kernel__{name}": held[name] for name in names}
