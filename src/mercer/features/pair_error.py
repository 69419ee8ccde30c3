"""The error of approximate features: a root mean square over random pairs, with its own error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.features.row_order import different_rows
from mercer.kernels import Kernel
from mercer.rkhs.function import apart

__all__ = ["pair_error"]

PAIRS, TOGETHER = 1024, 128  # pairs that are looked at, and how many of them in one matrix


def pair_error(
    kernel: Kernel,
    X: Any,
    weights: np.ndarray | None,
    features: Callable[[Any], np.ndarray],
    rng: np.random.RandomState,
) -> tuple[float, float]:
    """Return √(mean of (φ(x)ᵀφ(x′) − k(x, x′))²) over random pairs, and its standard error.

    Both points of a pair are drawn from the training points, in proportion to their weights. The
    features are what they are: the standard error is that of the draw of pairs alone.

    Parameters
    ----------
    kernel : Kernel
        The kernel, words resolved.
    X : canonical collection
        The training points.
    weights : ndarray or None
        Their weights.
    features : callable
        The map φ of points.
    rng : RandomState
        Source of the pairs.
    """
    index, total = different_rows(kernel, X, weights)
    share = np.cumsum(total)
    drawn = np.searchsorted(share, rng.random_sample(2 * PAIRS) * share[-1], side="right")
    left, right = index[np.minimum(drawn, len(index) - 1)].reshape(2, PAIRS)
    squares = np.empty(PAIRS)
    for start in range(0, PAIRS, TOGETHER):
        part = slice(start, start + TOGETHER)
        A, B = kernel.domain.take(X, left[part]), kernel.domain.take(X, right[part])
        exact = np.diagonal(np.asarray(kernel(A, apart(kernel.domain, B)), dtype=np.float64))
        squares[part] = (np.einsum("ij,ij->i", features(A), features(B)) - exact) ** 2
    # The error of √S is that of S over 2√S.
    error = float(np.sqrt(squares.mean()))
    spread = float(squares.std(ddof=1)) / np.sqrt(PAIRS)
    return error, spread / (2 * error) if error > 0 else 0.0
