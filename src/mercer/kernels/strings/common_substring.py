"""`LongestCommonSubstring`: how long a piece two strings share."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.kernels.strings.paired import Paired, run_through

__all__ = ["LongestCommonSubstring"]

CALL = 2**26  # pairs of letters a call may take


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
        from mercer.jit.strings import add_runs

        runs = np.empty((2, int(Y.lengths[right].max(initial=0)) + 1), dtype=np.int32)
        out = np.empty(len(left))
        pairs = X.codes, X.offsets, left, Y.codes, Y.offsets, right
        run_through(len(left), lambda at, row: add_runs(*pairs, runs, out, at, row, CALL))
        return out

    def _diag(self, X: Any) -> np.ndarray:
        return X.lengths.astype(float)
