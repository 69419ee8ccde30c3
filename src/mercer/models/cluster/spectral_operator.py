"""The normalised affinity of a weighted graph, multiplied without a second matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains import GramRows
from mercer.engines import pick
from mercer.engines.folds import spread
from mercer.engines.threads import times
from mercer.engines.tiles import row_blocks
from mercer.errors import InvalidInput
from mercer.features.distinct import _equal_points
from mercer.kernels import Kernel
from mercer.operators import Gram, Operator
from mercer.settings import get_config

__all__ = ["NormalisedAffinity", "copies_of"]

ROUNDING = 1e-12  # part of the largest affinity below which a negative one is rounding
LOST = 1e-4  # part of k(x, x) below which a degree has lost digits to it


class NormalisedAffinity(Operator):
    r"""I + S with S = D^−½ (W^½ A W^½ − diag) D^−½, of eigenvalues between 0 and 2.

    A are the kernel values, W the weights, and the degrees are those of a graph in which row i
    stands for wᵢ copies and no copy is its own neighbour,

        dᵢ = Σ_{j≠i} wⱼ aᵢⱼ + max(wᵢ − 1, 0) aᵢᵢ.

    Eigenvectors z belong to those of the graph of the copies that are the same for all copies:
    u = z/√(wd). Rows of weight 0 are not in the graph, but have a degree to be placed by.

    Parameters
    ----------
    kernel : Kernel
        The kernel, without words, of values ≥ 0.
    X : canonical collection
        The points.
    weights : ndarray of shape (n,)
        Their weights.
    owner : str
        Who asks; messages begin with it.

    Attributes
    ----------
    degrees : ndarray of shape (n,)
        d.
    present : ndarray of bool
        The rows that are in the graph: of positive weight and degree.
    matrix : ndarray or None
        A in memory; its diagonal is replaced where the operator made the array.
    """

    symmetric = psd = True

    def __init__(self, kernel: Kernel, X: Any, weights: np.ndarray, owner: str):
        self.kernel, self.owner, self.weights = kernel, owner, weights
        self.X, n = X, kernel.domain.size(X)
        self.shape = (n, n)
        self.matrix, self.owned = None, False
        if isinstance(kernel.domain, GramRows):
            self.matrix = X
            self._refuse_negative_values()  # before the diagonal is taken for squared lengths
        self.gram = Gram(kernel, X, keep=False)
        if self.matrix is None and self.gram.nbytes <= get_config().memory // 2:
            self.matrix, self.owned = self.gram.to_dense(), True
            self._refuse_negative_values()
        self.diagonals = np.asarray(kernel.diag(X), dtype=float)
        self.loops = np.minimum(weights, 1.0) * self.diagonals  # what no copy is to itself
        if self.owned:
            # What is left of the diagonal is put into the matrix: no digits are lost to it.
            share = np.maximum(weights - 1.0, 0.0) / np.where(weights > 0, weights, 1.0)
            np.fill_diagonal(self.matrix, share * self.diagonals)  # type: ignore[arg-type]
            self.loops = np.zeros(n)
        self.degrees = self._look()
        self.present = (weights > 0) & (self.degrees > 0)
        if not self.present.any():
            self._take_only_point()
        degrees = np.where(self.present, self.degrees, 1.0)
        self.scale = np.sqrt(np.where(self.present, weights / degrees, 0.0))
        # 0 for rows that are not in the graph: theirs are the smallest eigenvalues, no others.
        self.inside = np.where(self.present, 1.0 - self.loops / degrees, 0.0)

    # -- degrees ------------------------------------------------------------------------------
    def _look(self) -> np.ndarray:
        """Return the degrees, those of rows almost without neighbours with all their digits."""
        n, w = self.shape[0], self.weights
        if self.matrix is not None:
            degrees = self.matrix @ w
        else:
            degrees = self._look_at_tiles()
        degrees -= self.loops
        doubtful = np.flatnonzero(degrees <= LOST * self.loops)
        for part in row_blocks(len(doubtful), 32 * n):
            index = doubtful[part]
            rows = np.array(self.rows_of(index))
            rows[np.arange(len(index)), index] *= np.maximum(1 - 1 / np.maximum(w[index], 1), 0)
            degrees[index] = rows @ w
        return np.maximum(degrees, 0.0)

    def _take_only_point(self) -> None:
        """Take one point for a graph, and refuse several of which no two are neighbours."""
        there = self.weights > 0
        if there.sum() > 1:
            raise InvalidInput(
                f"{self.owner}: no two of {int(there.sum())} rows have an affinity above 0, so "
                "there is no graph. Take a wider kernel, such as one with a larger length_scale."
            )
        self.present, self.degrees = there, np.where(there, 1.0, self.degrees)
        self.loops = self.weights * self.diagonals * (not self.owned)

    def _look_at_tiles(self) -> np.ndarray:
        engine, w = pick(self.X, None), self.weights
        bound = self.kernel._bind(engine.asarray(self.X))

        def step(rows: slice, T: np.ndarray) -> np.ndarray:
            return np.stack([T @ w, T.min(axis=1), T.max(axis=1)], axis=1)

        out = spread(bound, np.empty((self.shape[0], 3)), step, arrays=1)
        i = int(out[:, 1].argmin())
        if out[i, 1] < -ROUNDING * float(out[:, 2].max()):
            self._refuse_negative(i, int(self.rows_of(np.array([i]))[0].argmin()))
        return out[:, 0].copy()

    def _refuse_negative_values(self) -> None:
        A: Any = self.matrix
        low = float(A.min(initial=0.0))
        if low < 0 and low < -ROUNDING * float(A.max()):
            self._refuse_negative(*np.unravel_index(int(A.argmin()), A.shape))

    def _refuse_negative(self, i: Any, j: Any) -> None:
        value = float(self.rows_of(np.array([int(i)]))[0][int(j)])
        raise InvalidInput(
            f"{self.owner}: Negative values in data: the affinity of rows {int(i)} and {int(j)} is "
            f"{value:.6g} < 0, which no edge of a graph can have. Use a kernel with values ≥ 0, "
            "such as 'rbf', or an even power of this one, k**2."
        )

    def rows_of(self, index: np.ndarray) -> np.ndarray:
        """Return rows of A at these positions."""
        if self.matrix is not None:
            return self.matrix[index]
        return self.gram.rows(index)

    # -- products -----------------------------------------------------------------------------
    def affinity(self, V: np.ndarray) -> np.ndarray:
        """Return A V."""
        return times(self.matrix, V) if self.matrix is not None else np.asarray(self.gram @ V)

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        if V.ndim == 1:
            return self._matmul(V[:, None])[:, 0]
        scale = self.scale[:, None]
        out = self.affinity(np.ascontiguousarray(scale * V))
        out *= scale
        out += self.inside[:, None] * V
        return out

    def staying(self, values: np.ndarray, U: np.ndarray) -> np.ndarray:
        """Return the Rayleigh quotients of columns of U in the walk that may stay where it is.

        With a copy its own neighbour, (Au)ᵢ = λdᵢuᵢ + min(wᵢ, 1) aᵢᵢuᵢ, and degrees grow alike.
        """
        squares = self.weights[:, None] * U**2
        stay = (np.minimum(self.weights, 1.0) * self.diagonals) @ squares
        walk = self.degrees @ squares
        return np.asarray((values * walk + stay) / (walk + stay))

    def placed(self, values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Return the embedding u = z/√(wd) of eigenvectors z."""
        U, there = np.zeros_like(vectors), self.present
        lengths = np.sqrt(self.weights[there] * self.degrees[there])
        U[there] = vectors[there] / lengths[:, None]
        return U

    def _block(self, rows: Any, cols: Any) -> np.ndarray:
        every = np.arange(self.shape[0])
        i, j = every[rows], every[cols]
        A = np.array(self.rows_of(i)[:, j], dtype=float)
        A *= self.scale[i][:, None]
        A *= self.scale[j]
        return A + np.where(i[:, None] == j, self.inside[i][:, None], 0.0)

    def diagonal(self) -> np.ndarray:
        """Return the diagonal."""
        inside = np.diagonal(self.matrix) if self.owned else self.diagonals  # type: ignore[arg-type]
        return np.asarray(self.scale**2 * inside + self.inside)


def copies_of(kernel: Any, X: Any, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return one position of each different row, and for every row the one that stands for it.

    Copies of a point are one point with their weight. Weights below 1 are no copies, and what are
    copies of what is not known of affinities: there every row stands for itself.
    """
    every = np.arange(len(w))
    there = np.flatnonzero(w > 0)
    if isinstance(kernel.domain, GramRows) or w[there].min(initial=1.0) < 1:
        return every, every
    first = every.copy()
    first[there] = there[_equal_points(kernel.domain.take(X, there))]
    index = np.flatnonzero(first == every)
    return index, np.searchsorted(index, first)
