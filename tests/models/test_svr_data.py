"""SVR and NuSVR on data of all kinds, degenerate ones too."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import mercer
from mercer import RBF, SVR, NuSVR, Polynomial
from mercer.errors import InvalidInput, NotConverged, NotPositiveDefinite
from mercer.models import FeatureMachineRegressor
from tests.models.margins import MODELS, Scratch, sharp, waves
from tests.models.words import alike, words


# ------------------------------------------------------------------------- kinds of data
@pytest.mark.parametrize("model", [SVR(C=5.0), NuSVR(C=5.0)], ids=repr)
def test_precomputed_sparse_frames_and_float32(model):
    X, y = waves(70, 3)
    new = waves(20, 3, seed=3)[0]
    model = sharp(model).set_params(kernel=RBF(1.3))
    first = clone(model).fit(X, y)
    expected = first.predict(new)
    gram = clone(model).set_params(kernel="precomputed").fit(RBF(1.3)(X), y)
    np.testing.assert_allclose(gram.predict(RBF(1.3)(new, X)), expected, atol=1e-7)
    np.testing.assert_array_equal(gram.support_vectors_, gram.support_)
    sparse = clone(model).fit(sp.csr_matrix(X), y)
    np.testing.assert_allclose(sparse.predict(sp.csr_matrix(new)), expected, atol=1e-6)
    frame = pd.DataFrame(X, columns=list("abc"))
    named = clone(model).fit(frame, pd.Series(y))
    np.testing.assert_allclose(named.predict(pd.DataFrame(new, columns=list("abc"))), expected)
    assert list(named.feature_names_in_) == list("abc")
    single = clone(model).fit(X.astype(np.float32), y.astype(np.float32))
    np.testing.assert_allclose(single.predict(new), expected, atol=1e-4)
    np.testing.assert_allclose(first.function_(new), expected)
    assert first.function_.norm() ** 2 == pytest.approx(
        first.dual_coef_[0] @ np.asarray(RBF(1.3)(first.support_vectors_)) @ first.dual_coef_[0]
    )


@pytest.mark.parametrize("model", [SVR(C=3.0), NuSVR(C=3.0)], ids=repr)
def test_words_are_points_too(model):
    texts = words(40)
    y = np.array([float(t.count("a")) for t in texts])
    got = clone(model).set_params(kernel=alike).fit(texts, y)
    assert abs(got.predict(texts) - y).mean() < 0.3
    assert len(got.support_vectors_) == len(got.support_)


def test_indefinite_and_asymmetric_matrices_are_refused():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 30))
    np.fill_diagonal(A, 1.0)
    for model in (SVR("precomputed"), NuSVR("precomputed")):
        with pytest.raises(NotPositiveDefinite, match=type(model).__name__):
            model.fit(A + A.T, rng.standard_normal(30))
        with pytest.raises(InvalidInput, match="symmetric"):
            model.fit(A @ A.T + np.triu(A), rng.standard_normal(30))
        assert not hasattr(model, "dual_coef_")


# -------------------------------------------------------------------------- degenerate data
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_constant_targets(model, fit_intercept):
    X, _ = waves(30)
    for level in (0.0, 3.5):
        got = sharp(model).set_params(fit_intercept=fit_intercept).fit(X, np.full(30, level))
        assert got.solution_.converged
        if fit_intercept:
            width = getattr(got, "epsilon", 0.0)
            assert abs(got.predict(X) - level).max() <= width + 1e-6
        s = Scratch(got, np.asarray(got.kernel_(X)), np.full(30, level))
        np.testing.assert_allclose(s.primal, s.dual, atol=1e-6 * (1 + abs(s.primal)))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_one_point(model, fit_intercept):
    model = sharp(model).set_params(kernel=RBF(), fit_intercept=fit_intercept)
    got = model.fit([[1.0, 2.0]], [3.0])
    assert got.solution_.converged
    value = got.predict([[1.0, 2.0]])[0]
    if fit_intercept:
        assert abs(value - 3.0) <= getattr(got, "epsilon", 0.0) + 1e-9
    elif isinstance(model, SVR):
        assert value == pytest.approx(min(model.C, max(0.0, 3.0 - model.epsilon)))


def test_nothing_to_support():
    X, _ = waves(20)
    model = SVR(epsilon=1.0).fit(X, np.linspace(0, 1, 20))
    assert model.support_.shape == (0,) and model.dual_coef_.shape == (1, 0)
    assert model.support_kind_.shape == (0,) and model.n_support_ == [0]
    np.testing.assert_allclose(model.predict(X), 0.5)
    np.testing.assert_allclose(model.function_(X), 0.5)
    assert pickle.loads(pickle.dumps(model)).predict(X[:1]) == 0.5


@pytest.mark.parametrize("model", [SVR(C=1e12), NuSVR(C=1e12), SVR(C=1e12, epsilon=0.0)], ids=repr)
@pytest.mark.parametrize("kernel", ["linear", "rbf", Polynomial(3)], ids=repr)
def test_a_huge_price_ends_with_a_certificate(model, kernel):
    X, y = waves(60, noise=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        got = clone(model).set_params(kernel=kernel, max_iter=300_000).fit(X, y)
    s = Scratch(got, np.asarray(got.kernel_(X)), y)
    assert np.isfinite(got.predict(X)).all() and got.solution_.gap >= 0
    assert got.solution_.converged or got.solution_.message
    if got.solution_.converged:  # up to what rounding of f costs at this price
        K = abs(np.asarray(got.kernel_(X)))
        assert s.primal - s.dual <= 2e-3 * abs(s.primal) + 1e-14 * got.C * (K @ abs(s.a)).sum()


@pytest.mark.parametrize("model", [SVR(), NuSVR()], ids=repr)
def test_duplicates_that_contradict_and_unscaled_columns(model):
    X, y = waves(40)
    X2, y2 = np.vstack([X, X]), np.r_[y, -y]
    got = clone(model).fit(X2, y2)
    assert got.solution_.converged and abs(got.predict(X)).max() < 1.0
    wide = X * [1e6, 1e-6]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        for kernel in ("rbf", "linear"):
            far = clone(model).set_params(kernel=kernel, max_iter=200_000).fit(wide, y)
            assert np.isfinite(far.predict(wide)).all()


@pytest.mark.parametrize("kernel", [mercer.Constant(1.0), mercer.White(1.0)], ids=repr)
@pytest.mark.parametrize("model", MODELS[:6], ids=repr)
def test_constant_and_white_kernels(model, kernel):
    X, y = waves(40)
    for fit_intercept in (True, False):
        got = sharp(model).set_params(kernel=kernel, fit_intercept=fit_intercept).fit(X, y)
        K = np.asarray(kernel(X))
        s = Scratch(got, K, y)
        np.testing.assert_allclose(s.primal, s.dual, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-6, 1e6, 1e140])
def test_targets_of_any_size(scale):
    X, y = waves(60)
    got = SVR(RBF(), 10.0 * scale, 0.05 * scale, tol=1e-4 * scale).fit(X, scale * y)
    one = SVR(RBF(), 10.0, 0.05, tol=1e-4).fit(X, y)
    np.testing.assert_allclose(got.predict(X) / scale, one.predict(X), atol=1e-3)
    assert got.solution_.converged


@pytest.mark.parametrize(
    "model",
    [
        *(cls(fit_intercept=offset) for cls in (SVR, NuSVR) for offset in (True, False)),
        *(mercer.KernelQuantileRegressor(fit_intercept=offset) for offset in (True, False)),
        mercer.KernelQuantileRegressor("linear"),
        mercer.KernelHuberRegressor(),
        mercer.KernelERM(loss="absolute"),
        FeatureMachineRegressor(),
    ],
    ids=repr,
)
def test_targets_whose_sums_overflow_are_refused_by_name(model):
    X = np.random.default_rng(6).normal(size=(40, 3))
    for y in (np.full(40, 1.7e308), np.where(np.arange(40) % 2, 1.7e308, -1.7e308)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(InvalidInput, match=f"^{type(model).__name__}: y holds .*larger u"):
                model.fit(X, y)
            if isinstance(model, SVR | NuSVR):
                with pytest.raises(InvalidInput, match=f"^{type(model).__name__}: y holds "):
                    clone(model).set_params(C=1e10).fit(X, 1e-10 * y)
                assert np.isfinite(clone(model).fit(X, 1e-10 * y).solution_.primal)
