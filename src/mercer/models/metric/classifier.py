"""Ridge and logistic regression and margins in a metric learned from the data: classification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from mercer import state
from mercer.checks import check_parameters
from mercer.errors import naming, speaking_for, speaks, who
from mercer.estimator import (
    accuracy,
    as_stream,
    check_kept_classes,
    check_labels,
    check_weights,
    class_weights,
    find_classes,
    is_stream,
    takes_blocks,
)
from mercer.models.metric import streams
from mercer.models.metric.base import FeatureMachine, learns, ratios, speaks_inside, tensor_of
from mercer.models.metric.choice import Chosen
from mercer.models.metric.learning import EncodedRows
from mercer.models.metric.scores import groups_of
from mercer.models.metric.stacking import LogPool
from mercer.models.metric.streams import CodedLabels, coded_columns


class FeatureMachineClassifier(ClassifierMixin, FeatureMachine):
    r"""Classification by kernels in a metric that is learned from the data.

    As `FeatureMachineRegressor`, on a column of 0 and 1 for each class; in the best metrics support
    vector machines are tried as well, of up to 30,000 rows, and logistic regressions, of several
    classes where there are not more than twice `max_rows` rows. The values of each member become
    probabilities by a softmax, whose slope and offsets make the log loss at rows left out small;
    the model is their logarithmic pool, the probabilities multiplied with each other to powers of
    least log loss there. Only the ratios of weights matter, as of `FeatureMachineRegressor`.

    Parameters
    ----------
    n_models : int, default=16
        The most regressions in the pool.
    max_rows : int, default=700
        Rows that a metric is learned from, as of `FeatureMachineRegressor`.
    max_time : float, optional
        Seconds after which no further metric is tried, as of `FeatureMachineRegressor`.
    categorical : sequence of str or int, optional
        Columns of numbers or text to be read as categories.
    max_categories : int, default=100
        The most frequent categories that are kept of each column.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" counts every class alike.
    random_state : int, RandomState or None, default=0
        Decides which rows are in which fold.
    kinds : dict of str or int to str, optional
        What columns hold, where you know better than `column_kinds`: "number", "category", "text",
        "sequence" or "left out". Identifiers and dates of a table with names are left out, with a
        warning, unless they are told of here.

    Attributes
    ----------
    classes_ : ndarray
        The classes.
    members_ : list of KernelRidge, SVC and KernelLogisticRegression
        The models in the pool, on encoded rows.
    importances_, importances_std_, metric_, weights_, ways_, solutions_, encoder_
        As of `FeatureMachineRegressor`.
    left_out_ : ndarray of shape (n_rows, n_classes)
        Probabilities of each row by fits without it, as of `FeatureMachineRegressor`; NaN for rows
        of weight 0, and of more than 1400 rows (twice `max_rows`) for those that were not held out.
    left_out_error_ : float
        The share of rows that they put into a wrong class, by weight.

    Examples
    --------
    >>> from mercer.datasets import load_wine_table
    >>> from mercer.models import FeatureMachineClassifier
    >>> table, grower = load_wine_table()
    >>> model = FeatureMachineClassifier(n_models=1, max_rows=90).fit(table, grower)
    >>> model.left_out_error_ < 0.05
    True
    """

    _state = learns(
        classes_=state.Labels("c"),
        left_out_=state.Array("n", "c", kind="f"),
        slopes_=state.Doubles("m"),
        offset_=state.Doubles("c"),
    )
    _learned = tuple(_state)
    _has_classes = True
    _of_one_kernel = "KernelRidgeClassifier"

    score = accuracy

    @naming
    def __init__(
        self,
        n_models: int = 16,
        *,
        max_rows: int = 700,
        max_time: float | None = None,
        categorical: Any = None,
        max_categories: int = 100,
        class_weight: Any = None,
        random_state: Any = 0,
        kinds: Any = None,
    ):
        super().__init__(
            n_models,
            max_rows=max_rows,
            max_time=max_time,
            categorical=categorical,
            max_categories=max_categories,
            random_state=random_state,
            kinds=kinds,
        )
        self.class_weight = class_weight

    @speaks_inside
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> FeatureMachineClassifier:
        """Learn metrics, and fit a regression in each.

        Parameters
        ----------
        X : data frame, Table, dict of columns, 2-D array, tensor or RowBlocks
            The table; numbers, categories, text, strings, graphs and gaps. Of `RowBlocks` and dask
            data, which need not fit into memory, metrics come from 20,000 rows, and the fits see
            all of them. Of a tensor, numbers and gaps, metrics are learned in main memory, and the
            regressions are fitted on its device; logistic ones of at most 8000 rows are not.
        y : array-like of shape (n_rows,)
            The class of each row.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows.

        Returns
        -------
        FeatureMachineClassifier
            The model itself.
        """
        check_parameters(self)
        if is_stream(X):
            streams.refuse_class_weight(self.class_weight)
            return self._fit_blocks(as_stream(X, y, sample_weight))
        self._fit_rows(X, y, sample_weight)
        return self

    def _fit_rows(
        self, X: Any, y: Any, sample_weight: Any, encoder: Any = None
    ) -> tuple[Chosen, Callable[[Chosen], None]]:
        clock, fit = self._clock(), encoder is None
        encoder, Z = self._encoded(X, y, sample_weight, encoder)
        y = self._checked_target(y, len(Z))
        weights = check_weights(sample_weight, len(Z), relative=True)
        if self.class_weight is not None:
            of_class = class_weights(self.class_weight, y, weights)
            weights = of_class if weights is None else weights * of_class
            with speaking_for(f"{who()}: class_weight"):
                weights = check_weights(weights, len(Z), relative=True)
        weights = ratios(weights)
        classes = find_classes(y)
        if weights is not None:
            check_kept_classes(y, y[weights > 0])
        labels = np.searchsorted(classes, y)
        T = coded_columns(labels, len(classes))
        mean, scale = _centre(T, weights)
        rows = EncodedRows(Z, (T - mean) / scale, weights, groups_of(encoder), tensor_of(X))
        chosen, order = self._learn(encoder, rows, labels, clock, fit)
        self.classes_ = classes

        def tell(chosen: Chosen) -> None:
            self.left_out_ = self._tell(chosen, order, len(labels))
            self.left_out_error_ = chosen.error
            pool: Any = chosen.together
            self.slopes_, self.offset_ = pool.slopes, pool.offset

        tell(chosen)
        return chosen, tell

    def _checked_target(self, y: Any, n: int) -> np.ndarray:
        return check_labels(y, n)

    def _block_targets(self, y: Any, weight: Any, logistic: bool) -> CodedLabels:
        columns = None
        if not logistic:
            codes = np.searchsorted(self.classes_, check_labels(y, len(y)))
            columns = _centre(coded_columns(codes, len(self.classes_)), weight)
        return CodedLabels(self.classes_, type(self).__name__, len(y), columns)

    def _pool(self, X: Any) -> tuple[LogPool, list[np.ndarray]]:
        """Return how members are put together, and what they say of rows."""
        values = self._values(X, len(getattr(self, "classes_", ())))
        return LogPool(self.weights_, self.slopes_, self.offset_), values

    @property
    def margin_(self) -> Any:
        """A mean over several metrics has no margin in one feature space."""
        raise AttributeError(
            "FeatureMachineClassifier has no margin_: it is a mean of functions in the RKHS of "
            "each metric, and there is no one feature space to measure in."
        )

    @takes_blocks
    @speaks
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the logarithm of each class's probability, up to a number for each row.

        Parameters
        ----------
        X : data frame, Table, dict of columns, 2-D array or tensor
            The table.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_classes)
            Log-odds of the second class, when there are two classes.
        """
        pool, values = self._pool(X)
        scores = pool.scores(values)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    @takes_blocks
    @speaks
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class for each row.

        Parameters
        ----------
        X : data frame, Table, dict of columns, 2-D array or tensor
            The table.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Probabilities, calibrated at rows left out.
        """
        pool, values = self._pool(X)
        return pool(values)

    @takes_blocks
    @speaks
    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : data frame, Table, dict of columns, 2-D array or tensor
            The table.

        Returns
        -------
        ndarray of shape (n_rows,)
            Classes.
        """
        pool, values = self._pool(X)
        return self.classes_[pool.scores(values).argmax(axis=1)]


def _centre(T: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, float]:
    """Return the means of columns, and the one scale that all are divided by."""
    mean = np.average(T, axis=0, weights=weights)
    squares = np.average(np.mean((T - mean) ** 2, axis=1), weights=weights)
    return mean, float(np.sqrt(squares))
