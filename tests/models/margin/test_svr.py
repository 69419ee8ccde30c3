"""SVR and NuSVR against scikit-learn and their own objectives, with weights: S7, S12, C1."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer import RBF, SVR, NuSVR, Polynomial
from mercer.errors import ModelFileError
from tests.models.margins import MODELS, Scratch, sharp, theirs, waves


# ------------------------------------------------------------------------------ answers
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_agrees_with_scikit_learn(model, kernel):
    """S7 against another implementation."""
    X, y = waves()
    ours = {"rbf": "rbf", "linear": "linear", "poly": Polynomial(2)}[kernel]
    options = {"kernel": kernel, "degree": 2, "coef0": 1.0}
    options["gamma"] = "scale" if kernel == "rbf" else 1.0
    got = sharp(model).set_params(kernel=ours).fit(X, y)
    expected = theirs(model, **options).fit(X, y)
    new = waves(40, seed=5)[0]
    # LIBSVM keeps kernel values in float32, so its answers have about four digits
    np.testing.assert_allclose(got.predict(new), expected.predict(new), atol=2e-4)
    objective = Scratch(got, np.asarray(got.kernel_(X)), y)
    a = np.zeros(len(y))
    a[expected.support_] = expected.dual_coef_[0]
    K, epsilon = np.asarray(got.kernel_(X)), getattr(model, "epsilon", 0.0)
    dual = y @ a - 0.5 * a @ K @ a - epsilon * abs(a).sum()
    assert objective.dual >= dual - 1e-7 * abs(dual)


@pytest.mark.parametrize("model", [MODELS[0], MODELS[1], MODELS[5]], ids=repr)
def test_attributes_are_those_of_scikit_learn(model):
    """On data in general position, where the coefficients are unique."""
    X, y = waves(60, 8)
    got = sharp(model).fit(X, y)
    expected = theirs(model).fit(X, y)
    np.testing.assert_array_equal(got.support_, expected.support_)
    np.testing.assert_allclose(got.dual_coef_, expected.dual_coef_, atol=1e-4)
    np.testing.assert_allclose(got.intercept_, expected.intercept_, atol=1e-4)
    np.testing.assert_array_equal(got.support_vectors_, expected.support_vectors_)
    np.testing.assert_array_equal(got.n_support_, expected.n_support_)
    for name in ("dual_coef_", "intercept_", "n_support_"):
        assert getattr(got, name).shape == getattr(expected, name).shape
        assert getattr(got, name).dtype == getattr(expected, name).dtype
    assert isinstance(got.n_iter_, int) and got.n_iter_ >= 1
    assert got.score(X, y) == pytest.approx(expected.score(X, y), abs=1e-6)
    linear = sharp(model).set_params(kernel="linear").fit(X, y)
    np.testing.assert_allclose(
        linear.coef_, theirs(model, kernel="linear").fit(X, y).coef_, atol=1e-4
    )
    assert not hasattr(got, "coef_")


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_primal_and_dual_from_scratch(model, fit_intercept):
    """C1, S7: objectives, bounds and KKT classes, recomputed."""
    X, y = waves(120)
    w = np.random.default_rng(1).uniform(0.2, 3, 120)
    for weight in (None, w):
        got = sharp(model).set_params(fit_intercept=fit_intercept).fit(X, y, weight)
        s = Scratch(got, np.asarray(got.kernel_(X)), y, weight)
        solution = got.solution_
        assert solution.converged and 0 <= solution.gap <= 1e-8 * s.primal
        np.testing.assert_allclose([solution.primal, solution.dual], [s.primal, s.dual], rtol=1e-8)
        assert s.primal - s.dual <= 1e-7 * s.primal
        assert (abs(s.a) <= s.bound * (1 + 1e-12)).all()
        if fit_intercept:
            assert abs(s.a.sum()) <= 1e-9 * abs(s.a).sum()
        else:
            assert got.intercept_ == 0
        # the classes of KKT: inside the tube no coefficient, outside of it the largest
        inside, outside = abs(s.error) < s.epsilon - 1e-6, abs(s.error) > s.epsilon + 1e-6
        assert (s.a[inside] == 0).all()
        np.testing.assert_allclose(s.a[outside], (np.sign(s.error) * s.bound)[outside])
        kinds = np.where(abs(s.a) >= s.bound, "bound", "margin")[got.support_]
        np.testing.assert_array_equal(got.support_kind_, kinds)
        if isinstance(got, NuSVR):
            total = got.C * got.nu * (len(y) if weight is None else w.sum())
            assert abs(s.a).sum() <= total * (1 + 1e-9)
            assert got.epsilon_ < 1e-7 or abs(s.a).sum() >= total * (1 - 1e-7)


@pytest.mark.parametrize("model", [SVR(), NuSVR()], ids=repr)
def test_at_the_default_tolerance_the_gap_is_small_for_many_rows(model):
    """C1 for more rows than are solved to full precision."""
    X, y = waves(1500)
    got = clone(model).set_params(C=10.0).fit(X, y)
    s = Scratch(got, np.asarray(got.kernel_(X)), y)
    assert got.solution_.converged
    assert s.primal - s.dual <= 1.01e-3 * s.primal
    np.testing.assert_allclose([got.solution_.primal, got.solution_.dual], [s.primal, s.dual])


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_tube_of_the_width_that_nu_finds_has_the_same_solution(fit_intercept):
    """S7: the two parametrisations of one problem."""
    X, y = waves(100)
    nu = sharp(NuSVR(RBF(), 0.3, 5.0, fit_intercept=fit_intercept)).fit(X, y)
    assert nu.epsilon_ > 0.01
    tube = sharp(SVR(RBF(), 5.0, nu.epsilon_, fit_intercept=fit_intercept)).fit(X, y)
    np.testing.assert_allclose(nu.predict(X), tube.predict(X), atol=1e-7)
    np.testing.assert_allclose(nu.intercept_, tube.intercept_, atol=1e-7)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("nu", [0.02, 0.1, 0.3, 0.5, 0.8, 1.0])
def test_nu_is_between_the_share_outside_and_the_share_of_support_vectors(nu, fit_intercept):
    """S7: what ν means."""
    X, y = waves(200, noise=0.5)
    w = np.random.default_rng(0).integers(1, 4, 200).astype(float)
    for weight in (None, w):
        model = sharp(NuSVR(RBF(), nu, 3.0, fit_intercept=fit_intercept)).fit(X, y, weight)
        share = np.ones(200) / 200 if weight is None else w / w.sum()
        error = abs(y - model.predict(X))
        assert share[error > model.epsilon_ + 1e-6].sum() <= nu + 1e-9
        if model.epsilon_ > 1e-6:
            assert share[model.support_].sum() >= nu - 1e-9


def test_larger_nu_is_a_narrower_tube():
    X, y = waves(150, noise=0.3)
    widths = [NuSVR(RBF(), nu, tol=1e-6).fit(X, y).epsilon_ for nu in (0.05, 0.2, 0.5, 0.8)]
    assert (np.diff(widths) < 0).all()


def test_no_tube_and_one_expensive_error_is_the_interpolant():
    """S7, S12: the line itself where the targets are linear."""
    X, y = waves(25)
    model = sharp(SVR(RBF(), 1e6, 0.0)).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-6)
    line = sharp(SVR("linear", 1e5, 0.0)).fit(X, X @ [2.0, -1.0] + 3)
    np.testing.assert_allclose(line.coef_[0], [2, -1], atol=1e-6)
    np.testing.assert_allclose(line.intercept_, 3, atol=1e-6)


def test_without_a_tube_a_cheap_fit_is_the_median():
    y = np.array([0.0, 1.0, 2.0, 10.0, 100.0])
    model = sharp(SVR(RBF(), 1e-9, 0.0)).fit(np.arange(5.0)[:, None], y)
    np.testing.assert_allclose(model.predict([[2.0]]), 2.0, atol=1e-6)
    weighted = sharp(SVR(RBF(), 1e-9, 0.0)).fit(np.arange(5.0)[:, None], y, [1, 1, 1, 9, 1])
    np.testing.assert_allclose(weighted.predict([[2.0]]), 10.0, atol=1e-6)


# ------------------------------------------------------------------------------ weights
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_weight_is_a_repetition_and_zero_is_absence(model, fit_intercept):
    X, y = waves(60, 3)
    w = np.random.default_rng(2).integers(0, 4, 60)
    model = sharp(model).set_params(kernel=RBF(1.2), fit_intercept=fit_intercept)
    weighted = clone(model).fit(X, y, w)
    at = np.repeat(np.arange(60), w)
    repeated = clone(model).fit(X[at], y[at])
    new = waves(40, 3, seed=9)[0]
    np.testing.assert_allclose(weighted.predict(new), repeated.predict(new), atol=1e-6)
    np.testing.assert_allclose(weighted.solution_.primal, repeated.solution_.primal, rtol=1e-7)
    assert not set(weighted.support_) & set(np.flatnonzero(w == 0))
    if isinstance(model, NuSVR):
        np.testing.assert_allclose(weighted.epsilon_, repeated.epsilon_, atol=1e-6)


def test_weights_are_prices():
    X, y = waves(50)
    one = sharp(SVR(RBF(), 2.0)).fit(X, y)
    np.testing.assert_allclose(
        sharp(SVR(RBF(), 1.0)).fit(X, y, 2.0).predict(X), one.predict(X), atol=1e-6
    )


@pytest.mark.parametrize("rows", [0, 2])
@pytest.mark.parametrize("kind", [mercer.SVR, mercer.NuSVR, mercer.OneClassSVM, mercer.SVC])
def test_a_file_with_another_number_of_functions_is_refused(kind, rows, tmp_path):
    X = np.linspace(0.0, 1.0, 9)[:, None]
    model = kind().fit(X, (X[:, 0] > 0.5).astype(int))
    model.dual_coef_ = np.repeat(model.dual_coef_, rows, axis=0)
    mercer.save(model, tmp_path / "model")
    with pytest.raises(ModelFileError, match=kind.__name__):
        mercer.load(tmp_path / "model")
