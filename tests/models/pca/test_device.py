"""Kernel principal components on the torch engine: the numbers of NumPy, from the same code."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import mercer
from mercer import RBF, KernelPCA, Laplacian, Spectrum
from mercer.engines import tiles
from mercer.errors import InvalidInput, MemoryBudgetExceeded, NotPositiveDefinite
from mercer.operators.base import OnDevice
from mercer.solvers import Cholesky, DenseEigen, Eigen, Linear

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 4))
NEW = RNG.standard_normal((15, 4))
W = RNG.uniform(0.5, 2.0, len(X))
SOLVERS = ("dense", "subspace", "cholesky")


def on_torch(**options):
    return mercer.config(engine="torch", device="cpu", **options)


def near(got, expected, tol=1e-10):
    got, expected = np.asarray(got), np.asarray(expected)
    assert isinstance(got, np.ndarray) and got.shape == expected.shape
    assert np.abs(got - expected).max(initial=0.0) <= tol * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("weighted", [False, True])
def test_components_and_answers(solver, weighted, monkeypatch):
    monkeypatch.setattr(tiles, "DEVICE_ENTRIES", 900)
    w = np.where(np.arange(len(X)) % 9 == 0, 0.0, W) if weighted else None
    given = {"n_components": 4, "kernel": RBF(2.0), "eigen_solver": solver, "tol": 1e-12}
    a = KernelPCA(**given, fit_inverse_transform=True).fit(X, sample_weight=w)
    b = KernelPCA(**given, fit_inverse_transform=True).fit(
        torch.tensor(X), sample_weight=None if w is None else torch.tensor(w)
    )
    assert b.eigen_solver_ == solver and b.solution_.converged
    assert isinstance(b.X_fit_, np.ndarray)
    for name in ("eigenvalues_", "eigenvectors_", "component_coef_", "explained_variance_ratio_"):
        near(getattr(b, name), getattr(a, name))
    points, Z = torch.tensor(NEW), a.transform(NEW)
    near(b.transform(points), Z)
    near(b.transform(NEW), Z)
    near(b.reconstruction_error(points), a.reconstruction_error(NEW))
    near(b.score_samples(points), a.score_samples(NEW))
    near(b.dual_coef_, a.dual_coef_)
    near(b.inverse_transform(torch.tensor(Z)), a.inverse_transform(Z), 1e-6)
    near(b.fit_transform(torch.tensor(X), sample_weight=w), a.fit_transform(X, sample_weight=w))
    near(pickle.loads(pickle.dumps(b)).transform(NEW), Z)


@pytest.mark.parametrize("preimage", ["ridge", "fixed_point"])
def test_way_back(preimage):
    given = {"n_components": 3, "kernel": RBF(2.0), "fit_inverse_transform": True}
    a = KernelPCA(**given, preimage=preimage).fit(X)
    Z = a.transform(NEW)
    want = a.inverse_transform(Z)
    with on_torch():
        near(a.inverse_transform(Z), want, 1e-10 if preimage == "ridge" else 1e-6)


def test_shares_all_components_and_other_data():
    for count in (0.9, None):
        a = KernelPCA(count, kernel=Laplacian()).fit(X)
        with on_torch():
            b = KernelPCA(count, kernel=Laplacian()).fit(X)
        assert len(a.eigenvalues_) == len(b.eigenvalues_)
        near(b.eigenvalues_, a.eigenvalues_)
    K = RBF(2.0)(X)
    a = KernelPCA(3, kernel="precomputed", eigen_solver="dense").fit(K)
    before = K.copy()
    b = KernelPCA(3, kernel="precomputed", eigen_solver="dense").fit(torch.tensor(K))
    with on_torch():
        KernelPCA(3, kernel="precomputed", eigen_solver="dense").fit(K)
    np.testing.assert_array_equal(K, before)  # nothing is centred in the memory of the user
    near(b.eigenvalues_, a.eigenvalues_)
    texts = ["abc", "abd", "bcd", "cda", "aab"]
    a = KernelPCA(2, kernel=Spectrum(2), eigen_solver="dense").fit(texts)
    with on_torch():
        near(
            KernelPCA(2, kernel=Spectrum(2), eigen_solver="dense").fit(texts).transform(texts),
            a.transform(texts),
        )
    a, b = KernelPCA(2, kernel="linear").fit(X), KernelPCA(2, kernel="linear").fit(torch.tensor(X))
    near(b.transform(torch.tensor(NEW)), a.transform(NEW))
    a = KernelPCA(2, kernel=RBF(2.0)).partial_fit(X[:40]).partial_fit(X[40:])
    b = (
        KernelPCA(2, kernel=RBF(2.0))
        .partial_fit(torch.tensor(X[:40]))
        .partial_fit(torch.tensor(X[40:]))
    )
    near(b.transform(NEW), a.transform(NEW), 1e-7)


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_point_equal_points_and_refusals(solver):
    for rows in (np.ones((1, 2)), np.ones((6, 2))):
        model = KernelPCA(2, kernel="rbf" if len(rows) == 1 else RBF(), eigen_solver=solver)
        model.set_params(kernel=RBF())
        near(model.fit(torch.tensor(rows)).eigenvalues_, model.fit(rows).eigenvalues_)
    bad = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(NotPositiveDefinite):
        KernelPCA(2, kernel="precomputed", eigen_solver=solver).fit(torch.tensor(bad))
    with pytest.raises(InvalidInput, match="features"):
        KernelPCA(2, kernel=RBF(), eigen_solver=solver).fit(X).transform(torch.zeros(2, 7))


def test_budget():
    with on_torch(memory=100_000), pytest.raises(MemoryBudgetExceeded):
        KernelPCA(3, kernel=RBF(2.0), eigen_solver="dense").fit(X)
    many = RNG.standard_normal((300, 4))
    want = KernelPCA(3, kernel=RBF(2.0), eigen_solver="dense").fit(many).eigenvalues_
    with on_torch(memory=700_000):  # the matrix does not fit, and is made in tiles
        model = KernelPCA(3, kernel=RBF(2.0), eigen_solver="subspace").fit(many)
    near(model.eigenvalues_, want, 1e-9)
    want = KernelPCA(3, kernel=RBF(2.0), eigen_solver="dense").fit(X).eigenvalues_
    with on_torch(memory=8 * 80 * 80 * 7):
        near(KernelPCA(3, kernel=RBF(2.0), eigen_solver="dense").fit(X).eigenvalues_, want)


def test_operator_on_a_device():
    B = RNG.standard_normal((7, 7))
    K = B @ B.T
    A, V = OnDevice(torch.tensor(K), symmetric=True), RNG.standard_normal((7, 2))
    near(A @ V, K @ V)
    near(A @ V[:, 0], K @ V[:, 0])
    near(A.diagonal(), K.diagonal())
    near(A.block([1, 3], slice(2, 5)), K[[1, 3]][:, 2:5])
    near(A.to_dense(), K)
    near(OnDevice(torch.tensor(B)).T @ V, B.T @ V)
    for k in (1, 5, 7):
        found, want = (DenseEigen().solve(Eigen(M, k)) for M in (A, K))
        assert found.converged
        near(found.value.values, want.value.values)
        near(found.value.vectors, want.value.vectors, 1e-9)
    near(Cholesky().solve(Linear(A, V, ridge=0.1)).value, np.linalg.solve(K + 0.1 * np.eye(7), V))
    near(A.to_dense(), K, 0.0)
    with pytest.raises(InvalidInput, match="NaN"):
        DenseEigen().solve(
            Eigen(OnDevice(torch.full((2, 2), float("nan")).double(), symmetric=True))
        )
