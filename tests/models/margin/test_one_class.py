"""OneClassSVM: scikit-learn, objectives from scratch, weights, shares, scores, degenerate data."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import svm
from sklearn.base import clone, is_outlier_detector
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import RBF, OneClassSVM, Polynomial
from mercer.errors import InvalidInput, NotConverged, NotPositiveDefinite
from tests.models.words import alike, words

SHARES = (0.02, 0.1, 0.35, 0.5, 0.9, 1.0)


def cloud(n=100, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def fitted(nu=0.3, kernel="rbf", X=None, w=None, **options):
    X = cloud() if X is None else X
    return OneClassSVM(kernel, nu, tol=1e-9, **options).fit(X, sample_weight=w)


class Scratch:
    """The two objectives of a fitted model, from its attributes and the formula."""

    def __init__(self, model, K, w=None):
        w = np.ones(len(K)) if w is None else np.asarray(w, dtype=float)
        a = np.zeros(len(K))
        a[model.support_] = model.dual_coef_[0]
        self.a, self.w, self.f, self.level = a, w, K @ a, model.offset_[0]
        lacking = np.maximum(0, self.level - self.f)
        self.primal = 0.5 * a @ self.f - model.nu * w.sum() * self.level + w @ lacking
        self.dual = -0.5 * a @ self.f


# ------------------------------------------------------------------------------ answers
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("nu", SHARES[:-1])
def test_agrees_with_scikit_learn(nu, kernel):
    X = cloud(103) + (5.0 if kernel == "linear" else 0.0)  # νn is no whole number: ρ is unique
    ours = {"rbf": "rbf", "linear": "linear", "poly": Polynomial(2)}[kernel]
    gamma = "scale" if kernel == "rbf" else 1.0
    theirs = svm.OneClassSVM(kernel=kernel, nu=nu, degree=2, coef0=1.0, gamma=gamma, tol=1e-10)
    theirs.fit(X)
    got = fitted(nu, ours, X)
    new = cloud(50, seed=1) + (5.0 if kernel == "linear" else 0.0)
    expected = theirs.score_samples(new)
    size = abs(expected).max()
    # LIBSVM keeps kernel values in float32, so its answers have about four digits
    np.testing.assert_allclose(got.score_samples(new), expected, atol=1e-4 * size)
    np.testing.assert_allclose(got.offset_, theirs.offset_, atol=1e-4 * size)
    np.testing.assert_allclose(
        got.decision_function(new), theirs.decision_function(new), atol=2e-4 * size
    )
    clear = abs(theirs.decision_function(new)) > 1e-3 * size
    np.testing.assert_array_equal(got.predict(new)[clear], theirs.predict(new)[clear])
    K, a = np.asarray(got.kernel_(X)), np.zeros(len(X))
    a[theirs.support_] = theirs.dual_coef_[0]
    assert Scratch(got, K).dual >= -0.5 * a @ K @ a * (1 + 1e-6)


def test_attributes_are_those_of_scikit_learn():
    X = cloud(80, 6)
    got, theirs = fitted(0.4, X=X), svm.OneClassSVM(nu=0.4, tol=1e-10).fit(X)
    np.testing.assert_array_equal(got.support_, theirs.support_)
    np.testing.assert_allclose(got.dual_coef_, theirs.dual_coef_, atol=1e-4)
    np.testing.assert_allclose(got.intercept_, theirs.intercept_, atol=1e-4)
    for name in ("dual_coef_", "intercept_", "offset_", "n_support_", "support_vectors_"):
        assert getattr(got, name).shape == getattr(theirs, name).shape, name
        assert getattr(got, name).dtype == getattr(theirs, name).dtype, name
    assert got.n_iter_ >= 1 and got.predict(X).dtype == theirs.predict(X).dtype
    assert is_outlier_detector(got) and not hasattr(got, "coef_")
    line = fitted(0.4, "linear", X + 4)
    np.testing.assert_allclose(
        line.coef_, svm.OneClassSVM(kernel="linear", nu=0.4, tol=1e-10).fit(X + 4).coef_, rtol=1e-4
    )


@pytest.mark.parametrize("nu", SHARES)
@pytest.mark.parametrize("weighted", [False, True])
def test_primal_and_dual_from_scratch(nu, weighted):
    X = cloud(120)
    w = np.random.default_rng(1).uniform(0.2, 3, 120) if weighted else None
    model = fitted(nu, X=X, w=w)
    s, solution = Scratch(model, np.asarray(model.kernel_(X)), w), model.solution_
    assert solution.converged and 0 <= solution.gap <= 1e-7 * abs(s.primal)
    np.testing.assert_allclose([solution.primal, solution.dual], [s.primal, s.dual], rtol=1e-8)
    np.testing.assert_allclose(s.primal, s.dual, rtol=1e-7)
    np.testing.assert_allclose(s.a.sum(), nu * s.w.sum(), rtol=1e-12)
    assert (s.a >= 0).all() and (s.a <= s.w).all()
    assert (s.a[s.f > s.level + 1e-6] == 0).all()
    np.testing.assert_array_equal(s.a[s.f < s.level - 1e-6], s.w[s.f < s.level - 1e-6])
    kinds = np.where(s.a == s.w, "bound", "margin")[model.support_]
    np.testing.assert_array_equal(model.support_kind_, kinds)


@pytest.mark.parametrize("tol", [1e-9, 1e-3, 0.1])
@pytest.mark.parametrize("nu", SHARES)
def test_nu_is_between_the_share_of_outliers_and_that_of_support_vectors(nu, tol):
    """Exactly, at any tolerance: a margin point is never an outlier by rounding."""
    for n in (7, 100, 700):
        X = cloud(n)
        w = np.random.default_rng(0).integers(1, 4, n).astype(float)
        for weight in (None, w):
            share = np.ones(n) / n if weight is None else w / w.sum()
            model = OneClassSVM("rbf", nu, tol=tol).fit(X, sample_weight=weight)
            assert share[model.predict(X) == -1].sum() <= nu + 1e-12
            assert share[model.support_].sum() >= nu - 1e-12
            inside = model.support_[model.support_kind_ == "margin"]
            assert (model.predict(X)[inside] == 1).all()


def test_the_level_is_far_from_the_origin():
    """Without outliers f/‖f‖ separates the points from the origin with the largest distance."""
    X = cloud(30, 2) * 0.3 + [3.0, 1.0]
    model = fitted(1e-6, "linear", X)
    w, level = model.coef_[0], model.offset_[0]
    angles = np.linspace(0, 2 * np.pi, 20001)
    directions = np.stack([np.cos(angles), np.sin(angles)])
    nearest = (X @ directions).min(axis=0).max()
    np.testing.assert_allclose(level / np.linalg.norm(w), nearest, rtol=1e-4)


# ------------------------------------------------------------------------------ weights
@pytest.mark.parametrize("nu", SHARES[:-1])
def test_a_weight_is_a_repetition_and_zero_is_absence(nu):
    X = cloud(60)
    w = np.random.default_rng(2).integers(0, 4, 60)
    at = np.repeat(np.arange(60), w)
    weighted, repeated = fitted(nu, RBF(1.2), X, w), fitted(nu, RBF(1.2), X[at])
    new = cloud(40, seed=9)
    np.testing.assert_allclose(weighted.score_samples(new), repeated.score_samples(new), rtol=1e-6)
    np.testing.assert_allclose(weighted.offset_, repeated.offset_, rtol=1e-6)
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))
    assert not set(weighted.support_) & set(np.flatnonzero(w == 0))


def test_a_weight_for_all_changes_the_unit_only():
    X = cloud()
    np.testing.assert_allclose(
        fitted(w=7.0).decision_function(X), 7 * fitted().decision_function(X), atol=1e-6
    )


# ------------------------------------------------------------------------- kinds of data
def test_precomputed_sparse_frames_and_float32():
    X, new, kernel = cloud(70), cloud(20, seed=3), RBF(1.3)
    first = fitted(0.2, kernel, X)
    expected = first.decision_function(new)
    gram = fitted(0.2, "precomputed", np.asarray(kernel(X)))
    np.testing.assert_allclose(gram.decision_function(kernel(new, X)), expected, atol=1e-7)
    sparse = fitted(0.2, kernel, sp.csr_matrix(X))
    np.testing.assert_allclose(sparse.decision_function(sp.csr_matrix(new)), expected, atol=1e-6)
    frame = fitted(0.2, kernel, pd.DataFrame(X, columns=list("abc")))
    got = frame.decision_function(pd.DataFrame(new, columns=list("abc")))
    np.testing.assert_allclose(got, expected)
    single = fitted(0.2, kernel, X.astype(np.float32))
    np.testing.assert_allclose(single.decision_function(new), expected, atol=1e-3)
    np.testing.assert_allclose(first.function_(new), expected)


def test_words_are_points_too():
    texts = words(60)
    model = OneClassSVM(mercer.FromFunction(alike).normalized(), 0.2).fit(texts)
    assert set(model.predict(texts)) <= {-1, 1}
    assert (model.predict(texts) == -1).mean() <= 0.2
    assert len(model.support_vectors_) == len(model.support_)


def test_an_odd_point_is_found():
    X = np.vstack([cloud(200, 2), [[9.0, 9.0]]])
    model = OneClassSVM(RBF(1.0), 0.05)
    said = model.fit_predict(X)
    np.testing.assert_array_equal(said, model.predict(X))
    assert said[-1] == -1 and model.score_samples(X).argmin() == 200
    np.testing.assert_allclose(model.score_samples(X), model.decision_function(X) + model.offset_)
    weights = np.ones(201)
    weights[-1] = 50.0  # not odd any more: it counts as fifty
    assert model.fit_predict(X, sample_weight=weights)[-1] == 1


def test_indefinite_matrices_are_refused():
    A = cloud(30, 30)
    np.fill_diagonal(A, 1.0)
    with pytest.raises(NotPositiveDefinite, match="OneClassSVM"):
        OneClassSVM("precomputed").fit(A + A.T)
    with pytest.raises(InvalidInput, match="square"):
        OneClassSVM("precomputed").fit(cloud(30))


# -------------------------------------------------------------------------- degenerate data
@pytest.mark.parametrize("nu", SHARES)
def test_one_point_and_points_that_coincide(nu):
    one = fitted(nu, RBF(), [[1.0, 2.0]])
    np.testing.assert_array_equal(one.support_, [0])
    np.testing.assert_allclose(one.dual_coef_, [[nu]])
    assert one.predict([[1.0, 2.0]]) == 1 and one.predict([[9.0, 9.0]]) == -1
    same = fitted(nu, RBF(), np.ones((20, 2)))
    np.testing.assert_allclose(same.dual_coef_.sum(), 20 * nu)
    assert (same.predict(np.ones((20, 2))) == 1).all()


@pytest.mark.parametrize("kernel", [mercer.Constant(2.0), mercer.White(1.0)], ids=repr)
def test_constant_and_white_kernels(kernel):
    X = cloud(40)
    model = fitted(0.25, kernel, X)
    s = Scratch(model, np.asarray(kernel(X)))
    np.testing.assert_allclose(s.primal, s.dual, rtol=1e-6)
    if isinstance(kernel, mercer.Constant):
        assert (model.predict(X) == 1).all()


def test_a_kernel_that_is_zero():
    model = fitted(0.5, "precomputed", np.zeros((6, 6)))
    assert model.solution_.converged and model.offset_ == 0
    np.testing.assert_array_equal(model.predict(np.zeros((2, 6))), 1)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_huge_and_tiny_kernels_end_with_a_certificate(scale):
    X = cloud(60)
    K = scale * np.asarray(RBF()(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        model = OneClassSVM("precomputed", 0.3, max_iter=200_000).fit(K)
    s = Scratch(model, K)
    np.testing.assert_allclose([model.solution_.primal, model.solution_.dual], [s.primal, s.dual])
    assert (s.primal - s.dual) <= 2e-3 * abs(s.primal) or not model.solution_.converged
    assert (model.predict(K) == -1).mean() <= 0.3


def test_unscaled_columns():
    X = cloud(80) * [1e6, 1.0, 1e-6]
    for kernel in ("rbf", Polynomial(2)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            model = OneClassSVM(kernel, 0.2, max_iter=200_000).fit(X)
        assert np.isfinite(model.decision_function(X)).all()


# ---------------------------------------------------------------------- limits and refusals
def test_a_fit_that_was_stopped_says_so():
    with pytest.warns(NotConverged, match="max_iter"):
        model = OneClassSVM("rbf", 0.3, max_iter=2).fit(cloud(100))
    s = Scratch(model, np.asarray(model.kernel_(cloud(100))))
    np.testing.assert_allclose([model.solution_.primal, model.solution_.dual], [s.primal, s.dual])
    assert model.solution_.gap > 0
    assert (model.predict(cloud(100)) == -1).mean() <= 0.3  # the sum holds all the same


def test_the_warning_has_the_numbers_of_the_certificate():
    for limit in ({"max_iter": 3}, {"max_iter": 40}):
        with pytest.warns(NotConverged, match=f"stopped by {next(iter(limit))}") as caught:
            model = OneClassSVM("rbf", 0.3, **limit).fit(cloud(700))
        text, solution = str(caught[0].message), model.solution_
        assert f"KKT violation {solution.residual:.2g}, gap {solution.gap:.2g}" in text
        assert "lower C" not in text


@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-4])
@pytest.mark.parametrize("nu", [0.05, 0.5])
def test_the_verdict_is_on_the_level_that_is_stored(nu, tol):
    X = cloud(700)
    model = OneClassSVM(RBF(1.0), nu, tol=tol).fit(X)
    s = Scratch(model, np.asarray(RBF(1.0)(X)))
    above, below = s.f - s.level, s.level - s.f
    worst = max(above[s.a > 0].max(), below[s.a < s.w].max(), 0.0)
    np.testing.assert_allclose(model.solution_.residual, worst, atol=1e-9)
    np.testing.assert_allclose(model.solution_.gap, s.primal - s.dual, atol=1e-8)
    assert model.solution_.converged and worst <= tol
    assert s.primal - s.dual <= tol * max(abs(s.primal), abs(s.dual)) * (1 + 1e-9)


@pytest.mark.parametrize("nu", [0.0, -0.5, 1.0001, np.nan, np.inf, "half", None, True])
def test_a_share_that_is_none_is_refused(nu):
    with pytest.raises(InvalidInput, match=r"OneClassSVM: nu=.*in \(0, 1\]"):
        OneClassSVM(nu=nu).fit(cloud(20))


@pytest.mark.parametrize("params", [{"tol": 0.0}, {"max_iter": 0}, {"max_time": -1.0}])
def test_parameters_that_make_no_sense_are_refused(params):
    with pytest.raises(InvalidInput, match=f"OneClassSVM: {next(iter(params))}"):
        OneClassSVM(**params).fit(cloud(20))


def test_data_that_make_no_sense_are_refused():
    X = cloud(20)
    for weight in (-np.ones(20), np.zeros(20), np.ones(19), np.full(20, np.nan)):
        with pytest.raises(InvalidInput, match="OneClassSVM"):
            OneClassSVM().fit(X, sample_weight=weight)
    for bad in (X[:0], X * np.nan, None, [["a"]]):
        with pytest.raises(ValueError):
            OneClassSVM().fit(bad)
    with pytest.raises(NotFittedError):
        OneClassSVM().predict(X)
    with pytest.raises(AttributeError):
        OneClassSVM().offset_  # noqa: B018
    model = OneClassSVM().fit(X)
    before = model.decision_function(X)
    with pytest.raises(InvalidInput):
        model.fit(np.where(X == X[0, 0], np.inf, X))
    np.testing.assert_array_equal(model.decision_function(X), before)


# ------------------------------------------------------------------------ files and tools
@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
def test_saved_loaded_pickled_cloned(kernel, tmp_path):
    X = cloud(40)
    X = np.asarray(RBF()(X)) if kernel == "precomputed" else X
    model = OneClassSVM(kernel, 0.2).fit(X)
    mercer.save(model, tmp_path / "m.mercer")
    for again in (mercer.load(tmp_path / "m.mercer"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        np.testing.assert_array_equal(again.offset_, model.offset_)
    assert not hasattr(clone(model), "support_")


def test_in_a_pipeline():
    X = cloud(60) * [1.0, 100.0, 0.01]
    said = make_pipeline(StandardScaler(), OneClassSVM(nu=0.1)).fit_predict(X)
    assert 0 <= (said == -1).mean() <= 0.1


@pytest.mark.parametrize("weights", [np.full(40, 1e300), np.r_[1e200, np.ones(39)]])
def test_weights_that_overflow_are_refused_with_a_cure(weights):
    X = np.random.default_rng(0).standard_normal((40, 2))
    with pytest.raises(InvalidInput, match=r"sample_weight up to .* divide all weights"):
        OneClassSVM(RBF(1.0)).fit(X, sample_weight=weights)
    plain = OneClassSVM(RBF(1.0), tol=1e-9).fit(X, sample_weight=weights / weights.max() + 1)
    large = OneClassSVM(RBF(1.0), tol=1e-9).fit(
        X, sample_weight=1e9 * (weights / weights.max() + 1)
    )
    np.testing.assert_allclose(large.decision_function(X), 1e9 * plain.decision_function(X), atol=1)
