"""The Gram matrix of a kernel: lazy, multiplied in tiles, kept when it fits the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from mercer.domains import is_torch, to_host
from mercer.engines import NumpyEngine, below_diagonal, gram, matmul, pick, pull_points, pull_theta
from mercer.engines.device import full_precision
from mercer.kernels import Kernel, Precomputed, as_kernel, check_diagonal, gram_of_few
from mercer.memory import free_on, named_when_full, require_memory
from mercer.operators.base import Dense, Index, OnDevice, Operator
from mercer.settings import get_config
from mercer.threads import blas_for_values

DOUBLE = np.dtype(np.float64)
KEPT_PART = 16  # the points of a model are kept prepared up to one part of the budget in so many
BOUND_PART = 128  # and those of a matrix, beside what is made of it
_ready: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
AT_ONCE = 2**16  # products with kernel values that no thread of BLAS shares with another
GOLDEN = 0.6180339887498949  # of whose multiples no two have the same rest
BAND = 256  # rows of a matrix of kernel values that are multiplied at a time


class Gram(Operator):
    r"""The matrix K with entries k(xᵢ, yⱼ).

    Nothing is computed until asked. Products run in tiles inside ``mercer.config(memory=...)``;
    when the whole matrix takes at most half the budget it is computed once and kept. On a device
    it is kept and multiplied there, by what that has free; vectors come and go as arrays.

    Parameters
    ----------
    kernel : Kernel, str or callable
        The kernel.
    X, Y : collections of points
        Y defaults to X; then K is symmetric positive semidefinite.
    keep : bool, optional
        Whether to keep the matrix; decided by the budget when not given.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF
    >>> from mercer.operators import Gram
    >>> K = Gram(RBF(), np.array([[0.0], [1.0]]))
    >>> (K @ np.ones(2)).round(4)
    array([1.6065, 1.6065])
    """

    def __init__(self, kernel: Kernel | Any, X: Any, Y: Any = None, keep: bool | None = None):
        kernel = as_kernel(kernel)._ready(X, Y)
        self._hold(kernel, *kernel._checked(X, Y), keep)

    def _hold(self, kernel: Kernel, X: Any, Y: Any, keep: bool | None, host: bool = False) -> None:
        self.kernel, self.X, self.Y = kernel, X, Y
        self._engine = NumpyEngine() if host else pick(X, Y)
        size = self.kernel.domain.size
        n = size(self.X)
        self.shape = (n, n if self.Y is None else size(self.Y))
        self.symmetric = self.Y is None
        self.psd = self.symmetric and self.kernel.psd
        kind = getattr(X, "dtype", None)
        single = str(kind) == "torch.float32" if is_torch(X) else kind == np.float32
        self.dtype = np.dtype(np.float32) if single else np.dtype(np.float64)
        self._keep = keep if self.kernel.domain.holds_points else None
        self._matrix: Any = X if self.symmetric and type(kernel) is Precomputed else None
        self._verified = False
        self._bound: Any = None

    @property
    def device(self) -> Any:
        """The device of torch that computes it; None in main memory."""
        return None if self.like is None else self.like.device

    @property
    def like(self) -> Any:
        """A tensor of no rows where K is computed; None in main memory."""
        if self._engine.name != "torch":
            return None
        none = self._engine.asarray(self.kernel.domain.take(self.X, slice(0, 0)))
        return none if is_torch(none) else None

    @property
    def nbytes(self) -> int:
        """Bytes of the whole matrix."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    @property
    def room(self) -> int:
        """Bytes that may be allocated where it is computed."""
        return free_on(self.device)

    def kept(self) -> Any:
        """Return the matrix where it is computed, if there is room to keep it; else None."""
        if self._matrix is None:
            keep = 2 * self.nbytes <= self.room if self._keep is None else self._keep
            if keep:
                self._matrix = self._whole()
        return self._matrix

    def matrix_there(self, single: bool = False) -> Any:
        """Return the matrix where it is computed, a tensor or an array.

        Parameters
        ----------
        single : bool, default=False
            Whether it is rounded to float32, tile by tile.
        """
        if not single:
            return self._whole()
        bound = self.bound
        place = {} if bound.xp is np else {"device": self.device}
        return gram(bound, bound.xp.empty(self.shape, dtype=bound.xp.float32, **place))

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        K = self._matrix if self._keep is False else self.kept()
        if K is not None:
            return _product(K, V)
        return self.times(V)

    def _matmul_there(self, V: Any) -> Any:
        if self.device != V.device:
            return super()._matmul_there(V)
        K = self._matrix if self._keep is False else self.kept()
        if K is None:
            return matmul(self.bound, V)
        with full_precision():
            return K @ V.to(K.dtype)

    def times(self, V: np.ndarray) -> np.ndarray:
        """Return K V in tiles that are computed anew, whether the matrix is kept or not."""
        return self._engine.to_numpy(matmul(self.bound, V))

    def _rmatmul(self, V: np.ndarray) -> np.ndarray:
        K = self.kept()
        if K is not None:
            return _product(K.T, V)
        if not self.kernel.domain.holds_points:  # k(Y, X) is not given, only k(X, Y)
            bound, out = self.bound, np.zeros((self.shape[1], *V.shape[1:]))
            for start in range(0, self.shape[0], BAND):
                rows = slice(start, min(start + BAND, self.shape[0]))
                out += self._engine.to_numpy(bound.tile(rows, slice(0, self.shape[1]))).T @ V[rows]
            return out.astype(self.dtype, copy=False)
        return self._engine.to_numpy(self._engine.matmul(self.kernel, self.Y, self.X, V))

    def _block(self, rows: Index, cols: Index) -> np.ndarray:
        given = not self.kernel.domain.holds_points
        if (self.kept() if given else self._matrix) is not None:
            return self._engine.to_numpy(self._matrix[rows][:, cols])
        if isinstance(rows, slice) and isinstance(cols, slice):
            n, m = rows.stop - rows.start, cols.stop - cols.start
            require_memory(
                n * m * self.dtype.itemsize, f"Gram: a block of {n} × {m}", "Ask for fewer rows"
            )
            if rows == slice(0, self.shape[0]) and cols == slice(0, self.shape[1]):
                return self._engine.to_numpy(self.matrix_there())
            bound = self.bound
            if self.symmetric and not self._verified:
                bound.verify()
                self._verified = True
            return self._engine.to_numpy(bound.tile(rows, cols))
        # Take the points first, so that only the asked entries are computed. White noise lives on
        # the diagonal of K(X, X): a block of other points does not see it, so it is put back.
        take = self.kernel.domain.take
        Y = self.X if self.Y is None else self.Y
        if given:
            return self._engine.to_numpy(self._engine.to_numpy(self.matrix_there())[rows][:, cols])
        part = self._engine.gram(self.kernel, take(self.X, rows), take(Y, cols))
        part = np.array(self._engine.to_numpy(part))
        if self.symmetric:
            i = np.arange(self.shape[0])[rows]
            j = np.arange(self.shape[1])[cols]
            both = np.intersect1d(i, j)
            if len(both):
                d = self._engine.to_numpy(self._engine.diag(self.kernel, take(self.X, both)))
                a, b = np.nonzero(i[:, None] == j[None, :])
                part[a, b] = d[np.searchsorted(both, i[a])]
        return part

    @property
    def bound(self) -> Any:
        """The kernel bound to its collections where they are computed: what makes the tiles.

        Of few points it is kept: what is prepared of them takes little beside the budget.
        """
        if self._bound is not None:
            return self._bound
        bound = self._engine.bound(self.kernel, self.X, self.Y)
        sizes = [getattr(Z, "nbytes", None) for Z in (self.X, self.Y) if Z is not None]
        if None not in sizes and BOUND_PART * sum(sizes) <= get_config().memory:  # type: ignore[arg-type]
            self._bound = bound
        return bound

    @property
    def n_features(self) -> int | None:
        """Number of finite features of X; None where there are none, or kernel values alone."""
        return self.kernel._n_features(self.X) if self.kernel.domain.holds_points else None

    def features(self) -> Any:
        """Return the finite features Φ of X, dense or sparse: K = ΦΦᵀ."""
        return self.kernel._features(self.X)

    def pull_theta(self, W: Any, other: int = 0) -> np.ndarray:
        """Return Σᵢⱼ Wᵢⱼ ∂Kᵢⱼ/∂θ for the log-parameters θ of the kernel, tile by tile.

        Parameters
        ----------
        W : array of shape (n, m), or callable
            The weights, or ``W(rows, cols)``, which makes a tile of them. Of a symmetric K only
            tiles on and above the diagonal are asked for, and those above it must hold Wᵢⱼ + Wⱼᵢ.
        other : int, default=0
            Bytes of the memory budget that the caller holds.
        """
        return self._engine.to_numpy(pull_theta(self.bound, W, len(self.kernel.theta), other))

    def pull_points(self, W: np.ndarray) -> np.ndarray:
        """Return Σⱼ Wᵢⱼ ∇k(xᵢ, yⱼ), the gradient in the first point, for every row of X."""
        bound = self.bound
        return self._engine.to_numpy(pull_points(bound, bound.asarray(W), self.X.shape[1]))

    def pull_diagonal(self, c: np.ndarray) -> np.ndarray:
        """Return Σᵢ cᵢ ∂k(xᵢ, xᵢ)/∂θ for the log-parameters θ of the kernel."""
        return np.asarray(self.kernel._pull_diag(self.X, c))

    def diagonal(self) -> np.ndarray:
        """Return k(xᵢ, xᵢ), without the matrix when K is symmetric."""
        if not self.symmetric:
            return super().diagonal()
        with np.errstate(over="ignore", invalid="ignore"):
            d = check_diagonal(self.kernel, self._engine.diag(self.kernel, self.X))
        return self._engine.to_numpy(d)

    def to_dense(self, out: np.ndarray | None = None) -> np.ndarray:
        """Return the matrix, or raise `MemoryBudgetExceeded` before any work.

        Where it is kept, it is that array itself: copy it before you write into it.

        Parameters
        ----------
        out : ndarray of shape (n, m), optional
            Where to write it.
        """
        if out is None:
            own = self._matrix is not None and self._matrix is not self.X
            return self._engine.to_numpy(self._matrix if own else self.matrix_there())
        if self._matrix is None:
            return out if self._at_once(out) else self._written(self.bound, out)
        out[...] = self._engine.to_numpy(self._matrix)
        return out

    def _few(self) -> np.ndarray | None:
        """Return K of few points, made without a plan of tiles; None of others."""
        here = self._engine.name == "numpy"
        return gram_of_few(self.kernel, self.X, self.Y) if here else None

    def _whole(self) -> Any:
        K = self._few()
        return self._engine.gram(self.kernel, self.X, self.Y) if K is None else K

    def _at_once(self, out: Any) -> bool:
        """Whether K is of few points, and was written to an array."""
        K = self._few() if isinstance(out, np.ndarray) else None
        if K is not None:
            out[...] = K
        return K is not None

    def _written(self, bound: Any, out: np.ndarray) -> np.ndarray:
        """Return the values of a bound kernel in an array, wherever they were computed."""
        if bound.xp is np:
            return gram(bound, out=out)
        out[...] = self._engine.to_numpy(gram(bound))
        return out

    def rows_of(self, index: np.ndarray, out: np.ndarray | None = None) -> Any:
        """Return rows, as of other points: in the array given, or where they are computed."""
        part = self.bound.rows_of(index)
        return gram(part) if out is None else self._written(part, out)

    def stored(self, matrices: int, what: str, cure: str) -> Operator:
        """Return a symmetric K in float64 that belongs to the caller, where it is computed.

        Parameters
        ----------
        matrices : int
            How many of its size are needed in all.
        what, cure : str
            What needs them, and what to do where they do not fit, for the message.
        """
        if self.device is not None and self.bound.xp is not np:
            return OnDevice(self.there(self.space(what, cure, matrices)), symmetric=True)
        require_memory(8 * self.shape[0] ** 2 * matrices, what, cure)
        K = self.to_dense()
        given = K is self.X or K is self._matrix or not K.flags.owndata or not K.flags.writeable
        K = (np.array if given else np.asarray)(K, dtype=np.float64, order="C")
        return Dense(K, symmetric=True)

    def space(self, what: str, cure: str, matrices: int = 1) -> Any:
        """Return an array or tensor for K in float64 where it is computed, if so many fit there."""
        n, m = self.shape
        if self._engine.name == "numpy":
            require_memory(8 * n * m * matrices, what, cure)
            return np.empty((n, m))
        bound = self.bound
        require_memory(8 * n * m * matrices, what, cure, bound._like)
        with named_when_full(what, cure):
            return bound.empty((n, m), wide=True)

    def there(self, out: Any = None) -> Any:
        """Return the matrix where it is computed, in the array or tensor given if there is one."""
        if self._at_once(out):
            return out
        if out is None or not self.bound.whole:
            return gram(self.bound, out=out)
        out[...] = gram(self.bound)
        return out

    def beside(self, A: np.ndarray) -> Dense | OnDevice:
        """Return a matrix where this one is computed, if there is room for it and one more."""
        if self.device is None or 2 * A.nbytes > self.room:
            return Dense(A, symmetric=False)
        return OnDevice(self._engine.asarray(A))

    def rows_there(self) -> Callable[[np.ndarray], Any]:
        """Return a function of positions that makes those rows as a tensor where they are computed.

        White noise is not in rows of a lazy matrix: they are those of points of their own.
        """
        return rows_on_device(self.bound, self._matrix)

    def __repr__(self) -> str:
        return f"Gram({self.kernel!r}, shape={self.shape})"


def gram_of(
    kernel: Kernel, X: Any, Y: Any = None, keep: bool | None = False, *, host: bool = False
) -> Gram:
    """Return K of canonical collections and a fitted kernel, neither of which is looked at again.

    As models have them. Nothing is kept but on demand: products are those of tiles. With `host` it
    is computed in main memory, whatever engine is in force.
    """
    K = Gram.__new__(Gram)
    K._hold(kernel, X, Y, keep, host)
    return K


def product_at(model: Any, kernel: Kernel, X: Any, Z: Any, V: np.ndarray) -> np.ndarray:
    """Return K(X, Z) V at new points, for the points Z that a fitted model keeps.

    What concerns Z alone is computed at the first call and kept as long as its model, kernel and
    Z are the same.

    Parameters
    ----------
    model : estimator or Function
        The fitted model.
    kernel : Kernel
        Its kernel.
    X, Z : canonical collections
        New points, and those of the model, matched with them.
    V : ndarray of shape (m,) or (m, t)
        The coefficients.
    """
    few = isinstance(X, np.ndarray) and len(X) * V.size <= AT_ONCE
    if few and (K := gram_of_few(kernel, X, Z)) is not None:
        with np.errstate(over="ignore", invalid="ignore"), blas_for_values(K.size):
            product: np.ndarray = K @ V.astype(K.dtype, copy=False)
        if np.isfinite(product).all():
            return product
    bound = _at_new_points(model, kernel, X, Z)
    if bound is None:
        return gram_of(kernel, X, Z) @ V
    with blas_for_values(len(X) * Z.size):
        return np.asarray(matmul(bound, V))


def values_at(model: Any, kernel: Kernel, X: Any, Z: Any) -> np.ndarray | None:
    """Return K(X, Z) at new points, as `product_at` has it; None where nothing is kept of Z."""
    K = gram_of_few(kernel, X, Z)
    if K is not None:
        return K
    bound = _at_new_points(model, kernel, X, Z)
    if bound is None:
        return None
    with blas_for_values(len(X) * Z.size):
        return gram(bound)


def _at_new_points(model: Any, kernel: Kernel, X: Any, Z: Any) -> Any:
    """Return the kernel bound to new points, with what is kept of Z; None where nothing is."""
    if not (isinstance(X, np.ndarray) and isinstance(Z, np.ndarray) and len(X) and len(Z)):
        return None
    if not isinstance(pick(X, Z), NumpyEngine) or KEPT_PART * Z.nbytes > get_config().memory:
        return None
    return _prepared(model, kernel, Z).at(X)


def _prepared(model: Any, kernel: Kernel, Z: np.ndarray) -> Any:
    """Return the kernel bound to the points of a model, as long as all are what they were."""
    return kept_ready(model, kernel, Z, lambda: pick(Z).bound(kernel, Z, None))


def kept_ready(model: Any, kernel: Kernel, Z: np.ndarray, make: Callable[[], Any]) -> Any:
    """Return what was made of the points of a model, made anew where any of them has changed."""
    found = _ready.get(model)
    told = [make.__qualname__, fingerprint(Z), *_leaves(kernel)]
    if found is not None:
        bound, points, before = found
        if points is Z and len(before) == len(told) and all(map(_same, before, told)):
            return bound
    bound = make()
    _ready[model] = bound, Z, [v.copy() if isinstance(v, np.ndarray | list) else v for v in told]
    return bound


def fingerprint(Z: Any) -> float:
    """Return a number that is another one where entries of an array were changed or exchanged.

    A sum of them with weights, in parts that BLAS does not share among its threads.

    Parameters
    ----------
    Z : ndarray
        The array; of others nothing is told.
    """
    if not (isinstance(Z, np.ndarray) and Z.flags.c_contiguous and Z.dtype.kind == "f"):
        return 0.0
    z, weights, total = Z.reshape(-1), _weights_of(Z.dtype), 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for part, start in enumerate(range(0, len(z), len(weights))):
            some = z[start : start + len(weights)]
            total += (1.0 + part * GOLDEN % 1.0) * float(np.dot(some, weights[: len(some)]))
    return total


@lru_cache(maxsize=2)
def _weights_of(dtype: Any) -> np.ndarray:
    return np.random.default_rng(0).uniform(1.0, 2.0, 2**13).astype(dtype)


def _leaves(kernel: Kernel) -> Iterator[Any]:
    """Yield what a kernel consists of: kinds and parameters, of parts too."""
    yield type(kernel)
    for value in vars(kernel).values():
        if isinstance(value, Kernel):
            yield from _leaves(value)
        else:
            yield value


def _same(before: Any, now: Any) -> bool:
    if before is now:
        return True
    if isinstance(now, np.ndarray | list):
        return type(before) is type(now) and np.array_equal(before, now)
    return False


def upper_half(T: Any) -> Any:
    """Keep of a square tile the entries above its diagonal and half of those on it, in place.

    So do weights Wᵢⱼ + Wⱼᵢ become those that `Gram.pull_theta` wants of a diagonal tile.
    """
    if is_torch(T):
        T.triu_().diagonal().mul_(0.5)
        return T
    np.copyto(T, 0.0, where=below_diagonal(len(T)))
    np.einsum("ii->i", T)[...] *= 0.5
    return T


def placed(*arrays: np.ndarray) -> list[Any]:
    """Return arrays where K of such points is computed: as tensors, or as they are."""
    engine = pick(*arrays)
    return [engine.asarray(A) for A in arrays]


def rows_on_device(bound: Any, K: Any = None) -> Callable[[np.ndarray], Any]:
    """Return a function that makes some rows of a bound kernel on its device.

    Parameters
    ----------
    bound : Bound
        The kernel, on tensors.
    K : tensor of shape (n, m), optional
        The matrix, if it is kept.
    """
    if is_torch(K):
        return K.__getitem__
    if not bound.kernel.domain.holds_points:
        every = tuple(slice(0, size) for size in bound.shape)
        return lambda index: bound.tile(*every)[index]
    return lambda index: gram(bound.rows_of(index))


def _product(K: Any, V: np.ndarray) -> np.ndarray:
    """Return K V, in the dtype of K: a float32 matrix is not copied to float64."""
    if not is_torch(K):
        with np.errstate(over="ignore", invalid="ignore"):  # for the caller to judge
            return K @ V.astype(K.dtype, copy=False)
    with full_precision():
        return to_host(K @ K.new_tensor(np.ascontiguousarray(V)))
