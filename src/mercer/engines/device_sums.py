"""Logarithms of sums of a radial profile over all points on a device: a streaming log-sum-exp.

As `mercer.engines.profiles`, tile by tile with torch. Exponentials are taken relative to the
nearest point seen so far; when a nearer one comes, the sums so far shrink by as much (Milakov,
Gimelshein, arXiv:1805.02867). So no sum loses terms, and no second pass is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from mercer.engines import blocks
from mercer.engines.budget import require_memory
from mercer.engines.device_guard import named_when_full
from mercer.engines.device_memory import free_memory, run_within_memory
from mercer.engines.torch import TorchEngine

__all__ = ["least_squares_apart", "log_sums_on_device"]

ENTRIES = 2**24  # of a tile: enough for a device, and a few of them are little memory
WIDTH = 2**14  # points of a tile, where there are as many queries
LEAST = 256  # entries of the smallest tile
WORKSPACE = 6  # arrays of tile size alive at once
FAR = 1e300  # a squared distance beyond which all are alike
NONE = 1e301  # stands for the distance of a point that does not count
# Largest ε(‖q‖² + ‖x‖²) at which ‖q‖² + ‖x‖² − 2qᵀx tells the exponent of a gaussian.
CANCELLATION = 1e-12


class _Tiles:
    """Points on the device, and tiles of squared distances to bands of queries."""

    def __init__(
        self, Q: np.ndarray | None, X: np.ndarray, unit: float, what: str, frame: Any, smooth: bool
    ):
        import torch

        self.torch, self.what, self.unit = torch, what, unit
        self.leave, self.frame = Q is None, None if Q is None else frame
        self.Q, self.n = (X if Q is None else Q), len(X)
        self.m, d = len(self.Q), X.shape[1]
        self.X = self._moved(X)
        held = 8 * (2 * d * self.n + 4 * self.m)  # the points and their squares, and the answers
        require_memory(
            held + 8 * WORKSPACE * LEAST,
            f"a sum over {self.n} points for each of {self.m}",
            "Ask about fewer points at a time",
            self.X,
        )
        left = (free_memory(self.X) - held) // (2 * 8 * WORKSPACE)
        entries = max(LEAST, min(ENTRIES, left))
        self.width = max(1, min(self.n, WIDTH, entries))
        self.height = max(1, entries // self.width)
        self.smooth = smooth
        self.norms = (self.X * self.X).sum(1)
        self.reach = float(self.norms.max()) if self.n else 0.0

    def _moved(self, Z: np.ndarray) -> Any:
        with np.errstate(over="ignore"):
            scaled = np.multiply(Z, self.unit)
        return TorchEngine().asarray(np.asarray(scaled, dtype=np.float64))

    def run(self, work: Callable[[slice, Any], None]) -> None:
        """Call ``work(rows, band)`` for bands of queries in the unit of the profile."""
        bound = SimpleNamespace(
            shape=(self.m, self.n), threads=False, xp=self.torch, collections=(self.X,)
        )

        def step(rows: slice) -> None:
            Q = self.Q[rows]
            work(rows, self._moved(Q if self.frame is None else self.frame(Q)))

        def task(rows: slice) -> None:
            def some(part: slice) -> None:
                step(slice(rows.start + part.start, rows.start + part.stop))

            what = f"a sum over {self.n} points"
            run_within_memory(some, rows.stop - rows.start, self.height, 1, what, self.X)

        blocks._run(bound, blocks._cuts(self.m, self.height), task, 1, self.what)

    def squares(self, rows: slice, band: Any) -> Any:
        """Yield columns, their squared distances to a band, and where a query meets itself."""
        norms = (band * band).sum(1)
        reach = self.reach + float(norms.max())
        product = self.smooth and np.finfo(float).eps * reach < CANCELLATION
        for cols in blocks._cuts(self.n, self.width):
            if product:
                s = self.torch.addmm(self.norms[None, cols], band, self.X[cols].T, alpha=-2)
                s = s.add_(norms[:, None]).clamp_(min=0.0)
            else:
                s = self._by_differences(band, self.X[cols])
            low, high = max(rows.start, cols.start), min(rows.stop, cols.stop)
            if not self.leave or low >= high:
                yield cols, s, None
                continue
            own = s[low - rows.start : high - rows.start, low - cols.start : high - cols.start]
            yield cols, s, own.diagonal()

    @staticmethod
    def _by_differences(band: Any, X: Any) -> Any:
        """Return Σₖ(qₖ − xₖ)²: nothing cancels, at the price of a pass for each column."""
        total: Any = 0.0
        for k in range(X.shape[1]):
            gap = band[:, k, None] - X[None, :, k]
            total = gap.mul_(gap).add_(total)
        return total.clamp_(max=FAR)


@named_when_full("sums over all points", "Fit fewer points")
def log_sums_on_device(
    Q: np.ndarray | None,
    X: np.ndarray,
    w: np.ndarray | None,
    code: int,
    *,
    unit: float | None,
    rim: float,
    shrink: float,
    slopes: bool,
    frame: Callable[[np.ndarray], np.ndarray] | None,
) -> Any:
    """Return what `profiles.log_sums` does, computed on the device of ``config(device=...)``.

    Parameters
    ----------
    Q, X, w, code, slopes, frame
        As there.
    unit : float or None
        What multiplies coordinates, so that φ is 2^(−s) or 2^(−√s); None for bounded supports.
    rim, shrink : float
        Of a bounded support: the least s outside, and 1/h².

    Returns
    -------
    ndarray of shape (m,), or a pair of them
        The logarithms, and with `slopes` their derivatives by log h.
    """
    import torch

    job = _Tiles(Q, X, 1.0 if unit is None else unit, "density", frame, code == 0)
    top = 1.0 if w is None else float(w.max())
    share = None if w is None else TorchEngine().asarray(w / top)
    out = np.zeros((2, job.m))

    def weighed(A: Any, cols: slice) -> Any:
        return A.sum(1) if share is None else A @ share[cols]

    def work(rows: slice, band: Any) -> None:
        sums = band.new_zeros((2, len(band)))
        off = band.new_full((len(band),), NONE if unit is not None else 0.0)
        for cols, s, own in job.squares(rows, band):
            if unit is not None:
                t = s.sqrt_() if code == 6 else s
                if own is not None:
                    own.fill_(NONE)
                nearer = torch.minimum(off, t.amin(1))
                sums *= torch.exp2(nearer - off)
                off = nearer
                v = torch.exp2(off[:, None] - t)
                lean = t
            else:
                v, lean = _bounded(s, code, rim, shrink, slopes)
            if own is not None:
                v.diagonal(rows.start - cols.start).zero_()
            sums[0] += weighed(v, cols)
            if slopes and unit is not None:
                sums[1] += weighed(v.mul_(lean), cols)
            elif slopes and lean is not None:
                sums[1] += weighed(lean, cols)
        found = sums.log() if not slopes else torch.stack([sums[0].log(), sums[1] / sums[0]])
        found[0] -= off * math.log(2.0)
        out[:, rows] = found.cpu().numpy()

    job.run(work)
    out[0] += math.log(top)
    if not slopes:
        return out[0]
    # Of 2^(−s) the slope is 2s log 2, of 2^(−√s) it is √s log 2.
    out[1] *= {0: 2.0 * math.log(2.0), 6: math.log(2.0)}.get(code, 1.0)
    return out[0], np.where(np.isneginf(out[0]), 0.0, out[1])


def _bounded(s: Any, code: int, rim: float, shrink: float, slopes: bool) -> tuple[Any, Any]:
    """Return φ(u), u = s/h², of a bounded support, and −2u φ′(u), which is 0 at u = 0, if wanted.

    None stands for 0, as that of "tophat" is.
    """
    inside = s < rim
    if code == 2:
        return inside.to(s.dtype), None
    u = s.mul_(shrink).clamp_(max=1.0)
    u.masked_fill_(~inside, 1.0)
    if code == 1:
        return 1.0 - u, (2.0 * u).mul_(inside) if slopes else None
    if code == 4:
        v = 1.0 - u
        return v * v, 4.0 * u * v if slopes else None
    r = u.sqrt()
    if code == 3:
        return 1.0 - r, r * inside if slopes else None
    # cos(πr/2) = sin(π(1 − r)/2), with 1 − r = (1 − u)/(1 + r): to the last bits also near 1.
    v = ((1.0 - u) / (1.0 + r)).mul_(0.5 * math.pi).sin_()
    r *= 0.5 * math.pi
    return v, (r * r.sin()).mul_(inside) if slopes else None


@named_when_full("distances of all points", "Fit fewer points")
def least_squares_apart(X: np.ndarray) -> np.ndarray:
    """Return the squared distance of each row of X to the nearest other row; inf without one.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Points.
    """
    job = _Tiles(None, X, 1.0, "nearest", None, False)
    out = np.empty(job.m)

    def work(rows: slice, band: Any) -> None:
        low = band.new_full((len(band),), math.inf)
        for _, s, own in job.squares(rows, band):
            if own is not None:
                own.fill_(math.inf)
            low = job.torch.minimum(low, s.amin(1))
        out[rows] = low.cpu().numpy()

    job.run(work)
    return out
