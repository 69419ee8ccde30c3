"""bic, aic, degrees_of_freedom: numbers of the notes, of ordinary least squares, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.datasets import load_iris
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor

from mercer import (
    RBF,
    SVC,
    KernelERM,
    KernelHuberRegressor,
    KernelLogisticRegression,
    KernelRidge,
    KernelRidgeClassifier,
    Linear,
    Polynomial,
)
from mercer.errors import InvalidInput
from mercer.selection import aic, bic, degrees_of_freedom, information_criteria

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 3))
y = X @ [1.0, -2.0, 0.5] + 0.3 * rng.standard_normal(40)


def test_exercise_of_the_notes():
    """ℓ₁ = −100 with 3 parameters, ℓ₂ = −50 with 6: the richer model wins while 1.5 log n < 50."""
    turn = np.exp(100 / 3)
    assert bic(-50, 6, 0.99 * turn) > bic(-100, 3, 0.99 * turn)
    assert bic(-50, 6, 1.01 * turn) < bic(-100, 3, 1.01 * turn)
    assert bic(-100, 3, 7) == pytest.approx(-100 - 1.5 * np.log(7))
    assert aic(-100, 3) == -103 and isinstance(aic(-100, 3), float)
    assert np.allclose(bic([-1.0, -2.0], [1, 2], 10), [bic(-1, 1, 10), bic(-2, 2, 10)])


def test_relation_to_the_other_convention():
    model = LinearRegression().fit(X, y)
    found = information_criteria(model, X, y)
    rss = ((y - model.predict(X)) ** 2).sum()
    usual = 40 * np.log(rss / 40) + 4 * np.log(40)  # without the constant n(log 2π + 1)
    assert -2 * found.bic == pytest.approx(usual + 40 * (np.log(2 * np.pi) + 1))
    assert -2 * found.aic == pytest.approx(-2 * found.log_likelihood + 2 * 4)
    assert found.degrees_of_freedom == 4 and found.n_samples == 40


def test_likelihood_is_that_of_the_normal_density():
    model = KernelRidge(RBF(2.0), alpha=0.5).fit(X, y)
    residual = y - model.predict(X)
    known = information_criteria(model, X, y, noise_variance=0.2)
    assert known.log_likelihood == pytest.approx(norm(0, np.sqrt(0.2)).logpdf(residual).sum())
    best = information_criteria(model, X, y).log_likelihood
    assert best == pytest.approx(norm(0, (residual**2).mean() ** 0.5).logpdf(residual).sum())
    others = [
        information_criteria(model, X, y, noise_variance=v).log_likelihood
        for v in np.geomspace(1e-3, 10, 50)
    ]
    assert max(others) <= best


def test_ridge_counts_the_trace():
    K = RBF(2.0)(X)
    model = KernelRidge(RBF(2.0), alpha=0.5).fit(X, y)
    trace = np.trace(K @ np.linalg.inv(K + 0.5 * np.eye(40)))
    assert degrees_of_freedom(model) == pytest.approx(trace)
    both = KernelRidge(RBF(2.0), alpha=0.5).fit(X, np.c_[y, -y])
    assert degrees_of_freedom(both) == pytest.approx(2 * trace)
    each = KernelRidge(RBF(2.0), alpha=[0.5, 1e12]).fit(X, np.c_[y, -y])
    assert degrees_of_freedom(each) == pytest.approx(trace, rel=1e-6)
    given = KernelRidge("precomputed", alpha=0.5).fit(K, y)
    assert degrees_of_freedom(given, K) == pytest.approx(trace)
    a, b = information_criteria(model, X, y), information_criteria(given, K, y)
    assert a.bic == pytest.approx(b.bic, rel=1e-9)
    plain = KernelRidge(Linear(), alpha=1e-9, fit_intercept=True).fit(X, y)
    assert degrees_of_freedom(plain) == pytest.approx(4)
    least = information_criteria(LinearRegression().fit(X, y), X, y)
    assert information_criteria(plain, X, y).bic == pytest.approx(least.bic, rel=1e-6)


def test_several_targets_add_up():
    Y = np.c_[y, X[:, 0] + 0.1 * rng.standard_normal(40)]
    both = information_criteria(KernelRidge(alpha=0.5, kernel=RBF(2.0)).fit(X, Y), X, Y)
    single = [
        information_criteria(KernelRidge(RBF(2.0), 0.5).fit(X, t), X, t) for t in (Y[:, 0], Y[:, 1])
    ]
    assert both.log_likelihood == pytest.approx(sum(s.log_likelihood for s in single))
    assert both.degrees_of_freedom == pytest.approx(sum(s.degrees_of_freedom for s in single))


def test_weight_is_repetition():
    weight = rng.integers(0, 4, 40)
    rows = np.repeat(np.arange(40), weight)
    once = KernelRidge(Polynomial(2), 0.1).fit(X, y, sample_weight=weight)
    twice = KernelRidge(Polynomial(2), 0.1).fit(X[rows], y[rows])
    a = information_criteria(once, X, y, weight)
    b = information_criteria(twice, X[rows], y[rows])
    assert a.bic == pytest.approx(b.bic, rel=1e-9) and a.n_samples == len(rows)


def test_classifiers():
    P, labels = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=1000).fit(P, labels)
    found = information_criteria(model, P, labels)
    p = model.predict_proba(P)[np.arange(150), labels]
    assert found.log_likelihood == pytest.approx(np.log(p).sum())
    assert found.degrees_of_freedom == 2 * 5  # two of three classes, four columns and an offset
    two = labels < 2
    assert degrees_of_freedom(LogisticRegression().fit(P[two], labels[two])) == 5
    naive = information_criteria(GaussianNB().fit(P, labels), P, labels, n_parameters=24 + 2)
    assert naive.aic == pytest.approx(naive.log_likelihood - 26)
    weight = np.where(labels == 0, 0, 2)
    heavy = information_criteria(model, P, labels, weight)
    assert heavy.log_likelihood == pytest.approx(2 * np.log(p[labels > 0]).sum())


def hat_trace(K, h, alpha, offset):
    """tr (BᵀHB + alpha J)⁺BᵀHB for values B(a, b) = Ka + b."""
    n = len(K)
    B = np.c_[K, np.ones(n)] if offset else K
    J = np.zeros((B.shape[1], B.shape[1]))
    J[:n, :n] = alpha * K
    M = B.T @ (h[:, None] * B)
    return np.trace(np.linalg.lstsq(M + J, M, rcond=1e-13)[0])


@pytest.mark.parametrize("offset", [False, True], ids=["", "offset"])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "huber", "squared"])
def test_smooth_losses_count_the_trace_of_the_last_step(loss, offset):
    K, w = RBF(1.5)(X), rng.integers(0, 3, 40) + np.eye(40)[0]
    target = y if loss in ("huber", "squared") else np.where(y > 0, 1, -1)
    model = KernelERM(RBF(1.5), loss=loss, alpha=0.3, fit_intercept=offset, tol=1e-10)
    model.fit(X, target, sample_weight=w)
    values = model.decision_function(X) if target is not y else model.predict(X)
    h = w * model.loss_.curvature(target, values)
    trace = hat_trace(K, h, 0.3, offset)
    assert degrees_of_freedom(model) == pytest.approx(trace, rel=1e-4)
    rows = np.repeat(np.arange(40), w.astype(int))
    twice = KernelERM(RBF(1.5), loss=loss, alpha=0.3, fit_intercept=offset, tol=1e-10)
    twice.fit(X[rows], target[rows])
    assert degrees_of_freedom(twice) == pytest.approx(trace, rel=1e-4)
    given = KernelERM("precomputed", loss=loss, alpha=0.3, fit_intercept=offset, tol=1e-10)
    given.fit(K, target, sample_weight=w)
    assert degrees_of_freedom(given, K) == pytest.approx(trace, rel=1e-4)


def test_a_penalty_costs_logistic_regression_parameters():
    labels, alphas = y > 0, (1e-6, 1.0, 1e2, 1e8)
    for kernel, most in ((Linear(), 4), (RBF(1.0), 40)):
        spent = [
            degrees_of_freedom(KernelLogisticRegression(kernel, alpha=a).fit(X, labels))
            for a in alphas
        ]
        assert (np.diff(spent[1:]) < 0).all() and max(spent) < most
        assert spent[-1] == pytest.approx(1, abs=1e-3)
    model = KernelLogisticRegression(RBF(1.0), alpha=0.1).fit(X, labels)
    found = information_criteria(model, X, labels)
    p = model.predict_proba(X)[np.arange(40), labels.astype(int)]
    assert found.log_likelihood == pytest.approx(np.log(p).sum())
    assert found.aic == pytest.approx(np.log(p).sum() - model.degrees_of_freedom())
    robust = KernelHuberRegressor(RBF(1.0), alpha=0.1, delta=0.1).fit(X, y)
    assert 1 < degrees_of_freedom(robust) < (~robust.outliers_).sum()


def test_softmax_counts_all_classes_but_one():
    P, labels = load_iris(return_X_y=True)
    P, labels = P[::3], rng.permutation(labels[::3])
    loose, tight = (KernelLogisticRegression(Linear(), alpha=a).fit(P, labels) for a in (1e-8, 1e8))
    assert degrees_of_freedom(loose) == pytest.approx(2 * 5, abs=1e-3)
    assert degrees_of_freedom(tight) == pytest.approx(2, abs=1e-3)
    model = KernelLogisticRegression(Linear(), alpha=1.0, fit_intercept=False).fit(P, labels)
    p = model.predict_proba(P)
    H = np.zeros((12, 12))
    for x, q in zip(P, p, strict=True):
        H += np.kron(np.diag(q) - np.outer(q, q), np.outer(x, x))
    exact = np.trace(np.linalg.solve(H + np.eye(12), H))
    assert degrees_of_freedom(model) == pytest.approx(exact, rel=0.1)


def test_losses_with_kinks_have_no_trace():
    model = KernelERM(RBF(1.0), loss="hinge").fit(X, y > 0)
    assert not hasattr(model, "degrees_of_freedom")
    with pytest.raises(InvalidInput, match="n_parameters"):
        degrees_of_freedom(model)


def test_zeros_of_sparse_weights_are_not_counted():
    model = Lasso(alpha=0.8).fit(X, y)
    assert degrees_of_freedom(model) == np.count_nonzero(model.coef_) + 1 < 4


def test_a_model_that_interpolates_is_refused_unless_the_noise_is_known():
    model = KernelRidge(RBF(0.1), alpha=1e-10).fit(X, y)
    with pytest.raises(InvalidInput, match=r"no bound.*noise_variance"):
        information_criteria(model, X, y)
    assert np.isfinite(information_criteria(model, X, y, noise_variance=0.1).bic)
    with pytest.raises(InvalidInput, match="no bound"):  # constant targets, met exactly
        information_criteria(LinearRegression().fit(X, np.zeros(40)), X, np.zeros(40))


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: bic(np.nan, 1, 1), "log_likelihood"),
        (lambda: bic("a", 1, 1), "log_likelihood"),
        (lambda: bic(0.0, -1, 1), "n_parameters"),
        (lambda: bic(0.0, 1, 0), "n_samples"),
        (lambda: bic(0.0, 1, np.inf), "n_samples"),
        (lambda: aic(None, 1), "log_likelihood"),
        (lambda: bic([1, 2, 3], [1, 2], 5), r"log_likelihood \(3,\), n_parameters \(2,\); give"),
        (lambda: aic([1, 2, 3], [1, 2]), "shapes"),
        (lambda: aic(0.0, [[1], [1, 2]]), "n_parameters"),
        (lambda: bic(LinearRegression().fit(X, y), X, y), "information_criteria.*bic"),
        (lambda: degrees_of_freedom(KNeighborsRegressor().fit(X, y)), "n_parameters"),
        (lambda: information_criteria(SVC().fit(X, y > 0), X, y > 0, n_parameters=3), "proba"),
        (lambda: information_criteria(LinearRegression().fit(X, y), X[:5], y), "5 rows"),
        (
            lambda: information_criteria(LinearRegression().fit(X, y), X, y, noise_variance=0),
            "noise",
        ),
        (lambda: information_criteria(LinearRegression().fit(X, y), X, np.c_[y, y]), "shape"),
        (
            lambda: information_criteria(LinearRegression().fit(X, y), X, y, n_parameters=-1),
            "n_par",
        ),
        (lambda: information_criteria(LogisticRegression().fit(X, y > 0), X, y), "no class"),
        (lambda: information_criteria(KernelRidgeClassifier().fit(X, y > 0), X, y > 0), "proba"),
    ],
)
def test_refusals(call, word):
    with pytest.raises(InvalidInput, match=word):
        call()


def test_a_probability_of_zero_is_minus_infinity():
    P, labels = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=1000).fit(P, labels)
    model.coef_ = 1e6 * model.coef_
    assert information_criteria(model, P, labels).bic == -np.inf
