"""SVC against formulas, scikit-learn, primal problems and refits: S2, S3, S4, S6, S8, S12, C1."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from sklearn import svm
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_classification
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import RBF, SVC, KernelPerceptron, Linear, Matern, Polynomial
from mercer.models.margin.machines import weights_of_features
from tests.models.margins import blobs, certificate


# ----------------------------------------------------------------------- known solutions
def test_xor_has_an_eighth_for_every_point_and_decides_by_the_product():
    """S4: XOR by (1 + xᵀx′)², α = ⅛, f = −x₁x₂; S2: its geometric margin √2."""
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
    """S4 in closed form, and S2: half the distance."""
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
    """S4: the offset and the kinds of support vectors on both sides of the switch."""
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
    """C1, S4: primal, dual, gap and KKT residual, recomputed."""
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
    """S4 without offset: the KKT classes, row by row."""
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
    """C1, S6: one against one is the sum of its pairs."""
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
    """S4 against another implementation."""
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
    """S6 against another implementation."""
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
    """S12: no step in θ and b improves the primal objective; S2: 1/‖θ‖."""
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
        assert weights_of_features(model) is not None
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
    """S4: α = 0 beyond the margin, 0 < α < C on it, α = C inside."""
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
    """S8, S6."""
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
    """S8 with weights."""
    X, y = blobs(40)
    w = np.random.default_rng(0).integers(0, 4, 40)
    w[:2] = 1
    weighted = SVC(RBF(1.0)).fit(X, y, w)
    repeated = SVC(RBF(1.0)).fit(np.repeat(X, w, 0), np.repeat(y, w))
    assert repeated.loo_bound_ <= weighted.loo_bound_ + 1e-12  # of equal rows some may be idle
    assert weighted.loo_bound_ == pytest.approx(w[weighted.support_].sum() / w.sum())


def test_no_perceptron_has_a_larger_margin():
    """S2, S3: the hard margin is the largest geometric margin."""
    X, y = blobs(60, noise=0.0)
    X = X[np.abs(X[:, 0]) > 0.3]
    y = (X[:, 0] > 0).astype(int)
    best = SVC("linear", np.inf, tol=1e-8).fit(X, y)
    other = KernelPerceptron("linear", "margin").fit(X, y)
    theta = X[other.support_].T @ other.dual_coef_
    reached = (np.where(y == 1, 1, -1) * (X @ theta + other.intercept_)).min()
    assert reached / np.linalg.norm(theta) <= best.margin_ * (1 + 1e-8)


def test_separability_is_what_linear_programming_says():
    """S3: an answer or a refusal, as a linear program decides."""
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
