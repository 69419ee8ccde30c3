"""Importance of columns: rows left out against fits without them, rows held out against loops."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import log_loss

from mercer import (
    RBF,
    SVC,
    Categorical,
    GaussianProcessRegressor,
    KernelLogisticRegression,
    KernelQuantileRegressor,
    KernelRidge,
    KernelRidgeClassifier,
    Linear,
    Spectrum,
    TableClassifier,
    TableRegressor,
    importance,
)
from mercer.domains import Table
from mercer.errors import InvalidInput


@pytest.fixture
def X(rng):
    return rng.standard_normal((14, 3))


@pytest.fixture
def y(X):
    return np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


def by_refits(model, X, y, w, answer, loss):
    """Return the mean rise of the loss over all pairs of rows, from n fits without a row."""
    n = len(X)
    w = np.ones(n) if w is None else w
    some = np.flatnonzero(w)
    before, after = 0.0, np.zeros(X.shape[1])
    for i in some:
        rest = np.delete(np.arange(n), i)
        without = clone(model).fit(X[rest], y[rest], sample_weight=w[rest])
        before += w[i] * loss(answer(without, X[[i]])[0], y[i]) / w.sum()
        for j in range(X.shape[1]):
            Z = np.repeat(X[[i]], len(some), axis=0)
            Z[:, j] = X[some, j]
            told = answer(without, Z)
            after[j] += sum(
                w[i] * w[k] * loss(v, y[i]) / w.sum() ** 2 for k, v in zip(some, told, strict=True)
            )
    return after - before, before


def squared(told, y):
    return float(np.mean(np.square(told - y)))


LEFT_OUT = [
    KernelRidge(RBF(1.5), alpha=0.1),
    KernelRidge(RBF(1.5), alpha=0.1, fit_intercept=True),
    KernelRidge(Linear() + 1.0, alpha=0.3),
    KernelRidge(Linear(), alpha=0.3, fit_intercept=True),
    GaussianProcessRegressor(RBF(1.5), noise=0.1, optimizer=None, normalize_y=False),
    GaussianProcessRegressor(RBF(), noise=0.1, optimizer=None, mean="linear", normalize_y=False),
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("model", LEFT_OUT, ids=str)
def test_rows_left_out_are_those_of_fits_without_them(model, weighted, X, y, rng):
    w = rng.integers(0, 4, len(X)).astype(float) if weighted else None
    fitted = clone(model).fit(X, y, sample_weight=w)
    told = importance(fitted, n_repeats="all", scoring="neg_mean_squared_error")
    truth, before = by_refits(model, X, y, w, lambda m, Z: m.predict(Z), squared)
    np.testing.assert_allclose(told.values, truth, rtol=0, atol=1e-8)
    assert told.score == pytest.approx(-before, abs=1e-8)
    assert told.rows == "left out"


def test_several_outputs_with_penalties_of_their_own(X, y):
    Y = np.column_stack([y, 1e3 * X[:, 1] + y])
    model = KernelRidge(RBF(1.5), alpha=[0.1, 2.0])
    told = importance(model.fit(X, Y), n_repeats="all", scoring="neg_mean_squared_error")
    truth, _ = by_refits(model, X, Y, None, lambda m, Z: m.predict(Z), squared)
    np.testing.assert_allclose(told.values, truth, rtol=1e-8)
    scaled = importance(model, n_repeats="all")
    parts = [
        importance(KernelRidge(RBF(1.5), alpha=a).fit(X, t), n_repeats="all")
        for a, t in zip(model.alpha, Y.T, strict=True)
    ]
    np.testing.assert_allclose(scaled.values, np.mean([p.values for p in parts], axis=0))


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_of_rows_left_out(classes, X, y):
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-0.3, 0.3][: classes - 1])]
    model = KernelRidgeClassifier(RBF(1.5), alpha=0.1)
    told = importance(model.fit(X, labels), n_repeats="all")
    truth, before = by_refits(
        model, X, labels, None, lambda m, Z: m.predict(Z), lambda told, y: float(told != y)
    )
    np.testing.assert_allclose(told.values, truth, atol=1e-8)
    assert told.score == pytest.approx(1 - before)


def test_tables_with_categories_and_gaps(rng):
    table = Table(
        {"size": rng.standard_normal(12), "site": np.array(["a", "b", None] * 4, dtype=object)}
    )
    y = table["size"] + np.array([0.0, 2.0, 1.0] * 4)
    kernel = RBF().on("size") + Categorical(0.5).with_missing().on("site")
    model = KernelRidge(kernel, alpha=0.1).fit(table, y)
    told = importance(model, n_repeats="all", scoring="neg_mean_absolute_error")
    truth = np.zeros(2)
    for i in range(12):
        rest = np.delete(np.arange(12), i)
        without = clone(model).fit(table.take(rest), y[rest])
        before = abs(without.predict(table.take([i]))[0] - y[i])
        for j in range(2):
            index = np.full((12, 2), i)
            index[:, j] = np.arange(12)
            errors = abs(without.predict(table.mixed(index)) - y[i])
            truth[j] += (errors.mean() - before) / 12
    np.testing.assert_allclose(told.values, truth, atol=1e-8)
    assert told.columns == ("size", "site")


def test_rows_held_out_are_a_double_loop(X, y, rng):
    model = KernelRidge(RBF(), alpha=0.1).fit(X, y)
    Z = rng.standard_normal((9, 3))
    t = np.sin(Z[:, 0])
    told = importance(model, Z, t, n_repeats="all", columns=[2, (0, 1)])
    before = np.square(model.predict(Z) - t).mean()
    for value, group in zip(told.values, ([2], [0, 1]), strict=True):
        after = 0.0
        for i in range(9):
            M = np.repeat(Z[[i]], 9, axis=0)
            M[:, group] = Z[:, group]
            after += np.square(model.predict(M) - t[i]).mean() / 9
        assert value == pytest.approx((after - before) / t.var())
    assert told.columns == ("x2", "x0 & x1")
    assert told.score == pytest.approx(model.score(Z, t))


def test_a_weight_is_a_repetition(X, y):
    model = KernelRidge(RBF(), alpha=0.1).fit(X, y)
    w = np.array([2.0, 0.0, 1.0, 3.0] + [1.0] * 10)
    again = np.repeat(np.arange(14), w.astype(int))
    t = y + X[:, 0] ** 2
    one = importance(model, X, t, n_repeats="all", sample_weight=w)
    two = importance(model, X[again], t[again], n_repeats="all")
    np.testing.assert_allclose(one.values, two.values)
    np.testing.assert_allclose(one.std, two.std)
    assert one.score == pytest.approx(two.score)


def test_draws_come_near_the_mean_over_all(X, y, rng):
    model = KernelRidge(RBF(), alpha=0.1).fit(X, y)
    w = rng.uniform(0.2, 3.0, len(X))
    weighted = KernelRidge(RBF(), alpha=0.1).fit(X, y, sample_weight=w)
    for each in (model, weighted):
        truth = importance(each, n_repeats="all").values
        drawn = importance(each, n_repeats=3000).values
        np.testing.assert_allclose(drawn, truth, atol=0.05)
        again = importance(each, n_repeats=7, random_state=3).values
        np.testing.assert_array_equal(again, importance(each, n_repeats=7, random_state=3).values)
        assert (again != importance(each, n_repeats=7, random_state=4).values).any()


def test_standard_errors_are_those_of_samples(rng):
    def sample(n):
        Z = rng.standard_normal((n, 2))
        return Z, Z[:, 0] + 0.5 * rng.standard_normal(n)

    model = KernelRidge(Linear(), alpha=1.0).fit(*sample(50))
    told = [
        importance(model, *sample(60), n_repeats="all", scoring="neg_mean_squared_error")
        for _ in range(150)
    ]
    spread = np.std([t.values[0] for t in told])
    assert 0.8 < np.mean([t.std[0] for t in told]) / spread < 1.25
    lower, upper = told[0].intervals(0.95)
    np.testing.assert_allclose(upper - lower, 2 * 1.959964 * told[0].std, rtol=1e-6)


def test_a_constant_column_and_one_that_nothing_depends_on(X, y):
    Z = np.column_stack([X, np.full(14, 3.0)])
    told = importance(KernelRidge(RBF(), alpha=0.1).fit(Z, y))
    assert told.values[3] == 0.0
    assert told.std[3] < 1e-1
    aside = importance(KernelRidge(RBF().on([0, 1]), alpha=0.1).fit(X, y))
    assert aside.values[2] == 0.0
    one = importance(KernelRidge(RBF(), alpha=0.1).fit(X[:, :1], y))
    assert len(one) == 1
    assert one.top() == [("x0", float(one.values[0]), float(one.std[0]))]


def test_one_row_has_no_standard_error(y):
    model = KernelRidge(RBF(), alpha=0.1).fit([[1.0]], [2.0])
    told = importance(model, scoring="neg_mean_squared_error")
    assert told.values.tolist() == [0.0]
    assert np.isnan(told.std).all()
    assert told.score == pytest.approx(-4.0)  # nothing was fitted to


def test_other_models_are_asked(X, y):
    labels = (y > 0).astype(int)
    machine = importance(SVC(RBF()).fit(X, labels), X, labels, n_repeats="all")
    assert machine.score == SVC(RBF()).fit(X, labels).score(X, labels)
    logistic = KernelLogisticRegression(RBF(), alpha=0.1).fit(X, labels)
    told = importance(logistic, X, labels, scoring="neg_log_loss")
    assert told.score == pytest.approx(-log_loss(labels, logistic.predict_proba(X)))
    quantiles = KernelQuantileRegressor(RBF(), quantile=[0.2, 0.8], alpha=0.1).fit(X, y)
    told = importance(quantiles, X, y)
    left = y[:, None] - quantiles.predict(X)
    expected = np.maximum(np.array([0.2, 0.8]) * left, np.array([-0.8, -0.2]) * left).mean()
    assert told.score == pytest.approx(-expected)
    assert told.scoring == "neg_mean_pinball_loss"
    forest = RandomForestRegressor(5, random_state=0).fit(X, y)
    assert importance(forest, X, y).values.shape == (3,)


def test_table_models_and_frames_are_asked(rng):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "size": rng.standard_normal(40),
            "kind": pandas.Categorical(rng.choice(["a", "b"], 40)),
            "noise": rng.standard_normal(40),
        }
    )
    frame.loc[::9, "size"] = np.nan
    y = frame["size"].fillna(0.0) + 3.0 * (frame["kind"] == "a")
    model = TableRegressor(model="ridge").fit(frame, y)
    told = importance(model, frame, y)
    assert [name for name, _, _ in told.top(2)] == ["kind", "size"]
    assert told.score == pytest.approx(model.score(frame, y))
    labels = np.where(y > 1, "much", "little")
    told = importance(TableClassifier(model="ridge").fit(frame, labels), frame, labels)
    assert told.top(1)[0][0] == "kind"

    class Outer(
        RegressorMixin, BaseEstimator
    ):  # of another library: it wants the frame, with its own types
        __module__ = "elsewhere"

        def predict(self, X):
            assert list(X.dtypes) == list(frame.dtypes)
            return model.predict(X)

    np.testing.assert_allclose(
        importance(Outer(), frame, y).values, importance(model, frame, y).values
    )


def test_it_is_refused_with_a_cure(X, y):
    model = KernelRidge(RBF(), alpha=0.1).fit(X, y)
    machine = SVC(RBF()).fit(X, y > 0)
    with pytest.raises(InvalidInput, match=r"importance\(model, X, y\)"):
        importance(machine)
    with pytest.raises(InvalidInput, match=r"importance\(model, X, y\)"):
        importance(KernelRidge(RBF(), solver="falkon", n_centers=5).fit(X, y))
    with pytest.raises(InvalidInput, match=r"importance\(model, X, y\)"):
        importance(KernelRidge("precomputed").fit(X @ X.T, y))
    with pytest.raises(InvalidInput, match="give the targets"):
        importance(model, X)
    with pytest.raises(InvalidInput, match="give X too"):
        importance(model, y=y)
    with pytest.raises(InvalidInput, match="legal for KernelRidge"):
        importance(model, scoring="accuracy")
    with pytest.raises(InvalidInput, match="legal for SVC"):
        importance(machine, X, y > 0, scoring="r2")
    with pytest.raises(InvalidInput, match="constant"):
        importance(model, X, np.ones(14))
    with pytest.raises(InvalidInput, match="n_repeats=0"):
        importance(model, n_repeats=0)
    with pytest.raises(InvalidInput, match="no column 'age'"):
        importance(model, columns=["age"])
    with pytest.raises(InvalidInput, match="no column 3"):
        importance(model, columns=[(0, 3)])
    with pytest.raises(InvalidInput, match="different columns"):
        importance(model, columns=[(1, 1)])
    with pytest.raises(InvalidInput, match="2 outputs"):
        importance(model, X, np.column_stack([y, y]))
    with pytest.raises(InvalidInput, match="coverage=1"):
        importance(model).intervals(1.0)


def test_points_without_columns_are_refused():
    model = KernelRidge(Spectrum(2), alpha=0.1).fit(["abc", "bcd", "cde"], [1.0, 2.0, 4.0])
    with pytest.raises(InvalidInput, match="columns"):
        importance(model)


def test_errors_of_mean_shares(X, y):
    told = KernelRidge(RBF(), alpha=0.1).fit(X, y).explain(X)
    shares = np.abs(told.values)
    np.testing.assert_allclose(told.importances_std, shares.std(axis=0, ddof=1) / np.sqrt(14))
    assert np.isnan(told[:1].importances_std).all()
