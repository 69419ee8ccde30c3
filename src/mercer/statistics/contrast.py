"""The matrix A that turns any kernel matrix L into an estimate of dependence, Σᵢⱼ Aᵢⱼ Lᵢⱼ.

With weights wᵢ that count repetitions, W = Σ wᵢ, K centred by their mean, Kc, and κ its diagonal,

    biased:    A = (w wᵀ) ∘ Kc / W²,
    unbiased:  A = ((w wᵀ) ∘ Ku − diag(w) ∘ Ku) / (W (W − 3)),
               Kuᵢⱼ = Kcᵢⱼ + (κᵢ + κⱼ)/(W − 2) − Σ wκ/((W − 1)(W − 2)).

Ku is the U-centred matrix of Székely and Rizzo (2014), written for K after centring: over pairs of
different observations its rows sum to 0, so that what the sums over triples and quadruples in the
estimator of Song et al. (2012) subtract from L is subtracted already. Both matrices have the form
Kᵢⱼ + sᵢ + sⱼ, and rows of A sum to 0: L need not be centred, but is, against rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.errors import InvalidInput

__all__ = ["Contrast", "mean_shift", "require_observations"]

ROUNDING = 32 * np.finfo(float).eps  # of k(x, x): nearer to their mean, points are all the same


def require_observations(total: float, unbiased: bool, owner: str) -> None:
    """Refuse the unbiased estimator of fewer than four observations."""
    if unbiased and not total > 3:
        raise InvalidInput(
            f"{owner}: the unbiased estimator needs at least 4 observations (total weight above "
            f"3), got {total:g}; use estimator='biased' or more data."
        )


def mean_shift(sums: np.ndarray, total: float, weights: np.ndarray) -> np.ndarray:
    """Return s with Kᵢⱼ + sᵢ + sⱼ centred by the weighted mean, from the row sums K w."""
    means = sums / total
    return 0.5 * float(weights @ means) / total - means


@dataclass(frozen=True, eq=False)
class Contrast:
    """A, by its parts.

    Parameters
    ----------
    shift : ndarray of shape (n,)
        s, with Kᵢⱼ + sᵢ + sⱼ centred.
    weights : ndarray of shape (n,)
        w.
    scale : float
        1/W² or 1/(W(W − 3)); 0 where all points are the same.
    unbiased : bool
        Whether an observation does not meet itself.
    """

    shift: np.ndarray
    weights: np.ndarray
    scale: float
    unbiased: bool

    @classmethod
    def of(
        cls, sums: np.ndarray, diagonal: np.ndarray, weights: np.ndarray, unbiased: bool
    ) -> Contrast:
        """Return A from the row sums K w and the diagonal of K."""
        W = float(weights.sum())
        shift = mean_shift(sums, W, weights)
        kappa = diagonal + 2.0 * shift
        scale = 1.0 / (W * (W - 3.0)) if unbiased else 1.0 / W**2
        if float(np.abs(kappa).max()) <= ROUNDING * float(np.abs(diagonal).max()):
            return cls(np.zeros_like(shift), weights, 0.0, unbiased)
        if unbiased:
            spread = float(weights @ kappa)
            shift = shift + kappa / (W - 2.0) - 0.5 * spread / ((W - 1.0) * (W - 2.0))
        return cls(shift, weights, scale, unbiased)

    def tile(self, K: np.ndarray, rows: slice, cols: slice) -> np.ndarray:
        """Return A on a tile of K, as if no observation met itself; a new array."""
        A = K + self.shift[rows, None]
        A += self.shift[cols]
        A *= (self.scale * self.weights[rows])[:, None]
        A *= self.weights[cols]
        return A

    def excess(self, diagonal: np.ndarray) -> np.ndarray:
        """Return what the diagonal of A lacks of the tiles: observations that meet themselves."""
        if not self.unbiased:
            return np.zeros_like(diagonal)
        return self.scale * self.weights * (diagonal + 2.0 * self.shift)

    def dense(self, K: np.ndarray) -> np.ndarray:
        """Turn K into A, in place."""
        excess = self.excess(K.diagonal().copy())
        K += self.shift[:, None]
        K += self.shift
        K *= (self.scale * self.weights)[:, None]
        K *= self.weights
        K[np.diag_indices_from(K)] -= excess
        return K
