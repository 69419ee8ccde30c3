"""`Falkon`: least squares on m centres by preconditioned conjugate gradients over passes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.solvers.base import Solution
from mercer.solvers.checks import check_index, check_number
from mercer.solvers.falkon_cg import Run, State
from mercer.solvers.falkon_krill import RATIO, KrillPreconditioner, SampledPreconditioner
from mercer.solvers.falkon_preconditioner import EPS
from mercer.solvers.falkon_problem import Centred, CentredSystem
from mercer.solvers.falkon_saving import Saving

__all__ = ["Centred", "Falkon"]


PATIENCE = 60  # iterations that a sketch and those with it would take


@dataclass(frozen=True)
class Falkon:
    """Solve `Centred` least squares by preconditioned conjugate gradients: a pass an iteration.

    All targets advance together and leave the block when they are done. Before a target is called
    converged its residual ‖KᵀW(y − Ka − b) − alpha·K_ZZ a‖ / ‖KᵀW(y − ȳ)‖ is recomputed by a pass
    of its own, ȳ being the mean of y with an offset and 0 without; one whose recurrence had drifted
    is restarted. Besides, no more than √tol of the risk may be left to gain, by an estimate: a few
    rows of huge weight hide all others in the residual. The preconditioner is that of
    `FalkonPreconditioner`, or, where rows can be drawn at little cost, the better one of a sample
    of 8m of them. Where alpha is so small that it has no factor, or iterations make little progress
    with it, a sketch of K takes its place (`KrillPreconditioner`).

    Cost: n·m kernel values an iteration, ten to twenty iterations as a rule; m³ flops before, one
    m × m matrix.

    Parameters
    ----------
    tol : float, default=1e-6
        Relative residual wanted of every target.
    max_iter : int, default=100
        Limit of iterations.
    max_time : float or None, default=None
        Limit in seconds; looked at after every iteration, so that at least one is made.
    callback : callable or None, default=None
        Called as ``callback(iteration, residual)`` with the largest relative residual after each
        iteration.
    checkpoint : path, Checkpoint or None, default=None
        Where the state is saved every half minute and before a stop; a solve that finds the file
        of the same problem there goes on from it, with the same bits as one that was not stopped.

    References
    ----------
    Rudi, Carratino, Rosasco, "FALKON: an optimal large scale kernel method", NeurIPS 2017; Díaz,
    Epperly, Frangella, Tropp, Webber, arXiv:2304.12465 (the sketch).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF
    >>> from mercer.engines.passes import row_pass
    >>> from mercer.solvers import Centred, Falkon
    >>> X = np.linspace(0, 1, 500)[:, None]
    >>> k, Z = RBF(0.2), X[::25]
    >>> rows = row_pass(k, X, Z, np.sin(6 * X))
    >>> solution = Falkon().solve(Centred(rows, k(Z), alpha=1e-3, offset=True))
    >>> solution.converged, solution.residual < 1e-6, solution.extra["preconditioner"]
    (True, True, 'sampled')
    """

    tol: float = 1e-6
    max_iter: int = 100
    max_time: float | None = None
    callback: Callable[[int, float], Any] | None = None
    checkpoint: Any = None

    def __post_init__(self) -> None:
        check_number(self.tol, "tol", "Falkon", 0.0, 1.0)
        check_index(self.max_iter, "max_iter", "Falkon", 1)
        if self.max_time is not None:
            check_number(self.max_time, "max_time", "Falkon", 0.0)
        if self.callback is not None and not callable(self.callback):
            raise InvalidInput(f"Falkon: callback={self.callback!r} cannot be called.")

    def solve(self, problem: Centred) -> Solution:
        """Return coefficients and offsets.

        Parameters
        ----------
        problem : Centred
            The problem.

        Returns
        -------
        Solution
            Value ``(a, b)`` of shapes (m, t) and (t,); ``residual`` is the largest relative
            residual, ``primal`` the sum of the risks. ``extra`` holds "residuals", one a target,
            "passes" over the rows, "preconditioner" ("falkon", "sampled" or "krill") and the
            "jitter" δ.
        """
        deadline = time.monotonic() + (np.inf if self.max_time is None else self.max_time)
        saving = Saving(self.checkpoint, problem, "Falkon", self.tol)
        saved = saving.load()
        system = CentredSystem(problem, "Falkon", saving)
        run = Run(system, self.tol, self.max_iter, deadline, self.callback)
        if saved is None:
            s, name = self._run(run, run.start(), "", saving)
        else:
            name = str(saved.pop("preconditioner"))
            system.passes = int(saved.pop("passes"))
            s, name = self._run(run, State(**saved), name, saving)
        left = int(((s.best > self.tol) | (s.gain > 1.0)).sum())
        worst = float(s.best.max(initial=0.0))
        a = s.best_X * system.norms
        every = np.arange(system.t)
        return Solution(
            value=(a, system.offsets(s.best_X, every)),
            converged=left == 0,
            n_iter=int(s.iteration),
            residual=worst,
            primal=float(s.risk.sum()),
            message="" if left == 0 else self._message(run, s, left, worst),
            extra={
                "residuals": s.best,
                "passes": system.passes,
                "preconditioner": name,
                "jitter": system.preconditioner.jitter,
            },
        )

    def _run(self, run: Run, s: State, name: str, saving: Saving) -> tuple[State, str]:
        """Iterate, and where that gets nowhere with a preconditioner that never fails."""
        system = run.system

        def iterate(s: State, made: Any, fresh: bool) -> State:
            def keep(s: State, now: bool) -> None:
                more = {"passes": system.passes, "preconditioner": made.name}
                saving.keep({**s.pack(), **more}, now)

            run.keep = keep
            run.patience, run.final = PATIENCE if fits else np.inf, made.final
            s = run.go(run.begin(s, made.apply) if fresh else s, made.apply)
            if not run.limit and not s.slow:
                keep(s, saving.file is not None)
            return s

        fits = KrillPreconditioner.fits(system.preconditioner)
        made = self._saved(system, name) if name else self._made(system)
        if made is not None:
            s = iterate(s, made, not name)
            if not s.slow or run.limit or not fits:
                return s, made.name
            s = s if made.name == "sampled" else run.anew(s)
        made = self._robust(system)
        return iterate(s, made, True), made.name

    @staticmethod
    def _saved(system: CentredSystem, name: str) -> Any:
        """Return the preconditioner of a saved state."""
        if name == "sampled":
            return SampledPreconditioner.drawn(system, dear=True)
        return KrillPreconditioner.of(system) if name == "krill" else Falkon._own(system)

    @staticmethod
    def _robust(system: CentredSystem) -> Any:
        """Return all rows where they are not many more than the centres, else a sketch of them."""
        if int(system.rows.n) <= RATIO * system.m:
            whole = SampledPreconditioner.drawn(system, dear=True)
            if whole is not None:
                return whole
        return KrillPreconditioner.of(system)

    @staticmethod
    def _made(system: CentredSystem) -> Any:
        """Return the preconditioner to begin with, None where only the sketch can do."""
        sampled = SampledPreconditioner.drawn(system)
        return Falkon._own(system) if sampled is None else sampled

    @staticmethod
    def _own(system: CentredSystem) -> Any:
        """Return Falkon's own, which wants alpha above the rounding of M, and a factor of it."""
        P, total = system.preconditioner, _usual_total(system)
        if system.alpha <= EPS * total * P.scale and total > 0:
            return None
        alpha = max(system.alpha, EPS * P.scale)
        return P if P.prepare(total, alpha, system.offset) else None

    def _message(self, run: Run, s: State, left: int, worst: float) -> str:
        if run.limit:
            what = f"{self.max_time:g} s" if run.limit == "time" else run.limit
            cause = f"the limit of {what} was reached"
            cure = "raise max_iter or max_time, use a larger alpha, or other centres"
        elif s.slow:
            cause = "iterations make no progress"
            cure = "use a larger alpha, or a larger memory budget for a sketch of the rows"
        else:
            cause = "rounding stops further progress"
            cure = f"use a larger alpha, float64 data, or accept tol={2 * worst:.1g}"
        return (
            f"Falkon: {left} of {len(s.best)} targets are above tol={self.tol:g} after "
            f"{s.iteration} iterations (largest relative residual {worst:.3g}): {cause}; {cure}."
        )


def _usual_total(system: CentredSystem) -> float:
    """Return Σw without what a few huge weights add, which the centres cannot stand for."""
    w = getattr(system.rows, "w", None)
    used = w[w > 0] if isinstance(w, np.ndarray) else np.empty(0)
    return min(system.total, float(np.median(used)) * len(used)) if used.size else system.total
