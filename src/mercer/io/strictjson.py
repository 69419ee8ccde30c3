"""JSON of one spelling: what `loads` accepts is exactly what `dumps` writes, within bounds."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from mercer.errors import ModelFileError

__all__ = ["MAX_DEPTH", "MAX_TOKENS", "dumps", "loads", "measure"]

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
