r"""Shares of columns in kernel values, entry by entry: what shares of a statistic are made of.

A statistic that is linear in the kernel matrix, such as MMD² or HSIC, is a game of columns: v(S)
is the statistic of the kernel whose factors outside S are 1. Its Shapley values are the statistic
of the matrices

.. math:: (G_j)_{ik} = \int_0^1 (k_j - 1) \prod_{l \ne j} (1 + t\,(k_l - 1))\,dt,
    \qquad \sum_j G_j = K - K_\emptyset,

with k_l the factor of column l at the rows i and k; and so are interactions of pairs, with two
differences under the integral. Gauss's rule takes it exactly. Such matrices are made in tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from mercer.kernels import Terms
from mercer.rkhs.games import Places, Played, exponentials, nodes_for, take, times

STEPS = 2**24  # of a compiled loop, after which it looks whether somebody wants it to end


class EntryShares:
    """Matrices of the shares of groups of columns, and of pairs of groups, in kernel values.

    A source of tiles for `mercer.operators.many_forms`: first the matrices of the groups, then
    those of what pairs do together, in the order of `pairs`.

    Parameters
    ----------
    terms : Terms
        The kernel.
    groups : list of tuples of int
        The groups, which no factor divides.
    points : canonical collection
        The rows.
    pairs : bool, default=False
        Whether matrices of pairs are wanted.
    """

    def __init__(self, terms: Terms, groups: list[Places], points: Any, pairs: bool = False):
        self.points = points
        players = {column: p for p, group in enumerate(groups) for column in group}
        self.terms = [Played.of(term, players) for term in terms.terms]
        p = len(groups)
        self.pairs = [(j, k) for j in range(p) for k in range(j + 1, p)] if pairs else []
        self.groups, self.count = p, p + len(self.pairs)
        self.place = np.full((p, p), -1)
        self.place[np.diag_indices(p)] = np.arange(p)
        for row, pair in enumerate(self.pairs):
            self.place[pair] = p + row
        held = max((len(t.players) * (t.degree + 3) for t in self.terms), default=0)
        self.bound = SimpleNamespace(
            threads=True, workspace=p + held, collections=(points,), verify=lambda: None
        )

    def tiles(self, rows: slice, cols: slice, dtype: Any) -> Iterator[np.ndarray]:
        """Yield the tile of each matrix; as many at a time are held as there are groups."""
        for start in range(0, self.count, self.groups):
            some = slice(start, min(start + self.groups, self.count))
            yield from self.stack(rows, cols, some).astype(dtype, copy=False)

    def stack(self, rows: slice, cols: slice, some: slice | None = None) -> np.ndarray:
        """Return the tiles of some matrices, by default of all: shape (count, rows, columns).

        Parameters
        ----------
        rows, cols : slice
            The tile.
        some : slice, optional
            Which matrices.
        """
        some = slice(0, self.count) if some is None else some
        place = self.place - some.start
        place[(place < 0) | (place >= some.stop - some.start)] = -1
        X, Y = take(self.points, rows), take(self.points, cols)
        shape = (rows.stop - rows.start, cols.stop - cols.start)
        out = np.zeros((some.stop - some.start, shape[0] * shape[1]))
        for term in self.terms:
            at = place[np.ix_(term.players, term.players)]
            if (at < 0).all():
                continue
            A = term.elements(X, Y).reshape(term.degree + 1, len(term.players), -1)
            (_by_series if term.degree else _by_loops)(term, A, at, out)
        return out.reshape(len(out), *shape)


def _by_loops(term: Played, A: np.ndarray, at: np.ndarray, out: np.ndarray) -> None:
    from mercer.jit import product_entries

    nodes, weights = nodes_for(len(at))
    step = max(64, STEPS // (len(nodes) * len(at) * len(at)))
    for start in range(0, A.shape[2], step):
        some = slice(start, start + step)
        part = np.ascontiguousarray(A[0, :, some])
        gained = np.ascontiguousarray(out[:, some])
        product_entries(part, term.weight, nodes, weights, at, gained)
        out[:, some] = gained


def _by_series(term: Played, A: np.ndarray, at: np.ndarray, out: np.ndarray) -> None:
    """Add shares of a term of an inner product: power series in place of numbers."""
    players = len(at)
    gain = A.copy()
    gain[0] -= 1.0
    one = exponentials(None, None, term.degree)[:, 0]
    lead = term.lead()[:, 0]
    for t, w in zip(*nodes_for(players), strict=True):
        mixed = t * gain
        mixed[0] += 1.0
        after = [np.broadcast_to(lead, A[:, 0].shape)]
        for p in reversed(range(players)):
            after.append(times(after[-1], mixed[:, p]))
        before = np.broadcast_to(one, A[:, 0].shape)
        for j in range(players):
            inner = times(before, gain[:, j])
            if at[j, j] >= 0:
                out[at[j, j]] += term.scale * w * times(inner, after[players - 1 - j])[-1]
            for q in range(j + 1, players if (at[j, j + 1 :] >= 0).any() else 0):
                if at[j, q] >= 0:
                    both = times(times(inner, gain[:, q]), after[players - 1 - q])
                    out[at[j, q]] += term.scale * w * both[-1]
                inner = times(inner, mixed[:, q])
            before = times(before, mixed[:, j])
