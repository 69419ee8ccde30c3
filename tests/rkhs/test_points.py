import numpy as np
import pytest
import scipy.sparse as sp

from mercer.domains import GramRows, Objects, Table, Tables, Vectors
from mercer.domains.points import concatenate
from mercer.errors import InvalidInput
from mercer.rkhs.function import apart, first_equal, same

A, B = np.arange(6.0).reshape(3, 2), np.arange(4.0).reshape(2, 2)


def test_concatenate_arrays_and_sparse():
    np.testing.assert_array_equal(concatenate(Vectors(), A, B), np.vstack([A, B]))
    for X, Y in ((sp.csr_array(A), B), (A, sp.csr_array(B)), (sp.csr_array(A), sp.csr_array(B))):
        joined = concatenate(Vectors(), X, Y)
        assert joined.format == "csr"
        np.testing.assert_array_equal(joined.toarray(), np.vstack([A, B]))
    assert concatenate(Vectors(), A.astype("f"), B).dtype == np.float64
    assert concatenate(Vectors(), A.astype("f"), B.astype("f")).dtype == np.float32


def test_concatenate_objects_positions_and_tables():
    assert concatenate(Objects(), ("a",), ("b", "c")) == ("a", "b", "c")
    assert concatenate(Objects(), ("a",), np.array([1.0, 2.0])) == ("a", 1.0, 2.0)
    assert concatenate(GramRows(), np.array([0, 1]), np.array([5])).tolist() == [0, 1, 5]
    left, right = Table({"u": [1], "v": ["x"]}), Table({"v": ["y"], "u": [2]})
    assert concatenate(Tables(), left, right) == Table({"u": [1, 2], "v": ["x", "y"]})
    with pytest.raises(InvalidInput, match="columns"):
        concatenate(Tables(), left, Table({"u": [1]}))
    with pytest.raises(InvalidInput, match="do not go together"):
        concatenate(Objects(), left, ("a",))


def test_concatenate_tensors():
    torch = pytest.importorskip("torch")
    joined = concatenate(Vectors(), torch.as_tensor(A), B)
    np.testing.assert_array_equal(joined.numpy(), np.vstack([A, B]))


def test_apart_is_equal_but_another_object():
    words = ("a", "b")
    assert apart(Objects(), words) == ["a", "b"]
    other = apart(Vectors(), A)
    assert other is not A and (other == A).all() and np.shares_memory(other, A)
    table = Table({"u": [1, 2]})
    assert apart(Tables(), table) == table and apart(Tables(), table) is not table


def test_same():
    assert same(A, A) and same(A, A.copy()) and not same(A, A + 1) and not same(A, A[:1])
    assert same(np.array([1, 2]), np.array([1, 2])) and not same(np.array([1, 2]), np.array([1, 3]))


def test_first_equal():
    X = np.array([[1.0, 2.0], [0.0, 0.0], [1.0, 2.0], [-0.0, 0.0]])
    assert first_equal(X).tolist() == [0, 1, 0, 1]
    assert first_equal(np.array([3, 1, 3])).tolist() == [0, 1, 0]
    assert first_equal(("b", "a", "b")).tolist() == [0, 1, 0]
    assert first_equal((1, 1.0, True)).tolist() == [0, 1, 2]  # other types are other points
    assert first_equal(([1], [1])).tolist() == [0, 1]  # cannot be compared by hash
    assert first_equal(sp.csr_array(X)).tolist() == [0, 1, 2, 3]
    assert first_equal(np.empty((0, 2))).tolist() == []
    assert first_equal(()).tolist() == []
