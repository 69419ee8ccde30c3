"""Scores of one kernel and many settings on the folds of one set of data, with shared work."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from mercer.checks import Clock
from mercer.domains import Table, Vectors, is_torch
from mercer.errors import InvalidInput, MercerError, speaking_for, speaks, who
from mercer.estimator import (
    KernelEstimator,
    asks_centers,
    check_weights,
    in_double,
    kernel_of,
    prepare_labels,
    prepare_targets,
)
from mercer.kernels import Kernel
from mercer.models import KernelRidge, KernelRidgeClassifier
from mercer.models.margin import Tally, gram_rows, is_margin
from mercer.models.neighbors import NeighborsBase
from mercer.models.risk import Risk
from mercer.operators import Gram
from mercer.selection.grid.judge import FoldJudge
from mercer.selection.grid.paths import (
    NeedsModel,
    grouped,
    of_kernel,
    plain_fit,
    shared_answers,
    split_rows,
    without,
)
from mercer.settings import config, get_config
from mercer.solvers import Rows
from mercer.threads import inheriting, single_threaded_blas, workers

#: Models that show what words of a kernel come to before they are fitted; so do margin machines.
RESOLVING = (KernelRidge, KernelRidgeClassifier, Risk)
SHARED = 500  # rows from which fits take turns at more than Python's lock
_NOBODY_ELSE: AbstractContextManager = nullcontext()
COPIES = 4  # matrices of the size of the Gram matrix that a fit on a part of it may need


# ---- Which fits of a fold begin where others ended: regularised risks, from large penalties
# down.


class WarmStarts:
    """What a fit on each fold leaves for the next: a solution, or the first steps of a pipeline.

    A solution is for a fit that differs in a smaller penalty only, steps before the last for one
    that differs in the last only.

    Parameters
    ----------
    base : estimator
        The model; models that leave nothing are fitted in the order of the settings.
    settings : sequence of dict
        Its parameters, one dict for each fit on a fold.
    """

    def __init__(self, base: Any, settings: Sequence[dict[str, Any]]):
        self.warm = isinstance(base, Risk)
        self._group, self._rank = np.arange(len(settings)), np.zeros(len(settings))
        self._last: dict[tuple[int, int], Any] = {}
        if self.warm:
            for g, (_, members) in enumerate(grouped([without("alpha", s) for s in settings])):
                self._group[members] = g
            self._rank = np.array([-_number(s.get("alpha", base.alpha)) for s in settings])
        self.steps = type(base) is Pipeline and base.memory is None and len(base.steps) > 1
        self._first: dict[int, tuple[int, list, Any]] = {}  # by fold: group, fitted steps, rows
        if self.steps:
            last = base.steps[-1][0]
            heads = [{n: v for n, v in s.items() if n.partition("__")[0] != last} for s in settings]
            for g, (_, members) in enumerate(grouped(heads)):
                self._group[members] = g

    def order(self, left: np.ndarray, by_fold: bool) -> list[tuple[int, int]]:
        """Return pairs of setting and fold in the order of the fits."""

        def key(pair: tuple[int, int]) -> tuple:
            i, k = pair
            return (k if by_fold else 0, self._group[i], self._rank[i], i, k)

        return sorted(((int(i), int(k)) for i, k in left), key=key)

    def near(self, i: int, k: int) -> Any:
        """Return a fitted model to begin with, or None."""
        return self._last.get((int(self._group[i]), k))

    def fit(self, base: Any, setting: dict[str, Any], i: int, k: int, X: Any, y: Any) -> Any:
        """Return a fitted pipeline, whose steps before the last may be those of another."""
        copies = {name: clone(value, safe=False) for name, value in setting.items()}
        fresh, group = clone(base).set_params(**copies), int(self._group[i])
        if not hasattr(fresh.steps[-1][1], "fit") or "steps" in setting:
            return fresh.fit(X, y)
        if k not in self._first or self._first[k][0] != group:
            self._first.pop(k, None)  # not two at a time
            head = fresh[:-1]
            rows = head.fit_transform(X, y)
            self._first[k] = group, head.steps, rows
        _, fitted, rows = self._first[k]
        fresh.steps[:-1] = fitted
        fresh.steps[-1][1].fit(rows.copy() if hasattr(rows, "copy") else rows, y)
        return fresh

    def keep(self, i: int, k: int, model: Any) -> None:
        """Note the fitted model of a setting on a fold; those of other groups are done with."""
        if self.warm:
            group = int(self._group[i])
            self._last = {key: held for key, held in self._last.items() if key[0] == group}
            self._last[group, k] = model


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (OverflowError, TypeError, ValueError):
        return np.inf
    return number if number == number else np.inf


class FoldScorer:
    """Scores models with various kernels and settings on fixed folds, as separate fits would.

    The Gram matrix of a kernel is computed once, and folds are parts of it. All penalties of a
    ridge model come from one Krylov space a fold; `SVC` and `SVR` are solved from the smallest C to
    the largest, each from the solution before, and regularised risks from the largest penalty to
    the smallest. All numbers of neighbours come from one search. All else is fitted anew.

    Parameters
    ----------
    model : estimator
        The model; not changed.
    X, y : data
        As for ``fit``.
    sample_weight : array of shape (n,), optional
        Weights of the rows, in the fits and in scores that take them.
    cv : int, splitter or iterable, default=5
        Folds as of scikit-learn; a number means stratified folds for a classifier.
    scoring : str, callable, optional
        As for ``GridSearchCV``; None is the model's own ``score``.
    groups : array of shape (n,), optional
        Groups for the splitter.

    Attributes
    ----------
    folds : list of tuple
        Training and test positions.
    failures : list of tuple
        Parameters, number of the fold, and the exception of every fit or score that failed.
    clock : Clock
        When it is late nothing new is begun, once one setting has all its scores; what is not
        scored is NaN.
    stopped : bool
        Whether the clock left something out.
    tally : Tally
        Counts problems along paths that did not converge.
    """

    @speaks("search", unless_spoken=True)
    def __init__(
        self,
        model: Any,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        cv: Any = 5,
        scoring: Any = None,
        *,
        groups: Any = None,
    ):
        self.model = model
        self.X, self.y = _plain(X), _plain(y)
        self.n = _rows(self.X, "X")
        if self.y is not None and _rows(self.y, "y") != self.n:
            raise InvalidInput(
                f"{who()}: X has {self.n} rows and y has {_rows(self.y, 'y')}; inconsistent "
                "numbers of samples."
            )
        self.weights = check_weights(sample_weight, self.n)
        self.judge = FoldJudge(model, scoring, self.weights is not None)
        self.folds = _folds(cv, self.X, self.y, groups, self.n, is_classifier(model))
        self.apart = all(_is_apart(train, test) for train, test in self.folds)
        self.failures: list[tuple[dict, int, Exception]] = []
        self.clock = Clock()
        self.stopped, self.complete, self.tally = False, False, Tally()
        self._told: dict[int, tuple[Any, Any]] = {}  # targets and weights of test rows, by fold
        self._held: tuple[Kernel, np.ndarray] | None = None
        self._rows: tuple[Kernel, Rows] | None = None
        self._checked: tuple[Any, Any] | None = None

    # -- scores -------------------------------------------------------------------------------
    def scores(self, kernel: Any, settings: Iterable[dict[str, Any]]) -> np.ndarray:
        """Return the test scores of a kernel with each of the settings, one column a fold.

        Parameters
        ----------
        kernel : Kernel, str, callable or None
            The kernel; None for the model's own, or for a model without one.
        settings : iterable of dict
            Other parameters of the model, such as ``{"alpha": 0.1}``.

        Returns
        -------
        ndarray of shape (settings, folds)
            NaN where a fit failed, which `failures` explains, or for which no time was left.
        """
        settings = list(settings)
        base = self.model if kernel is None else clone(self.model).set_params(kernel=kernel)
        table = np.full((len(settings), len(self.folds)), np.nan)
        done = np.zeros(table.shape, dtype=bool)
        shared, told = self._resolvable(base), self._told
        if self.judge.by_values and self.y is not None:
            try:
                for i, k, answer in shared_answers(self, base, shared, settings):
                    if k not in told:
                        told[k] = self.of(self.folds[k][1])
                    table[i, k] = self.judge.of_values(answer, *told[k])
                    done[i, k] = True
                    self.complete |= bool(done[i].all())
            except NeedsModel:
                self.judge.by_values = False
            except (ValueError, MercerError, ArithmeticError):
                pass  # the fits themselves say what is wrong, and where
        starts = WarmStarts(base, settings)
        by_fold = shared is not None and bool(shared._words())  # a matrix for each: use it for all
        order = starts.order(np.argwhere(~done), by_fold)
        threads = 1 if by_fold else self._threads(base, settings)
        fits = self._side_by_side if threads > 1 and len(order) > 1 else self._in_turn
        for i, k, (score, failure) in fits(base, shared, settings, order, starts, threads):
            table[i, k], done[i, k] = score, True
            if failure is not None:
                self.failures.append(failure)
            self.complete |= bool(done[i].all())
        return table

    def _in_turn(
        self, base: Any, shared: Any, settings: Any, order: Any, starts: WarmStarts, threads: int
    ) -> Iterator[tuple[int, int, tuple]]:
        """Yield setting, fold, and score and failure of every fit."""
        for i, k in order:
            if self.late():
                return
            fit = partial(starts.fit, i=i, k=k) if starts.steps and self.weights is None else None
            *told, fitted = self._one(base, shared, settings[i], k, starts.near(i, k), fit=fit)
            starts.keep(i, k, fitted)
            yield i, k, tuple(told)

    def _side_by_side(
        self, base: Any, shared: Any, settings: Any, order: Any, starts: WarmStarts, threads: int
    ) -> Iterator[tuple[int, int, tuple]]:
        """Yield the same from several threads, one a fit, each with BLAS on one.

        Fits are told in their order. One that begins where another ends waits for it, which began
        before. A function of the user's that scores models is called here, not on other threads.
        """
        lock, later = threading.Lock(), not self.judge.by_model

        def work(i: int, k: int, before: Future | None) -> tuple:
            near = None if before is None else before.result()[-1]
            with config(threads=1):
                out = self._one(base, shared, settings[i], k, near, lock, later=later)
            return out if starts.warm or later else (*out[:-1], None)

        def told(i: int, k: int, job: Future) -> tuple[int, int, tuple]:
            score, failure, fitted = job.result()
            if later and failure is None:
                known = self.of(self.folds[k][1])
                try:
                    score = self.judge.score(fitted, score, *known)
                except Exception as error:
                    score, failure = np.nan, self._failure(base, settings[i], k, error)
            return i, k, (score, failure)

        with single_threaded_blas(), workers(threads) as pool:
            begun: deque = deque()
            for i, k in order:
                if self.late():
                    break
                job = pool.submit(inheriting(work), i, k, starts.near(i, k))
                starts.keep(i, k, job)
                begun.append((i, k, job))
                if len(begun) > 2 * threads:
                    yield told(*begun.popleft())
            while begun:
                yield told(*begun.popleft())

    def _threads(self, base: Any, settings: Any) -> int:
        """Return how many fits may run at a time.

        More than one only of models that draw nothing from a generator that all share and call
        nothing of the user's but kernels, where their matrices fit into the memory budget together.
        """
        ours = isinstance(base, KernelEstimator) and type(base).__module__.startswith("mercer.")
        plain = not any(callable(v) or hasattr(v, "fit") for s in settings for v in s.values())
        given = [v for name, v in base.get_params(deep=False).items() if name != "kernel"]
        plain = plain and not any(callable(v) or hasattr(v, "fit") for v in given)
        chosen = get_config()
        if not (ours and plain and chosen.engine != "torch"):
            return 1
        if self.n < SHARED or not isinstance(self.X, np.ndarray):
            return 1
        return max(1, min(chosen.threads, chosen.memory // (COPIES * 8 * self.n**2)))

    def late(self) -> bool:
        """Whether nothing new may be begun."""
        late = self.complete and self.clock.late
        self.stopped |= late
        return late

    def _one(
        self,
        base: Any,
        shared: Kernel | None,
        setting: dict[str, Any],
        k: int,
        near: Any,
        alone: AbstractContextManager = _NOBODY_ELSE,
        fit: Any = None,
        later: bool = False,
    ) -> tuple[Any, tuple | None, Any]:
        """Return the score of one fit, what failed, and the model: NaN and no model if it fails.

        What fits share is looked up `alone`; another way to `fit` on the points may be given.
        Where a function scores `later`, its test points stand in place of the score.
        """
        train, test = self.folds[k]
        known, held_out = self.of(train), self.of(test)
        if shared is not None:
            try:
                with alone:
                    K = self.sliced(base, shared, setting, k)
                if K is not None:
                    on_matrix = {**setting, "kernel": "precomputed"}
                    fitted = plain_fit(base, on_matrix, K[np.ix_(train, train)], *known, near)
                    score = self.judge.of_model(fitted, K[np.ix_(test, train)], *held_out)
                    return score, None, fitted
            except Exception:
                # Any error, a user's kernel may raise what it likes. Nothing is lost: the same fit
                # is done below on the points, where what is wrong is said in terms of them.
                near = None
        try:
            some, others = (split_rows(base, self.X, rows, train) for rows in (train, test))
            if fit is None:
                fitted = plain_fit(base, setting, some, *known, near)
            else:
                fitted = fit(base, setting, X=some, y=known[0])
            if later:
                return others, None, fitted
            return self.judge.of_model(fitted, others, *held_out), None, fitted
        except Exception as error:
            return np.nan, self._failure(base, setting, k, error), None

    def _failure(self, base: Any, setting: dict[str, Any], k: int, error: Exception) -> tuple:
        return {**self._kernel_of(base), **setting}, k, error

    def _kernel_of(self, base: Any) -> dict[str, Any]:
        """Return the kernel that is tried, where it is not the model's own."""
        own = getattr(self.model, "kernel", None)
        other = base is not self.model and repr(base.kernel) != repr(own)
        return {"kernel": base.kernel} if other else {}

    # -- what fits share ----------------------------------------------------------------------
    def of(self, rows: np.ndarray) -> tuple[Any, Any]:
        """Return targets and weights of some rows, None for those that were not given."""
        both = (self.y, self.weights)
        return tuple(None if part is None else _safe_indexing(part, rows) for part in both)  # type: ignore

    def _resolvable(self, base: Any) -> Kernel | None:
        """Return the kernel, words and all, if its Gram matrix may be shared."""
        shareable = isinstance(base, KernelEstimator) and self.y is not None
        if not (shareable and self.apart and self.judge.by_model):
            return None
        try:
            kernel = kernel_of(base)
        except MercerError:
            return None
        resolves = isinstance(base, RESOLVING) or is_margin(base)
        return kernel if resolves or not kernel._words() else None

    def points(self, base: Any, kernel: Kernel) -> Any:
        """Return all points as the kernel takes them."""
        if self._checked is None or self._checked[0] != kernel.domain:
            fresh: KernelEstimator = clone(base).set_params(kernel=kernel)
            self._checked = kernel.domain, fresh._check_X(self.X, kernel, reset=True)
        return self._checked[1]

    def resolved(self, model: Any, kernel: Kernel, k: int) -> Kernel:
        """Return the kernel that a model of the fold uses: words are resolved on its rows."""
        if not kernel._words():
            return kernel
        train, fresh = self.folds[k][0], clone(model)
        X = split_rows(model, self.X, train, train)
        if not isinstance(fresh, Risk):
            return fresh._prepare(X, *self.of(train)).kernel
        if fresh._risk().kind == "classification":
            return prepare_labels(fresh, X, *self.of(train), fresh.class_weight).kernel
        return prepare_targets(fresh, X, *self.of(train)).kernel

    def gram(self, base: Any, kernel: Kernel, copies: float = COPIES) -> np.ndarray | None:
        """Return the Gram matrix of all rows, None where it and some copies exceed the budget."""
        if copies * 8 * self.n**2 > get_config().memory:
            return None
        if self._held is None or self._held[0] != kernel:
            self._held = None  # not two at a time
            points = in_double(self.points(base, kernel))
            K = Gram(kernel, points, keep=False).to_dense()
            self._held = kernel, np.asarray(K, dtype=np.float64)
        return self._held[1]

    def rows(self, model: Any, kernel: Kernel) -> Rows:
        """Return the rows of the Gram matrix of all points, for machines that use some of them."""
        if self._rows is None or self._rows[0] != kernel:
            self._rows = None
            X = self.points(model, kernel)
            with speaking_for(type(model).__name__):
                self._rows = kernel, gram_rows(kernel, X, often=True)
        return self._rows[1]

    def sliced(
        self, base: Any, kernel: Kernel, setting: dict[str, Any], k: int
    ) -> np.ndarray | None:
        """Return the matrix that a fold's fit may take parts of, None for a fit on the points."""
        if not kernel.domain.holds_points or any(map(of_kernel, setting)):
            return None
        if isinstance(base, NeighborsBase) and isinstance(kernel.domain, Vectors):
            return None  # rounding decides between points at the same distance
        if kernel._n_features(self.points(base, kernel)) is not None:
            return None  # fits in the space of features differ by more than rounding
        model = clone(base).set_params(**setting)
        if asks_centers(model):
            return None  # centres are points
        return self.gram(base, self.resolved(model, kernel, k))


def _plain(X: Any) -> Any:
    """Return data whose rows scikit-learn can choose."""
    if is_torch(X):
        return X.detach().cpu().numpy()
    return Table(X) if isinstance(X, dict) and not hasattr(X, "tocsr") else X


def _rows(X: Any, name: str) -> int:
    try:
        n = int(_num_samples(X))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{who()}: {name}: {error}") from error
    if n < 2:
        raise InvalidInput(f"{who()}: {name} has {n} rows; folds need 2 or more.")
    return n


def _folds(
    cv: Any, X: Any, y: Any, groups: Any, n: int, classifier: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the folds of scikit-learn, as arrays of positions."""
    if isinstance(cv, bool | str):
        raise InvalidInput(
            f"{who()}: cv={cv!r}; give a number of folds, a splitter of scikit-learn, or pairs of "
            "training and test positions."
        )
    try:
        pairs = list(check_cv(cv, y, classifier=classifier).split(X, y, groups))
        folds = [tuple(_positions(part, n) for part in pair) for pair in pairs]
    except (IndexError, TypeError, ValueError) as error:
        raise InvalidInput(f"{who()}: cv: {error}") from error
    if not folds or any(len(pair) != 2 for pair in folds):
        raise InvalidInput(f"{who()}: cv gives no folds of training and test positions.")
    if any(not len(part) for pair in folds for part in pair):
        raise InvalidInput(f"{who()}: cv has a fold without training rows, or without test rows.")
    return folds  # type: ignore[return-value]


def _positions(index: Any, n: int) -> np.ndarray:
    """Return positions as integers; a mask is turned into those that it marks."""
    return np.arange(n)[np.asarray(index, dtype=None if len(index) else int)]


def _is_apart(train: np.ndarray, test: np.ndarray) -> bool:
    """Whether no row trains twice or is tested by a model that it trained.

    Noise on the diagonal of a Gram matrix would meet such a row.
    """
    return len(np.unique(train)) == len(train) and not np.isin(test, train).any()
