"""Two triangular factors in one m × m tensor, in blocks and in place, on its device."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains.vectors import to_host
from mercer.solvers.device_cholesky import potrf_in_place, restore_in_place

__all__ = ["DeviceBuffer"]

BLOCK = 4096  # columns of a block: long products, and corners that torch factors fast


class DeviceBuffer:
    """L with L Lᵀ = K + δI below the diagonal, U with UᵀU = LᵀDL + αI above it; as `HostBuffer`.

    Vectors come and go as NumPy arrays.

    Parameters
    ----------
    gram : tensor of shape (m, m)
        K; destroyed where it is float64 and contiguous.
    block : int, default=4096
        Columns of a block.
    """

    def __init__(self, gram: Any, block: int = BLOCK):
        import torch

        self.a = gram.detach().to(torch.float64).contiguous()
        self.block = block
        self._kept = self.a.diagonal().clone()
        self._low = self._up = self._kept
        self._fresh = True

    def diagonal(self) -> np.ndarray:
        """Return the diagonal of K."""
        return to_host(self._kept)

    def factor_gram(self, jitter: float) -> bool:
        """Make L; False where K + jitter·I has none."""
        if not self._fresh:
            restore_in_place(self.a, self._kept)
        self.a.diagonal().copy_(self._kept + jitter)
        self._fresh = False
        done = potrf_in_place(self.a, self.block)
        self._low = self.a.diagonal().clone()
        return done

    def factor_inner(self, root: np.ndarray, alpha: float) -> bool:
        """Make U with UᵀU = LᵀDL + alpha·I, D = diag(root)²; False where there is none.

        Block (I, J), I ≤ J, of LᵀDL is Σ over rows r ≥ J of L_rIᵀ D_r L_rJ: it reads below the
        diagonal and is written above it.
        """
        import torch

        d = self._tensor(root) ** 2
        diagonal = torch.empty_like(self._low)
        for i, j in self._cuts():
            own = self._corner(i, j)
            for k, e in self._cuts(i):
                right = (own if k == i else self._corner(k, e)) * d[k:e, None]
                left = own if k == i else self.a[k:e, i:j]
                product = left.T @ right
                if e < self.m:
                    # a panel times D a strip at a time: a copy of it all would be a third matrix
                    for r, s in self._cuts(e):
                        product.addmm_(self.a[r:s, i:j].T, self.a[r:s, k:e] * d[r:s, None])
                if k == i:
                    diagonal[i:j] = product.diagonal()
                    self._write(i, j, product)
                else:
                    self.a[i:j, k:e] = product
        return self._potrf_upper(diagonal + alpha)

    def _potrf_upper(self, diagonal: Any) -> bool:
        """Replace the matrix above the diagonal by U, left-looking as `potrf_in_place`."""
        import torch

        a = self.a
        self._up = torch.empty_like(diagonal)
        for i, j in self._cuts():
            corner = torch.triu(a[i:j, i:j], 1)
            D = corner + corner.T
            D.diagonal().copy_(diagonal[i:j])
            if i:
                D.addmm_(a[:i, i:j].T, a[:i, i:j], alpha=-1)
            L, info = torch.linalg.cholesky_ex(D)
            if int(info) != 0 or not bool(torch.isfinite(L.diagonal()).all()):
                return False
            self._up[i:j] = L.diagonal()
            self._write(i, j, L.T)
            for k, e in self._cuts(j):
                panel = a[i:j, k:e]
                if i:
                    panel.addmm_(a[:i, i:j].T, a[:i, k:e], alpha=-1)
                panel.copy_(torch.linalg.solve_triangular(L, panel, upper=False))
        return True

    def lower(self, V: np.ndarray, transpose: bool = False) -> np.ndarray:
        """Return L V or LᵀV."""
        import torch

        v = self._tensor(V)
        out = torch.empty_like(v)
        for i, j in self._cuts():
            own = self._corner(i, j)
            if transpose:
                out[i:j] = own.T @ v[i:j] + self.a[j:, i:j].T @ v[j:]
            else:
                out[i:j] = own @ v[i:j] + self.a[i:j, :i] @ v[:i]
        return to_host(out)

    def solve_lower(
        self, V: np.ndarray, transpose: bool = False, overwrite: bool = False
    ) -> np.ndarray:
        """Return L⁻¹V or L⁻ᵀV; V is on another machine, and never overwritten."""
        return self._solve(self._low, V, transpose, upper=False)

    def solve_upper(self, V: np.ndarray, transpose: bool = False) -> np.ndarray:
        """Return U⁻¹V or U⁻ᵀV."""
        return self._solve(self._up, V, transpose, upper=True)

    def _solve(self, diagonal: Any, V: np.ndarray, transpose: bool, upper: bool) -> np.ndarray:
        import torch

        self.a.diagonal().copy_(diagonal)
        A = self.a.T if transpose else self.a
        return to_host(torch.linalg.solve_triangular(A, self._tensor(V), upper=upper != transpose))

    @property
    def m(self) -> int:
        """How many centres there are."""
        return int(self.a.shape[0])

    def _cuts(self, start: int = 0) -> list[tuple[int, int]]:
        return [(i, min(i + self.block, self.m)) for i in range(start, self.m, self.block)]

    def _corner(self, i: int, j: int) -> Any:
        """Return a block of L on the diagonal."""
        import torch

        return torch.tril(self.a[i:j, i:j], -1) + torch.diag(self._low[i:j])

    def _write(self, i: int, j: int, block: Any) -> None:
        """Write above the diagonal of a block on it; L below stays."""
        import torch

        corner = self.a[i:j, i:j]
        corner.copy_(torch.tril(corner, -1) + torch.triu(block))

    def _tensor(self, V: Any) -> Any:
        import torch

        return torch.as_tensor(V, dtype=self.a.dtype, device=self.a.device)
