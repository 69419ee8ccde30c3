"""`Counted`: kernels that count named parts of a point, k(x, x′) = Σ_c φ_c(x) φ_c(x′)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import Domain, LabelCodes, Objects
from mercer.errors import InvalidInput
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound
from mercer.settings import get_config

# ---- `Numbering`: columns for codes of 64 bits, in the order in which they come first ----


STEP = 2**18  # codes of one call, some milliseconds
FEWEST = 12  # logarithm of the smallest table


class Numbering:
    """Numbers 0, 1, … for the different codes of an array.

    Sorting takes several times as long: most codes of strings and graphs occur once or twice.

    Attributes
    ----------
    columns : ndarray of int64
        The number of each code.
    size : int
        How many codes differ.
    """

    def __init__(self, codes: np.ndarray):
        from mercer.jit import number

        self.size = 0
        self._make(FEWEST)
        self.columns = np.empty(len(codes), dtype=np.int64)
        for start in range(0, len(codes), STEP):
            part = codes[start : start + STEP]
            needed = (2 * (self.size + len(part))).bit_length()
            if 1 << needed > len(self._table):
                self._grow(needed)
            out = self.columns[start : start + STEP]
            self.size = number(part, self._table, self._numbers, self._shift, self.size, out)

    def find(self, codes: np.ndarray) -> np.ndarray:
        """Return the numbers of other codes, −1 for those that are not among the first."""
        from mercer.jit import place

        out = np.empty(len(codes), dtype=np.int64)
        for start in range(0, len(codes), STEP):
            part = slice(start, start + STEP)
            place(codes[part], self._table, self._numbers, self._shift, out[part])
        return out

    def _make(self, log: int) -> None:
        self._table = np.empty(1 << log, dtype=np.uint64)
        self._numbers = np.full(1 << log, -1, dtype=np.int64)
        self._shift = np.uint64(64 - log)

    def _grow(self, log: int) -> None:
        """Move the codes to a table with so many more places."""
        from mercer.jit import number

        taken = self._numbers >= 0
        codes = np.empty(self.size, dtype=np.uint64)
        codes[self._numbers[taken]] = self._table[taken]
        self._make(log)
        out = np.empty(STEP, dtype=np.int64)
        count = 0
        for start in range(0, len(codes), STEP):
            part = codes[start : start + STEP]
            count = number(part, self._table, self._numbers, self._shift, count, out)


# ---- counted ----


#: Gives the parts that codes stand for as text.
Naming = Callable[[np.ndarray], list[str]]

PLAIN = 2**18  # additions of a whole matrix up to which SciPy's product serves
DENSE = 1 / 25  # share of the pairs of points that a code must join for BLAS to be the faster way
ADDITION_NS = 1.0  # an addition to an entry that two points join by a code
PRODUCT_NS = 0.04  # a multiplication and an addition by BLAS, in single precision
TILE_NS = 1e7  # work of a tile, in nanoseconds


@dataclass(frozen=True, eq=False)
class Counts:
    """What a collection of n points holds: point ``rows[i]`` has ``values[i]`` of ``codes[i]``.

    Parameters
    ----------
    n : int
        Number of points.
    rows : ndarray of int64
        The point of each occurrence, never falling.
    codes : ndarray of uint64
        What occurs; equal codes mean equal parts. A part may occur several times in a point.
    values : ndarray of float64 or None
        How much each occurrence counts; None is one each.
    """

    n: int
    rows: np.ndarray
    codes: np.ndarray
    values: np.ndarray | None = None

    def matrix(self, columns: np.ndarray, width: int) -> sp.csr_array:
        """Return the counts of codes that have columns of their own; −1 leaves a code out."""
        known = columns >= 0
        rows = self.rows
        values = np.ones(len(rows)) if self.values is None else self.values
        if not known.all():
            rows, columns, values = rows[known], columns[known], values[known]
        return rows_of_counts(self.n, rows, columns, values, width)


def rows_of_counts(
    n: int, rows: np.ndarray, columns: np.ndarray, values: np.ndarray, width: int
) -> sp.csr_array:
    """Return a sparse matrix from occurrences whose rows never fall; equal places are added."""
    index = np.int32 if max(width, len(columns)) < 2**31 else np.int64
    ends = np.searchsorted(rows, np.arange(n + 1)).astype(index)
    phi = sp.csr_array((values, columns.astype(index), ends), shape=(n, width))
    phi.sum_duplicates()
    return phi


def beside(blocks: list[sp.csr_array]) -> sp.csr_array:
    """Return sparse blocks of columns side by side."""
    return blocks[0] if len(blocks) == 1 else sp.csr_array(sp.hstack(blocks, format="csr"))


class Counted(Kernel):
    """A kernel that counts parts of points: k(x, x′) = Σ_c φ_c(x) φ_c(x′).

    An author writes ``_count(x)`` for one point: a mapping from the parts that it has, which are
    text, numbers or tuples of these, to how much each counts. Or, for many points at once,
    ``_counts(X)``, with codes of the parts, numbers of 64 bits that mean the same in every
    collection, so that training points and new points need no shared dictionary. Where there are
    several kinds of parts, ``_parts(X)`` may yield the counts of one kind after another, always in
    the same order; then codes need only differ within a kind, and the occurrences of one kind are
    in memory at a time.
    """

    domain: Domain = Objects()

    def _count(self, x: Any) -> Mapping[Any, float]:
        raise InvalidInput(f"{type(self).__name__}: define _count(x) or _counts(X).")

    def _counts(self, X: Any) -> Counts:
        n, codes_of = self.domain.size(X), LabelCodes()
        rows: list[int] = []
        codes: list[int] = []
        values: list[float] = []
        for i, x in enumerate(X):
            for part, value in self._count(x).items():
                rows.append(i)
                codes.append(codes_of[part])
                values.append(value)
        try:
            amounts = np.array(values, dtype=float)
        except (OverflowError, TypeError, ValueError) as error:
            raise InvalidInput(f"{self}: _count gave what is no number ({error}).") from error
        if not np.isfinite(amounts).all():
            i = rows[int(np.argmin(np.isfinite(amounts)))]
            raise InvalidInput(f"{self}: _count gave a number that is not finite at point {i}.")
        return Counts(n, np.array(rows, np.int64), np.array(codes, np.uint64), amounts)

    def _parts(self, X: Any) -> Iterable[Counts]:
        return [self._counts(X)]

    def _namings(self) -> Iterable[Naming | None]:
        """Return for each kind of parts how codes are read; None where they cannot be."""
        return [None]

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return CountedBound(self, X, Y)

    def _diag(self, X: Any) -> np.ndarray:
        total = np.zeros(self.domain.size(X))
        for counts in self._parts(X):
            numbers = Numbering(counts.codes)
            phi = counts.matrix(numbers.columns, numbers.size)
            phi.data *= phi.data
            total += np.asarray(phi.sum(axis=1), dtype=float).reshape(-1)
        return total

    def collision_probability(self, X: Any) -> float:
        """Return a bound of the probability that two different parts of X share a code.

        N different parts hashed to b bits collide with probability at most N(N − 1)/2ᵇ⁺¹, where b
        is 64, and 62 for strings; zero where codes are the parts themselves.

        Parameters
        ----------
        X : collection of points
            The points, training and new ones together where both are to be judged.
        """
        kernel: Any = self._ready(X, None)
        parts = kernel._parts(kernel.domain.check(X))
        return sum((kernel._collisions(np.unique(part.codes)) for part in parts), 0.0)

    def _collisions(self, codes: np.ndarray) -> float:
        """Return the bound for these different codes of one kind."""
        return len(codes) * (len(codes) - 1) / 2.0**65


class CountedBound(Bound):
    """Tiles ΦΨᵀ of counts over the codes that occur in X.

    A code that joins many pairs of points is a column of a dense product; the others add to the
    few entries they join. Small matrices are left to SciPy.
    """

    def __init__(self, kernel: Counted, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        phi, psi = [], []
        others = repeat(None) if Y is None else kernel._parts(Y)
        for left, right in zip(kernel._parts(X), others, strict=False):
            numbers = Numbering(left.codes)
            phi.append(left.matrix(numbers.columns, numbers.size))
            if right is not None:
                psi.append(right.matrix(numbers.find(right.codes), numbers.size))
        self._phi = beside(phi)
        self._psi = self._phi if Y is None else beside(psi)
        self.flagged = False
        self._share_out()

    def _share_out(self) -> None:
        """Choose the columns of the dense product, and how large a tile may be."""
        n, m = self.shape
        F = self._phi.shape[1]
        joins = np.bincount(self._phi.indices, minlength=F).astype(float)
        joins *= np.bincount(self._psi.indices, minlength=F)  # pairs of points that a code joins
        self._plain = float(joins.sum()) <= PLAIN
        self._bands: dict[tuple[bool, int, int], tuple[np.ndarray, ...]] = {}
        if self._plain:
            return
        exact = _single_is_exact(self._phi) and _single_is_exact(self._psi)
        kind = np.float32 if exact else np.float64
        dense = np.flatnonzero(joins >= DENSE * n * m)
        most = get_config().memory // (16 * (n + m) * np.dtype(kind).itemsize)
        if len(dense) > most:
            dense = np.sort(dense[np.argsort(-joins[dense], kind="stable")[:most]])
        self._left = self._phi[:, dense].astype(kind).toarray()
        self._right = self._left
        if self._psi is not self._phi:
            self._right = self._psi[:, dense].astype(kind).toarray()
        joins[dense] = 0.0
        self._rare = joins > 0
        product = PRODUCT_NS * np.dtype(kind).itemsize / 4 * len(dense)
        cost = product + ADDITION_NS * float(joins.sum()) / (n * m)
        self.tile_entries = max(1, int(TILE_NS / max(cost, 1e-3)))

    def rows_of(self, index: np.ndarray) -> Bound:
        """Return k on some of the rows against all of Y, whose counts are known."""
        X, Y = self.collections
        part = copy.copy(self)
        part.symmetric = False
        part.collections = self.kernel.domain.take(X, index), Y
        part._phi = self._phi[index]
        part.shape = part._phi.shape[0], self.shape[1]
        if not self._plain:
            part._left = self._left[index]
            # Bands of Y stay valid; those of X were of other rows.
            part._bands = {k: band for k, band in self._bands.copy().items() if not k[0]}
        return part

    def tile(self, rows: slice, cols: slice) -> np.ndarray:
        """Return ΦΨᵀ on a tile."""
        if self._plain:
            return (self._phi[rows] @ self._psi[cols].T).toarray()
        from mercer.jit import add_common

        T = (self._left[rows] @ self._right[cols].T).astype(self.dtype, copy=False)
        add_common(*self._band(True, rows), *self._band(False, cols), T)
        return T

    def product(self, V: Any) -> np.ndarray | None:
        """Return Φ(ΨᵀV), for which no entry of the matrix is needed."""
        if 16 * self._phi.shape[1] * V.shape[1] > get_config().memory:
            return None
        return np.asarray(self._phi @ (self._psi.T @ V))

    def _band(self, left: bool, rows: slice) -> tuple[np.ndarray, ...]:
        """Return the rare counts of some points by code: codes, their runs, points, values."""
        side = self._phi if left or self.symmetric else self._psi
        key = (left and not self.symmetric, rows.start, rows.stop)
        band = self._bands.get(key)
        if band is None:
            if len(self._bands) * (rows.stop - rows.start) > 2 * sum(self.shape):
                self._bands.clear()  # tiles of another size are asked for now
            band = self._bands[key] = by_code(side[rows], self._rare)
        return band


def by_code(phi: sp.csr_array, wanted: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the entries of the wanted columns, column by column.

    The columns that occur, where the run of each begins (one more than there are columns), and the
    row and value of each entry.
    """
    rows = np.repeat(np.arange(phi.shape[0], dtype=np.int64), np.diff(phi.indptr))
    kept = np.flatnonzero(wanted[phi.indices])
    kept = kept[np.argsort(phi.indices[kept], kind="stable")]
    columns = phi.indices[kept].astype(np.int64)
    starts = np.flatnonzero(np.diff(columns, prepend=-1))
    return columns[starts], np.append(starts, len(columns)), rows[kept], phi.data[kept]


def _single_is_exact(phi: sp.csr_array) -> bool:
    """Whether sums of products of counts are whole numbers that single precision holds.

    By Cauchy and Schwarz they are at most the largest ‖φ‖².
    """
    if not (phi.data == np.rint(phi.data)).all():
        return False
    squares = sp.csr_array((phi.data**2, phi.indices, phi.indptr), shape=phi.shape).sum(axis=1)
    return float(np.max(squares, initial=0.0)) <= 2.0**24
