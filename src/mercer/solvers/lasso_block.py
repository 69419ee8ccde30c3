"""The quadratic model of a risk on a few weights: passes of coordinate descent, Newton at the end.

Coordinate descent finds which weights are zero quickly and their values slowly, since kernel values
with neighbouring prototypes are almost proportional. With the signs known the values are one linear
system. Both work on the block Q of the weights' curvatures, which is computed once.
"""

from __future__ import annotations

import time

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

__all__ = ["Block", "minimise"]

RIDGE = 1e-14  # relative to the mean of the diagonal: a singular block still gives a descent
STRIP = 64  # rows of the data whose part in Q is added at a time
WORK = 2e7  # operations between looks at the clock
ROUNDS = 5  # of passes and Newton steps


class Block:
    """Curvatures Q = ĀᵀHĀ of some columns; Ā has its weighted means taken out for an offset.

    With curvatures h of the loss an offset follows every step δ of a weight by −δ·mean, so columns
    act as if they were centred.

    Parameters
    ----------
    rows : ndarray of shape (m, n)
        All columns of A, as rows.
    index : ndarray of shape (q,)
        Which of them.
    h : ndarray of shape (n,)
        Curvatures of the loss, times weights.
    offset : bool
        Whether there is an offset.
    """

    def __init__(self, rows: np.ndarray, index: np.ndarray, h: np.ndarray, offset: bool):
        self.index, self.h, self.rows = index, h, rows
        q, n = len(index), rows.shape[1]
        total = float(h.sum())
        self.mean = np.zeros(q)
        if offset and total > 0:
            for j in range(0, n, STRIP):
                self.mean += rows[index, j : j + STRIP] @ h[j : j + STRIP]
            self.mean /= total
        self.Q = np.zeros((q, q))
        for j in range(0, n, STRIP):
            part = rows[index, j : j + STRIP] - self.mean[:, None]
            part *= np.sqrt(h[j : j + STRIP])
            self.Q += part @ part.T
        self.diagonal = self.Q.diagonal().copy()

    def values(self, d: np.ndarray) -> np.ndarray:
        """Return Ād, the change of the values after a change d of the weights and of the offset."""
        change = np.zeros(len(self.rows))
        change[self.index] = d
        return change @ self.rows - float(self.mean @ d)


def minimise(
    block: Block,
    p: np.ndarray,
    v: np.ndarray,
    l1: float,
    l2: float,
    goal: float,
    passes_left: int,
    deadline: float | None,
) -> tuple[np.ndarray, int]:
    """Return weights that minimise the model, and the passes made.

    Parameters
    ----------
    block : Block
        The curvatures.
    p : ndarray of shape (q,)
        Slopes of the risk at v.
    v : ndarray of shape (q,)
        The weights to begin from.
    l1, l2 : float
        Penalties.
    goal : float
        Violation of the optimality conditions to reach.
    passes_left : int
        Limit on passes.
    deadline : float or None
        When to stop, by ``time.monotonic``.
    """
    from mercer.jit.steps import passes

    Q, v, p = block.Q, v.copy(), p.copy()
    q, made = len(v), 0
    batch = int(np.clip(WORK / max(1, q * q), 1, 20))
    for _ in range(ROUNDS):
        most = min(batch, passes_left - made)
        if most <= 0 or (deadline is not None and time.monotonic() >= deadline):
            break
        made += passes(Q, block.diagonal, p, v, l1, l2, most, goal)
        if _active_set(Q, p, v, l1, l2, goal, deadline):
            break
    return v, made


def _active_set(
    Q: np.ndarray,
    p: np.ndarray,
    v: np.ndarray,
    l1: float,
    l2: float,
    goal: float,
    deadline: float | None,
) -> bool:
    """Minimise over the weights that are not zero, then over these and the worst other, and so on.

    The active-set method of Lawson & Hanson (1974, ch. 23) with signs. In place; returns whether
    the goal was reached, and stops when rounding ends the descent.
    """
    for _ in range(len(v) + 20):
        joins = -1
        bend = p + l2 * v
        off = np.where(v != 0, np.abs(bend + l1 * np.sign(v)), np.abs(bend) - l1)
        if off.max(initial=0.0) <= goal:
            return True
        if l1 > 0:
            idle = np.where(v != 0, 0.0, off)
            if off[v != 0].max(initial=0.0) <= max(goal, 1e-3 * idle.max()):
                joins = int(idle.argmax())
        if not _step(Q, p, v, l1, l2, joins):
            return False
        if deadline is not None and time.monotonic() >= deadline:
            return False
    return False


def _step(Q: np.ndarray, p: np.ndarray, v: np.ndarray, l1: float, l2: float, joins: int) -> bool:
    """Make one Newton step over the weights that are not zero, signs kept, and one that joins them.

    In place; returns whether it was a descent. With l1 = 0 there are no signs to keep, and all
    weights are free.
    """
    free = v != 0
    signs = np.sign(v)
    if joins >= 0:
        free[joins], signs[joins] = True, -np.sign(p[joins])
    S = np.flatnonzero(free) if l1 > 0 else np.arange(len(v))
    if not len(S):
        return False
    part = Q if len(S) == len(v) else Q[np.ix_(S, S)]
    signs, old = signs[S], v[S]
    slope = p[S] + l2 * old + l1 * signs
    d = _newton(part, l2, slope)
    if d is None or not slope @ d < 0:
        return False
    new = old + d
    crossed = signs * new < 0 if l1 > 0 else np.zeros(len(S), dtype=bool)
    if crossed.any():
        new = _stopped_at_zero(part, l2, slope, old, d, crossed)
    e = new - old
    if not _change(part, l2, slope, e) < 0:
        return False
    moved = np.zeros(len(v))
    moved[S] = e
    p += moved @ Q
    v[S] = new
    return True


def _change(Q: np.ndarray, l2: float, slope: np.ndarray, e: np.ndarray) -> float:
    """Return the change of the objective by a step e that keeps signs."""
    return float(slope @ e + 0.5 * (e @ (Q @ e)) + 0.5 * l2 * (e @ e))


def _stopped_at_zero(
    Q: np.ndarray,
    l2: float,
    slope: np.ndarray,
    v: np.ndarray,
    d: np.ndarray,
    crossed: np.ndarray,
) -> np.ndarray:
    """Return where a step d leads that may change no sign.

    Either every weight that would change its sign stops at zero and the others go all the way, or
    all go until the first is zero; the better of the two. The second is always a descent.
    """
    reach = np.full(len(v), np.inf)
    reach[crossed] = -v[crossed] / d[crossed]
    first = float(reach.min())
    ends = [np.where(crossed, 0.0, v + d), np.where(reach == first, 0.0, v + first * d)]
    ends[1][v * ends[1] < 0] = 0.0
    return min(ends, key=lambda end: _change(Q, l2, slope, end - v))


def _newton(Q: np.ndarray, l2: float, slope: np.ndarray) -> np.ndarray | None:
    """Return −(Q + l2·I)⁻¹ slope, with a ridge that is larger where that is singular; Q is kept."""
    n = len(Q)
    ridge = RIDGE * float(Q.trace()) / n
    for _ in range(3):
        H = Q.copy()
        H.flat[:: n + 1] += l2 + ridge
        try:
            # LAPACK works in place on Fortran order, and H is symmetric.
            C = cho_factor(H.T, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            ridge *= 100
            continue
        d = -cho_solve(C, slope, check_finite=False)
        return d if np.isfinite(d).all() and np.abs(d).max(initial=0.0) < 1e150 else None
    return None
