"""Losses with kinks by weights of features: coefficients of the same function, any penalty."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from mercer import KernelERM, KernelQuantileRegressor
from mercer.kernels import Linear, Polynomial
from mercer.losses import Absolute, EpsilonInsensitive, Hinge, Pinball
from mercer.testing.certificates.risks import risk_residual

LOSSES = [Absolute(), Pinball(0.3), EpsilonInsensitive(0.1), Hinge()]


def data(name):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.standard_t(2, size=80)
    wide, t = rng.standard_normal((30, 60)), rng.standard_normal(30)
    return {
        "plain": (Linear(), X, y),
        "far": (Linear(), X * 1e4 + 5e4, y),
        "polynomial": (Polynomial(3), X, y),
        "wide": (Linear(), wide, t),
        "wide columns": (Linear(), wide * np.logspace(-1, 1, 60), t),
        "rows twice": (Linear(), np.repeat(wide, 2, axis=0), np.repeat(t, 2)),
        "other targets": (Linear(), np.repeat(wide, 2, axis=0), rng.standard_normal(60)),
        "zeros": (Linear(), np.zeros((20, 3)), y[:20]),
    }[name]


def quietly(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize(
    "name",
    ["plain", "far", "polynomial", "wide", "wide columns", "rows twice", "other targets", "zeros"],
)
def test_coefficients_have_the_function_of_the_weights(name, offset, loss):
    kernel, X, y = data(name)
    y = np.where(y > 0, 1.0, -1.0) if loss.kind == "classification" else y
    for alpha in (1.0, 1e-3, 1e-6, 1e-9, 1e-12):
        model = quietly(KernelERM(kernel, loss, alpha=alpha, fit_intercept=offset), X, y)
        said = model.decision_function(X) if loss.kind == "classification" else model.predict(X)
        got, size = np.ravel(model.function_(X)), abs(said).max()
        assert abs(got - said).max() <= 1e-8 * size + 1e-14, alpha
        solution, a = model.solution_, model.dual_coef_
        assert not offset or abs(a.sum()) <= 1e-13 * abs(a).sum()
        assert solution.dual >= -1e-12 and solution.dual <= solution.primal
        if name not in ("wide", "wide columns", "rows twice"):  # there the objective is rounding
            assert solution.converged, solution.message


def test_quantiles_have_the_function_of_their_weights():
    _, X, y = data("far")
    model = quietly(KernelQuantileRegressor("linear", [0.2, 0.7], alpha=1e-6), X, y)
    values = model._rearranged(model.function_(X))
    np.testing.assert_allclose(values, model.predict(X), atol=1e-8 * abs(y).max())


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_weights_over_many_decades_leave_no_row_on_the_wrong_side(seed, offset, loss):
    """Rows of tiny weight matter to no gap, and yet their coefficients are at the right end."""
    kernel, X, y = data("plain")
    w = 10.0 ** np.random.default_rng(seed).uniform(-12, 4, len(y))
    y = np.where(y > 0, 1.0, -1.0) if loss.kind == "classification" else y
    for alpha in (1.0, 1e-3):
        model = KernelERM(kernel, loss, alpha=alpha, fit_intercept=offset)
        model.fit(X, y, sample_weight=w)
        assert model.solution_.converged and model.solution_.residual <= 1e-9
        assert risk_residual(model, X, y) <= 1e-9
