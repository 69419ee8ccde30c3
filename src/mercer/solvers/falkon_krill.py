"""Preconditioners from a sketch or a sample of the rows of K, in the place of Falkon's own."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import dtrsm

from mercer.engines.budget import require_memory
from mercer.errors import NotPositiveDefinite
from mercer.settings import get_config
from mercer.solvers.falkon_buffer import HostBuffer
from mercer.solvers.falkon_preconditioner import EPS
from mercer.solvers.falkon_steps import Sketch
from mercer.solvers.inplace import potrf, restore

__all__ = [
    "KrillPreconditioner",
    "SampledPreconditioner",
    "probe",
    "sample_memory",
    "sample_size",
    "sample_worth",
]

RATIO = 8  # rows of a sample for each centre
SHARE = 4  # the part of the budget that it may take
WORTH = 240  # values of A for each row up to which a sample is worth its cost
SEED = 20230424  # the sketch is part of the answer's bits
DENSE = 2048  # centres up to which a dense sketch takes no longer than some passes
MATRICES = 6  # of m × m: sums in two lanes, twice M, or less and more lanes
FINE = 0.1  # part of alpha up to which M may be rounded
RUNGS = (1.0, 1e2, 1e4, 1e6)  # times eps·trace(M): what may be added to M


class KrillPreconditioner:
    """P = GᵀG + α(K_ZZ + δI) with G = ΦW^½K, Φ a sparse sign embedding of the n rows in 2m.

    ‖Gv‖² is ‖W^½Kv‖² up to a constant factor for all v, with high probability, so that P⁻¹ times
    the system has a bounded condition number for every kernel, every choice of centres and every
    α ≥ 0. With an offset W^½K is centred: G − (Φu)cᵀ, u = √w/Σw. With K_ZZ + δI = LLᵀ it is kept as

        P = L M Lᵀ,   M = (GL⁻ᵀ)ᵀ(GL⁻ᵀ) + αI,

    since GᵀG itself would round away all of it that is below eps·trace(GᵀG), and is made only where
    that is less than αδ.

    Cost: one pass with some more work, 6m³ flops, five m × m matrices.

    Parameters
    ----------
    G : ndarray of shape (m, size)
        The sketch, transposed; destroyed.
    made : FalkonPreconditioner
        Holds L.
    alpha : float
        The penalty.

    References
    ----------
    Díaz, Epperly, Frangella, Tropp, Webber, "Robust, randomized preconditioning for kernel ridge
    regression", arXiv:2304.12465.
    """

    def __init__(self, G: np.ndarray, made: Any, alpha: float):
        self.buffer = made.buffer
        solve = self.buffer.solve_lower
        squares = float(np.einsum("ij,ij->", G, G))
        if EPS * squares <= FINE * alpha * made.delta:  # rounding of GGᵀ stays below alpha
            M = solve(solve(np.dot(G, G.T).T, overwrite=True).T)
            M = np.asfortranarray(0.5 * (M + M.T))
        else:
            S = solve(G, overwrite=True)
            M = np.dot(S, S.T).T  # in Fortran order
        trace = float(np.trace(M))
        kept = np.diagonal(M) + alpha
        self.factor = M
        for rung in RUNGS:
            restore(M, kept + (rung * EPS * trace if trace > 0 else float(alpha == 0)))
            if potrf(M):
                return
        raise NotPositiveDefinite(
            "Falkon: the sketched system has no Cholesky factor; use a larger alpha, or test the "
            "kernel with mercer.check_kernel."
        )

    @classmethod
    def of(cls, system: Any) -> KrillPreconditioner:
        """Return the preconditioner of a system, by one pass over its rows."""
        m = system.m
        require_memory(
            MATRICES * 8 * m * m,
            f"Falkon: the sketch that alpha={system.alpha:g} needs with {m} centres",
            "Use a larger alpha or fewer centres",
        )
        G, sums = system.pull(probe(m), Sketch(2 * m, SEED))
        if system.offset:
            # Φ(I − uuᵀ)W^½K = G − Φ√w · cᵀ/Σw
            G -= system.c * sums
        return cls(G, system.preconditioner, system.alpha)

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
        S = self.buffer.solve_lower(R)
        for transpose in (0, 1):
            S = dtrsm(1.0, self.factor, S, lower=1, trans_a=transpose, overwrite_b=1)
        return np.asarray(self.buffer.solve_lower(S, transpose=True))


def probe(m: int) -> np.ndarray:
    """Return what K is multiplied by to tell the rows apart that a sketch is drawn for."""
    column = np.random.default_rng(SEED).standard_normal((m, 1))
    return column.astype(np.float32).astype(np.float64)


class SampledPreconditioner(KrillPreconditioner):
    """P = AᵀA + α(K_ZZ + δI) with the rows A = √(w/p) k(x, Z) of s = 8m random x, or of all.

    A row is drawn with a probability p that is proportional to its weight, or 1 if it is heavy.

    Of all rows it is the system itself, but for rounding: a direct solve, and what follows refines
    it. Falkon's preconditioner takes the centres themselves for a sample of the rows, of size m;
    eight times as many halve the iterations or better. Where few rows matter much a sample misses
    them, and the sketch of `KrillPreconditioner` is called for.

    Cost: s·m kernel values and s·m² flops, which must be no more than some passes.
    """

    @classmethod
    def drawn(cls, system: Any, size: int) -> SampledPreconditioner | None:
        """Return the preconditioner of a system, None where a sample is not to be had.

        Parameters
        ----------
        system : CentredSystem
            The system.
        size : int
            Rows of the sample, see `sample_size`.
        """
        found = system.rows.sample(size, SEED) if size else None
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
            return cls(A.T, system.preconditioner, system.alpha)
        except NotPositiveDefinite:
            return None


def sample_size(system: Any, whole: bool = False) -> int:
    """Return the rows of a sample, or of all, 0 where there is no room for them."""
    n, m = int(system.rows.n), system.m
    size = n if whole else min(n, RATIO * m)
    room = sample_memory(m, size) <= get_config().memory // SHARE
    return size if room and hasattr(system.rows, "sample") else 0


def sample_worth(m: int, n: int) -> bool:
    """Whether a sample of n rows costs no more than some passes."""
    return m * min(n, RATIO * m) <= WORTH * n


def sample_memory(m: int, size: int) -> int:
    """Return the bytes that a sample takes."""
    return 8 * m * (size + 4 * m)
