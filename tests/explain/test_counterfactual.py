"""Nearest rows of which a model says something else: against closed forms and drawn rows."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

from mercer import (
    RBF,
    SVC,
    Categorical,
    GaussianProcessRegressor,
    KernelLogisticRegression,
    KernelQuantileRegressor,
    KernelRidge,
    KernelRidgeClassifier,
    Laplacian,
    Linear,
    TableClassifier,
    TableRegressor,
    counterfactual,
)
from mercer.domains import Table
from mercer.errors import InvalidInput, NotConverged


@pytest.fixture
def X(rng):
    return rng.standard_normal((80, 3))


@pytest.fixture
def y(X):
    return np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


def test_of_a_line_it_is_the_projection(X):
    slopes = np.array([1.0, -2.0, 0.5])
    model = KernelRidge(Linear(), alpha=1e-10, fit_intercept=True).fit(X, X @ slopes + 1.0)
    x, s = X[0], X.std(axis=0)
    for target in (model.predict(X[:1])[0] + 0.7, model.predict(X[:1])[0] - 0.7):
        told = counterfactual(model, x, target)
        gap = target - model.predict(X[:1])[0]
        step = s**2 * slopes * gap / np.sum((s * slopes) ** 2)
        np.testing.assert_allclose(told.row[0], x + step, atol=1e-6)
        assert told.distance == pytest.approx(abs(gap) / np.linalg.norm(s * slopes), rel=1e-6)
        assert told.answer == model.predict(told.row)[0]
        assert (told.answer - target) * gap >= 0


def test_limits_hold_and_columns_stay(X):
    slopes = np.array([1.0, -2.0, 0.5])
    model = KernelRidge(Linear(), alpha=1e-10).fit(X, X @ slopes)
    x = np.zeros(3)
    told = counterfactual(model, x, 1.0, columns=[0, 2], bounds={0: (-0.2, 0.3)})
    assert told.row[0, 1] == 0.0
    assert told.row[0, 0] == pytest.approx(0.3)
    assert told.row[0, 2] == pytest.approx(1.4, abs=1e-6)
    assert [c.column for c in told.changes] == ["x2", "x0"]
    inside = counterfactual(model, x, (0.5, 0.6))
    assert 0.5 <= inside.answer <= 0.6
    assert inside.answer == pytest.approx(0.5, abs=1e-6)
    assert counterfactual(model, x, (-np.inf, -0.5)).answer == pytest.approx(-0.5, abs=1e-6)


@pytest.mark.parametrize("kernel", [RBF(), Laplacian(), 0.5 * RBF(0.7) + Linear()], ids=str)
def test_no_drawn_row_is_nearer(kernel, X, y, rng):
    model = KernelRidge(kernel, alpha=0.1).fit(X, y)
    s, low, high = X.std(axis=0), X.min(axis=0), X.max(axis=0)
    for i in range(3):
        target = model.predict(X[[i]])[0] + 0.8
        told = counterfactual(model, X[i], target)
        assert told.found
        assert model.predict(told.row)[0] >= target
        ball = rng.standard_normal((20000, 3))
        ball /= np.linalg.norm(ball, axis=1)[:, None]
        Z = X[i] + s * ball * told.distance * 0.995 * rng.uniform(0, 1, (20000, 1)) ** (1 / 3)
        Z = Z[((Z >= low) & (Z <= high)).all(axis=1)]
        assert model.predict(Z).max() < target


CLASSIFIERS = [
    KernelRidgeClassifier(RBF()),
    SVC(RBF()),
    SVC(RBF(), multi_class="ovo"),
    KernelLogisticRegression(RBF(), alpha=0.1),
]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_classes(model, classes, X, y):
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-0.3, 0.5][: classes - 1])]
    model.fit(X, labels)
    own = model.predict(X[:1])[0]
    for target in set(labels):
        told = counterfactual(model, X[0], target)
        assert told.before == own
        assert told.answer == target == model.predict(told.row)[0]
        assert (told.distance == 0) == (target == own) == (told.changes == ())
        if told.distance:  # a little less will not do
            back = X[:1] + 0.999 * (told.row - X[:1])
            assert model.predict(back)[0] != target


def test_a_process_with_a_line_and_quantiles(X, y):
    process = GaussianProcessRegressor(RBF(), mean="linear", optimizer=None, noise=0.1)
    target = process.fit(X, y).predict(X[:1])[0] - 0.5
    assert counterfactual(process, X[0], target).answer == pytest.approx(target, abs=1e-5)
    model = KernelQuantileRegressor(RBF(), quantile=[0.1, 0.9], alpha=0.01).fit(X, y)
    target = model.predict(X[:1])[0, 1] + 0.3
    told = counterfactual(model, X[0], target, output=1)
    assert model.predict(told.row)[0, 1] == pytest.approx(target, abs=1e-5)
    with pytest.raises(InvalidInput, match="output=0"):
        counterfactual(model, X[0], target)


def test_it_says_so_where_nothing_is_found(X, y):
    model = KernelRidge(RBF(), alpha=0.1).fit(X, y)
    with pytest.warns(NotConverged, match="no row was found that meets target=50"):
        told = counterfactual(model, X[0], 50)
    assert not told.found
    assert told.answer == model.predict(told.row)[0]
    assert told.answer >= model.predict(X).max()
    assert "which is not the target" in str(told)


# ---- tables ----


@pytest.fixture
def table(rng):
    return Table(
        {
            "size": np.where(np.arange(60) % 9 == 4, np.nan, rng.standard_normal(60)),
            "kind": np.array([("a", "b", "c", None)[k] for k in rng.integers(0, 4, 60)]),
            "count": rng.integers(0, 9, 60),
            "flag": rng.random(60) > 0.5,
        }
    )


@pytest.fixture
def worth(table):
    size = np.nan_to_num(table["size"])
    kind = np.array([{"a": 2.0, "b": 0.0, "c": 1.0, None: 0.5}[k] for k in table["kind"]])
    return size + kind + 0.2 * table["count"] + 0.5 * table["flag"]


def test_levels_are_tried_one_by_one(table, worth):
    model = TableRegressor(model="ridge").fit(table, worth)
    row = int(np.flatnonzero(table["kind"] == "b")[0])
    here = model.predict(table.take([row]))[0]
    told = counterfactual(model, table.take([row]), here + 1.5, background=table, columns="kind")
    assert told.changes == (("kind", "b", "a"),)
    assert told.distance == 1.0
    assert model.predict(told.row)[0] == told.answer >= here + 1.5
    told = counterfactual(
        model, table.take([row]), here + 2.0, background=table, columns=["kind", "flag"]
    )
    assert {c.column for c in told.changes} <= {"kind", "flag"}
    assert told.found == (told.answer >= here + 2.0)


def test_whole_numbers_stay_whole_and_gaps_may_be_filled(table, worth):
    model = TableRegressor(model="ridge").fit(table, worth)
    row = int(np.flatnonzero((table["count"] < 3) & ~np.isnan(table["size"]))[0])
    here = model.predict(table.take([row]))[0]
    told = counterfactual(model, table.take([row]), here + 0.5, background=table, columns=["count"])
    (change,) = told.changes
    assert float(change.after).is_integer()
    assert told.row["count"].dtype.kind == "i"
    gap = int(np.flatnonzero(np.isnan(table["size"]))[0])
    here = model.predict(table.take([gap]))[0]
    told = counterfactual(model, table.take([gap]), here + 0.8, background=table, columns=["size"])
    assert np.isfinite(told.row["size"][0])
    assert told.distance == 1.0
    assert all(
        c.after is not None
        for c in counterfactual(model, table.take([0]), here + 1.0, background=table).changes
    )


def test_rows_of_frames_and_dicts(table, worth):
    pytest.importorskip("pandas")
    frame = table.to_pandas()
    labels = np.where(worth > np.median(worth), "much", "little")
    model = TableClassifier(model="ridge").fit(frame, labels)
    target = "much" if model.predict(frame[:1])[0] == "little" else "little"
    one = counterfactual(model, frame.iloc[[0]], target, background=frame)
    two = counterfactual(model, frame.iloc[0], target, background=frame)
    three = counterfactual(model, dict(frame.iloc[0]), target, background=frame)
    assert one.answer == target
    assert one.changes == two.changes
    assert one.changes == three.changes


def test_numbers_may_be_levels(rng):
    X = np.column_stack([rng.standard_normal(40), rng.integers(0, 3, 40)])
    y = X[:, 0] + np.array([0.0, 5.0, 1.0])[X[:, 1].astype(int)]
    model = KernelRidge(RBF(3.0).on([0]) + 3.0 * Categorical(0.1).on([1]), alpha=1e-3).fit(X, y)
    told = counterfactual(model, [0.0, 0.0], 4.0, categorical=[1])
    assert told.row[0, 1] == 1.0
    assert told.row[0, 0] == 0.0
    assert told.distance == 1.0


def test_steps_of_a_tree_are_found(X):
    class Step(RegressorMixin, BaseEstimator):
        def predict(self, X):
            return np.where(X[:, 0] > 1.0, 1.0, 0.0)

    told = counterfactual(Step(), [0.0, 0.0, 0.0], 1.0, background=X)
    assert told.found
    assert [c.column for c in told.changes] == ["x0"]
    assert told.row[0, 0] == pytest.approx(1.0, abs=1e-6)


def test_constant_columns_stay_unless_they_are_named():
    X = np.column_stack([np.linspace(-1, 1, 9), np.full(9, 2.0)])
    model = KernelRidge(Linear(), alpha=1e-9).fit(X, X[:, 0] + X[:, 1])
    told = counterfactual(model, X[0], 1.5)
    assert told.row[0, 1] == 2.0
    told = counterfactual(model, X[0], 1.5, columns=[1], bounds={1: (0, 5)})
    assert told.row[0, 1] == pytest.approx(2.5, abs=1e-5)
    one = KernelRidge(Linear(), alpha=1e-9).fit([[1.0]], [1.0])
    with pytest.raises(InvalidInput, match="no column can change"):
        counterfactual(one, [1.0], 2.0)
    told = counterfactual(one, [1.0], 2.0, bounds={0: (0.0, 5.0)})
    assert told.row[0, 0] == pytest.approx(2.0)


def test_it_is_refused_with_a_cure(X, y, table, worth):
    model = KernelRidge(RBF(), alpha=0.1).fit(X, y)
    machine = SVC(RBF()).fit(X, y > 0)
    with pytest.raises(InvalidInput, match="background=X"):
        counterfactual(TableRegressor(model="ridge").fit(table, worth), table.take([0]), 1.0)
    with pytest.raises(InvalidInput, match="give a number, or"):
        counterfactual(model, X[0], "high")
    with pytest.raises(InvalidInput, match="low ≤ high"):
        counterfactual(model, X[0], (2.0, 1.0))
    with pytest.raises(InvalidInput, match="is no class"):
        counterfactual(machine, X[0], "high")
    with pytest.raises(InvalidInput, match="output is of regressions"):
        counterfactual(machine, X[0], True, output=0)
    with pytest.raises(InvalidInput, match="x has 2 rows"):
        counterfactual(model, X[:2], 1.0)
    with pytest.raises(InvalidInput, match="other columns"):
        counterfactual(model, X[0, :2], 1.0)
    with pytest.raises(InvalidInput, match="bounds of x0"):
        counterfactual(model, X[0], 1.0, bounds={0: (1.0, 0.0)})
    with pytest.raises(InvalidInput, match="no column 'age'"):
        counterfactual(model, X[0], 1.0, columns=["age"])
