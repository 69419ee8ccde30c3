"""The `Kernel`: a positive definite function of two points, with its parameters and its algebra."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np

from mercer.domains import Categories, Domain, IncompleteVectors, RowBlocks, Vectors, is_torch
from mercer.domains.tables import check_same_columns
from mercer.engines import pick, pull_points, pull_theta
from mercer.errors import InvalidInput, NotAKernel
from mercer.kernels.bound import Bound
from mercer.kernels.few import FewPoints, gram_of_few
from mercer.kernels.geometry import Geometry
from mercer.kernels.parameters import Parameterized, check_diagonal
from mercer.kernels.scales import BlockRows, all_are_seen

DEFAULT_BOUNDS = (1e-5, 1e5)


class Kernel(Parameterized):
    """A positive definite kernel k(x, x′).

    ``k(X)`` and ``k(X, Y)`` are always the matrix of kernel values. A kernel holds parameters,
    never data. Kernels combine: ``k1 + k2``, ``k1 * k2``, ``2.0 * k``, ``k ** 3``, `exp`, `series`,
    `warp`, `in_metric`, `scale_by`, `on`, `normalized`, `repaired`, `with_missing`.

    An author of a kernel derives from `Radial`, `Dot`, `Scalar`, `Explicit` or `Pairwise` and
    writes one formula; see the guide "How to add a kernel".
    """

    __array_ufunc__ = None  # numpy numbers leave c * k to us

    domain: Domain = Vectors()
    #: Whether the mean embedding determines the distribution; False means "not known to".
    characteristic: bool = False
    #: Whether every matrix k(X) is positive semidefinite; what is not is refused by models.
    psd: bool = True
    _proven = True  # False where only the user vouches for it
    #: Arrays of tile size alive at once while a tile is computed.
    workspace: int = 4
    #: Names of the positive parameters that may be tuned.
    _tunable: tuple[str, ...] = ()
    #: Whether the values do not depend on the points, so that their dtype is that of company.
    _indifferent: bool = False

    # -- what a kernel author may define ------------------------------------------------------
    def _bind(self, X: Any, Y: Any = None) -> Bound:
        """Return the kernel bound to canonical collections."""
        raise InvalidInput(f"{type(self).__name__}: derive from Radial, Dot, Explicit or Pairwise.")

    def _diag(self, X: Any) -> Any:
        """Return k(xᵢ, xᵢ) for a canonical collection."""
        bound = self._bind(X)
        out = bound.empty((bound.shape[0],))
        for i in range(bound.shape[0]):
            one = slice(i, i + 1)
            out[i] = bound.tile(one, one)[0, 0]
        return out

    def _pull_diag(self, X: Any, c: Any) -> Any:
        """Return Σᵢ cᵢ ∂k(xᵢ, xᵢ)/∂θ; a kernel with parameters must say."""
        if len(self.theta):
            raise InvalidInput(
                f"{self}: no derivative of k(x, x) in its parameters is defined; its author may "
                "define _pull_diag(X, c), zeros where k(x, x) does not depend on them."
            )
        return np.zeros(0)

    def _features(self, X: Any) -> Any:
        """Return Φ with k(X) = ΦΦᵀ, where Φ is finite."""
        raise InvalidInput(
            f"{self} has no finite feature map; approximate it with random or Nyström features, "
            "or use the kernel itself."
        )

    def _n_features(self, X: Any) -> int | None:
        """Return the number of columns of `features`, or None when infinite."""
        return None

    def _geometry(self) -> Geometry | None:
        """Return distances in feature space as a function of a distance of points, if they are."""
        return None

    def _resolve(self, X: Any, sample_weight: Any) -> dict[str, Any]:
        """Return data-driven parameters as numbers."""
        return {}

    def _of_pairs(self, pairs: FewPoints) -> Any:
        """Return k as a function of what pairs of few vectors have in common; None for tiles.

        A new array of entries, as the pairs have them, or one number for all.
        """
        return None

    # -- evaluation ---------------------------------------------------------------------------
    def __call__(self, X: Any, Y: Any = None) -> Any:
        """Return the matrix of kernel values k(xᵢ, yⱼ); Y defaults to X.

        Returns
        -------
        matrix of shape (n, m)
            float32 for float32 data, a torch tensor for torch tensors.
        """
        few = gram_of_few(self, X, None if Y is X else Y)
        if few is not None:
            return few
        kernel, given = self._ready(X, Y), X
        X, Y = kernel._checked(X, Y)
        if kernel is not self or X is not given:  # what came was no array, or had a word in it
            few = gram_of_few(kernel, X, Y)
            if few is not None:
                return few
        engine = pick(X, Y)
        K = engine.gram(kernel, X, Y)
        return K if is_torch(X) else engine.to_numpy(K)

    def diag(self, X: Any) -> Any:
        """Return k(xᵢ, xᵢ) for every point."""
        kernel = self._ready(X, None)
        X, _ = kernel._checked(X, None)
        engine = pick(X)
        with np.errstate(over="ignore", invalid="ignore"):
            d = check_diagonal(kernel, engine.diag(kernel, X))
        return d if is_torch(X) else engine.to_numpy(d)

    def matmul(self, X: Any, Y: Any, V: Any) -> Any:
        """Return k(X, Y) V in tiles, without storing the matrix; Y None means X."""
        kernel = self._ready(X, Y)
        X, Y = kernel._checked(X, Y)
        engine = pick(X, Y)
        out = engine.matmul(kernel, X, Y, V)
        return out if is_torch(X) else engine.to_numpy(out)

    def theta_vjp(self, X: Any, W: Any, Y: Any = None) -> Any:
        """Return Σᵢⱼ Wᵢⱼ ∂k(xᵢ, yⱼ)/∂θ, one number for each log-parameter, tile by tile.

        Parameters
        ----------
        X, Y : collections of points
            Y defaults to X.
        W : array of shape (n, m)
            Weights, such as the derivative of a loss in each kernel value.
        """
        kernel = self._ready(X, Y)
        X, Y = kernel._checked(X, Y)
        engine = pick(X, Y)
        bound = engine.bound(kernel, X, Y)
        W = W if is_torch(W) else np.asarray(W)  # goes to a device tile by tile
        if tuple(W.shape) != bound.shape:
            raise InvalidInput(f"theta_vjp: W has shape {tuple(W.shape)}, expected {bound.shape}.")
        pulled = pull_theta(bound, W, len(kernel.theta))
        return pulled if is_torch(X) else engine.to_numpy(pulled)

    def gradient(self, X: Any, Y: Any, coef: Any) -> Any:
        """Return ∇ₓ Σⱼ cⱼ k(x, yⱼ) at every row x of X, shape (n, d).

        Parameters
        ----------
        X, Y : collections of points
            n rows of numbers to differentiate at, and m points; Y None means X.
        coef : array of shape (m,) or (n, m)
            The coefficients c, the same for all rows of X or a row of them for each.
        """
        kernel = self._ready(X, Y)
        X, Y = kernel._checked(X, Y)
        if len(getattr(X, "shape", ())) != 2:
            raise InvalidInput(f"{self}: a gradient in x needs points that are rows of numbers.")
        if Y is None:
            Y = X
        engine = pick(X, Y)
        bound = engine.bound(kernel, X, Y)
        out = pull_points(bound, bound.asarray(coef), X.shape[1])
        return out if is_torch(X) else engine.to_numpy(out)

    def features(self, X: Any) -> Any:
        """Return the explicit feature map Φ, with k(X) = ΦΦᵀ, where it is finite."""
        kernel = self.fit_params(X) if self._words() or self._open() else self
        return kernel._features(kernel._checked(X, None)[0])

    def n_features(self, X: Any) -> int | None:
        """Return how many columns ``features(X)`` has, or None when there is no finite map."""
        kernel = self.fit_params(X) if self._words() or self._open() else self
        return kernel._n_features(kernel.domain.check(X))

    def _checked(self, X: Any, Y: Any) -> tuple[Any, Any]:
        if Y is None or Y is X:
            return self.domain.check(X, "X"), None
        if isinstance(self.domain, Vectors | IncompleteVectors | Categories):
            check_same_columns(X, Y)
        return self.domain.match(self.domain.check(X, "X"), self.domain.check(Y, "Y"))

    # -- words for parameters -----------------------------------------------------------------
    def _words(self) -> list[str]:
        """Parameters given as words, such as ``length_scale='median'``."""
        return [n for n in self._tunable if isinstance(getattr(self, n), str)]

    def _open(self) -> list[str]:
        """Parameters left out that no value depends on, such as an alphabet; data say them too."""
        return []

    def _asks(self) -> bool:
        """Whether `fit_params` looks at data, be it only to warn of what cannot be learned."""
        return bool(self._words() or self._open())

    def _ready(self, X: Any, Y: Any) -> Kernel:
        """Resolve words on X when that is unambiguous, that is for k(X)."""
        if not self._words():
            return self
        if Y is not None and Y is not X:
            raise InvalidInput(
                f"{self} takes a parameter from data, and k(X, Y) does not say which. "
                "Call k = k.fit_params(X_train) first; estimators do so in fit."
            )
        return self.fit_params(X)

    def fit_params(self, X: Any, sample_weight: Any = None) -> Self:
        """Return this kernel with words such as ``"median"`` replaced by numbers taken from X.

        Parameters
        ----------
        X : collection of points
            The data that decide.
        sample_weight : array of shape (n,), optional
            A weight of 2 counts a point twice.
        """
        if not self._asks():
            return self
        X = self.domain.check(X)
        return self._replace(self._resolve(X, sample_weight))

    def _fit_blocks(self, rows: RowBlocks, some: Callable[..., tuple[Any, Any]]) -> Self:
        """Return `fit_params` of blocks: length scales from all rows, all else from some."""
        if not self._asks():
            return self
        plain = type(self.domain) is Vectors and type(self).fit_params is Kernel.fit_params
        if plain and all_are_seen(rows):
            return self._replace(self._resolve(BlockRows(rows, self.domain), None))
        return self.fit_params(*some(rows, self.domain))

    def _replace(self, changes: dict[str, Any]) -> Self:
        return type(self)(**{**self.get_params(deep=False), **changes})

    # -- log-parameters -----------------------------------------------------------------------
    def _own(self) -> list[tuple[str, np.ndarray]]:
        """Tunable parameters of this kernel alone, as arrays of positive numbers."""
        own = []
        for name in self._tunable:
            value = getattr(self, name)
            if value is None or isinstance(value, str):
                continue
            if type(value) is float:
                if 0 < value < np.inf:
                    own.append((name, np.array([value])))
                continue
            value = np.atleast_1d(np.asarray(value, dtype=float))
            if (value > 0).all() and np.isfinite(value).all():
                own.append((name, value))
        return own

    @property
    def theta(self) -> np.ndarray:
        """Logarithms of the parameters that may be tuned."""
        own = [np.log(v) for _, v in self._own()]
        return np.concatenate(own) if own else np.zeros(0)

    @property
    def theta_names(self) -> list[str]:
        """A name for each entry of `theta`, as ``set_params`` takes it."""
        names = []
        for name, value in self._own():
            scalar = np.ndim(getattr(self, name)) == 0
            names += [name] if scalar else [f"{name}[{i}]" for i in range(value.size)]
        return names

    @property
    def bounds(self) -> np.ndarray:
        """Bounds of `theta`, shape (p, 2), in logarithms."""
        rows = [np.tile(np.log(DEFAULT_BOUNDS), (value.size, 1)) for _, value in self._own()]
        return np.concatenate(rows) if rows else np.zeros((0, 2))

    def with_theta(self, theta: Any) -> Self:
        """Return a kernel with these log-parameters."""
        theta = self._check_theta(theta)
        return self._at_theta(theta)

    def _at_theta(self, theta: np.ndarray) -> Self:
        changes: dict[str, Any] = {}
        start = 0
        for name, value in self._own():
            part = from_logs(theta[start : start + value.size], value)
            scalar = np.ndim(getattr(self, name)) == 0
            changes[name] = float(part[0]) if scalar else part
            start += value.size
        return self._replace(changes)

    def _check_theta(self, theta: Any) -> np.ndarray:
        theta, now = np.asarray(theta, dtype=float), self.theta
        if theta.shape != now.shape:
            raise InvalidInput(
                f"{self}: theta has shape {theta.shape}, expected {now.shape} "
                f"for {self.theta_names}."
            )
        return theta

    # -- algebra: a combination holds copies, so that it does not change when its parts do -----
    def __add__(self, other: Any) -> Kernel:
        """Return k₁ + k₂; a number c ≥ 0 stands for the constant kernel."""
        from mercer.kernels.algebra import Sum, lift

        return Sum(lift(self, "+"), lift(other, "+"))

    def __radd__(self, other: Any) -> Kernel:
        """Return c + k; 0 + k is k, so that sum([k1, k2]) works."""
        from mercer.kernels.algebra import Sum, lift

        return self if type(other) is int and other == 0 else Sum(lift(other, "+"), lift(self, "+"))

    def __mul__(self, other: Any) -> Kernel:
        """Return k₁·k₂, or k scaled by a number c ≥ 0."""
        from mercer.kernels.algebra import Product, lift

        return Product(lift(self, "*"), lift(other, "*"))

    def __rmul__(self, other: Any) -> Kernel:
        """Return c·k."""
        from mercer.kernels.algebra import Product, lift

        return Product(lift(other, "*"), lift(self, "*"))

    def __truediv__(self, divisor: float) -> Kernel:
        """Return k/c for a number c > 0."""
        if isinstance(divisor, bool) or not isinstance(divisor, int | float | np.number):
            raise InvalidInput(
                f"k / {type(divisor).__name__}: a kernel is divided by numbers only."
            )
        if not divisor > 0:
            raise NotAKernel(f"k / ({divisor}): only division by a number > 0 leaves a kernel.")
        return (1.0 / float(divisor)) * self

    def __pow__(self, degree: int) -> Kernel:
        """Return kᵖ for a whole number p ≥ 1."""
        from mercer.kernels.algebra import Power

        return Power(self._copied(), degree)

    def __sub__(self, other: Any) -> Kernel:
        """Refuse: a difference of kernels is not a kernel."""
        raise NotAKernel(
            "k1 - k2 is not a kernel in general: at one point x with k1(x, x) < k2(x, x) the "
            "difference is negative, while k(x, x) is a squared length. Sums, products and "
            "positive multiples keep positive definiteness; wrap the difference in FromFunction "
            "and try mercer.check_kernel if you believe in it."
        )

    __rsub__ = __sub__

    def __neg__(self) -> Kernel:
        """Refuse: −k is not a kernel."""
        raise NotAKernel("-k is not a kernel: k(x, x) is a squared length and must stay ≥ 0.")

    def exp(self) -> Kernel:
        """Return exp(k)."""
        from mercer.kernels.algebra import Exp

        return Exp(self._copied())

    def series(self, coefficients: Iterable[float]) -> Kernel:
        """Return Σₘ cₘkᵐ with coefficients cₘ ≥ 0, from m = 0."""
        from mercer.kernels.algebra import Series

        return Series(self._copied(), tuple(coefficients))

    def scale_by(self, f: Callable) -> Kernel:
        """Return f(x) k(x, x′) f(x′) for a real function f of a collection, one value a point."""
        from mercer.kernels.transforms import ScaledBy

        return ScaledBy(self._copied(), f)

    def warp(self, f: Callable) -> Kernel:
        """Return k(f(x), f(x′)) for a map f of collections."""
        from mercer.kernels.transforms import Warped

        return Warped(self._copied(), f)

    def in_metric(self, matrix: Any) -> Kernel:
        """Return k(Ax, Ax′) for a matrix A, see `mercer.kernels.InMetric`.

        Parameters
        ----------
        matrix : array of shape (r, d)
            The matrix A, which maps points of d numbers to r numbers; AᵀA is the metric.
        """
        from mercer.kernels.transforms import InMetric

        return InMetric(self._copied(), matrix)

    def on(self, columns: Any) -> Kernel:
        """Return k on columns: a name, position, slice or list; products are tensor products."""
        from mercer.kernels.transforms import OnColumns

        return OnColumns(self._copied(), columns)

    def with_missing(self, fill: Any = None, agreement: float | None = None) -> Kernel:
        """Return k for points with missing values, see `mercer.kernels.WithMissing`.

        Parameters
        ----------
        fill : "median", "mean", number, array of shape (d,), or a point, optional
            What stands in for a missing value; for rows of numbers the median of each column, for
            other points missing is a direction of its own.
        agreement : float, optional
            What a known value and a missing one share, from 0 to 1; ½^(1/d) for d columns.
        """
        from mercer.kernels.missing import allow_missing

        return allow_missing(self, fill, agreement)

    def normalized(self) -> Kernel:
        """Return k(x, x′)/√(k(x, x) k(x′, x′)), zero where k(x, x) = 0."""
        from mercer.kernels.normalized import Normalized

        return Normalized(self._copied())

    def repaired(self, method: str = "clip") -> Kernel:
        """Return a valid kernel made of this similarity by "clip" or "shift", see `Repaired`."""
        from mercer.kernels.repaired import Repaired

        return Repaired(self._copied(), method)

    def _kernels(self) -> list[Kernel]:
        return []


def from_logs(theta: np.ndarray, now: np.ndarray) -> np.ndarray:
    """Return exp θ; where θ is the logarithm of the value that is there now, that, unrounded."""
    return np.where(theta == np.log(now), now, np.exp(theta))


def between(kernel: Kernel, X: Any, Y: Any) -> Bound:
    """Return a kernel bound to two collections, none of whose points are one."""
    return kernel._bind(X, Y)


def unproven(kernel: Any) -> bool:
    """Whether nothing but the user's word makes this a kernel."""
    return not kernel._proven or any(map(unproven, kernel._kernels()))
