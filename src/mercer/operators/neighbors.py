"""Exact nearest points in feature space, by squared distances d² = k(x, x) + k(y, y) − 2k(x, y).

Where d grows with a distance r of the points themselves (see `mercer.kernels.geometry`), r decides:
it costs less than k, and it still tells points apart where k has become 0 or 1. Tiles give r² by
one product, up to a known rounding. A few points more than asked for are kept, their r² is taken
again by differences, and rows in which even the spare ones lie within the rounding are searched
again by differences altogether. So equal points have r = 0, and equal r are sorted by position.

For all other kernels the computed values k decide.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import Objects, Packed, Table, largest, moderate
from mercer.engines import pick
from mercer.errors import InvalidInput, NotAKernel, users_level
from mercer.kernels import (
    LARGEST,
    RBF,
    Geometry,
    Kernel,
    Laplacian,
    LaplacianBound,
    RadialBound,
    geometry_of,
)
from mercer.memory import require_memory
from mercer.operators.gram import gram_of, kept_ready
from mercer.operators.sums import nearest
from mercer.settings import get_config

SPARE = 8  # neighbours kept beside those asked for
NEAR = 1e-7  # squares below this part of k(x, x) + k(y, y) may be rounding: are the points equal?
PAIRS = 4096  # pairs of points compared at a time
NEGATIVE = 1e-6  # squares below minus this part of k(x, x) + k(y, y) are no rounding
# Where squares leave the range of floats, the largest entry is brought to 2^TOP: no square
# overflows, and none underflows of differences that floats of that size can have.
TOP = 480
LEAST, MOST = 2.0**-400, 2.0**400  # largest entries that are taken as they are


def neighbour_bytes(k: int) -> int:
    """Return the bytes that a search for k neighbours takes for each row."""
    return 96 * (k + SPARE)


def find_nearest(
    kernel: Kernel,
    Q: Any,
    X: Any,
    diagonal: np.ndarray,
    k: int,
    *,
    known: bool = True,
    model: Any = None,
    distances: bool = True,
) -> tuple[np.ndarray | None, np.ndarray]:
    """Return distances (m, k), ascending, and positions in X of the nearest points.

    Equal distances are sorted by position.

    Parameters
    ----------
    kernel : Kernel
        The kernel, without words.
    Q : canonical collection or None
        The queries; None asks about the points of X, each of which is not its own neighbour.
    X : canonical collection
        The points.
    diagonal : ndarray
        k(x, x) of the points.
    k : int
        How many neighbours, at most as many as there are.
    known : bool, default=True
        Whether k(x, x) of the queries can be computed; if not, no distances are returned.
    model : estimator, optional
        Whose points X are: what is prepared of them is kept as long as it is.
    distances : bool, default=True
        Whether distances are asked for.
    """
    geometry = geometry_of(kernel)
    n = kernel.domain.size(X)
    m = n if Q is None else kernel.domain.size(Q)
    if (needed := m * neighbour_bytes(k)) > get_config().memory:
        require_memory(
            needed,
            f"{kernel}: a search for {k} neighbours of {m} points",
            "Ask for fewer neighbours, or about fewer points at a time",
        )
    skip = np.arange(n) if Q is None else None
    if geometry is not None and geometry.key is not None:
        return _by_geometry(kernel, geometry, Q, X, k, skip, model, distances)
    bound = (gram_of(kernel, X) if Q is None else gram_of(kernel, Q, X)).bound
    # Of points of one length the nearest has the largest k: nothing is added, so nothing rounds.
    level = bool((diagonal == diagonal[0]).all())
    sign, c = (-1.0, np.zeros(n)) if level else (-2.0, diagonal)
    kept = min(k + 1, n - (Q is None))
    values, where = nearest(bound, kept, sign, c, skip)
    if level and kept > k:
        _warn_of_zeros(kernel, values)
    values, where = values[:, :k].copy(), where[:, :k].copy()
    if not known:
        return None, where
    if level:
        values *= 2.0
        values += diagonal[0]
    own = diagonal if Q is None else np.asarray(kernel.diag(Q), dtype=float)
    values += own[:, None]
    _refuse_negative(kernel, values, own, diagonal, where)
    np.maximum(values, 0.0, out=values)
    values, where = _without_rounding(
        kernel, X if Q is None else Q, X, own, diagonal, values, where
    )
    return np.sqrt(values), where


def _warn_of_zeros(kernel: Kernel, values: np.ndarray) -> None:
    """Warn of rows that have k = 0 with the nearest points and one more: chance orders them."""
    lost = (values == 0).all(axis=1)
    if lost.any() and not isinstance(kernel.domain, Objects):
        scaled = any("length_scale" in name for name in kernel.theta_names)
        cure = " A larger length scale tells points apart." if scaled else ""
        warnings.warn(
            f"{kernel}: k is 0 between {int(lost.sum())} of {len(lost)} points (row "
            f"{int(lost.argmax())} is the first) and even their nearest training points, so the "
            f"first training points count as nearest.{cure}",
            UserWarning,
            stacklevel=users_level(),
        )


def _refuse_negative(
    kernel: Kernel, values: np.ndarray, own: np.ndarray, diagonal: np.ndarray, where: np.ndarray
) -> None:
    """Refuse squared distances that are negative beyond rounding."""
    bad = values < -NEGATIVE * (np.abs(own)[:, None] + np.abs(diagonal[where]))
    if bad.any():
        i, q = (int(a[0]) for a in np.nonzero(bad))
        raise NotAKernel(
            f"{kernel}: k(x, x) + k(y, y) − 2k(x, y) is {values[i, q]:.3g} for row {i} and "
            f"training point {int(where[i, q])}, but it is a squared distance. This function is "
            "not a kernel; mercer.check_kernel shows a counter-example."
        )


# ------------------------------------------------------------------------- kernels of a distance
def _by_geometry(
    kernel: Kernel,
    geometry: Geometry,
    Q: Any,
    X: Any,
    k: int,
    skip: np.ndarray | None,
    model: Any = None,
    distances: bool = True,
) -> tuple[np.ndarray | None, np.ndarray]:
    ready = None if model is None or Q is None else _ready_squares(model, kernel, geometry, X)
    if ready is not None:
        with np.errstate(over="ignore"):
            image = geometry.image(Q)
        if type(image) is np.ndarray and LEAST < largest(image) < MOST:
            r, where = _by_squares(image, ready.collections[0], k, skip, ready)
            return (_in_features(geometry, r, 0) if distances else None), where
    with np.errstate(over="ignore"):
        images = [geometry.image(Z) for Z in ((X,) if Q is None else (Q, X))]
    if not np.isfinite(largest(*images)):
        raise InvalidInput(
            f"{kernel}: x/length_scale overflows; the length scale is too small for these "
            "points. Scale the columns, or use a larger length scale."
        )
    images, shift = moderate(images, TOP)
    found = _by_squares if geometry.norm == 2 else _by_sums
    r, where = found(images[0] if len(images) > 1 else None, images[-1], k, skip)
    return _in_features(geometry, r, shift), where


def _in_features(geometry: Geometry, r: np.ndarray, shift: int) -> np.ndarray:
    """Return distances in feature space of r·2^shift between images, in the order of r."""
    mantissa, power = np.frexp(geometry.unit)
    with np.errstate(over="ignore", under="ignore"):
        r = np.ldexp(r / mantissa, shift - int(power))
    # The order is that of r; where the formula of d rounds, it follows.
    return np.maximum.accumulate(geometry.distance(r), axis=1)


def _ready_squares(model: Any, kernel: Kernel, geometry: Geometry, X: Any) -> Any:
    """Return squared distances with the images of a model's points, prepared; None where not."""
    if geometry.norm != 2 or not isinstance(X, np.ndarray) or pick(X).name != "numpy":
        return None

    def make() -> _SquaredDistances | None:
        with np.errstate(over="ignore"):
            image = geometry.image(X)
        if type(image) is not np.ndarray or not LEAST < largest(image) < MOST:
            return None
        squares = _SquaredDistances(RBF(1.0), image, None)
        return None if squares.slow else squares

    return kept_ready(model, kernel, X, make)


class _SquaredDistances(RadialBound):
    """Tiles of squared distances by one product, and by differences where that is not enough."""

    def tile(self, rows: slice, cols: slice) -> Any:
        if self._left is None or self._exact:
            return self.squared(rows, cols)
        return self._left[rows] @ self._right[cols].T  # rounding below 0 does no harm to an order

    def _must_be_exact(self, xx: Any, yy: Any) -> bool:
        """Only where squares overflow: what rounding may do is known, see `rounding`."""
        with np.errstate(over="ignore"):
            radius = float(xx.max()) + float(yy.max()) if len(xx) and len(yy) else 0.0
        return not radius < LARGEST["float64"]

    def by_differences(self, rows: np.ndarray | None = None) -> _SquaredDistances:
        """Return the same without cancellation, from the points as they came; for some rows."""
        part: Any = copy.copy(self) if rows is None else self.rows_of(rows)
        part._exact, (part._x, part._y) = True, self.collections
        if rows is not None:
            part._x = part._x[rows]
        return part

    def rounding(self) -> np.ndarray:
        """Return a bound on the error of the product form, one a row.

        Of ‖x‖² + ‖y‖² − 2xᵀy, with moved coordinates, norms summed over d terms and a product of
        d + 2 terms, at most (3d + 12)·eps·(‖x‖² + ‖y‖²), that of the differences included.
        """
        d = self._x.shape[1]
        eps = float(np.finfo(np.float64).eps)
        return (3 * d + 12) * eps * (self._xx + self._yy.max(initial=0.0))

    def pairs(self, where: np.ndarray) -> np.ndarray:
        """Return the squares of row i and the points where[i], by differences."""
        from mercer.jit import pair_squares

        X, Y = self.collections
        out = np.empty(where.shape)
        if not self._sparse:
            pair_squares(X, Y, where, out)
            return np.minimum(out, LARGEST["float64"], out=out)
        flat, i = out.reshape(-1), np.repeat(np.arange(len(where)), where.shape[1])
        for part in _parts(len(flat)):
            gaps = X[i[part]] - Y[where.reshape(-1)[part]]
            flat[part] = np.asarray(gaps.multiply(gaps).sum(axis=1)).ravel()
        return out


def _by_squares(
    Q: Any, X: Any, k: int, skip: np.ndarray | None, ready: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return Euclidean distances and positions; `ready` are those among X, prepared."""
    unit = RBF(1.0)
    first, second = (X, None) if Q is None else unit.domain.match(Q, X)
    fits = ready is not None and first.dtype == X.dtype
    squares = fast = ready.at(first) if fits else _SquaredDistances(unit, first, second)
    n = squares.shape[1]
    most, zero = n - (skip is not None), np.zeros(n)
    if squares._exact:
        s, where = nearest(squares.by_differences(), k, 1.0, zero, skip)
        return np.sqrt(s), where
    engine = pick(first)
    if engine.name != "numpy":
        there = None if second is None else engine.asarray(second)
        fast = _SquaredDistances(unit, engine.asarray(first), there)
    kept = min(most, k + SPARE)
    near, where = nearest(fast, kept, 1.0, zero, skip)
    s, where = _sorted(squares.pairs(where), where)
    s, where = s[:, :k].copy(), where[:, :k].copy()
    if kept < most:
        # A point that is not kept has s ≥ (last kept) − e, the k-th of the kept s ≤ (k-th) + e.
        unsure = np.flatnonzero(near[:, -1] - near[:, k - 1] <= 2 * squares.rounding())
        if len(unsure):
            again = None if skip is None else skip[unsure]
            s[unsure], where[unsure] = nearest(squares.by_differences(unsure), k, 1.0, zero, again)
    return np.sqrt(s), where


class _Sums(LaplacianBound):
    """Tiles of ℓ₁ distances, by differences."""

    def tile(self, rows: slice, cols: slice) -> Any:
        return self.distances(rows, cols)


def _by_sums(Q: Any, X: Any, k: int, skip: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return ℓ₁ distances and positions."""
    unit, engine = Laplacian(1.0), pick(X)
    first, second = (X, None) if Q is None else unit.domain.match(Q, X)
    there = None if second is None else engine.asarray(second)
    sums = _Sums(unit, engine.asarray(first), there)
    return nearest(sums, k, 1.0, np.zeros(sums.shape[1]), skip)


def _sorted(values: np.ndarray, where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort every row by value, equal values by position, in place."""
    from mercer.jit import sort_rows

    sort_rows(values, where)
    return values, where


def _parts(n: int) -> list[slice]:
    return [slice(start, start + PAIRS) for start in range(0, n, PAIRS)]


# ---------------------------------------------------------------------------------- equal points
def _without_rounding(
    kernel: Kernel,
    Q: Any,
    X: Any,
    own: np.ndarray,
    diagonal: np.ndarray,
    values: np.ndarray,
    where: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return distances of which those of equal points are 0, where rounding left something."""
    if not kernel.domain.holds_points:
        return values, where
    small = (values > 0) & (values <= NEAR * (np.abs(own)[:, None] + np.abs(diagonal[where])))
    i, q = np.nonzero(small)
    if not len(i):
        return values, where
    for part in _parts(len(i)):
        a, b = i[part], q[part]
        equal = equal_pairs(kernel.domain.take(Q, a), kernel.domain.take(X, where[a, b]))
        values[a[equal], b[equal]] = 0.0
    return _sorted(values, where)


def equal_pairs(A: Any, B: Any) -> np.ndarray:
    """Return which points of two canonical collections of one length are the same."""
    if sp.issparse(A) or sp.issparse(B):
        gap = sp.csr_array(A) - sp.csr_array(B)
        return ~np.asarray(abs(gap).sum(axis=1)).ravel().astype(bool)
    if isinstance(A, Table):
        columns = [np.equal(a, B[name]) for name, a in zip(A.names, A.columns, strict=True)]
        return np.asarray(np.logical_and.reduce(columns), dtype=bool)
    if isinstance(A, np.ndarray) and isinstance(B, np.ndarray):
        same = np.asarray(A == B)
        return np.asarray(same.reshape(len(A), -1).all(axis=1))
    if isinstance(A, Packed):
        return np.fromiter((a == b for a, b in zip(A, B, strict=True)), dtype=bool, count=len(A))
    return np.zeros(len(A), dtype=bool)  # a function of two objects has values that do not round
