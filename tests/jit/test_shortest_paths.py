"""Compiled distances and sums over paths equal those of networkx and of the definition."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import numpy as np
import pytest

from mercer.domains import Graphs
from mercer.jit.graphs import common_paths, count_distances


@pytest.mark.parametrize("step", [1, 4, 1000])
@pytest.mark.parametrize("directed", [False, True])
def test_distances_are_counted_by_the_kinds_of_their_ends(step, directed):
    rng = np.random.default_rng(0)
    graphs = [nx.gnp_random_graph(n, 0.3, seed=n, directed=directed) for n in (0, 1, 5, 9, 12)]
    X = Graphs().check(graphs)
    sizes, owner = X.sizes, X.owners
    label = rng.integers(0, 3, len(owner))
    order = np.lexsort((label, owner))
    fresh = np.append(True, (np.diff(owner[order]) != 0) | (np.diff(label[order]) != 0))
    kind = np.empty(len(order), dtype=np.int64)
    kind[order] = np.cumsum(fresh) - 1
    first = np.searchsorted(owner[order][fresh], np.arange(len(X)))
    last = np.append(fresh[1:], True)
    distance, queue = np.full(len(owner), -1), np.empty(sizes.max(), dtype=np.int64)
    cells, used = np.zeros((2, 3 * sizes.max()), dtype=np.int64)
    found, n_used = Counter(), 0
    for a in range(0, len(order), step):
        out, counts = np.empty((3 * len(order), 3), dtype=np.int64), np.empty(3 * len(order))
        written, n_used = count_distances(
            X.indptr, X.indices, X.node_offsets, owner, kind, first, order[a : a + step],
            last[a : a + step], distance, queue, cells, used, n_used, out, counts,
        )  # fmt: skip
        for row, count in zip(out[:written].tolist(), counts[:written], strict=True):
            assert tuple(row) not in found
            found[tuple(row)] = int(count)
    assert n_used == 0 and not cells.any() and (distance == -1).all()
    expected = Counter()
    for g, G in enumerate(graphs):
        base = X.node_offsets[g]
        for u, ends in nx.all_pairs_shortest_path_length(G):
            for v, d in ends.items():
                if u != v:
                    expected[kind[base + u], kind[base + v], d] += 1
    assert found == expected and len(found) > 20


def groups(D):
    """Return the pairs of nodes of a matrix of distances in the form of the loop."""
    u, v = np.nonzero(D)
    d = D[u, v]
    order = np.lexsort((v, u, d))
    fresh = np.append(True, np.diff(d[order]) != 0)[: len(d)]
    ends = np.append(np.flatnonzero(fresh), len(d))
    return d[order][fresh].astype(float), ends, u[order], v[order], 0, int(fresh.sum())


@pytest.mark.parametrize("step", [1, 3, 99])
def test_common_paths_are_the_double_sum(step):
    rng = np.random.default_rng(1)
    for n, m in ((1, 4), (5, 7), (8, 3)):
        D, E = (rng.integers(0, 4, (k, k)) * (1 - np.eye(k, dtype=int)) for k in (n, m))
        M = rng.standard_normal((n, m))
        T, S = np.empty((2, n + 1, m + 2))
        G = np.zeros((n, m))
        total = without = 0.0
        for low in range(0, n, step):
            bounds = low, min(low + step, n)
            total += common_paths(*groups(D), *groups(E), M, T, S, G, *bounds)
            without += common_paths(*groups(D), *groups(E), M, T, S, np.empty((0, 0)), *bounds)
        same = np.equal.outer(D, E) & (D > 0)[:, :, None, None]
        expected = np.einsum("uvab,ua,vb->", same, M, M)
        assert total == without == pytest.approx(expected, rel=1e-12, abs=1e-12)
        slopes = np.einsum("uvab,vb->ua", same, M) + np.einsum("uvab,ua->vb", same, M)
        np.testing.assert_allclose(G, slopes, rtol=1e-12, atol=1e-12)
