"""Shortest paths: all small graphs against networkx, lengths, directions, limits."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import numpy as np
import pytest

import mercer
from mercer import Graph, ShortestPath
from mercer.domains import Graphs
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.kernels.graphs import paths as shortest_path

ATLAS = nx.graph_atlas_g()


def counted(G, weight=None):
    label = nx.get_node_attributes(G, "label")
    found = Counter()
    lengths = (
        nx.all_pairs_shortest_path_length(G)
        if weight is None
        else nx.all_pairs_dijkstra_path_length(G, weight=weight)
    )
    for u, ends in lengths:
        for v, d in ends.items():
            if u != v:
                found[label.get(u), label.get(v), d] += 1
    return found


def naive(graphs, others, weight=None):
    a, b = ([counted(G, weight) for G in each] for each in (graphs, others))
    return np.array([[sum(x[p] * y[p] for p in x) for y in b] for x in a], dtype=float)


def labelled(G, rng, kinds=3):
    G = G.copy()
    nx.set_node_attributes(G, {v: int(rng.integers(kinds)) for v in G}, "label")
    return G


def random_graph(rng, n, p=0.3, directed=False, weights=None):
    G = nx.gnp_random_graph(n, p, seed=int(rng.integers(1 << 30)), directed=directed)
    if weights is not None:
        nx.set_edge_attributes(G, {e: float(rng.choice(weights)) for e in G.edges}, "weight")
    return G


@pytest.mark.parametrize("labels", [False, True])
def test_all_graphs_of_up_to_seven_nodes(labels):
    rng = np.random.default_rng(0)
    graphs = [labelled(G, rng) for G in ATLAS] if labels else ATLAS
    some = [graphs[i] for i in rng.choice(len(graphs), 12, replace=False)]
    k = ShortestPath()
    np.testing.assert_array_equal(k(graphs, some), naive(graphs, some))
    own = [sum(c * c for c in counted(G).values()) for G in graphs]
    np.testing.assert_array_equal(k.diag(graphs), own)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weights", [None, [1, 2, 5], [0.5, 0.25, 3]])
def test_lengths_and_directions(directed, weights):
    rng = np.random.default_rng(1)
    graphs = [labelled(random_graph(rng, n, 0.25, directed, weights), rng) for n in range(2, 16)]
    expected = naive(graphs, graphs, "weight")
    np.testing.assert_array_equal(ShortestPath()(graphs), expected)
    edges = naive(graphs, graphs)
    np.testing.assert_array_equal(ShortestPath(weighted=False)(graphs), edges)


@pytest.mark.parametrize("labels", [False, True])
def test_values_are_those_of_grakel(labels):
    grakel = pytest.importorskip("grakel")
    rng = np.random.default_rng(2)
    graphs = [labelled(random_graph(rng, n), rng) for n in range(2, 14)]
    given = [[nx.to_numpy_array(G), dict(G.nodes(data="label"))] for G in graphs]
    peer = grakel.ShortestPath(normalize=False, with_labels=labels).fit_transform(given)
    if not labels:
        graphs = [nx.Graph(G.edges) if G.edges else nx.empty_graph(len(G)) for G in graphs]
    np.testing.assert_array_equal(ShortestPath()(graphs), peer)


def test_the_numbering_of_nodes_does_not_matter():
    rng = np.random.default_rng(3)
    A = np.triu(rng.random((9, 9)) < 0.3, 1) * rng.choice([0.1, 0.7, 1.3], (9, 9))
    A = A + A.T
    labels = rng.integers(0, 3, 9)
    orders = [rng.permutation(9) for _ in range(100)]
    graphs = [Graph(A[np.ix_(o, o)], labels=labels[o]) for o in orders]
    K = ShortestPath()(graphs)
    assert (K == K[0, 0]).all()
    assert K[0, 0] > 0


def test_sums_of_lengths_in_another_order_are_equal():
    whole = Graph(edges=[(0, 1)], weights=[0.3])
    parts = Graph(edges=[(0, 1), (1, 2)], weights=[0.1, 0.2])
    assert 0.1 + 0.2 != 0.3
    assert ShortestPath()([whole], [parts])[0, 0] == 4  # 2 ordered pairs against 2
    near = Graph(edges=[(0, 1)], weights=[0.3000001])
    assert ShortestPath()([near], [parts])[0, 0] == 0


def test_both_directions_of_a_path_have_one_length():
    weights = [0.7963060392865431, 0.5691612478492958, 0.9758520783391608]
    a, b, c = weights  # not sum(): it rounds once since Python 3.12
    assert a + b + c != c + b + a
    path = Graph(edges=[(0, 1), (1, 2), (2, 3)], weights=weights)
    assert ShortestPath()([path])[0, 0] == 24  # six different distances, two ordered pairs each
    vectors = Graph(edges=[(0, 1), (1, 2), (2, 3)], weights=weights, attributes=np.ones((4, 1)))
    assert mercer.AttributedPath(mercer.Linear())([vectors])[0, 0] == 24


def test_real_lengths_do_not_depend_on_the_numbering_of_nodes():
    rng = np.random.default_rng(8)
    n = 60
    A = np.triu(rng.random((n, n)) < 0.08, 1) * rng.random((n, n))
    A = A + A.T
    order = rng.permutation(n)
    graphs = [Graph(A), Graph(A[np.ix_(order, order)])]
    found = []
    for _, u, v, d in shortest_path.joined_pairs(Graphs().check(graphs), True):
        D = np.full((2 * n, 2 * n), np.inf)
        D[u, v] = d
        found.append(D)
    first, second = found[0][:n, :n], found[1][n:, n:]
    np.testing.assert_array_equal(first, first.T)
    np.testing.assert_array_equal(first[np.ix_(order, order)], second)
    assert np.isfinite(first).sum() > n * n / 2


@pytest.mark.parametrize("size", [1e-250, 1e-9, 1.0, 1e9, 1e300])
def test_rounding_meets_across_powers_of_ten(size):
    below, above = size * (1 - 1e-14), size * (1 + 1e-14)
    graphs = [Graph(edges=[(0, 1)], weights=[w]) for w in (below, size, above)]
    if 1e-10 < size < 1e22:  # powers of ten that are exact
        assert (ShortestPath()(graphs) == 4).all()
    far = Graph(edges=[(0, 1)], weights=[size * (1 + 1e-10)])
    assert ShortestPath()([far], [graphs[1]])[0, 0] == 0


def test_whole_lengths_are_exact():
    graphs = [Graph(edges=[(0, 1)], weights=[w]) for w in (10**11, 10**11 + 1)]
    assert ShortestPath()(graphs)[0, 1] == 0


def test_lengths_of_one_and_other_lengths_meet():
    ones = Graph(edges=[(0, 1), (1, 2)])
    mixed = Graph(edges=[(0, 1), (1, 2)], weights=[1, 2])
    # ones: 4 × 1, 2 × 2; mixed: 2 × 1, 2 × 2, 2 × 3
    assert ShortestPath()([ones], [mixed])[0, 0] == 4 * 2 + 2 * 2
    both = ShortestPath()([ones, mixed])
    np.testing.assert_array_equal(both, [[20, 12], [12, 12]])


def test_loops_parts_and_graphs_without_nodes():
    rows = [
        Graph(n_nodes=0),
        Graph(n_nodes=3),
        Graph(edges=[(0, 0)], n_nodes=2),
        Graph(edges=[(0, 1), (0, 0), (2, 3)]),
        Graph(edges=[(0, 1), (2, 3)]),
    ]
    K = ShortestPath()(rows)
    assert not K[:3].any()
    assert (K[3:, 3:] == 16).all()
    assert ShortestPath()([Graph(n_nodes=0)]).tolist() == [[0.0]]
    assert ShortestPath()([]).shape == (0, 0)


def test_negative_lengths_are_refused_where_weights_are_lengths():
    graphs = [Graph(edges=[(0, 1)]), Graph(edges=[(0, 1), (1, 2)], weights=[1, -2])]
    with pytest.raises(InvalidInput, match=r"graph 1 has an edge of weight -2.*weighted=False"):
        ShortestPath()(graphs)
    assert ShortestPath(weighted=False)(graphs)[1, 1] == 16 + 4
    with pytest.raises(InvalidInput, match="weighted='no'"):
        ShortestPath(weighted="no")


@pytest.mark.parametrize("weights", [None, [0.5, 1.5]])
def test_work_cut_into_short_calls_is_the_same(monkeypatch, weights):
    rng = np.random.default_rng(5)
    graphs = [labelled(random_graph(rng, n, 0.2, weights=weights), rng) for n in (0, 1, 9, 30, 4)]
    before = ShortestPath()(graphs)
    monkeypatch.setattr(shortest_path, "STEP", 7)
    np.testing.assert_array_equal(ShortestPath()(graphs), before)
    assert before.any()


def test_a_long_path_needs_no_table_of_distances():
    n = 3000
    path = Graph(edges=np.column_stack([np.arange(n - 1), np.arange(1, n)]))
    with mercer.config(memory="4MB"):
        value = ShortestPath()([path])[0, 0]
    assert value == sum((2 * (n - d)) ** 2 for d in range(1, n))


def test_what_does_not_fit_the_budget_is_refused():
    n = 2000
    ends = np.column_stack([np.arange(n - 1), np.arange(1, n)])
    real = Graph(edges=ends, weights=np.linspace(1, 2, n - 1))
    named = Graph(edges=ends, labels=np.arange(n))
    with mercer.config(memory="20MB"):
        for graph in (real, named):
            with pytest.raises(MemoryBudgetExceeded, match="ShortestPath"):
                ShortestPath()([graph])


def test_equal_graphs_leave_the_matrix_semidefinite_and_hashing_is_accounted_for():
    rng = np.random.default_rng(6)
    graphs = [labelled(random_graph(rng, 8), rng) for _ in range(10)] * 2
    values = np.linalg.eigvalsh(ShortestPath()(graphs))
    assert values[0] > -1e-10 * values[-1]
    chance = ShortestPath().collision_probability(graphs)
    assert 0 < chance < 1e-12
    names = len({label for G in graphs for _, label in G.nodes(data="label")})
    paths = len(set().union(*(counted(G) for G in graphs)))
    assert chance == (paths * (paths - 1) + names * (names - 1)) / 2.0**65
    packed = Graphs().check(graphs)
    np.testing.assert_array_equal(
        ShortestPath()(packed[[3, 5]]), ShortestPath()(packed)[3:6:2, 3:6:2]
    )
