"""Data-driven length scales of rows on a GPU: all n × d numbers are looked at where they lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer.domains.vectors import to_host
from mercer.engines.budget import require_memory

__all__ = ["deviation_on_device", "spread_on_device"]

ENTRIES = 2**24  # numbers of a chunk of rows


def spread_on_device(
    X: Any, w: np.ndarray | None, most: int, line: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return at most so many rows, evenly spread along a line, and how often each was met.

    The rows are those that `median_distance` takes of an array.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Rows.
    w : ndarray of shape (n,) or None
        Weights; None for ones.
    most : int
        Rows wanted; all are returned where there are no more.
    line : ndarray of shape (d,)
        The direction of the line.

    Returns
    -------
    rows : ndarray of shape (m, d)
        In main memory.
    counts : ndarray of shape (m,)
        Weights of the rows.
    """
    import torch

    X = X.detach()
    kept = None if w is None else np.flatnonzero(w)
    if (len(X) if kept is None else len(kept)) <= most:
        if w is None or kept is None:
            return to_host(X), np.ones(len(X))
        return to_host(X[torch.as_tensor(kept, device=X.device)]), w[kept]
    n, device = len(X), X.device
    require_memory(
        48 * n,  # positions on the line, their order, and the room to sort them
        f"the median distance of {n} points",
        "Give the length scale as a number, or those of some points",
        X,
    )
    wide: dict[str, Any] = {"dtype": torch.float64, "device": device}
    largest = max(float(part.abs().max()) for _, part in _chunks(X)) or 1.0
    direction = torch.as_tensor(line / largest, **wide)
    place = torch.empty(n, **wide)
    for rows, part in _chunks(X):
        place[rows] = part.double() @ direction
    place, order = torch.sort(place, stable=True)
    # Copies lie at one place up to rounding; few different points are taken whole, with counts.
    higher = torch.diff(place.float()) > 0
    del place
    if w is None:
        share = torch.arange(1, n + 1, **wide)
    else:
        share = torch.cumsum(torch.as_tensor(w, **wide)[order], 0)
    if int(higher.sum()) < most:
        ends = higher.nonzero()[:, 0]
        last = torch.cat([ends, ends.new_full((1,), n - 1)])
        counts = torch.diff(share[last], prepend=share.new_zeros(1))
        last, counts = last[counts > 0], counts[counts > 0]
    else:
        wanted = (np.arange(most) + 0.5) / most * float(share[-1])
        found = torch.searchsorted(share, torch.as_tensor(wanted, **wide))
        last, counts = torch.unique(found, return_counts=True)
    return to_host(X[order[last]]), to_host(counts).astype(float)


def deviation_on_device(X: Any, w: np.ndarray | None) -> tuple[float, int]:
    """Return the standard deviation of all entries over 2ᵉ, and e; 0 if all are equal.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Rows.
    w : ndarray of shape (n,) or None
        Weights; None for ones.
    """
    import torch

    X = X.detach()
    weights = None if w is None else torch.as_tensor(w, dtype=torch.float64, device=X.device)

    def parts() -> Iterator[tuple[Any, Any]]:
        for rows, part in _chunks(X):
            if weights is None:
                yield part, None
                continue
            counted = weights[rows] > 0
            yield part[counted], weights[rows][counted]

    ends = [(float(part.min()), float(part.max())) for part, _ in parts() if len(part)]
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    if not low < high:
        return 0.0, 0
    exponent = int(np.frexp(max(-low, high))[1])
    total = X.shape[1] * (float(len(X)) if weights is None else float(weights.sum()))

    def mean_of(power: int, centre: float) -> float:
        found = 0.0
        for part, share in parts():
            moved = _over(part.double(), exponent).sub_(centre).pow_(power).sum(1)
            found += float(moved.sum() if share is None else moved @ share)
        return found / total

    mean = mean_of(1, 0.0)
    return mean_of(2, mean) ** 0.5, exponent


def _over(part: Any, exponent: int) -> Any:
    """Return x/2ᵉ, in two steps as 2ᵉ may be no number; x is not changed."""
    half = exponent // 2
    return part * 2.0**-half * 2.0 ** (half - exponent)


def _chunks(X: Any) -> Iterator[tuple[slice, Any]]:
    step = max(1, ENTRIES // max(1, X.shape[1]))
    for start in range(0, len(X), step):
        yield slice(start, start + step), X[start : start + step]
