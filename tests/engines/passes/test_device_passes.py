"""Passes over rows on a device, run by torch on the CPU, against those in main memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import mercer
from mercer.engines.passes import device as device_passes
from mercer.engines.passes.base import MemoryPass, row_pass

torch = pytest.importorskip("torch")

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@dataclass(frozen=True)
class Gap:
    """G = w(F − y), and Σ w(F − y)²."""

    width: int = 2
    n_sums: int = 1

    def __call__(self, F, y, w, xp):
        gap = F - y
        G = gap if w is None else w[:, None] * gap
        return G, (G * gap).sum().reshape(1)


@dataclass(frozen=True)
class Weights:
    """G = w, without values."""

    width: int = 1
    n_sums: int = 0

    def __call__(self, F, y, w, xp):
        return w[:, None], xp.zeros(0)


@dataclass(frozen=True)
class Only:
    """No G, one sum."""

    width: int = 0
    n_sums: int = 1

    def __call__(self, F, y, w, xp):
        return None, (F * F).sum().reshape(1)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    return X, X[::10] + 0.1, rng.standard_normal((300, 2)), rng.random(300)


KERNELS = [
    mercer.RBF(1.5),
    mercer.Matern(nu=0.5),
    mercer.Matern(nu=0.8),
    mercer.Polynomial(2) + 0.5 * mercer.RBF(),
    mercer.Laplacian(),
    mercer.RBF().on([0, 2]) * mercer.Linear(),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("device", DEVICES)
def test_pass_equals_that_in_memory(data, kernel, device, monkeypatch):
    X, Z, y, w = data
    monkeypatch.setattr(device_passes, "ROWS", 77)  # several chunks, the last a small one
    monkeypatch.setattr(device_passes, "LEAST", 8)
    V = np.random.default_rng(1).standard_normal((30, 2))
    given = [torch.as_tensor(A, device=device) for A in (X, Z, y, w)]
    for step, U in ((Gap(), V), (Weights(), None), (Only(), V)):
        want, sums = MemoryPass(kernel, X, Z, y, w).pull(U, step)
        got, totals = row_pass(kernel, given[0], given[1], given[2], given[3]).pull(U, step)
        assert isinstance(got, np.ndarray) and got.dtype == np.float64
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10 * np.abs(want).max(initial=1))
        np.testing.assert_allclose(totals, sums, rtol=1e-10)


def test_arrays_go_to_the_device_of_the_options(data):
    X, Z, y, w = data
    V = np.ones((30, 2))
    with mercer.config(engine="torch", device="cpu"):
        rows = row_pass(mercer.RBF(), X, Z, y, w)
    assert isinstance(rows, device_passes.DevicePass) and not rows.single
    assert rows.Z.device.type == "cpu"
    got, _ = rows.pull(V, Gap())  # where it began, whatever the options are now
    np.testing.assert_allclose(got, MemoryPass(mercer.RBF(), X, Z, y, w).pull(V, Gap())[0], 1e-10)


def test_single_precision_keeps_a_direction_that_is_no_float32(data):
    X, Z, y, w = data
    X, Z = X.astype(np.float32), Z.astype(np.float32)
    rows = row_pass(mercer.RBF(), torch.as_tensor(X), torch.as_tensor(Z), y, w)
    assert rows.single
    # Large coefficients that nearly cancel: rounding them to float32 would show.
    V = np.random.default_rng(2).standard_normal((30, 2)) * 1e4
    want, _ = MemoryPass(mercer.RBF(), X.astype(float), Z.astype(float), y, w).pull(V, Gap())
    got, _ = rows.pull(V, Gap())
    assert np.linalg.norm(got - want) < 1e-5 * np.linalg.norm(want)


def test_points_that_are_no_tensors_stay_in_memory():
    strings = mercer.Spectrum(2)
    X = strings.domain.check(["abab", "bbba", "aaaa"])
    with mercer.config(engine="torch", device="cpu"):
        rows = row_pass(strings, X, X, np.ones((3, 1)), None)
    assert isinstance(rows, MemoryPass)


def test_overflow_is_refused(data):
    X, Z, y, w = data
    rows = row_pass(mercer.Exponential(1e-3), torch.as_tensor(X), torch.as_tensor(Z), y, w)
    with pytest.raises(mercer.errors.InvalidInput, match="overflows"):
        rows.pull(np.ones((30, 2)), Gap())


def test_weights_may_be_tensors(data):
    X, _, y, w = data
    fits = [
        mercer.KernelRidge(mercer.RBF(), alpha=0.1).fit(X, y, sample_weight=given)
        for given in (w, torch.as_tensor(w))
    ]
    np.testing.assert_array_equal(fits[0].dual_coef_, fits[1].dual_coef_)


def test_gradients_of_coefficients_survive(data):
    X, Z, _, _ = data
    V = torch.ones(30, 1, dtype=torch.float64, requires_grad=True)
    mercer.RBF().matmul(torch.as_tensor(X), torch.as_tensor(Z), V).sum().backward()
    np.testing.assert_allclose(V.grad[:, 0], mercer.RBF()(X, Z).sum(0), rtol=1e-10)


def test_a_device_alone_means_torch():
    with mercer.config(device="cpu"):
        assert mercer.get_config().engine == "torch"
    with mercer.config(device="cpu", engine="numpy"):
        assert mercer.get_config().engine == "numpy"


@pytest.mark.parametrize(
    "make", [lambda: torch.eye(3).to_sparse(), lambda: torch.eye(3).to("meta")]
)
def test_tensors_without_numbers_in_rows_are_refused(make):
    with pytest.raises(mercer.errors.InvalidInput, match="to_dense"):
        mercer.RBF()(make())


@pytest.mark.parametrize("kernel", KERNELS[:3], ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_at_many_rows_come_in_chunks(data, kernel, dtype, monkeypatch):
    X, Z, _, _ = data
    monkeypatch.setattr(device_passes, "ROWS", 77)
    monkeypatch.setattr(device_passes, "LEAST", 8)
    V = np.random.default_rng(3).standard_normal((30, 2))
    rows = torch.as_tensor(X, dtype=getattr(torch, dtype))
    want = kernel(X, Z) @ V
    bound = 1e-5 if dtype == "float32" else 1e-10
    for coefficients, exact in ((V, want), (V[:, 0], want[:, 0])):
        got = device_passes.values_on_device(kernel, rows, Z, coefficients)
        assert isinstance(got, np.ndarray) and got.shape == exact.shape
        assert np.abs(got - exact).max() < bound * np.abs(exact).max()


def test_predictions_at_float32_tensors_are_not_widened(data, monkeypatch):
    X, _, y, _ = data
    model = mercer.KernelRidge(mercer.RBF(), alpha=0.1).fit(X, y)
    seen = []
    bind = mercer.RBF._bind
    monkeypatch.setattr(
        mercer.RBF, "_bind", lambda self, A, B=None: seen.append(A.dtype) or bind(self, A, B)
    )
    got = model.predict(torch.as_tensor(X, dtype=torch.float32))
    assert set(seen) == {torch.float32}
    np.testing.assert_allclose(got, model.predict(X), atol=1e-4 * np.abs(y).max())


def test_sparse_rows_are_written_out_chunk_by_chunk(data, monkeypatch):
    import scipy.sparse as sp

    X, Z, y, w = data
    monkeypatch.setattr(device_passes, "ROWS", 77)
    monkeypatch.setattr(device_passes, "LEAST", 8)
    X = np.where(np.abs(X) < 1, 0.0, X)
    with mercer.config(device="cpu"):
        rows = row_pass(mercer.RBF(), sp.csr_array(X), sp.csr_array(Z), y, w)
        got, _ = rows.pull(np.ones((30, 2)), Gap())
    want, _ = MemoryPass(mercer.RBF(), X, Z, y, w).pull(np.ones((30, 2)), Gap())
    np.testing.assert_allclose(got, want, rtol=1e-10)
