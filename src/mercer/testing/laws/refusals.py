"""What estimators must refuse of data that are not vectors, and how they must say so."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.utils import get_tags

from mercer.domains import Table
from mercer.errors import InvalidInput, MercerError
from mercer.testing.checks import require
from mercer.testing.examples import QUESTIONS, PointStudy, alike, containers

#: Words of scikit-learn's complaints about targets.
TARGETS = r"\by\b|samples|target|label"


def law_not_fitted(study: PointStudy) -> None:
    """Before a fit every question is answered with NotFittedError."""
    fresh = clone(study.estimator)
    if not get_tags(fresh).requires_fit:  # a process knows its prior
        return
    for question in QUESTIONS:
        try:
            ask = getattr(fresh, question)
        except AttributeError:
            continue
        try:
            ask(study.rows(study.new))
        except NotFittedError:
            continue
        except Exception as error:
            raise AssertionError(
                f"{fresh!r}: {question} before fit raises {type(error).__name__}: {error}"
            ) from error
        raise AssertionError(f"{fresh!r}: {question} answers before fit")


def law_refusals(study: PointStudy) -> None:
    """What is no collection of points is refused by name, and an earlier fit survives it."""
    model = study.fitted()
    expected = study.sayings(model)
    X, y = study.rows(study.train), study.targets(study.train)
    question = next(iter(study.answers(model)), None)
    wrong_points = list(_wrong_points(study))
    for what, wrong in wrong_points:
        if not _taken(study, wrong):
            refused(study, partial(model.fit, wrong, y), f"fit on {what}")
    for what, wrong in [*wrong_points, *_other_columns(study, model)]:
        if question is not None and not _taken(study, wrong, X):
            refused(study, partial(getattr(model, question), wrong), f"{question} on {what}")
    if study.supervised:
        for what, wrong in (("short", y[:-1]), ("long", np.append(y, y[0])), ("None", None)):
            refused(study, partial(model.fit, X, wrong), f"fit where y is {what}", TARGETS)
    if study.takes_weights:
        _refuses_weights(study, model)
    alike(study.sayings(model), expected, 0, f"{model!r}: after fits that were refused")
    if hasattr(model, "partial_fit"):
        _refuses_batches(study, wrong_points)


def law_one_point(study: PointStudy) -> None:
    """One point alone is fitted, or refused by name; repeated points are nothing special."""
    for index in (study.train[:1], np.repeat(study.train[:4], 3)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = study.fit(index)
        except ValueError as error:
            told = (
                _named(study, error)
                if isinstance(error, MercerError)
                else re.search("class|sample|point", str(error))
            )
            count = len(set(index))
            require(told, f"{study.estimator!r}: of {count} points, in words of nobody: {error}")
            continue
        for name, values in study.answers(model).items():
            finite = values.dtype.kind not in "f" or np.isfinite(values).all()
            require(finite, f"{model!r}: fitted to {len(set(index))} points, {name} is not finite")


# ---------------------------------------------------------------------------------------- parts
def refused(study: PointStudy, call: Callable[[], Any], what: str, words: str = "") -> None:
    """Require InvalidInput with a message that begins with its owner.

    Where ``words`` is given, a ValueError of scikit-learn's that has one of them will do: an author
    may check targets and weights by its functions.
    """
    error = _raised(study, call, what)
    if isinstance(error, InvalidInput):
        require(_named(study, error), f"{study.estimator!r}: {what}: no owner in {str(error)!r}")
    elif not (words and re.search(words, str(error))):
        name = type(error).__name__
        raise AssertionError(f"{study.estimator!r}: {what} raises {name}: {error}") from error


def _raised(study: PointStudy, call: Callable[[], Any], what: str) -> ValueError:
    """Return the ValueError that a call raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except ValueError as error:
        return error
    except Exception as error:
        name = type(error).__name__
        raise AssertionError(f"{study.estimator!r}: {what} raises {name}: {error}") from error
    raise AssertionError(f"{study.estimator!r}: {what} is not refused")


def _taken(study: PointStudy, wrong: Any, known: Any = None) -> bool:
    """Whether the kernel itself takes a collection, so that no model need refuse it.

    A series may be a row of numbers, a kernel with missing values takes None, and what the
    function of a user does with an object is the user's.
    """
    kernel = study.kernel
    if kernel is None:
        return False
    try:
        kernel.domain.check(wrong)
    except Exception:  # whatever was raised, the model has to refuse these points by name
        return False
    try:
        kernel.fit_params(wrong)(wrong) if known is None else kernel.fit_params(known)(wrong, known)
    except InvalidInput:
        return False
    except Exception:  # raised by the function of a user, who says what its points are
        return True
    return True


def _wrong_points(study: PointStudy) -> Iterator[tuple[str, Any]]:
    rows = study.rows(study.train)
    yield "None", None
    yield "a number", 3.0
    yield "an object", object()
    yield "a word", "word"
    yield "a sparse matrix", sp.csr_array(np.eye(len(study.train)))
    yield "no points", study.rows([])
    if study.frame:
        yield "a row of numbers", np.zeros(len(study.train))
        yield "a table without its columns", {"no such column": np.arange(len(study.train))}
        yield from _wrong_cells(rows)
        return
    points = list(rows)
    for what, cell in (("None", None), ("NaN", np.nan), ("a number", 1.5), ("an object", object())):
        yield f"points with {what} inside", [points[0], cell, *points[2:]]
    yield "rows of numbers", np.zeros((len(points), 2))
    yield "rows of complex numbers", np.full((len(points), 2), 1j)


def _wrong_cells(rows: Any) -> Iterator[tuple[str, Any]]:
    """Tables with one cell missing, infinite or of another kind, column by column."""
    table = Table.from_frame(rows)
    columns = dict(zip(table.names, table.columns, strict=True))
    for name, column in columns.items():
        number = column.dtype.kind in "fiub"
        for cell in (None, np.inf, "a word") if number else (None, 1.5):
            spoilt = column.astype(object)
            spoilt[1] = cell
            yield f"a table with {cell!r} in {name!r}", columns | {name: spoilt}


def _other_columns(study: PointStudy, model: Any) -> Iterator[tuple[str, Any]]:
    """Tables that a fit with names of columns must not take: one column fewer, other names."""
    if not study.frame or not hasattr(model, "feature_names_in_"):
        return
    table = Table.from_frame(study.rows(study.new))
    columns = dict(zip(table.names, table.columns, strict=True))
    first, *rest = columns
    yield "a table with a column fewer", {name: columns[name] for name in rest}
    renamed = {f"{first} of another name": columns[first]} | {n: columns[n] for n in rest}
    yield "a table with a column renamed", renamed


def _refuses_weights(study: PointStudy, model: Any) -> None:
    X, y = study.rows(study.train), study.targets(study.train)
    ones = np.ones(len(study.train))
    for what, weights in (
        ("few", ones[:3]),
        ("too many", np.append(ones, ones)),
        ("negative", -ones),
        ("two columns of", np.column_stack([ones, ones])),
        ("NaN among the", np.where(np.arange(len(ones)) == 1, np.nan, ones)),
        ("infinite", np.where(np.arange(len(ones)) == 1, np.inf, ones)),
        ("only zero", 0 * ones),
    ):
        fit = partial(model.fit, X, y, sample_weight=weights)
        refused(study, fit, f"fit with {what} weights", "weight")


def _refuses_batches(study: PointStudy, wrong_points: list[tuple[str, Any]]) -> None:
    """A second batch is judged as the first was, and a refused one leaves no trace."""
    X, y = study.rows(study.train), study.targets(study.train)
    model = clone(study.estimator)
    extra = {"classes": np.unique(y)} if is_classifier(model) else {}
    try:
        model.partial_fit(X, y, **extra)
    except InvalidInput as error:  # not with this kernel
        require(_named(study, error), f"{model!r}: partial_fit: no owner in {str(error)!r}")
        return
    expected = study.answers(model)
    for what, wrong in [*wrong_points, *_other_columns(study, model)]:
        if not _taken(study, wrong, X):
            refused(study, partial(model.partial_fit, wrong, y), f"partial_fit on {what}")
    if study.supervised:
        short = partial(model.partial_fit, X, y[:-1])
        refused(study, short, "partial_fit where y is short", TARGETS)
    alike(study.answers(model), expected, 0, f"{model!r}: after batches that were refused")


def _named(study: PointStudy, error: Exception) -> bool:
    """Whether a message begins with whose it is: the estimator, its kernel, or what points are."""
    head = str(error).partition(":")[0]
    owners = {cls.__name__ for cls in type(study.estimator).__mro__[:-1]}
    if any(f"but {name} is expecting" in str(error) for name in owners):
        return True  # scikit-learn's sentence about other columns, which its checks ask for
    kernel = study.kernel
    if kernel is not None:
        owners |= {type(kernel.domain).__name__, *_classes(kernel)}
    return ":" in str(error) and any(head.strip().startswith(name) for name in owners)


def _classes(kernel: Any) -> set[str]:
    names = {type(kernel).__name__, type(kernel.domain).__name__, repr(kernel)}
    return names.union({"on", "Table"}, *map(_classes, kernel._kernels()))


# ---- Targets of every kind, given to estimators on data that are not vectors: numbers and
# labels.


#: Pairs of labels in their order, of every type that labels may have.
_PAIRS = (
    np.array([-1, 1]),
    np.array([False, True]),
    np.array(["left", "right"], dtype=object),
)


def law_containers(study: PointStudy) -> None:
    """Targets and weights mean the same in a list, a column, or whatever becomes an array."""
    given = {"y": study.targets(study.train)} if study.supervised else {}
    if study.takes_weights:
        given["sample_weight"] = study.rng.uniform(0.5, 2.0, len(study.train))
    rows = study.rows(study.train)
    expected = study.answers(clone(study.estimator).fit(rows, **given))
    every = {name: dict(containers(values)) for name, values in given.items()}
    for what in next(iter(every.values()), ()):
        same = {name: forms[what] for name, forms in every.items()}
        message = f"{study.estimator!r}: {' and '.join(same)} as {what}"
        try:
            got = study.answers(clone(study.estimator).fit(rows, **same))
        except Exception as error:
            raise AssertionError(f"{message}: {type(error).__name__}: {error}") from error
        alike(got, expected, 0, message)


def law_targets(study: PointStudy) -> None:
    """Whole numbers and columns are targets as others are; what is no target is refused."""
    if not study.supervised:
        return
    y = study.targets(study.train)
    model = study.fitted()
    expected = study.answers(model)
    several = get_tags(model).target_tags.multi_output
    _check_column(study, expected, warned=not several)
    if several and is_regressor(model):
        both = _fitted(study, np.column_stack([y, -y])).predict(study.rows(study.new))
        require(both.shape == (len(study.new), 2), f"{model!r}: of two targets {both.shape}")
    if not several:
        fit = partial(model.fit, study.rows(study.train), np.column_stack([y, y]))
        _raised(study, fit, "fit where y has two columns")
    if is_classifier(model):
        return
    whole = np.arange(len(y)) % 3
    got = {t: study.answers(_fitted(study, whole.astype(t))) for t in (int, float)}
    alike(got[int], got[float], 1e-9, f"{model!r}: whole numbers as targets")
    for question in ("decision_function", "predict_proba", "predict_log_proba"):
        require(not hasattr(model, question), f"{model!r}: a regressor with {question}")
    for wrong in (np.nan, np.inf, "a word"):
        targets = np.array([wrong, *y[1:]], dtype=object if isinstance(wrong, str) else float)
        fit = partial(model.fit, study.rows(study.train), targets)
        refused(study, fit, f"fit where y has {wrong!r}", f"{TARGETS}|NaN|convert")


def law_labels(study: PointStudy) -> None:
    """Labels of any type are learned alike and given back as they came; two, three, or one."""
    if not is_classifier(study.estimator):
        return
    given = study.targets(study.train)
    classes, codes = np.unique(given, return_inverse=True)
    model = study.fitted()
    expected = study.answers(model)
    labels = expected.pop("predict")
    _check_classes(model, given, labels)
    for pair in _PAIRS if len(classes) == 2 else ():
        other = _fitted(study, pair[codes])
        got = study.answers(other)
        said = got.pop("predict")
        _check_classes(other, pair[codes], said)
        alike(got, expected, 1e-9, f"{model!r}: labels {pair.tolist()}")
        same = np.array_equal(said, pair[np.searchsorted(classes, labels)])
        require(same, f"{model!r}: labels {pair.tolist()} are predicted otherwise")
    _check_three(study)
    _check_one(study, given, classes[-1])
    _check_class_weights(study, given, classes)
    fit = clone(study.estimator).fit
    numbers = np.linspace(0.05, 1.05, len(given)) ** 2
    for what, wrong, words in (
        ("numbers", numbers, "Unknown label type|continuous"),
        ("NaN", np.where(np.arange(len(given)) == 1, np.nan, codes), "NaN|nan|missing"),
        ("None", np.array([None, *given[1:]], dtype=object), ""),
    ):
        call = partial(fit, study.rows(study.train), wrong)
        message = str(_raised(study, call, f"fit where y has {what}"))
        require(re.search(words, message), f"{study.estimator!r}: y of {what}: {message}")


# ---------------------------------------------------------------------------------------- parts
def _fitted(study: PointStudy, y: Any, **extra: Any) -> Any:
    return clone(study.estimator).fit(study.rows(study.train), y, **extra)


def _check_column(study: PointStudy, expected: dict[str, np.ndarray], *, warned: bool) -> None:
    """A column of targets is a vector, and whoever cannot take several columns says so."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = _fitted(study, study.targets(study.train)[:, None])
    said = any(issubclass(w.category, DataConversionWarning) for w in caught)
    require(said or not warned, f"{model!r}: no DataConversionWarning for y of shape (n, 1)")
    got = {q: values.reshape(expected[q].shape) for q, values in study.answers(model).items()}
    alike(got, expected, 1e-9, f"{model!r}: y of shape (n, 1)")


def _check_classes(model: Any, y: np.ndarray, said: np.ndarray) -> None:
    require(hasattr(model, "classes_"), f"{model!r}: a classifier without classes_")
    classes = model.classes_
    same = np.array_equal(classes, np.unique(y)) and np.asarray(classes).dtype == y.dtype
    require(same, f"{model!r}: classes_ is {classes!r}, the labels are {np.unique(y)!r}")
    foreign = set(said.tolist()) - set(classes.tolist())
    require(not foreign, f"{model!r}: predicts {foreign}, which are no labels of y")
    require(said.dtype.kind == y.dtype.kind, f"{model!r}: labels {y.dtype}, predicts {said.dtype}")


def _check_three(study: PointStudy) -> None:
    codes = np.arange(len(study.train)) % 3
    names = np.array(["a", "b", "c"])
    if not get_tags(study.estimator).classifier_tags.multi_class:
        call = partial(_fitted, study, names[codes])
        _raised(study, call, "fit on three classes")
        return
    model = _fitted(study, names[codes])
    said = study.answers(model)
    _check_classes(model, names[codes], said["predict"])
    for question in ("decision_function", "predict_proba"):
        if question in said:
            shape = said[question].shape
            message = f"{model!r}: of three classes {question} has shape {shape}"
            require(shape == (len(study.new), 3), message)


def _check_one(study: PointStudy, given: np.ndarray, last: Any) -> None:
    """One class, or one class with a weight, is learned, or refused by a word about classes."""
    alone = np.full(len(given), last)
    cases: list[Callable[[], Any]] = [partial(_fitted, study, alone)]
    if study.takes_weights:
        weight = (given == last).astype(float)
        cases.append(partial(_fitted, study, given, sample_weight=weight))
    for fit in cases:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = fit()
        except ValueError as error:
            told = re.search(r"\bclass(es)?\b", str(error))
            require(told, f"{study.estimator!r}: of one class: {error}")
            continue
        said = model.predict(study.rows(study.new))
        require((said == last).all(), f"{model!r}: knows one class, and predicts another")


def _check_class_weights(study: PointStudy, given: np.ndarray, classes: np.ndarray) -> None:
    """class_weight is a weight of the points of a class."""
    if "class_weight" not in study.estimator.get_params() or not study.takes_weights:
        return
    named = dict.fromkeys(classes.tolist(), 1.0) | {classes[:1].tolist()[0]: 2.0}
    plain = clone(study.estimator).set_params(class_weight=None)
    if study.kernel is not None:  # words such as "median" depend on weights of points alone
        plain.set_params(kernel=study.kernel.fit_params(study.rows(study.train)))
    model = study.fit(model=clone(plain).set_params(class_weight=named))
    weight = np.where(given == classes[0], 2.0, 1.0)
    expected = study.answers(study.fit(model=plain, sample_weight=weight))
    alike(study.answers(model), expected, 1e-7, f"{model!r}: class_weight ≠ sample_weight")
