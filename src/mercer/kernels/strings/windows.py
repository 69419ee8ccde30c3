"""Windows of strings: every run of letters of one length, named by a number of 64 bits.

A number means the same in every collection. A window of at most 7 letters below 256 is the number
itself, 8 bits a letter behind a leading 1; so is one of 1 or 2 letters of any kind, with 21 bits a
letter and bit 57 set. All others are hashed to 63 bits, and bit 63 tells so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import Strings
from mercer.domains.strings import StringCollection
from mercer.errors import InvalidInput
from mercer.kernels.checks import warn_all_zero
from mercer.kernels.counted import Counted, Counts, Naming, beside, rows_of_counts
from mercer.kernels.scales import point_weights
from mercer.kernels.strings.alphabets import (
    LARGEST,
    letters_of,
    numbered,
    with_letters_of,
    words_of,
)

__all__ = [
    "CountedWindows",
    "View",
    "ViewedWindows",
    "lexicographic",
    "places",
    "tagged",
    "warn_if_short",
]

NARROW, WIDE = 7, 2  # letters of a window that is its own number: below 256, and any
WIDE_BIT, HASHED = np.uint64(1 << 57), np.uint64(1 << 63)
# SplitMix64 of Steele, Lea and Flood: its increment and the constants of its mixture.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)

#: Letters of a window, the places in it that are looked at, and the factor of the counts.
View = tuple[int, Sequence[int], float]


class CountedWindows(Counted):
    """A kernel that counts windows of strings."""

    domain = Strings()

    @property
    def _shortest(self) -> int:
        """Letters that a string needs to have a window."""
        return int(self.length)

    def _asks(self) -> bool:
        return True

    def _resolve(self, X: StringCollection, sample_weight: Any) -> dict[str, Any]:
        X = X.take(np.flatnonzero(point_weights(len(X), sample_weight) > 0))
        warn_if_short(self, X, self._shortest)
        return self._found_in(X)

    def _found_in(self, X: StringCollection) -> dict[str, Any]:
        """Return parameters that the strings of positive weight decide."""
        return {}

    def _collisions(self, codes: np.ndarray) -> float:
        # 63 bits, hashed perhaps once more with a tag: at most twice the chance of one hash.
        N = int(np.count_nonzero(codes & HASHED))
        return N * (N - 1) / 2.0**63


class ViewedWindows(CountedWindows):
    """A kernel that counts what is seen of windows at some places; an author writes ``_views``.

    Its parameter ``alphabet`` numbers the columns of `features`, and nothing else; where a kernel
    is fitted to strings with other letters these are added, so that the features are those of k.
    """

    def _views(self) -> Iterable[View]:
        raise InvalidInput(f"{type(self).__name__}: define _views().")

    def _open(self) -> list[str]:
        return ["alphabet"] if self.alphabet is None else []

    def _found_in(self, X: StringCollection) -> dict[str, Any]:
        if self.alphabet is None:
            return {"alphabet": letters_of(X) or None}
        return {"alphabet": with_letters_of(type(self).__name__, self.alphabet, X)}

    def _parts(self, X: StringCollection) -> Iterator[Counts]:
        for length, chosen, factor in self._views():
            starts, rows = places(X, length)
            codes = window_codes(X.codes, length, chosen)[starts]
            values = None if factor == 1 else np.full(len(rows), factor)
            yield Counts(len(X), rows, codes, values)

    def _namings(self) -> Iterator[Naming]:
        for length, chosen, _ in self._views():
            yield partial(window_names, length=length, chosen=chosen)

    # -- features -----------------------------------------------------------------------------
    def _width(self, alphabet: Any) -> int | None:
        """Return the columns of all views, or None when they are more than columns can be."""
        widths = [words_of(alphabet, len(chosen)) for _, chosen, _ in self._views()]
        known = [w for w in widths if w is not None]
        return sum(known) if len(known) == len(widths) and sum(known) <= LARGEST else None

    def _n_features(self, X: StringCollection) -> int | None:
        if self.alphabet is None:
            return None
        # Windows with other letters have no column, so the features of X would not have k(X).
        foreign = numbered(type(self).__name__, self.alphabet, X) == len(self.alphabet)
        return None if foreign.any() else self._width(self.alphabet) or None

    def _features(self, X: StringCollection) -> sp.csr_array:
        owner = type(self).__name__
        alphabet = "" if self.alphabet is None else self.alphabet  # of strings without letters
        if (D := self._width(alphabet)) is None:
            raise InvalidInput(
                f"{owner}: with {len(alphabet)} letters the features have more than "
                f"{LARGEST} columns. Use the kernel itself, shorter windows or fewer letters."
            )
        letters = numbered(owner, alphabet, X)
        if not D or int(X.lengths.max(initial=0)) < self._shortest:
            return sp.csr_array((len(X), D))
        blocks = []
        for length, chosen, factor in self._views():
            width: Any = words_of(alphabet, len(chosen))
            starts, rows = places(X, length)
            columns, known = lexicographic(letters, length, len(alphabet), chosen)
            if not known.all():
                kept = known[starts]
                starts, rows = starts[kept], rows[kept]
            values = np.full(len(rows), factor)
            blocks.append(rows_of_counts(len(X), rows, columns[starts], values, width))
        return beside(blocks)


def warn_if_short(kernel: Any, X: StringCollection, letters: int) -> None:
    """Warn where no string has the letters that a kernel needs to see anything."""
    longest = int(X.lengths.max(initial=0))
    if len(X) and longest < letters:
        why = f"no string has {letters} letters, the longest {longest}"
        warn_all_zero(kernel, why, "use a smaller length")


def places(X: StringCollection, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where the windows begin, and the string of each, never falling."""
    count = np.maximum(X.lengths - (length - 1), 0)
    ends = np.cumsum(count)
    rows = np.repeat(np.arange(len(X)), count)
    starts = np.arange(len(rows))
    starts += np.repeat(X.offsets[:-1] - (ends - count), count)
    return starts, rows


def lexicographic(
    letters: np.ndarray, length: int, size: int, chosen: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of the word at each place, and whether all its letters are below size.

    Windows across the end of a string are for the caller to leave out, as in `window_codes`.
    """
    n = max(0, len(letters) - length + 1)
    columns, known = np.zeros(n, dtype=np.int64), np.ones(n, dtype=bool)
    for j in range(length) if chosen is None else chosen:
        one = letters[j : j + n]
        columns *= size
        columns += one
        known &= one < size
    return columns, known


def window_codes(letters: np.ndarray, length: int, chosen: Any = None) -> np.ndarray:
    """Return the number of the window that begins at each place of a flat array of letters.

    Parameters
    ----------
    letters : ndarray of uint32
        Code points; windows across the end of a string are for the caller to leave out.
    length : int
        Letters of a window.
    chosen : sequence of int, optional
        The places in a window that are looked at; all by default.
    """
    n = max(0, len(letters) - length + 1)
    if not n:
        return np.zeros(0, dtype=np.uint64)
    slices = [letters[j : j + n] for j in (range(length) if chosen is None else chosen)]
    short = len(slices) <= NARROW
    if short and int(letters.max()) <= 0xFF:
        return _packed(slices, 8)
    wide = _packed(slices, 21) | WIDE_BIT if len(slices) <= WIDE else _hashed(slices)
    if not short:
        return wide
    below = np.ones(n, dtype=bool)
    for one in slices:
        below &= one <= 0xFF
    return np.where(below, _packed(slices, 8), wide)


def window_names(codes: np.ndarray, length: int, chosen: Sequence[int]) -> list[str]:
    """Return the windows that codes stand for, with a point where they are not looked at.

    Those that were hashed are named by the hash, behind the places that were.
    """
    seen, gaps = set(chosen), len(chosen) < length
    shape = "".join("x" if j in seen else "." for j in range(length))
    names = []
    for code in codes.tolist():
        if code >= int(HASHED):
            names.append(f"hash:{code:016x}" + (f":{shape}" if gaps else ""))
            continue
        letters = iter(letters_in(code))
        names.append("".join(next(letters) if c == "x" else c for c in shape))
    return names


def letters_in(code: int) -> str:
    """Return the letters of a window that is its own number."""
    bits = 21 if code >= int(WIDE_BIT) else 8
    code &= int(WIDE_BIT) - 1
    letters = []
    while code > 1:
        letters.append(chr(code & ((1 << bits) - 1)))
        code >>= bits
    return "".join(reversed(letters))


def tagged(codes: np.ndarray, tags: np.ndarray) -> np.ndarray:
    """Return the numbers of windows that bear tags; short windows keep 31 bits for a tag."""
    tags = tags.astype(np.uint64)
    half = np.uint64(32)
    exact = ((codes >> half) == 0) & ((tags >> np.uint64(31)) == 0)
    if exact.all():
        return codes | (tags << half)
    hashed = _mixed(codes ^ _mixed(tags + GOLDEN)) | HASHED
    return np.where(exact, codes | (tags << half), hashed)


def _packed(slices: list[np.ndarray], bits: int) -> np.ndarray:
    """Return the letters one after another behind a leading 1."""
    out = np.ones(len(slices[0]), dtype=np.uint64)
    for one in slices:
        out <<= np.uint64(bits)
        out |= one
    return out


def _hashed(slices: list[np.ndarray]) -> np.ndarray:
    """Return a hash of the letters, three of them a step, begun with how many they are."""
    out = np.full(len(slices[0]), len(slices), dtype=np.uint64)
    for start in range(0, len(slices), 3):
        out = _mixed((out + GOLDEN) ^ _packed(slices[start : start + 3], 21))
    return out | HASHED


def _mixed(z: np.ndarray) -> np.ndarray:
    """Return SplitMix64's mixture of the bits, one to one."""
    z = (z ^ (z >> np.uint64(30))) * MIX[0]
    z = (z ^ (z >> np.uint64(27))) * MIX[1]
    return z ^ (z >> np.uint64(31))
