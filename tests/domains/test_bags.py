"""Bags: every form they may come in, what is refused, and what a packed collection must keep."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from mercer.domains import (
    BagCollection,
    Bags,
    Numbers,
    Objects,
    Series,
    Strings,
    Table,
    Tables,
    Vectors,
)
from mercer.errors import InvalidInput, ModelFileError

ROWS = [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0]], [], [[6.0, 7.0]] * 3]
EXPECTED = np.array([r for bag in ROWS for r in bag])
WORDS = [["cat", "car"], [], ["", "bar", "é"]]


def vector_forms():
    arrays = [np.array(bag).reshape(-1, 2) for bag in ROWS]
    yield "lists", ROWS
    yield "tuples", tuple(tuple(map(tuple, bag)) for bag in ROWS)
    yield "arrays", arrays
    yield "integers", [a.astype(int) for a in arrays]
    held = np.empty(4, dtype=object)
    held[:] = arrays
    yield "object array", held
    yield "object column", held[:, None]
    yield "sparse", [sp.csr_array(a) for a in arrays]
    yield "mixed", [arrays[0], ROWS[1], arrays[2], Table({"a": [6.0] * 3, "b": [7.0] * 3})]
    pandas = pytest.importorskip("pandas")
    yield "frames", [pandas.DataFrame(a) for a in arrays]
    yield "series", pandas.Series(arrays)
    yield "column", pandas.DataFrame({"bag": arrays})


@pytest.mark.parametrize(("form", "X"), list(vector_forms()), ids=lambda v: str(v)[:12])
def test_every_form_of_bags_of_vectors_is_packed_alike(form, X):
    bags = Bags(Vectors()).check(X)
    points = bags.points.toarray() if sp.issparse(bags.points) else bags.points
    np.testing.assert_array_equal(points, EXPECTED)
    assert bags.offsets.tolist() == [0, 2, 3, 3, 6]
    assert len(bags) == 4 and bags.shape == (4,) and bags.sizes.tolist() == [2, 1, 0, 3]


def test_an_array_of_three_dimensions_is_bags_of_equal_size():
    X = np.arange(12.0).reshape(3, 2, 2)
    bags = Bags(Vectors()).check(X)
    assert bags.sizes.tolist() == [2, 2, 2]
    np.testing.assert_array_equal(bags.points, X.reshape(6, 2))
    words = Bags(Strings()).check(np.array([["ab", "c"], ["", "d"]]))
    assert words[0] == ("ab", "c") and words[1] == ("", "d")


def test_bags_of_strings_numbers_and_objects():
    bags = Bags(Strings()).check(WORDS)
    assert [bags[i] for i in range(3)] == [tuple(w) for w in WORDS]
    pandas = pytest.importorskip("pandas")
    series = [pandas.Series(w, dtype=object) for w in WORDS]
    assert Bags(Strings()).check(series) == bags
    assert Bags(Numbers()).check([[1.0, 2.0], [3.0]]).sizes.tolist() == [2, 1]
    assert Bags(Objects()).check([["a", 3], [None]]).points == ("a", 3, None)
    tables = [Table({"a": [1.0, 2.0], "b": ["x", "y"]}), Table({"a": [3.0], "b": ["z"]})]
    bags = Bags(Tables()).check(tables)
    assert bags[0] == ((1.0, "x"), (2.0, "y")) and bags[1] == ((3.0, "z"),)


@pytest.mark.parametrize("inner", [Vectors(), Numbers(), Strings(), Objects(), Series(), Tables()])
def test_empty_bags_alone_fit_any_points(inner):
    domain = Bags(inner)
    points = inner.take(inner.check(inner.sample(np.random.default_rng(1), 5)), slice(0, 4))
    some = BagCollection(points, np.array([0, 3, 3, 4]))
    for empty in (domain.check([[], (), []]), domain.check([])):
        assert empty.offsets[-1] == 0 and set(empty) <= {()}
        for A, B in (domain.match(some, empty), domain.match(empty, some)[::-1]):
            both = A.joined(B)
            assert list(both)[:3] == list(some) and set(list(both)[3:]) <= {()}
            assert both.points.shape[1:] == points.shape[1:] if hasattr(points, "shape") else True
    wide = domain.check([np.zeros((0, 7))]) if isinstance(inner, Vectors) else domain.check([[]])
    assert domain.match(wide, some)[1] is some


def test_sets_are_bags_in_one_order():
    bags = Bags(Strings()).check([{"cat", "car", "ant"}, frozenset(["b"]), set()])
    assert list(bags) == [("ant", "car", "cat"), ("b",), ()]
    rows = Bags(Vectors()).check([{(1.0, 2.0), (0.0, 1.0)}, set()])
    assert list(rows) == [((0.0, 1.0), (1.0, 2.0)), ()]


def test_bags_of_arrays_as_objects_are_compared():
    def make(last):
        return Bags(Objects()).check([[np.ones(2)], [np.zeros(3), [np.ones(1), last]]])

    assert make("a") == make("a") and make("a") != make("b")
    assert make("a") != make("a").take([1, 0])
    nested = [Bags(Bags(Vectors())).check([[sp.csr_array(np.eye(2) * s)]]) for s in (1, 1, 2)]
    assert nested[0] == nested[1] and nested[0] != nested[2]


def test_a_packed_collection_is_handed_on_and_immutable():
    domain = Bags(Strings())
    bags = domain.check(WORDS)
    assert domain.check(bags) is bags
    with pytest.raises(ValueError, match="read-only"):
        bags.offsets[0] = 1
    with pytest.raises(InvalidInput):
        Bags(Vectors()).check(bags)


def test_taking_joining_and_comparing():
    for inner, X in ((Strings(), WORDS), (Vectors(), ROWS), (Objects(), [["a", 1], [2], []])):
        bags = Bags(inner).check(X)
        n = len(bags)
        for index in (slice(1, n), [n - 1, 0, 0], np.arange(n) > 0, [], slice(None, None, -1)):
            chosen = [] if np.size(index) == 0 else np.arange(n)[index]
            assert list(bags.take(index)) == [bags[i] for i in chosen]
        both = bags.joined(bags)
        assert len(both) == 2 * n and both[n] == bags[0] and both.take(slice(n, None)) == bags
        assert bags != bags.take([0]) and bags == pickle.loads(pickle.dumps(bags))
        assert hash(bags[0]) == hash(bags.take([0])[0])
    sparse = Bags(Vectors()).check([sp.csr_array(np.eye(2)), sp.csr_array((1, 2))])
    assert sparse == sparse.take([0, 1]) and sparse != sparse.take([1, 0])
    assert sparse[0] == ((1.0, 0.0), (0.0, 1.0))


@pytest.mark.parametrize(
    ("inner", "X", "message"),
    [
        (Vectors(), np.zeros((3, 2)), r"X\[0\]"),
        (Vectors(), [np.zeros((2, 2)), None], r"X\[1\] is None"),
        (Vectors(), [1.0, 2.0], r"X\[0\] is 1.0"),
        (Vectors(), [np.zeros((2, 2)), np.zeros((2, 3))], "columns"),
        (Vectors(), [np.zeros((2, 2)), [], np.ones((1, 2)), np.zeros((2, 3))], r"X\[0\].*X\[3\] "),
        (
            Vectors(),
            [[[1.0, 2.0]], [[1.0]]],
            r"X\[0\] and those of X\[1\] have the columns 2 and 1",
        ),
        (Vectors(), [np.zeros((2, 2)), float("nan")], r"X\[1\] is nan.*with_missing"),
        (Strings(), [["cat"], None], r"X\[1\] is None.*with_missing"),
        (Strings(), {"cat", "car"}, "X is a set; give a list of bags"),
        (Tables(), [Table({"a": [1.0]}), Table({"b": [1.0]})], r"X\[1\].*\['a'\] and \['b'\]"),
        (Vectors(), [[[1.0]], [[float("nan")]]], r"X\[1\]"),
        (Vectors(), None, "X is a NoneType"),
        (Vectors(), 3, "X is a int"),
        (Strings(), ["cat", "car"], r"X\[0\] is 'cat'"),
        (Strings(), "cat", "X is a str"),
        (Strings(), [["cat"], ["a", None]], r"X\[1\]\[1\] is missing"),
        (Strings(), [["cat"], [3]], r"X\[1\]\[0\] is 3"),
        (Strings(), [["cat"], [b"cat"]], "bytes"),
    ],
)
def test_what_is_no_bag_is_named(inner, X, message):
    with pytest.raises(InvalidInput, match=message):
        Bags(inner).check(X)


def test_tensors_are_refused_with_the_way_out():
    torch = pytest.importorskip("torch")
    with pytest.raises(InvalidInput, match="numpy"):
        Bags(Vectors()).check([torch.zeros((2, 2))])


def test_bags_that_do_not_belong_together():
    domain = Bags(Vectors())
    with pytest.raises(InvalidInput, match="columns"):
        domain.match(domain.check([np.zeros((1, 2))]), domain.check([np.zeros((1, 3))]))


def test_a_file_cannot_bring_malformed_bags():
    points, ends = np.zeros((3, 1)), np.array([0, 1, 3])
    assert BagCollection.from_arrays(points, ends).sizes.tolist() == [1, 2]
    for bad in (
        np.array([0, 2]),
        np.array([1, 3]),
        np.array([0, 4, 3]),
        np.array([0.0, 3.0]),
        [0, 3],
    ):
        with pytest.raises(ModelFileError):
            BagCollection.from_arrays(points, bad)
    for bad in ("abc", 3, None, [1, 2, 3], {}):
        with pytest.raises(ModelFileError):
            BagCollection.from_arrays(bad, ends)


def test_kept_bags_do_not_change_with_the_users_arrays():
    X = np.zeros((2, 3, 1))
    domain = Bags(Vectors())
    kept = domain.keep(domain.check(X))
    X += 1
    assert kept.points.sum() == 0
