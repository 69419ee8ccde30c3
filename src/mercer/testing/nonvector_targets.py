"""Targets of every kind, given to estimators on data that are not vectors: numbers and labels."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import get_tags

from mercer.testing.checks import require
from mercer.testing.nonvector_refusals import TARGETS, refused
from mercer.testing.nonvector_study import NonvectorStudy, alike, containers

__all__ = ["LAWS"]

#: Pairs of labels in their order, of every type that labels may have.
_PAIRS = (
    np.array([-1, 1]),
    np.array([False, True]),
    np.array(["left", "right"], dtype=object),
)


def law_containers(study: NonvectorStudy) -> None:
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


def law_targets(study: NonvectorStudy) -> None:
    """Whole numbers and columns are targets as others are; what is no target is refused."""
    if not study.supervised:
        return
    y = study.targets(study.train)
    model = study.fit()
    expected = study.answers(model)
    several = get_tags(model).target_tags.multi_output
    _check_column(study, expected, warned=not several)
    if several and is_regressor(model):
        both = _fitted(study, np.column_stack([y, -y])).predict(study.rows(study.new))
        require(both.shape == (len(study.new), 2), f"{model!r}: of two targets {both.shape}")
    if not several:
        fit = partial(model.fit, study.rows(study.train), np.column_stack([y, y]))
        _message(study, fit, "fit where y has two columns")
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


def law_labels(study: NonvectorStudy) -> None:
    """Labels of any type are learned alike and given back as they came; two, three, or one."""
    if not is_classifier(study.estimator):
        return
    given = study.targets(study.train)
    classes, codes = np.unique(given, return_inverse=True)
    model = study.fit()
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
        message = _message(study, call, f"fit where y has {what}")
        require(re.search(words, message), f"{study.estimator!r}: y of {what}: {message}")


# ---------------------------------------------------------------------------------------- parts
def _fitted(study: NonvectorStudy, y: Any, **extra: Any) -> Any:
    return clone(study.estimator).fit(study.rows(study.train), y, **extra)


def _check_column(study: NonvectorStudy, expected: dict[str, np.ndarray], *, warned: bool) -> None:
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


def _check_three(study: NonvectorStudy) -> None:
    codes = np.arange(len(study.train)) % 3
    names = np.array(["a", "b", "c"])
    if not get_tags(study.estimator).classifier_tags.multi_class:
        call = partial(_fitted, study, names[codes])
        _message(study, call, "fit on three classes")
        return
    model = _fitted(study, names[codes])
    said = study.answers(model)
    _check_classes(model, names[codes], said["predict"])
    for question in ("decision_function", "predict_proba"):
        if question in said:
            shape = said[question].shape
            message = f"{model!r}: of three classes {question} has shape {shape}"
            require(shape == (len(study.new), 3), message)


def _check_one(study: NonvectorStudy, given: np.ndarray, last: Any) -> None:
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


def _check_class_weights(study: NonvectorStudy, given: np.ndarray, classes: np.ndarray) -> None:
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


def _message(study: NonvectorStudy, call: Callable[[], Any], what: str) -> str:
    """Return what a ValueError says."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except ValueError as error:
        return str(error)
    except Exception as error:
        name = type(error).__name__
        raise AssertionError(f"{study.estimator!r}: {what} raises {name}: {error}") from error
    raise AssertionError(f"{study.estimator!r}: {what} is not refused")


LAWS = (law_containers, law_targets, law_labels)
