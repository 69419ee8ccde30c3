"""NodeMoments of a large graph: the values of the dense matrix, from one run of products."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

from mercer import Diffusion, GaussianProcessRegressor, RegularizedLaplacian, config
from mercer.kernels.graphs import nodes as node_action
from mercer.kernels.graphs.nodes import NodeMatrix, NodeMoments

DECAYS = (0.3, 2.0, 0.01, 1.0)


class Counted:
    """A matrix that counts its products."""

    def __init__(self, matrix: sp.csr_array):
        self.matrix, self.shape, self.columns = matrix, matrix.shape, 0

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        self.columns += V.shape[1]
        return self.matrix @ V


@pytest.fixture
def path(monkeypatch):
    monkeypatch.setattr(node_action, "DENSE_NODES", 10)
    n = 150
    return sp.csr_array(sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(n, n)))


def laplacian(A: sp.csr_array) -> np.ndarray:
    return np.diag(A.sum(axis=1)) - A.toarray()


def test_all_decays_are_served_by_the_products_of_one(path):
    nodes = np.array([3, 40, 41, 149])
    matrix = NodeMatrix(sp.csr_array(-laplacian(path)), 0.0)
    S = matrix._scaled = Counted(matrix._scaled)
    longest = len(node_action.chebyshev(lambda x: np.exp(2 * x), *matrix.interval))
    for decay in DECAYS:
        K = matrix.block(lambda x, d=decay: np.exp(d * x), nodes, nodes)
        expected = scipy.linalg.expm(-decay * laplacian(path))[np.ix_(nodes, nodes)]
        np.testing.assert_allclose(K, expected, atol=1e-13)
    assert S.columns == len(nodes) * (longest - 1)
    matrix.block(np.exp, nodes[:2], nodes[:2].copy())  # other nodes, and not a square
    assert list(matrix._moments) == [nodes.tobytes()]


@pytest.mark.parametrize("columns", [1, 3, 64])
def test_moments_are_chebyshev_polynomials(path, columns):
    S = path / 2.0
    nodes = np.array([0, 7, 7, 100, 5])
    parts = [slice(i, min(i + columns, 5)) for i in range(0, 5, columns)]
    moments, (values, U) = NodeMoments(S, nodes, parts), np.linalg.eigh(S.toarray())
    for k in (4, 0, 1, 9):
        T = (U * np.cos(k * np.arccos(np.clip(values, -1, 1)))) @ U.T
        unit = np.eye(k + 1)[k]
        np.testing.assert_allclose(moments.sum(unit), T[np.ix_(nodes, nodes)], atol=1e-13)
    assert moments.sum(np.zeros(1)).tolist() == np.zeros((5, 5)).tolist()


@pytest.mark.parametrize("memory", ["1GB", "40kB"])
def test_kernels_agree_within_every_budget(path, memory):
    nodes = [5, 100, 5, 77]
    with config(memory=memory):
        for decay in DECAYS:
            heat = Diffusion(path, decay, laplacian=True)(nodes)
            whole = scipy.linalg.expm(-decay * laplacian(path))
            np.testing.assert_allclose(heat, whole[np.ix_(nodes, nodes)], atol=1e-13)
            inverse = np.linalg.inv(np.eye(150) + decay * laplacian(path))
            K = RegularizedLaplacian(path, decay)(nodes)
            np.testing.assert_allclose(K, inverse[np.ix_(nodes, nodes)], atol=1e-12)


def test_threads_do_not_share_moments_in_use(path):
    matrix = NodeMatrix(sp.csr_array(-laplacian(path)), 0.0)
    nodes, wrong = np.arange(0, 150, 9), []
    exact = [scipy.linalg.expm(-d * laplacian(path))[np.ix_(nodes, nodes)] for d in DECAYS]

    def work() -> None:
        for decay, K in list(zip(DECAYS, exact, strict=True)) * 5:
            got = matrix.block(lambda x, d=decay: np.exp(d * x), nodes, nodes)
            wrong.extend([] if np.allclose(got, K, atol=1e-12) else [decay])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_gaussian_process_tunes_the_decay(path, monkeypatch):
    nodes = np.arange(0, 150, 15)
    y = np.sin(nodes / 20)
    large = GaussianProcessRegressor(1.0 * Diffusion(path, laplacian=True)).fit(nodes, y)
    monkeypatch.setattr(node_action, "DENSE_NODES", 3000)
    other = sp.csr_array(path)
    small = GaussianProcessRegressor(1.0 * Diffusion(other, laplacian=True)).fit(nodes, y)
    np.testing.assert_allclose(large.kernel_.theta, small.kernel_.theta, rtol=1e-3)
