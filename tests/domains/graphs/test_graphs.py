"""Graphs in every form become one collection, or are refused by name."""

from __future__ import annotations

import pickle

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import mercer
from mercer.domains import Graph, GraphCollection, Graphs, Table
from mercer.errors import InvalidInput, ModelFileError
from mercer.testing.examples.graphs import sample_graphs

check = Graphs().check
TRIANGLE = np.ones((3, 3)) - np.eye(3)


def refusal(X) -> str:
    with pytest.raises(InvalidInput) as caught:
        check(X)
    return str(caught.value)


def kinds() -> list[list[Graph]]:
    rng = np.random.default_rng(0)
    return [
        sample_graphs(rng, 9, labelled, bonds, directed)
        for labelled in (False, True)
        for bonds in (False, True)
        for directed in (False, True)
    ]


# ---------------------------------------------------------------------------------- forms
def test_all_forms_of_one_graph_are_one_graph():
    G = nx.Graph([(0, 1), (1, 2)])
    A = nx.to_numpy_array(G)
    forms = [
        G, A, A.astype(int), A.astype(bool), sp.csr_matrix(A), sp.coo_array(A), sp.csc_array(A),
        np.array([[0, 1], [2, 1], [1, 2]])[:2], np.array([[0, 1, 1.0], [1, 2, 1.0]]),
        Graph(A), Graph(edges=[(0, 1), (1, 2)]), Graph.from_networkx(G),
    ]  # fmt: skip
    forms[7] = np.array([[0, 1], [2, 1], [3, 3]])[[0, 1, 1]]  # a parallel edge, so that m ≠ 2
    X = check(forms)
    assert X.sizes.tolist() == [3] * 12
    points = list(X)
    for i, point in enumerate(points):
        if i != 7:
            assert point == points[0] and hash(point) == hash(points[0])
    assert points[7].weights.tolist() == [1, 1, 2, 2]
    assert points[7].indices.tolist() == points[0].indices.tolist()
    assert points[0].indices.tolist() == [1, 0, 2, 1]
    assert len(set(points)) == 2


def test_a_square_array_is_an_adjacency_and_others_are_edges():
    assert check([np.array([[0, 1], [1, 0]])])[0] == Graph(edges=[(0, 1)])
    edges = np.array([[0, 1, 5.0], [1, 2, 2.0], [2, 3, 1.0], [0, 3, 1.0]])
    assert check([edges])[0].adjacency[0, 1] == 5.0
    assert check([np.zeros((0, 2), dtype=int)])[0].n_nodes == 0
    assert "not symmetric" in refusal([np.array([[0, 1], [2, 3]])])
    assert "mercer.Graph(edges=...)" in refusal([np.array([[0, 1], [2, 3]])])
    assert "shape (5, 2)" in refusal([np.ones((5, 2))])
    assert "shape (4, 7)" in refusal([np.ones((4, 7))])
    assert "whole number" in refusal([np.array([[0, 1.5, 1.0], [1, 2, 1], [2, 3, 1], [3, 4, 1]])])


@pytest.mark.parametrize(
    "A",
    [
        [[0, 1], [1, 2]],  # a path of three nodes, or a loop of weight two
        [[0, 0], [0, 1]],
        [[0, 1, 2], [1, 2, 3], [2, 3, 1]],
        [[0.0, 1.0, 2.0], [1.0, 1.0, 3.0], [2.0, 3.0, 0.5]],
    ],
)
def test_an_array_that_may_be_edges_or_an_adjacency_is_refused(A):
    A = np.array(A)
    text = refusal([TRIANGLE, A])
    assert "X[1]" in text and "mercer.Graph(A)" in text and "mercer.Graph(edges=A)" in text
    assert check([Graph(A), Graph(edges=A)]).sizes.tolist() == [len(A), A[:, :2].max() + 1]


@pytest.mark.parametrize(
    "A",
    [
        np.zeros((2, 2), dtype=int),
        np.zeros((3, 3)),
        [[0, 0, 1], [0, 0, 1], [1, 1, 0]],  # a star about the last node
        TRIANGLE,
        [[1, 2], [2, 1]],  # the edge (1, 2) twice
        [[0, -1], [-1, 2]],
        [[0.0, 1.0], [1.0, 2.0]],  # edges are whole numbers
        [[True, True], [True, True]],
        [[0.5, 1.0, 0], [1.0, 2.0, 0], [0, 0, 1.0]],
        np.ones((4, 4), dtype=int),
    ],
)
def test_a_square_array_that_cannot_be_edges_is_an_adjacency(A):
    A = np.array(A)
    np.testing.assert_array_equal(check([A])[0].adjacency.toarray(), A)


@pytest.mark.parametrize(
    "X", [nx.path_graph(3), Graph(TRIANGLE), TRIANGLE, sp.csr_array(TRIANGLE), np.ones((4, 2))]
)
def test_one_graph_is_no_list(X):
    assert "give a list of graphs: [X]" in refusal(X)


@pytest.mark.parametrize("X", ["abc", 3, None, {"a": 1}])
def test_what_is_no_list(X):
    assert "Graphs: X" in refusal(X)


def test_lists_arrays_and_columns_hold_graphs():
    import pandas as pd
    import polars as pl

    graphs = [nx.path_graph(3), Graph(TRIANGLE), nx.star_graph(4)]
    expected = check(graphs)
    column = np.empty(3, dtype=object)
    column[:] = graphs
    own = [Graph.from_networkx(G) if isinstance(G, nx.Graph) else G for G in graphs]
    forms = [
        tuple(graphs), column, column[:, None], pd.Series(column), pd.DataFrame({"g": column}),
        pl.Series("g", own, dtype=pl.Object), Table({"g": column}), expected,
    ]  # fmt: skip
    for X in forms:
        assert check(X) == expected
    assert check(expected) is expected
    assert check(np.stack([TRIANGLE, TRIANGLE]))[1] == Graph(TRIANGLE)
    assert len(check([])) == 0
    assert "kernel.on(column)" in refusal(pd.DataFrame({"g": column, "h": column}))


@pytest.mark.parametrize("bad", [None, float("nan"), 3, "a", [(0, 1)], object(), nx])
def test_an_entry_that_is_no_graph_is_named(bad):
    text = refusal([nx.path_graph(2), bad])
    assert "X[1]" in text
    missing = bad is None or isinstance(bad, float)
    assert ("with_missing" in text) == missing


# --------------------------------------------------------------------------- the list of cases
def test_no_nodes_no_edges_loops_and_pieces():
    loops = nx.Graph([(0, 0), (0, 1), (2, 3)])
    X = check([nx.Graph(), nx.empty_graph(3), loops, np.zeros((0, 0)), Graph()])
    assert X.sizes.tolist() == [0, 3, 4, 0, 0]
    assert [g.n_edges for g in X] == [0, 0, 3, 0, 0]
    assert X[2].indices.tolist() == [0, 1, 0, 3, 2]  # a self loop stands once
    assert X[0] == X[3] == X[4] == Graph()


def test_parallel_edges_add_their_weights():
    G = nx.MultiGraph()
    G.add_edge("a", "b", weight=2.0)
    G.add_edge("b", "a")
    G.add_edge("b", "b", weight=4.0)
    assert check([G])[0].adjacency.toarray().tolist() == [[0, 3], [3, 4]]
    assert Graph(edges=[(0, 1), (0, 1)], weights=[2, 0.5]).weights.tolist() == [2.5, 2.5]
    D = nx.MultiDiGraph([(0, 1), (0, 1), (1, 0)])
    assert check([D])[0].adjacency.toarray().tolist() == [[0, 2], [1, 0]]
    G.edges["a", "b", 0]["label"] = "x"
    G.edges["a", "b", 1]["label"] = "y"
    assert "parallel edges between 'a' and 'b'" in refusal([G])
    with pytest.raises(InvalidInput, match=r"parallel edges \(0, 1\)"):
        Graph(edges=[(0, 1), (0, 1)], edge_labels=["x", "y"])
    both = Graph(edges=[(0, 1), (0, 1)], edge_labels=["x", "x"])
    assert both.n_edges == 1 and len(set(both.edge_labels.tolist())) == 1


def test_an_undirected_edge_is_given_once():
    with pytest.raises(InvalidInput, match=r"\(0, 1\) and \(1, 0\)"):
        Graph(edges=[(0, 1), (2, 2), (1, 0)])
    assert Graph(edges=[(0, 1), (1, 0)], directed=True).n_edges == 2


def test_directions():
    D = nx.DiGraph([("a", "b"), ("b", "c")])
    X = check([D, nx.DiGraph(), Graph(np.triu(TRIANGLE), directed=True)])
    assert X.directed and X[0].indices.tolist() == [1, 2]
    assert "is directed and" in refusal([D, nx.path_graph(3)])
    assert "X[0]" in refusal([D, nx.path_graph(3)])
    undirected = check([nx.path_graph(2)])
    with pytest.raises(InvalidInput, match="directions"):
        Graphs().match(X, undirected)
    none = check([nx.empty_graph(3)])
    assert Graphs().match(X, none) == (X, none)


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_asymmetric_adjacency_names_row_and_column(make):
    A = TRIANGLE.copy()
    A[0, 2] = 7.0
    text = refusal([TRIANGLE, make(A)])
    assert "X[1]" in text and "(0, 2) is 7" in text and "(2, 0) is 1" in text
    assert "directed=True" in text
    assert Graph(make(A), directed=True).adjacency[0, 2] == 7.0


def test_rounding_is_no_direction():
    A = TRIANGLE * 0.1
    A[0, 2] *= 1 + 1e-15
    A[1, 1] = 0
    graph = Graph(A)
    assert (graph.adjacency != graph.adjacency.T).nnz == 0
    assert abs(graph.adjacency.toarray() - A).max() < 1e-15


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_must_be_finite(value):
    G = nx.Graph()
    G.add_edge(0, 1, weight=value)
    assert "X[1]" in refusal([nx.path_graph(2), G]) and "finite" in refusal([G])
    A = np.array([[0, value], [value, 0]])
    for X in ([A], [sp.csr_array(A)], [np.array([[0, 1, value]])]):
        assert "(0, 1)" in refusal(X) and "finite" in refusal(X)


@pytest.mark.parametrize("value", ["heavy", [1, 2], {"a": 1}])
@pytest.mark.parametrize("kind", [nx.Graph, nx.MultiGraph])
def test_weights_must_be_numbers(value, kind):
    G = kind()
    G.add_edge(0, 1, weight=value)
    assert "X[0]" in refusal([G]) and "numbers" in refusal([G])


def test_negative_and_zero_weights():
    G = nx.Graph()
    G.add_edge(0, 1, weight=-2)
    G.add_edge(1, 2, weight=0)
    assert check([G])[0].weights.tolist() == [-2, -2, 0, 0]  # an edge of weight 0 is an edge
    stored = sp.csr_array(([0.0, 0.0], ([0, 1], [1, 0])), shape=(2, 2))
    assert check([stored])[0] == Graph(np.zeros((2, 2)))  # in a matrix 0 is no edge
    assert Graph(-TRIANGLE).weights[0] == -1


def test_node_ids_are_kept_and_order_is_theirs():
    G = nx.Graph([("z", (1, 2)), ((1, 2), 7)])
    graph = Graph.from_networkx(G)
    assert graph.nodes == ("z", (1, 2), 7)
    assert check([G])[0].nodes == (0, 1, 2)
    assert graph != check([G])[0] and check([graph]) == check([G])
    backwards = nx.Graph()
    backwards.add_nodes_from([2, 1, 0])
    backwards.add_edges_from([(0, 1), (1, 2)])
    assert Graph.from_networkx(backwards).adjacency.toarray()[0].tolist() == [0, 1, 0]
    assert Graph.from_networkx(backwards).nodes == (2, 1, 0)
    view = nx.complete_graph(6).subgraph([4, 1, 3])
    assert Graph.from_networkx(view).n_edges == 3
    for index in (0, 1, 2):
        assert Graph(TRIANGLE, nodes="abc").nodes[index] == "abc"[index]


def test_large_graphs():
    n = 100_000
    X = check([nx.path_graph(n), nx.complete_graph(400)])
    assert X.sizes.tolist() == [n, 400] and X[0].n_edges == n - 1
    K = mercer.WeisfeilerLehman(2)([Graph(np.ones((2000, 2000)) - np.eye(2000))])
    assert K.tolist() == [[3 * 2000.0**2]]
    path = sp.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1], shape=(n, n))
    assert check([path])[0] == X[0]


def test_node_numbers_out_of_reach():
    with pytest.raises(InvalidInput, match="n_nodes"):
        Graph(edges=[(0, 10**15)])
    with pytest.raises(InvalidInput, match="count from 0"):
        Graph(edges=[(0, -1)])
    with pytest.raises(InvalidInput, match="node 5, of 3 nodes"):
        Graph(edges=[(0, 5)], n_nodes=3)


# ------------------------------------------------------------------------------- collections
@pytest.mark.parametrize("graphs", kinds())
def test_points_come_back_and_subsets_are_subsets(graphs):
    X = check(graphs)
    assert check(list(X)) == X and len(X) == len(graphs)
    index = np.array([5, 0, 5, 8])
    assert X.take(index) == check([X[int(i)] for i in index])
    assert [X[int(i)] for i in index] == list(X[index])
    for key in (slice(2, 7), slice(None, None, -2), slice(0, 0), np.arange(9) % 2 == 0, [-1]):
        assert list(X[key]) == [X[int(i)] for i in np.arange(9)[key]]
    assert len(X[[]]) == 0
    both = X.joined(X.take(index))
    assert list(both) == list(X) + list(X.take(index))
    with pytest.raises(IndexError):
        X[9]
    assert pickle.loads(pickle.dumps(X)) == X
    assert GraphCollection.from_arrays(**{name: getattr(X, name) for name in X._arrays}) == X


def test_collections_do_not_change():
    X = check([nx.path_graph(3)])
    for array in (X.weights, X[0].weights, X[0].indptr):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5


def malformed() -> list[dict]:
    X = check(sample_graphs(np.random.default_rng(1), 6, True, True))
    good = {name: getattr(X, name) for name in X._arrays}
    m, N = len(X.indices), len(X.node_labels)
    changes = [
        {"indptr": good["indptr"][:-1]},
        {"indptr": np.array(0)},
        {"indices": np.array(0)},
        {"node_offsets": np.array(0)},
        {"attributes": np.array(0.0)},
        {"indptr": good["indptr"].astype(np.int32)},
        {"indptr": good["indptr"][::-1].copy()},
        {"node_offsets": good["node_offsets"] + 1},
        {"indices": good["indices"] + N},
        {"indices": np.zeros(m, dtype=np.int64)},
        {"indices": (good["indices"] + 1) % N},
        {"weights": good["weights"] * np.nan},
        {"weights": np.arange(m, dtype=float)},
        {"weights": good["weights"][1:]},
        {"node_labels": good["node_labels"][1:]},
        {"node_labels": None},
        {"edge_labels": np.arange(m, dtype=np.uint64)},
        {"attributes": np.full((N, 1), np.nan)},
        {"attributes": None},
        {"attributes": np.zeros((N + 1, 1))},
        {"labelled": False},
        {"edge_labelled": False},
        {"directed": 1},
    ]
    return [{**good, **change} for change in changes] + [{"indptr": good["indptr"]}]


@pytest.mark.parametrize("arrays", malformed())
def test_malformed_collections_of_a_file_are_refused(arrays):
    with pytest.raises(ModelFileError):
        GraphCollection.from_arrays(**arrays)


def test_a_neighbour_in_another_graph_is_refused():
    X = check([nx.path_graph(2), nx.path_graph(2)])
    arrays = {name: getattr(X, name) for name in X._arrays}
    with pytest.raises(ModelFileError, match="nowhere"):
        GraphCollection.from_arrays(**{**arrays, "indices": np.array([2, 3, 0, 1])})


def test_labels_of_all_graphs_or_of_none():
    labelled = Graph(TRIANGLE, labels=[1, 2, 3])
    text = refusal([Graph(), labelled, Graph(TRIANGLE)])
    assert "X[2] has no labels on its nodes" in text and "X[1]" in text
    assert check([Graph(), labelled]).labelled
    with pytest.raises(InvalidInput, match="labels of nodes"):
        Graphs().match(check([labelled]), check([Graph(TRIANGLE)]))
    bonds = Graph(edges=[(0, 1)], edge_labels=["x"])
    assert "no labels on its edges" in refusal([Graph(edges=[(0, 1)]), bonds])
    assert check([bonds, Graph(n_nodes=4)]).edge_labelled
    with pytest.raises(InvalidInput, match="labels of edges"):
        Graphs().match(check([bonds]), check([Graph(TRIANGLE)]))


def test_equal_points_make_equal_collections():
    two = Graph(n_nodes=2, attributes=np.ones((2, 2)))
    X = check([two, Graph()]).take([1])
    assert list(X) == [Graph()] and X == check([Graph()])


def test_collections_of_other_kinds_do_not_join():
    labelled, plain = check([Graph(TRIANGLE, labels=[1, 2, 3])]), check([Graph(TRIANGLE)])
    with pytest.raises(InvalidInput, match="labels of nodes"):
        labelled.joined(plain)
    with pytest.raises(InvalidInput, match="directions"):
        plain.joined(check([Graph(np.triu(TRIANGLE), directed=True)]))
    assert labelled.joined(check([Graph()])).labelled
