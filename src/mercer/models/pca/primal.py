"""Components from finite features: by covariance, SVD or Gram matrix, whichever is smallest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import svd

from mercer.domains import GramRows
from mercer.engines.blocks import require_memory, row_blocks
from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.models.pca.components import EPS, Components, Wanted, flip_signs, padded
from mercer.solvers import DenseEigen, Eigen, Solution

__all__ = ["FeatureRows", "by_features", "features_fit", "find_axes", "n_features"]

THIN = (
    10  # so many times more rows than columns make the covariance, fewer the Gram, matrix worth it
)


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Finite features of points, made a block of rows at a time.

    Parameters
    ----------
    kernel : Kernel
        With finite features.
    X : canonical collection of n points
        The points.
    weights : ndarray of shape (n,) or None
        Positive weights.
    """

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

    def blocks(self) -> Iterator[tuple[slice, Any, np.ndarray]]:
        """Yield rows, their features (dense or sparse) and their weights."""
        n, D = self.shape
        for rows in row_blocks(n, 24 * D):
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
        """Return the weighted mean, taken from the first row, which costs no digits."""
        first: Any = None
        total, weight = 0.0, 0.0
        for _, phi, w in self.blocks():
            if first is None:
                first = (
                    np.zeros(phi.shape[1]) if sp.issparse(phi) else np.array(phi[0], dtype=float)
                )
            total = total + (phi.T @ w if sp.issparse(phi) else w @ (phi - first))
            weight += float(w.sum())
        return np.asarray(first + total / weight)

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
        D, weight = self.shape[1], 0.0
        S = np.zeros((D, D))
        for _, phi, w in self.blocks():
            if sp.issparse(phi):
                S += (phi.T @ phi.multiply(w[:, None]).tocsr()).toarray()
                weight += float(w.sum())
            else:
                near = (phi - mean) * np.sqrt(w)[:, None]
                S += near.T @ near
        return S - weight * np.outer(mean, mean)

    def inner(self, mean: np.ndarray) -> np.ndarray:
        """Return the n × n matrix of √wᵢ√wⱼ (φᵢ − μ)ᵀ(φⱼ − μ)."""
        phi = self.kernel._features(self.X)
        if not sp.issparse(phi):
            near = self.centred(mean)
            return near @ near.T
        w = np.ones(phi.shape[0]) if self.weights is None else self.weights
        along = phi @ mean
        G = (phi @ phi.T).toarray() - (along[:, None] + along) + float(mean @ mean)
        return G * np.sqrt(w)[:, None] * np.sqrt(w)

    def project(self, axes: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Return (φ − μ)ᵀ axes for every row."""
        out, shift = np.empty((self.shape[0], axes.shape[1])), mean @ axes
        for rows, phi, _ in self.blocks():
            out[rows] = phi @ axes - shift if sp.issparse(phi) else (phi - mean) @ axes
        return out

    def pull(self, Z: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Return Σ wᵢ (φᵢ − μ) zᵢᵀ."""
        out: Any = 0.0
        for rows, phi, w in self.blocks():
            near = phi if sp.issparse(phi) else phi - mean
            V = w[:, None] * Z[rows]
            out = out + near.T @ V
            if sp.issparse(phi):
                out = out - np.outer(mean, V.sum(axis=0))
        return np.asarray(out)


def n_features(kernel: Kernel, X: Any) -> int | None:
    """Return how many finite features a kernel has, None where it has none or none are told.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : canonical collection
        Its points.
    """
    return None if isinstance(kernel.domain, GramRows) else kernel._n_features(X)


def features_fit(n: int, D: int, sparse: bool, memory: int) -> bool:
    """Return whether the smallest of the three matrices fits the memory budget.

    Parameters
    ----------
    n, D : int
        Rows and features.
    sparse : bool
        Whether the features are sparse.
    memory : int
        The budget.
    """
    side = min(n, D)
    return 8 * (5 * side * side + (0 if sparse or n >= THIN * D else 3 * n * D)) <= memory


def find_axes(
    rows: FeatureRows, k: int | None, owner: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, float, str]:
    """Return eigenvalues, axes (D × k), mean, trace, a floor for rounding, and the way.

    n ≥ 10 D: the D × D covariance. D ≥ 10 n: the n × n Gram matrix. Between, the SVD of the
    centred rows, which squares nothing. Sparse features: the smaller of the two matrices.

    Parameters
    ----------
    rows : FeatureRows
        The features.
    k : int or None
        How many axes, None for all; the SVD finds all at once.
    owner : str
        Who asks.
    """
    n, D = rows.shape
    sparse = sp.issparse(rows.kernel._features(rows.kernel.domain.take(rows.X, np.arange(1))))
    side = min(n, D)
    tall = n >= D if sparse else n >= THIN * D
    wide = n < D if sparse else D >= THIN * n
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
        floor = (32 * EPS * float(sigma.max(initial=0.0))) ** 2
        return sigma**2, Vt.T, mean, float((sigma**2).sum()), floor, way
    S = rows.scatter(mean) if tall else rows.inner(mean)
    total = max(0.0, float(np.trace(S)))
    pairs = DenseEigen().solve(Eigen(S, None if k is None or k >= side else k)).value
    values = np.maximum(pairs.values, 0.0)
    floor = 32 * EPS * max(float(values.max(initial=0.0)), _offset(rows, mean) if sparse else 0.0)
    if tall:
        return values, pairs.vectors, mean, total, floor, way
    w = np.ones(n) if rows.weights is None else rows.weights
    lengths = np.sqrt(np.where(values > floor, values, 1.0))
    axes = rows.pull(pairs.vectors / np.sqrt(w)[:, None] / lengths, mean)
    return values, axes * (values > floor), mean, total, floor, way


def _offset(rows: FeatureRows, mean: np.ndarray) -> float:
    """Return W‖μ‖², whose rounding is that of a scatter from which it was taken."""
    return rows.weight * float(mean @ mean)


def by_features(
    kernel: Kernel, X: Any, w: np.ndarray | None, want: Wanted, drop: bool, owner: str
) -> Components:
    """Return components of a kernel with finite features.

    Parameters
    ----------
    kernel : Kernel
        With words resolved.
    X : canonical collection of n points
        Those of positive weight.
    w : ndarray of shape (n,) or None
        Weights, positive.
    want : Wanted
        How many.
    drop : bool
        Whether to drop components of no variance.
    owner : str
        Who asks.
    """
    rows = FeatureRows(kernel, X, w)
    n, D = rows.shape
    values, V, mean, total, floor, way = find_axes(rows, want.count, owner)
    floor = max(floor, rows.weight * (8 * EPS * float(np.abs(mean).max(initial=0.0))) ** 2)
    values = np.where(values > floor, values, 0.0)
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
    signs = flip_signs(Z)
    U, V = U * signs, V * signs
    AU = roots * rows.project(rows.pull(U / roots, mean), mean)
    top = float(values.max(initial=0.0)) or 1.0
    residual = float(np.linalg.norm(AU / top - U * (values / top), axis=0).max(initial=0.0))
    allowed = 1e3 * max(n, 10) * EPS
    solution = Solution(values, residual <= allowed, residual=residual, extra={"way": way})
    if not solution.converged:
        solution = replace(
            solution,
            message=f"{owner}: the components have relative residual {residual:.3g}, above "
            f"{allowed:.1g}. Rescale the columns so that they are of order one.",
        )
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
