"""Losses with kinks on kernels of few features: weights of the features, and no n×n matrix.

Kernel values of columns of very different size are large, and a small penalty makes coefficients
large too, so that f = Ka is the small difference of large numbers. The weights v of the features
are small then. A pair (v, a) has the duality gap Σ wᵢ(ℓ + ℓ* − uᵢzᵢ) + (α/2)‖v − Φᵀa‖², whichever
v and a are, and that is not the difference of anything.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import qr

from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.kernels.parameters import check_diagonal
from mercer.models.dual_box import gram_rows
from mercer.operators import LowRank
from mercer.settings import get_config
from mercer.solvers import Rows
from mercer.solvers.risk.kinked import Kinked, KinkedPoint

__all__ = ["FeatureRows", "dense_features", "dual_rows", "fits", "kinked_point"]

FEATURES = 1000  # up to which a step in them, n D² flops, is cheaper than the dual
COPIES = 8  # of the features that a fit makes, one of them of twice the rows
ROWS = 400  # up to which as many weights as rows are found so, where there are more features
DEPENDENT = 1e-13  # length of what is left of a row, relative to the longest, that is rounding
STEPS = 100


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Points by their features, centred with an offset, which moves the offset and nothing else.

    Parameters
    ----------
    F : ndarray of shape (n, D)
        The features less the centre.
    centre : ndarray of shape (D,)
        The centre.
    """

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

    def centred(self, offset: bool) -> FeatureRows:
        """Return the points around their mean, or as they are without an offset."""
        if not offset:
            return self
        F = self.F - self.F[:1]
        mean = F.mean(axis=0)
        return FeatureRows(F - mean, self.F[0] + mean)


def dual_rows(kernel: Kernel, X: Any, owner: str, often: bool = False) -> Rows | FeatureRows:
    """Return the features of a kernel that has few, or few rows, else rows of its Gram matrix.

    Several problems may share them.

    Parameters
    ----------
    kernel : Kernel
        With words resolved.
    X : collection
        The points; for a precomputed kernel the square matrix of kernel values.
    owner : str
        Who asks; messages begin with it.
    often : bool, default=False
        Whether many problems in turn will use them.
    """
    n, D = kernel.domain.size(X), kernel._n_features(X)
    if D is None or min(D, n) > (FEATURES if n > D else ROWS) or not fits(n, D):
        return gram_rows(kernel, X, owner, often)
    with np.errstate(over="ignore", invalid="ignore"):
        check_diagonal(kernel, np.asarray(kernel._diag(X), dtype=float))
    F = dense_features(kernel, X)
    if not np.isfinite(F).all():
        raise InvalidInput(
            f"{owner}: the features of {kernel!r} are not finite on these data; scale the columns."
        )
    return FeatureRows(F, np.zeros(D))


def fits(n: int, D: int) -> bool:
    """Whether a fit by D features of n rows is within the memory budget."""
    return COPIES * 8 * n * (D + 1) <= get_config().memory


def dense_features(kernel: Kernel, X: Any) -> np.ndarray:
    """Return the features of points as an array."""
    F = kernel._features(X)
    return np.asarray(F.toarray() if sp.issparse(F) else F, dtype=float)


def _span(F: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return an orthonormal basis of the rows but for rounding, and the rows in it."""
    Q, R, order = qr(F.T, mode="economic", pivoting=True, check_finite=False)
    size = np.abs(R.diagonal())
    rank = min(most, int((size > DEPENDENT * size.max(initial=0.0)).sum()))
    inside = np.empty((len(F), rank))
    inside[order] = R[:rank].T
    return Q[:, :rank], inside


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
    """Return the minimum for slopes from lower to upper beyond a tube, steps, and what ended them.

    Parameters
    ----------
    F : ndarray of shape (n, D)
        Features.
    y : ndarray of shape (n,)
        Targets.
    lower, upper : ndarray of shape (n,)
        Weights times the lowest and highest slope.
    epsilon : float
        Half the width of the tube.
    alpha : float
        The penalty.
    offset : bool
        Whether there is an offset.
    max_iter, max_time : number or None
        Limits.
    """
    deadline = None if max_time is None else time.monotonic() + max_time
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

    def late() -> bool:
        return deadline is not None and time.monotonic() > deadline

    c, s, steps = problem.solve(limit, late)
    said = "rounding stops it"
    if steps >= limit:
        said = f"stopped by max_iter={limit}"
    elif late():
        said = f"stopped by max_time={max_time:g}"
    c, s = problem.polished(c, s)
    if index is not None:
        s = np.sum(np.split(s, 2), axis=0)
    point = problem.point(c, s)
    return point if basis is None else replace(point, v=basis @ point.v), steps, said
