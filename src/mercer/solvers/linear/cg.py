"""Conjugate gradients for many right-hand sides at once, preconditioned, with true residuals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.checks import Clock, check_index
from mercer.engines import Rates
from mercer.errors import InvalidInput, NotPositiveDefinite, speaking_for, speaks, who
from mercer.memory import free_on
from mercer.settings import get_config
from mercer.solvers.base import (
    Linear,
    Solution,
    accept,
    as_columns,
    check_entries,
    check_limits,
    check_product,
    column_norms,
    describe,
    either,
    precision_of,
    proven_residuals,
)
from mercer.solvers.cost import Cost, Facts, gram_seconds
from mercer.solvers.linear.device import DevicePreconditioner
from mercer.solvers.linear.krylov import TINY, BlockCG, dots
from mercer.solvers.linear.pivoted import DeviceRows, NystromPreconditioner, pivoted

EPS = float(np.finfo(np.float64).eps)

# ---- The preconditioner of conjugate gradients: low rank plus the ridge, from random pivots ----


class LowRankPreconditioner:
    """P = FᵀF + D for A + D, with F from the accelerated randomly pivoted Cholesky of A.

    With D = diag(α/w) pivots are drawn as of A with each row repeated as 1/D says, and F is cut
    where ‖D^(−½)(A − FᵀF)D^(−½)‖ ≤ 1 is certain from the trace: more would not pay.

    Parameters
    ----------
    A : Operator of shape (n, n)
        Symmetric positive semidefinite.
    ridge : float or ndarray of shape (n,), default=0.0
        D ≥ 0. Where it is 0, the mean of what F has left of the diagonal of A takes its place.
    rank : int or None, default=None
        Largest rank; None as in `ConjugateGradients`.
    random_state : int, RandomState or None, default=None
        Source of the pivots.
    """

    def __init__(
        self, A: Any, ridge: Any = 0.0, *, rank: int | None = None, random_state: Any = None
    ):
        n = A.shape[0]
        diagonal = np.asarray(A.diagonal(), dtype=np.float64)
        self.scale = _unit(diagonal, ridge)
        shift = np.asarray(ridge, dtype=np.float64) / self.scale
        trace = float((diagonal / self.scale).sum())
        counts = None
        enough = float(shift.min(initial=np.inf)) / trace if trace > 0 else 0.0
        if shift.ndim and (shift > 0).all():
            counts = shift.min() / shift  # the largest is 1
            weighted = float(counts @ (diagonal / self.scale))
            enough = float(shift.min()) / weighted if weighted > 0 else 0.0
        most = min(default_rank(n, getattr(A, "device", None)) if rank is None else rank, n)
        rows, pivots, error = pivoted(A, most, random_state, enough, counts)
        rest = max(error, EPS) * (trace / n)
        shift = np.where(shift > 0, shift, rest if rest > 0 else 1.0)
        there = isinstance(rows, DeviceRows)
        F = rows.F[: rows.size] if there else rows.table()
        F /= self.scale**0.5
        kind = DevicePreconditioner if there else NystromPreconditioner
        self._made = kind(F, shift if shift.ndim else float(shift))
        self.facts = {"rank": len(pivots), "trace_error": error}

    def solve(self, R: np.ndarray) -> np.ndarray:
        """Return P⁻¹ R.

        Parameters
        ----------
        R : ndarray of shape (n,) or (n, t)
            Right-hand sides.

        Returns
        -------
        ndarray
            Same shape as R.
        """
        return self._made.solve(R) / self.scale


def default_rank(n: int, device: Any = None) -> int:
    """Return the rank of a preconditioner: n/20 within 300 and 2000, a quarter of what is free.

    Parameters
    ----------
    n : int
        Rows of the matrix.
    device : torch.device or None, default=None
        Where it is made; None is main memory.
    """
    return min(max(min(n, 300), n // 20), 2000, max(1, free_on(device) // (32 * max(1, n))))


# ---- cg ----


_CHECK = 50  # iterations between two true residuals
_PATIENCE = 500  # iterations after which a column is given up whose smallest residual is still
_PROGRESS = 0.9  # more than this part of what it was

SLOW = f"residuals fell by less than a tenth in {_PATIENCE} iterations, which an ill-conditioned "
SLOW += "matrix does"


@dataclass(frozen=True)
class ConjugateGradients:
    """Solve `Linear` by (preconditioned) conjugate gradients, using only products with A.

    All columns of b advance together, so one iteration is one product of A with a block; a column
    leaves the block when it is done. Before a column is called converged its residual
    ‖b − (A + D)x‖ / ‖b‖ is recomputed from A; a column whose recurrence had drifted is restarted.
    One whose residual has not fallen by a tenth in 500 iterations is given up, and the best x kept.
    What rounding may hide of the residuals is added to them.

    Cost: one product with A an iteration, √κ iterations a digit or fewer, κ the condition number
    of P⁻¹(A + D). With "rpcholesky", P = FᵀF + D and κ ≤ 1 + ‖A − FᵀF‖ / min D.

    Parameters
    ----------
    tol : float, default=1e-8
        Relative residual wanted of every column.
    max_iter : int or None, default=None
        Limit of iterations; None means 10 n, at least 100 and at most 5000.
    preconditioner : None, "rpcholesky" or object, default=None
        An object must have ``solve(R)``, linear, symmetric and positive definite.
    rank : int or None, default=None
        Rank of "rpcholesky". None means n/20 within 300 (or n) and 2000, cut so that the factor
        takes at most a quarter of the memory budget; it stops earlier once ‖A − FᵀF‖ ≤ min D.
    random_state : int, RandomState or None, default=None
        Source of the preconditioner's pivots.
    max_time : float or None, default=None
        Limit in seconds, the making of the preconditioner included; looked at after every
        iteration, so that at least one is made.
    callback : callable or None, default=None
        Called as ``callback(iteration, residual)`` with the largest relative residual after each
        iteration. What it raises, KeyboardInterrupt too, ends the solve; nothing is left changed.

    References
    ----------
    Hestenes, Stiefel, J. Res. NBS 49 (1952); Saad, Iterative Methods for Sparse Linear Systems,
    2nd ed., algorithm 9.1; Díaz, Epperly, Frangella, Tropp, Webber, arXiv:2304.12465 (the
    preconditioner); van der Vorst, Ye, SIAM J. Sci. Comput. 22 (2000) (drift of residuals).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import ConjugateGradients, Linear
    >>> x = np.linspace(0, 1, 300)
    >>> K = np.exp(-np.subtract.outer(x, x) ** 2)
    >>> plain = ConjugateGradients().solve(Linear(K, np.sin(9 * x), ridge=1e-3))
    >>> fast = ConjugateGradients(preconditioner="rpcholesky", random_state=0).solve(
    ...     Linear(K, np.sin(9 * x), ridge=1e-3))
    >>> fast.converged, fast.n_iter < plain.n_iter, np.allclose(fast.value, plain.value)
    (True, True, True)
    """

    tol: float = 1e-8
    max_iter: int | None = None
    preconditioner: Any = None
    rank: int | None = None
    random_state: Any = None
    max_time: float | None = None
    callback: Callable[[int, float], Any] | None = None

    @speaks("ConjugateGradients")
    def __post_init__(self) -> None:
        check_limits(self, endless=True)
        if self.rank is not None:
            check_index(self.rank, "rank", 1)
        given = self.preconditioner
        named = given is None or (isinstance(given, str) and given == "rpcholesky")
        if not named and not callable(getattr(given, "solve", None)):
            raise InvalidInput(
                f"{who()}: preconditioner={self.preconditioner!r}; give None, 'rpcholesky' or an "
                "object with a solve(R) method."
            )

    def solve(self, problem: Linear, sharp: bool = True) -> Solution:
        """Return the solution of a `Linear` problem; A and b are not changed.

        Parameters
        ----------
        problem : Linear
            The system.
        sharp : bool, default=True
            Whether to count what rounding may hide of the residuals; where that decides, some of
            them are computed again in longer numbers.

        Returns
        -------
        Solution
            Value of b's shape; ``residual`` is the largest true relative residual. ``extra`` holds
            "columns_left" (how many are not converged), "rank" and "trace_error" of the
            preconditioner where one was made, "residuals", one a column, and "stopped": what ended
            columns above tol, "limit", "rounding" or "slow", "" where there are none.
        """
        clock = Clock(self.max_time)
        A, b, ridge = problem.checked("ConjugateGradients")
        with speaking_for(describe(A, "ConjugateGradients")):
            check_entries(A)
            system = _System(A, ridge, as_columns(b))
            precondition, extra = self._preconditioner(system)
            run = _Run(system, precondition, self, clock)
            run.go(self.tol)
            value, residuals = self._proven(run, as_columns(b), sharp)
            if ((residuals > self.tol) & (run.residuals <= self.tol)).any() and not run.limit:
                run.go(0.5 * self.tol)  # room for what rounding may hide
                value, residuals = self._proven(run, as_columns(b), sharp)
            left = int((residuals > self.tol).sum())
            worst = float(residuals.max(initial=0.0))
            return Solution(
                value=value.reshape(b.shape),
                converged=left == 0,
                n_iter=run.iteration,
                residual=worst,
                message="" if left == 0 else self._message(run, left, worst),
                extra={
                    **extra,
                    "columns_left": left,
                    "residuals": residuals,
                    "stopped": run.stopped if left else "",
                },
            )

    def _proven(self, run: _Run, b: np.ndarray, sharp: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return the solution in the units of b, and its residuals with what rounding may hide."""
        system = run.system
        with np.errstate(over="ignore", under="ignore"):
            value = run.X * (system.norms / system.scale)
        if not np.isfinite(value).all():
            raise InvalidInput(f"{who()}: the solution overflows float64; rescale the kernel or b.")
        if not sharp:
            return value, run.residuals
        told = proven_residuals(system.A, system.ridge, value, b, run.residuals, self.tol)
        return value, told

    def _preconditioner(self, system: _System) -> tuple[Callable[[np.ndarray], np.ndarray], dict]:
        if self.preconditioner is None or system.n == 0:
            return (lambda R: R.copy()), {}
        given = self.preconditioner
        if not isinstance(given, str):
            return (lambda R: system.scale * np.asarray(given.solve(R), dtype=np.float64)), {}
        made = LowRankPreconditioner(
            system.A, system.ridge, rank=self.rank, random_state=self.random_state
        )
        return (lambda R: system.scale * made.solve(R)), made.facts

    def _message(self, run: _Run, left: int, worst: float) -> str:
        better = "preconditioner='rpcholesky'"
        if self.preconditioner is not None:
            better = "a preconditioner of higher rank"
        cures = ["use a larger alpha (ridge)"]
        if run.stopped == "limit":
            cause = f"the limit of {run.limit} was reached"
            cures = ["raise max_iter or max_time", *cures, better]
        else:
            cause = SLOW
            if run.stopped == "rounding":
                cause = "rounding or a singular matrix stops further progress"
                cures += ["a float64 kernel"] * (precision_of(run.system.A) > EPS)
            cures += [better]
            if 8 * run.system.n**2 <= get_config().memory:
                cures += ["solver='cholesky' (mercer.solvers.Cholesky)"]
            cures += accept(worst)
        return (
            f"ConjugateGradients: {left} of {len(run.residuals)} right-hand sides are above "
            f"tol={self.tol:g} after {run.iteration} iterations (largest relative residual "
            f"{worst:.3g}): {cause}; {either(cures)}."
        )


class _System:
    """(A + D)/scale acting on blocks, and b with unit columns: all numbers are of order one."""

    def __init__(self, A: Any, ridge: float | np.ndarray, B: np.ndarray):
        self.A, self.ridge = A, ridge
        self.n, self.width = B.shape
        self.diagonal = np.asarray(A.diagonal(), dtype=np.float64)
        if not np.isfinite(self.diagonal).all():
            raise InvalidInput(f"{who()}: the diagonal of A holds NaN or infinity; check the data.")
        if (self.diagonal + ridge < 0).any():
            at = int(np.argmin(self.diagonal + ridge))
            value = float((self.diagonal + ridge)[at])
            raise NotPositiveDefinite(
                f"{who()}: entry {at} of the diagonal of A + ridge is {value:.4g}; a positive "
                "definite matrix has none below 0. Test the kernel with mercer.check_kernel.",
                smallest_eigenvalue=value,
            )
        self.scale = _unit(self.diagonal, ridge)
        shift = np.asarray(ridge) / self.scale
        self.shift = shift if shift.ndim == 0 else shift[:, None]
        self.norms = column_norms(B)
        self.B = B / np.where(self.norms > 0, self.norms, 1.0)

    def product(self, V: np.ndarray) -> np.ndarray:
        out = np.asarray(self.A.matmul(V), dtype=np.float64) / self.scale
        out += self.shift * V
        return check_product(out)


@dataclass(eq=False)
class _Run:
    """One solve: the state of all columns, and of those still in the block."""

    system: _System
    precondition: Callable[[np.ndarray], np.ndarray]
    options: ConjugateGradients
    clock: Clock
    iteration: int = 0
    slow: bool = False  # whether slowness ended columns above tol
    limit: str = ""
    top: float = 1.0  # largest Rayleigh quotient seen, in units of scale

    def __post_init__(self) -> None:
        system = self.system
        default = min(max(10 * system.n, 100), 5000)
        self.max_iter = self.options.max_iter or default
        self.X = np.zeros((system.n, system.width))
        self.residuals = np.where(system.norms > 0, 1.0, 0.0)  # true ones, of X
        self.seen = self.residuals.copy()  # latest known, for the callback

    @property
    def stopped(self) -> str:
        """What ended columns above tol: a limit, slowness, or else rounding."""
        return "limit" if self.limit else "slow" if self.slow else "rounding"

    def go(self, tol: float) -> None:
        """Go on from X until the true residuals are at most tol, or get no smaller."""
        system = self.system
        target = np.full(system.width, tol)
        columns = np.flatnonzero(self.residuals > tol)
        R = system.B[:, columns]
        if self.iteration:
            R, _ = self._truth(columns, self.X[:, columns])
        # Each sweep runs the recurrence until it claims convergence, then looks at the truth;
        # a column whose truth is no longer halved by a sweep has reached its limiting accuracy.
        while columns.size and not self.limit:
            X, slow = self._sweep(columns, self.X[:, columns], R, target[columns])
            R, true = self._truth(columns, X)
            before = self.residuals[columns]
            better = true < before
            self.X[:, columns[better]] = X[:, better]
            self.residuals[columns] = np.minimum(true, before)
            open_ = true > tol
            again = open_ & (true <= 0.5 * before)
            given_up = open_ & ~again
            # but for rounding n iterations are enough for any matrix
            self.slow |= bool(slow[given_up].any()) and self.iteration < system.n
            columns, R = columns[again], R[:, again]
            target[columns] *= 0.5

    def _truth(self, columns: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        R = self.system.B[:, columns] - self.system.product(X)
        return R, column_norms(R)

    def _sweep(
        self, columns: np.ndarray, X: np.ndarray, R: np.ndarray, target: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Run the recurrence; return X as columns left it, and which of them were slow."""
        out, slow = X.copy(), np.zeros(columns.size, dtype=bool)
        best = column_norms(R)
        mark, mark_at = best.copy(), np.full(columns.size, self.iteration)
        live = np.arange(columns.size)
        Z = self._apply(R)
        block = BlockCG(X, R, Z.copy(), dots(R, Z))
        while True:
            usable = block.forward(self.system.product, self._usable)
            X, R = block.X, block.R
            self.iteration += 1
            size = column_norms(R)
            fresh = np.zeros(live.size, dtype=bool)
            if self.iteration % _CHECK == 0:
                true_R, true = self._truth(columns[live], X)
                fresh = column_norms(true_R - R) > 0.1 * true
                R[:, fresh], size = true_R[:, fresh], np.where(fresh, true, size)
                best[live[fresh]] = np.inf  # what the drifted recurrence called best was not
            better = size < best[live]
            best[live[better]] = size[better]
            out[:, live[better]] = X[:, better]
            falls = size < _PROGRESS * mark[live]
            mark[live[falls]], mark_at[live[falls]] = size[falls], self.iteration
            self.seen[columns[live]] = size
            if self.options.callback is not None:
                self.options.callback(self.iteration, float(self.seen.max()))
            if self.iteration >= self.max_iter:
                self.limit = f"{self.max_iter} iterations"
            elif self.clock.late:
                self.limit = f"{self.options.max_time:g} s"
            if self.limit:
                break
            patient = self.iteration - mark_at[live] < _PATIENCE
            stay = (size > np.maximum(target[live], TINY)) & usable
            slow[live] = stay & ~patient
            stay &= patient
            if not stay.any():
                break
            if not stay.all():
                live, block, fresh = live[stay], block.take(stay), fresh[stay]
            block.turn(self._apply(block.R), fresh)
        return out, slow

    def _usable(self, P: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        """Where pᵀ(A + D)p > 0; a clearly negative one proves that A + D is indefinite."""
        quotient = curvature / np.maximum(dots(P, P), np.finfo(np.float64).tiny)
        self.top = max(self.top, float(quotient.max(initial=0.0)))
        worst = float(quotient.min(initial=0.0))
        if worst < -max(1e-8, 100.0 * precision_of(self.system.A)) * self.top:
            value = worst * self.system.scale
            raise NotPositiveDefinite(
                f"{who()}: A + ridge is not positive definite: conjugate gradients met "
                f"a direction p with pᵀ(A + ridge)p/pᵀp = {value:.4g}, a bound on the smallest "
                "eigenvalue. Use a larger alpha, or test the kernel with mercer.check_kernel.",
                smallest_eigenvalue=value,
            )
        return np.asarray(quotient > 0)

    def _apply(self, R: np.ndarray) -> np.ndarray:
        Z = self.precondition(R)
        if Z.shape != R.shape or not np.isfinite(Z).all() or (dots(R, Z) <= 0).any():
            raise InvalidInput(
                "ConjugateGradients: the preconditioner is not positive definite: rᵀP⁻¹r ≤ 0, or "
                "its solve(R) is not finite and of R's shape. Use preconditioner='rpcholesky'."
            )
        return Z


def _unit(diagonal: np.ndarray, ridge: Any) -> float:
    """Return the size of the entries of A + D, 1 where that is 0 or no number."""
    top = float(diagonal.max(initial=0.0)) + float(np.max(ridge, initial=0.0))
    return top if np.isfinite(top) and top > 0 else 1.0


# ---- What conjugate gradients on a Gram matrix cost ----


VECTORS = 14  # numbers a row and right-hand side that are alive at once
LEAST_TILE = 2**14  # bytes of each array of the smallest tile
MOST_STEPS = 5000  # more than these no solver makes
PIVOTED = 8.0  # operations for each number of a preconditioner and pivot, in small products
FEW = 2  # columns up to which a product reads half of K for each
STEP = 1.5e-4  # seconds of a step that are no products
REFINED = 1.5  # times the steps of one solve that its refinements make of them


def beside_gram(n: int, columns: int, workspace: int, memory: int) -> tuple[int, int, int]:
    """Return the rank of the preconditioner, its bytes with all vectors, and those of a tile.

    The last two together are what conjugate gradients cannot do without; K has what is left.

    Parameters
    ----------
    n : int
        Points.
    columns : int
        Right-hand sides, the one of the offset too.
    workspace : int
        Arrays of the size of a tile that the kernel holds.
    memory : int
        Bytes of the budget.
    """
    vectors, tile = 8 * n * VECTORS * columns, LEAST_TILE * workspace
    rank = max(1, min(default_rank(n), (memory - vectors - tile) // (6 * 8 * n)))
    return rank, vectors + 3 * 8 * n * rank, tile


def cg_steps(facts: Facts, sketch: Any, alpha: float, tol: float) -> int:
    """Return the steps expected: ½√κ ln(2/tol), with κ = (λ + α)/(λₙ + α).

    λ is the eigenvalue that follows those of the preconditioner, and λₙ the smallest. Solving for
    what rounding leaves of the equations takes half as many again.
    """
    rank = min(default_rank(facts.n), facts.n)
    left = sketch.eigenvalue(rank, facts.n)
    if left <= 0:
        return 2
    least = sketch.smallest(facts.n) + alpha
    if least <= 0:
        return MOST_STEPS
    kappa = max(1.0, (left + alpha) / least)
    steps = 0.5 * REFINED * math.sqrt(kappa) * math.log(2 / tol)
    return max(2, min(MOST_STEPS, math.ceil(steps)))


def cg_cost(
    facts: Facts,
    rates: Rates | None,
    sketch: Any = None,
    *,
    alpha: float = 1.0,
    tol: float = 1e-6,
    offset: bool = True,
) -> Cost:
    """Products with K, kept in float64 or float32 in half the budget, else made in tiles each time.

    The preconditioner of rank r takes nr kernel values, which are read from K where that is kept,
    and some 8nr² operations.
    """
    n, t = facts.n, facts.outputs + offset
    rank, taken, tile = beside_gram(n, t, facts.workspace, facts.budget)
    item = facts.gram_item
    needed, more = taken + tile, item * n * n + facts.tiles + facts.vectors
    if rates is None:
        return Cost(needed, None, more)
    steps = cg_steps(facts, sketch, alpha, tol) + 2
    anew = sketch.rate.seconds(0.5 * n * n, n) + 4.0 * n * n * t / rates.gemm
    setup = PIVOTED * n * rank * rank / rates.gemm + 3 * 8.0 * n * rank / rates.touch
    if item or facts.given:
        held = (item or 8.0) * n * n
        halves = t <= FEW and facts.device is None  # columns one by one, each reads half of K
        product = t * held / rates.symmetric if halves else held * (1 + t // 16) / rates.read
        setup += 0.0 if facts.given else gram_seconds(facts, rates, sketch.rate)
        setup += 3 * anew if item == 4 else 0.0  # residuals in float64
    else:
        product = anew
        setup += sketch.rate.seconds(n * rank, n)
    apply = 2.0 * n * rank * (1 + t // 16) * 8 / rates.read
    return Cost(needed, setup + steps * (product + apply + STEP), more)
