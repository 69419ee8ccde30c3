"""Numbers beyond the range of floats: v and a whole exponent e stand for v·2^(512e)."""

from __future__ import annotations

import numpy as np

from mercer.jit.compile import compiled

__all__ = ["BIG", "LOG_BIG", "NONE", "SMALL", "logarithm", "lowered", "shift_of"]

BIG = 2.0**512
SMALL = 2.0**-512
UPPER = 2.0**256
LOWER = 2.0**-256
LOG_BIG = 512.0 * np.log(2.0)
NONE = -(2**62)  # the exponent of zero: below that of every number


@compiled
def lowered(gap):
    """Return 2^(−512·gap) for a gap of exponents ≥ 0; two and more leave nothing that counts."""
    return 1.0 if gap == 0 else (SMALL if gap == 1 else 0.0)


@compiled
def shift_of(v):
    """Return by how much the exponent must rise for v to come near 1: −1, 0 or 1."""
    return 1 if v > UPPER else (-1 if v < LOWER else 0)


@compiled
def logarithm(v, e):
    """Return log(v·2^(512e))."""
    return np.log(v) + e * LOG_BIG if v > 0.0 else -np.inf
