"""Rows of a Gram matrix on a GPU: made, kept and multiplied there; steps are taken by the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.engines import gram
from mercer.errors import speaks
from mercer.memory import free_memory, named_when_full, on_gpu, require_memory
from mercer.operators import Gram, Operator
from mercer.solvers.box.rows import LEAST, SHARE, Rows, is_single

FROM = 3000  # points from which a GPU keeps the rows: fewer are soon done by the CPU
TOGETHER = 2**27  # entries that are multiplied in float64 at a time


class DeviceRows(Rows):
    """Rows of many points where their kernel is computed.

    What `Rows` does in main memory is done on the device: in float32, 100,000 rows of as many
    points take 37 GiB there. Blocks of a working set and the products come to main memory, where
    the steps are taken; certificates have float64 products, as those of `Rows` in float32.

    Parameters
    ----------
    K : Gram
        Symmetric, lazy, computed on a GPU.
    single : bool, default=True
        Whether rows may be float32, where that agrees with float64 on a sample.
    """

    in_memory = False

    @speaks("SMO")
    def __init__(self, K: Gram, single: bool = True):
        self._begin(K)
        self._like, self.exact = K.like, not (single and is_single(K))
        points = K._engine.asarray(K.X)
        points = points.double() if self.exact else points.float()
        self._bound = K._engine.bound(K.kernel, points, None)
        self.diagonal = np.asarray(K.diagonal(), dtype=float)
        self._allocate(SHARE)

    @property
    def dtype(self) -> np.dtype:
        """The kind of numbers of a block."""
        return np.dtype(np.float64 if self.exact else np.float32)

    def _allocate(self, share: float) -> None:
        room, item = free_memory(self._like), self.dtype.itemsize
        self.capacity = min(self.n, int(share * room) // (item * max(1, self.n)))
        least = int(LEAST * item * self.n / share)
        require_memory(least, f"{self.K!r}: room for {LEAST} rows", "Fit fewer rows", self._like)
        kind = self._bound.dtype
        with named_when_full(f"{self.K!r}: rows of kernel values", "Fit fewer rows"):
            self.store = self._like.new_empty((self.capacity, self.n), dtype=kind)
        self._start()

    def _restrict(self, parent: Rows, points: np.ndarray) -> None:
        self._like = parent._like  # type: ignore[attr-defined]
        self._bound = parent._bound_to(points)
        super()._restrict(parent, points)

    def fill(self) -> None:
        """Compute all rows at once, where they fit and none is there."""
        with self._lock:
            if not self.empty or self._parent is not None:
                return
            gram(self._bound, out=self.store)
            self.store.diagonal().copy_(self.store.new_tensor(self.diagonal))
            self._slots, self.computed = None, self.n

    def _index(self, positions: np.ndarray) -> Any:
        return self._like.new_tensor(np.asarray(positions), dtype=self._bound.xp.int64)

    def _compute(self, points: np.ndarray, slots: np.ndarray) -> None:
        self.computed += len(points)
        if not len(points):
            return
        at = self._index(slots)
        self.store[at] = gram(self._bound.rows_of(self._index(points)))
        noise = self.store.new_tensor(self.diagonal[points])
        self.store[at, self._index(points)] = noise  # white noise lives there

    def _copy(self, parent: Rows, theirs: np.ndarray, slots: np.ndarray) -> None:
        columns = self._index(self._chosen)
        for first in range(0, len(theirs), 512):
            some = slice(first, first + 512)
            rows = parent.store[self._index(theirs[some])]
            self.store[self._index(slots[some])] = rows[:, columns]

    def add(
        self,
        f: np.ndarray,
        points: np.ndarray,
        coef: np.ndarray,
        columns: np.ndarray | None = None,
        pool: Any = None,
    ) -> None:
        """Add Σᵢ coefᵢ K[pointsᵢ, columns] to f, in float64; None stands for all columns.

        Parameters
        ----------
        f, points, coef, columns
            As of `Rows`.
        pool : object
            Not used.
        """
        total = self.store.new_zeros(self.n, dtype=self._bound.xp.float64)
        step = max(1, min(self.capacity, TOGETHER // max(1, self.n)))
        for first in range(0, len(points), step):
            some = slice(first, first + step)
            rows = self.store[self._index(self.fetch(points[some]))]
            total += total.new_tensor(coef[some]) @ rows.double()
        f += (total if columns is None else total[self._index(columns)]).cpu().numpy()

    def gather(
        self, slots: np.ndarray, columns: np.ndarray, out: np.ndarray, rows: np.ndarray
    ) -> None:
        """Fill out[i] = store[slots[i], columns] for the rows i given.

        Parameters
        ----------
        slots, columns, out, rows
            As of `Rows`.
        """
        if len(rows):
            found = self.store[self._index(slots[rows])[:, None], self._index(columns)]
            out[rows] = found.cpu().numpy()

    def sharp_product(self, points: np.ndarray, coef: np.ndarray) -> None:
        """Return None: longer numbers are those of the CPU."""
        return


def rows_for(K: Operator, single: bool = True) -> Rows:
    """Return the rows of a matrix: on the GPU that computes it, where they are many.

    Parameters
    ----------
    K : Operator
        Symmetric.
    single : bool, default=True
        Whether float32 may be used.
    """
    lazy = isinstance(K, Gram) and K.kernel.domain.holds_points
    if lazy and K.shape[0] > FROM and on_gpu(K.like):
        return DeviceRows(K, single)
    return Rows(K, single)
