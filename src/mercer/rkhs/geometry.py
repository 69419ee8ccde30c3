"""Distances between points as feature space sees them, and centring of kernel matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains import GramRows, beside, is_torch
from mercer.errors import InvalidInput, speaks, who
from mercer.kernels import Kernel, as_kernel, require_psd
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


def check_weights(weights: Any, n: int) -> np.ndarray:
    """Return weights that sum to one."""
    if n == 0:
        raise InvalidInput(f"{who()}: there are no points; a mean needs at least one.")
    if weights is None:
        return np.full(n, 1.0 / n)
    try:
        w = np.asarray(weights, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{who()}: weights are not numbers ({error}).") from error
    if w.shape != (n,):
        raise InvalidInput(f"{who()}: weights have shape {w.shape}, expected ({n},): one a point.")
    if not np.isfinite(w).all() or (w < 0).any() or not (w > 0).any():
        raise InvalidInput(f"{who()}: weights must be finite, ≥ 0, and not all zero.")
    w = w / w.max()
    return w / w.sum()


# ---- geometry ----


@speaks("distance")
def distance(k: Any, X: Any, Y: Any = None) -> Any:
    r"""Return the distances d(x, y) = ‖φ(x) − φ(y)‖ = √(k(x, x) + k(y, y) − 2k(x, y)).

    For every f of the RKHS, |f(x) − f(y)| ≤ ‖f‖ d(x, y). Distances below about 10⁻⁸ √k(x, x) drown
    in rounding (3·10⁻⁴ in float32); negative squares are set to zero, and d(x, x) = 0 exactly when
    Y is not given.

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
        return squared.sqrt()
    for start in range(0, len(K), 256):  # in place; xᵢ + yⱼ first, so that D stays symmetric
        rows = slice(start, start + 256)
        K[rows] = (x[rows, None] + y) - 2 * K[rows]
    np.maximum(K, 0, out=K)
    if own:
        np.fill_diagonal(K, 0)
    return np.sqrt(K, out=K)


def distance_to_set(k: Any, X: Any, S: Any, weights: Any = None) -> Any:
    r"""Return the distance of φ(x) to the barycentre of φ(S), for every point of X.

    ‖φ(x) − Σⱼ wⱼφ(sⱼ)‖² = k(x, x) − 2 Σⱼ wⱼk(x, sⱼ) + Σᵢⱼ wᵢwⱼk(sᵢ, sⱼ), with weights that sum to
    one. Computed in tiles. The class whose set is nearest is the simplest classifier of all.

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
    squared = mean.kernel.diag(X) - 2 * mean(X) + mean.norm() ** 2
    if is_torch(squared):
        return squared.clip(0).sqrt()
    return np.sqrt(np.maximum(squared, 0))


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
