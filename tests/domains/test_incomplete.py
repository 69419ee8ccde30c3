"""Points with missing values: which are there, and where the others were."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from mercer.domains import (
    IncompleteCollection,
    IncompletePoints,
    IncompleteVectors,
    Numbers,
    Objects,
    Strings,
    Table,
    Vectors,
)
from mercer.errors import InvalidInput, ModelFileError
from mercer.kernels import RBF, Minimum

WORDS = IncompletePoints(Strings())
ROWS = IncompleteVectors(Vectors())


def test_strings_some_missing():
    X = WORDS.check(["ab", None, "", np.nan, "c"])
    assert list(X) == ["ab", None, "", None, "c"] and len(X.points) == 3
    assert WORDS.check(X) is X and X.places.tolist() == [0, 1, 1, 2, 2, 3]
    assert list(X.take([4, 3, 0, 0])) == ["c", None, "ab", "ab"] and list(X[1:3]) == [None, ""]
    assert list(X.joined(WORDS.check([None, "d"]))) == [*X, None, "d"]
    assert list(WORDS.take(X, slice(0, 0))) == [] and list(WORDS.keep(X)) == list(X)
    none = WORDS.check([None, None])
    assert list(none) == [None, None] and len(none.points) == 0
    assert list(WORDS.check(Strings().check(["a"]))) == ["a"]


def test_rows_of_every_kind():
    pandas = pytest.importorskip("pandas")
    X = np.array([[1.0, np.nan], [np.nan, 2.0]])
    columns = {"a": [1.0, None], "b": [None, 2.0]}
    masked = np.ma.masked_invalid(X)
    objects = pandas.DataFrame({n: np.array(v, dtype=object) for n, v in columns.items()})
    for rows in (X.tolist(), columns, Table(columns), masked, objects.fillna(pandas.NA)):
        np.testing.assert_array_equal(ROWS.check(rows), X)


def test_tensors_become_arrays_unless_they_ask_for_a_gradient():
    torch = pytest.importorskip("torch")
    t = torch.tensor([[1.0], [float("nan")]], dtype=torch.float64)
    k = RBF().with_missing(0.0)
    assert isinstance(k(t), np.ndarray) and k(t)[0, 1] == k([[1.0], [np.nan]])[0, 1]
    t.requires_grad_()
    for kernel in (k, k.on([0])):
        with pytest.raises(InvalidInput, match=r"asks for a gradient.*X\.detach\(\)"):
            kernel(t)


def test_positions_in_messages_are_those_of_the_user():
    with pytest.raises(InvalidInput, match=r"X\[2\] is 3"):
        WORDS.check([None, "a", 3])
    with pytest.raises(InvalidInput, match=r"X\[1\] is missing"):
        WORDS.check(["a", None]).complete("X")
    assert list(WORDS.check(["a"]).complete("X")) == ["a"]


@pytest.mark.parametrize("X", ["one string", 3, None, np.ones((2, 2))])
def test_what_holds_no_strings(X):
    with pytest.raises(InvalidInput, match="Strings"):
        WORDS.check(X)


def test_objects_and_rows_of_objects():
    things = IncompletePoints(Objects())
    assert list(things.check([1, None, (2,)])) == [1, None, (2,)]
    rows = things.check(np.ones((2, 3)))
    assert len(rows) == 2 and not rows.missing.any() and rows[0] == (1.0, 1.0, 1.0)
    assert len(things.check(Table({"a": [1, 2], "b": ["x", None]}))) == 2


def test_rows_of_numbers():
    pandas = pytest.importorskip("pandas")
    expected = np.array([[1.0, np.nan], [2.0, 3.0]])
    masked = np.ma.array([[1.0, 9.0], [2.0, 3.0]], mask=[[0, 1], [0, 0]])
    for X in (
        expected,
        [[1, None], [2, 3]],
        np.array([[1, pandas.NA], [2, 3]], dtype=object),
        pandas.DataFrame({"a": [1, 2], "b": pandas.array([None, 3], dtype="Int64")}),
        Table({"a": [1, 2], "b": [None, 3]}),
        sp.csr_array(expected),
        masked,
    ):
        np.testing.assert_array_equal(ROWS.check(X), expected)
    assert ROWS.check(expected.astype(np.float32)).dtype == np.float32
    numbers = IncompleteVectors(Numbers(low=0.0))
    np.testing.assert_array_equal(numbers.check([1.0, None]), [[1.0], [np.nan]])
    for X, words in (([[np.inf]], "inf"), ([["a"]], "where numbers belong"), (None, "None")):
        with pytest.raises(InvalidInput, match=words):
            ROWS.check(X)


def test_arrays_of_a_file_are_judged():
    X = WORDS.check(["a", None])
    assert list(IncompleteCollection.from_arrays(X.points, X.missing.copy())) == ["a", None]
    for points, missing in ((X.points, [True]), (X.points, np.array([1, 0])), (3, X.missing)):
        with pytest.raises(ModelFileError):
            IncompleteCollection.from_arrays(points, missing)
    with pytest.raises(ModelFileError):
        IncompleteCollection.from_arrays(X.points, np.zeros(5, dtype=bool))


def test_rows_of_different_lengths_are_refused():
    for kernel in (Minimum().with_missing(fill=1.0), RBF().with_missing(fill=1.0)):
        with pytest.raises(InvalidInput, match=r"where numbers belong|different lengths"):
            kernel([[1.0, 2.0], [3.0]])


def test_places_are_counted_once_and_not_kept_in_pickles():
    X = IncompletePoints(Strings()).check(["a", None, "bc", None])
    assert list(X) == ["a", None, "bc", None] and X.places is X.places
    assert "places" not in X.__getstate__()
    again = pickle.loads(pickle.dumps(X))
    assert again == X and list(again) == list(X)
