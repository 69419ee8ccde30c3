"""Krylov recurrences: conjugate gradients on a block of columns, and Lanczos on one vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh_tridiagonal

TINY = 1e-100  # a recurrence this small has converged; its squares would soon underflow


@dataclass(eq=False)
class BlockCG:
    """Columns that preconditioned conjugate gradients advance together, by one product a step.

    Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., algorithm 9.1. X are the solutions
    so far, R the residuals of the recurrence, P the directions, all of shape (n, t), and rz holds
    rᵀM⁻¹r. An iteration is `forward`, a judgement by who runs it, and `turn`; these four arrays are
    all that it changes. The flexible kind forgives directions and preconditioners that are rounded.
    `total` makes one problem of columns that are coupled, by sums of their inner products.
    """

    X: np.ndarray
    R: np.ndarray
    P: np.ndarray
    rz: np.ndarray
    flexible: bool = False
    total: Callable[[np.ndarray], np.ndarray] = lambda products: products

    def forward(
        self,
        product: Callable[[np.ndarray], np.ndarray],
        usable: Callable[[np.ndarray, np.ndarray], np.ndarray],
        round_off: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> np.ndarray:
        """Go to the minimum along P, in place; return the columns whose curvature is usable."""
        P = self.P if round_off is None else round_off(self.P)
        Q = product(P)
        curvature = self.total(dots(P, Q))
        good = usable(P, curvature)
        # With a rounded direction pᵀr is not rᵀM⁻¹r; the step to the minimum along p is this.
        slope = self.total(dots(P, self.R)) if self.flexible else self.rz
        step = np.where(good, slope / np.where(good, curvature, 1.0), 0.0)
        self._before = self.R.copy(order="K") if self.flexible else self.R
        self.X += step * P
        self.R -= step * Q
        return good

    def turn(self, Z: np.ndarray, restart: Any = False) -> None:
        """Take the next directions from Z = M⁻¹R; those of columns that restart are Z."""
        rz = self.total(dots(self.R, Z))
        if self.flexible:
            # Polak, Ribière: equal to the ratio of the rz but for rounding, which it forgives
            turned = self.total(dots(self.R - self._before, Z))
            beta = np.maximum(turned / np.maximum(self.rz, TINY), 0.0)
        else:
            beta = rz / self.rz
        self.P, self.rz = Z + np.where(restart, 0.0, beta) * self.P, rz

    def take(self, columns: np.ndarray) -> BlockCG:
        """Return some of the columns."""
        X, R, P = (A[:, columns] for A in (self.X, self.R, self.P))
        return BlockCG(X, R, P, self.rz[columns], self.flexible, self.total)


def dots(U: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Return the inner products of the columns."""
    return np.asarray(np.einsum("ij,ij->j", U, V))


def lanczos_top(product: Callable[[np.ndarray], np.ndarray], n: int, steps: int = 40) -> float:
    """Return the largest Ritz value of a symmetric n × n matrix, at most its top eigenvalue.

    From a fixed start, with full reorthogonalisation.
    """
    steps = min(steps, n)
    Q = np.zeros((steps, n))
    alpha, beta = np.zeros(steps), np.zeros(steps)
    q = np.random.default_rng(0).standard_normal(n)
    q /= np.linalg.norm(q)
    for j in range(steps):
        Q[j] = q
        w = product(q)
        alpha[j] = q @ w
        for _ in range(2):
            w = w - Q[: j + 1].T @ (Q[: j + 1] @ w)
        beta[j] = np.linalg.norm(w)
        if beta[j] <= 1e-14 * np.abs(alpha[: j + 1]).max():
            break
        q = w / beta[j]
    return float(eigh_tridiagonal(alpha[: j + 1], beta[:j], eigvals_only=True)[-1])
