"""Graphlets: all small graphs against networkx, closed formulas on large ones, limits."""

from __future__ import annotations

import itertools
from collections import Counter
from math import comb

import networkx as nx
import numpy as np
import pytest

from mercer import Graph, Graphlet
from mercer.errors import InvalidInput
from mercer.kernels.graphs import graphlet

ATLAS = nx.graph_atlas_g()
DEGREES = {  # each graph of 3 or 4 nodes has its own degrees
    3: ["211", "222", "110", "000"],
    4: ["3111", "2211", "3221", "2222", "3322", "3333", "2220", "2110", "1111", "1100", "0000"],
}


def counted(G, size):
    """Count the sets of nodes by the degrees inside them."""
    near = {v: set(G[v]) - {v} for v in G}
    found = Counter()
    for nodes in itertools.combinations(G, size):
        inside = sorted((len(near[v].intersection(nodes)) for v in nodes), reverse=True)
        found["".join(map(str, inside))] += 1
    return [found[name] for name in DEGREES[size]]


@pytest.mark.parametrize("size", [3, 4])
def test_all_graphs_of_up_to_seven_nodes(size):
    expected = np.array([counted(G, size) for G in ATLAS], dtype=float)
    np.testing.assert_array_equal(Graphlet(size, connected=False).features(ATLAS), expected)
    some = expected[::40, : 2 if size == 3 else 6]
    np.testing.assert_array_equal(Graphlet(size)(ATLAS[::40]), some @ some.T)
    np.testing.assert_array_equal(Graphlet(size).diag(ATLAS[::40]), (some * some).sum(1))


def test_five_nodes_against_isomorphism():
    kinds = [H for H in ATLAS if len(H) == 5 and nx.is_connected(H)]
    assert len(kinds) == 21
    graphs = [G for G in ATLAS if len(G) > 4][::23]
    expected = np.zeros((len(graphs), 21))
    for i, G in enumerate(graphs):
        for nodes in itertools.combinations(G, 5):
            part = G.subgraph(nodes)
            alike = [
                j
                for j, H in enumerate(kinds)
                if H.size() == part.size() and nx.is_isomorphic(H, part)
            ]
            expected[i, alike] += 1
    np.testing.assert_array_equal(Graphlet(5)(graphs), expected @ expected.T)


def test_listing_agrees_with_counting_on_larger_graphs():
    graphs = [nx.gnp_random_graph(n, p, seed=n) for n, p in ((40, 0.1), (25, 0.5), (12, 1.0))]
    packed = Graphlet(4).domain.check(graphs)
    for size in (3, 4):
        listed = graphlet._listed(graphlet._Simple(packed), size)
        counts = Graphlet(size).features(packed)
        assert sorted(map(tuple, listed.T)) == sorted(map(tuple, counts.T))


def test_large_graphs_have_exact_counts():
    leaves = 3000
    star = Graph(edges=np.column_stack([np.zeros(leaves, int), np.arange(1, leaves + 1)]))
    clique = Graph(1 - np.eye(60))
    a, b = 10, 12
    halves = nx.complete_bipartite_graph(a, b)
    rows = Graphlet(4, connected=False).features([star, clique, halves])
    assert rows[0].tolist() == [comb(leaves, 3)] + [0] * 9 + [comb(leaves, 4)]
    assert rows[1].tolist() == [0] * 5 + [comb(60, 4)] + [0] * 5
    expected = [0.0] * 11
    expected[0] = a * comb(b, 3) + b * comb(a, 3)
    expected[3] = comb(a, 2) * comb(b, 2)
    expected[10] = comb(a, 4) + comb(b, 4)
    assert rows[2].tolist() == expected
    assert Graphlet(5).features([halves])[0].sum() == sum(
        comb(a, i) * comb(b, 5 - i) for i in range(1, 5)
    )


def test_work_cut_into_short_calls_is_the_same(monkeypatch):
    graphs = [nx.gnp_random_graph(n, 0.3, seed=n) for n in (0, 1, 14, 9)]
    before = [Graphlet(size).features(graphs) for size in (3, 4, 5)]
    monkeypatch.setattr(graphlet, "STEP", 3)
    for size, rows in zip((3, 4, 5), before, strict=True):
        np.testing.assert_array_equal(Graphlet(size).features(graphs), rows)
        assert rows[2].sum() > 50


def test_loops_weights_labels_and_the_numbering_of_nodes_do_not_matter():
    rng = np.random.default_rng(0)
    A = np.triu(rng.random((12, 12)) < 0.35, 1).astype(float)
    A = A + A.T
    plain = Graph(A)
    for size in (3, 4, 5):
        expected = Graphlet(size).features([plain])
        loops = Graph(-2.5 * A + np.eye(12), labels=rng.integers(0, 3, 12))
        np.testing.assert_array_equal(Graphlet(size).features([loops]), expected)
        orders = [rng.permutation(12) for _ in range(30)]
        moved = Graphlet(size).features([A[np.ix_(o, o)] for o in orders])
        assert (moved == expected).all()


@pytest.mark.parametrize("size", [3, 4, 5])
def test_graphs_smaller_than_a_graphlet_have_none(size):
    graphs = [Graph(n_nodes=0), Graph(n_nodes=1), Graph(edges=[(0, 1)])]
    assert not Graphlet(size)(graphs).any()
    if size < 5:
        assert not Graphlet(size, connected=False)(graphs).any()
    assert Graphlet(size).features([]).shape == (0, Graphlet(size).n_features([]))


def test_directed_graphs_and_illegal_parameters_are_refused():
    arrows = Graph(edges=[(0, 1), (1, 2)], directed=True)
    with pytest.raises(InvalidInput, match=r"directed.*to_undirected"):
        Graphlet()([arrows])
    for size in (2, 6, 3.0, True, "4"):
        with pytest.raises(InvalidInput, match="legal are 3, 4 and 5"):
            Graphlet(size)
    with pytest.raises(InvalidInput, match="connected=1"):
        Graphlet(3, connected=1)
    with pytest.raises(InvalidInput, match="size=5 counts connected"):
        Graphlet(5, connected=False)


def test_three_nodes_need_no_cliques_of_four(monkeypatch):
    from mercer.jit import graphs as graphlets

    def refuse(*args):
        raise AssertionError("four nodes are listed")

    monkeypatch.setattr(graphlets, "count_closed", refuse)
    monkeypatch.setattr(graphlets, "count_squares", refuse)
    n = 1000
    complete = Graph(np.ones((n, n)) - np.eye(n))
    assert Graphlet(3, connected=False).features([complete]).tolist() == [[0, comb(n, 3), 0, 0]]
