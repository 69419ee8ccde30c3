"""Two collections of one domain, one after the other."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer.domains import Categories, Objects, Strings, Table, Tables, Vectors
from mercer.domains.points import concatenate, some_points
from mercer.errors import InvalidInput

A, B = np.arange(6.0).reshape(3, 2), np.ones((2, 2))


def test_rows_of_numbers():
    torch = pytest.importorskip("torch")
    expected = np.vstack([A, B])
    np.testing.assert_array_equal(concatenate(Vectors(), A, B), expected)
    assert concatenate(Vectors(), A.astype(np.float32), B).dtype == np.float64
    for a, b in ((sp.csr_array(A), sp.csr_array(B)), (sp.csr_array(A), B), (A, sp.csr_array(B))):
        joined = concatenate(Vectors(), a, b)
        assert joined.format == "csr"
        np.testing.assert_array_equal(joined.toarray(), expected)
    for a, b in ((torch.tensor(A), torch.tensor(B)), (torch.tensor(A), B)):
        np.testing.assert_array_equal(concatenate(Vectors(), a, b).numpy(), expected)
    with pytest.raises(InvalidInput, match="2 columns and Y has 3"):
        concatenate(Vectors(), A, np.ones((2, 3)))


def test_points_of_other_kinds():
    words = [Strings().check(s) for s in (["ab", ""], ["c"])]
    assert list(concatenate(Strings(), *words)) == ["ab", "", "c"]
    sites = [Categories().check(s) for s in (["x", None], ["y", "x"])]
    joined = concatenate(Categories(), *sites)
    assert list(joined) == [("x",), (None,), ("y",), ("x",)]
    things = concatenate(Objects(), (1, "a"), ([2],))
    assert things == (1, "a", [2])
    np.testing.assert_array_equal(
        concatenate(Objects(), np.arange(2), np.arange(3)), [0, 1, 0, 1, 2]
    )


def test_some_points_of_every_kind():
    words = Strings().check(["a", "b", "c"])
    assert list(some_points(words, [2, 0])) == ["c", "a"]
    assert some_points(("a", [1], "c"), np.array([1, 2])) == ([1], "c")
    assert some_points(("a", [1], "c"), slice(1, 3)) == ([1], "c")
    assert some_points(Table({"x": [1, 2]}), [1]) == Table({"x": [2]})
    np.testing.assert_array_equal(some_points(A, [2]), A[2:])


def test_tables_by_name():
    a, b = Table({"x": [1, 2], "y": ["p", None]}), Table({"y": ["q"], "x": [3.5]})
    joined = concatenate(Tables(), a, b)
    assert joined == Table({"x": [1, 2, 3.5], "y": ["p", None, "q"]})
    with pytest.raises(InvalidInput, match="do not go together"):
        concatenate(Tables(), a, Table({"x": [1]}))
    with pytest.raises(InvalidInput, match="column names"):
        concatenate(Tables(), a, A)
