"""What a decomposition finds: variances, directions and where the mean is, in one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.engines import gram as whole_gram
from mercer.memory import named_when_full, require_memory
from mercer.operators import Gram, OnDevice
from mercer.solvers import Solution

EPS = float(np.finfo(np.float64).eps)
RANK = 1e-12  # eigenvalues below this part of the largest are rounding


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
    """How many components: a number, a share of the variance, or all (both None)."""

    count: int | None = None
    share: float | None = None

    def cut(self, values: np.ndarray, total: float, drop: bool) -> int:
        """Return how many of some eigenvalues (descending, rounding set to 0) are kept.

        Parameters
        ----------
        values : ndarray
            The eigenvalues.
        total : float
            The sum of all there are.
        drop : bool
            Whether components of no variance are dropped, though a number was given.
        """
        rank = int((values > 0).sum())
        if self.share is not None:
            reached = np.cumsum(values) >= self.share * total * (1 - 8 * EPS)
            return max(1, int(np.argmax(reached)) + 1 if reached.any() else rank)
        if self.count is None or drop:
            rank = rank if self.count is None else min(rank, self.count)
            return max(1, rank)
        return min(self.count, len(values))


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


def certificate(
    values: np.ndarray, residual: float, allowed: float, owner: str, way: str
) -> Solution:
    """Return the certificate of components in finite features."""
    good = residual <= allowed
    message = (
        f"{owner}: the components have relative residual {residual:.3g}, above {allowed:.1g}. "
        "Rescale the columns so that they are of order one."
    )
    return Solution(
        values, good, residual=residual, message="" if good else message, extra={"way": way}
    )


def padded(k: int, *arrays: np.ndarray) -> list[np.ndarray]:
    """Return arrays with columns of 0 behind, k columns in all: components beyond the rank.

    Parameters
    ----------
    k : int
        How many.
    *arrays : ndarrays
        Of components along the last axis, all of the same number.
    """
    short = max(0, k - arrays[0].shape[-1])
    return [np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, short)]) for a in arrays]


# ---- A Gram matrix that is kept to be changed: in main memory, or on the device that computes
# it.


def stored_gram(gram: Gram, matrices: int, what: str, cure: str) -> np.ndarray | OnDevice:
    """Return a Gram matrix in float64 that belongs to the caller.

    Parameters
    ----------
    gram : Gram
        Symmetric.
    matrices : int
        How many of its size are needed in all.
    what, cure : str
        What needs them, and what to do where they do not fit, for the message.

    Returns
    -------
    ndarray of shape (n, n), or OnDevice
        Where the kernel is computed.
    """
    n = gram.shape[0]
    bound = None if gram.device is None else gram.bound
    like = None if bound is None or bound.xp is np else bound._like
    require_memory(8 * n * n * matrices, what, cure, like)
    if bound is not None and like is not None:
        with named_when_full(what, cure):
            out = bound.empty((n, n), wide=True)
        return OnDevice(whole_gram(bound, out=out), symmetric=True)
    K = gram.to_dense()
    given = K is gram.X or not K.flags.owndata or not K.flags.writeable
    return np.array(K, dtype=np.float64, order="C", copy=True if given else None)
