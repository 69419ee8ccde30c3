"""A device that fills up: work is cut smaller, or refused by name, and answers stay the same."""

import numpy as np
import pytest

import mercer
from mercer.errors import MemoryBudgetExceeded
from mercer.kernels.bound import Bound
from mercer.memory import named_when_full
from mercer.models import GaussianProcessRegressor, KernelDensity, KernelPCA
from mercer.operators import device as device_forms
from mercer.statistics import hsic_test, mmd_agg_test, mmd_test

torch = pytest.importorskip("torch")


def full(*_, **__):
    raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate")


def test_only_that_error_is_renamed():
    with (
        pytest.raises(MemoryBudgetExceeded, match=r"fit: .*out of memory\.\)\. Wait, or"),
        named_when_full("fit", "Wait"),
    ):
        full()
    with pytest.raises(RuntimeError, match="else"), named_when_full("fit", "Wait"):
        raise RuntimeError("else")
    with named_when_full("fit", "Wait"):
        pass


@pytest.fixture
def points():
    rng = np.random.default_rng(8)
    return rng.normal(size=(60, 2)), rng.normal(0.5, size=(50, 2))


@pytest.fixture
def small(monkeypatch):
    """Tensors of products and of distances may have so many entries, or the device is full."""
    limit = []

    def guarded(function):
        def call(*args, **kwargs):
            out = function(*args, **kwargs)
            return full() if limit and out.numel() > limit[0] else out

        return call

    monkeypatch.setattr(torch.Tensor, "__matmul__", guarded(torch.Tensor.__matmul__))
    monkeypatch.setattr(torch, "exp2", guarded(torch.exp2))
    monkeypatch.setattr(torch.Tensor, "index_select", guarded(torch.Tensor.index_select))
    monkeypatch.setattr(torch.Tensor, "__getitem__", guarded(torch.Tensor.__getitem__))
    return limit


@pytest.mark.parametrize("test", [mmd_test, mmd_agg_test])
def test_forms_are_made_in_smaller_bands(points, monkeypatch, test):
    options = {"rng": 0, "n_permutations": 20}
    X, Y = map(torch.tensor, points)
    wanted = test(X, Y, **options)
    bands = []
    monkeypatch.setattr(device_forms, "FORM_LEAST", 8)
    sums = device_forms._combined

    def watched(tiles, places):
        bands.append(len(tiles[0]))
        if len(tiles[0]) > 20 and len(bands) % 3 == 2 - (
            test is mmd_test
        ):  # also in the middle of a band
            full()
        return sums(tiles, places)

    monkeypatch.setattr(device_forms, "_combined", watched)
    found = test(X, Y, **options)
    assert max(bands) > 20
    assert min(bands) < 60
    assert found.pvalue == wanted.pvalue
    np.testing.assert_allclose(found.null, wanted.null, rtol=1e-8, atol=1e-10)


def test_shuffled_matrices_are_fewer_at_a_time(points, small):
    X = points[0]
    Y = X[:, :1] ** 2
    wanted = hsic_test(X, Y, rng=0, n_permutations=40)
    small.append(5 * 60 * 60)
    found = hsic_test(torch.tensor(X), torch.tensor(Y), rng=0, n_permutations=40)
    assert found.pvalue == wanted.pvalue
    np.testing.assert_allclose(found.null, wanted.null, rtol=0, atol=1e-9)


def test_densities_of_fewer_points_at_a_time(points, small):
    X, Y = points
    model = KernelDensity(bandwidth=0.4).fit(X)
    wanted = model.score_samples(Y)
    small.append(7 * 60)
    with mercer.config(engine="torch", device="cpu"):
        np.testing.assert_allclose(model.score_samples(Y), wanted, rtol=1e-12)
        small[0] = 59
        with pytest.raises(MemoryBudgetExceeded, match="over 60 points"):
            model.score_samples(Y)


@pytest.mark.parametrize(
    "model",
    [
        KernelPCA(2, kernel="rbf", eigen_solver="dense"),
        KernelPCA(2, kernel="rbf", eigen_solver="subspace"),
        GaussianProcessRegressor(optimizer=None, noise=0.1),
    ],
)
def test_matrices_without_room_are_refused_by_name(points, monkeypatch, model):
    empty = Bound.empty

    def careful(self, shape, wide=False):
        return full() if wide and shape == (60, 60) else empty(self, shape, wide)

    monkeypatch.setattr(Bound, "empty", careful)
    X = points[0]
    with pytest.raises(MemoryBudgetExceeded, match="60 × 60"):
        model.fit(torch.tensor(X), X[:, 0])
    monkeypatch.setattr(Bound, "empty", empty)
    model.fit(torch.tensor(X), X[:, 0])


def test_draws_without_room_are_refused_by_name(points, monkeypatch):
    monkeypatch.setattr("mercer.operators.device.Place.vectors", full)
    with pytest.raises(MemoryBudgetExceeded, match=r"mmd_test: .*a rank"):
        mmd_test(*map(torch.tensor, points), rng=0, n_permutations=9)
