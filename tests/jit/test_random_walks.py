"""Compiled sums over walks equal those of the product graph, written out as a matrix."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

from mercer.domains import Graphs
from mercer.jit.graphs import common_step, conjugate_steps, series_steps, spectral_sums
from mercer.kernels.graphs.walks import Side
from mercer.testing.examples.graphs import matrix_of, sample_graphs


def pair(seed, directed=False):
    """Return what the loops take for two graphs, where their labels agree, and A×."""
    rng = np.random.default_rng(seed)
    graphs = sample_graphs(rng, 30, True, True, directed, lengths=(0.5, 1.0, 2.0))
    x, y = sorted(graphs, key=lambda g: len(g.indices))[-2:]
    side = Side(Graphs().check([x, y]))
    alike = np.equal.outer(x.node_labels, y.node_labels)
    product = np.zeros((alike.size, alike.size))
    for bond in set(x.edge_labels.tolist()) & set(y.edge_labels.tolist()):
        parts = []
        for g in (x, y):
            rows = np.repeat(np.arange(g.n_nodes), np.diff(g.indptr))
            part = np.zeros((g.n_nodes, g.n_nodes))
            kept = g.edge_labels == bond
            part[rows[kept], g.indices[kept]] = g.weights[kept]
            parts.append(part)
        product += np.kron(*parts)
    flat = alike.ravel()
    assert product[np.ix_(flat, flat)].any()
    return (*side.arrays(0), *side.arrays(1)), alike, product * np.outer(flat, flat), rng


@pytest.mark.parametrize("directed", [False, True])
def test_a_step_is_a_product_with_the_matrix(directed):
    arrays, alike, product, rng = pair(0, directed)
    x = rng.standard_normal(alike.shape) * alike
    out, row = np.full(x.shape, np.nan), np.empty(x.shape[1])
    common_step(*arrays, x, row, out)
    np.testing.assert_allclose(out.ravel(), product @ x.ravel(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("steps", [1, 4, 500])
def test_conjugate_gradients_solve(steps):
    arrays, alike, product, _ = pair(1)
    decay = 0.5 / np.abs(np.linalg.eigvalsh(product)).max()
    p = alike.astype(float)
    x, r, d, q, row = np.zeros(p.shape), p.copy(), p.copy(), np.empty(p.shape), np.empty(p.shape[1])
    calls = 0
    while not conjugate_steps(*arrays, decay, x, r, d, q, row, 1e-14, steps):
        calls += 1
        assert calls < 500
    expected = np.linalg.solve(np.eye(p.size) - decay * product, p.ravel())
    np.testing.assert_allclose(x.ravel(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("geometric", [True, False])
@pytest.mark.parametrize("steps", [1, 3, 1000])
def test_series_are_summed(steps, geometric):
    arrays, alike, product, _ = pair(2, directed=True)
    decay = 0.5 / np.abs(np.linalg.eigvals(product)).max()
    p = alike.astype(float)
    x, q, row, sums = p.copy(), np.empty(p.shape), np.empty(p.shape[1]), np.array([0, p.sum(), 0])
    while not series_steps(*arrays, decay, geometric, x, q, row, sums, 1e-17, steps):
        assert sums[0] < 1000
    M, ones = decay * product, p.ravel()
    if geometric:
        inverse = np.linalg.inv(np.eye(len(M)) - M)
        expected = ones @ inverse @ ones, ones @ inverse @ M @ inverse @ ones
    else:
        expected = ones @ expm(M) @ ones, ones @ M @ expm(M) @ ones
    np.testing.assert_allclose(sums[1:], expected, rtol=1e-12)


@pytest.mark.parametrize("geometric", [True, False])
def test_spectral_sums(geometric):
    rng = np.random.default_rng(3)
    matrices = [matrix_of(g) for g in sample_graphs(rng, 5, most=6)]
    values, sizes, offsets = [], [], [0]
    for A in matrices:
        mu, U = np.linalg.eigh(A)
        values += mu.tolist()
        sizes += (U.sum(axis=0) ** 2).tolist()
        offsets.append(len(values))
    spectra = np.array(values), np.array(sizes), np.array(offsets)
    decay = 0.9 / max(np.abs(values)) ** 2
    out, slopes = np.full((2, 3, 2), np.nan)
    spectral_sums(*spectra, 1, 4, *spectra, 3, 5, decay, geometric, out, slopes)
    for i in range(3):
        for j in range(2):
            M = decay * np.kron(matrices[1 + i], matrices[3 + j])
            ones, one = np.ones(len(M)), np.eye(len(M))
            f = np.linalg.inv(one - M) if geometric else expm(M)
            tilt = f @ M @ f if geometric else M @ f
            assert out[i, j] == pytest.approx(ones @ f @ ones, rel=1e-11)
            assert slopes[i, j] == pytest.approx(ones @ tilt @ ones, rel=1e-11, abs=1e-11)
