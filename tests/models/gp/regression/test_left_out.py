"""Leave-one-out of Gaussian processes against conditionals written out, and against refits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.exceptions import NotFittedError

from mercer import RBF, FromFunction, GaussianProcessRegressor, load, save
from mercer.errors import InvalidInput, speaking_for
from mercer.models.gp.regression.evidence import Evidence
from mercer.models.gp.regression.updates import leave_out
from tests.models.gp.refits import NAMES, N, fitted, in_units, study, without

KERNEL = 1.3 * RBF(0.8)


def problem(rng, n=14, t=2, q=2, vector=True):
    X = rng.standard_normal((n, 2))
    Z = rng.standard_normal((n, t))
    H = np.column_stack([np.ones(n), X[:, 0], X[:, 1]])[:, :q]
    w = rng.uniform(0.3, 3.0, n)
    noise = rng.uniform(0.05, 0.5, n) if vector else 0.2
    return X, Z, H, w, noise


def given_the_others(C, H, Z, S):
    """Mean and variance of rows S given the others: generalised least squares, then kriging."""
    T = np.setdiff1d(np.arange(len(Z)), S)
    inverse = np.linalg.inv(C[np.ix_(T, T)])
    cross = C[np.ix_(S, T)] @ inverse
    A = np.linalg.inv(H[T].T @ inverse @ H[T])
    beta = A @ H[T].T @ inverse @ Z[T]
    rest = H[S] - cross @ H[T]
    mean = H[S] @ beta + cross @ (Z[T] - H[T] @ beta)
    covariance = C[np.ix_(S, S)] - cross @ C[np.ix_(T, S)] + rest @ A @ rest.T
    return mean, np.diagonal(covariance)


@pytest.mark.parametrize("q", [0, 1, 3])
@pytest.mark.parametrize("vector", [True, False])
def test_is_the_conditional(rng, q, vector):
    X, Z, H, w, noise = problem(rng, q=q, vector=vector)
    fit = Evidence(X, Z, w, H).posterior(KERNEL, noise)
    C = KERNEL(X) + np.diag(noise / w)
    for groups in (None, rng.integers(0, 5, len(X))):
        mean, variance = leave_out(fit, Z, H, groups)
        for i in range(len(X)):
            S = np.array([i]) if groups is None else np.flatnonzero(groups == groups[i])
            expected, spread = given_the_others(C, H, Z, S)
            at = int(np.flatnonzero(S == i)[0])
            np.testing.assert_allclose(mean[i], expected[at], rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(variance[i], spread[at], rtol=1e-10)


def test_one_row_leaves_the_prior():
    X, Z = np.zeros((1, 1)), np.array([[2.0]])
    fit = Evidence(X, Z).posterior(KERNEL, 0.5)
    mean, variance = leave_out(fit, Z, np.zeros((1, 0)), None)
    np.testing.assert_allclose(mean, [[0.0]], atol=1e-15)
    np.testing.assert_allclose(variance, [1.8])


def test_a_row_that_the_basis_needs(rng):
    X = np.array([[0.0], [0.0], [0.0], [1.0]])
    H, Z = np.column_stack([np.ones(4), X]), rng.standard_normal((4, 1))
    fit = Evidence(X, Z, None, H).posterior(KERNEL, 0.5)
    with pytest.raises(InvalidInput, match="without row 3 the others"), speaking_for("loo"):
        leave_out(fit, Z, H, None)
    with pytest.raises(InvalidInput, match="without row"), speaking_for("loo"):
        leave_out(fit, Z, H, np.array([0, 1, 1, 1]))


# ------------------------------------------------------------------------------------ the model
def expected_of(model, groups):
    means, variances = [], []
    for i in range(len(model.y_fit_)):
        S = np.array([i]) if groups is None else np.flatnonzero(groups == groups[i])
        at = model.kernel_.domain.take(model.X_fit_, np.array([i]))
        mean, variance = in_units(model, without(model, S), at)
        means.append(mean[0])
        variances.append(variance[0])
    return np.array(means), np.array(variances)


def columns(A, n):
    return np.asarray(A).reshape(n, -1)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_equals_refits(rng, name, grouped):
    model = fitted(name, rng)
    n = len(model.y_fit_)
    groups = rng.integers(0, 6, n) if grouped else None
    mean, variance = expected_of(model, groups)
    got, std = model.loo(groups=groups, return_std=True, with_noise=False)
    scale = np.abs(model.y_fit_).max()
    np.testing.assert_allclose(columns(got, n), columns(mean, n), atol=1e-9 * scale)
    np.testing.assert_allclose(columns(std, n) ** 2, columns(variance, n), rtol=1e-8)
    np.testing.assert_array_equal(model.loo(groups=groups), got)
    noise = columns(np.broadcast_to(model.scaled_noise_, n), n) * model.y_scale_**2
    _, noisy = model.loo(groups=groups, return_std=True)
    np.testing.assert_allclose(columns(noisy, n) ** 2, columns(std, n) ** 2 + noise, rtol=1e-12)
    density = norm.logpdf(columns(model.y_fit_, n), columns(got, n), columns(noisy, n)).sum(axis=1)
    np.testing.assert_allclose(model.loo_log_predictive(groups=groups), density, rtol=1e-9)
    assert got.shape == std.shape == model.predict(model.X_fit_).shape


def test_noise_of_ones_own(rng):
    model = fitted("weights", rng)
    v = rng.uniform(0, 1, N)
    bare = model.loo(return_std=True, with_noise=False)[1]
    got = model.loo(return_std=True, with_noise=v)[1]
    np.testing.assert_allclose(got**2, bare**2 + v, rtol=1e-12)
    with pytest.raises(InvalidInput, match="with_noise"):
        model.loo(return_std=True, with_noise=v[:-1])


def test_precomputed_equals_the_kernel(rng, tmp_path):
    model, X, y, w = study("constant weights", rng)
    w[3] = 0.0
    K = model.kernel(X)
    other = model.__class__("precomputed", 0.3, optimizer=None, mean="constant")
    model.fit(X, y, sample_weight=w)
    other.fit(K, y, sample_weight=w)
    for got in (other.loo(return_std=True), other.loo(K, return_std=True)):
        np.testing.assert_allclose(got, model.loo(return_std=True), rtol=1e-10)
    save(other, tmp_path / "m.mercer")
    again = load(tmp_path / "m.mercer")
    with pytest.raises(InvalidInput, match="precomputed Gram matrix"):
        again.loo()
    wrong = 1.5 * K
    with pytest.raises(InvalidInput, match="not the matrix"):
        again.loo(wrong)
    np.testing.assert_allclose(again.loo(K), model.loo(), rtol=1e-10)
    np.testing.assert_allclose(again.loo(), model.loo(), rtol=1e-10)
    with pytest.raises(InvalidInput, match="not the matrix"):
        again.loo(wrong)


def test_training_points_given_again(rng):
    model = fitted("plain", rng)
    np.testing.assert_array_equal(model.loo(model.X_fit_), model.loo())
    with pytest.raises(InvalidInput, match=r"loo: X is not what the model was fitted on"):
        model.loo(model.X_fit_ + 1)


def test_words(rng):
    words = ["cat", "car", "bar", "barn", "yarn", "yard"]
    kernel = FromFunction(letters)
    model = GaussianProcessRegressor(kernel, 0.5, optimizer=None, normalize_y=False)
    y = rng.standard_normal(6)
    got = model.fit(words, y).loo()
    for i in range(6):
        others = [k for k in range(6) if k != i]
        model.fit([words[k] for k in others], y[others])
        np.testing.assert_allclose(got[i], model.predict([words[i]])[0], rtol=1e-10)


def letters(a, b):
    return float(len(set(a) & set(b)))


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (np.zeros(N), "one group"),
        (np.arange(N - 1), "15 groups for 16 rows"),
        ([np.nan] * N, "NaN"),
        (3, "labels"),
    ],
)
def test_bad_groups(rng, groups, words):
    with pytest.raises(InvalidInput, match=words):
        fitted("plain", rng).loo(groups=groups)


def test_before_fit():
    with pytest.raises(NotFittedError):
        GaussianProcessRegressor().loo()


def test_one_row_of_a_model():
    model = GaussianProcessRegressor(RBF(), 0.5, optimizer=None).fit([[1.0]], [3.0])
    mean, std = model.loo(return_std=True)
    np.testing.assert_allclose(mean, [3.0])  # the mean of y is held
    np.testing.assert_allclose(std, np.sqrt([1.5]))
    model = GaussianProcessRegressor(RBF(), 0.5, optimizer=None, mean="constant")
    with pytest.raises(InvalidInput, match="without row 0"):
        model.fit([[1.0]], [3.0]).loo()
