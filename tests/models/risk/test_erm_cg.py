"""Newton's method with systems solved by conjugate gradients: the answers of a factorisation."""

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer import RBF, KernelERM, KernelLogisticRegression
from mercer.losses import Huber
from mercer.models.risk.smooth import IterativeGram

rng = np.random.default_rng(8)
X = rng.standard_normal((160, 2))
TWO = (X[:, 0] * X[:, 1] > 0).astype(int)
THREE = np.digitize(X[:, 0], [-0.5, 0.6])
Y = np.sin(3 * X[:, 0])
Y[3] = 50.0
W = rng.uniform(0.1, 2.0, 160)
W[:9] = 0.0


@pytest.mark.parametrize(
    ("make", "y"),
    [
        (KernelLogisticRegression(RBF(), 0.1), TWO),
        (KernelLogisticRegression(RBF(0.3), 1e-4, False), TWO),
        (KernelLogisticRegression(RBF(), 0.1, class_weight="balanced"), THREE),
        (KernelLogisticRegression("linear", 0.1), THREE),
        (KernelERM(RBF(), "squared_hinge", 0.1), THREE),
        (KernelERM(RBF(), "exponential", 0.1), TWO),
        (KernelERM(RBF(), Huber(0.1), 0.01), Y),
        (KernelERM(RBF(), "squared", 0.1), Y),
    ],
)
@pytest.mark.parametrize("weights", [None, W])
def test_equals_a_factorisation(make, y, weights):
    exact = clone(make).set_params(tol=1e-9).fit(X, y, weights)
    model = clone(make).set_params(solver="cg", tol=1e-9).fit(X, y, weights)
    assert model.plan_.method == "cg" and model.solution_.converged
    np.testing.assert_allclose(model._values(X), exact._values(X), atol=1e-5)
    np.testing.assert_allclose(model.dual_coef_, exact.dual_coef_, atol=1e-4)
    assert model.solution_.gap <= 1e-8 * abs(model.solution_.primal) + 1e-12
    if weights is None and make.alpha > 1e-3:
        np.testing.assert_allclose(model.loo(), exact.loo(), atol=1e-3)


@pytest.mark.parametrize("storage", ["double", "single", "none"])
def test_systems(storage):
    K = RBF()(X)
    gram = IterativeGram(RBF(), X, storage=storage)
    s = rng.uniform(0.0, 1.0, 160)
    s[::5] = 0.0
    gram.factor(s, 0.01)
    R = rng.standard_normal((160, 2))
    R[::5] = 0.0
    want = np.linalg.solve(0.01 * np.eye(160) + s[:, None] * K * s, R)
    np.testing.assert_allclose(gram.solve(R), want, atol=1e-3 * np.abs(want).max())
    assert (gram.solve(R[:, 0])[::5] == 0).all()
    np.testing.assert_allclose(gram @ R, K @ R, atol=1e-10)
    gram.factor(s, 0.01, rough=True)  # the preconditioner alone: linear, symmetric, positive
    P = gram.solve(np.eye(160))
    np.testing.assert_allclose(P, P.T, atol=1e-8 * np.abs(P).max())
    used = s > 0
    assert np.linalg.eigvalsh(P[np.ix_(used, used)]).min() > 0


def test_precomputed_and_tiles():
    K = RBF()(X)
    want = KernelLogisticRegression(RBF(), 0.1, tol=1e-9).fit(X, TWO).decision_function(X)
    model = KernelLogisticRegression("precomputed", 0.1, solver="cg", tol=1e-9).fit(K, TWO)
    np.testing.assert_allclose(model.decision_function(K), want, atol=1e-5)
    x, y = np.tile(X, (8, 1)), np.tile(TWO, 8)
    with mercer.config(memory=2**22):  # K takes 13 MB
        tiles = KernelLogisticRegression(RBF(), 0.8, solver="cg", tol=1e-9).fit(x, y)
    np.testing.assert_allclose(tiles.decision_function(X), want, atol=1e-5)
