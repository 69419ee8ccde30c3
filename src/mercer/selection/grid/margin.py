"""Values of support vector machines on the test rows of folds, along C from warm starts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from mercer.engines import single_threaded_blas
from mercer.errors import MercerError
from mercer.estimator import MarginData
from mercer.kernels import Linear
from mercer.models.margin import (
    LARGE,
    WORTH_THREADS,
    Machine,
    Tally,
    fold_machines,
    grown,
    spread,
    values_at,
    votes,
)
from mercer.settings import config, get_config
from mercer.solvers import Rows


def prepared_targets(model: Any, y: Any, weights: Any) -> Any:
    """Return what `model` makes of targets and weights alone: its data for points that say nothing.

    Parameters
    ----------
    model : estimator
        With ``_prepare``.
    y, weights : arrays
        Of the training rows.
    """
    blank = clone(model).set_params(kernel=Linear())
    return blank._prepare(np.zeros((len(y), 1)), y, weights)


def walkable(model: Any, C: Any) -> bool:
    """Whether a path along C gives the model that a fit gives: C finite, and no limit on steps."""
    number = isinstance(C, int | float | np.number) and not isinstance(C, bool)
    unlimited = model.max_iter in (None, -1) and model.max_time is None
    return number and unlimited and 0 < float(C) < np.inf


@dataclass(frozen=True, eq=False)
class MarginWalk:
    """One fold of `SVC` or `SVR` on the rows of a Gram matrix of all points.

    Parameters
    ----------
    model : SVC or SVR
        With all parameters but C.
    data : MarginData
        All points; weights are zero but for the training rows of the fold.
    rows : Rows
        Of their Gram matrix.
    train, test : ndarray of int
        Positions; of the training rows those of positive weight, increasing.
    """

    model: Any
    data: MarginData
    rows: Rows
    train: np.ndarray
    test: np.ndarray

    @classmethod
    def of(
        cls, model: Any, part: MarginData, X: Any, rows: Rows, train: np.ndarray, test: np.ndarray
    ) -> MarginWalk:
        """Return the fold whose training rows have the checked targets `part`."""
        n = rows.n
        mine = train if part.kept is None else train[part.kept]
        y, weights = np.zeros(n, dtype=part.y.dtype), np.zeros(n)
        y[mine], weights[mine] = part.y, part.weights
        data = MarginData(part.kernel, X, y, weights, None, None, n, part.classes)
        return cls(model, data, rows, mine, test)

    def largest(self) -> float:
        """Return the C from which a fit would try whether the margin is hard."""
        top = float(self.rows.diagonal.max()) * float(self.data.weights[self.train].min())
        return LARGE / top if top > 0 else np.inf

    def along(
        self, Cs: Sequence[float], tally: Tally, ended: Callable[[], bool]
    ) -> Iterator[np.ndarray]:
        """Yield the values at the test rows for each C, which must not decrease.

        It ends where a problem has no solution, which a fit explains, or when `ended` says so.
        """
        last: list[Machine] = []
        before = 1.0
        for C in Cs:
            if ended():
                return
            at = clone(self.model).set_params(C=float(C))
            try:
                last = self._solve(at, last, float(C) / before)
            except MercerError:
                return
            before = float(C)
            tally.count(last)
            yield self._values(last)

    def _solve(self, model: Any, last: list[Machine], factor: float) -> list[Machine]:
        n = len(self.data.y)
        if not is_classifier(model):
            start = grown(last[0], factor) if last else None
            return [model._machine(self.data, self.rows, start)]
        starts = [spread(grown(m, factor), m.index, n) for m in last]
        if not starts:
            starts = [np.zeros(n)] * len(model._tasks(self.data))
        return fold_machines(model, self.data, self.rows, self.train, starts)

    def _values(self, machines: list[Machine]) -> np.ndarray:
        """Return what ``predict`` or ``decision_function`` returns."""
        values = values_at(self.rows, machines, self.test)
        if values.shape[1] == 1:
            return values[:, 0]
        classes = len(self.data.classes)  # type: ignore[arg-type]
        return votes(values, classes) if self.model.multi_class == "ovo" else values


def walk_together(
    walks: Sequence[MarginWalk],
    Cs: Sequence[Sequence[float]],
    tally: Tally,
    late: Callable[[], bool],
) -> Iterator[Iterable[np.ndarray]]:
    """Yield the values of each walk along its own C, solved on several threads where that pays.

    Parameters
    ----------
    walks : sequence of MarginWalk
        On the same rows.
    Cs : sequence of sequence of float
        The C of each walk, increasing.
    tally : Tally
        Counts problems that did not converge.
    late : callable
        Whether no other problem may be begun.
    """
    threads = min(get_config().threads, len(walks))
    rows = walks[0].rows
    if threads < 2 or not rows.whole or rows.n**2 < WORTH_THREADS:
        for walk, mine in zip(walks, Cs, strict=True):
            yield walk.along(mine, tally, late)
        return
    stop = threading.Event()

    def work(walk: MarginWalk, mine: Sequence[float]) -> tuple[list[np.ndarray], Tally]:
        counts = Tally()
        with config(threads=1):
            ended = lambda: stop.is_set() or late()  # noqa: E731
            return list(walk.along(mine, counts, ended)), counts

    with single_threaded_blas, ThreadPoolExecutor(threads) as pool:
        jobs = [
            pool.submit(copy_context().run, work, walk, mine)
            for walk, mine in zip(walks, Cs, strict=True)
        ]
        try:
            found = [job.result() for job in jobs]
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    for values, counts in found:
        tally.add(counts)
        yield values
