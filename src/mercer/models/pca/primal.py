"""Components from finite features: by covariance, SVD or Gram matrix, whichever is smallest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import svd

from mercer.domains import GramRows
from mercer.errors import InvalidInput
from mercer.estimator import beyond_features
from mercer.kernels import Kernel
from mercer.memory import require_memory, row_blocks
from mercer.models.pca.components import (
    EPS,
    Components,
    Wanted,
    certificate,
    padded,
    without_rounding,
)
from mercer.solvers import DenseEigen, Eigen, Solution, SubspaceIteration
from mercer.solvers.linear import signs_of

__all__ = ["Axes", "FeatureRows", "apart", "by_features", "features_fit", "find_axes", "n_features"]

THIN = 10  # times more rows than columns, from which on the covariance is worth it; or the reverse


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Finite features of points, made a block of rows at a time."""

    kernel: Kernel
    X: Any
    weights: np.ndarray | None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.kernel.domain.size(self.X), int(self.kernel._n_features(self.X) or 0)

    @property
    def weight(self) -> float:
        """The total weight."""
        return float(self.shape[0] if self.weights is None else self.weights.sum())

    def blocks(self, columns: int | None = None) -> Iterator[tuple[slice, Any, np.ndarray]]:
        """Yield rows, their features (dense or sparse) and their weights.

        The number of columns is given for new points, which may have parts without a column.
        """
        n, D = self.kernel.domain.size(self.X), self.shape[1] if columns is None else columns
        for rows in row_blocks(n, (64 if sp.issparse(self.X) else 24) * D):
            whole = rows == slice(0, n)
            part = self.X if whole else self.kernel.domain.take(self.X, rows)
            with np.errstate(over="ignore", invalid="ignore"):
                phi = self.kernel._features(part)
            entries = phi.data if sp.issparse(phi) else phi
            if not np.isfinite(entries).all():
                raise InvalidInput(
                    f"{self.kernel!r}: its features are not finite on these data; "
                    "scale the columns."
                )
            m = int(phi.shape[0])
            yield rows, phi, np.ones(m) if self.weights is None else self.weights[rows]

    def mean(self) -> np.ndarray:
        """Return the weighted mean; a second pass takes that of what the first has left."""
        mean, weight = np.zeros(self.shape[1]), self.weight
        for _ in range(2):
            step = np.zeros(len(mean))
            for _, phi, w in self.blocks():
                A, rest = apart(phi, mean, w)
                share = w / weight
                step += A.T @ share - share.sum() * rest
            mean = mean + step
        return mean

    def centred(self, mean: np.ndarray) -> np.ndarray:
        """Return √w (φ − μ) as one matrix."""
        n, D = self.shape
        out = np.empty((n, D))
        for rows, phi, w in self.blocks():
            out[rows] = phi.toarray() if sp.issparse(phi) else phi
            out[rows] -= mean
            out[rows] *= np.sqrt(w)[:, None]
        return out

    def scatter(self, mean: np.ndarray) -> np.ndarray:
        """Return Σ w(φ − μ)(φ − μ)ᵀ; sparse features are not made dense."""
        D = self.shape[1]
        S = np.zeros((D, D))
        for _, phi, w in self.blocks():
            A, rest = apart(phi, mean, w)
            if sp.issparse(A):
                S += (A.T @ A.multiply(w[:, None]).tocsr()).toarray()
                cross = np.outer(A.T @ w - w.sum() / 2 * rest, rest)
                S -= cross + cross.T
            else:
                A *= np.sqrt(w)[:, None]
                S += A.T @ A
        return S

    def inner(self, mean: np.ndarray) -> np.ndarray:
        """Return the n × n matrix of √wᵢ√wⱼ (φᵢ − μ)ᵀ(φⱼ − μ)."""
        phi = self.kernel._features(self.X)
        if not sp.issparse(phi):
            near = self.centred(mean)
            return near @ near.T
        w = np.ones(phi.shape[0]) if self.weights is None else self.weights
        A, rest = apart(phi, mean, w)
        along = A @ rest
        G = (A @ A.T).toarray() - (along[:, None] + along) + float(rest @ rest)
        return G * np.sqrt(w)[:, None] * np.sqrt(w)

    def project(self, axes: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Return (φ − μ)ᵀ axes for every row."""
        out = np.empty((self.kernel.domain.size(self.X), axes.shape[1]))
        for rows, phi, w in self.blocks(len(mean)):
            A, rest = apart(phi, mean, w)
            out[rows] = A @ axes - rest @ axes
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
        return out

    def pull(self, Z: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Return Σ wᵢ (φᵢ − μ) zᵢᵀ."""
        out = np.zeros((self.shape[1], Z.shape[1]))
        for rows, phi, w in self.blocks():
            A, rest = apart(phi, mean, w)
            V = w[:, None] * Z[rows]
            out += A.T @ V - np.outer(rest, V.sum(axis=0))
        return out


def apart(phi: Any, mean: np.ndarray, w: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return A and r with φ − μ = A − r, A sparse where φ is.

    Of sparse rows μ is subtracted where more than half of a column, by weight, is not 0. In the
    other columns, those of r, Σ w(φ − μ)² ≥ μ² Σ w / 2: taking r off later costs no digits.
    """
    if not sp.issparse(phi):
        return phi - mean, np.zeros(len(mean))
    phi = sp.csr_array(phi)
    filled = sp.csr_array(((phi.data != 0).astype(float), phi.indices, phi.indptr), phi.shape)
    full = np.flatnonzero(filled.T @ w > 0.5 * w.sum())
    rest = mean.copy()
    rest[full] = 0.0
    m = phi.shape[0]
    ends = np.arange(m + 1) * len(full)
    offset = sp.csr_array((np.tile(mean[full], m), np.tile(full, m), ends), phi.shape)
    return phi - offset, rest


def n_features(kernel: Kernel, X: Any) -> int | None:
    """Return how many finite features a kernel has, None where it has none or none are told."""
    return None if isinstance(kernel.domain, GramRows) else kernel._n_features(X)


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


def find_axes(
    rows: FeatureRows, k: int | None, owner: str, few: SubspaceIteration | None = None
) -> Axes:
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
    owner : str
        Who asks.
    few : SubspaceIteration, optional
        For the leading pairs of a Gram matrix, instead of LAPACK and of the SVD.
    """
    n, D = rows.shape
    sparse = sp.issparse(rows.kernel._features(rows.kernel.domain.take(rows.X, np.arange(1))))
    side = min(n, D)
    few = few if n < D else None
    tall = n >= D if sparse else n >= THIN * D
    wide = n < D if sparse or few is not None else D >= THIN * n
    way = "covariance" if tall else "gram" if wide else "svd"
    require_memory(
        8 * (5 * side * side + (0 if sparse or tall else 2 * n * D)),
        f"{owner}: principal axes of {n} × {D} features",
        "Fit fewer rows, or use eigen_solver='cholesky'",
    )
    mean = rows.mean()
    if way == "svd":
        _, sigma, Vt = svd(
            rows.centred(mean), full_matrices=False, check_finite=False, overwrite_a=True
        )
        values = without_rounding(sigma**2, Vt.T, mean, rows.weight, squared=False)
        return Axes(values, Vt.T, mean, float((sigma**2).sum()), way)
    S = rows.scatter(mean) if tall else rows.inner(mean)
    total = max(0.0, float(np.trace(S)))
    solution = (few or DenseEigen()).solve(Eigen(S, None if k is None or k >= side else k))
    values, V = np.maximum(solution.value.values, 0.0), solution.value.vectors
    if wide:
        w = np.ones(n) if rows.weights is None else rows.weights
        good = values > 32 * EPS * float(values.max(initial=0.0))
        lengths = np.sqrt(np.where(good, values, 1.0))
        V = rows.pull(V / np.sqrt(w)[:, None] / lengths, mean) * good
    values = without_rounding(values, V, mean, rows.weight)
    if wide:
        V = V * (values > 0)
    iterated = None if few is None else solution
    return Axes(values, V, mean, total, way, iterated, S if tall else None)


def by_features(
    kernel: Kernel,
    X: Any,
    w: np.ndarray | None,
    want: Wanted,
    drop: bool,
    owner: str,
    *,
    few: SubspaceIteration | None = None,
) -> Components:
    """Return components of a kernel with finite features."""
    rows = FeatureRows(kernel, X, w)
    n, D = rows.shape
    values, V, mean, total, way, found, _ = find_axes(rows, want.count, owner, few)
    if not len(values):
        values, V = np.zeros(1), np.zeros((D, 1))
    k = want.cut(values, total, drop)
    values, V = values[:k], V[:, :k] * (values[:k] > 0)
    Z = rows.project(V, mean)
    roots = 1.0 if w is None else np.sqrt(w)[:, None]
    lengths = np.sqrt(np.where(values > 0, values, 1.0))
    U = roots * Z / lengths
    if want.count is not None and not drop:
        values, U, V, Z, lengths = padded(min(want.count, n), values, U, V, Z, lengths)
        lengths[k:] = 1.0
    signs = signs_of(Z)
    U, V = U * signs, V * signs
    AU = roots * rows.project(rows.pull(U / roots, mean), mean)
    top = float(values.max(initial=0.0)) or 1.0
    residual = float(np.linalg.norm(AU / top - U * (values / top), axis=0).max(initial=0.0))
    allowed = max(1e3 * max(n, 10) * EPS, 2 * few.tol if few and found else 0.0)
    solution = certificate(values, residual, allowed, owner, way)
    if found is not None:
        solution = replace(solution, n_iter=found.n_iter)
        if not found.converged:
            solution = replace(solution, converged=False, message=found.message)
    shares = np.full(n, 1.0 / n) if w is None else w / w.sum()
    coef = roots * U / lengths
    coef -= shares[:, None] * coef.sum(axis=0)
    return Components(
        values,
        U,
        kernel.domain.keep(X),
        coef,
        -(mean @ V),
        shares,
        float(mean @ mean),
        total,
        solution,
        "features",
        axes=V,
        origin=mean,
    )
