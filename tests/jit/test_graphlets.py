"""Compiled counts of small subgraphs equal counts by matrices and by all sets of nodes."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest

from mercer.domains import Graphs
from mercer.jit.graphs import count_closed, count_connected, count_squares, count_triangles


def packed(seed=0):
    rng = np.random.default_rng(seed)
    graphs = [nx.gnp_random_graph(n, p, seed=int(rng.integers(999))) for n, p in
              [(0, 0), (1, 0), (7, 0.5), (9, 0.9), (12, 0.3), (6, 1.0)]]  # fmt: skip
    X = Graphs().check(graphs)
    for array in (X.indptr, X.indices):
        assert not array.flags.writeable
    return [nx.to_numpy_array(G) for G in graphs], X


def cut(total, step):
    return [(a, min(a + step, total)) for a in range(0, total, step)]


@pytest.mark.parametrize("step", [1, 3, 10_000])
def test_triangles_are_a_trace(step):
    matrices, X = packed()
    mark, out = np.zeros(len(X.owners), dtype=np.int64), np.zeros(len(X), dtype=np.int64)
    for first, stop in cut(len(X.indices), step):
        count_triangles(X.indptr, X.indices, X.sources, X.owners, first, stop, mark, out)
    assert out.tolist() == [round(np.trace(A @ A @ A)) // 6 for A in matrices]
    assert out.any()


@pytest.mark.parametrize("step", [1, 3, 10_000])
def test_what_edges_close(step):
    matrices, X = packed(1)
    N = len(X.owners)
    mark, inside, common = np.zeros((3, N), dtype=np.int64)
    out = np.zeros((len(X), 5), dtype=np.int64)
    for first, stop in cut(len(X.indices), step):
        count_closed(
            X.indptr, X.indices, X.sources, X.owners, first, stop, mark, inside, common, out
        )
    for A, found in zip(matrices, out, strict=True):
        d, both = A.sum(1), A @ A
        edges = [(u, v) for u, v in itertools.combinations(range(len(A)), 2) if A[u, v]]
        triples = itertools.combinations(range(len(A)), 3)
        triangles = [t for t in triples if all(A[u, v] for u, v in itertools.combinations(t, 2))]
        fours = itertools.combinations(range(len(A)), 4)
        cliques = [q for q in fours if all(A[u, v] for u, v in itertools.combinations(q, 2))]
        assert found.tolist() == [
            sum((d[u] - 1) * (d[v] - 1) for u, v in edges),
            len(triangles),
            sum(both[u, v] * (both[u, v] - 1) / 2 for u, v in edges),
            sum(d[list(t)].sum() - 6 for t in triangles),
            len(cliques),
        ]


@pytest.mark.parametrize("step", [1, 5, 10_000])
def test_squares_are_pairs_of_ways(step):
    matrices, X = packed(2)
    hits, out = np.zeros(len(X.owners), dtype=np.int64), np.zeros(len(X), dtype=np.int64)
    for first, stop in cut(len(X.owners), step):
        count_squares(X.indptr, X.indices, X.owners, first, stop, hits, out)
    assert not hits.any()
    expected = []
    for A in matrices:
        ways = np.triu(A @ A, 1)
        expected.append(int((ways * (ways - 1) / 2).sum()))
    assert out.tolist() == expected and out.any()


@pytest.mark.parametrize("steps", [1, 17, 10**9])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_connected_sets_are_met_once(size, steps):
    matrices, X = packed(3)
    N, most = len(X.owners), int(X.sizes.max())
    kinds = np.zeros(2 ** (size * (size - 1) // 2), dtype=np.int64)
    out = np.zeros((len(X), 1), dtype=np.int64)
    chosen, codes = np.zeros(size, dtype=np.int64), np.zeros(size + 1, dtype=np.int64)
    open_ = np.empty((size + 1, most), dtype=np.int64)
    n_open, kept, fresh = np.zeros((3, size + 1), dtype=np.int64)
    place, near, state = np.zeros(N, dtype=np.int64), np.zeros(N, dtype=bool), np.zeros(2, np.int64)
    while not count_connected(
        X.indptr, X.indices, X.owners, kinds, chosen, codes, open_, n_open, kept, fresh, place,
        near, state, steps, out,
    ):  # fmt: skip
        pass
    for A, found in zip(matrices, out[:, 0], strict=True):
        G = nx.from_numpy_array(A)
        sets = itertools.combinations(range(len(A)), size)
        assert found == sum(nx.is_connected(G.subgraph(s)) for s in sets)
    assert not place.any() and not near.any()
