"""KernelLogisticRegression: against scikit-learn, probabilities, separable data, classes (S11)."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV

import mercer
from mercer import RBF, KernelERM, KernelLogisticRegression, Polynomial
from mercer.errors import InvalidInput
from mercer.estimator.values import log_probabilities
from mercer.solvers import Solution


def peer(alpha, **options):
    return LogisticRegression(C=1 / alpha, tol=1e-12, max_iter=10_000, **options)


def noisy(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) * [1.0, 3.0, 0.3] + [5.0, 0.0, -2.0]
    return X, (X[:, 0] - 5 + 0.3 * X[:, 1] + rng.standard_normal(n) > 0).astype(int)


# ------------------------------------------------------------------------ scikit-learn
@pytest.mark.parametrize("alpha", [1e-2, 1.0, 50.0])
@pytest.mark.parametrize("offset", [True, False])
def test_linear_is_logistic_regression(alpha, offset):
    X, y = noisy()
    w = np.random.default_rng(1).uniform(0.2, 3, 60)
    ours = KernelLogisticRegression("linear", alpha, offset, tol=1e-12).fit(X, y, w)
    theirs = peer(alpha, fit_intercept=offset, solver="newton-cholesky").fit(X, y, w)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-6)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-7)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("offset", [True, False])
def test_linear_is_multinomial_regression(offset):
    X, y = load_iris(return_X_y=True)
    ours = KernelLogisticRegression("linear", 0.5, offset, tol=1e-12).fit(X, y)
    theirs = peer(0.5, fit_intercept=offset, solver="newton-cg").fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    expected = theirs.intercept_ - theirs.intercept_.mean()
    np.testing.assert_allclose(ours.intercept_, expected, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-7)
    assert ours.coef_.shape == (3, 4) and ours.dual_coef_.shape == (150, 3)


def test_wide_real_data():
    X, y = load_breast_cancer(return_X_y=True)  # columns from 1e-3 to 4e3
    ours = KernelLogisticRegression("linear", 1.0).fit(X, y)
    assert ours.solution_.converged
    theirs = peer(1.0, solver="newton-cholesky").fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert (
        ours.solution_.primal
        <= 0.5 * (theirs.coef_**2).sum() + len(y) * log_loss(y, theirs.predict_proba(X)) + 1e-6
    )


# ------------------------------------------------------------------------ probabilities
def test_probabilities_are_those_of_the_values():
    X, y = noisy()
    two = KernelLogisticRegression(RBF(1.0), 0.3).fit(X, y)
    f = two.decision_function(X)
    np.testing.assert_allclose(two.predict_proba(X)[:, 1], expit(f), rtol=1e-12)
    np.testing.assert_allclose(two.predict_proba(X).sum(1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(two.predict(X), (f > 0).astype(int))
    three = KernelLogisticRegression(RBF(1.0), 0.3).fit(*load_iris(return_X_y=True))
    Z = load_iris().data[::7]
    expected = softmax(three.decision_function(Z), axis=1)
    np.testing.assert_allclose(three.predict_proba(Z), expected, rtol=1e-10)
    np.testing.assert_allclose(three.predict_log_proba(Z), np.log(expected), atol=1e-10)


def test_log_probabilities_keep_their_digits():
    far = log_probabilities(np.array([800.0, -800.0, 0.0]))
    np.testing.assert_allclose(far, [[-800, 0], [0, -800], [-np.log(2)] * 2], atol=1e-300)
    assert log_probabilities(np.array([40.0]))[0, 1] == pytest.approx(-np.exp(-40.0))


def test_calibration_in_the_large():
    """With an offset Σ w(p − y) = 0: probabilities average to the shares of the classes."""
    X, y = noisy(80)
    for alpha in (1e-3, 1.0, 1e6):
        model = KernelLogisticRegression(RBF(2.0), alpha).fit(X, y)
        assert model.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), rel=1e-9)
    X, y = load_iris(return_X_y=True)
    y = np.minimum(y, np.arange(150) // 60)  # shares that differ
    model = KernelLogisticRegression(RBF(2.0), 0.1).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).mean(0), np.bincount(y) / 150, rtol=1e-8)


# ------------------------------------------------------------------------- hard problems
@pytest.mark.parametrize("alpha", [1e-12, 1e-6, 1e12])
@pytest.mark.parametrize("kernel", [RBF(1.0), "linear", Polynomial(2)], ids=str)
@pytest.mark.parametrize("classes", [2, 3])
def test_separable_data_stay_finite(alpha, kernel, classes):
    X = np.arange(30.0)[:, None] / 10
    y = np.arange(30) * classes // 30
    model = KernelLogisticRegression(kernel, alpha).fit(X, y)
    assert model.solution_.converged
    p = model.predict_proba(X)
    assert np.isfinite(p).all() and (p >= 0).all()
    if alpha < 1:
        assert model.score(X, y) == 1.0
    else:
        np.testing.assert_allclose(p, 1 / classes, atol=1e-6)


def test_xor_and_two_points():
    X, y = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], float), [0, 1, 1, 0]
    assert KernelLogisticRegression(RBF(0.5), 0.1).fit(X, y).score(X, y) == 1.0
    two = KernelLogisticRegression("linear", 1.0).fit([[-1.0], [1.0]], ["n", "p"])
    # f = wx + b with b = 0: w = 2σ(−w), the root of w(1 + e^w) = 2
    w = two.coef_[0, 0]
    assert w * (1 + np.exp(w)) == pytest.approx(2.0, rel=1e-9)
    assert two.intercept_ == pytest.approx(0.0, abs=1e-12)


def test_contradicting_labels_of_one_point():
    X, y = np.zeros((5, 1)), [0, 0, 0, 1, 1]
    model = KernelLogisticRegression(RBF(1.0), 1e-6).fit(X, y)
    np.testing.assert_allclose(model.predict_proba([[0.0]]), [[0.6, 0.4]], atol=1e-8)
    three = KernelLogisticRegression(RBF(1.0), 1e-6).fit(X, [0, 0, 1, 1, 2])
    np.testing.assert_allclose(three.predict_proba([[0.0]]), [[0.4, 0.4, 0.2]], atol=1e-8)


def test_many_rows_few_columns_in_little_memory():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 5))
    y = (X @ [1.0, -1, 0.5, 0, 2] + rng.logistic(size=20_000) > 0).astype(int)
    with mercer.config(memory="20MB"):  # the Gram matrix would take 3.2 GB
        model = KernelLogisticRegression("linear", 1.0).fit(X, y)
    assert model.solution_.converged and model.n_iter_ <= 10
    np.testing.assert_allclose(model.coef_[0], [1, -1, 0.5, 0, 2], atol=0.1)


# -------------------------------------------------------------------- weights and classes
def test_weights_repeat_and_absent_classes_are_no_classes():
    X, y = load_iris(return_X_y=True)
    w = np.random.default_rng(0).integers(0, 3, 150)
    w[[0, 60, 120]] = 1
    model = KernelLogisticRegression(RBF(1.0), 0.1).fit(X, y, w)
    at = np.repeat(np.arange(150), w)
    again = KernelLogisticRegression(RBF(1.0), 0.1).fit(X[at], y[at])
    np.testing.assert_allclose(model.decision_function(X), again.decision_function(X), atol=1e-8)
    model = KernelLogisticRegression(RBF(1.0), 0.1).fit(X, y, (y < 2).astype(float))
    np.testing.assert_array_equal(model.classes_, [0, 1])
    assert model.dual_coef_.shape == (150,) and (model.dual_coef_[y == 2] == 0).all()
    balanced = KernelLogisticRegression(RBF(1.0), 0.1, class_weight="balanced").fit(
        X[:120], y[:120]
    )
    by_row = np.array([50.0, 50.0, 20.0])
    by_row = 120 / (3 * by_row)
    expected = KernelLogisticRegression(RBF(1.0), 0.1).fit(X[:120], y[:120], by_row[y[:120]])
    np.testing.assert_allclose(balanced.dual_coef_, expected.dual_coef_, atol=1e-9)


def test_the_same_as_erm_with_the_logistic_loss():
    for X, y in (noisy(), load_iris(return_X_y=True)):
        one = KernelLogisticRegression(RBF(1.0), 0.2).fit(X, y)
        two = KernelERM(RBF(1.0), "logistic", 0.2).fit(X, y)
        np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))
        np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
        np.testing.assert_array_equal(one.predict_log_proba(X), two.predict_log_proba(X))


def test_labels_of_any_kind_and_errors_by_name():
    X, y = noisy()
    for labels in (np.where(y, "yes", "no"), y.astype(bool), y - 7, y.astype(float)):
        model = KernelLogisticRegression("linear").fit(X, labels)
        assert model.classes_.dtype == np.unique(labels).dtype
        assert set(model.predict(X)) <= set(labels)
    with pytest.raises(InvalidInput, match=r"KernelLogisticRegression.*at least 2 classes"):
        KernelLogisticRegression().fit(X, np.ones(60))
    with pytest.raises(InvalidInput, match=r"KernelLogisticRegression: solver='lbfgs'"):
        KernelLogisticRegression(solver="lbfgs").fit(X, y)
    with pytest.raises(InvalidInput, match=r"KernelLogisticRegression: alpha=-1"):
        KernelLogisticRegression(alpha=-1).fit(X, y)
    with pytest.raises(InvalidInput, match="missing"):
        KernelLogisticRegression().fit(X, np.where(y, np.nan, 1.0))


# ---------------------------------------------------------------------------------- life
def test_grids_calibration_files_and_copies(tmp_path):
    X, y = load_iris(return_X_y=True)
    grid = GridSearchCV(
        KernelLogisticRegression(), {"kernel__length_scale": [0.3, 3.0], "alpha": [0.1, 1.0]}, cv=3
    ).fit(X, y)
    assert grid.best_score_ > 0.93
    calibrated = CalibratedClassifierCV(KernelLogisticRegression(alpha=0.1), cv=3).fit(X, y)
    assert calibrated.score(X, y) > 0.93
    model = KernelLogisticRegression(RBF(1.0), 0.1).fit(X, y)
    mercer.save(model, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert isinstance(again.solution_, Solution) and again.solution_.converged
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.loo(), model.loo())
    assert repr(clone(model)) == repr(model)


def test_loo_of_two_classes_predicts_the_left_out():
    """Approximate leave-one-out log loss is near to the true one, far from that of the fit."""
    X, y = noisy(50)
    model = KernelLogisticRegression(RBF(1.5), 0.1).fit(X, y)
    true = np.empty(50)
    for i in range(50):
        rest = np.delete(np.arange(50), i)
        true[i] = clone(model).fit(X[rest], y[rest]).decision_function(X[i : i + 1])[0]

    def loss(f):
        return log_loss(y, expit(f))

    got = model.loo_decision_function()
    fitted, left_out, approximate = loss(model.decision_function(X)), loss(true), loss(got)
    assert abs(approximate - left_out) < 0.1 * (left_out - fitted)
    assert np.mean((got > 0) == (true > 0)) >= 0.98
    np.testing.assert_array_equal(model.loo(X), model.classes_[(got > 0).astype(int)])
    np.testing.assert_allclose(model.loo_proba()[:, 1], expit(got))
