"""Tasks, layouts and votes against loops, scikit-learn's own functions, and refits of each pair."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from sklearn import svm
from sklearn.datasets import load_digits
from sklearn.utils.multiclass import _ovr_decision_function

from mercer import RBF, SVC, Linear, NuSVC
from mercer.errors import InvalidInput
from mercer.models.margin import machines
from mercer.models.margin.machines import has_pairs
from mercer.models.margin.problems import binary_tasks, n_tasks, pair_columns, pair_layout, votes

CODES = np.array([2, 0, 1, 1, 3, 0, 2, 2, 3])


# ------------------------------------------------------------------------------------- the parts
def test_pairs_are_those_of_a_double_loop():
    tasks = binary_tasks(CODES, 4, "ovo")
    assert [(t.positive, t.negative) for t in tasks] == list(combinations(range(4), 2))
    assert len(tasks) == n_tasks(4, "ovo") == 6
    for task in tasks:
        expected = [i for i, c in enumerate(CODES) if c in (task.positive, task.negative)]
        np.testing.assert_array_equal(task.index, expected)
        np.testing.assert_array_equal(task.signs, np.where(CODES[expected] == task.positive, 1, -1))


def test_rest_and_two_classes_use_every_point():
    for task in binary_tasks(CODES, 4, "ovr"):
        assert task.index is None and task.negative == -1
        np.testing.assert_array_equal(task.signs > 0, CODES == task.positive)
    for kind in ("ovo", "ovr"):
        (task,) = binary_tasks(CODES % 2, 2, kind)
        assert (task.positive, task.negative, task.index) == (1, 0, None)
        np.testing.assert_array_equal(task.signs, 2.0 * (CODES % 2) - 1)
        assert n_tasks(2, kind) == 1


@pytest.mark.parametrize("kind", ["ovo", "ovr"])
def test_tasks_among_some_points_are_tasks_of_those_points(kind):
    among = np.array([0, 1, 2, 4, 6, 8])
    for part, whole in zip(
        binary_tasks(CODES, 4, kind, among), binary_tasks(CODES[among], 4, kind), strict=True
    ):
        expected = among if whole.index is None else among[whole.index]
        np.testing.assert_array_equal(part.index, expected)
        np.testing.assert_array_equal(part.signs, whole.signs)


@pytest.mark.parametrize("k", [3, 4, 7])
def test_layout_and_columns_undo_one_another(k):
    rng = np.random.default_rng(k)
    owners = np.sort(rng.integers(0, k, 30))
    columns = []
    for i, j in combinations(range(k), 2):
        column = rng.standard_normal(30)
        column[(owners != i) & (owners != j)] = 0
        columns.append(column)
    layout = pair_layout(columns, owners, k)
    assert layout.shape == (k - 1, 30)
    np.testing.assert_array_equal(pair_columns(layout, owners, k), np.stack(columns, 1))
    assert (layout != 0).all()  # every class has a coefficient for each other one


@pytest.mark.parametrize("k", [3, 5])
def test_votes_are_scikit_learns(k):
    rng = np.random.default_rng(k)
    values = rng.standard_normal((40, k * (k - 1) // 2)).round(1)  # some are exactly 0
    np.testing.assert_allclose(votes(values, k), _ovr_decision_function(values < 0, -values, k))


def test_votes_count_before_values():
    # class 0 wins both pairs narrowly, class 1 loses one of them and wins the other enormously
    values = np.array([[0.01, 0.01, 1e9]])
    assert votes(values, 3).argmax() == 0
    # one vote each: the sums of the values decide
    assert votes(np.array([[1.0, -3.0, 0.5]]), 3).argmax() == 2


# --------------------------------------------------------------------------------- the classifiers
def test_each_pair_is_the_two_class_machine():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 16, y[:300]
    kernel = RBF(1.5)
    model = SVC(kernel, 5.0, tol=1e-8).fit(X, y)
    values = model.pairwise_decision_function(X[:40])
    for p, (i, j) in enumerate(combinations(range(10), 2)):
        if p % 9:
            continue
        rows = np.flatnonzero((y == i) | (y == j))
        pair = SVC(kernel, 5.0, tol=1e-8).fit(X[rows], y[rows])
        np.testing.assert_allclose(values[:, p], -pair.decision_function(X[:40]), atol=1e-6)
        assert model.margin_[p] == pytest.approx(pair.margin_, rel=1e-6)
        mine = np.flatnonzero(model.function_.coef[:, p])
        np.testing.assert_array_equal(np.sort(model.support_[mine]), np.sort(rows[pair.support_]))
    np.testing.assert_array_equal(model.predict(X), y)


def test_ten_classes_equal_scikit_learns_with_fewer_products():
    X, y = load_digits(return_X_y=True)
    X, y = X[::5] / 16, y[::5]
    mine = SVC(RBF(1.5), 5.0, tol=1e-8).fit(X, y)
    theirs = svm.SVC(gamma=1 / (2 * 1.5**2), C=5.0, tol=1e-8, decision_function_shape="ovo")
    theirs.fit(X, y)
    np.testing.assert_allclose(mine.dual_coef_, theirs.dual_coef_, atol=1e-4)
    values = mine.pairwise_decision_function(X)
    np.testing.assert_allclose(values, theirs.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(mine.function_(X), values, atol=1e-10)


@pytest.mark.parametrize("cls", [SVC, NuSVC])
def test_evaluating_by_class_changes_nothing(cls, monkeypatch):
    X, y = load_digits(return_X_y=True)
    X, y = X[:200] / 16, y[:200]
    model = cls(RBF(1.0)).fit(X, y)
    by_class = model.pairwise_decision_function(X)
    monkeypatch.setattr(machines, "BY_CLASS", 99)
    np.testing.assert_allclose(model.pairwise_decision_function(X), by_class, atol=1e-12)
    # a class without any support vector is passed over
    shown = model.dual_coef_.copy()
    keep = np.repeat(np.arange(10), model.n_support_) != 3
    model.dual_coef_, model.support_vectors_ = shown[:, keep], model.support_vectors_[keep]
    model.support_, model.n_support_ = model.support_[keep], model.n_support_.copy()
    model.n_support_[3] = 0
    expected = model.pairwise_decision_function(X)
    monkeypatch.setattr(machines, "BY_CLASS", 3)
    np.testing.assert_allclose(model.pairwise_decision_function(X), expected, atol=1e-12)


def test_one_against_the_rest():
    X, y = load_digits(return_X_y=True)
    X, y = X[:150] / 16, np.array(list("abcdefghij"))[y[:150]]
    kernel = RBF(1.5)
    model = SVC(kernel, 5.0, multi_class="ovr", tol=1e-8).fit(X, y)
    values = model.decision_function(X)
    assert values.shape == (150, 10) and model.dual_coef_.shape == (10, len(model.support_))
    assert model.intercept_.shape == model.margin_.shape == model.n_iter_.shape == (10,)
    for c in (0, 4, 9):
        rest = SVC(kernel, 5.0, tol=1e-8).fit(X, y == model.classes_[c])
        np.testing.assert_allclose(values[:, c], rest.decision_function(X), atol=1e-6)
    np.testing.assert_array_equal(model.predict(X), model.classes_[values.argmax(1)])
    np.testing.assert_allclose(model.function_(X), values, atol=1e-10)
    with pytest.raises(InvalidInput, match="multi_class='ovo'"):
        model.pairwise_decision_function(X)


@pytest.mark.parametrize("cls", [SVC, NuSVC])
def test_decision_functions_have_the_shapes_of_scikit_learn(cls):
    X, y = load_digits(n_class=5, return_X_y=True)
    X, y = X[:150] / 16, y[:150]
    options = {"nu": 0.1} if cls is NuSVC else {"C": 5.0}
    theirs = {
        shape: getattr(svm, cls.__name__)(
            gamma=1 / (2 * 1.5**2), tol=1e-8, decision_function_shape=shape, **options
        ).fit(X, y)
        for shape in ("ovr", "ovo")
    }
    mine = {
        shape: cls(RBF(1.5), tol=1e-8, decision_function_shape=shape, **options).fit(X, y)
        for shape in ("ovr", "ovo")
    }
    for shape, columns in (("ovr", 5), ("ovo", 10)):
        values = mine[shape].decision_function(X)
        assert values.shape == (150, columns)
        np.testing.assert_allclose(values, theirs[shape].decision_function(X), atol=1e-4)
        assert mine[shape].loo_decision_function(X).shape == (150, columns)
        np.testing.assert_array_equal(mine[shape].predict(X), mine["ovr"].predict(X))
        np.testing.assert_array_equal(mine[shape].loo(X), mine["ovr"].loo(X))
    two = cls(decision_function_shape="ovo", **options).fit(X[y < 2], y[y < 2])
    assert two.decision_function(X).shape == (150,)


@pytest.mark.parametrize(
    ("params", "cure"),
    [
        ({"decision_function_shape": "pairs"}, "'ovr' .* or 'ovo'"),
        (
            {"decision_function_shape": "ovo", "multi_class": "ovr"},
            "multi_class='ovr' has no pairs",
        ),
    ],
)
def test_shapes_that_make_no_sense_are_refused(params, cure):
    with pytest.raises(InvalidInput, match=cure):
        SVC(**params).fit([[0.0], [1.0]], [0, 1])


def test_three_classes_tell_their_layout_apart():
    # three pairs and three classes: only the rows of dual_coef_ differ
    X, y = load_digits(n_class=3, return_X_y=True)
    X = X[:90] / 16
    pairs, rest = (SVC(multi_class=kind).fit(X, y[:90]) for kind in ("ovo", "ovr"))
    assert pairs.dual_coef_.shape[0] == 2 and rest.dual_coef_.shape[0] == 3
    assert has_pairs(pairs) and not has_pairs(rest)
    pairs.multi_class = "ovr"  # a parameter changed after the fit concerns the next one
    assert pairs.pairwise_decision_function(X).shape == (90, 3)
    assert (pairs.decision_function(X).max(1) > 1.5).all()


def test_linear_weights_of_pairs_and_rest():
    X, y = load_digits(n_class=4, return_X_y=True)
    X, y = X[:120] / 16, y[:120]
    for kind, count in (("ovo", 6), ("ovr", 4)):
        model = SVC(Linear(), 2.0, multi_class=kind).fit(X, y)
        assert model.coef_.shape == (count, 64)
        expected = X @ model.coef_.T + model.intercept_
        np.testing.assert_allclose(machines.machine_values(model, X), expected, atol=1e-10)


def test_a_class_of_one_row_and_unsorted_labels():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((21, 2))
    y = np.array(["z"] * 10 + ["m"] * 10 + ["a"])
    for kind in ("ovo", "ovr"):
        model = SVC(RBF(0.3), 1e4, multi_class=kind).fit(X, y)
        np.testing.assert_array_equal(model.classes_, ["a", "m", "z"])
        assert model.predict(X[20:])[0] == "a" and model.score(X, y) == 1.0
        owners = np.repeat(model.classes_, model.n_support_)
        np.testing.assert_array_equal(y[model.support_], owners)
