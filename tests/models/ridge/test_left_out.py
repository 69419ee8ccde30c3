"""Groups of rows left out of ridge fits, and degrees of freedom, against refits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict

import mercer
from mercer import RBF, Constant, KernelRidge, KernelRidgeClassifier, Linear, Polynomial
from mercer.errors import InvalidInput, MemoryBudgetExceeded

N = 26
rng = np.random.default_rng(5)
X = rng.standard_normal((N, 3))
Y = np.c_[np.sin(X[:, 0]) + 3 + 0.1 * rng.standard_normal(N), X[:, 1] ** 2]
GROUPS = rng.integers(0, 6, N)
GROUPS[:9] = 7  # more rows than the linear kernels have features
WEIGHTS = {
    "none": None,
    "uneven": rng.uniform(0.3, 3, N),
    "zeros": np.where(np.arange(N) % 5 == 0, 0.0, rng.uniform(0.3, 3, N)),
}
KERNELS = {
    "rbf": RBF(1.2),
    "linear": Linear(),
    "polynomial": Polynomial(2, 0.5),
    "affine": Linear() + Constant(1.0),
}


def refits(model, X, y, weights, groups):
    out = np.empty(np.shape(y))
    for label in set(groups.tolist()):
        out_of = groups == label
        w = None if weights is None else weights[~out_of]
        rest = clone(model).fit(X[~out_of], y[~out_of], sample_weight=w)
        out[out_of] = rest.predict(X[out_of])
    return out


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("alpha", [0.3, np.array([0.1, 2.0])], ids=["number", "each"])
def test_groups_left_out_equal_refits(name, weights, alpha, offset):
    kernel, w = KERNELS[name], WEIGHTS[weights]
    model = KernelRidge(kernel, alpha, fit_intercept=offset).fit(X, Y, sample_weight=w)
    want = refits(model, X, Y, w, GROUPS)
    np.testing.assert_allclose(model.loo(groups=GROUPS), want, atol=1e-9)
    np.testing.assert_allclose(model.loo(groups=np.arange(N)), model.loo(), atol=1e-9)
    K = kernel(X)
    again = KernelRidge("precomputed", alpha, fit_intercept=offset).fit(K, Y, sample_weight=w)
    np.testing.assert_allclose(again.loo(K, groups=GROUPS), want, atol=1e-8)


def test_a_group_of_rows_without_weight_is_predicted_by_the_whole_fit():
    w = np.where(GROUPS == 7, 0.0, 1.0)
    model = KernelRidge(RBF(), 0.1, fit_intercept=True).fit(X, Y[:, 0], sample_weight=w)
    out = model.loo(groups=GROUPS)
    np.testing.assert_allclose(out[GROUPS == 7], model.predict(X)[GROUPS == 7], atol=1e-12)


def test_labels_may_be_anything_that_has_a_hash():
    model = KernelRidge(RBF(), 0.1).fit(X, Y[:, 0])
    want = model.loo(groups=GROUPS)
    names = [("patient", int(g)) for g in GROUPS]
    words = pd.Series([f"p{g}" for g in GROUPS], index=np.arange(N)[::-1])
    mixed = [None if g == 0 else int(g) for g in GROUPS]
    for groups in (names, words, GROUPS.tolist(), GROUPS.astype(float), mixed):
        np.testing.assert_array_equal(model.loo(groups=groups), want)


def test_groups_equal_those_of_scikit_learn():
    model = Ridge(0.7).fit(X, Y[:, 0])
    want = cross_val_predict(model, X, Y[:, 0], groups=GROUPS, cv=LeaveOneGroupOut())
    mine = KernelRidge(Linear(), 0.7, fit_intercept=True).fit(X, Y[:, 0])
    np.testing.assert_allclose(mine.loo(groups=GROUPS), want, atol=1e-10)
    sparse = KernelRidge(Linear(), 0.7, fit_intercept=True).fit(sp.csr_matrix(X), Y[:, 0])
    np.testing.assert_allclose(sparse.loo(groups=GROUPS), want, atol=1e-10)


@pytest.mark.parametrize("kernel", [Linear(), RBF(0.7)])
@pytest.mark.parametrize("alpha", [0.0, 1e-12])
def test_rows_that_nothing_but_their_group_explains(kernel, alpha):
    points = np.c_[X, np.zeros(N)]
    points[GROUPS == 7, 3] = 1.0  # leverage one of the group in the primal
    y = Y[:, 0]
    model = KernelRidge(kernel, alpha, fit_intercept=True).fit(points, y)
    want = refits(model, points, y, None, GROUPS)
    scale = np.abs(want).max()
    np.testing.assert_allclose(model.loo(groups=GROUPS), want, atol=1e-6 * scale)


def test_huge_and_tiny_targets():
    model = KernelRidge(RBF(), 0.1, fit_intercept=True)
    want = model.fit(X, Y).loo(groups=GROUPS)
    for unit in (1e-200, 1e200):
        got = model.fit(X, unit * Y).loo(groups=GROUPS)
        np.testing.assert_allclose(got / unit, want, rtol=1e-9)


def test_classes_of_groups_left_out():
    y = np.where(X[:, 0] > 0.3, "b", np.where(X[:, 1] > 0, "a", "c"))
    model = KernelRidgeClassifier(RBF(), 0.1, class_weight="balanced").fit(X, y)
    values = model.loo_decision_function(groups=GROUPS)
    plain = clone(model).set_params(class_weight=None).fit(X, y)
    signs = np.where(y[:, None] == plain.classes_, 1.0, -1.0)
    ridge = KernelRidge(RBF(), 0.1, fit_intercept=True).fit(X, signs)
    ungrouped = plain.loo_decision_function(groups=GROUPS)
    np.testing.assert_allclose(ungrouped, refits(ridge, X, signs, None, GROUPS))
    np.testing.assert_array_equal(model.loo(groups=GROUPS), model.classes_[values.argmax(1)])


def test_illegal_groups_are_refused():
    model = KernelRidge(RBF(), 0.1).fit(X, Y)
    for groups, match in [
        (np.zeros(N), "one group"),
        (GROUPS[:-1], f"{N - 1} groups for {N} rows"),
        ([[1]] * N, "sequence of labels"),
        (3, "sequence of labels"),
        (np.full(N, np.nan), "NaN"),
        ([], f"0 groups for {N} rows"),
    ]:
        with pytest.raises(InvalidInput, match=match):
            model.loo(groups=groups)
    weighted = KernelRidge(RBF(), 0.1).fit(X, Y, sample_weight=GROUPS == 7)
    with pytest.raises(InvalidInput, match="one group"):
        weighted.loo(groups=GROUPS)
    with pytest.raises(InvalidInput, match="pass the training matrix again"):
        KernelRidge("precomputed").fit(RBF()(X), Y).loo(groups=GROUPS)


def test_memory_budget_is_kept():
    points = rng.standard_normal((600, 2))
    model = KernelRidge(RBF(), 0.1).fit(points, points[:, 0])
    with mercer.config(memory=3_000_000), pytest.raises(MemoryBudgetExceeded, match="KernelRidge"):
        model.loo(groups=np.arange(600) % 7)


# ------------------------------------------------------------------------- degrees of freedom
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", KERNELS)
def test_degrees_of_freedom_are_the_trace_of_the_derivative(name, weights, offset):
    w, kernel = WEIGHTS[weights], KERNELS[name]
    model = KernelRidge(kernel, 0.3, fit_intercept=offset)
    unit = np.eye(N)
    by_row = clone(model).fit(X, unit, sample_weight=w).predict(X)
    live = np.ones(N, bool) if w is None else w > 0
    want = np.diag(by_row)[live].sum()
    model.fit(X, Y, sample_weight=w)
    assert model.degrees_of_freedom() == pytest.approx(want, abs=1e-9)
    each = clone(model).set_params(alpha=[0.3, 1e9]).fit(X, Y, sample_weight=w)
    assert each.degrees_of_freedom() == pytest.approx([want, float(offset)], abs=1e-5)
    K = kernel(X)
    again = KernelRidge("precomputed", 0.3, fit_intercept=offset).fit(K, Y, sample_weight=w)
    assert again.degrees_of_freedom(K) == pytest.approx(want, abs=1e-8)


def test_degrees_of_freedom_at_the_ends():
    assert KernelRidge(RBF(), 0.0).fit(X, Y).degrees_of_freedom() == pytest.approx(N)
    linear = KernelRidge(Linear(), 0.0, fit_intercept=True).fit(X, Y)
    assert linear.degrees_of_freedom() == pytest.approx(4)
    assert KernelRidge(RBF(), 1e12).fit(X, Y).degrees_of_freedom() == pytest.approx(0, abs=1e-6)
    one = KernelRidge(RBF(), 1.0).fit(X[:1], Y[:1])
    assert one.degrees_of_freedom() == pytest.approx(0.5)
    with pytest.raises(InvalidInput, match=r"degrees_of_freedom\(K\)"):
        KernelRidge("precomputed").fit(RBF()(X), Y).degrees_of_freedom()
