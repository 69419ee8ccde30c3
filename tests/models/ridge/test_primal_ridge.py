"""Ridge on sparse features: the dense answer without a dense copy, and a true certificate."""

import numpy as np
import pytest
import scipy.sparse as sp

import mercer
from mercer.models.ridge import exact


def _problem(n=400, outputs=1):
    X, _ = mercer.datasets.make_splice(n, length=24, random_state=0)
    rng = np.random.default_rng(0)
    y = np.array([[s.count("GT"), s.count("ACA")] for s in X], dtype=float)[:, :outputs]
    weights = rng.integers(0, 4, n).astype(float)
    return X, y + 0.1 * rng.standard_normal(y.shape), weights


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("alpha", [1e-6, 0.1, 100.0])
def test_sparse_features_give_the_answer_of_the_kernel(alpha, offset):
    X, y, weights = _problem(outputs=2)
    kernel = mercer.Spectrum(4, alphabet="ACGT")
    primal = mercer.KernelRidge(kernel, alpha, fit_intercept=offset)
    primal.fit(X, y, sample_weight=weights)
    assert primal.solution_.extra["method"] == "primal"
    K = kernel(X)
    dual = mercer.KernelRidge("precomputed", alpha, fit_intercept=offset)
    dual.fit(K, y, sample_weight=weights)
    scale = np.abs(dual.predict(K)).max()
    tolerance = 1e-8 if alpha > 1e-5 else 1e-6  # the dual matrix is singular but for alpha
    np.testing.assert_allclose(primal.predict(X), dual.predict(K), atol=tolerance * scale)
    # the gradient of the weights, from the features themselves
    phi = kernel.features(X).toarray()
    e = y - phi @ primal.coef_.T - primal.intercept_
    slope = phi.T @ (weights[:, None] * e) - alpha * primal.coef_.T
    size = np.linalg.norm(phi.T @ (weights[:, None] * y))
    assert np.linalg.norm(slope) <= 1e-12 * size
    assert primal.solution_.residual <= 1e-10


def test_means_far_from_zero_are_taken_off_without_loss():
    rng = np.random.default_rng(1)
    A = sp.random_array((3000, 60), density=0.05, random_state=rng).tocsr()
    A.data = 1e4 + A.data
    y = np.asarray(A @ rng.standard_normal(60)) / 1e4 + 0.01 * rng.standard_normal(3000)
    sparse = mercer.KernelRidge("linear", 1.0, fit_intercept=True).fit(A, y)
    dense = mercer.KernelRidge("linear", 1.0, fit_intercept=True).fit(A.toarray(), y)
    np.testing.assert_allclose(sparse.predict(A), dense.predict(A.toarray()), rtol=1e-9, atol=1e-9)


def test_no_dense_copy_is_made(monkeypatch):
    X, y, _ = _problem(1100)
    taken = []
    whole = exact.LeastSquares._centred_features

    def watched(self):
        taken.append(1)
        return whole(self)

    monkeypatch.setattr(exact.LeastSquares, "_centred_features", watched)
    with mercer.config(memory=40_000_000):  # three dense copies of the features take 27 MB more
        mercer.KernelRidge(mercer.Spectrum(5, alphabet="ACGT"), 1.0).fit(X, y[:, 0])
    assert not taken
