"""How a law complains: `require` and `agree` raise AssertionError with numbers in the message."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["agree", "require", "to_numpy"]


def require(condition: Any, message: str) -> None:
    """Raise AssertionError with the message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def to_numpy(A: Any) -> np.ndarray:
    """Return an array, a tensor or a sparse matrix as a NumPy array."""
    if hasattr(A, "detach"):
        A = A.detach().cpu().numpy()
    return A.toarray() if hasattr(A, "toarray") else np.asarray(A)


def agree(got: Any, expected: Any, tol: float, message: str, *, bitwise: bool = False) -> None:
    """Require |got − expected| ≤ tol·max|expected| entry by entry, or equal bits."""
    got, expected = to_numpy(got), to_numpy(expected)
    require(got.shape == expected.shape, f"{message}: shape {got.shape}, expected {expected.shape}")
    if bitwise:
        require(np.array_equal(got, expected), f"{message}: the bits differ")
        return
    require(np.isfinite(got).all(), f"{message}: not finite")
    if not got.size:
        return
    gap = np.abs(got.astype(float) - expected.astype(float))
    limit = tol * (float(np.abs(expected).max()) or 1.0)
    where = np.unravel_index(int(gap.argmax()), gap.shape)
    require(
        gap[where] <= limit,
        f"{message}: {got[where]!r} at {tuple(map(int, where))}, expected {expected[where]!r}; "
        f"difference {gap[where]:.3g} > {limit:.3g}",
    )
