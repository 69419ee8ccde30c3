"""The inverse behind a Cholesky factor on a device, in the memory of the factor.

`torch.cholesky_inverse` needs two more n × n matrices. Here L becomes L⁻¹ and L⁻¹ becomes L⁻ᵀL⁻¹,
block by block, as LAPACK's trtri and lauum do it (Du Croz, Higham, Stability of methods for matrix
inversion, IMA J. Numer. Anal. 12, 1992); all but the blocks on the diagonal is matrix products.
"""

from __future__ import annotations

from typing import Any

__all__ = ["invert_triangle_in_place", "potri_in_place"]

BLOCK = 2048  # columns of a block: long products, and a diagonal block that is little work


def invert_triangle_in_place(A: Any, block: int = BLOCK) -> None:
    """Replace the lower triangle L of A by L⁻¹; n³/3 flops.

    Parameters
    ----------
    A : tensor of shape (n, n)
        Its strict upper triangle is neither read nor written.
    block : int, default=2048
        Columns of a block.
    """
    import torch

    n = A.shape[0]
    starts = range(0, n, block)
    for j in reversed(starts):
        e = min(j + block, n)
        eye = torch.eye(e - j, dtype=A.dtype, device=A.device)
        corner = torch.linalg.solve_triangular(A[j:e, j:e], eye, upper=False)
        # −L₂₂⁻¹ L₂₁ L₁₁⁻¹ from the last rows up: those above are still what they were.
        for i in reversed(range(e, n, block)):
            f = min(i + block, n)
            part = torch.tril(A[i:f, i:f]) @ A[i:f, j:e]
            if i > e:
                part.addmm_(A[i:f, e:i], A[e:i, j:e])
            A[i:f, j:e] = part
        for i in range(e, n, block):
            f = min(i + block, n)
            A[i:f, j:e] = -(A[i:f, j:e] @ corner)
        A[j:e, j:e] = torch.tril(corner) + torch.triu(A[j:e, j:e], 1)


def potri_in_place(A: Any, block: int = BLOCK) -> None:
    """Replace the lower triangle L of A by that of (L Lᵀ)⁻¹; 2n³/3 flops.

    Parameters
    ----------
    A : tensor of shape (n, n)
        Its strict upper triangle is neither read nor written.
    block : int, default=2048
        Columns of a block.
    """
    import torch

    invert_triangle_in_place(A, block)
    n = A.shape[0]
    for i in range(0, n, block):
        e = min(i + block, n)
        corner, below = torch.tril(A[i:e, i:e]), A[e:, i:e]
        # Rows i of L⁻ᵀL⁻¹ need rows i and below of L⁻¹, none of which is overwritten yet.
        if i:
            left = corner.T @ A[i:e, :i]
            left.addmm_(below.T, A[e:, :i])
            A[i:e, :i] = left
        square = corner.T @ corner
        square.addmm_(below.T, below)
        A[i:e, i:e] = torch.tril(square) + torch.triu(A[i:e, i:e], 1)
