"""Searches in a box: known optima, starts, steps too far, coarse objectives, few evaluations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from mercer.errors import InvalidInput, MemoryBudgetExceeded, NotPositiveDefinite, speaking_for
from mercer.kernels import RBF, Precomputed
from mercer.models.gp.parameters import Parameters
from mercer.models.gp.search import coarse_rows, maximise


def scales(p, start=1.0, **options):
    """So many free log-parameters, starting at log(start)."""
    return Parameters(RBF(np.full(p, float(start))), **options)


def quadratic(H, centre):
    """−½(θ − c)ᵀH(θ − c) and its gradient."""

    def objective(theta):
        d = theta - centre
        return -0.5 * d @ H @ d, -H @ d

    return objective


def spd(p, condition, seed=0):
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((p, p)))[0]
    return (Q * np.geomspace(1.0, condition, p)) @ Q.T


# ----------------------------------------------------------------------------------- the optimum
@pytest.mark.parametrize(("p", "condition"), [(1, 1.0), (3, 10.0), (6, 1e3), (10, 1e4)])
def test_quadratics(p, condition):
    centre = np.linspace(-1, 2, p)
    found = maximise(quadratic(spd(p, condition), centre), scales(p))
    assert found.converged and found.value > -2e-3
    assert found.n_evaluations == len(found.tried) <= 20 + 6 * p
    assert np.abs(found.gradient).max() <= 0.01


@pytest.mark.parametrize("seed", range(5))
def test_quadratics_in_a_box_end_where_the_quadratic_programme_does(seed):
    rng = np.random.default_rng(seed)
    p, H = 5, spd(5, 30.0, seed)
    centre = 2 * rng.standard_normal(p)
    limits = {f"length_scale[{i}]": tuple(np.exp(np.sort(rng.normal(0, 1, 2)))) for i in range(p)}
    parameters = scales(p, bounds=limits)
    found = maximise(quadratic(H, centre), parameters, tol=1e-8)
    low, high = parameters.bounds.T
    exact = minimize(
        lambda t: tuple(-v for v in quadratic(H, centre)(t)),
        parameters.theta,
        jac=True,
        bounds=parameters.bounds,
        options={"ftol": 1e-15, "gtol": 1e-10},
    )
    assert found.value == pytest.approx(-exact.fun, abs=1e-6)
    assert (found.theta >= low).all() and (found.theta <= high).all()
    at = (found.theta == low) | (found.theta == high)
    for name, here in zip(parameters.names, at, strict=True):
        assert (name in found.message) == here


def rosenbrock(theta):
    x, y = theta
    value = -(100 * (y - x * x) ** 2 + (1 - x) ** 2)
    return value, np.array([400 * x * (y - x * x) + 2 * (1 - x), -200 * (y - x * x)])


def test_a_bent_valley_is_followed_to_its_end():
    parameters = Parameters(RBF([np.exp(-1.2), np.e]))
    found = maximise(rosenbrock, parameters, tol=1e-6)
    np.testing.assert_allclose(found.theta, 1.0, atol=2e-3)
    assert found.converged and found.n_evaluations < 60
    boxed = Parameters(RBF([np.exp(-1.2), 1.0]), bounds={"length_scale[1]": (0.1, np.exp(0.25))})
    found = maximise(rosenbrock, boxed, tol=1e-6)
    exact = minimize(lambda x: (0.25 - x * x) ** 2 * 100 + (1 - x) ** 2, 0.5).x[0]
    np.testing.assert_allclose(found.theta, [exact, 0.25], atol=1e-3)
    assert "at the upper bound: length_scale[1]" in found.message


def test_flat_directions_do_not_move_or_fail():
    def objective(theta):
        return -((theta[0] - 0.5) ** 2), np.array([-2 * (theta[0] - 0.5), 0.0])

    found = maximise(objective, scales(2))
    assert found.converged and found.theta[1] == 0.0
    assert found.theta[0] == pytest.approx(0.5, abs=0.02)
    flat = maximise(lambda t: (3.0, np.zeros(2)), scales(2))
    assert flat.converged and flat.n_evaluations == 1 and flat.value == 3.0


def test_tails_that_level_off_end():
    """A length scale that stops to matter gains c·ℓ⁻² and no more."""
    found = maximise(lambda t: (-np.exp(-2 * t[0]), 2 * np.exp(-2 * t)), scales(1))
    assert found.converged and found.value > -0.006


def test_nothing_to_choose():
    found = maximise(lambda t: (1.5, np.zeros(0)), Parameters(Precomputed()))
    assert found.converged and found.value == 1.5 and found.n_evaluations == 1
    assert found.theta.shape == (0,) and "nothing" in found.message
    pinned = scales(1, bounds={"length_scale": (2.0, 2.0)})
    found = maximise(quadratic(np.eye(1), np.zeros(1)), pinned)
    assert found.theta[0] == pytest.approx(np.log(2.0)) and found.n_evaluations == 1


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e6])
def test_values_of_any_size(unit):
    shift = 1e3 * unit
    H = spd(3, 20.0) * unit

    def objective(theta):
        value, slope = quadratic(H, np.ones(3))(theta)
        return value + shift, slope

    found = maximise(objective, scales(3))
    assert found.value > shift - max(2e-3, 1e-8 * unit) and found.converged


@pytest.mark.parametrize("tol", [0.0, 1e-9, 1.0, 1e9])
def test_tolerances_of_any_size(tol):
    found = maximise(quadratic(spd(3, 20.0), np.ones(3)), scales(3), tol=tol)
    assert found.converged and found.n_evaluations < 60
    assert found.value > -max(2 * tol, 1e-9) or tol > 1


# ------------------------------------------------------------------------------------- restarts
def two_hills(theta):
    """A low hill at 0 and a higher one at 3."""
    t = float(theta[0])
    a, b = np.exp(-(t**2)), 3 * np.exp(-((t - 3) ** 2))
    return a + b, np.array([-2 * t * a - 2 * (t - 3) * b])


def test_restarts_find_the_higher_hill_and_repeat():
    parameters = scales(1, start=0.8)
    alone = maximise(two_hills, parameters)
    assert alone.theta[0] == pytest.approx(0.0, abs=0.1)
    more = maximise(two_hills, parameters, n_restarts=6, rng=0)
    assert more.theta[0] == pytest.approx(3.0, abs=0.1) and more.value > 2.9
    again = maximise(two_hills, parameters, n_restarts=6, rng=np.random.RandomState(0))
    assert np.array_equal(again.tried, more.tried)
    few = maximise(two_hills, parameters, coarse=two_hills, ratio=1.0, n_restarts=6, rng=0)
    assert few.theta[0] == pytest.approx(3.0, abs=0.1) and few.n_evaluations < 10
    assert few.n_coarse > few.n_evaluations


def test_restarts_that_fail_are_left_out():
    def objective(theta):
        if theta[0] > 0.5:
            raise NotPositiveDefinite("no")
        return two_hills(theta)

    for coarse in (None, objective):
        found = maximise(objective, scales(1), coarse=coarse, n_restarts=8, rng=0)
        assert found.theta[0] == pytest.approx(0.0, abs=0.1)


# -------------------------------------------------------------------------------- steps too far
@pytest.mark.parametrize(
    "failure",
    [NotPositiveDefinite("no"), InvalidInput("overflow"), OverflowError(), np.nan, np.inf],
)
def test_where_the_objective_fails_is_too_far(failure):
    def objective(theta):
        if theta[0] > 1.0:
            if isinstance(failure, Exception):
                raise failure
            return failure, np.full(2, np.nan)
        return quadratic(np.diag([1.0, 40.0]), np.array([0.9, -1.0]))(theta)

    found = maximise(objective, scales(2))
    assert found.converged and found.value > -2e-3
    assert np.isfinite(found.tried).all()


def test_a_wall_before_the_optimum_is_said():
    def objective(theta):
        if theta[0] > 1.0:
            raise NotPositiveDefinite("no")
        return quadratic(np.eye(1), np.full(1, 3.0))(theta)

    found = maximise(objective, scales(1))
    assert not found.converged and "not positive definite" in found.message
    assert 0.9 < found.theta[0] <= 1.0


def test_failures_at_the_start_are_raised():
    def broken(theta):
        raise NotPositiveDefinite("smallest eigenvalue −1")

    with pytest.raises(NotPositiveDefinite, match="smallest"):
        maximise(broken, scales(2), coarse=rosenbrock)
    with speaking_for("GaussianProcessRegressor"):
        with pytest.raises(InvalidInput, match=r"not finite at the start length_scale\[0\] = 1"):
            maximise(lambda t: (np.nan, t), scales(2))
        with pytest.raises(InvalidInput, match="not finite"):
            maximise(lambda t: (1.0, t * np.nan), scales(2))


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, MemoryBudgetExceeded("no"), ZeroDivisionError]
)
def test_what_stops_a_search_and_what_does_not(error):
    calls = []

    def objective(theta):
        calls.append(1)
        if len(calls) == 3:
            raise error
        return rosenbrock(theta)

    if error is ZeroDivisionError:
        assert maximise(objective, scales(2)).value > -1e-2
    else:
        with pytest.raises(error if isinstance(error, type) else type(error)):
            maximise(objective, scales(2))
        assert len(calls) == 3


def test_max_iter_is_said_and_never_worse_than_the_start():
    parameters = Parameters(RBF([np.exp(-1.2), np.e]))
    start = rosenbrock(parameters.theta)[0]
    for most in (0, 1, 2, 5):
        found = maximise(rosenbrock, parameters, max_iter=most)
        assert not found.converged and "max_iter" in found.message
        assert found.value >= start and found.n_evaluations <= 2 * most + 3


def test_values_that_disagree_with_gradients_are_a_failure():
    found = maximise(lambda t: (-float(t @ t), -50 * np.ones(2)), scales(2))
    assert not found.converged and "do not agree" in found.message


def test_rounding_at_the_optimum_is_convergence():
    rng = np.random.default_rng(0)

    def objective(theta):
        value, slope = quadratic(np.diag([1e4, 1.0]), np.full(2, 0.3))(theta)
        return 1e6 + value + 1e-4 * rng.standard_normal(), slope + 0.05 * rng.standard_normal(2)

    found = maximise(objective, scales(2))
    assert found.converged and found.value > 1e6 - 0.01
    assert found.n_evaluations < 40


# ------------------------------------------------------------------------------- the two levels
def test_a_misleading_coarse_objective_costs_only_time():
    full, wrong = quadratic(np.eye(2), np.ones(2)), quadratic(np.eye(2), np.full(2, -4.0))
    found = maximise(full, scales(2), coarse=wrong, ratio=2.0)
    assert found.converged and found.value > -2e-3
    # the part sees the low hill only, whose top is a local optimum of all rows too
    start = scales(1, start=np.exp(1.8))
    part = quadratic(np.eye(1), np.zeros(1))
    trap = maximise(two_hills, start, coarse=part, enough=0.5)
    assert trap.theta[0] == pytest.approx(0.0, abs=0.1)  # trusted, wrongly
    found = maximise(two_hills, start, coarse=part, enough=np.inf)
    alone = maximise(two_hills, start)
    assert found.theta[0] == pytest.approx(3.0, abs=0.1)
    assert found.value >= alone.value - 1e-3 and found.converged


def test_starts_that_fall_behind_are_left():
    """A slow valley from the start, while the part knows the summit."""

    def slow(theta):
        value, slope = quadratic(spd(8, 1e5), np.ones(8))(theta)
        return 10 * value, 10 * slope

    summit = quadratic(spd(8, 1e5), np.ones(8))
    found = maximise(slow, scales(8), coarse=summit, ratio=10.0, enough=np.inf)
    alone = maximise(slow, scales(8), enough=np.inf)
    assert found.converged and found.value > -1e-2
    assert found.n_evaluations < alone.n_evaluations


def test_given_starts_are_followed_as_well():
    parameters = scales(1, start=0.8)
    parameters.also(RBF([np.exp(2.5)]), None)
    for coarse in (None, two_hills, quadratic(np.eye(1), np.zeros(1))):
        found = maximise(two_hills, parameters, coarse=coarse, enough=np.inf)
        assert found.theta[0] == pytest.approx(3.0, abs=0.1)


def test_a_coarse_objective_that_fails_is_left_out():
    def broken(theta):
        raise NotPositiveDefinite("no")

    found = maximise(quadratic(np.eye(2), np.ones(2)), scales(2), coarse=broken)
    assert found.converged and found.n_coarse == 1 and found.value > -2e-3


@pytest.mark.parametrize("ratio", [4.0, None])
def test_curvature_of_the_coarse_objective_is_used(ratio):
    H = spd(8, 300.0)
    coarse, full = quadratic(H / 4, np.full(8, 0.9)), quadratic(H, np.ones(8))
    found = maximise(full, scales(8), coarse=coarse, ratio=ratio)
    assert found.value > -1e-2 and found.converged
    assert found.n_evaluations <= (4 if ratio else 12)
    assert maximise(full, scales(8)).n_evaluations > 12


# ---------------------------------------------------------------------------------------- priors
def test_priors_move_the_optimum_to_the_mode_of_the_product():
    sd, at = 0.5, np.log(3.0)

    class Law:
        def logpdf(self, x):
            return -0.5 * ((np.log(x) - at) / sd) ** 2

    parameters = scales(1, priors={"length_scale": Law()})
    found = maximise(quadratic(np.eye(1), np.zeros(1)), parameters, tol=1e-9)
    mode = at / sd**2 / (1 + 1 / sd**2)
    assert found.theta[0] == pytest.approx(mode, abs=1e-5)
    value = -0.5 * mode**2 - 0.5 * ((mode - at) / sd) ** 2
    assert found.value == pytest.approx(value, abs=1e-8)


def test_the_end_of_a_support_stops_a_search():
    parameters = scales(1, start=2.0, priors={"length_scale": stats.uniform(1.0, 4.0)})
    found = maximise(quadratic(np.eye(1), np.full(1, 1.0)), parameters)
    assert found.theta[0] == pytest.approx(1.0, abs=0.05) and found.converged
    found = maximise(quadratic(np.eye(1), np.full(1, 3.0)), parameters)
    assert 4.8 < np.exp(found.theta[0]) <= 5.0


def test_callbacks_see_every_value():
    seen = []
    found = maximise(
        rosenbrock, scales(2), coarse=rosenbrock, callback=lambda t, v: seen.append((*t, v))
    )
    assert np.array_equal(np.array(seen), found.tried)
    assert found.value == found.tried[:, -1].max()


# ---------------------------------------------------------------------------------- rows to ask
def test_rows_of_the_coarse_objective():
    assert coarse_rows(1000) is None and coarse_rows(0) is None
    rows = coarse_rows(4000)
    assert len(rows) == 1000 and np.array_equal(rows, coarse_rows(4000))
    assert (np.diff(rows) > 0).all() and rows[0] >= 0 and rows[-1] < 4000
    assert len(coarse_rows(1001)) == len(coarse_rows(1900)) == 500


def test_rows_of_weight_zero_are_not_asked():
    w = np.ones(2500)
    w[::2] = 0
    rows = coarse_rows(2500, w)
    assert (rows % 2 == 1).all() and len(rows) == 500
    w[:700] = 0
    assert coarse_rows(2500, w) is None


@pytest.mark.parametrize("columns", [1, 3])
def test_the_choice_does_not_depend_on_the_order_of_the_rows(columns):
    rng = np.random.default_rng(0)
    key = rng.standard_normal((1200, columns))
    order = rng.permutation(1200)
    one, two = key[coarse_rows(1200, key=key)], key[order][coarse_rows(1200, key=key[order])]
    assert np.array_equal(np.sort(one, axis=0), np.sort(two, axis=0))
