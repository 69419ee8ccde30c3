"""A box QP on a small dense block: compiled steps in slices, Newton steps where those are slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mercer.checks import Clock
from mercer.errors import NotPositiveDefinite, who
from mercer.settings import get_config
from mercer.solvers.box.newton import interior_point, newton_leap, newton_steps
from mercer.solvers.box.problem import BoxPoint, CheckedBox, box_floor, halves
from mercer.solvers.box.rows import Rows
from mercer.threads import Ticker, blas_for

SLICE = 4e7  # entries read in one compiled call, about 50 ms: then Ctrl-C and max_time are heard
STALE = 8  # rounds of full length without halving the violation, after which it is hopeless
PATIENCE = 4  # rounds of full length after which a block goes to an interior point method
LEAST_ROUND, ROUND = 400, 2  # steps of a round, and those a variable
# Seconds that steps take, a variable; and a Newton step, for the cube and the square of those that
# are free, and beside. One is made when steps have taken as long: at worst it doubles their time.
STEP, CUBE, SQUARE, BESIDE = 1.2e-9, 8e-12, 1e-8, 1e-4
FEW = 300  # free variables up to which Newton steps go on from bound to bound; of more, those
SETTLED = 0.02  # that are free must be the same as a round before but for this part
INTERIOR = 2500  # variables up to which it does
NEGATIVE = 1e-6  # curvature below minus this part of the diagonal is not even that of float32


class BoxBlock(NamedTuple):
    """A box QP on one dense block: Q, the gradient G at a, the box, and where the sums part.

    `split` separates the variables of the first sum from those of the second; None stands for no
    sum to hold. Where there are `kinks`, Σ kinks·|a| belongs to the objective, and not to G. Who
    lowers the objective changes a and G in place.
    """

    Q: np.ndarray
    G: np.ndarray
    a: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    split: int | None
    kinks: np.ndarray | None = None


class Budget:
    """Steps and time that a solve may spend, and who is told of its progress.

    A true answer of the callback, which is called after every outer step, stops the solve.
    """

    def __init__(self, limit: int, clock: Clock, callback: Callable | None):
        self.limit, self.clock, self.callback = limit, clock, callback
        self.steps = self.spent = 0
        self._free = np.zeros(0, dtype=np.int64)
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

        Q, G, a, n = block.Q, block.G, block.a, len(block.a)
        kinks = np.zeros(n) if block.kinks is None else block.kinks
        most = min(max(100, int(SLICE / max(1, n))), 1000 + 20 * n)
        portion = min(most, max(LEAST_ROUND, ROUND * n))
        best, stale, done_here, jumped = np.inf, 0, 0, False
        while True:
            room = min(portion, max(0, self.limit - self.steps))
            if block.split is None:
                done, violation, curvature = coordinate_steps(*block[:5], wanted, room)
            else:
                done, violation, curvature = pair_steps(*block[:6], kinks, wanted, room)
            self.steps += done
            if curvature < 0:
                refuse_indefinite(Q.diagonal(), curvature)
            if violation <= wanted or done < room or self.steps >= self.limit:
                return violation
            if violation > 0.5 * best:
                stale += done
            else:
                best, stale = violation, 0
            done_here += done
            self.spent += done
            root = np.sqrt(np.maximum(Q.diagonal(), 0.0))
            hopeless = stale >= STALE * most or violation <= box_floor(a, G, root)
            if hopeless or self.stop(violation, n):
                return violation
            if not jumped and done_here >= PATIENCE * most and n <= INTERIOR and fits(n):
                with blas_for(n):
                    self._jump(block)
                jumped = True
            else:
                self._newton(block)

    def _newton(self, block: BoxBlock) -> None:
        """Take Newton steps where steps on pairs have taken as long as these will.

        A variable that has a kink at 0 stays on its side of it.
        """
        Q, G, a, lower, upper, split, kinks = block
        free = np.flatnonzero((a > lower) & (a < upper) if kinks is None else a != 0)
        m = len(free)
        worth = (CUBE * m + SQUARE) * m**2 * Q.itemsize / 8 + BESIDE
        settled = m <= FEW or len(np.setxor1d(free, self._free, assume_unique=True)) < SETTLED * m
        self._free = free
        late = STEP * len(a) * self.spent >= worth
        if m < (1 if split is None else 2) or not (late and settled and fits(m)):
            return
        self.spent = 0
        if kinks is None:
            slopes = 0.0
        else:
            slopes = kinks * np.sign(a)
            lower, upper = np.where(a < 0, lower, 0.0), np.where(a > 0, upper, 0.0)
            free = free[(a[free] > lower[free]) & (a[free] < upper[free])]
        G += slopes
        with blas_for(m):  # the factor is of the free variables, however many there are
            if m <= FEW:
                newton_steps(Q, G, a, lower, upper, split)
            elif len(free) > 1:
                newton_leap(Q, G, a, lower, upper, split, free)
        G -= slopes

    def _jump(self, block: BoxBlock) -> None:
        """Go to the point that an interior point method finds, if it is lower."""
        Q, G, a, lower, upper, split, kinks = block
        p = G - Q @ a
        if kinks is None:
            found = interior_point(Q, p, lower, upper, a, split, self.clock)
        else:  # rise and fall are variables of their own
            if 2 * len(a) > INTERIOR or not fits(2 * len(a)):
                return
            Q, p = np.tile(Q, (2, 2)), np.concatenate([p + kinks, p - kinks])
            none = np.zeros(len(a))
            low, high = np.concatenate([none, lower]), np.concatenate([upper, none])
            both = np.concatenate([np.maximum(a, 0.0), np.minimum(a, 0.0)])
            found = interior_point(Q, p, low, high, both, 2 * len(a), self.clock)
            found = None if found is None else np.add(*halves(found))
        if found is None:
            return
        Q, p = block.Q, G - block.Q @ a
        gradient = Q @ found + p
        after, before = found @ (gradient + p), a @ (G + p)  # twice the objective
        if kinks is not None:
            after, before = after + 2 * kinks @ np.abs(found), before + 2 * kinks @ np.abs(a)
        if after < before:
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

    It has one variable a point, or two that are those of a tube, and all rows of its K are there.
    """

    def __init__(self, box: CheckedBox, rows: Rows, budget: Budget):
        self.box, self.rows, self.budget = box, rows, budget
        self.outer = 0
        order = None
        self.split: int | None = len(box.p) if box.totals else None
        self.kinks: np.ndarray | None = None
        if box.is_tube:
            self.order, self.split = None, box.n
            self.Q = self._matrix(rows, np.arange(box.n), False)
            self.p, self.kinks, self.lower, self.upper = box.tube
            return
        if len(box.totals) == 2:
            order = np.argsort(box.groups, kind="stable")
            self.split = int((box.groups == 0).sum())
        self.order = order
        at = box.index if order is None else box.index[order]
        self.Q = self._matrix(rows, at, box.repeats or order is not None)
        self.p, self.lower, self.upper = self._sorted(box.p, box.lower, box.upper)

    @staticmethod
    def _matrix(rows: Rows, at: np.ndarray, arranged: bool) -> np.ndarray:
        """Return K at some points in main memory: the rows themselves, or their entries."""
        if rows.in_memory and not arranged:
            return rows.store
        Q = np.empty((len(at), len(at)), rows.dtype)
        rows.gather(at, at, Q, np.arange(len(at)))
        return Q

    @staticmethod
    def suits(box: CheckedBox, rows: Rows, largest: int) -> bool:
        """Whether a problem is small enough, in float64, and one block."""
        if not (rows.exact and rows.whole and rows.in_memory and box.signs is None):
            return False
        if box.is_tube:
            return box.n <= largest
        return len(box.p) <= largest and bool((box.index[1:] > box.index[:-1]).all())

    def _sorted(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        return arrays if self.order is None else tuple(v[self.order] for v in arrays)

    @property
    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        """The coefficients a, and Ka at the points of the problem."""
        if self.kinks is not None:
            return CheckedBox.apart(self.a), self.f
        if self.order is None:
            return self.a, self.f
        a, f = np.empty_like(self.a), np.empty_like(self.f)
        a[self.order], f[self.order] = self.a, self.f
        return a, f

    def begin(self, start: Any) -> None:
        """Take a start, or 0."""
        a = self.box.feasible(start)
        if self.kinks is not None:
            self.a = np.add(*halves(a))
        else:
            (self.a,) = self._sorted(a)
        self.f = self.Q @ self.a if self.a.any() else np.zeros(len(self.a))

    def run(self, goal: float) -> str:
        """Lower the violation to goal; return "" or what stopped it."""
        box, budget = self.box, self.budget
        self.outer += 1
        if budget.steps >= budget.limit:
            return budget.stop(np.inf, len(self.a))
        G = self.f + self.p
        before = self.a.copy()
        block = BoxBlock(self.Q, G, self.a, self.lower, self.upper, self.split, self.kinks)
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
        if self.kinks is not None:
            self.a = np.add(*halves(a))
            f = f[self.box.index]
        else:
            (self.a,) = self._sorted(a)
        return self.box.judge(a, f, self.rows.diagonal[self.box.index])

    def judge_sharply(self) -> BoxPoint | None:
        """Return the certificate with products in longer numbers; None if there are none."""
        a, index = self.answer[0], self.box.index
        at = index if self.kinks is None else index[: len(self.a)]
        f = self.rows.sharp_product(at, a if self.kinks is None else self.a)
        diagonal = self.rows.diagonal[index]
        return None if f is None else self.box.judge(a, f[index], diagonal)

    def refine(self) -> bool:
        """Say that the rows are in float64 already."""
        return False

    def close(self) -> None:
        """Let nothing go: there are no threads here."""
