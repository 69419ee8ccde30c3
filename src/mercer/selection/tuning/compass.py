"""A compass search over log-parameters of a kernel, penalties, whole numbers and choices."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer.checks import Clock, at_theta
from mercer.errors import InvalidInput, MemoryBudgetExceeded, MercerError, speaks
from mercer.models.margin import ALIKE
from mercer.selection.tuning.errors import (
    HeldOut,
    LeftOut,
    TuneData,
    fold_list,
    tune_data,
    warn_of_failures,
)
from mercer.selection.tuning.gradient import as_plain_model, theta_of_ridge
from mercer.selection.tuning.what import (
    STARTS,
    Axis,
    TimeIsUp,
    TuneOptions,
    TunePlan,
    TuneResult,
    is_scale,
    kernel_params,
    part_of,
)

FIRST_STEP, LAST_STEP = np.log(3.0) / 2, np.log(1.1)
HAIR = 1e-10  # relative change of an error that is more than rounding
MOST_AT_A_START = 64  # settings tried for a kernel at a start

Errors = Callable[[Any, list[dict[str, Any]]], np.ndarray]


@dataclass(frozen=True)
class Trial:
    """A kernel with settings, its error, and the loss that decides between equals.

    `theta` and `inner`, parameters of the kernel outside θ, say where the search goes on from it.
    """

    kernel: Any
    settings: dict[str, Any]
    error: float
    loss: float = 0.0
    theta: np.ndarray = field(default_factory=lambda: np.zeros(0))
    inner: dict[str, Any] = field(default_factory=dict)

    def better_than(self, other: Trial | None) -> bool:
        """Whether it has less error, or as much and a loss that is less by a hundredth."""
        if other is None or self.error != other.error:
            return other is None or self.error < other.error
        return ALIKE * self.loss < other.loss

    def alike(self, other: Trial, part: float) -> bool:
        """Whether error and loss are those of another, but for a part of them."""
        pairs = ((self.error, other.error), (self.loss, other.loss))
        return all(abs(a - b) <= part * max(a, b) for a, b in pairs)


class Compass(ABC):
    """Minimise an error over a plan: coarse grids at the starts, then a compass.

    A step tries one kernel beside the best. Kolda, Lewis & Torczon (2003), opportunistic: the first
    point that is better is taken at once, and the step is halved where no direction is better. What
    a kernel is tried with is said by `_evaluate` of the class for an error.

    Parameters
    ----------
    kernel : Kernel
        The start, words resolved.
    plan : TunePlan
        Box of θ and axes.
    max_iter : int
        The kernels tried after the starts.
    max_time : float or None
        Seconds; checked before every kernel but the first.
    data : TuneData, optional
        Rows; what a ridge model would be tuned to on them is another start for several parameters.
    """

    nothing_left = "one evaluation: nothing was left to choose"
    no_influence, no_gain = 1e-2, 3e-3  # relative changes of the error, and of the loss

    def __init__(
        self,
        kernel: Any,
        plan: TunePlan,
        max_iter: int,
        max_time: float | None,
        data: TuneData | None = None,
    ):
        self.kernel, self.plan, self.max_iter, self.data = kernel, plan, max_iter, data
        self.clock = Clock(max_time)
        self.free = plan.box[:, 0] < plan.box[:, 1]
        self.inner: list[Axis] = [axis for axis in plan.axes if axis.of_kernel]
        self.outer: list[Axis] = [axis for axis in plan.axes if not axis.of_kernel]
        self.table: list[dict[str, Any]] = []
        self.tried = 0
        self._best: Trial | None = None
        self._first: Trial | None = None  # of the kernel tried last
        self._failures: list[tuple[dict[str, Any], Exception]] = []
        self._seen: set[tuple] = set()
        self._worked: set[tuple[str, str]] = set()

    @property
    def best(self) -> Trial:
        """The best trial so far."""
        if self._best is None:
            if not self._failures:
                raise InvalidInput("tune: no parameters have a finite score.")
            error = self._failures[0][1]
            if isinstance(error, MercerError):
                raise error
            raise InvalidInput(
                f"tune: no parameters could be scored; first {type(error).__name__}: {error}"
            ) from error
        return self._best

    def lost(self) -> list[tuple[dict[str, Any], Exception]]:
        """Return the choices with which every fit failed, each with the first reason."""
        found: dict[tuple[str, str], tuple[dict[str, Any], Exception]] = {}
        names = {axis.name for axis in self.plan.axes if axis.kind == "choice"}
        for point, error in self._failures:
            for name, value in point.items():
                key = (name, repr(value))
                if name in names and key not in self._worked:
                    found.setdefault(key, ({name: value}, error))
        return list(found.values())

    # -- the search ---------------------------------------------------------------------------
    def run(self) -> tuple[bool, str]:
        """Search; return whether it converged, and why it stopped."""
        try:
            grid = _product(self.outer)
            for theta, inner in self._starts():
                self._try(theta, inner, grid)
            self.best  # noqa: B018  where every start failed, say why
            return (True, self.nothing_left) if self.plan.empty else self._descend()
        except TimeIsUp:
            return False, "stopped by max_time"

    def _starts(self) -> Iterator[tuple[np.ndarray, dict[str, Any]]]:
        box, scales = self.plan.box, is_scale(self.kernel)
        factors = STARTS if (scales * self.free).any() else STARTS[:1]
        thetas = [np.clip(self.kernel.theta + np.log(f) * scales, *box.T) for f in factors]
        if self.data is not None and self.free.sum() > 1:
            seconds = self.clock.rest()
            half = None if seconds is None else 0.5 * seconds
            guess = theta_of_ridge(self.data, box, half, self.max_iter)
            if guess is not None:  # first, since it often is far better
                thetas.insert(0, guess)
        yield from itertools.product(thetas, _product(self.inner))

    def _descend(self) -> tuple[bool, str]:
        step, flat = FIRST_STEP, Counter[int]()
        while step >= LAST_STEP:
            moved = self._settle(step)
            for i, theta, inner in self._beside(step):
                if flat[i] >= 2:
                    continue  # a parameter without influence, both ways
                if self.tried >= self.max_iter:
                    return False, "stopped by max_iter"
                before, self._first = self.best, None
                moved |= self._try(theta, inner, self._around(step), along=i)
                here = self._first
                same = here is not None and here.alike(before, self.no_influence)
                flat[i] = flat[i] + 1 if same else 0
            if not moved:
                step /= 2
        return True, "no further gain"

    def _settle(self, step: float) -> bool:
        """Move the settings of the best kernel as long as that is better."""
        moved = False
        while self.outer and self._try(self.best.theta, self.best.inner, self._around(step)):
            moved = True
        return moved

    def _beside(self, step: float) -> Iterator[tuple[int, np.ndarray, dict[str, Any]]]:
        """Yield kernels one step beside the best, as it is by then, each with its direction."""
        scales = is_scale(self.kernel) * self.free
        directions = [scales] if scales.any() else []
        directions += [d for d in np.eye(len(self.free))[self.free] if not (d == scales).all()]
        for i, direction in enumerate(directions):
            for sign in (1.0, -1.0):
                theta = self.best.theta + sign * step * direction
                yield i, np.clip(theta, *self.plan.box.T), self.best.inner
        for i, axis in enumerate(self.inner, len(directions)):
            for value in axis.near(self.best.inner[axis.name], step):
                yield i, self.best.theta, {**self.best.inner, axis.name: value}

    def _around(self, step: float) -> list[dict[str, Any]]:
        """Return the settings of the best trial, and those beside them along each axis."""
        here = {axis.name: self.best.settings[axis.name] for axis in self.outer}
        beside = ((a.name, v) for a in self.outer for v in a.near(here[a.name], step))
        return [here, *({**here, name: value} for name, value in beside)]

    # -- trials -------------------------------------------------------------------------------
    def _try(
        self,
        theta: np.ndarray,
        inner: dict[str, Any],
        settings: list[dict[str, Any]],
        along: int | None = None,
    ) -> bool:
        """Try a kernel with several settings; return whether that is progress.

        `along` is the number of the direction in which it lies from the best.
        """
        before = self._best
        place = (tuple(np.round(theta, 6)), tuple(map(repr, inner.values())))
        if self._is_late():
            raise TimeIsUp
        new = [s for s in settings if (place, _key(s)) not in self._seen]
        self._seen.update((place, _key(s)) for s in new)
        if not new:
            return False
        try:
            kernel = at_theta(self.kernel, theta)
            if inner:
                kernel = kernel._copied().set_params(**inner)
            self._evaluate(Trial(kernel, {}, np.nan, theta=theta, inner=inner), new, along)
        except MemoryBudgetExceeded:
            raise
        except MercerError as error:
            self._failures.append(({**inner, **new[0]}, error))
            return False  # such a kernel is not the best
        return before is not None and self.best is not before and self._gained(before)

    def _is_late(self) -> bool:
        return bool(self.table) and self.clock.late

    def _note(self, trial: Trial) -> None:
        theta = dict(zip(trial.kernel.theta_names, np.exp(trial.kernel.theta), strict=True))
        row = {name: float(value) for name, value in theta.items()}
        chosen = {**trial.inner, **trial.settings}
        self._worked.update((name, repr(value)) for name, value in chosen.items())
        self.table.append({**row, **chosen, "error": trial.error})
        self._first = self._first or trial
        if self._best is None or self._is_better(trial, self._best):
            self._best = trial

    # -- the error ----------------------------------------------------------------------------
    @abstractmethod
    def _evaluate(self, place: Trial, settings: list[dict[str, Any]], along: int | None) -> None:
        """Note trials at a place, and count it in `tried` where it lies along a direction."""

    def _is_better(self, trial: Trial, best: Trial) -> bool:
        return trial.better_than(best)

    def _gained(self, before: Trial) -> bool:
        """Whether a new best is progress beside the one before."""
        return not self.best.alike(before, self.no_gain)


class CompassSearch(Compass):
    """Errors of a kernel with the settings of the best and those beside them, all in one call.

    So the caller can share what settings have in common.

    Parameters
    ----------
    errors : callable
        (kernel, list of dict of settings) → array of errors, smaller is better; NaN where a model
        cannot be fitted. It may say why in ``failures``, a list of settings and exceptions.
    kernel, plan, max_iter, max_time, data
        As for `Compass`.
    """

    no_influence, no_gain = 0.0, 1e-3

    def __init__(
        self,
        errors: Errors,
        kernel: Any,
        plan: TunePlan,
        max_iter: int,
        max_time: float | None = None,
        data: TuneData | None = None,
    ):
        super().__init__(kernel, plan, max_iter, max_time, data)
        self.errors = errors

    def _evaluate(self, place: Trial, settings: list[dict[str, Any]], along: int | None) -> None:
        errors, noted = self.errors(place.kernel, settings), len(self.table)
        told = getattr(self.errors, "failures", [])
        self._failures += [({**place.inner, **setting}, error) for setting, error in told]
        del told[:]
        for setting, value in zip(settings, errors, strict=True):
            if np.isfinite(value):
                self._note(replace(place, settings=setting, error=float(value)))
        self.tried += along is not None and len(self.table) > noted
        if self._is_late() and not np.isfinite(errors).all():
            raise TimeIsUp

    def _is_better(self, trial: Trial, best: Trial) -> bool:
        return trial.error < best.error - HAIR * abs(best.error)

    def _gained(self, before: Trial) -> bool:
        return self.best.error < before.error - self.no_gain * abs(before.error)


def compass_result(
    model: Any, search: Compass, data: TuneData, ended: tuple[bool, str], criterion: str
) -> TuneResult:
    """Return what a search found for a model, which is not fitted yet."""
    best, used, (converged, message) = search.best, len(data), ended
    tuned = clone(model).set_params(kernel=best.kernel, **best.settings)
    inner = {f"kernel__{name}": value for name, value in best.inner.items()}
    params = {**best.settings, **inner, **kernel_params(best.kernel)}
    message += part_of(used, data.given)
    return TuneResult(tuned, best.error, params, search.table, converged, message, criterion, used)


@speaks
def tune_by_compass(
    model: Any, X: Any, y: Any, sample_weight: Any, options: TuneOptions
) -> TuneResult:
    """Tune a model by a compass search of its errors on folds, or with each row left out."""
    clock, rng = Clock(options.max_time), options.random_state
    model = as_plain_model(model, y)
    data = tune_data(model, X, y, sample_weight, options.max_points, rng)
    errors: Any
    if options.criterion == "loo":
        errors, plan = LeftOut(model, data), data.plan(model, options)
        errors.check(plan.axes)
    else:
        folds = fold_list(data, options.cv, rng)
        plan = data.plan(model, options, rows=1 + min(len(train) for train, _ in folds))
        errors = HeldOut(model, data, folds, options.scoring)
    if plan.empty and not options.fixed:
        raise InvalidInput(
            f"tune: there is nothing to tune: {data.kernel} has no parameters to tune, and "
            f"{type(model).__name__} has no penalty; give over a dict of names to choices."
        )
    search = CompassSearch(errors, data.kernel, plan, options.max_iter, clock.rest(), data)
    errors.clock = search.clock
    ended = search.run()
    errors.warn()
    warn_of_failures(search.lost())
    return compass_result(model, search, data, ended, errors.criterion)


def _product(axes: list[Axis]) -> list[dict[str, Any]]:
    """Return all combinations of the grids of axes, thinned where these are too many."""
    grids = [list(axis.grid) for axis in axes]
    while np.prod([len(g) for g in grids], dtype=float) > MOST_AT_A_START:
        sizes = [len(g) if a.kind != "choice" else 0 for a, g in zip(axes, grids, strict=True)]
        i = int(np.argmax(sizes))
        if sizes[i] < 4:
            break  # choices are all tried
        grids[i] = grids[i][::2]
    names = [axis.name for axis in axes]
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*grids)]


def _key(settings: dict[str, Any]) -> tuple:
    """Return what tells settings apart; numbers count to nine digits."""
    return tuple(
        (name, f"{value:.9g}" if isinstance(value, float) else repr(value))
        for name, value in settings.items()
    )
