"""The span rule: what a machine with bounded coefficients would say at its own points without them.

Let the free coefficients of a solution be those strictly inside their bounds. If taking point p
away leaves the others free, bound or zero as they are, the free ones make up for it by solving
their optimality conditions again, and the value at x_p becomes (Vapnik and Chapelle 2000; Chapelle,
Vapnik, Bousquet and Mukherjee 2002)

    f₋p(x_p) = f(x_p) − a_p S_p².

S_p² is the squared distance from φ(x_p) to the span of the other free points (their affine span
with an offset). With C the free block of K and P its inverse, P = C⁻¹ − C⁻¹11ᵀC⁻¹/(1ᵀC⁻¹1) with an
offset, it is 1/P_pp for a free point, and k(x_p, x_p) − kᵀC⁻¹k + (1 − 1ᵀC⁻¹k)²/(1ᵀC⁻¹1) for one at
its bound, k = k(x_p, free points).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains import GramRows
from mercer.engines import pick
from mercer.engines.budget import require_memory
from mercer.engines.tiles import row_blocks
from mercer.kernels import Kernel
from mercer.models.ridge_data import take_rows
from mercer.solvers import factor

__all__ = ["leaves_box", "span_loo", "span_moves", "span_squares"]

# Of the mean diagonal, added to the free block: points in the span of others make it singular.
RIDGE = 1e-10
LEAVES = 1e-3  # of its box, by which a coefficient must leave it for the rule to be doubted


def span_loo(
    kernel: Kernel,
    points: Any,
    coef: np.ndarray,
    free: np.ndarray,
    intercept: float,
    offset: bool,
) -> np.ndarray:
    """Return the values of Σ aᵢ k(xᵢ, ·) + b at its points, each left out, by the span rule.

    An approximation: exact where taking the point away makes no other coefficient reach or leave a
    bound. Points whose coefficient is 0 keep their value, which is exact.

    Parameters
    ----------
    kernel : Kernel
        The kernel, with words resolved.
    points : collection of m points
        The points; for a precomputed kernel the square matrix of their kernel values.
    coef : array of shape (m,)
        The coefficients aᵢ.
    free : array of bool, shape (m,)
        Which coefficients are strictly inside their bounds.
    intercept : float
        The offset b.
    offset : bool
        Whether the offset was fitted, that is Σaᵢ is fixed.

    Returns
    -------
    array of shape (m,)
        The values.
    """
    engine = pick(points)
    coef = np.asarray(coef, dtype=float)
    values = engine.to_numpy(engine.matmul(kernel, points, None, coef)) + float(intercept)
    return values - span_moves(kernel, points, coef, free, offset)


def span_moves(
    kernel: Kernel, points: Any, coef: np.ndarray, free: np.ndarray, offset: bool
) -> np.ndarray:
    """Return a_p S_p² of every point; the parameters are those of `span_loo`."""
    coef, free = np.asarray(coef, dtype=float), np.asarray(free, dtype=bool)
    moves = np.zeros(len(coef))
    used = np.flatnonzero((coef != 0) | free)
    if len(used):
        inside = points if len(used) == len(coef) else take_rows(kernel, points, used)
        moves[used] = coef[used] * span_squares(kernel, inside, free[used], offset)
    return moves


def span_squares(kernel: Kernel, points: Any, free: np.ndarray, offset: bool) -> np.ndarray:
    """Return S² of each point: free ones from the other free ones, the rest from all free ones.

    Where the rule has no answer, that is with an offset and no other free point to make up for the
    one left out, it is k(x, x): the others, all at their bounds, stay as they are.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    points : collection of m points
        The points; for a precomputed kernel the square matrix of their kernel values.
    free : array of bool, shape (m,)
        Which are free.
    offset : bool
        Whether an offset was fitted.
    """
    diagonal = np.asarray(kernel._diag(points), dtype=float)
    inside, others = np.flatnonzero(free), np.flatnonzero(~free)
    out = diagonal.copy()
    m = len(inside)
    if m == 0 or not diagonal.any() or (offset and m == 1 and not len(others)):
        return out
    require_memory(
        24 * m * m,
        f"the span rule: 3 × the {m} × {m} matrix of the free support vectors",
        "Use a larger alpha or a smaller C, which make more of them bound",
    )
    # With an offset k may be replaced by k + τ, which makes a free block of low rank definite.
    shift = float(diagonal.mean()) if offset else 0.0
    C = _block(kernel, points, inside, None) + shift
    f = factor(C, RIDGE * float(np.trace(C)) / m, overwrite=True, owner=repr(kernel))
    inverse, h, total = f.inverse_diagonal(), np.zeros(m), np.inf
    if offset:
        h = f.solve(np.ones(m))
        total = float(h.sum())
        inverse -= h**2 / total
    alone = inverse <= 1e-12 / (diagonal[inside] + shift + float(diagonal.max()))
    out[inside] = np.where(alone, diagonal[inside], 1 / np.where(alone, 1.0, inverse))
    for rows in row_blocks(len(others), 32 * m):
        at = others[rows]
        k = _block(kernel, points, at, inside) + shift
        half = f.half_solve(np.ascontiguousarray(k.T))
        square = diagonal[at] + shift - np.einsum("ij,ij->j", half, half)
        out[at] = np.maximum(square, 0.0) + ((1 - k @ h) ** 2 / total if offset else 0.0)
    return out


def leaves_box(
    kernel: Kernel,
    points: Any,
    coef: np.ndarray,
    free: np.ndarray,
    box: tuple[np.ndarray, np.ndarray],
    offset: bool,
) -> np.ndarray:
    """Return which points the free ones cannot make up for: some would leave its box.

    Without p the free coefficients become a − P_{·p} a_p/P_pp if p is free, else
    a + a_p (Pk + h/1ᵀh) with h = C⁻¹1. It needs the m × n matrix of these: for few points.

    Parameters
    ----------
    kernel, points, coef, free, offset
        As for `span_loo`.
    box : tuple of two arrays of shape (n,)
        The ends of the coefficients.
    """
    inside = np.flatnonzero(free)
    m, out = len(inside), np.zeros(len(coef), dtype=bool)
    diagonal = np.asarray(kernel._diag(points), dtype=float)
    used = np.flatnonzero(coef)
    if m == 0 or not diagonal.any() or not len(used):
        return out
    shift = float(diagonal.mean()) if offset else 0.0
    C = _block(kernel, points, inside, None) + shift
    f = factor(C, RIDGE * float(np.trace(C)) / m, overwrite=True, owner=repr(kernel))
    h = f.solve(np.ones(m))
    total = float(h.sum())
    k = _block(kernel, points, inside, used) + shift
    place = {int(at): j for j, at in enumerate(inside)}
    for j, at in enumerate(used):
        if free[at]:
            k[:, j] = np.arange(m) == place[int(at)]
    change = f.solve(k)
    if offset:
        change += np.outer(h, (~free[used] - h @ k) / total)
    own = np.array([change[place[int(at)], j] if free[at] else -1.0 for j, at in enumerate(used)])
    with np.errstate(divide="ignore", invalid="ignore"):
        new = coef[inside][:, None] - change * (coef[used] / own)
    low, high = (end[inside][:, None] for end in box)
    width = np.where(np.isfinite(high - low), high - low, np.abs(coef).max())
    room = LEAVES * width
    gone = (new < low - room) | (new > high + room)
    gone[[place[int(at)] for at in used if free[at]], np.flatnonzero(free[used])] = False
    out[used] = gone.any(axis=0)
    return out


def _block(kernel: Kernel, points: Any, rows: np.ndarray, columns: np.ndarray | None) -> np.ndarray:
    """Return a block of the Gram matrix of the points; without columns the symmetric one."""
    if isinstance(kernel.domain, GramRows):
        return np.asarray(points[np.ix_(rows, rows if columns is None else columns)], dtype=float)
    take, engine = kernel.domain.take, pick(points)
    Y = None if columns is None else take(points, columns)
    return np.asarray(engine.to_numpy(engine.gram(kernel, take(points, rows), Y)), dtype=float)
