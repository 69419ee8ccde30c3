"""Eigenvalues and eigenvectors of a matrix on a device, found there by torch."""

from __future__ import annotations

import numpy as np

from mercer.engines.budget import require_memory
from mercer.errors import InvalidInput
from mercer.operators.on_device import OnDevice

__all__ = ["largest_pairs"]


def largest_pairs(A: OnDevice, k: int, owner: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the k largest eigenvalues, descending, and their vectors; about 9n³ flops.

    Parameters
    ----------
    A : OnDevice of shape (n, n)
        Symmetric; not changed.
    k : int
        How many, from 1 to n.
    owner : str
        Who asks, for messages.

    Returns
    -------
    values : ndarray of shape (k,)
        The eigenvalues.
    vectors : ndarray of shape (n, k)
        Orthonormal.
    """
    import torch

    n = A.shape[0]
    require_memory(
        8 * n * n * 4,  # the vectors, and the workspace of divide and conquer
        f"{owner}: the eigenvectors of the {n} × {n} matrix",
        "Use SubspaceIteration",
        A.tensor,
    )
    if not bool(torch.isfinite(A.tensor.sum())):
        raise InvalidInput(
            f"{owner}: the matrix holds NaN or infinity; check the data for NaN and the kernel's "
            "parameters for overflow."
        )
    values, vectors = torch.linalg.eigh(A.tensor)
    return values[-k:].flip(0).cpu().numpy(), vectors[:, -k:].flip(1).cpu().numpy()
