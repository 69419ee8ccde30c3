"""A symmetric matrix as a band between orthogonal factors, for systems with many shifts.

A = QBQᵀ with a B that is zero beyond b diagonals: so A + αI = Q(B + αI)Qᵀ, whose factor takes
O(nb²) for every α, once A was reduced in 4n³/3. Each step takes b columns (Bischof, Lang and Sun,
"A framework for symmetric band reduction", 2000): what is below their band goes into a triangle by
reflections H = I − VTVᵀ, and the rest of the matrix becomes

    HᵀAH = A − VWᵀ − WVᵀ,   W = P − VS/2,   P = AVT,   S = TᵀVᵀP,

nearly all of it products of matrices. A tridiagonal matrix at once, as for eigenvalues, would take
half of the same operations in products with vectors, at the speed of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mercer.lapack import call, has
from mercer.solvers.linear.inplace import cuts

#: Factorisations of a matrix in the time that it takes to reduce it.
REDUCTION = 5.0
WIDTH = 64  # of the band: narrower ones take longer to reach, wider ones to solve with
ROUTINES = ("dgemm", "dgeqrt", "dpbtrf", "dpbtrs", "dsymm", "dsyr2k")


@dataclass(frozen=True, eq=False)
class Band:
    """Q and B of a matrix A = QBQᵀ.

    Attributes
    ----------
    diagonals : ndarray of shape (b + 1, n), Fortran order
        B as LAPACK keeps the lower half of a band: row k is the k-th diagonal below the main one.
    reflections : list of tuple
        The first row of each block of reflections, and its V and T.
    """

    diagonals: np.ndarray
    reflections: list[tuple[int, np.ndarray, np.ndarray]]

    @classmethod
    def of(cls, A: np.ndarray, ended: Callable[[], bool] | None = None) -> Band | None:
        """Reduce a matrix, which is overwritten; None where `ended` says so before it is done.

        Parameters
        ----------
        A : ndarray of shape (n, n), float64, Fortran order
            Symmetric; its lower triangle is read.
        ended : callable, optional
            Asked between steps whether to give up.
        """
        n = len(A)
        b = max(1, min(WIDTH, n - 1))
        out = cls(np.zeros((b + 1, n), order="F"), [])
        for i, j in cuts(n, b):
            if ended is not None and ended():
                return None
            if j < n:
                out._step(A, i, j)
            out._keep(A[i : j + b, i:j], i)
        return out

    @staticmethod
    def is_there() -> bool:
        """Whether the routines are there that it calls."""
        return has(*ROUTINES)

    def _step(self, A: np.ndarray, i: int, j: int) -> None:
        """Reduce the columns i to j, and bring what is right of them up to date."""
        n = len(A)
        m, b = n - j, j - i
        k = min(m, b)
        V, T, work = (np.zeros(shape, order="F") for shape in ((m, b), (k, k), (k, b)))
        V[...] = A[j:, i:j]
        call("dgeqrt", m, b, k, V, m, T, k, work)
        A[j : j + k, i:j] = np.triu(V[:k])
        V = V[:, :k]
        corner = V[:k]
        corner[np.triu_indices(k)] = 0.0
        np.einsum("ii->i", corner)[...] = 1.0
        rest, X, W = A[j:, j:], np.empty((m, k), order="F"), np.empty((m, k), order="F")
        call("dgemm", b"N", b"N", m, k, k, 1.0, V, m, T, k, 0.0, X, m)
        call("dsymm", b"L", b"L", m, k, 1.0, rest, n, X, m, 0.0, W, m)
        S = np.empty((k, k), order="F")
        call("dgemm", b"T", b"N", k, k, m, 1.0, X, m, W, m, 0.0, S, k)
        S = np.asfortranarray(S + S.T)  # symmetric but for rounding
        call("dgemm", b"N", b"N", m, k, k, -0.25, V, m, S, k, 1.0, W, m)
        call("dsyr2k", b"L", b"N", m, k, -1.0, V, m, W, m, 1.0, rest, n)
        self.reflections.append((j, V, T))

    def _keep(self, columns: np.ndarray, i: int) -> None:
        """Store what is in the band of some columns, of which the diagonal begins at row i."""
        b = len(self.diagonals) - 1
        for c in range(columns.shape[1]):
            some = columns[c : c + b + 1, c]
            self.diagonals[: len(some), i + c] = some

    def turned(self, x: np.ndarray) -> np.ndarray:
        """Return Qᵀx for the columns of x."""
        x = np.array(x, dtype=np.float64)
        for j, V, T in self.reflections:
            x[j:] -= V @ (T.T @ (V.T @ x[j:]))
        return x

    def back(self, z: np.ndarray) -> np.ndarray:
        """Return Qz for the columns of z."""
        z = np.array(z, dtype=np.float64)
        for j, V, T in reversed(self.reflections):
            z[j:] -= V @ (T @ (V.T @ z[j:]))
        return z

    def solve(self, alpha: float, x: np.ndarray) -> np.ndarray | None:
        """Return (B + αI)⁻¹x for the columns of x; None where that is not positive definite.

        Parameters
        ----------
        alpha : float
            The shift.
        x : ndarray of shape (n, t)
            Right-hand sides, `turned`.
        """
        b, n = len(self.diagonals) - 1, len(x)
        factor = self.diagonals.copy(order="F")
        factor[0] += alpha
        if call("dpbtrf", b"L", n, b, factor, b + 1) or not np.isfinite(factor[0]).all():
            return None
        out = np.array(x, dtype=np.float64, order="F")
        call("dpbtrs", b"L", n, b, out.shape[1], factor, b + 1, out, n)
        return out
