"""Lloyd's algorithm in any feature space: every point to its nearest centre, until none moves.

A space tells inner products of all points with the centres of a labelling; nothing here knows
whether they come from a Gram matrix or from features. Matrices have one row a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mercer.engines.folds import judge_points

__all__ = ["Look", "Run", "Space", "compare", "fill_empty", "lloyd", "rounding_of"]


@dataclass(frozen=True, eq=False)
class Look:
    """What one look at all points sees; squared distances to centres.

    Parameters
    ----------
    nearest : ndarray of int, shape (n,)
        The nearest centre; of those equally near up to rounding, the first.
    own : ndarray of shape (n,)
        Squared distance to the centre of the point's own cluster.
    least : ndarray of shape (n,)
        Squared distance to the nearest.
    doubt : ndarray of shape (n,)
        What rounding may have done to these.
    wrong : ndarray of bool, shape (n,)
        Whether another centre is nearer than the own one by more than rounding.
    """

    nearest: np.ndarray
    own: np.ndarray
    least: np.ndarray
    doubt: np.ndarray
    wrong: np.ndarray


class Space(Protocol):
    """Points by their inner products, sums of which have the relative error `rounding`."""

    lengths: np.ndarray
    weights: np.ndarray
    rounding: float

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


def rounding_of(terms: int) -> float:
    """Return the relative error of sums of so many numbers: errors add up as a random walk."""
    return float((8 + terms**0.5) * np.finfo(np.float64).eps)


def compare(
    inner: Any,
    squares: np.ndarray,
    lengths: np.ndarray,
    labels: np.ndarray | None,
    rounding: float,
    sizes: np.ndarray | None = None,
) -> Look:
    """Compare points with centres by ⟨φ(x), μ⟩ (k, n), ‖μ‖² (k,) and ‖φ(x)‖² (n,).

    ‖φ(x) − μ‖² less ‖φ(x)‖² is ‖μ‖² − 2⟨φ(x), μ⟩; which is least does not depend on ‖φ(x)‖². An
    empty cluster has ‖μ‖² = ∞. See `mercer.engines.folds.judge_points`.
    """
    return Look(*judge_points(inner, squares, lengths, labels, rounding, sizes))


def fill_empty(look: Look, weights: np.ndarray, k: int) -> np.ndarray:
    """Return the nearest centres, changed so that no cluster is empty as long as points differ.

    Each empty cluster gets the point farthest from its centre, out of those that do not make up a
    cluster alone. A point that becomes a centre adds nothing to the inertia any more, and those
    it leaves get a mean that suits them better: the inertia falls.
    """
    labels, counted = look.nearest, weights > 0
    count = np.bincount(labels, counted, k)
    empty = np.flatnonzero(count == 0)
    if not len(empty):
        return labels
    labels = labels.copy()
    far = np.flatnonzero(counted & (look.least > 2 * look.doubt))
    far = far[np.argsort(-look.least[far], kind="stable")]
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

    Ends where at most the share `tol` of the weight is nearer to another centre. The inertia falls
    with every sweep, so a labelling never returns; where rounding hides the fall, or one of equal
    centres is given up, that is looked at.

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
    before = labels
    seen: set[int] = set()
    sweeps = 0
    while True:
        look = space.look(labels, k)
        after = fill_empty(look, w, k)
        settled = _settled(look, labels, after, w, total, tol)
        if settled:  # sums that were brought up to date step by step are made anew before a verdict
            look = space.look(labels, k, afresh=True)
            after = fill_empty(look, w, k)
            settled = _settled(look, labels, after, w, total, tol)
        inertia = _sum(w, np.where(counted, look.own, 0.0))
        if not path or inertia < path[-1]:
            path.append(inertia)
        else:
            code = hash(labels[counted].tobytes())
            if inertia > path[-1] + _sum(w, look.doubt) or code in seen:
                labels, settled = before, True
                look = space.look(labels, k, afresh=True)
                break
            seen.add(code)
        sweeps += 1
        if settled or sweeps == max_iter:
            break
        before, labels = labels, after
    labels = np.where(counted, labels, look.nearest)  # rows of no weight follow
    residual = float(w[look.wrong].sum()) / total
    return Run(labels, path, residual, settled and residual <= tol)


def _settled(
    look: Look, labels: np.ndarray, after: np.ndarray, w: np.ndarray, total: float, tol: float
) -> bool:
    """Whether no point would move, or too few to matter and none to an empty cluster."""
    few = tol > 0 and after is look.nearest and float(w[look.wrong].sum()) <= tol * total
    return few or not ((after != labels) & (w > 0)).any()


def _sum(w: np.ndarray, x: np.ndarray) -> float:
    """Return wᵀx without BLAS, whose threads would then wait where others are to work."""
    return float(np.einsum("i,i->", w, x))
