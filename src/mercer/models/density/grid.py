"""Densities on regular grids in one or two dimensions: linear binning and one convolution by FFT.

Each point gives its weight to the corners of its cell, in proportion to its nearness (Wand 1994,
Fast computation of multivariate kernel estimators). That is the linear interpolation of κ between
grid points: a step of δ bandwidths costs an error of δ²/8 max|κ″| along each axis.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import fft

from mercer.engines import blocks
from mercer.errors import InvalidInput
from mercer.models.density.bandwidth import Bandwidth
from mercer.models.density.smoothing import Smoothing
from mercer.solvers.checks import check_index

__all__ = ["Grid", "on_grid"]

#: Bandwidths beyond which κ is taken for 0: below a part of 1e-15 of its peak.
REACH = {"gaussian": 8.5, "exponential": 36.0}
#: The same for the ends of a default grid: less than 1e-6 of the mass of a point is outside.
MARGIN = {"gaussian": 5.5, "exponential": 18.0}
#: Steps of a default grid to a bandwidth: an error below a thousandth of a smooth density.
FINE = {"gaussian": 16, "exponential": 16}
FINER = 32  # the same for kernels of bounded support, which are narrower
MOST = {1: 2**16, 2: 2**11}  # points along an axis of a default grid
EVEN = 1e-6  # part of a step by which the steps of an axis may differ


class Grid(NamedTuple):
    """A density on a regular grid.

    Parameters
    ----------
    axes : tuple of d arrays
        Coordinates along each axis.
    density : array of d dimensions
        The density at their crossings.
    """

    axes: tuple[np.ndarray, ...]
    density: np.ndarray


def on_grid(
    axes: Any,
    n_points: Any,
    kernel: Smoothing,
    bandwidth: Bandwidth,
    X: np.ndarray,
    w: np.ndarray | None,
    owner: str,
) -> Grid:
    """Return the density of weighted rows on the axes, or on a grid that covers it.

    Parameters
    ----------
    axes, n_points
        As for `KernelDensity.density_on_grid`.
    kernel : Smoothing
        The kernel.
    bandwidth : Bandwidth
        Its bandwidth.
    X : array of shape (n, d)
        Rows, d ≤ 2.
    w : array of shape (n,), optional
        Their weights, positive.
    owner : str
        Whose it is, for messages.
    """
    d = X.shape[1]
    if d > 2:
        raise InvalidInput(
            f"{owner}: a grid in {d} dimensions has too many points; density_on_grid takes one or "
            "two columns. Use score_samples."
        )
    # The support of κ(H⁻¹·) reaches as far along axis k as the row k of H is long.
    widths = _widths(bandwidth)
    if axes is None:
        margin = MARGIN.get(kernel.name, 1.0) * widths
        finest = _scales(bandwidth) / FINE.get(kernel.name, FINER)
        lines = _default(X, margin, finest, n_points, owner)
    else:
        if n_points is not None:
            raise InvalidInput(f"{owner}: give axes or n_points, not both.")
        lines = _checked(axes, d, owner)
    steps = [(line[-1] - line[0]) / (len(line) - 1) for line in lines]
    reach = REACH.get(kernel.name, 1.0)
    margins = [math.ceil(reach * h / step) for h, step in zip(widths, steps, strict=True)]
    sizes = [len(line) + 2 * m for line, m in zip(lines, margins, strict=True)]
    padded = [fft.next_fast_len(size, real=True) for size in sizes]
    blocks.require_memory(
        8 * (5 * math.prod(padded) + 6 * len(X)),
        f"{owner}: the density on a grid of {' × '.join(str(len(line)) for line in lines)}",
        "Use a coarser grid",
    )
    mass = _binned(X, w, [line[0] for line in lines], steps, margins, padded)
    total = len(X) if w is None else float(w.sum())
    mass /= total
    taps = _taps(kernel, bandwidth, steps, margins, padded)
    smooth = fft.irfftn(fft.rfftn(mass) * fft.rfftn(taps), s=padded)
    inner = tuple(slice(m, m + len(line)) for line, m in zip(lines, margins, strict=True))
    # Rounding of the transform is of the size of the peak, also where the density is 0.
    return Grid(tuple(lines), np.maximum(smooth[inner], 0.0))


def _widths(bandwidth: Bandwidth) -> np.ndarray:
    """Return how far H takes the unit ball along each axis."""
    H = np.asarray(bandwidth.value, dtype=float)
    return np.sqrt((H * H).sum(axis=1)) if H.ndim == 2 else np.broadcast_to(H, (bandwidth.d,))


def _scales(bandwidth: Bandwidth) -> np.ndarray:
    """Return the bandwidth along each axis with the other coordinates held: 1/‖H⁻¹eₖ‖."""
    H = np.asarray(bandwidth.value, dtype=float)
    if H.ndim < 2:
        return np.broadcast_to(H, (bandwidth.d,))
    inverse = np.linalg.inv(H)
    return 1.0 / np.sqrt((inverse * inverse).sum(axis=0))


def _default(
    X: np.ndarray, margin: np.ndarray, finest: np.ndarray, n_points: Any, owner: str
) -> list[np.ndarray]:
    """Return axes that cover the density."""
    d = X.shape[1]
    low, high = X.min(axis=0) - margin, X.max(axis=0) + margin
    if n_points is None:
        wanted = np.ceil((high - low) / finest) + 1
        counts = [int(min(count, MOST[d])) for count in wanted]
    else:
        given = [n_points] * d if np.ndim(n_points) == 0 else list(n_points)
        if len(given) != d:
            raise InvalidInput(
                f"{owner}: n_points={n_points!r} for {d} columns; give one number or {d}."
            )
        counts = [check_index(count, "n_points", owner, 2) for count in given]
    return [np.linspace(a, b, count) for a, b, count in zip(low, high, counts, strict=True)]


def _checked(axes: Any, d: int, owner: str) -> list[np.ndarray]:
    """Return the axes that were given as arrays."""
    try:
        if d == 1 and not (isinstance(axes, list | tuple) and len(axes) == 1):
            axes = [axes]
        lines = [np.array(line, dtype=float) for line in axes]
    except (TypeError, ValueError):
        lines = []
    if len(lines) != d or any(line.ndim != 1 or len(line) < 2 for line in lines):
        raise InvalidInput(
            f"{owner}: axes are {d} array(s) of at least two coordinates, one for each column; "
            "such as numpy.linspace makes."
        )
    for k, line in enumerate(lines):
        gaps = np.diff(line)
        step = (line[-1] - line[0]) / len(gaps)
        if not (np.isfinite(line).all() and step > 0 and (abs(gaps - step) <= EVEN * step).all()):
            raise InvalidInput(
                f"{owner}: axis {k} is not equally spaced and ascending; make it with "
                "numpy.linspace, or use score_samples."
            )
    return lines


def _binned(
    X: np.ndarray,
    w: np.ndarray | None,
    starts: list[float],
    steps: list[float],
    margins: list[int],
    shape: list[int],
) -> np.ndarray:
    """Return the weights that points give to the corners of their cells; others are dropped."""
    weights = np.ones(len(X)) if w is None else w
    cells, parts = [], []
    for k, size in enumerate(shape):
        with np.errstate(over="ignore"):
            t = np.clip((X[:, k] - starts[k]) / steps[k] + margins[k], -2.0, size + 1.0)
        below = np.floor(t)
        cells.append(below.astype(np.intp))
        parts.append(t - below)
    out = np.zeros(math.prod(shape))
    for corner in np.ndindex(*(2,) * len(shape)):
        index, share = np.zeros(len(X), dtype=np.intp), weights
        inside = np.ones(len(X), dtype=bool)
        for up, cell, part, size in zip(corner, cells, parts, shape, strict=True):
            at = cell + up
            inside &= (at >= 0) & (at < size)
            index = index * size + at
            share = share * (part if up else 1.0 - part)
        out += np.bincount(index[inside], share[inside], minlength=len(out))
    return out.reshape(shape)


def _taps(
    kernel: Smoothing,
    bandwidth: Bandwidth,
    steps: list[float],
    margins: list[int],
    shape: list[int],
) -> np.ndarray:
    """Return κ at the offsets of the grid, the negative ones at the end, of sum one over cells.

    Their sum is that of κ up to the order of the error of the grid; made exact, no mass is lost.
    """
    offsets = [np.arange(-m, m + 1) for m in margins]
    places = np.stack(
        [
            o.ravel() * step
            for o, step in zip(np.meshgrid(*offsets, indexing="ij"), steps, strict=True)
        ],
        axis=1,
    )
    Z = bandwidth.whiten(places)
    values = kernel.profile(np.einsum("ij,ij->i", Z, Z)).reshape([len(o) for o in offsets])
    out = np.zeros(shape)
    out[np.ix_(*(o % size for o, size in zip(offsets, shape, strict=True)))] = values
    return out / (out.sum() * math.prod(steps))
