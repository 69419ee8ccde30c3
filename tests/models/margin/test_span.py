"""The span rule against true leave-one-out, and against the geometry that it is named after."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris

from mercer import RBF, SVC, SVR, Linear, NuSVC, NuSVR, Polynomial, White
from mercer.domains import Table
from mercer.errors import InvalidInput
from mercer.models.margin.left_out import span_loo, span_squares

rng = np.random.default_rng(2)
N = 40
X = rng.standard_normal((N, 2))
y = np.where(X[:, 0] + 0.6 * rng.standard_normal(N) > 0, 1, 0)
t = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(N)


def kinds(model, n):
    """Return 0 for no support vector, 1 for a free one, 2 for a bound one, for n rows."""
    out = np.zeros(n, dtype=int)
    out[model.support_] = np.where(model.support_kind_ == "bound", 2, 1)
    return out


def true_loo(model, X, y, values):
    """Return left-out values by refits, and whether each refit kept the kinds of the others."""
    n = len(y)
    out, same = np.empty(n), np.zeros(n, dtype=bool)
    mine = kinds(model, n)
    for i in range(n):
        rest = clone(model).fit(np.delete(X, i, 0), np.delete(y, i))
        out[i] = values(rest, X[i : i + 1])[0]
        same[i] = np.array_equal(kinds(rest, n - 1), np.delete(mine, i))
    return out, same


@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("kernel", [RBF(0.8), Linear(), Polynomial(2)], ids=repr)
@pytest.mark.parametrize("C", [0.1, 1.0, 20.0])
def test_classifier_against_refits(kernel, C, offset):
    model = SVC(kernel, C, tol=1e-9, fit_intercept=offset).fit(X, y)
    want, same = true_loo(model, X, y, lambda m, Z: m.decision_function(Z))
    got = model.loo_decision_function(X)
    # Where no coefficient changes its kind the rule is exact.
    np.testing.assert_allclose(got[same], want[same], atol=2e-5)
    assert same.any()
    wrong = [np.sum((values > 0) != (y == 1)) for values in (got, want)]
    assert -3 <= wrong[0] - wrong[1] <= 4
    if isinstance(kernel, RBF):  # with few features, points that become support vectors matter
        assert np.corrcoef(got, want)[0, 1] > 0.93
    outside = np.setdiff1d(np.arange(N), model.support_)
    np.testing.assert_array_equal(got[outside], model.decision_function(X)[outside])


@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("epsilon", [0.0, 0.2])
@pytest.mark.parametrize("C", [0.3, 30.0])
def test_regression_against_refits(C, epsilon, offset):
    model = SVR(RBF(0.8), C, epsilon, tol=1e-9, fit_intercept=offset).fit(X, t)
    want, same = true_loo(model, X, t, lambda m, Z: m.predict(Z))
    got = model.loo(X)
    np.testing.assert_allclose(got[same], want[same], atol=2e-5)
    assert same.any()
    assert np.corrcoef(got - t, want - t)[0, 1] > 0.95


def test_rules_of_nu_are_those_of_the_machines_they_equal():
    nu = NuSVC(RBF(), 0.5, tol=1e-9).fit(X, y)
    bound = nu.support_kind_ == "bound"
    C = abs(nu.dual_coef_[0, bound]).max()
    same = SVC(RBF(), C, tol=1e-9).fit(X, y)
    # Rows that are fitted again keep ν, or C; for the others the rule is one.
    left_out = nu.loo_decision_function(X)
    again = np.abs(left_out - same.loo_decision_function(X)) > 1e-5
    want, _ = true_loo(nu, X, y, lambda m, Z: m.decision_function(Z))
    np.testing.assert_allclose(left_out[again], want[again], atol=1e-5)
    assert not again.all()
    tube = NuSVR(RBF(), 0.4, tol=1e-9).fit(X, t)
    same = SVR(RBF(), 1.0, tube.epsilon_, tol=1e-9).fit(X, t)
    left_out = tube.loo(X)
    again = np.abs(left_out - same.loo(X)) > 1e-5
    want, _ = true_loo(tube, X, t, lambda m, Z: m.predict(Z))
    np.testing.assert_allclose(left_out[again], want[again], atol=1e-5)
    assert not again.all()


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_what_is_left_out_is_what_predict_returns(multi_class):
    for labels in (np.where(y, "yes", "no"), np.array(["a", "b", "c"])[np.arange(N) % 3]):
        for model in (SVC(RBF(0.5), multi_class=multi_class), NuSVC(nu=0.2)):
            model.fit(X, labels)
            values, said = model.loo_decision_function(X), model.loo(X)
            assert said.dtype == model.predict(X).dtype and said.shape == (N,)
            assert values.shape == model.decision_function(X).shape
            index = (values > 0).astype(int) if values.ndim == 1 else values.argmax(1)
            np.testing.assert_array_equal(said, model.classes_[index])


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_several_classes(multi_class):
    data, labels = load_iris(return_X_y=True)
    data, labels = data[::3], labels[::3]
    model = SVC(RBF(1.0), 3.0, tol=1e-8, multi_class=multi_class).fit(data, labels)
    got = model.loo_decision_function(data)
    assert got.shape == (50, 3)
    fits = [clone(model).fit(np.delete(data, i, 0), np.delete(labels, i)) for i in range(50)]
    want = np.array([fit.predict(data[[i]])[0] for i, fit in enumerate(fits)])
    assert (model.loo(data) != want).sum() <= 4
    if multi_class == "ovr":
        for c in range(3):
            alone = SVC(RBF(1.0), 3.0, tol=1e-8).fit(data, labels == c)
            again = np.abs(got[:, c] - alone.loo_decision_function(data)) > 1e-4
            # a row that is fitted again for one class is so for all
            refits = [fit.decision_function(data[[i]])[0, c] for i, fit in enumerate(fits)]
            np.testing.assert_allclose(got[again, c], np.array(refits)[again], atol=1e-4)
            assert not again.all()


def test_any_data_and_precomputed():
    dense = SVC(Linear(), tol=1e-9).fit(X, y)
    want = dense.loo_decision_function(X)
    sparse = SVC(Linear(), tol=1e-9).fit(sp.csr_matrix(X), y)
    np.testing.assert_allclose(sparse.loo_decision_function(sp.csr_matrix(X)), want, atol=1e-6)
    given = SVC("precomputed", tol=1e-9).fit(X @ X.T, y)
    np.testing.assert_allclose(given.loo_decision_function(X @ X.T), want, atol=1e-6)
    table = Table({"a": X[:, 0], "b": X[:, 1]})
    split = Linear().on(["a", "b"])
    on_table = SVC(split, tol=1e-9).fit(table, y)
    np.testing.assert_allclose(on_table.loo_decision_function(table), want, atol=1e-6)
    words = ["".join(rng.choice(list("abc"), 5)) for _ in range(N)]

    def common(a, b):
        return float(sum(a.count(c) * b.count(c) for c in "abc"))

    by_words = SVC(common).fit(words, y)
    assert by_words.loo_decision_function(words).shape == (N,)
    with pytest.raises(InvalidInput, match="not what the model was fitted on"):
        by_words.loo_decision_function(words[::-1])


def test_weights_and_rows_of_weight_zero():
    w = rng.integers(0, 4, N).astype(float)
    model = SVC(RBF(), 1.0, tol=1e-9).fit(X, y, sample_weight=w)
    got = model.loo_decision_function(X)
    idle = w == 0
    np.testing.assert_allclose(got[idle], model.decision_function(X)[idle])
    plain = SVC(RBF(), 1.0, tol=1e-9).fit(X[~idle], y[~idle], sample_weight=w[~idle])
    np.testing.assert_allclose(got[~idle], plain.loo_decision_function(X[~idle]), atol=1e-6)


def test_noise_of_a_point_is_not_seen_by_the_point_itself():
    kernel = RBF(0.8) + White(0.3)
    model = SVC(kernel, 5.0, tol=1e-9).fit(X, y)
    want, same = true_loo(model, X, y, lambda m, Z: m.decision_function(Z))
    assert same.sum() > 5
    np.testing.assert_allclose(model.loo_decision_function(X)[same], want[same], atol=1e-4)


def test_twins_and_hard_margins():
    twice, labels = np.r_[X, X + 1e-13], np.r_[y, y]
    for C in (1.0, 30.0):
        model = SVC(RBF(0.8), C, tol=1e-9).fit(twice, labels)
        got = model.loo_decision_function(twice)
        assert np.isfinite(got).all()
        free = kinds(model, 2 * N) == 1
        both, refits = np.flatnonzero(free & np.roll(free, N)), []
        for row in both:
            rest = np.delete(np.arange(2 * N), row)
            again = SVC(RBF(0.8), C, tol=1e-9).fit(twice[rest], labels[rest])
            refits.append(again.decision_function(twice[[row]])[0])
        np.testing.assert_allclose(got[both], refits, atol=1e-5)
        size = np.zeros(2 * N)
        size[model.support_] = np.abs(model.dual_coef_).ravel()
        same = np.abs(got[both] - model.decision_function(twice)[both]) < 1e-5
        # a free twin takes over, as far as its bound allows
        np.testing.assert_array_equal(same, (size + np.roll(size, N))[both] <= C)
        if C == 1.0:
            assert same.any() and not same.all()
    # Without x = 1 the hard margin lies between 0 and 3; the rule knows of no new support vectors
    # and says 1 there, so that such a row is fitted again.
    points = np.array([[0.0], [1.0], [3.0], [4.0]])
    hard = SVC(Linear(), np.inf).fit(points, [0, 0, 1, 1])
    np.testing.assert_allclose(hard.loo_decision_function(points), [-2, -1 / 3, 1 / 3, 2])


def test_other_points_are_refused():
    model = SVC(RBF()).fit(X, y)
    with pytest.raises(InvalidInput, match="differ from the support vectors"):
        model.loo(X + 1e-9)
    with pytest.raises(InvalidInput, match="it has 3 rows, the fit had 40"):
        model.loo(X[:3])
    for one in (model, SVR(RBF()).fit(X, t), NuSVC(RBF()).fit(X, y), NuSVR(RBF()).fit(X, t)):
        name = type(one).__name__
        with pytest.raises(InvalidInput, match=f"{name}.loo: .* it has 80 rows, the fit had 40"):
            one.loo(np.r_[X, X])
        with pytest.raises(InvalidInput, match=f"{name}.loo: the model keeps only its support"):
            one.loo()
    with pytest.raises(InvalidInput, match=r"SVC.loo_decision_function: the model keeps only"):
        model.loo_decision_function()
    given = SVC("precomputed").fit(X @ X.T, y)
    with pytest.raises(InvalidInput, match="square"):
        given.loo((X @ X.T)[:5])


# ------------------------------------------------------------------------------------ geometry
@pytest.mark.parametrize("offset", [True, False])
def test_squares_are_distances_to_the_span_of_the_free_points(offset):
    points = rng.standard_normal((7, 5))
    free = np.array([1, 1, 1, 1, 0, 0, 0], dtype=bool)
    got = span_squares(Linear(), points, free, offset)
    for p in range(7):
        others = points[[i for i in np.flatnonzero(free) if i != p]]
        target = points[p]
        if offset:
            target, others = target - others[0], others[1:] - others[0]
        lam = np.linalg.lstsq(others.T, target, rcond=None)[0]
        want = ((target - others.T @ lam) ** 2).sum()
        assert got[p] == pytest.approx(want, rel=1e-6, abs=1e-8)


def test_squares_where_nothing_can_make_up():
    points = rng.standard_normal((3, 2))
    norms = (points**2).sum(1)
    none = np.zeros(3, dtype=bool)
    for offset in (False, True):
        np.testing.assert_allclose(span_squares(Linear(), points, none, offset), norms)
    alone = span_squares(Linear(), points, np.array([True, False, False]), True)
    assert alone[0] == pytest.approx(norms[0])
    assert alone[1] == pytest.approx(((points[1] - points[0]) ** 2).sum())
    np.testing.assert_array_equal(span_loo(Linear(), points, np.zeros(3), none, 0.5, True), 0.5)
    zero = span_squares(Linear(), np.zeros((3, 2)), np.ones(3, dtype=bool), True)
    assert np.isfinite(zero).all()


def test_points_without_coefficient_keep_their_values():
    coef = np.array([0.0, 0.4, -0.4, 0.0, 0.2, -0.2])
    points, free = X[:6], np.array([0, 1, 1, 0, 0, 0], dtype=bool)
    for kernel, given in ((RBF(), points), ("precomputed", RBF()(points))):
        resolved = RBF() if kernel != "precomputed" else SVC("precomputed")._kernel()
        got = span_loo(resolved, given, coef, free, 0.1, True)
        f = RBF()(points) @ coef + 0.1
        np.testing.assert_allclose(got[[0, 3]], f[[0, 3]])
        want = f - coef * span_squares(RBF(), points, free, True)
        np.testing.assert_allclose(got[[1, 2, 4, 5]], want[[1, 2, 4, 5]])
