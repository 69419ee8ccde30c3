"""Kernel ridge in a metric learned from the data: regression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from mercer import checks, state
from mercer.checks import check_parameters
from mercer.errors import speaks
from mercer.estimator import (
    as_stream,
    check_targets,
    check_weights,
    is_stream,
    r_squared,
    refuse_sums,
    takes_blocks,
)
from mercer.models.metric.base import FeatureMachine, learns, ratios, speaks_inside, tensor_of
from mercer.models.metric.choice import Chosen
from mercer.models.metric.learning import EncodedRows
from mercer.models.metric.scores import groups_of
from mercer.models.metric.stacking import Mean
from mercer.models.metric.streams import UnitTargets


class FeatureMachineRegressor(MultiOutputMixin, RegressorMixin, FeatureMachine):
    r"""Kernel ridge regression in a metric that is learned from the data.

    .. math:: f(x) = \sum_m w_m \Big(\sum_i a_{mi} k_m(A_m z_i, A_m z(x)) + b_m\Big)

    A mean of a few ridge regressions, each with a kernel in a metric of its own: one scale for all
    columns, a scale for each column that descent on the leave-one-out error finds, or the average
    outer product of gradients of a fit, fitted anew and again. Kernels are Matérn and Gaussian
    ones of the distance, and products of exponentials, one for each column. A metric is learned
    from some folds of the rows and judged at the others; the model has the mean of the metrics of
    all folds, with the weights of least error at rows left out.

    Columns of numbers and categories are encoded by `TableEncoder`. Columns of text, strings and
    graphs, as `column_kinds` tells them, become the principal coordinates of a kernel of their own:
    `BagOfWords` of text, of strings the one of least leave-one-out error on the column alone, and
    `WeisfeilerLehman` of graphs. A scale for each column is one for all of its coordinates.
    Identifiers and dates of a table with names are left out.

    Only the ratios of weights matter, so that a weight is no repetition here: a row that is given
    twice has a twin where it is left out, a row of weight 2 has none.

    Parameters
    ----------
    n_models : int, default=16
        The most ridge regressions in the mean; 1 for one function in one RKHS.
    max_rows : int, default=700
        Rows that a metric is learned from: half of the table, or two thirds of 400 rows or less,
        and at most so many. The regressions see all rows; of more than 8000 they are in the span
        of 2000 to 5000 centres, but for tensors on a GPU: there they are exact as far as its
        memory goes.
    max_time : float, optional
        Seconds after which no further metric is tried; what was found so far is used. Loading and
        compiling, once a process, is not in them.
    categorical : sequence of str or int, optional
        Columns of numbers or text to be read as categories.
    max_categories : int, default=100
        The most frequent categories that are kept of each column.
    random_state : int, RandomState or None, default=0
        Decides which rows are in which fold.
    kinds : dict of str or int to str, optional
        What columns hold, where you know better than `column_kinds`: "number", "category", "text",
        "sequence" or "left out". Identifiers and dates of a table with names are left out, with a
        warning, unless they are told of here.

    Attributes
    ----------
    importances_ : ndarray of shape (n_columns,)
        The share of each column in the trace of the metric, for columns of variance 1.
    importances_std_ : ndarray of shape (n_columns,)
        How far the metrics of the folds are from that.
    metric_ : ndarray of shape (d, d)
        The mean metric of the encoded columns, of trace 1.
    left_out_ : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        Predictions of each row by fits to all others, in metrics learned from other folds, with
        penalties and weights that other rows have chosen. NaN for rows of weight 0, and of more
        than 3000 rows, or where `max_time` is short, for those that were not held out. Of
        `RowBlocks`, of the sample.
    left_out_error_ : float
        Their root mean squared error over the standard deviation of y: 1 is no better than the
        mean.
    members_ : list of KernelRidge
        The ridge regressions, on encoded rows and scaled targets, in an order of what they hold.
    weights_ : ndarray of shape (n_members,)
        Their weights, of sum 1.
    ways_ : list of str
        How the metric of each was learned.
    solutions_ : list of Solution
        Their certificates.
    encoder_ : TableEncoder
        What turns columns into numbers; its `kernels` are those of text, strings and graphs.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.models import FeatureMachineRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(120, 6))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=120)
    >>> model = FeatureMachineRegressor().fit(X, y)
    >>> int(model.importances_.argmax())
    0
    """

    _state = learns(
        left_out_=state.Array("n", "t?", kind="f"),
        y_mean_=state.Doubles("t"),
        y_scale_=state.Doubles("t", above=0.0),
        residuals_=state.Doubles("r", "t", least=0.0),
        residual_weights_=state.Doubles("r", above=0.0),
    )
    _learned = tuple(_state)

    score = r_squared

    @speaks_inside
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> FeatureMachineRegressor:
        """Learn metrics, and fit a regression in each.

        Parameters
        ----------
        X : data frame, Table, dict of columns, 2-D array, tensor or RowBlocks
            The table; numbers, categories, text, strings, graphs and gaps. Of `RowBlocks` and dask
            data, which need not fit into memory, metrics come from 20,000 rows, and the fits see
            all of them. Of a tensor, numbers and gaps, metrics are learned in main memory, and the
            regressions are fitted on its device.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            The target, finite numbers.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows.

        Returns
        -------
        FeatureMachineRegressor
            The model itself.
        """
        check_parameters(self)
        if is_stream(X):
            return self._fit_blocks(as_stream(X, y, sample_weight))
        self._fit_rows(X, y, sample_weight)
        return self

    def _fit_rows(
        self, X: Any, y: Any, sample_weight: Any, encoder: Any = None
    ) -> tuple[Chosen, Callable[[Chosen], None]]:
        clock, fit = self._clock(), encoder is None
        encoder, Z = self._encoded(X, y, sample_weight, encoder)
        Y = self._checked_target(y, len(Z))
        weights = ratios(check_weights(sample_weight, len(Z), relative=True))
        T = Y.reshape(len(Y), -1)
        refuse_sums(T, float(len(T)))
        # Rows of weight 0 are as good as left out, to the bit: a search makes much of rounding.
        used, w = T, None
        if weights is not None:
            used, w = T[weights > 0], weights[weights > 0]
            w = None if np.ptp(w) == 0 else w
        unit = np.abs(used).max(axis=0, initial=0.0)  # squares of 1e200 would overflow
        unit[unit == 0] = 1.0
        mean = unit * np.average(used / unit, axis=0, weights=w)
        spread = np.average(((used - mean) / unit) ** 2, axis=0, weights=w)
        scale = np.where(spread <= 1e-26, 1.0, unit * np.sqrt(spread))
        rows = EncodedRows(Z, (T - mean) / scale, weights, groups_of(encoder), tensor_of(X))
        chosen, order = self._learn(encoder, rows, None, clock, fit)
        self.y_mean_, self.y_scale_ = mean, scale

        def tell(chosen: Chosen) -> None:
            left_out = self._tell(chosen, order, len(T))
            self.left_out_ = self._in_units(left_out, Y.ndim == 1)
            self.left_out_error_ = float(np.sqrt(chosen.error))
            residuals = np.abs(self.left_out_.reshape(T.shape) - T)
            known = ~np.isnan(residuals[:, 0])
            self.residuals_ = residuals[known]
            self.residual_weights_ = np.ones(len(T))[known] if weights is None else weights[known]

        tell(chosen)
        return chosen, tell

    def _checked_target(self, y: Any, n: int) -> np.ndarray:
        return np.asarray(check_targets(y, n), dtype=float)

    def _block_targets(self, y: Any, weight: Any, logistic: bool) -> UnitTargets:
        return UnitTargets(self.y_mean_, self.y_scale_, type(self).__name__)

    def _in_units(self, values: np.ndarray, column: bool) -> np.ndarray:
        out = self.y_mean_ + self.y_scale_ * values
        return out[:, 0] if column else out

    @property
    def _column(self) -> bool:
        return self.left_out_.ndim == 1

    @takes_blocks
    @speaks
    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted target of each row.

        Parameters
        ----------
        X : data frame, Table, dict of columns, 2-D array or tensor
            The table.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_outputs)
            Predictions in the units of y.
        """
        values = self._values(X)
        return self._in_units(Mean(self.weights_)(values), self._column)

    @speaks
    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Return intervals that hold a new target with the given probability.

        They reach as far to either side as the errors at rows left out: the ⌈c(n + 1)⌉-th smallest
        of n, infinitely far where there are too few rows for that. Of weights only the ratios
        count: with weight 2 for each row intervals are those of weight 1.

        Parameters
        ----------
        X : data frame, Table, dict of columns, 2-D array or tensor
            The table.
        coverage : float, default=0.9
            The probability, 0 < c < 1.

        Returns
        -------
        lower, upper : ndarray of shape (n_rows,) or (n_rows, n_outputs)
            The ends, in the units of y.
        """
        checks.check_number(coverage, "coverage", 0.0, 1.0)
        middle = self.predict(X)
        weights = self.residual_weights_
        reach = np.array([_reach(each, weights, coverage) for each in self.residuals_.T])
        reach = reach[0] if self._column else reach
        return middle - reach, middle + reach


def _reach(residuals: np.ndarray, weights: np.ndarray, coverage: float) -> float:
    """Return the least residual with a share of the weight, that of a new row among it, below."""
    order = np.argsort(residuals, kind="stable")
    counted = np.cumsum(weights[order]) / weights.mean()
    at = int(np.searchsorted(counted, coverage * (len(counted) + 1) * (1 - 1e-12)))
    return float(residuals[order[at]]) if at < len(order) else np.inf
