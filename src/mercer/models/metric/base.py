"""What both feature machines share: rows encoded, metrics chosen, a regression in each."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from mercer import checks, state
from mercer.checks import Clock, as_rng, check_parameters
from mercer.domains import RowBlocks, Table, is_torch, to_host
from mercer.errors import InvalidInput, MemoryBudgetExceeded, naming, speaks, users_level, who
from mercer.estimator import (
    KernelEstimator,
    Plan,
    computing_where,
    defaults_of,
    is_stream,
    set_params,
    tell_plan,
)
from mercer.features import TableEncoder
from mercer.models.margin import SVC
from mercer.models.metric import streams
from mercer.models.metric.choice import Choice, Chosen, losses_for
from mercer.models.metric.contents import Contents
from mercer.models.metric.learning import (
    LOGISTIC,
    TWICE,
    EncodedRows,
    Pace,
    Shares,
    plan_of,
    rows_in_time,
    trials_of,
)
from mercer.models.metric.members import class_values, fits_its_members, width_of
from mercer.models.metric.scores import (
    KNOTS,
    VIEWS,
    NormalScores,
    by_contents,
    fingerprint,
    groups_of,
    numbers_of,
)
from mercer.models.metric.strings import free_kernels
from mercer.models.metric.trials import FIRST, recipes_for, warm_up
from mercer.models.ridge import KernelRidge
from mercer.models.risk import KernelLogisticRegression
from mercer.rkhs import Explanation, explain_answers

F = TypeVar("F", bound=Callable[..., Any])

FEWEST = 5  # rows
PLANNED = 50_000  # rows of a table that are encoded to plan a fit to more
OF_STRINGS = 0.25  # of max_time, for the choice of kernels on strings
OF_SAMPLE = 0.5  # of max_time, for what is learned from a sample of blocks
OVERRUN = 1.1  # of max_time, beyond which a word is said
LEAST_WEIGHT = 1e-12  # relative to the largest


def speaks_inside(fit: F) -> F:
    """Let the model that a machine is inside of speak in place of it, or else the machine."""
    alone = speaks(fit)

    @wraps(fit)
    def speaking(machine: Any, *args: Any, **options: Any) -> Any:
        outer = who()
        inside = outer.isidentifier() and outer[0].isupper()  # the name of a class
        return (fit if inside else alone)(machine, *args, **options)

    return cast(F, speaking)


def _listed(holds: Callable[[Any], bool]) -> state.Such:
    return state.Such(
        lambda value: type(value) is list and len(value) > 0 and all(map(holds, value))
    )


def learns(**own: state.Anything) -> state.State:
    """Return the table of what a machine learns, with parts of its own."""
    table: state.State = {
        "n_features_in_": state.SizeOf("d"),
        "encoder_": state.Such(lambda encoder: type(encoder) is TableEncoder),
        "members_": _listed(lambda member: isinstance(member, KernelEstimator)),
        "weights_": state.Doubles("m", least=0.0),
        "views_": _listed(lambda view: isinstance(view, str) and view in VIEWS),
        "ways_": _listed(lambda way: isinstance(way, str)),
        "knots_": state.Array(2, width_of, KNOTS, kind="f"),
        "ranked_": state.Array(width_of, kind="b"),
        "importances_": state.Doubles("d"),
        "importances_std_": state.Doubles("d"),
        "left_out_error_": state.Such(lambda error: isinstance(error, float) and error >= 0),
        "fingerprint_": state.Spare(state.Such(str)),
        **own,
    }
    return state.worded(table, state.PARTS_MISFIT, lacks=state.PARTS_MISFIT)


@speaks(".explain")
def explain_table(
    self: Any,
    X: Any,
    *,
    background: Any = None,
    background_weight: Any = None,
    interactions: bool = False,
    groups: Any = None,
    random_state: int = 0,
) -> Explanation:
    r"""Return the shares of columns in predictions of a table, its Shapley values.

    They add up: f(x) = base + Σⱼ φⱼ(x), with f the prediction of a regression, the log-odds of two
    classes, or of each of several classes. A column that is not known has the values of one row of
    the background, in the mean over its rows. The model is asked at all mixed rows where columns
    are few; else orders of the columns are drawn, and ``std`` holds the standard errors.

    Parameters
    ----------
    X : data frame, Table, dict of columns or 2-D array
        The rows.
    background : data frame, Table, dict of columns or 2-D array
        Rows that stand for what is not known, such as a hundred of those of the fit.
    background_weight : array, optional
        Their weights; a weight of 2 is a row that occurs twice.
    interactions : bool, default=False
        Whether to tell what two columns do together as well, of few columns.
    groups : list of lists of columns, optional
        Columns, by name or position, that share as one.
    random_state : int, default=0
        Decides the orders of columns, where they are drawn.

    Returns
    -------
    Explanation
        ``values``, ``base``, ``columns``, ``data``, and ``interactions`` or ``std`` where there
        are such.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import TableRegressor
    >>> X = {"size": np.arange(40.0), "kind": ["a", "b"] * 20}
    >>> y = X["size"] + 10.0 * (np.array(X["kind"]) == "a")
    >>> model = TableRegressor(model="ridge").fit(X, y)
    >>> told = model.explain(X, background=X)
    >>> bool(np.allclose(told.totals, model.predict(X)))
    True
    """
    check_is_fitted(self)
    checks.check_index(random_state, "random_state", 0)
    answers = self.decision_function if is_classifier(self) else self.predict
    names = [str(label) for label in self.classes_] if is_classifier(self) else None
    return explain_answers(
        answers,
        X,
        background,
        background_weight=background_weight,
        interactions=interactions,
        groups=groups,
        outputs=names,
        random_state=random_state,
    )


class FeatureMachine(BaseEstimator):
    """What both machines share: rows encoded, metrics chosen, one ridge regression in each."""

    _parameters = {
        "n_models": checks.Whole(1),
        "max_rows": checks.Whole(10),
        "max_time": checks.Maybe(checks.Number(above=0.0)),
        "max_categories": checks.Whole(1),
        "random_state": checks.SEED,
    }
    _rules = ((state.PARTS_MISFIT, fits_its_members),)

    _has_classes = False
    _of_one_kernel = "KernelRidge"

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
        kinds: Any = None,
    ):
        self.n_models = n_models
        self.max_rows = max_rows
        self.max_time = max_time
        self.categorical = categorical
        self.max_categories = max_categories
        self.random_state = random_state
        self.kinds = kinds

    def _check_state(self) -> None:
        state.check_state(self, fitted=True)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # a pickle of before has the defaults of parameters that came since
        super().__setstate__({**defaults_of(type(self)), **state})  # type: ignore[misc, arg-type]

    def _encoded(
        self, X: Any, y: Any, sample_weight: Any, encoder: TableEncoder | None
    ) -> tuple[TableEncoder, np.ndarray]:
        if y is None:  # the words that scikit-learn's common checks look for
            raise InvalidInput(f"{who()}: requires y to be passed, but the target y is None.")
        with _encoding():
            if encoder is None:
                encoder = self._new_encoder(X, y, sample_weight)
                encoder.fit(X, sample_weight=sample_weight)
            Z = encoder.transform(X)
        if len(Z) < FEWEST:
            raise InvalidInput(
                f"{who()}: {len(Z)} rows (n_samples={len(Z)}) are too few to learn a metric from; "
                f"give {FEWEST} or more, or fit one kernel with {self._of_one_kernel}."
            )
        return encoder, Z

    def _new_encoder(self, X: Any, y: Any, sample_weight: Any) -> TableEncoder:
        """Return an encoder of the columns of a table, as yet unfitted."""
        told = Contents.of(X, self.categorical, self.kinds, sample_weight)
        return self._encoder_of(told, None if told is None else told.left_out(), y)

    def _encoder_of(self, told: Contents | None, left_out: Any, y: Any) -> TableEncoder:
        """Return an encoder with kernels for text, strings and graphs, of strings by targets."""
        kernels, categorical = left_out or {}, self.categorical
        if told is not None:
            categorical = told.categories()
        if told is not None and told.free and y is not None:
            y = self._checked_target(y, told.count)[told.rows]
            how: dict[str, Any] = {"classes": self._has_classes}
            how["patience"] = OF_STRINGS * (self.max_time or np.inf)
            kernels = kernels | free_kernels(told.Z, y, told.found, **how)
        return TableEncoder(categorical, self.max_categories, kernels or None, indicators=True)

    def _encoder_of_blocks(self, blocks: RowBlocks) -> TableEncoder:
        """Return an unfitted encoder of rows in blocks: some rows tell what columns hold."""
        seen = streams.FEW, self.random_state
        told, left_out, y = Contents.of_blocks(blocks, self.categorical, self.kinds, *seen)
        return self._encoder_of(told, left_out, None if y is None else _one_column(y))

    def _learn(
        self,
        encoder: TableEncoder,
        rows: EncodedRows,
        labels: np.ndarray | None,
        clock: Clock,
        fit: bool,
    ) -> tuple[Chosen, np.ndarray]:
        """Choose metrics, and fit a model in each to all rows; return them, and the order of these.

        That is an order by what rows hold, so that the order in which they came decides nothing;
        rows of weight 0 are not in it.
        """
        total, told = len(rows), fingerprint(rows.Z)
        active = np.arange(total) if rows.w is None else np.flatnonzero(rows.w)
        if len(active) < FEWEST:
            raise InvalidInput(
                f"{who()}: {len(active)} rows have a positive weight; give {FEWEST} or more."
            )
        columns = (*rows.T.T, *rows.Z.T, *(() if rows.w is None else (rows.w,)))
        active = active[by_contents(column[active] for column in columns)]
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
        self.encoder_, self.fingerprint_ = encoder, told
        self.n_features_in_ = encoder.n_features_in_
        self.knots_, self.ranked_ = scores.knots, scores.ranked
        if fit:
            self._tell_limit(clock, chosen)
        return chosen, active

    def _tell(self, chosen: Chosen, order: np.ndarray, total: int) -> np.ndarray:
        """Keep what is told of members; return what they say of rows left out, as these came."""
        rows, scores = chosen.rows.rows, NormalScores(self.knots_, self.ranked_)
        weights, encoder = chosen.together.weights, self.encoder_
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
        left_out = np.full((total, chosen.left_out.shape[1]), np.nan)
        left_out[order] = chosen.left_out
        return left_out

    def _clock(self) -> Clock:
        """Return a clock for what is limited; loading and compiling is not."""
        if self.max_time is not None:
            warm_up(self._has_classes)
        return Clock(self.max_time)

    @abstractmethod
    def _fit_rows(
        self, X: Any, y: Any, sample_weight: Any, encoder: Any = None
    ) -> tuple[Chosen, Callable[[Chosen], None]]:
        """Learn from rows in memory; with an encoder, members are left to be fitted to others.

        Return what was chosen, and what keeps it, or a part of it.
        """

    @abstractmethod
    def _block_targets(self, y: Any, weight: Any, logistic: bool) -> Any:
        """Return what turns targets of a block into what a member is fitted to."""

    def _fit_blocks(self, blocks: RowBlocks) -> Any:
        """Learn from a sample, fit members to all blocks, and only then keep anything."""
        blocks, clock = blocks.as_tables(), self._clock()
        encoder = self._encoder_of_blocks(blocks).fit(blocks)
        size = streams.sample_size(len(numbers_of(encoder)))
        some, y, weight = blocks.sample(size, self.random_state, with_targets=True)
        if weight is not None and len(weight) == size:
            weight = weight / weight.mean()  # a weight is a repetition: a row drawn is one row
        y = _one_column(y)
        found: Any = clone(self)
        if self.max_time is not None:  # the rest is for fits to all blocks
            found.max_time = OF_SAMPLE * self.max_time
        chosen, tell = found._fit_rows(some, y, weight, encoder)
        scores = NormalScores(found.knots_, found.ranked_)
        members: list[Any] = []
        mean = streams.mean_weight(blocks)
        longest, pace = 0.0, Pace()
        for judged in chosen.judged:
            began, rest = clock.spent, clock.rest()
            if members and rest is not None and rest < longest:
                break
            rows = blocks.with_points(streams.EncodedView(encoder, scores, judged.view))
            rows = rows.with_targets(found._block_targets(y, weight, judged.loss == LOGISTIC))
            seconds = None if rest is None else rest / TWICE
            with _in_its_memory():
                member = streams.fitted_to_blocks(
                    judged, rows, mean, self.random_state, seconds, pace
                )
            members.append(member)
            longest = max(longest, clock.spent - began)
        chosen = chosen.with_first(members)
        tell(chosen)
        self._tell_limit(clock, chosen)
        for name in self._learned:
            setattr(self, name, getattr(found, name))
        return self

    def _plan(self, X: Any, y: Any) -> Plan:
        check_parameters(self)
        blocks, like, y = None, tensor_of(X), to_host(y, "y")
        if is_stream(X):
            blocks = X.as_tables() if isinstance(X, RowBlocks) else RowBlocks.from_dask(X, y)
            first = blocks.first()
            X, y = first.X, first.y
        with _encoding():
            if blocks is None:
                encoder = self._new_encoder(X, None if y is None else _one_column(y), None)
            else:
                encoder = self._encoder_of_blocks(blocks)
            Z: Any = encoder.fit(X).transform(_some_rows(X) if _is_long(X) else X)
        classes, columns = is_classifier(self), Z.shape[1]
        scores = NormalScores.of(Z, None, numbers_of(encoder))
        outputs, some, limit = _outputs(y, classes), Z, self.max_time
        rows = seen = X.shape[0] if _is_long(X) else len(Z)
        if blocks is not None:
            rows = blocks.n_rows
            seen = min(blocks.n_rows, streams.sample_size(columns))
            Z = blocks.with_points(streams.EncodedView(encoder, scores, ""))
            limit = None if limit is None else OF_SAMPLE * limit
        seconds = trials_of(Shares.of(seen, self.max_rows, classes), limit)
        most = rows_in_time(some, seen, self.max_rows, seconds)
        shares = Shares.of(seen, most, classes)
        views = len(scores.views)
        ways = [recipe.how for recipe in FIRST] * views
        for recipe in recipes_for(shares.bench, int(groups_of(encoder).max()) + 1):
            ways += [recipe.how] * min(recipe.views, views)
        if classes:
            for loss, counts in losses_for(shares, outputs, blocks is None).items():
                ways += [loss] * sum(counts)
        return plan_of(shares, Z, outputs, ways, self.n_models, self.max_time, like, rows)

    plan = tell_plan
    explain = explain_table

    def _values(self, X: Any, classes: int = 0) -> list[np.ndarray]:
        """Return the values of each member at rows, an axis for outputs or classes always."""
        check_is_fitted(self)
        with _encoding():
            Z = self.encoder_.transform(X)
        scores = NormalScores(self.knots_, self.ranked_)
        seen = {view: scores.view(Z, view) for view in set(self.views_)}
        with computing_where(X):
            return [
                class_values(member, seen[view], classes)
                for view, member in zip(self.views_, self.members_, strict=True)
            ]

    def _tell_limit(self, clock: Clock, chosen: Chosen) -> None:
        """Warn of a fit that could not keep to its time, or that learned no metric in it."""
        if clock.limit is None:
            return
        said = f"{who()}: max_time={clock.limit:g} s is too short"
        if clock.spent > OVERRUN * clock.limit + 0.5:
            text = (
                f"{said} for one metric and the fits to all rows, which are made in any case and "
                f"took {clock.spent:.2g} s; allow more time."
            )
            warnings.warn(text, UserWarning, stacklevel=users_level())
        if chosen.late and all(judged.recipe in FIRST for judged in chosen.judged):
            text = f"{said} to learn a metric: importances_ say nothing yet; allow more time."
            warnings.warn(text, UserWarning, stacklevel=users_level())

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


def tensor_of(X: Any) -> Any:
    """Return rows that are a tensor, on whose device members are fitted; None for others."""
    return X if is_torch(X) else None


def ratios(weights: np.ndarray | None) -> np.ndarray | None:
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


def _one_column(y: Any) -> Any:
    """Return targets of one output as a vector, as they come from blocks as a matrix."""
    return np.ravel(y) if np.ndim(y) == 2 and np.shape(y)[1] == 1 else y


def _is_long(X: Any) -> bool:
    """Whether some rows tell what all of them take."""
    return isinstance(X, Table | np.ndarray) and X.shape[0] > PLANNED


def _some_rows(X: Any) -> Any:
    """Return rows of a long table at even steps."""
    index = np.linspace(0, X.shape[0] - 1, PLANNED).astype(int)
    return X.take(index) if isinstance(X, Table) else X[index]


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
