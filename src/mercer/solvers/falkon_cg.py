"""Conjugate gradients on a block of columns, as a state that can be saved and taken up again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from mercer.solvers.checks import column_norms

__all__ = ["Run", "State", "dots", "rounded"]

CHECK = 20  # iterations between two true residuals
SLOW = 15  # iterations from which the speed is judged
TINY = 1e-100
FINEST = 1e-8  # tolerance to the square of which risks are told from 0


@dataclass(frozen=True, eq=False)
class State:
    """All that an iteration changes; an iteration replaces it as a whole.

    Parameters
    ----------
    X, R, P : ndarray of shape (m, t)
        Coefficients, residuals of the recurrence, directions.
    rz : ndarray of shape (t,)
        rᵀP⁻¹r.
    live : ndarray of bool, shape (t,)
        Columns in the block.
    wait : ndarray of bool, shape (t,)
        Columns that left it and whose residual is to be looked at.
    target : ndarray of shape (t,)
        Residual at which the recurrence leaves the block.
    begun : ndarray of shape (t,)
        The true residual at which the recurrence began.
    low, low_at : ndarray of shape (t,)
        The residual when the speed was last judged, and the iteration then.
    best, best_X, risk : ndarray
        The smallest true residual seen, where, and the risk there.
    gain : ndarray of shape (t,)
        An estimate of what is left to take off the risk, relative to what may be.
    iteration : int
        Iterations made.
    slow : int
        Whether some column got too slow.
    """

    X: np.ndarray
    R: np.ndarray
    P: np.ndarray
    rz: np.ndarray
    live: np.ndarray
    wait: np.ndarray
    target: np.ndarray
    begun: np.ndarray
    low: np.ndarray
    low_at: np.ndarray
    best: np.ndarray
    best_X: np.ndarray
    risk: np.ndarray
    gain: np.ndarray
    iteration: int = 0
    slow: int = 0

    def pack(self) -> dict[str, Any]:
        """Return the state as a dictionary of arrays and numbers."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(eq=False)
class Run:
    """Runs a `State` to its tolerance.

    Parameters
    ----------
    system : CentredSystem
        Products, residuals and right-hand sides.
    tol, max_iter, deadline : float, int, float
        When to stop.
    callback : callable or None
        Called as ``callback(iteration, residual)`` after each iteration.
    keep : callable
        Called with the state after each iteration and True at a stop before the end.
    patience : float
        Iterations to come from which the speed is called slow.
    final : bool
        Whether there is no better preconditioner, so that slow iterations are to be made.
    """

    system: Any
    tol: float
    max_iter: int
    deadline: float
    callback: Callable[[int, float], Any] | None = None
    keep: Callable[[State, bool], Any] = lambda state, now: None
    patience: float = np.inf
    final: bool = False
    limit: str = ""

    def start(self) -> State:
        """Return the state at a = 0."""
        B = self.system.B
        t = B.shape[1]
        size = column_norms(B)
        live = size > 0
        zero = np.zeros_like(B)
        return State(
            X=zero,
            R=B,
            P=zero,
            rz=np.zeros(t),
            live=live,
            wait=np.zeros(t, dtype=bool),
            target=np.full(t, self.tol),
            begun=size,
            low=size,
            low_at=np.zeros(t, dtype=int),
            best=size,
            best_X=zero,
            risk=self.system.start,
            gain=np.zeros(t),
        )

    def begin(self, s: State, apply: Callable[[np.ndarray], np.ndarray]) -> State:
        """Return the state with fresh directions in the block, for a new preconditioner."""
        Z = apply(s.R[:, s.live])
        P, rz = s.P.copy(), s.rz.copy()
        P[:, s.live], rz[s.live] = Z, dots(s.R[:, s.live], Z)
        low = np.where(s.live, column_norms(s.R), s.low)
        low_at = np.where(s.live, s.iteration, s.low_at)
        return replace(s, P=P, rz=rz, low=low, low_at=low_at, slow=0)

    def anew(self, s: State) -> State:
        """Return the state with the block back at 0; with a poor P it may have gone far astray."""
        first, live = self.start(), s.live

        def back(name: str) -> np.ndarray:
            return np.where(live, getattr(first, name), getattr(s, name))

        names = ("X", "R", "P", "rz", "target", "begun", "low", "gain")
        changed: dict[str, Any] = {name: back(name) for name in names}
        return replace(s, **changed)

    def go(self, s: State, apply: Callable[[np.ndarray], np.ndarray]) -> State:
        """Iterate until all columns are done, slow or stalled, or a limit is met."""
        try:
            while s.live.any() and not s.slow and not self.limit:
                s = self._iterate(s, apply)
                self.keep(s, bool(self.limit))
        except KeyboardInterrupt:
            self.keep(s, True)
            raise
        return self._look(s, np.flatnonzero(s.live | s.wait)) if self.limit or s.slow else s

    def _iterate(self, s: State, apply: Callable[[np.ndarray], np.ndarray]) -> State:
        """Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., algorithm 9.1, on a block."""
        at = np.flatnonzero(s.live)
        direction = rounded(s.P[:, at]) if self.system.rounds else s.P[:, at]
        Q = self.system.product(direction)
        curvature = dots(direction, Q)
        usable = (curvature > 0) & np.isfinite(curvature)
        # With a rounded direction pᵀr is not rᵀP⁻¹r; the step to the minimum along p is this.
        slope = dots(direction, s.R[:, at])
        step = np.where(usable, slope / np.where(usable, curvature, 1.0), 0.0)
        X, R, P, rz = s.X.copy(), s.R.copy(), s.P.copy(), s.rz.copy()
        X[:, at] += step * direction
        R[:, at] -= step * Q
        iteration = s.iteration + 1
        size = column_norms(R[:, at])
        low, low_at = s.low.copy(), s.low_at.copy()
        goal = np.maximum(s.target[at], TINY)
        gain = s.gain.copy()
        Z = np.zeros_like(R)
        Z[:, at] = apply(R[:, at])
        # What the iteration gained, and where P is near the matrix what is still to be gained
        gained = 0.5 * np.maximum(step * slope, dots(R[:, at], Z[:, at]))
        gain[at] = np.where(usable, gained, 0.0) / self._allowed(X, R, at)
        done = ((size <= goal) & (gain[at] <= 1.0)) | ~usable
        judged = iteration - low_at[at] >= SLOW
        slow = judged & ~done & self._slow(low[at], size, goal)
        low[at[judged]], low_at[at[judged]] = size[judged], iteration
        live, wait = s.live.copy(), s.wait.copy()
        live[at[done]], wait[at[done]] = False, True
        if live.any():
            on = np.flatnonzero(live)
            next_rz = dots(R[:, on], Z[:, on])
            # Polak, Ribière: equal to the ratio of the rz but for rounding, which it forgives
            turn = dots(R[:, on] - s.R[:, on], Z[:, on])
            beta = np.maximum(turn / np.maximum(rz[on], TINY), 0.0)
            P[:, on] = Z[:, on] + beta * P[:, on]
            rz[on] = next_rz
        s = replace(
            s, X=X, R=R, P=P, rz=rz, live=live, wait=wait, low=low, low_at=low_at, gain=gain,
            iteration=iteration, slow=int(slow.any()),
        )  # fmt: skip
        if self.callback is not None:
            self.callback(iteration, float(size.max(initial=0.0)))
        if iteration >= self.max_iter:
            self.limit = f"{self.max_iter} iterations"
        elif time.monotonic() > self.deadline:
            self.limit = "time"
        if self.limit or s.slow:
            return s
        if not live.any():
            return self._again(self._look(s, np.flatnonzero(wait)), apply)
        return self._drift(s, apply) if iteration % CHECK == 0 else s

    def _slow(self, before: np.ndarray, now: np.ndarray, goal: np.ndarray) -> np.ndarray:
        """Whether more iterations than `patience` are to come, or no progress was made at all.

        With a final preconditioner nothing is: residuals need not fall at every iteration.
        """
        if self.final:
            return np.zeros(len(now), dtype=bool)
        gained = np.log(np.maximum(before, TINY) / np.maximum(now, TINY)) / SLOW
        to_come = np.log(np.maximum(now, TINY) / goal) / np.maximum(gained, 1e-9)
        return np.asarray((to_come > self.patience) | (gained < 1e-3))

    def _allowed(self, X: np.ndarray, R: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Return what may be left to take off the risk: √tol of it, in units of the system.

        The residual alone is blind where a few rows of huge weight make up all of the right-hand
        side. From risk₀ − aᵀB + ½aᵀHa with Ha = B − r the risk is risk₀ − ½aᵀ(B + r).
        """
        norms = self.system.norms[at]
        start = self.system.start[at] / norms**2
        risk = start - 0.5 * dots(X[:, at], self.system.B[:, at] + R[:, at])
        least = max(self.tol, FINEST) ** 2
        return np.asarray(np.sqrt(self.tol) * np.maximum(np.maximum(risk, least * start), TINY))

    def _look(self, s: State, at: np.ndarray) -> State:
        """Return the state with true residuals of some columns; the best are kept."""
        if not at.size:
            return s
        R_at, true, risk_at = self.system.residual(s.X[:, at], at)
        R, best, best_X, risk = s.R.copy(), s.best.copy(), s.best_X.copy(), s.risk.copy()
        R[:, at] = R_at
        better = true < best[at]
        best[at[better]], risk[at[better]] = true[better], risk_at[better]
        best_X[:, at[better]] = s.X[:, at[better]]
        return replace(s, R=R, best=best, best_X=best_X, risk=risk)

    def _again(self, s: State, apply: Callable[[np.ndarray], np.ndarray]) -> State:
        """Take back into the block what left it too early, unless rounding is all there is."""
        true = column_norms(s.R)
        again = s.wait & (s.best > self.tol)
        hopeless = again & (true > 0.5 * s.begun)
        live = again & ~hopeless
        target = np.where(live, 0.5 * np.minimum(s.target, self.tol), s.target)
        begun, wait = np.where(live, true, s.begun), np.zeros_like(live)
        s = replace(s, live=live, wait=wait, target=target, begun=begun)
        return self.begin(s, apply) if live.any() else s

    def _drift(self, s: State, apply: Callable[[np.ndarray], np.ndarray]) -> State:
        """Restart columns whose recurrence has drifted from the truth."""
        at = np.flatnonzero(s.live)
        looked = self._look(s, at)
        gap = column_norms(looked.R[:, at] - s.R[:, at])
        drifted = at[gap > 0.1 * column_norms(looked.R[:, at])]
        R, P, rz = s.R.copy(), s.P.copy(), s.rz.copy()
        R[:, drifted] = looked.R[:, drifted]
        if drifted.size:
            Z = apply(R[:, drifted])
            P[:, drifted], rz[drifted] = Z, dots(R[:, drifted], Z)
        return replace(looked, R=R, P=P, rz=rz)


def dots(U: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Return the inner products of the columns."""
    return np.asarray(np.einsum("ij,ij->j", U, V))


def rounded(V: np.ndarray) -> np.ndarray:
    """Return V as float32 can hold it: what multiplies values in float32 is then exact."""
    with np.errstate(over="ignore"):
        out = V.astype(np.float32).astype(np.float64)
    return out if np.isfinite(out).all() else V
