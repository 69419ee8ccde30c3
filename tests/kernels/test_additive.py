"""Kernels of functions of mean zero, and of sums of effects."""

from itertools import combinations

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer import RBF, Additive, Categorical, GaussianProcessRegressor, KernelRidge, Matern
from mercer.domains import Table
from mercer.errors import InvalidInput
from mercer.kernels import Laplacian, Periodic, ZeroMean, factor_values, terms_of
from mercer.kernels.additive import with_factor
from mercer.kernels.zero_mean import MOST


@pytest.fixture
def X(rng):
    return rng.standard_normal((12, 3))


# ---- functions of mean zero ----


@pytest.mark.parametrize("kernel", [RBF(0.7), Matern(1.2, 1.5), Laplacian(0.8), Periodic(1.0, 2.0)])
def test_functions_have_mean_zero_under_weights_of_rows(kernel, X, rng):
    w = rng.integers(0, 4, len(X))
    k = ZeroMean(kernel).fit_params(X[:, :1], w)
    values = k(X[:, :1], rng.standard_normal((5, 1)))
    assert abs(w @ values).max() < 1e-13


def test_it_is_the_definition_by_double_loops(X, rng):
    w = rng.uniform(0.5, 2, len(X))
    x, Z = X[:, :1], rng.standard_normal((4, 1))
    k, share = RBF(0.6), w / w.sum()
    v = sum(share[i] * share[j] * k(x)[i, j] for i in range(12) for j in range(12))
    c = [sum(share[i] * k(Z, x)[a, i] for i in range(12)) for a in range(4)]
    expected = k(Z) - np.outer(c, c) / v
    assert ZeroMean(k).fit_params(x, w)(Z) == pytest.approx(expected, abs=1e-13)


def test_a_weight_is_a_repetition(X):
    w = np.array([2, 1, 0, 3, 1, 1, 2, 1, 1, 0, 1, 4])
    once, again = (
        Additive(RBF("median")).fit_params(X, w),
        Additive(RBF("median")).fit_params(np.repeat(X, w, axis=0)),
    )
    assert once(X) == pytest.approx(again(X), abs=1e-13)


def test_many_values_are_told_by_the_means_of_groups(rng):
    x = rng.exponential(size=(1500, 1))
    w = rng.integers(0, 3, 1500)
    k = ZeroMean(RBF()).fit_params(x, w)
    again = ZeroMean(RBF()).fit_params(np.repeat(x, w, axis=0)[::-1])
    assert len(k.points) == MOST and k.weights.sum() == pytest.approx(1)
    assert k.points == pytest.approx(again.points, abs=1e-12)
    assert k.weights @ k.points[:, 0] == pytest.approx(np.average(x[:, 0], weights=w))
    exact = ZeroMean(RBF(), points=x, weights=w / w.sum())
    assert k(x[:9]) == pytest.approx(exact(x[:9]), abs=1e-3)


def test_many_labels_stand_for_all(rng):
    labels = [f"a{i}" for i in rng.integers(0, 900, 4000)]
    k = ZeroMean(Categorical(0.5)).fit_params(labels)
    assert len(k.points) <= MOST and k.weights.sum() == pytest.approx(1)
    turned = ZeroMean(Categorical(0.5)).fit_params(labels[::-1])
    assert k(labels[:20]) == pytest.approx(turned(labels[:20]), abs=1e-14)


def test_a_missing_value_is_a_value(rng):
    x = np.where(rng.random((30, 1)) < 0.3, np.nan, rng.standard_normal((30, 1)))
    k = ZeroMean(RBF().with_missing()).fit_params(x)
    assert abs(k(x, x[:6]).mean(axis=0)).max() < 1e-13


def test_a_constant_column_and_a_single_row_have_no_effect():
    assert abs(ZeroMean(RBF())([[2.0], [2.0]])).max() < 1e-15
    for measure in ("empirical", "normal", "uniform"):
        K = Additive(RBF(), measure=measure)([[1.0, 2.0]])
        assert abs(K - 1.0).max() < 1e-15


@pytest.mark.parametrize("measure", ["normal", "uniform"])
def test_closed_forms_are_integrals(measure):
    ends = (0.3, 1.4) if measure == "normal" else (-0.5, 1.5)
    t = np.linspace(-12, 12, 20001) if measure == "normal" else np.linspace(*ends, 20001)
    density = np.exp(-0.5 * ((t - 0.3) / 1.4) ** 2) if measure == "normal" else np.ones_like(t)
    k = ZeroMean(RBF(0.8), measure, np.array(ends))
    values = k(t[::100, None], [[0.1], [2.0]])
    assert abs(density[::100] @ values)[0] / density[::100].sum() < 5e-3
    fine = density @ k(t[:, None], [[0.1], [2.0]]) / density.sum()
    assert abs(fine).max() < 2e-5


# ---- sums of effects ----


def test_elementary_symmetric_polynomials():
    t = [0.5, -2.0, 3.0, 1e-9, 7.0]
    sums = [1.0, 0.0, 0.0, 0.0]
    for value in t:
        sums = with_factor(sums, value)
    expected = [sum(map(np.prod, combinations(t, q))) for q in range(4)]
    assert sums == pytest.approx(expected)


def test_it_is_the_sum_of_its_terms(X, rng):
    k = Additive([RBF(), 0.5 * Laplacian(), Matern()], 3, variances=[1, 2, 0, 0.5]).fit_params(X)
    Z = rng.standard_normal((4, 3))
    terms = terms_of(k, 3).terms
    assert len(terms) == 1 + 3 + 1
    total = 0.0
    for term in terms:
        values = term.weight * np.ones((4, 12))
        for factor in term.factors:
            for part in factor.kernels:
                values = values * factor_values(part, Z, X, factor.columns)
        total = total + values
    assert total == pytest.approx(k(Z, X), abs=1e-13)


def test_a_table_has_categories_and_missing_values(rng):
    T = Table(
        {
            "age": np.array([30.0, 41.0, None, 52.0, 28.0, 30.0], dtype=object),
            "site": ["a", "b", "a", "c", "b", "a"],
        }
    )
    k = Additive([RBF("median").with_missing().on("age"), Categorical(0.3).on("site")]).fit_params(
        T
    )
    f = k(T, T)[:, 2]
    own = k.kernels[1](T)  # the effect of the site alone
    assert abs(own.mean(axis=0)).max() < 1e-14 and f.shape == (6,)
    model = KernelRidge(k, alpha=1e-6).fit(T, np.arange(6.0))
    assert model.predict(T).shape == (6,)


def test_columns_that_do_not_matter_lose_their_effect(rng):
    X = rng.uniform(-1, 1, (80, 3))
    y = np.sin(3 * X[:, 0]) + 0.05 * rng.standard_normal(80)
    model = GaussianProcessRegressor(Additive(RBF("median"), order=1)).fit(X, y)
    scales = [k.kernel.length_scale for k in model.kernel_.kernels]
    assert min(scales[1:]) > 5 * scales[0]
    names = " ".join(model.theta_names_)
    assert "kernels__2__kernel__length_scale" in names and "variances[1]" in names


def test_parameters_of_one_kernel_inside(X):
    k = Additive([RBF(), RBF(2.0), RBF()])
    k.set_params(kernels__1__length_scale=3.0, order=1)
    assert k.get_params()["kernels__1__length_scale"] == 3.0 and k.order == 1
    with pytest.raises(InvalidInput, match="kernels__0 to kernels__2"):
        k.set_params(kernels__3__length_scale=1.0)
    with pytest.raises(InvalidInput, match="length_scale"):
        k.set_params(kernels__1__length_scale=-1.0)
    assert k.kernels[1].length_scale == 3.0
    fitted = k.fit_params(X)
    assert clone(fitted) == fitted and clone(fitted).kernels[0] is not fitted.kernels[0]


def test_a_model_file_keeps_the_measure(X, rng, tmp_path):
    T = Table({"x": X[:, 0], "site": rng.choice(["a", "b"], 12)})
    kernel = Additive([RBF("median").on("x"), Categorical(0.3).on("site")])
    model = KernelRidge(kernel, alpha=0.1).fit(T, X[:, 1])
    mercer.save(model, tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    assert again.kernel_ == model.kernel_
    assert (again.predict(T) == model.predict(T)).all()


def test_tune_finds_variances(rng):
    X = rng.uniform(-1, 1, (60, 2))
    y = X[:, 0] * X[:, 1]
    found = mercer.tune(KernelRidge(Additive(RBF("median")), alpha=1e-3), X, y)
    assert found.best_estimator_.score(X, y) > 0.99


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Additive([]), "kernels"),
        (lambda: Additive([RBF(), "rbf"]), r"kernels\[1\]"),
        (lambda: Additive(order=0), "order"),
        (lambda: Additive(order=1.5), "order"),
        (lambda: Additive(measure="gaussian"), "legal are 'empirical'"),
        (lambda: Additive(variances=[1.0, 1.0]), "give 3 numbers"),
        (lambda: Additive(variances=[1.0, -1.0, 0.0]), "variances"),
        (lambda: Additive(RBF().on(0)), "list of kernels on columns"),
        (lambda: Additive("precomputed"), "kernels"),
        (lambda: Additive(mercer.Precomputed()), "precomputed"),
        (lambda: Additive(Matern(), measure="normal")([[0.0]]), "take measure='empirical'"),
        (lambda: Additive([RBF()] * 2)([[0.0, 1.0, 2.0]]), "2 kernels for 3 columns"),
        (lambda: Additive([RBF(), mercer.Constant(1.0)])([[0.0, 1.0]]), "leave it out"),
        (lambda: Additive()([[0.0]], [[1.0]]), "fit_params"),
        (lambda: ZeroMean(RBF(), points=[[0.0]], weights=[0.5]), "sum of 1"),
        (lambda: ZeroMean(RBF(), weights=[0.5]), "weights without points"),
        (lambda: ZeroMean(RBF(), "uniform", [1.0, 0.0]), "low ≤ high"),
        (lambda: ZeroMean(RBF(), "normal")([[0.0, 1.0]]), "of one column"),
    ],
)
def test_refusals(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()
