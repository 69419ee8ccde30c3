r"""A kernel as a sum of products over columns: what explanations, effects and shares are made of.

A term is :math:`w \prod_p a_p` with one factor for each group of columns, or, for kernels of an
inner product, :math:`w\,(c + \sum_p s_p)^m \prod_p a_p`. Sums of kernels are more terms, products
multiply them out. A radial kernel of several columns that is no product, such as Matérn's, is a
mixture of Gaussian ones (Schoenberg 1938), taken at nodes whose largest error is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import product
from typing import Any

import numpy as np

from mercer.domains import Numbers, Vectors
from mercer.domains.tables import select
from mercer.errors import InvalidInput
from mercer.kernels.additive import Additive
from mercer.kernels.algebra import Exp, Power, Product, Series, Sum
from mercer.kernels.base import Kernel
from mercer.kernels.categories import Categorical, Ordinal
from mercer.kernels.constant import Constant, White
from mercer.kernels.dot import Exponential, Linear, Polynomial
from mercer.kernels.laplacian import Laplacian
from mercer.kernels.metric import Radial
from mercer.kernels.missing import WithMissing
from mercer.kernels.normalized import Normalized
from mercer.kernels.periodic import Periodic
from mercer.kernels.radial import RBF, Matern, PowerExponential, RationalQuadratic
from mercer.kernels.transforms import InMetric, OnColumns
from mercer.kernels.zero_mean import ZeroMean

MOST = 1024  # terms of a kernel
NODES = 96  # scales from which those of a mixture are chosen
CLOSE = 1e-6  # of the largest value, by which a mixture may miss its kernel
SEEN = 1e4  # squared distance, in length scales, up to which a mixture is fitted
FINEST = 1e9  # the inverse of the smallest squared scale of a mixture

Places = tuple[int, ...]


class NoProduct(InvalidInput):
    """A kernel that is no sum of products over columns."""


@dataclass(frozen=True)
class ColumnFactor:
    """A kernel on some columns, as one factor of a term.

    Parameters
    ----------
    columns : tuple of int
        Positions of the columns, increasing.
    kernels : tuple of Kernel
        Kernels on these columns, multiplied; none stand for 1.
    inner : tuple of Kernel
        Kernels on these columns whose sum is the factor's part of an inner product.
    """

    columns: Places
    kernels: tuple[Kernel, ...] = ()
    inner: tuple[Kernel, ...] = ()

    def joined(self, other: ColumnFactor) -> ColumnFactor:
        """Return the product of two factors on the same columns."""
        return ColumnFactor(self.columns, self.kernels + other.kernels, self.inner + other.inner)


@dataclass(frozen=True)
class Term:
    r""":math:`w\,(c + \sum_p s_p)^m \prod_p a_p`, one factor for each group of columns."""

    weight: float = 1.0
    factors: tuple[ColumnFactor, ...] = ()
    offset: float = 0.0
    degree: int = 0

    def times(self, other: Term) -> Term:
        """Return the product of two terms."""
        if self.degree and other.degree:
            raise NoProduct("a product of two kernels of inner products")
        lead = self if self.degree else other
        factors = {factor.columns: factor for factor in self.factors}
        for factor in other.factors:
            mine = factors.get(factor.columns)
            factors[factor.columns] = factor if mine is None else mine.joined(factor)
        return Term(self.weight * other.weight, tuple(factors.values()), lead.offset, lead.degree)


@dataclass(frozen=True)
class Terms:
    """A kernel as a sum of terms, and by how much they may miss one of its values."""

    terms: tuple[Term, ...]
    error: float = 0.0

    def __post_init__(self) -> None:
        if len(self.terms) > MOST:
            raise NoProduct(f"a sum of {len(self.terms)} products")

    def plus(self, other: Terms) -> Terms:
        """Return the sum of two kernels."""
        return Terms(self.terms + other.terms, self.error + other.error)

    def times(self, other: Terms) -> Terms:
        """Return the product of two kernels, multiplied out."""
        if len(self.terms) * len(other.terms) > MOST:
            raise NoProduct(f"{len(self.terms)} times {len(other.terms)} products")
        if len(self.terms) > 1 and len(other.terms) > 1 and (self.error or other.error):
            raise NoProduct("a product of mixtures")
        made = tuple(a.times(b) for a, b in product(self.terms, other.terms))
        return Terms(made, self.error * _size(other) + other.error * _size(self))


def _size(terms: Terms) -> float:
    return sum(abs(term.weight) for term in terms.terms)


@dataclass(frozen=True)
class Columns:
    """The columns that a kernel sees, by their positions among all."""

    places: Places
    names: tuple[str, ...] | None = None
    chosen: bool = False  # whether the user put them together by .on(...)

    def one(self, i: int) -> Columns:
        """Return the i-th of them alone."""
        return replace(self, places=(self.places[i],))

    def __len__(self) -> int:
        return len(self.places)


def terms_of(kernel: Kernel, count: int, names: Sequence[str] | None = None) -> Terms:
    """Return a kernel of points with so many columns as a sum of products over columns.

    Parameters
    ----------
    kernel : Kernel
        The kernel, its words resolved.
    count : int
        The columns of a point.
    names : sequence of str, optional
        Their names, where the kernel chooses some by name.

    Raises
    ------
    InvalidInput
        Where the kernel is no such sum; it names the part that is none.
    """
    every = Columns(tuple(range(count)), None if names is None else tuple(names))
    return _terms(kernel, every)


def _whole(kernel: Kernel, columns: Columns) -> Terms:
    """Return a kernel as one factor of its columns: of one, or of several put together."""
    if len(columns) == 1 or columns.chosen:
        return Terms((Term(1.0, (ColumnFactor(columns.places, (kernel,)),)),))
    raise NoProduct(f"{kernel}")


def _single(kernels: Iterable[Kernel], columns: Columns) -> Terms:
    """Return the product of kernels, one for each column."""
    pairs = zip(columns.places, kernels, strict=True)
    return Terms((Term(1.0, tuple(ColumnFactor((place,), (kernel,)) for place, kernel in pairs)),))


def _scales(kernel: Any, columns: Columns) -> np.ndarray:
    return np.broadcast_to(np.asarray(kernel.length_scale, dtype=float), (len(columns),))


@singledispatch
def _terms(kernel: Kernel, columns: Columns) -> Terms:
    """Return the terms of a kernel; by default it is one factor of the columns it was put on."""
    return _whole(kernel, columns)


@_terms.register
def _(kernel: Constant, columns: Columns) -> Terms:
    return Terms((Term(float(kernel.value)),))


@_terms.register
def _(kernel: White, columns: Columns) -> Terms:
    return Terms(())  # noise of the rows of a fit, which new points do not share


@_terms.register
def _(kernel: Sum, columns: Columns) -> Terms:
    return _terms(kernel.k1, columns).plus(_terms(kernel.k2, columns))


@_terms.register
def _(kernel: Product, columns: Columns) -> Terms:
    return _terms(kernel.k1, columns).times(_terms(kernel.k2, columns))


@_terms.register
def _(kernel: Power, columns: Columns) -> Terms:
    inner = _terms(kernel.kernel, columns)
    if len(inner.terms) == 1 and inner.terms[0].degree:  # ((c + s)^m)^p
        (term,) = inner.terms
        if not any(factor.kernels for factor in term.factors):
            degree = term.degree * int(kernel.degree)
            return Terms((replace(term, weight=term.weight**kernel.degree, degree=degree),))
    out = inner
    for _ in range(int(kernel.degree) - 1):
        out = out.times(inner)
    return out


@_terms.register
def _(kernel: Series, columns: Columns) -> Terms:
    inner, power, out = _terms(kernel.kernel, columns), Terms((Term(),)), Terms(())
    for c in kernel.coefficients:
        scaled = tuple(replace(t, weight=float(c) * t.weight) for t in power.terms)
        out = out.plus(Terms(scaled, float(c) * power.error)) if c else out
        power = power.times(inner)
    return out


@_terms.register
def _(kernel: Additive, columns: Columns) -> Terms:
    sums = [Terms((Term(),)), *[Terms(())] * int(kernel.order)]
    for part in kernel._kernels():
        own = _terms(part, columns)
        plus = [sums[r].plus(sums[r - 1].times(own)) for r in range(1, len(sums))]
        sums = [sums[0], *plus]
    out = Terms(())
    for variance, terms in zip(kernel.variances, sums, strict=True):
        scaled = tuple(replace(t, weight=float(variance) * t.weight) for t in terms.terms)
        out = out.plus(Terms(scaled, float(variance) * terms.error)) if variance else out
    return out


@_terms.register
def _(kernel: Exp, columns: Columns) -> Terms:
    if len(columns) == 1 or columns.chosen:
        return _whole(kernel, columns)
    inner = _terms(kernel.kernel, columns)
    factors: dict[Places, list[Kernel]] = {}
    level = 0.0
    for term in inner.terms:
        if inner.error or term.degree > 1:
            raise NoProduct(f"{kernel}")
        level += term.weight * term.offset * term.degree
        if term.degree:
            if any(factor.kernels for factor in term.factors):
                raise NoProduct(f"{kernel}")
            for factor in term.factors:
                factors.setdefault(factor.columns, []).extend(
                    Constant(term.weight) * k for k in factor.inner
                )
        elif len(term.factors) > 1:
            raise NoProduct(f"{kernel}")
        elif not term.factors:
            level += term.weight
        else:
            (factor,) = term.factors
            whole = Constant(term.weight) * _multiplied(factor.kernels)
            factors.setdefault(factor.columns, []).append(whole)
    made = tuple(ColumnFactor(at, (Exp(_added(parts)),)) for at, parts in factors.items())
    return Terms((Term(float(np.exp(level)), made),))


def _multiplied(kernels: Sequence[Kernel]) -> Kernel:
    out = kernels[0]
    for kernel in kernels[1:]:
        out = out * kernel
    return out


def _added(kernels: Sequence[Kernel]) -> Kernel:
    out = kernels[0]
    for kernel in kernels[1:]:
        out = out + kernel
    return out


@_terms.register
def _(kernel: Normalized, columns: Columns) -> Terms:
    if len(columns) == 1 or columns.chosen:
        return _whole(kernel, columns)
    if isinstance(kernel.kernel, Exponential):
        return _terms(RBF(kernel.kernel.length_scale), columns)
    inner = _terms(kernel.kernel, columns)
    if len(inner.terms) != 1 or inner.terms[0].degree or inner.error:
        raise NoProduct(f"{kernel}")
    made = tuple(
        replace(factor, kernels=(Normalized(_multiplied(factor.kernels)),))
        for factor in inner.terms[0].factors
    )
    return Terms((Term(1.0, made),))


@_terms.register
def _(kernel: OnColumns, columns: Columns) -> Terms:
    chosen = kernel._index()
    if isinstance(chosen, slice):
        places: Any = columns.places[chosen]
    else:
        places = tuple(columns.places[_position(c, columns)] for c in chosen)
    inner = replace(columns, places=tuple(places), chosen=True)
    if not isinstance(kernel.kernel.domain, Vectors | Numbers) and len(inner) == 1:
        return _whole(kernel.kernel, inner)
    try:  # the columns of a product are told apart, even where they were chosen together
        return _terms(kernel.kernel, replace(inner, chosen=False))
    except NoProduct:
        return _whole(kernel.kernel, inner)


def _position(column: Any, columns: Columns) -> int:
    if isinstance(column, str):
        names = columns.names or ()
        if column not in names:
            raise InvalidInput(f"no column {column!r}; there are {', '.join(names) or 'no names'}.")
        return names.index(column)
    return int(column)


@_terms.register
def _(kernel: InMetric, columns: Columns) -> Terms:
    A: Any = np.asarray(kernel.matrix, dtype=np.float64)
    if len(columns) == 1 or columns.chosen:
        return _whole(kernel, columns)
    own = A != 0
    if (own.sum(axis=0) > 1).any() or (own.sum(axis=1) != 1).any():
        raise NoProduct(f"{kernel}: its metric mixes columns")
    source = own.argmax(axis=1)
    inside = _terms(kernel.kernel, replace(columns, places=tuple(range(len(A)))))
    made = tuple(
        replace(
            term,
            factors=tuple(
                ColumnFactor(
                    tuple(columns.places[source[i]] for i in factor.columns),
                    tuple(_in(k, factor.columns, A, source) for k in factor.kernels),
                    tuple(_in(k, factor.columns, A, source) for k in factor.inner),
                )
                for factor in term.factors
            ),
        )
        for term in inside.terms
    )
    return Terms(made, inside.error)


def _in(kernel: Kernel, rows: Places, A: np.ndarray, source: np.ndarray) -> Kernel:
    return InMetric(kernel, np.diag([A[i, source[i]] for i in rows]))


# ---- Kernels that are products over their columns, and inner products ----


@_terms.register
def _(kernel: Categorical, columns: Columns) -> Terms:
    return _single([kernel] * len(columns), columns)


@_terms.register
def _(kernel: Ordinal, columns: Columns) -> Terms:
    return _whole(kernel, columns)


@_terms.register
def _(kernel: Periodic, columns: Columns) -> Terms:
    return _single([kernel] * len(columns), columns)


@_terms.register
def _(kernel: Exponential, columns: Columns) -> Terms:
    return _single([kernel] * len(columns), columns)


@_terms.register
def _(kernel: Linear, columns: Columns) -> Terms:
    if kernel.covariance is None:
        return _inner_product(kernel, columns, 0.0, 1)
    A: Any = np.asarray(kernel.covariance, dtype=np.float64)
    if len(columns) > 1 and np.count_nonzero(A - np.diag(np.diagonal(A))):
        return _whole(kernel, columns)
    factors = tuple(
        ColumnFactor((place,), (), (Linear(np.array([[a]])),))
        for place, a in zip(columns.places, np.diagonal(A), strict=True)
    )
    return Terms((Term(1.0, factors, 0.0, 1),))


@_terms.register
def _(kernel: Polynomial, columns: Columns) -> Terms:
    scale = 1.0 if kernel.length_scale is None else float(np.ravel(kernel.length_scale)[0])
    inner = Linear() if scale == 1.0 else Polynomial(1, 0.0, length_scale=scale)
    return _inner_product(inner, columns, float(kernel.offset), int(kernel.degree))


def _inner_product(inner: Kernel, columns: Columns, offset: float, degree: int) -> Terms:
    factors = tuple(ColumnFactor((place,), (), (inner,)) for place in columns.places)
    return Terms((Term(1.0, factors, offset, degree),))


@_terms.register
def _(kernel: Laplacian, columns: Columns) -> Terms:
    if type(kernel) is not Laplacian:
        return _whole(kernel, columns)
    return _single([Laplacian(float(scale)) for scale in _scales(kernel, columns)], columns)


@_terms.register
def _(kernel: Radial, columns: Columns) -> Terms:
    if len(columns) <= 1:
        return _whole(kernel, columns)
    covariance = getattr(kernel, "covariance", None)
    if covariance is not None:
        S = np.asarray(covariance, dtype=float)
        if np.count_nonzero(S - np.diag(np.diagonal(S))):
            return _whole(kernel, columns)
        scales: Any = np.sqrt(np.diagonal(S))
        return _single([RBF(float(scale)) for scale in scales], columns)
    if isinstance(kernel, PowerExponential):
        if kernel.power == kernel.norm:
            how = {"power": kernel.norm, "norm": kernel.norm}
            scales = _scales(kernel, columns)
            return _single([PowerExponential(float(s), **how) for s in scales], columns)
        p = float(kernel.norm)

        def piece(scale: float, u: float) -> Kernel:
            return PowerExponential(scale * u ** (-1 / p), power=p, norm=p)

        return _mixture(kernel, columns, piece)
    if type(kernel) is RBF:
        return _single([RBF(float(scale)) for scale in _scales(kernel, columns)], columns)
    if not isinstance(kernel, Matern | RationalQuadratic):
        return _whole(kernel, columns)

    def gaussian(scale: float, u: float) -> Kernel:
        return RBF(scale * (0.5 / u) ** 0.5)

    return _mixture(kernel, columns, gaussian)


def _mixture(
    kernel: Radial,
    columns: Columns,
    piece: Callable[[float, float], Kernel],
) -> Terms:
    """Return Σₖ wₖ exp(−uₖ s) with w ≥ 0 for a profile κ(s) that is completely monotone."""
    from scipy.optimize import nnls

    u = np.geomspace(0.03 / SEEN, FINEST, NODES)
    s = np.concatenate([[0.0], np.geomspace(1 / FINEST, SEEN, 8 * NODES)])
    weights, _ = nnls(np.exp(-np.outer(s, u)), kernel.at_squares(s), maxiter=100 * NODES)
    kept = np.flatnonzero(weights)
    between = np.concatenate([[0.0], np.geomspace(1 / FINEST, SEEN, 50 * NODES + 7)])
    values = np.exp(-np.outer(between, u[kept])) @ weights[kept]
    error = float(np.abs(values - kernel.at_squares(between)).max())
    if not error <= CLOSE * max(1.0, float(kernel.at_squares(np.zeros(1))[0])):
        raise NoProduct(f"{kernel} is a mixture of products only to {error:.1g}")
    scales = _scales(kernel, columns)
    terms = tuple(
        Term(
            float(weights[i]),
            tuple(
                ColumnFactor((place,), (piece(float(scale), float(u[i])),))
                for place, scale in zip(columns.places, scales, strict=True)
            ),
        )
        for i in kept
    )
    return Terms(terms, error)


@_terms.register
def _(kernel: WithMissing, columns: Columns) -> Terms:
    if len(columns) == 1 or not isinstance(kernel.kernel.domain, Vectors):
        return _whole(kernel, columns)
    d = len(columns)
    given: Any = kernel.fill
    fill = np.broadcast_to(np.asarray(given, dtype=np.float64), (d,))
    agreement = 0.5 ** (1 / d) if kernel.agreement is None else float(kernel.agreement)
    at = dict(zip(columns.places, fill, strict=True))
    inner = _terms(kernel.kernel, replace(columns, chosen=False))

    def allowed(factor: ColumnFactor) -> ColumnFactor:
        if factor.inner or not factor.kernels:
            raise NoProduct(f"{kernel}")
        shared = agreement ** len(factor.columns) if len(factor.columns) > 1 else agreement
        if len(factor.columns) > 1:
            raise NoProduct(f"{kernel}")
        filled = float(at[factor.columns[0]])
        made = WithMissing(_multiplied(factor.kernels), filled, shared)
        return replace(factor, kernels=(made,))

    terms = []
    for term in inner.terms:
        told = {factor.columns for factor in term.factors}
        if told != {(place,) for place in columns.places}:
            raise NoProduct(f"{kernel}")
        terms.append(replace(term, factors=tuple(allowed(f) for f in term.factors)))
    return Terms(tuple(terms), inner.error)


# ---- Sums of effects: products of functions of mean zero ----


def are_effects(terms: Terms) -> bool:
    """Whether each term is a product of kernels of functions of mean zero, one a group."""
    factors = [factor for term in terms.terms for factor in term.factors]
    alone = all(len(f.kernels) == 1 and not f.inner for f in factors)
    zero = all(isinstance(k, ZeroMean) for f in factors for k in f.kernels)
    return bool(factors) and alone and zero and not any(term.degree for term in terms.terms)


# ---- Players: columns that are taken together ----


def groups_of(terms: Terms, count: int, given: Sequence[Sequence[int]] = ()) -> list[Places]:
    """Return the columns in groups that no factor divides, in their order.

    Parameters
    ----------
    terms : Terms
        The kernel.
    count : int
        How many columns there are.
    given : sequence of sequences of int, optional
        Columns that belong together besides.
    """
    lead = list(range(count))

    def find(i: int) -> int:
        while lead[i] != i:
            i = lead[i]
        return i

    factors = (factor.columns for term in terms.terms for factor in term.factors)
    for columns in (*factors, *map(tuple, given)):
        for other in columns[1:]:
            a, b = sorted((find(columns[0]), find(other)))
            lead[b] = a
    groups: dict[int, list[int]] = {}
    for i in range(count):
        groups.setdefault(find(i), []).append(i)
    return [tuple(group) for group in groups.values()]


# ---- Values of factors ----


def factor_values(kernel: Kernel, X: Any, Y: Any, columns: Places) -> np.ndarray:
    """Return k(x, y) of a factor's kernel on its columns, exact where x and y nearly agree.

    Parameters
    ----------
    kernel : Kernel
        Of these columns alone.
    X, Y : canonical collections of points with columns
        The points.
    columns : tuple of int
        The columns.
    """
    rows = isinstance(X, np.ndarray) and isinstance(Y, np.ndarray)
    if rows and len(columns) == 1 and isinstance(kernel, Radial) and _scaled(kernel):
        return kernel.at_gaps(X[:, columns[0], None] - Y[None, :, columns[0]])
    A, B = (select(Z, list(columns)) for Z in (X, Y))
    if len(columns) == 1 and isinstance(kernel.domain, Numbers) and rows:
        A, B = A[:, 0], B[:, 0]
    return np.asarray(kernel(A, B), dtype=np.float64)


def factor_diagonal(kernel: Kernel, X: Any, columns: Places) -> np.ndarray:
    """Return k(x, x) of a factor's kernel on its columns.

    Parameters
    ----------
    kernel : Kernel
        Of these columns alone.
    X : canonical collection of points with columns
        The points.
    columns : tuple of int
        The columns.
    """
    A = select(X, list(columns))
    if len(columns) == 1 and isinstance(kernel.domain, Numbers) and isinstance(X, np.ndarray):
        A = A[:, 0]
    return np.asarray(kernel.diag(A), dtype=np.float64)


def _scaled(kernel: Any) -> bool:
    """Whether a length scale is all of a radial kernel's metric."""
    return getattr(kernel, "covariance", None) is None
