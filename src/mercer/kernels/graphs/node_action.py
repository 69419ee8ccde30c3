"""Functions f(M) of a symmetric matrix M of a graph: by eigenvectors, or acting on columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.engines.budget import require_memory
from mercer.engines.tiles import row_blocks
from mercer.errors import InvalidInput
from mercer.kernels.graphs.node_moments import Moments
from mercer.settings import get_config

__all__ = ["NodeMatrix", "Scalar", "laplacian_of"]

DENSE_NODES = 3000  # up to here one eigendecomposition answers everything; 2 s and 72 MB
COLUMNS = 64  # columns of f(M) at once, which one pass over the edges serves
TERMS = 2**15  # of a Chebyshev series; then the matrix is too stiff for it
SWEEPS = 100  # of the power method, for a bound of the spectrum
SMALL = 64  # nodes up to which Lanczos' method is not asked

Scalar = Callable[[np.ndarray], np.ndarray]


class NodeMatrix:
    """A symmetric sparse matrix M over the nodes of a graph, and functions f(M) of it.

    Few nodes: M = UΛUᵀ once, then f(M) = U f(Λ) Uᵀ for every f. Many nodes: columns of f(M) by a
    series of Chebyshev polynomials on an interval that holds the spectrum, of which only products
    with M are asked; never a matrix of all pairs of nodes.

    Parameters
    ----------
    matrix : csr_array
        M, symmetric.
    top : float, default=inf
        A number that no eigenvalue exceeds, where one is known: 0 for −L. Computed eigenvalues
        and bounds exceed it by rounding, and f may be large or have a kink beyond it.
    """

    def __init__(self, matrix: sp.csr_array, top: float = np.inf):
        self.matrix = matrix
        self.top = top
        self.n = int(matrix.shape[0])
        self._moments: dict[bytes, Moments] = {}  # of the nodes that were asked for last

    @property
    def dense(self) -> bool:
        """Whether the eigenvectors are few enough for the machine and for the memory budget."""
        return self.n <= DENSE_NODES and 5 * 8 * self.n**2 <= get_config().memory // 2

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and eigenvectors."""
        if self.n == 0:
            return np.zeros(0), np.zeros((0, 0))
        values, U = np.linalg.eigh(self.matrix.toarray())
        return np.minimum(values, self.top), U

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Two numbers between which all eigenvalues are.

        Rounding in exp(λM) is relative to exp of λ times the upper one, and the terms of a series
        grow with their distance, so both have to be near the eigenvalues.
        """
        return -upper_bound(-self.matrix), min(upper_bound(self.matrix), self.top)

    @property
    def largest(self) -> float:
        """The largest eigenvalue, or a number just above it."""
        if not self.n:
            return 0.0
        return float(self.spectrum[0][-1]) if self.dense else self.interval[1]

    # -- f(M) ---------------------------------------------------------------------------------
    def block(self, f: Scalar, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """Return f(M) on some rows and columns, working on the fewer of both."""
        if self.dense:
            values, U = self.spectrum
            return (U[rows] * f(values)) @ U[cols].T
        if rows is cols:
            return self._square(f, rows)
        if len(rows) < len(cols):
            return self.block(f, cols, rows).T
        return self._columns(f, rows, cols)

    def _columns(self, f: Scalar, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        out = np.empty((len(rows), len(cols)))
        for part in self.parts(len(cols)):
            out[:, part] = self.act(f, self._units(cols[part]))[rows]
        return out

    def _square(self, f: Scalar, nodes: np.ndarray) -> np.ndarray:
        """Return f(M) on pairs of nodes, from moments that are kept for the next f."""
        coefficients = chebyshev(f, *self.interval)
        if Moments.size(self.n, len(nodes), len(coefficients)) > get_config().memory // 8:
            return self._columns(f, nodes, nodes)
        key = nodes.tobytes()
        moments = self._moments.pop(key, None)  # out of the reach of other threads while in use
        if moments is None:
            moments = Moments(self._scaled, nodes, self.parts(len(nodes)))
        out = moments.sum(coefficients)
        self._moments = {key: moments}
        return out

    def diagonal(self, f: Scalar, index: np.ndarray) -> np.ndarray:
        """Return f(M)ᵢᵢ for some nodes."""
        if self.dense:
            values, U = self.spectrum
            return (U[index] ** 2) @ f(values)
        out = np.empty(len(index))
        for part in self.parts(len(index)):
            columns = self.act(f, self._units(index[part]))
            out[part] = columns[index[part], np.arange(columns.shape[1])]
        return out

    def _units(self, index: np.ndarray) -> np.ndarray:
        V = np.zeros((self.n, len(index)))
        V[index, np.arange(len(index))] = 1.0
        return V

    def parts(self, m: int) -> list[slice]:
        """Cut m columns so that six arrays of them stay inside the budget."""
        column = 6 * 8 * self.n
        require_memory(column, f"f(M) on a graph of {self.n} nodes", "Take a smaller graph")
        width = min(COLUMNS, row_blocks(m, column)[0].stop or 1)
        return [slice(i, min(i + width, m)) for i in range(0, m, width)]

    def act(self, f: Scalar, V: np.ndarray) -> np.ndarray:
        """Return f(M) V as Σₖ cₖ Tₖ(S) V, where S is M moved and scaled to the interval [−1, 1].

        Clenshaw, A note on the summation of Chebyshev series (1955), gives the recursion
        Tₖ₊₁ = 2STₖ − Tₖ₋₁; the cₖ are found by `chebyshev`, so the error is that of rounding.
        """
        S, coefficients = self._scaled, chebyshev(f, *self.interval)
        total = coefficients[0] * V
        before, now = V, S @ V
        for c in coefficients[1:]:
            total += c * now
            following = S @ now
            following *= 2.0
            following -= before
            before, now = now, following
        return total

    @cached_property
    def _scaled(self) -> sp.csr_array:
        low, high = self.interval
        half = 0.5 * (high - low) or 1.0
        return ((self.matrix - 0.5 * (low + high) * sp.eye_array(self.n)) / half).tocsr()


def upper_bound(M: sp.csr_array) -> float:
    """Return a number that no eigenvalue of a symmetric M exceeds, and that is near the largest.

    xᵀMx ≤ |x|ᵀN|x|, where N has the moduli of M beside its diagonal; and for every x > 0 no
    eigenvalue of N is above maxᵢ (Nx)ᵢ/xᵢ (Collatz and Wielandt), a bound that falls as x runs
    through the power method from x = 1, Gershgorin's bound. Where it stays above Lanczos' largest
    Ritz value, as it does when M has negative entries beside the diagonal, that value and a margin
    of 1e-3 replaces it.
    """
    diagonal = M.diagonal()
    off = sp.csr_array(M - sp.diags_array(diagonal))
    N = abs(off)
    x = np.ones(M.shape[0])
    spread = float(np.linalg.norm(N @ x)) / len(x) ** 0.5
    shift = 0.5 * spread - float(diagonal.min())  # N + shift·I ≥ 0, and has no period
    best = np.inf
    for _ in range(SWEEPS):
        image = N @ x + (diagonal + shift) * x
        ratios = image / x
        best, least = min(best, float(ratios.max())), float(ratios.min())
        if best - least <= 1e-4 * spread:
            break
        x = np.maximum(image / image.max(), 1e-200)  # parts of the graph must not vanish
    bound = best - shift + 1e-14 * abs(best)
    loose = best - least > 1e-2 * spread or (off.data < 0).any()
    if loose and len(x) > SMALL:
        bound = min(bound, _ritz(M) + 1e-3 * spread)
    return bound


def _ritz(M: sp.csr_array) -> float:
    from scipy.sparse.linalg import ArpackError, eigsh

    start = np.random.default_rng(0).standard_normal(M.shape[0])  # the same every time
    try:
        return float(eigsh(M, 1, which="LA", v0=start, tol=1e-4, maxiter=20)[0][0])
    except ArpackError:
        return np.inf


def chebyshev(f: Scalar, low: float, high: float) -> np.ndarray:
    """Return the coefficients of f in Chebyshev polynomials on [low, high], all that matter.

    Values at Chebyshev points are turned into coefficients by a cosine transform; their number
    doubles until the last quarter is rounding. The error of the cut series is at most the sum of
    what is left out. See Trefethen, Approximation Theory and Approximation Practice, chapters 3-8.
    A function that lives near one end only may escape all points: the series must also give its
    values at points that approach both ends.
    """
    from numpy.polynomial.chebyshev import chebval
    from scipy.fft import dct

    ends = 2.0 ** -np.arange(50)
    probes = np.concatenate([ends - 1, 1 - ends, [-1.0, 1.0]])
    there = f(0.5 * (low + high) + 0.5 * (high - low) * probes)
    m = 16
    while True:
        angles = np.pi * (np.arange(m) + 0.5) / m
        # Below the upper end by (1 − cos)/2 of the width, with all digits of a small distance.
        values = f(high - (high - low) * np.sin(0.5 * angles) ** 2)
        size = max(float(np.abs(values).max()), float(np.abs(there).max()))
        c = dct(values, type=2) / m
        c[0] *= 0.5
        small = float(np.abs(c[-(m // 4) :]).max()) <= 1e-15 * size
        if small and np.abs(chebval(probes, c) - there).max() <= 1e-9 * size:
            kept = np.flatnonzero(np.abs(c) > 1e-16 * size)
            return c[: int(kept[-1]) + 1 if len(kept) else 1]
        if m >= TERMS:
            raise InvalidInput(
                f"f(M) of a graph with eigenvalues from {low:.3g} to {high:.3g} needs more than "
                f"{TERMS} products with M; use a smaller decay, or weights that differ less."
            )
        m *= 2


def laplacian_of(A: Any, *, normalized: bool = False) -> sp.csr_array:
    """Return L = D − A, or I − D^(−1/2) A D^(−1/2), whose row of a node without edges is zero."""
    degrees = np.asarray(A.sum(axis=1)).reshape(-1)
    L = sp.diags_array(degrees) - A
    if not normalized:
        return sp.csr_array(L)
    root = np.where(degrees > 0, 1 / np.sqrt(np.where(degrees > 0, degrees, 1.0)), 0.0)
    return sp.csr_array(sp.diags_array(root) @ L @ sp.diags_array(root))
