"""Labels, attributes and names of a graph: by place or by name, never by the keys of a dict."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import mercer
from mercer import Graph
from mercer.domains import Graphs
from mercer.errors import InvalidInput, MemoryBudgetExceeded

EDGES = [(0, 1), (1, 2)]


def test_labels_by_node_are_those_of_the_list():
    G = nx.path_graph(3)
    nx.set_node_attributes(G, dict(enumerate("CCO")), "label")
    expected = Graph(edges=EDGES, labels=list("CCO"))
    assert Graph(edges=EDGES, labels=nx.get_node_attributes(G, "label")) == expected
    assert Graph(edges=EDGES, labels={2: "O", 0: "C", 1: "C"}) == expected
    named = Graph(edges=EDGES, nodes="xyz", labels={"z": "O", "x": "C", "y": "C"})
    assert named == Graph(edges=EDGES, nodes="xyz", labels="CCO")
    assert mercer.VertexHistogram()([named], [expected])[0, 0] == 5
    assert Graph(edges=EDGES, nodes={1: "y", 0: "x", 2: "z"}) == Graph(edges=EDGES, nodes="xyz")


def test_edge_labels_by_edge_from_either_end():
    expected = Graph(edges=EDGES, edge_labels="xy")
    assert Graph(edges=EDGES, edge_labels={(1, 2): "y", (0, 1): "x"}) == expected
    assert Graph(edges=EDGES, edge_labels={(2, 1): "y", (1, 0): "x"}) == expected
    arrows = Graph(edges=[(0, 1), (1, 0)], edge_labels={(0, 1): 1, (1, 0): 2}, directed=True)
    assert arrows == Graph(edges=[(0, 1), (1, 0)], edge_labels=[1, 2], directed=True)
    with pytest.raises(InvalidInput, match=r"edge_labels has no entry for \(0, 1\)"):
        Graph(edges=EDGES, edge_labels={(1, 0): "x", (1, 2): "y"}, directed=True)


def test_attributes_of_frames_and_by_node():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rows = np.array([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]])
    columns = {"m": rows[:, 0], "q": rows[:, 1]}
    for given in (
        pandas.DataFrame(columns),
        polars.DataFrame(columns),
        {2: [3, 6], 0: [1, 4], 1: [2, 5]},
        rows.tolist(),
        rows.astype(object),
    ):
        np.testing.assert_array_equal(Graph(edges=EDGES, attributes=given).attributes, rows)
    square = pandas.DataFrame(7 * np.eye(3))
    np.testing.assert_array_equal(Graph(edges=EDGES, attributes=square).attributes, 7 * np.eye(3))
    for column in (pandas.Series, polars.Series, np.array):
        assert Graph(edges=EDGES, attributes=column([1.0, 2.0, 3.0])).attributes.shape == (3, 1)
        assert Graph(edges=EDGES, labels=column(list("CCO"))) == Graph(edges=EDGES, labels="CCO")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"labels": {0: "a", 1: "b", 3: "c"}}, "labels has no entry for 2"),
        ({"labels": {0: "a", 1: "b", 2: "c", "z": 1}, "n_nodes": 3}, "4 labels for 3"),
        ({"edge_labels": {(0, 1): 1, (1, 2): 1, (0, 2): 1}}, r"an entry for \(0, 2\)"),
        ({"attributes": {"a": [1.0], "b": [2.0], "c": [3.0]}}, r"for 0.*nodes=\.\.\."),
        ({"labels": {"a", "b", "c"}}, "labels is a set"),
        ({"labels": (c for c in "abc")}, "labels is a generator"),
        ({"labels": 5}, "labels is a int"),
        ({"labels": np.array(5)}, "labels is a ndarray"),
        ({"nodes": 3}, "nodes is a int"),
        ({"nodes": {"a", "b", "c"}}, "nodes is a set"),
        ({"edge_labels": 3}, "edge_labels is a int"),
        ({"attributes": 3.0}, "attributes is a float"),
        ({"attributes": sp.csr_array(np.eye(3))}, "attributes is a csr_array"),
        ({"directed": "no"}, "directed='no'"),
        ({"directed": 1}, "directed=1"),
    ],
)
def test_entries_without_an_order_are_refused(arguments, says):
    with pytest.raises(InvalidInput, match=says) as caught:
        Graph(**{"edges": EDGES, **arguments})
    assert str(caught.value).startswith("Graph: ")


def test_matrices_and_edges_out_of_range_are_named():
    with pytest.raises(InvalidInput, match="several lengths"):
        Graph([[0, 1], [1]])
    with pytest.raises(InvalidInput, match=r"node 1e\+300"):
        Graph(edges=np.array([[0, 1e300]]))
    with pytest.raises(InvalidInput, match="Number the nodes"):
        Graph(edges=np.array([[0, 2**64 - 1]], dtype=np.uint64))
    with pytest.raises(MemoryBudgetExceeded, match="10000000000000 nodes"):
        Graph(n_nodes=10**13)
    with mercer.config(memory="1MB"), pytest.raises(MemoryBudgetExceeded):
        Graph(edges=[(0, 10**5)])


@pytest.mark.parametrize(
    "weight",
    [10**400, np.complex128(1 + 1j), np.complex64(1), 1j, "2.0", b"3", None, np.ones(1)],
    ids=range(8),
)
@pytest.mark.parametrize("kind", [nx.Graph, nx.MultiGraph])
def test_weights_of_networkx_are_real_numbers(weight, kind, recwarn):
    G = kind()
    G.add_edge(0, 1, weight=weight)
    G.add_edge(1, 2, weight=1.5)
    with pytest.raises(InvalidInput, match=r"X\[0\]: the weight .* must be real numbers"):
        Graphs().check([G])
    assert not list(recwarn)


def test_weights_of_other_number_types():
    from decimal import Decimal
    from fractions import Fraction

    G = nx.path_graph(5)
    numbers = [Decimal("0.5"), Fraction(1, 4), 2**70, True]
    for (u, v), weight in zip(G.edges, numbers, strict=True):
        G.edges[u, v]["weight"] = weight
    expected = Graph(edges=list(G.edges), weights=[0.5, 0.25, 2.0**70, 1.0])
    assert Graphs().check([G])[0] == expected


def test_labels_of_parallel_edges():
    def doubled(a, b):
        G = nx.MultiGraph()
        G.add_edge(0, 1, label=a)
        G.add_edge(0, 1, label=b)
        return Graphs().check([G])

    assert not doubled(float("nan"), float("nan")).edge_labelled
    assert doubled("x", "x").edge_labelled
    for a, b in (("x", float("nan")), ("x", np.array(["x", "y"])), (np.ones(2), "x")):
        with pytest.raises(InvalidInput, match="parallel edges between 0 and 1"):
            doubled(a, b)
    with pytest.raises(InvalidInput, match=r"label of \(0, 1\) is a ndarray"):
        doubled(np.ones(2), np.ones(2))


def test_an_array_that_opened_its_graphs_is_named():
    opened = np.array([nx.path_graph(3)] * 2, dtype=object)
    assert opened.shape == (2, 3)
    with pytest.raises(InvalidInput, match="give a list"):
        Graphs().check(opened)
