"""Newton's method with its matrices on a GPU: the same fits, and no matrix comes to main memory."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer.errors import MemoryBudgetExceeded
from mercer.kernels import RBF
from mercer.losses import Huber
from mercer.operators import Gram
from mercer.solvers.risk import SharedGram, gram, shared_gram
from mercer.solvers.risk.gram import DeviceGram

pytest.importorskip("torch", reason="torch is not installed")
from tests.pretend_cuda import pretend_cuda, to_cuda

N = 150
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1]


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    """Let the device factorise matrices of some points already."""
    monkeypatch.setattr(gram, "DEVICE_FROM", 20)
    monkeypatch.setattr("mercer.models.risk.base.SMALL", 20)


MODELS = {
    "logistic": mercer.KernelLogisticRegression(RBF(1.0), alpha=0.1, tol=1e-10),
    "three classes": mercer.KernelLogisticRegression(RBF(1.0), alpha=0.1, tol=1e-10),
    "squared hinge": mercer.KernelERM(RBF(1.0), loss="squared_hinge", alpha=0.1, tol=1e-10),
    "huber": mercer.KernelERM(RBF(1.0), loss=Huber(0.05), alpha=0.1, tol=1e-10),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("solver", ["auto", "cholesky"])
def test_fits_are_those_of_main_memory(name, solver):
    model, y = MODELS[name].set_params(solver=solver), Y
    if name != "huber":
        y = np.digitize(Y, [-0.5, 0.7] if name == "three classes" else [0.0])
    weights = 0.5 + np.arange(N) % 3
    answer = "predict" if name == "huber" else "decision_function"
    expected = getattr(model.fit(X, y, weights), answer)(X)
    with pretend_cuda() as log:
        model.fit(to_cuda(X), y, weights)
        few = name == "three classes"  # rows, for whose coefficients all classes are solved at once
        assert few or max(log.copies) < 8 * N * N, "a matrix came to main memory"
        np.testing.assert_allclose(getattr(model, answer)(to_cuda(X)), expected, atol=1e-7)
    assert model.solution_.converged


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.0])
def test_factors_are_those_of_the_weighted_matrix(share):
    """Where few weights are positive their rows alone are factorised."""
    s = np.where(RNG.random(N) < share, RNG.uniform(0.1, 2.0, N), 0.0)
    used, R = s > 0, RNG.standard_normal((N, 2))
    K = RBF(1.0)(X)
    B = s[:, None] * K * s + 0.3 * np.eye(N)
    expected = np.where(used[:, None], np.linalg.solve(B, np.where(used[:, None], R, 0.0)), 0.0)
    with pretend_cuda():
        found = shared_gram(Gram(RBF(1.0), to_cuda(X), keep=False))
        assert isinstance(found, DeviceGram)
        found.factor(s, 0.3)
        np.testing.assert_allclose(found.inverse_diagonal(), np.diag(np.linalg.inv(B)), atol=1e-9)
        T = np.where(used[:, None], R, 0.0)
        np.testing.assert_allclose(found.solve(T), expected, atol=1e-9)
        squares = np.einsum("ij,ij->j", T, np.linalg.solve(B, T))
        np.testing.assert_allclose(found.squares(T), squares, atol=1e-8)
        np.testing.assert_allclose(found @ R, K @ R, atol=1e-10)
        rows = found.block(np.array([3, 1]), slice(None))
        np.testing.assert_allclose(rows, K[[3, 1]], atol=1e-12)


def test_little_room_on_the_device_is_told():
    with pretend_cuda(free=8 * N * N), pytest.raises(MemoryBudgetExceeded, match="and its factor"):
        shared_gram(Gram(RBF(1.0), to_cuda(X), keep=False))


def test_few_points_and_arrays_stay_in_main_memory(monkeypatch):
    assert type(shared_gram(Gram(RBF(1.0), X, keep=False))) is SharedGram
    monkeypatch.setattr(gram, "DEVICE_FROM", N)
    with pretend_cuda():
        assert type(shared_gram(Gram(RBF(1.0), to_cuda(X), keep=False))) is SharedGram


def test_clusters_are_those_of_main_memory():
    """Kernel k-means reads the matrix where it is computed."""
    model = mercer.KernelKMeans(4, RBF(1.0), method="exact", random_state=0)
    expected = model.fit(X)
    labels, inertia, distances = expected.labels_, expected.inertia_, expected.transform(X)
    with pretend_cuda() as log:
        model.fit(to_cuda(X))
        assert max(log.copies) < 8 * N * N, "the matrix came to main memory"
        np.testing.assert_array_equal(model.labels_, labels)
        np.testing.assert_array_equal(model.predict(to_cuda(X)), labels)
        np.testing.assert_allclose(model.transform(to_cuda(X)), distances, atol=1e-9)
    np.testing.assert_allclose(model.inertia_, inertia, rtol=1e-12)
