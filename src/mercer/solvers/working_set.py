"""The descent of a box QP: working sets, their blocks, gradient updates and shrinking."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from mercer.errors import NotPositiveDefinite
from mercer.jit.smo import coordinate_steps, pair_steps, take_block
from mercer.settings import get_config
from mercer.solvers.box import BoxPoint, CheckedBox
from mercer.solvers.newton import newton_steps
from mercer.solvers.rows import Rows

__all__ = ["Descent"]

WORKING_SET = 1024
LARGEST_SET = 4096
EASED = 0.1  # a block is solved to this part of the violation it started with
SLICE = 4e7  # entries read in one compiled call, about 50 ms: then Ctrl-C and max_time are heard
PATIENCE = 5  # outer steps that a variable must have been idle before it is set aside
SET_ASIDE = 0.3  # part of the variables that must be idle before it is worth the trouble
NEGATIVE = 1e-8  # curvature below minus this part of the diagonal is not rounding


class Descent:
    """The state of a solve: coefficients a, f = Ka at the points, and how to lower the objective.

    Parameters
    ----------
    box : CheckedBox
        The problem.
    rows : Rows
        Rows of its K.
    limit : int
        Steps allowed.
    deadline : float or None
        When to stop, by ``time.monotonic``.
    callback : callable or None
        Called after every outer step.
    began : float
        When the solve began.
    """

    def __init__(
        self,
        box: CheckedBox,
        rows: Rows,
        limit: int,
        deadline: float | None,
        callback: Callable[[dict], Any] | None,
        began: float,
    ):
        self.box, self.rows, self.limit = box, rows, limit
        self.deadline, self.callback, self.began = deadline, callback, began
        self.steps = self.outer = 0
        # The points of this problem, where it does not use all rows of K; `at` maps variables.
        points = np.unique(box.index)
        self.points = None if len(points) == box.n else points
        self.at = box.index if self.points is None else np.searchsorted(points, box.index)
        self.set_size = WORKING_SET
        self.split_groups = len(box.totals) == 2

    # -- beginning and judging -----------------------------------------------------------------
    def begin(self, start: Any) -> None:
        """Take a start, or 0; compute f."""
        box = self.box
        self.a = box.feasible(start)
        self.f = np.zeros(box.n if self.points is None else len(self.points))
        self._recompute(exact=False)

    def _coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the points that have a coefficient, and it."""
        a = self.a if self.box.signs is None else self.a * self.box.signs
        total = np.bincount(self.box.index, weights=a, minlength=self.box.n)
        points = np.flatnonzero(total)
        return points, total[points]

    def _recompute(self, exact: bool) -> None:
        points, coef = self._coefficients()
        self.f[:] = 0.0
        if not len(points):
            return
        if exact and not self.rows.exact:
            f = self.rows.product(points, coef)
            self.f[:] = f if self.points is None else f[self.points]
        else:
            self.rows.add(self.f, points, coef, self.points)

    def _product(self) -> np.ndarray:
        """Return Qa."""
        out = self.f[self.at]
        return out if self.box.signs is None else out * self.box.signs

    def judge(self, exact: bool) -> BoxPoint:
        """Return the certificate of a, with f recomputed from the kernel."""
        if exact:
            self._recompute(exact=True)
        return self.box.judge(self.a, self._product())

    def refine(self) -> bool:
        """Go over to rows in float64; False where they are that already."""
        if self.rows.exact:
            return False
        self.rows = Rows(self.rows.K, single=False)
        return True

    # -- the loop ------------------------------------------------------------------------------
    def run(self, goal: float) -> str:
        """Lower the violation to goal; return "" or what stopped it."""
        threads = get_config().threads
        big = self.box.n > 4 * WORKING_SET and threads > 1
        pool = ThreadPoolExecutor(threads) if big else None
        try:
            return self._run(goal, pool)
        finally:
            if pool is not None:
                pool.shutdown()

    def _run(self, goal: float, pool: Any) -> str:
        box = self.box
        active = np.arange(len(box.p))
        idle = np.zeros(len(box.p), dtype=np.int64)
        last = np.zeros(0, dtype=np.int64)
        best, stale = np.inf, 0
        while True:
            G = (
                self._product()[active] + box.p[active]
                if len(active) < len(box.p)
                else (self._product() + box.p)
            )
            chosen, violation, quiet = self._select(G, active, last)
            if violation <= goal:
                return ""
            stop = self._stop(violation, len(active))
            if stop:
                return stop
            if violation > 0.5 * best:
                stale += 1
            else:
                best, stale = violation, 0
            if stale >= 10:  # pairs from different sets wait for one another: take larger sets
                best, stale = violation, 0
                self.set_size = min(2 * self.set_size, LARGEST_SET, self.rows.capacity)
            whole = len(chosen) == len(active)
            wanted = goal if whole else max(0.5 * goal, EASED * violation)
            if not self._solve_block(chosen, wanted, pool):
                return "rounding"
            last = chosen
            self.outer += 1

    def _stop(self, violation: float, active: int) -> str:
        if self.steps >= self.limit:
            return "iterations"
        now = time.monotonic()
        if self.deadline is not None and now > self.deadline:
            return "time"
        if self.callback is not None:
            info = {
                "n_iter": self.steps,
                "violation": violation,
                "active": active,
                "seconds": now - self.began,
            }
            if self.callback(info):
                return "callback"
        return ""

    # -- the working set -------------------------------------------------------------------------
    def _select(
        self, G: np.ndarray, active: np.ndarray, last: np.ndarray
    ) -> tuple[np.ndarray, float, Any]:
        """Return the working set (sorted), the violation, and which variables cannot move."""
        box = self.box
        a = self.a
        up, down = a < box.upper, a > box.lower
        if not box.totals:
            wrong = np.maximum(np.where(down, G, 0.0), np.where(up, -G, 0.0))
            violation = float(wrong.max(initial=0.0))
            ranges = [(wrong > 0, -wrong, np.zeros(len(G), bool), wrong)]
        else:
            ranges, violation = [], 0.0
            for g in range(len(box.totals)):
                mine = box.groups == g
                can_up, can_down = up & mine, down & mine
                low = G[can_up].min(initial=np.inf)
                high = G[can_down].max(initial=-np.inf)
                violation = max(violation, float(high - low))
                ranges.append((can_up & (G < high), G, can_down & (G > low), -G))
        size = min(self.set_size, self.rows.capacity)
        if len(G) <= size:
            return active, violation, None
        free = (a[last] > box.lower[last]) & (a[last] < box.upper[last])
        kept = last[free][: size // 2]
        taken = np.zeros(len(G), bool)
        taken[kept] = True
        need = (size - len(kept)) // len(ranges)
        for rising, rank_up, falling, rank_down in ranges:
            taken[_first(rising & ~taken, rank_up, need // 2)] = True
            taken[_first(falling & ~taken, rank_down, need - need // 2)] = True
        return np.flatnonzero(taken), violation, None

    def _solve_block(self, chosen: np.ndarray, wanted: float, pool: Any) -> bool:
        """Solve for the chosen variables, the others fixed; False where nothing moves."""
        box = self.box
        if self.split_groups:
            chosen = chosen[np.argsort(box.groups[chosen], kind="stable")]
        split = int((box.groups[chosen] == 0).sum()) if box.totals else None
        points, where = np.unique(box.index[chosen], return_inverse=True)
        slots = self.rows.fetch(points)
        columns = points if len(points) == len(chosen) and not self.split_groups else None
        Q = np.empty((len(chosen), len(chosen)), self.rows.store.dtype)
        row_slots, cols = slots[where], box.index[chosen] if columns is None else points
        _gather(self.rows.store, row_slots, cols, Q, pool)
        if box.signs is not None:
            s = box.signs[chosen].astype(Q.dtype)
            Q *= s[:, None] * s
        a, G = self.a[chosen].copy(), (self._product() + box.p)[chosen]
        before = a.copy()
        self._descend(Q, G, a, box.lower[chosen], box.upper[chosen], split, wanted)
        moved = np.flatnonzero(a != before)
        if not len(moved):
            return False
        self.a[chosen] = a
        delta = a - before
        if box.signs is not None:
            delta *= box.signs[chosen]
        total = np.bincount(where, weights=delta, minlength=len(points))
        some = total != 0
        self.rows.add(self.f, points[some], total[some], self.points, pool)
        return True

    def _descend(
        self,
        Q: np.ndarray,
        G: np.ndarray,
        a: np.ndarray,
        lower: np.ndarray,
        upper: np.ndarray,
        split: int | None,
        wanted: float,
    ) -> None:
        """Steps on pairs or single variables, and Newton steps when a slice was not enough."""
        portion = max(100, int(SLICE / len(a)))
        portion = min(portion, 1000 + 20 * len(a))
        while True:
            room = min(portion, max(1, self.limit - self.steps))
            if split is None:
                done, violation, curvature = coordinate_steps(Q, G, a, lower, upper, wanted, room)
            else:
                done, violation, curvature = pair_steps(Q, G, a, lower, upper, split, wanted, room)
            self.steps += done
            scale = float(np.abs(Q.diagonal()).max(initial=0.0))
            if curvature < -NEGATIVE * max(scale, 1e-300):
                raise NotPositiveDefinite(
                    "SMO: the matrix is not positive semidefinite: along one direction its "
                    f"curvature is {curvature:.3g}. mercer.check_kernel tells more; a matrix that "
                    "is only rounded passes with a small number added to its diagonal.",
                    curvature,
                )
            if violation <= wanted or self.steps >= self.limit or done < room:
                return
            if self.deadline is not None and time.monotonic() > self.deadline:
                return
            newton_steps(Q, G, a, lower, upper, split)


def _first(mask: np.ndarray, rank: np.ndarray, k: int) -> np.ndarray:
    """Return the k entries of the mask that have the lowest rank."""
    index = np.flatnonzero(mask)
    if len(index) <= k:
        return index
    return index[np.argpartition(rank[index], k)[:k]]


def _gather(store: np.ndarray, slots: np.ndarray, columns: np.ndarray, out: Any, pool: Any) -> None:
    if pool is None:
        take_block(store, slots, columns, out)
        return
    half = len(slots) // 2
    parts = [slice(0, half), slice(half, len(slots))]
    for job in [pool.submit(take_block, store, slots[p], columns, out[p]) for p in parts]:
        job.result()
