"""Kernels on categories: against plain formulas, for values of every kind."""

import itertools
import warnings

import numpy as np
import pytest

import mercer
from mercer.errors import InvalidInput
from mercer.jit import counts as jit
from mercer.kernels import RBF, Categorical, Ordinal
from mercer.kernels.categories import Agreement
from mercer.testing import double_loop


# ------------------------------------------------------------------------------ the loops
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "m", "c"), [(1, 1, 1), (5, 70, 3), (7, 33, 1), (0, 4, 2), (3, 0, 2)])
def test_compiled_loops_against_numpy(n, m, c, dtype):
    rng = np.random.default_rng(n + m)
    X = rng.integers(0, 3, (n, c)).astype(np.int32)
    Y = rng.integers(0, 3, (m, c)).astype(np.int32)
    for array in (X, Y):
        array.flags.writeable = False
    Yt = np.ascontiguousarray(Y.T)
    differ = (X[:, None, :] != Y[None, :, :]).sum(axis=2)
    for rho in (0.0, 0.25, 1.0):
        expected = np.where(differ == 0, 1.0, rho ** np.maximum(differ, 1)).astype(dtype)
        out = np.full((n, m), 7, dtype=dtype)
        jit.fill_agreement(X, Yt, dtype(rho), out)
        np.testing.assert_array_equal(out, expected)
        out = np.full((n, m), 3, dtype=dtype)
        jit.times_agreement(X, Yt, dtype(rho), out)
        np.testing.assert_array_equal(out, 3 * expected)
    out = np.empty((n, m))
    jit.count_differences(X, Yt, out)
    np.testing.assert_array_equal(out, differ)


@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_agreement_of_many_columns(rho):
    # 40 columns of 2⁶² values each: their combined number fits no integer
    rng = np.random.default_rng(0)
    X, Y = rng.integers(-(2**62), 2**62, (30, 40)), rng.integers(-(2**62), 2**62, (20, 40))
    Y[:10] = X[:10]
    Y[5, 3] += 1
    agreement = Agreement(X, Y, rho)
    out = agreement.fill(np.empty((30, 20)), slice(0, 30), slice(0, 20))
    differ = (X[:, None] != Y[None]).sum(2)
    np.testing.assert_array_equal(out, np.where(differ == 0, 1.0, rho**differ))


def test_columns_that_are_constant_cost_nothing():
    X = np.ones((4, 3), dtype=int)
    assert Agreement(X, None, 0.5).one and Agreement(X, X[:2], 0.0).one
    assert not Agreement(X, X + np.eye(4, 3, dtype=int), 0.5).one
    assert Categorical(0.5)(X).tolist() == np.ones((4, 4)).tolist()


# --------------------------------------------------------------------------- Categorical
def test_values_of_any_kind():
    pandas = pytest.importorskip("pandas")
    values = ["a", 1, 1.0, True, None, np.nan, pandas.NA, (1, "x"), b"a", "1", "", 0, False]
    classes = [0, 1, 1, 1, 2, 2, 2, 3, 4, 5, 6, 7, 7]
    expected = np.equal.outer(classes, classes).astype(float)
    np.testing.assert_array_equal(Categorical()(values), expected)
    np.testing.assert_array_equal(Categorical(0.3)(values), np.where(expected, 1, 0.3))


def test_unknown_categories_differ_from_all_known_ones():
    K = Categorical(0.2)(["new", "b", "newer"], ["a", "b", None])
    np.testing.assert_array_equal(K, [[0.2, 0.2, 0.2], [0.2, 1.0, 0.2], [0.2, 0.2, 0.2]])


@pytest.mark.parametrize("rho", [0.0, 1e-9, 0.37, 0.999])
@pytest.mark.parametrize("levels", [1, 2, 5, 40])
def test_positive_semidefinite(rho, levels):
    rng = np.random.default_rng(levels)
    K = Categorical(rho)(rng.integers(0, levels, (40, 3)))
    assert np.linalg.eigvalsh(K)[0] >= -1e-12 * 40


def test_the_whole_table_of_all_rows():
    rows = list(itertools.product("ab", [0, None], [True, False]))
    for rho in (0.0, 0.6):
        k = Categorical(rho)
        np.testing.assert_allclose(k(rows), double_loop(k, rows), rtol=1e-15)


@pytest.mark.parametrize("similarity", [-0.1, 1.0, 2, np.nan, np.inf, "half", None, [0.5], True])
def test_illegal_similarities(similarity):
    with pytest.raises(InvalidInput, match="similarity"):
        Categorical(similarity)


def test_similarity_is_tuned_where_it_is_positive():
    assert len(Categorical().theta) == 0 and Categorical().bounds.shape == (0, 2)
    k = Categorical(0.5)
    assert k.theta_names == ["similarity"] and np.exp(k.bounds[0, 1]) < 1
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (60, 2))
    y = np.array([2.0, -1.0, 0.5, 0.4])[X[:, 0]] + 0.1 * rng.standard_normal(60)
    found = mercer.tune(mercer.KernelRidge(RBF().on([0]) + k.on([1]), alpha=0.1), X, y)
    assert 0 < found.model.kernel_.k2.kernel.similarity < 1


# ------------------------------------------------------------------------------- Ordinal
def test_ranks_and_missing():
    k = Ordinal(["lo", "mid", "hi"], 2.0)
    X = ["lo", None, "hi", "mid", np.nan]
    r = np.array([0, np.nan, 2, 1, np.nan])
    expected = np.exp(-np.abs(r[:, None] - r) / 2)
    expected[np.isnan(expected)] = 0
    gone = np.isnan(r)
    expected[np.ix_(gone, gone)] = 1
    np.testing.assert_allclose(k(X), expected, rtol=1e-15)
    np.testing.assert_array_equal(k(X)[1, [0, 2, 3]], 0)


@pytest.mark.parametrize("length_scale", [1e-5, 0.3, 1e5])
def test_missing_is_apart_at_every_scale(length_scale):
    K = Ordinal([1, 2, 3], length_scale)([1, 3, None])
    np.testing.assert_array_equal(K[2], [0, 0, 1])
    assert K[0, 1] == pytest.approx(np.exp(-2 / length_scale))


def test_the_order_is_taken_from_the_data():
    assert Ordinal().fit_params([3, 1, None, 10, 1.0]).order == (1, 3, 10)
    with pytest.warns(UserWarning, match="order of the alphabet: 'high', 'low', 'middle'"):
        k = Ordinal().fit_params(["low", "high", "middle"])
    assert k.order == ("high", "low", "middle")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Ordinal().fit_params(["no", "yes"])
        Ordinal(["low", "middle", "high"])(["low", "high"])
    with pytest.raises(InvalidInput, match="fit_params"):
        Ordinal()([1, 2], [1])


def test_the_order_of_a_frame():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    values, levels = ["mid", "lo", None], ["lo", "mid", "hi"]
    column = pandas.Categorical(values, levels, ordered=True)
    enum = polars.Series(values, dtype=polars.Enum(levels))
    for frame in (pandas.DataFrame({"s": column}), polars.DataFrame({"s": enum})):
        assert Ordinal().on("s").fit_params(frame).kernel.order == tuple(levels)
        assert Ordinal().fit_params(frame).order == tuple(levels)
        model = mercer.KernelRidge(Ordinal().on("s")).fit(frame, [1.0, 2.0, 3.0])
        assert model.kernel_.kernel.order == tuple(levels)
        plain = pandas.DataFrame({"s": ["hi", None]}, dtype=object)
        np.testing.assert_allclose(model.predict(plain)[1], model.predict(frame)[2], rtol=1e-12)


def test_unknown_levels_are_named():
    for call in (Ordinal([1, 2]).__call__, Ordinal([1, 2]).diag):
        with pytest.raises(InvalidInput, match="7 is not a level; the levels are 1, 2"):
            call([1, 7])
    model = mercer.SVC(kernel=Ordinal([1, 2, 3])).fit([1, 2, 3, 1], [0, 1, 1, 0])
    with pytest.raises(InvalidInput, match="4 is not a level"):
        model.predict([4])
    assert Ordinal([1, 2])([1, 7][:1]).shape == (1, 1)


@pytest.mark.parametrize(
    "order",
    [
        *("abc", [], [1, 1.0], [1, None], 3, [[1]], [1, "a", np.nan]),
        *({"lo", "hi"}, frozenset("ab"), {"lo": 0, "hi": 1}, {"lo": 0}.values()),
    ],
)
def test_illegal_orders(order):
    # a set has no order: its levels would come as the seed of the hash says
    with pytest.raises(InvalidInput, match=r"^Ordinal: "):
        Ordinal(order)


def test_orders_that_are_no_lists():
    pandas = pytest.importorskip("pandas")
    for order in (("lo", "hi"), np.array(["lo", "hi"]), pandas.Index(["lo", "hi"])):
        np.testing.assert_array_equal(Ordinal(order)(["lo", "hi"]), Ordinal(["lo", "hi"])([*order]))


@pytest.mark.parametrize("kernel", [Categorical(), Categorical(0.9), Ordinal([1, 2, 3], 5.0)])
def test_distributions_over_categories_are_told_apart(kernel):
    # strictly positive definite on all 16 rows of two columns, missing ones among them
    values = [1, 2, 3, None]
    rows = np.array([(a, b) for a in values for b in values], dtype=object)
    assert kernel.characteristic and np.linalg.eigvalsh(kernel(rows))[0] > 1e-3


def test_levels_without_an_order():
    with pytest.raises(InvalidInput, match="have no order"):
        Ordinal().fit_params(["a", 1])
    with pytest.raises(InvalidInput, match="all values are missing"):
        Ordinal().fit_params([None, None])


def test_with_missing_changes_nothing():
    for k in (Categorical(0.5), Ordinal([1, 2])):
        assert k.with_missing() == k and k.with_missing() is not k
        with pytest.raises(InvalidInput, match="leave fill out"):
            k.with_missing(fill="a")


# --------------------------------------------------------------------- products in place
def test_a_product_does_not_write_to_what_is_not_its_own():
    rng = np.random.default_rng(0)
    K = RBF()(rng.standard_normal((6, 2)))
    G = mercer.Precomputed()
    before = K.copy()
    for k in (G * G, G + G, 2.0 * G, (G * G) * G, G + (G * G), (G + 1.0) * 2.0):
        k(K)
        np.testing.assert_array_equal(K, before)
    np.testing.assert_allclose((G * (G * G) + G)(K), before**3 + before, rtol=1e-14)


def test_products_of_single_and_double_precision():
    rng = np.random.default_rng(0)
    frame = {"x": rng.standard_normal(8).astype(np.float32), "y": rng.standard_normal(8)}
    parts = [RBF().on("x")(frame), RBF().on("y")(frame)]
    assert [p.dtype for p in parts] == [np.float32, np.float64]
    for k in (RBF().on("x") * RBF().on("y"), RBF().on("y") * RBF().on("x")):
        assert k(frame).dtype == np.float64
        np.testing.assert_allclose(k(frame), parts[0].astype(float) * parts[1], rtol=1e-15)


def test_an_unknown_level_is_named_with_its_column_and_row():
    frame = {"age": [1.0, 2.0, 3.0], "stage": ["I", "II", "I"], "pain": [0, 1, 2]}
    new = {"age": [1.0, 2.0, 3.0], "stage": ["I", "V", "II"], "pain": [0, 1, 9]}
    model = mercer.KernelRidge(Ordinal(["I", "II"]).on("stage")).fit(frame, [0.0, 1.0, 2.0])
    with pytest.raises(InvalidInput, match=r"'V' is not a level.*[cC]olumn 'stage' of X.*row 1"):
        model.predict(new)
    model = mercer.KernelRidge(Ordinal().on(["age", "pain"])).fit(frame, [0.0, 1.0, 2.0])
    with pytest.raises(InvalidInput, match=r"9 is not a level.*'pain' of X holds it at row 2"):
        model.predict(new)
    with pytest.raises(InvalidInput, match=r"'c' is not a level.*X holds it at row 1"):
        Ordinal(["a", "b"])(["a", "c"])
