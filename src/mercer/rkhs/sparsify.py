"""Fewer points for the same function: greedy projection in the RKHS."""

from __future__ import annotations

import numpy as np
import scipy.linalg

__all__ = ["project"]

SLACK = 0.9  # of the tolerated error, leaving the rest to rounding in whoever checks it


def project(K: np.ndarray, coef: np.ndarray, tol: float) -> tuple[np.ndarray, np.ndarray]:
    """Return positions S and coefficients β with ‖Σᵢ αᵢkᵢ − Σ_S βⱼkⱼ‖ ≤ tol ‖Σᵢ αᵢkᵢ‖.

    Points enter one at a time: the one whose k(x, ·) takes most off the residual, as in orthogonal
    matching pursuit (f/P-greedy in the Newton basis: Müller & Schaback 2009; Wirtz & Haasdonk
    2013). The Newton basis is a pivoted Cholesky factorisation of K, so β is the projection onto
    the span of the points so far. The error is recomputed from K before it is believed.

    Returns
    -------
    tuple of arrays
        Positions in the order of choice, shape (s,), and coefficients of shape (s, t). All points
        and α itself where rounding does not allow fewer.
    """
    m = len(K)
    values = K @ coef
    squared = np.maximum((coef * values).sum(0), 0.0)
    limit = tol**2 * squared
    weight = np.divide(1.0, squared, out=np.zeros_like(squared), where=squared > 0)
    if not weight.any():
        return np.zeros(0, dtype=int), coef[:0]
    left = K.diagonal().copy()  # ‖k(x, ·)‖² beyond the span of the chosen points
    floor = 1e-13 * left
    error, target = squared.copy(), SLACK * limit
    basis = np.empty((min(m, 64), m))
    chosen: list[int] = []
    shares: list[np.ndarray] = []
    while len(chosen) < m:
        free = left > floor
        if not free.any():
            break
        gain = np.where(free, (values**2 @ weight) / np.where(free, left, 1.0), -1.0)
        p, s = int(gain.argmax()), len(chosen)
        if s == len(basis):
            basis = np.concatenate([basis, np.empty((min(s, m - s), m))])
        basis[s] = (K[p] - basis[:s, p] @ basis[:s]) / np.sqrt(left[p])
        share = values[p] / np.sqrt(left[p])
        values -= np.outer(basis[s], share)
        left -= basis[s] ** 2
        left[p] = 0.0
        error -= share**2
        chosen.append(p)
        shares.append(share)
        if len(chosen) < m and (error <= target).all():
            index = np.array(chosen)
            beta = scipy.linalg.solve_triangular(basis[: s + 1, index], np.array(shares))
            change = coef.copy()
            change[index] -= beta
            if ((change * (K @ change)).sum(0) <= SLACK * limit).all():
                return index, beta
            target = np.minimum(target, error) / 4
    return _eliminate(K, coef, SLACK * limit)


def _eliminate(K: np.ndarray, coef: np.ndarray, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drop points while the error allows it, cheapest first, for what a choice one by one misses.

    With Q = K⁻¹ the rest of k(x_p, ·) beyond the other points has squared norm 1/Q_pp, so dropping
    p costs α_p²/Q_pp and leaves α − Q_{·p} α_p/Q_pp. Spans are nested, hence costs add up.
    """
    index, kept = np.arange(len(K)), coef
    try:
        Q = scipy.linalg.inv(K)
    except scipy.linalg.LinAlgError:
        return index, coef
    spent = np.zeros(coef.shape[1])
    while len(index) > 1 and (np.diagonal(Q) > 0).all():
        costs = kept**2 / np.diagonal(Q)[:, None]
        p = int((costs / np.maximum(limit, 1e-300)).max(axis=1).argmin())
        rest = np.arange(len(index)) != p
        smaller = kept[rest] - np.outer(Q[rest, p], kept[p]) / Q[p, p]
        change = coef.copy()
        change[index[rest]] -= smaller
        true = (change * (K @ change)).sum(0)
        if ((spent + costs[p] > limit) | (true > limit)).any():
            break
        spent += costs[p]
        Q = Q[np.ix_(rest, rest)] - np.outer(Q[rest, p], Q[p, rest]) / Q[p, p]
        index, kept = index[rest], smaller
    return index, kept
