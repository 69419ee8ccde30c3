"""Falkon's preconditioner, and those from a sketch or a sample of the rows of K in its place."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import blas

from mercer.domains import is_torch
from mercer.errors import InvalidInput, NotPositiveDefinite, speaks, who
from mercer.lapack import MANY, dlauum, dpotrf, dtrmm, dtrsm
from mercer.memory import require_memory
from mercer.settings import get_config
from mercer.solvers.falkon.steps import RowSketch
from mercer.solvers.linear import TINY, DeviceBuffer, cuts, fortran_float64, mirror, potrf, restore

# ---- Two triangular factors in one m × m array of NumPy's, by LAPACK in place ----


PANEL = 64


class HostBuffer:
    """L with L Lᵀ = K + δI below the diagonal, U with UᵀU = LᵀDL + αI above it.

    K, an m × m array, is destroyed where it is float64 and contiguous.
    """

    def __init__(self, gram: Any):
        self.a = fortran_float64(np.asarray(gram), overwrite=True)
        self._kept = np.diagonal(self.a).copy()
        self._low = self._up = self._kept
        self._fresh = True

    def diagonal(self) -> np.ndarray:
        """Return the diagonal of K."""
        return self._kept

    def factor_gram(self, jitter: float) -> bool:
        """Make L; False where K + jitter·I has none."""
        if not self._fresh:
            restore(self.a, self._kept)
        self._set(self._kept + jitter)
        self._fresh = False
        done = potrf(self.a)
        self._low = np.diagonal(self.a).copy()
        return done

    def factor_inner(self, root: np.ndarray, alpha: float) -> bool:
        """Make U with UᵀU = LᵀDL + alpha·I, D = diag(root)²; False where there is none."""
        a, m = self.a, len(self.a)
        for i, j in cuts(m, PANEL):  # above the diagonal, (D^½ L)ᵀ
            corner = np.tril(a[i:j, i:j], -1)
            a[i:j, i:j] = corner + np.triu((corner * root[i:j, None]).T, 1)
            a[i:j, j:] = (a[j:, i:j] * root[j:, None]).T
        self._set(self._low * root)
        if m == 0:
            return True
        _, info = dlauum(a, lower=0, overwrite_c=1)
        self._set(np.diagonal(a) + alpha)
        _, info = dpotrf(a, lower=0, clean=0, overwrite_a=1)
        self._up = np.diagonal(a).copy()
        return info == 0 and bool(np.isfinite(self._up).all())

    def lower(self, V: np.ndarray, transpose: bool = False) -> np.ndarray:
        """Return L V or LᵀV."""
        self._set(self._low)
        multiply = dtrmm if len(self.a) > MANY else blas.dtrmm
        return np.asarray(multiply(1.0, self.a, V, lower=1, trans_a=int(transpose)))

    def solve_lower(
        self, V: np.ndarray, transpose: bool = False, overwrite: bool = False
    ) -> np.ndarray:
        """Return L⁻¹V or L⁻ᵀV; in the place of V if that may be, and is in Fortran order."""
        self._set(self._low)
        solve = dtrsm if len(self.a) > MANY else blas.dtrsm
        done = solve(1.0, self.a, V, lower=1, trans_a=int(transpose), overwrite_b=int(overwrite))
        return np.asarray(done)

    def solve_upper(self, V: np.ndarray, transpose: bool = False) -> np.ndarray:
        """Return U⁻¹V or U⁻ᵀV."""
        self._set(self._up)
        solve = dtrsm if len(self.a) > MANY else blas.dtrsm
        return np.asarray(solve(1.0, self.a, V, lower=0, trans_a=int(transpose)))

    def triangle(self) -> np.ndarray:
        """Return L, with other numbers above the diagonal; until anything else is asked."""
        self._set(self._low)
        return self.a

    def _set(self, diagonal: np.ndarray) -> None:
        np.einsum("ii->i", self.a)[...] = diagonal


# ---- The preconditioner of Falkon: two triangular factors of m × m matrices in one buffer ----


EPS = float(np.finfo(np.float64).eps)
SINGLE = 2.0 * float(np.finfo(np.float32).eps)  # of rounding of kernel values made of distances
INVERSE = 4  # iterations for the least eigenvalue, to within a factor of two or so
RUNGS = (1.0, 10.0, 1e2, 1e3, 1e4, 1e5)  # times m·eps·mean(diagonal): what may be added to K_ZZ


class FalkonPreconditioner:
    """P ≈ KᵀWK + αK_ZZ − ccᵀ/Σw for centres Z drawn from the rows, solved with in O(m²).

    With K_ZZ + δI = L Lᵀ and KᵀWK ≈ (Σw/m) K_ZZ D K_ZZ, D = diag(d) with mean 1,

        P = L M Lᵀ,   M = (Σw/m) Lᵀ(D − ddᵀ/m)L + αI = UᵀU − uuᵀ,   u = √(Σw)/m · Lᵀd,

    the rank-one term only where an offset is fitted. L is kept below and U above the diagonal of
    one float64 buffer, with the two diagonals beside it. δ is m·eps times the mean of the diagonal,
    or more where that is not enough: duplicated centres are no obstacle. Where the values in K are
    float32 the problem has a ridge of its own, Σw·(2·eps₃₂·scale)²/alpha, which is a part of δ.

    Cost: m³ flops (two Cholesky factors and LᵀL), no memory beside the buffer; each solve 4m² flops
    a column. `gram` is K_ZZ, destroyed where it is float64 and contiguous; `weight` is Σw/alpha
    where the values in K are float32, else 0.

    References
    ----------
    Rudi, Carratino, Rosasco, "FALKON: an optimal large scale kernel method", NeurIPS 2017; Meanti,
    Carratino, Rosasco, Rudi, "Kernel methods through the roof", NeurIPS 2020 (the shared buffer);
    Marteau-Ferey, Bach, Rudi, "Globally convergent Newton methods for ill-conditioned generalized
    self-concordant losses", NeurIPS 2019 (D).
    """

    @speaks("Falkon", unless_spoken=True)
    def __init__(self, gram: Any, weight: float = 0.0):
        self.m, self._least = int(gram.shape[0]), 0.0
        self.buffer: Any = DeviceBuffer(gram) if is_torch(gram) else HostBuffer(gram)
        self._update: tuple[np.ndarray, float] | None = None
        diagonal = self.buffer.diagonal()
        if not np.isfinite(diagonal).all():
            raise InvalidInput(
                f"{who()}: the kernel matrix of the centres holds NaN or infinity; check the "
                "centres for NaN and the kernel's parameters for overflow."
            )
        mean = float(np.mean(diagonal)) if self.m else 1.0
        self.scale = mean if mean > 0 else 1.0  # of the entries of K_ZZ
        self.ridge = weight * (SINGLE * self.scale) ** 2
        if not np.isfinite(self.ridge):  # no penalty: P alone has it
            self.ridge = 10 * SINGLE * self.m * self.scale
        for rung in RUNGS:
            self.jitter = rung * max(self.m, 10) * EPS * self.scale
            self.delta = self.jitter + self.ridge
            if self.buffer.factor_gram(self.delta):
                return
        raise NotPositiveDefinite(
            f"{who()}: the kernel matrix of the {self.m} centres is not positive semidefinite: it "
            f"has no Cholesky factor after a jitter of {self.jitter:.3g}. Test the kernel with "
            "mercer.check_kernel."
        )

    def least(self) -> float:
        """Return about the least eigenvalue of K_ZZ + δI, at least δ, by inverse iterations."""
        if self._least:
            return self._least
        v = np.random.default_rng(SEED).standard_normal((self.m, 1))
        for _ in range(INVERSE):
            v /= max(float(np.linalg.norm(v)), TINY)
            half = self.buffer.solve_lower(v)
            v = self.buffer.solve_lower(half, transpose=True)
        grown = float(np.einsum("ij,ij->", half, half))
        self._least = max(self.delta, 0.5 / grown if grown > 0 else 0.0)
        return self._least

    def prepare(
        self, total: float, alpha: float, offset: bool = False, d: np.ndarray | None = None
    ) -> bool:
        """Make M for a total weight; False where alpha is too small for it to have a factor.

        With an offset the constant is projected out. d, of shape (m,), says how much the rows near
        each centre weigh; the mean is taken out.
        """
        d = np.ones(self.m) if d is None else d / d.mean()
        gain = total / self.m
        self._update = None
        if not self.buffer.factor_inner(np.sqrt(gain * d), alpha):
            return False
        if offset:
            u = np.sqrt(total) / self.m * self.buffer.lower(d[:, None], transpose=True)
            Mu = self._inner(u)
            self._update = Mu, max(1.0 - float(u[:, 0] @ Mu[:, 0]), 64 * EPS)
        return True

    def apply(self, R: np.ndarray) -> np.ndarray:
        """Return P⁻¹R."""
        S = self.buffer.solve_lower(R)
        out = self._inner(S)
        if self._update is not None:  # Sherman, Morrison
            Mu, rest = self._update
            out += Mu @ (Mu.T @ S) / rest
        return np.asarray(self.buffer.solve_lower(out, transpose=True))

    def gram(self, V: np.ndarray) -> np.ndarray:
        """Return (K_ZZ + δI)V = L(LᵀV)."""
        return np.asarray(self.buffer.lower(self.buffer.lower(V, transpose=True)))

    def rounding(self, V: np.ndarray, alpha: float) -> np.ndarray:
        """Return what rounding of alpha·L(LᵀV) adds to ‖L⁻¹r‖²/(2 alpha), for each column.

        Each of m sums of LᵀV is rounded by eps·√scale·‖v‖, which L⁻¹ takes to itself, and each of
        the product with L by eps·√scale·‖LᵀV‖, of which L⁻¹ makes up to 1/√δ.
        """
        S = self.buffer.lower(V, transpose=True)
        squares = np.einsum("ij,ij->j", S, S) / self.delta + np.einsum("ij,ij->j", V, V)
        return np.asarray(0.5 * alpha * self.m * EPS**2 * self.scale * squares)

    def rounding_of_factor(self, V: np.ndarray, alpha: float) -> np.ndarray:
        """Return what LLᵀ in place of K_ZZ + δI, each entry off by eps·scale, may hide of a gap."""
        squares = self.scale**2 / self.delta * np.einsum("ij,ij->j", V, V)
        return np.asarray(0.5 * alpha * self.m * EPS**2 * squares)

    def _inner(self, S: np.ndarray) -> np.ndarray:
        return np.asarray(self.buffer.solve_upper(self.buffer.solve_upper(S, transpose=True)))


# ---- falkon krill ----


RATIO = 8  # rows of a sample for each centre
SHARE = 4  # the part of the budget that it may take
WORTH = 240  # values of A for each row up to which a sample is worth its cost
SEED = 20230424  # the sketch is part of the answer's bits
DENSE = 2048  # centres up to which a dense sketch takes no longer than some passes
MATRICES = 6  # of m × m: sums in two lanes, twice M, or less and more lanes
FINE = 0.1  # part of alpha up to which M may be rounded
KRILL_RUNGS = (1.0, 1e2, 1e4, 1e6)  # times eps·trace(M): what may be added to M


def regular_factor(M: np.ndarray, alpha: float) -> bool:
    """Factorise M + alpha·I in place, with a little more where it is singular.

    Of M the lower triangle is read, and in Fortran order; False where there is no factor.
    """
    trace = float(np.trace(M))
    kept = np.diagonal(M) + alpha
    mirror(M.T)
    for rung in KRILL_RUNGS:
        restore(M, kept + (rung * EPS * trace if trace > 0 else float(alpha == 0)))
        if potrf(M):
            return True
    return False


class KrillPreconditioner:
    """P = GᵀG + α(K_ZZ + δI) with G = ΦW^½K, Φ a sparse sign embedding of the n rows in 2m.

    ‖Gv‖² is ‖W^½Kv‖² up to a constant factor for all v, with high probability, so that P⁻¹ times
    the system has a bounded condition number for every kernel, every choice of centres and every
    α ≥ 0. With an offset W^½K is centred: G − (Φu)cᵀ, u = √w/Σw. With K_ZZ + δI = LLᵀ it is kept as

        P = L M Lᵀ,   M = (GL⁻ᵀ)ᵀ(GL⁻ᵀ) + αI,

    since GᵀG itself would round away all of it that is below eps·trace(GᵀG), and is made only where
    that is less than αδ.

    Cost: one pass with some more work, 6m³ flops, five m × m matrices. G of shape (m, size) is the
    sketch, transposed, and is destroyed; `made` is the `FalkonPreconditioner` that holds L.

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
        self.factor = M
        if not regular_factor(M, alpha):
            raise NotPositiveDefinite(
                "Falkon: the sketched system has no Cholesky factor; use a larger alpha, or test "
                "the kernel with mercer.check_kernel."
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
        G, sums = system.pull(probe(m), RowSketch(2 * m, SEED))
        if system.offset:
            # Φ(I − uuᵀ)W^½K = G − Φ√w · cᵀ/Σw
            G -= system.c * sums
        return cls(G, system.preconditioner, system.alpha)

    @staticmethod
    def fits(made: Any) -> bool:
        """Whether there is room for the sketch, and time: on a device it is a dense product."""
        dense = not isinstance(made.buffer, HostBuffer)
        fits = MATRICES * 8 * made.m**2 <= get_config().memory
        return fits and (made.m <= DENSE or not dense)

    def apply(self, R: np.ndarray) -> np.ndarray:
        """Return P⁻¹R."""
        S = self.buffer.solve_lower(R)
        solve = dtrsm if len(self.factor) > MANY else blas.dtrsm
        for transpose in (0, 1):
            S = solve(1.0, self.factor, S, lower=1, trans_a=transpose, overwrite_b=1)
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
        """Return the preconditioner of a system, None where a sample is not to be had."""
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
