"""RegularizedLaplacian is the inverse of I + λL, on every small graph and on large ones."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from mercer import Graph, RegularizedLaplacian
from mercer.errors import InvalidInput
from mercer.kernels.graphs import nodes as node_action


def inverse(A, decay):
    return np.linalg.inv(np.eye(len(A)) + decay * (np.diag(A.sum(1)) - A))


@pytest.mark.parametrize("most", [3000, 0], ids=["eigenvectors", "columns"])
def test_all_graphs_of_the_atlas_up_to_six_nodes(most, monkeypatch):
    monkeypatch.setattr(node_action, "DENSE_NODES", most)
    for i, G in enumerate(nx.graph_atlas_g()):
        if 1 <= len(G) <= 6:
            A, decay = nx.to_numpy_array(G), (0.05, 1.0, 20.0)[i % 3]
            k, X = RegularizedLaplacian(G, decay), np.arange(len(G))
            assert np.abs(k(X) - inverse(A, decay)).max() < 1e-13
            assert np.abs(k.diag(X) - np.diag(inverse(A, decay))).max() < 1e-13


def test_weights_self_loops_and_forms():
    rng = np.random.default_rng(0)
    A = np.triu(rng.random((9, 9)) * (rng.random((9, 9)) < 0.5))
    A = A + A.T
    X = np.arange(9)
    for form in (A, sp.csc_array(A), Graph(A), nx.from_numpy_array(A)):
        assert np.abs(RegularizedLaplacian(form, 3.0)(X) - inverse(A, 3.0)).max() < 1e-14
    bare = A - np.diag(np.diag(A))
    assert np.abs(RegularizedLaplacian(bare, 3.0)(X) - inverse(A, 3.0)).max() < 1e-14


@pytest.mark.parametrize("decay", [0.1, 1.0, 300.0])
def test_a_graph_of_20000_nodes_solves_its_linear_system(decay):
    rng = np.random.default_rng(0)
    n = 20000
    edges = np.unique(np.sort(rng.integers(0, n, (3 * n, 2)), axis=1), axis=0)
    graph = Graph(edges=edges, n_nodes=n)
    A = graph.adjacency
    k, nodes = RegularizedLaplacian(graph, decay), [17, 4711]
    columns = k(np.arange(n), nodes)
    system = sp.eye_array(n) + decay * (sp.diags_array(A.sum(axis=1)) - A)
    residual = system @ columns
    residual[nodes, [0, 1]] -= 1
    assert np.abs(residual).max() < 1e-12
    assert np.abs(columns.sum(axis=0) - 1).max() < 1e-11  # L has the kernel vector of ones
    assert np.abs(k(nodes) - columns[nodes]).max() < 1e-15


def test_a_path_decays_geometrically():
    # Far from the ends the inverse of tridiag(−λ, 1 + 2λ, −λ) is q^|i−j| / √(1 + 4λ).
    n, decay = 6000, 2.0
    path = Graph(edges=np.column_stack([np.arange(n - 1), np.arange(1, n)]))
    X = np.array([3000, 3001, 3005])
    q = (1 + 2 * decay - np.sqrt(1 + 4 * decay)) / (2 * decay)
    expected = q ** np.abs(X[:, None] - X) / np.sqrt(1 + 4 * decay)
    assert np.abs(RegularizedLaplacian(path, decay)(X) - expected).max() < 1e-14


def test_negative_weights_are_refused_with_another_kernel():
    with pytest.raises(InvalidInput, match=r"negative weights.*Diffusion"):
        RegularizedLaplacian(np.array([[0.0, -1.0], [-1.0, 0.0]]))
    with pytest.raises(InvalidInput, match="RegularizedLaplacian: decay"):
        RegularizedLaplacian(nx.path_graph(2), 0.0)
    with pytest.raises(InvalidInput, match=r"RegularizedLaplacian.*directed"):
        RegularizedLaplacian(nx.DiGraph([(0, 1)]))


def test_extremes_of_decay():
    G = nx.path_graph(4)
    assert np.abs(RegularizedLaplacian(G, 1e-12)(list(G)) - np.eye(4)).max() < 1e-11
    assert np.abs(RegularizedLaplacian(G, 1e12)(list(G)) - 0.25).max() < 1e-11


@pytest.mark.parametrize("decay", [100.0, 3000.0])
def test_a_hub_by_columns(decay, monkeypatch):
    # A star of n leaves: the entries of (I + λL)⁻¹ in closed form, by symmetry of the leaves.
    monkeypatch.setattr(node_action, "DENSE_NODES", 0)
    n = 500
    k = RegularizedLaplacian(nx.star_graph(n), decay)
    leaf = 1 + decay
    hub = leaf / (leaf * (1 + n * decay) - n * decay**2)
    expected = np.full((3, 3), hub * decay**2 / leaf**2) + np.eye(3) / leaf
    expected[0], expected[:, 0] = hub * decay / leaf, hub * decay / leaf
    expected[0, 0] = hub
    assert not k._matrix().dense and k._matrix().interval[1] == 0.0
    assert np.abs(k([0, 1, 2]) - expected).max() < 1e-12


@pytest.mark.parametrize("decay", [100.0, 10_000.0])
def test_a_scale_free_network_by_columns(decay, monkeypatch):
    G = nx.barabasi_albert_graph(400, 3, seed=0)
    expected = inverse(nx.to_numpy_array(G), decay)[:, 7]
    monkeypatch.setattr(node_action, "DENSE_NODES", 0)
    K = RegularizedLaplacian(G, decay)(np.arange(400), [7])
    assert np.abs(K[:, 0] - expected).max() < 1e-12


def test_a_decay_too_large_for_a_series_is_named_with_one_that_works(monkeypatch):
    monkeypatch.setattr(node_action, "DENSE_NODES", 100)
    star = Graph(edges=[(0, i) for i in range(1, 500)])  # ‖L‖ = 500
    with pytest.raises(InvalidInput, match=r"^RegularizedLaplacian.*use a decay below [34]\d\d\d"):
        RegularizedLaplacian(star, 1e4)([0])
    k = RegularizedLaplacian(star)
    assert np.exp(k.bounds[0, 1]) == pytest.approx(2e6 / 500, rel=2e-3)
    top = k.with_theta(k.bounds[:, 1] - 1e-9)
    assert np.isfinite(top([0, 1])).all()
    assert np.isfinite(top.theta_vjp([0, 1], np.ones((2, 2)))).all()
    assert np.exp(RegularizedLaplacian(nx.path_graph(9)).bounds[0, 1]) == pytest.approx(1e5)
