"""The bytes of a model file: magic, header and its digest, then aligned arrays with theirs.

======================  =====================================================================
bytes                   content
======================  =====================================================================
0–7                     ``MERCER`` 0x00 0x01 (the last byte is the version of this container)
8–15                    H, the length of the header, unsigned, little-endian
16–47                   SHA-256 of the header
48–(48+H)               the header, JSON in the one spelling of `strictjson`
from the next 64k byte  the arrays, little-endian, C order, each at a multiple of 64 bytes
======================  =====================================================================

Gaps are zero bytes, and the file ends with the last byte of the last array. So every byte is
compared, covered by a digest, or checked to be zero: no byte can change unnoticed. The header lists
dtype, shape, start (from the first multiple of 64 after the header) and SHA-256 of each array.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
import struct
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np

from mercer.errors import InvalidInput, ModelFileError

# ---- JSON of one spelling: what `loads` accepts is exactly what `dumps` writes, within bounds ----


MAX_DEPTH = 32  # nested lists and objects
MAX_TOKENS = 200_000  # commas and opening brackets; bounds the memory of the parsed tree
_STEP = 1 << 16


def dumps(tree: Any) -> bytes:
    """Write a tree in its one spelling: ASCII, sorted keys, no spaces, no NaN or infinity.

    Examples
    --------
    >>> dumps({"b": [1, 2.5], "a": "λ"})
    b'{"a":"\\\\u03bb","b":[1,2.5]}'
    """
    text = json.dumps(
        tree, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return text.encode("ascii")


def measure(raw: bytes) -> tuple[int, int]:
    """Return depth and number of tokens of JSON text without building anything from it.

    Pairs of backslashes, then escaped quotes, are taken out first, so that every quote that is left
    opens or closes a string; brackets and commas count where the number of quotes before is even.
    """
    text = np.frombuffer(raw.replace(rb"\\", b"").replace(rb"\"", b""), dtype=np.uint8)
    depth = deepest = tokens = quotes = 0
    for start in range(0, len(text), _STEP):
        part = text[start : start + _STEP]
        seen = np.cumsum(part == ord('"'), dtype=np.int64) + quotes
        outside = (seen & 1) == 0
        opening = outside & ((part == ord("[")) | (part == ord("{")))
        closing = outside & ((part == ord("]")) | (part == ord("}")))
        level = np.cumsum(opening.astype(np.int8) - closing.astype(np.int8), dtype=np.int64) + depth
        deepest = max(deepest, int(level.max()))
        tokens += int(opening.sum()) + int((outside & (part == ord(","))).sum())
        depth, quotes = int(level[-1]), int(seen[-1])
    return deepest, tokens


def loads(raw: bytes) -> Any:
    """Read what `dumps` wrote; anything else, however close, is a `ModelFileError`."""
    depth, tokens = measure(raw)
    if depth > MAX_DEPTH:
        raise ModelFileError(f"the header nests {depth} levels deep; at most {MAX_DEPTH} are legal")
    if tokens > MAX_TOKENS:
        raise ModelFileError(f"the header has {tokens} entries; at most {MAX_TOKENS} are legal")
    try:
        tree = json.loads(
            raw.decode("ascii"),
            object_pairs_hook=_no_duplicates,
            parse_int=_integer,
            parse_float=_finite,
            parse_constant=_no_constant,
        )
    except ModelFileError:
        raise
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"the header is not JSON: {error}") from error
    if dumps(tree) != raw:
        raise ModelFileError("the header is JSON, but not in the one spelling that mercer writes")
    return tree


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ModelFileError("the header gives one key twice")
    return result


def _integer(digits: str) -> int:
    value = int(digits) if len(digits) <= 20 else 2**64
    if not -(2**63) <= value < 2**64:
        raise ModelFileError("the header has an integer beyond 64 bits")
    return value


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ModelFileError(f"the header has the number {digits[:20]}, which is not finite")
    return value


def _no_constant(word: str) -> Any:
    raise ModelFileError(f"the header has {word}, which is not JSON")


# ---- container ----


MAGIC = b"MERCER\x00\x01"
PREFIX = struct.Struct("<8sQ32s")
ALIGN = 64
SCHEMA = 1
MAX_HEADER = 4 << 20  # bytes
MAX_ARRAYS = 10_000
MAX_RANK = 8
_MAX_EXTENT = 1 << 47  # bytes an array may span, also when one of its axes is empty
_NUMBERS = {"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"}
_TEXT = re.compile(r"<U[1-9][0-9]{0,7}")
_LAST_CODE_POINT = 0x10FFFF


# ---------------------------------------------------------------------------------------- writing
def storable(array: np.ndarray) -> np.ndarray | None:
    """Return the array as it is stored (little-endian, C order), or None if its dtype is not."""
    dtype = array.dtype.newbyteorder("<")
    if dtype.kind == "U" and dtype.itemsize == 0:
        dtype = np.dtype("<U1")
    if not legal_dtype(dtype.str) or array.ndim > MAX_RANK:
        return None
    return np.asarray(array, dtype=dtype, order="C")


def pieces(header: dict[str, Any], arrays: Sequence[np.ndarray]) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a file in order; the arrays must come from `storable`."""
    if len(arrays) > MAX_ARRAYS:
        raise InvalidInput(f"save: the model holds {len(arrays)} arrays; at most {MAX_ARRAYS} fit.")
    entries, start = [], 0
    for array in arrays:
        start = _aligned(start)
        digest = hashlib.sha256(_bytes_of(array)).hexdigest()
        shape = list(array.shape)
        entries.append({"dtype": array.dtype.str, "sha256": digest, "shape": shape, "start": start})
        start += array.nbytes
    raw = dumps({"schema": SCHEMA, **header, "arrays": entries})
    depth, tokens = measure(raw)
    if (
        len(raw) > MAX_HEADER
        or tokens > MAX_TOKENS
        or depth > MAX_DEPTH  # a value nested too deep is refused by the encoder
    ):
        raise InvalidInput(
            f"save: the model holds too many single values ({tokens} entries, {len(raw)} bytes of "
            f"text; legal: {MAX_TOKENS} and {MAX_HEADER}). Put long lists of numbers "
            "into NumPy arrays, which have no such limit."
        )
    yield PREFIX.pack(MAGIC, len(raw), hashlib.sha256(raw).digest()) + raw
    position = PREFIX.size + len(raw)
    for array in arrays:
        yield bytes(_aligned(position) - position)
        position = _aligned(position) + array.nbytes
        yield _bytes_of(array)


def _bytes_of(array: np.ndarray) -> memoryview:
    if array.nbytes == 0:
        return memoryview(b"")
    return array.reshape(-1).view(np.uint8).data  # a view: the array is C-contiguous


def _aligned(position: int) -> int:
    return -(-position // ALIGN) * ALIGN


def legal_dtype(name: Any) -> bool:
    """Whether a header may name this type: little-endian numbers, truth values or text."""
    return isinstance(name, str) and (name in _NUMBERS or _TEXT.fullmatch(name) is not None)


# ---------------------------------------------------------------------------------------- reading
def read(path: str) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return header and arrays of a file after every check that needs no knowledge of models.

    Nothing is allocated before the header is known to be whole and every array to lie inside the
    file; memory stays below the file's size and a constant. A path that is not a regular file is
    refused unread; a missing one is a `FileNotFoundError`.
    """
    _refuse_special(os.stat(path))
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())  # again: the path may have changed hands in between
        _refuse_special(status)
        header, end = _read_header(file, status.st_size)
        arrays = _read_arrays(file, header.pop("arrays"), end, status.st_size)
        if file.read(1):
            raise ModelFileError("the file grew while it was read")
    return header, arrays


def _refuse_special(status: os.stat_result) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    kinds = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    what = kinds.get(stat.S_IFMT(status.st_mode), "a device")
    raise ModelFileError(f"it is {what}, not a file")


def _read_header(file: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    prefix = file.read(PREFIX.size)
    if prefix[:7] != MAGIC[:7]:
        raise ModelFileError("it does not begin like a model file written by mercer.save")
    if prefix[7:8] > MAGIC[7:8]:
        raise ModelFileError(_newer(f"container version {prefix[7]}", "a later release"))
    if len(prefix) < PREFIX.size:
        raise ModelFileError("it ends inside its first 48 bytes: the copy is incomplete")
    magic, length, digest = PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise ModelFileError("it does not begin like a model file written by mercer.save")
    if length > MAX_HEADER:
        raise ModelFileError(f"its header claims {length} bytes; at most {MAX_HEADER} are legal")
    if PREFIX.size + length > size:
        raise ModelFileError("it ends inside its header: the copy is incomplete")
    raw = _exactly(file, length)
    if hashlib.sha256(raw).digest() != digest:
        raise ModelFileError("its header does not match its digest: the file is damaged")
    header = loads(raw)
    if not isinstance(header, dict):
        raise ModelFileError("its header is not a JSON object")
    _check_schema(header)
    return header, PREFIX.size + length


def _check_schema(header: dict[str, Any]) -> None:
    schema = header.pop("schema", None)
    if type(schema) is not int or schema < 1:
        raise ModelFileError(f"its schema is {str(schema)[:40]!r}, not a whole number of 1 or more")
    if schema > SCHEMA:
        versions = header.get("written_by")
        version = versions.get("mercer") if isinstance(versions, dict) else None
        release = f"mercer {version[:40]}" if isinstance(version, str) else "a later release"
        raise ModelFileError(_newer(f"schema {schema}", release))
    if not isinstance(header.get("arrays"), list):
        raise ModelFileError("its header has no list of arrays")


def _newer(what: str, release: str) -> str:
    return (
        f"it has {what} and was written by a newer mercer ({release}); this one reads schema "
        f"{SCHEMA}. Upgrade mercer to load it"
    )


def _read_arrays(file: BinaryIO, entries: list, end: int, size: int) -> list[np.ndarray]:
    if len(entries) > MAX_ARRAYS:
        raise ModelFileError(f"it lists {len(entries)} arrays; at most {MAX_ARRAYS} are legal")
    base, plan, position = _aligned(end), [], end
    for number, entry in enumerate(entries):
        dtype, shape, nbytes = _check_entry(entry, number)
        if dtype.itemsize > size:  # NumPy takes memory for one entry of an array of none
            raise ModelFileError(f"array {number} has the dtype {dtype.str}, beyond the file")
        start = _aligned(position)
        if entry["start"] != start - base:
            raise ModelFileError(
                f"array {number} is said to start at {entry['start']}, not at {start - base}: "
                "arrays follow one another without overlap or hole"
            )
        plan.append((start - position, dtype, shape, nbytes, entry["sha256"]))
        position = start + nbytes
        if position > size:
            raise ModelFileError(f"it ends inside array {number}: the copy is incomplete")
    if position != size:
        raise ModelFileError(f"{size - position} bytes follow its last array")
    return [_read_array(file, number, *step) for number, step in enumerate(plan)]


def _check_entry(entry: Any, number: int) -> tuple[np.dtype, tuple[int, ...], int]:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "sha256", "shape", "start"}:
        raise ModelFileError(f"array {number} needs dtype, sha256, shape and start, nothing else")
    if not legal_dtype(entry["dtype"]):
        raise ModelFileError(f"array {number} has the dtype {str(entry['dtype'])[:40]!r}")
    shape, dtype = entry["shape"], np.dtype(entry["dtype"])
    if not isinstance(shape, list) or len(shape) > MAX_RANK:
        raise ModelFileError(f"array {number} needs a shape of at most {MAX_RANK} axes")
    if any(type(axis) is not int or axis < 0 for axis in shape):
        raise ModelFileError(f"array {number} has the shape {str(shape)[:80]}")
    if math.prod(max(axis, 1) for axis in shape) * dtype.itemsize > _MAX_EXTENT:
        raise ModelFileError(f"array {number} has the shape {str(shape)[:80]}, beyond any memory")
    if type(entry["start"]) is not int or not isinstance(entry["sha256"], str):
        raise ModelFileError(f"array {number} needs a whole number as start and a digest")
    return dtype, tuple(shape), math.prod(shape) * dtype.itemsize


def _read_array(
    file: BinaryIO, number: int, gap: int, dtype: np.dtype, shape: tuple, nbytes: int, digest: str
) -> np.ndarray:
    if any(_exactly(file, gap)):
        raise ModelFileError(f"the padding before array {number} is not zero: the file is damaged")
    array = np.empty(shape, dtype=dtype)
    view = _bytes_of(array)
    if nbytes and file.readinto(view) != nbytes:  # type: ignore[attr-defined]
        raise ModelFileError(f"it ends inside array {number}: the copy is incomplete")
    if hashlib.sha256(view).hexdigest() != digest:
        raise ModelFileError(f"array {number} does not match its digest: the file is damaged")
    # Bit patterns that NumPy never writes and may not survive.
    if dtype.kind == "b" and nbytes and array.view(np.uint8).max() > 1:
        raise ModelFileError(f"array {number} is boolean but holds a byte that is not 0 or 1")
    if dtype.kind == "U" and nbytes:
        codes = array.reshape(-1).view("<u4")
        if codes.max() > _LAST_CODE_POINT:
            raise ModelFileError(f"array {number} is text but holds a number that is no character")
    return array if array.dtype.isnative else array.astype(dtype.newbyteorder("="))


def _exactly(file: BinaryIO, count: int) -> bytes:
    raw = file.read(count)
    if len(raw) != count:
        raise ModelFileError("it ended while it was read: the copy is incomplete")
    return raw
