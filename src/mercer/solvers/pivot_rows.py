"""The growing factor of a pivoted Cholesky: in main memory, or on the device that computes rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm, dgemv, dtrsm

from mercer.domains import GramRows
from mercer.domains.vectors import is_torch, to_host
from mercer.engines.base import NumpyEngine
from mercer.engines.budget import require_memory
from mercer.engines.device.memory import free_on, out_of_memory
from mercer.engines.tiles import row_blocks, rows_into
from mercer.errors import InvalidInput
from mercer.operators import Gram, Operator

__all__ = ["DeviceRows", "HostRows", "finite", "pivot_rows"]


class HostRows:
    """Rows F with A ≈ FᵀF, with room for all of them, in main memory.

    Parameters
    ----------
    A : Operator of shape (n, n)
        The matrix.
    rank : int
        Rows at most.
    diagonal : ndarray of shape (n,)
        That of A.
    owner : str
        Who asks, for messages.
    """

    def __init__(self, A: Operator, rank: int, diagonal: np.ndarray, owner: str):
        n = A.shape[0]
        require_memory(
            8 * rank * n,
            f"{owner}: a pivoted Cholesky factor of {rank} × {n} numbers",
            "Use a smaller rank",
        )
        self.F, self.size = np.empty((rank, n)), 0
        self.write = _row_writer(A, diagonal, owner)

    def inner(self, index: np.ndarray) -> np.ndarray:
        """Return the block of FᵀF at some columns."""
        part = self.F[: self.size, index]
        return part.T @ part

    def append(self, index: np.ndarray, L: np.ndarray) -> np.ndarray:
        """Add L⁻¹(A − FᵀF) at the rows `index`, and return the sums of its squared columns.

        Parameters
        ----------
        index : ndarray of shape (c,)
            The pivots.
        L : ndarray of shape (c, c)
            The Cholesky factor of what FᵀF leaves of A at them.
        """
        F, r = self.F, self.size
        G = F[r : r + len(index)]
        for part in row_blocks(len(index), 8 * F.shape[1]):
            self.write(G[part], index[part])
        # G ← L⁻¹(G − F_Sᵀ F) in place: rows of C are columns of Fortran.
        if r and len(index) == 1:
            dgemv(-1.0, F[:r].T, F[:r, index[0]], 1.0, G[0], overwrite_y=1)
        elif r:
            dgemm(-1.0, F[:r].T, F[:r, index], 1.0, G.T, overwrite_c=1)
        dtrsm(1.0, L, G.T, side=1, lower=1, trans_a=1, overwrite_b=1)
        self.size += len(index)
        return np.einsum("ij,ij->j", G, G)

    def table(self) -> np.ndarray:
        """Return the rows so far as an array of their own."""
        return self.F if self.size == len(self.F) else self.F[: self.size].copy()


class DeviceRows:
    """The same on a device, which does the r²n flops; rows of a kernel are made there.

    Parameters
    ----------
    A, rank, diagonal, owner
        As of `HostRows`.
    """

    def __init__(self, A: Any, rank: int, diagonal: np.ndarray, owner: str):
        import torch

        self.rows, self.diagonal, self.owner = A.rows_there(), diagonal, owner
        shape = (rank, A.shape[0])
        self.F, self.size = torch.empty(shape, dtype=torch.float64, device=A.device), 0

    def inner(self, index: np.ndarray) -> np.ndarray:
        """Return the block of FᵀF at some columns."""
        part = self.F[: self.size, index]
        return to_host(part.T @ part)

    def append(self, index: np.ndarray, L: np.ndarray) -> np.ndarray:
        """Add rows as `HostRows.append` does."""
        import torch

        old = self.F[: self.size]
        G = self.F[self.size : self.size + len(index)]
        found = self.rows(index)
        G.copy_(found if is_torch(found) else G.new_tensor(found))
        G[np.arange(len(index)), index] = G.new_tensor(self.diagonal[index])  # with white noise
        if not bool(G.sum().isfinite()):
            finite(to_host(G), self.owner)
        G.addmm_(old[:, index].T, old, alpha=-1)
        G.copy_(torch.linalg.solve_triangular(G.new_tensor(L).tril_(), G, upper=False))
        self.size += len(index)
        return to_host(G.square().sum(0))

    def table(self) -> np.ndarray:
        """Return the rows so far in main memory."""
        return np.array(to_host(self.F[: self.size]))


def pivot_rows(A: Operator, rank: int, diagonal: np.ndarray, owner: str) -> HostRows | DeviceRows:
    """Return room for the rows of a factor: where A is computed, if they fit there.

    Parameters
    ----------
    A, rank, diagonal, owner
        As of `HostRows`.
    """
    device = getattr(A, "device", None)
    there = device is not None and hasattr(A, "rows_there")
    if there and 2 * 8 * rank * A.shape[0] <= free_on(device):
        try:
            return DeviceRows(A, rank, diagonal, owner)
        except RuntimeError as error:  # another program has taken what was free
            if not out_of_memory(error):
                raise
    return HostRows(A, rank, diagonal, owner)


def _row_writer(A: Operator, diagonal: np.ndarray, owner: str) -> Callable[[Any, Any], None]:
    """Return a function that writes rows of A; those of a kernel go from tiles to their place."""
    lazy = isinstance(A, Gram) and A._matrix is None and isinstance(A._engine, NumpyEngine)
    if not isinstance(A, Gram) or not lazy or isinstance(A.kernel.domain, GramRows):

        def copied(out: np.ndarray, index: np.ndarray) -> None:
            out[...] = finite(A.rows(index), owner)

        return copied
    bound = A._bound()

    def written(out: np.ndarray, index: np.ndarray) -> None:
        rows_into(out, np.arange(len(index)), bound.rows_of(index))
        out[np.arange(len(index)), index] = diagonal[index]  # white noise lives there alone

    return written


def finite(rows: Any, owner: str) -> np.ndarray:
    """Return entries of a matrix in float64, or refuse those that are not finite.

    Parameters
    ----------
    rows : array
        Entries.
    owner : str
        Whose they are.
    """
    out = np.asarray(rows, dtype=np.float64)
    if not np.isfinite(out).all():
        raise InvalidInput(
            f"{owner}: the matrix holds NaN or infinity; check the data for NaN and the kernel's "
            "parameters for overflow."
        )
    return out
