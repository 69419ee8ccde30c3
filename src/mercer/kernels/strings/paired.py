"""`Paired`: kernels whose values a compiled loop computes pair by pair, and their tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mercer.checks import check_parameter, check_whole
from mercer.domains import Strings
from mercer.errors import InvalidInput
from mercer.kernels.base import DEFAULT_BOUNDS, Kernel
from mercer.kernels.bound import Bound
from mercer.kernels.scales import point_weights
from mercer.kernels.strings.counted import warn_if_short
from mercer.memory import require_memory
from mercer.settings import get_config

TILE_NS = 1e7  # work of a tile, in nanoseconds
CALL_NS = 3e7  # work of one call of a compiled loop, which Ctrl-C cannot interrupt
PAIR_NS = 100.0  # what a pair costs before its letters are looked at
FEWEST = 64  # entries of the smallest tile: loops that run several pairs side by side need them


class Paired(Kernel):
    """A kernel computed by a programme over two sequences, of cost |x|·|x′| a pair.

    An author writes ``_pairs(X, left, Y, right)``, the values k(x_l, y_r) for arrays of positions
    in two packed collections that have ``lengths``, and, where there are log-parameters,
    ``_slopes`` with the same arguments, the derivatives in them, one row a pair. Pairs come in an
    order in which neighbours have similar lengths, and in calls short enough to be interrupted;
    only what takes longer than that by itself, ``_abreast`` pairs, must be cut by the author.
    """

    domain = Strings()
    workspace = 8
    #: Nanoseconds for one letter of x against one of x′.
    _pace: float = 1.0
    #: Pairs that the compiled loop runs side by side, which a call is given at least.
    _abreast: int = 1

    def _cells(self, n: Any, m: Any) -> Any:
        """Return how many cells the programme fills for two sequences of n and m letters."""
        return n * m

    def _pairs(self, X: Any, left: np.ndarray, Y: Any, right: np.ndarray) -> np.ndarray:
        raise InvalidInput(f"{type(self).__name__}: define _pairs(X, left, Y, right).")

    def _slopes(self, X: Any, left: np.ndarray, Y: Any, right: np.ndarray) -> np.ndarray:
        return np.zeros((len(left), 0))

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return PairedBound(self, X, Y)

    def _diag(self, X: Any) -> np.ndarray:
        order = np.argsort(X.lengths, kind="stable")
        out = np.empty(len(order))
        for part in _calls(self, X, order, X, order):
            out[order[part]] = self._pairs(X, order[part], X, order[part])
        return out

    def _pull_diag(self, X: Any, c: Any) -> np.ndarray:
        order = np.argsort(X.lengths, kind="stable")
        total = np.zeros(len(self.theta))
        if len(total):
            for part in _calls(self, X, order, X, order):
                slopes = self._slopes(X, order[part], X, order[part])
                total += (np.asarray(c)[order[part], None] * slopes).sum(axis=0)
        return total


class PairedBound(Bound):
    """Tiles of pairs; one on the diagonal of a symmetric matrix is computed by halves."""

    def __init__(self, kernel: Paired, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        self.flagged = False
        letters = [float(Z.lengths.mean()) if len(Z) else 0.0 for Z in self.collections]
        cost = PAIR_NS + kernel._pace * kernel._cells(*letters)
        self.tile_entries = max(FEWEST, int(TILE_NS / cost))

    def _listed(self, rows: slice, cols: slice) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs of a tile in an order in which lengths change little."""
        X, Y = self.collections
        i = rows.start + np.argsort(X.lengths[rows], kind="stable")
        j = cols.start + np.argsort(Y.lengths[cols], kind="stable")
        right = np.tile(j, (len(i), 1))
        right[1::2] = right[1::2, ::-1]
        left, right = np.repeat(i, len(j)), right.reshape(-1)
        if self._halved(rows, cols):
            keep = left <= right
            return left[keep], right[keep]
        return left, right

    def _halved(self, rows: slice, cols: slice) -> bool:
        return self.symmetric and rows == cols

    def tile(self, rows: slice, cols: slice) -> np.ndarray:
        """Return k on a tile."""
        X, Y = self.collections
        left, right = self._listed(rows, cols)
        out = np.empty((rows.stop - rows.start, cols.stop - cols.start))
        for part in _calls(self.kernel, X, left, Y, right):
            l, r = left[part], right[part]
            values = self.kernel._pairs(X, l, Y, r)
            out[l - rows.start, r - cols.start] = values
            if self._halved(rows, cols):
                out[r - rows.start, l - cols.start] = values
        return out

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> np.ndarray:
        """Return Σ Cᵢⱼ ∂Kᵢⱼ/∂θ over a tile."""
        X, Y = self.collections
        total = np.zeros(len(self.kernel.theta))
        if not len(total):
            return total
        if self._halved(rows, cols):
            C = np.triu(C) + np.tril(C, -1).T
        left, right = self._listed(rows, cols)
        for part in _calls(self.kernel, X, left, Y, right):
            l, r = left[part], right[part]
            weights = C[l - rows.start, r - cols.start]
            total += (weights[:, None] * self.kernel._slopes(X, l, Y, r)).sum(axis=0)
        return total


def run_through(count: int, go_on: Callable[[int, int], tuple[int, int]]) -> None:
    """Call a loop that stops now and then until all pairs are done.

    ``go_on(at, row)`` starts at a pair and a row of it, and returns where it stopped.
    """
    at = row = 0
    while at < count:
        at, row = go_on(at, row)


def require_finite(kernel: Kernel, values: np.ndarray, X: Any, Y: Any, cure: str) -> np.ndarray:
    """Return kernel values, or refuse those beyond the largest float."""
    if not np.isfinite(values).all():
        longest = max(int(Z.lengths.max(initial=0)) for Z in (X, Y))
        raise InvalidInput(
            f"{kernel}: a kernel value of strings of up to {longest} letters is too large for a "
            f"float, also where it is to be normalised. {cure}, or cut the strings into pieces."
        )
    return values


def _calls(kernel: Paired, X: Any, left: np.ndarray, Y: Any, right: np.ndarray) -> Iterator[slice]:
    """Cut a list of pairs into runs of about `CALL_NS` of work."""
    work = np.cumsum(PAIR_NS + kernel._pace * kernel._cells(X.lengths[left], Y.lengths[right]))
    start = 0
    while start < len(work):
        done = work[start - 1] if start else 0.0
        stop = max(start + kernel._abreast, int(np.searchsorted(work, done + CALL_NS)))
        yield slice(start, stop)
        start = stop


# ---- `Subsequence`: letters that two strings have in common in the same order, gaps weighted
# down.


LONGEST = 100  # letters of a subsequence: the loop is compiled for each number of them
SMALLEST = -690.0  # log of the smallest λ^(2p), 1e-300
SUBSEQUENCE_CALL = 2**25  # pairs of letters a call may take, times length


class Subsequence(Paired):
    r"""Subsequence kernel of strings: Σ_u Σ_{s[i]=u} Σ_{t[j]=u} λ^(l(i)+l(j)).

    The sum is over all strings u of p letters, and all the ways to pick u out of s and out of t:
    increasing positions i = (i₁, …, i_p), which stretch over l(i) = i_p − i₁ + 1 letters. Letters
    need not be neighbours, but each position stretched over costs a factor λ. With λ → 0 only
    contiguous strings count; with λ = 1 gaps are free.

    *Valid when* p ≥ 1 and λ > 0: it is the inner product of the features
    φ_u(s) = Σ_{s[i]=u} λ^l(i). There are |alphabet|^p of them, which are never written out. λ is
    held to (0, 1], where it is a decay.

    Parameters
    ----------
    length : int, default=2
        The number p of letters of a common subsequence, from 1 to 100. Strings that are shorter
        have none: all their values are 0.
    decay : float, default=0.5
        The factor λ for each position, in (0, 1]. It may be tuned: `theta` is its logarithm.

    Notes
    -----
    O(p·|s|·|t|) a pair and memory for p·|t| numbers, by the recursion of Lodhi, Saunders,
    Shawe-Taylor, Cristianini and Watkins (2002), eight pairs at a time. Only sums of positive
    terms: values are exact to rounding. Values grow with the lengths: ``normalized()`` divides
    them out.

    Examples
    --------
    >>> from mercer.kernels import Subsequence
    >>> Subsequence(2, 0.5)(["cat", "car", "bat"])  # λ⁴ = 1/16 for the common "ca" or "at"
    array([[0.140625, 0.0625  , 0.0625  ],
           [0.0625  , 0.140625, 0.      ],
           [0.0625  , 0.      , 0.140625]])
    >>> Subsequence(2, 0.5).normalized()(["cat"], ["car"])  # 1/(2 + λ²)
    array([[0.44444444]])
    """

    _tunable = ("decay",)
    _abreast = 8

    def __init__(self, length: int = 2, decay: float = 0.5):
        super().__init__(length=length, decay=decay)

    def _check_params(self) -> None:
        check_whole("length", self.length, 1)
        if self.length > LONGEST:
            raise InvalidInput(
                f"Subsequence: length={self.length}; at most {LONGEST} letters. Longer common "
                "parts are the business of Spectrum or LocalAlignment."
            )
        check_parameter("decay", self.decay, 0.0)
        if self.decay > 1:
            raise InvalidInput(f"Subsequence: decay={self.decay!r}; it must be in (0, 1].")
        if 2 * self.length * np.log(float(self.decay)) < SMALLEST:
            raise InvalidInput(
                f"Subsequence: decay={self.decay!r} with length={self.length}: kernel values of "
                "decay^(2·length) are too small for floating point; use a larger decay."
            )

    def _asks(self) -> bool:
        return True

    def _resolve(self, X: Any, sample_weight: Any) -> dict[str, Any]:
        kept = X.take(np.flatnonzero(point_weights(len(X), sample_weight) > 0))
        warn_if_short(self, kept, int(self.length))
        return {}

    @property
    def bounds(self) -> np.ndarray:
        """Bounds of `theta`: up to a decay of 1, down to where values can still be told from 0."""
        low = max(np.log(DEFAULT_BOUNDS[0]), SMALLEST / (2 * self.length))
        return np.array([[low, 0.0]])

    @property
    def _pace(self) -> float:  # type: ignore[override]
        return 0.07 * self.length

    def _pairs(self, X: Any, left: np.ndarray, Y: Any, right: np.ndarray) -> np.ndarray:
        p, decay = int(self.length), float(self.decay)
        values = decay ** (2 * p) * self._sums(X, left, Y, right, 1)[:, 0]
        return require_finite(self, values, X, Y, "Use a smaller decay or length")

    def _slopes(self, X: Any, left: np.ndarray, Y: Any, right: np.ndarray) -> np.ndarray:
        p, decay = int(self.length), float(self.decay)
        values, slopes = self._sums(X, left, Y, right, 2).T
        return decay ** (2 * p) * (2 * p * values + slopes)[:, None]

    def _sums(self, X: Any, left: np.ndarray, Y: Any, right: np.ndarray, kinds: int) -> np.ndarray:
        """Return sums of λ^(gaps), and beside them their derivatives in log λ for two kinds."""
        from mercer.jit import LANES, add_pairs, workspace

        p = int(self.length)
        n, m = X.lengths[left], Y.lengths[right]
        out = np.zeros((len(left), kinds))
        (fits,) = np.nonzero(np.minimum(n, m) >= p)
        if not len(fits):
            return out
        left, right, part = left[fits], right[fits], np.empty((len(fits), kinds))
        longest = int(n[fits].max()), int(m[fits].max())
        require_memory(
            8 * LANES * kinds * p * longest[1] * get_config().threads,
            f"{self}: {LANES} strings of up to {longest[1]} letters side by side in each thread",
            "Cut the strings into pieces, use fewer threads",
        )
        codes, numbers = workspace(*longest, p, kinds)
        decay, levels = float(self.decay), ((0.0,) * kinds,) * p
        first = X.codes, X.offsets, left
        second = Y.codes, Y.offsets, right
        work = decay, levels, codes, numbers, part
        budget = SUBSEQUENCE_CALL // (p * kinds)
        run_through(len(left), lambda at, row: add_pairs(*first, *second, *work, at, row, budget))
        out[fits] = part
        return out


# ---- `EditDistance`: how few changes turn one string into another, as a similarity ----


EDIT_CALL = 2**22  # columns of 64 letters a call may take


class EditDistance(Paired):
    r"""Similarity exp(−d(s, t)/ℓ) of the edit distance d of two strings.

    d is Levenshtein's distance: the least number of letters to insert, delete or replace that
    turns s into t.

    *Not positive semidefinite*: d is a metric, but not one of points in a Hilbert space, so some
    matrices have negative eigenvalues, and `psd` is False. Models that need a kernel refuse it;
    ``repaired("clip")`` or ``repaired("shift")`` makes it one. The five strings of the example
    below are a counterexample. With ℓ small the matrix is near the identity, and definite unless
    there are many strings.

    Parameters
    ----------
    length_scale : float, default=1.0
        The number ℓ > 0 of changes over which the similarity falls by the factor e. It has exact
        gradients, but a repaired kernel, which models ask for, is not tuned by them: search a grid
        of ``kernel__kernel__length_scale``.

    Notes
    -----
    O(|s|·|t|/64) a pair, by the bits of whole words (Myers 1999, Hyyrö 2003).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import check_kernel
    >>> from mercer.kernels import EditDistance
    >>> k = EditDistance(length_scale=8.0)
    >>> -8 * np.log(k(["kitten"], ["sitting", "mitten", ""]))  # the distances
    array([[3., 1., 6.]])
    >>> k.psd, bool(check_kernel(k, ["b", "aa", "ab", "ba", "bb"]))
    (False, False)
    """

    psd = False
    _tunable = ("length_scale",)
    _pace = 0.1

    def __init__(self, length_scale: float = 1.0):
        super().__init__(length_scale=length_scale)

    def _check_params(self) -> None:
        check_parameter("length_scale", self.length_scale, 0.0)

    def _distances(self, X: Any, left: np.ndarray, Y: Any, right: np.ndarray) -> np.ndarray:
        from mercer.jit import add_distances

        steps = np.empty(int(Y.lengths[right].max(initial=0)), dtype=np.int8)
        out = np.empty(len(left))
        pairs = X.codes, X.offsets, left, Y.codes, Y.offsets, right
        run_through(
            len(left), lambda at, row: add_distances(*pairs, steps, out, at, row, EDIT_CALL)
        )
        return out

    def _pairs(self, X: Any, left: np.ndarray, Y: Any, right: np.ndarray) -> np.ndarray:
        return np.exp(-self._distances(X, left, Y, right) / float(self.length_scale))

    def _slopes(self, X: Any, left: np.ndarray, Y: Any, right: np.ndarray) -> np.ndarray:
        scaled = self._distances(X, left, Y, right) / float(self.length_scale)
        return (scaled * np.exp(-scaled))[:, None]

    def _diag(self, X: Any) -> np.ndarray:
        return np.ones(len(X))

    def _pull_diag(self, X: Any, c: Any) -> np.ndarray:
        return np.zeros(1)


# ---- `LongestCommonSubstring`: how long a piece two strings share ----


SUBSTRING_CALL = 2**26  # pairs of letters a call may take


class LongestCommonSubstring(Paired):
    r"""Similarity of two strings: the number of letters of their longest common substring.

    A substring is a run of neighbouring letters. s with itself gives |s|, so ``normalized()``
    divides by √(|s|·|t|).

    *Not positive semidefinite*: the longest is a maximum, not a sum over substrings, so some
    matrices have negative eigenvalues, and `psd` is False. Models that need a kernel refuse it;
    ``repaired("clip")`` or ``repaired("shift")`` makes it one. `Spectrum` counts all common
    substrings of a length, and is a kernel. A counterexample are the strings a, b, ab, ba with
    coefficients c = (2, 2, −1, −1): cᵀKc = −2.

    Notes
    -----
    O(|s|·|t|) a pair, several letters at a time.

    Examples
    --------
    >>> from mercer import check_kernel
    >>> from mercer.kernels import LongestCommonSubstring
    >>> k = LongestCommonSubstring()
    >>> k(["banana", "ananas"], ["bandana", ""])
    array([[3., 0.],
           [3., 0.]])
    >>> k.psd, bool(check_kernel(k, ["a", "b", "ab", "ba"]))
    (False, False)
    """

    psd = False
    _pace = 0.2

    def __init__(self) -> None:
        super().__init__()

    def _pairs(self, X: Any, left: np.ndarray, Y: Any, right: np.ndarray) -> np.ndarray:
        from mercer.jit import add_runs

        runs = np.empty((2, int(Y.lengths[right].max(initial=0)) + 1), dtype=np.int32)
        out = np.empty(len(left))
        pairs = X.codes, X.offsets, left, Y.codes, Y.offsets, right
        run_through(len(left), lambda at, row: add_runs(*pairs, runs, out, at, row, SUBSTRING_CALL))
        return out

    def _diag(self, X: Any) -> np.ndarray:
        return X.lengths.astype(float)
