"""Smooth risks with features that are mostly zero: the same answers in less memory."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import mercer
from mercer import KernelERM, KernelLogisticRegression, Linear, Spectrum
from mercer.errors import MemoryBudgetExceeded
from mercer.estimator import facts
from mercer.losses import Logistic
from mercer.models.risk.smooth import smooth_rows
from mercer.operators import LowRank
from mercer.solvers import IRLS, SmoothERM
from mercer.solvers.risk.metric import PrimalMetric, SparseMetric


def strings(rng, n, length=20):
    return ["".join(row) for row in rng.choice(list("acgt"), (n, length))]


def count(X):
    return np.array([s.count("ac") + s.count("g") for s in X])


def answers(model):
    named = ("dual_coef_", "intercept_", "coef_")
    out = [np.asarray(getattr(model, name), dtype=float) for name in named]
    values = getattr(model, "decision_function", model.predict)
    return [*out, values(model.X_fit_), model.degrees_of_freedom()]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize(
    ("model", "classes"),
    [
        (KernelLogisticRegression(alpha=0.3), 2),
        (KernelLogisticRegression(alpha=1e-2), 3),
        (KernelERM(loss="squared_hinge", alpha=0.1), 2),
        (KernelERM(loss="huber", alpha=0.1), 0),
    ],
)
def test_sparse_features_give_the_answers_of_dense_ones(
    rng, monkeypatch, model, classes, offset, weighted
):
    X = strings(rng, 300)
    y = count(X) % classes if classes else count(X).astype(float)
    w = rng.integers(0, 3, 300).astype(float) if weighted else None
    model.set_params(kernel=Spectrum(4), fit_intercept=offset)
    sparse = answers(model.fit(X, y, sample_weight=w))
    left_out = model.loo()
    rows = smooth_rows(model.kernel_, model.X_fit_)
    assert isinstance(rows, LowRank) and sp.issparse(rows.F)
    monkeypatch.setattr(facts, "SPARSE", -1.0)
    assert not sp.issparse(smooth_rows(model.kernel_, model.X_fit_).F)
    dense = answers(model.fit(X, y, sample_weight=w))
    for a, b in zip(sparse, dense, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    if classes:
        np.testing.assert_array_equal(left_out, model.loo())
    else:
        np.testing.assert_allclose(left_out, model.loo(), atol=1e-8)


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("outputs", [(), (3,)])
def test_the_metric_is_that_of_dense_features(rng, offset, outputs):
    n, D = 40, 15
    F = sp.random_array((n, D), density=0.1, random_state=rng, format="csr") + 0.0
    w, h = rng.random(n) + 0.1, rng.random(n)
    h[::4] = 0.0
    thin, full = SparseMetric(F, w, 0.3, offset), PrimalMetric(F.toarray(), w, 0.3, offset)
    c, g = rng.standard_normal((D, *outputs)), rng.standard_normal((n, *outputs))
    np.testing.assert_allclose(thin.values(c), full.values(c), atol=1e-13)
    np.testing.assert_allclose(thin.gradient(c, g), full.gradient(c, g), atol=1e-13)
    assert (thin.sizes(g) >= full.sizes(g) - 1e-12).all()
    for curvatures in (h, np.zeros(n)):
        for a, b in zip(thin.leverage(curvatures), full.leverage(curvatures), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10)
        total = g.sum(axis=0)
        for a, b in zip(
            thin.step(total, full.gradient(c, g), total),
            full.step(total, full.gradient(c, g), total),
            strict=True,
        ):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    v = full.back(g - g.mean(axis=0))
    for start in (g - g.mean(axis=0), np.zeros_like(g), 1e12 * g):
        a = thin.coefficients(v, start)
        np.testing.assert_allclose(F.T @ a, v, atol=1e-9)
        assert not offset or np.abs(a.sum(axis=0)).max() < 1e-9


def test_far_features_and_degenerate_ones(rng):
    """Columns that are constant, zero, or nearly collinear end with a small gap all the same."""
    F = np.zeros((60, 30))
    F[np.arange(60), np.arange(60) % 28] = 1e4
    F[:, 29] = F[:, 3] * (1 + 1e-9)
    y = np.where(rng.random(60) < 0.5, -1.0, 1.0)
    sparse = IRLS().solve(SmoothERM(LowRank(sp.csr_array(F)), y, Logistic(), 1e-3))
    dense = IRLS().solve(SmoothERM(LowRank(F), y, Logistic(), 1e-3))
    assert sparse.converged
    assert sparse.primal == pytest.approx(dense.primal, rel=1e-7)


def test_low_rank_operators_take_sparse_factors(rng):
    F = sp.random_array((9, 4), density=0.4, random_state=rng)
    A, B = LowRank(F), LowRank(F.toarray())
    np.testing.assert_allclose(A.to_dense(), B.to_dense())
    np.testing.assert_allclose(A.diagonal(), B.diagonal())
    np.testing.assert_allclose(A @ np.eye(9), B.to_dense())
    whole = LowRank(sp.csr_array(np.eye(3, dtype=int)))
    assert whole.dtype == np.float64


@pytest.mark.parametrize(
    "model", [KernelLogisticRegression(), KernelERM(loss="squared_hinge")], ids=["log", "hinge"]
)
def test_dense_features_would_not_fit(rng, model):
    X = strings(rng, 4000)
    model.set_params(kernel=Spectrum(4))
    with mercer.config(memory="20 MB"):  # dense features ask for 33 MB, the matrix for 134
        model.fit(X, count(X) > 6)
        assert model.score(X, count(X) > 6) > 0.9


def test_the_matrix_is_taken_where_only_it_fits(rng):
    X = rng.standard_normal((200, 150))
    y = X[:, 0] > 0
    model = KernelLogisticRegression(Linear(), alpha=1.0)
    expected = model.fit(X, y).decision_function(X)
    with mercer.config(memory=600_000):  # the features need 960 000, the matrix 336 000
        values = model.fit(X, y).decision_function(X)
        assert not isinstance(smooth_rows(model.kernel_, X), LowRank)
    np.testing.assert_allclose(values, expected, atol=1e-6)
    with mercer.config(memory=300_000):
        iterated = model.fit(X, y)  # neither fits: conjugate gradients, in bands of the matrix
        assert iterated.plan_.method == "cg"
        np.testing.assert_allclose(iterated.decision_function(X), expected, atol=1e-6)
        with pytest.raises(MemoryBudgetExceeded, match="200 rows"):
            KernelLogisticRegression(Linear(), alpha=1.0, solver="newton").fit(X, y)
    with mercer.config(memory=100_000), pytest.raises(MemoryBudgetExceeded, match="200 × 150"):
        model.fit(X, y)
