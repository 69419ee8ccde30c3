"""Memory and time of each way to fit a ridge or a smooth risk: the formulas, in one table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from mercer.engines import CACHED_ENTRIES, DEVICE_ENTRIES, KernelRate, Rates
from mercer.engines.passes import BYTES, SHARE as KEPT, STORED
from mercer.models.plan.facts import Facts, Sketch
from mercer.models.ridge import beside_gram, storage_for
from mercer.settings import get_config
from mercer.solvers.falkon import RATIO, WORTH
from mercer.solvers.linear import default_rank
from mercer.solvers.risk import SHARED

CG_STEPS = 5000  # more than these no solver makes
REFINED = 1.5  # times the steps of one solve that its refinements make of them
FALKON_PASSES = 22  # passes over the rows: the steps that its tolerance takes, and two more
NEWTON_STEPS = 6  # of a smooth risk
NEWTON_PASSES = 80  # passes of its Newton method on centres
NEWTON_VECTORS = 24  # of a number a row and output, that its points and steps hold
NEWTON_CG_TOL = 1e-4  # relative residual of a system of a Newton step
EIGH = 9.0  # products of n³ operations that an eigendecomposition takes as long as
MAPS = 3  # times that explicit features are computed
PATH_COLUMNS = 256  # penalties and outputs that a search looks at together
IN_FLIGHT = 6  # blocks at a time: the present one, one that waits, one being read, their checks
ITEM = {"double": 8, "single": 4, "none": 0}  # bytes of a value of K as it is kept
WORKSPACE = 5  # arrays of a tile's size for each thread


@dataclass(frozen=True)
class Cost:
    """What a way takes.

    Parameters
    ----------
    needed : float
        Bytes without which it cannot be done, beside the data.
    seconds : float or None
        Time; None where no rates are known.
    more : float, default=0.0
        Bytes that it takes as well where the budget has them: tiles, vectors, copies.
    """

    needed: float
    seconds: float | None
    more: float = 0.0

    def memory(self, budget: int) -> int:
        """Return the bytes expected at the peak."""
        return int(self.needed + min(self.more, max(0.0, budget - self.needed)))


def tiles(facts: Facts) -> int:
    """Return the bytes of tiles in flight."""
    if facts.device is not None:
        return 8 * WORKSPACE * min(DEVICE_ENTRIES, facts.n**2)
    return 8 * WORKSPACE * get_config().threads * min(CACHED_ENTRIES, facts.n**2)


def vectors(facts: Facts) -> int:
    """Return the bytes of the points that a model keeps, of targets, weights and coefficients."""
    kept = 0 if facts.stream or facts.given else facts.row_bytes
    return int(facts.n * (kept + 48 * facts.outputs + 48)) + 2**17


def gram_seconds(facts: Facts, rates: Rates, rate: KernelRate) -> float:
    """Return the time of the symmetric kernel matrix, in memory that is new."""
    return rate.seconds(0.5 * facts.n**2, facts.n) + 8.0 * facts.n**2 / rates.touch


def cholesky(facts: Facts, rates: Rates | None, sketch: Any = None) -> Cost:
    """n²/2 kernel values, n³/3 operations, one matrix."""
    n = facts.n
    needed = 8 * n * n + 32 * n * facts.outputs
    more = tiles(facts) + vectors(facts)
    if rates is None:
        return Cost(needed, None, more)
    solve = 4 * 8 * n * n * (1 + facts.outputs // 16) / rates.read
    seconds = gram_seconds(facts, rates, sketch.rate) + n**3 / 3 / rates.potrf + solve
    return Cost(needed, seconds, more)


def eigen(facts: Facts, rates: Rates | None, sketch: Any = None) -> Cost:
    """An eigendecomposition, for a choice of penalties by leaving one out: five matrices."""
    n, D = facts.n, facts.features
    primal_side = D is not None and D < n
    edge = D if primal_side and D is not None else n
    if primal_side:
        needed, more = 24 * (n + edge) * edge, vectors(facts) + 16 * (n + edge) * edge
    else:
        needed = 40 * n * n + 32 * n * facts.outputs
        more = vectors(facts) + 32 * n * PATH_COLUMNS
    if rates is None:
        return Cost(needed, None, more)
    first = (
        2.0 * n * edge**2 / rates.gemm if primal_side else gram_seconds(facts, rates, sketch.rate)
    )
    seconds = first + EIGH * edge**3 / rates.gemm + 64.0 * n * edge / rates.gemm
    return Cost(needed, seconds, more)


def primal(facts: Facts, rates: Rates | None, sketch: Any = None) -> Cost:
    """Normal equations of D features: nD² operations, four n × D matrices."""
    n, D = facts.n, facts.features or 0
    if facts.nonzeros is None:
        needed, more = 24 * (n + D) * D, vectors(facts) + 8 * (n + D) * D
        work = 2.0 * n * D * D
    else:
        needed, more = 24 * D * D + 36 * facts.nonzeros, vectors(facts) + 24 * facts.nonzeros
        work = 40.0 * facts.nonzeros**2 / max(1, n)  # a sparse product runs at such a part
    if rates is None:
        return Cost(needed, None, more)
    seconds = work / rates.gemm + D**3 / 3 / rates.potrf + 4 * needed / rates.touch
    seconds += MAPS * n * sketch.features
    return Cost(needed, seconds, more)


def by_features(facts: Facts) -> bool:
    """Whether a smooth risk is minimised over features: fewer than points, if no more memory."""
    if facts.features is None or facts.features >= facts.n:
        return False
    matrix = SHARED * facts.n * facts.n
    return primal(facts, None).needed <= facts.budget or matrix > facts.budget


def newton(facts: Facts, rates: Rates | None, sketch: Any = None) -> Cost:
    """A Newton method: one factorisation a step, or a few where there are several outputs."""
    several = facts.outputs > 1
    if by_features(facts):
        once = primal(facts, rates, sketch)
        steps = None if once.seconds is None else NEWTON_STEPS * facts.outputs * once.seconds
        return Cost(once.needed, steps, once.more)
    n = facts.n
    needed = SHARED * n * n
    more = tiles(facts) + vectors(facts) + 96 * n * facts.outputs + (5 * n * n if several else 0)
    if rates is None:
        return Cost(needed, None, more)
    step = n**3 / 3 / rates.potrf + (10 if several else 4) * 8 * n * n / rates.read
    return Cost(needed, gram_seconds(facts, rates, sketch.rate) + NEWTON_STEPS * step, more)


def newton_cg(facts: Facts, rates: Rates | None, sketch: Any = None, *, alpha: float = 1.0) -> Cost:
    """A Newton method with systems solved by conjugate gradients, preconditioned for each step.

    Curvatures of the logistic loss are at most 1/4, so that alpha counts four times.
    """
    n, t = facts.n, facts.outputs + 1
    rank = min(default_rank(n), n)
    kept = 0 if facts.given else ITEM[storage_for(n)] * n * n
    # the pivots are scaled by each step
    needed = kept + 8 * n * (4 * t + 3 * rank + NEWTON_VECTORS * facts.outputs)
    more = 8 * n * (6 * t + rank) + tiles(facts) + vectors(facts)
    once = cg(facts, rates, sketch, alpha=4.0 * alpha, tol=NEWTON_CG_TOL)
    return Cost(needed, None if once.seconds is None else NEWTON_STEPS * once.seconds, more)


def cg_steps(facts: Facts, sketch: Sketch, alpha: float, tol: float) -> int:
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
        return CG_STEPS
    kappa = max(1.0, (left + alpha) / least)
    steps = 0.5 * REFINED * math.sqrt(kappa) * math.log(2 / tol)
    return max(2, min(CG_STEPS, math.ceil(steps)))


def cg(
    facts: Facts,
    rates: Rates | None,
    sketch: Any = None,
    *,
    alpha: float = 1.0,
    tol: float = 1e-6,
    offset: bool = True,
) -> Cost:
    """Products with K, kept in float64 or float32 in half the budget, else made in tiles each time.

    The preconditioner of rank r takes nr kernel values and 3nr² operations.
    """
    n, t = facts.n, facts.outputs + offset
    rank, taken, tile = beside_gram(n, t, facts.workspace, facts.budget)
    item = 0 if facts.given else ITEM[storage_for(n)]
    needed, more = taken + tile, item * n * n + tiles(facts) + vectors(facts)
    if rates is None:
        return Cost(needed, None, more)
    steps = cg_steps(facts, sketch, alpha, tol) + 2
    anew = sketch.rate.seconds(0.5 * n * n, n) + 4.0 * n * n * t / rates.gemm
    setup = sketch.rate.seconds(n * rank, n) + 3.0 * n * rank * rank / rates.gemm
    if item or facts.given:
        product = (item or 8.0) * n * n * (1 + t // 16) / rates.read
        setup += 0.0 if facts.given else gram_seconds(facts, rates, sketch.rate)
        setup += 3 * anew if item == 4 else 0.0  # residuals in float64
    else:
        product = anew
    apply = 4.0 * n * rank * (1 + t // 16) * 8 / rates.read
    return Cost(needed, setup + steps * (product + apply), more)


def falkon(
    facts: Facts,
    rates: Rates | None,
    sketch: Any = None,
    *,
    centers: int = 1,
    passes: int = FALKON_PASSES,
) -> Cost:
    """m³ operations for the preconditioner in one m × m matrix, nm kernel values a pass."""
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
    more += (1.1 * stored if kept else 0) + (2.0 * sample if drawn else 0)
    if rates is None:
        return Cost(needed, None, more)
    gemm = rates.gemm_single if facts.itemsize == 4 else rates.gemm
    values, product = sketch.rate.seconds(n * m, n), 4.0 * n * m * t / gemm
    setup = m**3 / rates.potrf + sketch.rate.seconds(0.5 * m * m, m)
    again = 1 if kept else passes
    reads = 2.0 * passes * stored / rates.read if kept else 0.0
    return Cost(needed, setup + again * values + passes * product + reads, more)
