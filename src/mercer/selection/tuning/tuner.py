"""Tune kernel parameters and penalties of any model: leave-one-out, evidence, or folds."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils import check_random_state

from mercer.errors import InvalidInput, MemoryBudgetExceeded, MercerError
from mercer.estimator import TakesKernel, asks_centers, refuse_unread
from mercer.models import (
    SVC,
    SVR,
    KernelRidge,
    KernelRidgeClassifier,
    OneClassSVM,
    TableClassifier,
    TableRegressor,
)
from mercer.models.margin import FOLDS
from mercer.selection.tuning.compass import CompassSearch
from mercer.selection.tuning.errors import (
    HeldOut,
    LeftOut,
    TuneData,
    check_weighted,
    fold_list,
    rows_that_fit,
    tune_data,
    warn_of_failures,
)
from mercer.selection.tuning.margin import FoldSearch
from mercer.selection.tuning.process import PROCESSES, as_plain_model, tune_process
from mercer.selection.tuning.ridge import EvidenceSearch, LooSearch
from mercer.selection.tuning.what import (
    TunePlan,
    TuneResult,
    check_names,
    make_plan,
    read_over,
    split_choices,
)

# ---- Which search tunes a model by a criterion: a gradient, paths along C, or a compass ----


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


def _plan(model: Any, data: TuneData, options: dict, rows: int | None = None) -> TunePlan:
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
    tuned = clone(model).set_params(kernel=best.kernel, **best.settings)
    params = {**best.settings, **_kernel_params(best.kernel)}
    criterion = "held-out mean squared error"
    if search.classifier:
        criterion = "share of held-out rows that are wrong"
    used = len(search.rows)
    message += _part(used, search.rows.given)
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
    left = None if limit is None else max(0.0, limit - (time.monotonic() - began))
    search = CompassSearch(errors, data.kernel, plan, options["max_iter"], left, data)
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


def _part(used: int, given: int) -> str:
    """Say on how many rows the parameters were chosen, where these are not all."""
    return f"; chosen on {used} of {given} rows" if used < given else ""


def _kernel_params(kernel: Any) -> dict[str, Any]:
    """Return what was tuned of a kernel, as ``set_params`` of the model takes it."""
    held = kernel.get_params()
    names = dict.fromkeys(name.partition("[")[0] for name in kernel.theta_names)
    return {f"kernel__{name}": held[name] for name in names}


# ---- tune model ----


CRITERIA = ("loo", "evidence", "cv")


def tune(
    model: Any,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    over: Any = None,
    criterion: str | None = None,
    cv: Any = 5,
    scoring: Any = None,
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
    with `fixed` or `bounds`. ``criterion="evidence"`` maximises in the same way the density of y
    under y ~ N(b, s²(K + αW⁻¹)), s² chosen for each output and b integrated out with a flat prior
    where the model has an offset; of a classifier, that of its ±1 columns.

    `SVC`: minimises the share of rows that five stratified folds get wrong; of parameters with the
    same share the least held-out hinge loss decides, then the smallest C. For every kernel all
    folds and all C share one Gram matrix, each C starting from the solution of the one before:
    first C from 10⁻² to 10³ in units of 1/mean k(x, x), then around the best. A compass search
    moves all length scales together, then every parameter by itself, by factors that shrink from
    √3 to 1.1. A kernel of several parameters starts also from those that a ridge classifier would
    be tuned to. `SVR`: the same with the mean squared held-out error; C is in units of the standard
    deviation of y over mean k(x, x). ε stays as it is. Both are means over the folds, in which
    rows count by `sample_weight`; a `class_weight` counts in the fits, not in the error. A kernel
    costs one Gram matrix and five solutions for each C, eleven C at a start and five later; folds
    that cannot make it the best any more are left out.

    Gaussian processes: ``criterion="evidence"``, the usual one, runs the search of the model's own
    fit, with its bounds, priors and restarts, under `over`, `fixed`, `bounds` and `max_iter`. The
    model found holds what was found: its optimizer is None. With folds or ``loo()`` the noise is
    tuned like a penalty.

    All other models, and `SVC` and `SVR` with `cv`, `scoring` or more in `over`: the same compass
    search, on folds or with the model's own ``loo()``; penalties from a coarse grid at each start,
    then beside the best. Of parameters with the same error those tried first are kept. Weights
    count in the fits, and in scores that take weights.

    Parameters
    ----------
    model : KernelRidge, SVC, KernelLogisticRegression, TableRegressor or another model of mercer
        The model; not changed.
    X : collection of n points
        Training points.
    y : array of shape (n,) or (n, n_outputs)
        Targets or class labels.
    sample_weight : array of shape (n,), optional
        Weights, in the fits and in the error. In the evidence row i has noise of variance s²α/wᵢ,
        which is not repetition: rows given twice would prove that there is no noise. To
        `mercer.evidence`, which is told the noise, a weight is repetition.
    over : str, sequence of str or dict, optional
        What to tune; all else stays as it is. Names of kernel parameters, as in
        ``kernel.theta_names``, with or without ``kernel__`` in front, "kernel" for all of them, and
        parameters of the model such as "alpha", "C", "epsilon" or "n_neighbors". A dict says where
        to look: a pair (low, high), a list of choices, or None for the usual range. By default all
        kernel parameters and the penalty.
    criterion : {"loo", "evidence", "cv"}, optional
        What to minimise: the leave-one-out error (ridge models, Gaussian processes and neighbours,
        exact; models of regularised risk and support vectors, approximate), minus the log evidence
        (ridge models, Gaussian processes), or the error on held-out folds (all models). By default
        "evidence" for Gaussian processes, "loo" where it is exact, and "cv" for others, or with
        `cv` or `scoring`.
    cv : int, splitter or iterable, default=5
        Folds of ``criterion="cv"``; a number means shuffled folds, classes spread evenly.
    scoring : str or callable, optional
        A score of scikit-learn for the folds, of which minus the mean is minimised; by default the
        share of wrong rows, the mean squared error or, for quantiles, the pinball loss.
    max_iter : int, default=50
        Iterations of L-BFGS-B; for a compass search the kernels tried after the starts.
    max_points : int, default=2000
        Tune on at most so many rows, drawn at random, which `TuneResult` then says; the final fit
        uses all. Exact leave-one-out and evidence take fewer where the memory budget holds fewer.
    max_time : float, optional
        Seconds after which the best so far is taken; what is being evaluated then is finished.
    fixed : sequence of str, optional
        Parameters to leave as they are, by the same names as in `over`.
    bounds : dict of str to (low, high), optional
        Ranges of parameters that are tuned, by the same names.
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
    >>> likely = tune(KernelRidge("rbf"), X, y, over=["alpha"], criterion="evidence")
    >>> sorted(likely.params), likely.criterion
    (['alpha', 'kernel__length_scale'], 'minus log evidence')
    """
    refuse_unread(X, "tune", fits=False)
    options: dict[str, Any] = {
        "over": read_over(over),
        "criterion": criterion,
        "cv": cv,
        "scoring": scoring,
        "max_iter": max_iter,
        "max_points": max_points,
        "max_time": max_time,
        "fixed": fixed,
        "bounds": bounds,
        "random_state": random_state,
    }
    if isinstance(model, TableRegressor | TableClassifier):
        return _tune_table(model, X, y, sample_weight, options)
    _check_model(model)
    check_weighted(model, sample_weight)
    result = _tune_each(model, X, y, sample_weight, _checked(options))
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    result.model.fit(X, y, **weights)
    return result


def _check_model(model: Any) -> None:
    """Refuse what cannot be tuned, and say what can."""
    if isinstance(model, OneClassSVM):
        raise InvalidInput(
            "tune: OneClassSVM learns without y, so nothing tells better parameters from worse; "
            "choose nu, the share of outliers, and length_scale='median'."
        )
    if isinstance(model, TakesKernel) and hasattr(model, "predict"):
        return
    raise InvalidInput(
        f"tune: got a {type(model).__module__.partition('.')[0]} {type(model).__name__}; tune "
        "takes the classifiers and regressors of mercer, such as KernelRidge, SVC, SVR, "
        "KernelLogisticRegression, KernelNeighborsClassifier and TableRegressor. In front of a "
        "pipeline, tune on the transformed X."
    )


def _criterion(model: Any, options: dict) -> str:
    """Return the criterion asked for, or the usual one, if the model has it."""
    asked, scored = options["criterion"], options["scoring"] is not None
    has = ["cv"]
    choices = set(options["over"]) if isinstance(options["over"], Mapping) else set()
    whole = not asks_centers(model) and not choices & {"solver", "n_centers", "centers"}
    if whole and hasattr(model, "loo") and (is_classifier(model) or is_regressor(model)):
        has.insert(0, "loo")
    if whole and isinstance(model, (*SMOOTH, *PROCESSES)):
        has.insert(1, "evidence")
    if asked is None and not scored and isinstance(model, PROCESSES):
        usual = isinstance(options["cv"], int) and options["cv"] == FOLDS
        asked = "evidence" if usual else "cv"
    if asked is None and not scored:
        exact = isinstance(model, SMOOTH) or "n_neighbors" in model.get_params()
        asked = "loo" if "loo" in has and exact else "cv"
    asked = asked or "cv"
    if asked not in CRITERIA or asked not in has:
        raise InvalidInput(
            f"tune: criterion={asked!r}; {type(model).__name__} has "
            f"{' and '.join(map(repr, has))}. Exact leave-one-out is that of ridge models and "
            "neighbours, evidence that of ridge models and Gaussian processes; fits with centres "
            "have neither."
        )
    folds = options["cv"]
    if asked != "cv" and (scored or not (isinstance(folds, int) and folds == FOLDS)):
        given = f"scoring={options['scoring']!r}" if scored else f"cv={folds!r}"
        raise InvalidInput(
            f"tune: {given} is for held-out folds, and the criterion is {asked!r}; give "
            "criterion='cv', or leave it out."
        )
    return asked


def _tune_each(model: Any, X: Any, y: Any, sample_weight: Any, options: dict) -> TuneResult:
    """Tune the models that lists of choices make one after another, and take the best."""
    criterion = _criterion(model, options)
    options = {**options, "criterion": criterion}
    if options["over"] is None:
        return tune_one(model, X, y, sample_weight, options)
    smooth = isinstance(model, SMOOTH) and criterion != "cv"
    smooth = smooth or (isinstance(model, PROCESSES) and criterion == "evidence")
    cases, options["over"] = split_choices(model, options["over"], smooth)
    if cases == [{}]:
        return tune_one(model, X, y, sample_weight, options)
    chosen = [name for name in cases[0] if name != "kernel"]
    options["fixed"] = [*options["fixed"], *chosen]  # "kernel" in over would tune them again
    results: list[TuneResult] = []
    failures: list[tuple[dict[str, Any], Exception]] = []
    began = time.monotonic()
    for case in cases:
        spent, limit = time.monotonic() - began, options["max_time"]
        if results and limit is not None and spent > limit:
            late = "stopped by max_time"
            results[0] = replace(results[0], converged=False, message=late)
            break
        here = {**options, "random_state": copy.deepcopy(options["random_state"])}
        here["max_time"] = None if limit is None else max(0.0, limit - spent)
        case = {name: clone(value, safe=False) for name, value in case.items()}
        copies = {name: clone(value, safe=False) for name, value in case.items()}
        try:
            result = tune_one(clone(model).set_params(**copies), X, y, sample_weight, here)
        except MemoryBudgetExceeded:
            raise
        except MercerError as error:
            failures.append((case, error))
            continue
        shown = {name: _shown(value) for name, value in case.items()}
        table = [{**shown, **row} for row in result.table]
        results.append(replace(result, params={**case, **result.params}, table=table))
    if not results:
        raise failures[0][1]
    warn_of_failures(failures)
    return _best_of(results)


def _shown(value: Any) -> Any:
    """Return a choice as the table shows it."""
    return value if isinstance(value, int | float | str | np.number) else repr(value)


def _best_of(results: list[TuneResult]) -> TuneResult:
    """Return the best of several results, with the table of all."""
    best = min(results, key=lambda result: result.score)
    table = [row for result in results for row in result.table]
    stopped = [result.message for result in results if not result.converged]
    message = stopped[0] if stopped else best.message
    return replace(best, table=table, converged=not stopped, message=message)


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
    limits, cv = dict(options["bounds"] or {}), options["cv"]
    check_names(options["over"], names, limits)
    if isinstance(cv, Iterator):  # it is read once for each kernel of a list
        cv = list(cv)
    return {**options, "random_state": rng, "fixed": names, "bounds": limits, "cv": cv}


def _tune_table(model: Any, X: Any, y: Any, sample_weight: Any, options: dict) -> TuneResult:
    """Tune the kernel model that a table model has inside, then fit the table model with it."""
    inside = model._inside(X, y, sample_weight)
    scored = options["scoring"] is not None
    target = inside.target * inside.scale if scored and inside.scale != 1.0 else inside.target
    result = tune(inside.model, inside.Z, target, inside.weights, **options)
    penalty = {name: result.params[name] for name in ("alpha", "C") if name in result.params}
    tuned = clone(model).set_params(kernel=result.model.kernel_, **penalty)
    tuned.fit(X, y, sample_weight=sample_weight)
    unit = inside.scale * inside.scale
    if result.criterion == "minus log evidence":
        shift = (result.n_points or 0) * float(np.log(inside.scale))
        table = [{**row, "error": row["error"] + shift} for row in result.table]
        return replace(result, model=tuned, score=result.score + shift, table=table)
    if scored:
        return replace(result, model=tuned)
    table = [{**row, "error": row["error"] * unit} for row in result.table]
    return replace(result, model=tuned, score=result.score * unit, table=table)
