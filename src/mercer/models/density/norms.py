"""Norms other than the euclidean one for smoothing kernels: volumes, directions, sums over pairs.

A density κ(u) = c φ(‖u‖²) can be normalised in any norm of ℝᵈ: with V the volume of the unit ball,
∫ φ(‖u‖²) du = dV ∫ rᵈ⁻¹ φ(r²) dr.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gammaln

from mercer.checks import as_number
from mercer.errors import InvalidInput, who
from mercer.misspelt import nearest as nearest_word

#: Names of norms, and the p of ‖u‖ₚ; that of "product" is the cube outside of which κ is 0.
METRICS = {"euclidean": 2.0, "manhattan": 1.0, "chebyshev": math.inf, "product": math.inf}
_ALIASES = {"l2": "euclidean", "l1": "manhattan", "cityblock": "manhattan", "infinity": "chebyshev"}
_CURES = {
    "minkowski": "Give the number p itself, such as metric=3.",
    "haversine": "On a sphere the integral of a kernel is another one for each bandwidth. Project "
    "the points to a plane, in kilometres, and take 'euclidean'.",
}
PAIRS = 2**15  # pairs of points that are looked at together: arrays stay in the cache
FAR = 1e300  # squared distances beyond it count as this one


def as_metric(metric: Any) -> str | float:
    """Return a metric by the one name that it has, or the number p."""
    if isinstance(metric, str):
        name = _ALIASES.get(metric, metric)
        if name in METRICS:
            return name
    elif (p := as_number(metric)) >= 1:
        return next((name for name in list(METRICS)[:3] if METRICS[name] == p), p)
    cure = _CURES.get(metric, "") if isinstance(metric, str) else ""
    meant = nearest_word(metric, METRICS) if isinstance(metric, str) and not cure else ""
    give = f"did you mean {meant!r}? Give" if meant else "give"
    raise InvalidInput(
        f"{who()}: metric={metric!r}; {give} {', '.join(map(repr, METRICS))}, or p ≥ 1 of the norm "
        "(Σ|u|ᵖ)^(1/p), in which a kernel has a known integral, so that densities are normalised. "
        f"{cure}".rstrip()
    )


def order_of(metric: str | float) -> float:
    """Return p."""
    return METRICS[metric] if isinstance(metric, str) else metric


def log_sphere(p: float, d: int) -> float:
    """Return log dV of the unit ball {‖u‖ₚ < 1} of ℝᵈ: V = (2Γ(1 + 1/p))ᵈ/Γ(1 + d/p)."""
    return math.log(d) + d * (math.log(2.0) + float(gammaln(1 + 1 / p))) - float(gammaln(1 + d / p))


def mean_square(p: float, d: int) -> float:
    """Return the mean of u₁²/‖u‖ₚ² for u drawn from the unit ball.

    Of independent g with densities ∝ exp(−|g|ᵖ), g/‖g‖ₚ and ‖g‖ₚᵖ are independent, and the latter
    has the law Gamma(d/p).
    """
    if p == math.inf:
        return (d + 2) / (3 * d)
    logs = gammaln(3 / p) - gammaln(1 / p) + gammaln(d / p) - gammaln((d + 2) / p)
    return math.exp(float(logs))


def directions(rng: np.random.Generator, n: int, d: int, p: float) -> np.ndarray:
    """Return n draws of u/‖u‖ₚ, u drawn from the unit ball, as rows."""
    if p == math.inf:
        U = rng.uniform(-1.0, 1.0, (n, d))
        size = np.abs(U).max(axis=1)
    else:
        G = rng.gamma(1 / p, size=(n, d))
        total = G.sum(axis=1, keepdims=True)
        U = (G / np.where(total > 0, total, 1.0)) ** (1 / p)
        U *= np.where(rng.random((n, d)) < 0.5, -1.0, 1.0)
        size = (total > 0).astype(float)[:, 0]
    U[size == 0, 0] = 1.0
    return U / np.where(size > 0, size, 1.0)[:, None]


def distances(Q: np.ndarray, X: np.ndarray, p: float) -> np.ndarray:
    """Return ‖q − x‖ₚ of all pairs of rows."""
    named = {1.0: "cityblock", 2.0: "euclidean", math.inf: "chebyshev"}.get(p)
    with np.errstate(over="ignore", invalid="ignore"):
        if named:
            return np.minimum(cdist(Q, X, named), math.sqrt(FAR))
        # in units of the largest difference: p-th powers are beyond floats soon
        most = np.minimum(cdist(Q, X, "chebyshev"), math.sqrt(FAR))
        unit, total = np.where(most > 0, most, 1.0), np.zeros_like(most)
        for c in range(Q.shape[1]):
            total += np.minimum(np.abs(np.subtract.outer(Q[:, c], X[:, c])) / unit, 1.0) ** p
        return np.minimum(most * total ** (1 / p), math.sqrt(FAR))


def blocks(m: int, n: int) -> Iterator[slice]:
    """Yield runs of m rows, each with about `PAIRS` pairs."""
    step = max(1, PAIRS // max(1, n))
    for start in range(0, m, step):
        yield slice(start, min(start + step, m))


def nearest(X: np.ndarray, p: float) -> np.ndarray:
    """Return the distance of each row to the nearest other row; inf without one."""
    out = np.empty(len(X))
    for rows in blocks(len(X), len(X)):
        D = distances(X[rows], X, p)
        D[np.arange(len(D)), np.arange(rows.start, rows.stop)] = np.inf
        out[rows] = D.min(axis=1)
    return out


def log_sums_by(
    tile: Callable[..., tuple[np.ndarray, Any]],
    Q: np.ndarray | None,
    X: np.ndarray,
    w: np.ndarray | None,
    slopes: bool,
    frame: Callable[[np.ndarray], np.ndarray] | None,
) -> Any:
    """Return log Σⱼ wⱼ κ(q, xⱼ), and its derivatives by the logarithm of h with `slopes`.

    ``tile(Q, X)`` gives log κ of all pairs, and its derivatives. The rest is as in
    `mercer.operators.log_sums`.
    """
    m = len(X) if Q is None else len(Q)
    out = np.empty((2, m))
    log_w = 0.0 if w is None else np.log(w)
    for rows in blocks(m, len(X)):
        block = X[rows] if Q is None else Q[rows]
        logs, ratios = tile(block if Q is None or frame is None else frame(block), X)
        logs += log_w
        if Q is None:
            logs[np.arange(len(logs)), np.arange(rows.start, rows.stop)] = -np.inf
        top = logs.max(axis=1)
        top[np.isneginf(top)] = 0.0
        terms = np.exp(logs - top[:, None])
        total = terms.sum(axis=1)
        with np.errstate(divide="ignore"):
            out[0, rows] = np.log(total) + top
        if slopes:
            slope = (terms * ratios).sum(axis=1)
            out[1, rows] = np.divide(slope, total, out=np.zeros_like(total), where=total > 0)
    return tuple(out) if slopes else out[0]
