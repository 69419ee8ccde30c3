"""`Falkon`: least squares on m centres by preconditioned conjugate gradients over passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from weakref import proxy

import numpy as np

from mercer.checks import Clock
from mercer.engines import DEVICE_ENTRIES, Rates
from mercer.engines.passes import BYTES, SHARE as KEPT, STORED, MemoryPass
from mercer.errors import speaks, who
from mercer.memory import human
from mercer.settings import get_config
from mercer.solvers.base import Solution, accept, check_limits, either
from mercer.solvers.cost import Cost, Facts
from mercer.solvers.falkon.cg import FalkonCG, KrylovState
from mercer.solvers.falkon.normal import AGAIN, MATRICES, ROOMS, ROUNDING, SQUARED, NormalEquations
from mercer.solvers.falkon.preconditioner import (
    EPS,
    RATIO,
    SHARE,
    WORTH,
    KrillPreconditioner,
    SampledPreconditioner,
    sample_memory,
    sample_size,
    sample_worth,
)
from mercer.solvers.falkon.problem import Centred, CentredSystem, Saving
from mercer.solvers.linear import TINY

PATIENCE = 60  # iterations that a sketch and those with it would take


@dataclass(frozen=True)
class Falkon:
    """Solve `Centred` least squares: normal equations of one pass, or conjugate gradients.

    All targets advance together and leave the block when they are done. Before a target is called
    converged its residual r = KᵀW(y − Ka − b) − alpha·K_ZZ a is recomputed, as a rule by a pass;
    one whose recurrence had drifted is restarted. Converged means two things:

        ‖r‖ ≤ tol·‖KᵀW(y − ȳ)‖,   rᵀ(K_ZZ + δI)⁻¹r / (2 alpha) ≤ tol·risk,

    ȳ being the mean of y with an offset and 0 without. The second is the duality gap, with the dual
    variables W(y − Ka − b): the risk is at most so much above the least one, whatever the scales of
    weights and eigenvalues. δ is the jitter, m·eps·mean(diag K_ZZ) or a little more; the risk has
    it too. What rounding of the sums may hide of the residual is a part of it. Where alpha is tiny,
    rounding makes up a gap of more than tol of the risk: iterations go no further then, and the
    solution says that it is not converged. With alpha = 0 there is no gap, and residuals alone are
    judged. Where a target does not converge its coefficients of least risk are returned, 0 at
    worst.

    Kernel values of float32 rows are wrong by ε = 2·eps₃₂·mean(diag K_ZZ) or so, which would be
    features that cost nothing where K_ZZ is nearly singular. What they do to f weighs Σw·ε²·‖a‖²/2
    in the mean, and this is a part of the problem: δ has Σw·ε²/alpha more, in the residual too.

    With up to some thousand centres the first pass adds up KᵀWK as well, by products of matrices,
    and a Cholesky factor of it is a solve; in float32, or with rows that are whitened by L⁻¹ with
    LLᵀ = K_ZZ + δI, where that is better. What rounding may do to sums in float64 has a bound:
    where it is far below what is allowed they tell the residual and the gap, else passes of their
    own do, and refine. What is not solved so is iterated.

    The preconditioner is that of `FalkonPreconditioner`, or, where rows can be drawn at little
    cost, the better one of a sample of 8m of them. Where iterations make little progress all rows
    are taken if they are no more than that, which is a direct solve, else a sketch of them
    (`KrillPreconditioner`), and in the end all rows if memory has room for n·m numbers.

    Cost: n·m² flops and n·m kernel values, one to three times, and some m × m matrices; or n·m
    kernel values an iteration, ten to twenty iterations as a rule, m³ flops before, one m × m
    matrix.

    Parameters
    ----------
    tol : float, default=1e-6
        Relative residual wanted of every target, and relative duality gap.
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
    >>> k, Z = RBF(0.1), X[::25]
    >>> rows = row_pass(k, X, Z, np.sin(6 * X))
    >>> solution = Falkon().solve(Centred(rows, k(Z), alpha=1e-2, offset=True))
    >>> solution.converged, solution.residual < 1e-6, solution.extra["preconditioner"]
    (True, True, 'normal')
    >>> solution.gap < 1e-6 * solution.primal
    True
    """

    tol: float = 1e-6
    max_iter: int = 100
    max_time: float | None = None
    callback: Callable[[int, float], Any] | None = None
    checkpoint: Any = None

    @speaks("Falkon")
    def __post_init__(self) -> None:
        check_limits(self)

    @speaks("Falkon", unless_spoken=True)
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
            residual, ``primal`` the sum of the risks, ``gap`` that of the duality gaps and ``dual``
            their difference. ``extra`` holds "residuals" and "gaps", one a target and relative to
            ‖KᵀW(y − ȳ)‖ and to the risk, "rounding", the part of the risk by which a gap may be
            rounded, "passes" over the rows, the last "preconditioner" ("single",
            "normal" or "whitened" for equations of one pass, "falkon", "sampled", "krill" or
            "whole") and the "jitter" δ, of which float32 rows have more.
        """
        clock = Clock(self.max_time)
        saving = Saving(self.checkpoint, problem, "Falkon")
        saved = saving.load()
        with saving.resumable():
            system = CentredSystem(problem, saving, self.tol)
            run = FalkonCG(system, self.tol, self.max_iter, clock, self.callback)
            if saved is None:
                s = self._run(run, run.start(), "", saving)
            else:
                name = str(saved.pop("preconditioner"))
                system.passes = int(saved.pop("passes"))
                same = float(saved.pop("tol")) == self.tol
                s = KrylovState(**saved)
                s = self._run(run, s if same else run.retake(s), name, saving, same)
        every, squares = np.arange(system.t), system.units**2
        unsolved = run.unsolved(s)
        left = int(unsolved.sum())
        # What rounding may hide of a gap is told; of a target that is solved up to the tolerance.
        most = np.where(unsolved, np.inf, self.tol * s.risk)
        of_factor = system.preconditioner.rounding_of_factor(s.best_X, system.alpha)
        hidden = s.noise + ROUNDING * of_factor
        s = replace(s, gap=np.maximum(s.gap, np.minimum(s.gap + hidden, most)))
        a = s.best_X * system.norms
        primal, risk = float((s.risk * squares).sum()), _positive(s.risk)
        gap = None if system.alpha == 0 else float((s.gap * squares).sum())
        return Solution(
            value=(a, system.offsets(s.best_X, every)),
            converged=left == 0,
            n_iter=int(s.iteration),
            residual=float(s.residual.max(initial=0.0)),
            gap=gap,
            primal=primal,
            dual=None if gap is None else primal - gap,
            message="" if left == 0 else self._message(run, s, left),
            extra={
                "residuals": s.residual,
                "gaps": s.gap / risk,
                "rounding": float((hidden / risk).max()),
                "passes": system.passes,
                "preconditioner": run.name,
                "jitter": system.preconditioner.delta,
            },
        )

    def _run(
        self, run: FalkonCG, s: KrylovState, name: str, saving: Saving, going: bool = False
    ) -> KrylovState:
        """Iterate; where that gets nowhere, go on with a better preconditioner."""
        system, here = run.system, proxy(run)  # no cycle, which would keep all values for long

        def keep(s: KrylovState, now: bool) -> None:
            more = {"passes": system.passes, "preconditioner": here.name, "tol": self.tol}
            saving.keep({**vars(s), **more}, now)

        run.keep = keep
        names = _preconditioners(system)
        names = names[names.index(name) :] if name in names else names
        while names:
            run.name = names.pop(0)
            made = self._made(system, run.name)
            if made is None and names:
                going = False
                continue
            if made is None:  # says what it would take
                run.name, made = "krill", KrillPreconditioner.of(system)
            run.patience = PATIENCE if names and run.name != "krill" else np.inf
            if isinstance(made, NormalEquations) and not going:
                s = run.leap(s, made.solve)
            s = run.go(s if going else run.begin(s, made.apply), made.apply)
            if run.name in system.ways:  # what rounds more than is allowed is begun anew
                s = replace(s, best=np.where(run.unsolved(s), np.maximum(s.best, 2.0), s.best))
            if run.limit or not names or not (s.best > 1.0).any():
                break
            again = run.name in system.ways or (s.slow and run.name == "falkon")
            s = run.anew(s) if again else run.retake(s)
            going = False
        if not run.limit and not s.slow:
            keep(s, saving.file is not None)
        return s

    @staticmethod
    def _made(system: CentredSystem, name: str) -> Any:
        """Return a preconditioner by its name, None where it cannot be had."""
        if name in system.ways:
            made = system.equations(name)
            return made if made.good else None
        if name == "falkon":
            return Falkon._own(system)
        if name == "krill":
            return KrillPreconditioner.of(system)
        return SampledPreconditioner.drawn(system, sample_size(system, name == "whole"))

    @staticmethod
    def _own(system: CentredSystem) -> Any:
        """Return Falkon's own, which wants alpha above the rounding of M, and a factor of it."""
        P, total = system.preconditioner, _usual_total(system)
        if system.alpha <= EPS * total * P.scale and total > 0:
            return None
        alpha = max(system.alpha, EPS * P.scale)
        return P if P.prepare(total, alpha, system.offset) else None

    def _message(self, run: FalkonCG, s: KrylovState, left: int) -> str:
        system = run.system
        worst, gap = float(s.residual.max(initial=0.0)), float((s.gap / _positive(s.risk)).max())
        cures = ["use a larger alpha"] + ["float64 rows"] * system.single
        if run.limit:
            what = f"{self.max_time:g} s" if run.limit == "time" else run.limit
            cause = f"the limit of {what} was reached"
            cures = ["raise max_iter or max_time", *cures, "other centres"]
            if self.checkpoint is not None:
                cause += "; the same call goes on from the checkpoint"
        elif s.slow and run.name not in ("sampled", "whole"):
            cause = "iterations make no progress"
            room = SHARE * sample_memory(system.m, int(system.rows.n))
            cures += ["fewer centres", f"a memory budget of {human(room)}"]
            cures[-1] += " for a solve with all rows at once"
        else:
            cause = "rounding stops further progress"
            cures += ["fewer centres"]
            cures += accept(max(worst, gap))
        if not run.limit and _exact_fits(system):
            cures += ["solver='cholesky'"]
        state = f"largest relative residual {worst:.3g}"
        state += f", duality gap {gap:.3g} of the risk" if system.alpha > 0 else ""
        return (
            f"{who()}: {left} of {len(s.best)} targets are above tol={self.tol:g} after "
            f"{s.iteration} iterations ({state}): {cause}; {either(cures)}."
        )


def _preconditioners(system: CentredSystem) -> list[str]:
    """Return the names of preconditioners in the order in which they are tried."""
    n, m = int(system.rows.n), system.m
    known = hasattr(system.rows, "w")  # the weights, so that all rows are the system itself
    few, room = n <= RATIO * m, known and sample_size(system, whole=True) > 0
    first = "sampled" if sample_size(system) and sample_worth(m, n) else "falkon"
    if few and room:
        return [*system.ways, *dict.fromkeys([first, "sampled"])]
    sketch = ["krill"] if KrillPreconditioner.fits(system.preconditioner) else []
    return [*system.ways, first, *sketch, *(["whole"] if room else [])]


def _exact_fits(system: CentredSystem) -> bool:
    """Whether the rows are in memory, and their whole Gram matrix could be."""
    return isinstance(system.rows, MemoryPass) and 8 * system.rows.n**2 <= get_config().memory


def _positive(risk: np.ndarray) -> np.ndarray:
    return np.maximum(risk, TINY)


def _usual_total(system: CentredSystem) -> float:
    """Return Σw without what a few huge weights add, which the centres cannot stand for."""
    w = getattr(system.rows, "w", None)
    used = w[w > 0] if isinstance(w, np.ndarray) else np.empty(0)
    return min(system.total, float(np.median(used)) * len(used)) if used.size else system.total


# ---- What it costs ----


FALKON_PASSES = 22  # passes over the rows: the steps that its tolerance takes, and two more
IN_FLIGHT = 6  # blocks at a time: the present one, one that waits, one being read, their checks


def falkon_cost(
    facts: Facts,
    rates: Rates | None,
    sketch: Any = None,
    *,
    centers: int = 1,
    passes: int = FALKON_PASSES,
    fewer: int = 0,
    squares: int = 1,
) -> Cost:
    """Normal equations, nm² operations and some passes; or m³ and nm kernel values a pass.

    Where matrices KᵀWK can be had so many `squares` are made, and passes are `fewer`; 0 are two
    that make all values.
    """
    n, m, t = facts.n, centers, facts.outputs + 1
    host = facts.device is None
    entries = BYTES // facts.itemsize * get_config().threads if host else DEVICE_ENTRIES
    held = facts.block if facts.stream else n
    band = (1.3 * facts.itemsize + 8) * min(entries, held * m)  # values, and the same in float64
    rows = 8 * n * (2 * facts.outputs + 2)
    if facts.stream:
        row = facts.itemsize * facts.columns + 8 * (facts.outputs + 1)
        rows = IN_FLIGHT * facts.block * row
    needed = 8 * m * m + m * (facts.row_bytes + 80 * t) + rows
    stored = facts.itemsize * held * m
    kept = host and not facts.stream and stored <= min(STORED, facts.budget // KEPT)
    sample = 8.0 * m * (min(n, RATIO * m) + 4 * m)
    drawn = host and m * min(n, RATIO * m) <= WORTH * n and sample <= facts.budget // 4
    more = 1.4 * m * m + 300 * m * t + band + 2**19
    most = AGAIN if facts.stream else SQUARED
    if not host or m > most or 8 * MATRICES * m * m + ROOMS > facts.budget // 4:
        squares = 0
    more += 1.1 * stored if kept else 0
    if squares:
        more += 8 * MATRICES * m * m + min(ROOMS, 2 * 8.0 * held * m)
    elif drawn:
        more += 2.0 * sample
    if rates is None:
        return Cost(needed, None, more)
    gemm = rates.gemm_single if facts.itemsize == 4 else rates.gemm
    values, product = sketch.rate.seconds(n * m, n), 4.0 * n * m * t / gemm
    setup = m**3 / rates.potrf + sketch.rate.seconds(0.5 * m * m, m)
    if squares:
        setup, passes = setup + squares * float(n) * m * m / rates.gemm, fewer
        if not fewer:
            return Cost(needed, setup + 2.0 * values, more)
    again = 1 if kept else passes
    reads = 2.0 * passes * stored / rates.read if kept else 0.0
    return Cost(needed, setup + again * values + passes * product + reads, more)
