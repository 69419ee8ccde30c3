"""SVC and SVR parameters of least error on held-out folds: paths along C, a compass search in θ."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from mercer.checks import at_theta, check_bounds
from mercer.errors import InvalidInput, MemoryBudgetExceeded, MercerError
from mercer.estimator import FitData, MarginData, take_rows
from mercer.models.margin import (
    ALIKE,
    FOLDS,
    FoldWalk,
    Tally,
    gram_rows,
    grown,
    stratified_folds,
    values_at,
    with_time_left,
)
from mercer.selection.tuning.errors import choose_rows
from mercer.selection.tuning.ridge import as_columns, theta_of_ridge
from mercer.selection.tuning.what import TimeIsUp, is_scale, search_box, with_limits
from mercer.solvers import Rows

STARTS = (1.0, 1 / 3, 3.0)
COARSE = 10.0 ** np.arange(-2.0, 3.1, 0.5)  # times 1/mean k(x, x)
FINE = 10.0**0.25  # step of C around the best
FAR, LESS_FAR = 1.25, 1.02  # times the least error, with which a kernel still gets other C
FLAT, GAIN = 1e-2, 3e-3  # relative changes of the error that mean no influence, and no progress
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
        self.last: dict[int, tuple[Any, float]] = {}
        self.errors: list[list[float]] = []
        self.tally = Tally()

    def step(self, model: Any, limit: float = np.inf) -> bool:
        """Solve the folds for the C of a model, each from its solution for the C before.

        Parameters
        ----------
        model : SVR
            Whose C is not below that of the last step.
        limit : float, optional
            A mean error. As soon as that of all folds must exceed it the other folds are left
            alone, and nothing is noted.

        Returns
        -------
        bool
            Whether all folds were solved.
        """
        data, errors, began = self.data, [], time.monotonic()
        for k, (train, test) in enumerate(self.folds):
            weights = np.zeros(len(data.y))
            weights[train] = data.weights[train]
            machine, C = self.last.get(k, (None, model.C))
            start = None if machine is None else grown(machine, model.C / C)
            part = with_time_left(model, began)
            machine = part._machine(replace(data, weights=weights), self.rows, start)
            self.tally.count([machine])
            self.last[k] = machine, model.C
            miss = data.y[test] - values_at(self.rows, [machine], test)[:, 0]
            errors.append(float(np.average(miss**2, weights=data.weights[test])))
            if k + 1 < len(self.folds) and sum(errors) > len(self.folds) * limit:
                return False
        self.errors.append(errors)
        return True


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

    def alike(self, other: Trial, part: float) -> bool:
        """Whether error and loss are those of another, but for a part of them."""
        pairs = ((self.error, other.error), (self.loss, other.loss))
        return all(abs(a - b) <= part * max(a, b) for a, b in pairs)


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
        if np.isinf(float(model.C)):
            raise InvalidInput(
                f"tune: {type(model).__name__}(C=inf) asks for the hard margin, and tune chooses a "
                "finite C on folds; give a finite C, or search kernels with GridSearchCV."
            )
        self.model = clone(model).set_params(C=1.0)
        if self.classifier:
            self.model.set_params(probability=False)
        self.model._check_params()
        self.options, rng = options, options["random_state"]
        data = self.model._prepare(X, y, sample_weight)
        self.given = len(data.y)
        self.data = _some_rows(data, options["max_points"], rng)
        self._check_rows()
        strata = self.data.y if self.classifier else np.zeros(len(self.data.y))
        fold = stratified_folds(strata, FOLDS, rng, "tune")
        self.folds = [
            (np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(fold.max() + 1)
        ]
        self.kernel = self.data.kernel
        fixed = [name for name in options["fixed"] if name != "C"]
        bounds = {name: b for name, b in options["bounds"].items() if name != "C"}
        self.box = with_limits(search_box(self.kernel), self.kernel, fixed, bounds, ["C"])
        self.range, self.coarse = self._range_of_C(float(model.C))
        seconds = options["max_time"]
        self.deadline = None if seconds is None else time.monotonic() + seconds
        self.table: list[dict[str, Any]] = []
        self._best: Trial | None = None
        self._seen: set[tuple] = set()
        self.tried = 0
        self.tally = Tally()
        self.starts: dict[int, Any] = {}

    def _check_rows(self) -> None:
        """Refuse data of which some folds would have nothing to learn a class from."""
        data, n = self.data, len(self.data.y)
        if n < FOLDS:
            raise InvalidInput(
                f"tune: {n} rows are too few to choose parameters on {FOLDS} folds; give {FOLDS} "
                "or more, or fit with parameters of your choice."
            )
        if data.classes is None:
            return
        counts = np.bincount(data.y, minlength=len(data.classes))
        if counts.min() < 2:
            name, count = data.classes[int(counts.argmin())], int(counts.min())
            raise InvalidInput(
                f"tune: class {name!s} has {count} of the {n} rows used, and the folds need 2 of "
                "every class. Give more rows of it, leave it out, or raise max_points if that cut "
                "the rows."
            )

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
        kernel = at_theta(self.kernel, theta)
        walk = self._walk(replace(self.data, kernel=kernel))
        before = self._best
        for C in Cs:
            self._evaluate(walk, kernel, float(C))
        self.tally.add(walk.tally)
        return self._best is not before

    def _try_near(self, theta: np.ndarray, far: float) -> tuple[bool, bool]:
        """Try a kernel near the best with its C, and with others where that is worth it.

        It is not where the error is the same, nor where it is `far` times that of the best. Returns
        whether one was better, and whether the error was the same.
        """
        key = tuple(np.round(theta, 6))
        if key in self._seen:
            return False, False
        self._seen.add(key)
        self.tried += 1
        kernel, before = self.kernel.with_theta(theta), self.best
        walk = self._walk(replace(self.data, kernel=kernel))
        walk.last = dict(self.starts)
        room = far * before.error + (2 / len(self.data.y) if self.classifier else 0.0)
        trial = self._evaluate(walk, kernel, before.C, room)
        same = trial is not None and trial.alike(before, FLAT)
        if trial is not None and not same:
            self._along_C(walk, trial)
        self.tally.add(walk.tally)
        return not self.best.alike(before, GAIN), same

    def _along_C(self, walk: Any, trial: Trial) -> None:
        """Raise or lower the C of a trial as long as that makes it the best."""
        for factor in (FINE, 1 / FINE):
            C, better = trial.C, True
            while better:
                last, C = C, float(np.clip(factor * C, *self.range))
                better = last != C and self._evaluate(walk, trial.kernel, C) is self.best
            if self.best.kernel is trial.kernel and self.best.C not in (trial.C, C):
                return

    def _evaluate(self, walk: Any, kernel: Any, C: float, room: float = 0.0) -> Trial | None:
        """Solve the folds for a C; None where the error must exceed the best, and `room`."""
        if self.deadline is not None and self.table and time.monotonic() > self.deadline:
            raise TimeIsUp
        best = np.inf if self._best is None else self._best.error * (1 + 1e-9) + 1e-12
        if not walk.step(self._at(C), limit=max(best, room)):
            return None
        late = self.deadline is not None and time.monotonic() > self.deadline
        if late and self.table and walk.tally.failed:
            raise TimeIsUp  # its last folds were cut short
        error, loss = self._judged(walk)
        values = dict(zip(kernel.theta_names, map(float, np.exp(kernel.theta)), strict=True))
        row = {**values, "C": C, "error": error}
        self.table.append({**row, "loss": loss} if self.classifier else row)
        trial = Trial(kernel, C, error, loss)
        if trial.better_than(self._best):
            self._best = trial
            self._worst_first(walk)
        return trial

    def _at(self, C: float) -> Any:
        """Return the model with some C, and no more time than there is."""
        model = clone(self.model).set_params(C=C)
        if self.deadline is not None and self.table:
            left = max(self.deadline - time.monotonic(), 1e-9)
            model.max_time = left if model.max_time is None else min(left, model.max_time)
        return model

    def _worst_first(self, walk: Any) -> None:
        """Let later trials begin with the folds of the largest error: most end there."""
        last = -np.array(walk.scores[-1]) if self.classifier else np.array(walk.errors[-1])
        order = np.argsort(-last, kind="stable")
        self.folds = [walk.folds[k] for k in order]
        self.starts = {i: walk.last[k] for i, k in enumerate(order)}

    def _walk(self, data: MarginData) -> Any:
        rows = gram_rows(data.kernel, data.X, type(self.model).__name__, often=True)
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
                return True, "no kernel parameter was to be tuned, C from one path"
            return self._descend(free)
        except TimeIsUp:
            return False, "stopped by max_time"

    def _starts(self, free: np.ndarray) -> Iterator[np.ndarray]:
        theta, scales = self.kernel.theta, is_scale(self.kernel)
        guess = self._of_ridge() if free.sum() > 1 else None
        if guess is not None:  # first, since it often is far better: others end early then
            yield guess
        for factor in STARTS if (scales * free).any() else STARTS[:1]:
            yield np.clip(theta + np.log(factor) * scales, self.box[:, 0], self.box[:, 1])

    def _of_ridge(self) -> np.ndarray | None:
        """Return the θ that a ridge model would be tuned to: a gradient finds many scales."""
        left = None if self.deadline is None else max(0.0, 0.5 * (self.deadline - time.monotonic()))
        data, classes = self.data, None if self.data.classes is None else len(self.data.classes)
        T = as_columns(data.y, classes)
        ridge = FitData(data.kernel, data.X, T, data.weights, T.shape[1] == 1)
        return theta_of_ridge(ridge, self.box, left, self.options["max_iter"])

    def _descend(self, free: np.ndarray) -> tuple[bool, str]:
        """Compass search: along every direction both ways, by half the step where none is better.

        Kolda, Lewis & Torczon (2003), opportunistic.
        """
        scales = is_scale(self.kernel) * free
        directions = [scales] if scales.any() else []
        directions += [d for d in np.eye(len(free))[free] if not np.array_equal(d, scales)]
        walk = self._walk(replace(self.data, kernel=self.best.kernel))
        walk.last = dict(self.starts)
        self._along_C(walk, self.best)
        self.tally.add(walk.tally)
        step, flat = FIRST_STEP, np.zeros(len(directions), dtype=int)
        while step >= LAST_STEP:
            moved = False
            for i, direction in enumerate(directions):
                for sign in (1.0, -1.0):
                    if flat[i] >= 2:
                        break  # a length scale without influence, both ways
                    if self.tried >= self.options["max_iter"]:
                        return False, "stopped by max_iter"
                    theta = self.best.kernel.theta + sign * step * direction
                    theta = np.clip(theta, self.box[:, 0], self.box[:, 1])
                    try:
                        better, same = self._try_near(theta, FAR if i == 0 else LESS_FAR)
                    except MemoryBudgetExceeded:
                        raise
                    except MercerError:
                        continue  # such a kernel is not the best
                    moved |= better
                    flat[i] = flat[i] + 1 if same else 0
            if not moved:
                step /= 2
        return True, "no further gain"


def _some_rows(data: MarginData, most: int, rng: Any) -> MarginData:
    """Return the data of at most so many rows, drawn from each class alike, five of each if any."""
    if len(data.y) <= most:
        return data
    some = choose_rows(None if data.classes is None else data.y, len(data.y), most, rng)
    repeats = None if data.repeats is None else data.repeats[some]
    X = take_rows(data.kernel, data.X, some)
    return replace(
        data, X=X, y=data.y[some], weights=data.weights[some], repeats=repeats, kept=None, n=most
    )
