"""`Mismatch`: substrings of one length that agree but for a few letters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.checks import check_whole
from mercer.domains import StringCollection
from mercer.errors import InvalidInput, speaks
from mercer.kernels.bound import Bound
from mercer.kernels.counted import (
    ADDITION_NS,
    PRODUCT_NS,
    Counted,
    CountedBound,
    Counts,
    Naming,
    rows_of_counts,
)
from mercer.kernels.parameters import warn_all_zero
from mercer.kernels.strings.counted import (
    LARGEST,
    CountedWindows,
    View,
    ViewedWindows,
    check_alphabet,
    letters_of,
    lexicographic,
    numbered,
    places,
    split,
    words_of,
)
from mercer.kernels.strings.paired import CALL_NS, PAIR_NS, Paired, PairedBound, require_finite
from mercer.memory import require_memory
from mercer.settings import get_config

# ---- `MatchedWindows`: sums over pairs of windows of a number that depends on where they agree.


CURE = "Use a smaller length"  # where values are too large for a float
OCCURRENCE_BYTES = 40  # of a part of a window, while it is named, sorted and stored


class MatchedWindows(CountedWindows, Paired):
    """A kernel Σᵤᵥ g(u, v) over windows of two strings, in two ways of which the cheaper is taken.

    One counts the parts that windows share, of which a window has many: ``_parts``, as in
    `Counted`. The other compares all windows of two strings, as in `Paired`: an author writes
    ``_matches`` and ``_table``, from which the compiled loop reads g.
    """

    _pace = 2.0
    #: Nanoseconds to name a part of a window, to sort it and to store it.
    _occurrence_ns: float = 120.0

    def _spread(self, X: StringCollection) -> tuple[float, float]:
        """Return how many parts a window of X has, and how many parts there may be in all."""
        raise InvalidInput(f"{type(self).__name__}: define _spread(X).")

    def _matches(self, X: StringCollection) -> tuple[np.ndarray, int]:
        """Return the letters of X as numbers, and the number of a foreign letter."""
        raise InvalidInput(f"{type(self).__name__}: define _matches(X).")

    def _table(self, foreign: bool) -> np.ndarray:
        """Return a table of g, which has room for foreign letters where there are some.

        g is table[f, g, b, e] for windows with f and g foreign letters, b of them in one place,
        and e places where letters that are not foreign agree.
        """
        raise InvalidInput(f"{type(self).__name__}: define _table(foreign).")

    def _bind(self, X: StringCollection, Y: StringCollection | None = None) -> Bound:
        other = X if Y is None else Y
        entries = len(X) * len(other) / (2 if Y is None else 1)
        counted = self._counting_pays(X, Y, entries)
        return CountedBound(self, X, Y) if counted else PairedBound(self, X, Y)

    def _diag(self, X: StringCollection) -> np.ndarray:
        base: Any = Counted if self._counting_pays(X, None, len(X)) else Paired
        return base._diag(self, X)

    def _counting_pays(
        self, X: StringCollection, Y: StringCollection | None, entries: float
    ) -> bool:
        """Whether to count parts takes less time than to compare windows, and fits the memory."""
        sides = (X, X if Y is None else Y)
        windows = [float(windows_of(Z, self.length)) for Z in sides]
        if not min(windows):
            return False  # all values are zero, without a look at any part
        means = [w / max(1, len(Z)) for w, Z in zip(windows, sides, strict=True)]
        spread, parts = self._spread(X)
        occurrences = spread * (windows[0] if Y is None else sum(windows))
        if occurrences * OCCURRENCE_BYTES > get_config().memory / 2:
            return False
        shared = spread**2 * means[0] * means[1] / max(parts, 1.0)
        entry = min(PRODUCT_NS * parts, ADDITION_NS * shared)
        pair = PAIR_NS + self._pace * means[0] * means[1]
        return self._occurrence_ns * occurrences + entries * entry <= entries * pair

    def _pairs(
        self, X: StringCollection, left: np.ndarray, Y: StringCollection, right: np.ndarray
    ) -> np.ndarray:
        from mercer.jit import match_pairs, match_windows

        if int(min(X.lengths[left].max(initial=0), Y.lengths[right].max(initial=0))) < self.length:
            return np.zeros(len(left))
        rows, left = np.unique(left, return_inverse=True)
        cols, right = np.unique(right, return_inverse=True)
        X, Y = X.take(rows), Y.take(cols)
        (x, foreign), (y, _) = self._matches(X), self._matches(Y)
        table = self._table(bool((x == foreign).any() or (y == foreign).any()))
        # One kind of array, so that the loop is compiled once.
        x, y, table = np.array(x, dtype=np.int64), np.array(y, dtype=np.int64), np.array(table)
        if len(left) > 1:
            args = x, X.offsets, left, y, Y.offsets, right, self.length, foreign, table
            return require_finite(self, match_pairs(*args), X, Y, CURE)
        windows = max(0, len(x) - self.length + 1)
        step = max(1, int(CALL_NS / (self._pace * max(1, len(y)))))
        total = 0.0  # in calls short enough to be interrupted
        for first in range(0, windows, step):
            stop = min(first + step, windows)
            total += match_windows(x, y, self.length, foreign, table, first, stop)
        return require_finite(self, np.array([total]), X, Y, CURE)


def windows_of(X: StringCollection, length: int) -> int:
    """Return how many windows of a length there are."""
    return int(np.maximum(X.lengths - (length - 1), 0).sum())


def as_float(number: int) -> float:
    """Return a whole number as a float, ∞ beyond the largest."""
    try:
        return float(number)
    except OverflowError:
        return float("inf")


# ---- mismatch ----


FEW = 2**22  # words that all have a column; of more words, those that are near something


class Mismatch(MatchedWindows):
    r"""The mismatch kernel k(s, t) = Σ_γ n_γ(s) n_γ(t) over all words γ of p letters.

    n_γ(s) is how many substrings of s of p letters differ from γ in at most m places. Words are
    over an alphabet, on which the values depend; a letter outside it differs from every letter,
    itself included. With m = 0 it is `Spectrum`.

    *Valid when* always: it is the inner product of the counts (n_γ(s))_γ.

    Parameters
    ----------
    length : int ≥ 1, default=3
        Letters p of a word; a shorter string has values 0.
    mismatches : int ≥ 0, default=1
        Places m that may differ; with p or more of them all words are near.
    alphabet : str, bytes or list of letters, optional
        The letters that words are made of. By default those that occur where the kernel is fitted:
        ``fit_params(X)`` takes them from X, as models do in ``fit``.

    Notes
    -----
    Either all words near each substring are counted, Σⱼ≤ₘ C(p, j)(a − 1)ʲ for an alphabet of a
    letters, or substrings are compared pair by pair in time |s|·|t|: the number of words near both
    depends only on how many places they differ in. Whichever takes less time is done. `features`
    is a sparse matrix of aᵖ columns in lexicographic order.

    References
    ----------
    C. Leslie, E. Eskin, A. Cohen, J. Weston, W. S. Noble, "Mismatch string kernels for
    discriminative protein classification", Bioinformatics 20(4), 2004.

    Examples
    --------
    >>> from mercer import Mismatch
    >>> Mismatch(2, 1, alphabet="abc")(["ab", "bc", "cc"])
    array([[5., 2., 2.],
           [2., 5., 3.],
           [2., 3., 5.]])
    """

    alphabet: Any

    def __init__(self, length: int = 3, mismatches: int = 1, *, alphabet: Any = None):
        super().__init__(length=length, mismatches=mismatches, alphabet=alphabet)

    def _check_params(self) -> None:
        check_whole("length", self.length, 1)
        check_whole("mismatches", self.mismatches, 0)
        self.alphabet = check_alphabet(self.alphabet, empty=True)

    @property
    def _most(self) -> int:
        return min(int(self.mismatches), int(self.length))

    def _words(self) -> list[str]:
        return ["alphabet"] if self.alphabet is None else []

    def _found_in(self, X: StringCollection) -> dict[str, Any]:
        return {"alphabet": letters_of(X)} if self.alphabet is None else {}

    # -- by the words near each substring -----------------------------------------------------
    _occurrence_ns = 250.0

    def _spread(self, X: StringCollection) -> tuple[float, float]:
        words = float(len(self.alphabet)) ** min(self.length, 64)
        return (float(self._near) if self._numbered else np.inf), words

    @property
    def _numbered(self) -> bool:
        """Whether a window is a number of 64 bits."""
        return (len(self.alphabet) + 1) ** min(self.length, 64) < 2**63

    @property
    def _near(self) -> int:
        """How many words are near a word."""
        p, others = self.length, max(len(self.alphabet) - 1, 0)
        return sum(comb(p, j) * others**j for j in range(self._most + 1))

    def _parts(self, X: StringCollection) -> Iterator[Counts]:
        self._require_words(X, self._numbered)
        phi, words = self._near_words(X)
        rows = np.repeat(np.arange(len(X)), np.diff(phi.indptr))
        yield Counts(len(X), rows, words[phi.indices].astype(np.uint64), phi.data)

    def _namings(self) -> list[Naming]:
        return [self._words_named]

    def _words_named(self, codes: np.ndarray) -> list[str]:
        letters = [x.decode("latin-1") if isinstance(x, bytes) else x for x in split(self.alphabet)]
        place = len(letters) ** np.arange(self.length - 1, -1, -1)
        digits = codes.astype(np.int64)[:, None] // place % max(1, len(letters))
        return ["".join(letters[i] for i in word) for word in digits.tolist()]

    @speaks("Mismatch")
    def _near_words(self, X: StringCollection) -> tuple[sp.csr_array, np.ndarray]:
        """Return n_γ(s) for the words γ that are near some substring, and the numbers of those."""
        a, p = len(self.alphabet), self.length
        starts, rows = places(X, p)
        letters = numbered(self.alphabet, X)
        every = lexicographic(letters, p, a + 1)[0][starts]
        windows, which = np.unique(every, return_inverse=True)
        held = rows_of_counts(len(X), rows, which, np.ones(len(rows)), len(windows))
        digits = windows[:, None] // (a + 1) ** np.arange(p - 1, -1, -1) % (a + 1)
        owners, words = neighbours(digits, a, self._most)
        known = np.arange(a**p) if a**p <= FEW else None
        if known is None:
            known, words = np.unique(words, return_inverse=True)
        shape = len(windows), len(known)
        near = sp.csr_array((np.ones(len(owners)), (owners, words)), shape=shape)
        return sp.csr_array(held @ near), known

    # -- by the places where two substrings differ --------------------------------------------
    @speaks("Mismatch")
    def _matches(self, X: StringCollection) -> tuple[np.ndarray, int]:
        # Where all words are near, foreign letters are as good as others.
        foreign = len(self.alphabet) if self.mismatches < self.length else -1
        return numbered(self.alphabet, X), foreign

    def _table(self, foreign: bool) -> np.ndarray:
        p, m, a = int(self.length), self._most, len(self.alphabet)
        if m == p:
            return np.full((1, 1, 1, p + 1), as_float(a**p))
        size = m + 1
        require_memory(
            8 * size**2 * (2 * (p + 1) ** 2 + foreign * size * max(size**2, p)),
            f"{self}: a table of the words near two windows",
            "Allow fewer mismatches",
        )
        with np.errstate(over="ignore", invalid="ignore"):
            table = words_near_both(p, m, a, foreign)
        return np.where(np.isnan(table), np.inf, table)

    # -- features -----------------------------------------------------------------------------
    def _n_features(self, X: Any) -> int | None:
        if self.alphabet is None or not self._numbered:
            return None
        return words_of(self.alphabet, self.length)

    def _features(self, X: StringCollection) -> sp.csr_array:
        D = self._n_features(X)
        self._require_words(X, D is not None)
        phi, words = self._near_words(X)
        index = words.astype(phi.indices.dtype)[phi.indices]
        return sp.csr_array((phi.data, index, phi.indptr), shape=(len(X), D))

    def _require_words(self, X: StringCollection, numbered: bool) -> None:
        """Refuse words without a number, and more of them than memory has room for."""
        if not numbered:
            raise InvalidInput(
                f"Mismatch: there are {len(self.alphabet)}^{self.length} words, more than a sparse "
                "matrix has columns, or too long for numbers of 64 bits. Use the kernel itself, a "
                "shorter length or fewer letters."
            )
        windows = windows_of(X, self.length)
        require_memory(
            OCCURRENCE_BYTES * windows * self._near,
            f"{self}: the features of {windows} substrings",
            "Allow fewer mismatches",
        )


def neighbours(digits: np.ndarray, a: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which window, and the number of a word near it, for all words near each window.

    Parameters
    ----------
    digits : ndarray of shape (windows, p)
        Letters 0 … a − 1; a stands for a letter that no word has.
    a : int
        Letters of the alphabet.
    most : int
        Places that may differ.
    """
    if a == 1:  # one word, near to windows with few foreign letters
        (owners_,) = np.nonzero(digits.sum(axis=1) <= most)
        return owners_, np.zeros(len(owners_), dtype=np.int64)
    p = digits.shape[1]
    place = a ** np.arange(p - 1, -1, -1)
    owners, words = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for d in range(most + 1):
        letters = np.indices((a,) * d).reshape(d, -1) if d else np.zeros((0, 1), dtype=np.int64)
        for changed in map(list, combinations(range(p), d)):
            kept = np.setdiff1d(np.arange(p), changed)
            legal = np.flatnonzero((digits[:, kept] < a).all(axis=1))
            new = np.ones((len(legal), letters.shape[1]), dtype=bool)
            for j, letter in zip(changed, letters, strict=True):
                new &= letter != digits[legal, j][:, None]
            number = (digits[legal][:, kept] @ place[kept])[:, None] + place[changed] @ letters
            owners.append(np.repeat(legal, new.sum(axis=1)))
            words.append(number[new])
    return np.concatenate(owners), np.concatenate(words)


@lru_cache(maxsize=16)
def words_near_both(p: int, m: int, a: int, foreign: bool) -> np.ndarray:
    """Return how many words of a letters are within m places of two windows of p letters.

    Entry [f, g, b, e] is for f letters of the one and g of the other window outside the alphabet,
    b of them in one place, and e places that agree; f = g = b = 0 alone if none is foreign. A word
    is built place by place: the power of x counts where it differs from the one window, the power
    of y where from the other. Places that agree have 1 + (a − 1)xy, places that differ
    x + y + (a − 2)xy, foreign ones of the first window x + (a − 1)xy, of the second y + (a − 1)xy,
    of both a·xy; products are cut at powers of m.
    """
    agree = {(0, 0): 1.0, (1, 1): a - 1.0}
    differ = {(1, 0): 1.0, (0, 1): 1.0, (1, 1): a - 2.0}
    first = {(1, 0): 1.0, (1, 1): a - 1.0}
    second = {(0, 1): 1.0, (1, 1): a - 1.0}
    both = {(1, 1): float(a)}

    def powers(P: np.ndarray, factor: dict[tuple[int, int], float], most: int) -> np.ndarray:
        """Return P, P·factor, … P·factorᵐᵒˢᵗ, stacked in front."""
        out = [P]
        for _ in range(most):
            next_ = np.zeros_like(P)
            for (i, j), c in factor.items():
                next_[..., i:, j:] += c * out[-1][..., : m + 1 - i, : m + 1 - j]
            out.append(next_)
        return np.stack(out)

    one = np.zeros((m + 1, m + 1))
    one[0, 0] = 1.0
    known = powers(powers(one, agree, p), differ, p)  # [places that differ, places that agree]
    # The coefficients of a product up to the power m in both: one factor against sums of the other.
    sums = known.cumsum(axis=-1).cumsum(axis=-2)[..., ::-1, ::-1]
    most = m if foreign else 0
    odd = powers(powers(powers(one, both, most), second, most), first, most)
    table = np.zeros((most + 1, most + 1, most + 1, p + 1))
    f, g, b = (index.ravel() for index in np.indices(table.shape[:3]))
    for t in range(min(p, 2 * most) + 1):  # places with a foreign letter
        at = np.flatnonzero((f + g - b == t) & (b <= np.minimum(f, g)))
        rows = odd[f[at] - b[at], g[at] - b[at], b[at]].reshape(len(at), -1)
        e = np.arange(p - t + 1)
        columns = sums[p - t - e, e].reshape(len(e), -1)
        table[f[at], g[at], b[at], : p - t + 1] = rows @ columns.T
    table.flags.writeable = False
    return table


# ---- `GappedKmer`: windows that agree in a number of places, wherever in the window these are ----


CHOICE_BYTES = 1000  # of a choice of places, though no window be there


class GappedKmer(MatchedWindows, ViewedWindows):
    r"""The gapped k-mer kernel k(s, t) = Σᵤᵥ C(ℓ − h(u, v), q) over windows u of s and v of t.

    Windows have ℓ letters and h counts the places where two of them differ, so the binomial
    coefficient is the number of ways to choose q places at which they agree. With q = ℓ it is
    `Spectrum`. A string shorter than ℓ has no windows and all its values are 0.

    *Valid when* always: each choice of q places of a window, with the letters found there, is a
    feature, and k is the inner product of the counts of these.

    Parameters
    ----------
    length : int ≥ 1, default=6
        Letters ℓ of a window.
    matches : int ≥ 1, default=4
        Places q that must agree. With more than ℓ there are none, and all values are 0.
    alphabet : str, bytes or list of letters, optional
        The letters that `features` has columns for, as in `Spectrum`; no value depends on it.

    Notes
    -----
    Either the C(ℓ, q) choices of every window are counted, or windows are compared pair by pair in
    time |s|·|t|, whichever takes less time. With an alphabet of a letters, `features` has
    C(ℓ, q)·a^q columns. As in `Spectrum`, more than 7 letters below U+0100 or 2 of any kind are
    hashed.

    References
    ----------
    M. Ghandi, D. Lee, M. Mohammad-Noori, M. A. Beer, "Enhanced regulatory sequence prediction using
    gapped k-mer features", PLoS Computational Biology 10(7), 2014.

    Examples
    --------
    >>> from mercer import GappedKmer
    >>> GappedKmer(3, 2)(["cat", "car", "dog"])
    array([[3., 1., 0.],
           [1., 3., 0.],
           [0., 0., 3.]])
    """

    alphabet: Any

    def __init__(self, length: int = 6, matches: int = 4, *, alphabet: Any = None):
        super().__init__(length=length, matches=matches, alphabet=alphabet)

    def _check_params(self) -> None:
        check_whole("length", self.length, 1)
        check_whole("matches", self.matches, 1)
        self.alphabet = check_alphabet(self.alphabet)

    def _found_in(self, X: StringCollection) -> dict[str, Any]:
        if self.matches > self.length:
            why = "a window cannot agree in more places than it has"
            warn_all_zero(self, why, "use fewer matches or a larger length")
        return super()._found_in(X)

    def _choices(self) -> int:
        return comb(int(self.length), int(self.matches))

    def _views(self) -> Iterator[View]:
        for chosen in combinations(range(self.length), self.matches):
            yield self.length, chosen, 1.0

    def _parts(self, X: StringCollection) -> Iterator[Counts]:
        choices = self._choices()
        require_memory(
            choices * (CHOICE_BYTES + OCCURRENCE_BYTES * windows_of(X, self.length)),
            f"{self}: {choices:.3g} choices of places in every window",
            "Use the kernel itself, which compares windows pair by pair",
        )
        if not choices:
            none = np.zeros(0, dtype=np.int64)
            yield Counts(len(X), none, none.astype(np.uint64))
        yield from super()._parts(X)

    def _width(self, alphabet: Any) -> int | None:
        words = words_of(alphabet, int(self.matches))
        columns = None if words is None else self._choices() * words
        return columns if columns is not None and columns <= LARGEST else None

    def _spread(self, X: StringCollection) -> tuple[float, float]:
        choices = as_float(self._choices())
        return choices, choices * float(len(np.unique(X.codes))) ** self.matches

    def _matches(self, X: StringCollection) -> tuple[np.ndarray, int]:
        return X.codes, 2**31

    def _table(self, foreign: bool) -> np.ndarray:
        table = [as_float(comb(e, int(self.matches))) for e in range(self.length + 1)]
        return np.array(table).reshape(1, 1, 1, -1)
