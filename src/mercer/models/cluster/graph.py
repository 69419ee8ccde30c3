"""Graphs that are stored by their edges: those of nearest neighbours, and sparse affinities."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_solve_banded, cholesky_banded
from scipy.sparse.csgraph import reverse_cuthill_mckee

from mercer.domains import GramRows
from mercer.errors import InvalidInput, who
from mercer.kernels import Kernel
from mercer.memory import require_memory, row_blocks
from mercer.models.cluster.affinity import ROUNDING, NormalisedAffinity
from mercer.operators import Operator, find_nearest, neighbour_bytes
from mercer.settings import get_config

EDGE = 48  # bytes of an edge while a graph is made symmetric
WORK = 2e10  # flops of a factorisation: a few seconds, in which Ctrl-C is not heard
FEWEST = 6  # products before a factorisation
PACE = 400  # flops a row and vector of one product and what it takes to keep a basis orthogonal


def graph_bytes(n: int, k: int) -> int:
    """Return the bytes that the search for k neighbours of n points and their graph take."""
    return n * (neighbour_bytes(k) + 2 * EDGE * k)


def neighbour_graph(
    kernel: Kernel, X: Any, weights: np.ndarray, diagonal: np.ndarray, k: int
) -> sp.csr_array:
    """Return ½(C + Cᵀ), cᵢⱼ = 1 where point j is point i or one of its k − 1 nearest others.

    Parameters
    ----------
    kernel : Kernel
        The kernel, without words, whose distances in feature space count.
    X : canonical collection
        Different points.
    weights : ndarray of shape (n,)
        Points of weight 0 have no edges.
    diagonal : ndarray of shape (n,)
        k(x, x).
    k : int
        Neighbours, the point itself counted; all points where there are fewer.
    """
    there, n = np.flatnonzero(weights > 0), len(weights)
    near = min(k, len(there)) - 1
    require_memory(
        graph_bytes(n, near),
        f"{who()}: the graph of {near} neighbours of {n} points",
        "Give a smaller n_neighbors",
    )
    ends = there[:, None]
    if near:
        points = kernel.domain.subset(X, there)
        where = find_nearest(kernel, None, points, diagonal[there], near)[1]
        ends = np.column_stack([ends, there[where]])
    starts = np.repeat(there, near + 1)
    C = sp.csr_array((np.full(len(starts), 0.5), (starts, ends.ravel())), shape=(n, n))
    return sp.csr_array(C + C.T)


def neighbour_sums(
    kernel: Kernel, Q: Any, X: Any, diagonal: np.ndarray, k: int, values: np.ndarray
) -> np.ndarray:
    """Return the sum of rows of `values` over the k nearest points X of each of the points Q."""
    domain = kernel.domain
    Q, X = domain.match(Q, X)
    k = min(k, len(diagonal))
    out = np.empty((domain.size(Q), values.shape[1]))
    for rows in row_blocks(len(out), neighbour_bytes(k) + 8 * k * values.shape[1]):
        some, known = domain.take(Q, rows), domain.holds_points
        where = find_nearest(kernel, some, X, diagonal, k, known=known)[1]
        out[rows] = values[where].sum(axis=1)
    return out


class SparseAffinity(NormalisedAffinity):
    """I + S of `NormalisedAffinity` for affinities of which only those above 0 are stored.

    Parameters
    ----------
    A : csr_array of shape (n, n)
        Affinities; refused where some are negative, or A is not symmetric.
    weights : ndarray of shape (n,)
        Weights of the points.
    """

    cheap = True
    matrix: Any

    def __init__(self, A: Any, weights: np.ndarray):
        self.weights, self.shape = weights, A.shape
        self.matrix, self.owned = A, True
        low = float(A.data.min(initial=0.0))
        if low < -ROUNDING * float(A.data.max(initial=0.0)):
            at = A.tocoo()
            j = int(at.data.argmin())
            self._refuse_negative(at.row[j], at.col[j])
        GramRows().check_square(A)
        self.diagonals = np.asarray(A.diagonal(), dtype=float)
        # As with a matrix of its own, what is left of the diagonal stands in the matrix.
        share = np.maximum(weights - 1.0, 0.0) / np.where(weights > 0, weights, 1.0)
        at = A.tocoo()
        apart = at.row != at.col
        rows, cols, values = at.row[apart], at.col[apart], np.maximum(at.data[apart], 0.0)
        edges = sp.csr_array((values, (rows, cols)), shape=A.shape)
        self.matrix = sp.csr_array(edges + sp.diags_array(share * self.diagonals, format="csr"))
        self.loops = np.zeros(len(weights))
        self._normalise(self.matrix @ weights)

    def rows_of(self, index: np.ndarray) -> np.ndarray:
        """Return rows of A at these positions."""
        return np.asarray(self.matrix[index].toarray())

    def affinity(self, V: np.ndarray) -> np.ndarray:
        """Return A V."""
        return np.asarray(self.matrix @ V)

    def diagonal(self) -> np.ndarray:
        """Return the diagonal."""
        return np.asarray(self.scale**2 * self.matrix.diagonal() + self.inside)

    # -- a factorisation ----------------------------------------------------------------------
    def patience(self, width: int) -> int | None:
        """Return how many products take as long as the Cholesky factor of a band matrix.

        The order of Cuthill and McKee keeps edges near the diagonal, and tells before any work
        what the factor takes. Where that is too much, as of graphs without any shape, there are
        eigenvalues with gaps, which products find.
        """
        n = self.shape[0]
        self.order = reverse_cuthill_mckee(sp.csr_matrix(self.matrix), symmetric_mode=True)
        self.place = np.empty(n, dtype=np.int64)
        self.place[self.order] = np.arange(n)
        at = self.matrix.tocoo()
        self.band = int(np.abs(self.place[at.row] - self.place[at.col]).max(initial=0))
        if 8 * n * (self.band + 1) > get_config().memory // 2 or n * self.band**2 > WORK:
            return None
        return max(FEWEST, self.band**2 // (PACE * width))

    def inverse(self, sigma: float) -> Any:
        """Return ((1 + σ)I − S)⁻¹."""
        return _BandInverse(self, sigma)


class _BandInverse(Operator):
    """((1 + σ)I − S)⁻¹ by a Cholesky factor of the rows in an order that makes it a band."""

    symmetric = psd = True

    def __init__(self, S: SparseAffinity, sigma: float):
        self.S, self.shape, n = S, S.shape, S.shape[0]
        at = S.matrix.tocoo()
        i, j = S.place[at.row], S.place[at.col]
        below = i > j
        band = np.zeros((S.band + 1, n), order="F")  # as LAPACK has it: no copies are made
        values = -S.scale[at.row] * at.data * S.scale[at.col]
        band[(i - j)[below], j[below]] = values[below]
        band[0] = (2.0 + sigma - S.diagonal())[S.order]
        try:
            self.factor = cholesky_banded(band, overwrite_ab=True, lower=True, check_finite=False)
            self.failed = False
        except LinAlgError:
            self.failed = True

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        out = cho_solve_banded((self.factor, True), V[self.S.order], check_finite=False)
        return np.asarray(out[self.S.place])

    def forward(self, V: np.ndarray) -> np.ndarray:
        """Return S V."""
        return np.asarray(self.S.matmul(V) - V)


def require_neighbours(k: int, n: int) -> None:
    """Refuse more neighbours than there are points, the point itself counted."""
    if k > n:
        raise InvalidInput(
            f"{who()}: n_neighbors={k} with n_samples={n} points of positive weight; give at most "
            f"{n} (a point counts as the first of its neighbours), or more points."
        )
