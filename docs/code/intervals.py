"""A domain of one's own, intervals of the line, and a kernel on it."""

from typing import Any

import numpy as np

from mercer.domains import Domain
from mercer.domains.packed import one_column
from mercer.errors import InvalidInput
from mercer.io import register
from mercer.kernels import Pairwise


class Intervals(Domain):
    """Intervals [a, b] of the line, a ≤ b; canonical is an array of shape (n, 2)."""

    name = "intervals"

    def check(self, X: Any, name: str = "X") -> np.ndarray:
        """Return the ends as an array, or say which interval is none."""
        numbers = isinstance(X, np.ndarray) and X.dtype.kind in "fiu"
        rows = X if numbers else one_column(X, name, "intervals")  # of lists, columns, frames
        kind = np.float32 if numbers and X.dtype == np.float32 else np.float64
        try:
            ends = np.array(rows, dtype=kind)  # a copy, to which nobody else writes
        except (TypeError, ValueError):
            ends = np.zeros(0)
        if ends.ndim != 2 or ends.shape[1] != 2:
            raise InvalidInput(f"Intervals: {name} holds no pairs of numbers; give rows (a, b).")
        bad = np.flatnonzero(~np.isfinite(ends).all(axis=1) | (ends[:, 0] > ends[:, 1]))
        if len(bad):
            a, b = ends[bad[0]].tolist()
            raise InvalidInput(
                f"Intervals: {name} holds ({a:g}, {b:g}) at row {bad[0]}; legal are finite ends "
                "a ≤ b. Swap them, or drop the row."
            )
        return ends

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Return n random intervals, for the laws of `mercer.testing`."""
        return np.sort(rng.uniform(0.0, 10.0, (n, 2)), axis=1)


@register
class Overlap(Pairwise):
    """The length of x ∩ x′.

    *Valid when* always: it is ∫ 1ₓ(t) 1ₓ′(t) dt, the inner product of the indicator functions.
    """

    domain = Intervals()

    def __init__(self) -> None:
        super().__init__()

    def _pair(self, x: Any, y: Any) -> float:
        return max(0.0, min(x[1], y[1]) - max(x[0], y[0]))
