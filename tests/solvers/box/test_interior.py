"""The interior point method against brute force, the KKT conditions, and hopeless scales."""

import numpy as np
import pytest
from scipy.optimize import minimize

from mercer.solvers.box.newton import interior_point
from tests.solvers.boxes import gram


def problem(seed, n, C, kind="gaussian"):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    y = np.where(X[:, 0] + rng.standard_normal(n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return gram(kind, X), -y, np.minimum(0, C * y), np.maximum(0, C * y)


def violation(Q, p, lower, upper, a, split):
    G = Q @ a + p
    up, down = a < upper, a > lower
    if split is None:
        return max(np.max(G[down], initial=0.0), np.max(-G[up], initial=0.0))
    worst = 0.0
    for part in (slice(0, split), slice(split, len(a))):
        low = np.min(G[part][up[part]], initial=np.inf)
        high = np.max(G[part][down[part]], initial=-np.inf)
        worst = max(worst, high - low)
    return worst


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("kind", ["gaussian", "linear"])
def test_the_conditions_of_a_minimum_hold(C, kind):
    Q, p, lower, upper = problem(0, 60, C, kind)
    a = interior_point(Q, p, lower, upper, np.zeros(60), 60)
    assert (a >= lower).all() and (a <= upper).all()
    assert abs(a.sum()) <= 1e-9 * np.abs(a).sum()
    size = np.abs(Q).max() * np.abs(a).sum()
    assert violation(Q, p, lower, upper, a, 60) <= 1e-6 + 1e-13 * size


@pytest.mark.parametrize("split", [None, 8, 20])
def test_brute_force_finds_nothing_lower(split):
    Q, p, lower, upper = problem(1, 20, 2.0)
    start = np.clip(np.random.default_rng(2).standard_normal(20), lower, upper)
    a = interior_point(Q, p, lower, upper, start, split)
    constraints = []
    if split is not None:
        for part in (slice(0, split), slice(split, 20)):
            if part.start < part.stop:
                constraints.append(
                    {"type": "eq", "fun": lambda x, q=part: x[q].sum() - start[q].sum()}
                )
    best = minimize(
        lambda x: 0.5 * x @ Q @ x + p @ x,
        start,
        jac=lambda x: Q @ x + p,
        bounds=list(zip(lower, upper, strict=True)),
        constraints=constraints,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    ).fun
    assert 0.5 * a @ Q @ a + p @ a <= best + 1e-8 * abs(best)
    for c in constraints:
        assert abs(c["fun"](a)) <= 1e-9


def test_variables_without_room_stay_where_they_are():
    Q, p, lower, upper = problem(3, 30, 1.0)
    lower[4] = upper[4] = 0.25
    start = np.zeros(30)
    start[4], start[0] = 0.25, -0.25
    start = np.clip(start, lower, upper)
    a = interior_point(Q, p, lower, upper, start, 30)
    assert a[4] == 0.25
    assert abs(a.sum() - start.sum()) <= 1e-10
    assert violation(Q, p, lower, upper, a, 30) <= 1e-6


def test_a_box_that_is_one_point_has_nothing_to_find():
    assert interior_point(np.eye(2), np.ones(2), np.ones(2), np.ones(2), np.ones(2), 2) is None


@pytest.mark.parametrize("scale", [0.0, 1e-200, 1e200])
def test_hopeless_scales_are_survived(scale):
    Q, p, lower, upper = problem(4, 15, 1.0)
    a = interior_point(scale * Q, p, lower, upper, np.zeros(15), 15)
    assert a is None or (np.isfinite(a).all() and (a >= lower).all() and (a <= upper).all())
