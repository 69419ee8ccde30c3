"""The two factors in one buffer, on arrays and tensors, against the matrices they stand for."""

import numpy as np
import pytest

from mercer import RBF
from mercer.solvers.falkon.preconditioner import FalkonPreconditioner, KrillPreconditioner


def gram(m, shift=0.1):
    X = np.random.default_rng(m).standard_normal((m, 3))
    return RBF()(X) + shift * np.eye(m)


def made(K, kind, block=16):
    if kind == "numpy":
        return FalkonPreconditioner(K.copy())
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    P = FalkonPreconditioner(torch.tensor(K))
    P.buffer.block = block
    return P


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("m", [1, 2, 16, 70])
def test_applies_the_inverse(m, offset, kind):
    K = gram(m)
    rng = np.random.default_rng(0)
    d = rng.uniform(0.5, 1.5, m)
    P = made(K, kind)
    assert P.prepare(500.0, 0.3, offset, d)
    d = d / d.mean()
    L = np.linalg.cholesky(K + P.jitter * np.eye(m))
    C = np.diag(d) - (np.outer(d, d) / m if offset else 0.0)
    whole = L @ (500.0 / m * L.T @ C @ L + 0.3 * np.eye(m)) @ L.T
    V = rng.standard_normal((m, 2))
    np.testing.assert_allclose(P.apply(whole @ V), V, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(P.gram(V), K @ V, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_can_be_prepared_again(kind):
    K, V = gram(40), np.ones((40, 1))
    P = made(K, kind)
    assert P.prepare(10.0, 1.0)
    first = P.apply(V)
    assert P.prepare(1000.0, 1e-3, True)
    assert P.prepare(10.0, 1.0)
    np.testing.assert_allclose(P.apply(V), first, rtol=1e-12)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_singular_matrices_get_little_jitter(kind):
    K = np.ones((50, 50))
    P = made(K, kind)
    assert 0 < P.jitter < 1e-9 and P.prepare(10.0, 1.0)
    assert np.isfinite(P.apply(np.ones((50, 1)))).all()


def test_uses_one_buffer():
    K = np.asfortranarray(gram(30))
    P = FalkonPreconditioner(K)
    assert np.shares_memory(P.buffer.a, K)
    K = gram(30)
    assert np.shares_memory(FalkonPreconditioner(K).buffer.a, K)


def test_the_sketch_of_all_rows_bounds_the_system():
    """P⁻¹H of the sketch has its eigenvalues within a constant factor of one another."""
    from mercer.engines.passes.base import row_pass
    from mercer.solvers import Centred
    from mercer.solvers.falkon.problem import CentredSystem

    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 3))
    w, k = rng.uniform(0, 3, 4000), RBF(1.0)
    Z, y = X[:40], X[:, :1]
    for offset in (False, True):
        system = CentredSystem(Centred(row_pass(k, X, Z, y, w), k(Z), 1e-6, offset))
        P = KrillPreconditioner.of(system)
        K = k(X, Z)
        H = K.T @ (w[:, None] * K) + 1e-6 * k(Z)
        if offset:
            H -= np.outer(K.T @ w, K.T @ w) / w.sum()
        values = np.linalg.eigvals(P.apply(H)).real
        assert values.max() / values.min() < 60
