"""Logarithms of sums of a radial profile over all points, without their matrix.

log Σⱼ wⱼ φ(‖q − xⱼ‖²/h²) for every query q. Each query has a sum of its own, so neither blocks nor
threads change its bits but for the last. Sums of exponentials that come out as good as zero are
taken again relative to the nearest point: a streaming log-sum-exp that pays only where it must.
The torch engine has its own form of all of it, `mercer.operators.device`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from mercer.engines import cuts, run_tiles
from mercer.memory import require_memory
from mercer.settings import get_config

# Scales of the coordinates that turn exp(−s/2) to 2^(−s) and exp(−√s) to 2^(−√s); by profile.
UNITS = {0: math.sqrt(0.5 / math.log(2.0)), 6: 1.0 / math.log(2.0)}
PANEL = 4096  # points summed before their sum is added to the total: near the core, and exact
BLOCK = 512  # queries side by side, half of them where there are more than four columns
NUMBERS = 2**14  # of a block of queries: some of the fast cache
TINY = 1e-300  # a squared bandwidth below which all are alike
LEAST = 1e-250  # sums of exponentials below this may have lost terms
FEW = 16  # queries that are answered one by one, with the points side by side


def rim(radius: float) -> float:
    """Return the least s of which the square root, rounded, is not below the radius.

    So s < rim(h) says whether √s < h, for all s.

    Parameters
    ----------
    radius : float
        h, positive.
    """
    s = radius * radius
    while math.sqrt(s) < radius:
        s = math.nextafter(s, math.inf)
    while math.sqrt(below := math.nextafter(s, 0.0)) >= radius:
        s = below
    return s


def _width(d: int) -> int:
    """Return to how many columns d of them are brought, so that four are summed at a time."""
    return d if d < 4 else -(-d // 4) * 4


def _padded(Z: np.ndarray, unit: float) -> np.ndarray:
    out = np.zeros((len(Z), _width(Z.shape[1])))
    np.multiply(Z, unit, out=out[:, : Z.shape[1]])
    return out


class _Pass:
    """One pass over all points for each block of queries."""

    def __init__(
        self, Q: np.ndarray | None, X: np.ndarray, unit: float, what: str, frame: Any = None
    ):
        n, d = X.shape
        self.leave = Q is None
        m = n if Q is None else len(Q)
        self.width = _width(d)
        most = BLOCK if self.width <= 4 else BLOCK // 2
        self.size = min(most, max(32, NUMBERS // self.width // 32 * 32))
        block = 8 * (3 * self.width + 3 * d + 8) * self.size
        require_memory(
            8 * (self.width + 1) * n + 16 * m + block * get_config().threads,
            f"a sum over {n} points for each of {m}",
            "Ask about fewer points at a time",
        )
        self.n, self.m, self.unit, self.what = n, m, unit, what
        self.frame = frame if Q is not None else None
        self.X = self._padded(X)
        self.Q = X if Q is None else Q
        self.bound = SimpleNamespace(shape=(m, n), threads=True, xp=np, collections=(X, X))

    def _padded(self, Z: np.ndarray) -> np.ndarray:
        """Return rows in the unit of the profile, with columns of zeros up to the width."""
        return _padded(Z, self.unit)

    def run(self, work: Any) -> None:
        """Call ``work(rows, block, first)`` for blocks of queries, a query a column."""
        threads = get_config().threads
        size = self.size
        if self.m < 2 * threads * size:  # few queries: some for every thread
            size = max(32, -(-self.m // (2 * threads * 8)) * 8)

        def task(rows: slice) -> None:
            Q = self.Q[rows] if self.frame is None else self.frame(self.Q[rows])
            block = np.ascontiguousarray(self._padded(Q).T)
            work(rows, block, rows.start if self.leave else self.n)

        run_tiles(self.bound, cuts(self.m, size), task, threads, self.what)

    def panels(self, block: np.ndarray, first: int, count: int, step: Any) -> np.ndarray:
        """Return `count` sums over panels of what ``step(block, panel, first, s, *sums)`` adds."""
        B = block.shape[1]
        total, part, s = np.zeros((count, B)), np.empty((count, B)), np.empty(B)
        for start in range(0, self.n, PANEL):
            part[:] = 0.0
            step(block, slice(start, start + PANEL), first - start, s, *part)
            total += part
        return total

    def lows(self, block: np.ndarray, first: int) -> np.ndarray:
        """Return the smallest squared distances of a block; infinite where no point counts."""
        from mercer.jit import lower

        low, s = np.full(block.shape[1], np.inf), np.empty(block.shape[1])
        for start in range(0, self.n, PANEL):
            lower(block, self.X[start : start + PANEL], first - start, s, low)
        return low


def log_sums(
    Q: np.ndarray | None,
    X: np.ndarray,
    w: np.ndarray | None,
    code: int,
    *,
    radius: float = 1.0,
    slopes: bool = False,
    frame: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Any:
    """Return log Σⱼ wⱼ φ(‖q − xⱼ‖²/h²) for every query.

    Parameters
    ----------
    Q : ndarray of shape (m, d), or None
        Queries; None asks about the points of X, each of which leaves itself out.
    X : ndarray of shape (n, d)
        Points.
    w : ndarray of shape (n,), optional
        Their weights, positive; by default 1.
    code : int
        Number of the profile, see `mercer.jit.density`.
    radius : float, default=1
        The bandwidth h. Where φ has a bounded support, distances that are not below h, by floats,
        are outside.
    slopes : bool, default=False
        Whether to return the derivatives as well.
    frame : callable, optional
        Makes coordinates of a block of queries, those of X.

    Returns
    -------
    ndarray of shape (m,)
        −inf where the sum is 0. Beyond floats a squared distance counts as 1e300.
    ndarray of shape (m,)
        With `slopes`, the derivatives by the logarithm of h; 0 where the sum is 0.
    """
    decays, count = code in UNITS, 2 if slopes else 1
    edge = rim(radius)
    shrink = 1.0 / max(edge, TINY)
    if get_config().engine == "torch":
        from mercer.operators.device import log_sums_on_device

        unit = UNITS[code] / radius if decays else None
        how: dict[str, Any] = {"slopes": slopes, "frame": frame}
        return log_sums_on_device(Q, X, w, code, unit=unit, rim=edge, shrink=shrink, **how)
    from mercer.jit import FAR, add_profiles, add_with_slopes

    job = _Pass(Q, X, UNITS[code] / radius if decays else 1.0, "density", frame)
    top = 1.0 if w is None else float(w.max())
    share = np.ones(job.n) if w is None else w / top
    out = np.empty((count, job.m))

    def work(rows: slice, block: np.ndarray, first: int) -> None:
        off = np.zeros(block.shape[1])

        def add(block: Any, panel: slice, first: int, s: Any, *sums: Any) -> None:
            given = block, job.X[panel], share[panel], code, edge, shrink, first, off, s
            (add_with_slopes if slopes else add_profiles)(*given, *sums)

        sums = job.panels(block, first, count, add)
        if decays and (sums[0] < LEAST).any():
            low = job.lows(block, first)
            # Of every query that has a point at all, so that one pass serves the whole block.
            off = np.where(np.isfinite(low), low if code == 0 else np.sqrt(low), 0.0)
            sums = job.panels(block, first, count, add)
            sums[0, low >= FAR] = share.sum()
            sums[0, np.isinf(low)] = 0.0
        with np.errstate(divide="ignore"):
            out[0, rows] = np.log(sums[0]) - off * math.log(2.0) + math.log(top)
        if slopes:
            sums[1] *= math.log(2.0) if decays else 1.0
            some = sums[0] > 0
            out[1, rows] = np.divide(sums[1], sums[0], out=np.zeros_like(sums[0]), where=some)

    job.run(work)
    return tuple(out) if slopes else out[0]


class PointsAside:
    """Points kept side by side, for sums over all of them for one query after another.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Points.
    w : ndarray of shape (n,), optional
        Their weights, positive; by default 1.
    code : int
        Number of the profile.
    radius : float
        The bandwidth, as of `log_sums`.
    """

    def __init__(self, X: np.ndarray, w: np.ndarray | None, code: int, radius: float):
        self.code, self.decays = code, code in UNITS
        self.edge = rim(radius)
        self.shrink = 1.0 / max(self.edge, TINY)
        self.unit = UNITS[code] / radius if self.decays else 1.0
        self.lanes = np.ascontiguousarray(_padded(X, self.unit).T)
        self.top = 1.0 if w is None else float(w.max())
        self.share = None if w is None else w / self.top

    def log_sums(self, Q: np.ndarray) -> np.ndarray:
        """Return log Σⱼ wⱼ φ(‖q − xⱼ‖²/h²) for every query, as `log_sums` does.

        Parameters
        ----------
        Q : ndarray of shape (m, d)
            Queries, in the coordinates of the points.
        """
        return np.array([self._sum(q[None]) for q in _padded(Q, self.unit)])

    def _sum(self, q: np.ndarray) -> float:
        from mercer.jit import FAR, lower

        total, off = self._total(q, 0.0), 0.0
        if self.decays and total < LEAST:
            n = self.lanes.shape[1]
            low = np.full(n, np.inf)
            lower(self.lanes, q, -n, np.empty(n), low)
            least = float(low.min())
            off = least if self.code == 0 else math.sqrt(least)
            total = self._total(q, off)
            if least >= FAR:
                total = float(n if self.share is None else self.share.sum())
        if total == 0.0:
            return -math.inf
        return math.log(total) - off * math.log(2.0) + math.log(self.top)

    def _total(self, q: np.ndarray, off: float) -> float:
        from mercer.jit import add_profiles

        n = self.lanes.shape[1]
        values, s = np.zeros(n), np.empty(n)
        how = self.code, self.edge, self.shrink, -n, np.full(n, off), s
        add_profiles(self.lanes, q, ONE, *how, values)
        return float(values.sum() if self.share is None else self.share @ values)


ONE = np.ones(1)


def nearest_squares(X: np.ndarray) -> np.ndarray:
    """Return the squared distance of each row of X to the nearest other row; inf without one.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Points.
    """
    if get_config().engine == "torch":
        from mercer.operators.device import least_squares_apart

        return least_squares_apart(X)
    job = _Pass(None, X, 1.0, "nearest")
    out = np.empty(job.m)

    def work(rows: slice, block: np.ndarray, first: int) -> None:
        out[rows] = job.lows(block, first)

    job.run(work)
    return out
