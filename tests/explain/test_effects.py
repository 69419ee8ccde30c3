"""Effects: what columns do in a model, against means that are taken one by one."""

from itertools import product

import numpy as np
import pytest

import mercer
from mercer import (
    RBF,
    SVC,
    Additive,
    Categorical,
    Function,
    GaussianProcessRegressor,
    KernelLogisticRegression,
    KernelRidge,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    effects,
)
from mercer.domains import Table
from mercer.errors import InvalidInput
from mercer.explain.components import accumulated


@pytest.fixture
def X(rng):
    return rng.standard_normal((25, 3))


@pytest.fixture
def y(X):
    return np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


def changed(X, columns, values):
    out = X.copy()
    out[:, list(columns)] = values
    return out


# ---- partial dependence ----


KERNELS = [
    RBF([0.8, 1.3, 2.0]),
    1.5 * Laplacian() + 0.5,
    RBF().on(0) * Laplacian().on(2) + 2.0 * RBF(3.0).on([1]),
    Polynomial(3, 0.7),
    RBF(covariance=[[1.0, 0.4], [0.4, 2.0]]).on([0, 1]) + Linear().on([2]),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_partial_dependence_is_the_mean_over_changed_rows(kernel, X, y, rng):
    w = rng.integers(0, 3, 25).astype(float)
    f = KernelRidge(kernel, alpha=0.1).fit(X, y).function_
    told = effects(f, X, kind="partial", weight=w, grid=5)
    assert told.constant == pytest.approx(np.average(f(X), weights=w))
    for effect in told:
        places = [int(name[1:]) for name in effect.columns[0].split(" & ")]
        for value, found in zip(effect.grid[0], effect.values, strict=True):
            mean = np.average(f(changed(X, places, value)), weights=w)
            assert found == pytest.approx(mean, abs=1e-11)


@pytest.mark.parametrize("kernel", KERNELS[:4], ids=str)
def test_a_surface_of_two_columns(kernel, X, y):
    f = KernelRidge(kernel, alpha=0.1).fit(X, y).function_
    (effect,) = effects(f, X, [("x2", 0)], kind="partial", grid=6)
    assert effect.columns == ("x0", "x2") and effect.values.shape == (3, 3)
    for a, b in np.ndindex(3, 3):
        mean = f(changed(X, [0, 2], [effect.grid[0][a], effect.grid[1][b]])).mean()
        assert effect.values[a, b] == pytest.approx(mean, abs=1e-11)


def test_many_rows_are_one_mean(rng):
    X = rng.standard_normal((600, 2))
    f = Function(RBF(), X[:5], rng.standard_normal(5))
    (effect,) = effects(f, X, ["x1"], grid=3)
    assert effect.values[1] == pytest.approx(f(changed(X, [1], effect.grid[0][1])).mean())


def test_models_that_are_no_products_are_asked(X, y):
    from sklearn.linear_model import LinearRegression

    model = KernelRidge((RBF() + 1.0).exp(), alpha=0.1).fit(X, y)
    told = effects(model, X, ["x1", ("x0", "x1")], grid=4)
    mean = model.predict(changed(X, [1], told["x1"].grid[0][2])).mean()
    assert told["x1"].values[2] == pytest.approx(mean)
    plain = LinearRegression().fit(X, y)
    line = effects(plain, X, ["x0"], grid=4)[0]
    slopes = np.diff(line.values) / np.diff(line.grid[0])
    assert slopes == pytest.approx(np.full(3, plain.coef_[0]))


def test_a_frame_is_asked_by_names(rng):
    pd = pytest.importorskip("pandas")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    frame = pd.DataFrame({"age": rng.uniform(20, 60, 12), "dose": rng.standard_normal(12)})
    pipe = make_pipeline(FunctionTransformer(), StandardScaler(), KernelRidge(RBF()))
    pipe.fit(frame, frame["dose"] ** 2)
    told = effects(pipe, frame, ["dose"], grid=3)
    changed_frame = frame.assign(dose=told["dose"].grid[0][1])
    assert told["dose"].values[1] == pytest.approx(pipe.predict(changed_frame).mean())


def test_categories_are_levels(rng):
    T = Table({"x": rng.standard_normal(20), "site": rng.choice(["b", "a", "c"], 20)})
    kernel = RBF().on("x") * Categorical(0.4).on("site")
    model = KernelRidge(kernel, alpha=0.1).fit(T, rng.standard_normal(20))
    site = effects(model, T)["site"]
    assert site.grid[0].tolist() == ["a", "b", "c"]
    for level, value in zip(site.grid[0], site.values, strict=True):
        same = Table({"x": T["x"], "site": [level] * 20})
        assert value == pytest.approx(model.predict(same).mean())


def test_several_outputs(X, y):
    model = KernelLogisticRegression(RBF()).fit(X, np.digitize(y, [-0.5, 0.5]))
    told = effects(model, X, ["x0"], grid=4)
    assert told[0].values.shape == (4, 3) and told.first.shape == (3, 3)
    mean = model.function_(changed(X, [0], told[0].grid[0][1])).mean(axis=0)
    assert told[0].values[1] == pytest.approx(mean)


# ---- shares of the variance ----


@pytest.mark.parametrize("kernel", KERNELS[:3], ids=str)
def test_shares_are_those_of_all_combinations_of_values(kernel, rng):
    X = rng.standard_normal((6, 3))
    w = np.array([1.0, 2, 1, 1, 3, 1])
    f = Function(kernel, rng.standard_normal((9, 3)), rng.standard_normal(9))
    told = effects(f, X, weight=w)
    every = list(product(range(6), repeat=3))
    values = f(np.array([[X[i, j] for j, i in enumerate(at)] for at in every])).reshape(6, 6, 6)
    p = w / w.sum()

    def mean(A, axes):
        for axis in sorted(axes, reverse=True):
            A = np.tensordot(A, p, (axis, 0))
        return A

    mu = mean(values, [0, 1, 2])
    variance = mean((values - mu) ** 2, [0, 1, 2])
    assert told.variance == pytest.approx(variance)
    for j in range(3):
        others = [k for k in range(3) if k != j]
        alone = p @ (mean(values, others) - mu) ** 2 / variance
        rest = mean(values, [j])
        left = 1 - mean((rest - mu) ** 2, [0, 1]) / variance
        assert told.first[j] == pytest.approx(alone, abs=1e-10)
        assert told.total[j] == pytest.approx(left, abs=1e-10)


def test_a_column_without_a_part_has_no_share(X, y):
    model = KernelRidge(RBF().on([0]) * Laplacian().on([2]), alpha=0.1).fit(X, y)
    told = effects(model, X)
    assert max(told.first[1], told.total[1]) < 1e-25
    assert np.ptp(told["x1"].values) == pytest.approx(0, abs=1e-12)


# ---- components ----


@pytest.mark.parametrize("order", [1, 2, 3])
def test_components_add_up_and_so_do_their_shares(order, X, y):
    model = KernelRidge(Additive(RBF("median"), order), alpha=0.01).fit(X, y)
    told = effects(model)
    assert told.kind == "components" and len(told) == [3, 6, 7][order - 1]
    assert told.constant + told.at(X).sum(axis=1) == pytest.approx(model.predict(X), abs=1e-11)
    assert sum(e.share for e in told) == pytest.approx(1)
    shares = [e.share for e in told]
    assert shares == sorted(shares, reverse=True)
    alone = [told[name].share for name in told.columns]
    assert told.first == pytest.approx(alone)


@pytest.mark.parametrize("order", [2, 3])
def test_shares_of_components_are_those_of_all_combinations(order, rng):
    X, w = rng.standard_normal((5, 3)), np.array([1.0, 2, 1, 1, 3])
    kernel = Additive([RBF(), 0.5 * Laplacian(), Matern()], order).fit_params(X, w)
    f = Function(kernel, rng.standard_normal((7, 3)), rng.standard_normal(7), 0.3)
    told = effects(f, X)
    every = np.array(list(product(range(5), repeat=3)))
    rows = np.column_stack([X[every[:, j], j] for j in range(3)])
    p = np.prod((w / w.sum())[every], axis=1)
    parts = told.at(rows)
    assert p @ parts == pytest.approx(np.zeros(parts.shape[1]), abs=1e-13)
    covariance = parts.T @ (p[:, None] * parts)
    expected = np.diag([e.share * told.variance for e in told])
    assert covariance == pytest.approx(expected, abs=1e-12)
    assert p @ f(rows) == pytest.approx(told.constant)


@pytest.mark.parametrize("measure", ["normal", "uniform"])
def test_other_measures_have_variances_by_quadrature(measure, X, y):
    model = KernelRidge(Additive(RBF(), measure=measure), alpha=0.1).fit(X, y)
    told = effects(model)
    a, b = model.kernel_.kernels[0].points
    t = np.linspace(a, b, 4001) if measure == "uniform" else np.linspace(a - 9 * b, a + 9 * b, 4001)
    density = np.ones(4001) if measure == "uniform" else np.exp(-0.5 * ((t - a) / b) ** 2)
    density[[0, -1]] *= 0.5
    values = told.at(changed(np.zeros((4001, 3)), [0], t[:, None]))
    which = [e.columns for e in told].index(("x0",))
    alone = density @ values[:, which] ** 2 / density.sum()
    assert alone == pytest.approx(told["x0"].share * told.variance, rel=1e-5)


def test_a_scaled_kernel_beside_a_constant_is_one_of_effects(X, y):
    kernel = 2.0 * Additive(RBF(), order=1) + 3.0
    model = KernelRidge(kernel, alpha=0.1).fit(X, y)
    told = effects(model)
    assert told.kind == "components"
    assert told.constant + told.at(X).sum(axis=1) == pytest.approx(model.predict(X), abs=1e-11)


def test_components_of_a_table_and_their_explanation(rng):
    T = Table({"x": rng.standard_normal(20), "site": rng.choice(["b", "a", "c"], 20)})
    kernel = Additive([RBF().on("x"), Categorical(0.4).on("site")])
    model = KernelRidge(kernel, alpha=0.1).fit(T, rng.standard_normal(20))
    told = effects(model)
    assert set(told.columns) == {"x", "site"} and told["site", "x"].values.shape == (20, 3)
    assert told.constant + told.at(T).sum(axis=1) == pytest.approx(model.predict(T), abs=1e-11)
    shares = model.explain(T[:4], background=T)  # alone, and half of what both do together
    names = [e.columns for e in told]
    parts = told.at(T[:4])
    both = parts[:, names.index(("x", "site"))]
    alone = parts[:, names.index(("x",))]
    assert shares.values[:, shares.columns.index("x")] == pytest.approx(alone + both / 2)


def test_the_machines_have_effects_too(X, y):
    model = SVC(Additive(RBF())).fit(X, y > 0)
    told = effects(model)
    decision = model.decision_function(X)
    assert told.constant + told.at(X).sum(axis=1) == pytest.approx(decision, abs=1e-10)


def test_carrying_is_the_fewest(X, y):
    told = effects(KernelRidge(Additive(RBF()), alpha=0.01).fit(X, y))
    for share in (0.5, 0.95, 1.0):
        some = told.carrying(share)
        assert sum(e.share for e in some) >= share - 1e-9
        assert sum(e.share for e in some[:-1]) < share


# ---- bands of Gaussian processes ----


@pytest.fixture
def process(X, y):
    kernel = Additive([RBF(), RBF(2.0), Laplacian()], variances=[0.5, 1.0, 0.7])
    return GaussianProcessRegressor(kernel, noise=0.1, optimizer=None, mean="constant").fit(X, y)


def test_bands_of_components_are_those_of_the_posterior(process, X):
    told = effects(process, grid=4)
    k, n = process.kernel_, len(X)
    C = k(X) + process.scaled_noise_ * np.eye(n)
    for effect in told:
        places = [int(name[1:]) for name in effect.columns]
        values = np.array(list(product(*effect.grid)))
        own = [part.kernel for part in k._kernels()]

        def covariance(A, B, places=places, own=own):
            out = k.variances[len(places)]
            for at, j in enumerate(places):
                out = out * own[j](A[:, [at]], B[:, [at]])
            return out

        cross = covariance(values, X[:, places])
        left = covariance(values, values) - cross @ np.linalg.solve(C, cross.T)
        one = np.ones(n)  # the constant of the mean is open, and takes its part of what is known
        gap = cross @ np.linalg.solve(C, one)
        left = left + np.outer(gap, gap) / (one @ np.linalg.solve(C, one))
        std = np.sqrt(np.diagonal(left)) * process.y_scale_[0]
        assert effect.std.ravel() == pytest.approx(std, abs=1e-10)


@pytest.mark.parametrize("kernel", [RBF(1.2), Polynomial(2, 1.0)], ids=str)
@pytest.mark.parametrize("mean", ["zero", "constant"])
def test_bands_of_partial_dependence_are_those_of_a_mean(kernel, mean, X, y):
    model = GaussianProcessRegressor(kernel, 0.1, None, mean=mean).fit(X, y)
    for effect in effects(model, X, ["x1", ("x0", "x2")], grid=4):
        places = [int(name[1:]) for name in effect.columns]
        for at in np.ndindex(effect.values.shape):
            rows = changed(X, places, [g[i] for g, i in zip(effect.grid, at, strict=True)])
            f, cov = model.predict(rows, return_cov=True, with_noise=False)
            assert effect.values[at] == pytest.approx(f.mean())
            assert effect.std[at] == pytest.approx(np.sqrt(cov.mean()), rel=1e-7)


# ---- accumulated local effects ----


def test_accumulated_effects_of_a_sum_are_its_parts(rng):
    X = rng.uniform(-1, 1, (400, 2))
    f = Function(RBF(0.8).on([0]), X[:3], [1.0, -2.0, 0.5])
    told = effects(f, X, ["x0"], kind="accumulated", grid=100)[0]
    expected = f(np.column_stack([told.grid[0], 0 * told.grid[0]])) - f(X).mean()
    assert told.values == pytest.approx(expected, abs=0.01)


def test_accumulated_effects_add_up_mean_slopes():
    x, slopes = np.array([0.0, 0.5, 1.0, 3.0]), np.array([[1.0], [3.0], [1.0], [-1.0]])
    w = np.array([0.25, 0.25, 0.25, 0.25])
    values = accumulated(x, slopes, w, np.array([0.0, 1.0, 3.0]))
    rise = np.array([0.0, 5 / 3, 5 / 3 - 2.0])
    mean = (0 + 5 / 6 + 5 / 3 + 5 / 3 - 2) / 4
    assert values[:, 0] == pytest.approx(rise - mean)


def test_a_correlated_column_that_does_nothing_has_no_accumulated_effect(rng):
    x = rng.uniform(-1, 1, 300)
    X = np.column_stack([x, x + 0.01 * rng.standard_normal(300)])
    f = Function(RBF().on([0]), X[:4], [1.0, 1.0, -1.0, 2.0])
    assert abs(effects(f, X, ["x1"], kind="accumulated")[0].values).max() < 1e-12


# ---- grids, limits and refusals ----


def test_a_grid_has_the_smallest_and_the_largest_value_and_no_more_than_asked(X):
    f = Function(RBF(), X, np.ones(25))
    for grid in (2, 5, 25, 60):
        values = effects(f, X, ["x0"], grid=grid)[0].grid[0]
        assert len(values) == min(grid, 25) and (np.diff(values) > 0).all()
        assert values[0] == X[:, 0].min() and values[-1] == X[:, 0].max()


def test_one_row_a_constant_column_and_a_weight_of_zero(rng):
    X = np.column_stack([rng.standard_normal(8), np.ones(8)])
    model = KernelRidge(Additive(RBF()), alpha=0.1).fit(X, X[:, 0])
    told = effects(model)
    assert told["x1"].share == pytest.approx(0, abs=1e-20) and len(told["x1"].grid[0]) == 1
    one = effects(model, X[:1], kind="partial")
    assert one["x0"].values == pytest.approx(model.predict(X[:1]))
    w = np.array([1.0, 0, 2, 0, 1, 1, 0, 0])
    some = effects(model, X, kind="partial", weight=w)
    again = effects(model, np.repeat(X, w.astype(int), axis=0), kind="partial")
    assert some.constant == pytest.approx(again.constant)
    assert some.total == pytest.approx(again.total)


def test_nothing_to_tell_has_shares_of_zero(X):
    told = effects(KernelRidge(Additive(RBF())).fit(X, np.zeros(25)))
    assert told.variance == 0 and not told.first.any() and not np.isnan(told[0].share)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m, X: effects(m, X, kind="ale"), "legal: 'components'"),
        (lambda m, X: effects(m, X, grid=1), "whole number of 2 or more"),
        (lambda m, X: effects(m, X, ["age"]), "no column 'age'; there are x0, x1, x2"),
        (lambda m, X: effects(m, X, -np.inf), "a list of names or positions"),
        (lambda m, X: effects(m, X, [1.5]), "a column, or a tuple of two"),
        (lambda m, X: effects(m, X, kind=np.ones(2)), "legal: 'components'"),
        (lambda m, X: effects(KernelRidge(RBF()), X), "not fitted"),
        (lambda m, X: effects(m, X, [5]), "there are 0 to 2"),
        (lambda m, X: effects(m, X, [("x0", "x1", "x2")]), "a tuple of two"),
        (lambda m, X: effects(m, X, [("x0", "x0")]), "two different columns"),
        (lambda m, X: effects(m, X, kind="components"), "take kind='partial'"),
        (lambda m, X: effects(m, X).at(X), "kernel Additive"),
        (lambda m, X: effects(m, X).carrying(), "kernel Additive"),
        (lambda m, X: effects(m, X)["age"], "no effect of 'age'"),
        (lambda m, X: effects(m, weight=np.ones(25)), "give both"),
        (lambda m, X: effects(m, X, [("x0", "x1")], kind="accumulated"), "of one column"),
        (lambda m, X: effects(object(), X), "has no predict"),
        (lambda m, X: effects(object()), "give X"),
    ],
)
def test_refusals(call, words, X, y):
    model = KernelRidge(RBF()).fit(X, y)
    with pytest.raises(ValueError, match=words):  # InvalidInput, or scikit-learn's NotFittedError
        call(model, X)


def test_more_refusals(X, y):
    model = KernelRidge(Additive(RBF(), order=1)).fit(X, y)
    with pytest.raises(InvalidInput, match="higher order"):
        effects(model, X, [("x0", "x1")])
    process = GaussianProcessRegressor(Additive(RBF()), 0.1, None, mean="linear").fit(X, y)
    with pytest.raises(InvalidInput, match="mean='constant'"):
        effects(process)
    gram = KernelRidge("precomputed").fit(RBF()(X), y)
    with pytest.raises(InvalidInput, match="Gram matrix"):
        effects(gram)
    words = KernelRidge(mercer.Spectrum(2)).fit(["ab", "ba", "aa"], [0.0, 1.0, 2.0])
    with pytest.raises(InvalidInput, match="on a column of a table"):
        effects(words)
    T = Table({"x": X[:, 0]})
    table = KernelRidge(RBF().on("x")).fit(T, y)
    with pytest.raises(InvalidInput, match="rows of a table have none"):
        effects(table, T, kind="accumulated")
