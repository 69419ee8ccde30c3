"""Spectral measures: draws are unbiased, masses and columns right, kernels without one named."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaincinv

from mercer import (
    RBF,
    Constant,
    CosineDifference,
    Exponential,
    Laplacian,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    PowerExponential,
    RationalQuadratic,
    Spectrum,
    White,
)
from mercer.errors import InvalidInput
from mercer.kernels import Radial
from mercer.kernels.spectral import (
    METHODS,
    RotationInvariant,
    Source,
    require_spectral,
    spectral_measure,
)

X = np.random.default_rng(0).standard_normal((15, 3))


class Wide(Radial):
    """(1 + s)^−β with the measure that its author wrote."""

    def __init__(self, length_scale=1.0, beta=1.0):
        super().__init__(length_scale=length_scale, beta=beta)

    def _profile(self, s, xp):
        return (1 + s) ** (-self.beta)

    def _spectral(self, columns):
        return RotationInvariant(self, len(columns), lambda u: 2 * gammaincinv(self.beta, u))


class Wider(Wide):
    """Another formula, of which nobody said the measure."""

    def _profile(self, s, xp):
        return (1 + s) ** (-self.beta / 2)


A = np.array([[1.0, 0.3, 0.0], [0.3, 2.0, -0.5], [0.0, -0.5, 0.7]])
KERNELS = [
    RBF(1.3),
    RBF([1.0, 2.0, 0.5]),
    RBF(covariance=A),
    Matern(1.2, nu=0.7),
    Matern([1.0, 2.0, 3.0], nu=2.5),
    Matern(nu=np.inf),
    RationalQuadratic(1.5, 0.7),
    PowerExponential(1.2, power=0.8),
    PowerExponential([1.0, 2.0, 3.0], power=1.9),
    PowerExponential(power=2.0),
    PowerExponential(1.5, power=0.7, norm=1.3),
    PowerExponential(2.0, power=0.8, norm=0.8),
    Laplacian([1.0, 2.0, 3.0]),
    Periodic(1.2, 2.0),
    CosineDifference(),
    2.0 * RBF() + 0.5,
    RBF().on([0, 2]) * Matern().on(1) + 3.0 * Laplacian().on(slice(1, 3)),
    (RBF(2.0) + Laplacian(4.0)) ** 2,
    RBF().on([0]).on([2, 0]),
    (2.0 * Matern(1.5)).in_metric([[1.0, 0.0, -0.5], [0.3, 0.0, 2.0]]),
    (2.0 * RBF(1.3) + Matern()).normalized(),
    Wide(1.5, beta=0.7),
]


def approximate(draws, Z):
    P = Z @ draws.frequencies.T
    return (np.cos(P) * draws.weights) @ np.cos(P).T + (np.sin(P) * draws.weights) @ np.sin(P).T


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("kernel", "n"), [*((k, 13) for k in KERNELS), (KERNELS[0], 1), (KERNELS[-5], 1)], ids=repr
)
def test_draws_are_unbiased_within_their_standard_error(kernel, method, n):
    measure, Z = spectral_measure(kernel, [0, 1, 2]), X[:8]
    rounds, rng = 40, np.random.RandomState(0)
    draws = [measure.draw(n, Source(method, rng)) for _ in range(rounds)]
    i, j = np.triu_indices(8, 1)
    P = np.concatenate([d.frequencies for d in draws]) @ (Z[i] - Z[j]).T
    terms = np.cos(P) * np.concatenate([d.weights for d in draws])[:, None]
    values = terms.reshape(rounds, n, len(i)).sum(1)
    error = values.std(0, ddof=1) / np.sqrt(rounds)
    z = (values.mean(0) - kernel(Z)[i, j]) / (error + 1e-9)
    # 28 entries, much correlated: their z is of order one, and none is very large
    assert np.abs(z).max() < 5.5 and np.sqrt((z**2).mean()) < 2.5


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_mass_is_k_at_zero(kernel):
    measure = spectral_measure(kernel, [0, 1, 2])
    assert measure.mass == pytest.approx(kernel(X)[0, 0])
    draws = measure.draw(50, Source("plain", np.random.RandomState(0)))
    assert draws.frequencies.shape == (50, 3) and (draws.weights >= 0).all()
    assert set(np.flatnonzero(draws.frequencies.any(0))) <= set(measure.columns)


@pytest.mark.parametrize("method", METHODS)
def test_the_laws_of_single_frequencies(method):
    def column(kernel):
        source = Source(method, np.random.RandomState(0))
        return spectral_measure(kernel, [0, 1]).draw(4000, source).frequencies[:, 0]

    for kernel, law in [
        (RBF(2.0), stats.norm(scale=0.5)),
        (Matern(2.0, nu=1.5), stats.t(3, scale=0.5)),
        (Laplacian(2.0), stats.cauchy(scale=0.5)),
        (PowerExponential(2.0, power=2.0), stats.norm(scale=0.5 * 2**0.5)),
        (PowerExponential(2.0, power=1.0), stats.cauchy(scale=0.5)),
        (PowerExponential(2.0, power=1.0, norm=1.6), stats.cauchy(scale=0.5)),
        (PowerExponential(2.0, power=1.0, norm=1.0), stats.cauchy(scale=0.5)),
    ]:
        assert stats.kstest(column(kernel), law.cdf).pvalue > 1e-3, kernel
    turns = column(Periodic(0.8, 3.0)) * 3.0 / (2 * np.pi)
    np.testing.assert_allclose(turns, np.rint(turns), atol=1e-9)
    a = 1 / 0.8**2
    for j in range(-2, 3):
        expected = stats.skellam(a / 2, a / 2).pmf(j)
        assert np.mean(np.rint(turns) == j) == pytest.approx(expected, abs=0.03)


def test_orthogonal_directions_are_orthogonal_in_blocks():
    draws = spectral_measure(RBF(), list(range(5))).draw(
        12, Source("orthogonal", np.random.RandomState(0))
    )
    for block in (slice(0, 5), slice(5, 10), slice(10, 12)):
        G = draws.frequencies[block] @ draws.frequencies[block].T
        np.testing.assert_allclose(G, np.diag(np.diagonal(G)), atol=1e-12)


def test_spread_draws_have_less_error():
    errors = {}
    for method in METHODS:
        measure = spectral_measure(RBF(1.5), [0, 1, 2])
        gaps = [
            approximate(measure.draw(64, Source(method, np.random.RandomState(s))), X) - RBF(1.5)(X)
            for s in range(20)
        ]
        errors[method] = np.mean(np.square(gaps))
    assert errors["orthogonal"] < 0.8 * errors["plain"]
    assert errors["quasi"] < 0.4 * errors["plain"]


def test_a_sum_shares_draws_by_mass_and_a_constant_needs_one():
    measure = spectral_measure(3.0 * RBF(1e-3).on(0) + 1.0 * RBF(1e3).on(0) + 7.0, [0])
    draws = measure.draw(41, Source("plain", np.random.RandomState(0)))
    size = np.abs(draws.frequencies[:, 0])
    assert (size == 0).sum() == 1
    assert (size > 1).sum() == 30 and ((size > 0) & (size < 1)).sum() == 10
    np.testing.assert_allclose(draws.weights.sum(), 11.0)
    only = spectral_measure(Constant(2.0), [0, 1]).draw(
        4, Source("quasi", np.random.RandomState(0))
    )
    np.testing.assert_allclose(approximate(only, np.ones((2, 2))), 2.0)


def test_extreme_parameters_give_finite_frequencies():
    rough = (PowerExponential(power=1e-3), PowerExponential(power=1e-3, norm=0.01))
    some = (Matern(nu=1e-3), RationalQuadratic(alpha=1e-3), Periodic(1e-160), RBF(1e-200))
    for kernel in rough + some:
        for method in METHODS:
            draws = spectral_measure(kernel, [0]).draw(9, Source(method, np.random.RandomState(0)))
            assert np.isfinite(draws.frequencies).all(), kernel


# ------------------------------------------------------------------------------------ refusals
class Squared(RBF):
    """Another profile, for which the measure of RBF is wrong."""

    def _profile(self, s, xp):
        return xp.exp(-s)


@pytest.mark.parametrize(
    ("kernel", "named"),
    [
        (White(), "White"),
        (Linear(), "Linear"),
        (RBF() + Polynomial(2), "Polynomial"),
        (RBF() * (2.0 * Exponential()), "Exponential"),
        (RBF().on(0) + Linear().on(1), "Linear"),
        (RBF().exp(), "exp"),
        (RBF().warp(np.sin), "warp"),
        (Spectrum(2), "Spectrum"),
        (Squared(), "Squared"),
        (Wider(), "Wider"),
        (Linear().normalized(), "Linear"),
    ],
    ids=repr,
)
def test_a_kernel_without_spectral_density_is_named(kernel, named):
    with pytest.raises(InvalidInput, match=rf"(?i){named}.* has no known spectral density"):
        require_spectral(kernel)


def test_columns_that_are_not_there():
    for kernel in (RBF().on(3), RBF().on("age"), RBF().on(1).on([0])):
        with pytest.raises(InvalidInput, match="column"):
            spectral_measure(kernel, [0, 1, 2])
    measure = spectral_measure(RBF().on(["b", "a"]) * RBF().on(-1), ["a", "b", "c"])
    assert measure.columns == (0, 1, 2)


def test_more_columns_than_sobol_has():
    measure = spectral_measure(RBF(), list(range(30_000)))
    with pytest.raises(InvalidInput, match="orthogonal"):
        measure.draw(2, Source("quasi", np.random.RandomState(0)))
