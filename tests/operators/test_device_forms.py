"""Forms and shuffled sums of tensors against plain loops."""

import numpy as np
import pytest

import mercer
from mercer import RBF, Laplacian, Matern
from mercer.errors import MemoryBudgetExceeded
from mercer.operators import device as engine, many_forms, sources_of

torch = pytest.importorskip("torch")
KERNELS = [RBF(1.0), RBF(0.3), Laplacian(1.5), Matern(1.0, nu=0.5)]


@pytest.mark.parametrize("rows", [1, 7, 40, 2048])
@pytest.mark.parametrize("paired", [False, True])
def test_forms(rng, rows, paired, monkeypatch):
    monkeypatch.setattr(engine, "ROWS", rows)
    Z = rng.normal(size=(40, 3))
    n = 20 if paired else 40
    places = ((0, 0, 1.0), (n, n, 1.0), (0, n, -1.0), (n, 0, -1.0)) if paired else ((0, 0, 1.0),)
    V, t = rng.normal(size=(n, 5)), rng.normal(size=(n, 2))
    sources, order = sources_of(KERNELS, torch.tensor(Z))
    found = engine.device_forms(sources, n, torch.tensor(V), torch.tensor(t), places=places)
    twins, _ = sources_of(KERNELS, Z)
    for a, b in zip(found, many_forms(twins, n, V, t, places=places), strict=True):
        np.testing.assert_allclose(a.numpy(), b, atol=1e-12)
    for k, i in enumerate(order):
        K = KERNELS[i](Z)
        T = sum(c * K[a : a + n, b : b + n] for a, b, c in places)
        np.testing.assert_allclose(found[2][k].numpy(), np.diag(T), atol=1e-12)
        np.fill_diagonal(T, 0.0)
        np.testing.assert_allclose(found[0][k].numpy(), np.diag(V.T @ T @ V), atol=1e-11)
        np.testing.assert_allclose(found[1][k].numpy(), T @ t, atol=1e-12)


def test_single_precision_is_summed_in_double(rng):
    Z, V = rng.normal(size=(300, 2)), rng.choice([-1.0, 1.0], size=(300, 4))
    sources, _ = sources_of([RBF(1.0)], torch.tensor(Z, dtype=torch.float32))
    forms, _, _ = engine.device_forms(sources, 300, torch.tensor(V, dtype=torch.float32))
    K = RBF(1.0)(Z)
    np.fill_diagonal(K, 0.0)
    assert forms.dtype == torch.float64
    np.testing.assert_allclose(forms[0].numpy(), np.diag(V.T @ K @ V), rtol=0, atol=2e-6 * K.sum())


def test_given_matrices_are_not_overwritten(rng):
    K = torch.tensor(np.cov(rng.normal(size=(9, 30))))
    before = K.clone()
    sources, _ = sources_of([mercer.Precomputed()], K)
    forms, _, _ = engine.device_forms(sources, 9, torch.ones((9, 1), dtype=torch.float64))
    assert float(forms[0, 0]) == pytest.approx(float(K.sum() - K.diagonal().sum()))
    assert (K == before).all()


def test_what_does_not_fit_is_refused(rng):
    sources, _ = sources_of([RBF(1.0)], torch.tensor(rng.normal(size=(5000, 1))))
    V = torch.ones((5000, 1), dtype=torch.float64)
    with (
        mercer.config(memory="1MB"),
        pytest.raises(MemoryBudgetExceeded, match="fewer permutations"),
    ):
        engine.device_forms(sources, 5000, V)


@pytest.mark.parametrize("entries", [1, 400, 10**6])
def test_shuffles(rng, entries, monkeypatch):
    monkeypatch.setattr(engine, "FORM_ENTRIES", entries)
    A, B, L = (rng.normal(size=(12, 12)) for _ in range(3))
    F, G = rng.normal(size=(12, 3)), rng.normal(size=(12, 2))
    P = np.array([rng.permutation(12) for _ in range(7)])
    moved = [L[np.ix_(p, p)] for p in P]
    tensors = [torch.tensor(M) for M in (A, B, L, F, G, P)]
    sums = engine.gathered_sums(tensors[:2], tensors[2], tensors[5])
    wanted = [[(M * a).sum() for a in (A, B)] for M in moved]
    np.testing.assert_allclose(sums.numpy(), wanted, atol=1e-12)
    squares = engine.shuffled_products(tensors[3], tensors[4], tensors[5])
    wanted = [((F.T @ G[p]) ** 2).sum() for p in P]
    np.testing.assert_allclose(squares.numpy(), wanted, rtol=1e-12)
