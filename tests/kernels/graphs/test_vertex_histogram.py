"""`VertexHistogram`: products of counts of labels."""

from __future__ import annotations

import networkx as nx
import numpy as np

from mercer import Graph, VertexHistogram
from mercer.testing import double_loop
from mercer.testing.examples.graphs import sample_graphs


def test_values_by_hand():
    graphs = [
        Graph(edges=[(0, 1)], labels=["a", "b"]),
        Graph(n_nodes=4, labels=["a", "a", "c", 1]),
        Graph(n_nodes=2, labels=[1.0, "1"]),
        Graph(),
    ]
    K = VertexHistogram()(graphs)
    assert K.tolist() == [[2, 2, 0, 0], [2, 6, 1, 0], [0, 1, 2, 0], [0, 0, 0, 0]]
    assert VertexHistogram().diag(graphs).tolist() == [2, 6, 2, 0]


def test_graphs_without_labels_have_one():
    assert VertexHistogram()([nx.path_graph(3), nx.complete_graph(5)]).tolist() == [
        [9, 15],
        [15, 25],
    ]


def test_new_graphs_and_new_labels():
    seen = [Graph(n_nodes=2, labels=["a", "b"])]
    assert VertexHistogram()([Graph(n_nodes=2, labels=["z", "b"])], seen).tolist() == [[1]]


def test_against_the_definition():
    graphs = sample_graphs(np.random.default_rng(2), 15)
    assert np.array_equal(VertexHistogram()(graphs), double_loop(VertexHistogram(), graphs))
