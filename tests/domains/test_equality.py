"""Keys of points: equal exactly where the points are."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer.domains import Categories, Strings, Table
from mercer.domains.points import point_keys


def partition(keys):
    return [keys.index(key) for key in keys]


def test_rows_of_numbers_of_every_kind():
    X = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    torch = pytest.importorskip("torch")
    for rows in (
        X,
        X.astype(np.float32),
        X.astype(int),
        sp.csr_array(X),
        torch.tensor(X),
        X.T.copy().T,
    ):
        assert partition(point_keys(rows)) == [0, 0, 2, 0]
    assert partition(point_keys(X[:, 0])) == [0, 0, 2, 0]
    assert point_keys(np.zeros((0, 3))) == []


def test_strings_categories_and_tables():
    assert partition(point_keys(Strings().check(["a", "b", "a", ""]))) == [0, 1, 0, 3]
    assert partition(point_keys(Categories().check([["a", 1], ["a", 1.0], ["a", None]]))) == [
        0,
        0,
        2,
    ]
    table = Table({"a": [1, 1, 2], "b": ["x", "x", None]})
    assert partition(point_keys(table)) == [0, 0, 2]


def test_objects_are_compared_by_what_they_hold():
    points = (
        [1, 2],
        (1, 2),
        [1, 2],
        {"a": [1]},
        {"a": [1]},
        np.ones(2),
        np.ones(2),
        np.ones((2, 1)),
    )
    assert partition(point_keys(points)) == [0, 1, 0, 3, 3, 5, 5, 7]


def test_what_cannot_be_compared():
    assert point_keys(({1, 2}, {1, 2})) is None  # a set has no hash
