"""An interior point method for losses with kinks in few features: rows may be many, scales any."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import (
    LinAlgError,
    LinAlgWarning,
    cho_solve,
    lstsq,
    lu_factor,
    lu_solve,
)

from mercer.checks import FOREVER, Clock
from mercer.lapack import heard
from mercer.solvers.base import longest_step
from mercer.solvers.linear import factor_with_ridge

SHY = 0.995  # part of the way to the walls that a step may go
DONE = 1e-13  # complementarity relative to the objective at which it stops
STEEPEST = 1e300  # of a penalty, of columns whose squares are none
IDLE = 6  # steps without a better point after which it stops
RIDGE = 1e-15  # relative to the diagonal: columns may depend on one another
EQUAL = 1e-12  # part of the objective by which gaps count as equal
FEW = 300  # unknowns up to which equations may be singular
MOST = 1500  # unknowns up to which the last equations are solved
REPAIRS = 20  # times that points change sides until the last equations agree
SIDE = 1e-9  # part of the width of the box, and of the targets, that does not matter


@dataclass(frozen=True, eq=False)
class KinkedPoint:
    """Weights v of the features, offset b, and slopes s of the risk at the rows."""

    v: np.ndarray
    b: float
    s: np.ndarray


class Kinked:
    r"""The problem min over v and b of Σᵢ max_{lowerᵢ ≤ s ≤ upperᵢ} s(zᵢ − tᵢ) + (alpha/2)‖v‖².

    z = Fv + b. Each row is straight on both sides of its kink t. The conditions of a minimum are

        alpha v + Fᵀs = 0,   Σs = 0 with an offset,   z − t = p − q,
        p(upper − s) = 0,   q(s − lower) = 0,   p, q ≥ 0,

    and the steps are Mehrotra's: one factorisation of alpha·I + FᵀWF, W = 1/(p/(upper − s) +
    q/(s − lower)), which is n D² flops. Columns are taken in units of their own.

    Parameters
    ----------
    F : ndarray of shape (n, D)
        The features.
    t : ndarray of shape (m,)
        The kinks.
    lower, upper : ndarray of shape (m,)
        The slopes left and right of a kink, times the weights.
    alpha : float
        The penalty.
    offset : bool
        Whether there is an offset b.
    index : ndarray of shape (m,), optional
        The row of F that each kink belongs to, where rows have two.
    """

    def __init__(
        self,
        F: np.ndarray,
        t: np.ndarray,
        lower: np.ndarray,
        upper: np.ndarray,
        alpha: float,
        offset: bool,
        index: np.ndarray | None = None,
    ):
        size = np.abs(F).max(axis=0, initial=0.0)
        self.unit = np.ldexp(1.0, np.frexp(np.where(size > 0, size, 1.0))[1])
        A = F / self.unit
        A = np.column_stack([A, np.ones(len(A))]) if offset else A
        self.A = A if index is None else A[index]
        with np.errstate(over="ignore", divide="ignore"):
            penalty = np.minimum(alpha / self.unit**2, STEEPEST)
        self.penalty = np.append(penalty, [0.0] * offset)
        self.t, self.lower, self.upper, self.offset = t, lower, upper, offset
        self.height = max(float(np.abs(t).max(initial=0.0)), float(np.finfo(float).tiny))

    def point(self, c: np.ndarray, s: np.ndarray) -> KinkedPoint:
        """Return the point with coefficients c of the columns in their units."""
        D = len(self.unit)
        return KinkedPoint(c[:D] / self.unit, float(c[D:].sum()), s)

    def solve(
        self, max_iter: int = 100, clock: Clock = FOREVER
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Return coefficients and slopes near the minimum, and the number of steps taken.

        Parameters
        ----------
        max_iter : int, default=100
            Limit on the steps.
        clock : Clock
            Says when time is over.
        """
        A, t, low, high = self.A, self.t, self.lower, self.upper
        c, s = np.zeros(A.shape[1]), 0.5 * (low + high)
        p, q = np.maximum(-t, 0.0) + self.height, np.maximum(t, 0.0) + self.height
        best, found, idle, steps, least = (np.inf, np.inf), (c, s), 0, 0, np.inf
        with np.errstate(all="ignore"):
            while steps < max_iter and not clock.late:
                h, g = high - s, s - low
                dual = -(self.penalty * c + A.T @ s)
                primal = p - q - (A @ c - t)
                mu = float(p @ h + q @ g) / (2 * max(1, len(t)))
                theta = p / h + q / g
                solve = self._factor(1.0 / theta)
                if solve is None:
                    break

                walls = (p, q, h, g, theta)
                _, ds, dp, dq = self._step(solve, walls, dual, primal, -p * h, -q * g)
                far = longest_step((h, -ds), (g, ds), (p, dp), (q, dq))
                ahead = (p + far * dp) @ (h - far * ds) + (q + far * dq) @ (g + far * ds)
                centre = mu * (float(ahead) / (2 * len(t) * mu)) ** 3 if mu > 0 else 0.0
                more = centre - p * h + dp * ds, centre - q * g - dq * ds
                dc, ds, dp, dq = self._step(solve, walls, dual, primal, *more)
                far = min(1.0, SHY * longest_step((h, -ds), (g, ds), (p, dp), (q, dq)))
                new = [x + far * d for x, d in ((c, dc), (s, ds), (p, dp), (q, dq))]
                if not all(np.isfinite(x).all() for x in new):
                    break
                c, s, p, q = new
                s = np.clip(s, low, high)
                steps += 1
                gap, size = self.gap(c, s)
                left = float(p @ (high - s) + q @ (s - low))
                idle = 0 if left < 0.9 * least else idle + 1
                least = min(left, least)
                if _is_better((size, gap), best):
                    best, found = (size, gap), (c, s)
                if gap <= DONE * size or left <= DONE**1.5 * size or idle >= IDLE:
                    break
        return *found, steps

    def _step(
        self,
        solve: Callable[[np.ndarray], np.ndarray],
        walls: tuple[np.ndarray, ...],
        dual: np.ndarray,
        primal: np.ndarray,
        cp: np.ndarray,
        cq: np.ndarray,
    ) -> tuple[np.ndarray, ...]:
        """Return the Newton step whose products p(upper − s) and q(s − lower) grow by cp, cq."""
        p, q, h, g, theta = walls
        r = primal + cp / h - cq / g
        dc = solve(dual + self.A.T @ (r / theta))
        ds = (self.A @ dc - r) / theta
        return dc, ds, (cp + p * ds) / h, (cq - q * ds) / g

    def gap(self, c: np.ndarray, s: np.ndarray) -> tuple[float, float]:
        """Return the duality gap of slopes in the box, and the objective.

        It is Σ max_x (x − s)(z − t) + ‖alpha v + Fᵀs‖²/(2 alpha); what Σs lacks of 0 counts too, at
        the height of the targets.
        """
        e = self.A @ c - self.t
        gain = np.where(e > 0, self.upper - s, self.lower - s)
        lack = self.penalty * c + self.A.T @ s
        D = len(self.unit)
        square = float((lack[:D] ** 2 / self.penalty[:D]).sum())
        rest = float(np.abs(lack[D:]).sum()) * self.height
        risk = float((np.where(e > 0, self.upper, self.lower) * e).sum())
        gap = float((gain * e).sum()) + 0.5 * square + rest
        return gap, risk + 0.5 * float((self.penalty * c**2).sum())

    def polished(self, c: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the point that the equations of a minimum give, once it is known who is where.

        Rows off their kink have the slope of their side, and the others solve, with v and b,
        Fv + b = t and alpha v + Fᵀs = 0. What comes out tells who was on the wrong side. Where
        there are as many features as rows, a function through all kinks is tried as well.
        """
        width, e = self.upper - self.lower, self.A @ c - self.t
        # Of slope and height, in their units, the one that is farther from its end decides.
        free = np.minimum(self.upper - s, s - self.lower) / width > np.abs(e) / self.height
        fixed = np.where(e > 0, self.upper, self.lower)
        found = self._better(c, s, c, np.where(free, s, fixed), SIDE)
        found = self._repaired(found, free, fixed)
        if not free.all() and len(e) <= self.A.shape[1]:
            found = self._repaired(found, np.ones(len(e), dtype=bool), fixed)
        # Slopes of rows whose weight is tiny have no digits: the side of the kink decides alone.
        e = self.A @ found[0] - self.t
        free, fixed = np.abs(e) <= SIDE * self.height, np.where(e > 0, self.upper, self.lower)
        if (found[1] != fixed)[~free].any():
            found = self._better(*found, found[0], np.where(free, found[1], fixed))
            found = self._repaired(found, free, fixed)
        return self._better(*found, found[0], self._shorter(found[1]), 0.0)

    def _repaired(
        self, found: tuple[np.ndarray, np.ndarray], free: np.ndarray, fixed: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the best point of those whose rows are at their kinks, or on the sides, given."""
        A, width, near = self.A, self.upper - self.lower, SIDE * self.height
        # In units of the penalty slopes of a function that meets its targets keep their digits.
        unit = float(self.penalty.max(initial=0.0)) or 1.0
        for _ in range(REPAIRS):
            k, m = A.shape[1], int(free.sum())
            if k + m > MOST:
                break
            M = np.zeros((k + m, k + m))
            np.einsum("ii->i", M)[:k] = self.penalty / unit
            M[:k, k:], M[k:, :k] = A[free].T, A[free]
            rhs = np.concatenate([-(A[~free].T @ fixed[~free]) / unit, self.t[free]])
            x = _solution(M, rhs)
            if x is None:
                break
            c, s = x[:k], fixed.copy()
            s[free] = unit * x[k:]
            inside = np.clip(s, self.lower, self.upper)
            found = self._better(*found, c, inside)
            e = A @ c - self.t
            out = free & (np.abs(s - inside) > SIDE * width)
            wrong = ~free & (np.where(fixed == self.upper, -e, e) > near)
            if not out.any() and not wrong.any():
                break
            fixed = np.where(out, inside, fixed)
            free = (free & ~out) | wrong
        return found

    def _shorter(self, s: np.ndarray) -> np.ndarray:
        """Return the multiple of s, from none to all of it, whose dual value is largest.

        That is −tᵀs − ‖Fᵀs‖²/(2 alpha), and no slopes are always allowed.
        """
        D = len(self.unit)
        square = float(((self.A.T @ s)[:D] ** 2 / self.penalty[:D]).sum())
        best = -float(self.t @ s)
        return s if best >= square else s * max(0.0, best / square)

    def _better(
        self,
        c: np.ndarray,
        s: np.ndarray,
        new_c: np.ndarray,
        new_s: np.ndarray,
        equal: float = EQUAL,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the new point, its slopes balanced, unless its gap is larger and matters."""
        new_s = self.balanced(new_s)
        (old, size), (gap, new) = self.gap(c, s), self.gap(new_c, new_s)
        noise = np.finfo(float).eps * (np.abs(self.A) @ np.abs(c) + np.abs(self.t))
        limit = float((self.upper - self.lower) @ noise)
        lower = new <= size * (1 + SIDE) + limit
        return (new_c, new_s) if lower and gap <= max(old, equal * size) else (c, s)

    def balanced(self, s: np.ndarray) -> np.ndarray:
        """Return slopes of sum 0, for an offset; those at a wall stay there if the others can."""
        lack = float(s.sum())
        if not self.offset or lack == 0:
            return s
        room = np.minimum(self.upper - s, s - self.lower)
        if room.sum() < 2 * abs(lack):
            room = s - self.lower if lack > 0 else self.upper - s
        share = room / max(float(room.sum()), np.finfo(float).tiny)
        return np.clip(s - lack * share, self.lower, self.upper)

    def _factor(self, W: np.ndarray) -> Callable | None:
        """Return how to solve with alpha + AᵀWA, or None."""
        M = (self.A * W[:, None]).T @ self.A
        np.einsum("ii->i", M)[...] += self.penalty
        scale = 1.0 / np.sqrt(np.maximum(M.diagonal(), np.finfo(float).tiny))
        M *= np.outer(scale, scale)
        factor = factor_with_ridge(M, (0.0, RIDGE, 1e3 * RIDGE, 1e6 * RIDGE))
        if factor is None:
            return None
        return lambda r: scale * cho_solve(factor, scale * r, check_finite=False)


def _is_better(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether an objective is smaller, or the same with a smaller gap."""
    if not one[0] <= (1 + EQUAL) * other[0]:
        return False
    return one[0] < (1 - EQUAL) * other[0] or one[1] < other[1]


def _solution(M: np.ndarray, rhs: np.ndarray) -> np.ndarray | None:
    """Return the solution of symmetric equations, the shortest of a few; None without one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LinAlgWarning)
            if len(M) <= FEW:
                x = lstsq(M, rhs, check_finite=False)[0]
                return x + lstsq(M, rhs - M @ x, check_finite=False)[0]
            factors = heard(lu_factor, M, check_finite=False)
            x = lu_solve(factors, rhs, check_finite=False)
            x = x + lu_solve(factors, rhs - M @ x, check_finite=False)
    except (LinAlgError, ValueError):
        return None
    return x if np.isfinite(x).all() else None
