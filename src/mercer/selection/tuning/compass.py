"""A compass search over log-parameters of a kernel, penalties, whole numbers and choices."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.checks import at_theta
from mercer.errors import InvalidInput, MemoryBudgetExceeded, MercerError
from mercer.selection.tuning.what import Axis, Plan, TimeIsUp, is_scale

STARTS = (1.0, 1 / 3, 3.0)
FIRST_STEP, LAST_STEP = np.log(3.0) / 2, np.log(1.1)
GAIN, HAIR = 1e-3, 1e-10  # relative changes of an error that are progress, and more than rounding
MOST_AT_A_START = 64  # settings tried for a kernel at a start

Errors = Callable[[Any, list[dict[str, Any]]], np.ndarray]


@dataclass(frozen=True)
class Point:
    """A place in the search, and its error."""

    theta: np.ndarray
    inner: dict[str, Any]
    settings: dict[str, Any]
    kernel: Any
    error: float


class CompassSearch:
    """Minimise errors(kernel, settings) over a plan: coarse grids at the starts, then a compass.

    A step tries one kernel beside the best with the settings of the best and those beside them, all
    in one call, so that the caller can share what settings have in common. Kolda, Lewis & Torczon
    (2003), opportunistic: the first point that is better is taken at once, and the step is halved
    where no direction is better.

    Parameters
    ----------
    errors : callable
        (kernel, list of dict of settings) → array of errors, smaller is better; NaN where a model
        cannot be fitted. It may say why in ``failures``, a list of settings and exceptions.
    kernel : Kernel
        The start, words resolved.
    plan : Plan
        Box of θ and axes.
    max_iter : int
        The kernels tried after the starts.
    max_time : float or None
        Seconds; checked before every kernel but the first.
    guess : ndarray, optional
        Another start for θ.
    """

    def __init__(
        self,
        errors: Errors,
        kernel: Any,
        plan: Plan,
        max_iter: int,
        max_time: float | None = None,
        guess: np.ndarray | None = None,
    ):
        self.errors, self.kernel, self.plan, self.max_iter = errors, kernel, plan, max_iter
        self.deadline = None if max_time is None else time.monotonic() + max_time
        self.guess = guess
        self.free = plan.box[:, 0] < plan.box[:, 1]
        self.inner: list[Axis] = [axis for axis in plan.axes if axis.of_kernel]
        self.outer: list[Axis] = [axis for axis in plan.axes if not axis.of_kernel]
        self.table: list[dict[str, Any]] = []
        self._best: Point | None = None
        self._failures: list[tuple[dict[str, Any], Exception]] = []
        self._seen: set[tuple] = set()
        self._worked: set[tuple[str, str]] = set()

    @property
    def best(self) -> Point:
        """The best point so far."""
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
            if self.plan.empty:
                return True, "one evaluation: nothing was left to choose"
            return self._descend()
        except TimeIsUp:
            return False, "stopped by max_time"

    def _starts(self) -> Iterator[tuple[np.ndarray, dict[str, Any]]]:
        box, scales = self.plan.box, is_scale(self.kernel)
        factors = STARTS if (scales * self.free).any() else STARTS[:1]
        thetas = [np.clip(self.kernel.theta + np.log(f) * scales, *box.T) for f in factors]
        if self.guess is not None:
            thetas.insert(0, np.clip(self.guess, *box.T))
        yield from itertools.product(thetas, _product(self.inner))

    def _descend(self) -> tuple[bool, str]:
        step, tried, flat = FIRST_STEP, 0, Counter[int]()
        while step >= LAST_STEP:
            moved = self._settle(step)
            for i, theta, inner in self._beside(step):
                if flat[i] >= 2:
                    continue  # a parameter without influence, both ways
                if tried >= self.max_iter:
                    return False, "stopped by max_iter"
                seen, before = len(self.table), self.best.error
                moved |= self._try(theta, inner, self._around(step))
                tried += len(self.table) > seen
                same = len(self.table) > seen and self.table[seen]["error"] == before
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
        """Return the settings of the best point, and those beside them along each axis."""
        here = self.best.settings
        beside = ((a.name, v) for a in self.outer for v in a.near(here[a.name], step))
        return [here, *({**here, name: value} for name, value in beside)]

    # -- trials -------------------------------------------------------------------------------
    def _try(
        self,
        theta: np.ndarray,
        inner: dict[str, Any],
        settings: list[dict[str, Any]],
    ) -> bool:
        """Try a kernel with several settings; return whether one is better by more than a hair."""
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
            errors = self.errors(kernel, new)
            told = getattr(self.errors, "failures", [])
            self._failures += [({**inner, **setting}, error) for setting, error in told]
            del told[:]
        except MemoryBudgetExceeded:
            raise
        except MercerError as error:
            self._failures.append(({**inner, **new[0]}, error))
            return False  # such a kernel is not the best
        for setting, value in zip(new, errors, strict=True):
            self._note(Point(theta, inner, setting, kernel, float(value)))
        if self._is_late() and not np.isfinite(errors).all():
            raise TimeIsUp
        if before is None or self._best is None or self._best is before:
            return self._best is not before
        return self._best.error < before.error - GAIN * abs(before.error)

    def _is_late(self) -> bool:
        late = self.deadline is not None and time.monotonic() > self.deadline
        return late and bool(self.table)

    def _note(self, point: Point) -> None:
        if not np.isfinite(point.error):
            return
        theta = dict(zip(point.kernel.theta_names, np.exp(point.kernel.theta), strict=True))
        row = {name: float(value) for name, value in theta.items()}
        chosen = {**point.inner, **point.settings}
        self._worked.update((name, repr(value)) for name, value in chosen.items())
        self.table.append({**row, **chosen, "error": point.error})
        if self._best is None or point.error < self._best.error - HAIR * abs(self._best.error):
            self._best = point


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
