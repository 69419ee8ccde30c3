"""Vectors: dense rows, sparse rows, frames and torch tensors; numbers on a part of the line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains.base import Domain, check_structure
from mercer.domains.tables import Table, is_frame
from mercer.errors import InvalidInput, refusal, speaks, who

KERNEL_FOR_POINTS = (
    "give a kernel for such points, such as mercer.WeisfeilerLehman(3) for graphs, or any function "
    "of two objects"
)
KERNEL_FOR_ROWS = (
    "give every row the same columns, or a kernel for such points: mercer.GlobalAlignment() for "
    "series, mercer.SetKernel(mercer.RBF()) for bags of points"
)


def is_torch(X: Any) -> bool:
    """Whether X is a torch tensor, without importing torch."""
    return type(X).__module__.partition(".")[0] == "torch" and hasattr(X, "detach")


def namespace(X: Any) -> Any:
    """Return the module, numpy or torch, whose functions act on X."""
    if is_torch(X):
        import torch

        return torch
    return np


def beside(A: Any, X: Any) -> Any:
    """Return numbers in the dtype of X and where X is: an array, or a tensor on its device."""
    if is_torch(X):
        return namespace(X).as_tensor(A, dtype=X.dtype, device=X.device)
    return np.asarray(A, dtype=X.dtype)


def to_host(X: Any, name: str = "X") -> Any:
    """Return a torch tensor as an array in main memory, and anything else as it is.

    Parameters
    ----------
    X : object
        Of tensors those of rows of numbers; half precision that NumPy lacks becomes float32.
    name : str, default="X"
        What it is, for the message.
    """
    if not is_torch(X):
        return X
    _require_numbers(X, name)
    X = X.detach().cpu()
    return (X.float() if str(X.dtype) == "torch.bfloat16" else X).numpy()


def _require_numbers(X: Any, name: str) -> None:
    """Refuse a tensor that is sparse, or holds no numbers."""
    layout = str(X.layout).rpartition(".")[2]
    if layout == "strided" and not X.is_meta:
        return
    what = "holds no numbers (device 'meta')" if X.is_meta else f"has the layout {layout}"
    raise refusal("Vectors", f"the tensor {name} {what}; give {name}.to_dense() of numbers.")


def refuse_odd_arrays(A: Any, name: str) -> None:
    """Refuse what would become numbers without a word: dates, masked entries, broken sparse rows.

    A : object
        Anything; only arrays of NumPy, lists of its dates, and sparse matrices are looked at.
    name : str
        What it is, and whose, for the message.
    """
    if sp.issparse(A):
        check_structure(A, who(), name)
    if isinstance(A, np.ma.MaskedArray) and np.ma.getmaskarray(A).any():
        raise refusal(
            who(),
            f"{name} has masked entries; fill or drop them, "
            "for example with sklearn.impute.SimpleImputer.",
        )
    if _kind(A) in "mM":
        raise refusal(
            who(),
            f"{name} holds dates or times; convert them to numbers of a unit of your "
            f"choice, such as ({name} - {name}.min()) / numpy.timedelta64(1, 'D').",
        )


def odd_point(X: Any) -> Any:
    """Return the first point of a collection that is no row of numbers; None if there is none.

    NumPy reads some of them without a word: a graph of networkx as the numbers of its nodes.

    Parameters
    ----------
    X : object
        Anything; only lists, tuples and arrays of one column of objects are looked at.
    """
    if isinstance(X, np.ndarray):
        X = X.ravel() if X.dtype == object and X.ndim and X.size == len(X) else ()
    if not isinstance(X, list | tuple | np.ndarray):
        return None
    odd = {kind for kind in set(map(type, X)) if _is_odd(kind)}
    return next((x for x in X if type(x) in odd), None) if odd else None


def _is_odd(kind: type) -> bool:
    """Whether objects of a class are graphs, or hold others without being sequences or arrays."""
    if issubclass(kind, str | bytes | Sequence) or hasattr(kind, "__array__"):
        return False
    if hasattr(kind, "tocsr") or hasattr(kind, "__array_interface__"):
        return False
    return hasattr(kind, "__iter__") or kind.__name__.endswith("Graph")


def _kind(A: Any) -> str:
    if not isinstance(A, np.ndarray | list | tuple):
        return "f"
    first = A
    while isinstance(first, list | tuple) and len(first):
        first = first[0]
    return getattr(getattr(first, "dtype", None), "kind", "f")


def is_canonical(X: Any) -> bool:
    """Whether X is an array in canonical form, of finite numbers whose sum is one too."""
    if type(X) is not np.ndarray or X.ndim != 2 or not X.flags.c_contiguous or not X.size:
        return False
    if X.dtype not in (np.float64, np.float32) or not X.dtype.isnative:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return math.isfinite(np.add.reduce(X, None))


def check_rows(X: Any, name: str, *, missing: bool = False) -> Any:
    """Return rows of numbers as float32/float64 array, CSR matrix or torch tensor.

    With `missing`, NaN is let through as a number that is not known.
    """
    if is_canonical(X):
        return X
    if is_torch(X):
        X = _check_torch(X, name, missing)
    elif sp.issparse(X):
        X = _check_sparse(X, name)
    else:
        labels: tuple[str, ...] | None = None
        if not isinstance(X, np.ndarray) and (isinstance(X, Table) or is_frame(X)):
            X = Table.from_frame(X, name)
            labels, X = X.names if X.named else None, X.numeric(name)
        X = _check_dense(X, name, missing, labels)
    if X.shape[1] == 0:
        raise refusal(
            "Vectors",
            f"{name} has 0 feature(s) (shape={tuple(X.shape)}) while a minimum of 1 "
            "is required; give at least one column.",
        )
    return X


class Vectors(Domain):
    """Points of ℝᵈ: the rows of an array, a CSR matrix, a frame or a torch tensor.

    The canonical form is a C-ordered float32 or float64 array, a CSR matrix of the same types, or
    a floating torch tensor; float32 stays float32.
    """

    name = "vectors"

    def check(self, X: Any, name: str = "X") -> Any:
        """Return rows as float32/float64 array, CSR matrix or torch tensor."""
        return check_rows(X, name)

    def size(self, X: Any) -> int:
        """Return the number of rows."""
        return int(X.shape[0])

    def keep(self, X: Any) -> Any:
        """Return a copy, so that a fitted model does not change when the user's array does."""
        return X.clone() if is_torch(X) else X.copy()

    def match(self, X: Any, Y: Any) -> tuple[Any, Any]:
        """Bring two collections to one width, one dtype and one storage."""
        if X.shape[1] != Y.shape[1]:
            raise refusal(
                "Vectors",
                f"X has {X.shape[1]} columns and Y has {Y.shape[1]}; "
                "both must have the same columns in the same order.",
            )
        if is_torch(X) or is_torch(Y):
            device = X.device if is_torch(X) else Y.device
            if is_torch(X) and is_torch(Y) and X.device != Y.device:
                raise refusal(
                    "Vectors", f"X is on {X.device} and Y on {Y.device}; move one with .to(...)."
                )
            xp = namespace(X if is_torch(X) else Y)
            X, Y = (Z if is_torch(Z) else xp.as_tensor(_dense(Z), device=device) for Z in (X, Y))
            dtype = xp.promote_types(X.dtype, Y.dtype)
            return X.to(dtype), Y.to(dtype)
        if sp.issparse(X) != sp.issparse(Y):
            X, Y = (Z if sp.issparse(Z) else sp.csr_array(Z) for Z in (X, Y))
        dtype = np.result_type(X.dtype, Y.dtype)
        return X.astype(dtype, copy=False), Y.astype(dtype, copy=False)

    def sample(self, rng: np.random.Generator, n: int, d: int = 3) -> np.ndarray:
        """Return n standard normal vectors."""
        return rng.standard_normal((n, d))


def _dense(X: Any) -> np.ndarray:
    return X.toarray() if sp.issparse(X) else X


def _check_torch(X: Any, name: str, missing: bool) -> Any:
    _require_numbers(X, name)
    if X.ndim != 2:
        raise _not_2d(name, tuple(X.shape))
    if X.is_complex():
        raise refusal("Vectors", f"{name} is complex; kernels here act on real vectors.")
    if not X.is_floating_point() or X.element_size() < 4:
        X = X.float() if X.is_floating_point() and X.element_size() == 2 else X.double()
    # The sum is finite unless an entry is not, or it overflows; a mask would be as large as X.
    if bool(X.detach().sum().isfinite()):
        return X
    if not bool((~X.isinf() if missing else X.isfinite()).all()):
        raise _not_finite(name, "a value")
    return X


def _check_sparse(X: Any, name: str) -> Any:
    if X.ndim != 2:
        raise _not_2d(name, X.shape)
    X = check_structure(X, "Vectors", name).tocsr()
    if not X.has_canonical_format:  # a column that a row names twice holds the sum
        X = X.copy()
        X.sum_duplicates()
    if X.dtype.kind not in "fiub":
        raise _not_numeric(name, X.dtype)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if not np.isfinite(X.data).all():
        raise _not_finite(name, "a stored value")
    return X


@speaks("Vectors")
def _check_dense(
    X: Any, name: str, missing: bool = False, labels: tuple[str, ...] | None = None
) -> np.ndarray:
    if X is None:
        raise refusal("Vectors", f"{name} is None; give a 2-D array of numbers.")
    refuse_odd_arrays(X, name)
    if (odd := odd_point(X)) is not None:
        kind = type(odd).__name__
        raise refusal(
            "Vectors", f"{name} holds a {kind} where numbers belong; {KERNEL_FOR_POINTS}."
        )
    if isinstance(X, np.ma.MaskedArray):
        X = X.data
    try:
        A = np.asarray(X)
    except (ValueError, TypeError) as error:
        ragged = "inhomogeneous shape" in str(error)
        why = f"its rows have different lengths; {KERNEL_FOR_ROWS}." if ragged else error
        raise refusal("Vectors", f"{name} cannot be read as a 2-D array: {why}") from error
    if A.dtype == object:
        A = _objects_to_numbers(A, name)
    if A.dtype.kind not in "fiub":
        raise _not_numeric(name, A.dtype)
    if A.ndim != 2:
        raise _not_2d(name, A.shape)
    if A.dtype not in (np.float32, np.float64) or not A.dtype.isnative:
        narrow = A.dtype.kind == "f" and A.dtype.itemsize <= 4
        with np.errstate(over="ignore"):  # a long double beyond float64 is refused as inf below
            A = A.astype(np.float32 if narrow else np.float64)
    A = np.ascontiguousarray(A)
    # One pass: the sum is finite unless an entry is not, or it overflows; then look closely.
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(np.sum(A))
    if suspicious and not (~np.isinf(A) if missing else np.isfinite(A)).all():
        i, j = np.argwhere(np.isinf(A) if missing else ~np.isfinite(A))[0]
        column = j if labels is None else repr(labels[j])
        unknown = bool(np.isnan(A[i, j]))
        raise _not_finite(name, f"{A[i, j]} at row {i}, column {column}", unknown)
    return A


def _objects_to_numbers(A: np.ndarray, name: str) -> np.ndarray:
    try:
        return A.astype(np.float64)
    except OverflowError:
        raise refusal(
            "Vectors", f"{name} holds a whole number beyond the range of float64; scale the column."
        ) from None
    except (ValueError, TypeError) as error:
        bad = next((v for v in A.ravel() if not isinstance(v, int | float | np.number)), None)
        raise refusal(
            "Vectors",
            f"{name} holds {bad!r} ({type(bad).__name__}) where numbers belong ({error}); "
            "drop or encode that column, or choose numeric columns with kernel.on(columns).",
        ) from error


def _not_2d(name: str, shape: tuple, speaker: str = "Vectors") -> InvalidInput:
    if len(shape) == 1:
        cure = f"use {name}.reshape(-1, 1) for one column or {name}.reshape(1, -1) for one point"
    else:
        cure = "give one row for each point"
    # scikit-learn's common checks look for "Reshape your data".
    return refusal(
        speaker,
        f"{name} has shape {tuple(shape)}, expected 2 dimensions (points, columns). "
        f"Reshape your data: {cure}.",
    )


def told_of_rows(error: Exception, X: Any, speaker: str) -> InvalidInput:
    """Return words of scikit-learn on rows X; of what is no table its shape, not its numbers."""
    if "Expected 2D array" in str(error):
        return _not_2d("X", np.shape(X), speaker)
    return refusal(speaker, str(error))


def _not_finite(name: str, what: str, unknown: bool = False) -> InvalidInput:
    cure = ", or let the kernel take missing values: kernel.with_missing()" if unknown else ""
    return refusal(
        "Vectors",
        f"{name} contains {what} that is not finite (NaN or inf). Kernels need numbers: "
        f"drop those rows or fill them, for example with sklearn.impute.SimpleImputer{cure}.",
    )


def _not_numeric(name: str, dtype: np.dtype) -> InvalidInput:
    if dtype.kind == "c":
        return refusal(
            "Vectors", f"{name} is complex; complex data not supported, use real columns."
        )
    return refusal(
        "Vectors",
        f"{name} has dtype {dtype} where numbers belong; encode text columns, "
        "or choose numeric ones with kernel.on(columns).",
    )


class Numbers(Vectors):
    """Numbers in an interval, whole or not; a 1-D array or list is one column of them.

    Parameters
    ----------
    low, high : float
        The interval.
    open : bool
        Whether the end points are excluded.
    integer : bool
        Whether only whole numbers are points.
    """

    name = "numbers"

    def __init__(
        self,
        low: float = -np.inf,
        high: float = np.inf,
        open: bool = False,
        integer: bool = False,
    ):
        self.low = low
        self.high = high
        self.open = open
        self.integer = integer

    def check(self, X: Any, name: str = "X") -> Any:
        """Return one or more columns of numbers inside the interval."""
        if isinstance(X, list | tuple) and not any(hasattr(x, "__len__") for x in X):
            X = np.asarray(X)
        if getattr(X, "ndim", None) == 1 and hasattr(X, "shape"):
            X = (X if is_torch(X) else np.asarray(X)).reshape(-1, 1)
        X = super().check(X, name)
        if hasattr(X, "tocsr"):
            X = X.toarray()
        if self.open:
            outside = (X <= self.low) | (X >= self.high)
        else:
            outside = (X < self.low) | (X > self.high)
        if bool(outside.any()):
            bad = float(X[outside][0])
            raise refusal("Numbers", f"{name} contains {bad:g}; legal are {self._legal()}.")
        if self.integer and not bool((X == X.round()).all()):
            bad = float(X[X != X.round()][0])
            raise refusal("Numbers", f"{name} contains {bad:g}; legal are {self._legal()}.")
        return X

    def _legal(self) -> str:
        left, right = ("(", ")") if self.open else ("[", "]")
        left = "(" if self.low == -np.inf else left
        right = ")" if self.high == np.inf else right
        what = "whole numbers" if self.integer else "numbers"
        return f"{what} in {left}{self.low:g}, {self.high:g}{right}"

    def sample(self, rng: np.random.Generator, n: int, d: int = 1) -> np.ndarray:
        """Return n random numbers of the domain as one column."""
        low = max(self.low, -5.0)
        high = min(self.high, low + 40.0 if self.integer else low + 10.0)
        if self.integer:
            whole = rng.integers(int(np.ceil(low)), int(high), size=(n, d), endpoint=True)
            return whole.astype(float)
        return low + (high - low) * rng.uniform(0.01, 0.99, size=(n, d))
