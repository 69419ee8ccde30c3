"""Rows of a Gram matrix for solvers that need some of them again and again."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import to_host
from mercer.engines import computing_on, gram, rows_into
from mercer.errors import MemoryBudgetExceeded, speaks
from mercer.memory import free_memory, human, named_when_full, on_gpu, require_memory
from mercer.operators import Gram, Operator, gram_of
from mercer.settings import get_config
from mercer.solvers.base import check_entries

SINGLE_FROM = 2048  # points from which rows are kept in float32: less to read, twice the rows
RESIDENT_FROM = 3000  # points from which a GPU keeps the rows: fewer are soon done by the CPU
WHOLE_UP_TO = 2048  # points up to which the matrix is computed at once
SHARE = 0.5  # of the memory budget that the rows may take
PART = 0.3  # of the memory budget that rows restricted to some points may take
LEAST = 8  # rows without which no step can be made
SAMPLE = 64  # points on which float32 is compared with float64
AGREEMENT = 2e-6  # largest difference there, relative to the largest entry
WORTH_THREADS = 2**21  # entries of a pass that is worth a second thread
TOGETHER = 2**27  # entries that a GPU multiplies in float64 at a time
SHARP = 2**23  # entries of a product in longer numbers: a second of time, at most
_ALL = np.zeros(0, dtype=np.int64)


class Rows:
    """Rows of a symmetric matrix, computed when asked for and kept inside the memory budget.

    A matrix in memory is used as it lies. Of a lazy `Gram` each row is computed once where all of
    them fit, and again after the least recently used ones had to make room where they do not.
    Rows of many points are kept in float32 when that agrees with float64 on a sample; `product`
    is exact in float64 either way.

    Parameters
    ----------
    K : Operator
        Symmetric.
    single : bool, default=True
        Whether float32 may be used.

    Attributes
    ----------
    store : ndarray
        The rows that are there; `fetch` tells which is which.
    capacity : int
        How many rows fit.
    exact : bool
        Whether the rows are float64.
    diagonal : ndarray
        The diagonal of K.
    computed : int
        Rows computed so far.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF
    >>> from mercer.operators import Gram
    >>> from mercer.solvers import Rows
    >>> rows = Rows(Gram(RBF(), np.array([[0.0], [1.0], [2.0]]), keep=False))
    >>> rows.store[rows.fetch(np.array([1]))].round(4)
    array([[0.6065, 1.    , 0.6065]])
    """

    in_memory = True

    @speaks("SMO")
    def __init__(self, K: Operator, single: bool = True):
        self._begin(K)
        lazy = isinstance(K, Gram) and K.kernel.domain.holds_points
        small = self.n <= WHOLE_UP_TO and 8 * self.n**2 <= SHARE * get_config().memory
        if not isinstance(K, Gram) or not lazy or small:
            check_entries(K)
            self.store = np.ascontiguousarray(K.to_dense())
            self.diagonal = np.asarray(self.store.diagonal(), dtype=float)
            self.capacity, self.exact = self.n, self.store.dtype == np.float64
            self.computed = self.n
            return
        self._bound, self.exact = _bind(K, single)
        self.diagonal = np.asarray(K.diagonal(), dtype=float)
        self._allocate(SHARE)

    def _begin(self, K: Operator) -> None:
        self.K, self.n = K, K.shape[0]
        self.computed = 0
        self._lock = threading.Lock()
        self._slots: np.ndarray | None = None
        self._parent: Rows | None = None
        self._chosen = _ALL

    @property
    def dtype(self) -> np.dtype:
        """The kind of numbers of a block."""
        return self.store.dtype

    def _allocate(self, share: float) -> None:
        """Make room for as many rows as fit; memory is taken from the system as it is filled."""
        item = 8 if self.exact else 4
        budget = get_config().memory
        self.capacity = min(self.n, int(share * budget) // (item * max(1, self.n)))
        if self.capacity < min(LEAST, self.n):
            needed = int(LEAST * item * self.n / share)
            raise MemoryBudgetExceeded(
                f"{self.K!r}: {LEAST} rows of {self.n} kernel values and what goes with them need "
                f"{human(needed)}, but the memory budget is {human(budget)}. Raise "
                "it with `with mercer.config(memory=...):`, or use fewer points.",
                needed,
                budget,
            )
        self.store = np.empty((self.capacity, self.n), np.float64 if self.exact else np.float32)
        self._start()

    def _start(self) -> None:
        """Begin with no row there."""
        self._slots = np.full(self.n, -1)
        self._points = np.full(self.capacity, -1)
        self._used = np.zeros(self.capacity, dtype=np.int64)
        self._clock = self._filled = 0

    def fill(self) -> None:
        """Compute all rows at once, each pair of points once, where they fit and none is there.

        Cheaper than row by row for whoever will ask for more than about half of them.
        """
        with self._lock:
            if not self.empty or self._parent is not None:
                return
            gram(self._bound, out=self.store)
            np.fill_diagonal(self.store, self.diagonal)
            self._slots, self.computed = None, self.n

    @property
    def whole(self) -> bool:
        """Whether all rows are there, in order."""
        return self._slots is None

    @property
    def empty(self) -> bool:
        """Whether all rows have their place and none has been computed."""
        return self._slots is not None and self.complete and not self._filled

    @property
    def complete(self) -> bool:
        """Whether every row has its place, so that none is ever computed twice."""
        return self.capacity == self.n

    def restricted(self, points: np.ndarray) -> Rows:
        """Return rows and columns of some points only; what is here already is copied from here."""
        part = object.__new__(type(self))
        part._restrict(self, points)
        return part

    def _restrict(self, parent: Rows, points: np.ndarray) -> None:
        self.n, self.exact, self.computed = len(points), parent.exact, 0
        self.K, self.diagonal = parent.K, parent.diagonal[points]
        self._lock = threading.Lock()
        self._parent, self._chosen = parent, points
        if not parent.whole and not parent.complete:
            self._bound = parent._bound_to(points)
        self._allocate(PART)

    def _bound_to(self, points: np.ndarray) -> Any:
        """Return the kernel bound to some points only, in the precision of the rows."""
        kernel = self._bound.kernel
        return kernel._bind(kernel.domain.take(self._bound.collections[0], points))

    # -- fetching ------------------------------------------------------------------------------
    def fetch(self, points: np.ndarray) -> np.ndarray:
        """Return where in `store` the rows of distinct points are, computing those that are not.

        Parameters
        ----------
        points : ndarray of int
            At most `capacity` of them, no two the same.

        Returns
        -------
        ndarray of int
            ``store[slots[i]]`` is row ``points[i]``, until the next call where not all rows fit.
        """
        if self._slots is None:
            return points
        with self._lock:
            if self._slots is None:  # filled while this call waited
                return points
            self._clock += 1
            slots = self._slots[points]
            here = slots >= 0
            if not self.complete:
                self._used[slots[here]] = self._clock
            if not here.all():
                missing = np.sort(points[~here])
                self._put(missing, self._room_for(len(missing)))
                slots = self._slots[points]
            return slots

    def _places(self, points: np.ndarray) -> np.ndarray:
        """Return where in `store` the rows of points are, −1 for those that are not there."""
        return points if self._slots is None else self._slots[points]

    def _room_for(self, k: int) -> np.ndarray:
        """Return k slots: new ones as long as there are any, then the least recently used."""
        new = np.arange(self._filled, min(self._filled + k, self.capacity))
        self._filled += len(new)
        if len(new) < k:
            old = self._used[: self.capacity - len(new)]
            lack = k - len(new)
            oldest = np.sort(np.argpartition(old, lack - 1)[:lack])
            self._slots[self._points[oldest]] = -1  # type: ignore[index]
            new = np.concatenate([oldest, new])
        return new

    def _put(self, points: np.ndarray, slots: np.ndarray) -> None:
        """Write the rows of these points to these slots."""
        self._points[slots] = -1
        parent = self._parent
        if parent is None:
            self._compute(points, slots)
        elif parent.whole or parent.complete:
            self._copy(parent, parent.fetch(self._chosen[points]), slots)
        else:
            theirs = parent._places(self._chosen[points])
            self._copy(parent, theirs[theirs >= 0], slots[theirs >= 0])
            self._compute(points[theirs < 0], slots[theirs < 0])
        self._points[slots], self._slots[points] = points, slots  # type: ignore[index]
        self._used[slots] = self._clock

    def _compute(self, points: np.ndarray, slots: np.ndarray) -> None:
        self.computed += len(points)
        if len(points):
            rows_into(self.store, slots, self._bound.rows_of(points))
            self.store[slots, points] = self.diagonal[points]  # white noise lives there

    def _copy(self, parent: Rows, theirs: np.ndarray, slots: np.ndarray) -> None:
        from mercer.jit import take_block

        for some in _cuts(len(theirs), 512):
            part = np.empty((len(theirs[some]), self.n), self.store.dtype)
            take_block(parent.store, theirs[some], self._chosen, part)
            self.store[slots[some]] = part

    def gather(
        self, slots: np.ndarray, columns: np.ndarray, out: np.ndarray, rows: np.ndarray
    ) -> None:
        """Fill out[i] = store[slots[i], columns] for the rows i given.

        Parameters
        ----------
        slots : ndarray of int
            What `fetch` returned for the rows of `out`.
        columns : ndarray of int
            Points.
        out : ndarray
            What is filled.
        rows : ndarray of int
            Which rows of it.
        """
        from mercer.jit import take_rows

        take_rows(self.store, slots, columns, out, rows)

    # -- products ------------------------------------------------------------------------------
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
        f : ndarray
            What to add to.
        points, coef : ndarray
            Distinct points and their coefficients.
        columns : ndarray of int, optional
            The columns that f stands for.
        pool : Executor, optional
            Threads to share a long pass among.
        """
        from mercer.jit import add_rows

        columns = _ALL if columns is None else columns
        for some in _cuts(len(points), self.capacity):
            slots, c = self.fetch(points[some]), coef[some]
            if pool is None or len(slots) * len(f) < WORTH_THREADS:
                add_rows(f, self.store, slots, c, columns, 0, len(f))
                continue
            parts = _cuts(len(f), -(-len(f) // get_config().threads))
            jobs = [
                pool.submit(add_rows, f, self.store, slots, c, columns, p.start, p.stop)
                for p in parts
            ]
            for job in jobs:
                job.result()

    def product(
        self,
        points: np.ndarray,
        coef: np.ndarray,
        at: np.ndarray | None = None,
        pool: Any = None,
    ) -> np.ndarray:
        """Return Σᵢ coefᵢ K[at, pointsᵢ] in float64, from the kernel where rows are float32.

        Parameters
        ----------
        points, coef : ndarray
            Distinct points and their coefficients.
        at : ndarray of int, optional
            Where to evaluate; everywhere by default.
        pool : Executor, optional
            Threads to share a long pass among.
        """
        if self.exact or not isinstance(self.K, Gram):
            f = np.zeros(self.n if at is None else len(at))
            self.add(f, points, coef, at, pool)
            return f
        kernel, X, engine = self.K.kernel, self.K.X, self.K._engine
        take = kernel.domain.take
        if at is not None and len(at) == len(points) and np.array_equal(at, points):
            return engine.to_numpy(engine.matmul(kernel, take(X, points), None, coef))
        if (at is None and 2 * len(points) > self.n) or _has_noise(self.K):
            f = np.zeros(self.n)
            f[points] = coef
            f = engine.to_numpy(engine.matmul(kernel, X, None, f))
            return f if at is None else f[at]
        Y = take(X, points)
        X = X if at is None else take(X, at)
        return engine.to_numpy(engine.matmul(kernel, X, Y, coef))

    def sharp_product(self, points: np.ndarray, coef: np.ndarray) -> np.ndarray | None:
        """Return Σᵢ coefᵢ K[:, pointsᵢ] in ``numpy.longdouble``.

        None where rows are missing or not in float64, where there are too many entries, or where
        longer numbers are none.

        Parameters
        ----------
        points, coef : ndarray
            Distinct points and their coefficients.
        """
        longer = np.finfo(np.longdouble).eps < np.finfo(float).eps
        if not (longer and self.whole and self.exact) or len(points) * self.n > SHARP:
            return None
        f = np.zeros(self.n, dtype=np.longdouble)
        for some in _cuts(len(points), max(1, 4096 // self.n)):  # copies take little memory
            f += coef[some].astype(np.longdouble) @ self.store[points[some]]
        return f


class ResidentRows(Rows):
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
    K: Any
    store: Any

    @speaks("SMO")
    def __init__(self, K: Gram, single: bool = True):
        self._begin(K)
        self.exact = not (single and is_single(K))
        X = to_host(K.X).astype(self.dtype, copy=False)
        with computing_on(K.device):
            self._bound = gram_of(K.kernel, X).bound
        self.diagonal = np.asarray(K.diagonal(), dtype=float)
        self._allocate(SHARE)

    @property
    def dtype(self) -> np.dtype:
        """The kind of numbers of a block."""
        return np.dtype(np.float64 if self.exact else np.float32)

    def _allocate(self, share: float) -> None:
        like, item = self.K.like, self.dtype.itemsize
        room = free_memory(like)
        self.capacity = min(self.n, int(share * room) // (item * max(1, self.n)))
        least = int(LEAST * item * self.n / share)
        require_memory(least, f"{self.K!r}: room for {LEAST} rows", "Fit fewer rows", like)
        kind = self._bound.dtype
        with named_when_full(f"{self.K!r}: rows of kernel values", "Fit fewer rows"):
            self.store = like.new_empty((self.capacity, self.n), dtype=kind)
        self._start()

    def _restrict(self, parent: Rows, points: np.ndarray) -> None:
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
        return self.store.new_tensor(np.asarray(positions), dtype=self._bound.xp.int64)

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
    many = isinstance(K, Gram) and K.shape[0] > RESIDENT_FROM and K.kernel.domain.holds_points
    if many and on_gpu(K.like):  # type: ignore[attr-defined]
        return ResidentRows(K, single)  # type: ignore[arg-type]
    return Rows(K, single)


def _has_noise(K: Gram) -> bool:
    """Whether the kernel is larger where a point meets itself than where it meets its twin."""
    one = K.kernel.domain.take(K.X, np.arange(1))
    twin = float(K.kernel._bind(one, one).tile(slice(0, 1), slice(0, 1))[0, 0])
    own = float(K._engine.diag(K.kernel, one)[0])
    return abs(twin - own) > 1e-6 * abs(own)


def is_single(K: Gram) -> bool:
    """Whether rows may be float32: they agree with float64 on a sample of many points."""
    X, n = to_host(K.X), K.shape[0]
    plain = isinstance(X, np.ndarray) or sp.issparse(X)
    if not (plain and n > SINGLE_FROM and X.dtype == np.float64):
        return False
    some, every = np.linspace(0, n - 1, SAMPLE).astype(int), slice(0, SAMPLE)
    with np.errstate(all="ignore"):
        fine = K.kernel._bind(X[some]).tile(every, every)
        coarse = K.kernel._bind(X[some].astype(np.float32)).tile(every, every)
        return bool(np.abs(fine - coarse).max() <= AGREEMENT * np.abs(fine).max())


def _bind(K: Gram, single: bool) -> tuple[Any, bool]:
    """Return the kernel bound to the points, and whether it is in float64.

    float32 serves where it agrees with float64 and needs no slower route.
    """
    X = to_host(K.X)  # rows lie in this memory
    if single and is_single(K):
        with np.errstate(all="ignore"):
            bound = K.kernel._bind(X.astype(np.float32))
        if not bound.slow and bound.dtype == np.float32:
            return bound, False
    bound = K.kernel._bind(X)
    bound.verify()
    return bound, bound.dtype == np.float64


def _cuts(n: int, step: int) -> list[slice]:
    return [slice(i, min(i + step, n)) for i in range(0, n, max(1, step))]
