"""Mini-batch kernel k-means: centres made of the last few batches.

Jourdan and Schwartzman, "Mini-batch kernel k-means", arXiv:2410.05902. A batch is drawn, its points
go to their nearest centres, and a centre moves towards the mean of the b_c points that came to it,
μ ← (1 − α)μ + αm with α = √(b_c/b). What is older than the last `WINDOW` points of a centre has
next to no weight and is left out, so that a step costs a number of kernel values that does not
grow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mercer.models.cluster.lloyd import compare, rounding_of
from mercer.models.cluster.starts import draw

__all__ = ["WINDOW", "Centres", "step_batches"]

WINDOW = 200  # points of a centre, at least, before older batches are left out
PATIENCE = 10  # batches whose mean objective is compared with that of as many before them

Block = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Centres:
    """Centres μ_c = Σ coef[j, c] φ(x_index[j]).

    Parameters
    ----------
    index : ndarray of int, shape (m,)
        Positions of points.
    coef : ndarray of shape (m, k)
        Their coefficients.
    squares : ndarray of shape (k,)
        ‖μ_c‖².
    path : list of float
        Mean squared distance of each batch to its centres.
    converged : bool
        Whether batches no longer get better.
    """

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
