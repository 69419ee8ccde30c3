"""RegularizedLaplacian is the inverse of I + λL, on every small graph and on large ones."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from mercer import Graph, RegularizedLaplacian
from mercer.errors import InvalidInput
from mercer.kernels.graphs import node_action


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
