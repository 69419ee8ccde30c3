"""Why two classes cannot be told apart: a point that is a weighted mean of both, and its proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.checks import Clock
from mercer.estimator import Sample, is_plain_linear
from mercer.models.margin.problems import Task
from mercer.operators import Dense, Gram
from mercer.rkhs import linear_weights
from mercer.settings import get_config
from mercer.solvers import Rows
from mercer.solvers.box import rounding_of

# ---- Nearest points of two hulls from explicit features, to the last digits (Wolfe's algorithm).
# A Gram matrix holds squares: what is 10⁻⁸ of the longest point is rounding there. Least squares
# on the points themselves see down to 10⁻¹⁶ (P. Wolfe, Finding the nearest point in a polytope,
# 1976).


ROUNDS = 1000
EPS = float(np.finfo(float).eps)
ROUNDING = 4 * EPS


def nearest_points(
    Z: np.ndarray, y: np.ndarray, offset: bool, guess: np.ndarray, seconds: float | None = None
) -> np.ndarray | None:
    """Return the convex weights of the nearest points, None if they were not found.

    The weights are as exact as ``numpy.longdouble``, for whoever multiplies them before rounding.

    The points are the rows of Z, y has their sides; the segment runs between the hulls of the
    sides, without an offset from 0 to the hull of yᵢzᵢ. `guess` is a direction to begin with.
    """
    clock = Clock(seconds)
    positive, negative = np.flatnonzero(y > 0), np.flatnonzero(y < 0)

    def lowest(w: np.ndarray) -> tuple[int, ...]:
        """Return the vertex of the polytope that is lowest in a direction."""
        if not offset:
            return (int(np.argmin(y * (Z @ w))),)
        values = Z @ w
        return int(positive[values[positive].argmin()]), int(negative[values[negative].argmax()])

    def point(vertex: tuple[int, ...]) -> np.ndarray:
        return Z[vertex[0]] - Z[vertex[1]] if offset else y[vertex[0]] * Z[vertex[0]]

    corral = [lowest(guess)]
    P, weights = point(corral[0])[None], np.ones(1)
    for _ in range(ROUNDS):
        w = weights @ P
        new = lowest(w)
        p = point(new)
        least = ROUNDING * float(np.abs(w) @ np.abs(P).max(axis=0))
        if float(w @ w) - float(w @ p) <= least or new in corral:
            return _spread(corral, _more_digits(P, weights), len(y))
        if clock.late:
            return None
        corral, P, weights = [*corral, new], np.vstack([P, p]), np.append(weights, 0.0)
        while True:
            goal = _affine(P)
            if goal is None:
                return None
            if (goal > 0).all():
                weights = goal
                break
            falls = goal <= 0
            ratios = weights[falls] / np.maximum(weights[falls] - goal[falls], 1e-300)
            step = float(ratios.min())
            weights = (1 - step) * weights + step * goal
            keep = weights > ROUNDING
            keep[np.flatnonzero(falls)[int(ratios.argmin())]] = False
            if not keep.any():
                return None
            corral = [vertex for vertex, stays in zip(corral, keep, strict=True) if stays]
            P, weights = P[keep], weights[keep] / weights[keep].sum()
    return None


def _affine(P: np.ndarray) -> np.ndarray | None:
    """Return the weights, of sum 1 and any sign, of the point nearest to 0 in the span of rows."""
    if len(P) == 1:
        return np.ones(1)
    try:
        t = np.linalg.lstsq((P[1:] - P[0]).T, -P[0], rcond=None)[0]
    except np.linalg.LinAlgError:
        return None
    return np.r_[1.0 - t.sum(), t]


def _more_digits(P: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weights after steps of refinement, with residuals in longer numbers."""
    first, t = P[0].astype(np.longdouble), weights[1:].astype(np.longdouble)
    B = (P[1:] - P[0]).astype(np.longdouble)
    for _ in range(2 if len(t) else 0):
        lack = np.asarray(-(first + t @ B), dtype=float)
        t = t + np.linalg.lstsq(B.T.astype(float), lack, rcond=None)[0]
    better = np.concatenate([[1 - t.sum()], t])
    return better if (better > 0).all() else weights


def _spread(corral: list[tuple[int, ...]], weights: np.ndarray, n: int) -> np.ndarray:
    """Return a weight for each point from those of the vertices."""
    out = np.zeros(n, dtype=weights.dtype)
    for vertex, weight in zip(corral, weights, strict=True):
        out[list(vertex)] += weight
    return out


# ---- The space in which two classes are compared: with an offset, around the mean of their
# points.
# With an offset a solution has Σ aᵢ = 0, so that nothing changes when every φ(x) is moved by the
# same amount. Moved to their mean the points are as short as they can be, and rounding, which is
# a part of their length, does the least harm.


DENSE = 3000  # points up to which a centred matrix is made
FEATURES = 500  # columns up to which explicit features are used to prove that classes meet


@dataclass(frozen=True, eq=False)
class HullSpace:
    """Rows for the points of one task, and how long the points are.

    Parameters
    ----------
    data : Sample
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

    data: Sample
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

    def sharp_values(self, coef: np.ndarray) -> np.ndarray | None:
        """Return `values` in ``numpy.longdouble``, None where they are not to be had."""
        used = np.flatnonzero(coef)
        if is_plain_linear(self.data.kernel):
            return None
        f = self.given.sharp_product(self.points[used], coef[used])
        return None if f is None else f[self.points]

    def rounding(self, coef: np.ndarray, dtype: Any = float) -> tuple[np.ndarray, float]:
        """Return how far rounding may put `values` from the truth, and ‖f‖².

        For the linear kernel the function is that of the weights, as a prediction computes it.
        """
        used, X = np.flatnonzero(coef), self.data.X
        if is_plain_linear(self.data.kernel) and isinstance(X, np.ndarray):
            rows, some = X[self.points], X[self.points[used]]
            w = linear_weights(some, coef[used])
            reach = np.abs(coef[used]) @ np.abs(some - some[:1])
            lack = 0.5 * EPS * (len(used) + 4) * (reach + np.abs(w))
            error = 0.5 * EPS * (len(w) + 2) * (np.abs(rows) @ np.abs(w))
            return error, float(2 * np.abs(w) @ lack + lack @ lack)
        root = np.sqrt(np.maximum(self.given.diagonal[self.points], 0.0))
        error = rounding_of(coef, root, dtype)
        return error, float(error @ np.abs(coef))

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


def space_of(data: Sample, rows: Rows, task: Task, offset: bool, dense: bool = True) -> HullSpace:
    """Return the space of a task.

    Without an offset the origin matters and stays. A centred matrix is made only where `dense`,
    and where the columns cannot simply be centred.
    """
    index = task.index
    diagonal = rows.diagonal if index is None else rows.diagonal[index]
    lengths, m = np.sqrt(np.maximum(diagonal, 0.0)), len(task.signs)
    if not offset:
        return HullSpace(data, rows, task, rows, index, lengths, float(lengths.max()))
    if is_plain_linear(data.kernel) and isinstance(data.X, np.ndarray):
        Z = np.asarray(data.X if index is None else data.X[index], dtype=float)
        Z = Z - Z[:1]
        Z = Z - Z.mean(axis=0)
        own = Rows(Gram(data.kernel, Z, keep=False))
        lengths = np.sqrt(np.maximum(own.diagonal, 0.0))
        return HullSpace(data, rows, task, own, None, lengths, float(lengths.max()))
    if not dense or m > DENSE or 32 * m**2 > get_config().memory:
        return HullSpace(data, rows, task, rows, index, lengths, float(lengths.max()))
    K = rows.K.to_dense() if index is None else rows.K.block(index, index)
    K = np.array(K, dtype=float)
    mean = K.mean(axis=0)
    K -= mean
    K -= (mean - mean.mean())[:, None]
    radius = float(np.sqrt(max(0.0, float(K.diagonal().max()))))
    return HullSpace(data, rows, task, Rows(Dense(K, symmetric=True)), None, lengths, radius)


# ---- common point ----


NEGLIGIBLE = (1e-4, 1e-6, 1e-8, 1e-10, 0.0)  # parts of the largest weight, most to drop first
COMMON_ROUNDING = 64 * float(np.finfo(float).eps)
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
    space: HullSpace, weights: np.ndarray, offset: bool, most: np.ndarray | None = None
) -> CommonPoint:
    """Return the certificate for weights of the points of a task.

    Parameters
    ----------
    space : HullSpace
        Where the points are.
    weights : ndarray
        A weight for each point of the task; the sign does not matter.
    offset : bool
        Whether weights of each side sum to 1, or all of them together.
    most : ndarray, optional
        Bounds that the weights keep.
    """
    u, y = np.abs(weights), space.task.signs
    free = np.ones(len(u), dtype=bool) if most is None else u < most * (1 - COMMON_ROUNDING)

    def within(tried: Any) -> Any:
        return tried if tried and (most is None or (tried[0] <= most).all()) else None

    found = within(_twins(space, u, offset)) or within(_meeting(space, u, offset, free))
    exact = found is not None
    u, distance = _shortest(space, u, offset, free) if found is None else found
    points = space.points if space.data.kept is None else space.data.kept[space.points]
    mine, theirs = (y > 0) & (u > 0), (y < 0) & (u > 0)
    return CommonPoint(
        points[mine], u[mine], points[theirs], u[theirs], distance, space.radius, exact
    )


def side_name(data: Sample, number: int) -> str:
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


def _distance(space: HullSpace, u: np.ndarray) -> float:
    some = np.flatnonzero(u)
    signed = (u * space.task.signs)[some]
    return float(np.sqrt(max(0.0, signed @ space.block(some) @ signed)))


def _twins(space: HullSpace, u: np.ndarray, offset: bool) -> tuple[np.ndarray, float] | None:
    """Return a row of each side that the kernel cannot tell apart, if the weights use any."""
    y, some = space.task.signs, np.flatnonzero(u)
    if len(some) > MANY:
        some = np.sort(some[np.argsort(u[some])[-MANY:]])
    K, positive = space.block(some), y[some] > 0
    d, lengths = K.diagonal(), space.lengths[some] ** 2
    apart = np.abs(d[:, None] + d - 2 * K)
    same = apart <= COMMON_ROUNDING * (lengths[:, None] + lengths)
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
    space: HullSpace, u: np.ndarray, offset: bool, free: np.ndarray
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
        if (np.abs(lack) <= COMMON_ROUNDING * (np.abs(A) @ v)).all():
            u[some] = v
            return u, _distance_of_features(space, u)
        step = np.linalg.lstsq(A * np.where(moves, v, 0.0), lack, rcond=None)[0]
        v = np.where(moves, v * (1.0 + np.maximum(step, -0.9)), v)
    return None


def _distance_of_features(space: HullSpace, u: np.ndarray) -> float:
    """Return the distance from the features themselves: to rounding of a length, not a square."""
    kernel, some = space.data.kernel, np.flatnonzero(u)
    X = kernel.domain.take(space.data.X, space.points[some])
    F = np.asarray(kernel._features(X), dtype=float)
    signed = (u * space.task.signs)[some]
    near = (F - F[0]).T @ signed + F[0] * signed.sum()
    return float(np.linalg.norm(near))


def _shortest(
    space: HullSpace, u: np.ndarray, offset: bool, free: np.ndarray
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
