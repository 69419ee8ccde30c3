"""`Checkpoint`: the state of a long computation in a file, so that a killed one goes on.

The file holds arrays and numbers, no code. It is replaced in one step, so that whatever happens
there is the old state or the new one. Beside the state of the solver there is room for the sums of
a pass that is under way; they are kept under a token that says of which pass, so a pass takes them
up only where it is the same one, to the bit.

======================  ==========================================================
bytes                   content
======================  ==========================================================
0–7                     ``MERCERCP``
8–15                    H, the length of the header, unsigned, little-endian
16–19                   CRC-32 of all bytes behind these
20–(20+H)               the header, JSON: key, numbers, types and shapes of arrays
rest                    the arrays, little-endian, C order, in the order of the header
======================  ==========================================================
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
import time
import warnings
import zlib
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from mercer.domains import to_host
from mercer.engines.files import replace_file
from mercer.errors import InvalidInput, users_level

MAGIC = b"MERCERCP"
PREFIX = struct.Struct("<8sQI")
EVERY = 30.0  # seconds
SHARE = 20  # a state that takes a second to write is written every 20 seconds at most
PASSES = 2  # that may be under way: that of a resumed fit, and the one it was stopped in
ROUNDING = 1e-5  # of numbers in a key, relative to the largest: that of float32 kernels
_KINDS = "fiub"


def fingerprint(*things: Any) -> str:
    """Return a digest that tells a problem from others: arrays by content, objects by their repr.

    Parameters
    ----------
    *things : arrays, numbers, text, None, kernels, dataclasses, or lists, tuples and dicts of them
        What makes the problem.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.engines.checkpoint import fingerprint
    >>> fingerprint(np.arange(3), "ridge", 1.0) == fingerprint(np.arange(3), "ridge", 1.0)
    True
    >>> fingerprint(np.arange(3)) == fingerprint(np.arange(3.0))
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    _feed(digest, things)
    return digest.hexdigest()


def _feed(digest: Any, thing: Any) -> None:
    thing = to_host(thing)
    if isinstance(thing, np.ndarray) and thing.dtype != object:
        digest.update(f"array {thing.dtype.str} {thing.shape} ".encode())
        digest.update(np.ascontiguousarray(thing).data if thing.size else b"")
    elif isinstance(thing, list | tuple | np.ndarray):
        digest.update(f"list {len(thing)} ".encode())
        for part in thing:
            _feed(digest, part)
    elif isinstance(thing, dict):
        _feed(digest, [part for pair in thing.items() for part in pair])
    elif is_dataclass(thing) and not isinstance(thing, type):
        digest.update(type(thing).__qualname__.encode())
        for field in fields(thing):
            _feed(digest, getattr(thing, field.name))
    elif hasattr(thing, "tocsr"):
        matrix = thing.tocsr()
        _feed(digest, [matrix.shape, matrix.data, matrix.indices, matrix.indptr])
    else:
        digest.update(f"{type(thing).__qualname__} {thing!r} ".encode())


class Checkpoint:
    """The last state of a computation, in a file.

    A file that is no checkpoint, is damaged, or is of another problem is refused before any work
    is done, and never overwritten. When the disk is full, or the file cannot be written for another
    reason, a warning is given once and the computation goes on; the last state that was written
    stays. The file of a finished fit is kept: fitted again, the same problem is done after one
    pass. Delete it when the fit is done.

    Parameters
    ----------
    path : path-like
        The file; its folder must exist.
    key : str, or dict of str to number, text, None or list of them
        What tells the problem from others, by name. A file that differs is refused with the names
        and values that do. Lists stand for what is too long to be said; numbers in them are the
        same but for rounding.
    every : float, default=30.0
        Seconds between two states that are written.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from mercer.engines.checkpoint import Checkpoint
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "fit.checkpoint")
    >>> Checkpoint(path, "a problem").save({"step": 3, "x": np.arange(2.0)})
    >>> Checkpoint(path, "a problem").load()
    {'step': 3, 'x': array([0., 1.])}
    """

    def __init__(self, path: Any, key: str | dict[str, Any], every: float = EVERY):
        try:
            self.path = os.path.realpath(os.fsdecode(path))
        except TypeError:
            raise InvalidInput(
                f"checkpoint: the path is a {type(path).__name__}; give text or a pathlib.Path."
            ) from None
        self.key = dict(key) if isinstance(key, dict) else {"problem": key}
        self.every = float(every)
        folder = os.path.dirname(self.path)
        if not os.path.isdir(folder):
            raise InvalidInput(f"checkpoint: the folder {folder!r} does not exist; create it.")
        if os.path.exists(self.path) and not os.path.isfile(self.path):
            raise InvalidInput(f"checkpoint: {self.path!r} is no file; give the path of a file.")
        if not os.access(folder, os.W_OK):
            raise InvalidInput(f"checkpoint: the folder {folder!r} cannot be written.")
        self._state, self._partials = self._read()
        self._last, self._cost, self._warned = time.monotonic(), 0.0, False
        self.written = self._state is not None or bool(self._partials)
        self._due = False  # whether there is a state that is not in the file

    # -- reading --------------------------------------------------------------------------------
    def load(self) -> dict[str, Any] | None:
        """Return the last state, None where there is none."""
        return None if self._state is None else dict(self._state)

    def partial(self, token: str) -> dict[str, Any] | None:
        """Return the sums of a pass that was under way, None where it was another or none.

        Parameters
        ----------
        token : str
            What tells the pass from others.
        """
        held = self._partials.get(token)
        return None if held is None else dict(held)

    def _read(self) -> tuple[dict[str, Any] | None, dict[str, dict[str, Any]]]:
        try:
            with open(self.path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return None, {}
        except OSError as error:
            raise InvalidInput(f"checkpoint: {self.path!r} cannot be read: {error}.") from None
        cure = "delete the file to begin anew, or give another path"
        if data[:8] != MAGIC:
            raise InvalidInput(
                f"checkpoint: {self.path!r} exists and is no checkpoint of mercer; {cure}."
            )
        try:
            header, arrays = _unpack(data)
        except (ValueError, KeyError, TypeError, struct.error):
            raise InvalidInput(
                f"checkpoint: {self.path!r} is damaged or truncated; {cure}."
            ) from None
        different = _difference(header["key"], self.key)
        if different:
            raise InvalidInput(
                f"checkpoint: {self.path!r} is of another problem: {different}; {cure}."
            )

        def filled(part: dict[str, Any]) -> dict[str, Any]:
            return {k: arrays[v["array"]] if isinstance(v, dict) else v for k, v in part.items()}

        state = None if header["state"] is None else filled(header["state"])
        return state, {token: filled(part) for token, part in header["partials"].items()}

    # -- writing --------------------------------------------------------------------------------
    def due(self) -> bool:
        """Whether it is time to write the state again."""
        return time.monotonic() - self._last >= max(self.every, SHARE * self._cost)

    def keep(self, state: dict[str, Any]) -> None:
        """Remember a state, and write it when it is due: now, or in the middle of the next pass.

        Parameters
        ----------
        state : dict of str to arrays, numbers, text, truth values or None
            The state; arrays must not change afterwards.
        """
        self._state, self._due = dict(state), True
        if self.due():
            self._write()

    def flush(self) -> None:
        """Write the last state, if the file has an older one."""
        if self._due:
            self._write()

    def save(self, state: dict[str, Any]) -> None:
        """Write a state now.

        Parameters
        ----------
        state : dict of str to arrays, numbers, text, truth values or None
            The state.
        """
        self._state = dict(state)
        self._write()

    def save_partial(self, token: str, sums: dict[str, Any]) -> None:
        """Write the sums of a pass that is under way, with the last state.

        Parameters
        ----------
        token : str
            What tells the pass from others.
        sums : dict of str to arrays or numbers
            Where it stands.
        """
        self._partials.pop(token, None)
        for old in list(self._partials)[: len(self._partials) + 1 - PASSES]:
            del self._partials[old]
        self._partials[token] = dict(sums)
        self._write()

    def drop_partial(self, token: str) -> None:
        """Forget the sums of a pass that is done; the file changes when it is written next.

        Parameters
        ----------
        token : str
            What tells the pass from others.
        """
        self._partials.pop(token, None)

    def _write(self) -> None:
        begin = time.monotonic()
        try:
            pieces = _pack(self.key, self._state, self._partials)
            replace_file(self.path, pieces)
            self.written, self._due = True, False
        except OSError as error:
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"checkpoint: {self.path!r} could not be written: {error}. The fit goes on, "
                    "and what was written before is kept; make room on the disk.",
                    UserWarning,
                    stacklevel=users_level(),
                )
        self._last = time.monotonic()
        self._cost = self._last - begin


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Say in which facts a file differs from this problem; nothing where it does not."""
    names = [name for name in {**old, **new} if not _same(old.get(name), new.get(name))]
    told = [n for n in names if not any(isinstance(key.get(n), list) for key in (old, new))]
    if not told:
        return " and ".join(f"its {name} are others" for name in names)
    there, here = (", ".join(f"{n}={key.get(n)}" for n in told) for key in (old, new))
    return f"it was written with {there}, and this fit has {here}"


def _same(old: Any, new: Any) -> bool:
    """Whether two facts are the same; lists of numbers but for rounding."""
    if not (isinstance(old, list) and isinstance(new, list)) or len(old) != len(new):
        return bool(old == new)
    if any(isinstance(value, str) for value in (*old, *new)):
        return old == new
    A, B = np.array(old), np.array(new)
    return bool((np.abs(A - B) <= ROUNDING * np.abs(A).max(initial=0.0)).all())


def _pack(
    key: dict[str, Any], state: dict[str, Any] | None, partials: dict[str, dict[str, Any]]
) -> list[bytes | memoryview]:
    """Return the bytes of a file, in pieces."""
    arrays: list[np.ndarray] = []

    def emptied(part: dict[str, Any]) -> dict[str, Any]:
        return {name: _entry(value, name, arrays) for name, value in part.items()}

    header: dict[str, Any] = {"key": key, "state": None if state is None else emptied(state)}
    header["partials"] = {token: emptied(part) for token, part in partials.items()}
    header["arrays"] = [[a.dtype.str, list(a.shape)] for a in arrays]
    raw = json.dumps(header, allow_nan=True).encode()
    body: list[bytes | memoryview] = [raw]
    body += [a.reshape(-1).view(np.uint8).data if a.size else b"" for a in arrays]
    crc = 0
    for piece in body:
        crc = zlib.crc32(piece, crc)
    return [PREFIX.pack(MAGIC, len(raw), crc), *body]


def _entry(value: Any, name: str, arrays: list[np.ndarray]) -> Any:
    """Return a number as JSON has it, or the number of an array."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    array = np.ascontiguousarray(value)
    if array.dtype.kind not in _KINDS:
        raise InvalidInput(f"checkpoint: {name} holds {array.dtype} values; keep numbers only.")
    arrays.append(array.astype(array.dtype.newbyteorder("<"), copy=False).reshape(np.shape(value)))
    return {"array": len(arrays) - 1}


def _unpack(data: bytes) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return header and arrays; ValueError, KeyError or TypeError for what is not whole."""
    _, length, crc = PREFIX.unpack(data[: PREFIX.size])
    body = memoryview(data)[PREFIX.size :]
    if zlib.crc32(body) != crc:
        raise ValueError("another checksum")
    header = json.loads(bytes(body[:length]))
    arrays, at = [], length
    for name, shape in header["arrays"]:
        dtype = np.dtype(name)
        if dtype.kind not in _KINDS:
            raise ValueError("no numbers")
        size = math.prod(shape)
        array = np.frombuffer(body, dtype, size, at).reshape(shape)
        arrays.append(array.astype(dtype.newbyteorder("=")))
        at += size * dtype.itemsize
    if at != len(body):
        raise ValueError("bytes too many")
    return header, arrays
