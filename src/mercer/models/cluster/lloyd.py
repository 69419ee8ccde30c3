"""Lloyd's algorithm in any feature space: every point to its nearest centre, until none moves.

A space tells inner products of all points with the centres of a labelling; nothing here knows
whether they come from a Gram matrix or from features. Matrices have one row a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

__all__ = ["ROUNDING", "SAME", "Look", "Run", "Space", "compare", "fill_empty", "lloyd"]

SAME = 1e-13  # of squared lengths: squared distances below this are those of equal points
ROUNDING = 1e-11  # of the largest inner products: squared distances closer than this are equal


@dataclass(frozen=True, eq=False)
class Look:
    """What one look at all points sees; squared distances to centres.

    Parameters
    ----------
    nearest : ndarray of int, shape (n,)
        The nearest centre; of those equally near, the first.
    own : ndarray of shape (n,)
        Squared distance to the centre of the point's own cluster.
    least : ndarray of shape (n,)
        Squared distance to the nearest.
    wrong : ndarray of bool, shape (n,)
        Whether another centre is nearer than the own one by more than rounding.
    """

    nearest: np.ndarray
    own: np.ndarray
    least: np.ndarray
    wrong: np.ndarray


class Space(Protocol):
    """Points by their inner products."""

    lengths: np.ndarray
    weights: np.ndarray

    def rows(self, index: np.ndarray) -> np.ndarray:
        """Return inner products of the points at these positions with all, one row each."""

    def look(self, labels: np.ndarray, k: int, *, afresh: bool = False) -> Look:
        """Compare all points with the centres of a labelling."""


@dataclass(frozen=True, eq=False)
class Run:
    """Where one start ended.

    Parameters
    ----------
    labels : ndarray of int
        The clusters.
    path : list of float
        The inertia of each labelling on the way, always falling.
    residual : float
        Share of the weight that is nearer to another centre.
    converged : bool
        Whether that is at most the tolerance, and nothing was left to be done.
    """

    labels: np.ndarray
    path: list[float]
    residual: float
    converged: bool

    @property
    def inertia(self) -> float:
        """The inertia at the end."""
        return self.path[-1]


def compare(
    inner: np.ndarray, squares: np.ndarray, lengths: np.ndarray, labels: np.ndarray | None
) -> Look:
    """Compare points with centres by ⟨φ(x), μ⟩ (k, n), ‖μ‖² (k,) and ‖φ(x)‖² (n,).

    ‖φ(x) − μ‖² less ‖φ(x)‖² is ‖μ‖² − 2⟨φ(x), μ⟩; which is least does not depend on ‖φ(x)‖². An
    empty cluster has ‖μ‖² = ∞. `inner` is overwritten.
    """
    every = np.arange(inner.shape[1])
    slack = np.maximum(inner.max(axis=0), -inner.min(axis=0))
    slack += squares[np.isfinite(squares)].max(initial=0.0)
    slack *= ROUNDING
    inner *= -2
    inner += squares[:, None]
    least = inner.min(axis=0)
    nearest = np.argmax(inner <= least + slack, axis=0)
    own = least if labels is None else inner[labels, every]
    wrong = own - least > slack
    least = np.maximum(inner[nearest, every] + lengths, 0.0)
    return Look(nearest, np.maximum(own + lengths, 0.0), least, wrong)


def fill_empty(labels: np.ndarray, distances: np.ndarray, space: Space, k: int) -> np.ndarray:
    """Return labels in which no cluster is empty, as long as points differ from their centres.

    Each empty cluster gets the point farthest from its centre, out of those that do not make up a
    cluster alone. A point that becomes a centre adds nothing to the inertia any more, and those
    it leaves get a mean that suits them better: the inertia falls.
    """
    counted = space.weights > 0
    count = np.bincount(labels[counted], minlength=k)
    empty = np.flatnonzero(count == 0)
    if not len(empty):
        return labels
    labels = labels.copy()
    far = np.flatnonzero(counted & (distances > SAME * space.lengths))
    far = far[np.argsort(-distances[far], kind="stable")]
    at = 0
    for c in empty:
        while at < len(far) and count[labels[far[at]]] < 2:
            at += 1
        if at == len(far):
            break
        i = far[at]
        count[labels[i]] -= 1
        labels[i], count[c], at = c, 1, at + 1
    return labels


def lloyd(
    space: Space, labels: np.ndarray, k: int, *, max_iter: int | None = None, tol: float = 0.0
) -> Run:
    """Move points to their nearest centres until none moves.

    Ends where at most the share `tol` of the weight is nearer to another centre, or where the
    inertia falls no more, which only rounding brings about: a labelling never returns.

    Parameters
    ----------
    space : Space
        The points.
    labels : ndarray of int
        The start.
    k : int
        Number of clusters.
    max_iter : int, optional
        Most sweeps.
    tol : float, default=0.0
        The share.
    """
    w, total = space.weights, float(space.weights.sum())
    counted = w > 0
    path: list[float] = []
    before: tuple[np.ndarray, float, np.ndarray] | None = None
    while True:
        look = space.look(labels, k)
        after = fill_empty(look.nearest, look.least, space, k)
        settled = _settled(look, labels, after, w, total, tol)
        if settled:  # sums that were brought up to date step by step are made anew before a verdict
            look = space.look(labels, k, afresh=True)
            after = fill_empty(look.nearest, look.least, space, k)
            settled = _settled(look, labels, after, w, total, tol)
        inertia = float(w[counted] @ look.own[counted])
        if before is not None and not inertia < path[-1]:
            labels, residual, nearest = before
            settled = True
            break
        path.append(inertia)
        residual, nearest = float(w @ look.wrong) / total, look.nearest
        if settled or (max_iter is not None and len(path) >= max_iter):
            break
        before = labels, residual, nearest
        labels = after
    labels = np.where(counted, labels, nearest)  # rows of no weight follow
    return Run(labels, path, residual, settled and residual <= tol)


def _settled(
    look: Look, labels: np.ndarray, after: np.ndarray, w: np.ndarray, total: float, tol: float
) -> bool:
    """Whether no point would move, or too few to matter and none to an empty cluster."""
    few = tol > 0 and after is look.nearest and float(w @ look.wrong) <= tol * total
    return few or not ((after != labels) & (w > 0)).any()
