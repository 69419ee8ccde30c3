"""What principal components are, and how they are found from finite features."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import qr

from mercer.errors import InvalidInput, who
from mercer.estimator import Sample, beyond_features, is_plain_linear
from mercer.kernels import Kernel
from mercer.lapack import heard, svd
from mercer.memory import require_memory, row_blocks
from mercer.operators import gram_of
from mercer.solvers import Eigen, Solution, SubspaceIteration
from mercer.solvers.linear import cuts, leading_pairs, signs_of
from mercer.threads import blas_for

EPS = float(np.finfo(np.float64).eps)
RANK = 1e-12  # eigenvalues below this part of the largest are rounding
CACHED, CACHED_ROWS = 2**17, 256  # entries of a block that stays in a cache, and least rows
TOGETHER = 2**20  # entries of a block whose products with itself keep all cores busy
WIDTH = 512  # numbers from which on a loop over one row costs little beside its start
SAMPLE = 256  # rows that tell whether columns are about their means
ABOUT = 4  # times the variance that a squared mean may be: rounding then costs a digit at most
THIN = 10  # times more rows than columns, from which on the covariance is worth it; or the reverse


@dataclass(frozen=True, eq=False)
class Components:
    """Principal components of weighted points in feature space.

    The j-th is the function fⱼ(x) = Σᵢ coefᵢⱼ k(pointᵢ, x) + interceptⱼ, the coordinate of φ(x) − μ
    along the j-th axis; the mean is μ = Σᵢ centreᵢ φ(pointᵢ).

    Parameters
    ----------
    values : ndarray of shape (k,)
        Eigenvalues, descending, 0 beyond the rank.
    vectors : ndarray of shape (n, k) or None
        Eigenvectors of the centred, weighted Gram matrix; None where points are not kept.
    points : collection of m points, or None
        In which axes and mean are written; None where only features are kept.
    coef, intercept, centre : ndarrays of shape (m, k), (k,), (m,)
        The functions and the mean.
    square : float
        ‖μ‖².
    total : float
        The trace of the centred, weighted Gram matrix.
    solution : Solution
        The certificate; its value is `values`.
    method : str
        How it was found.
    axes, origin : ndarrays of shapes (D, k) and (D,), or None
        The axes and the mean in the kernel's own finite features.
    error : float
        Trace of what a low-rank approximation left out, over `total`.
    """

    values: np.ndarray
    vectors: np.ndarray | None
    points: Any
    coef: np.ndarray | None
    intercept: np.ndarray
    centre: np.ndarray | None
    square: float
    total: float
    solution: Solution
    method: str
    axes: np.ndarray | None = None
    origin: np.ndarray | None = None
    error: float = 0.0


@dataclass(frozen=True)
class Wanted:
    """How many components: a number, a share of the variance, or all (both None).

    With `drop` those of no variance are dropped, though a number was given.
    """

    count: int | None = None
    share: float | None = None
    drop: bool = False

    def cut(self, values: np.ndarray, total: float) -> int:
        """Return how many of some eigenvalues (descending, rounding set to 0) are kept.

        Their sum, with those that are not among them, is `total`.
        """
        rank = int((values > 0).sum())
        if self.share is not None:
            reached = np.cumsum(values) >= self.share * total * (1 - 8 * EPS)
            return max(1, int(np.argmax(reached)) + 1 if reached.any() else rank)
        if self.count is None or self.drop:
            rank = rank if self.count is None else min(rank, self.count)
            return max(1, rank)
        return min(self.count, len(values))

    def padded(self, n: int, *arrays: np.ndarray) -> list[np.ndarray]:
        """Return arrays of components along the last axis with 0 for those beyond the rank.

        As many as were asked for, of the n there may be.
        """
        k = 0 if self.count is None or self.drop else min(self.count, n)
        short = max(0, k - arrays[0].shape[-1])
        return [np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, short)]) for a in arrays]


def without_rounding(
    values: np.ndarray, V: np.ndarray, mean: np.ndarray, weight: float, squared: bool = True
) -> np.ndarray:
    """Return eigenvalues of a scatter in finite features with 0 for those that are rounding.

    Rows have the rounding of their mean, a column that of its own; a scatter that was formed has
    eps of its largest eigenvalue besides, and singular values have eps of the largest of them.
    """
    top = float(values.max(initial=0.0))
    own = weight * np.square((8 * EPS * mean)[:, None] * V).sum(axis=0)
    floor = np.maximum((32 * EPS if squared else (32 * EPS) ** 2) * top, own)
    return np.where(values > floor, values, 0.0)


def certificate(values: np.ndarray, residual: float, allowed: float, way: str) -> Solution:
    """Return the certificate of components in finite features."""
    good = residual <= allowed
    message = (
        f"{who()}: the components have relative residual {residual:.3g}, above {allowed:.1g}. "
        "Rescale the columns so that they are of order one."
    )
    return Solution(
        values, good, residual=residual, message="" if good else message, extra={"way": way}
    )


# ---- Finite features: by covariance, SVD or Gram matrix, whichever is smallest ----


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Finite features of points, made a block of rows at a time."""

    kernel: Kernel
    X: Any
    weights: np.ndarray | None

    @cached_property
    def table(self) -> np.ndarray | None:
        """The rows themselves where they are dense and their own features."""
        own = isinstance(self.X, np.ndarray) and is_plain_linear(self.kernel)
        return self.X if own else None

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        if self.table is not None:
            return self.table.shape
        K = gram_of(self.kernel, self.X)
        return K.shape[0], int(K.n_features or 0)

    @property
    def weight(self) -> float:
        """The total weight."""
        return float(self.shape[0] if self.weights is None else self.weights.sum())

    def blocks(
        self, columns: int | None = None, entries: int = CACHED
    ) -> Iterator[tuple[slice, Any, np.ndarray]]:
        """Yield rows, their features (dense or sparse) and their weights.

        Few rows at a time, of which copies stay in a cache. The number of columns is given for new
        points, which may have parts without a column.
        """
        n, D = self.kernel.domain.size(self.X), self.shape[1] if columns is None else columns
        sparse = sp.issparse(self.X)
        parts = row_blocks(n, (64 if sparse else 24) * D)
        step = max(CACHED_ROWS, entries // max(1, D))
        if not sparse and parts[0].stop > step:
            parts = [slice(*ends) for ends in cuts(n, step)]
        for rows in parts:
            whole = rows == slice(0, n)
            part = self.X if whole else self.kernel.domain.take(self.X, rows)
            phi = part
            if self.table is None:
                with np.errstate(over="ignore", invalid="ignore"):
                    phi = gram_of(self.kernel, part).features()
            m = int(phi.shape[0])
            yield rows, phi, np.ones(m) if self.weights is None else self.weights[rows]

    def refuse_infinite(self, found: np.ndarray, columns: int | None = None) -> None:
        """Refuse features that are not finite, where sums of them, which were found, are not."""
        if np.isfinite(found).all():
            return
        for _, phi, _ in self.blocks(columns):
            if not np.isfinite(phi.data if sp.issparse(phi) else phi).all():
                raise InvalidInput(
                    f"{self.kernel}: its features are not finite on these data; scale the columns."
                )

    def mean(self) -> np.ndarray:
        """Return the weighted mean; a second pass takes that of what the first has left."""
        mean = self._nearer(np.zeros(self.shape[1]))
        return self._nearer(mean)

    def _nearer(self, mean: np.ndarray) -> np.ndarray:
        """Return a vector with the weighted mean of what it has left added."""
        step, weight = np.zeros(len(mean)), self.weight
        away = mean.any()
        for _, phi, w in self.blocks():
            A, rest = apart(phi, mean, w) if away else (phi, mean)
            share = w / weight
            with np.errstate(over="ignore", invalid="ignore"):
                step += A.T @ share - share.sum() * rest
        self.refuse_infinite(step)
        return mean + step

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the weighted mean μ and Σ w(φ − μ)(φ − μ)ᵀ, in two passes.

        The second is about the mean that the first found, up to the rounding that it tells. Of rows
        about the origin, as far as a sample tells, one product is enough.
        """
        n, table = self.shape[0], self.table
        if table is not None and self.weights is None:
            some = table[:: -(-n // SAMPLE)]
            with np.errstate(over="ignore", invalid="ignore"):
                if _near(some.mean(axis=0), some.var(axis=0)):
                    mean = np.full(n, 1.0 / n) @ table
                    S = table.T @ table
                    S -= n * np.outer(mean, mean)
                    if about_origin(mean, S, n):
                        return mean, S
        rough, weight = self._nearer(np.zeros(self.shape[1])), self.weight
        S, step = self._about(rough)
        return rough + step / weight, S - np.outer(step, step / weight)

    def centred(self, mean: np.ndarray) -> np.ndarray:
        """Return √w (φ − μ) as one matrix."""
        n, D = self.shape
        out = np.empty((n, D))
        for rows, phi, w in self.blocks():
            out[rows] = phi.toarray() if sp.issparse(phi) else phi
            out[rows] -= mean
            out[rows] *= np.sqrt(w)[:, None]
        return out

    def _about(self, centre: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return Σ w(φ − c)(φ − c)ᵀ and Σ w(φ − c); sparse features are not made dense."""
        D = self.shape[1]
        S, total = np.zeros((D, D)), np.zeros(D)
        for _, phi, w in self.blocks(entries=TOGETHER):
            A, rest = apart(phi, centre, w)
            total += A.T @ w - w.sum() * rest
            if sp.issparse(A):
                S += (A.T @ A.multiply(w[:, None]).tocsr()).toarray()
                cross = np.outer(A.T @ w - w.sum() / 2 * rest, rest)
                S -= cross + cross.T
            else:
                if self.weights is not None:
                    A *= np.sqrt(w)[:, None]
                S += A.T @ A
        return S, total

    def inner(self, mean: np.ndarray) -> np.ndarray:
        """Return the n × n matrix of √wᵢ√wⱼ (φᵢ − μ)ᵀ(φⱼ − μ)."""
        phi = gram_of(self.kernel, self.X).features()
        if not sp.issparse(phi):
            near = self.centred(mean)
            return near @ near.T
        w = np.ones(phi.shape[0]) if self.weights is None else self.weights
        A, rest = apart(phi, mean, w)
        along = A @ rest
        G = (A @ A.T).toarray() - (along[:, None] + along) + float(rest @ rest)
        return G * np.sqrt(w)[:, None] * np.sqrt(w)

    def project(self, axes: np.ndarray, mean: np.ndarray, *, near: bool = False) -> np.ndarray:
        """Return (φ − μ)ᵀ axes for every row; of a table `near` the origin by one product."""
        if near and self.table is not None:
            return self.table @ axes - mean @ axes
        out = np.empty((self.kernel.domain.size(self.X), axes.shape[1]))
        for rows, phi, w in self.blocks(len(mean)):
            with np.errstate(over="ignore", invalid="ignore"):
                A, rest = apart(phi, mean, w)
                out[rows] = A @ axes - rest @ axes
        self.refuse_infinite(out, len(mean))
        return out

    def off_plane(self, axes: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Return the squared distance of every row to the plane through μ along the axes."""
        domain = self.kernel.domain
        out = np.empty(domain.size(self.X))
        for rows, phi, _ in self.blocks(len(mean)):
            near = (phi.toarray() if sp.issparse(phi) else np.asarray(phi)) - mean
            near = near - (near @ axes) @ axes.T
            beyond = beyond_features(self.kernel, domain.take(self.X, rows), phi)
            out[rows] = np.einsum("ij,ij->i", near, near) + beyond
        self.refuse_infinite(out, len(mean))
        return out

    def pull(self, Z: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Return Σ wᵢ (φᵢ − μ) zᵢᵀ."""
        out = np.zeros((self.shape[1], Z.shape[1]))
        for rows, phi, w in self.blocks():
            A, rest = apart(phi, mean, w)
            V = Z[rows] if self.weights is None else w[:, None] * Z[rows]
            out += A.T @ V - np.outer(rest, V.sum(axis=0))
        return out


def apart(phi: Any, mean: np.ndarray, w: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return A and r with φ − μ = A − r, A sparse where φ is.

    Of sparse rows μ is subtracted where more than half of a column, by weight, is not 0. In the
    other columns, those of r, Σ w(φ − μ)² ≥ μ² Σ w / 2: taking r off later costs no digits.
    """
    if not sp.issparse(phi):
        return _less(phi, mean), np.zeros(len(mean))
    phi = sp.csr_array(phi)
    filled = sp.csr_array(((phi.data != 0).astype(float), phi.indices, phi.indptr), phi.shape)
    full = np.flatnonzero(filled.T @ w > 0.5 * w.sum())
    rest = mean.copy()
    rest[full] = 0.0
    m = phi.shape[0]
    ends = np.arange(m + 1) * len(full)
    offset = sp.csr_array((np.tile(mean[full], m), np.tile(full, m), ends), phi.shape)
    return phi - offset, rest


def _less(table: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Return a table less one row; short rows several at a time, for each costs a start."""
    n, d = table.shape
    side = WIDTH // max(1, d)
    if side < 2 or n < 2 * side or not table.flags.c_contiguous:
        return table - row
    out, whole = np.empty(table.shape), n - n % side
    long, into = table[:whole].reshape(-1, side * d), out[:whole].reshape(-1, side * d)
    np.subtract(long, np.tile(row, side), out=into)
    np.subtract(table[whole:], row, out=out[whole:])
    return out


def _near(mean: np.ndarray, variance: np.ndarray) -> bool:
    return bool((mean * mean <= ABOUT * variance).all())


def about_origin(mean: np.ndarray, S: np.ndarray, weight: float) -> bool:
    """Return whether taking off a mean later, of rows with the scatter S, costs no digits."""
    return _near(mean, np.diagonal(S) / weight)


def n_features(kernel: Kernel, X: Any) -> int | None:
    """Return how many finite features a kernel has, None where it has none or none are told.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : canonical collection
        Its points.
    """
    return gram_of(kernel, X).n_features


def features_fit(n: int, D: int, sparse: bool, memory: int) -> bool:
    """Return whether the smallest of the three matrices fits the memory budget."""
    side = min(n, D)
    return 8 * (5 * side * side + (0 if sparse or n >= THIN * D else 3 * n * D)) <= memory


class Axes(NamedTuple):
    """Principal axes in finite features.

    Parameters
    ----------
    values : ndarray of shape (k,)
        Eigenvalues of the scatter, descending; rounding is set to 0.
    V : ndarray of shape (D, k)
        The axes. Found from the Gram matrix, those of no variance are 0.
    mean : ndarray of shape (D,)
        The mean.
    total : float
        The trace of the scatter.
    way : str
        "covariance", "gram" or "svd".
    solution : Solution or None
        That of an iteration, where one was used.
    scatter : ndarray of shape (D, D) or None
        The scatter, where it was formed.
    """

    values: np.ndarray
    V: np.ndarray
    mean: np.ndarray
    total: float
    way: str
    solution: Solution | None = None
    scatter: np.ndarray | None = None


def find_axes(rows: FeatureRows, k: int | None, few: SubspaceIteration | None = None) -> Axes:
    """Return the principal axes.

    n ≥ 10 D: the D × D covariance. D ≥ 10 n: the n × n Gram matrix of centred features. Between,
    the SVD of the centred rows, which squares nothing. Sparse features: the smaller of the two
    matrices.

    Parameters
    ----------
    rows : FeatureRows
        The features.
    k : int or None
        How many axes, None for all; the SVD finds all at once.
    few : SubspaceIteration, optional
        For the leading pairs of a Gram matrix, instead of LAPACK and of the SVD.
    """
    n, D = rows.shape
    sparse = False
    if rows.table is None:
        first = rows.kernel.domain.take(rows.X, np.arange(1))
        sparse = sp.issparse(gram_of(rows.kernel, first).features())
    side = min(n, D)
    few = few if n < D else None
    tall = n >= D if sparse else n >= THIN * D
    wide = n < D if sparse or few is not None else D >= THIN * n
    way = "covariance" if tall else "gram" if wide else "svd"
    require_memory(
        8 * (5 * side * side + (0 if sparse or tall else 2 * n * D)),
        f"{who()}: principal axes of {n} × {D} features",
        "Fit fewer rows, or use eigen_solver='cholesky'",
    )
    mean, S = rows.moments() if tall else (rows.mean(), np.zeros((0, 0)))
    if way == "svd":
        near = rows.centred(mean)
        if n > D:  # its triangle has the same axes, and one side of them is not asked for
            near = heard(qr, near, mode="r", overwrite_a=True, check_finite=False)[0][:D]
        _, sigma, Vt = svd(near, overwrite_a=True)
        values = without_rounding(sigma**2, Vt.T, mean, rows.weight, squared=False)
        return Axes(values, Vt.T, mean, float((sigma**2).sum()), way)
    S = S if tall else rows.inner(mean)
    total = max(0.0, float(np.trace(S)))
    count, solution = side if k is None else min(k, side), None
    with blas_for(side):
        if few is None:
            values, V = leading_pairs(S, count)
        else:
            solution = few.solve(Eigen(S, count))
            values, V = solution.value.values, solution.value.vectors
    values = np.maximum(values, 0.0)
    if wide:
        w = np.ones(n) if rows.weights is None else rows.weights
        good = values > 32 * EPS * float(values.max(initial=0.0))
        lengths = np.sqrt(np.where(good, values, 1.0))
        V = rows.pull(V / np.sqrt(w)[:, None] / lengths, mean) * good
    values = without_rounding(values, V, mean, rows.weight)
    if wide:
        V = V * (values > 0)
    return Axes(values, V, mean, total, way, solution, S if tall else None)


def by_features(data: Sample, want: Wanted, *, few: SubspaceIteration | None = None) -> Components:
    """Return components of a kernel with finite features."""
    kernel, w = data.kernel, data.weights
    rows = FeatureRows(kernel, data.X, w)
    n, D = rows.shape
    values, V, mean, total, way, found, _ = find_axes(rows, want.count, few)
    if not len(values):
        values, V = np.zeros(1), np.zeros((D, 1))
    k = want.cut(values, total)
    values, V = values[:k], V[:, :k] * (values[:k] > 0)
    Z = rows.project(V, mean)
    roots = 1.0 if w is None else np.sqrt(w)[:, None]
    lengths = np.sqrt(np.where(values > 0, values, 1.0))
    U = roots * Z / lengths
    values, U, V, Z, lengths = want.padded(n, values, U, V, Z, lengths)
    lengths[k:] = 1.0
    signs = signs_of(Z)
    U, V = U * signs, V * signs
    AU = roots * rows.project(rows.pull(U / roots, mean), mean)
    top = float(values.max(initial=0.0)) or 1.0
    residual = float(np.linalg.norm(AU / top - U * (values / top), axis=0).max(initial=0.0))
    allowed = max(1e3 * max(n, 10) * EPS, 2 * few.tol if few and found else 0.0)
    solution = certificate(values, residual, allowed, way)
    if found is not None:
        solution = replace(solution, n_iter=found.n_iter)
        if not found.converged:
            solution = replace(solution, converged=False, message=found.message)
    shares = np.full(n, 1.0 / n) if w is None else w / w.sum()
    coef = roots * U / lengths
    coef -= shares[:, None] * coef.sum(axis=0)
    square = float(mean @ mean)
    left = np.array([math.fsum(column) for column in coef.T])  # times k(x, x), far from 0
    return Components(
        values,
        U,
        kernel.domain.keep(data.X),
        coef,
        -(mean @ V) - left * square,
        shares,
        square,
        total,
        solution,
        "features",
        axes=V,
        origin=mean,
    )
