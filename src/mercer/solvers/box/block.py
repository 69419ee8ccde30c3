"""A box QP on a small dense block: compiled steps in slices, Newton steps where those are slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mercer.checks import Clock
from mercer.errors import NotPositiveDefinite, who
from mercer.settings import get_config
from mercer.solvers.box.newton import interior_point, newton_steps
from mercer.solvers.box.problem import BoxPoint, CheckedBox, box_floor
from mercer.solvers.box.rows import Rows
from mercer.threads import Ticker, blas_for

SLICE = 4e7  # entries read in one compiled call, about 50 ms: then Ctrl-C and max_time are heard
STALE = 8  # rounds without halving the violation, after which something else is tried
PATIENCE = 4  # rounds of steps after which a block goes to an interior point method
INTERIOR = 2500  # variables up to which it does
NEGATIVE = 1e-6  # curvature below minus this part of the diagonal is not even that of float32


class BoxBlock(NamedTuple):
    """A box QP on one dense block: Q, the gradient G at a, the box, and where the sums part.

    `split` separates the variables of the first sum from those of the second; None stands for no
    sum to hold. Who lowers the objective changes a and G in place.
    """

    Q: np.ndarray
    G: np.ndarray
    a: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    split: int | None


class Budget:
    """Steps and time that a solve may spend, and who is told of its progress.

    A true answer of the callback, which is called after every outer step, stops the solve.
    """

    def __init__(self, limit: int, clock: Clock, callback: Callable | None):
        self.limit, self.clock, self.callback = limit, clock, callback
        self.steps = 0
        self._reason = ""
        self.ticker = Ticker("SMO")

    def stop(self, violation: float, active: int) -> str:
        """Return "" or the reason to stop; once there is one it stays."""
        self.ticker.tell(f"{self.steps} steps, KKT violation {violation:.2g}")
        self._reason = self._reason or self._find_reason(violation, active)
        return self._reason

    def _find_reason(self, violation: float, active: int) -> str:
        if self.steps >= self.limit:
            return "iterations"
        if self.clock.late:
            return "time"
        if self.callback is not None:
            info = {
                "n_iter": self.steps,
                "violation": violation,
                "active": active,
                "seconds": self.clock.spent,
            }
            if self.callback(info):
                return "callback"
        return ""

    def descend(self, block: BoxBlock, wanted: float) -> float:
        """Lower the violation on a block to what is wanted; return what is left of it."""
        from mercer.jit import coordinate_steps, pair_steps

        Q, G, a = block.Q, block.G, block.a
        portion = min(max(100, int(SLICE / max(1, len(a)))), 1000 + 20 * len(a))
        best, stale, rounds = np.inf, 0, 0
        while True:
            room = min(portion, max(0, self.limit - self.steps))
            if block.split is None:
                done, violation, curvature = coordinate_steps(*block[:5], wanted, room)
            else:
                done, violation, curvature = pair_steps(*block, wanted, room)
            self.steps += done
            if curvature < 0:
                refuse_indefinite(Q.diagonal(), curvature)
            if violation <= wanted or done < room or self.steps >= self.limit:
                return violation
            if violation > 0.5 * best:
                stale += 1
            else:
                best, stale = violation, 0
            rounds += 1
            root = np.sqrt(np.maximum(Q.diagonal(), 0.0))
            hopeless = stale >= STALE or violation <= box_floor(a, G, root)
            if hopeless or self.stop(violation, len(a)):
                return violation
            with blas_for(a):
                if rounds == PATIENCE and len(a) <= INTERIOR and fits(len(a)):
                    self._jump(block)
                else:
                    newton_steps(*block)

    def _jump(self, block: BoxBlock) -> None:
        """Go to the point that an interior point method finds, if it is lower."""
        Q, G, a, lower, upper, split = block
        p = G - Q @ a
        found = interior_point(Q, p, lower, upper, a, split, self.clock)
        if found is None:
            return
        gradient = Q @ found + p
        if found @ (gradient + p) < a @ (G + p):  # twice the objective
            a[:], G[:] = found, gradient


def fits(n: int) -> bool:
    """Whether the copies of an n × n block that an interior point method makes fit the budget."""
    return 3 * 8 * n * n < 0.25 * get_config().memory


def refuse_indefinite(diagonal: np.ndarray, curvature: float) -> None:
    """Raise `NotPositiveDefinite` for a negative curvature that is not rounding."""
    if curvature < -NEGATIVE * float(np.abs(diagonal).max(initial=0.0)):
        raise NotPositiveDefinite(
            f"{who()}: the matrix is not positive semidefinite: along one direction its curvature "
            f"is {curvature:.3g}. mercer.check_kernel tells more; a matrix that is only rounded "
            "passes with a small number added to its diagonal.",
            curvature,
        )


class Direct:
    """The descent of a problem that is one block: no working sets, no updates.

    It has one variable a point, and all rows of its K are there.
    """

    def __init__(self, box: CheckedBox, rows: Rows, budget: Budget):
        self.box, self.rows, self.budget = box, rows, budget
        self.outer = 0
        order = None
        self.split: int | None = len(box.p) if box.totals else None
        if len(box.totals) == 2:
            order = np.argsort(box.groups, kind="stable")
            self.split = int((box.groups == 0).sum())
        self.order = order
        at = box.index if order is None else box.index[order]
        if not rows.in_memory:
            self.Q = np.empty((len(at), len(at)), rows.dtype)
            rows.gather(at, at, self.Q, np.arange(len(at)))
        elif box.repeats or order is not None:
            self.Q = rows.store[at[:, None], at]
        else:
            self.Q = rows.store
        self.p, self.lower, self.upper = self._sorted(box.p, box.lower, box.upper)

    @staticmethod
    def suits(box: CheckedBox, rows: Rows, largest: int) -> bool:
        """Whether a problem is small enough, in float64, and has one variable a point."""
        small = len(box.p) <= largest and rows.exact and rows.whole and box.signs is None
        return small and bool((np.diff(box.index) > 0).all())

    def _sorted(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        return arrays if self.order is None else tuple(v[self.order] for v in arrays)

    @property
    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        """The coefficients a, and Ka at the points of the problem."""
        if self.order is None:
            return self.a, self.f
        a, f = np.empty_like(self.a), np.empty_like(self.f)
        a[self.order], f[self.order] = self.a, self.f
        return a, f

    def begin(self, start: Any) -> None:
        """Take a start, or 0."""
        (self.a,) = self._sorted(self.box.feasible(start))
        self.f = self.Q @ self.a

    def run(self, goal: float) -> str:
        """Lower the violation to goal; return "" or what stopped it."""
        box, budget = self.box, self.budget
        self.outer += 1
        if budget.steps >= budget.limit:
            return budget.stop(np.inf, len(self.a))
        G = self.f + self.p
        before = self.a.copy()
        block = BoxBlock(self.Q, G, self.a, self.lower, self.upper, self.split)
        left = budget.descend(block, goal)
        self.f = self.Q @ self.a
        stop = budget.stop(left, len(self.a))
        if stop or left <= goal:
            return stop if left > goal else ""
        root = np.sqrt(np.maximum(self.Q.diagonal(), 0.0))
        stuck = left <= box_floor(self.a, self.p, root) or np.array_equal(self.a, before)
        return "rounding" if stuck or len(box.p) == 0 else ""

    def judge(self) -> BoxPoint:
        """Return the certificate of a."""
        a, f = self.answer
        self.box.settle(a)
        (self.a,) = self._sorted(a)
        return self.box.judge(a, f, self.rows.diagonal[self.box.index])

    def judge_sharply(self) -> BoxPoint | None:
        """Return the certificate with products in longer numbers; None if there are none."""
        a, _ = self.answer
        f = self.rows.sharp_product(self.box.index, a)
        diagonal = self.rows.diagonal[self.box.index]
        return None if f is None else self.box.judge(a, f[self.box.index], diagonal)

    def refine(self) -> bool:
        """Say that the rows are in float64 already."""
        return False

    def close(self) -> None:
        """Let nothing go: there are no threads here."""
