"""`WeisfeilerLehmanOptimalAssignment`: histogram intersections are optimal assignments."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from mercer import Graph, WeisfeilerLehman, WeisfeilerLehmanOptimalAssignment
from mercer.errors import InvalidInput
from mercer.features import SparseCounts
from mercer.testing import double_loop
from mercer.testing.examples.graphs import sample_graphs


def test_values_by_hand():
    k = WeisfeilerLehmanOptimalAssignment(1)
    path, star, point = nx.path_graph(3), nx.star_graph(3), nx.empty_graph(1)
    # Round 0 pairs three nodes; round 1 the two ends of the path with ends of the star.
    K = k([path, star, point, nx.Graph()])
    assert K.tolist() == [[6, 5, 1, 0], [5, 8, 1, 0], [1, 1, 2, 0], [0, 0, 0, 0]]
    assert k.diag([path, star, point, nx.Graph()]).tolist() == [6, 8, 2, 0]


@pytest.mark.parametrize(
    "kind", [{}, {"labelled": False}, {"edge_labelled": True}, {"directed": True}]
)
def test_assignments_are_the_best(kind):
    rng = np.random.default_rng(2)
    graphs, new = sample_graphs(rng, 25, **kind), sample_graphs(rng, 6, **kind)
    k = WeisfeilerLehmanOptimalAssignment(3)
    assert np.array_equal(k(graphs), double_loop(k, graphs))
    assert np.array_equal(k(new, graphs), double_loop(k, new, graphs))
    assert np.array_equal(k.diag(graphs), 4 * np.array([g.n_nodes for g in graphs]))


def test_all_small_graphs_agree_in_features_and_are_definite():
    atlas = nx.graph_atlas_g()[:400]
    k = WeisfeilerLehmanOptimalAssignment(2)
    K = k(atlas)
    assert np.linalg.eigvalsh(K)[0] > -1e-9 * K.max()
    Z = SparseCounts(k).fit_transform(atlas)
    assert np.array_equal((Z @ Z.T).toarray(), K) and set(Z.data) == {1.0}
    # a pair counts at most once for each node, and at most as often as in the sum of all pairs
    assert (K <= WeisfeilerLehman(2)(atlas)).all()


def test_numbers_of_nodes_do_not_multiply():
    ring = Graph(edges=[(i, (i + 1) % 30) for i in range(30)])
    twice = Graph(edges=[(i, (i + 1) % 60) for i in range(60)])
    assert WeisfeilerLehmanOptimalAssignment(4)([ring], [twice]).tolist() == [[150.0]]


@pytest.mark.parametrize("bad", [-1, 2.0, None, True])
def test_parameters(bad):
    with pytest.raises(InvalidInput, match="iterations"):
        WeisfeilerLehmanOptimalAssignment(bad)
