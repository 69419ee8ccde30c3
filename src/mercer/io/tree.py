"""The tree and the arrays of a model file to Python values; nothing in the file is trusted."""

from __future__ import annotations

import math
from collections import UserList
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.errors import InvalidInput, ModelFileError
from mercer.io import container, registry

# ---- Python values to the tree and the arrays of a model file; what has no form is refused by
# name.


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
        if isinstance(value, UserList) and type(value).__module__.startswith("sklearn."):
            return self._collection(value.data, where, depth)  # of older ColumnTransformers
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
        # columns one after another stay so: BLAS may round other orders in other ways
        by_columns = array.flags.f_contiguous and not array.flags.c_contiguous
        stored = container.storable(np.asarray(array.T if by_columns else array))
        if stored is None:
            raise InvalidInput(
                f"save: {where} is an array of dtype {array.dtype} and {array.ndim} axes; kept are "
                "booleans, integers, floats of up to 64 bits and text (str), with at most "
                f"{container.MAX_RANK} axes. Convert it with .astype(...)."
            )
        self.arrays.append(stored)
        return {"columns" if by_columns else "array": len(self.arrays) - 1}

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


# ---- decode ----


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

    def _read_columns(self, index: Any) -> np.ndarray:
        return self._read_array(index).T

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
    *(("object",), ("array",), ("columns",), ("float",), ("tuple",), ("slice",), ("dict",)),
    *(("numpy",), ("bytes",), ("type",), ("dtype",), ("strings",), ("sparse",)),
    ("objects", "shape"),
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
