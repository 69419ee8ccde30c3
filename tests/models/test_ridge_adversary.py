"""Ridge models against an adversary: certificates, budgets, odd data, failed fits."""

from __future__ import annotations

import tracemalloc
import warnings

import mpmath
import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV

import mercer
from mercer import RBF, KernelRidge, KernelRidgeClassifier, Linear, Minimum, Polynomial
from mercer.errors import InvalidInput, MemoryBudgetExceeded, NotConverged, NotPositiveDefinite
from tools.torture.certificates import Risk, exact, smooth_gap

N = 24
rng = np.random.default_rng(3)
X = rng.standard_normal((N, 3))
Y = np.c_[np.sin(X[:, 0]) + 3 + 0.1 * rng.standard_normal(N), X[:, 1] ** 2]


# --------------------------------------------------------------------- what a certificate owes
def _true_residual(model, data, y, alpha):
    K = model.kernel_(np.asarray(data, dtype=float))
    a = model.dual_coef_
    return np.linalg.norm(K @ a + alpha * a + model.intercept_ - y) / np.linalg.norm(y)


@pytest.mark.parametrize("alpha", [1e-9, 1e-7, 1e-3, "loo"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_converged_certificate_is_true_near_singularity(alpha, dtype):
    data = np.random.default_rng(0).standard_normal((120, 3)).astype(dtype)
    y = np.sin(data[:, 0].astype(float)) + 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KernelRidge(RBF(6.0), alpha).fit(data, y)
    true = _true_residual(model, data, y, model.alpha_)
    assert model.solution_.residual == pytest.approx(true, rel=0.5, abs=1e-11)
    assert model.solution_.converged == (true <= 1e-6)


def test_a_gap_above_the_tolerance_has_not_converged():
    """Of a tiny penalty the objective is tiny: a residual of 1e-12 may be a large part of it."""
    told = []
    for seed in range(30):
        own = np.random.default_rng(seed)
        data, y = 20.0 * own.standard_normal((10, 3)), 5.0 * own.standard_normal(10)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            model = KernelRidge(Polynomial(2), 1e-12, solver="cholesky").fit(data, y)
        K, a = exact(Polynomial(2)(data)), exact(model.dual_coef_)
        answer = (a, mpmath.mpf(0), K @ a, a @ (K @ a))
        one = exact(np.ones(10))
        problem = (K, exact(y), one, mpmath.mpf(1e-12), False, mercer.losses.Squared())
        primal, gap = smooth_gap(Risk(*problem, *answer))
        assert not model.solution_.converged or gap <= 1.01e-6 * primal
        told.append("duality gap" in model.solution_.message)
    assert 0 < sum(told) < 30


def test_targets_that_are_all_the_same_have_converged():
    data = np.random.default_rng(0).standard_normal((300, 3))
    for solver in ("cholesky", "cg"):
        model = KernelRidge(RBF(), 1e-6, solver=solver, fit_intercept=True)
        assert model.fit(data, np.full(300, 7.0)).solution_.converged


def test_certificate_sees_a_wrong_offset():
    from mercer.models.ridge.exact import LeastSquares
    from mercer.models.ridge.spectrum import dual_certificate

    problem = LeastSquares(RBF(), X, Y[:, :1], None, True)
    K = RBF()(X)
    a = np.linalg.solve(K + 0.1 * np.eye(N), Y[:, :1] - 100.0)  # best f for the offset 100
    solution = dual_certificate(problem, a, np.array([100.0]), K @ a, 0.1, 0.0)
    assert not solution.converged and solution.gap > 1.0


def test_loo_where_a_row_alone_explains_a_column():
    data = np.zeros((12, 2))
    data[:, 0] = np.arange(12.0)
    data[5, 1] = 1.0
    y = np.sin(data[:, 0])
    for alpha in (1e-10, 1e-3):
        model = KernelRidge(Linear(), alpha, fit_intercept=True).fit(data, y)
        rest = np.arange(12) != 5
        refit = KernelRidge(Linear(), alpha, fit_intercept=True).fit(data[rest], y[rest])
        assert model.loo()[5] == pytest.approx(refit.predict(data[[5]])[0], abs=1e-8)


def test_loo_that_does_not_exist_is_refused():
    with pytest.raises(InvalidInput, match="2 rows"):
        KernelRidge(RBF(), fit_intercept=True).fit([[1.0]], [2.0]).loo()
    with pytest.raises(InvalidInput, match="2 rows"):
        KernelRidge(RBF(), "loo", fit_intercept=True).fit([[1.0]], [2.0])


def test_loo_belongs_to_the_fit_not_to_the_parameters():
    model = KernelRidge(RBF(), 0.1).fit(X, Y)
    want = model.loo()
    model._loo_cache = None
    model.set_params(fit_intercept=True, alpha=9.0)
    np.testing.assert_array_equal(model.loo(), want)
    K = RBF()(X)
    given = KernelRidge("precomputed", 0.1).fit(K, Y)
    with pytest.raises(InvalidInput, match="24"):
        given.loo(K[:5, :5])
    with pytest.raises(InvalidInput, match="not the matrix"):
        given.loo(RBF(0.3)(X))


def test_class_weights_are_checked_like_weights():
    y = np.arange(N) % 2
    for weights, words in (
        ({0: 0.0, 1: 0.0}, "zero"),
        ({0: -1.0, 1: 1.0}, "negative"),
        ({0: 0.0, 1: 1.0}, "one class"),
    ):
        with pytest.raises(InvalidInput, match=words):
            KernelRidgeClassifier(class_weight=weights).fit(X, y)


def test_warnings_as_errors_leave_the_model_as_it_was():
    twice = np.vstack([X, X])
    y = np.r_[Y[:, 0], -Y[:, 0]]
    model = KernelRidge(RBF(), 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((NotConverged, NotPositiveDefinite)):
            model.fit(twice, y)
    assert not hasattr(model, "dual_coef_")


def test_budget_of_every_path_is_planned():
    data = np.random.default_rng(0).standard_normal((300, 2))
    calls = []

    def counted(a, b):
        calls.append(1)
        return float(np.exp(-((a - b) ** 2).sum()))

    with mercer.config(memory=int(2.2 * 300 * 300 * 8)):
        with pytest.raises(MemoryBudgetExceeded, match="KernelRidge"):
            KernelRidge(counted, "loo").fit(data, data[:, 0])
        assert len(calls) <= 2 * len(data)
        model = KernelRidge(RBF(), 0.1).fit(data, data[:, 0])
    with mercer.config(memory=int(1.5 * 300 * 300 * 8)), pytest.raises(MemoryBudgetExceeded):
        model.loo()
    with mercer.config(memory="20kB"), pytest.raises(MemoryBudgetExceeded):
        KernelRidge(Polynomial(3)).fit(data, data[:, 0])


def test_prediction_by_features_stays_inside_the_budget():
    data = np.random.default_rng(0).standard_normal((400, 5))
    model = KernelRidge(Polynomial(3), 0.1).fit(data, data[:, 0])
    many = np.random.default_rng(1).standard_normal((20000, 5))
    want = model.predict(many)
    with mercer.config(memory="4MB"):
        tracemalloc.start()
        got = model.predict(many)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    np.testing.assert_allclose(got, want, rtol=1e-12)
    assert peak < 6e6  # 20000 × 56 features would take 9 MB


def test_overflow_at_predict_is_named():
    model = KernelRidge(Polynomial(2), 0.1).fit(X, Y)
    with pytest.raises(InvalidInput, match="row 1"):
        model.predict([[0.0, 0.0, 0.0], [1e200, 0.0, 0.0]])


def test_an_earlier_fit_leaves_nothing_behind():
    frame = pd.DataFrame(X, columns=list("abc"))
    model = KernelRidge(RBF(), 0.1).fit(frame, Y)
    model.set_params(kernel=lambda a, b: float(len(set(a) & set(b))))
    model.fit(["cat", "car", "dog"], [1.0, 2.0, 3.0])
    assert not hasattr(model, "n_features_in_") and not hasattr(model, "feature_names_in_")


def test_more_kinds_of_input():
    np.testing.assert_allclose(
        KernelRidge(Minimum(), 0.1).fit([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]).predict([2.0]),
        KernelRidge(Minimum(), 0.1).fit([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0]).predict([[2.0]]),
    )
    columns = {"a": [1.0, 2.0, 3.0], "b": ["x", "y", "z"]}
    assert KernelRidge(RBF().on("a")).fit(columns, [1.0, 2.0, 3.0]).predict(columns).shape == (3,)
    words = np.array(["cat", "car", "dog"])
    letters = KernelRidge(lambda a, b: float(len(set(a) & set(b))), 0.1)
    assert letters.fit(words, [1.0, 2.0, 3.0]).predict(words).shape == (3,)
    dates = pd.DataFrame({"day": pd.date_range("2026-01-01", periods=3), "x": [1.0, 2.0, 3.0]})
    with pytest.raises(InvalidInput, match="'day'"):
        KernelRidge().fit(dates, [1.0, 2.0, 3.0])
    with pytest.raises(InvalidInput, match="'day'"):
        KernelRidge().fit(dates[["day"]], [1.0, 2.0, 3.0])
    assert KernelRidge(alpha=1.0).fit(X, Y, sample_weight=np.int64(2)).alpha_ == 1.0


def test_a_search_reaches_into_a_kernel_given_by_name():
    search = GridSearchCV(KernelRidge("rbf"), {"kernel__length_scale": [0.3, 1.0]}, cv=3)
    assert search.fit(X, Y[:, 0]).best_estimator_.kernel_.length_scale in (0.3, 1.0)


def test_missing_labels_are_refused():
    for y in (
        pd.Series(["a", np.nan, "b"] * 8),
        [None, "a", "b"] * 8,
        [np.nan, "a", "b"] * 8,
        [pd.NA, "a", "b"] * 8,
    ):
        with pytest.raises(InvalidInput, match="missing labels"):
            KernelRidgeClassifier().fit(X, y)


def test_indefinite_functions_are_refused_behind_any_ridge():
    with pytest.raises(NotPositiveDefinite, match="smallest eigenvalue"):
        KernelRidge(lambda a, b: float(np.tanh(a @ b - 1)), 50.0).fit(X, Y)


@pytest.mark.parametrize("scale", [1e-300, 1e200])
@pytest.mark.parametrize("kernel", [RBF(), Linear()])
def test_targets_of_extreme_size(kernel, scale):
    for alpha in (0.1, "loo"):
        plain = KernelRidge(kernel, alpha, fit_intercept=True).fit(X, Y)
        large = KernelRidge(kernel, alpha, fit_intercept=True).fit(X, Y * scale)
        assert large.alpha_ == pytest.approx(plain.alpha_)
        assert large.solution_.converged and large.solution_.residual < 1e-9
        np.testing.assert_allclose(large.predict(X) / scale, plain.predict(X), rtol=1e-9)
        np.testing.assert_allclose(large.loo() / scale, plain.loo(), rtol=1e-8)


def test_loo_is_the_callers_own_and_takes_the_training_points_only():
    model = KernelRidge(RBF(), 0.1).fit(X, Y)
    want = model.loo().copy()
    model.loo()[:] = 0.0
    np.testing.assert_array_equal(model.loo(), want)
    np.testing.assert_array_equal(model.loo(X), want)
    assert model.degrees_of_freedom(X) == model.degrees_of_freedom()
    for other in (X[::-1], X[:-1], X + 1e-9):
        with pytest.raises(InvalidInput, match="not what the model was fitted on"):
            model.loo(other)


def test_labels_and_class_weights_of_odd_types():
    with pytest.raises(InvalidInput, match="labels of several kinds"):
        KernelRidgeClassifier().fit(X, np.array(["a", 1] * 12, dtype=object))
    with pytest.raises(InvalidInput, match="class_weight"):
        KernelRidgeClassifier(class_weight=np.array([1, 2])).fit(X, np.arange(N) % 2)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kernel", [RBF(1.0), "linear"], ids=str)
@pytest.mark.parametrize("alpha", [0.5, "loo"])
def test_weights_that_cannot_be_squared_are_refused(kernel, alpha):
    for model, y in ((KernelRidge, Y), (KernelRidgeClassifier, Y[:, 0] > 3)):
        for weight in (1e155, 1e300):
            with pytest.raises(InvalidInput, match="all weights by the same number"):
                model(kernel, alpha).fit(X, y, sample_weight=np.full(N, weight))
    large = KernelRidge(kernel, 1e140).fit(X, Y, sample_weight=np.full(N, 1e140))
    plain = KernelRidge(kernel, 1.0).fit(X, Y)
    np.testing.assert_allclose(large.predict(X), plain.predict(X), atol=1e-9)


def test_a_penalty_is_no_truth_value():
    for model in (KernelRidge, KernelRidgeClassifier):
        for alpha in (True, np.True_, [True]):
            with pytest.raises(InvalidInput, match="alpha="):
                model("linear", alpha).fit(X, Y[:, 0] > 3)
        with pytest.raises(InvalidInput, match="alphas="):
            model("linear", "loo", alphas=[True]).fit(X, Y[:, 0] > 3)
