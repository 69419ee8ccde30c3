"""Losses with kinks in few features: against linear programs, any scale, ties, limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from mercer.checks import Clock
from mercer.solvers.risk.kinked import Kinked


def program(F, t, lower, upper, offset):
    """Return the least Σ max(lower e, upper e), e = Fv + b − t, by a linear program."""
    n = len(F)
    A = np.column_stack([F, np.ones(n)]) if offset else F
    k = A.shape[1]
    cost = np.concatenate([np.zeros(k), upper, -lower])
    A = np.hstack([A, -np.eye(n), np.eye(n)])
    bounds = [(None, None)] * k + [(0, None)] * (2 * n)
    return linprog(cost, A_eq=A, b_eq=t, bounds=bounds).fun


def solved(F, t, lower, upper, alpha, offset, **limits):
    problem = Kinked(F, t, lower, upper, alpha, offset)
    c, s, steps = problem.solve(**limits)
    c, s = problem.polished(c, s)
    return problem.point(c, s), steps


def values(F, t, lower, upper, alpha, point):
    """Return primal and dual value from the definitions."""
    e = F @ point.v + point.b - t
    primal = np.maximum(lower * e, upper * e).sum() + 0.5 * alpha * point.v @ point.v
    # max over s of −tᵀs − ‖Fᵀs‖²/(2 alpha)
    g = F.T @ point.s
    return primal, -(t @ point.s) - g @ g / (2 * alpha)


@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("seed", range(15))
def test_primal_is_dual(seed, offset):
    rng = np.random.default_rng(seed)
    n, D = int(rng.integers(2, 60)), int(rng.integers(1, 6))
    F, t = rng.standard_normal((n, D)), rng.standard_normal(n) + 3.0 * (seed % 3)
    if seed % 4 == 1:
        F, t = np.round(F), np.round(t)  # ties
    w, level, alpha = rng.uniform(0.2, 3, n), rng.uniform(0.1, 0.9), 10.0 ** rng.uniform(-3, 3)
    lower, upper = -level * w, (1 - level) * w
    point, steps = solved(F, t, lower, upper, alpha, offset)
    primal, dual = values(F, t, lower, upper, alpha, point)
    assert steps < 60
    assert (point.s >= lower).all() and (point.s <= upper).all()
    assert not offset or abs(point.s.sum()) <= 1e-13 * w.sum()
    assert abs(primal - dual) <= 1e-9 * abs(primal) + 1e-13


@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("power", [-30, -9, 9])
def test_columns_and_penalty_have_no_unit(power, offset):
    """Small columns have a large penalty in their unit, which is that of their problem."""
    rng = np.random.default_rng(4)
    F, t, unit = rng.standard_normal((12, 3)), rng.standard_normal(12), 2.0**power
    lower, upper = np.full(12, -0.3), np.full(12, 0.7)
    point, _ = solved(F, t, lower, upper, 1e4, offset)
    other, _ = solved(unit * F, t, lower, upper, unit**2 * 1e4, offset)
    np.testing.assert_array_equal(unit * other.v, point.v)
    np.testing.assert_allclose(1e4 * point.v, -F.T @ point.s, atol=1e-12)


@pytest.mark.parametrize("far", [1.0, 1e3, 1e6])
def test_columns_of_any_size_reach_the_linear_program(far):
    """With a vanishing penalty the value is that of the program on columns of size 1."""
    rng = np.random.default_rng(1)
    Z, t = rng.standard_normal((80, 3)), rng.standard_normal(80)
    lower, upper = np.full(80, -0.3), np.full(80, 0.7)
    F = Z * [1.0, far, 1 / far]
    point, _ = solved(F, t, lower, upper, 1e-9, True)
    e = F @ point.v + point.b - t
    risk = np.maximum(lower * e, upper * e).sum()
    best = program(Z, t, lower, upper, True)
    small = 0.5e-9 * (point.v @ point.v)
    assert risk >= best - 1e-12 and risk <= best * (1 + 1e-9) + 1e5 * small


def test_rows_given_twice_and_columns_that_depend_on_one_another():
    rng = np.random.default_rng(2)
    F, t = rng.standard_normal((20, 2)), rng.standard_normal(20)
    F = np.column_stack([F, F[:, 0], np.zeros(20)])
    F, t = np.repeat(F, 3, axis=0), np.repeat(t, 3)
    one = np.ones(60)
    point, _ = solved(F, t, -one, one, 0.1, True)
    single, _ = solved(F[::3], t[::3], -3 * one[:20], 3 * one[:20], 0.1, True)
    primal, dual = values(F, t, -one, one, 0.1, point)
    assert primal - dual <= 1e-10 * primal
    np.testing.assert_allclose(point.v, single.v, atol=1e-10)
    assert point.v[0] == pytest.approx(point.v[2]) and abs(point.v[3]) < 1e-15


def test_no_features_and_no_steps():
    t, one = np.array([1.0, 2.0, 10.0]), np.ones(3)
    point, _ = solved(np.zeros((3, 0)), t, -one, one, 1.0, True)
    assert point.b == pytest.approx(2.0) and len(point.v) == 0
    for limits in ({"max_iter": 0}, {"clock": Clock(0.0)}):
        point, steps = solved(np.ones((3, 1)), t, -0.2 * one, 0.8 * one, 1.0, True, **limits)
        assert steps == 0 and abs(point.s.sum()) < 1e-15 and np.isfinite(point.v).all()
        assert (point.s >= -0.2).all() and (point.s <= 0.8).all()


@pytest.mark.parametrize("alpha", [1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("offset", [True, False])
def test_as_many_features_as_rows_meet_every_target(offset, alpha):
    """With a small penalty every slope is inside the box, and s = −alpha K⁻¹(t − b)."""
    rng = np.random.default_rng(3)
    F, t, one = rng.standard_normal((60, 60 - offset)), rng.standard_normal(60), np.ones(60)
    point, _ = solved(F, t, -one, one, alpha, offset)
    A = np.column_stack([F, np.ones(60)]) if offset else F
    c = np.linalg.solve(A, t)
    v, b = c[: F.shape[1]], c[F.shape[1] :].sum()
    best = 0.5 * alpha * v @ v
    primal, dual = values(F, t, -one, one, alpha, point)
    assert dual == pytest.approx(best, rel=1e-9)
    assert best * (1 - 1e-9) <= primal <= best + 1e-11
    np.testing.assert_allclose(point.v, v, atol=1e-11 * abs(v).max())
    assert point.b == pytest.approx(b, abs=1e-11)
    assert not offset or abs(point.s.sum()) <= 1e-14 * abs(point.s).sum()


@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize("alpha", [1.0, 1e-6, 1e-12])
def test_slopes_are_never_worse_than_none(alpha, steps):
    rng = np.random.default_rng(4)
    F, t, one = rng.standard_normal((50, 8)), rng.standard_normal(50), np.ones(50)
    problem = Kinked(F, t, -0.2 * one, 0.8 * one, alpha, True)
    c, s, _ = problem.solve(max_iter=steps)
    if steps < 3:
        s = np.clip(s + rng.uniform(-0.1, 0.1, 50), -0.2, 0.8)
    point = problem.point(*problem.polished(c, s))
    _, dual = values(F, t, -0.2 * one, 0.8 * one, alpha, point)
    assert dual >= 0
