"""An estimator with strings, graphs or tables to judge it on: the argument of non-vector laws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_clusterer, is_regressor
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from mercer.domains import Table
from mercer.domains.tables.table import is_frame
from mercer.errors import InvalidInput
from mercer.kernels import Kernel, as_kernel
from mercer.testing.checks import agree, require, to_numpy
from mercer.testing.study import EstimatorExample

__all__ = ["NonvectorStudy", "alike", "containers", "read_only"]

#: What a fitted estimator may be asked about points, numbers before labels.
QUESTIONS = ("decision_function", "predict_proba", "transform", "score_samples", "predict")


class NonvectorStudy:
    """An estimator, training points and new points of any kind, addressed by position.

    Parameters
    ----------
    estimator : estimator or EstimatorExample
        What is judged; never fitted itself.
    X : collection of points
        A list of strings, graphs or bags, a data frame: whatever its kernel takes; eight points or
        more.
    y : array of shape (n,), optional
        Targets; made up when an estimator needs some and none are given.
    rng : Generator or int, default=0
        Source of randomness.
    """

    def __init__(self, estimator: Any, X: Any, y: Any = None, rng: Any = 0):
        self.rng = np.random.default_rng(rng)
        example = estimator if isinstance(estimator, EstimatorExample) else None
        self.given = example.estimator if example else estimator
        self.repeatable_weights = example.repeatable_weights if example else True
        self.any_order = example.any_order if example else True
        self.estimator = clone(self.given)
        if "random_state" in self.estimator.get_params():
            self.estimator.set_params(random_state=0)
        self.takes_weights = has_fit_parameter(self.estimator, "sample_weight")
        self.X = X
        self.frame = is_frame(X) or isinstance(X, Table | dict)
        self.n = len(Table(X)) if isinstance(X, dict) else len(X)
        require(self.n >= 8, f"a study needs eight points or more, X has {self.n}")
        self.supervised = is_classifier(self.estimator) or is_regressor(self.estimator)
        if y is None and self.supervised:
            y = np.arange(self.n) // 2 % 2  # both classes among training and new points
            y = np.array(["no", "yes"])[y] if is_classifier(self.estimator) else y - 0.5
        self.y = np.asarray(y) if self.supervised else y
        positions = np.arange(self.n)
        self.new = positions[positions % 4 == 3]
        self.train = positions[positions % 4 != 3]

    @property
    def kernel(self) -> Kernel | None:
        """The kernel of the estimator, or None where it has none."""
        try:
            return as_kernel(self.estimator.kernel)
        except (AttributeError, InvalidInput):
            return None

    # -- rows -----------------------------------------------------------------------------------
    def rows(self, index: Any) -> Any:
        """Return the points at the given positions, in the form that X came in."""
        X = Table(self.X) if isinstance(self.X, dict) else self.X
        return _safe_indexing(X, np.asarray(index, dtype=int))

    def targets(self, index: Any) -> Any:
        """Return the targets at the given positions, or None."""
        return None if self.y is None else _safe_indexing(self.y, np.asarray(index, dtype=int))

    def forms(self, index: Any) -> Iterator[tuple[str, Any]]:
        """Return the points at the given positions in every other form that means the same."""
        rows = self.rows(index)
        if self.frame:
            yield from _tables(rows)
        elif isinstance(rows, list | tuple | np.ndarray):
            yield from _columns(list(rows))
        if self.kernel is not None:
            yield "the canonical collection", self.kernel.domain.check(rows)

    def frozen(self, index: Any) -> Any:
        """Return the points at the given positions in arrays that nobody may write to."""
        rows = self.rows(index)
        if self.frame:
            table = Table.from_frame(rows)
            columns = zip(table.names, table.columns, strict=True)
            return {name: read_only(column) for name, column in columns}
        if isinstance(rows, np.ndarray):
            return read_only(rows)
        return [read_only(p) if isinstance(p, np.ndarray) else p for p in rows]

    # -- fits and answers -----------------------------------------------------------------------
    def fit(self, index: Any = None, rows: Any = None, model: Any = None, **extra: Any) -> Any:
        """Return a clone fitted to the training points at the given positions."""
        index = self.train if index is None else index
        model = clone(self.estimator) if model is None else model
        X = self.rows(index) if rows is None else rows
        y = self.targets(index)
        return model.fit(X, **extra) if y is None else model.fit(X, y, **extra)

    def answers(self, model: Any, X: Any = None) -> dict[str, np.ndarray]:
        """Return what a fitted model says of points, by the name of the question."""
        X = self.rows(self.new) if X is None else X
        said = {q: to_numpy(getattr(model, q)(X)) for q in QUESTIONS if hasattr(model, q)}
        if is_clusterer(model) and "transform" in said:
            # A small distance is the root of a difference, of which rounding leaves √ε.
            said["transform"] = said["transform"] ** 2
        if not said:
            require(hasattr(model, "labels_"), f"{model!r}: has neither answers nor labels_")
        return said

    def sayings(self, model: Any, X: Any = None) -> dict[str, np.ndarray]:
        """Return the answers about new points, and the labels of the training points if any."""
        said = self.answers(model, X)
        return said | ({"labels_": model.labels_} if hasattr(model, "labels_") else {})


def alike(
    got: dict[str, np.ndarray], expected: dict[str, np.ndarray], tol: float, message: str
) -> None:
    """Require that a model gives the same answers; of labels, where there are no numbers.

    A label follows from numbers, and may turn where these are equal up to rounding.
    """
    require(list(got) == list(expected), f"{message}: answers {list(got)}, not {list(expected)}")
    for name, values in expected.items():
        numeric = values.dtype.kind in "fiub"
        follows = name == "predict" and len(expected) > 1 and tol > 0
        if follows:
            require(got[name].shape == values.shape, f"{message}, {name}: another shape")
        else:
            exact = tol == 0 or not numeric
            agree(got[name], values, tol, f"{message}, {name}", bitwise=exact)


def containers(values: np.ndarray) -> Iterator[tuple[str, Any]]:
    """Return an array of targets or weights in every other form that means the same."""
    yield "a list", values.tolist()
    yield "an object with __array__", _Wrapped(values)
    try:
        import pandas
    except ImportError:
        return
    yield "a column of pandas", pandas.Series(values)


def read_only(values: np.ndarray) -> np.ndarray:
    """Return a copy that cannot be written to."""
    values = values.copy()
    values.flags.writeable = False
    return values


class _Wrapped:
    """Numbers that are no array, and become one when asked."""

    def __init__(self, values: np.ndarray):
        self._values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._values, dtype=dtype)


def _columns(points: list) -> Iterator[tuple[str, Any]]:
    """Points of one column: a tuple, arrays of objects, columns of pandas and polars."""
    objects = np.empty(len(points), dtype=object)
    for i, point in enumerate(points):
        objects[i] = point
    yield "a list", list(points)
    yield "a tuple", tuple(points)
    yield "an array of objects", objects
    yield "an array of one column", objects[:, None]
    text = all(isinstance(p, str) for p in points)
    if text:
        yield "an array of text", np.array(points)
    for name in ("pandas", "polars"):
        try:
            library = __import__(name)
        except ImportError:
            continue
        if name == "pandas" or text:
            values = objects if name == "pandas" else points
            yield f"a column of {name}", library.Series(values)
            yield f"a frame of {name}", library.DataFrame({"points": values})


def _tables(rows: Any) -> Iterator[tuple[str, Any]]:
    """A table as a dict, a `Table`, and frames of pandas, polars and pyarrow."""
    table = Table.from_frame(rows)
    columns = dict(zip(table.names, table.columns, strict=True))
    yield "a Table", table
    yield "a dict", columns
    for name, make in (("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "table")):
        try:
            library = __import__(name)
        except ImportError:
            continue
        yield (
            f"a frame of {name}",
            getattr(library, make)(
                {n: c.tolist() if c.dtype.kind in "OU" else c for n, c in columns.items()}
            ),
        )
