"""Rows without noise: weights count once there, outputs keep their own scale, refusals help."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from mercer import RBF, FromFunction, GaussianProcessRegressor, White
from mercer.errors import InvalidInput, NotPositiveDefinite

GP = GaussianProcessRegressor


@pytest.fixture
def data(rng):
    X = rng.standard_normal((8, 2))
    return X, 5 + 3 * rng.standard_normal(8)


def density(model, X, y, noise):
    C = model.y_scale_[0] ** 2 * model.kernel_(X) + np.diag(noise)
    return multivariate_normal(np.full(len(y), model.y_mean_[0]), C).logpdf(y)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_weights_without_noise_count_for_nothing_in_any_unit(data, normalize, unit):
    X, y = data[0], unit * data[1]
    model = GP(RBF(0.5), 0.0, optimizer=None, normalize_y=normalize)
    model.fit(X, y, sample_weight=np.full(8, 2.0))
    expected = density(model, X, y, np.zeros(8))
    np.testing.assert_allclose(model.log_marginal_likelihood_value_, expected, rtol=1e-9)
    found = model.log_marginal_likelihood(model.theta_, eval_gradient=True)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("normalize", [True, False])
def test_one_row_without_noise_among_weighted_ones(data, normalize):
    X, y = data
    noise = np.r_[0.0, np.linspace(0.5, 2.0, 7)]
    weight = np.r_[1.0, 2.0, 3.0, np.ones(5)]
    rows = np.repeat(np.arange(8), weight.astype(int))
    options = {"optimizer": None, "normalize_y": normalize}
    once = GP(RBF(0.5), noise, **options).fit(X, y, sample_weight=weight)
    twice = GP(RBF(0.5), noise[rows], **options).fit(X[rows], y[rows])
    a, b = once.log_marginal_likelihood_value_, twice.log_marginal_likelihood_value_
    np.testing.assert_allclose(a, b, rtol=1e-9)
    # and the gradient, through the search for the length scale
    step = 1e-5
    value, slope = once.log_marginal_likelihood(once.theta_, eval_gradient=True)
    ahead, behind = (once.log_marginal_likelihood(once.theta_ + s) for s in (step, -step))
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), rtol=1e-6)
    assert value == pytest.approx(a)


def test_the_gradient_in_a_common_factor_leaves_rows_without_noise_out(data):
    from mercer.models.gp.regression.evidence import Evidence

    X, z = data[0], data[1] - 5
    noise, weight = np.r_[0.0, np.full(7, 0.4)], np.r_[2.0, 3.0, np.ones(6)]
    evidence, step = Evidence(X, z, weight), 1e-6
    _, _, slope = evidence.value_and_gradient(RBF(0.5), noise)
    ahead, behind = (evidence.value(RBF(0.5), noise * np.exp(s)) for s in (step, -step))
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"optimizer": None}])
def test_outputs_without_noise_have_a_scale_each(data, options):
    X, y = data
    Y = np.column_stack([y, 300 * y[::-1]])
    model = GP(1.0 * RBF(0.5), 0.0, **options).fit(X, Y)
    np.testing.assert_allclose(model.y_scale_, Y.std(axis=0))
    np.testing.assert_array_equal(model.noise_, np.zeros(2))
    np.testing.assert_allclose(model.predict(X), Y, rtol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_an_indefinite_function_is_called_so_in_the_units_of_y(rng, scale):
    X = rng.uniform(0, 5, (12, 1))
    kernel = FromFunction(lambda a, b: float(np.hypot(a[0], b[0])))  # conditionally definite
    with pytest.raises(NotPositiveDefinite) as caught:
        GP(kernel, 1e-3, optimizer=None).fit(X, scale * rng.standard_normal(12))
    text = str(caught.value)
    assert "no noise makes it one" in text and "K + noise" in text
    assert "ridge" not in text and "raise noise" not in text


def test_the_noise_that_is_advised_suffices(rng):
    K = np.ones((6, 6)) + 4e-8 * (1 - np.eye(6))  # beyond what jitter repairs
    y = 50 * rng.standard_normal(6)
    with pytest.raises(NotPositiveDefinite, match=r"such as ([\d.e+-]+)") as caught:
        GP("precomputed", 0.0, optimizer=None).fit(K, y)
    advised = float(str(caught.value).partition("such as ")[2].partition(",")[0])
    GP("precomputed", advised, optimizer=None).fit(K, y)


# --------------------------------------------------------------------------- what fixed may say
@pytest.mark.parametrize(
    "fixed", ["k2__noise", ["k2__noise"], ("noise", "k2__noise"), {"k2__noise"}]
)
def test_names_in_fixed_are_compared_whole(data, fixed):
    X, y = data
    model = GP(RBF() + White(0.3), np.full(8, 0.1), fixed=fixed).fit(X, y)
    assert model.kernel_.k2.noise == pytest.approx(0.3, rel=1e-15)  # through its logarithm
    assert model.theta_names_ == ["k1__length_scale"]


def test_a_set_of_names_is_as_good_as_a_list(data):
    X, y = data
    assert GP(RBF(), 0.5, fixed={"noise"}).fit(X, y).noise_ == 0.5


def test_noise_to_be_tuned_cannot_be_held(data):
    with pytest.raises(InvalidInput, match="noise='fit' is to be tuned, and fixed holds 'noise'"):
        GP(fixed=["noise"]).fit(*data)


@pytest.mark.parametrize("option", ["bounds", "priors"])
def test_noise_that_is_known_has_no_bounds(data, option):
    with pytest.raises(InvalidInput, match=f"{option} names 'noise', whose variance is given for"):
        GP(noise=np.ones(8), **{option: {"noise": (1, 2)}}).fit(*data)


def test_noise_may_be_a_tensor(rng):
    torch = pytest.importorskip("torch")
    X = rng.normal(size=(12, 2))
    v = rng.uniform(0.1, 0.5, 12)
    # Neither is an array for NumPy, as no tensor on a GPU is.
    given = torch.tensor(v, requires_grad=True)
    for noise, same in ((given, v), (torch.tensor(0.25, dtype=torch.bfloat16), 0.25)):
        got = GP(optimizer=None, noise=noise).fit(X, X[:, 0])
        want = GP(optimizer=None, noise=same).fit(X, X[:, 0])
        np.testing.assert_array_equal(got.predict(X), want.predict(X))
    with pytest.raises(InvalidInput, match="negative"):
        GP(optimizer=None, noise=-given).fit(X, X[:, 0])
