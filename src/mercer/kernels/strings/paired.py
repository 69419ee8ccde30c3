"""`Paired`: kernels whose values a compiled loop computes pair by pair, and their tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mercer.domains import Strings
from mercer.errors import InvalidInput
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound

__all__ = ["Paired", "PairedBound", "require_finite", "run_through"]

TILE_NS = 1e7  # work of a tile, in nanoseconds
CALL_NS = 3e7  # work of one call of a compiled loop, which Ctrl-C cannot interrupt
PAIR_NS = 100.0  # what a pair costs before its letters are looked at
FEWEST = 64  # entries of the smallest tile: loops that run several pairs side by side need them


class Paired(Kernel):
    """A kernel computed by a programme over two sequences, of cost |x|·|x′| a pair.

    An author writes ``_pairs(X, left, Y, right)``, the values k(x_l, y_r) for arrays of positions
    in two packed collections that have ``lengths``, and, where there are log-parameters,
    ``_slopes`` with the same arguments, the derivatives in them, one row a pair. Pairs come in an
    order in which neighbours have similar lengths, and in calls short enough to be interrupted;
    only what takes longer than that by itself, ``_abreast`` pairs, must be cut by the author.
    """

    domain = Strings()
    workspace = 8
    #: Nanoseconds for one letter of x against one of x′.
    _pace: float = 1.0
    #: Pairs that the compiled loop runs side by side, which a call is given at least.
    _abreast: int = 1

    def _cells(self, n: Any, m: Any) -> Any:
        """Return how many cells the programme fills for two sequences of n and m letters."""
        return n * m

    def _pairs(self, X: Any, left: np.ndarray, Y: Any, right: np.ndarray) -> np.ndarray:
        raise InvalidInput(f"{type(self).__name__}: define _pairs(X, left, Y, right).")

    def _slopes(self, X: Any, left: np.ndarray, Y: Any, right: np.ndarray) -> np.ndarray:
        return np.zeros((len(left), 0))

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return PairedBound(self, X, Y)

    def _diag(self, X: Any) -> np.ndarray:
        order = np.argsort(X.lengths, kind="stable")
        out = np.empty(len(order))
        for part in _calls(self, X, order, X, order):
            out[order[part]] = self._pairs(X, order[part], X, order[part])
        return out

    def _pull_diag(self, X: Any, c: Any) -> np.ndarray:
        order = np.argsort(X.lengths, kind="stable")
        total = np.zeros(len(self.theta))
        if len(total):
            for part in _calls(self, X, order, X, order):
                slopes = self._slopes(X, order[part], X, order[part])
                total += (np.asarray(c)[order[part], None] * slopes).sum(axis=0)
        return total


class PairedBound(Bound):
    """Tiles of pairs; one on the diagonal of a symmetric matrix is computed by halves."""

    def __init__(self, kernel: Paired, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        self.flagged = False
        letters = [float(Z.lengths.mean()) if len(Z) else 0.0 for Z in self.collections]
        cost = PAIR_NS + kernel._pace * kernel._cells(*letters)
        self.tile_entries = max(FEWEST, int(TILE_NS / cost))

    def _listed(self, rows: slice, cols: slice) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs of a tile in an order in which lengths change little."""
        X, Y = self.collections
        i = rows.start + np.argsort(X.lengths[rows], kind="stable")
        j = cols.start + np.argsort(Y.lengths[cols], kind="stable")
        right = np.tile(j, (len(i), 1))
        right[1::2] = right[1::2, ::-1]
        left, right = np.repeat(i, len(j)), right.reshape(-1)
        if self._halved(rows, cols):
            keep = left <= right
            return left[keep], right[keep]
        return left, right

    def _halved(self, rows: slice, cols: slice) -> bool:
        return self.symmetric and rows == cols

    def tile(self, rows: slice, cols: slice) -> np.ndarray:
        """Return k on a tile."""
        X, Y = self.collections
        left, right = self._listed(rows, cols)
        out = np.empty((rows.stop - rows.start, cols.stop - cols.start))
        for part in _calls(self.kernel, X, left, Y, right):
            l, r = left[part], right[part]
            values = self.kernel._pairs(X, l, Y, r)
            out[l - rows.start, r - cols.start] = values
            if self._halved(rows, cols):
                out[r - rows.start, l - cols.start] = values
        return out

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> np.ndarray:
        """Return Σ Cᵢⱼ ∂Kᵢⱼ/∂θ over a tile."""
        X, Y = self.collections
        total = np.zeros(len(self.kernel.theta))
        if not len(total):
            return total
        if self._halved(rows, cols):
            C = np.triu(C) + np.tril(C, -1).T
        left, right = self._listed(rows, cols)
        for part in _calls(self.kernel, X, left, Y, right):
            l, r = left[part], right[part]
            weights = C[l - rows.start, r - cols.start]
            total += (weights[:, None] * self.kernel._slopes(X, l, Y, r)).sum(axis=0)
        return total


def run_through(count: int, go_on: Callable[[int, int], tuple[int, int]]) -> None:
    """Call a loop that stops now and then until all pairs are done.

    ``go_on(at, row)`` starts at a pair and a row of it, and returns where it stopped.
    """
    at = row = 0
    while at < count:
        at, row = go_on(at, row)


def require_finite(kernel: Kernel, values: np.ndarray, X: Any, Y: Any, cure: str) -> np.ndarray:
    """Return kernel values, or refuse those beyond the largest float."""
    if not np.isfinite(values).all():
        longest = max(int(Z.lengths.max(initial=0)) for Z in (X, Y))
        raise InvalidInput(
            f"{kernel!r}: a kernel value of strings of up to {longest} letters is too large for a "
            f"float, also where it is to be normalised. {cure}, or cut the strings into pieces."
        )
    return values


def _calls(kernel: Paired, X: Any, left: np.ndarray, Y: Any, right: np.ndarray) -> Iterator[slice]:
    """Cut a list of pairs into runs of about `CALL_NS` of work."""
    work = np.cumsum(PAIR_NS + kernel._pace * kernel._cells(X.lengths[left], Y.lengths[right]))
    start = 0
    while start < len(work):
        done = work[start - 1] if start else 0.0
        stop = max(start + kernel._abreast, int(np.searchsorted(work, done + CALL_NS)))
        yield slice(start, stop)
        start = stop
