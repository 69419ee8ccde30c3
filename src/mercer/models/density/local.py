"""Local averages and local planes: targets of the training points, weighted at each query.

A band of whole rows of the matrix of weights is in memory at a time. Where no point has weight,
the points of smallest distance count alone: for the gaussian kernel, whose weights never vanish but
underflow, this is what taking out the largest weight of a row comes to; for kernels of bounded
support it is the limit of a bandwidth that just reaches them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mercer.domains import moderate
from mercer.errors import InvalidInput, who
from mercer.kernels import RBF, Kernel, RadialBound
from mercer.memory import require_memory, row_blocks
from mercer.models.density.bandwidth import Smoothing, sums_of_others
from mercer.operators import fold, gram_of, spread

TIE = 1e-9  # relative difference of squared distances below which points are equally near
NEGATIVE = 1e-9  # part of the largest kernel value of a row that rounding may fall below 0
# Directions in which the points near a query vary by less than this part of a squared bandwidth
# (or of their variance as a whole, where that is smaller) have no slope.
FLAT = 1e-12
COPIES = 5  # of points, while their distances are prepared; 6, if they are among themselves
ARRAYS = 5  # of the size of a band that a smoothing kernel makes of squared distances
SQUARINGS = 8  # of weights, in place of exponentials: relative errors double each time


class Squares(RadialBound):
    """Tiles of squared distances of rows that are in units of the bandwidth.

    Parameters
    ----------
    Q, Z : arrays
        Rows and columns; without Z the distances among the rows of Q.
    exact : bool, default=False
        Whether they are to hold for smaller units and at the rim of a bounded support too: then
        differences of the rows are taken as they are, and no product.
    """

    def __init__(self, Q: Any, Z: Any = None, *, exact: bool = False):
        super().__init__(RBF(1.0), Q, Z)
        if exact:
            self._x, self._y, self._exact = Q, Q if Z is None else Z, True

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return the squared distances."""
        return self.squared(rows, cols)


class Near:
    """Answers by the points near each query, by a smoothing kernel.

    Parameters
    ----------
    smoothing : Smoothing
        The kernel κ.
    Z : array of shape (n, d)
        Training points.
    Y : array of shape (n, t)
        Their targets.
    weights : array of shape (n,)
        Their weights, all positive.
    degree : {0, 1}, default=0
        Whether means or planes are fitted.
    nearest : bool, default=True
        Whether the nearest points answer where no point has weight; if not, the answer is 0.
    radius : float, default=1
        The bandwidth in units of Z.
    """

    def __init__(
        self,
        smoothing: Smoothing,
        Z: np.ndarray,
        Y: np.ndarray,
        weights: np.ndarray,
        degree: int = 0,
        nearest: bool = True,
        radius: float = 1.0,
    ):
        self.smoothing, self.Z, self.Y = smoothing, Z, Y
        self.degree, self.nearest, self.radius = degree, nearest, radius
        self.w = moderate_weights(weights)
        (self._targets,), self._shift = moderate([Y])  # sums of huge targets are no numbers
        self.sums = _with_totals(self._targets, self.w)
        if degree:
            self.deviations = _deviations(Z, self.w)

    def at(self, Q: np.ndarray, frame: Callable[[np.ndarray], np.ndarray] | None = None) -> Any:
        """Return the answers at new points, of shape (m, t).

        Parameters
        ----------
        Q : array of shape (m, d)
            The points.
        frame : callable, optional
            What makes of them the coordinates of Z; by default they are in these.
        """

        t = self.Y.shape[1]
        out = np.empty((len(Q), t))
        for part in row_blocks(len(Q), 16 * (COPIES * Q.shape[1] + t)):
            here = Q[part] if frame is None else frame(Q[part])

            def step(rows: slice, T: np.ndarray, here: np.ndarray = here) -> np.ndarray:
                return self._combine(self._weights(T, self.radius), here[rows], self.radius)

            out[part] = self._spread(here, t, step, exact=self.smoothing.compact)
        return out

    def gradient(self, Q: np.ndarray, frame: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return the slopes of the answers by the coordinates of Z, of shape (m, d, t).

        Of means those of the mean; of planes, those of the plane that is fitted at a point.

        Parameters
        ----------
        Q : array of shape (m, d)
            The points.
        frame : callable
            What makes of them the coordinates of Z.
        """
        d, t = self.Z.shape[1], self.Y.shape[1]
        out = np.empty((len(Q), d * t))
        for part in row_blocks(len(Q), 16 * (COPIES * d + d * t)):
            here = frame(Q[part])

            def step(rows: slice, T: np.ndarray, here: np.ndarray = here) -> np.ndarray:
                slopes = self._slopes(T, here[rows])
                return np.ldexp(slopes, self._shift).reshape(len(T), -1)

            out[part] = self._spread(here, d * t, step, exact=self.smoothing.compact, more=3)
        return out.reshape(len(Q), d, t)

    def left_out(self) -> np.ndarray:
        """Return the answer at each training point by the others."""

        def step(rows: slice, T: np.ndarray) -> np.ndarray:
            _leave_out(rows, T)
            return self._combine(self._weights(T, self.radius), self.Z[rows], self.radius)

        return self._spread(None, self.Y.shape[1], step, exact=self.smoothing.compact)

    def errors(
        self, radii: Sequence[float], loss: Callable[[slice, np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """Return the mean loss at points left out, for each of some bandwidths.

        Of the gaussian kernel, weights at a bandwidth smaller by √2 are the squares of the weights.

        Parameters
        ----------
        radii : sequence of floats
            The bandwidths, in units of Z.
        loss : callable
            ``loss(rows, answers)`` is the loss of each of those rows.
        """

        def step(rows: slice, T: np.ndarray) -> np.ndarray:
            K, last, squared = T, 0.0, 0
            _leave_out(rows, T)
            out = np.empty((len(T), len(radii)))
            for q, radius in enumerate(radii):
                halved = self._gaussian and abs(last / radius - 2**0.5) < 1e-9
                squared = squared + 1 if halved and squared < SQUARINGS else 0
                if squared:
                    np.multiply(K, K, out=K)
                else:
                    K = self._weights(T.copy(), radius)
                out[:, q] = loss(rows, self._combine(K, self.Z[rows], radius))
                last = radius
            return out

        losses = self._spread(None, len(radii), step)
        return self.mean(losses)

    def mean(self, losses: np.ndarray) -> np.ndarray:
        """Return the mean of losses of the training points, each counted by its weight."""
        return self.w @ losses / self.w.sum()

    def reach(self) -> tuple[float, float]:
        """Return the median distance to the nearest other place, and the largest distance.

        Both are 0 where all points are in one place.
        """

        def step(rows: slice, T: np.ndarray) -> np.ndarray:
            far = T.max(axis=1)
            T[T <= 0] = np.inf
            return np.column_stack([T.min(axis=1), far])

        near, far = self._spread(None, 2, step).T
        if not far.max() > 0:
            return 0.0, 0.0
        order = np.argsort(near)
        middle = np.searchsorted(np.cumsum(self.w[order]), 0.5 * self.w.sum())
        return float(np.sqrt(near[order[min(middle, len(near) - 1)]])), float(np.sqrt(far.max()))

    # -- inside -------------------------------------------------------------------------------
    def _spread(
        self, Q: np.ndarray | None, columns: int, step: Callable, exact: bool = True, more: int = 0
    ) -> np.ndarray:
        """Return what a step makes of rows of squared distances, from Q or among the points.

        Copies of the points are counted, and the moments of planes, and more arrays of a band.
        """
        (n, d), m = self.Z.shape, len(self.Z if Q is None else Q)
        held = 8 * (m * columns + d * ((COPIES + 1) * n if Q is None else COPIES * (n + m)))
        moments = 4 * d * (d + self.Y.shape[1]) // n + 1 if self.degree or more else 0
        arrays = ARRAYS + more + moments
        require_memory(
            held + 16 * n * (RBF.workspace + arrays),
            f"distances of {m} points from {n}",
            "Ask for fewer points at a time, or fit fewer",
        )
        bound = Squares(self.Z if Q is None else Q, None if Q is None else self.Z, exact=exact)
        out = np.empty((m, columns))

        def write(sums: list[np.ndarray], rows: slice, T: np.ndarray) -> None:
            out[rows] = step(rows, T)

        fold(bound, (), write, arrays=arrays, other=held, what="rows")
        return out

    @property
    def _gaussian(self) -> bool:
        return self.smoothing.name == "gaussian"

    def _weights(self, T: np.ndarray, radius: float) -> np.ndarray:
        """Return κ of squared distances, each row times some number; T is overwritten."""
        least = T.min(axis=1)
        if self._gaussian:
            T -= least[:, None]
            T *= -0.5 / radius**2
            return np.exp(T, out=T)
        if not self.smoothing.compact:
            top = self.smoothing.log_profile(least, radius)
            return np.exp(self.smoothing.log_profile(T, radius) - top[:, None])
        lone = ~(self.smoothing.profile(least, radius) > 0)
        if self.nearest and lone.any():
            T[lone] = np.where(T[lone] <= (1 + TIE) * least[lone, None], 0.0, np.inf)
        return self.smoothing.profile(T, radius)

    def _combine(self, K: np.ndarray, Q: np.ndarray, radius: float) -> np.ndarray:
        """Return what the points say, weighted by each row of K and by their own weights."""
        if self.degree:
            unit = np.minimum(self.deviations, radius)
            answers = local_planes(K * self.w, self.Z, self._targets, Q, unit)
        else:
            answers = _means(K @ self.sums)
        return np.ldexp(answers, self._shift) if self._shift else answers

    def _slopes(self, T: np.ndarray, Q: np.ndarray) -> np.ndarray:
        """Return the slopes of the answers at queries, of shape (m, d, t).

        A mean is Σ kⱼyⱼ/Σ kⱼ, and k falls by vⱼ(z − zⱼ) as z moves: with moments of the weights v,
        its slope is (Σ v/Σ k) (cross − (z − z̄)(ȳ − mean)ᵀ). Of the gaussian v is k/h², and the
        slope is a covariance of the points nearby. Where the nearest points answer, nothing moves.
        """
        s = T.copy()
        K = self._weights(T, self.radius) * self.w
        if self.degree:
            unit = np.minimum(self.deviations, self.radius)
            return _planes(K, self.Z, self._targets, unit)[2] / unit[:, None]
        V = self.smoothing.fall(s, K / self.w, self.radius) * self.w
        if self.smoothing.compact:
            V[~(self.smoothing.profile(s.min(axis=1), self.radius) > 0)] = 0.0
        total = V.sum(axis=1)
        V[total == 0] = 1.0
        centre, mean, _, cross = _moments(V, self.Z, self._targets)
        away = mean - (K @ self._targets) / K.sum(axis=1)[:, None]
        slopes = cross - (Q - centre)[:, :, None] * away[:, None, :]
        return slopes * (total / K.sum(axis=1))[:, None, None]


def local_planes(
    K: np.ndarray, Z: np.ndarray, Y: np.ndarray, Q: np.ndarray, unit: Any = 1.0
) -> np.ndarray:
    """Return at each query the value of the plane fitted by least squares with its row of weights.

    With z̄ and ȳ the weighted means, the plane is ȳ + bᵀ(z − z̄) with b = A⁺B from the moments about
    the means. Of planes that fit equally well, the one of least slope is taken: where the points
    near a query do not vary in a direction, the answer does not either, and where they are one
    place only, it is their mean.

    Parameters
    ----------
    K : array of shape (m, n)
        Weights.
    Z : array of shape (n, d)
        Points.
    Y : array of shape (n, t)
        Targets.
    Q : array of shape (m, d)
        Queries.
    unit : float or array of shape (d,), default=1
        Units of the columns, in which a variance of `FLAT` is nothing.
    """
    centre, mean, slope = _planes(K, Z, Y, unit)
    return mean + np.einsum("ia,iaq->iq", (Q - centre) / unit, slope)


def _planes(
    K: np.ndarray, Z: np.ndarray, Y: np.ndarray, unit: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return z̄, ȳ and the slopes of planes, in units of the columns."""
    centre, mean, square, cross = _moments(K, Z, Y)
    unit = np.broadcast_to(np.asarray(unit, dtype=float), Z.shape[1:])
    square /= unit[:, None]
    square /= unit
    cross /= unit[:, None]
    values, vectors = np.linalg.eigh(square)
    steep = np.where(values > FLAT, values, np.inf)
    slope = vectors @ ((vectors.transpose(0, 2, 1) @ cross) / steep[:, :, None])
    return centre, mean, slope


def _moments(
    K: np.ndarray, Z: np.ndarray, Y: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the means of Z and Y under each row of weights, and moments about them."""
    from mercer.jit import local_moments

    m, d, t = len(K), Z.shape[1], Y.shape[1]
    centre, mean = np.empty((m, d)), np.empty((m, t))
    square, cross = np.empty((m, d, d)), np.empty((m, d, t))
    local_moments(K, np.ascontiguousarray(Z), np.ascontiguousarray(Y), centre, mean, square, cross)
    return centre, mean, square, cross


def class_codes(y: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes of rows of positive weight, and the place of each row's class in them.

    −1 stands for a class that has no such rows.
    """
    classes = np.unique(y if weights is None else y[weights > 0])
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    return classes, np.where(classes[codes] == y, codes, -1)


def moderate_weights(weights: np.ndarray) -> np.ndarray:
    """Return weights over a power of two, the largest between ½ and 1: nothing is rounded."""
    return np.ldexp(weights, -int(np.frexp(weights.max())[1]))


def _leave_out(rows: slice, T: np.ndarray) -> None:
    """Put rows at an infinite distance from themselves."""
    T[np.arange(len(T)), np.arange(rows.start, rows.stop)] = np.inf


def _deviations(Z: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the standard deviations of columns; infinite where a column does not vary."""
    gaps = Z - np.average(Z, axis=0, weights=w)
    with np.errstate(over="ignore"):
        deviations = np.sqrt(np.average(gaps * gaps, axis=0, weights=w))
    return np.where(deviations > 0, deviations, np.inf)


def _with_totals(Y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return weighted targets, with a last column of the weights alone."""
    return w[:, None] * np.column_stack([Y, np.ones(len(Y))])


def _means(sums: np.ndarray) -> np.ndarray:
    """Return sums over totals, the last column; 0 where nothing was added."""
    total = sums[:, -1:]
    return sums[:, :-1] / np.where(total > 0, total, 1.0)


class Alike:
    """Answers by kernel values: means of the targets weighted by k(x, xᵢ) ≥ 0.

    Where k(x, xᵢ) is 0 for all training points, the answer is the mean of all.
    """

    def __init__(self, kernel: Kernel, X: Any, Y: np.ndarray, weights: np.ndarray):
        self.kernel, self.X, self.Y = kernel, X, Y
        self.w = moderate_weights(weights)
        self.sums = _with_totals(Y, self.w)
        self.absent = np.flatnonzero(self.w == 0)

    def at(self, Q: Any) -> np.ndarray:
        """Return the answers at new points, of shape (m, t)."""
        K = gram_of(self.kernel, *self.kernel.domain.match(Q, self.X), host=True)
        return spread(K.bound, np.empty((K.shape[0], self.Y.shape[1])), self._answer)

    def left_out(self) -> np.ndarray:
        """Return the answer at each training point by the others."""
        others = sums_of_others(self.sums)

        def step(rows: slice, T: np.ndarray) -> np.ndarray:
            T[np.arange(len(T)), np.arange(rows.start, rows.stop)] = 0.0
            return self._answer(rows, T, others[rows])

        return spread(gram_of(self.kernel, self.X, host=True).bound, np.empty(self.Y.shape), step)

    def _answer(self, rows: slice, T: np.ndarray, others: Any = None) -> np.ndarray:
        T[:, self.absent] = 0.0
        low, high = T.min(axis=1), T.max(axis=1)
        bad = low < -NEGATIVE * np.maximum(high, -low)
        if bad.any():
            i = int(np.argmax(bad))
            raise InvalidInput(
                f"{who()}: {self.kernel} is {low[i]:.3g} < 0 between row {rows.start + i} "
                f"and training point {int(T[i].argmin())}, and weights are ≥ 0. Use a kernel "
                "without negative values, such as mercer.RBF()."
            )
        np.maximum(T, 0.0, out=T)
        T /= np.where(high > 0, high, 1.0)[:, None]
        sums = T @ self.sums
        lone = ~(sums[:, -1] > 0)
        sums[lone] = self.sums.sum(axis=0) if others is None else others[lone]
        return _means(sums)


# ---- The factor of a bandwidth with the smallest left-out error: a grid, then a closer look ----


LOW, HIGH = 0.1, 4.0  # of the distance to nearest points, and of the largest distance
MOST = 80  # factors on the first grid
HALVINGS = 8  # of the steps of the grid, about the best, where the error is smooth
FINE, ZOOMS = 25, 2  # factors on grids around the best, and how many there are, where errors jump
EQUAL = 1e-11  # difference of errors, relative to the largest, that is rounding


def choose_factor(
    errors: Callable[[Sequence[float]], np.ndarray], reach: tuple[float, float], smooth: bool = True
) -> tuple[float, float, np.ndarray]:
    """Return the best factor, its error, and all factors tried with their errors.

    From a bandwidth that takes in everything down to one that sees the nearest point only, in steps
    of √2; then closer around the best. Of equal errors the largest bandwidth is taken. All factors
    but the last are fixed by the reach and by which errors are smaller, so that rounding does not
    show in the answer.

    Parameters
    ----------
    errors : callable
        Errors of several factors.
    reach : pair of floats
        The distance to nearest points and the largest distance, positive.
    smooth : bool, default=True
        Whether the error is a smooth function of the factor: then steps are halved, and a parabola
        ends the search. With a kernel of bounded support it is not: points come in one by one, so
        finer grids are laid around the best.
    """
    near, far = reach
    steps = int(min(MOST, 1 + np.ceil(2 * np.log2(HIGH * far / (LOW * near)))))
    grid = HIGH * far * 2.0 ** (-0.5 * np.arange(steps))
    tried = np.empty((0, 2))

    def evaluate(factors: np.ndarray) -> np.ndarray:
        nonlocal tried
        found = errors(factors.tolist())
        tried = np.vstack([tried, np.column_stack([factors, found])])
        return found

    best = _least(first := evaluate(grid))
    if smooth:
        _halve(lambda logs: evaluate(np.exp(logs)), np.log(grid), first, best)
    else:
        for width in (2,) + (1,) * (ZOOMS - 1):
            high, low = grid[max(best - width, 0)], grid[min(best + width, len(grid) - 1)]
            grid = np.geomspace(high, low, FINE)
            best = _least(evaluate(grid))
    path = tried[np.argsort(-tried[:, 0], kind="stable")]
    factor, error = path[_least(path[:, 1])]
    return float(factor), float(error), path[::-1].copy()


def _halve(
    evaluate: Callable[[np.ndarray], np.ndarray], grid: np.ndarray, errors: np.ndarray, best: int
) -> None:
    """Try what is half a step from the best, again and again, and the bottom of a parabola."""
    at, error, step = grid[best], errors[best], 0.25 * np.log(2.0)
    for _ in range(HALVINGS):
        near = np.clip([at + step, at - step], grid[-1], grid[0])
        places, found = np.insert(near, 1, at), np.insert(evaluate(near), 1, error)
        choice = _least(found)
        at, error, step = places[choice], found[choice], 0.5 * step
    near = np.clip([at + step, at - step], grid[-1], grid[0])
    above, below = evaluate(near)
    bend = above - 2.0 * error + below
    if near[0] - near[1] > 1.5 * step and bend > EQUAL * max(above, below):
        shift = np.clip(0.5 * step * (below - above) / bend, -step, step)
        evaluate(np.array([at + shift]))


def _least(errors: np.ndarray) -> int:
    """Return the first position of the smallest error, up to rounding."""
    return int(np.argmax(errors <= errors.min() + EQUAL * errors.max()))


# ---- A bandwidth for each column: steps along one column after the other ----


WIDEST = 64.0  # bandwidths end at so many ranges of a column: it has no say long before
STEPS = (0.25 * np.log(2.0) / 8, 0.5 * np.log(2.0), 4 * np.log(2.0))  # least, first, largest
ROUNDS = 60  # over all columns, at most
GAIN = 1e-6  # part of an error by which a step must lower it


def choose_columns(
    error: Callable[[np.ndarray], float], start: np.ndarray, widest: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return bandwidths, one a column, from which no step along a column lowers the error.

    Steps in the logarithm double where they lower the error, and halve where neither direction
    does; a wider bandwidth is tried first. All places tried are fixed by the start and by which
    errors are smaller, so that rounding does not show in the answer.

    Parameters
    ----------
    error : callable
        The error at bandwidths.
    start : array of shape (d,)
        Bandwidths to begin with.
    widest : array of shape (d,)
        The largest allowed; 0 for columns that stay as they are.
    """
    least, first, largest = STEPS
    at, best = np.log(start), error(start)
    high = np.where(widest > 0, np.log(np.maximum(widest, start)), at)
    steps = np.where(widest > 0, first, 0.0)
    for _ in range(ROUNDS):
        if not (steps >= least).any():
            break
        for c in np.flatnonzero(steps >= least):
            for step in (steps[c], -steps[c]):
                place = at.copy()
                place[c] = min(at[c] + step, high[c])
                found = error(np.exp(place)) if place[c] != at[c] else best
                if found < best * (1 - GAIN):
                    at, best = place, found
                    steps[c] = min(2 * steps[c], largest)
                    break
            else:
                steps[c] *= 0.5
    return np.exp(at), best
