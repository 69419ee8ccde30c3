"""FITC: the evidence of a process that is exact at each row and low-rank between them, streamed.

The covariance K is replaced by Q + diag(K − Q), so the rows have the noise λ = k − q + σ² and

    F = log N(z | 0, Q + diag λ),  qᵢ = ‖aᵢ‖², A = L⁻¹K_uf

(Snelson & Ghahramani, Sparse Gaussian processes using pseudo-inputs, NIPS 2005; named by
Quiñonero-Candela & Rasmussen, JMLR 2005). A row of weight w is w rows, each with an own share of
diag(K − Q): with p = w/λ, P = diag p and the letters of `sparse_bound`,

    F = −½ Σ w log 2πλ − ½ log|B| − ½ zᵀPz + ½ bᵀγ.

One pass knows aᵢ, hence λᵢ, hence S and b. With r = z − Aᵀγ and hᵢ = pᵢ²/2wᵢ·(aᵢᵀB⁻¹aᵢ + rᵢ²) the
derivative in λᵢ is gᵢ = hᵢ − pᵢ/2, and Ȧ = −B⁻¹AP + γrᵀP − 2A diag(g), so that
ȦAᵀ = SB⁻¹S + γγᵀ − 2A diag(h)Aᵀ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_solve

from mercer.engines.threads import add_square, solve_rows
from mercer.kernels import Kernel
from mercer.models.gp.sparse_evidence import Pass, SparseEvidence, solve_left
from mercer.solvers.linear.inplace import mirror

__all__ = ["FITC"]


class FITC(SparseEvidence):
    """FITC's log evidence; no bound of the exact one. See the head of the file."""

    def _must_whiten(self, first: Pass, rcond: float) -> bool:
        return True  # qᵢ is wanted row by row

    def _roots(self, first: Pass, noise: np.ndarray) -> Any:
        first.uniform, first.precision = False, np.empty(self.n)

        def root(rows: slice, T: np.ndarray) -> np.ndarray:
            q = first.explained[rows]
            p = self.w[rows] / (np.maximum(first.diagonal[rows] - q, 0.0) + noise[rows])
            first.precision[rows] = p
            return np.sqrt(p)

        return root

    def _evaluate(self, first: Pass, noise: np.ndarray) -> None:
        spread = (
            -0.5 * self.t * float(np.sum(self.w * np.log(2 * np.pi * self.w / first.precision)))
        )
        first.value = spread + self._quadratic(first)

    def _second(
        self, first: Pass, kernel: Kernel, noise: Any, outer: Any
    ) -> tuple[np.ndarray, float, np.ndarray | None, np.ndarray]:
        t, L, LB, S, p = self.t, first.lower, first.posterior, first.S, first.precision
        m = len(L)
        inverse = np.asfortranarray(cho_solve((LB, True), np.eye(m), check_finite=False))
        gamma = np.asfortranarray(first.gamma)
        g = np.empty(self.n)

        def step(sums: list[np.ndarray], rows: slice, T: np.ndarray) -> np.ndarray:
            solve_rows(L, T)
            W = T @ inverse
            r = self.Z[rows] - T @ gamma
            part = p[rows]
            h = 0.5 * t * np.einsum("ij,ij->i", T, W) + 0.5 * np.einsum("ij,ij->i", r, r)
            h *= part**2 / self.w[rows]
            g[rows] = h - 0.5 * t * part
            W *= (-t * part)[:, None]
            W += (r * part[:, None]) @ gamma.T
            root = np.sqrt(h)
            # √h·a serves the sum of haaᵀ first, then 2g·a = 2g/√h·(√h·a), where h > 0.
            safe = np.where(root > 0, root, 1.0)
            T *= safe[:, None]
            add_square(T if (root > 0).all() else T * (root > 0)[:, None], sums[0])
            T *= (2 * g[rows] / safe)[:, None]
            W -= T
            solve_rows(L, W, transposed=True)
            return W

        gradient, moved, (N,) = self._pull(first, kernel, outer, step, ((m, m),))
        N = N.T
        mirror(N)
        if len(gradient):
            gradient = gradient + kernel._pull_diag(self.X, g)
        Y = solve_left(LB, S.copy(order="F"))
        inner = t * (Y.T @ Y) + gamma @ gamma.T - 2.0 * N
        G = solve_left(L, np.asfortranarray(inner), 1)
        G = solve_left(L, np.asfortranarray(G.T), 1)
        return gradient, float(np.sum(g * noise)), moved, -0.5 * G
