"""How much is added to the diagonal of a matrix whose factorisation fails."""

from __future__ import annotations

import numpy as np

__all__ = ["jitter_amounts", "jitter_tried"]

# Rungs of jitter="auto", relative to the mean of the diagonal. Rounding in the factorisation of a
# singular Gram matrix is of order n·eps·mean(diag) (Higham, Accuracy and Stability of Numerical
# Algorithms, 2nd ed., §10.1), which the first two rungs cover. The mean of the diagonal is the mean
# eigenvalue, hence at most λ_max: what the last rung repairs has λ_min ≥ −1e-8·λ_max up to
# rounding, so a matrix that is indefinite beyond 1e-8 can never be jittered into an answer.
_RUNGS = (1e-14, 1e-12, 1e-10, 1e-8)


def jitter_amounts(diagonal: np.ndarray, jitter: str | float) -> list[float]:
    """Return what to add, in the order of trying.

    Parameters
    ----------
    diagonal : ndarray of shape (n,)
        The diagonal of the matrix.
    jitter : "auto" or float
        "auto", or the one amount to try.
    """
    if jitter != "auto":
        return [float(jitter)] if float(jitter) > 0 else []
    mean = float(np.mean(diagonal / diagonal.size)) * diagonal.size  # no overflow at 1e308
    hopeless = mean <= 0 or float(diagonal.min()) < -_RUNGS[-1] * mean
    return [] if hopeless else [rung * mean for rung in _RUNGS]


def jitter_tried(jitter: str | float) -> str:
    """Return in words what has been tried."""
    if jitter == "auto":
        return f"jitter up to {_RUNGS[-1]:g} of the mean diagonal does not help"
    return f"jitter {float(jitter):g} does not help" if float(jitter) > 0 else "jitter is off"
