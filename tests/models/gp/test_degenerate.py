"""Gaussian process regression on data at the edge: few, equal, huge, tiny, odd, and refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import multivariate_normal

from mercer import RBF, GaussianProcessRegressor, Matern
from mercer.errors import InvalidInput, NotConverged, NotPositiveDefinite

GP = GaussianProcessRegressor


@pytest.fixture
def data(rng):
    X = rng.standard_normal((20, 2))
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(20)


def answers(model, X):
    """Everything a model says at some points, all finite, and no spread below that of f."""
    mean, std = model.predict(X, return_std=True)
    _, bare = model.predict(X, return_std=True, with_noise=False)
    _, cov = model.predict(X, return_cov=True)
    draws = model.sample_y(X, 3)
    for A in (mean, std, bare, cov, draws, model.dual_coef_, model.noise_):
        assert np.isfinite(A).all()
    assert np.isfinite(model.log_marginal_likelihood_value_)
    assert (std >= bare).all() and (bare >= 0).all()
    return mean, std, bare


@pytest.fixture(autouse=True)
def _no_noise():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# -------------------------------------------------------------------------------- few, or equal
@pytest.mark.parametrize("mean", ["zero", "constant", "linear"])
@pytest.mark.parametrize("options", [{}, {"noise": 0.1, "optimizer": None}])
def test_one_row(mean, options):
    model = GP(1.0 * RBF(), mean=mean, **options).fit([[1.0]], [2.0])
    at, std, _ = answers(model, [[1.0], [50.0]])
    np.testing.assert_allclose(at, 2.0)
    assert std[1] >= std[0]


def test_one_row_by_hand():
    model = GP(2.0 * RBF(), 0.5, optimizer=None, normalize_y=False).fit([[0.0]], [3.0])
    mean, std, bare = answers(model, [[0.0]])
    np.testing.assert_allclose(mean, 3.0 * 2.0 / 2.5)
    np.testing.assert_allclose(bare**2, 2.0 - 4.0 / 2.5)
    np.testing.assert_allclose(std**2, bare**2 + 0.5)
    value = -0.5 * (9 / 2.5 + np.log(2 * np.pi * 2.5))
    np.testing.assert_allclose(model.log_marginal_likelihood_value_, value)


def test_one_distinct_point_is_a_mean(data):
    y = data[1]
    model = GP(1.0 * RBF(), 0.2, optimizer=None, normalize_y=False).fit(np.ones((20, 2)), y)
    mean, _, bare = answers(model, np.ones((1, 2)))
    np.testing.assert_allclose(mean, y.sum() / (20 + 0.2))
    np.testing.assert_allclose(bare**2, 0.2 / (20 + 0.2))
    answers(GP().fit(np.ones((20, 2)), y), np.ones((1, 2)))
    answers(GP(RBF("median")).fit(np.ones((20, 2)), y), np.zeros((1, 2)))


@pytest.mark.parametrize("value", [0.0, 7.0, -1e9, 1e-200, 1e200])
@pytest.mark.parametrize("normalize", [True, False])
def test_constant_targets(data, value, normalize):
    X = data[0]
    if abs(value) > 1e8 and not normalize:
        return  # then it is a matter of units, see below
    model = GP(normalize_y=normalize)
    if value == 1e-200 and not normalize:
        with pytest.raises(InvalidInput, match="give y in other units"):
            model.fit(X, np.full(20, value))
        return
    mean, std, _ = answers(model.fit(X, np.full(20, value)), X)
    K = model.kernel_(X)  # a prior around 0 draws towards it, one around the mean of y does not
    shrunk = K @ np.linalg.solve(K + model.noise_ * np.eye(20), np.ones(20))
    np.testing.assert_allclose(mean, value * (1.0 if normalize else shrunk), rtol=1e-9, atol=1e-12)
    if normalize:
        np.testing.assert_array_equal(model.y_scale_, 1.0)
    assert (std < 1.0).all()
    assert "did not begin: y does not vary" in model.search_.message


def test_one_constant_output_among_others(data):
    X, y = data
    model = GP().fit(X, np.column_stack([y, np.full(20, 3.0)]))
    mean, _, _ = answers(model, X)
    np.testing.assert_allclose(mean[:, 1], 3.0)
    np.testing.assert_allclose(mean[:, 0], GP().fit(X, y).predict(X), atol=0.15)


def test_duplicates_are_weights(data):
    X, y = data
    options = {"noise": 0.1, "optimizer": None}
    twice = GP(1.0 * RBF(), **options).fit(np.vstack([X, X[:5]]), np.r_[y, y[:5]])
    weight = np.r_[np.full(5, 2.0), np.ones(15)]
    once = GP(1.0 * RBF(), **options).fit(X, y, sample_weight=weight)
    for a, b in zip(answers(twice, X), answers(once, X), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    a, b = twice.log_marginal_likelihood_value_, once.log_marginal_likelihood_value_
    np.testing.assert_allclose(a, b, rtol=1e-10)


def test_contradictions_without_noise_are_reported(data):
    X, y = data
    model = GP(1.0 * RBF(), 0.0, optimizer=None)
    with pytest.warns(NotConverged, match=r"residual.*Use more noise"):
        model.fit(np.vstack([X, X]), np.r_[y, y + 1.0])
    assert model.solution_.extra["jitter"] > 0 and not model.solution_.converged
    model.fit(np.vstack([X, X]), np.r_[y, y])  # no contradiction, so no warning
    np.testing.assert_allclose(model.predict(X), y, atol=1e-4)
    answers(GP().fit(np.vstack([X, X]), np.r_[y, y + 1.0]), X)


def test_exact_data_are_interpolated(data):
    X, y = data
    model = GP(1.0 * Matern(), 0.0, optimizer=None).fit(X, y)
    mean, std, _ = answers(model, X)
    np.testing.assert_allclose(mean, y, atol=1e-9)
    np.testing.assert_allclose(std, 0.0, atol=1e-6)
    assert model.solution_.extra["jitter"] == 0.0


# -------------------------------------------------------------------------------- huge and tiny
@pytest.mark.parametrize("scale", [1e-150, 1e-100, 1e-8, 1e8, 1e100, 1e150])
def test_units_of_y_are_without_effect(data, scale):
    X, y = data
    one, other = GP().fit(X, y), GP().fit(X, y * scale)
    for a, b in zip(answers(one, X), answers(other, X), strict=True):
        np.testing.assert_allclose(b / scale, a, rtol=1e-7)
    np.testing.assert_allclose(other.noise_, one.noise_ * scale**2, rtol=1e-7)
    shift = one.log_marginal_likelihood_value_ - 20 * np.log(scale)
    np.testing.assert_allclose(other.log_marginal_likelihood_value_, shift, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
@pytest.mark.parametrize("mean", ["zero", "linear"])
def test_units_of_x_are_without_effect(data, scale, mean):
    X, y = data
    one, other = GP(mean=mean).fit(X, y), GP(mean=mean).fit(X * scale, y)
    for a, b in zip(answers(one, X), answers(other, X * scale), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-7)


def test_offset_of_y_is_without_effect(data):
    X, y = data
    one, other = GP().fit(X, y), GP().fit(X, y + 1e6)
    np.testing.assert_allclose(other.predict(X) - 1e6, one.predict(X), atol=1e-6)
    np.testing.assert_allclose(other.noise_, one.noise_, rtol=1e-5)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_units_that_have_no_square_are_refused(data, size):
    X, y = data
    with pytest.raises(InvalidInput, match="give y in other units"):
        GP().fit(X, y * size)


def test_points_far_away_get_the_prior(data):
    X, y = data
    model = GP(1.5 * RBF(), 0.1, optimizer=None, normalize_y=False).fit(X, y)
    mean, _, bare = answers(model, [[1e9, 0.0]])
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(bare**2, 1.5)


def test_weights_of_any_size(data):
    X, y = data
    kernel = 1.0 * RBF()
    tiny = GP(kernel, 0.1, optimizer=None, normalize_y=False).fit(X, y, np.full(20, 1e-30))
    _, _, bare = answers(tiny, X)
    np.testing.assert_allclose(bare, 1.0)  # as good as no data
    huge = GP(kernel, 0.1, optimizer=None, normalize_y=False).fit(X, y, np.full(20, 1e6))
    sharp = GP(kernel, 1e-7, optimizer=None, normalize_y=False).fit(X, y)
    _, _, bare = answers(huge, X)
    np.testing.assert_allclose(huge.predict(X), sharp.predict(X), rtol=1e-7)
    np.testing.assert_allclose(bare, answers(sharp, X)[2], rtol=1e-6)
    single = GP(kernel, 0.1, optimizer=None, normalize_y=False).fit(X, y, np.eye(20)[4])
    alone = GP(kernel, 0.1, optimizer=None, normalize_y=False).fit(X[4:5], y[4:5])
    for a, b in zip(answers(single, X), answers(alone, X), strict=True):
        np.testing.assert_allclose(a, b)


# -------------------------------------------------------------------------------- odd types
@pytest.mark.parametrize("kind", ["list", "float32", "fortran", "sparse", "frame", "readonly"])
def test_the_same_data_in_another_form(data, kind):
    X, y = data
    X, y = X.astype(np.float32).astype(float), y.astype(np.float32).astype(float)
    expected = answers(GP().fit(X, y), X)
    if kind == "list":
        A, b = X.tolist(), y.tolist()
    elif kind == "float32":
        A, b = X.astype(np.float32), y.astype(np.float32)
    elif kind == "fortran":
        A, b = np.asfortranarray(X), np.column_stack([y, y])[:, 0]
    elif kind == "sparse":
        A, b = sp.csr_array(X), y
    elif kind == "readonly":
        A, b = X.copy(), y.copy()
        A.flags.writeable = b.flags.writeable = False
    else:
        pandas = pytest.importorskip("pandas")
        A, b = pandas.DataFrame(X, columns=["a", "b"]), pandas.Series(y)
    for got, e in zip(answers(GP().fit(A, b), A), expected, strict=True):
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, e, rtol=1e-6)


def test_whole_numbers_and_truth_values():
    X = np.arange(8)[:, None]
    answers(GP().fit(X, np.arange(8) ** 2), X)
    answers(GP().fit(X, np.arange(8) > 3), X)


def test_a_column_of_targets_stays_a_column(data):
    X, y = data
    flat, column = GP(noise=0.1).fit(X, y), GP(noise=0.1).fit(X, y[:, None])
    a, b = flat.predict(X, return_std=True), column.predict(X, return_std=True)
    for u, v in zip(a, b, strict=True):
        assert v.shape == (20, 1)
        np.testing.assert_allclose(v[:, 0], u, rtol=1e-7)


# ------------------------------------------------------------------------- the density itself
@pytest.mark.parametrize("n", [1, 2, 7])
def test_evidence_is_the_density_of_y(rng, n):
    X, y = rng.standard_normal((n, 1)), 30 + 5 * rng.standard_normal(n)
    model = GP(1.3 * RBF(), 0.4, optimizer=None).fit(X, y)
    scale, mean = model.y_scale_[0], model.y_mean_[0]
    C = scale**2 * model.kernel_(X) + 0.4 * np.eye(n)
    density = multivariate_normal(np.full(n, mean), C).logpdf(y)
    np.testing.assert_allclose(model.log_marginal_likelihood_value_, density, rtol=1e-9)


# ------------------------------------------------------------------------------------ refusals
@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (np.zeros((0, 2)), [], "0 sample"),
        (np.zeros((3, 0)), [1, 2, 3], "0 feature"),
        ([[np.nan]], [1.0], "NaN at row 0, column 0"),
        ([[np.inf]], [1.0], "infinity|not finite"),
        ([[1.0]], [np.nan], "y contains NaN at row 0"),
        ([[1.0]], [np.inf], "y contains infinity at row 0"),
        ([[1.0], [2.0]], [1.0], "X has 2 rows and y has 1"),
        ([[1.0]], None, "y is None"),
        ([[1.0]], ["a"], "take GaussianProcessClassifier"),
        ([[1.0]], [[[1.0]]], "dim"),
        ([1.0, 2.0], [1.0, 2.0], "Reshape your data"),
        ([[[1.0]]], [1.0], "dim"),
        ([["a"]], [1.0], "convert|number"),
        (None, [1.0], "X is None"),
    ],
)
def test_bad_data(X, y, words):
    with pytest.raises((InvalidInput, TypeError), match=words):
        GP().fit(X, y)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"noise": -1.0}, "noise=-1 is negative"),
        ({"noise": "guess"}, "noise='guess'; give 'fit'"),
        ({"noise": np.nan}, "NaN"),
        ({"noise": [0.1, 0.2]}, r"shape \(2,\)"),
        ({"noise": True}, "noise=True"),
        ({"noise": None}, "noise=None"),
        ({"noise": np.r_[-0.1, np.ones(19)]}, r"noise\[0\] = -0.1 is negative"),
        ({"optimizer": None}, "give the variance"),
        ({"optimizer": "adam"}, "give 'lbfgs', None, or"),
        ({"n_restarts": -1}, "n_restarts=-1"),
        ({"n_restarts": 1.5}, "n_restarts=1.5"),
        ({"normalize_y": "yes"}, "normalize_y='yes'"),
        ({"mean": "quadratic"}, "mean='quadratic'"),
        ({"fixed": ("nugget",)}, "'nugget', which is no parameter"),
        ({"bounds": {"noise": (2, 1)}}, "0 < low ≤ high"),
        ({"priors": {"noise": 3}}, "no logpdf"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"tol": 0.0}, "tol=0.0"),
        ({"random_state": "x"}, "random_state='x'"),
        ({"kernel": "nope"}, "kernel='nope' is not a known name"),
        ({"kernel": 3}, "kernel=3"),
    ],
)
def test_bad_options(data, options, words):
    model = GP().fit(*data)
    before = model.predict(data[0])
    model.set_params(**options)
    with pytest.raises(InvalidInput, match=words):
        model.fit(*data)
    np.testing.assert_array_equal(model.predict(data[0]), before)  # the earlier fit stays


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m.predict([[1.0]]), "1 features, but GaussianProcessRegressor is expecting 2"),
        (lambda m: m.predict([[np.nan, 1.0]]), "NaN at row 0"),
        (lambda m: m.predict(np.zeros((0, 2))), "0 sample"),
        (lambda m: m.predict([[0.0, 0.0]], True, True), "ask for one"),
        (lambda m: m.predict([[0.0, 0.0]], True, with_noise=[1.0, 2.0]), r"shape \(2,\)"),
        (lambda m: m.predict([[0.0, 0.0]], True, with_noise="no"), "with_noise='no'"),
        (lambda m: m.predict([[0.0, 0.0]], True, with_noise=1), "with_noise=1; give True, False"),
        (lambda m: m.sample_y([[0.0, 0.0]], 0), "n_samples=0"),
        (lambda m: m.log_marginal_likelihood([0.0]), "theta"),
    ],
)
def test_bad_questions(data, call, words):
    with pytest.raises(InvalidInput, match=words):
        call(GP().fit(*data))


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (-np.ones(20), "negative"),
        (np.zeros(20), "all sample weights are zero"),
        (np.ones(3), "sample_weight.shape"),
        (np.full(20, np.nan), "NaN"),
        (["a"] * 20, "not an array of numbers"),
    ],
)
def test_bad_weights(data, weights, words):
    with pytest.raises(InvalidInput, match=words):
        GP().fit(*data, sample_weight=weights)


def test_a_matrix_that_is_no_kernel(data):
    K = np.full((20, 20), 2.0) - np.eye(20)  # eigenvalues −1
    for noise in (0.0, 0.1, 5.0):  # also where the noise would cover it up
        with pytest.raises(NotPositiveDefinite, match="eigenvalue"):
            GP("precomputed", noise, optimizer=None, normalize_y=False).fit(K, data[1])
