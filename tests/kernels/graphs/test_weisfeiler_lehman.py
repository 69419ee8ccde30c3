"""`WeisfeilerLehman` against refinement by a dictionary on all small graphs; invariances."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import mercer
from mercer import Graph, VertexHistogram, WeisfeilerLehman
from mercer.domains import Graphs
from mercer.errors import InvalidInput
from mercer.kernels.graphs.histograms import refinements
from mercer.testing import double_loop
from mercer.testing.examples.graphs import refined_labels, sample_graphs


def dictionary_matrix(graphs: list, rounds: int) -> np.ndarray:
    """Return the kernel matrix from labels numbered by a dictionary, and one sparse product."""
    rows, columns = [], []
    names: dict = {}
    for i, graph in enumerate(graphs):
        for r, labels in enumerate(refined_labels(graph, rounds)):
            rows += [i] * len(labels)
            columns += [names.setdefault((r, label), len(names)) for label in labels]
    counts = sp.csr_array(
        (np.ones(len(rows)), (rows, columns)), shape=(len(graphs), max(1, len(names)))
    )
    return (counts @ counts.T).toarray()


def permuted(graph: Graph, order: np.ndarray) -> Graph:
    """Return the graph with node order[i] in place i."""
    A = graph.adjacency.toarray()[np.ix_(order, order)]
    place = np.argsort(order)
    edges = np.argwhere(A if graph.directed else np.triu(A))
    bonds = None
    if graph.edge_labels is not None:
        codes = {}
        for u in range(graph.n_nodes):
            for e in range(graph.indptr[u], graph.indptr[u + 1]):
                codes[place[u], place[graph.indices[e]]] = int(graph.edge_labels[e])
        bonds = [codes[tuple(edge)] for edge in edges]
    labels = None if graph.node_labels is None else graph.node_labels[order].tolist()
    return Graph(
        edges=edges, n_nodes=len(order), labels=labels, edge_labels=bonds, directed=graph.directed
    )


def test_all_graphs_of_up_to_seven_nodes():
    atlas = nx.graph_atlas_g()
    graphs = list(Graphs().check(atlas))
    assert len(graphs) == 1253
    for rounds in (1, 4):
        K = WeisfeilerLehman(rounds)(atlas)
        assert np.array_equal(K, dictionary_matrix(graphs, rounds))


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("bonds", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_random_graphs(labelled, bonds, directed):
    graphs = sample_graphs(np.random.default_rng(7), 60, labelled, bonds, directed)
    K = WeisfeilerLehman(4)(graphs)
    assert np.array_equal(K, dictionary_matrix(graphs, 4))
    new = sample_graphs(np.random.default_rng(8), 9, labelled, bonds, directed)
    both = dictionary_matrix(graphs + new, 4)
    assert np.array_equal(WeisfeilerLehman(4)(new, graphs), both[60:, :60])


def test_larger_graphs_with_labels():
    graphs = []
    rng = np.random.default_rng(0)
    for seed in range(40):
        G = nx.gnp_random_graph(int(rng.integers(15, 41)), 0.15, seed=seed)
        nx.set_node_attributes(G, {v: "CNO"[int(rng.integers(3))] for v in G}, "label")
        graphs.append(G)
    points = list(Graphs().check(graphs))
    assert np.array_equal(WeisfeilerLehman()(graphs), dictionary_matrix(points, 5))
    assert np.array_equal(WeisfeilerLehman(0)(graphs), VertexHistogram()(graphs))


@pytest.mark.parametrize("kind", [{}, {"edge_labelled": True}, {"directed": True}])
def test_order_of_nodes_does_not_matter(kind):
    rng = np.random.default_rng(3)
    graphs = sample_graphs(rng, 10, **kind)
    plain = [permuted(graph, np.arange(graph.n_nodes)) for graph in graphs]
    K = WeisfeilerLehman(3)(plain)
    orders = [[rng.permutation(graph.n_nodes) for graph in graphs] for _ in range(100)]
    shuffled = [
        permuted(graph, order)
        for these in orders
        for graph, order in zip(graphs, these, strict=True)
    ]
    # Labels of `permuted` are codes of codes, in the plain graphs as well.
    assert np.array_equal(WeisfeilerLehman(3)(shuffled, plain), np.tile(K, (100, 1)))


def test_values_by_hand():
    k = WeisfeilerLehman(1)
    path, star = nx.path_graph(3), nx.star_graph(3)
    # Round 0: 3·4 nodes; round 1: two ends and three ends, of degree 1 alike.
    assert k([path], [star]).tolist() == [[3 * 4 + 2 * 3]]
    two_triangles = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
    K = WeisfeilerLehman(9)([two_triangles, nx.cycle_graph(6)])
    assert K.tolist() == [[360.0, 360.0], [360.0, 360.0]]  # refinement cannot tell them apart
    assert k([nx.Graph(), path]).tolist() == [[0, 0], [0, 9 + 5]]


def test_edge_labels_tell_graphs_apart_and_weights_do_not():
    single, double = (Graph(edges=[(0, 1)], edge_labels=[b]) for b in (1, 2))
    assert WeisfeilerLehman(1)([single, double]).tolist() == [[8, 4], [4, 8]]
    light, heavy = (Graph(edges=[(0, 1, w)]) for w in (1.0, 5.0))
    assert WeisfeilerLehman(1)([light], [heavy]).tolist() == [[8]]
    # The bond goes with the neighbour: a-1-b, a-2-c against a-2-b, a-1-c.
    one, two = (
        Graph(edges=[(0, 1), (0, 2)], labels="abc", edge_labels=bonds) for bonds in ([1, 2], [2, 1])
    )
    assert WeisfeilerLehman(1)([one], [two]).tolist() == [[3]]


def test_counts_of_neighbours_matter():
    stars = [nx.star_graph(m) for m in range(1, 9)]
    codes = [next(iter(list(refinements(Graphs().check([G]), 1))[1:]))[0] for G in stars]
    assert len(set(map(int, codes))) == 8


def test_rounds_are_kept_apart():
    X = Graphs().check([nx.path_graph(9)])
    levels = [set(map(int, codes)) for codes in refinements(X, 5)]
    assert len(set().union(*levels)) == sum(map(len, levels))


def test_collisions_are_bounded_and_unlikely():
    graphs = sample_graphs(np.random.default_rng(0), 50)
    p = WeisfeilerLehman().collision_probability(graphs)
    assert 0 < p < 1e-12
    assert WeisfeilerLehman().collision_probability([nx.Graph()]) == 0


@pytest.mark.parametrize("bad", [-1, 1.5, "two", True, None])
def test_rounds_are_whole_numbers(bad):
    with pytest.raises(InvalidInput, match="iterations"):
        WeisfeilerLehman(bad)


def test_against_the_definition():
    graphs = sample_graphs(np.random.default_rng(5), 12)
    for k in (WeisfeilerLehman(3), WeisfeilerLehman(2).normalized(), WeisfeilerLehman(1) + 2.0):
        np.testing.assert_allclose(k(graphs), double_loop(k, graphs), rtol=1e-12)


def test_models_tell_sparse_from_dense_graphs():
    X = [nx.gnp_random_graph(12, p, seed=i) for i in range(20) for p in (0.15, 0.5)]
    y = np.tile([0, 1], 20)
    model = mercer.SVC(WeisfeilerLehman(2).normalized()).fit(X[:30], y[:30])
    assert model.score(X[30:], y[30:]) >= 0.9


def test_values_of_grakel():
    grakel = pytest.importorskip("grakel")
    rng = np.random.default_rng(0)
    graphs = []
    for seed in range(12):
        G = nx.gnp_random_graph(int(rng.integers(4, 12)), 0.4, seed=seed)
        nx.set_node_attributes(G, {v: int(rng.integers(0, 3)) for v in G}, "label")
        graphs.append(G)
    for h in (1, 3):
        peer = grakel.WeisfeilerLehman(n_iter=h, base_graph_kernel=grakel.VertexHistogram)
        theirs = peer.fit_transform(grakel.graph_from_networkx(graphs, node_labels_tag="label"))
        assert np.array_equal(WeisfeilerLehman(h)(graphs), theirs)


def test_new_graphs_with_unseen_labels_are_those_of_grakel():
    grakel = pytest.importorskip("grakel")
    rng = np.random.default_rng(9)

    def graphs(kinds, n):
        out = [nx.gnp_random_graph(int(rng.integers(3, 10)), 0.4, seed=i) for i in range(n)]
        for G in out:
            nx.set_node_attributes(G, {v: str(rng.choice(list(kinds))) for v in G}, "label")
        return out

    def given(graphs):
        return [[nx.to_numpy_array(G), dict(G.nodes(data="label"))] for G in graphs]

    known, new = graphs("abc", 9), graphs("bcd", 6)
    for kernel, peer in (
        (mercer.WeisfeilerLehman(2), grakel.WeisfeilerLehman(n_iter=2)),
        (mercer.ShortestPath(), grakel.ShortestPath()),
        (mercer.VertexHistogram(), grakel.VertexHistogram()),
    ):
        peer.fit(given(known))
        np.testing.assert_array_equal(kernel(new, known), peer.transform(given(new)))


def test_collisions_through_normalized():
    graphs = [nx.path_graph(n) for n in range(2, 9)]
    k = mercer.WeisfeilerLehman(3)
    assert k.normalized().collision_probability(graphs) == k.collision_probability(graphs) > 0
    with pytest.raises(InvalidInput, match="nothing about collisions"):
        mercer.RBF().normalized().collision_probability([[0.0]])
