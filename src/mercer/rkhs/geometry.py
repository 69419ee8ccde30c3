"""Distances between points as feature space sees them, and centring of kernel matrices."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import GramRows, Vectors, beside, is_torch, namespace
from mercer.errors import InvalidInput, speaks, users_level, who
from mercer.kernels import RBF, Kernel, RadialBound, Sum, as_kernel, geometry_of, require_psd
from mercer.memory import row_blocks
from mercer.operators import equal_pairs, gram_of, spread
from mercer.rkhs.features import check_weights, few_features, mean_of_rows
from mercer.rkhs.function import Function

# ---- Mean embeddings: a sample, or a distribution, as one function of the RKHS ----


@speaks("mean_embedding")
def mean_embedding(k: Any, X: Any, weights: Any = None) -> Function:
    r"""Return the mean embedding μ = Σᵢ wᵢ k(xᵢ, ·) / Σᵢ wᵢ.

    ⟨μ, f⟩ is the mean of f over the sample, for every f of the RKHS; ⟨μ_P, μ_Q⟩ is the mean of
    k(x, z) over both samples. For a characteristic kernel μ determines the distribution.

    Parameters
    ----------
    k : Kernel, str or callable
        The kernel; words such as ``"median"`` are resolved on X.
    X : collection of n points
        The sample.
    weights : array of shape (n,), optional
        Weights ≥ 0; equal by default. A weight of 2 counts a point twice.

    Returns
    -------
    Function
        With X as points and the weights, divided by their sum, as coefficients.

    Examples
    --------
    >>> from mercer import Linear, mean_embedding
    >>> mu = mean_embedding(Linear(), [[1.0], [3.0]])
    >>> mu([[10.0]])
    array([20.])
    """
    kernel = k if isinstance(k, Kernel) else as_kernel(k)
    require_psd(kernel)
    points = kernel.domain.check(X)
    w = check_weights(weights, kernel.domain.size(points))
    return Function(kernel.fit_params(points, weights), points, w)


# ---- Squares that cancel: differences of features tell what those of kernel values do not ----


ROUNDING = 8  # units of rounding by which a difference of kernel values may be off
LOOKED_AT = 4096  # pairs of points of which it is looked up whether they are equal


def _lost(squared: Any, sizes: Any) -> Any:
    """Return which squares have lost half of the digits of the numbers that they are made of."""
    return squared <= float(namespace(squared).finfo(squared.dtype).eps) ** 0.5 * sizes


def _warn_of_rounding(kernel: Kernel, bad: np.ndarray, errors: np.ndarray, sizes: Any) -> None:
    """Tell of distances that are less than rounding may have made of 0."""
    warnings.warn(
        f"{who()}: {int(bad.sum())} of {bad.size} distances are below the rounding error of "
        f"{kernel}, {float(np.sqrt(errors[bad].max())):.2g}, as kernel values are about "
        f"{float(np.max(sizes)):.2g}: they say nothing. Subtract the means of the columns, or use "
        "a kernel of the scale of the data.",
        UserWarning,
        stacklevel=users_level(),
    )


class _ByDifferences(RadialBound):
    """Tiles of squared distances by differences."""

    def tile(self, rows: slice, cols: slice) -> Any:
        return self.squared(rows, cols)

    def _must_be_exact(self, xx: Any, yy: Any) -> bool:
        self._radius = 0.0
        return True


def _by_differences(kernel: Kernel, X: Any, Y: Any) -> Any:
    """Return distances without cancellation, where the kernel knows how; None otherwise."""
    both = [X] if Y is None else [X, Y]
    count = sum(kernel.domain.size(Z) for Z in both)
    images = [few_features(kernel, Z, count) for Z in both]
    geometry, unit = None, 1.0
    if any(image is None for image in images):
        geometry = None if is_torch(X) else geometry_of(kernel)
        if geometry is None or geometry.key is None or geometry.norm != 2:
            return None
        images, unit = [geometry.image(Z) for Z in both], geometry.unit
    bound = _ByDifferences(RBF(1.0), *images)
    if is_torch(X):
        n, m = bound.shape
        return bound.tile(slice(0, n), slice(0, m)).sqrt()

    def root(rows: slice, T: np.ndarray) -> np.ndarray:
        r = np.sqrt(T, out=T)
        return r if geometry is None else geometry.distance(r / unit)

    return spread(bound, np.empty(bound.shape, bound.dtype), root, arrays=4)


# ---- geometry ----


@speaks("distance")
def distance(k: Any, X: Any, Y: Any = None) -> Any:
    r"""Return the distances d(x, y) = ‖φ(x) − φ(y)‖ = √(k(x, x) + k(y, y) − 2k(x, y)).

    For every f of the RKHS, |f(x) − f(y)| ≤ ‖f‖ d(x, y). Where the difference has lost half of its
    digits it is taken otherwise: by differences of features, where the kernel has a few thousand
    at most, as `Linear` and `Polynomial` have, or of the points, where it is a function of their
    distance. So points far from the origin have the distances that they have near it. Of other
    kernels, distances below about 10⁻⁸ √k(x, x) drown in rounding (3·10⁻⁴ in float32), which a
    warning tells; negative squares are set to zero, and d(x, x) = 0 exactly when Y is not given.

    Parameters
    ----------
    k : Kernel, str or callable
        The kernel.
    X, Y : collections of points
        Y defaults to X.

    Returns
    -------
    matrix of shape (n, m)
        The distances.

    Examples
    --------
    >>> from mercer import Linear, distance
    >>> distance(Linear(), [[0.0, 0.0], [3.0, 4.0]])
    array([[0., 5.],
           [5., 0.]])
    """
    kernel = k if isinstance(k, Kernel) else as_kernel(k)
    require_psd(kernel)
    own = Y is None or Y is X
    if not kernel.domain.holds_points and not own:
        raise InvalidInput(
            "distance: rows of kernel values do not tell k(x, x) of new points; pass one square "
            "matrix of all points, distance(Precomputed(), K)."
        )
    K = kernel(X, None if own else Y)
    kernel = kernel.fit_params(X)
    x = kernel.diag(X)
    y = x if own else kernel.diag(Y)
    if is_torch(K):
        squared = (x[:, None] + y[None, :] - 2 * K).clip(0)
        if own:
            squared = squared * (1 - squared.new_ones(len(x)).diag())
        small = _lost(squared, x[:, None] + y)
        small = small.fill_diagonal_(False) if own else small
        if not K.requires_grad and bool(small.any()):
            better = _by_differences(kernel, *_points(kernel, X, None if own else Y))
            return squared.sqrt() if better is None else better.to(K.dtype)
        return squared.sqrt()
    lost = False
    for start in range(0, len(K), 256):  # in place; xᵢ + yⱼ first, so that D stays symmetric
        rows = slice(start, start + 256)
        sizes = x[rows, None] + y
        K[rows] = sizes - 2 * K[rows]
        small = _lost(K[rows], sizes)
        if own:
            small[np.arange(len(small)), np.arange(start, start + len(small))] = False
        lost = lost or bool(small.any())
    if own:
        np.fill_diagonal(K, 0)
    if lost:
        points = _points(kernel, X, None if own else Y)
        better = _by_differences(kernel, *points)
        if better is not None:
            return better.astype(K.dtype, copy=False)
        _judge(kernel, *points, K, x, y)
    np.maximum(K, 0, out=K)
    return np.sqrt(K, out=K)


def _points(kernel: Kernel, X: Any, Y: Any) -> tuple[Any, Any]:
    """Return canonical collections, the second None where it is the first."""
    check = kernel.domain.check
    return (check(X), None) if Y is None else kernel.domain.match(check(X), check(Y))


def _judge(kernel: Kernel, X: Any, Y: Any, squared: np.ndarray, x: Any, y: Any) -> None:
    """Warn of distances of different points that are rounding; a square of 0 may be no rounding."""
    if not kernel.domain.holds_points:
        return
    own, take = Y is None, kernel.domain.take
    errors = ROUNDING * float(np.finfo(squared.dtype).eps) * (x[:, None] + y)
    bad = (squared <= errors) & (squared != 0)
    i, j = (index[:LOOKED_AT] for index in np.nonzero(bad))
    if len(i):
        equal = equal_pairs(take(X, i), take(X if own else Y, j))
        bad[i[equal], j[equal]] = False
        if not equal.all():
            _warn_of_rounding(kernel, bad, errors, x)


@speaks("distance_to_set")
def distance_to_set(k: Any, X: Any, S: Any, weights: Any = None) -> Any:
    r"""Return the distance of φ(x) to the barycentre of φ(S), for every point of X.

    ‖φ(x) − Σⱼ wⱼφ(sⱼ)‖² = k(x, x) − 2 Σⱼ wⱼk(x, sⱼ) + Σᵢⱼ wᵢwⱼk(sᵢ, sⱼ), with weights that sum to
    one. Computed in tiles; where half of the digits are lost by differences of features, if there
    are a few thousand at most, and a warning tells of what is rounding. The class whose set is
    nearest is the simplest classifier of all.

    Parameters
    ----------
    k : Kernel, str or callable
        The kernel; words such as ``"median"`` are resolved on S.
    X : collection of n points
        From where.
    S : collection of m points
        The set.
    weights : array of shape (m,), optional
        Weights ≥ 0 of the points of S; equal by default.

    Returns
    -------
    array of shape (n,)
        The distances.

    Examples
    --------
    >>> from mercer import Linear, distance_to_set
    >>> distance_to_set(Linear(), [[0.0]], [[1.0], [3.0]])
    array([2.])
    """
    mean = mean_embedding(k, S, weights)
    if not mean.kernel.domain.holds_points:
        raise InvalidInput(
            "distance_to_set: rows of kernel values do not tell k(x, x) of new points; "
            "pass the kernel and the points."
        )
    kernel = mean.kernel
    squared, sizes = _squares(mean, X)
    if is_torch(squared):
        squared = squared.clip(0)
        if squared.requires_grad or not bool(_lost(squared, sizes).any()):
            return squared.sqrt()
        better = _to_mean(mean, kernel.domain.check(X))
        return squared.sqrt() if better is None else better.to(squared.dtype)
    if not _lost(squared, sizes).any():
        return np.sqrt(np.maximum(squared, 0))
    points = kernel.domain.check(X)
    better = _to_mean(mean, points)
    if better is not None:
        return better.astype(squared.dtype, copy=False)
    errors = ROUNDING * float(np.finfo(squared.dtype).eps) * sizes
    bad, take = (squared <= errors) & (squared != 0), kernel.domain.take
    if bad.any():
        first = take(mean.points, np.zeros(int(bad.sum()), dtype=int))
        bad[bad] = ~equal_pairs(take(points, np.flatnonzero(bad)), first)
    if bad.any():
        _warn_of_rounding(kernel, bad, errors, 0.5 * sizes)
    return np.sqrt(np.maximum(squared, 0))


def _to_mean(mean: Function, X: Any) -> Any:
    """Return ‖φ(x) − μ‖ by differences of features, where these are few; None otherwise.

    Squares add up over the parts of a sum of kernels, some of which may have no features.
    """
    kernel = mean.kernel
    F = few_features(kernel, mean.points, kernel.domain.size(X))
    if F is None or gram_of(kernel, X).n_features is None:  # new letters have no column
        return _to_means(mean, X) if type(kernel) is Sum and isinstance(X, np.ndarray) else None
    centre = mean_of_rows(F, mean.coef)
    if is_torch(X):
        return ((gram_of(kernel, X).features() - centre) ** 2).sum(1).sqrt()
    out = np.empty(kernel.domain.size(X))
    for rows in row_blocks(len(out), 4 * 8 * len(centre)):
        part = gram_of(kernel, kernel.domain.take(X, rows)).features()
        gaps = (part.toarray() if sp.issparse(part) else part) - centre
        out[rows] = np.sqrt(np.einsum("ij,ij->i", gaps, gaps))
    return out


def _to_means(mean: Function, X: np.ndarray) -> np.ndarray | None:
    """Return ‖φ(x) − μ‖ of a sum of kernels, if a part has features; None otherwise."""
    parts = mean.kernel.get_params(deep=False).values()
    if not all(type(k.domain) is Vectors for k in parts):
        return None
    several = [Function(k, mean.points, mean.coef) for k in parts]
    found = [_to_mean(f, X) for f in several]
    if all(d is None for d in found):
        return None
    total = np.zeros(len(X))
    for f, d in zip(several, found, strict=True):
        total += np.maximum(_squares(f, X)[0], 0.0) if d is None else d * d
    return np.sqrt(total)


def _squares(mean: Function, X: Any) -> tuple[Any, Any]:
    """Return ‖φ(x) − μ‖² from kernel values, and how large the numbers were that it is made of."""
    own, length = mean.kernel.diag(X), mean.norm() ** 2
    return own - 2 * mean(X) + length, own + length


@speaks("center")
def center(K: Any, rows: Any = None, weights: Any = None) -> Any:
    r"""Return kernel values after moving the origin of feature space to the mean of the points.

    With U = 1wᵀ, the matrix that averages, center(K) = (I − U) K (I − U)ᵀ, the Gram matrix of
    φ(xᵢ) − Σⱼ wⱼφ(xⱼ). With `rows` these are values k(new point, training point), centred by the
    same mean, that of the training points.

    Parameters
    ----------
    K : array of shape (n, n)
        Gram matrix of the training points.
    rows : array of shape (q, n), optional
        Kernel values of new points with the training points.
    weights : array of shape (n,), optional
        Weights ≥ 0 of the mean, divided by their sum; equal by default.

    Returns
    -------
    array of shape (n, n) or (q, n)
        A new array; K and rows stay as they are.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import center
    >>> center(np.array([[0.0, 0.0], [0.0, 4.0]]))
    array([[ 1., -1.],
           [-1.,  1.]])
    >>> center(np.array([[0.0, 0.0], [0.0, 4.0]]), rows=[[0.0, 8.0]])
    array([[-3.,  3.]])
    """
    K = _matrix(K, "K")
    n = K.shape[0]
    if K.shape[1] != n:
        raise InvalidInput(
            f"center: K has shape {tuple(K.shape)}; the Gram matrix must be square. Kernel values "
            "of new points go into rows: center(K, rows=K_new)."
        )
    w = check_weights(weights, n)
    wide = _wide(K)
    w = beside(w, wide)
    by_column, by_row = w @ wide, wide @ w
    mean = by_row @ w
    if rows is None:
        rows = wide
    else:
        rows = _matrix(rows, "rows")
        if rows.shape[1] != n:
            raise InvalidInput(
                f"center: rows has {rows.shape[1]} columns for {n} training points; "
                "give k(new point, training point), one row a new point."
            )
        rows = _wide(rows)
        by_row = rows @ w
    centred = rows - by_row[:, None]
    centred -= by_column[None, :] - mean
    return centred.to(K.dtype) if is_torch(K) else centred.astype(K.dtype, copy=False)


def _matrix(A: Any, name: str) -> Any:
    A = GramRows().check(A, name)
    if A.ndim != 2:
        raise InvalidInput(f"center: {name} has {A.ndim} dimension; give a matrix.")
    return A


def _wide(A: Any) -> Any:
    return A.double() if is_torch(A) else A.astype(np.float64, copy=False)
