"""Laws of estimators on data that are not vectors, which scikit-learn's own checks pass over."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from inspect import signature
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.base import clone, is_classifier, is_clusterer, is_outlier_detector, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from mercer.domains import same_points
from mercer.engines import small_tiles
from mercer.settings import config
from mercer.testing.checks import agree, obey, require, told
from mercer.testing.examples import PointStudy, alike, as_example, read_only
from mercer.testing.laws import common, refusals

# ---- What estimators hold: conventions of their classes, and state that only a fit may change ----


#: Checks of scikit-learn that ask for no data, so that they judge kernels on any points.
_WITHOUT_DATA = (
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
)


def law_conventions(study: PointStudy) -> None:
    """The checks of scikit-learn that ask for no data hold; y is the second argument everywhere."""
    from sklearn.utils import estimator_checks  # heavy, and needed here only

    model, name = study.given, type(study.given).__name__
    for check in _WITHOUT_DATA:
        run = getattr(estimator_checks, check, None)  # an older release has not all of them
        try:
            run(name, clone(model)) if run else None
        except Exception as error:
            raise AssertionError(f"{model!r}: scikit-learn's {check}: {error}") from error
    tags = get_tags(model)
    for kind, said in (("classifier", is_classifier(model)), ("regressor", is_regressor(model))):
        told = getattr(tags, f"{kind}_tags") is not None
        require(told or not said, f"{model!r}: a {kind} without {kind}_tags")
    for method in ("fit", "score", "partial_fit", "fit_predict", "fit_transform"):
        names = list(signature(getattr(model, method, law_conventions)).parameters)
        names = [n for n in names if n != "self"]  # available_if makes functions of methods
        second = names[1] if len(names) > 1 else None
        require(
            second in ("y", "Y") or not hasattr(model, method),
            f"{model!r}: {method}{tuple(names)} has no y as its second argument",
        )


def law_state(study: PointStudy) -> None:
    """A fit alone changes a model, and what it adds ends in an underscore."""
    model = clone(study.estimator)
    before = set(vars(model))
    if get_tags(model).requires_fit:
        require(not _is_fitted(model), f"{model!r}: check_is_fitted holds before a fit")
    study.fit(model=model)
    require(_is_fitted(model), f"{model!r}: check_is_fitted fails after a fit")
    public = {n for n in vars(model) if not n.startswith("_") and not n.endswith("_")}
    added = sorted(public - before)
    require(not added, f"{model!r}: fit added {added}; what is learned ends in an underscore")
    _check_iterations(model)
    known = dict(vars(model))
    expected = study.answers(model)
    if hasattr(model, "score"):
        model.score(study.rows(study.new), study.targets(study.new))
    now = vars(model)
    other = sorted(n for n in known.keys() | now.keys() if known.get(n) is not now.get(n))
    require(not other, f"{model!r}: questions changed {other}")
    alike(study.answers(model), expected, 0, f"{model!r}: asked again")


def _is_fitted(model: Any) -> bool:
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def _check_iterations(model: Any) -> None:
    limited = "max_iter" in model.get_params(deep=False)
    count = getattr(model, "n_iter_", None)
    # A transformer may find its answer in a single step, whatever max_iter allows.
    counts = not limited or hasattr(model, "transform") or count is not None
    require(counts, f"{model!r}: max_iter without n_iter_")
    if count is not None:
        count = np.asarray(count)
        whole = count.dtype.kind in "iu" and (count >= (1 if limited else 0)).all()
        require(whole, f"{model!r}: n_iter_ is {count}; rounds are counted from 1")


# ---- What fitted estimators say of points that are not vectors: their answers fit together ----


# Numbers nearer than this are a tie, which a model may break as it likes.
_TIE = 1e-8


def law_answers(study: PointStudy) -> None:
    """Labels, values, probabilities, clusters and scores of one model agree with each other."""
    model = study.fitted()
    everything = study.rows(np.arange(study.n))
    said = study.answers(model, everything)
    if is_classifier(model):
        _check_classifier(model, said, everything)
    elif is_outlier_detector(model):
        _check_outliers(study, model, said)
    elif is_regressor(model):
        got = said["predict"]
        numbers = got.dtype.kind == "f" and np.isfinite(got).all() and len(got) == study.n
        require(numbers, f"{model!r}: predict gives {got.dtype} of shape {got.shape}")
    if is_clusterer(model):
        _check_clusters(study, model)
    if study.supervised and hasattr(model, "score"):
        _check_score(study, model, everything, said["predict"])


def law_learns(study: PointStudy) -> None:
    """Two points, six times each, are told apart."""
    pair = _far_apart(study)
    if pair is None:
        return
    index, two = np.repeat(pair, 6), study.rows(pair)
    model = clone(study.estimator)
    tags = get_tags(model)
    if is_classifier(model) and not tags.classifier_tags.poor_score:
        said = model.fit(study.rows(index), np.repeat(["first", "second"], 6)).predict(two)
        require(said.tolist() == ["first", "second"], f"{model!r}: of two points it says {said}")
    elif is_regressor(model) and not tags.regressor_tags.poor_score:
        y = np.repeat([-1.0, 1.0], 6)
        first, second = model.fit(study.rows(index), y).predict(two)
        score = model.score(study.rows(index), y)
        message = f"{model!r}: of -1 and 1 it says {first:.3g} and {second:.3g}, score {score:.3g}"
        require(np.all(first < second) and score > 0, message)
    elif is_clusterer(model) and "n_clusters" in model.get_params(deep=False):
        labels = model.set_params(n_clusters=2).fit(study.rows(index)).labels_
        apart = len(set(labels[:6])) == len(set(labels[6:])) == 1 and labels[0] != labels[6]
        require(apart, f"{model!r}: two points are the clusters {labels.tolist()}")
        said = model.predict(two) if hasattr(model, "predict") else labels[[0, 6]]
        require(np.array_equal(said, labels[[0, 6]]), f"{model!r}: of two points it says {said}")


# ---------------------------------------------------------------------------------------- parts
def _far_apart(study: PointStudy) -> np.ndarray | None:
    """Return the training points of the largest distance, or None where all of them are alike."""
    kernel = study.kernel
    if kernel is None:
        return study.train[[0, -1]]
    rows = study.rows(study.train)
    K = np.asarray(kernel.fit_params(rows)(rows), dtype=float)
    squares = np.diag(K)[:, None] + np.diag(K) - 2 * K
    i, j = np.unravel_index(int(squares.argmax()), squares.shape)
    return study.train[[i, j]] if squares[i, j] > 0.1 * np.diag(K).max() else None


def _check_classifier(model: Any, said: dict[str, np.ndarray], X: Any) -> None:
    classes, labels = model.classes_, said["predict"]
    values, chances = said.get("decision_function"), said.get("predict_proba")
    if values is not None:
        two = len(classes) == 2
        shape = (len(labels),) if two else (len(labels), len(classes))
        require(values.shape == shape, f"{model!r}: decision_function has shape {values.shape}")
        values = np.column_stack([-values, values]) if two else values
        _check_largest(model, classes, labels, values, "decision_function")
    if chances is None:
        return
    require(chances.shape == (len(labels), len(classes)), f"{model!r}: predict_proba is no table")
    require((chances >= 0).all(), f"{model!r}: predict_proba has negative entries")
    agree(chances.sum(1), np.ones(len(labels)), 1e-9, f"{model!r}: sums of probabilities")
    _check_largest(model, classes, labels, chances, "predict_proba")
    if values is not None and len(classes) == 2:
        # Averaged over its uncertainty, a chance is not quite a function of the value.
        like = spearmanr(chances[:, 1].round(10), values[:, 1].round(10)).statistic
        require(not like < 0.8, f"{model!r}: predict_proba falls where decision_function rises")
    if hasattr(model, "predict_log_proba"):
        with np.errstate(divide="ignore"):
            logs = np.exp(model.predict_log_proba(X))
        agree(logs, chances, 1e-9, f"{model!r}: predict_log_proba")


def _check_largest(
    model: Any, classes: np.ndarray, labels: np.ndarray, values: np.ndarray, what: str
) -> None:
    """The label is the class of the largest value, where that is no tie."""
    low, high = np.sort(values, axis=1)[:, -2:].T
    clear = high - low > _TIE * max(1.0, float(np.abs(values).max()))
    same = labels[clear] == classes[values.argmax(1)][clear]
    require(same.all(), f"{model!r}: predict is not the largest of {what}")
    moves = len(values) < 2 or np.ptp(values, axis=0).max() > 0
    require(moves or len(set(labels)) == 1, f"{model!r}: {what} is the same for all points")


def _check_outliers(study: PointStudy, model: Any, said: dict[str, np.ndarray]) -> None:
    labels, values = said["predict"], said["decision_function"]
    signs = labels.dtype.kind == "i" and set(labels.tolist()) <= {-1, 1}
    require(signs, f"{model!r}: predicts {sorted(set(labels.tolist()))}; legal are -1 and 1")
    clear = np.abs(values) > _TIE
    same = np.array_equal(labels[clear], np.where(values >= 0, 1, -1)[clear])
    require(same, f"{model!r}: predict is not the sign of decision_function")
    agree(
        values, said["score_samples"] - model.offset_, 1e-9, f"{model!r}: score_samples − offset_"
    )
    got = clone(study.estimator).fit_predict(study.rows(study.train))
    clear = clear[study.train]
    same = np.array_equal(got[clear], labels[study.train][clear])
    require(same, f"{model!r}: fit_predict is not fit and predict")


def _check_clusters(study: PointStudy, model: Any) -> None:
    labels = np.asarray(model.labels_)
    require(labels.shape == study.train.shape, f"{model!r}: labels_ has shape {labels.shape}")
    require(labels.dtype.kind == "i", f"{model!r}: labels_ are {labels.dtype}, not whole numbers")
    known = np.unique(labels)
    first = int(known[0])
    rising = first in (-1, 0) and np.array_equal(known, np.arange(first, first + len(known)))
    require(rising, f"{model!r}: labels_ are {known.tolist()}; clusters are counted from 0")
    most = getattr(model, "n_clusters", None)
    if isinstance(most, int | np.integer):
        require(known[-1] < most, f"{model!r}: labels_ has more clusters than n_clusters")
    if hasattr(model, "predict"):
        # An extension to new points may see the border between two clusters a little otherwise.
        said = model.predict(study.rows(study.train))
        same = set(said.tolist()) <= {-1, *known.tolist()} and (said == labels).mean() > 0.5
        require(same, f"{model!r}: predict of the training points is not labels_")


def _check_score(study: PointStudy, model: Any, X: Any, said: np.ndarray) -> None:
    """A classifier is judged by accuracy; of any regressor the truth scores 1, and less is less."""
    if is_classifier(model):
        y = study.rng.permutation(study.targets(np.arange(study.n)))  # some of them wrong
        weights = study.rng.uniform(0.5, 2.0, study.n)
        for extra in ({}, {"sample_weight": weights}):
            got, expected = model.score(X, y, **extra), accuracy_score(y, said, **extra)
            agree(got, expected, 1e-12, f"{model!r}: score is not the accuracy")
    elif said.ndim == 1 and np.ptp(said) > 0:
        right, wrong = model.score(X, said), model.score(X, said[::-1] + np.arange(len(said)))
        right_and_wrong = abs(right - 1) < 1e-9 and wrong < right
        message = f"{model!r}: the truth has the score {right:.3g}, something else {wrong:.3g}"
        require(right_and_wrong, message)


# ---- nonvector ----


def law_parameters(study: PointStudy) -> None:
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


def law_inputs(study: PointStudy) -> None:
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


def law_copies(study: PointStudy) -> None:
    """Pickled, or saved and loaded, a model answers with the same bits."""
    common.law_pickled(study)
    common.law_file(study)


def law_repeatable(study: PointStudy) -> None:
    """The same points give the same bits, also after another fit and on other threads."""
    common.law_repeatable(study)
    with small_tiles(25):
        answers = []
        for threads in (1, 2):
            with config(threads=threads):
                answers.append(study.sayings(study.fit()))
    alike(answers[1], answers[0], 1e-9, f"{study.estimator!r}: on two threads")
    expected = study.sayings(study.fitted())
    alike(answers[0], expected, 1e-7, f"{study.estimator!r}: in small tiles")


def law_subsets(study: PointStudy) -> None:
    """Points are judged one by one as in company, and in whatever order they come."""
    model = study.fitted()
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


def law_forms(study: PointStudy) -> None:
    """Lists, tuples, arrays of objects, columns and frames of any library mean the same points."""
    model = study.fitted()
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


def law_columns(study: PointStudy) -> None:
    """n_features_in_ and the names of columns are said of tables, and of nothing else."""
    model = study.fitted()
    if not study.frame:
        said = [n for n in ("n_features_in_", "feature_names_in_") if hasattr(model, n)]
        require(not said, f"{model!r}: {said} of points that have no columns")
    elif type(study.X).__module__.startswith("pandas"):
        names = list(map(str, study.X.columns))
        count = getattr(model, "n_features_in_", None)
        require(count == len(names), f"{model!r}: n_features_in_ is {count}, not {len(names)}")
        got = list(getattr(model, "feature_names_in_", []))
        require(got == names, f"{model!r}: feature_names_in_ is {got}, not {names}")


def law_selection(study: PointStudy) -> None:
    """scikit-learn's splits, scores, pipelines and grid searches take the points as they are."""
    X, y = study.rows(np.arange(study.n)), study.targets(np.arange(study.n))
    model = study.fitted()
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
def _equal(study: PointStudy, got: Any, was: Any, *, points: bool) -> bool:
    if points and study.kernel is not None:
        domain = study.kernel.domain
        return same_points(domain, domain.check(got), domain.check(was))
    if isinstance(got, dict):
        return all(np.array_equal(got[name], was[name]) for name in was)
    return got is was is None or np.array_equal(np.asarray(got), np.asarray(was))


def _check_scores(model: Any, scores: np.ndarray) -> None:
    require(np.isfinite(scores).all(), f"{model!r}: scores {scores}")


def _grid(study: PointStudy) -> dict[str, list]:
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
    common.law_order,
    common.law_weights,
    law_conventions,
    law_state,
    refusals.law_containers,
    refusals.law_targets,
    refusals.law_labels,
    law_answers,
    law_learns,
    refusals.law_not_fitted,
    refusals.law_refusals,
    refusals.law_one_point,
    law_forms,
    law_columns,
    common.law_precomputed,
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
    return told(_LAWS, _judge)


def _judge(law: Callable, estimator: Any, X: Any, y: Any = None, rng: Any = 0) -> None:
    study = PointStudy(estimator, X, y, rng)
    try:
        law(study)
    except AssertionError:
        raise
    except Exception as error:
        kind = type(error).__name__
        raise AssertionError(f"{study.given!r}: {kind}: {error}") from error


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
    obey(nonvector_laws(), as_example(estimator), X, y, rng)
