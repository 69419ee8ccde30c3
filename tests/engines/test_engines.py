"""Which engine computes, and that both compute the same."""

import builtins
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import mercer
from mercer import RBF, Constant, FromFunction, Linear, Minimum, Precomputed
from mercer.domains import namespace
from mercer.engines import NumpyEngine, TorchEngine, pick
from mercer.errors import InvalidInput


def test_arrays_are_numpys():
    assert type(pick(np.ones((2, 2)))) is NumpyEngine
    assert namespace(np.ones(2)) is np and namespace(None) is np
    assert NumpyEngine().to_numpy([1.0]).shape == (1,)


def test_tensors_are_torchs(torch):
    T = torch.ones(2, 2)
    assert type(pick(T)) is TorchEngine and type(pick(np.ones(2), T)) is TorchEngine
    assert namespace(T) is torch
    with mercer.config(engine="numpy"), pytest.raises(InvalidInput, match="torch tensors"):
        pick(T)


def test_the_engine_can_be_chosen_for_arrays(torch, rng):
    X, Y = rng.standard_normal((9, 3)), rng.standard_normal((4, 3))
    kernels = [RBF(), Linear(), RBF() + 1.0, Constant(2.0), RBF().on([0, 2]), RBF("median")]
    for kernel in kernels:
        expected = kernel(X)
        with mercer.config(engine="torch"):
            got = kernel(X)
        assert type(got) is np.ndarray
        np.testing.assert_allclose(got, expected, atol=1e-13)
    with mercer.config(engine="torch"):
        np.testing.assert_allclose(RBF()(sp.csr_array(X)), RBF()(X), atol=1e-13)
        np.testing.assert_allclose(RBF().diag(X), 1.0)
        np.testing.assert_allclose(RBF().matmul(X, Y, np.ones(4)), RBF()(X, Y).sum(1), atol=1e-12)
        np.testing.assert_array_equal(Precomputed()(np.eye(2)), np.eye(2))
        np.testing.assert_array_equal(Precomputed().diag(np.eye(2)), 1.0)
        np.testing.assert_array_equal(Minimum()([1.0, 2.0]), [[1, 1], [1, 2]])
        V = np.ones(9)
        V.setflags(write=False)
        X.setflags(write=False)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert type(RBF().matmul(X, None, V)) is np.ndarray
            assert type(RBF().matmul(X, None, V[::-1])) is np.ndarray


def test_objects_stay_in_main_memory_whatever_the_engine(torch):
    with mercer.config(engine="torch"):
        K = FromFunction(lambda a, b: float(len(a) * len(b)))(["a", "bb"])
    np.testing.assert_array_equal(K, [[1, 2], [2, 4]])


def test_torch_that_is_not_installed_is_named(monkeypatch, rng):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "torch":
            raise ImportError("No module named 'torch'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with (
        mercer.config(engine="torch"),
        pytest.raises(InvalidInput, match=r"pip install 'mercer\[torch\]'"),
    ):
        RBF()(rng.standard_normal((3, 2)))


def test_float32_tensors_far_from_the_origin(torch):
    T = (10_000 + torch.arange(8.0)[:, None] / 4).to(torch.float32)
    gaps = (T.double() - T.double().T) ** 2
    np.testing.assert_allclose(RBF()(T).numpy(), torch.exp(-0.5 * gaps).numpy(), atol=2e-6)
    split = torch.cat([T, -T])
    gaps = (split.double() - split.double().T) ** 2
    np.testing.assert_allclose(RBF()(split).numpy(), torch.exp(-0.5 * gaps).numpy(), atol=2e-6)


def test_tensors_in_tiles(torch, rng):
    from mercer.engines.tiles import small_tiles

    T = torch.as_tensor(rng.standard_normal((31, 3)))
    V = torch.as_tensor(rng.standard_normal((31, 2)))
    K = RBF()(T)
    with small_tiles(50):
        np.testing.assert_allclose(RBF()(T).numpy(), K.numpy(), atol=1e-14)
        np.testing.assert_allclose(RBF().matmul(T, None, V).numpy(), (K @ V).numpy(), atol=1e-12)
        np.testing.assert_array_equal(RBF()(T).numpy(), RBF()(T).T.numpy())


def test_the_budget_holds_for_tensors_too(torch):
    from mercer.errors import MemoryBudgetExceeded

    with mercer.config(memory="1MB"), pytest.raises(MemoryBudgetExceeded):
        RBF()(torch.ones(1000, 2))
