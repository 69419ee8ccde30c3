"""`StreamPass`: passes over rows that come in blocks, each in memory for its turn."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains.row_blocks import RowBlocks
from mercer.engines.passes import MemoryPass, RowPass, Step

__all__ = ["StreamPass"]


class StreamPass(RowPass):
    """Rows that come in blocks, each in memory for its turn."""

    def __init__(self, kernel: Any, rows: RowBlocks, Z: Any):
        self.kernel, self.rows, self.Z = kernel, rows, Z
        self.n, self.m = rows.n_rows, kernel.domain.size(Z)

    def pull(self, V: np.ndarray | None, step: Step) -> tuple[np.ndarray, np.ndarray]:
        """Return Σ Kᵀ G and the sums, block by block in their order."""
        out, sums = np.zeros((self.m, step.width)), np.zeros(step.n_sums)
        for block in self.rows:
            X = self.kernel.domain.check(block.X, "X")
            part = MemoryPass(self.kernel, X, self.Z, block.y, block.weight)
            G, s = part.pull(V, step)
            out += G
            sums += s
        return out, sums
