"""Losses with kinks on kernels of few features: weights of the features, and no n×n matrix.

Kernel values of columns of very different size are large, and a small penalty makes coefficients
large too, so that f = Ka is the small difference of large numbers. The weights v of the features
are small then. A pair (v, a) has the duality gap Σ wᵢ(ℓ + ℓ* − uᵢzᵢ) + (α/2)‖v − Φᵀa‖², whichever
v and a are, and that is not the difference of anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lstsq, qr

from mercer.checks import Clock
from mercer.errors import InvalidInput, who
from mercer.kernels import Kernel, check_diagonal
from mercer.lapack import heard
from mercer.models.margin import gram_rows
from mercer.operators import LowRank
from mercer.settings import get_config
from mercer.solvers import Rows
from mercer.solvers.risk import Kinked, KinkedPoint

FEATURES = 1000  # up to which a step in them, n D² flops, is cheaper than the dual
COPIES = 8  # of the features that a fit makes, one of them of twice the rows
ROWS = 400  # up to which as many weights as rows are found so, where there are more features
DEPENDENT = 1e-13  # length of what is left of a row, relative to the longest, that is rounding
STEPS = 100
SHARP = 2**20  # numbers up to which values are computed in longer ones


@dataclass(frozen=True, eq=False)
class DualFeatures:
    """Points by their features, centred with an offset, which moves the offset and nothing else."""

    F: np.ndarray
    centre: np.ndarray

    @property
    def K(self) -> LowRank:
        """The Gram matrix."""
        return LowRank(self.F)

    @property
    def diagonal(self) -> np.ndarray:
        """The squared lengths of the points."""
        return np.einsum("ij,ij->i", self.F, self.F)

    def centred(self, offset: bool) -> DualFeatures:
        """Return the points around their mean, or as they are without an offset."""
        if not offset:
            return self
        F = self.F - self.F[:1]
        mean = F.mean(axis=0)
        return DualFeatures(F - mean, self.F[0] + mean)


def dual_rows(kernel: Kernel, X: Any, often: bool = False) -> Rows | DualFeatures:
    """Return the features of a kernel that has few, or few rows, else rows of its Gram matrix.

    Several problems may share them.

    Parameters
    ----------
    kernel : Kernel
        With words resolved.
    X : collection
        The points; for a precomputed kernel the square matrix of kernel values.
    often : bool, default=False
        Whether many problems in turn will use them.
    """
    n, D = kernel.domain.size(X), kernel._n_features(X)
    if D is None or min(D, n) > (FEATURES if n > D else ROWS) or not fits(n, D):
        return gram_rows(kernel, X, often)
    with np.errstate(over="ignore", invalid="ignore"):
        check_diagonal(kernel, np.asarray(kernel._diag(X), dtype=float))
    F = dense_features(kernel, X)
    if not np.isfinite(F).all():
        raise InvalidInput(
            f"{who()}: the features of {kernel} are not finite on these data; scale the columns."
        )
    return DualFeatures(F, np.zeros(D))


def fits(n: int, D: int) -> bool:
    """Whether a fit by D features of n rows is within the memory budget."""
    return COPIES * 8 * n * (D + 1) <= get_config().memory


def dense_features(kernel: Kernel, X: Any) -> np.ndarray:
    """Return the features of points as an array."""
    F = kernel._features(X)
    return np.asarray(F.toarray() if sp.issparse(F) else F, dtype=float)


def _span(F: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return an orthonormal basis of the rows but for rounding, and the rows in it."""
    Q, R, order = heard(qr, F.T, mode="economic", pivoting=True, check_finite=False)
    size = np.abs(R.diagonal())
    rank = min(most, int((size > DEPENDENT * size.max(initial=0.0)).sum()))
    inside = np.empty((len(F), rank))
    inside[order] = R[:rank].T
    return Q[:, :rank], inside


def sharp_values(F: np.ndarray, v: np.ndarray) -> np.ndarray | None:
    """Return Fv in ``numpy.longdouble``; None for many features, or where that is no longer."""
    if F.size > SHARP or np.finfo(np.longdouble).eps >= EPS:
        return None
    return np.asarray(F.astype(np.longdouble) @ v.astype(np.longdouble))


def kinked_point(
    F: np.ndarray,
    y: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    epsilon: float,
    alpha: float,
    offset: bool,
    max_iter: int | None,
    max_time: float | None,
) -> tuple[KinkedPoint, int, str]:
    """Return the minimum for slopes from lower to upper beyond a tube, steps, what ended them."""
    clock = Clock(max_time)
    index = None
    if epsilon > 0:  # two kinks a row, at the edges of the tube
        none, index = np.zeros(len(y)), np.tile(np.arange(len(y)), 2)
        y = np.concatenate([y + epsilon, y - epsilon])
        lower, upper = np.concatenate([none, lower]), np.concatenate([upper, none])
    basis = None
    if F.shape[1] > len(F):  # all that matters of the weights lies in the span of the rows
        basis, F = _span(F, len(F) - offset)  # rows around their mean depend on one another
    problem = Kinked(F, y, lower, upper, alpha, offset, index)
    limit = STEPS if max_iter is None else max_iter
    c, s, steps = problem.solve(limit, clock)
    said = "rounding stops it"
    if steps >= limit:
        said = f"stopped by max_iter={limit}"
    elif clock.late:
        said = f"stopped by max_time={max_time:g}"
    c, s = problem.polished(c, s)
    if index is not None:
        s = np.sum(np.split(s, 2), axis=0)
    point = problem.point(c, s)
    return point if basis is None else replace(point, v=basis @ point.v), steps, said


# ---- Coefficients of points for weights of features: f = Σ aᵢ k(xᵢ, ·) for f = vᵀφ ----
# A duality gap bounds (alpha/2)‖v − Φᵀa‖², and for a small alpha that says nothing of Φᵀa. The
# coefficients of a loss with kinks are near ±weight/alpha, so large for a small alpha that
# rounding alone spoils their function; none of the box have the function then, and the shortest
# do.


SEEN = 1e-14  # part of the values that may go with what no row sees
EXACT = 1e-9  # relative error of the values of a function by its coefficients
FLAT = 1e-14  # part of the targets below which values do not matter
EDGE = 1e-9  # part of the box that a free coefficient is away from its ends
EPS = float(np.finfo(float).eps)


def in_span(F: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return weights without what no row sees, which for a small penalty may be rounding.

    The values stay as they are, or else so do the weights.
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
    """The coefficients a with Φᵀa = v and, with an offset, Σa = 0."""

    def __init__(self, rows: DualFeatures, v: np.ndarray, height: float, offset: bool):
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
    """Return coefficients of the functions with weights v: those given, or the shortest."""
    if not len(a) or not fits(len(a), len(v)):
        return a
    rows = DualFeatures(dense_features(kernel, X), np.zeros(len(v)))
    height = float(np.abs(y - offset * np.median(y)).max())
    pairs = zip(v.reshape(len(v), -1).T, a.reshape(len(a), -1).T, strict=True)
    columns = [Represented(rows, u, height, offset).exact(c) for u, c in pairs]
    return np.stack(columns, axis=1).reshape(a.shape)


def _shortest(M: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Return the shortest x with Mx nearest to r."""
    if 0 in M.shape:
        return np.zeros(M.shape[1])
    return lstsq(M, r, cond=DEPENDENT, lapack_driver="gelsy", check_finite=False)[0]
