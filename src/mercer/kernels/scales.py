"""Data-driven length scales: the median heuristic and scikit-learn's gamma="scale"."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains.vectors import is_torch
from mercer.errors import InvalidInput

__all__ = ["median_distance", "total_variance"]

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


def _numpy(X: Any) -> Any:
    return X.detach().cpu().numpy() if is_torch(X) else X


def median_distance(X: Any, sample_weight: Any = None, metric: str = "euclidean") -> float:
    """Return the weighted median of the distances between distinct points; 1 when there are none.

    Pairs count with the product of their weights and coinciding points not at all, so repeating a
    point is the same as weighting it. Beyond 1000 points an evenly spread subset decides.
    """
    from scipy.spatial.distance import pdist

    X, w = _numpy(X), _weights(X, sample_weight)
    X, w = X[w > 0], w[w > 0]
    if X.shape[0] > SUBSAMPLE:
        index = np.linspace(0, X.shape[0] - 1, SUBSAMPLE).astype(int)
        X, w = X[index], w[index]
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=float)
    if len(X) < 2:
        return 1.0
    distances = pdist(X, metric)
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
    return float(0.5 * (distances[order[low]] + distances[order[high]]))


def total_variance(X: Any, sample_weight: Any = None) -> float:
    """Return the variance of all entries of X, the number behind gamma="scale"; 1 if it is 0."""
    X, w = _numpy(X), _weights(X, sample_weight)
    total = float(w.sum()) * X.shape[1]
    if total <= 0:
        return 1.0
    if sp.issparse(X):
        mean = float(w @ np.asarray(X.sum(axis=1)).ravel()) / total
        second = float(w @ np.asarray(X.multiply(X).sum(axis=1)).ravel()) / total
        variance = second - mean**2
    else:
        rows = X.astype(float)
        mean = float(w @ rows.sum(axis=1)) / total
        variance = float(w @ ((rows - mean) ** 2).sum(axis=1)) / total
    return variance if variance > 0 and np.isfinite(variance) else 1.0
