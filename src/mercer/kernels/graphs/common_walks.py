"""Sums over the common walks of labelled or directed graphs, pair by pair of graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains.graphs.collection import GraphCollection
from mercer.engines.budget import require_memory
from mercer.errors import InvalidInput
from mercer.kernels.bound import Bound
from mercer.kernels.graphs.edges import PACE
from mercer.kernels.graphs.spectra import radii_of

__all__ = ["CommonBound"]

USUAL = 30  # products with A× that a pair of graphs takes, about
GOAL = 1e-13  # residual of conjugate gradients, relative to the solution
CERTIFIED = 1e-12  # the same, computed anew
ROUNDS = 6  # times that conjugate gradients start over from a residual computed anew
LAST = 1e-17  # term of a series, relative to the sum
MOST = 1_000_000  # products with A× before a series is given up


class Side:
    """One collection as the loops take it: edges of a node in the order of their labels."""

    def __init__(self, X: GraphCollection):
        self.indices, self.weights, self.edge_labels = X.indices, X.weights, X.edge_labels
        if X.edge_labelled:
            order = np.lexsort((X.edge_labels, X.sources))
            arrays = (self.indices, self.weights, self.edge_labels)
            self.indices, self.weights, self.edge_labels = (a[order] for a in arrays)
        self.labels, self.indptr, self.offsets = X.node_labels, X.indptr, X.node_offsets
        self.sizes = np.diff(self.offsets)
        self.arcs = np.diff(self.indptr[self.offsets])
        self.radii = radii_of(X)

    def arrays(self, g: int) -> tuple[Any, ...]:
        """Return what the loops take for graph g."""
        start = int(self.offsets[g])
        return self.labels, self.indptr, self.indices, self.weights, self.edge_labels, start

    def labels_of(self, g: int) -> np.ndarray:
        """Return the node labels of graph g."""
        return self.labels[self.offsets[g] : self.offsets[g + 1]]


class CommonBound(Bound):
    """Tiles of 1ᵀ(I − λA×)⁻¹1 or 1ᵀexp(λA×)1 on the product graph of like nodes."""

    def __init__(self, kernel: Any, X: GraphCollection, Y: GraphCollection | None = None):
        super().__init__(kernel, X, Y)
        self._left = Side(X)
        kernel._check_radii(self._left.radii, "X")
        self._right = self._left
        if Y is not None:
            self._right = Side(Y)
            kernel._check_radii(self._right.radii, "Y")
        a, b = self._left, self._right
        most = int(a.sizes.max(initial=0)) * int(b.sizes.max(initial=0))
        require_memory(
            6 * 8 * most, f"RandomWalk: two graphs with {most} pairs of nodes", "Use smaller graphs"
        )
        self._directed = X.directed or (Y is not None and Y.directed)
        means = [float(v.mean()) if len(v) else 0.0 for v in (a.sizes, a.arcs, b.sizes, b.arcs)]
        work = means[1] * means[2] + means[0] * means[3] + means[0] * means[2]
        self.tile_entries = max(1, int(PACE / (USUAL * max(1.0, work))))
        self.flagged = False

    def tile(self, rows: slice, cols: slice) -> np.ndarray:
        """Return k on the given rows and columns."""
        return self._both(rows, cols)[0]

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> np.ndarray:
        """Return Σ Cᵢⱼ ∂Kᵢⱼ/∂ log λ over a tile."""
        return np.array([float((C * self._both(rows, cols)[1]).sum())])

    def _both(self, rows: slice, cols: slice) -> np.ndarray:
        """Return values and derivatives on a tile; a tile on the diagonal by halves."""
        out = np.empty((2, rows.stop - rows.start, cols.stop - cols.start))
        mirrored = self.symmetric and rows == cols
        for a in range(out.shape[1]):
            for b in range(a if mirrored else 0, out.shape[2]):
                out[:, a, b] = self._pair(rows.start + a, cols.start + b)
                if mirrored:
                    out[:, b, a] = out[:, a, b]
        return out

    def _pair(self, i: int, j: int) -> tuple[float, float]:
        """Return the value for two graphs and its derivative in log λ."""
        a, b = self._left, self._right
        p = (a.labels_of(i)[:, None] == b.labels_of(j)).astype(float)
        if not p.any():
            return 0.0, 0.0
        work = a.arcs[i] * b.sizes[j] + a.sizes[i] * b.arcs[j] + 4 * p.size
        steps = max(1, int(PACE / work))
        graphs = (*a.arrays(i), *b.arrays(j))
        if self.kernel.kind == "geometric" and not self._directed:
            return self._solved(graphs, p, steps)
        rate = float(self.kernel.decay * a.radii[i] * b.radii[j])
        return self._summed(graphs, p, steps, rate)

    def _solved(self, graphs: tuple, p: np.ndarray, steps: int) -> tuple[float, float]:
        """Return pᵀx and λxᵀA×x for the solution x of (I − λA×)x = p, A× symmetric.

        With a residual r the value pᵀx + xᵀr is wrong only by rᵀ(I − λA×)⁻¹r.
        """
        from mercer.jit.graphs import common_step, conjugate_steps

        decay = float(self.kernel.decay)
        x, r, q, row = np.zeros(p.shape), p, np.empty(p.shape), np.empty(p.shape[1])
        for _ in range(ROUNDS):
            r, d = r.copy(), r.copy()
            done, left = False, MOST
            while not done and left > 0:
                done = conjugate_steps(*graphs, decay, x, r, d, q, row, GOAL, steps)
                left -= steps
            common_step(*graphs, x, row, q)
            r = p - x + decay * q
            if (r * r).sum() <= CERTIFIED**2 * (x * x).sum():
                return float((p * x).sum() + (x * r).sum()), decay * float((x * q).sum())
        raise self._slow()

    def _summed(self, graphs: tuple, p: np.ndarray, steps: int, rate: float) -> tuple[float, float]:
        """Return Σ cₖλᵏ 1ᵀA×ᵏp and Σ k cₖλᵏ 1ᵀA×ᵏp, term by term."""
        from mercer.jit.graphs import series_steps

        geometric, decay = self.kernel.kind == "geometric", float(self.kernel.decay)
        x, q, row = p.copy(), np.empty(p.shape), np.empty(p.shape[1])
        sums = np.array([0.0, p.sum(), 0.0])
        goal = LAST * (1 - rate) if geometric else LAST  # the terms to come fall by this rate
        while sums[0] < MOST:
            if series_steps(*graphs, decay, geometric, x, q, row, sums, goal, steps):
                return float(sums[1]), float(sums[2])
        raise self._slow()

    def _slow(self) -> InvalidInput:
        return InvalidInput(
            f"{self.name}: the sum over walks converges too slowly on these graphs, as decay is "
            "next to its largest legal value; try half of it."
        )
