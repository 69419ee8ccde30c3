"""`Subsequence`: letters that two strings have in common in the same order, gaps weighted down."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.engines.budget import require_memory
from mercer.errors import InvalidInput
from mercer.kernels.base import DEFAULT_BOUNDS
from mercer.kernels.checks import check_number, check_whole
from mercer.kernels.scales import point_weights
from mercer.kernels.strings.paired import Paired, require_finite, run_through
from mercer.kernels.strings.windows import warn_if_short
from mercer.settings import get_config

__all__ = ["Subsequence"]

LONGEST = 100  # letters of a subsequence: the loop is compiled for each number of them
SMALLEST = -690.0  # log of the smallest λ^(2p), 1e-300
CALL = 2**25  # pairs of letters a call may take, times length


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
        check_whole("Subsequence", "length", self.length, 1)
        if self.length > LONGEST:
            raise InvalidInput(
                f"Subsequence: length={self.length}; at most {LONGEST} letters. Longer common "
                "parts are the business of Spectrum or LocalAlignment."
            )
        check_number("Subsequence", "decay", self.decay, 0.0)
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
        from mercer.jit.strings import LANES, add_pairs, workspace

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
            f"{self!r}: {LANES} strings of up to {longest[1]} letters side by side in each thread",
            "Cut the strings into pieces, use fewer threads",
        )
        codes, numbers = workspace(*longest, p, kinds)
        decay, levels = float(self.decay), ((0.0,) * kinds,) * p
        first = X.codes, X.offsets, left
        second = Y.codes, Y.offsets, right
        work = decay, levels, codes, numbers, part
        budget = CALL // (p * kinds)
        run_through(len(left), lambda at, row: add_pairs(*first, *second, *work, at, row, budget))
        out[fits] = part
        return out
