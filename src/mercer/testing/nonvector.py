"""Laws of estimators on data that are not vectors, which scikit-learn's own checks pass over."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import Pipeline

from mercer.engines.tiles import small_tiles
from mercer.errors import InvalidInput
from mercer.estimator.base import KernelEstimator
from mercer.estimator.sample import same_points
from mercer.features.prototypes import TakesPrototypes
from mercer.io import load, save
from mercer.settings import config
from mercer.testing import nonvector_answers, nonvector_refusals, nonvector_state, nonvector_targets
from mercer.testing.checks import require
from mercer.testing.nonvector_study import NonvectorStudy, alike, read_only

__all__ = ["check_nonvector_estimator", "nonvector_laws"]


def law_parameters(study: NonvectorStudy) -> None:
    """A clone has equal parameters and nothing learned; a fit changes no parameter."""
    given = study.given
    fresh = clone(given)
    require(repr(fresh) == repr(given), f"{given!r}: its clone is {fresh!r}")
    before, shown = dict(fresh.get_params(deep=False)), repr(fresh)
    model = study.fit(model=fresh)
    require(model is fresh, f"{shown}: fit returns a {type(model).__name__}, not the model itself")
    for name, value in before.items():
        require(getattr(model, name) is value, f"{shown}: fit replaced the parameter {name}")
    require(repr(model) == shown, f"{shown}: fit changed a parameter; it is now {model!r}")
    learned = sorted({n for n in vars(clone(model)) if n.endswith("_")})
    require(not learned, f"{shown}: the clone of a fitted model has {learned}")
    again = clone(given).set_params(**given.get_params(deep=False))
    require(repr(again) == repr(given), f"{shown}: set_params(**get_params()) changed it")


def law_inputs(study: NonvectorStudy) -> None:
    """Points, targets and weights are left as they were, and may be read-only."""
    X, new = study.rows(study.train), study.rows(study.new)
    y = deepcopy(study.targets(study.train))
    extra = {"sample_weight": study.rng.uniform(0.5, 2, len(study.train))}
    extra = extra if study.takes_weights else {}
    inputs = {"X": X, "new X": new, "y": y, "weights": extra}
    before = deepcopy(inputs)
    model = clone(study.estimator)
    model.fit(X, **extra) if y is None else model.fit(X, y, **extra)
    expected = study.answers(model, new)
    for name, got in inputs.items():
        same = _equal(study, got, before[name], points="X" in name)
        require(same, f"{model!r}: {name} was changed")
    X, new = study.frozen(study.train), study.frozen(study.new)
    extra = {name: read_only(values) for name, values in extra.items()}
    y = read_only(y) if isinstance(y, np.ndarray) else y
    try:
        model = clone(study.estimator)
        model.fit(X, **extra) if y is None else model.fit(X, y, **extra)
        got = study.answers(model, new)
    except ValueError as error:
        raise AssertionError(f"{model!r}: read-only arrays: {error}") from error
    alike(got, expected, 0, f"{model!r}: read-only arrays")


def law_copies(study: NonvectorStudy) -> None:
    """Pickled, or saved and loaded, a model answers with the same bits."""
    model = study.fit()
    expected = study.sayings(model)
    again = pickle.loads(pickle.dumps(model))
    alike(study.sayings(again), expected, 0, f"{model!r}: pickled")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mercer"
        try:
            save(model, path)
        except InvalidInput as error:
            raise AssertionError(f"{model!r}: {error}") from error
        again = load(path)
        require(repr(again) == repr(model), f"{model!r}: loaded as {again!r}")
        alike(study.sayings(again), expected, 0, f"{model!r}: saved and loaded")
        other = Path(folder) / "again.mercer"
        save(again, other)
        require(other.read_bytes() == path.read_bytes(), f"{model!r}: saved again, other bytes")


def law_repeatable(study: NonvectorStudy) -> None:
    """The same points give the same bits, also after another fit and on other threads."""
    expected = study.sayings(study.fit())
    alike(study.sayings(study.fit()), expected, 0, f"{study.estimator!r}: fitted again")
    used = study.fit(study.train[2:])
    alike(study.sayings(study.fit(model=used)), expected, 0, f"{study.estimator!r}: fitted anew")
    with small_tiles(25):
        answers = []
        for threads in (1, 2):
            with config(threads=threads):
                answers.append(study.sayings(study.fit()))
    alike(answers[1], answers[0], 1e-9, f"{study.estimator!r}: on two threads")
    alike(answers[0], expected, 1e-7, f"{study.estimator!r}: in small tiles")


def law_subsets(study: NonvectorStudy) -> None:
    """Points are judged one by one as in company, and in whatever order they come."""
    model = study.fit()
    everything = np.arange(study.n)
    expected = study.answers(model, study.rows(everything))
    parts = [study.answers(model, study.rows(part)) for part in ([0], everything[1:])]
    single = [study.answers(model, study.rows([i])) for i in everything[:6]]
    order = study.rng.permutation(study.n)
    turned = study.answers(model, study.rows(order))
    for name, values in expected.items():
        named = {name: values}
        got = {name: np.concatenate([part[name] for part in parts])}
        alike(got, named, 1e-9, f"{model!r}: in two batches")
        got = {name: np.concatenate([part[name] for part in single])}
        alike(got, {name: values[:6]}, 1e-9, f"{model!r}: one by one")
        alike({name: turned[name]}, {name: values[order]}, 1e-9, f"{model!r}: in another order")


def law_order(study: NonvectorStudy) -> None:
    """The order of the training points does not matter, unless the method is one of order."""
    if not study.any_order:
        return
    order = study.rng.permutation(len(study.train))
    expected, got = study.fit(), study.fit(study.train[order])
    message = f"{study.estimator!r}: training points in another order"
    alike(study.answers(got), study.answers(expected), 1e-7, message)
    if hasattr(expected, "labels_"):
        same = _partition(got.labels_) == _partition(expected.labels_[order])
        require(same, f"{message}: other clusters")


def law_weights(study: NonvectorStudy) -> None:
    """A weight of 2 is the point given twice, a weight of 0 the point left out."""
    if not study.takes_weights or not study.repeatable_weights:
        return
    weight = study.rng.integers(0, 3, len(study.train))
    weight[:4] = 1  # both classes stay
    weighted = study.fit(sample_weight=weight.astype(float))
    repeated = study.fit(np.repeat(study.train, weight))
    message = f"{study.estimator!r}: weight ≠ repetition"
    alike(study.answers(weighted), study.answers(repeated), 1e-7, message)
    ones = study.answers(study.fit(sample_weight=np.ones(len(study.train))))
    alike(ones, study.answers(study.fit()), 1e-8, f"{study.estimator!r}: weights of 1")


def law_forms(study: NonvectorStudy) -> None:
    """Lists, tuples, arrays of objects, columns and frames of any library mean the same points."""
    model = study.fit()
    expected = study.sayings(model)
    forms = dict(study.forms(study.new))
    for name, X in study.forms(study.train):
        new = forms.get(name)
        if new is None:
            continue  # text, say, with a point missing among the training points alone
        try:
            got = study.fit(rows=X)
            said = study.answers(got, new)
        except Exception as error:
            raise AssertionError(f"{model!r}: {name} is refused: {error}") from error
        said |= {"labels_": got.labels_} if "labels_" in expected else {}
        alike(said, expected, 0, f"{model!r}: {name}")
    alike(study.answers(model, new), study.answers(model), 0, f"{model!r}: {name}, new points only")


def law_columns(study: NonvectorStudy) -> None:
    """n_features_in_ and the names of columns are said of tables, and of nothing else."""
    model = study.fit()
    if not study.frame:
        said = [n for n in ("n_features_in_", "feature_names_in_") if hasattr(model, n)]
        require(not said, f"{model!r}: {said} of points that have no columns")
    elif type(study.X).__module__.startswith("pandas"):
        names = list(map(str, study.X.columns))
        count = getattr(model, "n_features_in_", None)
        require(count == len(names), f"{model!r}: n_features_in_ is {count}, not {len(names)}")
        got = list(getattr(model, "feature_names_in_", []))
        require(got == names, f"{model!r}: feature_names_in_ is {got}, not {names}")


def law_precomputed(study: NonvectorStudy) -> None:
    """Given the Gram matrix, an estimator says what it says given the points."""
    if not isinstance(study.estimator, KernelEstimator | TakesPrototypes):
        return
    fitted, rows = study.fit(), study.rows(study.train)
    model = clone(study.estimator)
    if getattr(model, "optimizer", None) is not None:  # judge the kernel that was found
        model.set_params(optimizer=None)
        if hasattr(fitted, "noise_"):
            model.set_params(noise=fitted.noise_)
    kernel = fitted.kernel_
    model.set_params(kernel="precomputed")
    study.fit(rows=kernel(rows), model=model)
    got = study.sayings(model, kernel(study.rows(study.new), rows))
    # What needs k(x, x) of new points is not asked of a matrix of values with training points.
    expected = {name: values for name, values in study.sayings(fitted).items() if name in got}
    alike(got, expected, 1e-7, f"{study.estimator!r}: precomputed ≠ kernel")


def law_selection(study: NonvectorStudy) -> None:
    """scikit-learn's splits, scores, pipelines and grid searches take the points as they are."""
    X, y = study.rows(np.arange(study.n)), study.targets(np.arange(study.n))
    model = study.fit()
    expected = study.answers(model)
    pipeline = Pipeline([("model", clone(study.estimator))])
    study.fit(model=pipeline)
    alike(study.answers(pipeline), expected, 0, f"{model!r}: in a pipeline")
    if hasattr(model, "score"):
        new, truth = study.rows(study.new), study.targets(study.new)
        alone, inside = (m.score(new, truth) for m in (model, pipeline))
        require(alone == inside, f"{model!r}: scores {alone}, in a pipeline {inside}")
    if y is not None:
        left, right, *_ = train_test_split(X, y, random_state=0)
        both = len(left) + len(right)
        require(both == study.n, f"{model!r}: train_test_split leaves {both} of {study.n} points")
    if hasattr(model, "fit_predict") and hasattr(model, "labels_"):
        got = clone(study.estimator).fit_predict(study.rows(study.train))
        require(np.array_equal(got, model.labels_), f"{model!r}: fit_predict is not labels_")
    if hasattr(model, "fit_transform"):
        rows = study.rows(study.train)
        got = clone(study.estimator).fit_transform(rows, study.targets(study.train))
        there = {"transform": model.transform(rows)}
        alike({"transform": got}, there, 1e-7, f"{model!r}: fit_transform")
    if not hasattr(model, "score"):
        return
    grid, options = _grid(study), {"cv": 2, "error_score": "raise"}
    if not grid:
        _check_scores(model, cross_val_score(clone(study.estimator), X, y, **options))
        return
    search = GridSearchCV(clone(study.estimator), grid, **options).fit(X, y)
    _check_scores(model, search.cv_results_["mean_test_score"])
    best = clone(study.estimator).set_params(**search.best_params_)
    best = best.fit(X) if y is None else best.fit(X, y)
    got = study.answers(search.best_estimator_)
    alike(got, study.answers(best), 0, f"{model!r}: the best of a grid search")


# ---------------------------------------------------------------------------------------- parts
def _equal(study: NonvectorStudy, got: Any, was: Any, *, points: bool) -> bool:
    if points and study.kernel is not None:
        domain = study.kernel.domain
        return same_points(domain, domain.check(got), domain.check(was))
    if isinstance(got, dict):
        return all(np.array_equal(got[name], was[name]) for name in was)
    return got is was is None or np.array_equal(np.asarray(got), np.asarray(was))


def _partition(labels: np.ndarray) -> frozenset:
    return frozenset(frozenset(np.flatnonzero(labels == c).tolist()) for c in np.unique(labels))


def _check_scores(model: Any, scores: np.ndarray) -> None:
    require(np.isfinite(scores).all(), f"{model!r}: scores {scores}")


def _grid(study: NonvectorStudy) -> dict[str, list]:
    """Return two values of a parameter of the kernel that is a number."""
    for name, value in study.estimator.get_params().items():
        if not name.startswith("kernel__") or isinstance(value, bool):
            continue
        if isinstance(value, int) and value > 0:
            return {name: [value, value + 1]}
        if isinstance(value, float) and 0 < value <= 1:
            return {name: [value, value / 2]}
    return {}


_LAWS = (
    law_parameters,
    law_inputs,
    law_copies,
    law_repeatable,
    law_subsets,
    law_order,
    law_weights,
    *nonvector_state.LAWS,
    *nonvector_targets.LAWS,
    *nonvector_answers.LAWS,
    *nonvector_refusals.LAWS,
    law_forms,
    law_columns,
    law_precomputed,
    law_selection,
)


def nonvector_laws() -> list[tuple[str, Callable[..., None]]]:
    """Return (name, function) for each law; ``function(estimator, X, y=None, rng=0)``.

    Examples
    --------
    >>> import mercer
    >>> from mercer.testing import nonvector_laws
    >>> words = ["cat", "car", "bat", "bar", "tar", "rat", "art", "arc"]
    >>> common = mercer.FromFunction(lambda s, t: float(len(set(s) & set(t))))
    >>> dict(nonvector_laws())["subsets"](mercer.KernelRidge(common), words)
    """
    return [(law.__name__.removeprefix("law_"), _studied(law)) for law in _LAWS]


def _studied(law: Callable[[NonvectorStudy], None]) -> Callable[..., None]:
    def run(estimator: Any, X: Any, y: Any = None, rng: Any = 0) -> None:
        study = NonvectorStudy(estimator, X, y, rng)
        try:
            law(study)
        except AssertionError:
            raise
        except Exception as error:
            kind = type(error).__name__
            raise AssertionError(f"{study.given!r}: {kind}: {error}") from error

    run.__name__, run.__doc__ = law.__name__, law.__doc__
    return run


def check_nonvector_estimator(estimator: Any, X: Any, y: Any = None, rng: Any = 0) -> None:
    """Raise AssertionError, naming the law, unless an estimator is sound on data of this kind.

    scikit-learn's ``check_estimator`` hands over arrays of numbers only. These laws are its
    counterpart for strings, graphs, bags and tables of mixed columns: clone and parameters, inputs
    left alone, pickling and model files, same bits twice and on other threads, points judged one
    by one as in company, order of the training points, weight = repetition, scikit-learn's checks
    that ask for no data, state that questions do not change, targets and labels of every type,
    answers that fit together, two points told apart, NotFittedError, refusals that name what is
    wrong and leave an earlier fit alone, one point, lists = tuples = arrays = columns = frames,
    columns counted where there are some, the Gram matrix in place of points, and scikit-learn's
    splits, scores, pipelines and grid searches. What the kernel itself takes need not be refused.

    Parameters
    ----------
    estimator : estimator or EstimatorExample
        Any estimator, not fitted.
    X : collection of points
        Eight points or more of the kind that its kernel takes, no two pairs of them exactly as far
        apart if that can be helped: rounding decides where a method meets a tie.
    y : array of shape (n,), optional
        Targets; made up when the estimator needs some and none are given.
    rng : Generator or int, default=0
        Source of randomness.

    Examples
    --------
    >>> import mercer
    >>> from mercer.testing import check_nonvector_estimator
    >>> frame = {"age": [31.0, 47, 25, 62, 53, 38, 44, 29], "dose": [1.0, 2, 2, 1, 3, 1, 2, 3]}
    >>> kernel = mercer.RBF(10.0).on("age") * mercer.Linear().on("dose")
    >>> check_nonvector_estimator(mercer.KernelRidge(kernel), frame)
    """
    for name, law in nonvector_laws():
        try:
            law(estimator, X, y, rng)
        except AssertionError as error:
            raise AssertionError(f"law {name!r} is broken. {error}") from error
