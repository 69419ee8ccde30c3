"""Sums over walks of undirected graphs without labels, from the eigenvalues of each graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains.graphs.collection import GraphCollection
from mercer.domains.graphs.rows import sources_of
from mercer.engines.budget import require_memory
from mercer.kernels.bound import Bound
from mercer.kernels.graphs.edges import PACE

__all__ = ["SpectralBound", "adjacency", "radii_of"]

TINY = 1e-26  # share of the nodes below which an eigenvector adds nothing to any sum


def adjacency(X: GraphCollection, g: int) -> np.ndarray:
    """Return the adjacency matrix of graph g, dense."""
    begin, end = X.node_offsets[g : g + 2]
    n = int(end - begin)
    require_memory(
        4 * 8 * n * n, f"RandomWalk: the eigenvalues of a graph of {n} nodes", "Use smaller graphs"
    )
    A = np.zeros((n, n))
    edges = slice(X.indptr[begin], X.indptr[end])
    A[sources_of(X.indptr[begin : end + 1]), X.indices[edges] - begin] = X.weights[edges]
    return A


def radii_of(X: GraphCollection) -> np.ndarray:
    """Return the largest absolute eigenvalue of each adjacency matrix, 0 without nodes."""
    values = np.linalg.eigvals if X.directed else np.linalg.eigvalsh
    return np.array([np.abs(values(adjacency(X, g))).max(initial=0.0) for g in range(len(X))])


class Spectra:
    """For each graph the eigenvalues μ of A and the (uᵀ1)² of their eigenvectors u, packed.

    1ᵀf(A)1 = Σ (uᵀ1)² f(μ). Eigenvectors orthogonal to 1 are left out. The largest eigenvalue of a
    connected part has (uᵀ1)² ≥ 1, as its eigenvector does not change sign, so that what is left
    out is small beside it.
    """

    def __init__(self, X: GraphCollection):
        values, sizes, radii = [np.empty(0)], [np.empty(0)], np.zeros(len(X))
        for g in range(len(X)):
            mu, U = np.linalg.eigh(adjacency(X, g))
            size = U.sum(axis=0) ** 2
            kept = size > TINY * len(mu)
            values.append(mu[kept])
            sizes.append(size[kept])
            radii[g] = np.abs(mu).max(initial=0.0)
        self.values, self.sizes, self.radii = np.concatenate(values), np.concatenate(sizes), radii
        self.offsets = np.cumsum([len(v) for v in values])

    def arrays(self, part: slice) -> tuple[Any, ...]:
        """Return what `spectral_sums` takes."""
        return self.values, self.sizes, self.offsets, part.start, part.stop


class SpectralBound(Bound):
    """Tiles Σ a b f(λμν) over two spectra, and their derivatives in log λ."""

    def __init__(self, kernel: Any, X: GraphCollection, Y: GraphCollection | None = None):
        super().__init__(kernel, X, Y)
        self._left = Spectra(X)
        kernel._check_radii(self._left.radii, "X")
        self._right = self._left
        if Y is not None:
            self._right = Spectra(Y)
            kernel._check_radii(self._right.radii, "Y")
        per = [max(1.0, len(s.values) / max(1, len(s.radii))) for s in (self._left, self._right)]
        self.tile_entries = max(1, int(PACE / (per[0] * per[1])))
        self.flagged = False

    def _both(self, rows: slice, cols: slice) -> tuple[np.ndarray, np.ndarray]:
        from mercer.jit.graphs import spectral_sums

        shape = (rows.stop - rows.start, cols.stop - cols.start)
        out, slopes = np.empty(shape), np.empty(shape)
        kernel = self.kernel
        spectral_sums(
            *self._left.arrays(rows), *self._right.arrays(cols),
            float(kernel.decay), kernel.kind == "geometric", out, slopes,
        )  # fmt: skip
        return out, slopes

    def tile(self, rows: slice, cols: slice) -> np.ndarray:
        """Return k on the given rows and columns."""
        return self._both(rows, cols)[0]

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> np.ndarray:
        """Return Σ Cᵢⱼ ∂Kᵢⱼ/∂ log λ over a tile."""
        return np.array([float((C * self._both(rows, cols)[1]).sum())])
