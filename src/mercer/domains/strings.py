"""Strings: text of any alphabet or bytes, packed once to codes and offsets."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer.domains.base import Domain, Index
from mercer.domains.packed import Packed, check_offsets, one_column, spans
from mercer.domains.tables import short
from mercer.errors import ModelFileError, refusal

SHOWN = 3  # strings that are printed of a collection


class StringCollection(Packed):
    """Strings one after another: ``codes[offsets[i] : offsets[i + 1]]`` is string i.

    Parameters
    ----------
    codes : ndarray of uint32
        Code points of text, or the bytes.
    offsets : ndarray of int64 of shape (n + 1,)
        Where each string begins, and the end of the last.
    kind : {"str", "bytes"}
        What the strings are.

    Examples
    --------
    >>> from mercer.domains import Strings
    >>> words = Strings().check(["cat", "", "car"])
    >>> words, words[2], words[[0, 2]].codes.tolist()
    (StringCollection(3 points: 'cat', '', 'car'), 'car', [99, 97, 116, 99, 97, 114])
    """

    _arrays = ("codes", "offsets", "kind")

    def __init__(self, codes: np.ndarray, offsets: np.ndarray, kind: str = "str"):
        self.codes = codes
        self.offsets = offsets
        self.kind = kind
        for array in (codes, offsets):
            array.flags.writeable = False

    @classmethod
    def pack(cls, strings: list[str] | list[bytes]) -> Self:
        """Pack a list, all of it str or all of it bytes."""
        kind = "bytes" if strings and isinstance(strings[0], bytes) else "str"
        if kind == "bytes":
            codes = np.frombuffer(b"".join(strings), dtype=np.uint8).astype(np.uint32)  # type: ignore[arg-type]
        else:
            raw = "".join(strings).encode("utf-32-le", "surrogatepass")  # type: ignore[arg-type]
            codes = np.frombuffer(raw, dtype="<u4").astype(np.uint32, copy=False)
        offsets = np.zeros(len(strings) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, strings), np.int64, len(strings)), out=offsets[1:])
        return cls(codes, offsets, kind)

    @classmethod
    def from_arrays(cls, codes: Any, offsets: Any, kind: Any) -> Self:
        """Return the collection that a model file describes, or refuse what is malformed."""
        if not isinstance(codes, np.ndarray) or codes.dtype != np.uint32 or codes.ndim != 1:
            raise ModelFileError("strings of it are not codes of letters")
        offsets = check_offsets(offsets, len(codes), "strings")
        largest = {"str": 0x10FFFF, "bytes": 0xFF}.get(kind) if isinstance(kind, str) else None
        if largest is None or (len(codes) and int(codes.max()) > largest):
            raise ModelFileError("strings of it hold codes that are no letters")
        return cls(codes, offsets, kind)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """The length of each string."""
        return np.diff(self.offsets)

    def take(self, index: Index) -> Self:
        """Return the strings at the given positions."""
        flat, offsets = spans(self.offsets, index)
        return type(self)(self.codes[flat], offsets, self.kind)

    def joined(self, other: Self) -> Self:
        """Return these strings followed by those of another collection."""
        offsets = np.concatenate([self.offsets, self.offsets[-1] + other.offsets[1:]])
        kind = self.kind if len(self) else other.kind
        return type(self)(np.concatenate([self.codes, other.codes]), offsets, kind)

    def __repr__(self) -> str:
        shown = ", ".join(short(self[i]) for i in range(min(len(self), SHOWN)))
        more = ", …" if len(self) > SHOWN else ""
        return f"{type(self).__name__}({len(self)} points{': ' if shown else ''}{shown}{more})"

    def _point(self, i: int) -> str | bytes:
        codes = self.codes[self.offsets[i] : self.offsets[i + 1]]
        if self.kind == "bytes":
            return codes.astype(np.uint8).tobytes()
        return codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


class Strings(Domain):
    """Strings: a list, array or column of text, or of bytes; the empty string is one of them."""

    name = "strings"

    def check(self, X: Any, name: str = "X") -> StringCollection:
        """Return the strings packed, or say which entry is none."""
        if isinstance(X, StringCollection):
            return X
        if isinstance(X, str | bytes):
            raise refusal(
                "Strings", f"{name} is one string, {short(X)}; give a list of strings: [{name}]."
            )
        points = one_column(X, name, "strings")
        if not isinstance(points, list | tuple):
            raise refusal(
                "Strings",
                f"{name} is a {type(X).__name__}; give a list, an array or a column of strings.",
            )
        points = list(points)
        kind = bytes if points and isinstance(points[0], bytes) else str
        if not all(isinstance(p, kind) for p in points):
            _refuse(points, kind, name)
        return StringCollection.pack(points)

    def size(self, X: StringCollection) -> int:
        """Return the number of strings."""
        return len(X)

    def take(self, X: StringCollection, index: Index) -> StringCollection:
        """Return the strings at the given positions."""
        return X.take(index)

    def match(
        self, X: StringCollection, Y: StringCollection
    ) -> tuple[StringCollection, StringCollection]:
        """Return both, or refuse text beside bytes."""
        if X.kind != Y.kind and len(X) and len(Y):
            raise refusal(
                "Strings",
                f"X holds {X.kind} and Y holds {Y.kind}; decode the bytes, for example "
                "with s.decode('ascii'), or encode the text.",
            )
        return X, Y

    def sample(self, rng: np.random.Generator, n: int) -> list[str]:
        """Return n random strings over a few letters, some of them empty."""
        letters = np.array(list("abcé😀"))
        return ["".join(rng.choice(letters, rng.integers(0, 9))) for _ in range(n)]


def _refuse(points: list, kind: type, name: str) -> None:
    """Say which entry is no string."""
    i = next(i for i, p in enumerate(points) if not isinstance(p, kind))
    bad = points[i]
    if bad is None or (isinstance(bad, float) and bad != bad) or type(bad).__name__ == "NAType":
        raise refusal(
            "Strings",
            f"{name}[{i}] is missing ({bad!r}); fill it in, for example with '', leave "
            "the row out, or let the kernel take missing values: kernel.with_missing().",
        )
    if isinstance(bad, str | bytes):
        raise refusal(
            "Strings",
            f"{name}[0] is {kind.__name__} and {name}[{i}] is {type(bad).__name__}; give "
            "all of one kind.",
        )
    raise refusal(
        "Strings",
        f"{name}[{i}] is {short(bad)}, of type {type(bad).__name__}; every point must be "
        f"a string. {_cure(bad)}",
    )


def _cure(bad: Any) -> str:
    """Say how to make a string of what is none."""
    if isinstance(bad, bytearray | memoryview):
        return "Convert it with bytes(x)."
    if hasattr(bad, "__len__"):  # str(...) would make letters of its brackets
        return (
            "Join letters with ''.join(x) and words with ' '.join(x); for bags of strings there is "
            "SetKernel."
        )
    return "Convert it, for example with str(x)."
