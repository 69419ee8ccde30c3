"""Values of ridge fits on the test rows of folds, for all penalties of one kernel together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrs

from mercer.models.ridge.exact import LeastSquares
from mercer.selection.krylov import (
    BANDWIDTH,
    PERIOD,
    SHARE,
    SPEED,
    factorisation_cost,
    shifted_solutions,
)
from mercer.settings import get_config
from mercer.solvers import factor
from mercer.solvers.linear.inplace import fortran_float64, potrf, restore

__all__ = ["RidgeFold", "primal_values", "ridge_values"]

SMALL = 400  # rows of a fold up to which factorisations are as cheap as anything
EIGH = 18  # factorisations that one eigendecomposition costs
RUNS = 50  # blocks of a matrix that are copied one by one


@dataclass(frozen=True, eq=False)
class RidgeFold:
    """A fold: training rows of positive weight, their targets and weights, and the test rows.

    Parameters
    ----------
    train, test : ndarray of int
        Positions.
    T : ndarray of shape (m, t)
        Targets, in units of `unit`.
    s : ndarray of shape (m,)
        Roots of the weights.
    unit : float
        What the values are multiplied by in the end.
    column : bool
        Whether there is one output only.
    classes : ndarray or None
        Of a classifier.
    """

    train: np.ndarray
    test: np.ndarray
    T: np.ndarray
    s: np.ndarray
    unit: float
    column: bool
    classes: np.ndarray | None

    @classmethod
    def of(cls, data: Any, train: np.ndarray, test: np.ndarray) -> RidgeFold:
        """Return the fold of checked data of its training rows."""
        w = np.ones(len(train)) if data.weights is None else data.weights
        some = w > 0
        T = data.T[some]
        largest = float(np.abs(T).max(initial=0.0))
        unit = 1.0 if largest == 0 or 1e-100 < largest < 1e100 else largest
        return cls(train[some], test, T / unit, np.sqrt(w[some]), unit, data.column, data.classes)

    def right(self, offset: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return S(T − 1m), m the weighted means where an offset is fitted, and m."""
        w = self.s**2
        m = w @ self.T / w.sum() if offset else np.zeros(self.T.shape[1])
        return self.s[:, None] * (self.T - m), m

    def shaped(self, values: np.ndarray) -> np.ndarray:
        """Return values (…, t) in the user's units, without the last axis where t is 1."""
        values = self.unit * values
        return values[..., 0] if self.column else values


def ridge_values(
    K: np.ndarray, folds: Sequence[RidgeFold], alphas: np.ndarray, offset: bool
) -> list[list[Any]]:
    """Return for each fold and penalty the values at its test rows; None where a fit must say.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix of all rows, in float64.
    folds : sequence of RidgeFold
        The folds.
    alphas : ndarray
        Penalties > 0.
    offset : bool
        Whether an offset is fitted.

    Returns
    -------
    list of list
        Arrays of shape (test rows,) or (test rows, outputs); None where K + αI could not be
        factorised.
    """
    out: list[list[Any]] = [[None] * len(alphas) for _ in folds]
    pending = [list(range(len(alphas))) for _ in folds]
    if _krylov_pays(K, folds, len(alphas)):
        pending = _by_krylov(K, folds, alphas, offset, out)
    for fold, left, mine in zip(folds, pending, out, strict=True):
        if left:
            _by_factors(K, fold, alphas, offset, left, mine)
    return out


def _krylov_pays(K: np.ndarray, folds: Sequence[RidgeFold], count: int) -> bool:
    """Whether a first look at the rate of convergence is cheap beside the factorisations."""
    n, columns = len(K), sum(f.T.shape[1] for f in folds)
    direct = sum(factorisation_cost(len(f.train)) for f in folds) * min(count, EIGH)
    step = max(8 * n * n / BANDWIDTH, 2 * columns * n * n / SPEED)
    solutions = 4 * 8 * n * columns * count  # bytes: they, their products, residuals, right sides
    if solutions > SHARE * get_config().memory or max(len(f.train) for f in folds) <= SMALL:
        return False
    return 2 * PERIOD * step < direct / 2


def _by_krylov(
    K: np.ndarray, folds: Sequence[RidgeFold], alphas: np.ndarray, offset: bool, out: list[list]
) -> list[list[int]]:
    """Fill in what Krylov spaces give to all digits; return the penalties left for each fold."""
    n = len(K)
    owner = np.concatenate([np.full(f.T.shape[1], i) for i, f in enumerate(folds)])
    S, B = np.zeros((len(owner), n)), np.zeros((len(owner), n))
    means = []
    for i, fold in enumerate(folds):
        b, m = fold.right(offset)
        at = np.ix_(owner == i, fold.train)
        S[at], B[at] = fold.s, b.T
        means.append(m)
    found = shifted_solutions(K, S, B, alphas, owner, offset)
    pending = []
    for i, fold in enumerate(folds):
        mine = owner == i
        good = found.good[:, mine].all(axis=1)
        f = found.product[:, mine]  # (penalties, t, n)
        b = means[i]
        if offset:
            w = fold.s**2
            b = b - f[:, :, fold.train] @ w / w.sum()
        values = fold.shaped(np.swapaxes(f[:, :, fold.test] + np.asarray(b)[..., None], 1, 2))
        for k in np.flatnonzero(good):
            out[i][k] = values[k]
        pending.append(np.flatnonzero(~good).tolist())
    return pending


def _by_factors(
    K: np.ndarray, fold: RidgeFold, alphas: np.ndarray, offset: bool, left: list[int], out: list
) -> None:
    """Fill in the values of one fold: one factorisation each, or one eigendecomposition."""
    s, (b, mean) = fold.s[:, None], fold.right(offset)
    A = _part(K, fold.train, fold.train)
    if not (fold.s == 1).all():
        A *= s
        A *= s.T
    rhs = np.hstack([b, s]) if offset else b
    cross = _part(K, fold.test, fold.train)
    many = len(left) > EIGH
    if many:
        low, Q = eigh(A, overwrite_a=True, check_finite=False)
        turned = Q.T @ rhs
    else:
        A, diagonal = fortran_float64(A, overwrite=True), A.diagonal().copy()
    for k in left:
        if many:
            if low[0] + alphas[k] <= 1e-14 * max(low[-1], 0.0):
                continue  # the factorisation of a fit decides what so small a penalty means
            z = Q @ (turned / (np.maximum(low, 0.0) + alphas[k])[:, None])
        else:
            restore(A, diagonal + alphas[k])
            if not potrf(A):
                continue
            z = dpotrs(A, rhs, lower=1)[0]
        level = mean
        if offset:
            h, z = z[:, -1:], z[:, :-1]
            shift = (s.T @ z) / float((s.T @ h)[0, 0])
            z, level = z - h * shift, mean + shift[0]
        out[k] = fold.shaped(cross @ (s * z) + level)


def _part(K: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return K[rows][:, columns] as an array of its own."""
    down, across = _runs(rows), _runs(columns)
    if len(down) * len(across) > RUNS:
        return K[np.ix_(rows, columns)]
    out = np.empty((len(rows), len(columns)))  # folds that were not shuffled: a few large blocks
    for i, a, m in down:
        for j, b, k in across:
            out[i : i + m, j : j + k] = K[a : a + m, b : b + k]
    return out


def _runs(index: np.ndarray) -> list[tuple[int, int, int]]:
    """Return runs of consecutive positions: where each begins in the index, at what, its length."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(index) != 1) + 1])
    lengths = np.diff(np.append(starts, len(index)))
    return list(zip(starts.tolist(), index[starts].tolist(), lengths.tolist(), strict=True))


def primal_values(problem: LeastSquares, features: Any, alphas: np.ndarray) -> list[np.ndarray]:
    """Return the values at points with finite features, for each penalty, as (points, t).

    Parameters
    ----------
    problem : LeastSquares
        Of the training rows, with fewer features than rows.
    features : array of shape (points, D)
        Of the points.
    alphas : ndarray
        Penalties > 0.
    """
    A, mu, t = problem._centred_features()
    G, right = A.T @ A, A.T @ t
    level = problem.w @ problem.T / problem.w.sum() if problem.offset else 0.0
    out = []
    for alpha in alphas:
        v = factor(G, float(alpha), owner=repr(problem.kernel)).solve(right)
        b = level - mu @ v if problem.offset else 0.0
        out.append(problem.unit * (np.asarray(features @ v) + b))
    return out
