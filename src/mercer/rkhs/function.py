"""`Function`: a function of one point, f = Σ αᵢ k(xᵢ, ·) + b, with the geometry of its RKHS."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import scipy.linalg

from mercer.domains import (
    Domain,
    Packed,
    beside,
    concatenate,
    is_torch,
    namespace,
    to_host,
)
from mercer.errors import InvalidInput, speaking_for, speaks
from mercer.kernels import Kernel, as_kernel, require_psd
from mercer.memory import require_memory
from mercer.operators import product_at
from mercer.rkhs.features import check_weights, few_features, sums_of_features

# ---- Fewer points for the same function: greedy projection in the RKHS ----


EPS = float(np.finfo(np.float64).eps)
ENTRIES = 2**20  # of gradients held at a time
SLACK = 0.9  # of the tolerated error, leaving the rest to rounding in whoever checks it


def project(K: np.ndarray, coef: np.ndarray, tol: float) -> tuple[np.ndarray, np.ndarray]:
    """Return positions S and coefficients β with ‖Σᵢ αᵢkᵢ − Σ_S βⱼkⱼ‖ ≤ tol ‖Σᵢ αᵢkᵢ‖.

    Points enter one at a time: the one whose k(x, ·) takes most off the residual, as in orthogonal
    matching pursuit (f/P-greedy in the Newton basis: Müller & Schaback 2009; Wirtz & Haasdonk
    2013). The Newton basis is a pivoted Cholesky factorisation of K, so β is the projection onto
    the span of the points so far. The error is recomputed from K before it is believed.

    Returns
    -------
    tuple of arrays
        Positions in the order of choice, shape (s,), and coefficients of shape (s, t). All points
        and α itself where rounding does not allow fewer.
    """
    m = len(K)
    values = K @ coef
    squared = np.maximum((coef * values).sum(0), 0.0)
    limit = tol**2 * squared
    weight = np.divide(1.0, squared, out=np.zeros_like(squared), where=squared > 0)
    if not weight.any():
        return np.zeros(0, dtype=int), coef[:0]
    left = K.diagonal().copy()  # ‖k(x, ·)‖² beyond the span of the chosen points
    floor = 1e-13 * left
    error, target = squared.copy(), SLACK * limit
    basis = np.empty((min(m, 64), m))
    chosen: list[int] = []
    shares: list[np.ndarray] = []
    while len(chosen) < m:
        free = left > floor
        if not free.any():
            break
        gain = np.where(free, (values**2 @ weight) / np.where(free, left, 1.0), -1.0)
        p, s = int(gain.argmax()), len(chosen)
        if s == len(basis):
            basis = np.concatenate([basis, np.empty((min(s, m - s), m))])
        basis[s] = (K[p] - basis[:s, p] @ basis[:s]) / np.sqrt(left[p])
        share = values[p] / np.sqrt(left[p])
        values -= np.outer(basis[s], share)
        left -= basis[s] ** 2
        left[p] = 0.0
        error -= share**2
        chosen.append(p)
        shares.append(share)
        if len(chosen) < m and (error <= target).all():
            index = np.array(chosen)
            beta = scipy.linalg.solve_triangular(basis[: s + 1, index], np.array(shares))
            change = coef.copy()
            change[index] -= beta
            if ((change * (K @ change)).sum(0) <= SLACK * limit).all():
                return index, beta
            target = np.minimum(target, error) / 4
    return _eliminate(K, coef, SLACK * limit)


def _eliminate(K: np.ndarray, coef: np.ndarray, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drop points while the error allows it, cheapest first, for what a choice one by one misses.

    With Q = K⁻¹ the rest of k(x_p, ·) beyond the other points has squared norm 1/Q_pp, so dropping
    p costs α_p²/Q_pp and leaves α − Q_{·p} α_p/Q_pp. Spans are nested, hence costs add up.
    """
    index, kept = np.arange(len(K)), coef
    try:
        Q = scipy.linalg.inv(K)
    except scipy.linalg.LinAlgError:
        return index, coef
    spent = np.zeros(coef.shape[1])
    while len(index) > 1 and (np.diagonal(Q) > 0).all():
        costs = kept**2 / np.diagonal(Q)[:, None]
        p = int((costs / np.maximum(limit, 1e-300)).max(axis=1).argmin())
        rest = np.arange(len(index)) != p
        smaller = kept[rest] - np.outer(Q[rest, p], kept[p]) / Q[p, p]
        change = coef.copy()
        change[index[rest]] -= smaller
        true = (change * (K @ change)).sum(0)
        if ((spent + costs[p] > limit) | (true > limit)).any():
            break
        spent += costs[p]
        Q = Q[np.ix_(rest, rest)] - np.outer(Q[rest, p], Q[p, rest]) / Q[p, p]
        index, kept = index[rest], smaller
    return index, kept


# ---- function ----


# ---- Collections of points put together, told apart, and searched for equal points ----


def apart(domain: Domain, X: Any) -> Any:
    """Return the same points as another object, so that k(X, points) does not read as k(X)."""
    return list(X) if isinstance(X, tuple) else domain.take(X, slice(None))


def same(A: Any, B: Any) -> bool:
    """Whether two collections are one: the same object, or arrays of the same points."""
    if A is B:
        return True
    if isinstance(A, Packed):
        return A == B
    arrays = isinstance(A, np.ndarray) and isinstance(B, np.ndarray)
    return arrays and A.dtype.kind != "O" and np.array_equal(A, B)


def first_equal(X: Any) -> np.ndarray:
    """Return for each point the position of the first point equal to it.

    Points that cannot be compared (sparse rows, tables, tensors, unhashable objects) count as
    different.
    """
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    own = np.arange(n)
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiubUS" and X.ndim in (1, 2) and n:
        _, first, inverse = np.unique(X, axis=0, return_index=True, return_inverse=True)
        return first[inverse.reshape(-1)]
    if isinstance(X, tuple | Packed):
        seen: dict[Any, int] = {}
        try:
            return np.array([seen.setdefault((type(x), x), i) for i, x in enumerate(X)], dtype=int)
        except TypeError:
            return own
    return own


# ---- function ----


class Function:
    r"""The function f(x) = Σᵢ αᵢ k(xᵢ, x) + b.

    Its first part lies in the reproducing kernel Hilbert space of k, where
    ⟨Σᵢ αᵢk(xᵢ, ·), Σⱼ βⱼk(zⱼ, ·)⟩ = αᵀK(X, Z)β. The offset b does not belong to that space:
    `inner`, `norm` and `compress` concern the first part only. Functions of one kernel add,
    subtract, and scale; so do those whose kernels differ in what no value depends on, such as the
    letters of an alphabet that numbers features.

    ``f(X)`` and the geometry are computed in tiles, so no n × m matrix is stored.

    Parameters
    ----------
    kernel : Kernel, str or callable
        The kernel k; words such as ``"median"`` are resolved on the points.
    points : collection of m points
        The points xᵢ; with `Precomputed` a Gram matrix or positions of training points.
    coef : array of shape (m,) or (m, t)
        The coefficients α; with t columns f has t outputs.
    offset : float or array of shape (t,), default=0.0
        The offset b.

    Examples
    --------
    >>> from mercer import RBF, Function
    >>> f = Function(RBF(), [[0.0], [1.0]], [1.0, -1.0])
    >>> f([[0.0], [0.5]]).round(4)
    array([0.3935, 0.    ])
    >>> round(f.norm() ** 2, 4)
    0.7869
    >>> len(2.0 * f + Function(RBF(), [[3.0]], [1.0]))
    3
    """

    __array_ufunc__ = None  # numpy numbers leave c * f to us

    def __init__(self, kernel: Any, points: Any, coef: Any, offset: Any = 0.0):
        kernel = kernel if isinstance(kernel, Kernel) else as_kernel(kernel)
        domain = kernel.domain
        self.points = domain.keep(domain.check(points, "points"))
        # What no value depends on, such as an alphabet, stays open: one kernel, one space.
        self.kernel: Kernel = kernel.fit_params(self.points) if kernel._words() else kernel
        self.coef = _check_coef(coef, self.points, domain.size(self.points))
        self.offset = _check_offset(offset, self.coef)

    # -- looking at it ------------------------------------------------------------------------
    def __len__(self) -> int:
        return int(self.coef.shape[0])

    @property
    def n_outputs(self) -> int:
        """The number of values at a point."""
        return 1 if self.coef.ndim == 1 else int(self.coef.shape[1])

    def __repr__(self) -> str:
        parts = [repr(self.kernel), f"{len(self)} point{'s' * (len(self) != 1)}"]
        if self.coef.ndim == 2:
            parts.append(f"{self.n_outputs} output{'s' * (self.n_outputs != 1)}")
        if np.ndim(self.offset) or self.offset != 0.0:
            parts.append(f"offset={self.offset if np.ndim(self.offset) else f'{self.offset:g}'}")
        return f"Function({', '.join(parts)})"

    # -- values -------------------------------------------------------------------------------
    def __call__(self, X: Any) -> Any:
        """Return f at every point of X, shape (n,) or (n, t).

        Parameters
        ----------
        X : collection of n points
            New points; with `Precomputed` rows of kernel values with the training points.
        """
        domain = self.kernel.domain
        if not len(self):
            X = domain.check(X)
            values: Any = np.zeros((domain.size(X), *self.coef.shape[1:]))
            values = _like(values, X) if is_torch(X) else values
        else:
            # Points that happen to be the same object are still new points: White, for one, asks.
            X = apart(domain, X) if X is self.points else X
            X = domain.check(X)
            both = domain.match(X, self.points)
            if domain.holds_points and all(isinstance(Z, np.ndarray) for Z in both):
                values = product_at(self, self.kernel, *both, self.coef)
            else:
                values = self.kernel.matmul(X, self.points, self.coef)
            if isinstance(self.points, np.ndarray) and not is_torch(values):
                near = sums_of_features(self.kernel, self.points, self.coef, X)
                values = values if near is None else near.astype(values.dtype, copy=False)
        if is_torch(values):
            return values + _like(self.offset, values)
        values += np.asarray(self.offset).astype(values.dtype)
        return values

    def gradient(self, X: Any) -> Any:
        """Return ∇f at every row of X, shape (n, d), or (n, d, t) for t outputs.

        Parameters
        ----------
        X : array of shape (n, d)
            Where; k must be differentiable.
        """
        X = self._vectors(X)
        if not len(self):
            zeros = np.zeros((*X.shape, *self.coef.shape[1:]))
            return _like(zeros, X) if is_torch(X) else zeros
        if self.coef.ndim == 1:
            return self.kernel.gradient(X, self.points, self.coef)
        columns = [self.kernel.gradient(X, self.points, c) for c in self.coef.T]
        return namespace(columns[0]).stack(columns, -1)

    @speaks
    def explain(
        self,
        X: Any,
        *,
        game: str = "marginal",
        background: Any = None,
        background_weight: Any = None,
        interactions: bool = False,
        groups: Any = None,
    ) -> Any:
        r"""Return the shares of columns in f(x), its Shapley values, exactly.

        They add up: f(x) = base + Σⱼ φⱼ(x). What f is worth when the columns S are known, v(S), is
        a game, of which there are three; of a sum of products over columns, such as an `RBF`,
        shares are an integral in closed form, at a cost of n·p² operations a row of n points and p
        columns (n·p²·B for a background of B rows).

        Parameters
        ----------
        X : collection of n points with columns
            The rows.
        game : {"marginal", "background", "baseline"}, default="marginal"
            "marginal": each column that is not known is drawn by itself from the background, so
            v(S) is a mean over rows that need not occur; "background": all of them are those of one
            row of the background, in the mean over these, the game that sampling explainers
            approximate; any kernel will do, but where it is no product of columns, orders of the
            columns are drawn and `std` is the standard error. "baseline": the factor of a column
            that is not known is 1.
        background : collection of points, optional
            Rows that stand for what is not known; the points of f, or some of them, by default.
        background_weight : array, optional
            Their weights.
        interactions : bool, default=False
            Whether to tell what two columns do together as well.
        groups : list of lists of columns, optional
            Columns, by name or position, that share as one.

        Returns
        -------
        Explanation
            With ``values``, ``base``, ``columns``, ``data`` and ``interactions``.

        References
        ----------
        Owen, "Multilinear extensions of games", 1972; Lundberg and Lee, NeurIPS 2017.
        """
        from mercer.rkhs.explanation import explain

        return explain(
            self,
            X,
            game=game,
            background=background,
            background_weight=background_weight,
            interactions=interactions,
            groups=groups,
        )

    def _vectors(self, X: Any) -> Any:
        """Return canonical points that are rows of numbers."""
        domain = self.kernel.domain
        X = domain.check(X)
        if isinstance(X, tuple) or len(X.shape) != 2 or not domain.holds_points:
            raise InvalidInput(
                f"{self!r}: a gradient needs points that are vectors, not {domain.name}."
            )
        return X

    def agop(self, X: Any, *, diagonal: bool = False, sample_weight: Any = None) -> Any:
        r"""Return the average outer product of gradients, Σᵢ wᵢ ∇f(xᵢ)∇f(xᵢ)ᵀ / Σᵢ wᵢ.

        Summed over outputs. Its eigenvectors are the directions along which f changes, most of all
        first; its diagonal tells how much f changes with each column. ``kernel.in_metric(A)`` with
        AᵀA = agop is a kernel that looks along them. A term of f whose point is x itself counts
        nothing where the kernel has a kink there.

        Parameters
        ----------
        X : array of shape (n, d)
            Where; k must be differentiable.
        diagonal : bool, default=False
            Whether to return the diagonal alone, the means of squares of ∂f/∂xⱼ.
        sample_weight : array of shape (n,), optional
            Weights ≥ 0; equal by default. A weight of 2 counts a row twice.

        Returns
        -------
        array of shape (d, d) or (d,)
            Symmetric and positive semidefinite, in float64.

        Examples
        --------
        >>> from mercer import Function, Linear
        >>> f = Function(Linear(), [[1.0, 2.0]], [1.0])  # f(x) = x₁ + 2x₂
        >>> f.agop([[0.0, 0.0], [5.0, 1.0]])
        array([[1., 2.],
               [2., 4.]])
        """
        X = self._vectors(X)
        n, d = X.shape
        with speaking_for("Function.agop: sample_weight"):
            w = check_weights(sample_weight, n)
        if not diagonal:
            what = f"Function.agop: a matrix of {d} × {d} numbers and its sum"
            require_memory(3 * 8 * d * d, what, "Take diagonal=True", X)
        kept = np.flatnonzero(w)
        step = max(1, ENTRIES // max(1, d * self.n_outputs))  # of data alone, so that bits stay
        total: Any = 0.0
        for start in range(0, len(kept), step):
            rows = kept[start : start + step]
            G = self.gradient(self.kernel.domain.take(X, rows))
            # one column a point and output, in a matrix of its own: G Gᵀ is symmetric to the bit
            root = beside(np.sqrt(w[rows]), G)
            G = (G.reshape(len(rows), d, -1) * root[:, None, None]).swapaxes(0, 1).reshape(d, -1)
            total = total + ((G * G).sum(1) if diagonal else G @ G.T)
        return total

    # -- geometry -----------------------------------------------------------------------------
    def inner(self, other: Function) -> Any:
        """Return ⟨f, g⟩ = αᵀK(X, Z)β, without the offsets; one number an output.

        Parameters
        ----------
        other : Function
            The function g, of the same kernel.
        """
        self._check_partner(other, "inner")
        self._check_geometry("inner")
        t, u = self.n_outputs, other.n_outputs
        if t != u and 1 not in (t, u):
            raise InvalidInput(
                f"Function.inner: functions with {t} and {u} outputs; give as many, or one."
            )
        single = self.coef.ndim == other.coef.ndim == 1
        if not len(self) or not len(other):
            return 0.0 if single else np.zeros(max(t, u))
        values = self.kernel.matmul(self.points, other.points, other.coef).reshape(len(self), u)
        coef = self.coef.reshape(len(self), t)
        if is_torch(values):
            total = (_like(coef, values) * values).sum(0)
            return total[0] if single else total
        total = (np.asarray(coef, dtype=float) * values.astype(float)).sum(0)
        total = self._without_rounding(other, total)
        return float(total[0]) if single else total

    def _without_rounding(self, other: Function, total: np.ndarray) -> np.ndarray:
        """Return ⟨f, g⟩ from features, where few, if half of the digits were lost in the sum.

        The terms of a difference of means cancel, far from the origin all of them.
        """
        kernel, sizes = self.kernel, np.ones(1)
        for f in (self, other):
            root = np.sqrt(np.abs(np.asarray(kernel.diag(f.points), dtype=float)))
            sizes = sizes * (root @ np.abs(f.coef.reshape(len(f), f.n_outputs)))
        if not (np.abs(total) <= EPS**0.5 * sizes).any():
            return total
        images = [few_features(kernel, f.points, len(self) + len(other)) for f in (self, other)]
        if images[0] is None or images[1] is None or images[0].shape[1] != images[1].shape[1]:
            return total
        a, b = (
            np.asarray(F.T @ f.coef.reshape(len(f), f.n_outputs), dtype=float)
            for F, f in zip(images, (self, other), strict=True)
        )
        return (a * b).sum(0)

    def norm(self) -> Any:
        """Return ‖f‖ = √(αᵀKα), without the offset; one number an output.

        It bounds how fast f varies: |f(x) − f(x′)| ≤ ‖f‖ d(x, x′), with `mercer.distance` d.
        """
        squared = self.inner(self)
        if is_torch(squared):
            return squared.clip(0).sqrt()
        root = np.sqrt(np.maximum(squared, 0.0))
        return float(root) if np.ndim(root) == 0 else root

    def compress(self, tol: float = 1e-3) -> Function:
        """Return g of fewer points with ‖f − g‖ ≤ tol ‖f‖ for every output.

        Then |f(x) − g(x)| ≤ tol ‖f‖ √k(x, x) everywhere. Points with zero coefficients are
        dropped, equal points merged, and the rest chosen greedily, with coefficients of the
        projection onto them. Needs the m × m Gram matrix.

        Parameters
        ----------
        tol : float, default=1e-3
            Relative error in the norm of the RKHS; 0 only drops and merges.

        Returns
        -------
        Function
            Of the same kernel and offset.
        """
        if isinstance(tol, bool | str) or np.ndim(tol) != 0 or not 0 <= float(tol) < 1:
            raise InvalidInput(f"Function.compress: tol={tol!r}; give a number in [0, 1).")
        if tol > 0:
            self._check_geometry("compress")
        coef = to_host(self.coef).reshape(len(self), self.n_outputs).astype(float)
        index = np.flatnonzero((coef != 0).any(1))
        index, coef = self._merged(index, coef[index])
        if tol > 0 and len(index):
            K = to_host(self.kernel(self._take(index))).astype(float)
            chosen, coef = project(K, coef, float(tol))
            order = np.argsort(chosen)
            index, coef = index[chosen[order]], coef[order]
        coef = coef.reshape(len(index), *self.coef.shape[1:]).astype(to_host(self.coef).dtype)
        return Function(self.kernel, self._take(index), coef, self.offset)

    def _merged(self, index: np.ndarray, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Add up the coefficients of equal points, where k too sees them as equal."""
        if not len(index):
            return index, coef
        first = first_equal(self._take(index))
        twins = np.flatnonzero(first != np.arange(len(first)))
        if not len(twins):
            return index, coef
        if self.kernel.domain.holds_points:
            i, j = first[twins[0]], twins[0]
            K = to_host(self.kernel(self._take(index[[i, j]])))
            if abs(K[0, 1] - K[0, 0]) > 1e-6 * abs(K[0, 0]):  # White: k(x, x) is for x itself
                return index, coef
        total = np.zeros_like(coef)
        np.add.at(total, first, coef)
        kept = np.flatnonzero((first == np.arange(len(first))) & (total != 0).any(1))
        return index[kept], total[kept]

    def _take(self, index: np.ndarray) -> Any:
        return self.kernel.domain.take(self.points, index)

    def _check_geometry(self, what: str) -> None:
        if not self.kernel.domain.holds_points:
            raise InvalidInput(
                f"Function.{what}: a precomputed kernel remembers training points by position "
                "only, and their Gram matrix K is not kept. ‖f‖² is coef @ K @ coef."
            )
        with speaking_for(f"Function.{what}"):
            require_psd(self.kernel)

    def _check_partner(self, other: Any, what: str) -> None:
        if not isinstance(other, Function):
            raise InvalidInput(
                f"Function.{what}: got a {type(other).__name__}; the partner must be a Function."
            )
        if not _shared(self.kernel, other.kernel):
            raise InvalidInput(
                f"Function.{what}: the kernels differ, {self.kernel!r} and {other.kernel!r}, so "
                "the functions live in different spaces. Build both with one kernel; a word such "
                "as 'median' is resolved on the points of each, so call kernel.fit_params(X) first."
            )

    # -- arithmetic ---------------------------------------------------------------------------
    def __add__(self, other: Any) -> Function:
        """Return f + g, or f + c with a number c."""
        if _is_number(other):
            return Function(self.kernel, self.points, self.coef, self.offset + other)
        if not isinstance(other, Function):
            return NotImplemented
        self._check_partner(other, "+")
        if tuple(self.coef.shape[1:]) != tuple(other.coef.shape[1:]):
            raise InvalidInput(
                f"Function.+: functions with {self.n_outputs} and {other.n_outputs} outputs; "
                "coef must have the same columns."
            )
        offset = self.offset + other.offset
        if same(self.points, other.points):
            a, b = _alike(self.coef, other.coef)
            return Function(self.kernel, self.points, a + b, offset)
        points = concatenate(self.kernel.domain, self.points, other.points)
        kernel = self.kernel if self.kernel == other.kernel else _opened(self.kernel)
        a, b = _alike(self.coef, other.coef)
        coef = namespace(a).concatenate([a, b])
        return Function(kernel, points, coef, offset)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Function:
        """Return f − g, or f − c with a number c."""
        return (
            self + (-other) if _is_number(other) or isinstance(other, Function) else NotImplemented
        )

    def __rsub__(self, other: Any) -> Function:
        """Return c − f."""
        return -self + other if _is_number(other) else NotImplemented

    def __mul__(self, factor: Any) -> Function:
        """Return c·f for a number c."""
        if not _is_number(factor):
            return NotImplemented
        return Function(self.kernel, self.points, self.coef * factor, self.offset * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> Function:
        """Return f/c for a number c."""
        if not _is_number(divisor):
            return NotImplemented
        if divisor == 0:
            raise InvalidInput("Function./: division by zero.")
        return self * (1.0 / divisor)

    def __neg__(self) -> Function:
        """Return −f."""
        return self * -1.0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _like(A: Any, tensor: Any) -> Any:
    return beside(A, tensor if tensor.is_floating_point() else tensor[:0].double())


def _alike(a: Any, b: Any) -> tuple[Any, Any]:
    if is_torch(a) or is_torch(b):
        tensor = a if is_torch(a) else b
        return _like(a, tensor), _like(b, tensor)
    return a, b


def _check_coef(coef: Any, points: Any, size: int) -> Any:
    if is_torch(points):
        coef = _like(coef, points)
        finite = bool(coef.isfinite().all())
    else:
        try:
            coef = np.asarray(to_host(coef))
            if coef.dtype not in (np.float32, np.float64):
                coef = coef.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"Function: coef is not an array of numbers ({error}).") from error
        finite = bool(np.isfinite(coef).all())
    shape = tuple(coef.shape)
    if len(shape) not in (1, 2) or shape[0] != size or shape[1:] == (0,):
        raise InvalidInput(
            f"Function: coef has shape {shape} for {size} points; give one coefficient a point, "
            f"({size},), or one row a point for several outputs, ({size}, t)."
        )
    if not finite:
        raise InvalidInput("Function: coef has values that are not finite (NaN or inf).")
    return coef


def _shared(k1: Kernel, k2: Kernel) -> bool:
    """Whether two kernels have the same values, hence the same space."""
    return k1 is k2 or k1 == k2 or (type(k1) is type(k2) and _opened(k1) == _opened(k2))


def _opened(kernel: Kernel) -> Kernel:
    """Return the kernel without the parameters that no value depends on, as `_open` names them."""
    changes: dict[str, Any] = {}
    for name, value in kernel.get_params(deep=False).items():
        if isinstance(value, Kernel):
            changes[name] = _opened(value)
            continue
        without = copy(kernel)
        setattr(without, name, None)
        if name in without._open():
            changes[name] = None
    return kernel._replace(changes) if changes else kernel


def _check_offset(offset: Any, coef: Any) -> Any:
    try:
        offset = np.asarray(to_host(offset), dtype=float)
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidInput(f"Function: offset is not a number ({error}).") from error
    legal: tuple = ((), tuple(coef.shape[1:]))
    if coef.ndim == 1 and offset.shape == (1,):
        offset = offset.reshape(())
    if offset.shape not in legal:
        raise InvalidInput(
            f"Function: offset has shape {offset.shape}; give one number"
            f"{f', or one for each of {coef.shape[1]} outputs' if coef.ndim == 2 else ''}."
        )
    if not np.isfinite(offset).all():
        raise InvalidInput("Function: offset is not finite (NaN or inf).")
    return float(offset) if offset.ndim == 0 else offset
