"""Tune kernel parameters and penalties of any model: leave-one-out, evidence, or folds."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor

from mercer.checks import Clock
from mercer.errors import InvalidInput, MemoryBudgetExceeded, MercerError, speaks
from mercer.estimator import TakesKernel, asks_centers, computing_where, refuse_unread
from mercer.models import (
    SVC,
    SVR,
    KernelRidge,
    KernelRidgeClassifier,
    OneClassSVM,
)
from mercer.selection.tuning.compass import tune_by_compass
from mercer.selection.tuning.errors import check_weighted, warn_of_failures
from mercer.selection.tuning.gradient import PROCESSES, keep_noise, tune_process, tune_ridge
from mercer.selection.tuning.margin import tune_margin
from mercer.selection.tuning.what import TuneOptions, TuneResult, read_over, split_choices
from mercer.threads import blas_for

#: Models that have searches of their own, by criterion, that of most use first; a compass search
#: by held-out folds or ``loo()`` does for all else.
SEARCHES: tuple[tuple[tuple, dict[str, Callable[..., TuneResult]]], ...] = (
    ((KernelRidge, KernelRidgeClassifier), {"loo": tune_ridge, "evidence": tune_ridge}),
    (PROCESSES, {"evidence": tune_process}),
    ((SVC, SVR), {"cv": tune_margin}),
)


def _searches(model: Any) -> dict[str, Callable[..., TuneResult]]:
    return next((own for kinds, own in SEARCHES if isinstance(model, kinds)), {})


def _tune_one(model: Any, X: Any, y: Any, sample_weight: Any, options: TuneOptions) -> TuneResult:
    """Tune a model by the search that suits it and the criterion; the model is not fitted yet."""
    search = _searches(model).get(options.criterion, tune_by_compass)
    return search(model, X, y, sample_weight, options)


@speaks("tune")
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
    tuned like a penalty. A noise that is a number stays, unless `over` or `bounds` name it.

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
    refuse_unread(X, fits=False)
    how = (criterion, cv, scoring, max_iter, max_points, max_time, fixed, bounds, random_state)
    options = TuneOptions(read_over(over), *how)
    if hasattr(model, "_inside"):  # a table model, which comes here itself for a kernel
        return _tune_table(model, X, y, sample_weight, options)
    _check_model(model)
    check_weighted(model, sample_weight)
    with computing_where(X), blas_for(X):
        result = _tune_each(model, X, y, sample_weight, options.checked())
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


def _criterion(model: Any, options: TuneOptions) -> str:
    """Return the criterion asked for, or the usual one, if the model has it."""
    asked, scored, own = options.criterion, options.scoring is not None, _searches(model)
    has = ["cv"]
    choices = set(options.over or ())
    whole = not asks_centers(model) and not choices & {"solver", "n_centers", "centers"}
    if whole and hasattr(model, "loo") and (is_classifier(model) or is_regressor(model)):
        has.insert(0, "loo")
    if whole and "evidence" in own:
        has.insert(1, "evidence")
    if asked is None and not scored:
        asked = next(iter(own), "loo" if "n_neighbors" in model.get_params() else "cv")
        if asked == "evidence" and not options.usual_folds:
            asked = "cv"
        if asked == "loo" and "loo" not in has:
            asked = "cv"
    asked = asked or "cv"
    if asked not in has:
        raise InvalidInput(
            f"tune: criterion={asked!r}; {type(model).__name__} has "
            f"{' and '.join(map(repr, has))}. Exact leave-one-out is that of ridge models and "
            "neighbours, evidence that of ridge models and Gaussian processes; fits with centres "
            "have neither."
        )
    if asked != "cv" and (scored or not options.usual_folds):
        given = f"scoring={options.scoring!r}" if scored else f"cv={options.cv!r}"
        raise InvalidInput(
            f"tune: {given} is for held-out folds, and the criterion is {asked!r}; give "
            "criterion='cv', or leave it out."
        )
    return asked


def _tune_each(model: Any, X: Any, y: Any, sample_weight: Any, options: TuneOptions) -> TuneResult:
    """Tune the models that lists of choices make one after another, and take the best."""
    criterion = _criterion(model, options)
    options = keep_noise(model, replace(options, criterion=criterion))
    if options.over is None:
        return _tune_one(model, X, y, sample_weight, options)
    smooth = criterion != "cv" and criterion in _searches(model)
    cases, rest = split_choices(model, options.over, smooth)
    options = replace(options, over=rest)
    if cases == [{}]:
        return _tune_one(model, X, y, sample_weight, options)
    chosen = [name for name in cases[0] if name != "kernel"]
    # "kernel" in over would tune them again
    options = replace(options, fixed=[*options.fixed, *chosen])
    results: list[TuneResult] = []
    failures: list[tuple[dict[str, Any], Exception]] = []
    clock = Clock(options.max_time)
    for case in cases:
        if results and clock.late:
            late = "stopped by max_time"
            results[0] = replace(results[0], converged=False, message=late)
            break
        seed = copy.deepcopy(options.random_state)
        here = replace(options, random_state=seed, max_time=clock.rest())
        case = {name: clone(value, safe=False) for name, value in case.items()}
        copies = {name: clone(value, safe=False) for name, value in case.items()}
        try:
            result = _tune_one(clone(model).set_params(**copies), X, y, sample_weight, here)
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


def _tune_table(model: Any, X: Any, y: Any, sample_weight: Any, options: TuneOptions) -> TuneResult:
    """Tune the kernel model that a table model has inside, then fit the table model with it."""
    inside = model._inside(X, y, sample_weight)
    scored = options.scoring is not None
    target = inside.target * inside.scale if scored and inside.scale != 1.0 else inside.target
    result = tune(inside.model, inside.Z, target, inside.weights, **vars(options))
    penalty = {name: result.params[name] for name in ("alpha", "C") if name in result.params}
    tuned = clone(model).set_params(kernel=result.model.kernel_, **inside.settled, **penalty)
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
