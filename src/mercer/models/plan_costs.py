"""Memory and time of each way to fit a ridge: the formulas, in one table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from mercer.engines.blocks import CACHED_ENTRIES
from mercer.engines.rates import KernelRate, Rates
from mercer.models.plan_facts import Facts, Sketch

__all__ = ["Cost", "cg", "cholesky", "eigen", "falkon", "primal", "working"]

CG_STEPS = 5000  # more than these no solver makes
FALKON_STEPS = 20  # passes of Falkon where its tolerance asks for no more
EIGH = 9.0  # products of n³ that an eigendecomposition takes as long as


@dataclass(frozen=True)
class Cost:
    """Bytes at the peak beside the data, and seconds, None where no rates are known."""

    memory: int
    seconds: float | None


def working(facts: Facts, threads: int = 2) -> int:
    """Return the bytes of tiles in flight, of the points kept, and of a few vectors."""
    tiles = 4 * threads * CACHED_ENTRIES * 8
    kept = 8 * facts.n * facts.columns if not (facts.stream or facts.given) else 0
    return tiles + kept + 8 * facts.n * (6 * facts.outputs + 4)


def _gram_seconds(facts: Facts, rate: KernelRate) -> float:
    return rate.seconds(0.5 * facts.n**2, facts.n)


def cholesky(facts: Facts, rates: Rates | None, sketch: Any = None) -> Cost:
    """n²/2 kernel values, n³/3 operations, one matrix."""
    n = facts.n
    memory = 8 * n * n + working(facts)
    if rates is None:
        return Cost(memory, None)
    solve = 4 * 8 * n * n * (1 + facts.outputs // 16) / rates.read
    return Cost(memory, _gram_seconds(facts, sketch.rate) + n**3 / 3 / rates.potrf + solve)


def eigen(facts: Facts, rates: Rates | None, sketch: Any = None) -> Cost:
    """An eigendecomposition, for a choice of penalties by leaving one out: five matrices."""
    n, D = facts.n, facts.features
    edge = n if D is None or D >= n else D
    memory = 5 * 8 * n * n if edge == n else (3 * n + 5 * D) * D * 8  # type: ignore[operator]
    memory += working(facts)
    if rates is None:
        return Cost(memory, None)
    first = _gram_seconds(facts, sketch.rate) if edge == n else 2.0 * n * edge**2 / rates.gemm
    return Cost(memory, first + EIGH * edge**3 / rates.gemm + 64.0 * n * edge / rates.gemm)


def primal(facts: Facts, rates: Rates | None, sketch: Any = None) -> Cost:
    """Normal equations of D features: nD² operations, three n × D matrices."""
    n, D = facts.n, facts.features or 0
    memory = (3 * n + 3 * D) * D * 8 + working(facts)
    if rates is None:
        return Cost(memory, None)
    seconds = (2.0 * n * D * D) / rates.gemm + D**3 / 3 / rates.potrf + 8 * 8 * n * D / rates.read
    return Cost(memory, seconds)


def cg_rank(n: int, budget: int) -> int:
    """Return the rank of the preconditioner of conjugate gradients."""
    return min(max(50, n // 20), 2000, max(1, budget // (32 * n)), n)


def cg_steps(facts: Facts, sketch: Sketch, alpha: float, tol: float) -> int:
    """Return the steps expected: ½√κ ln(2/tol), κ = 1 + λ/α, λ what the preconditioner leaves."""
    rank = cg_rank(facts.n, facts.budget)
    left = sketch.eigenvalue(rank, facts.n)
    if left <= 0:
        return 2
    if alpha <= 0:
        return CG_STEPS
    kappa = 1.0 + left / alpha
    return max(2, min(CG_STEPS, math.ceil(0.5 * math.sqrt(kappa) * math.log(2 / tol))))


def cg(
    facts: Facts,
    rates: Rates | None,
    sketch: Any = None,
    *,
    alpha: float = 1.0,
    tol: float = 1e-6,
) -> Cost:
    """Products with K, kept where it takes at most half the budget, else made in tiles each time.

    The preconditioner of rank r takes two n × r matrices, nr kernel values and 3nr² operations.
    """
    n, t = facts.n, facts.outputs + 1
    rank = cg_rank(n, facts.budget)
    stored = 8 * n * n <= facts.budget // 2 and not facts.given
    vectors = 8 * n * 10 * t + 2 * 8 * n * rank
    memory = (8 * n * n if stored else 0) + vectors + working(facts)
    if rates is None:
        return Cost(memory, None)
    steps = cg_steps(facts, sketch, alpha, tol) + 2
    setup = sketch.rate.seconds(n * rank, n) + 3.0 * n * rank * rank / rates.gemm
    if stored or facts.given:
        product = 8.0 * n * n * (1 + t // 16) / rates.read
        setup += 0.0 if facts.given else _gram_seconds(facts, sketch.rate)
    else:
        product = _gram_seconds(facts, sketch.rate) + 4.0 * n * n * t / rates.gemm
    apply = 4.0 * n * rank * (1 + t // 16) * 8 / rates.read
    return Cost(memory, setup + steps * (product + apply))


def falkon(facts: Facts, rates: Rates | None, sketch: Any = None, *, centers: int = 1) -> Cost:
    """m³ operations for the preconditioner in one m × m matrix, nm kernel values a pass."""
    n, m, t = facts.n, centers, facts.outputs + 1
    rows = 8 * n * facts.outputs if not facts.stream else 0
    memory = (
        2 * 8 * m * m
        + 8 * m * (facts.columns + 10 * t)
        + rows
        + working(Facts(m, facts.outputs, facts.columns))
    )
    if rates is None:
        return Cost(memory, None)
    gemm = rates.gemm_single if facts.itemsize == 4 else rates.gemm
    one = sketch.rate.seconds(n * m, n) + 4.0 * n * m * t / gemm
    setup = m**3 / rates.potrf + sketch.rate.seconds(0.5 * m * m, m)
    return Cost(memory, setup + (FALKON_STEPS + 2) * one)
