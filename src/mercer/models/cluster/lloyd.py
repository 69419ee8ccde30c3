"""Lloyd's algorithm in any feature space: every point to its nearest centre, until none moves.

A space tells inner products of all points with the centres of a labelling; nothing here knows
whether they come from a Gram matrix or from features. Matrices have one row a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mercer.operators import judge_points


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
    keeps: bool  # whether a look goes on from sums of the one before

    def rows(self, index: np.ndarray) -> np.ndarray:
        """Return inner products of the points at these positions with all, one row each."""

    def look(self, labels: np.ndarray, k: int, *, afresh: bool = False) -> Look:
        """Compare all points with the centres of a labelling."""

    def ahead(
        self, labels: np.ndarray, k: int, most: int | None, few: float
    ) -> tuple[np.ndarray, list[float]]:
        """Make sweeps of which nobody sees all points; none, where a space cannot.

        At most so many, and only sweeps that leave no cluster empty and move points of more weight
        than `few`. Returns the labels then and the inertia before each sweep, up to rounding.
        """


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
    empty cluster has ‖μ‖² = ∞. See `mercer.operators.judge_points`.
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
    """
    w, total = space.weights, float(space.weights.sum())
    counted = w > 0
    path: list[float] = []
    before = labels
    seen: set[int] = set()
    sweeps = 0
    while True:
        most = None if max_iter is None else max_iter - 1 - sweeps
        labels, inertias = space.ahead(labels, k, most, tol * total)
        sweeps += len(inertias)
        look = space.look(labels, k)
        after = fill_empty(look, w, k)
        settled = _settled(look, labels, after, w, total, tol)
        if settled and space.keeps:  # sums that were brought up to date are made anew for a verdict
            look = space.look(labels, k, afresh=True)
            after = fill_empty(look, w, k)
            settled = _settled(look, labels, after, w, total, tol)
        inertia = _sum(w, np.where(counted, look.own, 0.0))
        if inertias:
            before = labels
            path += inertias
            while path and path[-1] <= inertia:  # by no more than rounding
                path.pop()
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


BETTER = 1e-9  # part by which a later start must be better than an earlier one


def best_of(runs: Iterable[Any], cost: Callable[[Any], float]) -> Any:
    """Return the best of several runs, the first of those that rounding makes different.

    Parameters
    ----------
    runs : iterable
        One at least.
    cost : callable
        What is to be small.
    """
    best: Any = None
    for run in runs:
        if best is None or cost(run) < (1 - BETTER) * cost(best):
            best = run
    return best


def _settled(
    look: Look, labels: np.ndarray, after: np.ndarray, w: np.ndarray, total: float, tol: float
) -> bool:
    """Whether no point would move, or too few to matter and none to an empty cluster."""
    few = tol > 0 and after is look.nearest and float(w[look.wrong].sum()) <= tol * total
    return few or not ((after != labels) & (w > 0)).any()


def _sum(w: np.ndarray, x: np.ndarray) -> float:
    """Return wᵀx without BLAS, whose threads would then wait where others are to work."""
    return float(np.einsum("i,i->", w, x))


# ---- Where Lloyd's algorithm starts: points drawn far from one another, or at random ----


def draw_points(
    space: Space, k: int, rng: np.random.RandomState, *, spread: bool = True
) -> np.ndarray:
    """Return positions of k different points of positive weight, fewer where there are fewer.

    k-means++ (Arthur and Vassilvitskii 2007) draws each in proportion to weight times squared
    distance to those drawn before, and keeps of 2 + log k such draws the one that lowers the sum of
    squares most, as scikit-learn does. Without `spread` each is drawn in proportion to its weight.
    Draws run along the rows, so that a row of weight 2 is drawn as two rows after one another are.
    """
    from mercer.jit import come_closer, draw_at

    w, lengths, n = space.weights, space.lengths, len(space.weights)
    trials = 2 + int(np.log(k)) if spread else 1
    chosen: list[int] = []
    left, share = np.full(n, np.inf), np.ones(n)
    sums, trial = np.empty(n), np.empty((2, n))
    for _ in range(k):
        u = rng.random_sample(trials if chosen else 1)
        drawn = np.empty(len(u), dtype=np.int64)
        if not draw_at(w, share, u, sums, drawn):
            break
        inner = np.ascontiguousarray(space.rows(drawn))
        best = come_closer(inner, lengths, drawn, space.rounding, w, left, trial)
        chosen.append(int(drawn[best]))
        share = left if spread else (left > 0).astype(float)
    return np.array(chosen, dtype=np.int64)


def draw(mass: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Draw positions in proportion to mass; one of no mass never comes."""
    total = np.cumsum(mass / mass.max())
    drawn = np.searchsorted(total, u * total[-1], side="right")
    return np.minimum(drawn, int(np.flatnonzero(mass)[-1]))


def nearest_labels(space: Space, inner: np.ndarray, squares: np.ndarray, k: int) -> np.ndarray:
    """Return the clusters of centres given by ⟨φ(x), μ⟩ (k, n) and ‖μ‖² (k,), none of them empty.

    Parameters
    ----------
    space : Space
        The points.
    inner, squares : ndarrays
        The centres.
    k : int
        Number of clusters; more than centres where the rest is to be filled.
    """
    look = compare(inner, squares, space.lengths, None, space.rounding)
    return fill_empty(look, space.weights, k)


def start_at(space: Space, index: np.ndarray, k: int) -> np.ndarray:
    """Return the clusters around the points at these positions."""
    return nearest_labels(space, space.rows(index), space.lengths[index], k)


# ---- Mini-batch kernel k-means: centres made of the last few batches ----
# Jourdan and Schwartzman, "Mini-batch kernel k-means", arXiv:2410.05902. A batch is drawn, its
# points go to their nearest centres, and a centre moves towards the mean of the b_c points that
# came to it, μ ← (1 − α)μ + αm with α = √(b_c/b). What is older than the last `WINDOW` points of
# a centre has next to no weight and is left out, so that a step costs a number of kernel values
# that does not grow.


WINDOW = 200  # points of a centre, at least, before older batches are left out
PATIENCE = 10  # batches whose mean objective is compared with that of as many before them

Block = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Centres:
    """Centres μ_c = Σ coef[j, c] φ(x_index[j])."""

    index: np.ndarray
    coef: np.ndarray
    squares: np.ndarray
    path: list[float]
    converged: bool

    @property
    def cost(self) -> float:
        """Mean squared distance in the last batches."""
        return float(np.mean(self.path[-PATIENCE:]))


class _Centre:
    """One centre: groups of points with one coefficient each, the oldest first."""

    def __init__(self, index: np.ndarray, block: Block):
        self.groups = [(index, 1.0 / len(index))]
        self._measure(block)

    def move(self, members: np.ndarray, rate: float, block: Block) -> None:
        self.groups = [(i, (1 - rate) * a) for i, a in self.groups if a * (1 - rate) > 0]
        self.groups.append((members, rate / len(members)))
        sizes = np.cumsum([len(i) for i, _ in self.groups[::-1]])
        keep = int(np.searchsorted(sizes, WINDOW)) + 1
        self.groups = self.groups[-keep:]
        self._measure(block)

    def _measure(self, block: Block) -> None:
        self.index = np.concatenate([i for i, _ in self.groups])
        coef = np.concatenate([np.full(len(i), a) for i, a in self.groups])
        self.coef = coef / coef.sum()
        self.square = float(self.coef @ block(self.index, self.index) @ self.coef)


def step_batches(
    block: Block,
    lengths: np.ndarray,
    weights: np.ndarray,
    start: list[np.ndarray],
    *,
    batch_size: int,
    max_iter: int | None,
    rng: np.random.RandomState,
) -> Centres:
    """Improve centres batch by batch.

    Parameters
    ----------
    block : callable
        ``block(rows, cols)``: kernel values of points at these positions.
    lengths, weights : ndarrays of shape (n,)
        k(x, x), and the weights, in proportion to which points are drawn.
    start : list of ndarrays of int
        Points whose means are the first centres.
    batch_size : int
        Points of a batch.
    max_iter : int, optional
        Most batches.
    rng : RandomState
        Source of the batches.
    """
    centres = [_Centre(index, block) for index in start]
    path: list[float] = []
    converged = False
    while not converged and (max_iter is None or len(path) < max_iter):
        batch = draw(weights, rng.random_sample(batch_size))
        inner = np.stack([c.coef @ block(c.index, batch) for c in centres])
        squares = np.array([c.square for c in centres])
        look = compare(inner, squares, lengths[batch], None, rounding_of(batch_size + WINDOW))
        path.append(float(look.least.mean()))
        for c, centre in enumerate(centres):
            members = batch[look.nearest == c]
            if len(members):
                centre.move(members, float(np.sqrt(len(members) / batch_size)), block)
        last, former = path[-PATIENCE:], path[-2 * PATIENCE : -PATIENCE]
        converged = len(former) == PATIENCE and not sum(last) < sum(former)
    index, place = np.unique(np.concatenate([c.index for c in centres]), return_inverse=True)
    coef, at = np.zeros((len(index), len(centres))), 0
    for c, centre in enumerate(centres):
        np.add.at(coef[:, c], place[at : at + len(centre.index)], centre.coef)
        at += len(centre.index)
    return Centres(index, coef, np.array([c.square for c in centres]), path, converged)
