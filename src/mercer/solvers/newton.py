"""Newton steps on the free variables of a box QP, for where steps on pairs would take very long."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

__all__ = ["newton_steps"]

RIDGE = 1e-13  # relative to the mean of the diagonal: a singular block still gives a descent


def newton_steps(
    Q: np.ndarray,
    G: np.ndarray,
    a: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    split: int | None,
    max_steps: int = 30,
    max_flops: float = 1e9,
) -> int:
    """Minimise over the free variables, the others fixed; drop those that meet a bound, repeat.

    The primal active-set method: each step solves the equality constrained problem

        Q_FF d + E μ = −G_F,   Eᵀd = 0,

    and goes as far along d as the box allows. a and G are changed in place, the sums of
    a[:split] and a[split:] are kept (with ``split=None`` there is none to keep). It stops before
    `max_flops` are spent on factorisations.

    Returns
    -------
    int
        Steps taken.
    """
    taken = 0
    while taken < max_steps:
        F = np.flatnonzero((a > lower) & (a < upper))
        max_flops -= len(F) ** 3 / 3
        if len(F) < (1 if split is None else 2) or max_flops < 0:
            break
        H = np.array(Q[np.ix_(F, F)], dtype=float)
        d = _direction(H, G[F], None if split is None else F < split)
        if d is None:
            break
        slope, curvature = float(G[F] @ d), float(d @ (H @ d))
        if not slope < 0:
            break
        with np.errstate(divide="ignore", over="ignore"):
            room = np.where(d > 0, upper[F] - a[F], np.where(d < 0, lower[F] - a[F], np.inf))
            reach = np.where(d != 0, room / np.where(d != 0, d, 1.0), np.inf)
        longest = float(reach.min())
        step = min(longest, -slope / curvature if curvature > 0 else np.inf)
        if not np.isfinite(step) or step <= 0:
            break
        a[F] = np.clip(a[F] + step * d, lower[F], upper[F])
        G += step * (Q[:, F] @ d)
        taken += 1
        if step < longest:
            break
        stuck = F[reach <= longest * (1 + 1e-12)]
        a[stuck] = np.where(d[reach <= longest * (1 + 1e-12)] > 0, upper[stuck], lower[stuck])
    return taken


def _direction(H: np.ndarray, g: np.ndarray, first: np.ndarray | None) -> np.ndarray | None:
    """Return the Newton direction that keeps the sum over `first` and over the others."""
    n = len(g)
    ridge = RIDGE * max(float(np.trace(H)) / n, 1e-300)
    for _ in range(4):
        try:
            C = cho_factor(H + ridge * np.eye(n), lower=True, check_finite=False)
            break
        except LinAlgError:
            ridge *= 1e3
    else:
        return None
    if first is None:
        return _finite(-cho_solve(C, g, check_finite=False))
    E = np.stack([first, ~first], 1).astype(float)
    E = E[:, E.any(axis=0)]
    Z = cho_solve(C, np.column_stack([g, E]), check_finite=False)
    if _finite(Z) is None:
        return None
    try:
        mu = np.linalg.solve(E.T @ Z[:, 1:], E.T @ Z[:, 0])
    except LinAlgError:
        return None
    d = Z[:, 1:] @ mu - Z[:, 0]
    for e in E.T.astype(bool):  # rounding of the sums would add up over steps
        d[e] -= d[e].mean()
    return _finite(d)


def _finite(d: np.ndarray) -> np.ndarray | None:
    return d if np.isfinite(d).all() and np.abs(d).max(initial=0.0) < 1e150 else None
