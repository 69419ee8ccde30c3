"""Powers of two that bring rows of numbers to a size at which squares exist; nothing is rounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["RANGE", "largest", "moderate", "shifted"]

RANGE = 400  # between 2^−RANGE and 2^RANGE squares and their sums are in the range of floats


def largest(*collections: Any) -> float:
    """Return the largest absolute entry of dense or sparse rows of numbers, 0 where none is."""
    arrays = [Z.data if sp.issparse(Z) else Z for Z in collections]
    return max(
        (max(float(a.max(initial=0.0)), -float(a.min(initial=0.0))) for a in arrays), default=0.0
    )


def shifted(Z: Any, power: int) -> Any:
    """Return Z·2^power."""
    if not sp.issparse(Z):
        return np.ldexp(Z, power)
    Z = Z.copy()
    Z.data = np.ldexp(Z.data, power)
    return Z


def moderate(collections: list, top: int = 0) -> tuple[list, int]:
    """Return collections over 2^shift, and the shift: 0 where their largest entry is moderate.

    Elsewhere the largest entry comes to about 2^top.
    """
    size = largest(*collections)
    exponent = int(np.frexp(size)[1])
    if size == 0 or abs(exponent) <= RANGE:
        return collections, 0
    shift = exponent - top
    return [shifted(Z, -shift) for Z in collections], shift
