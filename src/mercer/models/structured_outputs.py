"""Collections of outputs of any kind: checked, told apart, compared, and shown to the user."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import Domain, Objects, Table, Vectors
from mercer.domains.blocks.block import Block
from mercer.domains.tables.table import is_frame
from mercer.domains.vectors import odd_point, to_host
from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.models.block_scores import Hits
from mercer.rkhs.function import first_equal

__all__ = ["ExactHits", "canonical", "distinct", "hits", "show", "taken"]


def canonical(kernel: Kernel, Y: Any, name: str, owner: str) -> tuple[Any, Any]:
    """Return outputs as the kernel takes them, and as they were given.

    Numbers keep their dtype and shape, lists their items. A row of numbers is a column to the
    kernel; an array of objects is a tuple, so that the kernel, and equality, see the objects.
    """
    domain = kernel.domain
    if Y is None:
        raise InvalidInput(f"{owner}: requires y to be passed, but the target {name} is None.")
    Y = to_host(Y)
    given: Any = None
    if isinstance(domain, Vectors) and not (sp.issparse(Y) or isinstance(Y, Table) or is_frame(Y)):
        _refuse_objects(Y, name, owner)
        with suppress(ValueError):  # ragged: the domain says so
            given = Y = np.asarray(Y)
            Y = Y.reshape(-1, 1) if Y.ndim == 1 else Y
            if given.dtype.kind == "O":  # numbers as objects, if the domain takes them
                given = np.asarray(given.tolist())
    elif isinstance(domain, Objects) and isinstance(Y, np.ndarray) and Y.ndim == 1:
        given = None if Y.dtype.kind == "O" else Y
        Y = tuple(Y.tolist())
    elif isinstance(Y, list):
        given = Y
    try:
        checked = domain.check(Y, name)
    except InvalidInput as error:
        raise InvalidInput(f"{owner}: {error}") from None
    given = checked if given is None else given
    if isinstance(checked, np.ndarray) and checked.dtype == np.float32:
        checked = checked.astype(np.float64)  # models compute in float64 whatever the data
    return checked, given


def _refuse_objects(Y: Any, name: str, owner: str) -> None:
    """Refuse text and other objects as outputs of a kernel on numbers, and say what takes them."""
    odd = odd_point(Y)
    if odd is None and isinstance(Y, list | tuple | np.ndarray):
        odd = next((v for v in Y if isinstance(v, str | bytes)), None)
    if odd is not None:
        raise InvalidInput(
            f"{owner}: {name} holds {type(odd).__name__} where numbers belong; give a kernel for "
            "such outputs, such as output_kernel=mercer.Spectrum(2) for strings or "
            "output_kernel=mercer.WeisfeilerLehman(3) for graphs."
        )


def taken(given: Any, index: np.ndarray) -> Any:
    """Return a copy of the outputs at the given positions, in the form in which they came."""
    if isinstance(given, list | tuple):
        return type(given)(given[int(i)] for i in index)
    return given.take(index) if isinstance(given, Table) else given[index]


def show(given: Any, index: np.ndarray) -> Any:
    """Return the outputs at the given positions; objects as an array of objects."""
    chosen = taken(given, index)
    if not isinstance(chosen, list | tuple):
        return chosen
    out = np.empty(len(chosen), dtype=object)
    for i, item in enumerate(chosen):
        out[i] = item
    return out


def distinct(domain: Domain, Y: Any, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the distinct outputs of some rows first are, and which of them each row has.

    Numbers and texts are sorted, so that the order of the rows does not matter; anything else
    keeps the order in which it first appears. Rows that are not asked about have −1. Sparse rows
    and tables count as different.
    """
    Z = domain.take(Y, rows)
    first = first_equal(Z)
    if isinstance(Z, tuple) and not _hashable(Z):
        first = _first_same(Z)
    unique, inverse = np.unique(first, return_inverse=True)
    order = _order(domain.take(Z, unique), len(unique))
    rank = np.empty(len(order), dtype=int)
    rank[order] = np.arange(len(order))
    codes = np.full(domain.size(Y), -1)
    codes[rows] = rank[inverse.reshape(-1)]
    return rows[unique[order]], codes


def _order(Z: Any, n: int) -> np.ndarray:
    """Return the positions of n distinct outputs in the order in which they are numbered."""
    if isinstance(Z, np.ndarray) and Z.ndim == 2 and Z.dtype.kind in "fiub":
        return np.lexsort(Z.T[::-1])
    if isinstance(Z, tuple) and (
        all(isinstance(z, str) for z in Z) or all(isinstance(z, int | float) and z == z for z in Z)
    ):
        return np.array(sorted(range(n), key=Z.__getitem__), dtype=int)
    return np.arange(n)


def hits(A: Any, B: Any) -> np.ndarray:
    """Return which outputs of two canonical collections of one length are the same."""
    if isinstance(A, np.ndarray) and isinstance(B, np.ndarray) and A.shape == B.shape:
        return (A == B).reshape(len(A), -1).all(axis=1)
    if isinstance(A, Table) and isinstance(B, Table):
        columns = [np.asarray(a == B[name]) for name, a in zip(A.names, A.columns, strict=True)]
        return np.logical_and.reduce(columns)
    if sp.issparse(A) and sp.issparse(B):
        return np.asarray(abs(A - B).sum(axis=1)).ravel() == 0
    return np.array([_same(a, b) for a, b in zip(A, B, strict=True)], dtype=bool)


def _hashable(Z: tuple) -> bool:
    try:
        return all(hash(z) is not None for z in Z)
    except TypeError:
        return False


def _first_same(Z: tuple) -> np.ndarray:
    """Return for each object the position of the first that equals it, by comparing."""
    first: list[int] = []
    for i, z in enumerate(Z):
        earlier = (j for j in dict.fromkeys(first) if _same(Z[j], z))
        first.append(next(earlier, i))
    return np.array(first, dtype=int)


def _same(a: Any, b: Any) -> bool:
    """Whether two objects are equal; those that compare entry by entry must agree in all."""
    if a is b:
        return True
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    equal = a == b
    return equal if isinstance(equal, bool) else bool(np.all(equal))


@dataclass(frozen=True)
class ExactHits(Hits):
    """The weight of the rows whose output is predicted exactly, and that of all."""

    kernel: Kernel

    def right(self, block: Block, predicted: Any) -> np.ndarray:
        """Return which outputs are predicted."""
        said, true = (
            canonical(self.kernel, outputs, name, self.owner)[0]
            for outputs, name in ((predicted, "prediction"), (block.y, "y"))
        )
        return np.asarray(hits(said, true), dtype=bool)
