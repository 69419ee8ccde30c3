"""Coordinate descent for sparse weights: against scikit-learn, its conditions, degenerate data."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, LogisticRegression, Ridge

import mercer
from mercer import RBF
from mercer.errors import InvalidInput
from mercer.losses import Huber, Logistic
from mercer.solvers import CoordinateDescent, SparseERM
from mercer.solvers.risk.lasso import LOSSES
from mercer.testing.laws.sparse import sparse_violation

# The peers stop early now and then; they are only to have no lower objective.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
N = 50
POINTS = RNG.standard_normal((N, 2))
A = RBF(1.0)(POINTS)
Y = np.sin(2 * POINTS[:, 0]) + 0.2 * RNG.standard_normal(N)
S = np.where(Y + 0.3 * RNG.standard_normal(N) > 0, 1.0, -1.0)
W = RNG.uniform(0.3, 2, N)


def solve(*args, tol=1e-6, start=None, **kwargs):
    return CoordinateDescent(tol).solve(SparseERM(*args, **kwargs), start)


def objective(problem, v, b):
    f = np.asarray(problem.A) @ v + b
    y = np.asarray(problem.y)
    w = np.ones(len(y)) if problem.weights is None else problem.weights
    losses = 0.5 * (f - y) ** 2 if problem.loss == "squared" else np.logaddexp(0, -y * f)
    l1 = problem.alpha * problem.l1_ratio
    return w @ losses + l1 * abs(v).sum() + 0.5 * (problem.alpha - l1) * (v @ v)


# ----------------------------------------------------------------------------------- other solvers
@pytest.mark.parametrize("ratio", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("alpha", [5.0, 0.5, 0.02])
@pytest.mark.parametrize("weights", [None, W])
@pytest.mark.parametrize("offset", [True, False])
def test_squared_loss_is_the_elastic_net(alpha, ratio, weights, offset):
    problem = SparseERM(A, Y, "squared", alpha, ratio, weights, offset)
    got = CoordinateDescent().solve(problem)
    total = N if weights is None else weights.sum()
    peer = ElasticNet(
        alpha / total, l1_ratio=ratio, fit_intercept=offset, tol=1e-10, max_iter=200_000
    ).fit(A, Y, sample_weight=weights)
    theirs = objective(problem, peer.coef_, peer.intercept_)
    ours = objective(problem, got.value, got.extra["offset"])
    assert got.converged and abs(ours - got.primal) < 1e-10 * ours
    assert ours <= theirs + 1e-9 * theirs
    assert abs(ours - theirs) < 1e-6 * theirs


@pytest.mark.parametrize("ratio", [1.0, 0.6])
@pytest.mark.parametrize("alpha", [2.0, 0.3])
@pytest.mark.parametrize("weights", [None, W])
def test_logistic_loss_is_logistic_regression(alpha, ratio, weights):
    problem = SparseERM(A, S, "logistic", alpha, ratio, weights)
    got = CoordinateDescent().solve(problem)
    peer = LogisticRegression(
        C=1 / alpha, l1_ratio=ratio, solver="saga", tol=1e-9, max_iter=20_000, random_state=0
    )
    if peer.penalty == "l2":  # scikit-learn before 1.8
        peer.set_params(penalty="elasticnet")
    peer.fit(A, S, sample_weight=weights)
    theirs = objective(problem, peer.coef_[0], peer.intercept_[0])
    ours = objective(problem, got.value, got.extra["offset"])
    assert got.converged and ours <= theirs + 1e-9
    assert abs(ours - theirs) < 1e-6 * theirs


def test_no_l1_is_ridge():
    got = solve(A, Y, "squared", 0.7, 0.0, W)
    peer = Ridge(0.7).fit(A, Y, sample_weight=W)
    np.testing.assert_allclose(got.value, peer.coef_, atol=1e-8)
    np.testing.assert_allclose(got.extra["offset"], peer.intercept_, atol=1e-8)


def test_orthogonal_columns_are_soft_thresholds():
    y = np.array([3.0, -0.5, 2.0, -4.0])
    got = solve(np.eye(4), y, "squared", 1.0, 1.0, None, False)
    np.testing.assert_allclose(got.value, np.sign(y) * np.maximum(0, abs(y) - 1), atol=1e-14)
    net = solve(np.eye(4), y, "squared", 2.0, 0.5, None, False)
    np.testing.assert_allclose(net.value, np.sign(y) * np.maximum(0, abs(y) - 1) / 2, atol=1e-14)


# ------------------------------------------------------------------------------------ certificates
@pytest.mark.parametrize("seed", range(30))
def test_the_gap_holds_and_the_conditions_too(seed):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(3, 40, 2)
    B = rng.standard_normal((n, m)) * 10 ** rng.uniform(-2, 2, m)
    loss = ("squared", "logistic", "squared_hinge")[seed % 3]
    y = rng.standard_normal(n)
    y = y if loss == "squared" else np.where(np.arange(n) % 2, 1.0, -1.0)
    problem = SparseERM(
        B, y, loss, 10 ** rng.uniform(-3, 2), rng.choice([0.0, 0.5, 1.0]), rng.uniform(0.1, 3, n),
        bool(seed % 2),
    )  # fmt: skip
    got = CoordinateDescent().solve(problem)
    assert got.converged, got.message
    assert 0 <= got.gap <= 1e-6 * got.primal + 1e-12
    assert sparse_violation(problem, got.value, got.extra["offset"]) < 1e-9
    rough = CoordinateDescent(tol=1e-2).solve(problem)
    assert rough.primal - got.primal <= rough.gap + 1e-9 * got.primal


def test_a_gap_bounds_what_is_left_also_when_stopped():
    best = solve(A, Y, "squared", 0.01).primal
    problem = SparseERM(A, Y, "squared", 0.01)
    for most in (0, 1, 5, 20):
        got = CoordinateDescent(max_iter=most).solve(problem)
        assert got.primal - best <= got.gap + 1e-12
        assert got.dual <= best + 1e-12
        assert got.converged or "max_iter" in got.message
        assert got.n_iter <= max(most, 0)
    late = CoordinateDescent(max_time=0.0).solve(problem)
    assert not late.converged and "max_time" in late.message


def test_from_the_largest_penalty_on_all_weights_are_zero():
    for y, loss in ((Y, "squared"), (S, "logistic"), (S, "squared_hinge")):
        for offset in (True, False):
            problem = SparseERM(A, y, loss, 1.0, 1.0, W, offset)
            top = problem.checked("test").largest_alpha()
            assert not solve(A, y, loss, top * (1 + 1e-9), 1.0, W, offset).value.any()
            assert solve(A, y, loss, top * 0.99, 1.0, W, offset).value.any()


def test_a_start_changes_the_way_not_the_end():
    first = solve(A, Y, "squared", 0.3)
    second = solve(A, Y, "squared", 0.2, start=first.value)
    cold = solve(A, Y, "squared", 0.2)
    np.testing.assert_allclose(second.value, cold.value, atol=1e-10)
    assert second.n_iter <= cold.n_iter
    again = solve(A, Y, "squared", 0.2, start=cold.value)
    assert again.extra["rounds"] <= 4


# --------------------------------------------------------------------------------------- degenerate
def test_columns_given_twice_share_one_weight():
    twice = np.hstack([A, A])
    got = solve(twice, Y, "squared", 0.1)
    once = solve(A, Y, "squared", 0.1)
    assert abs(got.primal - once.primal) < 1e-12 * once.primal
    np.testing.assert_allclose(twice @ got.value, A @ once.value, atol=1e-9)


def test_an_offset_follows_the_target():
    shifted = solve(A, Y + 1e6, "squared", 0.1)
    plain = solve(A, Y, "squared", 0.1)
    np.testing.assert_allclose(shifted.value, plain.value, atol=1e-7)
    assert abs(shifted.extra["offset"] - plain.extra["offset"] - 1e6) < 1e-6
    assert shifted.converged


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_scales(scale):
    got = solve(scale * A, Y, "squared", scale * 0.1)
    np.testing.assert_allclose(scale * got.value, solve(A, Y, "squared", 0.1).value, atol=1e-8)


def test_constants_one_row_and_no_column():
    assert solve(A, np.full(N, 7.0)).extra["offset"] == 7.0
    one = solve([[2.0]], [3.0], "squared", 1.0, 1.0, None, False)
    assert abs(one.value[0] - 1.25) < 1e-14
    assert solve([[2.0]], [3.0]).value.tolist() == [0.0]  # the offset takes it all
    none = solve(np.zeros((4, 0)), [1.0, 2.0, 3.0, 4.0])
    assert none.converged and none.value.shape == (0,) and none.extra["offset"] == 2.5
    flat = solve(np.ones((N, 2)), Y, "squared", 1e-6)
    assert flat.converged and not flat.value.any()


@pytest.mark.parametrize("alpha", [1e-12, 1e-6, 1e6, 1e12])
def test_separable_classes_and_extreme_penalties_stay_finite(alpha):
    got = solve(A, np.where(POINTS[:, 0] > 0, 1.0, -1.0), "logistic", alpha)
    assert np.isfinite(got.value).all() and np.isfinite(got.gap)
    assert got.converged or got.message


def test_a_tight_budget_is_said():
    with mercer.config(memory=A.nbytes + 3000):
        got = solve(A, Y, "squared", 1e-3, 0.0)
    assert got.converged or "memory budget" in got.message
    assert got.gap >= got.primal - solve(A, Y, "squared", 1e-3, 0.0).primal - 1e-12


def test_inputs_may_be_read_only_and_single():
    arrays = [A.copy(), Y.copy(), W.copy()]
    for array in arrays:
        array.setflags(write=False)
    got = solve(arrays[0], arrays[1], "squared", 0.1, 1.0, arrays[2])
    single = solve(A.astype(np.float32), Y, "squared", 0.1, 1.0, W)
    np.testing.assert_allclose(single.value, got.value, atol=1e-3)


# ----------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"alpha": 0.0}, "alpha=0.0; give a number > 0"),
        ({"alpha": np.nan}, "alpha=nan"),
        ({"alpha": "1"}, "alpha='1'"),
        ({"l1_ratio": 1.1}, r"l1_ratio=1.1; give a number from 0 \(ridge\) to 1"),
        ({"l1_ratio": -0.1}, "l1_ratio=-0.1"),
        ({"loss": "huber"}, "loss='huber'"),
        ({"loss": Huber()}, "loss=Huber"),
        ({"loss": "nothing"}, "nothing"),
        ({"loss": "logistic"}, "labels are −1 and 1"),
        ({"loss": "logistic", "y": np.ones(N)}, "one class only"),
        ({"weights": np.zeros(N)}, "weights must be > 0"),
        ({"weights": np.ones(3)}, r"weights has shape \(3,\)"),
        ({"y": np.full(N, np.nan)}, "y holds NaN"),
        ({"y": np.full(N, 1e200)}, "y holds 1e"),
        ({"y": ["a"] * N}, "y is not a vector of numbers"),
        ({"A": np.full((N, 2), np.inf)}, "A holds inf"),
        ({"A": np.full((N, 2), np.nan)}, "A holds nan"),
        ({"A": np.ones(N)}, "A has shape"),
    ],
)
def test_refusals(change, text):
    parts = {"A": A, "y": Y, **change}
    with pytest.raises(InvalidInput, match=text):
        CoordinateDescent().solve(SparseERM(**parts))


def test_refusals_of_the_solver():
    with pytest.raises(InvalidInput, match="it solves SparseERM"):
        CoordinateDescent().solve(A)
    for bad in ({"tol": 0}, {"max_iter": -1}, {"max_iter": 1.5}, {"max_time": -1}):
        with pytest.raises(InvalidInput, match="CoordinateDescent"):
            CoordinateDescent(**bad).solve(SparseERM(A, Y))
    with pytest.raises(InvalidInput, match="start has shape"):
        CoordinateDescent().solve(SparseERM(A, Y), start=np.zeros(3))
    assert solve(A, S, Logistic(), 1.0).converged and set(LOSSES.values()) > {"logistic"}
    assert repr(CoordinateDescent()) == "CoordinateDescent(tol=1e-06, max_iter=None, max_time=None)"
