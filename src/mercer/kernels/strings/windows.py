"""Windows of strings: every run of letters of one length, named by a number of 64 bits.

A number means the same in every collection. A window of at most 7 letters below 256 is the number
itself: 8 bits a letter behind a leading 1, so that windows of other lengths differ. A window of 1
or 2 letters of any kind has 21 bits a letter and bit 57. All others are hashed to 63 bits, and
bit 63 tells so. Bits 58 to 62 are left to tags.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains import Strings
from mercer.domains.strings import StringCollection
from mercer.kernels.counted import Counted

__all__ = ["CountedStrings", "places", "tagged", "window_codes"]

NARROW, WIDE = 7, 2  # letters of a window that is its own number: below 256, and any
WIDE_BIT, TAG_BIT, TAGS, HASHED = np.uint64(1 << 57), np.uint64(58), 32, np.uint64(1 << 63)
# Steps of Steele, Lea and Flood's generator SplitMix64: the increment and the mixing constants.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class CountedStrings(Counted):
    """A kernel that counts windows of strings."""

    domain = Strings()

    def _collisions(self, codes: np.ndarray) -> float:
        # 63 bits, perhaps hashed once more with a tag: at most twice the chance of one hash.
        N = int(np.count_nonzero(codes & HASHED))
        return N * (N - 1) / 2.0**63


def places(X: StringCollection, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where the windows begin, and the string of each, never falling."""
    count = np.maximum(X.lengths - (length - 1), 0)
    ends = np.cumsum(count)
    rows = np.repeat(np.arange(len(X)), count)
    shift = X.offsets[:-1] - (ends - count)
    starts = np.arange(int(ends[-1]) if len(ends) else 0)
    starts += np.repeat(shift, count)
    return starts, rows


def window_codes(letters: np.ndarray, length: int, positions: Any = None) -> np.ndarray:
    """Return the number of the window that begins at each place of a flat array of letters.

    Parameters
    ----------
    letters : ndarray of uint32
        Code points; windows across the end of a string are for the caller to leave out.
    length : int
        Letters of a window.
    positions : sequence of int, optional
        The letters of a window that are looked at; all by default.
    """
    n = max(0, len(letters) - length + 1)
    chosen = range(length) if positions is None else positions
    slices = [letters[j : j + n] for j in chosen]
    size = len(slices)
    short = size <= NARROW
    if short and not (len(letters) and int(letters.max()) > 0xFF):
        return _packed(slices, n, 8)
    wide = _packed(slices, n, 21) | WIDE_BIT if size <= WIDE else _hashed(slices, n)
    if not short:
        return wide
    below = np.ones(n, dtype=bool)
    for one in slices:
        below &= one <= 0xFF
    return np.where(below, _packed(slices, n, 8), wide)


def tagged(codes: np.ndarray, tag: Any) -> np.ndarray:
    """Return the numbers of windows that bear a tag ≥ 0, or one tag each; tag 0 of old is none.

    A window that is its own number keeps 5 bits for a tag; all others are hashed with it.
    """
    tag = np.asarray(tag, dtype=np.uint64)
    exact = (codes < HASHED) & (tag < TAGS)
    return np.where(exact, codes | (tag << TAG_BIT), _mixed(codes ^ _mixed(tag + GOLDEN)) | HASHED)


def _packed(slices: list[np.ndarray], n: int, bits: int) -> np.ndarray:
    """Return the letters one after another behind a leading 1."""
    out = np.ones(n, dtype=np.uint64)
    for one in slices:
        out <<= np.uint64(bits)
        out |= one
    return out


def _hashed(slices: list[np.ndarray], n: int) -> np.ndarray:
    """Return a hash of the letters, three of them a step, begun with how many they are."""
    out = np.full(n, _mixed(np.uint64(len(slices)) + GOLDEN), dtype=np.uint64)
    for start in range(0, len(slices), 3):
        out ^= _packed(slices[start : start + 3], n, 21)
        out = _mixed(out)
    return out | HASHED


def _mixed(z: Any) -> Any:
    """Return SplitMix64's mixture of the bits, one to one."""
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * MIX[0]
        z = (z ^ (z >> np.uint64(27))) * MIX[1]
        return z ^ (z >> np.uint64(31))
