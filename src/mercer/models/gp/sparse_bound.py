"""Titsias' collapsed bound: a lower bound of the log evidence from m inducing points, streamed.

With u the function at the inducing points, Q = K_fu K_uu⁻¹ K_uf, P = diag(w/σ²), τ = tr P(K − Q),

    F = log N(z | 0, Q + P⁻¹) − τ/2 ≤ log N(z | 0, K + P⁻¹)

(Titsias, Variational learning of inducing variables in sparse Gaussian processes, AISTATS 2009).
K_uu = LLᵀ, A = L⁻¹K_uf, S = APAᵀ, B = I + S, b = APz, γ = B⁻¹b turn it into

    F = −½ Σ w log 2πσ² − ½ log|B| − ½ zᵀPz + ½ bᵀγ − ½ τ,  τ = tr PK − tr S.

F depends on A through AᵀA alone, so with Ȧ = ∂F/∂A the derivatives are ∂F/∂K_uf = L⁻ᵀȦ and
∂F/∂K_uu = −½ L⁻ᵀ ȦAᵀ L⁻¹. Here Ȧ = [(I − B⁻¹) − γγᵀ]AP + γzᵀP, and ȦAᵀ = SB⁻¹S + γγᵀ. No
difference of nearly equal matrices is left: I − B⁻¹ = B⁻¹S. Of several outputs the F are added.

An upper bound of the evidence comes from the same numbers: K ⪰ Q bounds the determinant, and
K + P⁻¹ ⪯ Q + (1 + τ)P⁻¹ the quadratic form (Titsias 2014; Burt, Rasmussen & van der Wilk, JMLR
2020).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky

from mercer.engines.threads import solve_rows
from mercer.kernels import Kernel
from mercer.models.gp.sparse_checks import EPS
from mercer.models.gp.sparse_evidence import Pass, SparseEvidence, solve_left

__all__ = ["CollapsedBound"]


class CollapsedBound(SparseEvidence):
    """Titsias' bound, of repeated rows where there are weights; see the head of the file."""

    def _evaluate(self, first: Pass, noise: np.ndarray) -> None:
        first.slack = max(0.0, float(first.diagonal @ first.precision - np.trace(first.S)))
        self._constant = -0.5 * self.t * float(np.sum(self.w * np.log(2 * np.pi * noise)))
        first.value = self._constant + self._quadratic(first) - 0.5 * self.t * first.slack

    def _second(
        self, first: Pass, kernel: Kernel, noise: Any, outer: Any
    ) -> tuple[np.ndarray, float, np.ndarray | None, np.ndarray]:
        t, L, LB, S, p = self.t, first.lower, first.posterior, first.S, first.precision
        share = cho_solve((LB, True), S, check_finite=False)  # I − B⁻¹
        M = 0.5 * t * (share + share.T) - first.gamma @ first.gamma.T
        alpha = solve_left(L, first.gamma.copy(order="F"), 1)
        R, right = M, first.gamma
        if not first.whitened:
            R = solve_left(L, M.copy(order="F"), 1)
            R, right = solve_left(L, np.asfortranarray(R.T), 1), alpha
        scale = p[0] if first.uniform else 1.0
        R, right = np.ascontiguousarray(scale * R), scale * right

        def step(sums: list[np.ndarray], rows: slice, T: np.ndarray) -> np.ndarray:
            if first.whitened:
                solve_rows(L, T)
            W = T @ R
            W += self.Z[rows] @ right.T
            if first.whitened:
                solve_rows(L, W, transposed=True)
            if not first.uniform:
                W *= p[rows, None]
            return W

        gradient, moved = np.zeros(len(kernel.theta)), None
        if len(gradient) or outer is not None:
            gradient, moved, _ = self._pull(first, kernel, outer, step)
        if len(gradient):
            gradient = gradient + kernel._pull_diag(self.X, np.broadcast_to(-0.5 * t * p, self.n))
        square = float(np.einsum("it,it,i->", self.Z, self.Z, p))
        noise_gradient = (
            -0.5 * float((M * S).sum())
            - float((first.b * first.gamma).sum())
            + 0.5 * (square + t * float(first.diagonal @ p) - t * float(np.sum(self.w)))
        )
        # ȦAᵀ = YᵀY + γγᵀ with Y = LB⁻¹S, so ∂F/∂K_uu = −½(t VᵀV + ααᵀ) with V = YL⁻¹.
        Y = solve_left(LB, S.copy(order="F"))
        V = solve_left(L, np.asfortranarray(Y.T), 1)
        return gradient, noise_gradient, moved, -0.5 * (t * (V @ V.T) + alpha @ alpha.T)

    def _upper(self, first: Pass) -> float:
        """Return U with zᵀ(Q + aP⁻¹)⁻¹z = (zᵀPz − bᵀ(aI + S)⁻¹b)/a, a = 1 + τ.

        τ is a difference of traces; what rounding may have taken from it is added.
        """
        rounding = EPS * len(first.S) * float(first.diagonal @ first.precision)
        a = 1.0 + first.slack + rounding
        square = float(np.einsum("it,it,i->", self.Z, self.Z, first.precision))
        root = cholesky(first.S + a * np.eye(len(first.S)), lower=True, check_finite=False)
        c = solve_left(np.asfortranarray(root), first.b.copy(order="F"))
        logdet = float(np.log(np.diagonal(first.posterior)).sum())
        return self._constant - self.t * logdet - 0.5 * (square - float((c * c).sum())) / a
