"""The preconditioner of Falkon: two triangular factors of m × m matrices in one buffer."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains.vectors import is_torch
from mercer.errors import InvalidInput, NotPositiveDefinite
from mercer.solvers.falkon_buffer import HostBuffer

__all__ = ["FalkonPreconditioner"]

EPS = float(np.finfo(np.float64).eps)
SINGLE = 2.0 * float(np.finfo(np.float32).eps)  # of rounding of kernel values made of distances
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
    a column.

    Parameters
    ----------
    gram : ndarray or tensor of shape (m, m)
        K_ZZ; destroyed where it is float64 and contiguous.
    owner : str
        Whose messages these are.
    weight : float, default=0.0
        Σw/alpha where the values in K are float32, else 0.

    References
    ----------
    Rudi, Carratino, Rosasco, "FALKON: an optimal large scale kernel method", NeurIPS 2017; Meanti,
    Carratino, Rosasco, Rudi, "Kernel methods through the roof", NeurIPS 2020 (the shared buffer);
    Marteau-Ferey, Bach, Rudi, "Globally convergent Newton methods for ill-conditioned generalized
    self-concordant losses", NeurIPS 2019 (D).
    """

    def __init__(self, gram: Any, owner: str = "Falkon", weight: float = 0.0):
        self.m = int(gram.shape[0])
        if is_torch(gram):
            from mercer.solvers.falkon_device import DeviceBuffer

            self.buffer: Any = DeviceBuffer(gram)
        else:
            self.buffer = HostBuffer(gram)
        self._update: tuple[np.ndarray, float] | None = None
        diagonal = self.buffer.diagonal()
        if not np.isfinite(diagonal).all():
            raise InvalidInput(
                f"{owner}: the kernel matrix of the centres holds NaN or infinity; check the "
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
            f"{owner}: the kernel matrix of the {self.m} centres is not positive semidefinite: it "
            f"has no Cholesky factor after a jitter of {self.jitter:.3g}. Test the kernel with "
            "mercer.check_kernel."
        )

    def prepare(
        self, total: float, alpha: float, offset: bool = False, d: np.ndarray | None = None
    ) -> bool:
        """Make M for a total weight; False where alpha is too small for it to have a factor.

        Parameters
        ----------
        total : float
            Σw, or Σ of the curvatures.
        alpha : float
            The penalty ≥ 0.
        offset : bool, default=False
            Whether the constant is projected out.
        d : ndarray of shape (m,), optional
            How much the rows near each centre weigh; the mean is taken out.
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

    def _inner(self, S: np.ndarray) -> np.ndarray:
        return np.asarray(self.buffer.solve_upper(self.buffer.solve_upper(S, transpose=True)))
