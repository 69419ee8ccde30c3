"""The quadratic program over a box that every support vector machine is, and its certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from mercer.errors import InvalidInput, speaking_for, speaks, who
from mercer.operators import Operator
from mercer.solvers.base import checked_matrix

# Rounding of a sum of many terms, relative to the sum of their absolute values.
ROUNDING = 64 * float(np.finfo(float).eps)
NEGLIGIBLE = 1e-9  # part of the terms of the objective that no gap from rounding may exceed
RESIDUE = 8 * float(np.finfo(float).eps)  # of a sum of coefficients, that rounding leaves of it


@dataclass(frozen=True, eq=False)
class BoxQP:
    r"""Convex quadratic program over a box, with up to two sums held fixed.

    Minimise over a

        ½ aᵀQa + pᵀa,   Qᵢⱼ = sᵢsⱼ K[mᵢ, mⱼ],   lower ≤ a ≤ upper,   Σ_{i in group g} aᵢ = total_g,

    K symmetric positive semidefinite. With K over points and aᵢ the signed coefficient of point i
    this is the dual of every support vector machine (`mercer.models` has them): an offset is a sum
    held at 0, a ν-machine holds one sum for each side, regression has two variables a point.

    The certificate: for any multipliers b the value of the dual is

        −½ aᵀQa + Σᵢ min_{lowerᵢ ≤ x ≤ upperᵢ} (Gᵢ − b_g) x + Σ_g b_g total_g,   G = Qa + p,

    so the gap is Σᵢ max_x (Gᵢ − b_g)(aᵢ − x), each term ≥ 0. G is rounded where it is computed, by
    at most eᵢ; what that may hide of the gap is added to it.

    Parameters
    ----------
    K : Operator or ndarray of shape (n, n)
        Symmetric positive semidefinite.
    p : ndarray of shape (m,)
        The linear term.
    lower, upper : ndarray of shape (m,)
        The box, finite.
    totals : tuple of float, default=()
        The sums held fixed: none, one, or two.
    groups : ndarray of shape (m,), optional
        Which sum (0 or 1) a variable belongs to; all to the first by default.
    index : ndarray of shape (m,), optional
        The row of K of each variable; 0, …, m − 1 by default.
    signs : ndarray of shape (m,), optional
        The signs sᵢ; +1 by default.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import SMO, BoxQP
    >>> K = np.array([[1.0, -1.0], [-1.0, 1.0]])  # points −1 and 1 on a line, classes −1 and 1
    >>> problem = BoxQP(K, p=[1.0, -1.0], lower=[-9.0, 0.0], upper=[0.0, 9.0], totals=(0.0,))
    >>> SMO(tol=1e-9).solve(problem).value
    array([-0.5,  0.5])
    """

    K: Any
    p: Any
    lower: Any
    upper: Any
    totals: tuple[float, ...] = ()
    groups: Any = None
    index: Any = None
    signs: Any = None

    def checked(self, owner: str) -> CheckedBox:
        """Return the problem in canonical arrays, or raise `InvalidInput`.

        Parameters
        ----------
        owner : str
            Who asks; the messages begin with it.
        """
        with speaking_for(owner):
            K, n = checked_matrix(self.K)
            index = np.arange(n) if self.index is None else _whole(self.index, "index", n)
            m = len(index)
            p, lower, upper = (
                _vector(value, name, m)
                for name, value in (("p", self.p), ("lower", self.lower), ("upper", self.upper))
            )
            if (lower > upper).any():
                i = int(np.argmax(lower > upper))
                raise InvalidInput(
                    f"{who()}: lower[{i}] = {lower[i]:g} > upper[{i}] = {upper[i]:g}; the box is "
                    "empty."
                )
            if len(self.totals) > 2:
                raise InvalidInput(
                    f"{who()}: {len(self.totals)} totals; at most two sums are held."
                )
            groups = np.zeros(m, dtype=np.int64)
            if self.groups is not None:
                groups = _whole(self.groups, "groups", max(1, len(self.totals)))
                _vector(groups, "groups", m)
            signs = None if self.signs is None else _vector(self.signs, "signs", m)
            if signs is not None and not (np.abs(signs) == 1).all():
                raise InvalidInput(f"{who()}: signs are +1 or −1.")
            totals = tuple(float(t) for t in self.totals)
            for g, total in enumerate(totals):
                mine = slice(None) if len(totals) == 1 else groups == g
                low, high = lower[mine].sum(), upper[mine].sum()
                slack = 1e-12 * max(abs(low), abs(high))
                if not low - slack <= total <= high + slack:
                    raise InvalidInput(
                        f"{who()}: the sum {total:g} of group {g} cannot be reached: inside the "
                        f"box it lies between {low:g} and {high:g}."
                    )
            return CheckedBox(K, n, p, lower, upper, totals, groups, index, signs)


@dataclass(frozen=True, eq=False)
class CheckedBox:
    """A `BoxQP` in canonical arrays."""

    K: Operator
    n: int
    p: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    totals: tuple[float, ...]
    groups: np.ndarray
    index: np.ndarray
    signs: np.ndarray | None

    @cached_property
    def repeats(self) -> bool:
        """Whether the variables are not simply the rows of K, in order."""
        return len(self.p) != self.n or not bool((self.index == np.arange(self.n)).all())

    @cached_property
    def is_tube(self) -> bool:
        """Whether every point has two variables, one ≥ 0 and one ≤ 0, that share a sum.

        They are one variable a with a kink at 0: what lifts p for the first lowers it for the
        second, so that at the optimum only one of them is not 0.
        """
        n = self.n
        if len(self.p) != 2 * n or len(self.totals) != 1 or self.signs is not None or n == 0:
            return False
        rise, fall, points = slice(0, n), slice(n, None), np.arange(n)
        return bool(
            (self.lower[rise] == 0).all()
            and (self.upper[fall] == 0).all()
            and (self.p[rise] > self.p[fall]).all()
            and (self.groups == 0).all()
            and (self.index[rise] == points).all()
            and (self.index[fall] == points).all()
        )

    @property
    def tube(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The linear term, the kinks and the box of a problem whose points have one variable."""
        rise, fall = halves(self.p)
        return 0.5 * (rise + fall), 0.5 * (rise - fall), self.lower[self.n :], self.upper[: self.n]

    @staticmethod
    def apart(a: np.ndarray) -> np.ndarray:
        """Return the two variables a point that one with a kink stands for."""
        return np.concatenate([np.maximum(a, 0.0), np.minimum(a, 0.0)])

    @speaks("SMO")
    def feasible(self, start: Any = None) -> np.ndarray:
        """Return a point of the box with the right sums, near the start (0 by default).

        What a sum lacks is taken from or given to the variables in order.
        """
        if start is None and not any(self.totals):
            zero = np.zeros(len(self.p))
            if (self.lower <= 0).all() and (self.upper >= 0).all():
                return zero
        start = 0.0 if start is None else _vector(start, "start", len(self.p))
        a = np.clip(start, self.lower, self.upper) + np.zeros(len(self.p))
        for g, total in enumerate(self.totals):
            members = np.flatnonzero(self.groups == g)
            rest = total - a[members].sum()
            bound = (self.upper if rest > 0 else self.lower)[members]
            room = np.cumsum(np.abs(bound - a[members]))
            before = np.concatenate([[0.0], room[:-1]])
            a[members] += np.sign(rest) * np.clip(abs(rest) - before, 0.0, room - before)
        return np.clip(a, self.lower, self.upper)

    def settle(self, a: np.ndarray) -> None:
        """Put variables at the bound that only the rounding of their sum keeps from it, in place.

        Where that is all that is left between the bounds, the multipliers are an interval, and the
        middle of it is found only if none of them seems to be at an end.
        """
        if not self.totals:
            return
        low, high = a - self.lower, self.upper - a
        room, small = np.minimum(low, high), RESIDUE * float(np.abs(a).sum())
        if len(self.totals) == 1 and float(room.max(initial=0.0)) > small:
            return
        for g in range(len(self.totals)):
            free = (self.groups == g) & (room > 0)
            residue = RESIDUE * float(np.abs(a[self.groups == g]).sum())
            if free.any() and float(room[free].max()) <= residue:
                a[free] = np.where(low < high, self.lower, self.upper)[free]

    def judge(self, a: np.ndarray, Qa: np.ndarray, diagonal: np.ndarray) -> BoxPoint:
        """Return value, gap, violation and multipliers of a feasible a, given Qa and diag Q.

        Qa may be in longer numbers, which rounding does less to.
        """
        G = Qa + self.p
        up, down = a < self.upper, a > self.lower
        multipliers, violation = [], 0.0
        shift, alone = np.zeros(len(a)), len(self.totals) == 1
        for g in range(len(self.totals)):
            mine: Any = ... if alone else self.groups == g
            low = G[up if alone else mine & up].min(initial=np.inf)
            high = G[down if alone else mine & down].max(initial=-np.inf)
            free = G[up & down if alone else mine & up & down]
            if len(free):
                b = float(free.sum()) / len(free)
            elif np.isfinite(low) and np.isfinite(high):
                b = float(0.5 * (low + high))
            else:
                b = float(low if np.isfinite(low) else high if np.isfinite(high) else 0.0)
            multipliers.append(b)
            violation = max(violation, high - low)
            shift[mine] = b
        reduced = G - shift
        if not self.totals:
            wrong = np.where(down, np.maximum(reduced, 0.0), 0.0)
            wrong = np.maximum(wrong, np.where(up, np.maximum(-reduced, 0.0), 0.0))
            violation = float(wrong.max(initial=0.0))
        best = np.where(reduced > 0, self.lower, self.upper)
        gap = float((reduced * (a - best)).sum())
        value = float(0.5 * (a @ Qa) + self.p @ a)
        root = np.sqrt(np.maximum(diagonal, 0.0))
        sizes, linear = np.abs(a), np.abs(self.p)
        reach = root @ sizes
        terms = root * reach + linear + np.abs(shift)
        floor = ROUNDING * float((terms * (self.upper - self.lower)).sum())
        size = 0.5 * float(reach) ** 2 + float(linear @ sizes)
        floor = min(floor, NEGLIGIBLE * size)
        del best, terms, shift, up, down, sizes, linear  # a problem may have little memory
        error = np.abs(reduced)  # of the sums made here, then of Qa
        np.add(error, np.abs(G, out=G), out=error, where=Qa != 0)
        error *= _eps(Qa.dtype)
        error += rounding_of(a, root, Qa.dtype)
        above = error + reduced
        above *= a - self.lower
        error -= reduced
        error *= self.upper - a
        hidden = max(0.0, float(np.maximum(above, error, out=error).sum()) - gap)
        for g, total in enumerate(self.totals):  # Σa is not quite what it should be
            mine = a if len(self.totals) == 1 else a[self.groups == g]
            hidden += abs(multipliers[g] * (math.fsum(mine.tolist()) - total))
        point = (value, gap, max(0.0, float(violation)), tuple(multipliers), floor)
        return BoxPoint(*point, hidden, ROUNDING * size)


@dataclass(frozen=True)
class BoxPoint:
    """What is known of a feasible point.

    The objective, the duality gap, the KKT violation, the multipliers, how large a gap may be from
    rounding alone, how much of it rounding may hide, and up to which size the objective may be 0.
    """

    value: float
    gap: float
    violation: float
    multipliers: tuple[float, ...]
    floor: float
    hidden: float
    nought: float

    def is_good(self, tol: float) -> bool:
        """Whether violation and gap meet a tolerance, or are nothing but rounding."""
        met = meets(tol, self.violation, self.gap, self.gap - self.value, -self.value)
        return met or self._is_nothing(tol)

    def is_proven(self, tol: float) -> bool:
        """Whether violation and gap meet a tolerance whatever rounding may hide.

        Where the optimum is zero, rounding is all there is of a gap, and it must be small.
        """
        gap = self.gap + self.hidden
        met = meets(tol, self.violation, gap, gap - self.value, -self.value)
        zero = abs(self.value) <= min(self.nought, 4 * gap)
        return met or (zero and self.hidden <= 1e-3 * tol and self._is_nothing(tol))

    def _is_nothing(self, tol: float) -> bool:
        return self.gap <= min(self.floor, tol) and self.violation <= 1e-3 * tol


def meets(
    tol: float, violation: float, gap: float, primal: float, dual: float, floor: float = 0.0
) -> bool:
    """Whether a violation meets a tolerance, and a gap that of the objective's size, or a floor."""
    return violation <= tol and gap <= max(tol * max(abs(primal), abs(dual)), floor)


def rounding_of(a: np.ndarray, root: np.ndarray, dtype: Any = float) -> np.ndarray:
    """Return how far rounding may put each entry of Qa from the truth; root² = diag Q.

    A sum of m products is off by at most mε/2 of the sum of their sizes, |Qᵢⱼaⱼ| ≤ rootᵢ rootⱼ|aⱼ|.
    """
    part = 0.5 * _eps(dtype) * (np.count_nonzero(a) + 2)
    return part * float(root @ np.abs(a)) * root


@lru_cache(maxsize=4)
def _eps(dtype: Any) -> float:
    """Return the spacing of numbers at 1."""
    return float(np.finfo(dtype).eps)


def halves(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first half of an array and the second."""
    half = len(a) // 2
    return a[:half], a[half:]


def box_floor(a: np.ndarray, p: np.ndarray, root: np.ndarray) -> float:
    """Return how large a KKT violation may be from rounding of Qa + p alone; root² = diag Q."""
    return ROUNDING / 1024 * float((root * (root @ np.abs(a)) + np.abs(p)).max(initial=0.0))


def _vector(value: Any, name: str, m: int) -> np.ndarray:
    """Return m finite numbers, or raise `InvalidInput`."""
    try:
        v = np.asarray(value, dtype=float)
    except (OverflowError, TypeError, ValueError):
        v = np.zeros((0, 0))
    if v.shape != (m,):
        raise InvalidInput(
            f"{who()}: {name} has shape {np.shape(value)}; give ({m},), a number for each variable."
        )
    if not np.isfinite(v).all():
        i = int(np.argmin(np.isfinite(v)))
        raise InvalidInput(f"{who()}: {name}[{i}] = {v[i]}; give finite numbers.")
    return v


def _whole(value: Any, name: str, stop: int) -> np.ndarray:
    """Return whole numbers from 0 to stop − 1, or raise `InvalidInput`."""
    v = np.asarray(value)
    whole = v.dtype.kind in "iu" or (v.dtype.kind == "f" and bool((v == np.rint(v)).all()))
    if v.ndim != 1 or not whole:
        raise InvalidInput(f"{who()}: {name} must be a 1-D array of whole numbers.")
    v = v.astype(np.int64)
    if v.size and (v.min() < 0 or v.max() >= stop):
        raise InvalidInput(
            f"{who()}: {name} holds {int(v.max() if v.max() >= stop else v.min())}; give whole "
            f"numbers from 0 to {stop - 1}."
        )
    return v
