r"""Spectral measures of stationary kernels, and how frequencies are drawn from them.

By Bochner's theorem k(x, x′) = ∫ cos(ωᵀ(x − x′)) dμ(ω) for a measure μ ≥ 0 of mass k(x, x). Sums of
kernels are sums of measures, and products convolutions: the frequencies add up.

A kernel says its measure in one method, ``_spectral(columns)``, columns being the names or
positions of the columns it sees. A radial kernel that is a mixture of RBF kernels, κ(s) = E
exp(−τs/2), returns ``RotationInvariant(self, len(columns), quantile)`` with the quantile function
of τ; a product over columns ``Independent(len(columns), quantile)`` with that of a frequency. A
subclass that changes the formula must say its measure anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from mercer.errors import InvalidInput

__all__ = [
    "METHODS",
    "Atom",
    "Convolution",
    "Draws",
    "Embedded",
    "Independent",
    "Measure",
    "Mixture",
    "Projected",
    "RotationInvariant",
    "Source",
    "positive_stable",
    "require_spectral",
    "spectral_measure",
    "stationary",
    "symmetric_stable",
]

#: How frequencies may be drawn.
METHODS = ("orthogonal", "plain", "quasi")
LONGEST = 1e200  # of a squared frequency; beyond it the phase is noise, and infinity would be NaN
TOP = np.log(LONGEST)
TINY = 2.0**-53  # uniform numbers stay as far from 0 and 1, where quantiles are infinite


def require_spectral(kernel: Any) -> None:
    """Refuse a kernel with a part that has no spectral measure, naming that part."""
    if not hasattr(kernel, "_spectral") or not _is_its_own(kernel):
        raise InvalidInput(
            f"{kernel} has no known spectral density, so that no random frequencies can be drawn "
            "for it. RBF, Matern, RationalQuadratic, PowerExponential, Laplacian, Periodic, "
            "SpectralMixture, CosineDifference and constants have one, and so have their sums, "
            "products, powers, metrics and choices of columns; a kernel of your own says it in "
            "_spectral(columns). Use mercer.Nystroem, which takes any kernel."
        )
    for part in kernel._kernels():
        require_spectral(part)


def stationary(kernel: Any) -> bool:
    """Whether k(x, x′) is known to be a function of x − x′: it has a spectral measure."""
    own = hasattr(kernel, "_spectral") and _is_its_own(kernel)
    return own and all(map(stationary, kernel._kernels()))


def spectral_measure(kernel: Any, columns: list[Any]) -> Measure:
    """Return the spectral measure of a kernel, or refuse, naming the part that has none.

    Parameters
    ----------
    kernel : Kernel
        The kernel, words resolved.
    columns : list of str or int
        The columns it sees.
    """
    require_spectral(kernel)
    return kernel._spectral(columns)


def _is_its_own(kernel: Any) -> bool:
    """Whether the measure was written for the formula in force; a subclass may have replaced it."""
    mro = type(kernel).__mro__
    owners = {
        name: next((c for c in mro if name in c.__dict__), object)
        for name in ("_spectral", "_profile", "_value", "_bind")
    }
    return all(issubclass(owners["_spectral"], owner) for owner in owners.values())


@dataclass(frozen=True, eq=False)
class Draws:
    """Frequencies (n, d) and weights (n,) with E Σᵢ wᵢ cos(ωᵢᵀδ) = k(δ)."""

    frequencies: np.ndarray
    weights: np.ndarray


class Source:
    """Random numbers for frequencies.

    Parameters
    ----------
    method : {"orthogonal", "plain", "quasi"}
        "orthogonal" and "quasi" spread the draws; each of them has the law of a plain one.
    rng : RandomState
        Source of randomness.
    """

    def __init__(self, method: str, rng: np.random.RandomState):
        self.method, self.rng = method, rng

    def uniform(self, n: int, width: int) -> np.ndarray:
        """Return n points of the unit cube: independent, a Latin hypercube, or scrambled Sobol."""
        if self.method == "plain" or not n * width:
            U = self.rng.random_sample((n, width))
        else:
            from scipy.stats import qmc

            seed = int(self.rng.randint(2**31 - 1))
            if self.method == "orthogonal":
                U = qmc.LatinHypercube(width, seed=seed).random(n)
            elif width > qmc.Sobol.MAXDIM:
                raise InvalidInput(
                    f"method='quasi' takes {qmc.Sobol.MAXDIM} numbers a frequency at most, and "
                    f"{width} are needed; use method='orthogonal'."
                )
            else:
                U = qmc.Sobol(width, seed=seed).random_base2(int(np.ceil(np.log2(n))))[:n]
        return np.clip(U, TINY, 1 - TINY)

    def directions(self, n: int, d: int) -> np.ndarray:
        """Return n vectors of Gaussian lengths, orthogonal in blocks of d (arXiv:1610.09072)."""
        rows = []
        for start in range(0, n, d):
            # The first columns of a random rotation: no more of it is made.
            Q, R = np.linalg.qr(self.rng.standard_normal((d, min(d, n - start))))
            rows.append((Q * (np.sign(np.diagonal(R)) + (np.diagonal(R) == 0))).T)
        lengths = np.sqrt(self.rng.chisquare(d, n))
        return np.concatenate(rows) * lengths[:, None]


class Measure:
    """A spectral measure: its mass, the columns it acts on, and draws from it."""

    mass: float
    columns: tuple[int, ...]
    #: Draws after which more add nothing, for a measure that sits on one frequency.
    enough: int | None = None

    def draw(self, n: int, source: Source) -> Draws:
        """Return n ≥ 1 frequencies with weights."""
        raise InvalidInput(f"{type(self).__name__}: define draw(n, source).")


class Atom(Measure):
    """Mass c at frequency 0: the constant kernel."""

    enough = 1

    def __init__(self, mass: float, d: int):
        self.mass, self._d, self.columns = float(mass), d, ()

    def draw(self, n: int, source: Source) -> Draws:
        """Return zeros."""
        return Draws(np.zeros((n, self._d)), np.full(n, self.mass / n))


class RotationInvariant(Measure):
    """√τ g in the metric of a radial kernel, g Gaussian: a scale mixture of RBF kernels.

    Parameters
    ----------
    kernel : Radial
        Whose metric it is.
    d : int
        Number of columns.
    quantile : callable, optional
        The quantile function of τ; τ = 1 where it is not given. With p > 1, what makes τ of uniform
        numbers (n, p).
    p : int, default=1
        Uniform numbers that τ takes.
    """

    mass = 1.0

    def __init__(self, kernel: Any, d: int, quantile: Callable | None = None, p: int = 1):
        self._kernel, self._d, self._quantile, self._p = kernel, d, quantile, p
        self.columns = tuple(range(d))

    def draw(self, n: int, source: Source) -> Draws:
        """Return n frequencies of equal weight."""
        from scipy.special import ndtri

        if source.method == "orthogonal" and self._d:
            omega = source.directions(n, self._d)
            u = source.uniform(n, self._p) if self._quantile else None
        else:
            U = source.uniform(n, self._d + (self._p if self._quantile else 0))
            omega, u = ndtri(U[:, : self._d]), U[:, self._d :]
        if self._quantile is not None and u is not None:
            u = u[:, 0] if self._p == 1 else u
            with np.errstate(divide="ignore", over="ignore"):
                tau = np.minimum(self._quantile(u), LONGEST)
            omega = omega * np.sqrt(tau)[:, None]
        return Draws(self._kernel._from_metric(omega, np.empty((0, self._d))), np.full(n, 1 / n))


class Independent(Measure):
    """Columns that are independent of one another.

    Parameters
    ----------
    d : int
        Number of columns.
    quantile : callable
        Takes uniform numbers (n, d, p), returns frequencies (n, d).
    p : int, default=1
        Uniform numbers that a column takes.
    shared : int, default=0
        Uniform numbers that all columns take together, (n, shared): a second argument of
        `quantile` where there are any. Columns are independent of one another given these.
    """

    mass = 1.0

    def __init__(self, d: int, quantile: Callable, p: int = 1, shared: int = 0):
        self._d, self._quantile, self._p, self._shared = d, quantile, p, shared
        self.columns = tuple(range(d))

    def draw(self, n: int, source: Source) -> Draws:
        """Return n frequencies of equal weight."""
        U = source.uniform(n, self._d * self._p + self._shared)
        U, shared = np.split(U, [self._d * self._p], axis=1)
        own = U.reshape(n, self._d, self._p)
        omega = self._quantile(own, shared) if self._shared else self._quantile(own)
        return Draws(omega, np.full(n, 1 / n))


class Mixture(Measure):
    """The sum of measures: draws are shared out in proportion to their masses."""

    def __init__(self, parts: list[Measure]):
        self._parts = [part for part in parts if part.mass > 0] or parts[:1]
        self.mass = sum(part.mass for part in self._parts)
        self.columns = _union(self._parts)

    def draw(self, n: int, source: Source) -> Draws:
        """Return n frequencies; too few for all parts come from parts drawn by mass."""
        share = np.array([part.mass for part in self._parts]) / (self.mass or 1.0)
        few = n < len(share)
        if few:
            counts = source.rng.multinomial(n, share)
        else:
            counts = _shared_out(n, share, [part.enough or n for part in self._parts])
        frequencies, weights = [], []
        for part, count in zip(self._parts, counts, strict=True):
            if count:
                drawn = part.draw(int(count), source)
                factor = (count / n) * (self.mass / part.mass) if few else 1.0
                frequencies.append(drawn.frequencies)
                weights.append(factor * drawn.weights)
        return Draws(np.concatenate(frequencies), np.concatenate(weights))


class Convolution(Measure):
    """The measure of a product of kernels: frequencies add up, masses multiply."""

    def __init__(self, parts: list[Measure]):
        self._parts = parts
        self.mass = float(np.prod([part.mass for part in parts]))
        self.columns = _union(parts)
        self.enough = 1 if all(part.enough == 1 for part in parts) else None

    def draw(self, n: int, source: Source) -> Draws:
        """Return sums of frequencies, each part in an order of its own."""

        def add(a: Draws, b: Draws) -> Draws:
            order = source.rng.permutation(n)
            omega = a.frequencies + b.frequencies[order]
            return Draws(omega, n * a.weights * b.weights[order])

        return reduce(add, (part.draw(n, source) for part in self._parts))


class Embedded(Measure):
    """A measure on some of d columns."""

    def __init__(self, part: Measure, places: list[int], d: int):
        self._part, self._places, self._d = part, places, d
        self.mass, self.enough = part.mass, part.enough
        self.columns = tuple(places[i] for i in part.columns)

    def draw(self, n: int, source: Source) -> Draws:
        """Return frequencies that are 0 in the other columns."""
        inner = self._part.draw(n, source)
        omega = np.zeros((n, self._d))
        omega[:, self._places] = inner.frequencies
        return Draws(omega, inner.weights)


class Projected(Measure):
    """The measure of k(Ax, Ax′): frequencies Aᵀω."""

    def __init__(self, part: Measure, A: np.ndarray):
        self._part, self._A = part, A
        self.mass, self.enough = part.mass, part.enough
        self.columns = tuple(np.flatnonzero(A[list(part.columns)].any(0)).tolist())

    def draw(self, n: int, source: Source) -> Draws:
        """Return frequencies of the points as they came."""
        inner = self._part.draw(n, source)
        return Draws(inner.frequencies @ self._A, inner.weights)


# Chambers, Mallows & Stuck, JASA 71 (1976): stable variables of two uniform numbers, in logarithms
# as the powers leave the range of floats.


def positive_stable(U: np.ndarray, a: float) -> np.ndarray:
    """Return τ > 0 with E exp(−tτ) = exp(−tᵃ), 0 < a ≤ 1, for uniform numbers (…, 2)."""
    if a == 1:
        return np.ones(U.shape[:-1])
    v, w = np.pi * U[..., 0], -np.log(U[..., 1])
    rest = (1 - a) / a * (np.log(np.sin((1 - a) * v)) - np.log(w))
    return np.exp(np.minimum(np.log(np.sin(a * v)) - np.log(np.sin(v)) / a + rest, TOP))


def symmetric_stable(U: np.ndarray, p: float) -> np.ndarray:
    """Return ω with E cos(tω) = exp(−|t|^p), 0 < p < 2, for uniform numbers (…, 2)."""
    v, w = np.pi * (U[..., 0] - 0.5), -np.log(U[..., 1])
    rest = (1 - p) / p * (np.log(np.cos((1 - p) * v)) - np.log(w))
    with np.errstate(divide="ignore"):  # sin(0): ω = 0
        size = np.log(np.abs(np.sin(p * v))) - np.log(np.cos(v)) / p + rest
    return np.copysign(np.exp(np.minimum(size, TOP)), v)


def _union(parts: list[Measure]) -> tuple[int, ...]:
    return tuple(sorted({c for part in parts for c in part.columns}))


def _shared_out(n: int, share: np.ndarray, most: list[int]) -> np.ndarray:
    """Return counts ≥ 1 that add up to n, in proportion to shares, none beyond its most."""
    limit = np.array(most)
    limit = limit if limit.sum() >= n else np.full(len(share), n)
    counts = np.clip(np.floor(n * share), 1, limit).astype(int)
    while counts.sum() > n:
        counts[np.argmax(np.where(counts > 1, counts / np.maximum(share, TINY), -1.0))] -= 1
    while counts.sum() < n:
        counts[np.argmax(np.where(counts < limit, share / counts, -1.0))] += 1
    return counts
