"""Many box QPs of one matrix that lies on a device, descended side by side.

Classes, folds and values of C are problems of one K. Each outer round takes a working set for
every problem at once, solves all the blocks in one program, and brings all gradients up to date by
one product of K with as many columns as there are problems. Where rows are float64, Ka is computed
anew at the end, for all problems at once, and what proves to be solved is. The others, and all of
rows in float32, have a start from which `SMO` goes on, as a rule by no step at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.checks import Clock
from mercer.domains import namespace
from mercer.engines.device import full_precision, triton_runs_on
from mercer.memory import free_memory
from mercer.solvers.base import Solution
from mercer.solvers.box.problem import BoxQP, CheckedBox
from mercer.solvers.box.rows import Rows
from mercer.solvers.box.smo import told

SIZE = 512  # variables of a working set
FRESH = SIZE // 4  # of them taken for their gradients' sake from each side; the others stay
STEPS = 4 * SIZE  # on a block before the gradients of all are brought up to date
EASED = 0.1  # a block is solved to this part of the violation it started with
SURE = 0.9  # of the tolerance that the gap may take, so that rounding does not decide
PATIENCE = 1000  # rounds without halving the violation, after which `SMO` goes on alone
GATHERED = 3  # rows of K are gathered where they are less than one in so many
ARRAYS = 16  # of a number for each variable of each problem that are alive at once


@dataclass(frozen=True)
class Descended:
    """Where problems end that were solved side by side.

    Attributes
    ----------
    starts : list of ndarray
        Coefficients.
    steps : list of int
        Steps that they took.
    solutions : list of Solution or None
        What is proven to be solved.
    """

    starts: list[Any]
    steps: list[int]
    solutions: list[Solution | None]


def descend_together(
    problems: Sequence[BoxQP], rows: Rows, tol: float, clock: Clock, starts: Any = None
) -> Descended | None:
    """Return where problems end that are solved side by side.

    None where there is nothing to gain: of one problem, of rows in main memory, or of a device that
    has no room for all of them; and where a problem does not hold one sum.

    Parameters
    ----------
    problems : sequence of BoxQP
        Problems of the matrix of these rows.
    rows : Rows
        The rows; those of a device are all computed.
    tol : float
        The tolerance of `SMO`.
    clock : Clock
        Where its time is over, all that is unfinished is left as it is.
    starts : sequence, optional
        An array or None for each problem, as `SMO.solve` takes them.
    """
    if rows.in_memory or len(problems) < 2 or not all(map(_suits, problems)):
        return None
    if not rows.whole:
        rows.fill()
    if not rows.whole:
        return None
    boxes = [problem.checked("SMO") for problem in problems]
    begins = [None] * len(boxes) if starts is None else starts
    most = max(len(box.p) for box in boxes)
    each = 8 * (ARRAYS * (max(most, rows.n) + 1) + 3 * SIZE**2)
    step = int(max(1, min(len(problems), free_memory(rows.store) // (2 * each))))
    found = Descended([], [], [])
    with full_precision():
        for first in range(0, len(problems), step):
            part = slice(first, first + step)
            descent = _Descent(boxes[part], begins[part], rows)
            ends, steps = descent.run(tol, clock)
            for box, end in zip(boxes[part], ends, strict=True):
                box.settle(end)
            found.starts.extend(ends)
            found.steps.extend(steps)
            if rows.exact:
                products = descent.products(ends)
                found.solutions.extend(
                    _proven(box, a, product, taken, rows, tol)
                    for box, a, product, taken in zip(
                        boxes[part], ends, products, steps, strict=True
                    )
                )
            else:
                found.solutions.extend([None] * len(ends))
    return found


def _proven(
    box: CheckedBox, a: np.ndarray, product: np.ndarray, steps: int, rows: Rows, tol: float
) -> Solution | None:
    """Return the solution that a point proves to be, from Ka at all points, or None."""
    point = box.judge(a, product[box.index], rows.diagonal[box.index])
    if not point.is_proven(tol):
        return None
    if box.repeats:
        product = product[np.unique(box.index)]
    return told(point, a, product, steps, True, tol, "", {"outer": 0, "rows": rows.computed})


def _suits(problem: BoxQP) -> bool:
    """Whether a problem holds one sum, of variables that stand for points as they are."""
    return problem.signs is None and problem.groups is None and len(problem.totals) == 1


class _Descent:
    """The state of problems, a row each; a last column of zeros stands for no variable."""

    def __init__(self, boxes: Sequence[CheckedBox], starts: Sequence[Any], rows: Rows):
        K: Any = rows.store
        torch = namespace(K)
        self.K = K
        self.sizes = [len(box.p) for box in boxes]
        count, m = len(boxes), max(self.sizes)
        at = np.zeros((count, m + 1), dtype=np.int64)
        numbers = np.zeros((4, count, m + 1))
        for k, (box, start, size) in enumerate(zip(boxes, starts, self.sizes, strict=True)):
            at[k, :size] = box.index
            numbers[:, k, :size] = box.p, box.lower, box.upper, box.feasible(start)
        self.torch, self.m = torch, m
        wide = {"dtype": torch.float64}
        self.points = self.at = K.new_tensor(at, dtype=torch.int64)
        self.p, self.lower, self.upper, self.a = (K.new_tensor(v, **wide) for v in numbers)
        self.f = K.new_zeros((count, rows.n), **wide)  # Ka
        if numbers[3].any():
            self._add(self.at, self.a)
        self.goal = K.new_zeros(count, **wide)
        self.best = K.new_full((count,), np.inf, **wide)
        self.stale = torch.zeros_like(self.goal, dtype=torch.int64)
        self.steps, self.number = torch.zeros_like(self.stale), self.stale.new_tensor(range(count))
        self.last = self.at[:, :0]

    def run(self, tol: float, clock: Clock) -> tuple[list[np.ndarray], list[int]]:
        """Return coefficients of every problem, and its steps."""
        out, steps = self.torch.zeros_like(self.a), self.torch.zeros_like(self.steps)
        self.goal += tol
        while len(self.number):
            G = self.f.gather(1, self.at) + self.p
            up, down = self.a < self.upper, self.a > self.lower
            low = G.masked_fill(~up, np.inf).amin(1)
            high = G.masked_fill(~down, -np.inf).amax(1)
            violation = high - low
            good = (violation <= tol) & (self._gap(G, up, down, low, high) <= SURE * tol)
            self.goal = self.goal.where((violation > self.goal) | good, 0.3 * self.goal)
            halved = violation <= 0.5 * self.best
            self.best = self.best.where(~halved, violation)
            self.stale = (self.stale + 1).masked_fill(halved, 0)
            ended = good | (self.stale > PATIENCE)
            if clock.late:
                ended = ended | True
            if bool(ended.any()):
                out[self.number[ended]] = self.a[ended]
                steps[self.number[ended]] = self.steps[ended]
                self._keep(~ended)
                G, up, down, low, high, violation = (
                    v[~ended] for v in (G, up, down, low, high, violation)
                )
            if len(self.number):
                chosen = self._select(G, up, down, low, high)
                self._solve(chosen, G, violation)
        a = out.cpu().numpy()
        return [a[k, :size].copy() for k, size in enumerate(self.sizes)], steps.tolist()

    def products(self, ends: Sequence[np.ndarray]) -> np.ndarray:
        """Return Ka of every problem, at all points."""
        change = np.zeros((len(ends), self.points.shape[1]))
        for row, end in zip(change, ends, strict=True):
            row[: len(end)] = end
        self.f = self.f.new_zeros((len(ends), len(self.K)))
        self._add(self.points, self.f.new_tensor(change))
        return self.f.cpu().numpy()

    def _keep(self, alive: Any) -> None:
        """Go on with some of the problems."""
        names = (
            "at",
            "p",
            "lower",
            "upper",
            "a",
            "f",
            "goal",
            "best",
            "stale",
            "steps",
            "number",
            "last",
        )
        for name in names:
            setattr(self, name, getattr(self, name)[alive])

    def _gap(self, G: Any, up: Any, down: Any, low: Any, high: Any) -> Any:
        """Return duality gaps, as parts of the objectives."""
        free = up & down
        count = free.sum(1)
        mean = G.masked_fill(~free, 0.0).sum(1) / count.clamp(min=1)
        b = mean.where(count > 0, 0.5 * (low + high))
        b = b.where(b.isfinite(), low.where(low.isfinite(), high)).nan_to_num(0.0, 0.0, 0.0)
        reduced = G - b[:, None]
        gap = (reduced * (self.a - self.lower.where(reduced > 0, self.upper))).sum(1)
        value = 0.5 * (self.a * (G + self.p)).sum(1)
        size = (gap - value).abs().maximum(value.abs())
        return gap / size.clamp(min=1e-300)

    def _select(self, G: Any, up: Any, down: Any, low: Any, high: Any) -> Any:
        """Return the working sets, the newest variables last."""
        torch, m = self.torch, self.m
        if m <= SIZE:
            return torch.arange(m, device=G.device).expand(len(G), m)
        rising = (high[:, None] - G).masked_fill(~up, -1.0)
        falling = (G - low[:, None]).masked_fill(~down, -1.0)
        order = []
        taken = torch.zeros_like(up)
        fresh = min(m, FRESH)
        if self.last.shape[1]:
            free = (up & down).gather(1, self.last)
            place = torch.arange(self.last.shape[1], device=G.device)
            newest = place.expand_as(self.last).masked_fill(~free, -1)
            newest, where = newest.topk(SIZE - 2 * FRESH)
            kept = self.last.gather(1, where).masked_fill(newest < 0, m).flip(1)
            taken.scatter_(1, kept, True)
            order.append(kept)
        else:
            fresh = min(m, SIZE // 2)
        for reach in (rising, falling):
            value, where = reach.masked_fill_(taken, -1.0).topk(fresh)
            order.append(where.masked_fill(value <= 0, m))
            taken.scatter_(1, order[-1], True)
        return torch.cat(order, 1)

    def _solve(self, chosen: Any, G: Any, violation: Any) -> None:
        """Move the variables of the working sets, and bring Ka up to date."""
        points = self.at.gather(1, chosen)
        Q = self.K[points[:, :, None], points[:, None, :]]
        parts = (v.gather(1, chosen) for v in (G, self.a, self.lower, self.upper))
        g, before, lower, upper = parts
        wanted = (0.5 * self.goal).maximum(EASED * violation)
        after, taken = pair_blocks(Q, g, before, lower, upper, wanted, STEPS)
        self.steps += taken
        self.stale = self.stale.where(taken > 0, PATIENCE)
        self.a.scatter_(1, chosen, after)
        self._add(points, after - before)
        self.last = chosen

    def _add(self, points: Any, change: Any) -> None:
        """Bring Ka up to date with changes of the coefficients of points."""
        K = self.K
        change = self.torch.zeros_like(self.f).scatter_add_(1, points, change)
        moved = (change != 0).any(0).nonzero()[:, 0]
        if GATHERED * len(moved) < len(K):
            self.f += change[:, moved].to(K.dtype) @ K[moved]
        else:
            self.f += change.to(K.dtype) @ K


# ---- Steps on pairs of variables of many problems at once, each on a dense block of its own ----


WARPS = 2  # of the program of one block


def pair_blocks(
    Q: Any, G: Any, a: Any, lower: Any, upper: Any, wanted: Any, most: int
) -> tuple[Any, Any]:
    """Lower ½dᵀQd + Gᵀd block by block, d the change of a, keeping the sum of a.

    One Triton program a block moves two variables at a time, the partner of the most violating one
    chosen by its gain of second order (Fan, Chen and Lin, 2005); without Triton the compiled loop
    of main memory does.

    Parameters
    ----------
    Q : tensor of shape (P, q, q)
        The blocks, float32 or float64.
    G, a, lower, upper : tensors of float64 of shape (P, q)
        Gradients at a, coefficients, and their box.
    wanted : tensor of shape (P,)
        Violation at which a block is left.
    most : int
        Steps on a block at most.

    Returns
    -------
    a : tensor of shape (P, q)
        The coefficients after it.
    steps : tensor of int of shape (P,)
        Steps taken.
    """
    if triton_runs_on(Q):
        return _on_device(Q, G, a, lower, upper, wanted, most)
    return _in_main_memory(Q, G, a, lower, upper, wanted, most)


def _on_device(
    Q: Any, G: Any, a: Any, lower: Any, upper: Any, wanted: Any, most: int
) -> tuple[Any, Any]:
    from mercer.engines.device import pair_steps

    torch = namespace(Q)
    count, q = a.shape
    size = max(16, 1 << (q - 1).bit_length())
    pad = torch.nn.functional.pad
    G, a, lower, upper = (pad(v, (0, size - q)).contiguous() for v in (G, a, lower, upper))
    Q = Q.contiguous()
    steps = torch.zeros(count, dtype=torch.int64, device=Q.device)
    pair_steps[(count,)](
        Q, G, a, lower, upper, wanted.contiguous(), steps, most, q, SIZE=size, num_warps=WARPS
    )
    return a[:, :q], steps


def _in_main_memory(
    Q: Any, G: Any, a: Any, lower: Any, upper: Any, wanted: Any, most: int
) -> tuple[Any, Any]:
    from mercer.jit import pair_steps

    like, (Q, G, a, lower, upper, wanted) = (
        a,
        (np.ascontiguousarray(v.cpu().numpy()) for v in (Q, G, a, lower, upper, wanted)),
    )
    a, steps, kinks = a.copy(), [], np.zeros(a.shape[1])
    for k in range(len(a)):
        block = (Q[k], G[k].copy(), a[k], lower[k], upper[k])
        done, _, _ = pair_steps(*block, a.shape[1], kinks, float(wanted[k]), most)
        steps.append(done)
    return like.new_tensor(a), like.new_tensor(steps).long()
