"""Preconditioners from a sketch or a sample of the rows of K, in the place of Falkon's own."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf

from mercer.engines.blocks import require_memory
from mercer.errors import NotPositiveDefinite
from mercer.settings import get_config
from mercer.solvers.falkon_buffer import HostBuffer
from mercer.solvers.falkon_preconditioner import EPS
from mercer.solvers.falkon_steps import Sketch

__all__ = ["KrillPreconditioner", "SampledPreconditioner"]

RATIO = 8  # rows of a sample for each centre
WORTH = 240  # values of A for each row up to which a sample is worth its cost
SEED = 20230424  # the sketch is part of the answer's bits
DENSE = 2048  # centres up to which a dense sketch takes no longer than some passes
MATRICES = 6  # of m × m: sums in two lanes, K_ZZ and the factor
RUNGS = (1.0, 1e2, 1e4, 1e6)  # times eps·trace(P): what may be added to P


class KrillPreconditioner:
    """P = GᵀG + α(K_ZZ + δI) with G = ΦW^½K, Φ a sparse sign embedding of the n rows in 2m.

    ‖Gv‖² is ‖W^½Kv‖² up to a constant factor for all v, with high probability, so that P⁻¹ times
    the system has a bounded condition number for every kernel, every choice of centres and every
    α ≥ 0. With an offset W^½K is centred: G − (Φu)cᵀ, u = √w/Σw.

    Cost: one pass with some more work, 3m³ flops, four m × m matrices.

    Parameters
    ----------
    G : ndarray of shape (m, size)
        The sketch, transposed; destroyed.
    K : ndarray of shape (m, m)
        K_ZZ + δI; destroyed.
    alpha : float
        The penalty.

    References
    ----------
    Díaz, Epperly, Frangella, Tropp, Webber, "Robust, randomized preconditioning for kernel ridge
    regression", arXiv:2304.12465.
    """

    name = "krill"
    final = True  # whether none is better

    def __init__(self, G: np.ndarray, K: np.ndarray, alpha: float):
        P = G @ G.T
        K *= alpha
        P += K
        m = len(P)
        trace = float(np.trace(P))
        kept = np.diagonal(P).copy()
        for rung in RUNGS:
            P[np.diag_indices(m)] = kept + (rung * EPS * trace if trace > 0 else 1.0)
            self.U, info = dpotrf(P, lower=0, clean=0)
            if info == 0 and np.isfinite(np.diagonal(self.U)).all():
                return
        raise NotPositiveDefinite(
            "Falkon: the sketched system has no Cholesky factor; use a larger alpha, or test the "
            "kernel with mercer.check_kernel."
        )

    @classmethod
    def of(cls, system: Any) -> KrillPreconditioner:
        """Return the preconditioner of a system, by one pass over its rows."""
        m = system.m
        size = 2 * m
        require_memory(
            MATRICES * 8 * m * m,
            f"Falkon: the sketch that alpha={system.alpha:g} needs with {m} centres",
            "Use a larger alpha or fewer centres",
        )
        probe = np.random.default_rng(SEED).standard_normal((m, 1)).astype(np.float32)
        G, sums = system.pull(probe.astype(np.float64), Sketch(size, SEED))
        if system.offset:
            # Φ(I − uuᵀ)W^½K = G − Φ√w · cᵀ/Σw
            G -= system.c * sums
        return cls(G, system.preconditioner.gram(np.eye(m)), system.alpha)

    @staticmethod
    def fits(made: Any) -> bool:
        """Whether there is room for the sketch, and time: on a device it is a dense product.

        Parameters
        ----------
        made : FalkonPreconditioner
            The preconditioner whose place it would take.
        """
        dense = not isinstance(made.buffer, HostBuffer)
        fits = MATRICES * 8 * made.m**2 <= get_config().memory
        return fits and (made.m <= DENSE or not dense)

    def apply(self, R: np.ndarray) -> np.ndarray:
        """Return P⁻¹R."""
        half = solve_triangular(self.U, R, trans=1, check_finite=False)
        return np.asarray(solve_triangular(self.U, half, check_finite=False))


class SampledPreconditioner(KrillPreconditioner):
    """P = AᵀA + α(K_ZZ + δI) with the rows A = √(w/p) k(x, Z) of s = 8m random x.

    A row is drawn with a probability p that is proportional to its weight, or 1 if it is heavy.

    Falkon's preconditioner takes the centres themselves for a sample of the rows, of size m; eight
    times as many halve the iterations or better. Where few rows matter much a sample misses them,
    and the sketch of `KrillPreconditioner` is called for.

    Cost: s·m kernel values and s·m² flops, which must be no more than some passes.
    """

    name = "sampled"

    @classmethod
    def drawn(cls, system: Any, dear: bool = False) -> SampledPreconditioner | None:
        """Return the preconditioner of a system, None where a sample is not to be had or dear.

        Parameters
        ----------
        system : CentredSystem
            The system.
        dear : bool, default=False
            Whether it may cost more than some passes.
        """
        m, n = system.m, int(system.rows.n)
        size = min(n, RATIO * m)
        room = 8 * m * (size + 4 * m) <= get_config().memory // 4
        taken = dear or m * size <= WORTH * n
        if not room or not taken or not hasattr(system.rows, "sample"):
            return None
        found = system.rows.sample(size, SEED)
        if found is None:
            return None
        A, u = found
        if not u.any():
            return None
        ratio = system.total / float(u @ u)
        if abs(ratio - 1.0) > 1e-9:
            A *= np.sqrt(ratio)
        if system.offset:
            A -= np.outer(u, (u @ A) / (u @ u))
        try:
            made = cls(A.T, system.preconditioner.gram(np.eye(m)), system.alpha)
        except NotPositiveDefinite:
            return None
        made.final = size == n
        return made
