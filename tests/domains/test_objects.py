"""Objects and rows of a Gram matrix: collections whose points are not vectors."""

import numpy as np
import pandas as pd
import pytest

from mercer import RBF, FromFunction, KernelRidge
from mercer.domains import Domain, GramRows, Objects, Table
from mercer.errors import InvalidInput
from mercer.kernels import Counted


def test_lists_become_tuples_and_arrays_stay():
    assert Objects().check(["a", "bb"]) == ("a", "bb")
    X = np.ones((3, 2))
    assert Objects().check(X) is X
    assert Objects().size(("a", "b")) == 2 and Objects().size(X) == 3
    assert Objects().check(np.array(["a", "b"])).shape == (2,)


@pytest.mark.parametrize(
    "index", [slice(1, 3), [1, 2], np.array([1, 2]), [-2, -1], [False, True, True]]
)
def test_take(index):
    assert Objects().take(("a", "b", "c"), index) == ("b", "c")
    np.testing.assert_array_equal(Objects().take(np.array(["a", "b", "c"]), index), ["b", "c"])
    table = Objects().take(
        Table({"a": [1, 2, 3]}), np.asarray(index) if isinstance(index, list) else index
    )
    assert table["a"].tolist() == [2, 3]


def test_take_nothing():
    assert Objects().take(("a",), []) == ()


@pytest.mark.parametrize("X", ["text", b"text", 3, None, {1}, {"a": 1}, np.array(1.0)], ids=repr)
def test_what_is_no_collection(X):
    with pytest.raises(InvalidInput, match="points is a"):
        Objects().check(X, "points")


def test_a_model_keeps_positions_of_gram_rows():
    K = np.eye(3)
    np.testing.assert_array_equal(GramRows().keep(K), [0, 1, 2])
    np.testing.assert_array_equal(GramRows().keep(np.array([2, 0])), [2, 0])
    assert GramRows().size(K) == 3
    G = GramRows().sample(np.random.default_rng(0), 6)
    assert np.linalg.eigvalsh(G)[0] > -1e-10


def test_the_protocol_has_defaults():
    domain = Domain()
    assert domain.check([1, 2]) == [1, 2] and domain.size([1, 2]) == 2
    assert domain.take([1, 2, 3], slice(1)) == [1] and domain.match(1, 2) == (1, 2)
    with pytest.raises(InvalidInput, match="no sampler"):
        domain.sample(np.random.default_rng(0), 3)


def test_lists_of_numbers_of_one_length_are_an_array():
    for X in ([[1, 2], [3, 4]], [[1.0, 2], [np.float32(3), np.int64(4)]]):
        rows = Objects().check(X)
        assert rows.dtype == np.float64
        np.testing.assert_array_equal(rows, [[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    "X",
    [
        [[1, 2], [3]],
        [[1, "a"], [2, "b"]],
        [(1, 2), (3, 4)],
        [[1, 2], (3, 4)],
        ([1, 2], [3, 4]),
        [[], []],
        [],
        [[[1], [2]], [[3], [4]]],
        [[10**400], [1]],
        [[1, None]],
        [1, 2],
    ],
    ids=repr,
)
def test_other_lists_stay_objects(X):
    assert Objects().check(X) == tuple(X)


def test_lists_of_one_length_beside_lists_of_several():
    ragged, square = [[1, 2], [3]], [[1, 2], [3, 4]]
    common = FromFunction(lambda a, b: float(a == b))  # of arrays this would be no number
    np.testing.assert_array_equal(common(ragged, square), [[1, 0], [0, 0]])
    np.testing.assert_array_equal(common(square, ragged), [[1, 0], [0, 0]])


def test_maps_of_collections_see_lists_as_arrays(rng):
    X = rng.standard_normal((5, 3))
    k = RBF().warp(lambda Z: Z[:, :2])
    np.testing.assert_array_equal(k(X.tolist()), k(X))
    np.testing.assert_allclose(k(X.tolist()), RBF()(X[:, :2]), rtol=1e-14)
    np.testing.assert_allclose(k(X.tolist(), X[:2]), RBF()(X[:, :2], X[:2, :2]), rtol=1e-14)
    scaled = RBF().scale_by(lambda Z: Z[:, 0])
    np.testing.assert_array_equal(scaled(X.tolist()), scaled(X))
    dot = FromFunction(lambda a, b: float(a @ b))
    np.testing.assert_allclose(dot(X.tolist()), X @ X.T, atol=1e-14)


def common(a, b):
    return float(len(set(a) & set(b)))


@pytest.mark.parametrize(
    "form",
    [
        lambda W: Table({"w": W}),
        lambda W: pd.DataFrame({"w": W}),
        lambda W: np.array(W, dtype=object)[:, None],
        lambda W: np.array(W)[:, None],
        lambda W: pd.Series(W),
    ],
)
def test_the_points_of_one_column_are_its_entries(form):
    words = ["banana", "ban", "nab", ""]
    assert tuple(Objects().check(form(words))) == tuple(words)
    expected = FromFunction(common)(words)
    np.testing.assert_array_equal(FromFunction(common)(form(words)), expected)
    np.testing.assert_array_equal(FromFunction(common)(form(words), words), expected)


class Ingredients(Counted):
    """How much of each ingredient two recipes share."""

    def _count(self, x):
        return x


def test_kernels_of_an_author_on_a_column_see_what_stands_there():
    recipes = [{"salt": 1.0, "milk": 2.0}, {"milk": 3.0}, {}]
    table = {"r": recipes, "x": [1.0, 2.0, 3.0]}
    expected = [[5.0, 6.0, 0.0], [6.0, 9.0, 0.0], [0.0, 0.0, 0.0]]
    np.testing.assert_array_equal(Ingredients()(recipes), expected)
    np.testing.assert_array_equal(Ingredients().on("r")(table), expected)
    np.testing.assert_array_equal(Ingredients()(pd.DataFrame({"r": recipes})), expected)
    # rows of several columns are tuples
    two = FromFunction(lambda a, b: float(a[1] * b[1])).on(["r", "x"])
    np.testing.assert_array_equal(two(table), np.outer([1, 2, 3], [1, 2, 3]))
    k = FromFunction(lambda a, b: float(a * b)).on("x")
    np.testing.assert_array_equal(k(table), np.outer([1, 2, 3], [1, 2, 3]))


def test_dates_of_a_column_stay_dates_and_columns_of_numbers_arrays():
    days = np.array(["2020-01-01", "2020-01-03"], dtype="datetime64[ns]")
    assert Objects().check(Table({"d": days}))[0] == days[0]
    X = np.ones((3, 1))
    assert Objects().check(X) is X


def test_models_on_a_column_of_ones_own_points():
    words, y = ["banana", "ban", "nab", "", "bb"], [1.0, 2.0, 3.0, 4.0, 5.0]
    plain = KernelRidge(FromFunction(common), 0.1).fit(words, y)
    frame = pd.DataFrame({"w": words})
    for kernel in (FromFunction(common), FromFunction(common).on("w")):
        model = KernelRidge(kernel, 0.1).fit(frame, y)
        np.testing.assert_allclose(model.predict(frame), plain.predict(words), atol=1e-12)


def test_missing_entries_of_a_column_of_ones_own_points():
    words = ["a", None, "b", None]
    kernel = FromFunction(lambda a, b: float(ord(a) * ord(b))).with_missing()
    expected = kernel(words)
    assert expected[1, 3] == 1.0 and expected[0, 1] == 0.0
    for k, X in (
        (kernel, np.array(words, dtype=object)[:, None]),
        (kernel, pd.DataFrame({"w": words})),
        (kernel.on("w"), {"w": words}),
    ):
        np.testing.assert_array_equal(k(X), expected)
