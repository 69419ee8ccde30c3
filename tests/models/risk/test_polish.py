"""The equations of free coefficients: exact from near the optimum, none where they fail."""

from __future__ import annotations

import numpy as np

from mercer import RBF
from mercer.losses import Absolute, EpsilonInsensitive, Hinge, Pinball
from mercer.models.margin.problems import gram_rows
from mercer.models.risk.kinked import fit_dual, polished


def rows_of(n=12, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, 2))
    return X, gram_rows(RBF(1.0), X)


def test_an_interpolant_is_found_from_anywhere_near():
    _, rows = rows_of()
    K, rng = rows.store, np.random.default_rng(1)
    t = rng.standard_normal(12)
    a = np.linalg.solve(K, t)
    wide = np.full(12, 2 * abs(a).max())
    got, f = polished(rows, a + 1e-3 * rng.standard_normal(12), t, -wide, wide, False)
    np.testing.assert_allclose(got, a, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(f, t, atol=1e-12)
    np.testing.assert_allclose(K @ got, f, atol=1e-12)


def test_the_sum_is_put_right_and_bounds_are_kept():
    _, rows = rows_of()
    rng = np.random.default_rng(2)
    bound, x = np.full(12, 9.0), rng.standard_normal(12)
    x[:4] = -9.0, 9.0, 9.0, -9.0
    x[4:] -= x[4:].mean()
    t, a = rows.store @ x + 0.7, x + 1e-4 * rng.standard_normal(12)
    a[:4] = -9.0, 9.0, 9.0 - 1e-11, -9.0 + 1e-11
    got, f = polished(rows, a, t, -bound, bound, True)
    np.testing.assert_array_equal(got[:4], x[:4])
    np.testing.assert_allclose(got, x, atol=1e-8)
    assert abs(got.sum()) < 1e-12
    np.testing.assert_allclose(t[4:] - f[4:], 0.7, atol=1e-12)


def test_none_where_there_is_nothing_to_solve_or_the_answer_is_outside():
    X, rows = rows_of()
    one, t = np.ones(12), 100 * np.arange(12.0)
    assert polished(rows, -one, t, -one, one, True) is None  # all at a bound
    assert polished(rows, 0 * one, t, -one, one, False) is None  # the interpolant is outside
    double = gram_rows(RBF(1.0), np.repeat(X[:6], 2, axis=0))
    assert polished(double, 0 * one, t, -1e9 * one, 1e9 * one, False) is None  # singular, unequal
    rows.exact = False
    assert polished(rows, 0 * one, 0.1 * one, -one, one, False) is None


def test_given_arrays_are_left_alone():
    _, rows = rows_of()
    a, wide = np.full(12, 1e-3), np.full(12, 1e6)
    before = a.copy()
    polished(rows, a, np.arange(12.0), -wide, wide, False)
    np.testing.assert_array_equal(a, before)


def test_points_on_a_kink_are_on_it_to_the_last_digits():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, 2))
    y, w = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(40), np.ones(40)
    for loss in (Absolute(), Pinball(0.2), EpsilonInsensitive(0.1), Hinge()):
        t = np.where(y > 0, 1.0, -1.0) if isinstance(loss, Hinge) else y
        limits = {"tol": 1e-6, "max_iter": None, "max_time": None}
        fit = fit_dual(RBF(1.0), X, t, loss, 0.5, w, True, **limits)
        assert fit.solution.gap <= 1e-11 * fit.solution.primal  # with what rounding may hide
        assert fit.solution.residual <= 1e-13
