"""The normalised affinity of a graph too large for its matrix, from a factor of low rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains import GramRows
from mercer.engines.budget import require_memory, smaller_rank
from mercer.engines.tiles import row_blocks
from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.operators import Dense, Gram, Operator
from mercer.settings import get_config
from mercer.solvers import rpcholesky

__all__ = ["METHODS", "LowRankAffinity", "default_rank", "pick_method"]

METHODS = ("auto", "exact", "nystrom")
MOST_EXACT = 50_000  # points up to which `auto` computes all kernel values
ROUNDING = 1e-9  # part of the largest affinity below which a negative one is rounding
ALONE = 1e-6  # part of k(x, x) below which a degree is the error of the approximation


def default_rank(k: int) -> int:
    """Return the number of pivots for k clusters."""
    return max(100, 10 * k)


def pick_method(kernel: Kernel, n: int, rank: int) -> str:
    """Return "exact" where the matrix is small or must be used, else "nystrom" if that fits.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    n : int
        Number of points.
    rank : int
        Number of pivots.
    """
    memory = get_config().memory
    if isinstance(kernel.domain, GramRows) or not kernel.psd:
        return "exact"
    if n <= MOST_EXACT and 8 * n**2 <= memory // 2:
        return "exact"
    return "nystrom" if _bytes(n, rank) <= memory else "exact"


def _bytes(n: int, rank: int) -> int:
    return 2 * 8 * n * min(n, rank)


class LowRankAffinity(Operator):
    r"""I + S with S = D^−½ (W^½ Â W^½ − diag) D^−½ for Â = FᵀF ≈ A, multiplied by F alone.

    Entries of Â may be slightly negative, and rows of it that have almost nothing but their own
    entry would have a scale that is all error. D is therefore at least the part of the diagonal
    that is taken away, which makes I + S positive semidefinite: eigenvectors are those of the graph
    of Â where degrees are larger, as they are for all but outliers, and outliers are placed by
    their neighbours afterwards, in `placed`.

    Parameters
    ----------
    kernel : Kernel
        The kernel, without words, positive semidefinite and of values ≥ 0.
    X : canonical collection
        The points.
    weights : ndarray of shape (n,)
        Their weights.
    rank : int
        Most pivots.
    random_state : RandomState
        Source of the pivots.
    owner : str
        Who asks; messages begin with it.

    Attributes
    ----------
    degrees : ndarray of shape (n,)
        dᵢ = Σ_{j≠i} wⱼ âᵢⱼ + max(wᵢ − 1, 0) âᵢᵢ.
    present : ndarray of bool
        The rows that are in the graph: of positive weight and degree.
    error : float
        tr W(A − Â)/tr WA.
    """

    symmetric = psd = True
    matrix, owned = None, False

    def __init__(
        self, kernel: Kernel, X: Any, weights: np.ndarray, rank: int, random_state: Any, owner: str
    ):
        self.owner, self.weights, n = owner, weights, kernel.domain.size(X)
        self.shape = (n, n)
        require_memory(
            _bytes(n, rank),
            f"{owner}: a factor of rank {min(rank, n)} of the affinities of {n} rows",
            f"Give a {smaller_rank(_bytes(n, rank), min(n, rank))}",
        )
        given = isinstance(kernel.domain, GramRows)
        A = Dense(X, symmetric=True) if given else Gram(kernel, X, keep=False)
        low = rpcholesky(A, rank, random_state, sample_weight=weights)
        self.F, self.error, self.rank = low.F, low.trace_error, low.rank
        self._refuse_negative(low.pivots)
        self.diagonals = np.einsum("ri,ri->i", self.F, self.F)
        self.loops = np.minimum(weights, 1.0) * self.diagonals  # what no copy is to itself
        self.degrees = self.F.T @ (self.F @ weights) - self.loops
        lengths = np.asarray(A.diagonal(), dtype=float)
        self.present = (weights > 0) & (self.degrees > ALONE * lengths)
        if not self.present.any():
            raise InvalidInput(
                f"{owner}: no two of {int((weights > 0).sum())} rows have an affinity that a "
                f"factor of rank {low.rank} shows. Take a wider kernel, such as one with a larger "
                "length_scale, a larger rank, or method='exact'."
            )
        self.degrees = np.where(self.present, self.degrees, 0.0)
        divisors = np.where(self.present, np.maximum(self.degrees, self.loops), 1.0)
        self.scale = np.sqrt(np.where(self.present, weights / divisors, 0.0))
        self.inside = np.where(self.present, 1.0 - self.loops / divisors, 0.0)

    def _refuse_negative(self, pivots: np.ndarray) -> None:
        """Refuse affinities below 0 among those of the pivots, which the factor has exactly."""
        for part in row_blocks(len(pivots), 8 * self.shape[0]):
            rows = self.F[:, pivots[part]].T @ self.F
            if rows.min() < -ROUNDING * float(rows.max()):
                i, j = np.unravel_index(int(rows.argmin()), rows.shape)
                raise InvalidInput(
                    f"{self.owner}: Negative values in data: the affinity of rows "
                    f"{int(pivots[part][i])} and {int(j)} is {float(rows[i, j]):.6g} < 0, which no "
                    "edge of a graph can have. Use a kernel with values ≥ 0, such as 'rbf', or an "
                    "even power of this one, k**2."
                )

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        if V.ndim == 1:
            return self._matmul(V[:, None])[:, 0]
        scale = self.scale[:, None]
        out = self.F.T @ (self.F @ (scale * V))
        out *= scale
        out += self.inside[:, None] * V
        return np.asarray(out)

    def _block(self, rows: Any, cols: Any) -> np.ndarray:
        every = np.arange(self.shape[0])
        i, j = every[rows], every[cols]
        A = (self.F[:, i] * self.scale[i]).T @ (self.F[:, j] * self.scale[j])
        return A + np.where(i[:, None] == j, self.inside[i][:, None], 0.0)

    def diagonal(self) -> np.ndarray:
        """Return the diagonal."""
        return np.asarray(self.scale**2 * self.diagonals + self.inside)

    def placed(self, values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Return the embedding u of eigenvectors z with eigenvalues λ of S.

        u = Z/√(wd), and where d was raised the mean of the neighbours, u = D⁻¹(Â − diag)Wu/λ.

        Parameters
        ----------
        values : ndarray of shape (m,)
            λ.
        vectors : ndarray of shape (n, m)
            z.
        """
        U = np.zeros_like(vectors)
        there = self.present
        safe = np.where(self.weights > 0, self.weights, 1.0)
        U[there] = vectors[there] * (self.scale / safe)[there, None]
        raised = there & (self.degrees < self.loops)
        if raised.any():
            means = self.F[:, raised].T @ (self.F @ (self.weights[:, None] * U))
            means -= self.loops[raised][:, None] * U[raised]
            walk = np.where(np.abs(values) > ALONE, values, 1.0)
            U[raised] = means / self.degrees[raised][:, None] / walk
        return U

    def staying(self, values: np.ndarray, U: np.ndarray) -> np.ndarray:
        """Return the Rayleigh quotients of columns of U in the walk that may stay where it is."""
        squares = self.weights[:, None] * U**2
        stay, walk = self.loops @ squares, self.degrees @ squares
        return np.asarray((values * walk + stay) / (walk + stay))
