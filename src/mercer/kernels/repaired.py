"""`Repaired`: a valid kernel made of a similarity that is not positive definite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from math import comb
from typing import Any, Self, TypeVar

import numpy as np

from mercer.domains import Domain, GramRows, is_torch, point_keys
from mercer.errors import InvalidInput, NotAKernel
from mercer.kernels.algebra import _factor
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound
from mercer.kernels.user import Explicit, ExplicitBound
from mercer.lapack import eigh

METHODS = ("clip", "shift")
CUT = 1e-10  # eigenvalues up to this, relative to the largest, count as zero


class Repaired(Explicit):
    r"""A valid kernel from a similarity k that need not be positive definite.

    Let Z be the different points of the training data, K = k(Z, Z) = UΛUᵀ and c(x) the similarities
    of x with Z. Then

    - "clip": k̃(x, y) = c(x)ᵀ U₊Λ₊⁻¹U₊ᵀ c(y) over the positive eigenvalues. On Z this is K with its
      negative eigenvalues set to zero, the nearest positive semidefinite matrix.
    - "shift": k̃(x, y) = c(x)ᵀ (K + sI)⁺ c(y) with s = max(0, −λ_min) and s added to the similarity
      of x with a point of Z equal to it. On Z this is K + sI: similarities of different points
      stay as they are, and every point becomes more like itself.

    A point x outside Z keeps at least its own length, k(x, x) (+ s): what k̃(x, x) lacks of it is
    added to the similarity of x with points equal to x, a direction that no other point has. So a
    model is not sure of what is unlike all of Z.

    *Valid when* always: k̃ is an inner product of the explicit features Λ₊^{−½}U₊ᵀc(x), also at new
    points, plus a diagonal ≥ 0. Where k is positive definite already, both are its projection on Z
    (Nyström), with the diagonal of k itself (Snelson and Ghahramani, 2006).

    Costs n² similarities and O(n³) once, and n similarities for a new point; the kernel holds Z.

    Parameters
    ----------
    kernel : Kernel
        The similarity; symmetric. It may be positive definite or not.
    method : {"clip", "shift"}, default="clip"
        How.
    points : collection, optional
        The points Z. By default they are taken from data by `fit_params`, as models do in fit: the
        different points of positive weight, or all of them where they cannot be compared.
        Eigenvalues up to 10⁻¹⁰ of the largest count as zero.

    Notes
    -----
    Similarities of new points with Z are changed by a projection only: their component along the
    eigenvectors that are left out is lost. The length k̃(x, x) of a point unlike all of Z can be
    large where Λ₊ has small entries. A point that cannot be compared equals only itself.

    Errors left out in closed form, as of ``KernelRidge.loo`` and `tune`, keep the points Z of all
    rows, and so the repair that the row left out has had a part in. Where much is repaired they
    are far from those of a model fitted without the row: search such a kernel with
    ``cross_val_score``, which makes Z anew.

    Parameters of the similarity are not tuned by gradients, since Z and Λ₊ move with them: `theta`
    is empty. Search a grid of ``kernel__kernel__length_scale``, say.

    Examples
    --------
    >>> from mercer import FromFunction
    >>> def overlap(a, b):  # not positive definite
    ...     return len(set(a) & set(b)) / min(len(set(a)), len(set(b)))
    >>> k = FromFunction(overlap).repaired("clip").fit_params(["ab", "bc", "abc", "c"])
    >>> k(["ab", "bc", "abc", "c"]).round(2)
    array([[1.11, 0.48, 0.86, 0.11],
           [0.48, 1.  , 1.02, 0.98],
           [0.86, 1.02, 1.19, 0.85],
           [0.11, 0.98, 0.85, 1.12]])
    >>> k(["ab", "c"], ["abcd"]).round(2)
    array([[0.86],
           [0.85]])
    """

    def __init__(self, kernel: Kernel, method: str = "clip", points: Any = None):
        super().__init__(kernel=kernel, method=method, points=points)

    def _check_params(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise InvalidInput(f"Repaired: kernel={self.kernel!r} is not a Kernel.")
        if not isinstance(self.method, str) or self.method not in METHODS:
            raise InvalidInput(f"Repaired: method={self.method!r}; give 'clip' or 'shift'.")
        if isinstance(self.kernel.domain, GramRows):
            raise InvalidInput(
                "Repaired: rows of kernel values hold no points; repair the matrix itself: "
                "v, U = numpy.linalg.eigh(K), then (U * v.clip(0)) @ U.T."
            )
        if self.points is not None:
            self.kernel.domain.check(self.points, "points")
        self._made: tuple[Kernel, Any, _Map] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None}

    # -- what it is made of ---------------------------------------------------------------------
    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """That of the similarity."""
        return self.kernel.domain

    def _kernels(self) -> list[Kernel]:
        return [self.kernel]

    def _words(self) -> list[str]:
        return self.kernel._words() + (["points"] if self.points is None else [])

    def fit_params(self, X: Any, sample_weight: Any = None) -> Self:
        """Return this kernel with the different points of X as its points.

        Parameters
        ----------
        X : collection of points
            The training data.
        sample_weight : array of shape (n,), optional
            Points of weight zero are left out.
        """
        if not self._words():
            return self
        X = self.domain.check(X)
        changes = {"kernel": self.kernel.fit_params(X, sample_weight)}
        if self.points is None:
            index = _different(X, self.domain.size(X), sample_weight)
            changes["points"] = self.domain.keep(self.domain.take(X, index))
        return self._replace(changes)

    # -- the feature map ------------------------------------------------------------------------
    def _features(self, X: Any) -> np.ndarray:
        # In float64 whatever the points: small eigenvalues would blow up the rounding of float32.
        made = self._map()
        C = self.kernel(_wide(X), made.points)
        if made.shift:
            rows, columns = made.equal(X)
            C[rows, columns] += made.shift
        if is_torch(C):
            return (C @ C.new_tensor(made.weights)).to(X.dtype)
        phi = C @ made.weights
        return phi.astype(np.float32) if getattr(X, "dtype", None) == np.float32 else phi

    def _n_features(self, X: Any) -> int | None:
        """Return the number of features where they are all of k̃, that is on Z."""
        if self._words() or len(self._map().new(X)):
            return None
        return int(self._map().weights.shape[1])

    # -- values ---------------------------------------------------------------------------------
    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return RepairedBound(self, X, Y)

    def _diag(self, X: Any) -> Any:
        phi = self._features(X)
        return (phi * phi).sum(1) + self._lacks(X, phi)

    def _lacks(self, X: Any, phi: Any) -> Any:
        """Return max(0, k(x, x) + s − ‖φ(x)‖²) outside Z, 0 on Z."""
        made, new = self._map(), self._map().new(X)
        out = phi.new_zeros(len(phi)) if is_torch(phi) else np.zeros(len(phi), dtype=phi.dtype)
        if len(new):
            own = self.kernel._diag(_wide(self.domain.take(X, new))) + made.shift
            rest = own - (phi[new] * phi[new]).sum(1)
            out[new] = rest.clamp(min=0).to(phi.dtype) if is_torch(phi) else rest.clip(0)
        return out

    def _map(self) -> _Map:
        """Return the factor of the similarities of the points, made once."""
        made = self._made
        if made is None or made[1] is not self.points or made[0] != self.kernel:
            made = (self.kernel._copied(), self.points, _Map(self))
            self._made = made
        return made[2]

    def __repr__(self) -> str:
        if self.points is None:
            return f"{_factor(self.kernel, '.')}.repaired({self.method!r})"
        n = self.domain.size(self.domain.check(self.points))
        return f"{_factor(self.kernel, '.')}.repaired({self.method!r}, points=<{n} points>)"


class RepairedBound(ExplicitBound):
    """Tiles ΦΨᵀ, and what the features lack where points outside Z are equal."""

    def __init__(self, kernel: Repaired, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        self._lacks = kernel._lacks(X, self._phi)
        self._names: tuple[np.ndarray, np.ndarray] | None = None
        if (self._lacks > 0).any():
            numbers: dict[Any, int] = {}

            def names(Z: Any) -> np.ndarray:
                keys = _keys(kernel.domain, Z)
                return np.array([numbers.setdefault(key, len(numbers)) for key in keys])

            left = names(X)
            self._names = left, left if Y is None else names(Y)

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return k̃ on a tile."""
        T = super().tile(rows, cols)
        if self._names is not None:
            i, j = np.nonzero(self._names[0][rows, None] == self._names[1][None, cols])
            T[i, j] += self._lacks[rows][i]
        return T


class _Map:
    """Z, the shift s and the matrix W of the feature map x → c(x)ᵀW."""

    def __init__(self, repaired: Repaired):
        kernel, method = repaired.kernel, repaired.method
        self._domain = kernel.domain
        self.points = _wide(kernel.domain.check(repaired.points, "points"))
        self.shift = 0.0
        self._places: dict[Any, int] = {}
        for i, key in enumerate(_keys(kernel.domain, self.points)):
            self._places.setdefault(key, i)
        n = kernel.domain.size(self.points)
        K = kernel(self.points)
        K = np.asarray(K.detach().cpu() if is_torch(K) else K, dtype=np.float64)
        values, U = eigh(K) if n else (np.zeros(0), np.zeros((0, 0)))
        largest = float(np.abs(values).max(initial=0.0))
        if method == "shift" and n and values[0] < -CUT * largest:
            self.shift = float(-values[0])
            if point_keys(self.points) is None:
                raise InvalidInput(
                    f"{repaired!r}: the points cannot be compared, and 'shift' must know which are "
                    "equal; use 'clip', or give the class of the points __eq__ and __hash__."
                )
            if len(self._places) < n:
                raise InvalidInput(
                    f"{repaired!r}: points holds a point twice, so that K + sI is no kernel of its "
                    "points; give different ones."
                )
            values = values + self.shift
            largest = float(values[-1])
        elif method == "clip" and n and largest and not values[-1] > CUT * largest:
            raise NotAKernel(
                f"{repaired!r}: no eigenvalue of the similarities is positive (the largest is "
                f"{values[-1]:.3g}, the smallest {values[0]:.3g}), so that nothing is left after "
                "clipping. Is it a distance? Use a similarity, such as exp(-distance), or 'shift'."
            )
        kept = values > CUT * largest
        W = U[:, kept] / np.sqrt(values[kept])
        self.weights = W if W.shape[1] else np.zeros((n, 1))

    def equal(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the points of X that are points of Z: their positions in both."""
        found = [self._places.get(key, -1) for key in _keys(self._domain, X)]
        places: np.ndarray = np.array(found, dtype=np.int64)
        rows = np.flatnonzero(places >= 0)
        return rows, places[rows]

    def new(self, X: Any) -> np.ndarray:
        """Return the positions of points outside Z."""
        return np.setdiff1d(np.arange(self._domain.size(X)), self.equal(X)[0])


def _keys(domain: Domain, X: Any) -> list[Any]:
    """Return a key for each point; one that cannot be compared equals itself, the object, only."""
    keys = point_keys(X)
    if keys is not None:
        return keys
    ones = (point_keys(domain.take(X, slice(i, i + 1))) for i in range(domain.size(X)))
    held = isinstance(X, tuple)
    return [
        key[0] if key is not None else ("object", id(X[i])) if held else object()
        for i, key in enumerate(ones)
    ]


def _wide(X: Any) -> Any:
    """Return numbers of single precision in double precision."""
    if is_torch(X):
        return X.double() if X.is_floating_point() else X
    return X.astype(np.float64) if getattr(X, "dtype", None) == np.float32 else X


def _different(X: Any, n: int, sample_weight: Any) -> np.ndarray:
    """Return positions of the first of equal points, all of positive weight; all if unknown."""
    kept = np.arange(n) if sample_weight is None else np.flatnonzero(np.asarray(sample_weight) > 0)
    keys = point_keys(X)
    if keys is None:
        return kept
    first: dict[Any, int] = {}
    for i in kept.tolist():
        first.setdefault(keys[i], i)
    return np.array(list(first.values()), dtype=int)


# ---- Find a few rows and columns on which a symmetric matrix is not positive semidefinite ----


Found = TypeVar("Found")

FEW = 5  # points that a person can still check by hand
EXHAUSTIVE = 50_000  # subsets of one size tried one by one: all of five out of 24
POOL = 256  # points among which subsets of three to five are improved
RESTARTS = 8  # random starts of the descent, for each size
ROUNDS = 20  # swaps of one descent; it nearly always stops after a few


def lowest(A: np.ndarray, k: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return the k smallest eigenvalues of A and their eigenvectors, as columns."""
    return eigh(A, subset_by_index=[0, min(k, len(A)) - 1])


def search(
    A: np.ndarray,
    judge: Callable[[np.ndarray], Found | None],
    threshold: float,
    rng: np.random.Generator,
) -> Found | None:
    """Return what ``judge`` makes of the fewest points found on which A is negative.

    By interlacing, the smallest eigenvalue of a principal submatrix is never below that of A, so
    nothing is looked for when A itself is not below the threshold. Sizes one and two are settled by
    closed forms; sizes three to five by trying every subset where there are few, else by exchange
    descent from the heaviest entries of the lowest eigenvectors, from the best smaller subset, and
    from random ones. If all fail, the lowest eigenvector is pruned to as few points as will do.

    Parameters
    ----------
    A : array of shape (n, n)
        A symmetric matrix with a diagonal of about one.
    judge : callable
        Takes positions; returns None when A on them is not certainly negative.
    threshold : float
        Eigenvalues at or above this one are not pursued.
    rng : numpy.random.Generator
        For the random starts.
    """
    values, vectors = lowest(A, 4)
    if not values[0] < threshold:
        return None
    vectors = vectors[:, values < threshold]
    for size in range(1, min(FEW, len(A)) + 1):
        for index in _proposals(A, size, vectors, rng):
            if _smallest(A, index[None])[0] < threshold:
                found = judge(np.sort(index))
                if found is not None:
                    return found
    return _prune(A, judge, threshold)


def _smallest(A: np.ndarray, subsets: np.ndarray) -> np.ndarray:
    """Return the smallest eigenvalue of A on each row of positions."""
    return np.linalg.eigvalsh(A[subsets[:, :, None], subsets[:, None, :]])[:, 0]


def _proposals(
    A: np.ndarray, size: int, vectors: np.ndarray, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Yield subsets of one size, the most promising first."""
    n = len(A)
    if size == 1:
        yield np.array([A.diagonal().argmin()])
    elif size == 2:
        # Smallest eigenvalue of [[p, c], [c, q]]: (p + q − √((p − q)² + 4c²))/2.
        p = A.diagonal()
        rows, cols = np.triu_indices(n, 1)
        low = p[rows] + p[cols] - np.hypot(p[rows] - p[cols], 2 * A[rows, cols])
        best = np.argpartition(low, min(RESTARTS, len(low)) - 1)[:RESTARTS]
        for j in best[np.argsort(low[best])]:
            yield np.array([rows[j], cols[j]])
    elif comb(n, size) <= EXHAUSTIVE:
        subsets = np.array(list(combinations(range(n), size)))
        yield from subsets[np.argsort(_smallest(A, subsets))[:RESTARTS]]
    else:
        yield from _descents(A, size, vectors, rng)


def _descents(
    A: np.ndarray, size: int, vectors: np.ndarray, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    weight = np.abs(vectors).max(axis=1)
    pool = np.argsort(-weight)
    if len(pool) > POOL:  # the heaviest, and some of the others lest those be misleading
        heavy = 3 * POOL // 4
        pool = np.r_[pool[:heavy], rng.choice(pool[heavy:], POOL - heavy, replace=False)]
    starts = [np.argsort(-np.abs(v))[:size] for v in vectors.T]
    chance = weight[pool] + 1e-3 * weight.max()
    chance /= chance.sum()
    starts += [rng.choice(pool, size, replace=False, p=chance) for _ in range(RESTARTS)]
    ends = np.unique([np.sort(_descend(A, start, pool)) for start in starts], axis=0)
    yield from ends[np.argsort(_smallest(A, ends))]


def _descend(A: np.ndarray, subset: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """Exchange one point at a time for the one that lowers the smallest eigenvalue most."""
    best = _smallest(A, subset[None])[0]
    for _ in range(ROUNDS):
        others = np.setdiff1d(pool, subset)
        trials = np.tile(subset, (len(subset), len(others), 1))
        for position in range(len(subset)):
            trials[position, :, position] = others
        trials = trials.reshape(-1, len(subset))
        values = _smallest(A, trials)
        j = int(values.argmin())
        if not values[j] < best - 1e-12 * abs(best):
            break
        subset, best = trials[j], values[j]
    return subset


def _prune(A: np.ndarray, judge: Callable[[np.ndarray], Any], threshold: float) -> Any:
    """Drop the lightest points of the lowest eigenvector, many at a time, then one by one."""
    index = np.arange(len(A))
    found = judge(index)
    drop = len(index) // 2
    while found is not None and drop >= 1:
        order = np.argsort(np.abs(lowest(A[np.ix_(index, index)])[1][:, 0]))
        # A block may be wanted back; single points are tried in turn, the lightest first.
        for first in range(len(order) if drop == 1 else 1):
            rest = np.sort(index[np.delete(order, slice(first, first + drop))])
            fewer = None
            if len(rest) and lowest(A[np.ix_(rest, rest)])[0][0] < threshold:
                fewer = judge(rest)
            if fewer is not None:
                index, found = rest, fewer
                drop = min(drop, max(1, len(index) // 2))
                break
        else:
            drop //= 2
    return found
