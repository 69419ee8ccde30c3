"""Newton steps on the free variables of a box QP, for where steps on pairs would take very long."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lapack

from mercer.checks import FOREVER, Clock
from mercer.lapack import dpotrf
from mercer.solvers.base import longest_step
from mercer.solvers.linear import factor_with_ridge

LEAP_RIDGE = 8  # roundings of the numbers of Q, relative to the mean of the diagonal
LEAPS = 3  # steps with one factor
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
    `max_flops` are spent on factorisations, and returns the number of steps taken.
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


def newton_leap(
    Q: np.ndarray,
    G: np.ndarray,
    a: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    split: int | None,
    free: np.ndarray,
) -> None:
    """Take Newton steps on many free variables, cut to the box, with one factorisation.

    It is that of Q as it comes, so that float32 takes half the time; what its rounding leaves of
    the gradient the next step takes. What the box cuts off a step is made up for by the other
    variables, so that the sums stay; then it goes as far that way as the objective falls. a and G
    are changed in place.
    """
    from mercer.jit import add_rows, take_block

    n = len(free)
    for ridge in (1.0, 1e2, 1e4):
        H = np.empty((n, n), Q.dtype)
        take_block(Q, free, free, H)
        mean = max(float(H.diagonal().mean()), 1e-300)
        H.flat[:: n + 1] += LEAP_RIDGE * float(np.finfo(H.dtype).eps) * ridge * mean
        factorise = lapack.spotrf if H.dtype == np.float32 else dpotrf
        C, info = factorise(H.T, lower=1, clean=0, overwrite_a=1)
        if info == 0:
            break
    else:
        return
    first = None if split is None else free < split
    low, high, none = lower[free], upper[free], np.zeros(0, dtype=np.int64)
    for _ in range(LEAPS):
        before, g = a[free], G[free]
        d = _kept((C, True), g, first)
        if d is None:
            return
        after = np.clip(before + d, low, high)
        whole = np.array_equal(after, before + d)
        if first is not None:
            for e in _sums(first).T > 0:
                _put_right(after, e, float(before[e].sum()), low, high)
        d = after - before
        change = np.zeros(len(G))
        add_rows(change, Q, free, d, none, 0, len(G))
        slope, curvature = float(g @ d), float(change[free] @ d)
        if not slope < 0:
            return
        part = 1.0 if -slope >= curvature else -slope / curvature
        a[free] = after if part == 1.0 else np.clip(before + part * d, low, high)
        G += part * change
        if not whole:
            return


def _direction(H: np.ndarray, g: np.ndarray, first: np.ndarray | None) -> np.ndarray | None:
    """Return the Newton direction that keeps the sum over `first` and over the others."""
    n = len(g)
    ridge = RIDGE * max(float(np.trace(H)) / n, 1e-300)
    C = factor_with_ridge(H, (ridge, 1e3 * ridge, 1e6 * ridge, 1e9 * ridge))
    return None if C is None else _kept(C, g, first)


def _kept(C: tuple, g: np.ndarray, first: np.ndarray | None) -> np.ndarray | None:
    """Return the direction of a factorised H that keeps the sums."""
    if first is None:
        return _finite(-cho_solve(C, g, check_finite=False))
    E = _sums(first)
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


# ---- An interior point method for a box QP on one block: few steps whatever the box and the
# scales.


INTERIOR_RIDGE = 1e-14  # relative to the diagonal: rounding may make a singular Q indefinite
SHY = 0.995  # part of the way to the walls of the box that a step may go
CLOSE = 1e-12  # part of the width of the box within which a variable may be put at the wall
ALIKE = 1e-7  # relative difference of two values of the objective that does not matter
DONE = 1e-12  # gap relative to the terms of the objective at which it stops
INTERIOR_STEPS = 50


def interior_point(
    Q: np.ndarray,
    p: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    start: np.ndarray,
    split: int | None,
    clock: Clock = FOREVER,
) -> np.ndarray | None:
    """Minimise ½aᵀQa + pᵀa over the box, the sums of a[:split] and a[split:] kept as at the start.

    Mehrotra's predictor and corrector on

        Qa + p − Eb − z + v = 0,   Eᵀa = Eᵀstart,   z(a − lower) = μ,   v(upper − a) = μ,

    with one factorisation of Q + diag(z/(a − lower) + v/(upper − a)) a step. Where pairs of
    variables would need millions of steps, as with a large C or with columns of very different
    scale, it needs some thirty. It ends where it is when time is over. Returns a point inside the
    box, those variables at a wall that belong there; None without success.
    """
    width = upper - lower
    open_ = width > 0
    if not open_.all():
        out = start.copy()
        inner = np.flatnonzero(open_)
        if not len(inner):
            return None
        rest = p[inner] + Q[np.ix_(inner, ~open_)] @ start[~open_]
        cut = None if split is None else int(open_[:split].sum())
        block = Q[np.ix_(inner, inner)]
        part = interior_point(block, rest, lower[inner], upper[inner], start[inner], cut, clock)
        if part is None:
            return None
        out[inner] = part
        return out
    n = len(p)
    Q = np.asarray(Q, dtype=float)
    E = np.zeros((n, 0)) if split is None else _sums(np.arange(n) < split)
    total = E.T @ start
    a = lower + width * np.clip((start - lower) / width, 0.05, 0.95)
    b = np.zeros(E.shape[1])
    size = max(1.0, float(np.abs(Q @ a + p).max(initial=0.0)))
    z, v = np.full(n, size), np.full(n, size)
    diagonal = Q.diagonal()
    ridge = INTERIOR_RIDGE * max(float(diagonal.mean()), 1e-300)
    best, idle = np.inf, 0
    found: tuple[np.ndarray, ...] | None = None
    with np.errstate(all="ignore"):
        for _ in range(INTERIOR_STEPS):
            s, t = a - lower, upper - a
            dual = -(Q @ a + p - E @ b - z + v)
            primal = total - E.T @ a
            mu = float(s @ z + t @ v) / (2 * n)
            left = mu + float(np.abs(dual).max()) + float(np.abs(primal).max(initial=0.0))
            if not np.isfinite(left):
                break
            if left < 0.5 * best:
                best, idle = left, 0
            else:
                idle += 1
            found = (a.copy(), z.copy(), v.copy()) if left <= best or found is None else found
            terms = abs(float(p @ a)) + 0.5 * abs(float(a @ (Q @ a)))
            if idle > 4 or 2 * n * mu < DONE * terms or clock.late:
                break
            H = Q.copy()
            H.flat[:: n + 1] += z / s + v / t + ridge
            try:
                C = cho_factor(H.T, lower=True, overwrite_a=True, check_finite=False)
            except LinAlgError:
                ridge *= 1e3
                continue
            step = _step(C, E, dual, primal, s, t, z, v, -s * z, -t * v)
            da, _, dz, dv = step
            reach = longest_step((s, da), (t, -da), (z, dz), (v, dv))
            after = float(
                (s + reach * da) @ (z + reach * dz) + (t - reach * da) @ (v + reach * dv)
            ) / (2 * n)
            centre = (after / mu) ** 3 * mu
            step = _step(
                C, E, dual, primal, s, t, z, v, centre - s * z - da * dz, centre - t * v + da * dv
            )
            da, db, dz, dv = step
            reach = min(1.0, SHY * longest_step((s, da), (t, -da), (z, dz), (v, dv)))
            if not reach > 1e-12:
                break
            a, b, z, v = a + reach * da, b + reach * db, z + reach * dz, v + reach * dv
            a = np.clip(a, lower + 1e-300, upper)
    if found is None:
        return None
    a, z, v = found
    close = np.where(
        a - lower < CLOSE * width, lower, np.where(upper - a < CLOSE * width, upper, a)
    )
    points = _at_walls(a, z, v, lower, upper), close, a
    return _lowest(points, Q, p, lower, upper, E, total)


def _at_walls(
    a: np.ndarray, z: np.ndarray, v: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> np.ndarray:
    """Put variables at a wall whose multiplier outweighs their distance, each in its own unit."""
    s, t = a - lower, upper - a
    far = float(np.minimum(s, t).max(initial=0.0))
    unit = far / max(float(np.maximum(z, v).max(initial=0.0)), 1e-300)
    return np.where(unit * z > s, lower, np.where(unit * v > t, upper, a))


def _lowest(
    points: tuple[np.ndarray, ...],
    Q: np.ndarray,
    p: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    E: np.ndarray,
    total: np.ndarray,
) -> np.ndarray | None:
    """Return the first point that is as low as any, with the sums put right on free variables."""
    values, repaired = [], []
    for a in points:
        a = np.clip(a, lower, upper)
        for e, wanted in zip(E.T > 0, total, strict=True):
            _put_right(a, e, float(wanted), lower, upper)
        value = 0.5 * float(a @ (Q @ a)) + float(p @ a)
        values.append(value if np.isfinite(value) else np.inf)
        repaired.append(a)
    least = min(values)
    if not np.isfinite(least):
        return None
    return next(a for a, v in zip(repaired, values, strict=True) if v <= least + ALIKE * abs(least))


def _put_right(
    a: np.ndarray, members: np.ndarray, wanted: float, lower: np.ndarray, upper: np.ndarray
) -> None:
    """Share out what a sum lacks among its free variables, or among all that can take it."""
    for _ in range(20):
        lack = wanted - a[members].sum()
        room = members & ((a < upper) if lack > 0 else (a > lower))
        free = room & (a > lower) & (a < upper)
        room = free if free.any() else room
        if lack == 0 or not room.any():
            return
        a[room] = np.clip(a[room] + lack / room.sum(), lower[room], upper[room])


def _sums(first: np.ndarray) -> np.ndarray:
    """Return the 0/1 columns of the sums over these variables and over the others."""
    E = np.stack([first, ~first], 1).astype(float)
    return E[:, E.any(axis=0)]


def _step(C, E, dual, primal, s, t, z, v, low, high):  # type: ignore[no-untyped-def]
    """Return (da, db, dz, dv) for the complementarity residuals low and high."""
    g = dual + low / s - high / t
    Z = cho_solve(C, np.column_stack([g, E]), check_finite=False)
    db = np.zeros(0)
    da = Z[:, 0]
    if E.shape[1]:
        db = np.linalg.lstsq(E.T @ Z[:, 1:], primal - E.T @ da, rcond=None)[0]
        da = da + Z[:, 1:] @ db
    return da, db, (low - z * da) / s, (high + v * da) / t
