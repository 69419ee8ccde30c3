"""Instances of every public kernel class, with points for each, for the laws to run on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import starmap
from typing import Any

import numpy as np

from mercer import kernels as mk
from mercer.domains import Domain, Numbers, Objects, Table, Tables, Vectors
from mercer.kernels import Kernel
from mercer.testing.examples.graphs import node_text_kernels, refining_kernels, walking_kernels
from mercer.testing.examples.strings import (
    alignment_kernels,
    counted_string_kernels,
    subsequence_kernels,
)
from mercer.testing.examples.tables import bag_kernels, table_kernels


# ------------------------------------- what an author would write, one class for each base
class Cauchy(mk.Radial):
    """(1 + s)⁻¹, with no derivative written: the base class differentiates the formula."""

    def __init__(self, length_scale: Any = 1.0):
        super().__init__(length_scale=length_scale)

    def _profile(self, s: Any, xp: Any) -> Any:
        return 1 / (1 + s)


class Tail(mk.Radial):
    """exp(−c·s) with a further parameter c to tune, no derivative written."""

    _tunable = ("length_scale", "rate")

    def __init__(self, length_scale: Any = 1.0, rate: float = 0.5):
        super().__init__(length_scale=length_scale, rate=rate)

    def _profile(self, s: Any, xp: Any) -> Any:
        return xp.exp(-self.rate * s)


class ShiftedCube(mk.Dot):
    """(s + c)³ of the inner product s, no derivative written."""

    _tunable = ("shift",)

    def __init__(self, shift: float = 1.0):
        super().__init__(shift=shift)

    def _profile(self, s: Any, xp: Any) -> Any:
        return (s + self.shift) * (s + self.shift) * (s + self.shift)


class Brownian(mk.Scalar):
    """1 + min(x, x′) on x ≥ 0."""

    domain = Numbers(low=0.0)

    def _value(self, x: Any, y: Any, xp: Any) -> Any:
        return 1 + xp.minimum(x, y)


class Powers(mk.Explicit):
    """Features (1, x, x²)."""

    def __init__(self) -> None:
        super().__init__()

    def _features(self, X: Any) -> Any:
        X = X.toarray() if hasattr(X, "tocsr") else X
        if hasattr(X, "detach"):
            import torch

            return torch.hstack([X * 0 + 1, X, X * X])
        return np.hstack([X * 0 + 1, X, X * X])


class CommonLetters(mk.Pairwise):
    """How many letters two words share."""

    def __init__(self) -> None:
        super().__init__()

    def _pair(self, x: Any, y: Any) -> float:
        return float(len(set(x) & set(y)))


class Rhymes(mk.Counted):
    """How many endings of up to three letters two words share, longer ones counting more."""

    def __init__(self) -> None:
        super().__init__()

    def _count(self, x: Any) -> dict[Any, float]:
        return {(p, x[-p:]): float(p) for p in range(1, min(3, len(x)) + 1)}


# ------------------------------------------------------------- functions users would pass
def product_of_first(x: Any, y: Any) -> float:
    """Return x₁y₁ + 1, a kernel on rows of an array."""
    return float(x[0] * y[0] + 1)


def squares(X: Any) -> np.ndarray:
    """Return the features (x, x²)."""
    X = np.asarray(X)
    return np.hstack([X, X * X])


def doubled(X: Any) -> list:
    """Every word twice: a map of collections of text."""
    return [word + word for word in X]


def halved(X: Any) -> Any:
    """Return x/2."""
    return X / 2


def first_plus_two(X: Any) -> Any:
    """Return x₁ + 2, one number a point."""
    return X[:, 0] + 2


def letters(word: str, other: str) -> float:
    """Return how many distinct letters two words share."""
    return float(len(set(word) & set(other)))


# ----------------------------------------------------------------------------- the samplers
def width_of(kernel: Kernel) -> int | None:
    """Return the number of columns that the parameters of a kernel fix, or None."""
    if isinstance(kernel, mk.OnColumns | mk.Warped):
        return None
    if isinstance(kernel, mk.ZeroMean) and kernel.points is not None:
        return int(np.shape(kernel.points)[-1])
    if isinstance(kernel, mk.InMetric):
        return int(np.shape(kernel.matrix)[1])
    scale, covariance = (getattr(kernel, n, None) for n in ("length_scale", "covariance"))
    if covariance is not None:
        return len(covariance)
    if scale is not None and np.size(scale) > 1:
        return int(np.size(scale))
    if isinstance(kernel, mk.SpectralMixture):
        each = np.size(kernel.frequencies) // np.size(kernel.weights)
        return each if each > 1 else None
    widths = [w for w in map(width_of, kernel._kernels()) if w is not None]
    return widths[0] if widths else None


def sample_points(kernel: Kernel, rng: np.random.Generator, n: int, d: int | None = None) -> Any:
    """Return n random points for a kernel, of the width its parameters ask for."""
    domain: Domain = kernel.domain
    d = width_of(kernel) or d
    if d is not None and isinstance(domain, Vectors):
        return domain.sample(rng, n, d)
    return domain.sample(rng, n)


def sample_words(rng: np.random.Generator, n: int) -> list[str]:
    """Return n random words over four letters, some of them empty."""
    return ["".join(rng.choice(list("abcd"), rng.integers(0, 6))) for _ in range(n)]


def _words(rng: np.random.Generator, n: int) -> Table:
    return Table({"word": sample_words(rng, n)})


def sample_frame(rng: np.random.Generator, n: int) -> Table:
    """Return n rows of two numeric columns and one of text."""
    return Table(
        {
            "age": rng.uniform(20, 60, n),
            "site": rng.choice(["here", "there"], n),
            "dose": rng.standard_normal(n),
        }
    )


def sample_outputs(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return n rows of a number and of the index of one of three outputs."""
    return np.column_stack([rng.standard_normal(n), rng.integers(0, 3, n)])


@dataclass(frozen=True)
class KernelExample:
    """A named kernel and a sampler of points for it."""

    name: str
    kernel: Kernel
    sampler: Callable[[np.random.Generator, int], Any] | None = None

    def sample(self, rng: np.random.Generator, n: int, d: int | None = None) -> Any:
        """Return n random points, of d columns where the kernel leaves the choice."""
        if self.sampler is not None:
            return self.sampler(rng, n)
        return sample_points(self.kernel, rng, n, d)


def _wide(d: int) -> Callable[[np.random.Generator, int], np.ndarray]:
    return lambda rng, n: rng.standard_normal((n, d))


def kernel_examples() -> list[KernelExample]:
    """Return several instances for each public kernel class, composites among them.

    Examples
    --------
    >>> from mercer.testing import kernel_examples
    >>> any(example.name == "RBF" for example in kernel_examples())
    True
    """
    RBF, Matern = mk.RBF, mk.Matern
    covariance = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.2], [0.0, -0.2, 0.5]])
    singular = np.array([[1.0, 1.0], [1.0, 1.0]])
    wide = _wide(3)
    frame = sample_frame
    plain = {
        **counted_string_kernels(),
        **bag_kernels(),
        **subsequence_kernels(),
        "Linear": mk.Linear(),
        "Linear-covariance": mk.Linear(covariance),
        "Linear-singular": mk.Linear(singular),
        "Polynomial": mk.Polynomial(),
        "Polynomial-3": mk.Polynomial(3, 0.5),
        "Polynomial-homogeneous": mk.Polynomial(2, 0.0),
        "Polynomial-scaled": mk.Polynomial(3, 0.5, 1.7),
        "Exponential": mk.Exponential(2.0),
        "Cosine": mk.Cosine(),
        "RBF": RBF(),
        "RBF-wide": RBF(3.0),
        "RBF-columns": RBF([0.5, 2.0, 1.0]),
        "RBF-covariance": RBF(covariance=covariance),
        "RBF-median": RBF("median"),
        "RBF-scale": RBF("scale"),
        "Matern": Matern(),
        "Matern-half": Matern(0.7, 0.5),
        "Matern-5/2": Matern([1.0, 2.0], 2.5),
        "Matern-0.2": Matern(1.0, 0.2),
        "Matern-one": Matern(1.3, 1.0),
        "Matern-3.7": Matern(1.0, 3.7),
        "Matern-60": Matern(1.0, 60.0),
        "Matern-inf": Matern(1.5, math.inf),
        "RationalQuadratic": mk.RationalQuadratic(),
        "RationalQuadratic-columns": mk.RationalQuadratic([1.0, 2.0], 0.3),
        "PowerExponential": mk.PowerExponential(0.8, 1.3),
        "PowerExponential-norm": mk.PowerExponential([1.5, 0.6, 1.0], 0.9, 1.4),
        "PowerExponential-sums": mk.PowerExponential("median", 0.6, 1.0),
        "PowerExponential-rough": mk.PowerExponential(2.0, 0.4, 0.7),
        "Laplacian": mk.Laplacian(),
        "Laplacian-columns": mk.Laplacian([0.5, 2.0]),
        "Periodic": mk.Periodic(),
        "Periodic-slow": mk.Periodic(0.8, 3.0),
        "SpectralMixture": mk.SpectralMixture([0.7, 0.2], [0.3, 0.8], [0.1, 0.05]),
        "SpectralMixture-columns": mk.SpectralMixture([1.5], [[0.2, 0.6]], [[0.1, 0.3]]),
        "CosineDifference": mk.CosineDifference(),
        "Minimum": mk.Minimum(),
        "MinMaxRatio": mk.MinMaxRatio(),
        "GCD": mk.GCD(),
        "GCDOverLCM": mk.GCDOverLCM(),
        "Geometric": mk.Geometric(),
        "ExpProduct": mk.ExpProduct(),
        "Constant": mk.Constant(2.5),
        "Constant-zero": mk.Constant(0.0),
        "White": mk.White(0.3),
        "Coregion": mk.Coregion.from_weights([[1.2], [-0.5]], [0.3, 0.1]),
        "Coregion-rank": mk.Coregion(4, 2, [1.0, 0.5, 2.0, 1.5], np.linspace(0.4, 2.5, 8)),
        "Coregion-start": mk.Coregion(3, 2),
        "Precomputed": mk.Precomputed(),
        "FromFunction": mk.FromFunction(product_of_first),
        "FromFeatures": mk.FromFeatures(squares),
        "Sum": RBF(0.5) + mk.Linear(),
        "Sum-finite": mk.Linear() + mk.Polynomial(2) + 1.5,
        "Sum-noise": 2.0 * RBF() + mk.White(0.1),
        "Sum-right": RBF(0.5) + (mk.Linear() + mk.Cosine()),
        "Product": RBF(2.0) * mk.Linear(),
        "Product-finite": mk.Linear() * mk.Polynomial(2, 0.5),
        "Product-right": RBF(2.0) * (mk.Linear() * mk.Cosine()),
        "Product-constants": mk.Constant(2.0) * mk.Constant(3.0),
        "Power": RBF(2.0) ** 3,
        "Power-finite": (mk.Linear() + 1.0) ** 2,
        "Exp": mk.Cosine().exp(),
        "Exp-rbf": (0.5 * RBF()).exp(),
        "Series": RBF().series([0.5, 0.0, 2.0, 1.0]),
        "Series-linear": mk.Linear().series([1.0, 1.0, 0.5]),
        "InMetric": RBF(0.8).in_metric(np.array([[1.0, 0.5, 0.0], [0.2, -0.3, 2.0]])),
        "InMetric-linear": (mk.Linear() + 1.0).in_metric(covariance),
        "InMetric-rough": (2.0 * mk.PowerExponential("median", 0.7, 1.2)).in_metric([[1.0], [2.0]]),
        "OnColumns": RBF().on([0, 2]) * mk.Linear().on(1),
        "OnColumns-slice": Matern().on(slice(0, 2)) + mk.Periodic().on(-1),
        "Normalized": mk.Polynomial(2).normalized(),
        "Normalized-linear": mk.Linear().normalized(),
        "Normalized-sum": (RBF() + mk.Linear()).normalized(),
        "ZeroMean": mk.ZeroMean(RBF(0.8), points=[[-1.0], [0.2], [1.0]], weights=[0.2, 0.5, 0.3]),
        "ZeroMean-data": mk.ZeroMean(Matern("median", 2.5)),
        "ZeroMean-number": mk.ZeroMean(mk.Minimum(), "empirical", [[1.0], [3.0]], [0.6, 0.4]),
        "ZeroMean-column": mk.ZeroMean(mk.Laplacian(0.7)).on(0) + 0.3 * mk.ZeroMean(RBF()).on(-1),
        "Additive": mk.Additive(RBF("median")),
        "Additive-three": mk.Additive(0.7 * mk.RationalQuadratic(), 3, variances=[0.5, 1, 0, 2]),
        "Additive-normal": mk.Additive(RBF(1.2), measure="normal"),
        "Radial-author": Cauchy([1.0, 0.5]),
        "Radial-author-shape": Tail(1.5, 0.4),
        "Dot-author": ShiftedCube(0.7),
        "Scalar-author": Brownian(),
        "Explicit-author": Powers(),
    }
    made = [*refining_kernels(), *alignment_kernels(), *walking_kernels(), *table_kernels()]
    made += node_text_kernels()
    own = [
        *starmap(KernelExample, made),
        KernelExample(
            "Additive-columns",
            mk.Additive(
                [RBF(0.9), mk.Laplacian(), 2.0 * RBF("median")], 2, "empirical", [0, 1, 0.5]
            ),
            wide,
        ),
        KernelExample("Additive-uniform", mk.Additive(RBF(), 1, "uniform"), wide),
        KernelExample("Warped", RBF().warp(halved), wide),
        KernelExample("Warped-linear", mk.Linear().warp(halved), wide),
        KernelExample("ScaledBy", RBF().scale_by(first_plus_two), wide),
        KernelExample("ScaledBy-linear", mk.Linear().scale_by(first_plus_two), wide),
        KernelExample("Pairwise-author", CommonLetters(), sample_words),
        KernelExample("Counted-author", Rhymes(), sample_words),
        KernelExample("FromFunction-words", mk.FromFunction(letters), sample_words),
        KernelExample("Constant-words", mk.Constant(0.5) * CommonLetters() + 1.0, sample_words),
        KernelExample("OnColumns-array", RBF().on([0, 2]) * mk.Linear().on(1), wide),
        KernelExample("OnColumns-names", RBF(10.0).on("age") * mk.Linear().on(["dose"]), frame),
        KernelExample("OnColumns-sum", Matern(9.0).on("age") + RBF().on("dose") + 1.0, frame),
        KernelExample("OnColumns-letters", mk.Spectrum(1, alphabet="acd").on("word"), _words),
        KernelExample("Warped-letters", mk.Spectrum(1, alphabet="acd").warp(doubled), sample_words),
        KernelExample("Coregion-outputs", RBF().on([0]) * mk.Coregion(3).on([1]), sample_outputs),
        KernelExample("Minimum-two", mk.Minimum(), lambda rng, n: rng.uniform(0, 5, (n, 2))),
        KernelExample("Cosine-zeros", mk.Cosine(), _with_zero_row),
    ]
    return [KernelExample(name, kernel) for name, kernel in plain.items()] + own


def _with_zero_row(rng: np.random.Generator, n: int) -> np.ndarray:
    X = rng.standard_normal((n, 3))
    X[n // 2] = 0
    return X


def is_vectorial(kernel: Kernel) -> bool:
    """Whether points are rows of numbers that may be stored sparse or as tensors."""
    return isinstance(kernel.domain, Vectors | Tables | Objects) and not _has_function(kernel)


def _has_function(kernel: Kernel) -> bool:
    functions = mk.Pairwise | mk.Counted | mk.FromFeatures | mk.Warped | mk.ScaledBy
    return isinstance(kernel, functions) or any(map(_has_function, kernel._kernels()))
