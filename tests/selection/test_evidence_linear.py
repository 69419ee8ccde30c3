"""evidence: numerical integration, the Gaussian of y, sequential updating, weights, refusals."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.integrate import dblquad
from scipy.stats import multivariate_normal

import mercer
from mercer import RBF, KernelRidge, Linear, Polynomial
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.selection import evidence

ASKEW, NEGATIVE = [[1.0, 2.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]
SHAPES = [(12, 3), (3, 12), (5, 5), (1, 1), (1, 4), (20, 1)]


def priors(d, rng):
    B = rng.standard_normal((d, d))
    return {"number": 2.0, "vector": rng.uniform(0.1, 3, d), "matrix": B @ B.T}


def as_matrix(prior, d):
    return prior if np.ndim(prior) == 2 else prior * np.eye(d)


@pytest.mark.parametrize("kind", ["number", "vector", "matrix"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_is_the_gaussian_of_y(shape, kind, rng):
    n, d = shape
    X, y = rng.standard_normal(shape), rng.standard_normal(n)
    prior = priors(d, rng)[kind]
    P = as_matrix(prior, d)
    C = X @ P @ X.T + 0.3 * np.eye(n)
    found = evidence(X, y, 0.3, prior)
    assert found.log_evidence == pytest.approx(
        multivariate_normal(np.zeros(n), C).logpdf(y), rel=1e-10
    )
    gain = P @ X.T @ np.linalg.inv(C)
    assert np.allclose(found.mean, gain @ y, atol=1e-9)
    assert np.allclose(found.covariance, P - gain @ X @ P, atol=1e-9)
    assert (found.covariance == found.covariance.T).all()
    assert found.degrees_of_freedom == pytest.approx(np.trace(X @ gain), rel=1e-9)
    new = rng.standard_normal((7, d))
    mean, std = found.predict(new, return_std=True)
    variance = np.einsum("ij,jk,ik->i", new, found.covariance, new)
    assert np.allclose(mean, new @ found.mean) and np.allclose(std**2, variance + 0.3)
    assert np.allclose(found.predict(new), mean)
    assert np.allclose(found.posterior_variance(new), variance, atol=1e-9)
    once, twice = found.design(new)
    assert np.allclose(once, variance / 0.3, atol=1e-9)
    assert np.allclose(twice, ((new @ found.covariance / 0.3) ** 2).sum(1), atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_is_the_integral_over_the_weights(seed):
    rng = np.random.default_rng(seed)
    n, noise, prior = 5, 0.5, 1.5
    X, y = rng.standard_normal((n, 2)), rng.standard_normal(n)
    found = evidence(X, y, noise, prior)

    def log_joint(a, b):
        misfit = ((y - X @ [a, b]) ** 2).sum() / noise + (a * a + b * b) / prior
        return -0.5 * (misfit + n * np.log(2 * np.pi * noise) + 2 * np.log(2 * np.pi * prior))

    total, _ = dblquad(lambda b, a: np.exp(log_joint(a, b)), -9, 9, -9, 9, epsabs=1e-12)
    assert found.log_evidence == pytest.approx(np.log(total), abs=1e-7)
    first, _ = dblquad(lambda b, a: a * np.exp(log_joint(a, b)), -9, 9, -9, 9, epsabs=1e-12)
    assert found.mean[0] == pytest.approx(first / total, abs=1e-7)


def test_is_the_formula_of_the_notes(rng):
    n, d, noise, prior = 9, 4, 0.7, 2.5
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    ratio = noise / prior
    M = X.T @ X + ratio * np.eye(d)
    rest = y @ y - y @ X @ np.linalg.solve(M, X.T @ y)
    notes = -n / 2 * np.log(noise) + d / 2 * np.log(ratio) - 0.5 * np.linalg.slogdet(M)[1]
    notes -= rest / (2 * noise)
    found = evidence(X, y, noise, prior)
    assert found.log_evidence == pytest.approx(notes - n / 2 * np.log(2 * np.pi), rel=1e-12)
    assert np.allclose(found.covariance, noise * np.linalg.inv(M))
    model = KernelRidge(Linear(), alpha=ratio).fit(X, y)
    assert np.allclose(found.mean, model.coef_)


def test_chain_rule(rng):
    """log p(y₁, y₂) = log p(y₁) + log p(y₂ | y₁), the posterior being the next prior."""
    X, y = rng.standard_normal((11, 3)), rng.standard_normal(11)
    whole = evidence(X, y, 0.4, 1.3)
    first = evidence(X[:4], y[:4], 0.4, 1.3)
    then = evidence(X[4:], y[4:] - X[4:] @ first.mean, 0.4, first.covariance)
    total = first.log_evidence + then.log_evidence
    assert whole.log_evidence == pytest.approx(total, rel=1e-10)
    assert np.allclose(whole.mean, first.mean + then.mean)
    assert np.allclose(whole.covariance, then.covariance)
    one_by_one = 0.0
    for i in range(11):
        if i == 0:
            mean, std = np.zeros(1), np.sqrt(0.4 + 1.3 * X[:1] @ X[:1].T)[0]
        else:
            mean, std = evidence(X[:i], y[:i], 0.4, 1.3).predict(X[i : i + 1], return_std=True)
        one_by_one += float(-0.5 * (((y[i] - mean) / std) ** 2 + np.log(2 * np.pi * std**2))[0])
    assert whole.log_evidence == pytest.approx(one_by_one, rel=1e-10)


def test_weight_is_repetition(rng):
    X, y = rng.standard_normal((6, 4)), rng.standard_normal(6)
    weight = np.array([1, 3, 0, 2, 1, 0])
    once = evidence(X, y, 0.5, 2.0, sample_weight=weight)
    rows = np.repeat(np.arange(6), weight)
    twice = evidence(X[rows], y[rows], 0.5, 2.0)
    assert once.log_evidence == pytest.approx(twice.log_evidence, rel=1e-12)
    assert np.allclose(once.mean, twice.mean)
    assert np.allclose(once.covariance, twice.covariance)
    assert once.n_samples == twice.n_samples == 7


def test_order_of_rows_and_of_columns_do_not_matter(rng):
    X, y = rng.standard_normal((8, 3)), rng.standard_normal(8)
    p, q = rng.permutation(8), rng.permutation(3)
    a, b = evidence(X, y, 0.5, 2.0), evidence(X[p][:, q], y[p], 0.5, 2.0)
    assert a.log_evidence == pytest.approx(b.log_evidence, rel=1e-12)
    assert np.allclose(a.mean[q], b.mean)


@pytest.mark.parametrize("scale", [1e-150, 1e-60, 1e-8, 1e8, 1e60, 1e140])
def test_units_do_not_matter(scale, rng):
    X, y = rng.standard_normal((8, 3)), rng.standard_normal(8)
    plain = evidence(X, y, 0.5, 2.0)
    same = evidence(scale * X, y, 0.5, 2.0 / scale**2)
    assert same.log_evidence == pytest.approx(plain.log_evidence, rel=1e-10)
    assert np.allclose(scale * same.mean, plain.mean)
    other = evidence(X, scale * y, 0.5 * scale**2, 2.0 * scale**2)
    assert other.log_evidence == pytest.approx(plain.log_evidence - 8 * np.log(scale), rel=1e-10)


def test_collinear_columns_of_different_size(rng):
    """The condition is not squared: a factor of XᵀX would lose the small column."""
    x = rng.standard_normal(30)
    X = np.c_[1e9 * x, 1e9 * x + 1e-2 * rng.standard_normal(30)]
    y = rng.standard_normal(30)
    p, q, t = ([Fraction(v) for v in column] for column in (X[:, 0], X[:, 1], y))

    def dot(a, b):
        return sum(u * v for u, v in zip(a, b, strict=True))

    a, b, c, e, f = 1 + dot(p, p), dot(p, q), 1 + dot(q, q), dot(p, t), dot(q, t)
    determinant = a * c - b * b
    misfit = dot(t, t) - (c * e * e - 2 * b * e * f + a * f * f) / determinant
    exact = -0.5 * float(misfit) - 0.5 * np.log(float(determinant)) - 15 * np.log(2 * np.pi)
    assert evidence(X, y, 1.0, 1.0).log_evidence == pytest.approx(exact, rel=1e-6)


def test_degenerate_data():
    constant = np.ones((5, 2))
    found = evidence(constant, np.zeros(5), 1.0, 1.0)
    assert np.allclose(found.mean, 0) and found.degrees_of_freedom < 1
    nothing = evidence(np.zeros((4, 3)), np.arange(4.0), 1.0, 2.0)
    assert np.allclose(nothing.covariance, 2 * np.eye(3)) and (nothing.mean == 0).all()
    noise = multivariate_normal(np.zeros(4), np.eye(4)).logpdf(np.arange(4.0))
    assert nothing.log_evidence == pytest.approx(noise)
    pinned = evidence([[1.0, 1.0]], [3.0], 1.0, [1.0, 0.0])
    assert pinned.mean[1] == 0 and pinned.covariance[1, 1] == 0
    far = evidence([[1.0]], [1e200], 1.0, 1.0)
    assert far.log_evidence == -np.inf and far.mean[0] == pytest.approx(5e199)


def test_features_of_a_kernel(rng):
    X, y = rng.standard_normal((9, 2)), rng.standard_normal(9)
    k = Polynomial(2)
    found = evidence(X, y, 0.3, 1.7, kernel=k)
    again = evidence(k.features(X), y, 0.3, 1.7)
    assert found.log_evidence == pytest.approx(again.log_evidence, rel=1e-12)
    new = rng.standard_normal((4, 2))
    assert np.allclose(found.predict(new), again.predict(k.features(new)))
    gaussian = multivariate_normal(np.zeros(9), 1.7 * k(X) + 0.3 * np.eye(9))
    assert found.log_evidence == pytest.approx(gaussian.logpdf(y), rel=1e-10)
    assert evidence(X, y, 0.3, 1.7, kernel="linear").log_evidence == pytest.approx(
        evidence(X, y, 0.3, 1.7).log_evidence
    )


def test_kinds_of_arrays(rng, torch):
    X, y = rng.standard_normal((9, 2)).astype(np.float32), rng.standard_normal(9)
    plain = evidence(X.astype(float), y, 0.3, 1.7)
    for other in (X, X.tolist(), sp.csr_array(X), torch.as_tensor(X)):
        assert evidence(other, y, 0.3, 1.7).log_evidence == pytest.approx(plain.log_evidence)
    kept = X.copy()
    X.setflags(write=False)
    evidence(X, y, 0.3, 1.7)
    assert (X == kept).all()
    same = pickle.loads(pickle.dumps(plain))
    assert (same.mean == plain.mean).all() and "2 weights" in repr(same)


@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, "1", None, True, [1.0]])
def test_noise_that_is_none_is_refused(value):
    with pytest.raises(InvalidInput, match="noise_variance"):
        evidence([[1.0]], [1.0], value, 1.0)


@pytest.mark.parametrize(
    "value",
    [0, -1.0, np.nan, np.inf, "a", None, True, [1.0], [[1.0, 2.0]], [1.0, -1.0], ASKEW, NEGATIVE],
    ids=str,
)
def test_priors_that_are_none_are_refused(value):
    with pytest.raises(InvalidInput, match="prior_variance"):
        evidence([[1.0, 2.0]], [1.0], 1.0, value)


@pytest.mark.parametrize(
    ("X", "y", "word"),
    [
        ([[1.0], [2.0]], [1.0], "2 rows and y has 1"),
        ([[1.0]], [[1.0, 2.0]], "one target"),
        ([[np.nan]], [1.0], "NaN"),
        ([[1.0]], [np.nan], "NaN"),
        ([1.0, 2.0], [1.0, 2.0], "2"),
        (np.zeros((0, 2)), [], "0"),
        ([["a"]], [1.0], "X"),
        ([[1e308]], [1e308], "overflows"),
    ],
    ids=str,
)
def test_data_that_are_refused(X, y, word):
    with pytest.raises(InvalidInput, match=word):
        evidence(X, y, 1e-3, 1e3)


def test_one_column_is_one_target(rng):
    X, y = rng.standard_normal((9, 2)), rng.standard_normal(9)
    a, b = evidence(X, y, 1.0, 2.0), evidence(X, y[:, None], 1.0, 2.0)
    assert a.log_evidence == b.log_evidence and (a.mean == b.mean).all()


def test_other_refusals(rng):
    X, y = rng.standard_normal((9, 2)), rng.standard_normal(9)
    with pytest.raises(InvalidInput, match="no finite feature map"):
        evidence(X, y, 1.0, 1.0, kernel=RBF(1.0))
    with pytest.raises(InvalidInput, match="3 features, the model 2"):
        evidence(X, y, 1.0, 1.0).predict(np.zeros((1, 3)))
    with pytest.raises(InvalidInput, match="sample_weight"):
        evidence(X, y, 1.0, 1.0, sample_weight=-np.ones(9))
    with pytest.raises(InvalidInput, match="overflows at row 1"):
        evidence([[1.0], [1e200]], [1.0, 2.0], 1.0, 1.0, kernel=Polynomial(3))
    with mercer.config(memory="64KB"), pytest.raises(MemoryBudgetExceeded, match="features"):
        evidence(rng.standard_normal((2000, 10)), np.zeros(2000), 1.0, 1.0)


def test_letters_without_a_feature_have_their_prior_variance(rng):
    X = ["".join(rng.choice(list("ab"), 9)) for _ in range(20)]
    y = np.array([s.count("ab") for s in X], dtype=float)
    new = ["abab", "ZZZZZ", "abZ", ""]
    narrow = evidence(X, y, 0.5, 3.0, kernel=mercer.Spectrum(2))
    wide = evidence(X, y, 0.5, 3.0, kernel=mercer.Spectrum(2, alphabet="abZ"))
    assert narrow.log_evidence == pytest.approx(wide.log_evidence)
    for of_narrow, of_wide in [
        *zip(narrow.predict(new, return_std=True), wide.predict(new, return_std=True), strict=True),
        *zip(narrow.design(new), wide.design(new), strict=True),
        (narrow.posterior_variance(new), wide.posterior_variance(new)),
    ]:
        np.testing.assert_allclose(of_narrow, of_wide, rtol=1e-9, atol=1e-12)
    each = evidence(X, y, 0.5, np.full(4, 3.0), kernel=mercer.Spectrum(2))
    np.testing.assert_allclose(each.predict(new), wide.predict(new), atol=1e-9)
    with pytest.raises(InvalidInput, match=r"X\[1\] .* no feature.*one number"):
        each.predict(new, return_std=True)
