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
from mercer.testing.nonvector_refusals import refused
from mercer.testing.nonvector_study import NonvectorStudy, alike, containers

__all__ = ["LAWS"]

#: Pairs of labels in their order, of every type that labels may have.
_PAIRS = (
    np.array([-1, 1]),
    np.array([False, True]),
    np.array(["left", "right"]),
    np.array(["left", "right"], dtype=object),
)


def law_targets(study: NonvectorStudy) -> None:
    """Targets mean what they say in any container and type; what is no target is refused."""
    if not study.supervised:
        return
    y = study.targets(study.train)
    model = study.fit()
    expected = study.answers(model)
    for what, same in containers(y):
        got = study.answers(_fitted(study, same))
        alike(got, expected, 0, f"{model!r}: y as {what}")
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
        refused(study, fit, f"fit where y has {wrong!r}")


def law_labels(study: NonvectorStudy) -> None:
    """Labels of any type are learned alike and given back as they came; two, three, or one."""
    if not is_classifier(study.estimator):
        return
    given = study.targets(study.train)
    classes, codes = np.unique(given, return_inverse=True)
    model = study.fit()
    _check_classes(study, model, given)
    expected = study.answers(model)
    labels = expected.pop("predict")
    for pair in _PAIRS if len(classes) == 2 else ():
        other = _fitted(study, pair[codes])
        _check_classes(study, other, pair[codes])
        got = study.answers(other)
        said = got.pop("predict")
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


def _check_classes(study: NonvectorStudy, model: Any, y: np.ndarray) -> None:
    classes = getattr(model, "classes_", None)
    require(classes is not None, f"{model!r}: a classifier without classes_")
    same = np.array_equal(classes, np.unique(y)) and np.asarray(classes).dtype == y.dtype
    require(same, f"{model!r}: classes_ is {classes!r}, the labels are {np.unique(y)!r}")
    said = np.asarray(model.predict(study.rows(study.new)))
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
    _check_classes(study, model, names[codes])
    for question in ("decision_function", "predict_proba"):
        if hasattr(model, question):
            shape = getattr(model, question)(study.rows(study.new)).shape
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
    first = given == classes[0]
    shares = len(given) / (len(classes) * np.unique(given, return_counts=True)[1])
    balanced = shares[np.searchsorted(classes, given)]
    named = dict.fromkeys(classes.tolist(), 1.0) | {classes[:1].tolist()[0]: 2.0}
    plain = clone(study.estimator).set_params(class_weight=None)
    if study.kernel is not None:  # words such as "median" depend on weights of points alone
        plain.set_params(kernel=study.kernel.fit_params(study.rows(study.train)))
    for weights, each in ((named, np.where(first, 2.0, 1.0)), ("balanced", balanced)):
        model = clone(plain).set_params(class_weight=weights)
        got = study.answers(study.fit(model=model))
        expected = study.answers(study.fit(model=clone(plain), sample_weight=each))
        alike(got, expected, 1e-7, f"{model!r}: class_weight ≠ sample_weight")


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


LAWS = (law_targets, law_labels)
