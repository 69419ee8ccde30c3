"""The normalised affinity of a weighted graph, multiplied without a second matrix."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg.blas import dsymm

from mercer.errors import InvalidInput, who
from mercer.features import equal_points
from mercer.kernels import Kernel
from mercer.lapack import dpotrf, dpotrs, times
from mercer.memory import require_memory, row_blocks, smaller_rank
from mercer.operators import Operator, gram_of, spread
from mercer.settings import get_config
from mercer.solvers import DenseEigen, Eigen, EigenPairs, Solution, SubspaceIteration, rpcholesky

ROUNDING = 1e-12  # part of the largest affinity below which a negative one is rounding
LOST = 1e-4  # part of k(x, x) below which a degree has lost digits to it


class NormalisedAffinity(Operator):
    r"""I + S with S = D^−½ (W^½ A W^½ − diag) D^−½, of eigenvalues between 0 and 2.

    A are the kernel values, W the weights, and the degrees are those of a graph in which row i
    stands for wᵢ copies and no copy is its own neighbour,

        dᵢ = Σ_{j≠i} wⱼ aᵢⱼ + max(wᵢ − 1, 0) aᵢᵢ.

    Eigenvectors z belong to those of the graph of the copies that are the same for all copies:
    u = z/√(wd). Rows of weight 0 are not in the graph, but have a degree to be placed by.

    Attributes
    ----------
    degrees : ndarray of shape (n,)
        d.
    present : ndarray of bool
        The rows that are in the graph: of positive weight and degree.
    matrix : ndarray or None
        A in memory; its diagonal is replaced where the operator made the array.
    """

    symmetric = psd = True
    cheap = False  # whether another factorisation costs little

    def __init__(self, kernel: Kernel, X: Any, weights: np.ndarray):
        self.kernel, self.weights = kernel, weights
        n = kernel.domain.size(X)
        self.shape = (n, n)
        self.matrix, self.owned = None, False
        self.gram = gram_of(kernel, X)
        if not kernel.domain.holds_points:
            self.matrix = self.gram.kept()
            self._refuse_negative_values()  # before the diagonal is taken for squared lengths
        if self.matrix is None and self.gram.nbytes <= get_config().memory // 2:
            self.matrix, self.owned = self.gram.to_dense(), True
            self._refuse_negative_values()
        self.diagonals = np.asarray(kernel.diag(X), dtype=float)
        self.loops = np.minimum(weights, 1.0) * self.diagonals  # what no copy is to itself
        if self.owned:
            # What is left of the diagonal is put into the matrix: no digits are lost to it.
            share = np.maximum(weights - 1.0, 0.0) / np.where(weights > 0, weights, 1.0)
            np.fill_diagonal(self.matrix, share * self.diagonals)  # type: ignore[arg-type]
            self.loops = np.zeros(n)
        self._normalise(self._look())

    def _normalise(self, degrees: np.ndarray) -> None:
        """Note degrees, and what scales affinities by them."""
        weights, self.degrees = self.weights, degrees
        self.present = (weights > 0) & (self.degrees > 0)
        if not self.present.any():
            self._take_only_point()
        degrees = np.where(self.present, self.degrees, 1.0)
        self.scale = np.sqrt(np.where(self.present, weights / degrees, 0.0))
        # 0 for rows that are not in the graph: theirs are the smallest eigenvalues, no others.
        self.inside = np.where(self.present, 1.0 - self.loops / degrees, 0.0)

    # -- degrees ------------------------------------------------------------------------------
    def _look(self) -> np.ndarray:
        """Return the degrees, those of rows almost without neighbours with all their digits."""
        n, w = self.shape[0], self.weights
        if self.matrix is not None:
            degrees = self.matrix @ w
        else:
            degrees = self._look_at_tiles()
        degrees -= self.loops
        doubtful = np.flatnonzero(degrees <= LOST * self.loops)
        for part in row_blocks(len(doubtful), 32 * n):
            index = doubtful[part]
            rows = np.array(self.rows_of(index))
            rows[np.arange(len(index)), index] *= np.maximum(1 - 1 / np.maximum(w[index], 1), 0)
            degrees[index] = rows @ w
        return np.maximum(degrees, 0.0)

    def _take_only_point(self) -> None:
        """Take one point for a graph, and refuse several of which no two are neighbours."""
        there = self.weights > 0
        if there.sum() > 1:
            raise InvalidInput(
                f"{who()}: no two of {int(there.sum())} rows have an affinity above 0, so "
                "there is no graph. Take a wider kernel, such as one with a larger length_scale."
            )
        self.present, self.degrees = there, np.where(there, 1.0, self.degrees)
        self.loops = self.weights * self.diagonals * (not self.owned)

    def _look_at_tiles(self) -> np.ndarray:
        w = self.weights

        def step(rows: slice, T: np.ndarray) -> np.ndarray:
            return np.stack([T @ w, T.min(axis=1), T.max(axis=1)], axis=1)

        out = spread(self.gram.bound, np.empty((self.shape[0], 3)), step, arrays=1)
        i = int(out[:, 1].argmin())
        if out[i, 1] < -ROUNDING * float(out[:, 2].max()):
            self._refuse_negative(i, int(self.rows_of(np.array([i]))[0].argmin()))
        return out[:, 0].copy()

    def _refuse_negative_values(self) -> None:
        A: Any = self.matrix
        low = float(A.min(initial=0.0))
        if low < 0 and low < -ROUNDING * float(A.max()):
            self._refuse_negative(*np.unravel_index(int(A.argmin()), A.shape))

    def _refuse_negative(self, i: Any, j: Any) -> None:
        value = float(self.rows_of(np.array([int(i)]))[0][int(j)])
        raise InvalidInput(
            f"{who()}: Negative values in data: the affinity of rows {int(i)} and {int(j)} is "
            f"{value:.4g} < 0, which no edge of a graph can have. Use a kernel with values ≥ 0, "
            "such as 'rbf', or an even power of this one, k**2."
        )

    def rows_of(self, index: np.ndarray) -> np.ndarray:
        """Return rows of A at these positions."""
        if self.matrix is not None:
            return self.matrix[index]
        return self.gram.rows(index)

    # -- products -----------------------------------------------------------------------------
    def affinity(self, V: np.ndarray) -> np.ndarray:
        """Return A V."""
        return times(self.matrix, V) if self.matrix is not None else np.asarray(self.gram @ V)

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        if V.ndim == 1:
            return self._matmul(V[:, None])[:, 0]
        scale = self.scale[:, None]
        out = self.affinity(np.ascontiguousarray(scale * V))
        out *= scale
        out += self.inside[:, None] * V
        return out

    def staying(self, values: np.ndarray, U: np.ndarray) -> np.ndarray:
        """Return the Rayleigh quotients of columns of U in the walk that may stay where it is.

        With a copy its own neighbour, (Au)ᵢ = λdᵢuᵢ + min(wᵢ, 1) aᵢᵢuᵢ, and degrees grow alike.
        """
        squares = self.weights[:, None] * U**2
        stay = (np.minimum(self.weights, 1.0) * self.diagonals) @ squares
        walk = self.degrees @ squares
        return np.asarray((values * walk + stay) / (walk + stay))

    def placed(self, values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Return the embedding u = z/√(wd) of eigenvectors z."""
        U, there = np.zeros_like(vectors), self.present
        lengths = np.sqrt(self.weights[there] * self.degrees[there])
        U[there] = vectors[there] / lengths[:, None]
        return U

    def patience(self, width: int) -> int | None:
        """Return how many products with a block of vectors take as long as a factorisation.

        None where there is none, for want of the matrix or of memory. A product with a few vectors
        is one read of n² numbers, a factorisation n³/3 additions and multiplications: as long as
        n/300 products. With a copy to make it may take longer to begin.
        """
        n, half = self.shape[0], get_config().memory // 2
        able = n <= FACTORS and self.matrix is not None
        able = able and (self.owned or self.matrix.nbytes <= half)  # type: ignore[union-attr]
        return max(6, n // (300 if self.owned else 6 * width)) if able else None

    def inverse(self, sigma: float) -> Any:
        """Return ((1 + σ)I − S)⁻¹; a matrix of the operator's own is overwritten."""
        return _Inverse(self, sigma)

    def _block(self, rows: Any, cols: Any) -> np.ndarray:
        every = np.arange(self.shape[0])
        i, j = every[rows], every[cols]
        A = np.array(self.rows_of(i)[:, j], dtype=float)
        A *= self.scale[i][:, None]
        A *= self.scale[j]
        return A + np.where(i[:, None] == j, self.inside[i][:, None], 0.0)

    def diagonal(self) -> np.ndarray:
        """Return the diagonal."""
        inside = np.diagonal(self.matrix) if self.owned else self.diagonals  # type: ignore[arg-type]
        return np.asarray(self.scale**2 * inside + self.inside)


def copies_of(kernel: Any, X: Any, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return one position of each different row, and for every row the one that stands for it.

    Copies of a point are one point with their weight. Weights below 1 are no copies, and what are
    copies of what is not known of affinities: there every row stands for itself.
    """
    every = np.arange(len(w))
    there = np.flatnonzero(w > 0)
    if not kernel.domain.holds_points or w[there].min(initial=1.0) < 1:
        return every, every
    first = every.copy()
    first[there] = there[equal_points(kernel.domain.take(X, there))]
    index = np.flatnonzero(first == every)
    return index, np.searchsorted(index, first)


# ---- The normalised affinity of a graph too large for its matrix, from a factor of low rank ----


METHODS = ("auto", "exact", "nystrom")
MOST_EXACT = 50_000  # points up to which `auto` computes all kernel values
NYSTROM_ROUNDING = 1e-9  # part of the largest affinity below which a negative one is rounding
ALONE = 1e-6  # part of k(x, x) below which a degree is the error of the approximation


def default_rank(k: int) -> int:
    """Return the number of pivots for k clusters."""
    return max(100, 10 * k)


def pick_spectral_method(kernel: Kernel, n: int, rank: int) -> str:
    """Return "exact" where the matrix is small or must be used, else "nystrom" if that fits."""
    memory = get_config().memory
    if not kernel.domain.holds_points or not kernel.psd:
        return "exact"
    if n <= MOST_EXACT and 8 * n**2 <= memory // 2:
        return "exact"
    return "nystrom" if spectral_bytes(n, rank) <= memory else "exact"


def spectral_bytes(n: int, rank: int) -> int:
    return 2 * 8 * n * min(n, rank)


class LowRankAffinity(Operator):
    r"""I + S with S = D^−½ (W^½ Â W^½ − diag) D^−½ for Â = FᵀF ≈ A, multiplied by F alone.

    Entries of Â may be slightly negative, and rows of it that have almost nothing but their own
    entry would have a scale that is all error. D is therefore at least the part of the diagonal
    that is taken away, which makes I + S positive semidefinite: eigenvectors are those of the graph
    of Â where degrees are larger, as they are for all but outliers, and outliers are placed by
    their neighbours afterwards, in `placed`.

    Parameters
    ----------
    kernel : Kernel
        The kernel, without words, positive semidefinite and of values ≥ 0.
    X : canonical collection
        The points.
    weights : ndarray of shape (n,)
        Their weights.
    rank : int
        Most pivots.
    random_state : RandomState
        Source of the pivots.

    Attributes
    ----------
    degrees : ndarray of shape (n,)
        dᵢ = Σ_{j≠i} wⱼ âᵢⱼ + max(wᵢ − 1, 0) âᵢᵢ.
    present : ndarray of bool
        The rows that are in the graph: of positive weight and degree.
    error : float
        tr W(A − Â)/tr WA.
    """

    symmetric = psd = True
    matrix, owned = None, False

    def __init__(self, kernel: Kernel, X: Any, weights: np.ndarray, rank: int, random_state: Any):
        self.weights, n = weights, kernel.domain.size(X)
        self.shape = (n, n)
        require_memory(
            spectral_bytes(n, rank),
            f"{who()}: a factor of rank {min(rank, n)} of the affinities of {n} rows",
            f"Give a {smaller_rank(spectral_bytes(n, rank), min(n, rank))}",
        )
        A = gram_of(kernel, X)
        low = rpcholesky(A, rank, random_state, sample_weight=weights)
        self.F, self.error, self.rank = low.F, low.trace_error, low.rank
        self._refuse_negative(low.pivots)
        self.diagonals = np.einsum("ri,ri->i", self.F, self.F)
        self.loops = np.minimum(weights, 1.0) * self.diagonals  # what no copy is to itself
        self.degrees = self.F.T @ (self.F @ weights) - self.loops
        lengths = np.asarray(A.diagonal(), dtype=float)
        self.present = (weights > 0) & (self.degrees > ALONE * lengths)
        if not self.present.any():
            raise InvalidInput(
                f"{who()}: no two of {int((weights > 0).sum())} rows have an affinity that a "
                f"factor of rank {low.rank} shows. Take a wider kernel, such as one with a larger "
                "length_scale, a larger rank, or method='exact'."
            )
        self.degrees = np.where(self.present, self.degrees, 0.0)
        divisors = np.where(self.present, np.maximum(self.degrees, self.loops), 1.0)
        self.scale = np.sqrt(np.where(self.present, weights / divisors, 0.0))
        self.inside = np.where(self.present, 1.0 - self.loops / divisors, 0.0)

    def _refuse_negative(self, pivots: np.ndarray) -> None:
        """Refuse affinities below 0 among those of the pivots, which the factor has exactly."""
        for part in row_blocks(len(pivots), 8 * self.shape[0]):
            rows = self.F[:, pivots[part]].T @ self.F
            if rows.min() < -NYSTROM_ROUNDING * float(rows.max()):
                i, j = np.unravel_index(int(rows.argmin()), rows.shape)
                raise InvalidInput(
                    f"{who()}: Negative values in data: the affinity of rows "
                    f"{int(pivots[part][i])} and {int(j)} is {float(rows[i, j]):.4g} < 0, which no "
                    "edge of a graph can have. Use a kernel with values ≥ 0, such as 'rbf', or an "
                    "even power of this one, k**2."
                )

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        if V.ndim == 1:
            return self._matmul(V[:, None])[:, 0]
        scale = self.scale[:, None]
        out = self.F.T @ (self.F @ (scale * V))
        out *= scale
        out += self.inside[:, None] * V
        return np.asarray(out)

    def _block(self, rows: Any, cols: Any) -> np.ndarray:
        every = np.arange(self.shape[0])
        i, j = every[rows], every[cols]
        A = (self.F[:, i] * self.scale[i]).T @ (self.F[:, j] * self.scale[j])
        return A + np.where(i[:, None] == j, self.inside[i][:, None], 0.0)

    def diagonal(self) -> np.ndarray:
        """Return the diagonal."""
        return np.asarray(self.scale**2 * self.diagonals + self.inside)

    def patience(self, width: int) -> None:
        """Return None: there is no matrix to factorise."""

    def placed(self, values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Return the embedding u of eigenvectors z with eigenvalues λ of S.

        u = Z/√(wd), and where d was raised the mean of the neighbours, u = D⁻¹(Â − diag)Wu/λ.
        """
        U = np.zeros_like(vectors)
        there = self.present
        safe = np.where(self.weights > 0, self.weights, 1.0)
        U[there] = vectors[there] * (self.scale / safe)[there, None]
        raised = there & (self.degrees < self.loops)
        if raised.any():
            means = self.F[:, raised].T @ (self.F @ (self.weights[:, None] * U))
            means -= self.loops[raised][:, None] * U[raised]
            walk = np.where(np.abs(values) > ALONE, values, 1.0)
            U[raised] = means / self.degrees[raised][:, None] / walk
        return U

    def staying(self, values: np.ndarray, U: np.ndarray) -> np.ndarray:
        """Return the Rayleigh quotients of columns of U in the walk that may stay where it is."""
        squares = self.weights[:, None] * U**2
        stay, walk = self.loops @ squares, self.degrees @ squares
        return np.asarray((values * walk + stay) / (walk + stay))


# ---- The leading eigenvectors of a normalised affinity: by products, or by one factorisation ----


DENSE = 400  # rows up to which all of LAPACK's work is done in no time
MATRICES = 5  # that LAPACK takes then
FACTORS = 20000  # rows up to which a factorisation is worth trying
OVERSAMPLE = 10
FEW = 10  # steps with an inverse that tell whether another one is better
BAND = 32  # rows that are scaled while they are near the core


def leading_pairs(S: Any, k: int, tol: float, random_state: Any) -> Solution:
    """Return the k largest eigenvalues of S and their eigenvectors.

    Products first; where they cost as much as a factorisation without an end in sight, as with
    eigenvalues that crowd at 1, the inverse of (1 + σ)I − S is iterated with, which tells them
    apart. The matrix is overwritten then if it is the operator's own.
    """
    n = S.shape[0]
    width = k + OVERSAMPLE
    few = n <= max(DENSE, 4 * width) and 8 * MATRICES * n * n <= get_config().memory
    if few and S.matrix is not None:
        return _dense(S, k, tol)
    require_memory(
        8 * n * 10 * width, f"{who()}: the search for {k} eigenvectors of {n} rows",
        "Ask for fewer clusters",
    )  # fmt: skip
    limit = S.patience(width)
    solver = SubspaceIteration(tol / 2, limit or 1000, OVERSAMPLE, random_state)
    solution = _unshifted(solver.solve(Eigen(S, k)), tol)
    if solution.converged or limit is None:
        return solution
    return _by_inverse(S, k, tol, random_state, solution)


def _dense(S: NormalisedAffinity, k: int, tol: float) -> Solution:
    """Return the pairs by LAPACK, and how far the last one is from the next."""
    found = _unshifted(DenseEigen().solve(Eigen(S, min(k + 1, S.shape[0]))), tol)
    values, vectors = found.value.values, found.value.vectors
    gap = {"gap": float(values[k - 1] - values[k])} if k < int(S.present.sum()) else {}
    pairs = EigenPairs(values[:k].copy(), vectors[:, :k].copy())
    return replace(found, value=pairs, extra={**found.extra, **gap})


def _unshifted(solution: Solution, tol: float) -> Solution:
    """Return the solution for S from that for I + S, whose largest eigenvalue is 2."""
    pairs = solution.value
    residual = 2.0 * float(solution.residual or 0.0)
    good = residual <= tol
    return replace(
        solution,
        value=EigenPairs(pairs.values - 1.0, pairs.vectors),
        residual=residual,
        converged=good,
        message="" if good else solution.message,
    )


class _Inverse(Operator):
    """((1 + σ)I − S)⁻¹ by a Cholesky factor in the lower triangle; S stays in the upper one."""

    symmetric = psd = True

    def __init__(self, S: NormalisedAffinity, sigma: float):
        matrix = S.matrix if S.owned else np.array(S.matrix, dtype=float)
        self.shape = S.shape
        self.own = S.diagonal() - 1.0  # that of S
        for start in range(0, len(matrix), BAND):  # type: ignore[arg-type]
            rows = slice(start, start + BAND)
            matrix[rows] *= -S.scale[rows][:, None]  # type: ignore[index]
            matrix[rows] *= S.scale  # type: ignore[index]
        np.fill_diagonal(matrix, 1.0 + sigma - self.own)  # type: ignore[arg-type]
        self.both, info = dpotrf(matrix.T, lower=1, overwrite_a=1, clean=0)  # type: ignore[union-attr]
        self.failed = info != 0
        self.pivots = np.diagonal(self.both).copy()

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        return np.asarray(dpotrs(self.both, V, lower=1)[0])

    def forward(self, V: np.ndarray) -> np.ndarray:
        """Return S V."""
        out = -dsymm(1.0, self.both, V, lower=0)
        out += (self.pivots + self.own)[:, None] * V
        return np.asarray(out)


def _by_inverse(
    S: NormalisedAffinity, k: int, tol: float, random_state: Any, first: Solution
) -> Solution:
    """Return the pairs by iteration with the inverse, and the residual with S itself.

    The shift is as far from 1 as products found λ_k to be; where a factorisation costs little, what
    a few steps with it find gives a better one.
    """
    values, sigma, n_iter = first.value.values, np.inf, first.n_iter
    while True:
        # An error of the inverse relative to 1/σ is one of 1 + (1 − λ_k)/σ times that of S.
        closer = float(np.clip(0.1 * (1.0 - values[-1]), 1e-8, 1.0))
        nearer = closer < 0.5 * sigma
        if nearer:
            sigma, inverse = closer, S.inverse(closer)
            if inverse.failed:  # A had rows that a sum of affinities does not explain
                return first
        trial = S.cheap and nearer
        solver = SubspaceIteration(tol / 50, FEW if trial else 200, OVERSAMPLE, random_state)
        found = solver.solve(Eigen(inverse, k))
        n_iter += found.n_iter
        Z = found.value.vectors
        SZ = inverse.forward(Z)
        values = np.einsum("ij,ij->j", Z, SZ)
        residual = float(np.linalg.norm(SZ - Z * values, axis=0).max())
        good = residual <= tol
        if good or not trial:
            break
    message = "" if good else f"{who()}: {found.message or 'the eigenvectors are not exact.'}"
    return Solution(
        EigenPairs(values, Z),
        converged=good,
        n_iter=n_iter,
        residual=residual,
        message=message,
    )
