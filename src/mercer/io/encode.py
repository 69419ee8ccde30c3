"""Python values to the tree and the arrays of a model file; what has no form is refused by name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.errors import InvalidInput
from mercer.io import container, registry

__all__ = ["MAX_NESTING", "MISSING", "SCALAR_TYPES", "Encoder"]

MAX_NESTING = 8  # of lists, tuples and dicts in one another; kernels and estimators do not count
PACK_FROM = 32  # so many strings in a list go to an array
SCALAR_TYPES = {t.__name__: t for t in (bool, int, float, str, object)} | {
    f"numpy.{name}": np.dtype(name).type
    for name in (
        *("bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64"),
    )
}
MISSING = (None, np.nan)  # codes 1 and 2 of a packed array of strings; 0 is a string


class Encoder:
    """Collects the objects and arrays of one model; the last object is the model itself.

    None, booleans, integers, finite floats, strings and lists are themselves in JSON; every other
    value is a JSON object with one key, its tag. An object of a class of the closed list becomes
    an entry of ``objects`` that refers only to entries before it, so the depth of a kernel
    expression is no depth in the file.
    """

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self.objects: list[dict[str, Any]] = []

    def object(self, item: Any, where: str) -> dict[str, int]:
        """Take an object of the closed list apart and return the reference to it."""
        form = registry.form_of(item, where)
        record: dict[str, Any] = {"class": form.name}
        # Sorted, so that the numbers of arrays do not depend on the order of assignments in a fit;
        # no comprehension, which would cost a frame for each level of an expression.
        for part, values in sorted(form.split(item, where).items()):
            record[part] = trees = {}
            for name, value in sorted(values.items()):
                trees[name] = self.value(value, f"{where}.{name}")
        self.objects.append(record)
        return {"object": len(self.objects) - 1}

    def value(self, value: Any, where: str, depth: int = 0) -> Any:
        """Return the tree of any value."""
        if value is None or type(value) in (bool, str):
            return value
        if type(value) is int:
            return _integer(value, where)
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) is bytes:
            return {"bytes": value.hex()}
        if isinstance(value, np.generic):
            return _numpy_scalar(value, where)
        if type(value) in (np.ndarray, np.memmap):
            return self._array(value, where)
        if sp.issparse(value):
            return self._sparse(value, where)
        if isinstance(value, np.dtype | type):
            return _type(value, where)
        if type(value) is slice:
            return _slice(value, where)
        if type(value) in (list, tuple, dict):
            return self._collection(value, where, depth)
        if isinstance(value, np.random.RandomState | np.random.Generator):
            raise InvalidInput(
                f"save: {where} is a {type(value).__name__}, whose inner state is not kept in a "
                "model file; set a whole number as random_state."
            )
        return self.object(value, where)

    def _collection(self, value: Any, where: str, depth: int) -> Any:
        if depth >= MAX_NESTING:
            raise InvalidInput(
                f"save: {where} nests lists, tuples or dicts more than {MAX_NESTING} deep; "
                "flatten it."
            )
        if type(value) is dict:
            pairs = []
            for key, item in value.items():
                if not isinstance(key, str | int | float | np.generic) and key is not None:
                    raise InvalidInput(
                        f"save: {where} has the key {key!r} ({type(key).__name__}); keys may be "
                        "strings, numbers or None."
                    )
                below = f"{where}[{key!r}]"
                pairs.append([self.value(key, below), self.value(item, below, depth + 1)])
            return {"dict": pairs}
        if len(value) >= PACK_FROM and all(type(item) is str for item in value):
            return {"strings": self._packed(value) | {"in": type(value).__name__}}
        items = [self.value(v, f"{where}[{i}]", depth + 1) for i, v in enumerate(value)]
        return items if type(value) is list else {"tuple": items}

    def _array(self, array: np.ndarray, where: str) -> dict[str, Any]:
        if array.dtype == object:
            return self._object_array(array, where)
        stored = container.storable(np.asarray(array))
        if stored is None:
            raise InvalidInput(
                f"save: {where} is an array of dtype {array.dtype} and {array.ndim} axes; kept are "
                "booleans, integers, floats of up to 64 bits and text (str), with at most "
                f"{container.MAX_RANK} axes. Convert it with .astype(...)."
            )
        self.arrays.append(stored)
        return {"array": len(self.arrays) - 1}

    def _object_array(self, array: np.ndarray, where: str) -> dict[str, Any]:
        shape, items = list(array.shape), array.ravel().tolist()
        if len(shape) > container.MAX_RANK:
            raise InvalidInput(
                f"save: {where} has {len(shape)} axes; at most {container.MAX_RANK} are kept."
            )
        if all(type(v) is str or v is None or _is_nan(v) for v in items):
            return {"strings": self._packed(items) | {"in": "array", "shape": shape}}
        for item in items:
            if not isinstance(item, str | int | float | np.generic) and item is not None:
                raise InvalidInput(
                    f"save: {where} is an array of objects and holds {item!r} "
                    f"({type(item).__name__}); kept are strings, numbers and None. "
                    "Encode the values as one of these."
                )
        return {"objects": [self.value(v, where) for v in items], "shape": shape}

    def _packed(self, items: Sequence[Any]) -> dict[str, int]:
        """Strings as one run of UTF-8 bytes and the positions where each ends."""
        raw = [v.encode("utf-8", "surrogatepass") if type(v) is str else b"" for v in items]
        data = np.frombuffer(b"".join(raw), dtype=np.uint8)
        ends = np.cumsum([len(r) for r in raw], dtype=np.int64)
        packed = {"data": self._store(data), "ends": self._store(ends)}
        if any(type(v) is not str for v in items):
            codes = [0 if type(v) is str else 1 if v is None else 2 for v in items]
            packed["missing"] = self._store(np.array(codes, dtype=np.uint8))
        return packed

    def _store(self, array: np.ndarray) -> int:
        return self._array(array, "")["array"]

    def _sparse(self, matrix: Any, where: str) -> dict[str, Any]:
        if matrix.format not in ("csr", "csc") or matrix.ndim != 2:
            raise InvalidInput(
                f"save: {where} is sparse in {matrix.format} format with {matrix.ndim} axes; kept "
                "are csr and csc matrices. Convert it with .tocsr()."
            )
        parts = {n: self._array(getattr(matrix, n), where) for n in ("data", "indices", "indptr")}
        kind = f"{matrix.format}_{'array' if isinstance(matrix, sp.sparray) else 'matrix'}"
        return {
            "sparse": {
                "kind": kind,
                "shape": [int(n) for n in matrix.shape],
                **{name: tree["array"] for name, tree in parts.items()},
            }
        }


def _integer(value: int, where: str) -> int:
    if not -(2**63) <= value < 2**64:
        raise InvalidInput(f"save: {where} is an integer beyond 64 bits; use a smaller one.")
    return value


def _is_nan(value: Any) -> bool:
    return type(value) is float and math.isnan(value)


def _numpy_scalar(value: np.generic, where: str) -> dict[str, Any]:
    if isinstance(value, np.str_):
        return {"numpy": ["str", str(value)]}
    stored = container.storable(np.asarray(value))
    if stored is None:
        raise InvalidInput(
            f"save: {where} is a {type(value).__name__}; kept are booleans, integers, floats of up "
            "to 64 bits and text. Convert it, for example with float(...)."
        )
    return {"numpy": [stored.dtype.str, stored.tobytes().hex()]}


def _type(value: Any, where: str) -> dict[str, str]:
    if isinstance(value, type):
        for name, known in SCALAR_TYPES.items():
            if known is value:
                return {"type": name}
    elif value.kind == "O" or container.storable(np.empty(0, value)) is not None:
        return {"dtype": "|O" if value.kind == "O" else value.newbyteorder("<").str}
    raise InvalidInput(f"save: {where} is {value!r}; of types, only plain NumPy ones are kept.")


def _slice(value: slice, where: str) -> dict[str, list]:
    ends = [value.start, value.stop, value.step]
    if any(end is not None and not isinstance(end, int | np.integer) for end in ends):
        raise InvalidInput(f"save: {where} is {value!r}; a slice is kept if its ends are integers.")
    return {"slice": [None if end is None else _integer(int(end), where) for end in ends]}
