"""Rows of neighbours: their order, their weights, what a file may bring."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mercer.domains.graphs.rows import check_rows, flat_weights, is_number, row_order, sources_of
from mercer.errors import InvalidInput, ModelFileError


def test_rows_are_sorted_each_by_itself():
    rng = np.random.default_rng(0)
    for _ in range(50):
        degrees = rng.integers(0, 5, rng.integers(1, 8))
        indptr = np.concatenate([[0], np.cumsum(degrees)])
        indices = np.concatenate([[], *(rng.permutation(9)[:d] for d in degrees)]).astype(np.int64)
        order = row_order(indptr, indices)
        order = np.arange(len(indices)) if order is None else order
        for a, b in itertools.pairwise(indptr):
            assert indices[order][a:b].tolist() == sorted(indices[a:b].tolist())
        rows = [i for i, d in enumerate(degrees) for _ in range(d)]
        assert sources_of(indptr).tolist() == rows
    assert row_order(np.array([0, 2, 2, 3]), np.array([1, 2, 0])) is None


def test_weights_of_several_graphs():
    flat = flat_weights([None, [2, True], np.array([-0.0])], [2, 2, 1], str)
    assert flat.tolist() == [1, 1, 2, 1, 0] and not np.signbit(flat).any()
    assert flat_weights([None, None], [1, 2], str).tolist() == [1, 1, 1]
    for bad in ([1, "2"], [[1.0], 2.0], [1j, 0.0], [10**400]):
        with pytest.raises(InvalidInput, match=r"^graph 1: the weight"):
            flat_weights([None, bad], [1, len(bad)], lambda i: f"graph {i}")
    with pytest.raises(InvalidInput, match="graph 0: an edge has the weight inf"):
        flat_weights([[np.inf]], [1], lambda i: f"graph {i}")


def test_what_is_a_number():
    assert all(map(is_number, [1, 1.5, True, np.float32(2), np.array(3.0), float("nan")]))
    assert not any(map(is_number, ["1", b"1", 1j, np.complex64(1), None, [1], np.ones(1), 10**400]))


@pytest.mark.parametrize("bad", [np.array(0), np.zeros(3), np.zeros((4, 1), np.int64), None, 3])
def test_malformed_rows_of_a_file(bad):
    indptr, indices = np.array([0, 1, 2, 2]), np.array([1, 0])
    arrays = {"indptr": indptr, "indices": indices, "weights": np.ones(2)}
    rest = {"node_labels": None, "edge_labels": None, "attributes": None, "directed": False}
    check_rows(np.array([0, 3]), **arrays, **rest)
    for name in arrays:
        with pytest.raises(ModelFileError):
            check_rows(np.array([0, 3]), **{**arrays, name: bad}, **rest)
