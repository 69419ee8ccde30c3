"""Mean and scatter of rows that come in batches, and their principal axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import qr, svd

__all__ = ["Count", "Moments"]


@dataclass(frozen=True)
class Count:
    """How many rows there are, and what they weigh.

    Parameters
    ----------
    rows : int
        Rows of positive weight.
    weight : float
        The total weight W.
    uneven : float
        Σ w² / W.
    whole : bool
        Whether all weights are whole numbers, that is, counts.
    """

    rows: int = 0
    weight: float = 0.0
    uneven: float = 0.0
    whole: bool = True

    @classmethod
    def of(cls, n: int, w: np.ndarray | None) -> Count:
        """Return the count of n rows of positive weights w, None for 1."""
        if w is None:
            return cls(n, float(n), 1.0)
        weight = float(w.sum())
        return cls(n, weight, float(w @ (w / weight)), bool((w == np.round(w)).all()))

    def plus(self, other: Count) -> Count:
        """Return the count of both."""
        weight = self.weight + other.weight
        a, b = self.weight / weight, other.weight / weight
        uneven = a * self.uneven + b * other.uneven
        return Count(self.rows + other.rows, weight, uneven, self.whole and other.whole)

    @property
    def freedom(self) -> float:
        """W − 1 for counts; W − Σw²/W for other weights, whose unit then does not matter.

        Over it the scatter is the variance of the repeated rows, or the unbiased one of rows that
        count by their weights.
        """
        return max(0.0, self.weight - (1.0 if self.whole else self.uneven))


class Moments:
    """Total weight W, mean μ and scatter S = Σ w(x − μ)(x − μ)ᵀ = RᵀR of weighted rows.

    The scatter is kept as a triangle R, r × D with r ≤ D, brought up to date by a QR
    factorisation: no batch forms S itself, so small variances keep their digits. Batches of any
    size give the same W, μ and S up to rounding (Chan, Golub, LeVeque, Amer. Statist. 37 (1983),
    for the merging of two means).

    Parameters
    ----------
    count : Count
        Rows and weights.
    mean : ndarray of shape (D,)
        The mean.
    R : ndarray of shape (r, D)
        The factor of the scatter.
    """

    def __init__(self, count: Count, mean: np.ndarray, R: np.ndarray):
        self.count, self.mean, self.R = count, mean, R

    @property
    def weight(self) -> float:
        """The total weight."""
        return self.count.weight

    @property
    def square(self) -> float:
        """Σ w‖x‖², that is ‖R‖² + W‖μ‖²."""
        return float((self.R**2).sum()) + self.weight * float(self.mean @ self.mean)

    @classmethod
    def none(cls, D: int) -> Moments:
        """Return the moments of no rows."""
        return cls(Count(), np.zeros(D), np.zeros((0, D)))

    def padded(self, D: int) -> Moments:
        """Return the moments in more coordinates, all of them 0 so far."""
        more = D - len(self.mean)
        return Moments(
            self.count, np.pad(self.mean, (0, more)), np.pad(self.R, ((0, 0), (0, more)))
        )

    def projected(self, E: np.ndarray) -> Moments:
        """Return the moments of Eᵀx, D × q orthonormal columns E."""
        R = self.R @ E
        if len(R) > E.shape[1]:
            R = qr(R, mode="r", overwrite_a=True, check_finite=False)[0][: E.shape[1]]
        return Moments(self.count, self.mean @ E, np.ascontiguousarray(R))

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
        count = self.count.plus(Count.of(len(w), w))
        total = float(w.sum())
        near = rows - rows[0]  # a mean of large numbers that differ little keeps its digits
        own = (w / total) @ near
        near -= own
        near *= np.sqrt(w)[:, None]
        own += rows[0]
        step = own - self.mean
        # S ← S + S′ + (W W′/(W + W′)) (μ′ − μ)(μ′ − μ)ᵀ
        between = np.sqrt(self.weight / count.weight * total) * step
        stack = np.vstack([self.R, near, between[None]])
        R = qr(stack, mode="r", overwrite_a=True, check_finite=False)[0][: min(stack.shape)]
        return Moments(count, self.mean + (total / count.weight) * step, np.ascontiguousarray(R))

    def axes(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the eigenvalues of S, descending, its eigenvectors, and a residual.

        No more than there are rows, or columns. The residual is the largest ‖S v − λ v‖ / λ₁.
        """
        _, sigma, Vt = svd(self.R, full_matrices=False, check_finite=False)
        sigma, Vt = sigma[: self.count.rows], Vt[: self.count.rows]
        values = sigma**2
        top = float(values.max(initial=0.0)) or 1.0
        apart = self.R.T @ (self.R @ Vt.T) - Vt.T * values
        return values, Vt.T, float(np.linalg.norm(apart, axis=0).max(initial=0.0)) / top
