"""The space in which two classes are compared: with an offset, around the mean of their points.

With an offset a solution has Σ aᵢ = 0, so that nothing changes when every φ(x) is moved by the same
amount. Moved to their mean the points are as short as they can be, and rounding, which is a part of
their length, does the least harm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.kernels import Kernel, Linear
from mercer.models.machines import MarginData
from mercer.models.multiclass import Task
from mercer.operators import Dense, Gram
from mercer.settings import get_config
from mercer.solvers import Rows

__all__ = ["Space", "is_plain_linear", "linear_weights", "space_of"]

DENSE = 3000  # points up to which a centred matrix is made
FEATURES = 500  # columns up to which explicit features are used to prove that classes meet


@dataclass(frozen=True, eq=False)
class Space:
    """Rows for the points of one task, and how long the points are.

    Parameters
    ----------
    data : MarginData
        The data.
    given : Rows
        Rows of the Gram matrix as it is.
    task : Task
        Which points.
    rows : Rows
        Rows to solve with, centred where possible.
    index : ndarray or None
        Where the points are in `rows`; None if in order.
    lengths : ndarray
        √k(x, x) as the entries of `rows` were rounded.
    radius : float
        The largest distance of a point from the mean, or from 0 where nothing is centred.
    """

    data: MarginData
    given: Rows
    task: Task
    rows: Rows
    index: np.ndarray | None
    lengths: np.ndarray
    radius: float

    @property
    def points(self) -> np.ndarray:
        """Positions of the points in the data."""
        index = self.task.index
        return np.arange(len(self.data.y)) if index is None else index

    @property
    def centred(self) -> bool:
        """Whether `rows` are not those of the kernel itself."""
        return self.rows is not self.given

    def values(self, coef: np.ndarray) -> np.ndarray:
        """Return f = Σ coefᵢ k(xᵢ, ·) at the points, as a prediction will compute it."""
        used, points = coef != 0, self.points
        X = self.data.X
        if is_plain_linear(self.data.kernel) and isinstance(X, np.ndarray):
            return X[points] @ linear_weights(X[points[used]], coef[used])
        return self.given.product(points[used], coef[used], self.task.index)

    def square(self, coef: np.ndarray) -> float | None:
        """Return ‖f‖² from the weights of the columns, more exact than from kernel values."""
        used, X = coef != 0, self.data.X
        if not is_plain_linear(self.data.kernel) or not isinstance(X, np.ndarray):
            return None
        w = linear_weights(X[self.points[used]], coef[used])
        return float(w @ w)

    def columns(self) -> np.ndarray | None:
        """Return the points as rows of a matrix, centred as `rows` are, for the linear kernel."""
        K: Any = self.rows.K
        if not is_plain_linear(self.data.kernel) or not isinstance(self.data.X, np.ndarray):
            return None
        Z = np.asarray(K.X, dtype=float)
        Z = Z if self.index is None else Z[self.index]
        return Z if Z.shape[1] <= FEATURES else None

    def block(self, some: np.ndarray) -> np.ndarray:
        """Return the matrix of some points of the task, in float64."""
        at = some if self.index is None else self.index[some]
        return np.asarray(self.rows.K.block(at, at), dtype=float)

    def features(self, some: np.ndarray, offset: bool) -> np.ndarray | None:
        """Return explicit features of some points, of columns of size 1; None if there are none.

        Whether weighted means coincide does not depend on the units of the columns, nor, with an
        offset, on where these begin.
        """
        kernel, X, at = self.data.kernel, self.data.X, self.points[some]
        if not isinstance(X, np.ndarray):
            return None
        D = kernel._n_features(X)
        if D is None or D > FEATURES:
            return None
        F = np.asarray(kernel._features(kernel.domain.take(X, at)), dtype=float)
        if offset:
            F = F - F[:1]
        size = np.abs(F).max(axis=0, initial=0.0)
        return F[:, size > 0] / size[size > 0]


def space_of(data: MarginData, rows: Rows, task: Task, offset: bool, dense: bool = True) -> Space:
    """Return the space of a task.

    Parameters
    ----------
    data : MarginData
        The data.
    rows : Rows
        Rows of their Gram matrix.
    task : Task
        Which points.
    offset : bool
        Whether there is an offset; without one the origin matters and stays.
    dense : bool, default=True
        Whether a centred matrix may be made, where the columns cannot simply be centred.
    """
    index = task.index
    diagonal = rows.diagonal if index is None else rows.diagonal[index]
    lengths, m = np.sqrt(np.maximum(diagonal, 0.0)), len(task.signs)
    if not offset:
        return Space(data, rows, task, rows, index, lengths, float(lengths.max()))
    if is_plain_linear(data.kernel) and isinstance(data.X, np.ndarray):
        Z = np.asarray(data.X if index is None else data.X[index], dtype=float)
        Z = Z - Z[:1]
        Z = Z - Z.mean(axis=0)
        own = Rows(Gram(data.kernel, Z, keep=False))
        lengths = np.sqrt(np.maximum(own.diagonal, 0.0))
        return Space(data, rows, task, own, None, lengths, float(lengths.max()))
    if not dense or m > DENSE or 32 * m**2 > get_config().memory:
        return Space(data, rows, task, rows, index, lengths, float(lengths.max()))
    K = rows.K.to_dense() if index is None else rows.K.block(index, index)
    K = np.array(K, dtype=float)
    mean = K.mean(axis=0)
    K -= mean
    K -= (mean - mean.mean())[:, None]
    radius = float(np.sqrt(max(0.0, float(K.diagonal().max()))))
    return Space(data, rows, task, Rows(Dense(K, symmetric=True)), None, lengths, radius)


def is_plain_linear(kernel: Kernel) -> bool:
    """Whether a kernel is the inner product of its rows."""
    return type(kernel) is Linear and kernel.get_params(deep=False)["covariance"] is None


def linear_weights(X: Any, coef: np.ndarray) -> np.ndarray:
    """Return Σ coefᵢ xᵢ, correct to rounding of the spread of the rows, not of their length.

    Σ coefᵢ xᵢ = Σ coefᵢ (xᵢ − x₀) + x₀ Σ coefᵢ, the last sum without rounding errors.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        Rows.
    coef : ndarray of shape (n,) or (n, outputs)
        Coefficients.
    """
    X = np.asarray(X, dtype=float)
    if not len(X):
        return np.zeros((X.shape[1], *coef.shape[1:]))
    near = (X - X[0]).T @ coef
    if coef.ndim == 1:
        return near + X[0] * math.fsum(coef)
    return near + np.outer(X[0], [math.fsum(column) for column in coef.T])
