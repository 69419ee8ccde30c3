"""What estimators must refuse of data that are not vectors, and how they must say so."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

from mercer.errors import InvalidInput, MercerError
from mercer.testing.checks import require
from mercer.testing.nonvector_study import QUESTIONS, NonvectorStudy, alike

__all__ = ["LAWS"]


def law_not_fitted(study: NonvectorStudy) -> None:
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


def law_refusals(study: NonvectorStudy) -> None:
    """What is no collection of points is refused by name, and an earlier fit survives it."""
    model = study.fit()
    expected = study.sayings(model)
    X, y = study.rows(study.train), study.targets(study.train)
    question = next(iter(study.answers(model)), None)
    for what, wrong in _wrong_points(study):
        _refused(study, partial(model.fit, wrong, y), f"fit on {what}")
        if question is not None:
            _refused(study, partial(getattr(model, question), wrong), f"{question} on {what}")
    if study.supervised:
        for what, wrong in (("short", y[:-1]), ("long", np.append(y, y[0])), ("None", None)):
            _refused(study, partial(model.fit, X, wrong), f"fit where y is {what}")
    if study.takes_weights:
        for what, w in (("few", np.ones(3)), ("negative", -np.ones(len(study.train)))):
            _refused(study, partial(model.fit, X, y, sample_weight=w), f"fit with {what} weights")
    alike(study.sayings(model), expected, 0, f"{model!r}: after fits that were refused")


def law_one_point(study: NonvectorStudy) -> None:
    """One point alone is fitted, or refused by name; repeated points are nothing special."""
    for index in (study.train[:1], np.repeat(study.train[:4], 3)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = study.fit(index)
        except ValueError as error:
            ours = isinstance(error, MercerError)
            message = f"{study.estimator!r}: a message without a name: {error}"
            require(not ours or _named(study, error), message)
            continue
        for name, values in study.answers(model).items():
            finite = values.dtype.kind not in "f" or np.isfinite(values).all()
            require(finite, f"{model!r}: fitted to {len(set(index))} points, {name} is not finite")


# ---------------------------------------------------------------------------------------- parts
def _wrong_points(study: NonvectorStudy) -> list[tuple[str, Any]]:
    wrong: list[tuple[str, Any]] = [
        ("None", None),
        ("a number", 3.0),
        ("an object", object()),
        ("a word", "word"),
    ]
    if study.frame:
        rows = study.rows(study.train)
        return [*wrong, ("a table without its columns", {"no such column": np.arange(len(rows))})]
    points = list(study.rows(study.train))
    return [
        *wrong,
        ("no points", []),
        ("points with None inside", [points[0], None, *points[2:]]),
        ("points with a number inside", [points[0], 1.5, *points[2:]]),
        ("points with an object inside", [points[0], object(), *points[2:]]),
        ("rows of numbers", np.zeros((len(points), 2))),
    ]


def _named(study: NonvectorStudy, error: Exception) -> bool:
    """Whether a message begins with whose it is: the estimator, its kernel, or what points are."""
    head = str(error).partition(":")[0]
    owners = {cls.__name__ for cls in type(study.estimator).__mro__[:-1]}
    kernel = study.kernel
    if kernel is not None:
        owners |= {type(kernel.domain).__name__, *_classes(kernel)}
    return ":" in str(error) and any(head.strip().startswith(name) for name in owners)


def _classes(kernel: Any) -> set[str]:
    names = {type(kernel).__name__, type(kernel.domain).__name__, repr(kernel)}
    return names.union({"on", "Table"}, *map(_classes, kernel._kernels()))


def _refused(study: NonvectorStudy, call: Callable[[], Any], what: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except InvalidInput as error:
        require(_named(study, error), f"{study.estimator!r}: {what}: no owner in {str(error)!r}")
    except Exception as error:
        raise AssertionError(
            f"{study.estimator!r}: {what} raises {type(error).__name__}: {error}"
        ) from error
    else:
        raise AssertionError(f"{study.estimator!r}: {what} is not refused")


LAWS = (law_not_fitted, law_refusals, law_one_point)
