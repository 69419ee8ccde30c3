"""Regression on tables, in learned metrics or by a kernel: columns encoded or chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import fsum
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from mercer import checks, state
from mercer.domains import RowBlocks, to_host
from mercer.domains.blocks import Block
from mercer.errors import InvalidInput, speaks, who
from mercer.estimator import (
    NumericTargets,
    as_stream,
    check_targets,
    check_weights,
    count_targets,
    r_squared,
    takes_blocks,
)
from mercer.models.ridge import KernelRidge
from mercer.models.tables.base import MACHINES, Inside, TableModel

NO_SCALE = "the target's scale of a {} is not a finite number"


def _is_finite(value: Any) -> bool:
    return type(value) is float and bool(np.isfinite(value))


class TableRegressor(RegressorMixin, TableModel):
    r"""Regression on a table with columns of mixed kinds.

    With nothing said it is a `FeatureMachineRegressor`, which learns from the rows how much each
    column matters. With a kernel it is a ridge regression: columns are encoded by `TableEncoder`; a
    kernel on columns, made with ``.on(...)``, sees the table itself instead. The target is centred
    and scaled, so that ``alpha`` has the same meaning for prices and for lengths, and predictions
    are in the target's own units: :math:`f(x) = \bar y + s_y \sum_i a_i k(z_i, z(x))`, where
    :math:`(K + \alpha I)a = (y - \bar y)/s_y`.

    Parameters
    ----------
    kernel : Kernel or str, optional
        Kernel on encoded rows, as for `KernelRidge`; or a kernel on columns, such as
        ``RBF().on("age") + Spectrum(3).on("sequence")``, whose names and positions are those of the
        table; or "auto", what `auto_kernel` proposes for the table. Left out, with
        ``model="ridge"``, it is "rbf" on encoded rows, or where the table holds text, strings or
        graphs what `auto_kernel` proposes, with the kernel of least leave-one-out error for each
        column of strings; its parameters are tuned together with `alpha`; those of rows in blocks
        on 2000 of them, drawn at random.
    alpha : float or "loo", optional
        Ridge; "loo" takes the one with the least leave-one-out error. Left out, it is tuned with
        the kernel where that is left out too, and 1.0 for a kernel that is given. A number beside a
        kernel that is left out leaves its scale to the data.
    categorical : sequence of str or int, or str, optional
        Columns of numbers to be read as categories; with "auto", columns of any kind. A kernel on
        columns says itself how it reads each.
    max_categories : int, default=100
        The most frequent categories that the encoder keeps of each column.
    model : {"auto", "features", "ridge"}, optional
        "features" is a `FeatureMachineRegressor`, "ridge" a `KernelRidge`. "auto", which is meant
        where it is left out, takes "features" where neither kernel nor alpha is given and the table
        has 5 rows of positive weight or more; else "ridge". Where "features" has too little memory,
        a warning says so, and it is "ridge" too.
    max_time : float, optional
        Seconds after which a feature machine tries no further metric. Left out, there is no limit
        up to 2000 rows, and beyond one of 10 ms a row, 60 to 480 seconds.
    random_state : int, RandomState or None, default=0
        Decides which rows are in which fold, and which are drawn from many.
    kinds : dict of str or int to str, optional
        What columns hold, where you know better than `column_kinds`: "number", "category", "text",
        "sequence" or "left out". Identifiers and dates of a table with names are left out, with a
        warning, unless they are told of here. A kernel on columns says itself what it
        looks at.

    Attributes
    ----------
    encoder_ : TableEncoder or TableColumns
        The fitted encoder; of a kernel on columns, those that it looks at.
    model_ : FeatureMachineRegressor or KernelRidge
        The fitted model; a ridge is one on encoded rows and the scaled target.
    importances_, importances_std_ : ndarray of shape (n_columns,)
        The share of each column in the metric of a feature machine, and how far metrics that are
        learned from different rows disagree about it.
    alpha_ : float
        The ridge used, with ``model="ridge"``.
    notes_ : dict
        What a caller wants to be kept with the model (the command line keeps its evaluation here);
        after a fit, "compared": the left-out errors of kernels tried for columns of strings.

    Notes
    -----
    A kernel on columns needs at `predict` the columns that it looks at, by name, in any order;
    further ones are ignored. With positions among its choices it needs all columns of `fit`. What
    "auto" proposes depends on the rows, not on their weights, but for rows of weight 0. A search by
    left-out error takes a row that is given twice for two rows, each of which tells the other: give
    it a weight of 2 instead.

    Examples
    --------
    >>> from mercer.datasets import load_diabetes_table
    >>> from mercer.models import TableRegressor
    >>> table, y = load_diabetes_table()
    >>> model = TableRegressor("linear").fit(table, y)
    >>> model.predict(table.take([0, 1])).round(-1)
    array([210.,  70.])
    """

    _state = TableModel._state | {
        "y_mean_": state.Such(_is_finite, says=NO_SCALE, lacks=NO_SCALE),
        "y_scale_": state.Such(_is_finite, says=NO_SCALE, lacks=NO_SCALE),
    }
    _learned = tuple(_state)

    score = r_squared

    @speaks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> TableRegressor:
        """Fit the encoder and the model.

        Parameters
        ----------
        X : data frame, Table, dict of columns, 2-D array or RowBlocks
            The table. `mercer.RowBlocks` bring rows that need not fit memory, with their targets
            and weights: they are encoded block by block, metrics are learned from 20,000 of them at
            most, and the fits, in the span of centres, see all.
        y : array-like of shape (n_rows,)
            The target, finite numbers; may be left out where the blocks carry it.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows.

        Returns
        -------
        TableRegressor
            The model itself.
        """
        checks.check_parameters(self)
        if self._suits_features(X, y, sample_weight):
            given = X, y, sample_weight
            if isinstance(X, RowBlocks):
                given = _with_one_target(as_stream(*given)), None, None
            else:
                given = X, _one_target(to_host(y, "y")), sample_weight
            if (machine := self._machine(*given)) is not None:
                self._keep(machine.encoder_, machine)
                self.y_mean_, self.y_scale_ = 0.0, 1.0  # it has the target's units itself
                return self
        inside = self._inside(X, y, sample_weight)
        self._keep(inside.encoder, self._fitted(inside, self.alpha), inside.compared)
        self.y_mean_, self.y_scale_ = inside.mean, inside.scale
        return self

    @speaks("TableRegressor")
    def _inside(self, X: Any, y: Any, sample_weight: Any) -> Inside:
        self._refuse_features()
        if isinstance(X, RowBlocks):
            return self._inside_blocks(as_stream(X, y, sample_weight))
        y = to_host(y, "y")
        encoder, Z, kernel = self._encode(X, y, sample_weight)
        y = _one_target(y)
        weights = check_weights(sample_weight, len(y))
        unit = float(np.abs(y).max()) or 1.0  # squares of 1e200 would overflow
        mean = unit * float(np.average(y / unit, weights=weights))
        deviation = (y - mean) / unit
        scale = unit * float(np.sqrt(np.average(deviation**2, weights=weights)))
        if scale <= 1e-13 * unit:
            scale = 1.0
        kernel, compared = self._for_strings(kernel, Z, y, weights, False)
        model = KernelRidge(kernel, alpha=1.0 if self.alpha is None else self.alpha)
        target = (y - mean) / scale
        return Inside(encoder, Z, target, weights, model, compared, mean=mean, scale=scale)

    def _inside_blocks(self, blocks: RowBlocks) -> Inside:
        """Encode blocks; the scale of their target takes three passes."""
        blocks = _with_one_target(blocks)
        encoder, Z, kernel = self._encode(blocks, None, None)
        unit = max(float(np.abs(block.y).max()) for block in blocks) or 1.0
        total = fsum(_summed(block, np.ones_like) for block in blocks)
        mean = fsum(_summed(block, lambda y: y / unit) for block in blocks) / total
        squares = fsum(_summed(block, lambda y: (y / unit - mean) ** 2) for block in blocks)
        scale = unit * float(np.sqrt(squares / total))
        if scale <= 1e-13 * unit:
            scale = 1.0
        Z = Z.with_targets(Standardised(unit * mean, scale))
        kernel, compared = self._for_strings_of(Z, kernel, False)
        alpha = 1.0 if self.alpha is None else self.alpha
        model = KernelRidge(kernel, alpha=alpha, random_state=self.random_state)
        return Inside(encoder, Z, None, None, model, compared, mean=unit * mean, scale=scale)

    @takes_blocks
    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted target of each row.

        Parameters
        ----------
        X : data frame, Table, dict of columns or 2-D array
            The table.

        Returns
        -------
        ndarray of shape (n_rows,)
            Predictions in the units of y.
        """
        predicted = self._answer("predict", X)
        return self.y_mean_ + self.y_scale_ * predicted

    @speaks(".predict_interval")
    def predict_interval(
        self, X: Any, coverage: float = 0.9, *, groups: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return intervals that hold a new target with the given probability.

        As `FeatureMachineRegressor.predict_interval`, or, with a ridge inside, by jackknife+ as
        `KernelRidge.predict_interval`, with encoder and scales kept.

        Parameters
        ----------
        X : data frame, Table, dict of columns or 2-D array
            The table.
        coverage : float, default=0.9
            The probability.
        groups : sequence of n labels, optional
            The group of each training row; rows are left out with their groups, by a ridge.

        Returns
        -------
        lower, upper : ndarray of shape (n_rows,)
            The ends, in the units of y.
        """
        check_is_fitted(self)
        options = {"groups": groups}
        if isinstance(self.model_, MACHINES):
            if groups is not None:
                raise InvalidInput(
                    f"{who()}: groups are left out together by a ridge, and a feature machine left "
                    "out each row by itself; leave groups out, or fit with model='ridge'."
                )
            options = {}
        ends = self._answer("predict_interval", X, coverage, **options)
        lower, upper = (self.y_mean_ + self.y_scale_ * end for end in ends)
        return lower, upper

    @speaks
    def loo(self, X: Any = None) -> np.ndarray:
        """Return predictions of the training rows by fits without each (encoder and scales kept).

        With a ridge inside they are exact; with a feature machine they are its `left_out_`, in
        metrics learned from other rows.

        Parameters
        ----------
        X : data frame, Table, dict of columns or 2-D array, optional
            The training table, if you like; another is refused.

        Returns
        -------
        ndarray of shape (n_rows,)
            Predictions in the units of y; those of a feature machine are NaN for rows of weight 0,
            and in large tables for rows that were not held out.
        """
        check_is_fitted(self)
        if isinstance(self.model_, MACHINES):
            return self._left_out(X, "loo")
        return self.y_mean_ + self.y_scale_ * self.model_.loo(self._encoded_again(X, "loo"))


def _with_one_target(blocks: RowBlocks) -> RowBlocks:
    """Return blocks whose targets are numbers, or refuse those that carry several."""
    if (several := np.shape(blocks.first().y)[1:]) and several != (1,):
        raise InvalidInput(
            f"TableRegressor: the blocks carry {several[0]} targets; it takes one, so name one "
            "column as target=, and fit a model for each."
        )
    return blocks.with_targets(NumericTargets("TableRegressor"))


@dataclass(frozen=True)
class Standardised:
    """Targets centred and scaled, block by block."""

    mean: float
    scale: float

    def __call__(self, y: np.ndarray) -> np.ndarray:
        """Return the targets of a block in the model's units."""
        return (y.ravel() - self.mean) / self.scale


def _summed(block: Block, values: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return the weighted sum of a function of the targets of a block."""
    found = values(block.y.ravel())
    return float(found.sum() if block.weight is None else block.weight @ found)


def _one_target(y: Any) -> np.ndarray:
    y = check_targets(y, count_targets(y))
    if y.ndim == 2 and y.shape[1] != 1:
        raise InvalidInput(
            f"TableRegressor: y has {y.shape[1]} columns, and it takes one; "
            "FeatureMachineRegressor takes several, or fit a model for each: "
            "sklearn.multioutput.MultiOutputRegressor."
        )
    return column_or_1d(y, warn=True)
