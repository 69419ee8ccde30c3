"""Random walks: all small graphs against the product graph, decays, derivatives, certificates."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.linalg import expm

import mercer
from mercer import Graph, RandomWalk
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.kernels.graphs import walks
from mercer.testing import double_loop
from mercer.testing.examples.graphs import matrix_of

ATLAS = nx.graph_atlas_g()
KINDS = ["geometric", "exponential"]


def on_product(kind, decay, A, B, alike=None):
    """Return 1ᵀf(λA×)1 on the product graph, written out."""
    W = np.kron(A, B)
    if alike is not None:
        keep = alike.ravel()
        W = W[np.ix_(keep, keep)]
    ones = np.ones(len(W))
    if kind == "geometric":
        return float(ones @ np.linalg.solve(np.eye(len(W)) - decay * W, ones))
    return float((expm(decay * W) @ ones).sum())


def some_graphs(rng, count, **kinds):
    graphs = []
    for n in rng.integers(1, 9, count):
        pairs = np.argwhere(np.triu(np.ones((n, n))))
        edges = pairs[rng.random(len(pairs)) < 0.4]
        graphs.append(
            Graph(
                edges=edges,
                n_nodes=int(n),
                labels=rng.integers(0, 2, n) if kinds.get("labels") else None,
                edge_labels=rng.integers(0, 3, len(edges)) if kinds.get("bonds") else None,
                weights=rng.random(len(edges)) + 0.1,
                directed=kinds.get("directed", False),
            )
        )
    return graphs


@pytest.mark.parametrize("kind", KINDS)
def test_all_graphs_of_up_to_seven_nodes(kind):
    rng = np.random.default_rng(0)
    k = RandomWalk(0.02, kind)
    matrices = [nx.to_numpy_array(G) for G in ATLAS]
    every = range(len(ATLAS)) if kind == "geometric" else range(0, len(ATLAS), 5)
    own = [on_product(kind, 0.02, matrices[i], matrices[i]) for i in every]
    np.testing.assert_allclose(k.diag([ATLAS[i] for i in every]), own, rtol=1e-12)
    rows, columns = rng.choice(len(ATLAS), 200), rng.choice(len(ATLAS), 4)
    expected = [[on_product(kind, 0.02, matrices[i], matrices[j]) for j in columns] for i in rows]
    got = k([ATLAS[i] for i in rows], [ATLAS[j] for j in columns])
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_all_labelled_graphs_of_up_to_seven_nodes(kind):
    rng = np.random.default_rng(1)
    chosen = rng.choice(len(ATLAS), 150, replace=False)
    labels = [rng.integers(0, 3, len(ATLAS[i])) for i in chosen]
    matrices = [nx.to_numpy_array(ATLAS[i]) for i in chosen]
    graphs = [Graph(A, labels=l) for A, l in zip(matrices, labels, strict=True)]
    k = RandomWalk(0.02, kind)
    expected = [
        [
            on_product(kind, 0.02, matrices[i], matrices[j], labels[i][:, None] == labels[j])
            for j in range(5)
        ]
        for i in range(len(graphs))
    ]
    np.testing.assert_allclose(k(graphs, graphs[:5]), expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("bonds", [False, True])
def test_every_kind_of_graph_agrees_with_the_definition(kind, directed, labels, bonds):
    rng = np.random.default_rng(2)
    graphs = some_graphs(rng, 8, directed=directed, labels=labels, bonds=bonds)
    graphs.append(Graph(n_nodes=0))
    k = RandomWalk(kind=kind).fit_params(graphs)
    np.testing.assert_allclose(k(graphs), double_loop(k, graphs), rtol=1e-12)
    assert not k(graphs)[-1].any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("labels", [False, True])
def test_values_against_grakel(kind, labels):
    grakel = pytest.importorskip("grakel")
    rng = np.random.default_rng(3)
    graphs = [nx.gnp_random_graph(n, 0.4, seed=n) for n in range(2, 9)]
    names = [rng.integers(0, 2, len(G)) for G in graphs]
    given = [
        [nx.to_numpy_array(G), dict(enumerate(l.tolist()))]
        for G, l in zip(graphs, names, strict=True)
    ]
    peer = grakel.RandomWalkLabeled if labels else grakel.RandomWalk
    ours = [Graph(A, labels=list(l.values()) if labels else None) for A, l in given]
    k = RandomWalk(0.02, kind)
    got = k(ours)
    if labels:  # GraKeL counts pairs of unlike nodes as walks without edges
        got = got + [[(a[:, None] != b).sum() for b in names] for a in names]
    expected = peer(lamda=0.02, method_type="baseline", kernel_type=kind).fit_transform(given)
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_one_label_for_all_is_no_label():
    rng = np.random.default_rng(4)
    plain = some_graphs(rng, 6)
    named = [Graph(matrix_of(g), labels=["x"] * g.n_nodes) for g in plain]
    for kind in KINDS:
        k = RandomWalk(kind=kind).fit_params(plain)
        np.testing.assert_allclose(k(named), k(plain), rtol=1e-12)
        W = rng.standard_normal((6, 6))
        np.testing.assert_allclose(k.theta_vjp(named, W), k.theta_vjp(plain, W), rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_the_derivative_in_the_decay_is_exact(kind, labels, directed):
    graphs = some_graphs(np.random.default_rng(5), 7, labels=labels, directed=directed)
    k = RandomWalk(kind=kind).fit_params(graphs)
    W, c, h = np.random.default_rng(6).standard_normal((7, 7)), np.arange(7.0), 1e-5
    up, down = k.with_theta(k.theta + h), k.with_theta(k.theta - h)
    slope = ((up(graphs) - down(graphs)) * W).sum() / (2 * h)
    np.testing.assert_allclose(k.theta_vjp(graphs, W), [slope], rtol=1e-7)
    slope = (up.diag(graphs) - down.diag(graphs)) @ c / (2 * h)
    pulled = k._pull_diag(k.domain.check(graphs), c)
    np.testing.assert_allclose(pulled, [slope], rtol=1e-7)


def test_the_numbering_of_nodes_does_not_matter():
    rng = np.random.default_rng(7)
    A = np.triu(rng.random((9, 9)) < 0.4, 1) * rng.random((9, 9))
    A, labels = A + A.T, rng.integers(0, 3, 9)
    orders = [rng.permutation(9) for _ in range(100)]
    moved = [A[np.ix_(o, o)] for o in orders]
    for graphs in (moved, [Graph(B, labels=labels[o]) for B, o in zip(moved, orders, strict=True)]):
        d = RandomWalk(0.1)(graphs, graphs[:1])
        np.testing.assert_allclose(d, d[0, 0], rtol=1e-12)


# --------------------------------------------------------------------------------- the decay
@pytest.mark.parametrize("labels", [None, list("aab")])
def test_a_decay_beyond_convergence_is_refused_with_the_largest_legal_one(labels):
    ring = Graph(edges=[(0, 1), (1, 2), (2, 0)], labels=labels)  # largest eigenvalue 2
    pair = Graph(edges=[(0, 1)], n_nodes=3, labels=labels)
    with pytest.raises(InvalidInput, match=r"graph 1 of X .* 2: .*decay < 0\.25\. Try decay=0\.1"):
        RandomWalk(0.25)([pair, ring])
    with pytest.raises(InvalidInput, match="graph 0 of Y"):
        RandomWalk(0.3)([pair], [ring])
    assert np.isfinite(RandomWalk(0.2499)([ring])).all()
    assert np.isfinite(RandomWalk(10.0, "exponential")([ring])).all()
    with pytest.raises(InvalidInput, match="beyond double precision"):
        RandomWalk(1000.0, "exponential")([ring])


def test_new_graphs_that_need_a_smaller_decay_are_refused_by_a_model():
    graphs = [nx.path_graph(n) for n in range(2, 10)]
    model = mercer.KernelRidge(RandomWalk()).fit(graphs, np.arange(8.0))
    assert model.kernel_.decay == pytest.approx(0.5 / (2 * np.cos(np.pi / 10)) ** 2, rel=1e-12)
    assert np.isfinite(model.predict([nx.cycle_graph(5)])).all()
    with pytest.raises(InvalidInput, match="converges only for decay < "):
        model.predict([nx.complete_graph(9)])


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_sums_next_to_the_largest_decay_are_still_right(labels, directed):
    rng = np.random.default_rng(8)
    A = (rng.random((12, 12)) < 0.4).astype(float)
    A = A if directed else np.maximum(A, A.T)
    rho = np.abs(np.linalg.eigvals(A)).max()
    names = rng.integers(0, 2, 12) if labels else None
    graph = Graph(A, labels=names, directed=directed)
    k = RandomWalk(0.999 / rho**2)
    np.testing.assert_allclose(k([graph]), double_loop(k, [graph]), rtol=1e-11)


def test_weights_multiply_along_a_walk():
    light, heavy = Graph(edges=[(0, 1)], weights=[0.5]), Graph(edges=[(0, 1)], weights=[3.0])
    # 1ᵀ(A ⊗ B)ˡ1 = 4·1.5ˡ
    assert RandomWalk(0.1)([light], [heavy])[0, 0] == pytest.approx(4 / (1 - 0.15), rel=1e-14)
    with pytest.raises(InvalidInput, match="graph 1 of X has an edge of weight -1"):
        RandomWalk(0.1)([light, Graph(edges=[(0, 1)], weights=[-1.0])])


def test_graphs_without_edges_or_nodes():
    graphs = [Graph(n_nodes=0), Graph(n_nodes=2), Graph(n_nodes=3)]
    expected = np.outer([0, 2, 3], [0, 2, 3])
    for kind in KINDS:
        np.testing.assert_array_equal(RandomWalk(kind=kind)(graphs), expected)
        np.testing.assert_array_equal(RandomWalk(5.0, kind)(graphs), expected)
    assert RandomWalk()([]).shape == (0, 0)
    unlike = [Graph(n_nodes=2, labels=["a", "a"]), Graph(edges=[(0, 1)], labels=["b", "c"])]
    assert RandomWalk(0.1)(unlike)[0, 1] == 0


def test_bad_parameters_are_refused():
    for decay in (0, -1.0, np.nan, np.inf, None, True, "median"):
        with pytest.raises(InvalidInput, match="RandomWalk: decay="):
            RandomWalk(decay)
    with pytest.raises(InvalidInput, match="legal are 'geometric'"):
        RandomWalk(0.1, "harmonic")
    with pytest.raises(InvalidInput, match="fit_params"):
        RandomWalk()([nx.path_graph(3)], [nx.path_graph(2)])


# -------------------------------------------------------------------------------- certificates
def test_the_residual_is_computed_anew(monkeypatch):
    graphs = some_graphs(np.random.default_rng(9), 6, labels=True)
    k = RandomWalk().fit_params(graphs)
    before = k(graphs)
    monkeypatch.setattr(walks, "GOAL", 1e-3)  # the recursion believes it is done
    monkeypatch.setattr(walks, "ROUNDS", 1000)
    np.testing.assert_allclose(k(graphs), before, rtol=1e-12)
    monkeypatch.setattr(walks, "ROUNDS", 1)
    with pytest.raises(InvalidInput, match="converges too slowly"):
        k(graphs)


def test_long_sums_are_cut_into_short_calls(monkeypatch):
    rng = np.random.default_rng(10)
    for directed in (False, True):
        graphs = some_graphs(rng, 5, labels=True, bonds=True, directed=directed)
        kernels = [RandomWalk(kind=kind).fit_params(graphs) for kind in KINDS]
        before = [k(graphs) for k in kernels]
        with monkeypatch.context() as patch:
            patch.setattr(walks, "PACE", 1)
            for k, K in zip(kernels, before, strict=True):
                np.testing.assert_allclose(k(graphs), K, rtol=1e-12)


def test_one_step_on_the_product_graph_is_that_of_its_matrix():
    from mercer.jit.graphs import common_step

    rng = np.random.default_rng(11)
    graphs = sorted(some_graphs(rng, 9, labels=True, bonds=True), key=lambda g: len(g.indices))[-2:]
    X = RandomWalk.domain.check(graphs)
    side = walks.Side(X)
    alike = side.labels_of(0)[:, None] == side.labels_of(1)
    x = rng.random(alike.shape) * alike
    out, row = np.empty(x.shape), np.empty(x.shape[1])
    common_step(*side.arrays(0), *side.arrays(1), x, row, out)
    expected = np.zeros(x.shape)
    for bond in np.unique(X.edge_labels):
        A, B = (
            np.array(
                [
                    [
                        sum(
                            g.weights[e]
                            for e in range(g.indptr[i], g.indptr[i + 1])
                            if g.indices[e] == j and g.edge_labels[e] == bond
                        )
                        for j in range(g.n_nodes)
                    ]
                    for i in range(g.n_nodes)
                ]
            )
            for g in graphs
        )
        expected += A @ x @ B.T
    np.testing.assert_allclose(out, expected * alike, rtol=1e-13)
    assert out.any()


def test_matrices_are_semidefinite_with_repeated_graphs():
    rng = np.random.default_rng(12)
    for kinds in ({}, {"labels": True}, {"labels": True, "bonds": True, "directed": True}):
        graphs = some_graphs(rng, 8, **kinds) * 2
        for kind in KINDS:
            values = np.linalg.eigvalsh(RandomWalk(kind=kind)(graphs))
            assert values[0] > -1e-12 * values[-1]


def test_what_does_not_fit_the_budget_is_refused():
    n = 2000
    ends = np.column_stack([np.arange(n - 1), np.arange(1, n)])
    with mercer.config(memory="50MB"), pytest.raises(MemoryBudgetExceeded, match="2000 nodes"):
        RandomWalk(0.1)([Graph(edges=ends)])
