"""`NeighborhoodHash`: mean Jaccard index of multisets of neighbourhoods."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from mercer import Graph, NeighborhoodHash
from mercer.errors import InvalidInput
from mercer.kernels.graphs import histograms
from mercer.testing import double_loop
from mercer.testing.examples.graphs import refined_labels, sample_graphs


def test_values_by_hand():
    # One round tells degrees: the path has two of 1 and one of 2, the star three of 1 and one of 3.
    K = NeighborhoodHash(1)([nx.path_graph(3), nx.star_graph(3), nx.Graph()])
    assert K.tolist() == [[1, 2 / 5, 0], [2 / 5, 1, 0], [0, 0, 0]]
    assert NeighborhoodHash(1).diag([nx.path_graph(3), nx.Graph()]).tolist() == [1, 0]


@pytest.mark.parametrize("kind", [{}, {"labelled": False}, {"edge_labelled": True}])
def test_against_the_definition(kind):
    graphs = sample_graphs(np.random.default_rng(2), 30, **kind)
    k = NeighborhoodHash(3)
    K = k(graphs)
    np.testing.assert_allclose(K, double_loop(k, graphs), rtol=1e-13)
    assert K.max() == 1.0 and np.array_equal(k.diag(graphs), np.diag(K))
    new = sample_graphs(np.random.default_rng(3), 7, **kind)
    np.testing.assert_allclose(k(new, graphs), double_loop(k, new, graphs), rtol=1e-13)


@pytest.mark.parametrize("bits", [1, 2, 5, 64])
def test_few_bits_keep_a_kernel_and_let_more_agree(bits):
    graphs = sample_graphs(np.random.default_rng(4), 60)
    K = NeighborhoodHash(2, bits=bits)(graphs)
    assert np.linalg.eigvalsh(K)[0] > -1e-12
    full = NeighborhoodHash(2)(graphs)
    assert (K.mean() > full.mean()) if bits < 64 else np.array_equal(K, full)


def test_values_are_at_most_those_of_grakel():
    grakel = pytest.importorskip("grakel")
    rng = np.random.default_rng(0)
    graphs = []
    for seed in range(12):
        G = nx.gnp_random_graph(int(rng.integers(4, 10)), 0.4, seed=seed)
        nx.set_node_attributes(G, {v: int(rng.integers(0, 3)) for v in G}, "label")
        graphs.append(G)
    peer = grakel.NeighborhoodHash(R=2, nh_type="count_sensitive", bits=20, random_state=0)
    theirs = peer.fit_transform(grakel.graph_from_networkx(graphs, node_labels_tag="label"))
    ours = NeighborhoodHash(2)(graphs)
    assert (ours <= theirs + 1e-12).all() and np.isclose(ours, theirs).mean() > 0.3


def test_swapped_neighbours_are_not_confused():
    one = Graph(edges=[(0, 1), (0, 2)], labels="abb")
    two = Graph(edges=[(0, 1), (0, 2)], labels="baa")
    assert NeighborhoodHash(1)([one], [two]).tolist() == [[0]]


def test_each_collection_is_refined_once(monkeypatch):
    graphs = sample_graphs(np.random.default_rng(5), 9)
    k, calls = NeighborhoodHash(8), []
    before = k(graphs), k(graphs, graphs[:3])
    run = histograms.refinements
    monkeypatch.setattr(
        histograms, "refinements", lambda *args: calls.append(args[1]) or run(*args)
    )
    np.testing.assert_array_equal(k(graphs), before[0])
    assert calls == [8]
    np.testing.assert_array_equal(k(graphs, graphs[:3]), before[1])
    assert calls == [8, 8, 8]


def test_collisions_are_accounted_for():
    graphs = sample_graphs(np.random.default_rng(6), 40)
    levels = zip(*(refined_labels(G, 3) for G in graphs), strict=True)
    different = [len(set().union(*level)) for level in levels]
    pairs = sum(n * (n - 1) / 2 for n in different)
    for bits in (1, 4, 20, 64):
        chance = NeighborhoodHash(3, bits=bits).collision_probability(graphs)
        assert chance == min(1.0, pairs / 2.0**bits)
    assert NeighborhoodHash(3, bits=1).collision_probability(graphs) == 1.0
    assert NeighborhoodHash(3).collision_probability([]) == 0.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("bits", [8, 63, 64])
@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint8])
def test_bits_of_numpy(bits, kind):
    graphs = sample_graphs(np.random.default_rng(7), 5)
    k = NeighborhoodHash(np.int8(2), bits=kind(bits))
    np.testing.assert_array_equal(k(graphs), NeighborhoodHash(2, bits=bits)(graphs))
    assert k.collision_probability(graphs) > 0


@pytest.mark.parametrize("bad", [0, -1, 2.0, None, True])
def test_parameters(bad):
    with pytest.raises(InvalidInput, match="iterations"):
        NeighborhoodHash(bad)
    with pytest.raises(InvalidInput, match="bits"):
        NeighborhoodHash(bits=bad)
    with pytest.raises(InvalidInput, match="bits=65"):
        NeighborhoodHash(bits=65)
