"""Mean and scatter of rows that come in batches, and their principal axes."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import qr, svd

__all__ = ["Moments"]


class Moments:
    """Total weight W, mean μ and scatter S = Σ w(x − μ)(x − μ)ᵀ = RᵀR of weighted rows.

    The scatter is kept as a triangle R, r × D with r ≤ D, brought up to date by a QR
    factorisation: S itself is never formed, so small variances keep their digits. Batches of any
    size give the same W, μ and S up to rounding (Chan, Golub, LeVeque, Amer. Statist. 37 (1983),
    for the merging of two means).

    Parameters
    ----------
    weight : float
        Total weight.
    mean : ndarray of shape (D,)
        The mean.
    R : ndarray of shape (r, D)
        The factor of the scatter.
    """

    def __init__(self, weight: float, mean: np.ndarray, R: np.ndarray):
        self.weight, self.mean, self.R = float(weight), mean, R

    @classmethod
    def none(cls, D: int) -> Moments:
        """Return the moments of no rows."""
        return cls(0.0, np.zeros(D), np.zeros((0, D)))

    def padded(self, D: int) -> Moments:
        """Return the moments in more coordinates, all of them 0 so far."""
        more = D - len(self.mean)
        return Moments(
            self.weight, np.pad(self.mean, (0, more)), np.pad(self.R, ((0, 0), (0, more)))
        )

    def add(self, rows: Any, weights: np.ndarray | None) -> Moments:
        """Return the moments with some rows more.

        Parameters
        ----------
        rows : ndarray of shape (m, D)
            The rows.
        weights : ndarray of shape (m,) or None
            Their weights, ≥ 0; None means 1.
        """
        w = np.ones(len(rows)) if weights is None else weights
        rows, w = rows[w > 0], w[w > 0]
        if not len(w):
            return self
        total = float(w.sum())
        near = rows - rows[0]  # a mean of large numbers that differ little keeps its digits
        own = (w / total) @ near
        near -= own
        near *= np.sqrt(w)[:, None]
        own += rows[0]
        step = own - self.mean
        weight = self.weight + total
        # S ← S + S′ + (W W′/(W + W′)) (μ′ − μ)(μ′ − μ)ᵀ
        between = np.sqrt(self.weight * total / weight) * step
        stack = np.vstack([self.R, near, between[None]])
        R = qr(stack, mode="r", overwrite_a=True, check_finite=False)[0][: min(stack.shape)]
        return Moments(weight, self.mean + (total / weight) * step, np.ascontiguousarray(R))

    def axes(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the eigenvalues of S, descending, its eigenvectors, D × r, and a residual.

        The residual is the largest ‖S v − λ v‖ / λ₁.
        """
        _, sigma, Vt = svd(self.R, full_matrices=False, check_finite=False)
        values = sigma**2
        top = float(values.max(initial=0.0)) or 1.0
        apart = self.R.T @ (self.R @ Vt.T) - Vt.T * values
        return values, Vt.T, float(np.linalg.norm(apart, axis=0).max(initial=0.0)) / top
