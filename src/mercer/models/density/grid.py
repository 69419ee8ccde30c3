"""Densities on regular grids in one or two dimensions: linear binning and one convolution by FFT.

Each point gives its weight to the corners of its cell, in proportion to its nearness (Wand 1994,
Fast computation of multivariate kernel estimators). That is the linear interpolation of κ between
grid points: a step of δ bandwidths costs an error of δ²/8 max|κ″| along each axis.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy import fft

from mercer.errors import InvalidInput, users_level, who
from mercer.memory import require_memory, row_blocks
from mercer.models.density.bandwidth import Bandwidth, Smoothing
from mercer.solvers import check_index

__all__ = ["Grid", "on_grid"]

#: Bandwidths beyond which κ is taken for 0: below a part of 1e-15 of its peak.
REACH = {"gaussian": 8.5, "exponential": 36.0}
#: The same for the ends of a default grid: less than 1e-6 of the mass of a point is outside.
MARGIN = {"gaussian": 5.5, "exponential": 18.0}
#: Steps of a default grid to a bandwidth: an error below a thousandth of a smooth density.
FINE = {"gaussian": 16, "exponential": 16}
FINER = 32  # the same for kernels of bounded support, which are narrower
MOST = {1: 2**16, 2: 2**11}  # points along an axis of a default grid
COARSE = 0.5  # bandwidths to a step, above which values are means over cells
EVEN = 1e-6  # part of a step by which the steps of an axis may differ


class Grid(NamedTuple):
    """A density on a regular grid."""

    axes: tuple[np.ndarray, ...]
    density: np.ndarray


def on_grid(
    axes: Any,
    n_points: Any,
    kernel: Smoothing,
    bandwidth: Bandwidth,
    X: np.ndarray,
    w: np.ndarray | None,
) -> Grid:
    """Return the density of weighted rows on the axes, or on a grid that covers it."""
    d = X.shape[1]
    if d > 2:
        raise InvalidInput(
            f"{who()}: a grid in {d} dimensions has too many points; density_on_grid takes one or "
            "two columns. Use score_samples."
        )
    # The support of κ(H⁻¹·) reaches as far along axis k as the row k of H is long.
    widths = _widths(bandwidth)
    if axes is None:
        margin = MARGIN.get(kernel.name, 1.0) * widths
        finest = _scales(bandwidth) / FINE.get(kernel.name, FINER)
        lines = _default(X, margin, finest, n_points)
    else:
        if n_points is not None:
            raise InvalidInput(f"{who()}: give axes or n_points, not both.")
        lines = _checked(axes, d)
    steps = [(line[-1] - line[0]) / (len(line) - 1) for line in lines]
    _warn_of_coarse(steps, _scales(bandwidth))
    reach = REACH.get(kernel.name, 1.0)
    # Cells beyond the ends of the axes, as far as there are points there that reach them.
    outside = [_outside(line, X[:, k], reach * widths[k], steps[k]) for k, line in enumerate(lines)]
    spans = [len(line) + sum(cells) for line, cells in zip(lines, outside, strict=True)]
    taps = [
        math.ceil(min(reach * width / step, span))
        for span, width, step in zip(spans, widths, steps, strict=True)
    ]
    padded = [
        fft.next_fast_len(span + tap, real=True) for span, tap in zip(spans, taps, strict=True)
    ]
    require_memory(
        8 * 5 * math.prod(padded) + min(8 * 12 * len(X), 2**23),
        f"{who()}: the density on a grid of {' × '.join(str(len(line)) for line in lines)}",
        "Use a coarser grid",
    )
    mass = np.zeros(math.prod(padded))
    for rows in row_blocks(len(X), 8 * 12):
        before = [cells[0] for cells in outside]
        weights = np.ones(rows.stop - rows.start) if w is None else w[rows] / w.max()
        starts = [line[0] for line in lines]
        _bin(mass, X[rows], weights, starts, steps, before, spans, padded)
    mass /= len(X) if w is None else float((w / w.max()).sum())
    whole = all(tap < span for tap, span in zip(taps, spans, strict=True))
    values = _taps(kernel, bandwidth, steps, taps, padded, whole)
    if not np.isfinite(values).all():
        raise InvalidInput(
            f"{who()}: the density is beyond the range of floats; scale the columns."
        )
    smooth = fft.irfftn(fft.rfftn(mass.reshape(padded)) * fft.rfftn(values), s=padded)
    inner = tuple(
        slice(cells[0], cells[0] + len(line)) for line, cells in zip(lines, outside, strict=True)
    )
    # Rounding of the transform is of the size of the peak, also where the density is 0.
    return Grid(tuple(lines), np.maximum(smooth[inner], 0.0))


def _outside(line: np.ndarray, x: np.ndarray, reach: float, step: float) -> tuple[int, int]:
    """Return how many cells to add before and after an axis, for points that reach it."""
    gaps = (line[0] - x.min(), x.max() - line[-1])
    return tuple(math.ceil(max(0.0, min(gap, reach)) / step) for gap in gaps)  # type: ignore[return-value]


def _warn_of_coarse(steps: list[float], scales: np.ndarray) -> None:
    """Say it where a grid cannot show the density."""
    ratio = max(step / scale for step, scale in zip(steps, scales, strict=True))
    if ratio > COARSE:
        warnings.warn(
            f"{who()}: a step of the grid is {ratio:.3g} bandwidths, so that the values are means "
            "over cells rather than densities at points. Use a finer grid, or score_samples.",
            stacklevel=users_level(),
        )


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
    X: np.ndarray, margin: np.ndarray, finest: np.ndarray, n_points: Any
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
                f"{who()}: n_points={n_points!r} for {d} columns; give one number or {d}."
            )
        counts = [check_index(count, "n_points", 2) for count in given]
    return [np.linspace(a, b, count) for a, b, count in zip(low, high, counts, strict=True)]


def _checked(axes: Any, d: int) -> list[np.ndarray]:
    """Return the axes that were given as arrays."""
    try:
        if d == 1 and not (isinstance(axes, list | tuple) and len(axes) == 1):
            axes = [axes]
        lines = [np.array(line, dtype=float) for line in axes]
    except (TypeError, ValueError):
        lines = []
    if len(lines) != d or any(line.ndim != 1 or len(line) < 2 for line in lines):
        raise InvalidInput(
            f"{who()}: axes are {d} array(s) of at least two coordinates, one for each column; "
            "such as numpy.linspace makes."
        )
    for k, line in enumerate(lines):
        gaps = np.diff(line)
        step = (line[-1] - line[0]) / len(gaps)
        if not (np.isfinite(line).all() and step > 0 and (abs(gaps - step) <= EVEN * step).all()):
            raise InvalidInput(
                f"{who()}: axis {k} is not equally spaced and ascending; make it with "
                "numpy.linspace, or use score_samples."
            )
    return lines


def _bin(
    out: np.ndarray,
    X: np.ndarray,
    weights: np.ndarray,
    starts: list[float],
    steps: list[float],
    before: list[int],
    spans: list[int],
    shape: list[int],
) -> None:
    """Add the weights that points give to the corners of their cells; others are dropped."""
    cells, parts = [], []
    for k, size in enumerate(spans):
        with np.errstate(over="ignore"):
            t = np.clip((X[:, k] - starts[k]) / steps[k] + before[k], -2.0, size + 1.0)
        below = np.floor(t)
        cells.append(below.astype(np.intp))
        parts.append(t - below)
    for corner in np.ndindex(*(2,) * len(shape)):
        index, share = np.zeros(len(X), dtype=np.intp), weights
        inside = np.ones(len(X), dtype=bool)
        for up, cell, part, span, size in zip(corner, cells, parts, spans, shape, strict=True):
            at = cell + up
            inside &= (at >= 0) & (at < span)
            index = index * size + at
            share = share * (part if up else 1.0 - part)
        out += np.bincount(index[inside], share[inside], minlength=len(out))


def _taps(
    kernel: Smoothing,
    bandwidth: Bandwidth,
    steps: list[float],
    taps: list[int],
    shape: list[int],
    whole: bool,
) -> np.ndarray:
    """Return κ at the offsets of the grid, the negative ones at the end.

    Where they are all of κ, their sum over cells is one up to the order of the error of the grid;
    made exact, no mass is lost.
    """
    offsets = [np.arange(-m, m + 1) for m in taps]
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
    with np.errstate(over="ignore"):
        if not whole:
            return out * np.exp(kernel.log_normaliser(bandwidth.d) - bandwidth.log_det)
        out /= out.sum()
        for step in steps:
            out /= step
    return out
