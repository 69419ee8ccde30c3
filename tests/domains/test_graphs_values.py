"""`Graph` is a value: what it is made of, what it refuses, equality, storage."""

from __future__ import annotations

import copy
import pickle

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import mercer
from mercer.domains import Graph
from mercer.errors import InvalidInput, ModelFileError
from mercer.io.registry import form_of

TRIANGLE = np.ones((3, 3)) - np.eye(3)


# ----------------------------------------------------------------------------------- the value
def test_repr():
    assert repr(Graph(edges=[(0, 1), (1, 1)], n_nodes=5)) == "Graph(5 nodes, 2 edges)"
    assert repr(Graph(n_nodes=1, labels="a")) == "Graph(1 node, 0 edges, labelled)"
    graph = Graph(edges=[(0, 1)], edge_labels="x", attributes=[[1.0], [2.0]], directed=True)
    assert repr(graph) == "Graph(2 nodes, 1 edge, directed, edges labelled, 1 attribute)"


def different() -> list[Graph]:
    edges = [(0, 1), (1, 2)]
    return [
        Graph(edges=edges),
        Graph(edges=edges, n_nodes=4),
        Graph(edges=edges, weights=[1, 2]),
        Graph(edges=edges, labels="abc"),
        Graph(edges=edges, labels="abb"),
        Graph(edges=edges, edge_labels="ab"),
        Graph(edges=edges, directed=True),
        Graph(edges=[(0, 1), (0, 2)]),
        Graph(edges=edges, attributes=[[0.0], [1.0], [2.0]]),
        Graph(edges=edges, nodes="xyz"),
    ]


def test_equality_hash_pickle_and_storage():
    graphs = different()
    assert len(set(graphs)) == len(graphs)
    for graph, twin in zip(graphs, different(), strict=True):
        assert graph == twin and hash(graph) == hash(twin) and graph != "graph"
        assert pickle.loads(pickle.dumps(graph)) == graph
        form = form_of(graph, "kernel.graph")
        assert form.name == "value:Graph"
        assert form.build(form.split(graph, "kernel.graph")) == graph
    zero = Graph(edges=[(0, 1)], weights=[-0.0])
    assert zero == Graph(edges=[(0, 1)], weights=[0.0]) and hash(zero) == hash(
        Graph(edges=[(0, 1)], weights=[0.0])
    )


@pytest.mark.parametrize(
    "change",
    [
        {"indptr": None},
        {"indptr": np.array(0)},
        {"indices": np.array(0)},
        {"indptr": np.array([0, 9, 4, 4])},
        {"indices": np.array([1, 0, 2, 9])},
        {"weights": np.array([1.0, 1, 1, np.nan])},
        {"weights": np.array([1.0, 2, 1, 1])},
        {"node_labels": np.zeros(2, dtype=np.uint64)},
        {"edge_labels": np.arange(4, dtype=np.uint64)},
        {"attributes": np.zeros(3)},
        {"directed": "no"},
        {"nodes": ("a", "b")},
        {"nodes": ("a", "b", "b")},
        {"nodes": ([], [], [])},
        {"nodes": 5},
    ],
)
def test_malformed_graphs_of_a_file_are_refused(change):
    arrays = Graph(edges=[(0, 1), (1, 2)])._arrays()
    assert Graph.from_arrays(**arrays) == Graph(edges=[(0, 1), (1, 2)])
    with pytest.raises(ModelFileError):
        Graph.from_arrays(**{**arrays, **change})


def test_a_graph_does_not_change():
    graph = Graph(edges=[(0, 1)])
    kernel, kept = mercer.Diffusion(graph), {graph}
    before = kernel([0, 1])
    for name, value in (("weights", np.array([5.0, 5.0])), ("n_nodes", 3), ("new", 1)):
        with pytest.raises(AttributeError, match=f"Graph: {name} is not to be changed"):
            setattr(graph, name, value)
    with pytest.raises(AttributeError, match="taken away"):
        del graph.weights
    assert graph in kept and (kernel([0, 1]) == before).all()
    for twin in (graph, pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph)):
        with pytest.raises(ValueError, match="read-only"):
            twin.weights[0] = 5.0


def test_the_arrays_of_a_user_are_left_alone():
    A = sp.csr_array(TRIANGLE)
    A.indices, A.indptr = A.indices.astype(np.int64), A.indptr.astype(np.int64)
    attributes, labels = np.ones((3, 2)), np.arange(3)
    Graph(A, attributes=attributes, labels=labels), Graph(TRIANGLE)
    for array in (A.data, A.indices, A.indptr, attributes, labels, TRIANGLE):
        assert array.flags.writeable


def test_hashes_are_not_carried_to_another_process():
    graph = Graph(edges=[(0, 1)], nodes=["a", "b"])
    hash(graph)
    assert "_hash" in vars(graph) and "_hash" not in vars(pickle.loads(pickle.dumps(graph)))
    assert "_hash" not in vars(copy.copy(graph))


def test_a_repeated_name_is_found_in_one_pass():
    compared = 0

    class Name(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    names = [Name(i) for i in range(2000)] + [Name(1999)]
    with pytest.raises(InvalidInput, match="two nodes are called '1999'"):
        Graph(n_nodes=2001, nodes=names)
    assert compared < 20 * len(names)


def test_models_on_graphs_are_saved_and_loaded(tmp_path):
    rng = np.random.default_rng(0)
    X = [nx.gnp_random_graph(8, p, seed=int(rng.integers(99))) for p in [0.2, 0.7] * 10]
    model = mercer.KernelRidge(mercer.WeisfeilerLehman(2).normalized()).fit(X, np.arange(20.0))
    mercer.save(model, tmp_path / "graphs.mercer")
    loaded = mercer.load(tmp_path / "graphs.mercer")
    assert loaded.X_fit_ == model.X_fit_
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"adjacency": np.ones((2, 3))}, "not square"),
        ({"adjacency": np.ones(3)}, "not square"),
        ({"adjacency": np.array([["a", "b"], ["c", "d"]])}, "numbers"),
        ({"adjacency": TRIANGLE * 1j}, "numbers"),
        ({"adjacency": TRIANGLE, "labels": "ab"}, "2 labels for 3 nodes"),
        ({"adjacency": TRIANGLE, "labels": []}, "0 labels for 3 nodes"),
        ({"adjacency": TRIANGLE, "nodes": "ab"}, "2 nodes for 3 nodes"),
        ({"adjacency": TRIANGLE, "nodes": "aab"}, "'a'"),
        ({"adjacency": TRIANGLE, "nodes": [[], [], []]}, "hashable"),
        ({"adjacency": TRIANGLE, "attributes": np.ones((2, 2))}, "2 attributes for 3 nodes"),
        ({"adjacency": TRIANGLE, "edges": [(0, 1)]}, "edges goes with edges|adjacency is given"),
        ({"adjacency": TRIANGLE, "weights": [1]}, "weights goes with edges"),
        ({"adjacency": TRIANGLE, "edge_labels": [1]}, "edge_labels goes with edges"),
        ({"adjacency": nx.path_graph(3)}, "from_networkx"),
        ({"n_nodes": 2, "attributes": [[1.0], [1.0, 2.0]]}, "node 1 has 2 attributes"),
        ({"n_nodes": 2, "attributes": [[1.0], [np.nan]]}, "node 1 hold NaN"),
        ({"n_nodes": 2, "attributes": [["a"], ["b"]]}, "numbers"),
        ({"n_nodes": -1}, "n_nodes=-1"),
        ({"n_nodes": 2.0}, "n_nodes=2.0"),
        ({"edges": [(0, 1), (1, 2, 3)]}, "rows"),
        ({"edges": [(0, 1, 2, 3)]}, "rows"),
        ({"edges": [("a", "b")]}, "rows"),
        ({"edges": [0, 1]}, "rows"),
        ({"edges": [(0, 1)], "weights": [1, 2]}, "weights of shape"),
        ({"edges": [(0, 1)], "weights": ["a"]}, "numbers"),
        ({"edges": [(0, 1, 2.0)], "weights": [1]}, "twice"),
        ({"edges": [(0, 1)], "edge_labels": ["a", "b"]}, "2 edge labels for 1 edges"),
        ({"edges": [(0, 5)], "labels": "ab"}, "node 5, of 2 nodes"),
    ],
)
def test_refusals(arguments, words):
    with pytest.raises(InvalidInput, match=words) as caught:
        Graph(**arguments)
    assert str(caught.value).startswith("Graph")


def test_attributes_of_networkx():
    G = nx.path_graph(3)
    nx.set_node_attributes(G, {0: 1.0, 1: 2.0, 2: 3.0}, "mass")
    nx.set_node_attributes(G, {i: [i, i + 1] for i in range(3)}, "place")
    graph = Graph.from_networkx(G, attributes=["place", "mass"])
    assert graph.attributes.tolist() == [[0, 1, 1], [1, 2, 2], [2, 3, 3]]
    assert Graph.from_networkx(G, attributes="mass").attributes.shape == (3, 1)
    assert Graph.from_networkx(G).attributes is None
    G.nodes[1]["place"] = [1.0]
    with pytest.raises(InvalidInput, match="node 1 has 1 attributes"):
        Graph.from_networkx(G, attributes="place")
    with pytest.raises(InvalidInput, match="node 0 has no attribute 'charge'"):
        Graph.from_networkx(G, attributes="charge")
    with pytest.raises(InvalidInput, match="give a graph of networkx"):
        Graph.from_networkx(TRIANGLE)


def named() -> nx.Graph:
    G = nx.path_graph(3)
    nx.set_node_attributes(G, dict(enumerate("OCO")), "element")
    nx.set_node_attributes(G, {0: 0, 1: 1, 2: 0}, "charge")
    nx.set_edge_attributes(G, 1.2, "length")
    return G


@pytest.mark.parametrize(
    ("chosen", "there"),
    [
        ({"label": "elemnt"}, "no node has the attribute 'elemnt'; there are 'element', 'charge'"),
        ({"label": ("element", "chrge")}, "no node has the attribute 'chrge'"),
        ({"label": {}}, "no node has the attribute {}"),
        ({"edge_label": "bond"}, "no edge has the attribute 'bond'; there are 'length'"),
        ({"weight": "lenght"}, "no edge has the attribute 'lenght'; there are 'length'"),
        ({"weight": ("length", "bond")}, "no edge has the attribute ('length', 'bond')"),
        ({"attributes": "chrge"}, "node 0 has no attribute 'chrge'; there are 'element', 'charge'"),
    ],
)
@pytest.mark.parametrize("kind", [nx.Graph, nx.MultiDiGraph])
def test_a_chosen_name_that_nothing_has_is_refused(chosen, there, kind):
    with pytest.raises(InvalidInput) as caught:
        Graph.from_networkx(kind(named()), **chosen)
    assert there in str(caught.value)


def test_names_that_need_not_be_there():
    G = nx.path_graph(3)
    plain = Graph(edges=[(0, 1), (1, 2)])
    assert Graph.from_networkx(G) == Graph.from_networkx(named()) == plain
    assert Graph.from_networkx(named(), label=None, weight=None, edge_label=None) == plain
    bare = nx.empty_graph(2)
    nx.set_node_attributes(bare, "C", "element")
    atoms = Graph.from_networkx(bare, label="element", weight="length", edge_label="bond")
    assert atoms == Graph(n_nodes=2, labels="CC")
    assert Graph.from_networkx(nx.Graph(), label="element") == Graph()
    with pytest.raises(InvalidInput, match="'bond'; there are none"):
        Graph.from_networkx(G, edge_label="bond")


def test_several_names_make_one_label():
    G = named()
    made = Graph(edges=[(0, 1), (1, 2)], labels=[("O", 0), ("C", 1), ("O", 0)])
    for several in (("element", "charge"), ["element", "charge"]):
        assert Graph.from_networkx(G, label=several) == made
    nx.set_edge_attributes(G, {(0, 1): "a", (1, 2): "b"}, "bond")
    bonds = Graph(edges=[(0, 1), (1, 2)], edge_labels=[("a", 1.2), ("b", 1.2)])
    for kind in (nx.Graph, nx.MultiGraph):
        assert Graph.from_networkx(kind(G), edge_label=("bond", "length")) == bonds
    del G.nodes[1]["charge"]
    with pytest.raises(InvalidInput, match="1 has no 'charge'"):
        Graph.from_networkx(G, label=("element", "charge"))


def test_names_of_attributes_are_chosen():
    G = nx.Graph()
    G.add_node("a", element="C", label="ignored")
    G.add_node("b", element="O", label="ignored")
    G.add_edge("a", "b", order=2, length=1.5, weight=9.0)
    graph = Graph.from_networkx(G, label="element", weight="length", edge_label="order")
    made = Graph(edges=[(0, 1, 1.5)], labels="CO", edge_labels=[2], nodes="ab")
    assert graph == made
