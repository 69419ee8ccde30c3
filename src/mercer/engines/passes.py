"""Passes over the rows of K = k(X, Z), many rows by m centres: Σ over rows of Kᵀ g(K V).

K is never stored. A pass makes F = K V at some rows, lets a step turn F, the targets and the
weights of those rows into G, and adds Kᵀ G. With steps wF, wy, w(F − y) or w ℓ′(y, F) this is all
that least squares and smooth losses in the span of m centres ask of n rows, be they in memory, on
a device, in files or on a cluster.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from mercer.domains.row_blocks import RowBlocks
from mercer.engines import blocks

__all__ = ["MemoryPass", "RowPass", "Step", "pull_rows", "row_pass"]

BAND = 2**18  # entries of K at a time


class Step(Protocol):
    """What a pass makes of the values F = K V at some rows; frozen and picklable.

    ``width`` is the number of columns of G and ``n_sums`` that of the sums.
    """

    width: int
    n_sums: int

    def __call__(self, F: Any, y: Any, w: Any, xp: Any) -> tuple[Any, Any]:
        """Return (G, sums): G of shape (rows, width), float64, or None for none, and a vector.

        F is float64 of shape (rows, columns of V), None where V is; y has shape (rows, t), w shape
        (rows,), None where there are none. xp is numpy or torch, of which all arrays are.
        """
        ...


class RowPass:
    """K of n rows and m centres, known by passes over its rows.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    Z : canonical collection of m points
        The centres.
    """

    n: int
    m: int

    def pull(self, V: np.ndarray | None, step: Step) -> tuple[np.ndarray, np.ndarray]:
        """Return Σ over all rows of Kᵀ G, shape (m, width), and the sums, in float64.

        Parameters
        ----------
        V : ndarray of shape (m, columns), or None
            What K is multiplied by; None where the step wants no values.
        step : Step
            From values to G.
        """
        raise TypeError("a RowPass defines pull(V, step)")


def pull_rows(bound: Any, V: Any, y: Any, w: Any, step: Step) -> tuple[np.ndarray, np.ndarray]:
    """Return Kᵀ G and the sums over the rows of one bound kernel in memory."""
    n, m = bound.shape
    out, sums = np.zeros((m, step.width)), np.zeros(step.n_sums)
    V = None if V is None else bound.asarray(V)
    for rows in blocks._cuts(n, max(1, BAND // max(1, m))):
        T = blocks._tile(bound, rows, slice(0, m))
        F = None if V is None else np.asarray(T @ V, dtype=np.float64)
        G, s = step(F, None if y is None else y[rows], None if w is None else w[rows], np)
        sums += s
        if G is not None:
            out += T.T @ G.astype(T.dtype, copy=False)
    return out, sums


class MemoryPass(RowPass):
    """Rows in memory, or on a device."""

    def __init__(self, kernel: Any, X: Any, Z: Any, y: Any = None, w: Any = None):
        X, Z = kernel.domain.match(X, Z)
        self.bound = kernel._bind(X, Z)
        self.n, self.m = self.bound.shape
        self.y, self.w = y, w

    def pull(self, V: np.ndarray | None, step: Step) -> tuple[np.ndarray, np.ndarray]:
        """Return Σ Kᵀ G and the sums."""
        return pull_rows(self.bound, V, self.y, self.w, step)


def row_pass(kernel: Any, data: Any, Z: Any, y: Any = None, w: Any = None) -> RowPass:
    """Return the pass for `RowBlocks` or for points in memory."""
    if isinstance(data, RowBlocks):
        from mercer.engines.stream_pass import StreamPass

        return StreamPass(kernel, data, Z)
    return MemoryPass(kernel, data, Z, y, w)
