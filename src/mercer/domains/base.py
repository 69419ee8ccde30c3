"""The protocol of a domain: check a collection of points, count it, take from it, sample it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.errors import InvalidInput, refusal

Index = Any


def library_of(X: Any) -> str:
    """Return the name of the library whose X is, such as "pandas", without importing it."""
    return type(X).__module__.partition(".")[0]


def is_dask(X: Any) -> bool:
    """Whether X is a dask array, data frame or series, without importing dask."""
    home = type(X).__module__.partition(".")[0]
    return home in ("dask", "dask_expr") and hasattr(X, "to_delayed") and hasattr(X, "ndim")


def check_structure(X: Any, speaker: str, name: str) -> Any:
    """Return a sparse matrix of its own on the arrays of X, or refuse one that is broken.

    SciPy looks at indices where a matrix is made, not where its arrays are set afterwards, and its
    loops read and write whatever memory they point to.
    """
    try:
        return _rebuilt(X)
    except (AttributeError, IndexError, OverflowError, TypeError, ValueError) as error:
        raise refusal(
            speaker,
            f"{name} is a broken sparse matrix: {error}. Make it anew, for example with "
            "scipy.sparse.csr_array((values, (rows, columns)), shape=shape).",
        ) from error


def _rebuilt(X: Any) -> Any:
    """Return X made anew of its own arrays, without a copy; SciPy then checks them."""
    kind = getattr(sp, f"{X.format}_{'array' if isinstance(X, sp.sparray) else 'matrix'}")
    if X.format == "coo":
        _require_whole(*X.coords)
        return kind((X.data, X.coords), shape=X.shape)
    if X.format == "dia":
        _require_whole(X.offsets)
        return kind((X.data, X.offsets), shape=X.shape)
    if X.format == "lil":
        held = [len(row) for row in X.rows]
        if len(held) != X.shape[0] or held != [len(row) for row in X.data]:
            raise ValueError("rows and data should have the same sizes")
    if X.format in ("lil", "dok"):
        return _rebuilt(X.tocsr())
    _require_whole(X.indices, X.indptr)
    if X.format == "bsr" and any(n % block for n, block in zip(X.shape, X.blocksize, strict=True)):
        raise ValueError(f"blocks of shape {X.blocksize} do not fill the shape {X.shape}")
    anew = kind((X.data, X.indices, X.indptr), shape=X.shape)
    anew.check_format(full_check=True)
    return anew


def _require_whole(*positions: np.ndarray) -> None:
    for array in positions:
        if array.dtype.kind not in "iu":
            raise ValueError(f"indices of type {array.dtype} are not whole numbers")


class Domain:
    """A kind of point, and what mercer may do with a collection of such points.

    ``check`` turns what a user passes into the canonical collection, or raises `InvalidInput`
    naming the argument; everything behind it may rely on the canonical form.
    """

    name = "points"
    holds_points = True  # False for rows of a Gram matrix, which are known by kernel values only

    def check(self, X: Any, name: str = "X") -> Any:
        """Return the canonical collection, or raise `InvalidInput`."""
        return X

    def size(self, X: Any) -> int:
        """Return the number of points."""
        return len(X)

    def take(self, X: Any, index: Index) -> Any:
        """Return the points at the given positions (a slice or an integer array)."""
        return X[index]

    def subset(self, X: Any, index: Index) -> Any:
        """Return the training points at the given positions; of a Gram matrix rows and columns."""
        return self.take(X, index)

    def pair(self, X: Any, rows: Index, columns: Index) -> tuple[Any, Any]:
        """Return two collections whose kernel values are K[rows, columns] of training points X."""
        return self.take(X, rows), self.take(X, columns)

    def as_new(self, X: Any, index: Index, training: Index) -> Any:
        """Return points of X as new ones to a model that was fitted on those at `training`."""
        return self.take(X, index)

    def keep(self, X: Any) -> Any:
        """Return what a fitted model must keep of X to evaluate k(new points, X)."""
        return X

    def own(self, X: Any, kept: Any) -> Any:
        """Return the collection of points that were kept of training points X."""
        return kept

    def keep_at(self, X: Any, index: Index) -> Any:
        """Return what a fitted model must keep of the training points at the given positions."""
        return self.keep(self.take(X, index))

    def renumber(self, kept: Any, rows: Index) -> Any:
        """Return what is kept of a subset of training points; positions in it become those of X."""
        return kept

    def check_training(self, X: Any, name: str = "X") -> Any:
        """Return a checked collection that can be one of training points, or refuse it."""
        return X

    def without_noise(self, X: Any) -> Any:
        """Return checked training points without the rounding of single precision, if it shows."""
        return X

    def require_again(self, X: Any, verb: str, how: str | None = None) -> None:
        """Refuse to do without training points of which a fitted model keeps too little."""

    def match(self, X: Any, Y: Any) -> tuple[Any, Any]:
        """Bring two checked collections to one form, or say why they do not belong together."""
        return X, Y

    def sample(self, rng: np.random.Generator, n: int) -> Any:
        """Return n random points, for the laws of `mercer.testing`."""
        raise InvalidInput(f"{type(self).__name__}: no sampler; pass points of your own.")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(self.__dict__.items()))))

    def __repr__(self) -> str:
        inside = ", ".join(f"{k}={v!r}" for k, v in self.__dict__.items())
        return f"{type(self).__name__}({inside})"

    def may_keep(self, points: Any, count: int | None) -> bool:
        """Whether points may be what a model keeps of training data of so many columns.

        Of a table it keeps the columns that its kernel looks at, all of them or fewer.
        """
        shape: tuple[int, ...] = getattr(points, "shape", ())
        if count is None or len(shape) != 2:
            return True
        return shape[1] == count or (getattr(points, "named", False) and shape[1] < count)
