"""Spaces for Lloyd's algorithm: points known by a Gram matrix, and points known by features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular

from mercer.errors import NotAKernel, who
from mercer.estimator import INDEFINITE
from mercer.memory import row_blocks
from mercer.models.cluster.lloyd import Look, compare, rounding_of
from mercer.operators import Gram, Index, Operator, group_sums, member_sums
from mercer.solvers import rpcholesky

FEW = 4  # up to a share of 1/FEW of the points that moved, their rows alone are read
SHORT = 64  # columns up to which comparing points one by one beats products of all with BLAS
SWEEPS, LONG = 64, 10**8  # of one call, and products: Ctrl-C is heard between calls
ARRAYS = 6  # of k numbers a point that a comparison has alive


def refuse_distances(K: Any, lengths: np.ndarray) -> None:
    """Refuse a matrix with squared distances kᵢᵢ + kⱼⱼ − 2kᵢⱼ below zero beyond rounding."""
    slack = INDEFINITE * float(lengths.max(initial=0.0))
    for rows in row_blocks(len(lengths), 16 * len(lengths)):
        squares = -2.0 * np.asarray(K[rows], dtype=np.float64)
        squares += lengths
        squares += lengths[rows, None]
        if squares.min() < -slack:
            i, j = np.unravel_index(int(squares.argmin()), squares.shape)
            what = f"the squared distance of rows {rows.start + i} and {j} is {squares[i, j]:.3g}"
            raise _no_kernel(what)


def _no_kernel(what: str) -> NotAKernel:
    return NotAKernel(
        f"{who()}: {what} < 0, so the matrix is not that of a kernel, but perhaps one of distances "
        "or of edges; mercer.check_kernel shows a counter-example."
    )


class GramSpace:
    """Points known by kernel values; the matrix is read in place, or computed in tiles.

    Sums Σⱼ wⱼ k(xⱼ, ·) over the clusters are kept. A sweep reads the matrix once; where few points
    moved, only the rows of those.

    K : Operator or ndarray of shape (n, n)
        The Gram matrix; an array is read as it is, an operator multiplied.
    lengths, weights : ndarrays of shape (n,)
        k(x, x), and the weights.
    """

    def __init__(self, K: Any, lengths: np.ndarray, weights: np.ndarray):
        self.K, self.lengths, self.weights = K, lengths, weights
        self.rounding = rounding_of(len(lengths))
        self._sums = np.zeros((0, 0))
        self._labels = np.zeros(0, dtype=np.int64)
        self._exact = False
        #: On a GPU a product with all of the matrix is sooner done than some rows are brought here.
        self._there = isinstance(K, Gram) and K.device is not None

    keeps = True

    def ahead(
        self, labels: np.ndarray, k: int, most: int | None, few: float
    ) -> tuple[np.ndarray, list[float]]:
        """Make no sweep: each reads the matrix, or its rows of points that moved."""
        return labels, []

    def rows(self, index: np.ndarray) -> np.ndarray:
        """Return kernel values of the points at these positions with all, one row each."""
        part = self.K.rows(index) if isinstance(self.K, Operator) else self.K[index]
        return np.asarray(part, dtype=np.float64)

    def look(self, labels: np.ndarray, k: int, *, afresh: bool = False) -> Look:
        """Compare all points with the centres of a labelling.

        Parameters
        ----------
        labels : ndarray of int
            The labelling.
        k : int
            Number of clusters.
        afresh : bool, default=False
            Whether to compute the sums anew, should they have been brought up to date before.
        """
        self._update(labels, k, afresh)
        inner, squares = self._centres(labels, k)
        own = self.lengths - 2 * inner[labels, np.arange(len(labels))] + squares[labels]
        self._judge(squares, own)
        return compare(inner, squares, self.lengths, labels, self.rounding)

    def squares(self, labels: np.ndarray, k: int) -> np.ndarray:
        """Return the squared lengths of the centres of a labelling without empty clusters."""
        self._update(labels, k, afresh=True)
        return np.maximum(self._centres(labels, k)[1], 0.0)

    def _centres(self, labels: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return ⟨φ(x), μ⟩ and ‖μ‖²; the latter infinite where a cluster is empty."""
        w, every = self.weights, np.arange(len(labels))
        mass = np.bincount(labels, w, k)
        held = mass > 0
        size = np.where(held, mass, 1.0)
        inner = self._sums / size[:, None]
        squares = np.bincount(labels, w * inner[labels, every], k) / size
        return inner, np.where(held, squares, np.inf)

    def forget(self) -> None:
        """Let the next look read the whole matrix."""
        self._labels = np.full(len(self.lengths), -1)

    def _judge(self, squares: np.ndarray, own: np.ndarray) -> None:
        """Refuse squared lengths of centres, or distances to them, below zero beyond rounding."""
        slack = INDEFINITE * float(self.lengths.max(initial=0.0))
        c, i = int(squares.argmin()), int(own.argmin())
        if squares[c] < -slack:
            what = f"the squared length of the centre of cluster {c} is {squares[c]:.3g}"
        elif own[i] < -slack:
            what = f"the squared distance of row {i} to its centre is {own[i]:.3g}"
        else:
            return
        raise _no_kernel(what)

    def _update(self, labels: np.ndarray, k: int, afresh: bool) -> None:
        w, n = self.weights, len(labels)
        fits = self._sums.shape == (k, n)
        moved = np.flatnonzero((labels != self._labels) & (w > 0)) if fits else np.arange(n)
        few = not self._there and FEW * len(moved) <= n
        if not fits or (len(moved) and not few) or (afresh and not self._exact):
            self._sums = self._all(labels, k)
            self._exact = True
        elif len(moved):
            both = np.concatenate([moved, moved])
            groups = np.concatenate([labels[moved], self._labels[moved]])
            self._add(both, np.concatenate([w[moved], -w[moved]]), groups)
            self._exact = False
        self._labels = labels

    def _all(self, labels: np.ndarray, k: int) -> np.ndarray:
        n, w = len(labels), self.weights
        if not isinstance(self.K, Operator):
            out = self._sums if self._sums.shape == (k, n) else None
            out = np.zeros((k, n)) if out is None else out
            out[...] = 0.0
            counted = np.flatnonzero(w > 0)
            return group_sums(self.K, counted, w[counted], labels[counted], out)
        member = np.zeros((n, k))
        member[np.arange(n), labels] = w
        return np.ascontiguousarray((self.K @ member).T, dtype=np.float64)

    def _add(self, rows: np.ndarray, factors: np.ndarray, groups: np.ndarray) -> None:
        """Add rows of the matrix, times factors, to the sums of their groups."""
        if not isinstance(self.K, Operator):
            group_sums(self.K, rows, factors, groups, self._sums)
            return
        half = len(rows) // 2  # the second half names the same rows
        for part in row_blocks(half, 4 * 8 * len(self.lengths)):
            T = np.ascontiguousarray(self.K.rows(rows[part]), dtype=np.float64)
            place = np.arange(len(T))
            group_sums(T, place, factors[:half][part], groups[:half][part], self._sums)
            group_sums(T, place, factors[half:][part], groups[half:][part], self._sums)


class FeatureSpace:
    """Points known by features F, dense or sparse: inner products are those of their rows."""

    keeps = False

    def __init__(self, F: Any, weights: np.ndarray):
        self.F, self.weights = F, weights
        self.rounding = rounding_of(sum(F.shape))
        if sp.issparse(F):
            self.lengths = np.asarray(F.multiply(F).sum(axis=1), dtype=float).ravel()
        else:
            self.lengths = np.einsum("ij,ij->i", F, F)

    def rows(self, index: np.ndarray) -> np.ndarray:
        """Return inner products of the points at these positions with all, one row each."""
        return self.inner(_dense(self.F[index]), slice(0, self.F.shape[0]))

    def inner(self, C: np.ndarray, part: slice) -> np.ndarray:
        """Return inner products of vectors C with some of the points, one row a vector."""
        F = self.F[part]
        product = (F @ C.T).T if sp.issparse(F) else C @ F.T
        return np.ascontiguousarray(product, dtype=np.float64)

    def centres(self, labels: np.ndarray, k: int) -> np.ndarray:
        """Return the weighted means of the clusters, shape (k, D); zero where one is empty."""
        n, w = len(labels), self.weights
        mass = np.bincount(labels, w, k)
        share = w / np.where(mass > 0, mass, 1.0)[labels]
        if not sp.issparse(self.F) and self.F.flags.c_contiguous:
            return member_sums(self.F, labels, share, np.zeros((k, self.F.shape[1])))
        member = sp.csr_array((share, (labels, np.arange(n))), shape=(k, n))
        return _dense(member @ self.F) if sp.issparse(self.F) else (self.F.T @ member.toarray().T).T

    def ahead(
        self, labels: np.ndarray, k: int, most: int | None, few: float
    ) -> tuple[np.ndarray, list[float]]:
        """Make sweeps by bounds of the distances, on rows that are not long."""
        F, w = self.F, self.weights
        counts = np.bincount(labels[w > 0], minlength=k)
        short = not sp.issparse(F) and F.flags.c_contiguous and F.shape[1] <= SHORT
        if not short or not counts.all():
            return labels, []
        from mercer.jit import sweep

        labels, n = labels.copy(), len(labels)
        mass = np.bincount(labels, w, k)
        sums = member_sums(F, labels, w, np.zeros((k, F.shape[1])))
        upper, lower = np.full(n, np.inf), np.zeros(n)
        state = sums, mass, counts, upper, lower
        path: list[float] = []
        square, ended = float(w @ self.lengths), False
        while not ended and (most is None or len(path) < most):
            room = np.empty(SWEEPS if most is None else min(SWEEPS, most - len(path)))
            done, ended = sweep(F, w, self.lengths, labels, self.rounding, few, *state, room, LONG)
            path += (square - room[:done]).tolist()
        return labels, path

    def look(self, labels: np.ndarray, k: int, *, afresh: bool = False) -> Look:
        """Compare all points with the centres of a labelling; nothing is kept from before."""
        C = self.centres(labels, k)
        held = np.bincount(labels, self.weights, k) > 0
        squares = np.where(held, np.einsum("ij,ij->i", C, C), np.inf)

        turned = sp.issparse(self.F) or not self.F.flags.c_contiguous
        inner = (lambda part: self.inner(C, part)) if turned else (self.F, C)
        return compare(inner, squares, self.lengths, labels, self.rounding)


def _dense(F: Any) -> np.ndarray:
    return F.toarray() if sp.issparse(F) else np.asarray(F)


# ---- Features of few pivots that stand for a Gram matrix too large to be stored ----


ENOUGH = 1e-12  # part of the trace that need not be explained: the mean may be most of it


@dataclass(frozen=True, eq=False)
class Pivoted:
    """k(x, x′) ≈ φ(x)ᵀφ(x′) with φ(x) = L⁻¹ k(P, x).

    Parameters
    ----------
    F : ndarray of shape (r, n)
        φ of all points, less their weighted mean.
    mean : ndarray of shape (r,)
        The mean.
    pivots : ndarray of int, shape (r,)
        Positions of the points P.
    L : ndarray of shape (r, r)
        Lower triangular, LLᵀ = k(P, P).
    error : float
        Σ wᵢ(k(xᵢ, xᵢ) − ‖φ(xᵢ)‖²), what the features leave out.
    share : float
        That, as a part of Σ wᵢk(xᵢ, xᵢ).
    """

    F: np.ndarray
    mean: np.ndarray
    pivots: np.ndarray
    L: np.ndarray
    error: float
    share: float

    def coefficients(self, C: np.ndarray) -> np.ndarray:
        """Return centres (k, r) as combinations of the φ(p): a column of coefficients each."""
        whole = C + self.mean
        return solve_triangular(self.L, whole.T, lower=True, trans="T", check_finite=False)


class _Weighted(Operator):
    """W^½ A W^½: its pivots are those of A with every row repeated as its weight says."""

    symmetric = psd = True

    def __init__(self, A: Operator, roots: np.ndarray):
        self.A, self.roots, self.shape, self.dtype = A, roots, A.shape, A.dtype

    def _block(self, rows: Index, cols: Index) -> np.ndarray:
        part = self.roots[rows][:, None] * self.A.block(rows, cols)
        part *= self.roots[cols]
        return part

    def diagonal(self) -> np.ndarray:
        """Return the diagonal."""
        return self.roots**2 * self.A.diagonal()


def pivoted_features(
    A: Operator, lengths: np.ndarray, weights: np.ndarray, rank: int, rng: Any
) -> Pivoted:
    """Return features by randomly pivoted Cholesky, the error of which is known."""
    roots = np.sqrt(weights / weights.max())
    low = rpcholesky(_Weighted(A, roots), rank, rng, ENOUGH)
    F, pivots = low.F, low.pivots
    counted = roots > 0
    F /= np.where(counted, roots, 1.0)
    L = np.tril(F[:, pivots].T)
    absent = np.flatnonzero(~counted)
    if len(absent) and len(pivots):
        values = np.asarray(A.block(pivots, absent), dtype=np.float64)
        F[:, absent] = solve_triangular(L, values, lower=True, check_finite=False)
    left = np.maximum(lengths - np.einsum("ij,ij->j", F, F), 0.0)
    error, all_of_it = float(weights @ left), float(weights @ lengths)
    mean = F @ (weights / weights.sum())
    F -= mean[:, None]
    return Pivoted(F, mean, pivots, L, error, error / all_of_it if all_of_it > 0 else 0.0)
