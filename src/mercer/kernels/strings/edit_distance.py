"""`EditDistance`: how few changes turn one string into another, as a similarity."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.kernels.checks import check_number
from mercer.kernels.strings.paired import Paired, run_through

__all__ = ["EditDistance"]

CALL = 2**22  # columns of 64 letters a call may take


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
        check_number("EditDistance", "length_scale", self.length_scale, 0.0)

    def _distances(self, X: Any, left: np.ndarray, Y: Any, right: np.ndarray) -> np.ndarray:
        from mercer.jit.strings import add_distances

        steps = np.empty(int(Y.lengths[right].max(initial=0)), dtype=np.int8)
        out = np.empty(len(left))
        pairs = X.codes, X.offsets, left, Y.codes, Y.offsets, right
        run_through(len(left), lambda at, row: add_distances(*pairs, steps, out, at, row, CALL))
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
