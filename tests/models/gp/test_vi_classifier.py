"""The classifier with variational inference: probabilities by sampling, tuning, weights, files."""

import numpy as np
import pytest
from scipy.special import expit, ndtr, softmax
from sklearn.base import clone

import mercer
from mercer import RBF, GaussianProcessClassifier
from mercer.models.gp.classes.variational import vi
from mercer.testing import BinaryLikelihood, SoftmaxLikelihood, slice_posterior


def data(n=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    F = np.stack([np.sin(2 * X[:, 0]) + X[:, 1], X[:, 0] * X[:, 1], -X[:, 0]], axis=1)
    return X, np.argmax(F + 0.5 * rng.gumbel(size=F.shape), axis=1), rng.standard_normal((8, 2))


def sampled(kernel, X, new, likelihood, link):
    """Return probabilities at new points by elliptical slice sampling, with their errors."""
    K = kernel(np.vstack([X, new])) + 1e-9 * np.eye(len(X) + len(new))
    return slice_posterior(
        K, likelihood, lambda F: link(F[:, len(X) :]), n_steps=300, burn_in=150, n_chains=150
    )


@pytest.mark.parametrize(("link", "function"), [("logit", expit), ("probit", ndtr)])
def test_probabilities_of_two_classes(link, function):
    X, y, new = data()
    y, kernel = (y == 0).astype(int), 4.0 * RBF(1.2)
    t = np.concatenate([2.0 * y - 1.0, np.ones(len(new))])
    w = np.concatenate([np.ones(len(X)), np.zeros(len(new))])
    truth = sampled(kernel, X, new, BinaryLikelihood(t, w, link), function)
    model = GaussianProcessClassifier(kernel, "vi", link, optimizer=None).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(new)[:, 1], truth.mean, atol=0.025)
    bound = vi(kernel(X), 2.0 * y - 1.0, None, link).log_evidence
    assert abs(model.log_marginal_likelihood_value_ - bound) < 1e-9


def test_probabilities_of_three_classes():
    X, y, new = data()
    kernel = 4.0 * RBF(1.2)
    Y = np.vstack([np.eye(3)[y], np.zeros((len(new), 3))])
    w = np.concatenate([np.ones(len(X)), np.zeros(len(new))])
    truth = sampled(kernel, X, new, SoftmaxLikelihood(Y, w), lambda F: softmax(F, axis=-1))
    model = GaussianProcessClassifier(kernel, "vi", optimizer=None).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(new), truth.mean, atol=0.03)
    other = GaussianProcessClassifier(kernel, optimizer=None).fit(X, y)
    error, peer = (np.abs(m.predict_proba(new) - truth.mean).mean() for m in (model, other))
    assert error < peer


@pytest.mark.parametrize("classes", [2, 3])
def test_gradient_and_search(classes):
    X, y, _ = data()
    y = np.minimum(y, classes - 1)
    model = GaussianProcessClassifier(2.0 * RBF([1.0, 1.0]), "vi").fit(X, y)
    theta = model.theta_
    at = model.log_marginal_likelihood_value_
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert abs(value - at) < 1e-9 and np.abs(gradient).max() < 0.05
    moved = theta + 0.3
    _, gradient = model.log_marginal_likelihood(moved, eval_gradient=True)
    for j, step in enumerate(1e-4 * np.eye(len(theta))):
        up, down = (model.log_marginal_likelihood(moved + s * step) for s in (1, -1))
        assert abs((up - down) / 2e-4 - gradient[j]) < 1e-6
        assert model.log_marginal_likelihood(theta + 1e3 * step) < at + 0.01
    kept = GaussianProcessClassifier(2.0 * RBF([1.0, 1.0]), "vi", optimizer=None).fit(X, y)
    assert at > kept.log_marginal_likelihood_value_


@pytest.mark.parametrize("classes", [2, 3])
def test_weights_files_and_other_kinds_of_rows(classes, tmp_path):
    X, y, new = data(20)
    y = np.minimum(y, classes - 1)
    model = GaussianProcessClassifier(3.0 * RBF(), "vi", optimizer=None)
    w = np.arange(20) % 3
    weighted, index = clone(model).fit(X, y, w), np.repeat(np.arange(20), w)
    want = model.fit(X[index], y[index]).predict_proba(new)
    np.testing.assert_allclose(weighted.predict_proba(new), want, atol=1e-8)
    mercer.save(weighted, tmp_path / "model")
    np.testing.assert_allclose(mercer.load(tmp_path / "model").predict_proba(new), want, atol=1e-8)
    words = ["aa", "ab", "ba", "bb", "ca", "cb"]
    rows = GaussianProcessClassifier(lambda a, b: float(a[0] == b[0]) + (a == b), "vi")
    rows.fit(words, np.array([0, 0, 1, 1, 2, 2]) % classes)
    assert np.allclose(rows.predict_proba(words).sum(axis=1), 1.0)


def test_one_against_the_rest():
    X, y, new = data()
    model = GaussianProcessClassifier(
        3.0 * RBF(), "vi", "probit", multi_class="one_vs_rest", optimizer=None
    ).fit(X, y)
    total = sum(
        vi(3.0 * RBF()(X), np.where(y == c, 1.0, -1.0), None, "probit").log_evidence
        for c in range(3)
    )
    assert abs(model.log_marginal_likelihood_value_ - total) < 1e-8
    assert np.allclose(model.predict_proba(new).sum(axis=1), 1.0)
