"""Data-driven length scales: the median heuristic and scikit-learn's gamma="scale"."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains.vectors import is_torch
from mercer.errors import InvalidInput

__all__ = ["median_distance", "standard_deviation"]

SUBSAMPLE = 1000


def _weights(X: Any, sample_weight: Any) -> np.ndarray:
    if sample_weight is None:
        return np.ones(X.shape[0])
    w = np.asarray(sample_weight, dtype=float)
    if w.shape != (X.shape[0],):
        raise InvalidInput(
            f"sample_weight has shape {w.shape}, expected ({X.shape[0]},): one for each point."
        )
    return w


def _counted(X: Any, sample_weight: Any) -> tuple[Any, np.ndarray]:
    """Return the points that count, in float64, and their weights."""
    X, w = X.detach().cpu().numpy() if is_torch(X) else X, _weights(X, sample_weight)
    return X[w > 0].astype(np.float64), w[w > 0]


def _exponent(values: np.ndarray) -> int:
    """Return e such that values/2ᵉ are at most 1: their squares neither overflow nor vanish."""
    return int(np.frexp(np.abs(values).max(initial=0.0))[1])


def _restored(value: float, exponent: int) -> float:
    """Return value·2ᵉ, a positive float even where it would leave their range."""
    info = np.finfo(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        return float(np.clip(np.ldexp(value, exponent), info.smallest_subnormal, info.max))


def median_distance(X: Any, sample_weight: Any = None, metric: str = "euclidean") -> float:
    """Return the weighted median of the distances between distinct points; 1 when there are none.

    Pairs count with the product of their weights and coinciding points not at all, so repeating a
    point is the same as weighting it. Beyond 1000 points an evenly spread subset decides.
    """
    from scipy.spatial.distance import pdist

    X, w = _counted(X, sample_weight)
    if X.shape[0] > SUBSAMPLE:
        index = np.linspace(0, X.shape[0] - 1, SUBSAMPLE).astype(int)
        X, w = X[index], w[index]
    X = X.toarray() if sp.issparse(X) else X
    if len(X) < 2:
        return 1.0
    exponent = _exponent(X)
    distances = pdist(np.ldexp(X, -exponent), metric)
    rows, cols = np.triu_indices(len(X), 1)
    pair = w[rows] * w[cols]
    # Coincidence is judged on the scale of the data, so rounding does not count as a distance.
    distinct = distances > 1e-12 * distances.max(initial=0.0)
    distances, pair = distances[distinct], pair[distinct]
    if not len(distances):
        return 1.0
    order = np.argsort(distances)
    cumulative = np.cumsum(pair[order])
    half = 0.5 * cumulative[-1]
    low = int(np.searchsorted(cumulative, half * (1 - 1e-12)))
    high = int(np.searchsorted(cumulative, half * (1 + 1e-12)))
    high = min(high, len(order) - 1)
    return _restored(0.5 * (distances[order[low]] + distances[order[high]]), exponent)


def standard_deviation(X: Any, sample_weight: Any = None) -> float:
    """Return that of all entries of X, the number behind gamma="scale"; 1 if all are equal.

    In two passes, the mean first, since E x² − (E x)² cancels; of sparse rows the entries that
    are not stored count as the zeros they are.
    """
    X, w = _counted(X, sample_weight)
    if not len(w):
        return 1.0
    if sp.issparse(X):
        X.sum_duplicates()
        stored = np.diff(X.indptr)
        values, weights = X.data, np.repeat(w, stored)
        zeros = float(w @ (X.shape[1] - stored))
    else:
        values, weights, zeros = X.ravel(), np.repeat(w, X.shape[1]), 0.0
    some = values if not zeros else np.append(values, 0.0)
    if some.min(initial=np.inf) >= some.max(initial=-np.inf):
        return 1.0
    exponent = _exponent(values)
    values = np.ldexp(values, -exponent)
    total = weights.sum() + zeros
    mean = (weights @ values) / total
    variance = (weights @ (values - mean) ** 2 + zeros * mean**2) / total
    return _restored(float(np.sqrt(variance)), exponent)
