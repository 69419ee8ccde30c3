"""KernelRidge and KernelRidgeClassifier against brute force, scikit-learn, and bad input."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.kernel_ridge import KernelRidge as SklearnRidge
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import (
    RBF,
    Constant,
    FromFunction,
    KernelRidge,
    KernelRidgeClassifier,
    Linear,
    Matern,
    Polynomial,
    White,
)
from mercer.errors import InvalidInput, MemoryBudgetExceeded, NotPositiveDefinite

N = 24
rng = np.random.default_rng(3)
X = rng.standard_normal((N, 3))
Y = np.c_[np.sin(X[:, 0]) + 3 + 0.1 * rng.standard_normal(N), X[:, 1] ** 2]
WEIGHTS = {
    "none": None,
    "uneven": rng.uniform(0.3, 3, N),
    "zeros": np.r_[0.0, 0.0, rng.uniform(0.3, 3, N - 2)],
}
KERNELS = {
    "rbf": RBF(1.2),
    "linear": Linear(),
    "polynomial": Polynomial(2, 0.5),
    "affine": Linear() + Constant(1.0),
    "noise": RBF(1.0) + White(0.1),
}


def brute(K, y, weights, alpha, offset, rows):
    """Solve the optimality system on some rows by LU: coefficients for all rows, and offset."""
    w = np.ones(len(y)) if weights is None else weights
    rows = rows & (w > 0)
    A = K[np.ix_(rows, rows)] + alpha * np.diag(1 / w[rows])
    a = np.zeros(len(y))
    if not offset:
        a[rows] = np.linalg.solve(A, y[rows])
        return a, 0.0
    one = np.ones((rows.sum(), 1))
    M = np.block([[A, one], [one.T, np.zeros((1, 1))]])
    solved = np.linalg.solve(M, np.r_[y[rows], 0.0])
    a[rows] = solved[:-1]
    return a, solved[-1]


def brute_fit(kernel, Y, weights, alphas, offset):
    K = kernel(X)
    cross = kernel(X, X.copy())  # what a new point at the same place sees: no white noise
    fitted, left_out = np.empty_like(Y), np.empty_like(Y)
    for j, alpha in enumerate(alphas):
        a, b = brute(K, Y[:, j], weights, alpha, offset, np.ones(N, bool))
        fitted[:, j] = cross @ a + b
        for i in range(N):
            rows = np.arange(N) != i
            a, b = brute(K, Y[:, j], weights, alpha, offset, rows)
            left_out[i, j] = cross[i] @ a + b
    return fitted, left_out


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("alpha", [0.3, "loo", np.array([0.1, 2.0])], ids=["number", "loo", "each"])
def test_fit_and_loo_equal_brute_force(name, weights, alpha, offset):
    kernel, w = KERNELS[name], WEIGHTS[weights]
    path = np.logspace(-3, 2, 6)  # brute force by LU is inaccurate for smaller penalties
    model = KernelRidge(kernel, alpha, fit_intercept=offset, alphas=path)
    model.fit(X, Y, sample_weight=w)
    alphas = np.broadcast_to(model.alpha_, (2,))
    fitted, left_out = brute_fit(kernel, Y, w, alphas, offset)
    np.testing.assert_allclose(model.predict(X), fitted, atol=1e-8)
    np.testing.assert_allclose(model.function_(X), fitted, atol=1e-6)
    np.testing.assert_allclose(model.loo(), left_out, atol=1e-8)
    if not isinstance(alpha, str):
        again = KernelRidge("precomputed", alpha, fit_intercept=offset).fit(
            kernel(X), Y, sample_weight=w
        )
        np.testing.assert_allclose(again.loo(kernel(X)), _loo_values(model), atol=1e-7)


def _loo_values(model):
    """A row of weight zero given as kernel values meets its own noise; only White can tell."""
    values = model.loo().copy()
    idle = model.sample_weight_ is not None and (model.sample_weight_ == 0)
    return values if not np.any(idle) else np.where(idle[:, None], model.predict(X), values)


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_certificate_is_true(name, offset):
    kernel, w, alpha = KERNELS[name], WEIGHTS["uneven"], 0.3
    model = KernelRidge(kernel, alpha, fit_intercept=offset).fit(X, Y[:, 0], sample_weight=w)
    K, a, b = kernel(X), model.dual_coef_, model.intercept_
    e = Y[:, 0] - K @ a - b
    primal = 0.5 * (w * e**2).sum() + 0.5 * alpha * a @ K @ a
    beta = alpha * a
    dual = beta @ Y[:, 0] - 0.5 * (beta**2 / w).sum() - 0.5 * alpha * a @ K @ a
    solution = model.solution_
    assert solution.converged
    assert solution.primal == pytest.approx(primal, rel=1e-8)
    assert solution.dual == pytest.approx(dual, rel=1e-6)
    assert 0 <= solution.gap < 1e-9 * primal
    assert solution.residual < 1e-9
    if offset:
        assert a.sum() == pytest.approx(0, abs=1e-8)


def test_linear_kernel_is_ridge_regression_in_the_primal():
    y = Y[:, 0]
    for offset in (False, True):
        model = KernelRidge(Linear(), 0.7, fit_intercept=offset).fit(X, y)
        peer = Ridge(alpha=0.7, fit_intercept=offset).fit(X, y)
        np.testing.assert_allclose(model.coef_, peer.coef_, rtol=1e-9)
        assert model.intercept_ == pytest.approx(peer.intercept_, rel=1e-9)
        assert model.solution_.extra["method"] == "primal"
    wide = rng.standard_normal((5, 40))
    model = KernelRidge(Linear(), 0.7).fit(wide, y[:5])
    assert model.solution_.extra["method"] == "dual"
    np.testing.assert_allclose(
        model.coef_, Ridge(alpha=0.7, fit_intercept=False).fit(wide, y[:5]).coef_
    )


def test_primal_without_penalty_is_least_squares():
    model = KernelRidge(Linear(), 0.0, fit_intercept=True).fit(X, Y[:, 0])
    peer = LinearRegression().fit(X, Y[:, 0])
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=1e-8)
    np.testing.assert_allclose(model.function_(X), peer.predict(X), atol=1e-8)


@pytest.mark.parametrize("weights", [None, "uneven"])
def test_equals_scikit_learn(weights):
    w = WEIGHTS["uneven"] if weights else None
    ours = KernelRidge(RBF(2.0), 0.5).fit(X, Y, sample_weight=w)
    peer = SklearnRidge(kernel="rbf", gamma=1 / 8, alpha=0.5).fit(X, Y, sample_weight=w)
    np.testing.assert_allclose(ours.dual_coef_, peer.dual_coef_, rtol=1e-8)
    np.testing.assert_allclose(ours.predict(X + 0.1), peer.predict(X + 0.1), rtol=1e-8)


def test_short_name_takes_its_scale_from_the_data_as_scikit_learn_does():
    from sklearn.svm import SVC

    gamma = SVC(gamma="scale").fit(X, np.arange(N) % 2)._gamma
    model = KernelRidge("rbf").fit(X, Y)
    assert model.kernel_.length_scale == pytest.approx(np.sqrt(1 / (2 * gamma)))


@pytest.mark.parametrize("kernel", ["rbf", RBF("median"), Linear(), "matern"])
def test_weight_is_repetition(kernel):
    counts = rng.integers(0, 4, N)
    counts[:2] = 1
    rows = np.repeat(np.arange(N), counts)
    for offset in (False, True):
        a = KernelRidge(kernel, 0.4, fit_intercept=offset).fit(X, Y, sample_weight=counts)
        b = KernelRidge(kernel, 0.4, fit_intercept=offset).fit(X[rows], Y[rows])
        np.testing.assert_allclose(a.predict(X), b.predict(X), rtol=1e-9, atol=1e-9)


def test_tiny_and_huge_weights_do_not_overflow():
    w = np.where(np.arange(N) % 2, 1e-300, 1e3)
    model = KernelRidge(RBF(), 1.0).fit(X, Y[:, 0], sample_weight=w)
    half = KernelRidge(RBF(), 1e-3).fit(X[::2], Y[::2, 0])
    np.testing.assert_allclose(model.predict(X), half.predict(X), atol=1e-6)


def test_loo_path_is_the_error_of_loo():
    alphas = np.logspace(-3, 2, 7)
    model = KernelRidge(RBF(), "loo", alphas=alphas).fit(X, Y)
    errors = [((Y - KernelRidge(RBF(), a).fit(X, Y).loo()) ** 2).mean() for a in alphas]
    np.testing.assert_allclose(model.loo_errors_, errors, rtol=1e-8)
    assert model.alpha_ == pytest.approx(alphas[int(np.argmin(errors))])
    np.testing.assert_array_equal(model.alphas_, alphas)


def test_one_output_is_a_vector_and_a_column_stays_a_column():
    assert KernelRidge().fit(X, Y[:, 0]).predict(X).shape == (N,)
    assert KernelRidge().fit(X, Y[:, :1]).predict(X).shape == (N, 1)
    assert KernelRidge().fit(X, Y[:, :1]).loo().shape == (N, 1)


def test_inputs_of_every_kind_agree():
    want = KernelRidge(RBF(1.5), 0.2).fit(X, Y).predict(X)
    frame = pd.DataFrame(X, columns=list("abc"))
    for data in (sp.csr_matrix(X), sp.csc_array(X), frame, pl.from_pandas(frame), X.tolist()):
        model = KernelRidge(RBF(1.5), 0.2).fit(data, Y)
        np.testing.assert_allclose(model.predict(data), want, atol=1e-9)
    single = KernelRidge(RBF(1.5), 0.2).fit(X.astype(np.float32), Y)
    np.testing.assert_allclose(single.predict(X.astype(np.float32)), want, atol=1e-4)


def test_named_columns_of_a_mixed_frame():
    frame = pd.DataFrame({"a": X[:, 0], "text": ["x"] * N, "b": X[:, 1]})
    kernel = RBF(1.0).on("a") * RBF(2.0).on("b")
    model = KernelRidge(kernel, 0.3).fit(frame, Y[:, 0])
    want = KernelRidge(RBF([1.0, 2.0]), 0.3).fit(X[:, :2], Y[:, 0]).predict(X[:, :2])
    np.testing.assert_allclose(model.predict(frame), want, atol=1e-9)
    np.testing.assert_allclose(
        model.loo(), KernelRidge(RBF([1.0, 2.0]), 0.3).fit(X[:, :2], Y[:, 0]).loo(), atol=1e-9
    )
    with pytest.raises(InvalidInput, match="no column 'c'"):
        KernelRidge(RBF().on("c")).fit(frame, Y[:, 0])


def test_a_function_of_two_objects_on_strings():
    words = ["cat", "car", "dog", "dot", "cart", "dogs"]
    y = np.array([1.0, 1.0, -1.0, -1.0, 1.0, -1.0])
    model = KernelRidge(lambda a, b: float(len(set(a) & set(b))), 0.1).fit(words, y)
    np.testing.assert_array_equal(np.sign(model.predict(["carts", "dig"])), [1, -1])


def test_fits_scikit_learn_machinery():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), KernelRidge(RBF())),
        {"kernelridge__kernel__length_scale": [0.5, 2.0], "kernelridge__alpha": [0.1, 1.0]},
        cv=3,
    ).fit(X, Y[:, 0])
    assert search.best_params_["kernelridge__kernel__length_scale"] in (0.5, 2.0)
    K = RBF(2.0)(X)
    np.testing.assert_allclose(
        cross_val_score(KernelRidge("precomputed", 0.1), K, Y[:, 0], cv=4),
        cross_val_score(KernelRidge(RBF(2.0), 0.1), X, Y[:, 0], cv=4),
        rtol=1e-8,
    )


def test_fit_changes_neither_data_nor_parameters():
    kernel = RBF("median")
    model = KernelRidge(kernel, 0.1)
    A, b, w = X.copy(), Y.copy(), WEIGHTS["uneven"].copy()
    K = RBF()(X)
    before = K.copy()
    for array in (A, b, w, K):
        array.flags.writeable = False
    model.fit(A, b, sample_weight=w)
    assert kernel.length_scale == "median" and model.kernel is kernel
    KernelRidge("precomputed", 0.1).fit(K, b, sample_weight=w)
    np.testing.assert_array_equal(K, before)
    np.testing.assert_array_equal(A, X)


def test_memory_of_a_fit_is_one_gram_matrix():
    n = 2000
    data = rng.standard_normal((n, 4))
    target = data[:, 0]
    KernelRidge(RBF(), 0.1).fit(data[:50], target[:50])
    tracemalloc.start()
    KernelRidge(RBF(), 0.1).fit(data, target)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.3 * n * n * 8


def test_too_small_a_budget_is_refused_before_any_work():
    calls = []

    def counted(a, b):
        calls.append(1)
        return float(a @ b)

    data = rng.standard_normal((400, 2))
    tracemalloc.start()
    with mercer.config(memory="200kB"), pytest.raises(MemoryBudgetExceeded, match="400 × 400"):
        KernelRidge(RBF(), solver="cholesky").fit(data, data[:, 0])
    with mercer.config(memory="200kB"), pytest.raises(MemoryBudgetExceeded):
        KernelRidge(FromFunction(counted), solver="cholesky").fit(data, data[:, 0])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 300_000
    assert len(calls) <= len(data)  # the diagonal may be looked at, the matrix may not


BAD_FITS = {
    "nan": (lambda: KernelRidge().fit(np.where(X > 2, np.nan, X) * np.nan, Y), "NaN"),
    "inf": (lambda: KernelRidge().fit(np.full((N, 3), np.inf), Y), "NaN|infinity|inf"),
    "empty": (lambda: KernelRidge().fit(np.empty((0, 3)), np.empty(0)), "0 sample"),
    "no columns": (lambda: KernelRidge().fit(np.empty((4, 0)), np.empty(4)), "0 feature"),
    "one dimension": (lambda: KernelRidge().fit(X[:, 0], Y), "Reshape your data|2D"),
    "text": (lambda: KernelRidge().fit([["a", "b"]] * N, Y), "could not convert|numbers|numeric"),
    "text target": (lambda: KernelRidge().fit(X, ["a"] * N), "could not convert|numeric"),
    "nan target": (lambda: KernelRidge().fit(X, np.full(N, np.nan)), "y contains NaN"),
    "target length": (lambda: KernelRidge().fit(X, Y[:-1]), "rows"),
    "target missing": (lambda: KernelRidge().fit(X, None), "y"),
    "negative weight": (lambda: KernelRidge().fit(X, Y, -np.ones(N)), "negative"),
    "zero weights": (lambda: KernelRidge().fit(X, Y, np.zeros(N)), "zero"),
    "nan weight": (lambda: KernelRidge().fit(X, Y, np.full(N, np.nan)), "NaN"),
    "weight length": (lambda: KernelRidge().fit(X, Y, np.ones(3)), "sample_weight"),
    "weight text": (lambda: KernelRidge().fit(X, Y, ["a"] * N), "sample_weight"),
    "alpha negative": (lambda: KernelRidge(alpha=-1.0).fit(X, Y), "alpha"),
    "alpha nan": (lambda: KernelRidge(alpha=np.nan).fit(X, Y), "alpha"),
    "alpha word": (lambda: KernelRidge(alpha="gcv").fit(X, Y), "'loo'"),
    "alpha outputs": (lambda: KernelRidge(alpha=[1.0, 1.0, 1.0]).fit(X, Y), "alpha"),
    "alphas": (lambda: KernelRidge(alpha="loo", alphas=[-1.0]).fit(X, Y), "alphas"),
    "kernel name": (lambda: KernelRidge("rfb").fit(X, Y), "rbf"),
    "kernel class": (lambda: KernelRidge(RBF).fit(X, Y), r"RBF\(\)"),
    "kernel number": (lambda: KernelRidge(3).fit(X, Y), "kernel"),
    "kernel nan": (lambda: KernelRidge(lambda a, b: np.nan).fit(X, Y), "nan"),
    "overflow": (lambda: KernelRidge(Polynomial(3)).fit(X * 1e150, Y), "overflow"),
    "not square": (lambda: KernelRidge("precomputed").fit(X, Y), "square"),
    "asymmetric": (
        lambda: KernelRidge("precomputed").fit(np.eye(N) + np.eye(N, k=1), Y),
        "not symmetric",
    ),
    "negative diagonal": (lambda: KernelRidge("precomputed").fit(-np.eye(N), Y), "< 0"),
    "one class": (lambda: KernelRidgeClassifier().fit(X, np.zeros(N)), "class"),
    "continuous class": (lambda: KernelRidgeClassifier().fit(X, Y[:, 0]), "[Uu]nknown label type"),
    "class weight": (
        lambda: KernelRidgeClassifier(class_weight="balance").fit(X, np.arange(N) % 2),
        "class_weight",
    ),
}


@pytest.mark.parametrize("case", BAD_FITS)
def test_bad_input_is_refused_clearly(case):
    fit, words = BAD_FITS[case]
    with pytest.raises(InvalidInput, match=words):
        fit()


def test_indefinite_gram_names_its_smallest_eigenvalue():
    K = np.ones((3, 3)) - 2 * np.eye(3) + np.diag([3.0, 1.0, 1.0])
    low = np.linalg.eigvalsh(K).min()
    assert low < -0.5
    for alpha in (0.0, 0.1, 5.0, "loo"):  # also where the ridge alone makes K + αI definite
        with pytest.raises(NotPositiveDefinite, match="smallest eigenvalue") as info:
            KernelRidge("precomputed", alpha).fit(K, np.arange(3.0))
        assert info.value.smallest_eigenvalue == pytest.approx(low, abs=1e-8)


def test_duplicates_without_penalty_are_refused_or_reported():
    twice = np.vstack([X, X])
    y = np.r_[Y[:, 0], -Y[:, 0]]
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            model = KernelRidge(RBF(), 0.0).fit(twice, y)
    except NotPositiveDefinite as error:
        assert "alpha" in str(error)
    else:
        assert seen and "alpha" in str(seen[0].message)
        assert not model.solution_.converged


def test_wrong_width_at_predict():
    model = KernelRidge().fit(X, Y)
    with pytest.raises(InvalidInput, match="2 features"):
        model.predict(X[:, :2])
    K = KernelRidge("precomputed").fit(RBF()(X), Y)
    with pytest.raises(InvalidInput, match="features"):
        K.predict(np.ones((2, N - 1)))


def test_degenerate_data():
    one = KernelRidge(RBF(), 1.0).fit([[1.0, 2.0]], [3.0])
    assert one.predict([[1.0, 2.0]])[0] == pytest.approx(1.5)
    constant = KernelRidge("rbf", fit_intercept=True).fit(np.ones((5, 2)), np.arange(5.0))
    np.testing.assert_allclose(constant.predict(np.ones((1, 2))), [2.0])
    level = KernelRidge(RBF(), 0.1, fit_intercept=True).fit(X, np.full(N, 7.0))
    np.testing.assert_allclose(level.predict(X * 5), 7.0)
    zero = KernelRidge(RBF(), 0.1).fit(X, np.zeros(N))
    assert (zero.predict(X) == 0).all() and zero.solution_.residual == 0
    for scale in (1e-8, 1e8):
        model = KernelRidge("rbf", 0.1).fit(X * scale, Y[:, 0])
        want = KernelRidge("rbf", 0.1).fit(X, Y[:, 0]).predict(X)
        np.testing.assert_allclose(model.predict(X * scale), want, atol=1e-7)


def test_adding_a_constant_to_y_moves_predictions_by_it_with_an_offset():
    a = KernelRidge(Matern(), 0.2, fit_intercept=True).fit(X, Y).predict(X)
    b = KernelRidge(Matern(), 0.2, fit_intercept=True).fit(X, Y + 100.0).predict(X)
    np.testing.assert_allclose(b, a + 100.0, rtol=1e-10)


def test_failed_fit_leaves_a_fitted_model_as_it_was():
    model = KernelRidge(RBF(), 0.1).fit(X, Y)
    before = model.predict(X)
    state = set(vars(model))
    for data, target in ((X, Y[:-1]), (X[:, :2], Y[:-1]), (X[:, :2], np.full(N, np.nan))):
        with pytest.raises(InvalidInput):
            model.fit(data, target)
        np.testing.assert_array_equal(model.predict(X), before)
        assert set(vars(model)) == state
    labels = np.arange(N) % 3
    classifier = KernelRidgeClassifier(RBF(), 0.1).fit(X, labels)
    before = classifier.predict(X)
    classifier.set_params(alpha=-1.0)
    with pytest.raises(InvalidInput, match="alpha"):
        classifier.fit(X[:, :1], labels > 0)
    np.testing.assert_array_equal(classifier.predict(X), before)


def test_refit_forgets_the_old_leave_one_out():
    model = KernelRidge(RBF(), 0.1).fit(X, Y)
    model.loo()
    model.fit(X[:10], Y[:10])
    assert model.loo().shape == (10, 2)
