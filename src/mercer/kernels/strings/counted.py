"""Windows of strings: every run of letters of one length, named by a number of 64 bits.

A number means the same in every collection. A window of at most 7 letters below 256 is the number
itself, 8 bits a letter behind a leading 1; so is one of 1 or 2 letters of any kind, with 21 bits a
letter and bit 57 set. All others are hashed to 63 bits, and bit 63 tells so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.checks import check_whole
from mercer.domains import StringCollection, Strings
from mercer.errors import InvalidInput, speaks, who
from mercer.kernels.counted import Counted, Counts, Naming, beside, rows_of_counts
from mercer.kernels.parameters import warn_all_zero
from mercer.kernels.scales import point_weights

# ---- Alphabets: the letters a string kernel knows, given or taken from data, and their numbers.


LARGEST = 2**31 - 1  # columns that sparse features may have


def kept(values: Any) -> Any:
    """Return a sequence as a tuple, which nobody can change, and all else as it is."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return tuple(values.tolist())
    return tuple(values) if isinstance(values, list | range) else values


def check_alphabet(alphabet: Any, *, empty: bool = False) -> Any:
    """Return None, text, bytes, or a tuple of single letters, all different; refuse all else."""
    if alphabet is None:
        return None
    alphabet = kept(alphabet)
    codes, _ = _codes(alphabet)
    if not len(codes) and not empty:
        raise _wrong(alphabet)
    if len(np.unique(codes)) < len(codes):
        raise InvalidInput(
            f"{who()}: alphabet={alphabet!r} names a letter twice; give every letter once."
        )
    return alphabet


def letters_of(X: StringCollection) -> str | bytes:
    """Return the letters that occur, sorted: text, or bytes where the strings are bytes."""
    codes = np.unique(X.codes)
    if X.kind == "bytes":
        return codes.astype(np.uint8).tobytes()
    return codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


def with_letters_of(alphabet: Any, X: StringCollection) -> Any:
    """Return an alphabet, followed by the letters of X that it lacks, sorted."""
    foreign = X.codes[numbered(alphabet, X) == len(alphabet)]
    if not len(foreign):
        return alphabet
    more = letters_of(StringCollection(foreign, np.array([0, len(foreign)]), X.kind))
    return alphabet + more if _is_text(alphabet) else (*alphabet, *split(more))


def numbered(alphabet: Any, X: StringCollection) -> np.ndarray:
    """Return the place of every letter in the alphabet; its size for a letter outside it."""
    codes, kind = _codes(alphabet)
    if kind != X.kind and len(codes) and len(X.codes):
        raise InvalidInput(
            f"{who()}: the alphabet is {kind} and the strings are {X.kind}; give both as one, for "
            "example the alphabet 'ACGT' for text and b'ACGT' for bytes."
        )
    beyond = int(codes.max(initial=0)) + 1
    table = np.full(beyond + 1, len(codes), dtype=np.int64)
    table[codes] = np.arange(len(codes))
    return table[np.minimum(X.codes, beyond)]


def words_of(alphabet: Any, length: int) -> int | None:
    """Return how many words of a length there are, or None when more than columns can be."""
    size = len(alphabet)
    if size > 1 and length > 31:
        return None
    count = size**length
    return count if count <= LARGEST else None


def _codes(alphabet: Any) -> tuple[np.ndarray, str]:
    if isinstance(alphabet, tuple):
        letters = list(alphabet)
    else:
        letters = split(alphabet) if _is_text(alphabet) else []
        if not _is_text(alphabet):
            raise _wrong(alphabet)
    kind = bytes if letters and isinstance(letters[0], bytes) else str
    kind = bytes if isinstance(alphabet, bytes) else kind
    if not all(isinstance(letter, kind) and len(letter) == 1 for letter in letters):
        raise _wrong(alphabet)
    codes = np.array([ord(letter) for letter in letters], dtype=np.int64)
    return codes, kind.__name__


def split(letters: Any) -> list:
    """Return the letters of text, of bytes or of a sequence one by one."""
    return [letters[i : i + 1] for i in range(len(letters))] if _is_text(letters) else list(letters)


def _is_text(value: Any) -> bool:
    return isinstance(value, str | bytes)


def _wrong(alphabet: Any) -> InvalidInput:
    return InvalidInput(
        f"{who()}: alphabet={alphabet!r}; give the letters as text such as 'ACGT', as bytes such "
        "as b'ACGT', as a list of single letters, or None to take them from the data."
    )


# ---- windows ----


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

    @speaks
    def _found_in(self, X: StringCollection) -> dict[str, Any]:
        if self.alphabet is None:
            return {"alphabet": letters_of(X) or None}
        return {"alphabet": with_letters_of(self.alphabet, X)}

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

    @speaks
    def _n_features(self, X: StringCollection) -> int | None:
        if self.alphabet is None:
            return None
        # Windows with other letters have no column, so the features of X would not have k(X).
        foreign = numbered(self.alphabet, X) == len(self.alphabet)
        return None if foreign.any() else self._width(self.alphabet) or None

    @speaks
    def _features(self, X: StringCollection) -> sp.csr_array:
        alphabet = "" if self.alphabet is None else self.alphabet  # of strings without letters
        if (D := self._width(alphabet)) is None:
            raise InvalidInput(
                f"{who()}: with {len(alphabet)} letters the features have more than "
                f"{LARGEST} columns. Use the kernel itself, shorter windows or fewer letters."
            )
        letters = numbered(alphabet, X)
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


# ---- `Spectrum`: how often the same substrings of one length, or of several, occur ----


class Spectrum(ViewedWindows):
    r"""The spectrum kernel k(s, t) = Σᵤ nᵤ(s) nᵤ(t) over the substrings u of p letters.

    nᵤ(s) is how often u occurs in s, overlaps included. Several lengths are a blend,
    Σₚ wₚ Σ_{|u| = p} nᵤ(s) nᵤ(t). A string shorter than p has no such substrings and adds 0.

    *Valid when* always: it is the inner product of the counts (√wₚ nᵤ(s))ᵤ.

    Substrings are named by numbers of 64 bits: those of up to 7 letters below U+0100, and of up to
    2 of any letters, exactly; longer ones by a hash, and `collision_probability` bounds the chance
    that two of them are taken for one.

    Parameters
    ----------
    length : int ≥ 1 or sequence of them, default=3
        The number of letters p; several are added up.
    weights : sequence of floats ≥ 0, optional
        The weight wₚ of each length; one each by default.
    alphabet : str, bytes or list of letters, optional
        The letters that `features` has columns for, in this order; by default those that occur
        where the kernel is fitted. No value k(s, t) depends on it. A substring with another letter
        has no column: the features leave it out. Where the kernel is fitted to strings with other
        letters, these follow the given ones.

    Notes
    -----
    Time O(N) for N letters, whose substrings are numbered by a table of hashes, and one addition
    for every pair of points that share a substring. With an alphabet of a letters, `features` is a
    sparse matrix of Σₚ aᵖ columns, in lexicographic order, one length after another; models solve
    the smaller problem with it.

    References
    ----------
    C. Leslie, E. Eskin, W. S. Noble, "The spectrum kernel: a string kernel for SVM protein
    classification", Pacific Symposium on Biocomputing, 2002.

    Examples
    --------
    >>> from mercer import Spectrum
    >>> Spectrum(2)(["banana", "bandana", "ban"])
    array([[9., 7., 3.],
           [7., 8., 3.],
           [3., 3., 2.]])
    >>> Spectrum(2).features(["abab", "ba"]).toarray()  # aa, ab, ba, bb
    array([[0., 2., 1., 0.],
           [0., 0., 1., 0.]])
    """

    length: Any
    weights: Any
    alphabet: Any

    def __init__(self, length: Any = 3, *, weights: Any = None, alphabet: Any = None):
        super().__init__(length=length, weights=weights, alphabet=alphabet)

    def _check_params(self) -> None:
        # Kept as tuples: lists could be changed later, and ranges cannot be saved.
        self.length, self.weights = kept(self.length), kept(self.weights)
        for p in self.length if isinstance(self.length, tuple) else [self.length]:
            check_whole("length", p, 1)
        lengths = self._lengths()
        if not lengths or len(set(lengths)) < len(lengths):
            raise InvalidInput(
                f"Spectrum: length={self.length!r}; give one whole number ≥ 1, or several, all "
                "different."
            )
        if self.weights is not None:
            try:
                w: np.ndarray = np.asarray(self.weights, dtype=np.float64)
                good = w.shape == (len(lengths),) and bool((np.isfinite(w) & (w >= 0)).all())
                good = good and bool((w > 0).any())
            except (OverflowError, TypeError, ValueError):
                good = False
            if not good:
                raise InvalidInput(
                    f"Spectrum: weights={self.weights!r}; give one finite number ≥ 0 for each of "
                    f"the {len(lengths)} lengths, not all 0."
                )
        self.alphabet = check_alphabet(self.alphabet)

    @property
    def _shortest(self) -> int:
        return min(self._lengths())

    def _lengths(self) -> list[int]:
        return [int(p) for p in np.ravel(np.asarray(self.length))]

    def _views(self) -> list[View]:
        weights = np.ones(len(self._lengths())) if self.weights is None else self.weights
        factors = np.sqrt(np.asarray(weights, dtype=float)).tolist()
        return [(p, range(p), f) for p, f in zip(self._lengths(), factors, strict=True)]


# ---- `WeightedDegree`: the same substrings in the same places of two strings ----


APART = 32  # the first lengths that are each a part of its own; longer ones share the last part


class WeightedDegree(CountedWindows):
    r"""The weighted degree kernel k(s, t) = Σ_d β_d Σᵢ [the d letters from place i are the same].

    d runs from 1 to p, and β_d = 2(p − d + 1)/(p(p + 1)), which add up to 1. It is for strings that
    are aligned: the same place means the same thing. Strings of different lengths are compared over
    the places that both have.

    *Valid when* always: √β_d for each substring of d letters at each place is a feature, and k is
    the inner product of these.

    Parameters
    ----------
    length : int ≥ 1, default=3
        Letters p of the longest substrings compared.

    Notes
    -----
    Time O(pN) for N letters, and one addition for every pair of strings that share a
    substring at a place. Substrings of more than 3 letters, or with letters from U+0100 on, are
    hashed together with their place; see `collision_probability`.

    References
    ----------
    G. Rätsch, S. Sonnenburg, "Accurate splice site detection for Caenorhabditis elegans", in
    Kernel Methods in Computational Biology, MIT Press, 2004.

    Examples
    --------
    >>> from mercer import WeightedDegree
    >>> WeightedDegree(2)(["ACGT", "ACTT", "AC"]).round(4)
    array([[3.6667, 2.3333, 1.6667],
           [2.3333, 3.6667, 1.6667],
           [1.6667, 1.6667, 1.6667]])
    """

    def __init__(self, length: int = 3):
        super().__init__(length=length)

    def _check_params(self) -> None:
        check_whole("length", self.length, 1)

    @property
    def _shortest(self) -> int:
        return 1

    def _parts(self, X: StringCollection) -> Iterator[Counts]:
        p, longest = int(self.length), int(X.lengths.max(initial=0))
        for d in range(1, min(p, APART)):
            yield self._same(X, d)
        # Codes of different lengths differ too, so that all the others may be one part.
        others = [self._same(X, d) for d in range(min(p, APART), min(p, longest) + 1)]
        rows, codes, values = (
            np.concatenate([np.zeros(0, kind), *(getattr(part, name) for part in others)])
            for name, kind in (("rows", np.int64), ("codes", np.uint64), ("values", np.float64))
        )
        order = np.argsort(rows, kind="stable")
        yield Counts(len(X), rows[order], codes[order], values[order])

    def _namings(self) -> list[Naming]:
        return [names_at_places] * min(int(self.length), APART)

    def _same(self, X: StringCollection, d: int) -> Counts:
        p = int(self.length)
        starts, rows = places(X, d)
        codes = tagged(window_codes(X.codes, d)[starts], starts - X.offsets[rows])
        beta = 2 * (p - d + 1) / (p * (p + 1))
        return Counts(len(X), rows, codes, np.full(len(rows), sqrt(beta)))


def names_at_places(codes: np.ndarray) -> list[str]:
    """Return the substrings that codes stand for and their places, such as "AC@7", from 0."""
    return [
        f"hash:{code:016x}" if code >= int(HASHED) else f"{letters_in(code % 2**32)}@{code >> 32}"
        for code in codes.tolist()
    ]
