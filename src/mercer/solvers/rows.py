"""Rows of a Gram matrix for solvers that need some of them again and again."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import GramRows
from mercer.engines import blocks
from mercer.errors import MemoryBudgetExceeded
from mercer.jit.smo import add_rows
from mercer.operators import Gram, Operator
from mercer.settings import get_config

__all__ = ["Rows"]

SINGLE_FROM = 3000  # points from which rows are kept in float32: less to read, twice the rows
SHARE = 0.6  # of the memory budget that the rows may take
SAMPLE = 64  # points on which float32 is compared with float64
AGREEMENT = 2e-6  # largest difference there, relative to the largest entry
WORTH_THREADS = 2**21  # entries of a pass that is worth a second thread
_NO_COLUMNS = np.zeros(0, dtype=np.int64)


class Rows:
    """Rows of a symmetric matrix, computed when asked for and kept inside the memory budget.

    A matrix in memory is used as it lies. Of a lazy `Gram` each row is computed once where all of
    them fit, and again after the least recently used ones had to make room where they do not.
    Rows of many points are kept in float32 when that agrees with float64 on a sample; products
    with `product` are exact in float64 either way.

    Parameters
    ----------
    K : Operator
        Symmetric.
    single : bool, default=True
        Whether float32 may be used.
    least : int, default=2
        Rows that must fit at the same time.
    """

    def __init__(self, K: Operator, single: bool = True, least: int = 2):
        self.K = K
        self._single = single
        self.n = K.shape[0]
        self.computed = 0
        if not isinstance(K, Gram) or isinstance(K.kernel.domain, GramRows):
            self.store = np.ascontiguousarray(K.to_dense())
            self.diagonal = np.asarray(self.store.diagonal(), dtype=float)
            self.capacity, self.exact = self.n, self.store.dtype == np.float64
            self._slots: np.ndarray | None = None
            return
        self._bound, self.exact = self._bind(K)
        self.diagonal = np.asarray(K.diagonal(), dtype=float)
        item = 8 if self.exact else 4
        allowed = int(SHARE * get_config().memory) // (item * max(1, self.n))
        self.capacity = min(self.n, allowed)
        if self.capacity < min(self.n, least):
            needed = int(least * item * self.n / SHARE)
            raise MemoryBudgetExceeded(
                f"{K.kernel!r}: {least} rows of {self.n} kernel values need "
                f"{blocks.human(needed)}, but the memory budget is "
                f"{blocks.human(get_config().memory)}. Raise it with "
                "`with mercer.config(memory=...):`, or fit on fewer rows.",
                needed,
                get_config().memory,
            )
        dtype = np.float64 if self.exact else np.float32
        self.store = np.empty((self.capacity, self.n), dtype)
        self._slots = np.full(self.n, -1)
        self._points = np.full(self.capacity, -1)
        self._used = np.zeros(self.capacity)
        self._clock = 0

    def _bind(self, K: Gram) -> tuple[Any, bool]:
        """Return the kernel bound to the points, in float32 where that is good enough."""
        X = K._engine.asarray(K.X)
        plain = isinstance(X, np.ndarray) or sp.issparse(X)
        if plain and self._single and self.n > SINGLE_FROM and X.dtype == np.float64:
            single = X.astype(np.float32)
            some = np.linspace(0, self.n - 1, SAMPLE).astype(int)
            with np.errstate(all="ignore"):
                fine = np.asarray(K.kernel._bind(X[some]).tile(*[slice(0, SAMPLE)] * 2))
                coarse = np.asarray(K.kernel._bind(single[some]).tile(*[slice(0, SAMPLE)] * 2))
                agree = np.abs(fine - coarse).max() <= AGREEMENT * np.abs(fine).max()
                bound = K.kernel._bind(single) if agree else None
            if bound is not None and not bound.slow:
                return bound, False
        bound = K._bound()
        bound.verify()
        return bound, True

    def fetch(self, points: np.ndarray) -> np.ndarray:
        """Return where in `store` the rows of these distinct points are, computing what lacks."""
        if self._slots is None:
            return points
        self._clock += 1
        slots = self._slots[points]
        self._used[slots[slots >= 0]] = self._clock
        missing = points[slots < 0]
        if len(missing):
            oldest = np.argpartition(self._used, len(missing) - 1)[: len(missing)]
            free = np.sort(oldest)
            gone = self._points[free]
            self._slots[gone[gone >= 0]] = -1
            self._points[free] = -1
            self._compute(missing, free)
            self._points[free], self._slots[missing] = missing, free
            self._used[free] = self._clock
            slots = self._slots[points]
        return slots

    def _compute(self, points: np.ndarray, slots: np.ndarray) -> None:
        self.computed += len(points)
        blocks.rows_into(self.store, slots, self._bound.rows_of(points))
        self.store[slots, points] = self.diagonal[points]  # exact, and white noise lives there

    def add(
        self,
        f: np.ndarray,
        points: np.ndarray,
        coef: np.ndarray,
        columns: np.ndarray | None = None,
        pool: Any = None,
    ) -> None:
        """Add Σᵢ coefᵢ K[pointsᵢ, columns] to f, in float64; None stands for all columns."""
        for some in _cuts(len(points), self.capacity):
            slots, c = self.fetch(points[some]), coef[some]
            args = self.store, slots, c, _NO_COLUMNS if columns is None else columns
            if pool is None or len(slots) * len(f) < WORTH_THREADS:
                add_rows(f, *args, 0, len(f))
                continue
            parts = _cuts(len(f), -(-len(f) // get_config().threads))
            for part in [pool.submit(add_rows, f, *args, p.start, p.stop) for p in parts]:
                part.result()

    def product(self, points: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Return Σᵢ coefᵢ K[:, pointsᵢ] in float64, from the kernel itself where rows are not."""
        f = np.zeros(self.n)
        if self.exact or not isinstance(self.K, Gram):
            self.add(f, points, coef)
            return f
        K = self.K
        if 2 * len(points) > self.n or self._has_noise():
            f[points] = coef
            return K._engine.to_numpy(K._engine.matmul(K.kernel, K.X, None, f))
        Y = K.kernel.domain.take(K.X, points)
        return K._engine.to_numpy(K._engine.matmul(K.kernel, K.X, Y, coef))

    def _has_noise(self) -> bool:
        """Whether the kernel is larger where a point meets itself than where it meets its twin."""
        one = self.K.kernel.domain.take(self.K.X, np.arange(1))
        twin = self.K._engine.to_numpy(self.K._engine.gram(self.K.kernel, one, one))
        return bool(abs(float(twin[0, 0]) - self.diagonal[0]) > 1e-9 * abs(self.diagonal[0]))


def _cuts(n: int, step: int) -> list[slice]:
    return [slice(i, min(i + step, n)) for i in range(0, n, max(1, step))]
