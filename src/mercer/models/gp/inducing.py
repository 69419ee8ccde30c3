"""Inducing points: kernel matrices with them, and their choice by randomly pivoted Cholesky."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains import GramRows
from mercer.features.distinct import distinct
from mercer.kernels import Kernel
from mercer.kernels.constant import has_white
from mercer.operators import Gram
from mercer.settings import get_config
from mercer.solvers import rpcholesky

__all__ = ["corner", "cross", "pivoted", "subset"]

CANDIDATES = 20_000  # rows, drawn at random, among which pivots are looked for
EACH = 10  # but at least so many for each inducing point
# Pivots end where what is left, tr(K − Q), is this part of the noise: F ≥ evidence − n·PART/2.
PART = 1e-9


def cross(kernel: Kernel, X: Any, U: Any) -> Any:
    """Return the kernel bound to all rows and the inducing points."""
    if not isinstance(kernel.domain, GramRows):
        X, U = kernel.domain.match(X, U)
    return kernel._bind(X, U)


def corner(kernel: Kernel, X: Any, U: Any) -> Any:
    """Return the kernel bound to the inducing points.

    White noise belongs to an observation; the function at an inducing point has none.
    """
    if isinstance(kernel.domain, GramRows):
        return kernel._bind(np.ascontiguousarray(X[np.ix_(U, U)]))
    return kernel._bind(U, U) if has_white(kernel) else kernel._bind(U)


def subset(n: int, most: int, rng: np.random.RandomState) -> np.ndarray:
    """Return at most `most` of n positions, in their order, drawn without replacement."""
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))


def pivoted(
    kernel: Kernel, X: Any, m: int, noise: float, rng: np.random.RandomState
) -> tuple[np.ndarray, float]:
    """Return the positions of at most m inducing points among the rows, and the trace left over.

    Candidates are the different points, sorted, so that neither order nor repetition of rows plays
    a part; of very many, some drawn at random. The rank-m Cholesky factor of their Gram matrix
    needs m numbers a candidate, and at most an eighth of the memory budget.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : canonical collection
        The rows.
    m : int
        Number of points wanted; there are fewer where the kernel matrix has no larger rank.
    noise : float
        Variance of the noise: what is far below it is not looked for.
    rng : RandomState
        Source of the pivots.

    Returns
    -------
    positions : ndarray of int
        In the order of their choice.
    error : float
        tr(K − Q)/tr(K) over the candidates.
    """
    rows, _ = distinct(kernel, X, None)
    m = min(m, len(rows))
    most = min(max(CANDIDATES, EACH * m), get_config().memory // (64 * max(1, m)))
    rows = rows[subset(len(rows), max(m, int(most)), rng)]
    if isinstance(kernel.domain, GramRows):
        points = np.ascontiguousarray(X[np.ix_(rows, rows)])
        single = points.astype(np.float32)
        if np.array_equal(points, single):  # then its rounding is that of single precision
            points = single
    else:
        points = kernel.domain.take(X, rows)
    K = Gram(kernel, points, keep=False)
    mean = float(np.mean(K.diagonal())) if len(rows) else 0.0
    tol = PART * min(1.0, noise / mean) if mean > 0 else 0.0
    chosen = rpcholesky(K, m, rng, tol)
    if not len(chosen.pivots):  # a kernel that is 0 everywhere on these rows
        return rows[:1], 0.0
    # Blocks of pivots go past the tolerance; the last of a block would make K_uu singular.
    left = 1.0 - np.cumsum(np.einsum("ij,ij->i", chosen.F, chosen.F)) / (mean * len(rows))
    size = min(int(np.searchsorted(-left, -tol)) + 1, chosen.rank)
    return rows[chosen.pivots[:size]], max(0.0, float(left[size - 1]))
