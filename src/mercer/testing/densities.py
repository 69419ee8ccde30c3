"""Certificates of bandwidths by the leave-one-out likelihood, recomputed from scratch."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["certify_bandwidth"]


def certify_bandwidth(model: Any, X: Any = None, y: Any = None) -> float:
    """Return the slope of the mean leave-one-out log-likelihood by log h at the bandwidth found.

    From the definition, with all pairs in memory: p₋ᵢ is a sum of wⱼ φ(s), of which
    −2s φ′(s) is the slope, and −d is that of h⁻ᵈ. Of "tophat" there is no slope: by how much the
    mean is larger at the best of all distances.
    """
    w = np.ones(len(model.X_fit_)) if model.sample_weight_ is None else model.sample_weight_
    points, w = model.X_fit_[w > 0] / model.bandwidth_, w[w > 0]
    s = ((points[:, None] - points) ** 2).sum(axis=2)
    counts = np.broadcast_to(w, s.shape).copy()
    np.fill_diagonal(counts, np.maximum(w - 1.0, 0.0))
    share, d = w / w.sum(), points.shape[1]
    if model.smoothing_ == "tophat":
        distances = np.sqrt(np.unique(s[s > 0]))
        means = [_mean_of_balls(s, counts, share, r, d) for r in distances * (1 + 1e-12)]
        return max(0.0, max(means) - _mean_of_balls(s, counts, share, 1.0, d))
    # Relative to the nearest that counts: far from all others exponentials would vanish.
    near = np.where(counts > 0, s, np.inf).min(axis=1)[:, None]
    values, slopes = _profile(model.smoothing_, s, near)
    whole = (counts * values).sum(axis=1)
    return float(abs(share @ ((counts * slopes).sum(axis=1) / whole) - d))


def _mean_of_balls(s: np.ndarray, counts: np.ndarray, share: np.ndarray, h: float, d: int) -> float:
    """Return the mean of the logarithms of weights within h over hᵈ."""
    with np.errstate(divide="ignore"):
        return float(share @ np.log((counts * (s < h * h)).sum(axis=1))) - d * float(np.log(h))


def _profile(name: str, s: np.ndarray, near: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return φ(s) and −2s φ′(s), exponentials relative to that of the nearest point."""
    r = np.sqrt(s)
    if name == "gaussian":
        value = np.exp(-0.5 * (s - near))
        return value, s * value
    if name == "exponential":
        value = np.exp(np.sqrt(near) - r)
        return value, r * value
    inside, a = s < 1.0, 0.5 * np.pi * r
    value, slope = {
        "epanechnikov": (1.0 - s, 2.0 * s),
        "triangular": (1.0 - r, r),
        "biweight": ((1.0 - s) ** 2, 4.0 * s * (1.0 - s)),
        "cosine": (np.cos(a), a * np.sin(a)),
    }[name]
    return np.where(inside, value, 0.0), np.where(inside, slope, 0.0)
