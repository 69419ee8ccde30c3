"""Losses with kinks through their box dual: certificates, another solver, degenerate data."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from mercer import SVC, SVR
from mercer.errors import InvalidInput, NotPositiveDefinite, speaking_for
from mercer.kernels import RBF, Linear, Precomputed
from mercer.losses import Absolute, EpsilonInsensitive, Hinge, Huber, Logistic, Loss, Pinball
from mercer.models.margin.problems import gram_rows
from mercer.models.risk.fit import DUAL_LOSSES, best_offset
from mercer.models.risk.kinked import fit_dual
from mercer.models.risk.left_out import loo_dual

LOSSES = [
    Hinge(),
    Absolute(),
    Pinball(0.5),
    Pinball(0.05),
    EpsilonInsensitive(0.1),
    EpsilonInsensitive(0.0),
]
each = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def problem(seed, loss, n=None, duplicates=True):
    """Return random points, some of them twice, targets, weights, a penalty, an offset or none."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 31)) if n is None else n
    X = rng.standard_normal((n, 2))
    if duplicates and n > 6:
        X[:3] = X[3:6]
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(n) + rng.choice([0.0, 5.0])
    if loss.kind == "classification":
        y = np.where(y > np.median(y), 1.0, -1.0)
        y[:2] = -1.0, 1.0
    w = rng.uniform(0.3, 3.0, n)
    return X, y, w, float(10 ** rng.uniform(-2, 1)), bool(rng.integers(2))


def slopes(loss, y):
    """Return the lowest and highest slope of a loss, by its values far to both sides."""
    far = 1e6 * (1.0 + abs(y).max())
    low, high = (loss.value(y, x + 1.0) - loss.value(y, x) for x in (-far, far))
    return np.round(low, 6), np.round(high, 6)


def fit(X, y, loss, alpha, w, offset, kernel=None, **options):
    settings = {"tol": 1e-8, "max_iter": None, "max_time": None} | options
    with speaking_for("Test"):
        return fit_dual(kernel or RBF(1.0), X, y, loss, alpha, w, offset, **settings)


def values(X, y, loss, alpha, w, offset, found, kernel=None):
    """Return primal and dual value of a fit, from the definitions."""
    K = np.asarray((kernel or RBF(1.0))(X))
    a, b = found.dual_coef, found.intercept
    f = K @ a
    primal = w @ loss.value(y, f + b) + 0.5 * alpha * a @ f
    low, high = slopes(loss, y)
    u = -alpha * a / w
    assert (u >= low - 1e-9).all() and (u <= high + 1e-9).all()
    if offset:
        assert abs(a.sum()) <= 1e-12 * max(1.0, abs(a).sum())
    dual = -(w @ loss.conjugate(y, np.clip(u, low, high))) - 0.5 * alpha * a @ f
    return primal, dual


def minimum(X, y, loss, alpha, w, offset):
    """Return the least objective by SLSQP on the slopes of the loss, an independent dual solver."""
    K = np.asarray(RBF(1.0)(X))
    low, high = (w * bound for bound in slopes(loss, y))
    epsilon = getattr(loss, "epsilon", 0.0)
    n = len(y)
    # s = rise + fall with fall ≤ 0 ≤ rise, so that |s| is straight
    M = np.hstack([np.eye(n), np.eye(n)])
    bounds = [(0.0, max(h, 0.0)) for h in high] + [(min(v, 0.0), 0.0) for v in low]
    slope = np.concatenate([np.full(n, epsilon), np.full(n, -epsilon)]) + M.T @ y

    def value(z):
        s = M @ z
        return 0.5 / alpha * s @ K @ s + slope @ z, M.T @ (K @ s) / alpha + slope

    sums = {"type": "eq", "fun": lambda z: z.sum(), "jac": lambda z: np.ones(2 * n)}
    found = minimize(
        value,
        np.zeros(2 * n),
        jac=True,
        bounds=bounds,
        constraints=[sums] if offset else [],
        method="SLSQP",
        options={"maxiter": 2000, "ftol": 1e-13},
    )
    return -found.fun


@each
@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")  # older SLSQP
def test_thirty_random_problems(loss):
    """The gap is what it is said to be and below tol; the value is that of another solver."""
    for seed in range(30):
        X, y, w, alpha, offset = problem(seed, loss)
        found = fit(X, y, loss, alpha, w, offset)
        s = found.solution
        primal, dual = values(X, y, loss, alpha, w, offset, found)
        assert s.converged and s.message == ""
        assert 0 <= s.gap <= 1e-8 * abs(primal)
        assert s.primal == pytest.approx(primal, rel=1e-12)
        assert s.dual == pytest.approx(dual, rel=1e-9, abs=1e-12)
        size = max(1.0, abs(primal))  # what rounding may hide is part of the gap
        assert -1e-12 * size <= s.gap - (primal - dual) <= 1e-9 * size
        assert minimum(X, y, loss, alpha, w, offset) == pytest.approx(primal, rel=1e-6, abs=1e-9)
        np.testing.assert_array_equal(s.value, found.dual_coef)
        f = np.asarray(RBF(1.0)(X)) @ found.dual_coef
        np.testing.assert_allclose(found.product, f, atol=1e-10 * (1 + abs(f).max()))


@each
@pytest.mark.parametrize("kernel", [RBF(1.0), Linear()], ids=repr)
def test_the_formula_of_the_dual_value_needs_no_clipping(loss, kernel):
    """Coefficients at a bound may be an ulp beyond it; conjugates allow for that."""
    for seed in range(5):
        X, y, _, _, _ = problem(seed, loss, n=30)
        w = np.random.default_rng(seed).uniform(0.1, 5.0, 30)
        found = fit(X, y, loss, 100.0, w, True, kernel=kernel)
        a = found.dual_coef
        dual = -(w @ loss.conjugate(y, -100.0 * a / w)) - 50.0 * a @ np.asarray(kernel(X)) @ a
        assert dual == pytest.approx(found.solution.dual, rel=1e-9)


@each
def test_the_offset_minimises_the_primal_value(loss):
    rng = np.random.default_rng(1)
    for n in (2, 3, 9):
        y = rng.integers(-3, 4, n).astype(float)
        if loss.kind == "classification":
            y = np.where(np.arange(n) % 2, 1.0, -1.0)
        f, w = rng.integers(-2, 3, n) / 2.0, rng.integers(1, 4, n).astype(float)
        b = best_offset(loss, y, f, w)
        grid = np.linspace(-9, 9, 3601)
        sums = w @ loss.value(y[:, None], f[:, None] + grid[None])
        best = w @ loss.value(y, f + b)
        assert best <= sums.min() + 1e-9
        # The middle of the interval of minima
        good = grid[sums <= sums.min() + 1e-9]
        assert b == pytest.approx(0.5 * (good[0] + good[-1]), abs=0.006)


def test_the_offset_of_a_pinball_is_the_quantile():
    y, w = np.arange(10.0), np.ones(10)
    for level, expected in ((0.3, 2.5), (0.5, 4.5), (0.25, 2.0), (0.05, 0.0), (0.99, 9.0)):
        assert best_offset(Pinball(level), y, 0 * y, w) == expected


@each
def test_a_constant_added_to_y_is_added_to_the_offset(loss):
    if loss.kind == "classification":
        return
    for seed in range(8):
        X, y, w, alpha, _ = problem(seed, loss)
        y = np.round(64 * y) / 64  # so that sums with the constants are exact
        one = fit(X, y, loss, alpha, w, True)
        for constant in (1.0, -1024.0, 2.0**20):
            two = fit(X, y + constant, loss, alpha, w, True)
            np.testing.assert_array_equal(two.dual_coef, one.dual_coef)
            np.testing.assert_array_equal(two.product, one.product)
            assert two.intercept - constant == pytest.approx(one.intercept, abs=1e-15 * 2**20)


def test_any_constant_shifts_predictions_by_it():
    X, y, w, alpha, _ = problem(3, Pinball(0.3), n=25)
    one, two = (fit(X, t, Pinball(0.3), alpha, w, True) for t in (y, y + 0.1))
    shift = two.product + two.intercept - one.product - one.intercept
    np.testing.assert_allclose(shift, 0.1, rtol=0, atol=1e-12)


@each
@pytest.mark.parametrize("unit", [1e-200, 1e-9, 1e9, 1e200])
def test_the_unit_of_y_changes_nothing_else(loss, unit):
    if loss.kind == "classification":
        return
    X, y, w, alpha, offset = problem(4, loss, n=20)
    tube = EpsilonInsensitive(loss.epsilon * unit) if hasattr(loss, "epsilon") else loss
    one, two = fit(X, y, loss, alpha, w, offset), fit(X, y * unit, tube, alpha / unit, w, offset)
    assert two.solution.converged
    np.testing.assert_allclose(two.dual_coef / unit, one.dual_coef, rtol=1e-6, atol=1e-8)
    assert two.solution.primal / unit == pytest.approx(one.solution.primal, rel=1e-8)
    assert two.solution.residual <= 1e-6


@each
def test_a_weight_is_a_repetition(loss):
    for seed in range(4):
        X, y, _, alpha, offset = problem(seed, loss, n=14)
        w = np.random.default_rng(seed).integers(1, 4, 14)
        one = fit(X, y, loss, alpha, w.astype(float), offset)
        at = np.repeat(np.arange(14), w)
        two = fit(X[at], y[at], loss, alpha, np.ones(len(at)), offset)
        grouped = np.bincount(at, two.dual_coef)
        K = np.asarray(RBF(1.0)(X))
        np.testing.assert_allclose(K @ grouped, K @ one.dual_coef, atol=1e-4)
        assert two.solution.primal == pytest.approx(one.solution.primal, rel=1e-7)


@each
def test_one_point_equal_points_and_constant_targets(loss):
    if loss.kind == "classification":
        return
    for X, y in (
        (np.zeros((1, 1)), np.array([3.0])),
        (np.zeros((4, 1)), np.array([1.0, 2.0, 4.0, 8.0])),
        (np.arange(5.0)[:, None], np.full(5, -7.25)),
        (np.arange(5.0)[:, None], np.zeros(5)),
    ):
        for offset in (True, False):
            w = np.ones(len(y))
            found = fit(X, y, loss, 0.5, w, offset)
            primal, dual = values(X, y, loss, 0.5, w, offset, found)
            assert found.solution.converged
            assert primal - dual <= 1e-8 * max(abs(primal), 1e-6)
            if offset and len(set(y)) == 1:
                assert found.intercept == pytest.approx(y[0], abs=1e-15)
                assert not found.dual_coef.any()


@each
@pytest.mark.parametrize("alpha", [1e-12, 1e-6, 1e6, 1e12])
def test_penalties_from_tiny_to_huge_are_told_the_truth_about(loss, alpha):
    X, y, w, _, _ = problem(5, loss, n=25, duplicates=False)
    for offset in (True, False):
        found = fit(X, y, loss, alpha, w, offset)
        primal, dual = values(X, y, loss, alpha, w, offset, found)
        s = found.solution
        assert s.primal == pytest.approx(primal, rel=1e-6, abs=1e-9)
        if s.converged:
            assert s.gap <= (1e-6 if s.message else 1e-8) * max(s.primal, s.dual)
        else:
            assert s.message.startswith("Test: ")
        assert s.gap == pytest.approx(primal - dual, abs=1e-8 * abs(primal) + 1e-11)
        if alpha >= 1e6:
            assert s.converged and abs(found.product).max() < 1e-4


def unscaled(loss, n=200):
    """Return columns of sizes 1, 100 and 10⁴, far from 0, and what a line through them says."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3)) * [1.0, 1e2, 1e4] + [0.0, 500.0, 2e4]
    y = X @ [1.0, 0.01, 1e-4] + 0.2 * rng.standard_normal(n)
    return X, np.where(y > np.median(y), 1.0, -1.0) if loss.kind == "classification" else y


@each
@pytest.mark.parametrize("alpha, tol", [(1e-4, 1e-6), (1e-6, 1e-6), (1e2, 1e-9), (1e4, 1e-14)])
def test_rounding_excuses_no_gap(loss, alpha, tol):
    """Kernel values of 10⁸ and small penalties leave gaps of half the objective: not converged."""
    X, y = unscaled(loss)
    s = fit(X @ X.T, y, loss, alpha, np.ones(200), True, kernel=Precomputed(), tol=tol).solution
    assert s.converged == (s.gap <= tol * max(abs(s.primal), abs(s.dual)))
    if not s.converged:
        assert s.message.startswith("Test: ") and "Scale the columns" in s.message


@each
@pytest.mark.parametrize("alpha", [1.0, 1e-3, 1e-4, 1e-6])
@pytest.mark.parametrize("offset", [True, False])
def test_columns_of_any_size_are_fitted_by_their_weights(loss, alpha, offset):
    """The dual value is below the primal value of every other point, a linear program's too."""
    X, y = unscaled(loss)
    found = fit(X, y, loss, alpha, np.ones(200), offset, kernel=Linear())
    s, v = found.solution, found.coef
    assert s.converged and s.message == "" and s.gap <= 1e-8 * s.primal and s.residual <= 1e-8
    z = X @ v + found.intercept
    np.testing.assert_allclose(found.product + found.intercept, z, atol=1e-9)

    def objective(v, b):
        return loss.value(y, X @ v + b).sum() + 0.5 * alpha * v @ v

    assert s.primal == pytest.approx(objective(v, found.intercept), rel=1e-9)
    low, high = slopes(loss, y)
    epsilon = getattr(loss, "epsilon", 0.0)
    kinks = np.concatenate([y + epsilon, y - epsilon])
    steep = np.concatenate([np.maximum(high, 0.0), -np.minimum(low, 0.0)])
    Z = X / [1.0, 1e2, 1e4]
    A = np.column_stack([Z, np.full(200, float(offset))])
    # min Σ steep·p over (v, b, p ≥ 0) with p ≥ z − kink above, p ≥ kink − z below
    A = np.hstack([np.vstack([A, -A]), -np.eye(400)])
    right = np.concatenate([kinks[:200], -kinks[200:]])
    bounds = [(None, None)] * 4 + [(0, None)] * 400
    best = linprog(np.concatenate([np.zeros(4), steep]), A_ub=A, b_ub=right, bounds=bounds)
    other = best.x[:3] / [1.0, 1e2, 1e4], best.x[3] * offset
    assert best.fun == pytest.approx(loss.value(y, X @ other[0] + other[1]).sum(), abs=1e-6)
    assert best.fun - 1e-7 <= s.primal <= objective(*other) * (1 + 1e-8)
    assert s.dual <= objective(*other) * (1 + 1e-13)


@each
@pytest.mark.parametrize("offset", [True, False])
def test_more_columns_than_rows_of_many_scales(loss, offset):
    """A fit by weights of features is that of a well scaled Gram matrix, or better."""
    rng = np.random.default_rng(4)
    units = np.logspace(0, 3, 40)
    Z, w = rng.standard_normal((30, 40)), rng.uniform(0.5, 2.0, 30)
    y = Z[:, 0] + 0.3 * rng.standard_normal(30)
    y = np.sign(y) if loss.kind == "classification" else y
    for X, alpha in ((Z, 1.0), (Z, 30.0), (units * (Z + 5.0), 1.0), (units * (Z + 5.0), 1e-3)):
        found = fit(X, y, loss, alpha, w, offset, kernel=Linear(), tol=1e-6)
        s = found.solution
        assert s.converged and s.residual <= 1e-6
        np.testing.assert_allclose(X @ found.coef, found.product, atol=1e-8)
        peer = fit(X @ X.T, y, loss, alpha, w, offset, kernel=Precomputed(), tol=1e-6).solution
        assert peer.dual <= s.primal * (1 + 1e-6) and s.dual <= peer.primal * (1 + 1e-6)
        if X is Z:
            assert s.primal == pytest.approx(peer.primal, rel=1e-7)


def test_a_penalty_too_small_for_the_machine_is_refused():
    X, y, w, _, _ = problem(5, Absolute(), n=10)
    with pytest.raises(InvalidInput, match="Test: alpha=1e-300 is so small"):
        fit(X, y, Absolute(), 1e-300, w, True)
    with pytest.raises(InvalidInput, match="Test: alpha=1e-300"):
        fit(X, y * 1e-200, Absolute(), 1e-300, w, True)
    with pytest.raises(InvalidInput, match=r"size .*e-170 are so small, for alpha=0\.1"):
        fit(X, y * 1e-170, Absolute(), 0.1, w, True)
    found = fit(X, y * 1e200, Absolute(), 1e300, w, False)
    assert found.solution.converged and abs(found.product).max() < 1e-90


@each
def test_a_stopped_fit_says_so_and_has_its_certificate(loss):
    X, y, w, _, offset = problem(6, loss, n=30)
    found = fit(X, y, loss, 1e-3, w, offset, max_iter=3)
    primal, dual = values(X, y, loss, 1e-3, w, offset, found)
    s = found.solution
    assert not s.converged and s.gap == pytest.approx(primal - dual, rel=1e-9)
    assert s.message.startswith("Test: stopped by max_iter") and "raise alpha" in s.message
    late = fit(X, y, loss, 1e-3, w, offset, max_time=0.0).solution
    assert late.gap <= 1e-8 * late.primal if late.converged else "max_time" in late.message


@each
def test_rows_and_starts_are_taken(loss):
    X, y, w, alpha, offset = problem(7, loss, n=30)
    rows = gram_rows(RBF(1.0), X, often=True)
    one = fit(X, y, loss, alpha, w, offset, rows=rows)
    again = fit(X, y, loss, alpha, w, offset, rows=rows, start=one.dual_coef)
    assert again.solution.n_iter <= max(2, one.solution.n_iter // 5)
    np.testing.assert_allclose(again.dual_coef, one.dual_coef, atol=1e-5)


@each
def test_kernels_of_low_rank_and_given_matrices(loss):
    X, y, w, alpha, offset = problem(8, loss, n=30)
    one = fit(X, y, loss, alpha, w, offset, kernel=Linear())
    two = fit(X @ X.T, y, loss, alpha, w, offset, kernel=Precomputed())
    np.testing.assert_allclose(one.product, two.product, atol=1e-4)
    primal, dual = values(X, y, loss, alpha, w, offset, one, kernel=Linear())
    assert primal - dual <= 1e-8 * primal + 1e-12


def test_an_indefinite_matrix_is_refused_in_the_name_of_the_owner():
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(NotPositiveDefinite, match=r"^Test: "):
        fit(K, np.array([0.0, 1.0]), Absolute(), 1.0, np.ones(2), True, kernel=Precomputed())


def test_losses_whose_dual_is_unknown_are_refused():
    class Corner(Loss):
        def _value(self, y, f):
            return abs(f - y)

        def _gradient(self, y, f):
            return np.sign(f - y)

        def _conjugate(self, y, u):
            return y * u

    class Steeper(Absolute):
        def _rho(self, error):
            return 2 * abs(error)

    for loss in (Corner(), Steeper(), Logistic(), Huber()):
        with pytest.raises(InvalidInput, match="Hinge, Absolute, Pinball, EpsilonInsensitive only"):
            fit(np.zeros((2, 1)), np.array([-1.0, 1.0]), loss, 1.0, np.ones(2), True)
    assert all(not cls.smooth for cls in DUAL_LOSSES)


@each
def test_leaving_one_out_by_the_span_is_near_the_refits(loss):
    """Values move as those of refits, and their risk is nearer to the true one than the fit's."""
    X, y, w, _, _ = problem(9, loss, n=40, duplicates=False)
    alpha, every = 1.0, np.arange(40)
    for offset in (True, False):
        found = fit(X, y, loss, alpha, w, offset)
        near = loo_dual(RBF(1.0), X, y, loss, alpha, w, offset, found.dual_coef, found.intercept)
        true = np.empty(40)
        for i in every:
            o = np.delete(every, i)
            rest = fit(X[o], y[o], loss, alpha, w[o], offset)
            true[i] = (RBF(1.0)(X[[i]], X[o]) @ rest.dual_coef)[0] + rest.intercept
        itself = found.product + found.intercept
        assert np.corrcoef(near - itself, true - itself)[0, 1] > 0.6
        risks = [w @ loss.value(y, v) for v in (itself, near, true)]
        assert abs(risks[1] - risks[2]) < abs(risks[0] - risks[2])
        idle = found.dual_coef == 0
        np.testing.assert_allclose(near[idle], true[idle], atol=1e-3)


def test_support_vector_machines_are_such_fits():
    """With C = 1/alpha, SVC and SVR have the same function; their objective is 1/alpha of this."""
    X, y, w, _, _ = problem(11, Hinge(), n=30)
    one = fit(X, y, Hinge(), 0.5, w, True)
    svc = SVC(RBF(1.0), C=2.0, tol=1e-9).fit(X, y, w)
    np.testing.assert_allclose(one.product + one.intercept, svc.decision_function(X), atol=1e-6)
    assert 0.5 * svc.solution_.primal == pytest.approx(one.solution.primal, rel=1e-8)
    X, y, w, _, _ = problem(11, Absolute(), n=30)
    two = fit(X, y, EpsilonInsensitive(0.2), 0.5, w, True)
    svr = SVR(RBF(1.0), C=2.0, epsilon=0.2, tol=1e-9).fit(X, y, w)
    np.testing.assert_allclose(two.product + two.intercept, svr.predict(X), atol=1e-6)
    np.testing.assert_allclose(two.dual_coef[svr.support_], svr.dual_coef_[0], atol=1e-5)


def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for loss in LOSSES:
            X, y, w, alpha, offset = problem(2, loss)
            fit(X, y, loss, alpha, w, offset)
