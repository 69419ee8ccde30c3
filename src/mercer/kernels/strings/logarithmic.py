"""`Logarithmic`: kernels known by log k, whose values may leave the range of floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.kernels.base import Kernel
from mercer.kernels.strings.paired import Paired, PairedBound

__all__ = ["LogBound", "Logarithmic"]

LARGEST = float(np.log(np.finfo(np.float64).max))
LONG = 1 << 21  # cells of one pair beyond which its rows are shared out among several calls


class Logarithmic(Paired):
    """A kernel k ≥ 0 of two sequences, computed by its logarithm.

    An author writes ``_computed(X, left, Y, right, sloped=...)``: log k of pairs as `Paired` lists
    them, and, where asked for, its derivatives in the one log-parameter. Values that overflow are
    refused, and `normalized` works with the logarithms.
    """

    def _computed(
        self, X: Any, left: np.ndarray, Y: Any, right: np.ndarray, *, sloped: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        raise InvalidInput(f"{type(self).__name__}: define _computed(X, left, Y, right, sloped=).")

    def _pairs(self, X: Any, left: np.ndarray, Y: Any, right: np.ndarray) -> np.ndarray:
        return self._computed(X, left, Y, right, sloped=False)[0]

    def _slopes(self, X: Any, left: np.ndarray, Y: Any, right: np.ndarray) -> np.ndarray:
        return self._computed(X, left, Y, right, sloped=True)[1][:, None]

    def _bind(self, X: Any, Y: Any = None) -> LogBound:
        return LogBound(self, X, Y)

    def _log_diag(self, X: Any) -> np.ndarray:
        """Return log k(xᵢ, xᵢ)."""
        return super()._diag(X)

    def _pull_log_diag(self, X: Any, c: Any) -> np.ndarray:
        """Return Σᵢ cᵢ ∂log k(xᵢ, xᵢ)/∂θ."""
        return super()._pull_diag(X, c)

    def _diag(self, X: Any) -> np.ndarray:
        logs = self._log_diag(X)
        return _exponential(self, logs, f"at point {int(np.argmax(logs)) if len(logs) else 0}")

    def _pull_diag(self, X: Any, c: Any) -> np.ndarray:
        return self._pull_log_diag(X, c * self._diag(X))


class LogBound(PairedBound):
    """Tiles exp(log k)."""

    def log_tile(self, rows: slice, cols: slice) -> np.ndarray:
        """Return log k on a tile; −∞ where k is 0."""
        return super().tile(rows, cols)

    def pull_log_theta(self, rows: slice, cols: slice, C: Any) -> np.ndarray:
        """Return Σ Cᵢⱼ ∂log Kᵢⱼ/∂θ over a tile."""
        return super().pull_theta(rows, cols, C)

    def tile(self, rows: slice, cols: slice) -> np.ndarray:
        """Return k on a tile, or refuse values that no float can hold."""
        where = f"in rows {rows.start} to {rows.stop - 1} of X"
        return _exponential(self.kernel, self.log_tile(rows, cols), where)

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> np.ndarray:
        """Return Σ Cᵢⱼ Kᵢⱼ ∂log Kᵢⱼ/∂θ over a tile."""
        if not len(self.kernel.theta):
            return np.zeros(0)
        return self.pull_theta_with(rows, cols, C, self.tile(rows, cols))

    def pull_theta_with(self, rows: slice, cols: slice, C: Any, tile: Any) -> np.ndarray:
        """Return `pull_theta`, given the kernel values of the tile."""
        return self.pull_log_theta(rows, cols, C * tile)


def is_long(n: int, m: int) -> bool:
    """Whether one pair of sequences is too much work for one call of a compiled loop."""
    return n * m > LONG


def row_runs(n: int, m: int) -> list[tuple[int, int]]:
    """Return first and last row of runs of about `LONG` cells of an n × m programme."""
    step = max(1, LONG // max(1, m))
    return [(first, min(first + step, n)) for first in range(0, n, step)]


def _exponential(kernel: Kernel, logs: np.ndarray, where: str) -> np.ndarray:
    """Return exp(logs), or say where that overflows."""
    top = logs.max(initial=-np.inf)
    if not top <= LARGEST:
        raise InvalidInput(
            f"{kernel!r}: k(x, y) is exp({top:.6g}) {where}, too large for a float: the number of "
            "alignments grows exponentially with the length. Use kernel.normalized(), which "
            "computes with logarithms; on a column of a table, kernel.normalized().on(column)."
        )
    return np.exp(logs)
