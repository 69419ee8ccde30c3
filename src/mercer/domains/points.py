"""Points of any kind: lists of objects, and collections joined, taken apart and keyed."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains.base import Domain, Index, check_structure
from mercer.domains.packed import Packed
from mercer.domains.tables import Table, is_frame
from mercer.domains.vectors import is_torch, namespace, to_host
from mercer.errors import refusal


def concatenate(domain: Domain, A: Any, B: Any) -> Any:
    """Return the points of A followed by those of B, two canonical collections of one domain.

    Parameters
    ----------
    domain : Domain
        What a point is.
    A, B : canonical collections
        As returned by ``domain.check``.
    """
    if isinstance(A, np.ndarray) and isinstance(B, np.ndarray) and A.ndim == B.ndim == 1:
        return np.concatenate([A, B])  # positions, or numbers as objects
    A, B = domain.match(A, B)
    if isinstance(A, Packed) and type(A) is type(B):
        return A.joined(B)
    if isinstance(A, Table) and isinstance(B, Table):
        return A.joined(B)
    if is_torch(A) and is_torch(B):
        return namespace(A).concatenate([A, B])
    if sp.issparse(A) and sp.issparse(B):
        return sp.vstack([A, B]).tocsr()
    if isinstance(A, np.ndarray) and isinstance(B, np.ndarray) and A.shape[1:] == B.shape[1:]:
        return np.concatenate([A, B])
    if isinstance(A, tuple | np.ndarray) and isinstance(B, tuple | np.ndarray):
        return (*A, *B)
    raise refusal(
        "Points",
        f"points held as {type(A).__name__} and as {type(B).__name__} do not go "
        "together; bring both to one form first.",
    )


def some_points(points: Any, index: Any) -> Any:
    """Return the points at a slice or at positions."""
    if isinstance(points, Packed | Table):
        return points.take(index)
    if isinstance(points, tuple) and not isinstance(index, slice):
        return tuple(points[int(i)] for i in index)
    return points[index]


# ---- Whether points are equal: those of two collections, and a key for every point ----


def same_points(domain: Domain, X: Any, Y: Any) -> bool:
    """Return whether two canonical collections hold equal points in the same order.

    Objects that compare by identity only are taken on trust.
    """
    if domain.size(X) != domain.size(Y):
        return False
    if sp.issparse(X) or sp.issparse(Y):
        return X.shape == Y.shape and bool(abs(X - Y).max() == 0)
    if isinstance(X, np.ndarray):
        return np.array_equal(X, Y, equal_nan=X.dtype.kind == "f")
    if isinstance(X, Packed):
        return X == Y
    if isinstance(X, Table):  # a model keeps the columns that its kernel looks at
        return domain.keep(X) == Y
    return all(not _comparable(a) or bool(np.all(a == b)) for a, b in zip(X, Y, strict=True))


def _comparable(a: Any) -> bool:
    return any("__eq__" in vars(kind) for kind in type(a).__mro__[:-1])


def point_keys(X: Any) -> list[Hashable] | None:
    """Return a key for each point of a canonical collection, equal for equal points.

    Lists, dicts and arrays among objects count as equal when what they hold is. None when some
    point is of a kind that cannot be compared.

    Examples
    --------
    >>> from mercer.domains.points import point_keys
    >>> keys = point_keys(([1, 2], "a", [1, 2]))
    >>> keys[0] == keys[2], keys[0] == keys[1]
    (True, False)
    """
    X = to_host(X)
    X = X.toarray() if sp.issparse(X) else X
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiub" and X.ndim >= 1:
        numbers = X.astype(np.float64) + 0.0  # of one kind; and −0.0 and 0.0 are one number
        return [row.tobytes() for row in np.ascontiguousarray(numbers)]
    points = X
    if isinstance(X, Table):
        points = list(zip(*(column.tolist() for column in X.columns), strict=True))
    elif not isinstance(X, Packed):
        points = list(X)
    try:
        return [_key(point) for point in points]
    except TypeError:
        return None


def _key(point: Any) -> Hashable:
    if isinstance(point, np.ndarray):
        return "array", point.shape, point.dtype.str, tuple(point.reshape(-1).tolist())
    if isinstance(point, list | tuple):
        return type(point).__name__, tuple(map(_key, point))
    if isinstance(point, Mapping):
        return "mapping", frozenset((name, _key(value)) for name, value in point.items())
    hash(point)
    return point


# ---- Lists of anything, for kernels given as a function of two objects ----


class Objects(Domain):
    """Points of any kind: a list of anything, or the rows of an array.

    A list of lists of numbers, all of one length, is an array; tuples of numbers stay what they
    are. The points of a frame or table of one column, and of an (n, 1) array of objects or text,
    are its entries; rows of several columns are tuples.
    """

    name = "objects"

    def check(self, X: Any, name: str = "X") -> Any:
        """Return an array (rows are points) or a tuple of objects."""
        if isinstance(X, Table) or is_frame(X):
            table = Table.from_frame(X, name)
            return _entries(table.columns[0]) if len(table.names) == 1 else table
        if isinstance(X, Packed) or is_torch(X):
            return X
        if isinstance(X, np.ndarray) and X.ndim >= 1:
            single = X.ndim == 2 and X.shape[1] == 1 and X.dtype.kind in "OUST"
            return _entries(X[:, 0]) if single else X
        if hasattr(X, "tocsr"):
            return check_structure(X, "Objects", name).tocsr()
        sequence = hasattr(X, "__len__") and hasattr(X, "__getitem__")
        if not sequence or isinstance(X, str | bytes | dict | np.ndarray):
            raise refusal(
                "Objects", f"{name} is a {type(X).__name__}; give a list or an array of points."
            )
        rows = _rows(X) if isinstance(X, list) else None
        return tuple(X) if rows is None else rows

    def match(self, X: Any, Y: Any) -> tuple[Any, Any]:
        """Return both; lists of one length beside lists of several are no array after all."""
        if _are_lists(X) and _is_matrix(Y):
            return X, tuple(Y.tolist())
        if _is_matrix(X) and _are_lists(Y):
            return tuple(X.tolist()), Y
        return X, Y

    def size(self, X: Any) -> int:
        """Return the number of points."""
        return int(X.shape[0]) if hasattr(X, "shape") else len(X)

    def take(self, X: Any, index: Index) -> Any:
        """Return the points at the given positions."""
        if isinstance(X, tuple):
            if isinstance(index, slice):
                return X[index]
            index = np.asarray(index) if np.size(index) else np.zeros(0, dtype=int)
            return tuple(X[int(i)] for i in np.arange(len(X))[index])
        if isinstance(X, Table):
            return X.take(index)
        return X[index]

    def keep(self, X: Any) -> Any:
        """Return a copy of an array; other objects are kept themselves."""
        return X.copy() if isinstance(X, np.ndarray) else X

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Return n standard normal vectors of ℝ³."""
        return rng.standard_normal((n, 3))


def _entries(column: np.ndarray) -> tuple:
    """Return what stands in a column; dates stay dates, of which `tolist` may make numbers."""
    return tuple(column if column.dtype.kind in "mM" else column.tolist())


def _rows(X: list) -> np.ndarray | None:
    """Return a list of lists of numbers, all of one length, as a float array; else None."""
    if not _are_lists(X) or len({len(x) for x in X}) > 1 or not X[0]:
        return None
    if not all(isinstance(v, int | float | np.number) for x in X for v in x):
        return None
    try:
        return np.array(X, dtype=np.float64)
    except (OverflowError, TypeError):  # a whole number beyond the floats, or a complex one
        return None


def _are_lists(X: Any) -> bool:
    return isinstance(X, list | tuple) and len(X) > 0 and all(isinstance(x, list) for x in X)


def _is_matrix(X: Any) -> bool:
    return isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype == np.float64


# ---- Powers of two that bring rows of numbers to a size at which squares exist; nothing is
# rounded.


RANGE = 400  # between 2^−RANGE and 2^RANGE squares and their sums are in the range of floats


def largest(*collections: Any) -> float:
    """Return the largest absolute entry of dense or sparse rows of numbers, 0 where none is."""
    arrays = [Z.data if sp.issparse(Z) else Z for Z in collections]
    return max(
        (max(float(a.max(initial=0.0)), -float(a.min(initial=0.0))) for a in arrays), default=0.0
    )


def shifted(Z: Any, power: int) -> Any:
    """Return Z·2^power."""
    if not sp.issparse(Z):
        return np.ldexp(Z, power)
    Z = Z.copy()
    Z.data = np.ldexp(Z.data, power)
    return Z


def moderate(collections: list, top: int = 0) -> tuple[list, int]:
    """Return collections over 2^shift, and the shift: 0 where their largest entry is moderate.

    Elsewhere the largest entry comes to about 2^top.
    """
    size = largest(*collections)
    exponent = int(np.frexp(size)[1])
    if size == 0 or abs(exponent) <= RANGE:
        return collections, 0
    shift = exponent - top
    return [shifted(Z, -shift) for Z in collections], shift
