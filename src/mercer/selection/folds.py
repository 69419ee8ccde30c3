"""SVC and SVR parameters of least error on held-out folds: paths along C, a compass search in θ."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from mercer.errors import InvalidInput, MemoryBudgetExceeded, MercerError
from mercer.models.folds import FOLDS, stratified_folds, values_at
from mercer.models.least_squares import take_rows
from mercer.models.machines import MarginData
from mercer.models.path import ALIKE, FoldWalk, grown
from mercer.models.ridge import FitData
from mercer.selection.box import TimeIsUp, check_bounds, is_scale, search_box, with_limits
from mercer.selection.loo import LooSearch
from mercer.solvers import Rows

__all__ = ["FoldSearch", "RegressionWalk", "Trial"]

STARTS = (1.0, 1 / 3, 3.0)
COARSE = 10.0 ** np.arange(-2.0, 3.1, 0.5)  # times 1/mean k(x, x)
FINE = 10.0 ** np.array([-0.5, -0.25, 0.0, 0.25, 0.5])  # times the best C
FIRST_STEP, LAST_STEP = np.log(3.0) / 2, np.log(1.1)


class RegressionWalk:
    """The folds of a regression along C: their solutions at the last C, and errors so far.

    Parameters
    ----------
    data : MarginData
        All points.
    rows : Rows
        Rows of their Gram matrix.
    folds : sequence of tuple
        Training and test positions.
    """

    def __init__(self, data: MarginData, rows: Rows, folds: Sequence[tuple[Any, Any]]):
        self.data, self.rows, self.folds = data, rows, folds
        self.last: list[Any] = [None] * len(folds)
        self.errors: list[list[float]] = []

    def step(self, model: Any) -> None:
        """Solve the folds for the C of a model, each from its solution for the C before.

        Parameters
        ----------
        model : SVR
            Whose C is not below that of the last step.
        """
        data, errors = self.data, []
        for k, (train, test) in enumerate(self.folds):
            weights = np.zeros(len(data.y))
            weights[train] = data.weights[train]
            machine, C = self.last[k] or (None, model.C)
            start = None if machine is None else grown(machine, model.C / C)
            machine = model._machine(replace(data, weights=weights), self.rows, start)
            self.last[k] = machine, model.C
            miss = data.y[test] - values_at(self.rows, [machine], test)[:, 0]
            errors.append(float(np.average(miss**2, weights=data.weights[test])))
        self.errors.append(errors)


@dataclass(frozen=True)
class Trial:
    """A kernel and a C, their mean error on the folds, and the loss that decides between equals."""

    kernel: Any
    C: float
    error: float
    loss: float

    def better_than(self, other: Trial | None) -> bool:
        """Whether it has less error, or as much and a loss that is less by a hundredth."""
        if other is None or self.error != other.error:
            return other is None or self.error < other.error
        return ALIKE * self.loss < other.loss


class FoldSearch:
    """The search: its data and folds, the box of θ, the range of C, and what was tried.

    Parameters
    ----------
    model : SVC or SVR
        The model; not changed.
    X, y, sample_weight : data
        As for ``fit``.
    options : dict
        The checked options of `tune`.
    """

    def __init__(self, model: Any, X: Any, y: Any, sample_weight: Any, options: dict[str, Any]):
        self.classifier = is_classifier(model)
        self.model = clone(model).set_params(C=1.0)
        if self.classifier:
            self.model.set_params(probability=False)
        self.model._check_params()
        self.options, rng = options, options["random_state"]
        self.data = _some_rows(self.model._prepare(X, y, sample_weight), options["max_points"], rng)
        if len(self.data.y) < 3:
            raise InvalidInput(
                f"tune: {len(self.data.y)} rows are too few to choose parameters; give 3."
            )
        strata = self.data.y if self.classifier else np.zeros(len(self.data.y))
        fold = stratified_folds(strata, FOLDS, rng, "tune")
        self.folds = [
            (np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(fold.max() + 1)
        ]
        self.kernel = self.data.kernel
        fixed = [name for name in options["fixed"] if name != "C"]
        bounds = {name: b for name, b in options["bounds"].items() if name != "C"}
        self.box = with_limits(search_box(self.kernel), self.kernel, fixed, bounds)
        self.range, self.coarse = self._range_of_C(float(model.C))
        seconds = options["max_time"]
        self.deadline = None if seconds is None else time.monotonic() + seconds
        self.table: list[dict[str, Any]] = []
        self._best: Trial | None = None
        self._seen: set[tuple] = set()
        self.tried = 0

    @property
    def best(self) -> Trial:
        """The best trial so far."""
        if self._best is None:
            raise InvalidInput("tune: nothing could be tried.")
        return self._best

    def _range_of_C(self, given: float) -> tuple[tuple[float, float], np.ndarray]:
        """Return the limits of C and the values to try first."""
        with np.errstate(all="ignore"):
            mean = float(np.mean(np.asarray(self.kernel._diag(self.data.X), dtype=float)))
        grid = COARSE / (mean if np.isfinite(mean) and mean > 0 else 1.0)
        if not self.classifier:
            grid = grid * (float(np.std(self.data.y)) or 1.0)  # coefficients are in units of y
        if "C" in self.options["fixed"]:
            if not np.isfinite(given):
                raise InvalidInput("tune: C is fixed at infinity; folds need a finite C.")
            return (given, given), np.array([given])
        low, high = grid[0], grid[-1]
        if "C" in self.options["bounds"]:
            low, high = check_bounds("C", self.options["bounds"]["C"])
            inside = grid[(grid > low) & (grid < high)]
            grid = np.unique(np.r_[low, inside, high])
        return (low, high), grid

    # -- trials -------------------------------------------------------------------------------
    def _try(self, theta: np.ndarray, Cs: np.ndarray) -> bool:
        """Try a kernel with several C; return whether one of them is the best so far."""
        key = tuple(np.round(theta, 6))
        if key in self._seen:
            return False
        self._seen.add(key)
        kernel = self.kernel.with_theta(theta) if len(theta) else self.kernel
        walk = self._walk(replace(self.data, kernel=kernel))
        values = dict(zip(kernel.theta_names, map(float, np.exp(kernel.theta)), strict=True))
        better = False
        for C in Cs:
            if self.deadline is not None and self.table and time.monotonic() > self.deadline:
                raise TimeIsUp
            walk.step(clone(self.model).set_params(C=float(C)))
            error, loss = self._judged(walk)
            row = {**values, "C": float(C), "error": error}
            self.table.append({**row, "loss": loss} if self.classifier else row)
            trial = Trial(kernel, float(C), error, loss)
            if trial.better_than(self._best):
                self._best, better = trial, True
        return better

    def _walk(self, data: MarginData) -> Any:
        rows = self.model._rows(data, often=True)
        if self.classifier:
            return FoldWalk(data, rows, self.model._tasks(data), self.folds)
        return RegressionWalk(data, rows, self.folds)

    def _judged(self, walk: Any) -> tuple[float, float]:
        """Return the mean error of the last step of a walk, and the mean loss."""
        if not self.classifier:
            return float(np.mean(walk.errors[-1])), 0.0
        wrong = 1.0 - float(np.mean(walk.scores[-1]))
        # rounded, since sums of the same scores in another order differ in the last digits
        return max(0.0, round(wrong, 12)), float(np.mean(walk.losses[-1]))

    def _near(self) -> np.ndarray:
        """Return values of C around the best."""
        return np.unique(np.clip(FINE * self.best.C, *self.range))

    # -- the search ---------------------------------------------------------------------------
    def run(self) -> tuple[bool, str]:
        """Search; return whether it converged, and why it stopped."""
        free = self.box[:, 0] < self.box[:, 1]
        failure: MercerError | None = None
        try:
            for theta in self._starts(free):
                try:
                    self._try(theta, self.coarse)
                except MemoryBudgetExceeded:
                    raise
                except MercerError as error:
                    failure = failure or error
            if self._best is None and failure is not None:
                raise failure
            if not free.any():
                return True, "the kernel has no parameter to tune, C from one path"
            return self._descend(free)
        except TimeIsUp:
            return False, "stopped by max_time"

    def _starts(self, free: np.ndarray) -> Iterator[np.ndarray]:
        theta, scales = self.kernel.theta, is_scale(self.kernel)
        for factor in STARTS if (scales * free).any() else STARTS[:1]:
            yield np.clip(theta + np.log(factor) * scales, self.box[:, 0], self.box[:, 1])
        if free.sum() > 1:
            guess = self._of_ridge()
            if guess is not None:
                yield guess

    def _of_ridge(self) -> np.ndarray | None:
        """Return the θ that a ridge model would be tuned to: a gradient finds many scales."""
        data, T = self.data, self.data.y[:, None]
        if data.classes is not None:
            T = np.where(T == np.arange(len(data.classes)), 1.0, -1.0)
            T = T[:, 1:] if len(data.classes) == 2 else T
        ridge = FitData(data.kernel, data.X, T, data.weights, T.shape[1] == 1)
        left = None if self.deadline is None else max(0.0, 0.5 * (self.deadline - time.monotonic()))
        try:
            search = LooSearch(ridge, True, len(data.y), left, None)
            search.box = self.box
            search.run(self.options["max_iter"])
        except MemoryBudgetExceeded:
            return None  # the folds may do with rows where a factorisation needs the matrix
        except MercerError:
            return None
        return np.clip(search.best[0].theta, self.box[:, 0], self.box[:, 1])

    def _descend(self, free: np.ndarray) -> tuple[bool, str]:
        """Compass search: along every direction both ways, by half the step where none is better.

        Kolda, Lewis & Torczon (2003), opportunistic.
        """
        scales = is_scale(self.kernel) * free
        directions = [scales] if scales.any() else []
        directions += [d for d in np.eye(len(free))[free] if not np.array_equal(d, scales)]
        step = FIRST_STEP
        while step >= LAST_STEP:
            moved = False
            for direction in directions:
                for sign in (1.0, -1.0):
                    if self.tried >= self.options["max_iter"]:
                        return False, "stopped by max_iter"
                    theta = self.best.kernel.theta + sign * step * direction
                    theta = np.clip(theta, self.box[:, 0], self.box[:, 1])
                    before = len(self._seen)
                    try:
                        moved |= self._try(theta, self._near())
                    except MemoryBudgetExceeded:
                        raise
                    except MercerError:
                        pass  # such a kernel is not the best
                    self.tried += len(self._seen) - before
            if not moved:
                step /= 2
        return True, "no further gain"


def _some_rows(data: MarginData, most: int, rng: Any) -> MarginData:
    """Return the data of at most so many rows, drawn at random from each class alike."""
    n = len(data.y)
    if n <= most:
        return data
    drawn = rng.permutation(n)
    if data.classes is not None:
        drawn = drawn[np.argsort(data.y[drawn], kind="stable")]
    some = np.sort(drawn[np.linspace(0, n - 1, most).astype(int)])
    repeats = None if data.repeats is None else data.repeats[some]
    X = take_rows(data.kernel, data.X, some)
    return replace(
        data, X=X, y=data.y[some], weights=data.weights[some], repeats=repeats, kept=None, n=most
    )
