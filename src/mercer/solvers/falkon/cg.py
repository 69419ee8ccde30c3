"""Conjugate gradients on a block of columns, as a state that can be saved and taken up again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mercer.checks import Clock
from mercer.solvers.base import column_norms
from mercer.solvers.linear import TINY, BlockCG, dots
from mercer.threads import Ticker

CHECK = 20  # iterations between two true residuals
SLOW = 15  # iterations from which the speed is judged
NEARER = 0.1  # the part of an excess that a step is to leave, or iterations take over
SAME = 1e-12  # part of a risk by which rounding may change it
FINEST = 1e-8  # tolerance to the square of which risks are told from 0


@dataclass(frozen=True, eq=False)
class KrylovState:
    """All that an iteration changes, of t columns; an iteration replaces it as a whole."""

    X: np.ndarray  # coefficients, (m, t)
    R: np.ndarray  # residuals of the recurrence
    P: np.ndarray  # directions
    rz: np.ndarray  # rᵀM⁻¹r, (t,)
    live: np.ndarray  # columns in the block
    wait: np.ndarray  # columns that left it and whose residual is to be looked at
    share: np.ndarray  # the part of what is allowed at which the recurrence leaves the block
    begun: np.ndarray  # the true excess at which the recurrence began
    low: np.ndarray  # √rz when the speed was last judged,
    low_at: np.ndarray  # and the iteration then
    best: np.ndarray  # the true excess where the risk was least, or where it was 1 or less,
    best_X: np.ndarray  # where that was, and what is true there:
    residual: np.ndarray
    gap: np.ndarray
    risk: np.ndarray
    noise: np.ndarray  # the part of the gap that rounding may have made up
    iteration: int = 0
    slow: int = 0  # whether some column got too slow


@dataclass(eq=False)
class FalkonCG:
    """Runs a `KrylovState` to its tolerance: an excess of 1 or less.

    The excess is the residual relative to tol, or the root of the duality gap relative to what is
    allowed of it if that is more: tol of the risk, and what rounding may have made up. After each
    iteration ``callback(iteration, residual)`` is called, and `keep` with the state and True at a
    stop before the end.
    """

    system: Any
    tol: float
    max_iter: int
    clock: Clock
    callback: Callable[[int, float], Any] | None = None
    keep: Callable[[KrylovState, bool], Any] = lambda state, now: None
    patience: float = np.inf  # iterations to come from which the speed is called slow
    limit: str = ""
    name: str = ""
    ticker: Ticker = field(default_factory=lambda: Ticker("falkon"))

    def start(self) -> KrylovState:
        """Return the state at a = 0."""
        system = self.system
        B, t = system.B, system.t
        size, risk, zero = column_norms(B), system.start / system.units**2, np.zeros_like(B)
        gap = system.gap(B)
        every = np.arange(t)
        excess = np.where(size > 0, self.excess(every, size, gap, risk, np.zeros(t)), 0.0)
        return KrylovState(
            X=zero,
            R=B,
            P=zero,
            rz=np.zeros(t),
            live=size > 0,
            wait=np.zeros(t, dtype=bool),
            share=np.ones(t),
            begun=excess,
            low=size,
            low_at=np.zeros(t, dtype=int),
            best=excess,
            best_X=zero,
            residual=size,
            gap=gap,
            risk=risk,
            noise=np.zeros(t),
        )

    def begin(self, s: KrylovState, apply: Callable[[np.ndarray], np.ndarray]) -> KrylovState:
        """Return the state with fresh directions in the block, for a new preconditioner."""
        Z = apply(s.R[:, s.live])
        P, rz = put(s.P, s.live, Z), put(s.rz, s.live, dots(s.R[:, s.live], Z))
        low = np.where(s.live, _root(rz), s.low)
        low_at = np.where(s.live, s.iteration, s.low_at)
        return replace(s, P=P, rz=rz, low=low, low_at=low_at, slow=0)

    def anew(self, s: KrylovState) -> KrylovState:
        """Return the state with what is open back at 0; with a poor P it may have gone astray."""
        first, live = self.start(), s.best > 1.0

        def back(name: str) -> np.ndarray:
            return np.where(live, getattr(first, name), getattr(s, name))

        names = ("X", "R", "P", "rz", "share", "begun", "low")
        changed: dict[str, Any] = {name: back(name) for name in names}
        return replace(s, live=live, wait=np.zeros_like(live), **changed)

    def retake(self, s: KrylovState) -> KrylovState:
        """Return a start at the best coefficients, for another tolerance or preconditioner."""
        first = self.start()
        s, excess = self._look(
            replace(first, X=s.best_X, iteration=s.iteration), np.flatnonzero(first.live)
        )
        return replace(s, live=first.live & (excess > 1.0), begun=excess)

    def leap(self, s: KrylovState, solve: Callable[[np.ndarray], np.ndarray]) -> KrylovState:
        """Return a start near the solution, by a solver of this system that rounds."""
        first = self.start()
        live = first.live & (s.best > 1.0)
        s, before = (
            replace(s, X=put(s.X, live, 0.0), R=put(s.R, live, self.system.B[:, live])),
            np.inf,
        )
        while live.any() and not self.limit:
            at = np.flatnonzero(live)
            s = replace(s, X=put(s.X, at, s.X[:, at] + solve(s.R[:, at])))
            s, excess = self._look(replace(s, iteration=s.iteration + 1), at)
            live = put(np.zeros_like(live), at, excess[at] > 1.0)
            s = replace(
                s, live=live, wait=np.zeros_like(live), begun=np.where(live, excess, s.begun)
            )
            worst = float(s.residual.max(initial=0.0))
            self.ticker.tell(f"iteration {s.iteration}, residual {worst:.1e} of {self.tol:.0e}")
            if self.callback is not None:
                self.callback(s.iteration, worst)
            if live.any() and s.iteration >= self.max_iter:
                self.limit = f"{self.max_iter} iterations"
            elif live.any() and self.clock.late:
                self.limit = "time"
            self.keep(s, bool(self.limit))
            most = float(excess[at].max())
            if not most < NEARER * before:
                break
            before = most
        return s

    def go(self, s: KrylovState, apply: Callable[[np.ndarray], np.ndarray]) -> KrylovState:
        """Iterate until all columns are done, slow or stalled, or a limit is met."""
        if s.live.any():
            self.system.rows.repeated = True
        try:
            while s.live.any() and not s.slow and not self.limit:
                s = self._iterate(s, apply)
                self.keep(s, bool(self.limit))
        except KeyboardInterrupt:
            self.keep(s, True)
            raise
        finally:
            self.ticker.close()
        return self._look(s, np.flatnonzero(s.live | s.wait))[0] if self.limit or s.slow else s

    def _iterate(self, s: KrylovState, apply: Callable[[np.ndarray], np.ndarray]) -> KrylovState:
        """Advance the columns in the block, and judge which of them leave it."""
        at = np.flatnonzero(s.live)
        block = BlockCG(s.X[:, at], s.R[:, at], s.P[:, at], s.rz[at], flexible=True)
        usable = block.forward(self.system.product, _bends, rounded if self.system.rounds else None)
        iteration = s.iteration + 1
        size = column_norms(block.R)
        excess = self._claimed(s, block, at, size)
        done = (excess <= s.share[at]) | (size <= TINY) | ~usable
        block.turn(apply(block.R))
        root = _root(block.rz)
        judged = iteration - s.low_at[at] >= SLOW
        slow = judged & ~done & self._slow(s.low[at], root, excess / s.share[at])
        s = replace(
            s,
            X=put(s.X, at, block.X),
            R=put(s.R, at, block.R),
            P=put(s.P, at, block.P),
            rz=put(s.rz, at, block.rz),
            live=put(s.live, at[done], False),
            wait=put(s.wait, at[done], True),
            low=put(s.low, at[judged], root[judged]),
            low_at=put(s.low_at, at[judged], iteration),
            iteration=iteration,
            slow=int(slow.any()),
        )
        worst = float(size.max(initial=0.0))
        self.ticker.tell(f"iteration {iteration}, residual {worst:.1e} of {self.tol:.0e}")
        if self.callback is not None:
            self.callback(iteration, worst)
        if iteration >= self.max_iter:
            self.limit = f"{self.max_iter} iterations"
        elif self.clock.late:
            self.limit = "time"
        if self.limit or s.slow:
            return s
        if not s.live.any():
            return self._again(*self._look(s, np.flatnonzero(s.wait)), apply)
        return self._drift(s, apply) if iteration % CHECK == 0 else s

    def _slow(self, before: np.ndarray, now: np.ndarray, excess: np.ndarray) -> np.ndarray:
        """Whether more iterations than `patience` are to come, or no progress was made at all.

        The speed is that of √rz, near to the norm in which conjugate gradients never go back.
        """
        gained = np.log(before / now) / SLOW
        to_come = np.log(np.maximum(excess, TINY)) / np.maximum(gained, 1e-9)
        return np.asarray((to_come > self.patience) | (gained < 1e-3))

    def _claimed(
        self, s: KrylovState, block: BlockCG, at: np.ndarray, size: np.ndarray
    ) -> np.ndarray:
        """Return the excess that the recurrence stands for; gaps where residuals are small enough.

        From risk₀ − aᵀB + ½aᵀHa with Ha = B − r the risk is risk₀ − ½aᵀ(B + r).
        """
        excess = size / self.tol
        near = excess <= s.share[at]
        if near.any():
            on, some = at[near], block.take(near)
            risk = self.system.start[on] / self.system.units[on] ** 2
            risk = risk - 0.5 * dots(some.X, self.system.B[:, on] + some.R)
            gap = self.system.gap(some.R)
            excess[near] = self.excess(on, size[near], gap, risk, s.noise[on])
        return excess

    def excess(
        self,
        at: np.ndarray,
        residual: np.ndarray,
        gap: np.ndarray,
        risk: np.ndarray,
        noise: np.ndarray,
    ) -> np.ndarray:
        """Return how many times what is allowed residuals and gaps of some columns are."""
        least = max(self.tol, FINEST) ** 2 * self.system.start[at] / self.system.units[at] ** 2
        allowed = self.tol * np.maximum(np.maximum(risk, least), TINY) + noise
        return np.asarray(np.maximum(residual / self.tol, np.sqrt(gap / allowed)))

    def unsolved(self, s: KrylovState) -> np.ndarray:
        """Return which targets are above what is allowed, without what rounding is allowed."""
        strict = self.excess(np.arange(len(s.best)), s.residual, s.gap, s.risk, 0.0 * s.risk)
        return np.asarray((s.best > 1.0) | (strict > 1.0))

    def _look(self, s: KrylovState, at: np.ndarray) -> tuple[KrylovState, np.ndarray]:
        """Return the state with what is true of some columns, the best kept, and the excesses."""
        excess = s.best.copy()
        if not at.size:
            return s, excess
        true = self.system.look(s.X[:, at], at)
        excess[at] = self.excess(at, true.residual, true.gap, true.risk, true.noise)
        # The least risk is the best; among risks that are the same but for rounding, the excess.
        same = np.abs(true.risk - s.risk[at]) <= SAME * s.risk[at]
        better = np.where(same, excess[at] < s.best[at], true.risk < s.risk[at])
        better |= excess[at] <= np.minimum(s.best[at], 1.0)
        better &= (s.best[at] > 1.0) | (excess[at] <= 1.0)
        into = at[better]
        kept: dict[str, Any] = {
            name: put(getattr(s, name), into, getattr(true, name)[better])
            for name in ("residual", "gap", "risk", "noise")
        }
        kept.update(best=put(s.best, into, excess[into]), R=put(s.R, at, true.R))
        return replace(s, best_X=put(s.best_X, into, s.X[:, into]), **kept), excess

    def _again(
        self, s: KrylovState, excess: np.ndarray, apply: Callable[[np.ndarray], np.ndarray]
    ) -> KrylovState:
        """Take back into the block what left it too early, unless rounding is all there is."""
        again = s.wait & (s.best > 1.0)
        hopeless = again & (excess > 0.5 * s.begun)
        live = again & ~hopeless
        share = np.where(live, 0.5 * s.share, s.share)
        begun, wait = np.where(live, excess, s.begun), np.zeros_like(live)
        s = replace(s, live=live, wait=wait, share=share, begun=begun)
        return self.begin(s, apply) if live.any() else s

    def _drift(self, s: KrylovState, apply: Callable[[np.ndarray], np.ndarray]) -> KrylovState:
        """Restart columns whose recurrence has drifted from the truth."""
        at = np.flatnonzero(s.live)
        looked, _ = self._look(s, at)
        gap = column_norms(looked.R[:, at] - s.R[:, at])
        drifted = at[gap > 0.1 * column_norms(looked.R[:, at])]
        if not drifted.size:
            return replace(looked, R=s.R)
        R = looked.R[:, drifted]
        Z = apply(R)
        P, rz = put(s.P, drifted, Z), put(s.rz, drifted, dots(R, Z))
        return replace(looked, R=put(s.R, drifted, R), P=P, rz=rz)


def _root(rz: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(rz, TINY**2))


def _bends(P: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    return (curvature > 0) & np.isfinite(curvature)


def put(A: np.ndarray, columns: np.ndarray, values: Any) -> np.ndarray:
    """Return a copy of A with other values in some columns."""
    out = A.copy()
    out[..., columns] = values
    return out


def rounded(V: np.ndarray) -> np.ndarray:
    """Return V as float32 can hold it: what multiplies values in float32 is then exact."""
    with np.errstate(over="ignore"):
        out = V.astype(np.float32).astype(np.float64)
    return out if np.isfinite(out).all() else V
