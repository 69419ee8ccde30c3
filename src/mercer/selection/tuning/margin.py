"""SVC and SVR parameters of least error on held-out folds: paths along C, a compass search in θ."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from mercer import checks
from mercer.checks import Clock, check_bounds
from mercer.errors import InvalidInput, speaking_for, speaks
from mercer.estimator import Sample
from mercer.models.margin import FOLDS, FoldWalk, Machine, Tally, gram_rows, with_time_left
from mercer.selection.grid import MarginWalk
from mercer.selection.tuning.compass import Compass, Trial, compass_result, tune_by_compass
from mercer.selection.tuning.errors import WRONG, TuneData, choose_rows, fold_list, tune_data
from mercer.selection.tuning.what import (
    COARSE_C,
    TimeIsUp,
    TuneOptions,
    TunePlan,
    TuneResult,
    search_box,
    with_limits,
)
from mercer.solvers import Rows

FINE = 10.0**0.25  # step of C around the best
FAR, LESS_FAR = 1.25, 1.02  # times the least error, with which a kernel still gets other C


class RegressionWalk:
    """The folds of a regression along C: their solutions at the last C, and errors so far.

    What `FoldWalk` is to a classifier, of all points, the rows of their Gram matrix, and folds.
    """

    def __init__(self, data: Sample, rows: Rows, folds: Sequence[tuple[Any, Any]]):
        self.data, self.rows, self.folds = data, rows, folds
        self.last: dict[int, tuple[list[Machine], float]] = {}
        self.errors: list[list[float]] = []
        self.tally = Tally()

    def step(self, model: Any, limit: float = np.inf) -> bool:
        """Solve the folds for the C of a model, each from its solution for the C before.

        As soon as the mean error of all folds must exceed `limit` the other folds are left alone,
        nothing is noted, and the answer is False.
        """
        data, errors, clock = self.data, [], Clock(model.max_time)
        for k, (train, test) in enumerate(self.folds):
            weights = np.zeros(len(data.y))
            weights[train] = data.weights[train]
            last, C = self.last.get(k, ([], model.C))
            fold = MarginWalk(model, replace(data, weights=weights), self.rows, train, test)
            machines = fold.solve(with_time_left(model, clock), last, model.C / C)
            self.tally.count(machines)
            self.last[k] = machines, model.C
            miss = data.y[test] - fold.values(machines)
            errors.append(float(np.average(miss**2, weights=data.weights[test])))
            if k + 1 < len(self.folds) and sum(errors) > len(self.folds) * limit:
                return False
        self.errors.append(errors)
        return True


class FoldSearch(Compass):
    """The search for a kernel and C: its data and folds, the range of C, and what was tried.

    Every kernel is walked along C, each C from the solutions of the one before.
    """

    nothing_left = "no kernel parameter was to be tuned, C from one path"

    def __init__(self, model: Any, X: Any, y: Any, sample_weight: Any, options: TuneOptions):
        self.classifier = is_classifier(model)
        if np.isinf(float(model.C)):
            raise InvalidInput(
                f"tune: {type(model).__name__}(C=inf) asks for the hard margin, and tune chooses a "
                "finite C on folds; give a finite C, or search kernels with GridSearchCV."
            )
        self.model = clone(model).set_params(C=1.0)
        if self.classifier:
            self.model.set_params(probability=False)
        checks.check_parameters(self.model)
        rng = options.random_state
        data = self.model._prepare(X, y, sample_weight)
        given, data = len(data.y), _some_rows(data, options.max_points, rng)
        self.sample, kernel = data, data.kernel
        self._check_rows()
        self.rows = TuneData(kernel, data.X, data.y, data.weights, self.classifier, given)
        self.folds = fold_list(self.rows, FOLDS, rng)
        box = with_limits(search_box(kernel), kernel, options.fixed, options.bounds, "C")
        self.range, self.coarse = self._range_of_C(float(model.C), options)
        self.tally = Tally()
        self.starts: dict[int, Any] = {}
        plan = TunePlan(box, ())
        super().__init__(kernel, plan, options.max_iter, options.max_time, self.rows)

    def _check_rows(self) -> None:
        """Refuse data of which some folds would have nothing to learn a class from."""
        data, n = self.sample, len(self.sample.y)
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

    @speaks("tune")
    def _range_of_C(
        self, given: float, options: TuneOptions
    ) -> tuple[tuple[float, float], np.ndarray]:
        """Return the limits of C and the values to try first."""
        units = self.rows.units
        grid = COARSE_C / units.diagonal * units.spread  # coefficients are in units of y
        if "C" in options.fixed:
            return (given, given), np.array([given])
        low, high = grid[0], grid[-1]
        if "C" in options.bounds:
            low, high = check_bounds("C", options.bounds["C"])
            inside = grid[(grid > low) & (grid < high)]
            grid = np.unique(np.r_[low, inside, high])
        return (low, high), grid

    # -- trials -------------------------------------------------------------------------------
    def _evaluate(self, place: Trial, settings: list[dict[str, Any]], along: int | None) -> None:
        """Try a kernel with several C: all coarse ones at a start, later that of the best.

        Others follow there where that is worth it. It is not where the error is the same, nor where
        it is some times that of the best.
        """
        self.tried += along is not None
        walk = self._walk(place.kernel)
        if along is None:
            for C in self.coarse:
                self._step(walk, float(C))
        else:
            before, far = self.best, FAR if along == 0 else LESS_FAR
            walk.last = dict(self.starts)
            room = far * before.error + (2 / len(self.rows) if self.classifier else 0.0)
            trial = self._step(walk, before.settings["C"], room)
            if trial is not None and not trial.alike(before, self.no_influence):
                self._along_C(walk, trial)
        self.tally.add(walk.tally)

    def _descend(self) -> tuple[bool, str]:
        walk = self._walk(self.best.kernel)
        walk.last = dict(self.starts)
        self._along_C(walk, self.best)
        self.tally.add(walk.tally)
        return super()._descend()

    def _along_C(self, walk: Any, trial: Trial) -> None:
        """Raise or lower the C of a trial as long as that makes it the best."""
        began = trial.settings["C"]
        for factor in (FINE, 1 / FINE):
            C, better = began, True
            while better:
                last, C = C, float(np.clip(factor * C, *self.range))
                better = last != C and self._step(walk, C) is self.best
            best = self.best
            if best.kernel is trial.kernel and best.settings["C"] not in (began, C):
                return

    def _step(self, walk: Any, C: float, room: float = 0.0) -> Trial | None:
        """Solve the folds for a C; None where the error must exceed the best, and `room`."""
        if self._is_late():
            raise TimeIsUp
        least = np.inf if self._best is None else self._best.error * (1 + 1e-9) + 1e-12
        if not walk.step(self._at(C), limit=max(least, room)):
            return None
        if self._is_late() and walk.tally.failed:
            raise TimeIsUp  # its last folds were cut short
        error, loss = self._judged(walk)
        kernel = walk.data.kernel
        trial = Trial(kernel, {"C": C}, error, loss, kernel.theta)
        self._note(trial)
        if self.classifier:
            self.table[-1]["loss"] = loss
        if self._best is trial:
            self._worst_first(walk)
        return trial

    def _at(self, C: float) -> Any:
        """Return the model with some C, and no more time than there is."""
        model = clone(self.model).set_params(C=C)
        left = self.clock.rest(1e-9)
        if left is not None and self.table:
            model.max_time = left if model.max_time is None else min(left, model.max_time)
        return model

    def _worst_first(self, walk: Any) -> None:
        """Let later trials begin with the folds of the largest error: most end there."""
        last = -np.array(walk.scores[-1]) if self.classifier else np.array(walk.errors[-1])
        order = np.argsort(-last, kind="stable")
        self.folds = [walk.folds[k] for k in order]
        self.starts = {i: walk.last[k] for i, k in enumerate(order)}

    def _walk(self, kernel: Any) -> Any:
        data = replace(self.sample, kernel=kernel)
        with speaking_for(type(self.model).__name__):
            rows = gram_rows(kernel, data.X, often=True)
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


def _some_rows(data: Sample, most: int, rng: Any) -> Sample:
    """Return the data of at most so many rows, drawn from each class alike, five of each if any."""
    if len(data.y) <= most:
        return data
    some = choose_rows(None if data.classes is None else data.y, len(data.y), most, rng)
    repeats = None if data.repeats is None else data.repeats[some]
    X = data.kernel.domain.subset(data.X, some)
    return replace(
        data, X=X, y=data.y[some], weights=data.weights[some], repeats=repeats, kept=None, n=most
    )


@speaks
def tune_margin(model: Any, X: Any, y: Any, sample_weight: Any, options: TuneOptions) -> TuneResult:
    """Tune `SVC` or `SVR` by paths along C on the usual folds; the model is not fitted yet."""
    if options.scoring is not None or not options.usual_folds:
        return tune_by_compass(model, X, y, sample_weight, options)
    if options.over is not None:
        seed = copy.deepcopy(options.random_state)
        plan = tune_data(model, X, y, sample_weight, options.max_points, seed).plan(model, options)
        if any(axis.name != "C" or axis.kind == "choice" for axis in plan.axes):
            return tune_by_compass(model, X, y, sample_weight, options)
        options = replace(options, fixed=plan.fixed, bounds=plan.bounds)
    search = FoldSearch(model, X, y, sample_weight, options)
    ended = search.run()
    search.tally.warn("in the folds of tune", "its errors are approximate")
    criterion = WRONG if search.classifier else "held-out mean squared error"
    return compass_result(model, search, search.rows, ended, criterion)
