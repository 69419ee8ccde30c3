"""The tree and the arrays of a model file to Python values; nothing in the file is trusted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.errors import ModelFileError
from mercer.io import container, registry
from mercer.io.encode import MISSING, SCALAR_TYPES

__all__ = ["Decoder"]

_SPARSE = {
    name: getattr(sp, name) for name in ("csr_array", "csc_array", "csr_matrix", "csc_matrix")
}
_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": np.nan}


class Decoder:
    """Rebuilds the objects in the order of the file; each array and object is used exactly once.

    Sharing is refused because it would let a short file describe an exponentially large kernel
    expression.
    """

    def __init__(self, objects: Any, arrays: list[np.ndarray]) -> None:
        if not isinstance(objects, list) or not objects:
            raise ModelFileError("its header lists no objects")
        self._records = objects
        self._arrays: list[np.ndarray | None] = list(arrays)
        self._built: list[Any] = []

    def model(self) -> Any:
        """Return the last object, which is the model."""
        for record in self._records:
            self._built.append(self._object(record))
        model = self._take(self._built, len(self._built) - 1, "object")
        if any(x is not None for x in self._built) or any(x is not None for x in self._arrays):
            raise ModelFileError("it holds an object or an array that the model does not use")
        return model

    def _object(self, record: Any) -> Any:
        if not isinstance(record, dict) or not isinstance(record.get("class"), str):
            raise ModelFileError("an object of it has no class")
        form = registry.form_named(record["class"])
        parts: dict[str, dict[str, Any]] = {}
        for part, values in record.items():
            if part == "class":
                continue
            if part not in form.parts or not isinstance(values, dict):
                raise ModelFileError(f"{form.name} cannot have the part {part[:40]!r}")
            parts[part] = {name: self.value(tree) for name, tree in values.items()}
        try:
            return form.build(parts)
        except ModelFileError:
            raise
        except MemoryError:
            raise
        except Exception as error:
            raise ModelFileError(f"{form.name} refused what the file says: {error}") from error

    def value(self, tree: Any) -> Any:
        """Return the value of a tree."""
        if tree is None or isinstance(tree, bool | int | float | str):
            return tree
        if isinstance(tree, list):
            return [self.value(item) for item in tree]
        keys = tuple(tree)
        reader = getattr(self, f"_read_{keys[0]}", None) if keys in _TAGS else None
        if reader is None:
            raise ModelFileError(f"a value of it has the tag {str(keys)[:60]}")
        try:
            return reader(*tree.values())
        except ModelFileError:
            raise
        except (TypeError, ValueError, KeyError, IndexError, OverflowError) as error:
            raise ModelFileError(f"a value with the tag {keys[0]!r} is malformed") from error

    @staticmethod
    def _take(items: list, index: Any, what: str) -> Any:
        if type(index) is not int or not 0 <= index < len(items) or items[index] is None:
            raise ModelFileError(
                f"it refers to {what} {str(index)[:20]}, which is not there to use"
            )
        item, items[index] = items[index], None
        return item

    def _read_object(self, index: Any) -> Any:
        return self._take(self._built, index, "object")

    def _read_array(self, index: Any) -> np.ndarray:
        return self._take(self._arrays, index, "array")

    def _read_float(self, word: Any) -> float:
        return _FLOATS[word]

    def _read_bytes(self, text: Any) -> bytes:
        return bytes.fromhex(_text(text))

    def _read_tuple(self, items: Any) -> tuple:
        return tuple(self.value(_list(items)))

    def _read_slice(self, ends: Any) -> slice:
        start, stop, step = _list(ends)
        if any(end is not None and type(end) is not int for end in ends):
            raise ModelFileError("a slice of it has ends that are not whole numbers")
        return slice(start, stop, step)

    def _read_dict(self, pairs: Any) -> dict:
        result = {}
        for pair in _list(pairs):
            key, item = _list(pair)
            key = self.value(key)
            if key in result:
                raise ModelFileError("a dict of it has one key twice")
            result[key] = self.value(item)
        return result

    def _read_numpy(self, pair: Any) -> Any:
        name, text = _list(pair)
        if name == "str":
            return np.str_(_text(text))
        if not container.legal_dtype(name):
            raise ModelFileError(f"a NumPy scalar of it has the type {str(name)[:40]!r}")
        dtype = np.dtype(name)
        raw = bytes.fromhex(_text(text))
        if dtype.kind == "U" or len(raw) != dtype.itemsize or (dtype.kind == "b" and raw[0] > 1):
            raise ModelFileError("a NumPy scalar of it has the wrong bytes")
        return np.frombuffer(raw, dtype=dtype).astype(dtype.newbyteorder("="))[0]

    def _read_type(self, name: Any) -> type:
        return SCALAR_TYPES[name]

    def _read_dtype(self, name: Any) -> np.dtype:
        if name != "|O" and not container.legal_dtype(name):
            raise ModelFileError(f"a NumPy type of it is {str(name)[:40]!r}")
        return np.dtype(name).newbyteorder("=")

    def _read_objects(self, items: Any, shape: Any) -> np.ndarray:
        values = self.value(_list(items))
        if not all(v is None or isinstance(v, str | int | float | np.generic) for v in values):
            raise ModelFileError("an array of objects holds something else than single values")
        return _object_array(values, shape)

    def _read_strings(self, packed: Any) -> Any:
        data, ends = self._read_array(packed["data"]), self._read_array(packed["ends"])
        codes = self._read_array(packed["missing"]) if "missing" in packed else None
        kind = packed["in"]
        legal = {"data", "ends", "in"} | ({"missing", "shape"} if kind == "array" else set())
        if kind not in ("list", "tuple", "array") or not set(packed) <= legal:
            raise ModelFileError("packed strings have unknown fields")
        _check_packed(data, ends, codes)
        raw, start = data.tobytes(), 0
        strings: list[Any] = []
        for end in ends.tolist():
            strings.append(raw[start:end].decode("utf-8", "surrogatepass"))
            start = end
        if codes is not None:
            strings = [
                s if code == 0 else MISSING[code - 1]
                for s, code in zip(strings, codes.tolist(), strict=True)
            ]
        if kind == "array":
            return _object_array(strings, packed["shape"])
        return strings if kind == "list" else tuple(strings)

    def _read_sparse(self, fields: Any) -> Any:
        names = ("data", "indices", "indptr")
        data, indices, indptr = (self._read_array(fields[name]) for name in names)
        if set(fields) != {*names, "kind", "shape"}:
            raise ModelFileError("a sparse matrix has unknown fields")
        shape = _shape(fields["shape"])
        kind = _SPARSE[fields["kind"]]
        _check_sparse(data, indices, indptr, shape, fields["kind"].startswith("csr"))
        matrix = kind((data, indices, indptr), shape=shape)
        if indices.dtype == np.int64:  # SciPy narrows them where it can
            matrix.indices, matrix.indptr = indices, indptr
        return matrix


_TAGS = {
    *(("object",), ("array",), ("float",), ("tuple",), ("slice",), ("dict",), ("numpy",)),
    *(("bytes",), ("type",), ("dtype",), ("strings",), ("sparse",), ("objects", "shape")),
}


def _list(tree: Any) -> list:
    if not isinstance(tree, list):
        raise ModelFileError("a list was expected in it")
    return tree


def _text(tree: Any) -> str:
    if not isinstance(tree, str):
        raise ModelFileError("text was expected in it")
    return tree


def _shape(tree: Any) -> tuple[int, ...]:
    if any(type(axis) is not int or not 0 <= axis < 2**62 for axis in _list(tree)):
        raise ModelFileError("a shape of it is not a list of whole numbers")
    return tuple(tree)


def _object_array(values: list, shape: Any) -> np.ndarray:
    shape = _shape(shape)
    if len(shape) > container.MAX_RANK or math.prod(shape) != len(values):
        raise ModelFileError(f"an array of {len(values)} objects cannot have shape {shape}")
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array.reshape(shape)


def _check_packed(data: np.ndarray, ends: np.ndarray, codes: np.ndarray | None) -> None:
    if data.dtype != np.uint8 or data.ndim != 1 or ends.dtype != np.int64 or ends.ndim != 1:
        raise ModelFileError("packed strings need bytes and 64-bit positions")
    bounds = np.concatenate(([0], ends))
    # Compared, not subtracted: a difference of hostile integers can wrap around.
    if np.any(bounds[1:] < bounds[:-1]) or bounds[-1] != len(data):
        raise ModelFileError("packed strings have positions out of order or range")
    if codes is not None and (
        codes.dtype != np.uint8
        or codes.shape != ends.shape
        or codes.max(initial=0) > len(MISSING)
        or np.any((bounds[1:] > bounds[:-1]) & (codes > 0))
    ):
        raise ModelFileError("packed strings have wrong marks of missing values")


def _check_sparse(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple, by_rows: bool
) -> None:
    if len(shape) != 2 or any(a.ndim != 1 for a in (data, indices, indptr)):
        raise ModelFileError("a sparse matrix needs two axes and flat arrays")
    major, minor = shape if by_rows else shape[::-1]
    index_types = (np.int32, np.int64)
    if (
        indices.dtype not in index_types
        or indptr.dtype != indices.dtype
        or max(minor, len(indices)) > np.iinfo(indices.dtype).max
        or data.dtype.kind == "U"
    ):
        raise ModelFileError("a sparse matrix has indices or values of a wrong type")
    if (
        len(indptr) != major + 1
        or len(data) != len(indices)
        or indptr[0] != 0
        or indptr[-1] != len(indices)
        or np.any(indptr[1:] < indptr[:-1])
    ):
        raise ModelFileError("a sparse matrix has row pointers out of order or range")
    if len(indices) and (indices.min() < 0 or indices.max() >= minor):
        raise ModelFileError("a sparse matrix has column indices out of range")
