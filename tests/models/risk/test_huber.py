"""KernelHuberRegressor: outliers, its limits δ → 0 and ∞, units, degenerate targets."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import mercer
from mercer import RBF, KernelERM, KernelHuberRegressor, KernelRidge
from mercer.errors import InvalidInput
from mercer.losses import Huber


def waves(n=50, seed=0):
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0, 6, (n, 1)), axis=0)
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(n)


def test_outliers_do_not_pull():
    X, y = waves()
    spoilt = y.copy()
    spoilt[[5, 20, 33]] += [50.0, -80.0, 1e6]
    model = KernelHuberRegressor(RBF(1.0), 0.1, 0.2).fit(X, spoilt)
    np.testing.assert_array_equal(np.flatnonzero(model.outliers_)[:1], [5])
    assert model.outliers_[[5, 20, 33]].all() and model.outliers_.sum() < 12
    assert abs(model.predict(X) - np.sin(X[:, 0])).max() < 0.4
    assert abs(KernelRidge(RBF(1.0), 0.1).fit(X, spoilt).predict(X)).max() > 100
    assert (abs(0.1 * model.dual_coef_) <= 0.2 * (1 + 1e-12)).all()
    # what an outlier is does not matter, only that it is one
    spoilt[33] = 1e9
    again = clone(model).fit(X, spoilt)
    np.testing.assert_allclose(again.predict(X), model.predict(X), atol=1e-6)


def test_limits_of_delta():
    X, y = waves()
    wide = KernelHuberRegressor(RBF(1.0), 0.1, 1e3).fit(X, y)
    ridge = KernelRidge(RBF(1.0), 0.1, fit_intercept=True).fit(X, y)
    np.testing.assert_allclose(wide.predict(X), ridge.predict(X), atol=1e-10)
    assert not wide.outliers_.any()
    # δ → 0: Huber/δ is the absolute error
    narrow = KernelHuberRegressor(RBF(1.0), 0.1 * 1e-5, 1e-5, tol=1e-10).fit(X, y)
    absolute = KernelERM(RBF(1.0), "absolute", 0.1, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(narrow.predict(X), absolute.predict(X), atol=1e-3)


@pytest.mark.parametrize("offset", [True, False])
def test_weights_against_scipy(offset):
    X, y = waves(25)
    y[7] += 30
    w = np.random.default_rng(1).uniform(0, 2, 25)
    w[3] = 0
    model = KernelHuberRegressor(RBF(1.0), 0.3, 0.15, offset).fit(X, y, w)
    root = np.linalg.cholesky(RBF(1.0)(X) + 1e-11 * np.eye(25))
    loss = Huber(0.15)

    def objective(u):
        z = root @ u[:25] + offset * u[25]
        g = w * loss.gradient(y, z)
        slope = np.append(root.T @ g + 0.3 * u[:25], offset * g.sum())
        return w @ loss.value(y, z) + 0.15 * u[:25] @ u[:25], slope

    best = minimize(
        objective, np.zeros(26), jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-11}
    )
    assert model.solution_.primal == pytest.approx(best.fun, rel=1e-6)
    assert model.dual_coef_[3] == 0 and not model.outliers_[3]


def test_units_of_the_target():
    """In units of 1000 with δ and everything else the same, predictions are 1000 times as large."""
    X, y = waves()
    y[4] = 9.0
    one = KernelHuberRegressor(RBF(1.0), 0.1, 0.3).fit(X, y)
    two = KernelHuberRegressor(RBF(1.0), 0.1, 300.0).fit(X, 1000 * y)
    np.testing.assert_allclose(two.predict(X), 1000 * one.predict(X), rtol=1e-9, atol=1e-7)
    np.testing.assert_array_equal(one.outliers_, two.outliers_)


def test_the_offset_goes_with_the_targets():
    X, y = waves()
    y = np.round(y * 2**20) / 2**20
    before = KernelHuberRegressor(RBF(1.0), 0.1, 0.2).fit(X, y)
    after = KernelHuberRegressor(RBF(1.0), 0.1, 0.2).fit(X, y + 2.0**20)
    np.testing.assert_allclose(after.predict(X) - 2.0**20, before.predict(X), atol=1e-12 * 2**20)
    assert before.loo() == pytest.approx(after.loo() - 2.0**20, abs=1e-8)


def test_everything_an_outlier():
    """No row has curvature: slopes are ±δ, and f is what they pull."""
    X = np.array([[0.0], [10.0], [20.0], [30.0]])
    y = np.array([-1e4, 1e4, -1e4, 1e4])
    model = KernelHuberRegressor(RBF(1.0), 1.0, 0.5).fit(X, y)
    assert model.outliers_.all() and model.solution_.converged
    np.testing.assert_allclose(model.dual_coef_, 0.5 * np.sign(y), rtol=1e-12)
    assert np.isfinite(model.loo()).all()


def test_degenerate_targets_and_refusals():
    one = KernelHuberRegressor().fit([[1.0]], [4.0])
    assert one.predict([[2.0]])[0] == pytest.approx(4.0)
    flat = KernelHuberRegressor().fit(np.arange(5.0)[:, None], np.full(5, -3.0))
    np.testing.assert_allclose(flat.predict([[9.0]]), -3.0)
    X, y = waves(10)
    for params, text in [
        ({"delta": 0}, "delta=0"),
        ({"delta": "x"}, "delta='x'"),
        ({"alpha": 0}, "alpha=0"),
        ({"delta": np.inf}, "delta=inf"),
    ]:
        with pytest.raises(InvalidInput, match=rf"KernelHuberRegressor: {text}"):
            KernelHuberRegressor(**params).fit(X, y)
    with pytest.raises(InvalidInput, match="2 columns"):
        KernelHuberRegressor().fit(X, np.stack([y, y], 1))


def test_life(tmp_path):
    X, y = waves()
    model = KernelHuberRegressor("rbf", 0.1, 0.2).fit(X, y)
    assert cross_val_score(model, X, y, cv=3).shape == (3,)
    mercer.save(model, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.outliers_, model.outliers_)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
