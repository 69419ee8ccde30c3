"""Chebyshev moments of a matrix on some nodes: every function of it there is a sum of them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

__all__ = ["Moments"]


class Moments:
    """Tₖ(S)ᵢⱼ for the pairs of some nodes, k = 0, 1, …, as many as were asked for so far.

    f(M) on these nodes is Σₖ cₖ Tₖ(S), where only the cₖ depend on f. So a search over the decay of
    a kernel multiplies by S as often as the longest series needs, not once for each decay.

    Parameters
    ----------
    S : csr_array
        A symmetric matrix with its spectrum in [−1, 1].
    nodes : ndarray of int64
        The rows and columns that are wanted.
    parts : list of slice
        Which of the columns are multiplied by S at once.
    """

    def __init__(self, S: sp.csr_array, nodes: np.ndarray, parts: list[slice]):
        self._S, self._nodes, self._parts = S, nodes, parts
        self._terms = [(nodes[:, None] == nodes).astype(float)]
        self._pairs: list[tuple[np.ndarray, np.ndarray]] = []  # Tₖ₋₁ and Tₖ on all rows

    @staticmethod
    def size(n: int, m: int, terms: int) -> int:
        """Return the bytes that so many moments of m nodes of n take."""
        return 8 * m * (2 * n + m * terms)

    def sum(self, coefficients: np.ndarray) -> np.ndarray:
        """Return Σₖ cₖ Tₖ(S) on the nodes."""
        while len(self._terms) < len(coefficients):
            self._advance()
        total = np.zeros_like(self._terms[0])
        for c, term in zip(coefficients, self._terms, strict=False):
            total += c * term
        return total

    def _advance(self) -> None:
        """Append the next moment: Tₖ₊₁ = 2STₖ − Tₖ₋₁, and T₁ = S."""
        first = not self._pairs
        following = []
        for i, part in enumerate(self._parts):
            if first:
                before = np.zeros((self._S.shape[0], part.stop - part.start))
                before[self._nodes[part], np.arange(before.shape[1])] = 1.0
                following.append((before, self._S @ before))
                continue
            before, now = self._pairs[i]
            image = self._S @ now
            image *= 2.0
            image -= before
            following.append((now, image))
        self._pairs = following
        self._terms.append(np.hstack([now[self._nodes] for _, now in following]))
