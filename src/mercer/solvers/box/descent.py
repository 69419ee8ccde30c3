"""The descent of a box QP: working sets, their blocks, gradient updates and shrinking."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.settings import get_config
from mercer.solvers.box.block import (
    INTERIOR,
    SLICE,
    STALE,
    BoxBlock,
    Budget,
    fits,
    refuse_indefinite,
)
from mercer.solvers.box.problem import BoxPoint, CheckedBox, box_floor
from mercer.solvers.box.rows import Rows, rows_for
from mercer.threads import Pool

# ---- Variables of a box QP that are moved, with what belongs to them ----


class BoxView:
    """Variables that are moved, with the points they need: all of a problem, or part of it."""

    def __init__(self, box: CheckedBox, rows: Rows, columns: np.ndarray | None, at: np.ndarray):
        self.rows, self.columns, self.at = rows, columns, at
        self.p, self.lower, self.upper = box.p, box.lower, box.upper
        self.groups, self.signs, self.n_groups = box.groups, box.signs, len(box.totals)
        self.variables: np.ndarray | None = None
        self.idle = np.zeros(len(at), dtype=np.int64)
        self.a = self.f = np.zeros(0)
        self.last_block: tuple[np.ndarray, Any] = np.zeros(0, dtype=np.int64), None

    def restrict(self, keep: np.ndarray) -> BoxView:
        """Return a view of the variables in `keep`, with rows of their points only."""
        part = object.__new__(BoxView)
        points, part.at = np.unique(self.at[keep], return_inverse=True)
        for name in ("p", "lower", "upper", "groups", "a"):
            setattr(part, name, getattr(self, name)[keep])
        part.signs = None if self.signs is None else self.signs[keep]
        part.n_groups, part.f = self.n_groups, self.f[points]
        part.rows = self.rows.restricted(self.places(points))
        part.columns, part.variables = None, keep
        part.idle = np.zeros(len(keep), dtype=np.int64)
        part.last_block = np.zeros(0, dtype=np.int64), None
        return part

    def places(self, at: np.ndarray) -> np.ndarray:
        """Return the rows, in `rows`, of positions in f."""
        return at if self.columns is None else self.columns[at]

    def gradient(self) -> np.ndarray:
        """Return Qa + p."""
        out = self.f[self.at]
        if self.signs is not None:
            out *= self.signs
        out += self.p
        return out

    def add(self, variables: np.ndarray, delta: np.ndarray, pool: Any) -> None:
        """Bring f up to date with a change of some coefficients."""
        if self.signs is not None:
            delta = delta * self.signs[variables]
        points, where = np.unique(self.at[variables], return_inverse=True)
        total = np.bincount(where, weights=delta)
        some = total != 0
        self.rows.add(self.f, self.places(points[some]), total[some], self.columns, pool)


# ---- working set ----


WORKING_SET = 1024
LARGEST_SET, LEAST_SET = 4096, 16
BLOCKS = 0.08  # of the memory budget for one block: there are two, and copies in Newton steps
GATHERED_ROWS, GATHERED_VARIABLES = 1024, 8192  # up to which rows are gathered one by one
AS_ONE = 16384  # points up to which rows that are all there are one block: fewer steps are needed
EASED = 0.1  # a block is solved to this part of the violation it started with
PATIENCE = 5  # outer steps that a variable must have been idle before it is set aside
SET_ASIDE = 0.5  # part of the variables that must be idle before it is worth the trouble,
SET_ASIDE_COPY = 0.85  # and where rows of the others are all there and would only be copied
DRAGGING = 30  # steps a variable after which a problem is taken as one block, if it may be
SAFETY = 50  # times the error of float32 rows within which float64 decides
SAMPLE = 100  # points without a coefficient at which that error is looked at


class BoxDescent:
    """The state of a solve, coefficients a and f = Ka at the points, and how to lower the value."""

    def __init__(self, box: CheckedBox, rows: Rows, budget: Budget):
        self.box, self.budget = box, budget
        self.outer = 0
        self._executor: Pool | None = None
        self._buffers = [np.zeros(0), np.zeros(0)]
        columns = None
        at = box.index
        if box.repeats:
            columns, at = np.unique(box.index, return_inverse=True)
            columns = None if len(columns) == box.n else columns
        self.view = BoxView(box, rows, columns, at)
        self.largest = max(
            LEAST_SET, min(LARGEST_SET, int((BLOCKS * get_config().memory / 8) ** 0.5))
        )
        self.set_size = min(WORKING_SET, self.largest)

    @property
    def rows(self) -> Rows:
        """Rows of K."""
        return self.view.rows

    @property
    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        """The coefficients a, and Ka at the points of the problem."""
        return self.view.a, self.view.f

    # -- beginning and judging -----------------------------------------------------------------
    def begin(self, start: Any) -> None:
        """Take a start, or 0; compute f."""
        view = self.view
        view.a = self.box.feasible(start)
        n = self.box.n if view.columns is None else len(view.columns)
        view.f = np.zeros(n)
        moved = np.flatnonzero(view.a)
        if len(moved):
            view.add(moved, view.a[moved], self._pool())

    def judge(self) -> BoxPoint:
        """Return the certificate of a, with f recomputed from the kernel in float64."""
        view = self.view
        self.box.settle(view.a)
        points, coef = self._coefficients()
        if view.rows.exact or not len(points):
            view.f[:] = view.rows.product(points, coef, view.columns, self._pool())
        else:
            self._recompute(points, coef)
        return self._judged()

    def _coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the points with a coefficient, and the sum of these."""
        view, box = self.view, self.box
        a = view.a if view.signs is None else view.a * view.signs
        total = np.bincount(box.index, weights=a, minlength=box.n)
        points = np.flatnonzero(total)
        return points, total[points]

    def judge_sharply(self) -> BoxPoint | None:
        """Return the certificate with products in longer numbers; None if there are none."""
        view, box = self.view, self.box
        f = view.rows.sharp_product(*self._coefficients())
        if f is None:
            return None
        Qa = f[box.index] if view.signs is None else f[box.index] * view.signs
        return box.judge(view.a, Qa, view.rows.diagonal[box.index])

    def _judged(self) -> BoxPoint:
        view = self.view
        Qa = view.gradient()
        Qa -= view.p
        return self.box.judge(view.a, Qa, view.rows.diagonal[self.box.index])

    def _recompute(self, points: np.ndarray, coef: np.ndarray) -> None:
        """Recompute f, where it comes from float32 rows, in float64 wherever that decides.

        The objective needs f at the points that have a coefficient. Violation and gap need it at
        the others only near the margin: one that is at 0 and stays on its side adds nothing. The
        error of f, known at the first and at some of the others, tells how near.
        """
        view = self.view
        point = self._judged()
        slack = view.gradient()
        for g, b in enumerate(point.multipliers):
            slack[view.groups == g] -= b
        at = points if view.columns is None else np.searchsorted(view.columns, points)
        error = self._correct(at, points, coef)
        others = np.setdiff1d(np.arange(len(view.f)), at)
        if not len(others):
            return
        near = np.zeros(len(view.f), dtype=bool)
        near[others[:: max(1, len(others) // SAMPLE)]] = True
        error = max(error, self._correct(np.flatnonzero(near), points, coef))
        close = np.unique(view.at[np.abs(slack) <= SAFETY * error])
        rest = np.setdiff1d(np.intersect1d(close, others), np.flatnonzero(near))
        if len(rest) and self._correct(rest, points, coef) > 2 * error:
            view.f[:] = view.rows.product(points, coef, view.columns)

    def _correct(self, at: np.ndarray, points: np.ndarray, coef: np.ndarray) -> float:
        """Replace f at some positions by its value in float64; return the largest change."""
        exact = self.view.rows.product(points, coef, self.view.places(at))
        error = float(np.abs(exact - self.view.f[at]).max(initial=0.0))
        self.view.f[at] = exact
        return error

    def refine(self) -> bool:
        """Go over to rows in float64; False where they are that already."""
        if self.rows.exact:
            return False
        self.view.rows = rows_for(self.rows.K, single=False)
        self.view.last_block = np.zeros(0, dtype=np.int64), None
        return True

    # -- the loop ------------------------------------------------------------------------------
    def run(self, goal: float) -> str:
        """Lower the violation to goal; return "" or what stopped it."""
        return self._run(goal, self._pool())

    def _pool(self) -> Pool | None:
        """Return threads to share long passes among, where there is anything to share."""
        threads = get_config().threads
        if self._executor is None and threads > 1 and len(self.view.f) > 2 * WORKING_SET:
            self._executor = Pool(threads)
        return self._executor

    def close(self) -> None:
        """Let the threads go."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)

    def _gathered(self, goal: float) -> None:
        """Take steps on all variables with rows gathered one by one, as long as those are few.

        Where few points matter this is all there is to do, and no block has to be built.
        """
        from mercer.jit import gathered_pair_steps

        view = self.view
        n = len(view.p)
        order = np.arange(n)
        split = n
        if view.n_groups == 2:
            order = np.argsort(view.groups, kind="stable")
            split = int((view.groups == 0).sum())
        places = view.places(view.at[order])
        G, a = view.gradient()[order], view.a[order]
        fit = int(BLOCKS * get_config().memory) // (8 * n)
        rows = np.empty((min(n + 3, GATHERED_ROWS, max(4, fit)), n), view.rows.dtype)
        *_, curvature, _ = done = gathered_pair_steps(
            rows,
            np.full(n, -1),
            0,
            view.rows.store,
            places,
            places,
            view.rows.diagonal[places],
            G,
            a,
            view.lower[order],
            view.upper[order],
            split,
            goal,
            min(max(0, self.budget.limit - self.budget.steps), int(SLICE / n)),
        )
        self.budget.steps += done[0]
        if curvature < 0:
            refuse_indefinite(view.rows.diagonal, curvature)
        view.a[order] = a
        view.f[view.at[order]] = G - view.p[order]

    def _as_one(self, goal: float) -> None:
        """Take steps on all variables at once, on the rows as they lie."""
        view, box = self.view, self.box
        if box.is_tube:
            p, kinks, lower, upper = box.tube
            a = np.sum(np.split(view.a, 2), axis=0)
        else:
            p, kinks, lower, upper, a = view.p, None, view.lower, view.upper, view.a
        block = BoxBlock(view.rows.store, view.f + p, a, lower, upper, len(a), kinks)
        self.budget.descend(block, goal)
        if kinks is not None:
            view.a = box.apart(a)
        view.f = block.G - p

    def _run(self, goal: float, pool: Any) -> str:
        view, best, stale, lowest = self.view, np.inf, 0, np.inf
        few = WORKING_SET < len(view.p) <= GATHERED_VARIABLES or view.columns is not None
        free = int(((view.a > view.lower) & (view.a < view.upper)).sum())
        few = few and free < GATHERED_ROWS // 4
        here = view.rows.whole and view.rows.in_memory
        plain = view.n_groups == 1 and view.signs is None
        if here and plain and self.box.n <= AS_ONE and (not self.box.repeats or self.box.is_tube):
            if self.budget.steps < self.budget.limit:
                self._as_one(goal)
        elif here and view.signs is None and view.n_groups and few:
            self._gathered(goal)
        root = np.sqrt(np.maximum(view.rows.diagonal[self.box.index], 0.0))
        last = np.zeros(0, dtype=np.int64)
        while True:
            G = view.gradient()
            order, violation = self._select(view, G, last)
            chosen = np.sort(order)
            stop = "" if violation <= goal else self.budget.stop(violation, len(view.p))
            if view is self.view and goal < violation <= box_floor(view.a, view.p, root):
                stop = stop or "rounding"
            if violation <= goal or stop:
                if view is self.view:
                    return stop
                self._unite(view, pool)
                view, last = self.view, np.zeros(0, dtype=np.int64)
                if stop:
                    return stop
                continue
            if violation > 0.5 * best:
                stale += 1
            else:
                best, stale = violation, 0
            if stale >= STALE:
                best, stale = violation, 0
                free = int(((view.a > view.lower) & (view.a < view.upper)).sum())
                if free > self.set_size:  # sets of free variables wait for one another
                    self.set_size = min(2 * self.set_size, self.largest)
            long = self.budget.steps > DRAGGING * len(view.p)
            if long and len(view.p) <= INTERIOR and fits(len(view.p)):
                self.set_size = max(self.set_size, len(view.p))  # one block, one jump
            whole = len(chosen) == len(view.p)
            if whole and violation > 0.5 * lowest:
                return "rounding"
            lowest = violation if whole else np.inf
            wanted = goal if whole else max(0.5 * goal, EASED * violation)
            if not self._solve_block(view, G, chosen, wanted, pool):
                if view is not self.view:
                    self._unite(view, pool)
                return "rounding"
            last = order
            self.outer += 1
            if view is self.view and len(view.p) > 4 * WORKING_SET:
                active = view.idle < PATIENCE
                enough = SET_ASIDE_COPY if view.rows.complete else SET_ASIDE
                if active.sum() < (1 - enough) * len(active):
                    keep = np.flatnonzero(active)
                    last = np.searchsorted(keep, last[active[last]])
                    view.idle[:] = 0
                    view = view.restrict(keep)

    def _unite(self, view: BoxView, pool: Any) -> None:
        """Take what a restricted view found into the whole."""
        whole = self.view
        whole.last_block = np.zeros(0, dtype=np.int64), None  # its buffer was used again
        keep = view.variables
        delta = view.a - whole.a[keep]
        moved = np.flatnonzero(delta)
        whole.a[keep] = view.a
        if len(moved):
            whole.add(keep[moved], delta[moved], pool)  # type: ignore[index]

    def _select(self, view: BoxView, G: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the working set, the newest last, and the violation; count who cannot move."""
        up, down = view.a < view.upper, view.a > view.lower
        ranges, violation = [], 0.0
        if not view.n_groups:
            wrong = np.maximum(np.where(down, G, 0.0), np.where(up, -G, 0.0))
            violation = float(wrong.max(initial=0.0))
            ranges.append((wrong > 0, -wrong, np.zeros(len(G), dtype=bool), wrong))
        for g in range(view.n_groups):
            if view.n_groups == 1:
                can_up, can_down = up, down
            else:
                can_up, can_down = up & (view.groups == g), down & (view.groups == g)
            low = np.min(G, initial=np.inf, where=can_up)
            high = np.max(G, initial=-np.inf, where=can_down)
            violation = max(violation, float(high - low))
            ranges.append((can_up & (G < high), G, can_down & (G > low), -G))
        size = self.set_size if view.rows.complete else min(self.set_size, view.rows.capacity)
        if len(G) <= size:
            return np.arange(len(G)), violation
        can_move = ranges[0][0] | ranges[0][2]
        for rising, _, falling, _ in ranges[1:]:
            can_move |= rising | falling
        view.idle += 1
        view.idle[can_move] = 0
        kept = last[up[last] & down[last]]
        kept = kept[max(0, len(kept) - size // 2) :]
        taken = np.zeros(len(G), dtype=bool)
        taken[kept] = True
        need = max(2, (size - len(kept)) // len(ranges))
        order = [kept]
        for rising, rank_up, falling, rank_down in ranges:
            rising[taken] = False
            order.append(_first(rising, rank_up, need // 2))
            taken[order[-1]] = True
            falling[taken] = False
            order.append(_first(falling, rank_down, need - len(order[-1])))
            taken[order[-1]] = True
        return np.concatenate(order), violation

    # -- the block -----------------------------------------------------------------------------
    def _solve_block(
        self, view: BoxView, G: np.ndarray, chosen: np.ndarray, wanted: float, pool: Any
    ) -> bool:
        """Solve for the chosen variables, the others fixed; False where nothing moves."""
        split = None
        if view.n_groups:
            split = len(chosen)
            if view.n_groups == 2:
                second = view.groups[chosen] == 1
                chosen = np.concatenate([chosen[~second], chosen[second]])
                split -= int(second.sum())
        Q = self._block(view, chosen, pool)
        before, g = view.a[chosen], G[chosen]
        a = before.copy()
        block = BoxBlock(Q, g, a, view.lower[chosen], view.upper[chosen], split)
        self.budget.spent = 0
        self.budget.descend(block, wanted)
        delta = a - before
        moved = np.flatnonzero(delta)
        if not len(moved):
            return False
        view.a[chosen] = a
        view.add(chosen[moved], delta[moved], pool)
        return True

    def _buffer(self, n: int, dtype: Any) -> np.ndarray:
        """Return an n × n array; two take turns, as fresh memory costs more than filling it."""
        self._buffers.reverse()
        if self._buffers[0].size < n * n or self._buffers[0].dtype != dtype:
            self._buffers[0] = np.empty(n * n, dtype)
        return self._buffers[0][: n * n].reshape(n, n)

    def _block(self, view: BoxView, chosen: np.ndarray, pool: Any) -> np.ndarray:
        """Return Q on the chosen variables; what the block before this one has is taken from it."""
        from mercer.jit import reuse_block

        places = view.places(view.at[chosen])
        points, where = np.unique(places, return_inverse=True)
        slots = view.rows.fetch(points)[where]
        n = len(chosen)
        Q = self._buffer(n, view.rows.dtype)
        plain = view.signs is None and view.n_groups < 2
        before, old = view.last_block
        kept, at, new = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.arange(n)
        if plain and len(before):
            near = np.minimum(np.searchsorted(before, chosen), len(before) - 1)
            here = before[near] == chosen
            kept, at, new = np.flatnonzero(here), near[here], np.flatnonzero(~here)
        if pool is None or not view.rows.in_memory:
            view.rows.gather(slots, places, Q, new)
            if len(kept):
                reuse_block(old, at, kept, new, Q, 0, len(kept))
        else:
            halves = new[: len(new) // 2], new[len(new) // 2 :]
            _together(pool, [(view.rows.gather, slots, places, Q, half) for half in halves])
            if len(kept):
                half = len(kept) // 2
                cuts = (0, half), (half, len(kept))
                _together(pool, [(reuse_block, old, at, kept, new, Q, *cut) for cut in cuts])
        if view.signs is not None:
            s = view.signs[chosen].astype(Q.dtype)
            Q *= s[:, None]
            Q *= s
        if plain:
            view.last_block = chosen, Q
        return Q


def _together(pool: Any, calls: list[tuple]) -> None:
    for job in [pool.submit(*call) for call in calls]:
        job.result()


def _first(mask: np.ndarray, rank: np.ndarray, k: int) -> np.ndarray:
    """Return the k entries of the mask that have the lowest rank."""
    index = np.flatnonzero(mask)
    if len(index) <= k:
        return index
    return index[np.argpartition(rank[index], k)[:k]]
