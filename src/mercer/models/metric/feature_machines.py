"""Kernel ridge in a metric learned from the data: regression and classification."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MultiOutputMixin,
    RegressorMixin,
    clone,
    is_classifier,
)
from sklearn.utils.validation import check_is_fitted

from mercer import checks, state
from mercer.checks import Clock, as_rng, check_parameters
from mercer.domains import RowBlocks, Table
from mercer.errors import (
    InvalidInput,
    MemoryBudgetExceeded,
    naming,
    speaking_for,
    speaks,
    users_level,
    who,
)
from mercer.estimator import (
    KernelEstimator,
    Plan,
    accuracy,
    as_stream,
    check_kept_classes,
    check_labels,
    check_targets,
    check_weights,
    class_weights,
    find_classes,
    is_stream,
    r_squared,
    refuse_sums,
    set_params,
    takes_blocks,
    tell_plan,
)
from mercer.features import TableEncoder, read_rows
from mercer.models.metric import streams
from mercer.models.metric.learning import EncodedRows, Shares, plan_of
from mercer.models.metric.members import (
    FIRST,
    HINGE,
    LOGISTIC,
    MARGINS,
    TRIED,
    Choice,
    Chosen,
    class_values,
    recipes_for,
)
from mercer.models.metric.scores import (
    KNOTS,
    VIEWS,
    NormalScores,
    fingerprint,
    groups_of,
    numbers_of,
)
from mercer.models.metric.stacking import LogPool, Mean
from mercer.models.metric.streams import CodedLabels, UnitTargets, coded_columns
from mercer.models.metric.strings import free_kernels, has_free_columns
from mercer.models.margin import SVC
from mercer.models.ridge import KernelRidge
from mercer.models.risk import KernelLogisticRegression

FEWEST = 5  # rows
OVERRUN = 1.1  # of max_time, beyond which a word is said
LEAST_WEIGHT = 1e-12  # relative to the largest


def _width(machine: Any) -> int:
    return len(numbers_of(machine.encoder_))


def _fits_its_members(machine: Any) -> bool:
    """Whether members are as many as are told of, read encoded rows and say what is pooled."""
    members, classes = machine.members_, len(vars(machine).get("classes_", ()))
    outputs = (classes if classes > 2 else 1) if classes else len(machine.y_mean_)
    told = (machine.weights_, machine.views_, machine.ways_)
    return all(len(each) == len(members) for each in told) and all(
        member.n_features_in_ == _width(machine) and _says(member, outputs, classes)
        for member in members
    )


def _says(member: Any, outputs: int, classes: int) -> bool:
    if type(member) is KernelRidge:
        return member.dual_coef_.shape[1:] == (() if outputs == 1 else (outputs,))
    codes = np.asarray(member.classes_)
    known = codes.dtype.kind == "i" and codes.min() >= 0 and codes.max() < classes
    return type(member) in (KernelLogisticRegression, SVC) and known


def _listed(holds: Callable[[Any], bool]) -> state.Such:
    return state.Such(
        lambda value: type(value) is list and len(value) > 0 and all(map(holds, value))
    )


def _learns(**own: state.Anything) -> state.State:
    """Return the table of what a machine learns, with parts of its own."""
    table: state.State = {
        "n_features_in_": state.SizeOf("d"),
        "encoder_": state.Such(lambda encoder: type(encoder) is TableEncoder),
        "members_": _listed(lambda member: isinstance(member, KernelEstimator)),
        "weights_": state.Doubles("m", least=0.0),
        "views_": _listed(lambda view: isinstance(view, str) and view in VIEWS),
        "ways_": _listed(lambda way: isinstance(way, str)),
        "knots_": state.Array(2, _width, KNOTS, kind="f"),
        "ranked_": state.Array(_width, kind="b"),
        "importances_": state.Doubles("d"),
        "importances_std_": state.Doubles("d"),
        "left_out_error_": state.Such(lambda error: isinstance(error, float) and error >= 0),
        "fingerprint_": state.Spare(state.Such(str)),
        **own,
    }
    return state.worded(table, state.PARTS_MISFIT, lacks=state.PARTS_MISFIT)


class FeatureMachine(BaseEstimator):
    """What both machines share: rows encoded, metrics chosen, one ridge regression in each."""

    _parameters = {
        "n_models": checks.Whole(1),
        "max_rows": checks.Whole(10),
        "max_time": checks.Maybe(checks.Number(above=0.0)),
        "max_categories": checks.Whole(1),
        "random_state": checks.SEED,
    }
    _rules = ((state.PARTS_MISFIT, _fits_its_members),)

    _has_classes = False

    set_params = set_params

    @naming
    def __init__(
        self,
        n_models: int = 16,
        *,
        max_rows: int = 700,
        max_time: float | None = None,
        categorical: Any = None,
        max_categories: int = 100,
        random_state: Any = 0,
    ):
        self.n_models = n_models
        self.max_rows = max_rows
        self.max_time = max_time
        self.categorical = categorical
        self.max_categories = max_categories
        self.random_state = random_state

    def _check_state(self) -> None:
        state.check_state(self, fitted=True)

    def _encoded(
        self, X: Any, y: Any, sample_weight: Any, encoder: TableEncoder | None
    ) -> tuple[TableEncoder, np.ndarray]:
        if y is None:  # the words that scikit-learn's common checks look for
            raise InvalidInput(f"{who()}: requires y to be passed, but the target y is None.")
        with _encoding():
            if encoder is None:
                kernels = self._kernels(X, y, sample_weight)
                encoder = TableEncoder(self.categorical, self.max_categories, kernels)
                encoder.fit(X, sample_weight=sample_weight)
            Z = encoder.transform(X)
        if len(Z) < FEWEST:
            raise InvalidInput(
                f"{who()}: {len(Z)} rows (n_samples={len(Z)}) are too few to learn a metric from; "
                f"give {FEWEST} or more, or use KernelRidge."
            )
        return encoder, Z

    def _kernels(self, X: Any, y: Any, sample_weight: Any) -> dict[Any, Any] | None:
        """Return kernels for columns of text, strings and graphs; None where there are none."""
        if (Z := self._free_table(X)) is None:
            return None
        y = self._checked_target(y, len(Z))
        weights = check_weights(sample_weight, len(Z), relative=True)
        if weights is not None:
            Z, y = Z.take(weights > 0), y[weights > 0]
        return free_kernels(Z, y, classes=self._has_classes, categorical=self._said_categorical)

    @property
    def _said_categorical(self) -> Any:
        return () if self.categorical is None else self.categorical

    def _free_table(self, X: Any) -> Table | None:
        """Return a table with columns of text, strings or graphs; None where it has none."""
        said = self._said_categorical
        if _is_told(X, said):
            return None
        try:
            Z = read_rows(X, None)
            return Z if has_free_columns(Z, said) else None
        except (InvalidInput, TypeError):
            return None  # of what is no table, the encoder speaks

    def _learn(
        self,
        encoder: TableEncoder,
        rows: EncodedRows,
        labels: np.ndarray | None,
        clock: Clock,
        fit: bool,
    ) -> Chosen:
        """Choose metrics, and fit a ridge regression in each to all rows."""
        total, told = len(rows), fingerprint(rows.Z)
        active = np.arange(total) if rows.w is None else np.flatnonzero(rows.w)
        if len(active) < FEWEST:
            raise InvalidInput(
                f"{who()}: {len(active)} rows have a positive weight; give {FEWEST} or more."
            )
        rows = rows.take(active)
        if rows.w is not None:
            rows = replace(rows, w=None if np.ptp(rows.w) == 0 else rows.w / rows.w.mean())
        scores = NormalScores.of(rows.Z, rows.w, numbers_of(encoder))
        choice = Choice(
            rows,
            scores,
            None if labels is None else labels[active],
            n_models=self.n_models,
            max_rows=self.max_rows,
            clock=clock,
            rng=as_rng(self.random_state),
            fit=fit,
        )
        with _in_its_memory():
            chosen = choice.made()
        _tell_overrun(clock)
        weights = chosen.together.weights
        self.encoder_, self.fingerprint_ = encoder, told
        self.knots_, self.ranked_ = scores.knots, scores.ranked
        self.members_ = chosen.members
        self.weights_ = weights
        self.views_ = [each.view for each in chosen.judged]
        self.ways_ = [each.name for each in chosen.judged]
        folds = len(chosen.judged[0].metrics)
        spread = {
            view: np.average(
                (Z - np.average(Z, axis=0, weights=rows.w)) ** 2, axis=0, weights=rows.w
            )
            for view, Z in ((view, scores.view(rows.Z, view)) for view in set(self.views_))
        }
        shares = np.array(
            [
                sum(
                    weight * _by_column(encoder, each.metrics[k].shares(spread[each.view]))
                    for weight, each in zip(weights, chosen.judged, strict=True)
                )
                for k in range(folds)
            ]
        )
        self.importances_ = shares.mean(axis=0) / weights.sum()
        self.importances_std_ = shares.std(axis=0) / weights.sum()
        self.n_features_in_ = encoder.n_features_in_
        left_out = np.full((total, chosen.left_out.shape[1]), np.nan)
        left_out[active] = chosen.left_out
        return replace(chosen, left_out=left_out)

    def _fit_blocks(self, blocks: RowBlocks) -> Any:
        """Learn from a sample, fit members to all blocks, and only then keep anything."""
        blocks, clock, kernels = blocks.as_tables(), Clock(self.max_time), None
        if self._free_table(blocks.first().X) is not None:
            few = blocks.sample(streams.FEW, self.random_state, with_targets=True)
            kernels = self._kernels(few[0], _one_column(few[1]), few[2])
        encoder = TableEncoder(self.categorical, self.max_categories, kernels).fit(blocks)
        size = streams.sample_size(len(numbers_of(encoder)))
        some, y, weight = blocks.sample(size, self.random_state, with_targets=True)
        if weight is not None and len(weight) == size:
            weight = weight / weight.mean()  # a weight is a repetition: a row drawn is one row
        y = _one_column(y)
        found: Any = clone(self)
        if self.max_time is not None:  # the other half is for fits to all blocks
            found.max_time = 0.5 * self.max_time
        chosen = found._fit_rows(some, y, weight, encoder)
        scores = NormalScores(found.knots_, found.ranked_)
        found.members_ = []
        mean = streams.mean_weight(blocks)
        for judged in chosen.judged:
            if found.members_ and clock.late:
                break
            rows = blocks.with_points(streams.EncodedView(encoder, scores, judged.view))
            rows = rows.with_targets(found._block_targets(y, weight, judged.loss == LOGISTIC))
            with _in_its_memory():
                member = streams.fitted_to_blocks(judged, rows, mean, self.random_state)
            found.members_.append(member)
        found._keep_first(len(found.members_))
        for name in self._learned:
            setattr(self, name, getattr(found, name))
        return self

    def _keep_first(self, count: int) -> None:
        """Do with the members that there was time for; those of the largest weights come first."""
        for name in ("weights_", "views_", "ways_", "slopes_"):
            if name in vars(self):
                setattr(self, name, getattr(self, name)[:count])
        self.weights_ = self.weights_ / self.weights_.sum()

    def _plan(self, X: Any, y: Any) -> Plan:
        check_parameters(self)
        blocks = None
        if is_stream(X):
            blocks = X.as_tables() if isinstance(X, RowBlocks) else RowBlocks.from_dask(X, y)
            first = blocks.first()
            X, y = first.X, first.y
        with _encoding():
            kernels = None if y is None else self._kernels(X, _one_column(y), None)
            encoder = TableEncoder(self.categorical, self.max_categories, kernels).fit(X)
            Z: Any = encoder.transform(X)
        classes, columns = is_classifier(self), Z.shape[1]
        scores = NormalScores.of(Z, None, numbers_of(encoder))
        seen, outputs = len(Z), _outputs(y, classes)
        if blocks is not None:
            seen = min(blocks.n_rows, streams.sample_size(columns))
            Z = blocks.with_points(streams.EncodedView(encoder, scores, ""))
        shares = Shares.of(seen, self.max_rows, classes)
        views = len(scores.views)
        ways = [recipe.how for recipe in FIRST] * views
        for recipe in recipes_for(shares.bench, int(groups_of(encoder).max()) + 1):
            ways += [recipe.how] * min(recipe.views, views)
        if classes and (outputs == 2 or shares.leaves_out):
            ways += [LOGISTIC] * sum(TRIED[LOGISTIC])
        if classes and blocks is None and len(Z) <= MARGINS:
            ways += [HINGE] * sum(TRIED[HINGE])
        return plan_of(shares, Z, outputs, ways, self.n_models, self.max_time)

    plan = tell_plan

    def _values(self, X: Any, classes: int = 0) -> list[np.ndarray]:
        """Return the values of each member at rows, an axis for outputs or classes always."""
        check_is_fitted(self)
        with _encoding():
            Z = self.encoder_.transform(X)
        scores = NormalScores(self.knots_, self.ranked_)
        seen = {view: scores.view(Z, view) for view in set(self.views_)}
        return [
            class_values(member, seen[view], classes)
            for view, member in zip(self.views_, self.members_, strict=True)
        ]

    @property
    def function_(self) -> Any:
        """The function of the one member, on encoded rows; of several there is not one RKHS."""
        members = vars(self).get("members_", ())
        if len(members) == 1:
            return members[0].function_
        raise AttributeError(
            f"{type(self).__name__} has no function_: it is a mean of functions in the RKHS of "
            "each metric; members_[0].function_ is the first of them."
        )

    @property
    def metric_(self) -> np.ndarray:
        """The learned metric of the encoded columns, mean of the members', of trace 1."""
        check_is_fitted(self)
        total = 0.0
        for weight, member in zip(self.weights_, self.members_, strict=True):
            total = total + weight * _matrix_of(member.kernel_)
        return np.asarray(total)

    @property
    def solutions_(self) -> list[Any]:
        """The certificate of each member."""
        check_is_fitted(self)
        return [member.solution_ for member in self.members_]

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns; absent when fitted on an array."""
        return self.encoder_.feature_names_in_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.target_tags.required = True
        return tags


def _is_told(X: Any, categorical: Any) -> bool:
    """Whether all columns are numbers, or said to be categories, as `mercer fit` says it of all."""
    if isinstance(X, np.ndarray):
        return X.dtype != object
    if not isinstance(X, Table) or not isinstance(categorical, list | tuple):
        return False
    columns = zip(X.names, X.columns, strict=True)
    return all(column.dtype != object or name in categorical for name, column in columns)


@contextmanager
def _encoding() -> Iterator[None]:
    """Let what an encoder refuses be refused by the model that has it."""
    try:
        yield
    except InvalidInput as error:
        raise type(error)(str(error).replace(TableEncoder.__name__, who())) from error


@contextmanager
def _in_its_memory() -> Iterator[None]:
    """Let what a member has no memory for be refused by the model that has it."""
    try:
        yield
    except MemoryBudgetExceeded as error:
        text = str(error)
        for name in (each.__name__ for each in (KernelRidge, KernelLogisticRegression, SVC)):
            text = text.replace(f"{name}: ", f"{who()}: ", 1)
        raise MemoryBudgetExceeded(text, error.needed, error.allowed) from error


def _ratios(weights: np.ndarray | None) -> np.ndarray | None:
    """Return weights of largest 1: a penalty is chosen beside them, so that only ratios matter.

    A row of next to no weight is left out: sums of squares would overflow beside it.
    """
    if weights is None:
        return None
    ratios = weights / weights.max()
    return np.where(ratios < LEAST_WEIGHT, 0.0, ratios)


def _matrix_of(kernel: Any) -> np.ndarray:
    """Return AᵀA of a member's kernel over its trace."""
    A = getattr(kernel, "matrix", None)
    M = np.diag(1.0 / np.square(np.ravel(kernel.length_scale))) if A is None else A.T @ A
    return M / np.trace(M)


def _tell_overrun(clock: Clock) -> None:
    """Warn of a fit that could not keep to its time."""
    if clock.limit is not None and clock.spent > OVERRUN * clock.limit + 0.5:
        warnings.warn(
            f"{who()}: max_time={clock.limit:g} s is too short for one metric and the fits to all "
            f"rows, which are made in any case and took {clock.spent:.2g} s; allow more time, or "
            "learn from fewer rows with a smaller max_rows.",
            UserWarning,
            stacklevel=users_level(),
        )


def _reach(residuals: np.ndarray, weights: np.ndarray, coverage: float) -> float:
    """Return the least residual with a share of the weight, that of a new row among it, below."""
    order = np.argsort(residuals, kind="stable")
    counted = np.cumsum(weights[order]) / weights.mean()
    at = int(np.searchsorted(counted, coverage * (len(counted) + 1) * (1 - 1e-12)))
    return float(residuals[order[at]]) if at < len(order) else np.inf


def _one_column(y: Any) -> Any:
    """Return targets of one output as a vector, as they come from blocks as a matrix."""
    return np.ravel(y) if np.ndim(y) == 2 and np.shape(y)[1] == 1 else y


def _outputs(y: Any, classes: bool) -> int:
    """Return how many columns a target has for ridges, one where nothing is known of it."""
    if y is None:
        return 1
    if classes:
        return len(np.unique(np.asarray(y)))
    return int(np.shape(y)[1]) if np.ndim(y) == 2 else 1


def _by_column(encoder: TableEncoder, shares: np.ndarray) -> np.ndarray:
    """Return shares of encoded columns added up for the columns of the table."""
    out = np.zeros(encoder.n_features_in_)
    np.add.at(out, np.repeat(np.arange(len(out)), encoder.widths), shares)
    return out


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
    `WeisfeilerLehman` of graphs. A scale for each column is one for all of its coordinates. In a
    table with such columns identifiers and dates are left out.

    Parameters
    ----------
    n_models : int, default=16
        The most ridge regressions in the mean; 1 for one function in one RKHS.
    max_rows : int, default=700
        Rows that a metric is learned from: half of the table, or two thirds of 400 rows or less,
        and at most so many. The regressions see all rows; of more than 8000 they are in the span
        of 2000 centres.
    max_time : float, optional
        Seconds after which no further metric is tried; what was found so far is used.
    categorical : sequence of str or int, optional
        Columns of numbers or text to be read as categories.
    max_categories : int, default=100
        The most frequent categories that are kept of each column.
    random_state : int, RandomState or None, default=0
        Decides which rows are in which fold.

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
        than 3000 rows for those that were not held out. Of `RowBlocks`, of the sample.
    left_out_error_ : float
        Their root mean squared error over the standard deviation of y: 1 is no better than the
        mean.
    members_ : list of KernelRidge
        The ridge regressions, on encoded rows and scaled targets.
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

    _state = _learns(
        left_out_=state.Array("n", "t?", kind="f"),
        y_mean_=state.Doubles("t"),
        y_scale_=state.Doubles("t", above=0.0),
        residuals_=state.Doubles("r", "t", least=0.0),
        residual_weights_=state.Doubles("r", above=0.0),
    )
    _learned = tuple(_state)

    score = r_squared

    @speaks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> FeatureMachineRegressor:
        """Learn metrics, and fit a regression in each.

        Parameters
        ----------
        X : data frame, Table, dict of columns, 2-D array or RowBlocks
            The table; numbers, categories, text, strings, graphs and gaps. Of `RowBlocks` and dask
            data, which need not fit into memory, metrics come from 20,000 rows, and the fits see
            all of them.
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

    def _fit_rows(self, X: Any, y: Any, sample_weight: Any, encoder: Any = None) -> Chosen:
        clock, fit = Clock(self.max_time), encoder is None
        encoder, Z = self._encoded(X, y, sample_weight, encoder)
        Y = self._checked_target(y, len(Z))
        weights = _ratios(check_weights(sample_weight, len(Z), relative=True))
        T = Y.reshape(len(Y), -1)
        refuse_sums(T, float(len(T)))
        unit = np.abs(T).max(axis=0, initial=0.0)  # squares of 1e200 would overflow
        unit[unit == 0] = 1.0
        mean = unit * np.average(T / unit, axis=0, weights=weights)
        spread = np.average(((T - mean) / unit) ** 2, axis=0, weights=weights)
        scale = np.where(spread <= 1e-26, 1.0, unit * np.sqrt(spread))
        rows = EncodedRows(Z, (T - mean) / scale, weights, groups_of(encoder))
        chosen = self._learn(encoder, rows, None, clock, fit)
        self.y_mean_, self.y_scale_ = mean, scale
        self.left_out_ = self._in_units(chosen.left_out, Y.ndim == 1)
        self.left_out_error_ = float(np.sqrt(chosen.error))
        residuals = np.abs(self.left_out_.reshape(T.shape) - T)
        known = ~np.isnan(residuals[:, 0])
        self.residuals_ = residuals[known]
        self.residual_weights_ = np.ones(len(T))[known] if weights is None else weights[known]
        return chosen

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
        X : data frame, Table, dict of columns or 2-D array
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
        of n, infinitely far where there are too few rows for that. Weights count as rows do.

        Parameters
        ----------
        X : data frame, Table, dict of columns or 2-D array
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


class FeatureMachineClassifier(ClassifierMixin, FeatureMachine):
    r"""Classification by kernels in a metric that is learned from the data.

    As `FeatureMachineRegressor`, on a column of 0 and 1 for each class; in the best metrics a
    logistic regression is tried as well, of several classes where there are not more than twice
    `max_rows` rows. The values of each member become probabilities by a softmax, whose slope and
    offsets make the log loss at rows left out small; the model is their logarithmic pool, the
    probabilities multiplied with each other to powers of least log loss there.

    Parameters
    ----------
    n_models : int, default=16
        The most regressions in the pool.
    max_rows : int, default=700
        Rows that a metric is learned from, as of `FeatureMachineRegressor`.
    max_time : float, optional
        Seconds after which no further metric is tried.
    categorical : sequence of str or int, optional
        Columns of numbers or text to be read as categories.
    max_categories : int, default=100
        The most frequent categories that are kept of each column.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" counts every class alike.
    random_state : int, RandomState or None, default=0
        Decides which rows are in which fold.

    Attributes
    ----------
    classes_ : ndarray
        The classes.
    importances_, importances_std_, metric_, members_, weights_, ways_, solutions_, encoder_
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
    >>> model = FeatureMachineClassifier(n_models=1, max_rows=60).fit(table, grower)
    >>> model.left_out_error_ < 0.05
    True
    """

    _state = _learns(
        classes_=state.Labels("c"),
        left_out_=state.Array("n", "c", kind="f"),
        slopes_=state.Doubles("m"),
        offset_=state.Doubles("c"),
    )
    _learned = tuple(_state)
    _has_classes = True

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
    ):
        super().__init__(
            n_models,
            max_rows=max_rows,
            max_time=max_time,
            categorical=categorical,
            max_categories=max_categories,
            random_state=random_state,
        )
        self.class_weight = class_weight

    @speaks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> FeatureMachineClassifier:
        """Learn metrics, and fit a regression in each.

        Parameters
        ----------
        X : data frame, Table, dict of columns, 2-D array or RowBlocks
            The table; numbers, categories, text, strings, graphs and gaps. Of `RowBlocks` and dask
            data, which need not fit into memory, metrics come from 20,000 rows, and the fits see
            all of them.
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

    def _fit_rows(self, X: Any, y: Any, sample_weight: Any, encoder: Any = None) -> Chosen:
        clock, fit = Clock(self.max_time), encoder is None
        encoder, Z = self._encoded(X, y, sample_weight, encoder)
        y = self._checked_target(y, len(Z))
        weights = check_weights(sample_weight, len(Z), relative=True)
        if self.class_weight is not None:
            of_class = class_weights(self.class_weight, y, weights)
            weights = of_class if weights is None else weights * of_class
            with speaking_for(f"{who()}: class_weight"):
                weights = check_weights(weights, len(Z), relative=True)
        weights = _ratios(weights)
        classes = find_classes(y)
        if weights is not None:
            check_kept_classes(y, y[weights > 0])
        labels = np.searchsorted(classes, y)
        T = coded_columns(labels, len(classes))
        mean, scale = _centre(T, weights)
        rows = EncodedRows(Z, (T - mean) / scale, weights, groups_of(encoder))
        chosen = self._learn(encoder, rows, labels, clock, fit)
        self.classes_ = classes
        pool: Any = chosen.together
        self.slopes_, self.offset_ = pool.slopes, pool.offset
        self.left_out_, self.left_out_error_ = chosen.left_out, chosen.error
        return chosen

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
        X : data frame, Table, dict of columns or 2-D array
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
        X : data frame, Table, dict of columns or 2-D array
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
        X : data frame, Table, dict of columns or 2-D array
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
