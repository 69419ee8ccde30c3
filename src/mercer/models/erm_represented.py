"""Coefficients of points for weights of features: f = Σ aᵢ k(xᵢ, ·) for f = vᵀφ.

A duality gap bounds (alpha/2)‖v − Φᵀa‖², and for a small alpha that says nothing of Φᵀa. The
coefficients of a loss with kinks are near ±weight/alpha, so large for a small alpha that rounding
alone spoils their function; none of the box have the function then, and the shortest do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import lstsq, qr

from mercer.kernels import Kernel
from mercer.models.erm_kinked import DEPENDENT, FeatureRows, dense_features, fits

__all__ = ["Represented", "coefficients", "in_span"]

SEEN = 1e-14  # part of the values that may go with what no row sees
EXACT = 1e-9  # relative error of the values of a function by its coefficients
FLAT = 1e-14  # part of the targets below which values do not matter
EDGE = 1e-9  # part of the box that a free coefficient is away from its ends
EPS = float(np.finfo(float).eps)


def in_span(F: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return weights without what no row sees, which for a small penalty may be rounding.

    The values stay as they are, or else so do the weights.

    Parameters
    ----------
    F : ndarray of shape (n, D)
        Features.
    v : ndarray of shape (D,)
        Weights.
    """
    n, D = F.shape
    if D > n or D == 0:
        return v  # found in the span
    unit = _units(F)
    _, size, V = np.linalg.svd(np.linalg.qr(F / unit, mode="r"))
    unseen = V[(size > DEPENDENT * size[0]).sum() :] / unit
    Q = qr(unseen.T, mode="economic", check_finite=False)[0]
    lost = Q @ (Q.T @ v)
    same = np.abs(F @ lost).max(initial=0.0) <= SEEN * np.abs(F @ v).max(initial=0.0)
    return v - lost if same else v


def _units(F: np.ndarray) -> np.ndarray:
    """Return the largest size of each column, 1 where that is 0."""
    tall = np.abs(F).max(axis=0, initial=0.0)
    return np.where(tall > 0, tall, 1.0)


class Represented:
    """The coefficients a with Φᵀa = v and, with an offset, Σa = 0.

    Parameters
    ----------
    rows : FeatureRows
        The points, not centred.
    v : ndarray of shape (D,)
        The weights.
    height : float
        The size of the targets.
    offset : bool
        Whether there is an offset.
    """

    def __init__(self, rows: FeatureRows, v: np.ndarray, height: float, offset: bool):
        centred = rows.centred(offset)
        self.F, self.v, self.offset = centred.F, v, offset
        self._size = np.abs(rows.F)
        self._top = self._size.max(axis=0, initial=0.0)
        self._far = float(self._top @ np.abs(centred.centre))
        self._unit = _units(self.F)
        self.limit = max(EXACT * float(np.abs(self.F @ v).max(initial=0.0)), FLAT * height)
        self._A, self._want = self.F / self._unit, v / self._unit
        if offset:
            self._A = np.column_stack([self._A, np.ones(len(self.F))])
            self._want = np.append(self._want, 0.0)

    def lack(self, a: np.ndarray) -> float:
        """Return how far values by Φᵀa may be from those by v."""
        total = abs(float(a.sum())) if self.offset else 0.0
        if total > FLAT * float(np.abs(a).sum()):
            return np.inf
        return float(self._unit @ np.abs(self.v - self.F.T @ a)) + total * self._far

    def noise(self, a: np.ndarray) -> float:
        """Return how large the rounding of Ka may be."""
        return EPS * float(self._top @ (self._size.T @ np.abs(a)))

    def inside(self, a: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        """Return coefficients of the box with this function; without any, those given.

        What is missing is added to the coefficients between their ends, or if these are too few to
        all that are not 0.
        """
        if self.lack(a) <= self.limit:
            return a
        room = np.minimum(upper - a, a - lower)
        width = np.minimum(upper - lower, np.abs(a).max(initial=0.0))
        for some in (room > EDGE * width, a != 0):
            new = a.copy()
            for _ in range(2):
                new[some] += _shortest(self._A[some].T, self._want - self._A.T @ new)
            new = np.clip(new, lower, upper)
            if self.lack(new) <= self.limit:
                return new
        return a

    def exact(self, a: np.ndarray) -> np.ndarray:
        """Return the coefficients given if they have the function, else the shortest if better."""
        if self.lack(a) <= self.limit and self.noise(a) <= self.limit:
            return a
        new = _shortest(self._A.T, self._want)
        new += _shortest(self._A.T, self._want - self._A.T @ new)
        error, other = (self.lack(c) + self.noise(c) for c in (a, new))
        return new if other < 0.5 * error else a


def coefficients(
    kernel: Kernel, X: Any, v: np.ndarray, a: np.ndarray, y: np.ndarray, offset: bool
) -> np.ndarray:
    """Return coefficients of the functions with weights v: those given, or the shortest.

    Parameters
    ----------
    kernel : Kernel
        With finitely many features.
    X : collection
        The points.
    v : ndarray of shape (D,) or (D, c)
        Weights of one function or several.
    a : ndarray of shape (n,) or (n, c)
        Coefficients that should have these functions.
    y : ndarray of shape (n,)
        The targets.
    offset : bool
        Whether there is an offset.
    """
    if not len(a) or not fits(len(a), len(v)):
        return a
    rows = FeatureRows(dense_features(kernel, X), np.zeros(len(v)))
    height = float(np.abs(y - offset * np.median(y)).max())
    pairs = zip(v.reshape(len(v), -1).T, a.reshape(len(a), -1).T, strict=True)
    columns = [Represented(rows, u, height, offset).exact(c) for u, c in pairs]
    return np.stack(columns, axis=1).reshape(a.shape)


def _shortest(M: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Return the shortest x with Mx nearest to r."""
    if 0 in M.shape:
        return np.zeros(M.shape[1])
    return lstsq(M, r, cond=DEPENDENT, lapack_driver="gelsy", check_finite=False)[0]
