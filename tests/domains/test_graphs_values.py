"""`Graph` is a value: what it is made of, what it refuses, equality, storage; stable labels."""

from __future__ import annotations

import pickle
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest

import mercer
from mercer.domains import Graph, Graphs
from mercer.domains.labels import LabelCodes, code_of, mixed
from mercer.errors import InvalidInput, ModelFileError
from mercer.io.registry import form_of

TRIANGLE = np.ones((3, 3)) - np.eye(3)


# ------------------------------------------------------------------------------------- labels
def test_equal_labels_have_one_code_and_others_another():
    same = [[1, 1.0, True, np.int64(1), np.float32(1), np.bool_(True)], ["a", np.str_("a")]]
    same += [[0, 0.0, -0.0, False], [0.5, np.float32(0.5)], [(1, "a"), (1.0, np.str_("a"))]]
    for labels in same:
        assert len({code_of(label) for label in labels}) == 1
    other = [1, "1", b"1", (1,), ("1",), 1.5, "", (), ((),), "1.0", -1, 2**70, float(2**70) * 2]
    other += [float("inf"), "é", "e\u0301", "\ud800", (1, 2), ((1, 2),), (1, (2,)), ("12",)]
    other += [("1", "2"), ("1s", "2")]
    assert len({code_of(label) for label in other}) == len(other)


def test_codes_do_not_depend_on_the_process():
    program = "from mercer.domains.labels import code_of; print(code_of('C'), code_of((1, 'x')))"
    outs = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
        for path in [":".join(sys.path)]
    }  # fmt: skip
    assert outs == {f"{code_of('C')} {code_of((1, 'x'))}\n"}
    assert code_of("C") == 13365168099191852923  # models that were saved rely on it


def test_mixed_is_one_to_one_and_spreads():
    codes = np.arange(100_000, dtype=np.uint64)
    assert len(np.unique(mixed(codes))) == len(codes)
    bits = (mixed(codes)[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert abs(bits.mean(axis=0) - 0.5).max() < 0.01


@pytest.mark.parametrize("bad", [{1}, 1j, object(), np.datetime64("2020-01-01"), ("a", None)])
def test_illegal_labels_are_named(bad):
    with pytest.raises(InvalidInput, match="labels are text"):
        Graph(n_nodes=2, labels=["a", bad])


def test_vectors_are_no_labels():
    with pytest.raises(InvalidInput, match="attributes"):
        Graph(n_nodes=2, labels=[[1.0, 2.0], [0.0, 1.0]])


def test_labels_of_mixed_types_are_legal():
    graph = Graph(TRIANGLE, labels=["C", 1, ("a", 2.5)])
    assert len(set(graph.node_labels.tolist())) == 3
    assert Graph(TRIANGLE, labels=np.array([1, 2, 1])) == Graph(TRIANGLE, labels=[1, 2.0, True])


@pytest.mark.parametrize("none", [None, float("nan")])
def test_missing_labels_are_named(none):
    G = nx.path_graph(["u", "v", "w"])
    G.nodes["u"]["label"] = "C"
    G.nodes["w"]["label"] = "N"
    if none is not None:
        G.nodes["v"]["label"] = none
    with pytest.raises(InvalidInput, match=r"X\[1\]: 'v' has no label, while 'u' has 'C'"):
        Graphs().check([nx.Graph(), G])
    with pytest.raises(InvalidInput, match=r"Graph: 1 has no label"):
        Graph(n_nodes=2, labels=["C", none])
    G = nx.path_graph(3)
    G.edges[0, 1]["label"] = "single"
    with pytest.raises(InvalidInput, match=r"\(1, 2\) has no label"):
        Graphs().check([G])
    assert Graph(n_nodes=2, labels=[none, none]).node_labels is None


def test_label_codes_are_computed_once():
    codes = LabelCodes()
    assert codes.codes(["a", "b", "a"], "Graph", range(3)) == [code_of(x) for x in "aba"]
    assert dict(codes) == {"a": code_of("a"), "b": code_of("b")}
    assert codes.codes([], "Graph", []) is None


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


def test_names_of_attributes_are_chosen():
    G = nx.Graph()
    G.add_node("a", element="C", label="ignored")
    G.add_node("b", element="O", label="ignored")
    G.add_edge("a", "b", order=2, length=1.5, weight=9.0)
    graph = Graph.from_networkx(G, label="element", weight="length", edge_label="order")
    made = Graph(edges=[(0, 1, 1.5)], labels="CO", edge_labels=[2], nodes="ab")
    assert graph == made
