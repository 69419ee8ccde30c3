"""`Counted`: kernels that count named parts of a point, k(x, x′) = Σ_c φ_c(x) φ_c(x′)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.errors import InvalidInput
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound

__all__ = ["Counted", "CountedBound", "Counts"]


@dataclass(frozen=True, eq=False)
class Counts:
    """What a collection of n points holds: point ``rows[i]`` has ``values[i]`` of ``codes[i]``.

    Parameters
    ----------
    n : int
        Number of points.
    rows : ndarray of int64
        The point of each occurrence, never falling.
    codes : ndarray of uint64
        What occurs; equal codes mean equal parts. A part may occur several times in a point.
    values : ndarray of float64 or None
        How much each occurrence counts; None is one each.
    """

    n: int
    rows: np.ndarray
    codes: np.ndarray
    values: np.ndarray | None = None

    def matrix(self, vocabulary: np.ndarray) -> sp.csr_array:
        """Return the counts of the codes of a sorted vocabulary; codes outside it are left out."""
        columns = np.searchsorted(vocabulary, self.codes)
        columns[columns == len(vocabulary)] = 0
        values = np.ones(len(self.codes)) if self.values is None else self.values
        known = vocabulary[columns] == self.codes if len(vocabulary) else np.zeros(0, dtype=bool)
        rows, columns = self.rows[known], columns[known]
        shape = (self.n, len(vocabulary))
        return sp.csr_array((values[known], (rows, columns)), shape=shape)


class Counted(Kernel):
    """A kernel that counts: an author writes ``_counts(X)`` for a canonical collection.

    Codes are numbers of 64 bits that mean the same in every collection, so that training points
    and new points need no shared dictionary.
    """

    def _counts(self, X: Any) -> Counts:
        raise InvalidInput(f"{type(self).__name__}: define _counts(X).")

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return CountedBound(self, X, Y)

    def _diag(self, X: Any) -> np.ndarray:
        counts = self._counts(X)
        phi = counts.matrix(np.unique(counts.codes))
        return np.asarray(phi.multiply(phi).sum(axis=1), dtype=float).reshape(-1)

    def collision_probability(self, X: Any) -> float:
        """Return a bound of the probability that two different parts of X share a code.

        N different parts hashed to 64 bits collide with probability at most N(N − 1)/2⁶⁵; zero
        where codes are the parts themselves.
        """
        N = len(np.unique(self._counts(self.domain.check(X)).codes))
        return N * (N - 1) / 2.0**65


class CountedBound(Bound):
    """Tiles ΦΨᵀ of counts over the codes that occur."""

    def __init__(self, kernel: Counted, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        left = kernel._counts(X)
        right = left if Y is None else kernel._counts(Y)
        vocabulary = np.unique(left.codes)
        if Y is not None:
            vocabulary = np.intersect1d(vocabulary, np.unique(right.codes), assume_unique=True)
        self._phi = left.matrix(vocabulary)
        self._psi = self._phi if Y is None else right.matrix(vocabulary)
        self.flagged = False

    def tile(self, rows: slice, cols: slice) -> np.ndarray:
        """Return ΦΨᵀ on a tile."""
        return (self._phi[rows] @ self._psi[cols].T).toarray()
