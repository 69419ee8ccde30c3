"""Objects and rows of a Gram matrix: collections whose points are not vectors."""

import numpy as np
import pytest

from mercer.domains import Domain, GramRows, Objects, Table
from mercer.errors import InvalidInput


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
