"""Gaussian processes in `tune`: by their own evidence, or as plain models that folds compare."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer.checks import bare_name, entries
from mercer.errors import InvalidInput, NotConverged
from mercer.models import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    SparseGaussianProcessRegressor,
)
from mercer.models.gp import START
from mercer.selection.tuning.errors import TuneData, tune_data
from mercer.selection.tuning.what import TuneResult, make_plan

#: Models that have an evidence and a search of their own.
PROCESSES = (GaussianProcessRegressor, GaussianProcessClassifier, SparseGaussianProcessRegressor)


def tune_process(model: Any, X: Any, y: Any, sample_weight: Any, options: dict) -> TuneResult:
    """Tune a Gaussian process by the search of its own fit; the model is not fitted yet."""
    if options["max_time"] is not None:
        raise InvalidInput(
            f"tune: max_time={options['max_time']!r}; the evidence of {type(model).__name__} has "
            "no limit of time. Give max_iter or max_points, or use criterion='cv'."
        )
    data = tune_data(model, X, y, sample_weight, options["max_points"], options["random_state"])
    searching = clone(model).set_params(optimizer="lbfgs", max_iter=max(1, options["max_iter"]))
    searching.set_params(**_restrictions(model, data, options))
    if data.rows is None:
        points, targets, weights = X, y, sample_weight
    else:
        points, targets, weights = data.X, data.y, data.weights
        if _has_vector(model):
            searching.set_params(noise=np.asarray(model.noise)[data.rows])
    given = {} if weights is None else {"sample_weight": weights}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # the result says it
        searching.fit(points, targets, **given)
    return _result(model, searching, data)


def _restrictions(model: Any, data: TuneData, options: dict) -> dict[str, Any]:
    """Return what the search holds and where it looks, from the model and from `tune`."""
    wish, fixed, bounds = options["over"], list(options["fixed"]), dict(options["bounds"])
    own = [model.fixed] if isinstance(model.fixed, str) else list(model.fixed or ())
    names = data.kernel.theta_names
    if "noise" in fixed and isinstance(model.noise, str):
        raise InvalidInput(
            f"tune: fixed holds 'noise', which is {model.noise!r}; give {type(model).__name__} the "
            "variance of the noise as a number."
        )
    plan = make_plan(model, data.kernel, data.units, wish, fixed, bounds)
    ranges = {name: span for name, span in (wish or {}).items() if isinstance(span, tuple)}
    held = {*fixed, *own}
    if wish is not None:  # all else stays as it is; a noise to be fitted is fitted
        held = {f"kernel__{n}" if n in names else n for n in plan.fixed}
        if isinstance(getattr(model, "noise", None), str):
            held.discard("noise")
    legal = {"kernel", "noise"} if "noise" in model.get_params() else {"kernel"}
    held = {n for n in held if n in legal or entries(n, names)}
    limits = {**dict(model.bounds or {}), **bounds, **ranges}
    bare = {bare_name(n) for n in held}
    inside = {n: pair for n, pair in limits.items() if bare_name(n) not in bare}
    return {"fixed": tuple(sorted(held)), "bounds": inside or None}


def _result(model: Any, found: Any, data: TuneData) -> TuneResult:
    search, kernel = found.search_, found.kernel_
    changes: dict[str, Any] = {"kernel": kernel, "optimizer": None}
    params: dict[str, Any] = {}
    if "noise" in found.get_params() and not _has_vector(model):
        changes["noise"] = params["noise"] = found.noise_
    if isinstance(getattr(model, "inducing", None), str) and model.inducing == "optimize":
        changes["inducing"] = found.inducing_points_
    tuned = clone(model).set_params(**changes)
    held = kernel.get_params()
    for name in dict.fromkeys(name.partition("[")[0] for name in kernel.theta_names):
        params[f"kernel__{name}"] = held[name]
    criterion, score = "minus log evidence", -float(found.log_marginal_likelihood_value_)
    if search is None:
        table = [{**_flat(params), "error": score}]
        message, converged = "one evaluation: nothing was left to choose", True
    else:
        names = found.theta_names_
        table = [
            {
                **dict(zip(names, map(float, np.exp(row[:-1])), strict=True)),
                "error": -float(row[-1]),
            }
            for row in search.tried
        ]
        message, converged = search.message, search.converged
        if model.priors:
            criterion, score = "minus log evidence and log priors", -float(search.value)
    if len(data) < data.given:
        message += f"; chosen on {len(data)} of {data.given} rows"
    return TuneResult(tuned, score, params, table, converged, message, criterion, len(data))


def as_plain_model(model: Any, y: Any) -> Any:
    """Return a process that keeps its parameters in a fit, so that folds can compare them.

    Its noise becomes a number, which is then a parameter like a penalty.
    """
    held = clone(model).set_params(optimizer=None)
    if "noise" not in held.get_params():
        return held
    if _has_vector(model):
        raise InvalidInput(
            f"tune: {type(model).__name__} with a noise for each row is tuned by "
            "criterion='evidence'; for folds give one noise, and the rows weights."
        )
    if isinstance(held.noise, str):
        spread = float(np.var(np.asarray(y, dtype=float), axis=0).mean())
        held.set_params(noise=START * spread if 0 < spread < np.inf else START)
    return held


def _flat(params: dict[str, Any]) -> dict[str, Any]:
    """Return parameters by the names that the rows of a table have."""
    return {name.removeprefix("kernel__"): value for name, value in params.items()}


def _has_vector(model: Any) -> bool:
    return np.ndim(getattr(model, "noise", 0.0)) > 0
