"""SVC against formulas, scikit-learn, primal problems, refits, bad data and its own certificate."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from sklearn import svm
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_classification
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import RBF, SVC, Constant, KernelPerceptron, Linear, Matern, Polynomial
from mercer.errors import (
    InvalidInput,
    MemoryBudgetExceeded,
    ModelFileError,
    NotConverged,
    NotPositiveDefinite,
)
from mercer.models import machines
from mercer.solvers import SMO


def blobs(n=60, d=3, seed=0, noise=0.7):
    """Two overlapping classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = (X[:, 0] + noise * rng.standard_normal(n) > 0).astype(int)
    return X, y


def certificate(model, K, y, weights=None):
    """Primal value, dual value and KKT violation of a two-class model, from the definitions."""
    w = np.ones(len(y)) if weights is None else weights
    s = np.where(y == model.classes_[1], 1.0, -1.0)
    a = np.zeros(len(y))
    a[model.support_] = model.dual_coef_[0]
    f = K @ a + model.intercept_[0]
    square = a @ K @ a
    primal = 0.5 * square + model.C * (w * np.maximum(0, 1 - s * f)).sum()
    dual = s @ a - 0.5 * square
    assert (s * a >= 0).all() and (s * a <= model.C * w).all()
    G, room = f - s, s * a < model.C * w * (1 - 1e-12)
    up, down = np.where(s > 0, room, a < 0), np.where(s > 0, a > 0, room)
    return primal, dual, max(0.0, G[down].max(initial=-np.inf) - G[up].min(initial=np.inf))


# ---------------------------------------------------------------------------- known solutions
def test_xor_has_an_eighth_for_every_point_and_decides_by_the_product():
    X = np.array([[-1.0, -1], [-1, 1], [1, -1], [1, 1]])
    y = np.array([-1, 1, 1, -1])
    model = SVC(Polynomial(2), C=1.0, tol=1e-12).fit(X, y)
    np.testing.assert_array_equal(model.support_, [0, 3, 1, 2])
    np.testing.assert_allclose(model.dual_coef_, [[-1 / 8, -1 / 8, 1 / 8, 1 / 8]], atol=1e-12)
    Z = np.random.default_rng(0).standard_normal((20, 2))
    np.testing.assert_allclose(model.decision_function(Z), -Z[:, 0] * Z[:, 1], atol=1e-10)
    assert model.margin_ == pytest.approx(np.sqrt(2))  # ‖θ‖² = Σα = ½
    assert model.loo_bound_ == 1.0


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.3, 0.7), (-5e3, 1e3), (2.0, 2.001)])
def test_two_points_on_a_line(low, high):
    model = SVC("linear", C=1e9, tol=1e-10).fit([[low], [high]], ["minus", "plus"])
    gap = high - low
    np.testing.assert_allclose(model.coef_, [[2 / gap]], rtol=1e-8)
    np.testing.assert_allclose(model.intercept_, [-(high + low) / gap], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.dual_coef_, [[-2 / gap**2, 2 / gap**2]], rtol=1e-8)
    assert model.margin_ == pytest.approx(gap / 2, rel=1e-8)
    small = SVC("linear", C=0.5 / gap**2).fit([[low], [high]], ["minus", "plus"])
    np.testing.assert_allclose(small.coef_, [[0.5 / gap]])
    np.testing.assert_array_equal(small.support_kind_, ["bound", "bound"])


@pytest.mark.parametrize("e", [0.3, 1.0, 2.5])
def test_four_points_switch_solution_with_C(e):
    # Only (1, 0) is negative. Its nearest point of the other hull is on the segment from (0, 0) to
    # (1, e). Up to C* = 2 + 2/e² its coefficient is C, those of the ends C e²/(1+e²) and
    # C/(1+e²); then θ = Ce/(1+e²)·(−e, 1) and b = 1. From C* on θ = (−2, 2/e), without slack.
    X = np.array([[0, 0], [0, e], [1, e], [1, 0]], dtype=float)
    y = np.array([1, 1, 1, -1])
    switch = 2 + 2 / e**2
    for C in (0.01, 0.4 * switch, 0.6 * switch, 0.999 * switch):
        model = SVC("linear", C=C, tol=1e-12).fit(X, y)
        np.testing.assert_allclose(model.coef_, [C * e / (1 + e**2) * np.array([-e, 1])], rtol=1e-9)
        np.testing.assert_allclose(model.intercept_, [1.0], rtol=1e-9)
        assert model.support_kind_[0] == "bound"
        correct = C > 1 + 1 / e**2  # half way the negative point comes to the right side
        assert (model.predict([[1.0, 0.0]])[0] == -1) == correct
        # the seed's two candidates are no better: all correct, and upright with slack 2
        primal = model.solution_.primal
        assert primal <= 2 * (1 + e**2) / e**2 + 1e-9 and primal <= 2 + 2 * C + 1e-9
    for C in (1.001 * switch, 50 * switch):
        model = SVC("linear", C=C, tol=1e-12).fit(X, y)
        np.testing.assert_allclose(model.coef_, [[-2, 2 / e]], rtol=1e-8)
        np.testing.assert_allclose(model.intercept_, [1.0], rtol=1e-8)
        assert (model.support_kind_ == "margin").all()
        np.testing.assert_allclose(model.solution_.dual, 2 * (1 + e**2) / e**2, rtol=1e-8)


def test_the_seeds_rule_prefers_the_clean_solution_from_one_over_e_squared_on():
    e = 0.4
    X = np.array([[0, 0], [0, e], [1, e], [1, 0]], dtype=float)
    s = np.array([1.0, 1, 1, -1])

    def objective(theta, b, C):
        return 0.5 * np.dot(theta, theta) + C * np.maximum(0, 1 - s * (X @ theta + b)).sum()

    for C in (0.99 / e**2, 1.01 / e**2):
        clean, upright = objective(np.array([-2, 2 / e]), 1, C), objective(np.array([-2, 0]), 1, C)
        assert (clean <= upright) == (C >= 1 / e**2)
        best = SVC("linear", C=C, tol=1e-12).fit(X, s).solution_.primal
        assert best <= min(clean, upright) + 1e-9


# ------------------------------------------------------------------------------ certificates
@pytest.mark.parametrize("seed", range(24))
def test_the_certificate_is_true_and_the_dual_not_below_scikit_learns(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(10, 120)), int(rng.integers(1, 6))
    X = rng.standard_normal((n, d))
    y = (X[:, 0] + rng.standard_normal(n) > 0).astype(int)
    y[:2] = [0, 1]
    if seed % 3 == 0:
        X[n // 2 :] = X[: n - n // 2]  # duplicates, some of them contradictory
    kernel = [Linear(), Polynomial(2), RBF(1.0), Matern(0.7)][seed % 4]
    C = float(10 ** rng.uniform(-3, 3))
    weights = rng.uniform(0.2, 3, n) if seed % 2 else None
    model = SVC(kernel, C, tol=1e-6).fit(X, y, weights)
    K = kernel(X)
    primal, dual, violation = certificate(model, K, y, weights)
    solution = model.solution_
    np.testing.assert_allclose([primal, dual], [solution.primal, solution.dual], rtol=1e-9)
    assert violation <= 1e-6 + 1e-9 and primal - dual <= 1e-6 * primal + 1e-9
    assert solution.gap >= 0 and solution.residual <= 1e-6
    other = svm.SVC(kernel="precomputed", C=C, tol=1e-6).fit(K, y, weights)
    other.classes_, other.C = np.array([0, 1]), C
    a = other.dual_coef_[0]
    their_dual = np.abs(a).sum() - 0.5 * a @ K[np.ix_(other.support_, other.support_)] @ a
    assert dual >= their_dual - 1e-6 * abs(their_dual)


def test_without_an_offset_every_row_is_at_its_own_optimum():
    X, y = blobs(80, seed=3)
    w = np.random.default_rng(0).uniform(0.3, 2, 80)
    kernel = RBF(1.2)
    model = SVC(kernel, 2.0, tol=1e-9, fit_intercept=False).fit(X, y, w)
    K, s = kernel(X), 2.0 * y - 1
    a = np.zeros(80)
    a[model.support_] = model.dual_coef_[0]
    margin = s * (K @ a)
    free = (s * a > 0) & (s * a < 2 * w)
    np.testing.assert_allclose(margin[free], 1, atol=1e-8)
    assert (margin[a == 0] >= 1 - 1e-8).all() and (margin[s * a == 2 * w] <= 1 + 1e-8).all()
    assert model.intercept_[0] == 0
    primal = 0.5 * a @ K @ a + 2 * (w * np.maximum(0, 1 - margin)).sum()
    np.testing.assert_allclose(model.solution_.primal, primal, rtol=1e-9)


def test_sums_of_several_problems():
    X, y = load_iris(return_X_y=True)
    model = SVC(RBF(1.0), 3.0, tol=1e-8).fit(X, y)
    parts = []
    for i, j in [(0, 1), (0, 2), (1, 2)]:
        two = (y == i) | (y == j)
        parts.append(SVC(RBF(1.0), 3.0, tol=1e-8).fit(X[two], y[two]).solution_)
    assert model.solution_.dual == pytest.approx(sum(s.dual for s in parts), rel=1e-7)
    assert model.solution_.primal == pytest.approx(sum(s.primal for s in parts), rel=1e-7)
    assert model.solution_.n_iter == model.n_iter_.sum()
    assert model.solution_.converged and "gaps" in model.solution_.extra


# ------------------------------------------------------------------- agreement with scikit-learn
@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_two_classes_equal_scikit_learns(kernel, C):
    X, y = make_classification(150, 6, n_informative=4, random_state=3)
    A = RBF(2.0)(X) if kernel == "precomputed" else X
    mine = SVC(kernel, C, tol=1e-9).fit(A, y)
    theirs = svm.SVC(kernel=kernel, C=C, tol=1e-9).fit(A, y)
    np.testing.assert_array_equal(mine.support_, theirs.support_)
    np.testing.assert_array_equal(mine.n_support_, theirs.n_support_)
    np.testing.assert_allclose(mine.dual_coef_, theirs.dual_coef_, atol=2e-4 * C)
    np.testing.assert_allclose(mine.intercept_, theirs.intercept_, atol=1e-4)
    np.testing.assert_allclose(mine.decision_function(A), theirs.decision_function(A), atol=1e-4)
    np.testing.assert_array_equal(mine.predict(A), theirs.predict(A))
    if kernel == "linear":
        np.testing.assert_allclose(mine.coef_, theirs.coef_, atol=1e-4)
    if kernel != "precomputed":
        np.testing.assert_allclose(mine.support_vectors_, theirs.support_vectors_)
    assert mine.dual_coef_.shape == theirs.dual_coef_.shape
    assert mine.intercept_.shape == theirs.intercept_.shape


@pytest.mark.parametrize("data", [load_iris, load_wine])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_many_classes_equal_scikit_learns(data, kernel):
    X, y = data(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    names = np.array(["zebra", "ant", "mole"])[y]  # sorted otherwise than given
    mine = SVC(kernel, 2.0, tol=1e-9).fit(X, names)
    theirs = svm.SVC(kernel=kernel, C=2.0, tol=1e-9).fit(X, names)
    np.testing.assert_array_equal(mine.classes_, theirs.classes_)
    np.testing.assert_array_equal(mine.support_, theirs.support_)
    np.testing.assert_array_equal(mine.n_support_, theirs.n_support_)
    np.testing.assert_allclose(mine.dual_coef_, theirs.dual_coef_, atol=2e-3)
    np.testing.assert_allclose(mine.intercept_, theirs.intercept_, atol=1e-4)
    np.testing.assert_allclose(mine.decision_function(X), theirs.decision_function(X), atol=1e-4)
    if kernel == "linear":
        np.testing.assert_allclose(mine.coef_, theirs.coef_, atol=1e-4)
    theirs.decision_function_shape = "ovo"
    pairs = theirs.decision_function(X)
    np.testing.assert_allclose(mine.pairwise_decision_function(X), pairs, atol=1e-4)


def test_class_weights_equal_scikit_learns():
    X, y = blobs(100, seed=1)
    y[: np.flatnonzero(y)[20]] = 0  # fewer of one class
    for class_weight in ("balanced", {0: 0.2, 1: 5.0}):
        mine = SVC(class_weight=class_weight, tol=1e-9).fit(X, y)
        theirs = svm.SVC(class_weight=class_weight, tol=1e-9).fit(X, y)
        values = theirs.decision_function(X)
        np.testing.assert_allclose(mine.decision_function(X), values, atol=1e-5)


# ---------------------------------------------------------------------------- linear = primal
def test_the_linear_kernel_solves_the_primal_problem():
    X, y = blobs(50, 2, seed=5)
    s, C = 2.0 * y - 1, 0.7
    model = SVC("linear", C, tol=1e-10).fit(X, y)
    theta, b = model.coef_[0], model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(X), X @ theta + b, atol=1e-12)

    def objective(theta, b):
        return 0.5 * theta @ theta + C * np.maximum(0, 1 - s * (X @ theta + b)).sum()

    best = objective(theta, b)
    assert best == pytest.approx(model.solution_.primal, rel=1e-9)
    rng = np.random.default_rng(0)
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(100):
            step = size * rng.standard_normal(3)
            assert objective(theta + step[:2], b + step[2]) >= best - 1e-9
    assert model.margin_ == pytest.approx(1 / np.linalg.norm(theta), rel=1e-9)


def test_few_features_are_used_as_weights_and_say_the_same():
    X, y = blobs(200, 2, noise=2.0)
    for kernel in (Linear(), Polynomial(2), Linear(np.array([[2.0, 0.5], [0.5, 1.0]]))):
        model = SVC(kernel, 0.3, tol=1e-9).fit(X, y)
        assert model._weights() is not None
        expected = kernel(X, model.support_vectors_) @ model.dual_coef_[0] + model.intercept_
        np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-10)
        sparse = SVC(kernel, 0.3, tol=1e-9).fit(sp.csr_array(X), y)
        np.testing.assert_allclose(sparse.decision_function(X), expected, atol=1e-6)


def test_coef_belongs_to_the_plain_linear_kernel():
    X, y = blobs(40)
    for kernel in ("rbf", Polynomial(1), Linear(np.eye(3))):
        model = SVC(kernel).fit(X, y)
        assert not hasattr(model, "coef_")
        with pytest.raises(AttributeError, match="linear kernel only"):
            _ = model.coef_


# --------------------------------------------------------------- kinds of support, leave one out
def test_kinds_of_support():
    X, y = blobs(90, seed=2)
    w = np.random.default_rng(1).uniform(0.5, 2, 90)
    model = SVC(RBF(1.0), 1.5, tol=1e-10).fit(X, y, w)
    margin = np.where(y == 1, 1, -1) * model.decision_function(X)
    at_margin = model.support_[model.support_kind_ == "margin"]
    at_bound = model.support_[model.support_kind_ == "bound"]
    np.testing.assert_allclose(margin[at_margin], 1, atol=1e-8)
    assert (margin[at_bound] < 1 + 1e-8).all()
    assert (np.delete(margin, model.support_) > 1 - 1e-8).all()
    size = dict(zip(model.support_, np.abs(model.dual_coef_[0]), strict=True))
    assert all(size[i] == 1.5 * w[i] for i in at_bound)
    assert len(at_margin) and len(at_bound)


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("C", [0.3, 30.0])
def test_leave_one_out_error_is_at_most_the_share_of_support_vectors(multi_class, C):
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    model = SVC(RBF(0.8), C, multi_class=multi_class, tol=1e-9).fit(X, y)
    wrong = 0
    for i in range(len(y)):
        rest = np.delete(np.arange(len(y)), i)
        again = clone(model).fit(X[rest], y[rest])
        bad = again.predict(X[[i]])[0] != y[i]
        wrong += bad
        assert not bad or i in model.support_
    assert wrong / len(y) <= model.loo_bound_ == len(model.support_) / len(y)


def test_the_bound_counts_weights_as_repetitions():
    X, y = blobs(40)
    w = np.random.default_rng(0).integers(0, 4, 40)
    w[:2] = 1
    weighted = SVC(RBF(1.0)).fit(X, y, w)
    repeated = SVC(RBF(1.0)).fit(np.repeat(X, w, 0), np.repeat(y, w))
    assert repeated.loo_bound_ <= weighted.loo_bound_ + 1e-12  # of equal rows some may be idle
    assert weighted.loo_bound_ == pytest.approx(w[weighted.support_].sum() / w.sum())


# ------------------------------------------------------------------------------------- weights
@pytest.mark.parametrize("C", [0.5, 20.0, np.inf])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 1.0, 1: 2.0, 2: 0.5}])
def test_a_weight_of_two_is_a_row_given_twice(C, fit_intercept, multi_class, class_weight):
    X, y = load_iris(return_X_y=True)
    X, y = X[::5] + 1e-3 * np.random.default_rng(0).standard_normal((30, 4)), y[::5]
    w = np.random.default_rng(2).integers(0, 4, 30)
    options = {"fit_intercept": fit_intercept, "multi_class": multi_class}
    options["class_weight"] = class_weight
    weighted = SVC("rbf", C, tol=1e-10, **options).fit(X, y, w)
    repeated = SVC("rbf", C, tol=1e-10, **options).fit(np.repeat(X, w, 0), np.repeat(y, w))
    assert weighted.kernel_ == repeated.kernel_ or weighted.kernel_.length_scale == pytest.approx(
        repeated.kernel_.length_scale, rel=1e-12
    )
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=2e-6
    )
    assert weighted.solution_.dual == pytest.approx(repeated.solution_.dual, rel=1e-7)


def test_rows_of_weight_zero_are_not_there():
    X, y = blobs(50)
    w = np.ones(50)
    w[10:20] = 0
    kept = np.flatnonzero(w)
    model, expected = SVC().fit(X, y, w), SVC().fit(X[kept], y[kept])
    np.testing.assert_array_equal(model.support_, kept[expected.support_])
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X))
    K = RBF(1.0)(X)
    model = SVC("precomputed").fit(K, y, w)
    assert model.support_vectors_.max() < 50 and model.n_features_in_ == 50
    plain = SVC(RBF(1.0)).fit(X, y, w)
    np.testing.assert_allclose(model.decision_function(K), plain.decision_function(X), atol=1e-8)


def test_a_class_without_weight_is_no_class():
    X, y = load_iris(return_X_y=True)
    model = SVC().fit(X, y, (y != 1).astype(float))
    np.testing.assert_array_equal(model.classes_, [0, 2])
    model = SVC(class_weight={0: 1.0, 1: 0.0, 2: 1.0}).fit(X, y)
    np.testing.assert_array_equal(model.classes_, [0, 2])
    with pytest.raises(InvalidInput, match="one class"):
        SVC().fit(X, y, (y == 1).astype(float))


# -------------------------------------------------------------------------------- kinds of data
def test_precomputed_sparse_frames_and_lists_say_the_same():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, y = load_iris(return_X_y=True)
    kernel = RBF(1.5)
    model = SVC(kernel).fit(X, y)
    expected = model.decision_function(X)
    for given in (X.tolist(), sp.csr_matrix(X), sp.coo_array(X), X.astype(np.float32)):
        other = SVC(kernel).fit(given, y)
        np.testing.assert_allclose(other.decision_function(given), expected, atol=1e-5)
    names = list("abcd")
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        other = SVC(kernel).fit(frame, y)
        np.testing.assert_allclose(other.decision_function(frame), expected, atol=1e-9)
        np.testing.assert_array_equal(other.feature_names_in_, names)
    gram = SVC("precomputed").fit(kernel(X), y)
    new = kernel(X[:7] + 0.1, X)
    np.testing.assert_allclose(
        gram.decision_function(new), model.decision_function(X[:7] + 0.1), atol=1e-8
    )
    np.testing.assert_array_equal(gram.support_vectors_, gram.support_)
    with pytest.raises(ValueError, match="is expecting 150 features"):
        gram.predict(new[:, :100])


def test_any_kernel_any_objects():
    words = ["aaa", "aab", "aba", "bbb", "bba", "bab", "aaaa", "bbbb"]
    y = np.array([0, 0, 0, 1, 1, 1, 0, 1])

    def letters(s, t):
        return float(s.count("a") * t.count("a") + s.count("b") * t.count("b"))

    model = SVC(letters, C=10.0).fit(words, y)
    np.testing.assert_array_equal(model.predict(words), y)
    assert set(model.support_vectors_) <= set(words)
    X, y = blobs(40)
    for kernel in (RBF().on([0, 1]) + Linear().on(2), 2.0 * Matern(1.0), RBF().normalized()):
        model = SVC(kernel).fit(X, y)
        assert model.solution_.converged
        np.testing.assert_allclose(model.function_(X), model.decision_function(X), atol=1e-10)
        assert len(model.function_) == len(model.support_)
    with pytest.raises(InvalidInput, match="short name"):
        SVC(3).fit(X, y)


def test_a_function_that_is_no_kernel_is_refused():
    X, y = blobs(30)
    with pytest.raises((NotPositiveDefinite, InvalidInput), match="kernel"):
        SVC(lambda a, b: float(-np.exp(-((a - b) ** 2).sum()))).fit(X, y)
    with pytest.raises(NotPositiveDefinite, match="SVC: the Gram matrix") as caught:
        SVC(lambda a, b: float(np.tanh(3 * a @ b + 1)), C=100.0).fit(X, y)
    assert caught.value.smallest_eigenvalue < 0


# ------------------------------------------------------------------------------- hostile data
def test_asymmetric_and_indefinite_matrices_are_refused():
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((60, 60)), np.arange(60) % 2
    with pytest.raises(InvalidInput, match="not symmetric"):
        SVC("precomputed").fit(A, y)
    with pytest.raises(InvalidInput, match="< 0"):
        SVC("precomputed").fit(-np.eye(60), y)
    with pytest.raises(NotPositiveDefinite, match=r"SVC.*smallest eigenvalue") as caught:
        SVC("precomputed", C=1e12).fit(A + A.T + 6 * np.eye(60), y)
    values = np.linalg.eigvalsh(A + A.T + 6 * np.eye(60))
    assert caught.value.smallest_eigenvalue == pytest.approx(values[0], rel=1e-3)
    with pytest.raises(InvalidInput, match="square"):
        SVC("precomputed").fit(A[:, :50], y)
    with pytest.raises(InvalidInput, match="square"):
        SVC("precomputed").fit(A[:, :50], y, sample_weight=np.arange(60.0))
    # as indefinite as single precision makes a true one: accepted
    X = rng.standard_normal((60, 3)).astype(np.float32)
    assert SVC("precomputed").fit(X @ X.T, y).solution_.converged


def test_an_indefinite_matrix_too_large_to_judge_is_caught_on_the_way(monkeypatch):
    from mercer.models import margin

    monkeypatch.setattr(margin, "JUDGED", 10)
    y = np.arange(40) % 2
    K = np.full((40, 40), 2.0)
    np.fill_diagonal(K, 1.0)  # ‖φᵢ − φⱼ‖² = −2
    with pytest.raises(NotPositiveDefinite, match=r"SVC: .*curvature"):
        SVC("precomputed").fit(K, y)


@pytest.mark.parametrize("C", [1e-12, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("scale", [1.0, [1e6, 1, 1], 1e-6])
def test_extremes_end_with_a_certificate(C, kernel, scale):
    X, y = blobs(60, seed=4)
    model = SVC(kernel, C, max_time=10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        model.fit(X * np.asarray(scale), y)
    solution = model.solution_
    assert np.isfinite([solution.primal, solution.dual, solution.gap, solution.residual]).all()
    assert solution.gap >= 0
    if solution.converged:
        assert solution.residual <= model.tol
    else:
        assert "Scale the columns" in solution.message and solution.message.startswith("SVC:")
    assert np.isfinite(model.decision_function(X * np.asarray(scale))).all()


def test_contradictory_duplicates_and_constant_kernels():
    X, y = np.repeat(blobs(8)[0], 10, axis=0), np.arange(80) % 2
    model = SVC(C=1e12).fit(X, y)
    assert model.solution_.converged and model.solution_.dual == pytest.approx(80e12)
    assert np.abs(model.decision_function(X)).max() < 0.1  # 1e12 times rounding
    for kernel in (Constant(2.0), "linear"):
        zero = np.zeros((80, 2))
        model = SVC(kernel).fit(zero, y)
        assert model.solution_.converged and model.margin_ == np.inf
        assert len(set(model.predict(zero))) == 1
    majority = np.arange(80) < 50
    for target in (majority, ~majority):
        model = SVC(Constant(1.0)).fit(zero, target)
        assert model.predict([[0.0, 0.0]])[0] == target[0]
        # the offset is free between −1 and 1 at most; the certificate does not mind which
        assert model.solution_.gap == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"C": 0}, "C=0; give a number > 0"),
        ({"C": -1.0}, "C=-1.0"),
        ({"C": "1"}, "C='1'"),
        ({"C": np.nan}, "C=nan"),
        ({"C": True}, "C=True"),
        ({"C": [1.0]}, "C="),
        ({"tol": 0}, "tol=0"),
        ({"tol": np.inf}, "finite"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"max_iter": 2.5}, "max_iter=2.5"),
        ({"max_time": 0}, "max_time=0"),
        ({"multi_class": "crammer"}, "'ovo'"),
        ({"class_weight": "equal"}, "class_weight"),
        ({"class_weight": {0: -1.0, 1: 1.0}}, "negative"),
        ({"class_weight": {7: 1.0}}, "class_weight"),
        ({"class_weight": {0: np.nan, 1: 1.0}}, "NaN"),
        ({"kernel": "rbff"}, "not a known name"),
    ],
)
def test_bad_parameters_are_named(params, match):
    X, y = blobs(20)
    with pytest.raises(InvalidInput, match=match) as caught:
        SVC(**params).fit(X, y)
    assert str(caught.value).startswith("SVC")


def test_bad_data_are_named():
    X, y = blobs(20)
    hole = X.copy()
    hole[3, 1] = np.nan
    for bad, match in [
        ((hole, y), "NaN"),
        ((np.zeros((0, 3)), []), "0 sample"),
        ((X, np.zeros(20)), "one class"),
        ((X, y[:10]), "20 rows and y has 10"),
        ((X, None), "requires y"),
        ((X, np.linspace(0, 1, 20)), "Unknown label type"),
        ((X, np.c_[y, y]), "y should be a 1d array|1d"),
        ((X, y, -np.ones(20)), "negative"),
        ((X, y, np.zeros(20)), "all sample weights are zero"),
        ((X, y, np.ones(19)), r"expected \(20,\)"),
        ((X * 1e200, y), "overflow|finite"),
    ]:
        with pytest.raises(InvalidInput, match=match):
            SVC("poly").fit(*bad)
    model = SVC().fit(X, y)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :2])
    with pytest.raises(InvalidInput, match="inf at row 1"):
        SVC("poly").fit(X, y).decision_function([[0, 0, 0], [1e200, 0, 0]])


# --------------------------------------------------------------------------- stops and interrupts
def test_one_warning_for_many_problems():
    X, y = load_wine(return_X_y=True)
    model = SVC("linear", max_iter=3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert [w.category for w in caught] == [NotConverged]
    text = str(caught[0].message)
    assert text.startswith("SVC: 3 of 3 problems") and "First: stopped by max_iter" in text
    assert not model.solution_.converged and (model.n_iter_ == 3).all()
    assert model.predict(X).shape == (178,)
    assert SVC(max_iter=-1).fit(X, y).solution_.converged


def test_max_time_is_for_the_whole_fit(monkeypatch):
    X, y = load_iris(return_X_y=True)
    seen = []
    solve = SMO.solve

    def record(self, *args, **kwargs):
        seen.append(self.max_time)
        return solve(self, *args, **kwargs)

    monkeypatch.setattr(machines.SMO, "solve", record)
    SVC(max_time=100.0).fit(X, y)
    assert len(seen) == 3 and seen == sorted(seen, reverse=True) and 0 < seen[-1] < 100


@pytest.mark.parametrize("fitted", [True, False])
def test_an_interrupt_leaves_the_estimator_as_it_was(fitted, monkeypatch):
    X, y = load_iris(return_X_y=True)
    model = SVC(RBF(1.0))
    if fitted:
        model.fit(X[:80], y[:80])
    before = dict(vars(model))
    solve, calls = SMO.solve, []

    def interrupted(self, *args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return solve(self, *args, **kwargs)

    monkeypatch.setattr(machines.SMO, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is before[name] for name in before)


def test_a_warning_made_an_error_leaves_the_estimator_as_it_was():
    X, y = blobs(60)
    model = SVC().fit(X, y)
    expected = model.decision_function(X)
    model.set_params(max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(NotConverged):
            model.fit(X[:30], y[:30])
    np.testing.assert_array_equal(model.decision_function(X), expected)


def test_a_small_memory_budget_changes_nothing_but_the_digits():
    X, y = blobs(700, 4, seed=6)
    expected = SVC(RBF(1.5), tol=1e-6).fit(X, y)
    with mercer.config(memory="1MB"):
        model = SVC(RBF(1.5), tol=1e-6).fit(X, y)
        values = model.decision_function(X)
    np.testing.assert_allclose(values, expected.decision_function(X), atol=1e-4)
    with mercer.config(memory=20_000), pytest.raises(MemoryBudgetExceeded):
        SVC(RBF(1.5)).fit(X, y)


# -------------------------------------------------------------------- life among other estimators
def test_clone_pickle_pipeline_and_search():
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), SVC())
    search = GridSearchCV(
        pipeline,
        {"svc__kernel__length_scale": [0.5, 2.0], "svc__C": [0.1, 10.0]},
        cv=3,
        error_score="raise",
    ).fit(X, y)
    assert search.best_score_ > 0.94
    assert search.best_params_["svc__C"] == 10.0
    model = search.best_estimator_
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    K = RBF(1.0)(X)
    scores = cross_val_score(SVC("precomputed"), K, y, cv=3, error_score="raise")
    np.testing.assert_allclose(scores, cross_val_score(SVC(RBF(1.0)), X, y, cv=3))


def test_saved_models_say_the_same(tmp_path):
    X, y = load_iris(return_X_y=True)
    X = X[::3]
    y = np.array(["a", "b", "c"])[y[::3]]
    for i, model in enumerate(
        [
            SVC().fit(X, y),
            SVC("linear", multi_class="ovr").fit(X, y),
            SVC(RBF(0.5), np.inf).fit(X, y),
            SVC(Constant(1.0)).fit(X[:34], y[:34]),  # ‖f‖ = 0, an infinite margin
        ]
    ):
        path = tmp_path / f"{i}.mercer"
        mercer.save(model, path)
        again = mercer.load(path)
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
        assert again.loo_bound_ == model.loo_bound_
        np.testing.assert_array_equal(again.margin_, model.margin_)
        assert again.solution_.gap == model.solution_.gap


@pytest.mark.parametrize(
    "changes",
    [
        {"dual_coef_": np.ones((2, 3))},
        {"dual_coef_": np.full((2, 30), np.nan)},
        {"intercept_": np.zeros(2)},
        {"classes_": np.array(["a", "a", "c"])},
        {"classes_": np.array(["a", "b"])},
        {"n_support_": np.array([1, 1, 1])},
        {"support_": np.arange(3)},
        {"support_kind_": np.array(["margin"])},
        {"margin_": 1.0},
        {"support_vectors_": np.zeros((3, 4))},
        {"n_features_in_": 9},
    ],
    ids=lambda c: next(iter(c)),
)
def test_states_that_do_not_fit_are_refused(changes):
    X, y = load_iris(return_X_y=True)
    model = SVC().fit(X, np.array(["a", "b", "c"])[y])
    model._check_state()
    vars(model).update(changes)
    with pytest.raises(ModelFileError):
        model._check_state()
    for name in ("dual_coef_", "kernel_", "classes_", "n_support_"):
        part = SVC().fit(X, y)
        del vars(part)[name]
        with pytest.raises(ModelFileError, match=name):
            part._check_state()
    SVC()._check_state()


def test_repeated_fits_and_torch():
    torch = pytest.importorskip("torch")
    X, y = blobs(50)
    model = SVC().fit(X, y)
    values = model.decision_function(X)
    np.testing.assert_array_equal(model.fit(X, y).decision_function(X), values)
    other = SVC().fit(torch.as_tensor(X), torch.as_tensor(y))
    np.testing.assert_allclose(other.decision_function(torch.as_tensor(X)), values, atol=1e-10)


def test_no_perceptron_has_a_larger_margin():
    X, y = blobs(60, noise=0.0)
    X = X[np.abs(X[:, 0]) > 0.3]
    y = (X[:, 0] > 0).astype(int)
    best = SVC("linear", np.inf, tol=1e-8).fit(X, y)
    other = KernelPerceptron("linear", "margin").fit(X, y)
    theta = X[other.support_].T @ other.dual_coef_
    reached = (np.where(y == 1, 1, -1) * (X @ theta + other.intercept_)).min()
    assert reached / np.linalg.norm(theta) <= best.margin_ * (1 + 1e-8)


def test_separability_is_what_linear_programming_says():
    rng = np.random.default_rng(0)
    for trial in range(12):
        X = rng.standard_normal((12, 3))
        s = np.where(rng.random(12) < 0.5, 1.0, -1.0)
        s[:2] = [1, -1]
        A = -s[:, None] * np.c_[X, np.ones(12)]
        found = linprog(np.zeros(4), A, -np.ones(12), bounds=(None, None)).status == 0
        try:
            model = SVC("linear", np.inf).fit(X, s)
        except mercer.errors.NotSeparable:
            assert not found, trial
        else:
            assert found and (s * model.decision_function(X)).min() >= 1 - 1e-3, trial
