"""Why two classes cannot be told apart: a point that is a weighted mean of both, and its proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.models.centring import Space
from mercer.models.machines import MarginData

__all__ = ["CommonPoint", "common_point", "side_name"]

NEGLIGIBLE = (1e-4, 1e-6, 1e-8, 1e-10, 0.0)  # parts of the largest weight, most to drop first
ROUNDING = 64 * float(np.finfo(float).eps)
MANY = 1500  # rows whose matrix is looked at for twins
ATTEMPTS = 20


@dataclass(frozen=True, eq=False, repr=False)
class CommonPoint:
    """Why two classes cannot be separated: a point that both hulls share.

    Σᵢ uᵢφ(xᵢ) over the positive rows equals Σⱼ vⱼφ(xⱼ) over the negative ones, up to `distance`.
    With an offset u and v each sum to 1; without one they sum to 1 together. No plane has the same
    point on both of its sides.

    Parameters
    ----------
    positive, negative : ndarray of int
        Rows of the two sides, as given to fit: positive are those of the class named first in the
        message, for two classes ``classes_[1]``.
    positive_weights, negative_weights : ndarray
        The weights u and v of these rows, all > 0.
    distance : float
        How far apart the two combinations are in feature space.
    radius : float
        To compare the distance with: how far the farthest row is from the mean of the rows; from 0
        where there is no offset, or where there are too many rows to find their mean.
    exact : bool
        Whether the combinations coincide but for the last digits of the data, so that the classes
        are not separable; else they are too close for float64 to tell.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import SVC
    >>> from mercer.errors import NotSeparable
    >>> try:
    ...     SVC("linear", C=np.inf).fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    ... except NotSeparable as error:
    ...     error.certificate.positive, error.certificate.negative_weights
    (array([1]), array([0.5, 0.5]))
    """

    positive: np.ndarray
    positive_weights: np.ndarray
    negative: np.ndarray
    negative_weights: np.ndarray
    distance: float
    radius: float
    exact: bool = False

    def __repr__(self) -> str:
        return (
            f"CommonPoint({len(self.positive)} positive and {len(self.negative)} negative rows, "
            f"distance={self.distance:.3g}, radius={self.radius:.3g}, exact={self.exact})"
        )


def common_point(
    space: Space, weights: np.ndarray, offset: bool, most: np.ndarray | None = None
) -> CommonPoint:
    """Return the certificate for weights of the points of a task.

    Parameters
    ----------
    space : Space
        Where the points are.
    weights : ndarray
        A weight for each point of the task; the sign does not matter.
    offset : bool
        Whether weights of each side sum to 1, or all of them together.
    most : ndarray, optional
        Bounds that the weights keep.
    """
    u, y = np.abs(weights), space.task.signs
    free = np.ones(len(u), dtype=bool) if most is None else u < most * (1 - ROUNDING)
    found = None
    for way in (_twins, _meeting):
        tried = way(space, u, offset, free) if found is None else None
        if tried is not None and (most is None or (tried[0] <= most).all()):
            found = tried
    exact = found is not None
    u, distance = _shortest(space, u, offset, free) if found is None else found
    points = space.points if space.data.kept is None else space.data.kept[space.points]
    mine, theirs = (y > 0) & (u > 0), (y < 0) & (u > 0)
    return CommonPoint(
        points[mine], u[mine], points[theirs], u[theirs], distance, space.radius, exact
    )


def side_name(data: MarginData, number: int) -> str:
    """Return how a message calls a side of a task."""
    classes: Any = data.classes
    return f"class {classes[number]}" if number >= 0 else "the other classes"


def _normal(u: np.ndarray, y: np.ndarray, offset: bool, free: np.ndarray) -> np.ndarray:
    """Return weights with the right sums; only free ones are changed."""
    u = u.copy()
    for side in [y > 0, y < 0] if offset else [y != 0]:
        mine = side & free
        rest, whole = 1.0 - u[side & ~free].sum(), u[mine].sum()
        if whole > 0 and rest > 0:
            u[mine] *= rest / whole
    return u


def _distance(space: Space, u: np.ndarray) -> float:
    some = np.flatnonzero(u)
    signed = (u * space.task.signs)[some]
    return float(np.sqrt(max(0.0, signed @ space.block(some) @ signed)))


def _twins(
    space: Space, u: np.ndarray, offset: bool, free: np.ndarray
) -> tuple[np.ndarray, float] | None:
    """Return a row of each side that the kernel cannot tell apart, if the weights use any."""
    y, some = space.task.signs, np.flatnonzero(u)
    if len(some) > MANY:
        some = np.sort(some[np.argsort(u[some])[-MANY:]])
    K, positive = space.block(some), y[some] > 0
    d, lengths = K.diagonal(), space.lengths[some] ** 2
    apart = np.abs(d[:, None] + d - 2 * K)
    same = apart <= ROUNDING * (lengths[:, None] + lengths)
    same &= positive[:, None] & ~positive
    X, at = space.data.X, space.points[some]
    for i, j in np.argwhere(same)[:ATTEMPTS]:
        if isinstance(X, np.ndarray):  # rows of a precomputed matrix too
            twins = np.array_equal(X[at[i]], X[at[j]])
        else:
            twins = np.array_equal(K[i], K[j])
        if twins:
            pair = np.zeros(len(u))
            pair[some[[i, j]]] = 1.0 if offset else 0.5
            return pair, 0.0
    return None


def _meeting(
    space: Space, u: np.ndarray, offset: bool, free: np.ndarray
) -> tuple[np.ndarray, float] | None:
    """Return weights for which explicit features coincide to the last digits, if there are any.

    Newton's method on Σ uᵢyᵢFᵢ = 0 and the sums, in ln u, so that small weights stay positive.
    """
    y = space.task.signs
    u = np.where(u > NEGLIGIBLE[1] * u.max(), u, 0.0)
    some = np.flatnonzero(u)
    sides, moves = y[some], free[some]
    if offset and not ((sides > 0).any() and (sides < 0).any()):
        return None
    F = space.features(some, offset)
    if F is None:
        return None
    kinds = [sides > 0, sides < 0] if offset else [sides != 0]
    A = np.vstack([(F * sides[:, None]).T, *[kind.astype(float) for kind in kinds]])
    goal = np.r_[np.zeros(F.shape[1]), np.ones(len(kinds))]
    v = _normal(u[some], sides, offset, moves)
    for _ in range(ATTEMPTS):
        lack = goal - A @ v
        if (np.abs(lack) <= ROUNDING * (np.abs(A) @ v)).all():
            u[some] = v
            return u, _distance_of_features(space, u)
        step = np.linalg.lstsq(A * np.where(moves, v, 0.0), lack, rcond=None)[0]
        v = np.where(moves, v * (1.0 + np.maximum(step, -0.9)), v)
    return None


def _distance_of_features(space: Space, u: np.ndarray) -> float:
    """Return the distance from the features themselves: to rounding of a length, not a square."""
    kernel, some = space.data.kernel, np.flatnonzero(u)
    X = kernel.domain.take(space.data.X, space.points[some])
    F = np.asarray(kernel._features(X), dtype=float)
    signed = (u * space.task.signs)[some]
    near = (F - F[0]).T @ signed + F[0] * signed.sum()
    return float(np.linalg.norm(near))


def _shortest(
    space: Space, u: np.ndarray, offset: bool, free: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return the weights without those that do not matter."""
    y, first = space.task.signs, _distance(space, u)
    for part in NEGLIGIBLE:
        less = np.where(u > part * u.max(), u, 0.0)
        if offset and not (less[y > 0].any() and less[y < 0].any()):
            continue
        less = _normal(less, y, offset, free)
        distance = _distance(space, less)
        if distance <= 1.5 * first or distance <= 1e-8 * space.radius:
            return less, distance
    return u, first
