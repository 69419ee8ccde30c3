"""Paths between nodes with attributes: the definition, its special cases, derivatives, limits."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import mercer
from mercer import RBF, AttributedPath, Constant, Graph, Linear, Precomputed, ShortestPath
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.kernels.graphs import paths
from mercer.testing import double_loop


def some_graphs(rng, count, labels=False, directed=False, width=2, weights=(1.0,)):
    graphs = []
    for n in rng.integers(1, 8, count):
        A = rng.choice(weights, (n, n)) * (rng.random((n, n)) < 0.4)
        A = A if directed else np.triu(A) + np.triu(A, 1).T
        names = rng.integers(0, 2, n) if labels else None
        vectors = rng.standard_normal((n, width))
        graphs.append(Graph(A, labels=names, attributes=vectors, directed=directed))
    return graphs


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weights", [(1.0,), (0.1, 0.2, 0.3)])
def test_values_are_those_of_the_definition(labels, directed, weights):
    rng = np.random.default_rng(0)
    graphs = [*some_graphs(rng, 8, labels, directed, weights=weights), Graph(n_nodes=0)]
    for k in (AttributedPath(RBF(0.7)), AttributedPath(Linear(), weighted=False)):
        np.testing.assert_allclose(k(graphs), double_loop(k, graphs), rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(k.diag(graphs), np.diag(k(graphs)), rtol=1e-12)


@pytest.mark.parametrize("labels", [False, True])
def test_a_constant_kernel_of_the_nodes_gives_shortest_paths(labels):
    graphs = some_graphs(np.random.default_rng(1), 12, labels, weights=(1.0, 2.5))
    ones = AttributedPath(Linear().on([0]) * 0.0 + Constant(1.0))
    np.testing.assert_allclose(ones(graphs), ShortestPath()(graphs), rtol=1e-12)
    wide = AttributedPath(RBF(1e9))
    np.testing.assert_allclose(wide(graphs), ShortestPath()(graphs), rtol=1e-12)


def test_values_are_those_of_grakel():
    grakel = pytest.importorskip("grakel")
    rng = np.random.default_rng(2)
    graphs = [nx.gnp_random_graph(n, 0.5, seed=n) for n in range(2, 8)]
    vectors = [rng.standard_normal((len(G), 3)) for G in graphs]
    given = [
        [nx.to_numpy_array(G), dict(enumerate(v))] for G, v in zip(graphs, vectors, strict=True)
    ]
    ours = [Graph(A, attributes=v) for (A, _), v in zip(given, vectors, strict=True)]
    expected = grakel.ShortestPathAttr().fit_transform(given)
    np.testing.assert_allclose(AttributedPath(Linear())(ours), expected, rtol=1e-10)


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_derivatives_in_the_parameters_of_the_inner_kernel(labels, directed):
    rng = np.random.default_rng(3)
    graphs = some_graphs(rng, 6, labels, directed)
    k = AttributedPath(0.5 * RBF([0.8, 1.4]))
    assert k.theta_names == [
        "kernel__k1__value",
        "kernel__k2__length_scale[0]",
        "kernel__k2__length_scale[1]",
    ]
    W, c, h = rng.standard_normal((6, 6)), rng.standard_normal(6), 1e-5
    steps = h * np.eye(3)
    up, down = ([k.with_theta(k.theta + s * e) for e in steps] for s in (1, -1))
    slopes = [((a(graphs) - b(graphs)) * W).sum() / (2 * h) for a, b in zip(up, down, strict=True)]
    np.testing.assert_allclose(k.theta_vjp(graphs, W), slopes, rtol=1e-6, atol=1e-7)
    own = [(a.diag(graphs) - b.diag(graphs)) @ c / (2 * h) for a, b in zip(up, down, strict=True)]
    np.testing.assert_allclose(k._pull_diag(k.domain.check(graphs), c), own, rtol=1e-6, atol=1e-7)


def test_long_sums_are_cut_into_short_calls(monkeypatch):
    rng = np.random.default_rng(4)
    graphs, W = some_graphs(rng, 6, labels=True), rng.standard_normal((6, 6))
    k = AttributedPath(RBF())
    K, slope = k(graphs), k.theta_vjp(graphs, W)
    monkeypatch.setattr(paths, "PACE", 1)
    np.testing.assert_allclose(k(graphs), K, rtol=1e-13)
    np.testing.assert_allclose(k.theta_vjp(graphs, W), slope, rtol=1e-12)


def test_the_numbering_of_nodes_does_not_matter_and_repeated_graphs_stay_semidefinite():
    rng = np.random.default_rng(5)
    graphs = some_graphs(rng, 6)
    A = np.triu(rng.random((8, 8)) < 0.4, 1).astype(float)
    A, vectors = A + A.T, rng.standard_normal((8, 2))
    orders = [rng.permutation(8) for _ in range(50)]
    moved = [Graph(A[np.ix_(o, o)], attributes=vectors[o]) for o in orders]
    K = AttributedPath(RBF())(moved + graphs)
    np.testing.assert_allclose(K[:50, :50], K[0, 0], rtol=1e-12)
    values = np.linalg.eigvalsh(K)
    assert values[0] > -1e-12 * values[-1]


def test_words_are_taken_from_all_nodes():
    graphs = some_graphs(np.random.default_rng(6), 7)
    k = AttributedPath(RBF("median")).fit_params(graphs)
    assert k.kernel == RBF("median").fit_params(np.concatenate([g.attributes for g in graphs]))
    model = mercer.KernelRidge(AttributedPath(RBF("median"))).fit(graphs, np.arange(7.0))
    assert model.kernel_ == k


def test_what_is_refused():
    bare, path = Graph(edges=[(0, 1)]), Graph(edges=[(0, 1)], attributes=[[0.0], [1.0]])
    with pytest.raises(InvalidInput, match=r"no attributes.*ShortestPath"):
        AttributedPath(RBF())([bare])
    with pytest.raises(InvalidInput, match="attributes"):
        AttributedPath(RBF())([path], [bare])
    with pytest.raises(InvalidInput, match="weighted=2"):
        AttributedPath(RBF(), weighted=2)
    with pytest.raises(InvalidInput, match="precomputed"):
        AttributedPath(Precomputed())
    with pytest.raises(InvalidInput, match="not a Kernel"):
        AttributedPath("rbf")
    minus = Graph(edges=[(0, 1)], weights=[-1], attributes=[[0.0], [1.0]])
    with pytest.raises(InvalidInput, match=r"AttributedPath: graph 0 has an edge of weight -1"):
        AttributedPath(RBF())([minus])
    assert AttributedPath(RBF(), weighted=False)([minus]).shape == (1, 1)
    assert AttributedPath(RBF())([Graph(n_nodes=0)], [path]).tolist() == [[0.0]]
    assert AttributedPath(RBF()).theta_vjp([Graph(n_nodes=0)], np.ones((1, 1))).tolist() == [0.0]
    long = Graph(
        edges=np.column_stack([np.arange(1999), np.arange(1, 2000)]), attributes=np.ones((2000, 1))
    )
    with mercer.config(memory="20MB"), pytest.raises(MemoryBudgetExceeded, match="AttributedPath"):
        AttributedPath(RBF())([long])


def test_attributes_have_one_length():
    two, three = (Graph(n_nodes=2, attributes=np.ones((2, d))) for d in (2, 3))
    k = AttributedPath(RBF(1.0))
    with pytest.raises(InvalidInput, match="graph 1 has 2 attributes a node and graph 2 has 3"):
        k([Graph(), two, three])
    with pytest.raises(InvalidInput, match="graph 0 has 2 attributes a node and graph 1 has 0"):
        AttributedPath(RBF("median")).fit_params([two, Graph(n_nodes=1)])
    with pytest.raises(InvalidInput, match=r"X have 2 attributes.*training graphs\) 3"):
        k([two], [three])
    assert k([two], [Graph()]).tolist() == [[0.0]]


def test_graphs_without_nodes_need_no_attributes():
    for kernel in (AttributedPath(RBF("median")), AttributedPath(RBF(1.0))):
        assert kernel([Graph(), Graph()]).tolist() == [[0, 0], [0, 0]]
        fitted = kernel.fit_params([Graph()], sample_weight=[2.0])
        assert np.isfinite(fitted([Graph(edges=[(0, 1)], attributes=np.eye(2))])).all()
    with pytest.raises(InvalidInput, match="have no attributes"):
        AttributedPath(RBF("median"))([Graph(n_nodes=1)])
