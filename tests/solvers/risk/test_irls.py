"""IRLS: against scipy.optimize on the α-problem, its certificate, and what is degenerate."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest
from scipy.optimize import minimize

from mercer import RBF
from mercer.errors import InvalidInput, MemoryBudgetExceeded, NotPositiveDefinite
from mercer.losses import Exponential, Hinge, Huber, Logistic, Loss, Squared, SquaredHinge
from mercer.operators import Gram, LowRank
from mercer.settings import config
from mercer.solvers import IRLS, SmoothERM
from mercer.solvers.risk.metric import PrimalMetric, SharedGram, metric_of
from mercer.solvers.risk.smooth import balance, root_of_rising

LOSSES = [Logistic(), SquaredHinge(), Exponential(), Squared(), Huber(0.5)]


def draw(seed, loss, n=None):
    rng = np.random.default_rng(seed)
    n = n or int(rng.integers(4, 40))
    X = rng.standard_normal((n, 2))
    K = RBF(float(10 ** rng.uniform(-0.4, 0.5)))(X)
    if loss.kind == "classification":
        y = np.where(X[:, 0] + 0.7 * rng.standard_normal(n) > 0, 1.0, -1.0)
        y[:2] = [1, -1]
    else:
        y = 3 * np.sin(X[:, 0]) + rng.standard_t(2, n)
    return K, y, float(10 ** rng.uniform(-2, 1)), rng.uniform(0.5, 2, n), bool(seed % 2), X


def objective(K, y, loss, alpha, w, a, b):
    f = K @ a
    return float(w @ loss.value(y, f + b)) + 0.5 * alpha * a @ f


def dual(K, y, loss, alpha, w, a):
    return -float(w @ loss.conjugate(y, -alpha * a / w)) - 0.5 * alpha * a @ K @ a


# ------------------------------------------------------------------------------ answers
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_thirty_problems_against_scipy_and_their_gap(loss):
    for seed in range(30):
        K, y, alpha, w, offset, _ = draw(seed, loss)
        solution = IRLS().solve(SmoothERM(K, y, loss, alpha, w, offset))
        a, b = solution.value, solution.extra["intercept"]
        assert solution.converged and solution.n_iter <= 15
        assert solution.primal == pytest.approx(objective(K, y, loss, alpha, w, a, b), rel=1e-10)
        values, vectors = np.linalg.eigh(K)
        root = vectors * np.sqrt(np.maximum(values, 0.0))  # f = root u has norm ‖u‖
        n = len(y)

        def risk(x, root=root, y=y, alpha=alpha, w=w, offset=offset, n=n):
            z = root @ x[:n] + offset * x[n]
            g = w * loss.gradient(y, z)
            slope = np.append(root.T @ g + alpha * x[:n], offset * g.sum())
            return w @ loss.value(y, z) + 0.5 * alpha * x[:n] @ x[:n], slope

        options = {"maxiter": 1000, "maxfun": 2000, "ftol": 1e-14, "gtol": 1e-9}
        best = minimize(risk, np.zeros(n + 1), jac=True, method="L-BFGS-B", options=options)
        assert solution.primal <= best.fun * (1 + 1e-9)
        assert solution.primal == pytest.approx(best.fun, rel=1e-6)
        # a feasible dual point near a: slopes of the loss, made to sum to 0 by less than they are
        g = w * loss.gradient(y, K @ a + b)
        even = -g * (balance(g) if offset else 1.0) / alpha * (1 - 1e-14)  # inside the box
        lower = dual(K, y, loss, alpha, w, even)
        assert abs(even.sum()) <= 1e-12 * abs(even).sum() or not offset
        assert lower <= solution.primal * (1 + 1e-12)
        assert solution.primal - lower <= 1e-8 * solution.primal
        assert abs(solution.gap - (solution.primal - lower)) <= 1e-11 * solution.primal
        np.testing.assert_allclose(alpha * a, -g, atol=1e-9 * abs(g).max())
        np.testing.assert_allclose(solution.extra["product"], K @ a, atol=1e-9 * abs(K @ a).max())


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_features_and_matrix_give_the_same(loss):
    for seed in range(4):
        _, y, alpha, w, offset, X = draw(seed, loss, 30)
        F = X @ np.array([[1.0, 0.3, 2.0], [0.2, -1.0, 1.0]]) + 5.0
        one = IRLS(1e-12).solve(SmoothERM(LowRank(F), y, loss, alpha, w, offset))
        two = IRLS(1e-12).solve(SmoothERM(F @ F.T, y, loss, alpha, w, offset))
        v = one.extra["weights"]
        values = F @ v + one.extra["intercept"]
        np.testing.assert_allclose(values, two.extra["product"] + two.extra["intercept"], atol=1e-6)
        np.testing.assert_allclose(F.T @ one.value, v, atol=1e-8 * abs(v).max())
        np.testing.assert_allclose(one.extra["product"], F @ v, rtol=1e-9)
        assert one.primal == pytest.approx(two.primal, rel=1e-8)


def test_one_step_is_the_weighted_ridge_of_the_working_targets():
    """S11: from margins m a step is ridge with weights σ(m)σ(−m), targets m + y/σ(ym)."""
    K, y, alpha, _, _, _ = draw(3, Logistic(), 25)
    problem = SmoothERM(K, y, Logistic(), alpha)
    m = np.random.default_rng(0).standard_normal(25)  # any values, of a = K⁻¹m
    p = problem.checked("test")
    metric = metric_of(p)
    a = np.linalg.solve(K, m)
    a -= a.mean()
    f = K @ a
    g, h = p.slopes(f), p.curvatures(f)
    metric.factor(h)
    d, db = metric.step(a.sum(), metric.gradient(a, g), g.sum())
    sigma = 1 / (1 + np.exp(-y * f))
    h_expected, z = sigma * (1 - sigma), f + y / sigma
    np.testing.assert_allclose(h, h_expected, rtol=1e-12)
    system = np.block([[K + alpha * np.diag(1 / h), np.ones((25, 1))], [np.ones(25), 0.0]])
    ridge = np.linalg.solve(system, np.append(z, 0.0))
    np.testing.assert_allclose(a + d, ridge[:25], atol=1e-6 * abs(ridge).max())
    assert db == pytest.approx(ridge[25], rel=1e-6)


def test_rows_beyond_the_margin_leave_the_factor():
    """Squared hinge: the compact factor of the rows with curvature, and of all, agree."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((60, 2))
    K = RBF(1.0)(X)
    s = np.where(np.arange(60) % 3 == 0, rng.uniform(0.5, 1, 60), 0.0)
    R = rng.standard_normal((60, 2)) * (s > 0)[:, None]
    B = 0.3 * np.eye(60) + s[:, None] * K * s
    expected = np.where((s > 0)[:, None], np.linalg.solve(B, R), 0.0)
    gram = SharedGram(Gram(RBF(1.0), X, keep=False))
    gram.factor(s, 0.3)
    assert gram._part is not None and gram._part.shape == (20, 20)
    np.testing.assert_allclose(gram.solve(R), expected, atol=1e-12)
    np.testing.assert_allclose(gram @ R, K @ R, atol=1e-12)
    np.testing.assert_allclose(gram.inverse_diagonal(), np.diag(np.linalg.inv(B)), rtol=1e-10)
    part = R * s[:, None]
    quadratic = np.einsum("ij,ij->j", part, np.linalg.solve(B, part))
    np.testing.assert_allclose(gram.squares(part), quadratic, rtol=1e-10)
    full = s + 0.1
    gram.factor(full, 0.3)
    assert gram._part is None
    B = 0.3 * np.eye(60) + full[:, None] * K * full
    np.testing.assert_allclose(gram.solve(R), np.linalg.solve(B, R), atol=1e-12)
    np.testing.assert_allclose(gram @ R[:, 0], K @ R[:, 0], atol=1e-12)
    np.testing.assert_array_equal(gram.diagonal(), np.diag(K))
    np.testing.assert_allclose(gram.block([3, 1], slice(0, 60)), K[[3, 1]], atol=1e-15)


# ------------------------------------------------------------------------- hard problems
@pytest.mark.parametrize("alpha", [1e-12, 1e-9, 1e-6, 1e-3, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("separable", [True, False])
def test_logistic_penalties_over_24_orders(alpha, separable):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 2))
    y = np.where(X[:, 0] + (0 if separable else 1.0) * rng.standard_normal(80) > 0, 1.0, -1.0)
    for K in (RBF(1.0)(X), LowRank(X)):
        solution = IRLS().solve(SmoothERM(K, y, Logistic(), alpha))
        a, b = solution.value, solution.extra["intercept"]
        assert np.isfinite(a).all() and np.isfinite(b)
        assert solution.converged or (alpha < 1e-10 and "rounding" in solution.message)
        assert solution.gap <= 1e-6 * solution.primal
        f = solution.extra["product"]
        if separable:
            assert alpha > 1e-4 or (y * (f + b) > 0).all()
        if alpha == 1e12:  # no function is left, only the log-odds
            share = (y > 0).mean()
            assert b == pytest.approx(np.log(share / (1 - share)), rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("alpha", [1e-12, 1e-6, 1e12])
def test_every_loss_stays_finite_and_honest(loss, alpha):
    K, y, _, w, offset, _ = draw(7, loss, 60)
    solution = IRLS().solve(SmoothERM(K, y, loss, alpha, w, offset))
    a, b = solution.value, solution.extra["intercept"]
    assert np.isfinite(a).all() and np.isfinite(b)
    true = objective(K, y, loss, alpha, w, a, b)
    assert solution.primal == pytest.approx(true, rel=1e-3)
    if solution.converged:
        assert solution.gap <= 1e-6 * solution.primal
    else:
        assert "rounding" in solution.message and "larger alpha" in solution.message


def test_saturated_start_comes_back():
    """All rows far on the wrong side: no curvature that float64 can hold."""
    K, y, _, _, _, _ = draw(1, Logistic(), 20)
    a = np.linalg.solve(K, -1e4 * y)
    solution = IRLS().solve(SmoothERM(K, y, Logistic(), 0.1, None, False), start=(a, 0.0))
    cold = IRLS().solve(SmoothERM(K, y, Logistic(), 0.1, None, False))
    assert solution.primal == pytest.approx(cold.primal, rel=1e-8)
    p = SmoothERM(K, y, Logistic(), 0.1, None, False).checked("test")
    metric = metric_of(p)
    metric.factor(np.zeros(20))
    d, db = metric.step(0.0, np.ones(20), 0.0)
    np.testing.assert_array_equal(d, -10.0)
    assert db == 0.0


def test_warm_start_saves_steps():
    K, y, alpha, w, _, _ = draw(11, Logistic(), 40)
    first = IRLS().solve(SmoothERM(K, y, Logistic(), alpha, w))
    again = IRLS().solve(
        SmoothERM(K, y, Logistic(), 1.1 * alpha, w), (first.value, first.extra["intercept"])
    )
    cold = IRLS().solve(SmoothERM(K, y, Logistic(), 1.1 * alpha, w))
    assert again.n_iter <= cold.n_iter
    np.testing.assert_allclose(again.value, cold.value, atol=1e-7)
    with pytest.raises(InvalidInput, match="start"):
        IRLS().solve(SmoothERM(K, y, Logistic(), alpha, w), (np.ones(3), 0.0))


def test_weights_are_repetitions():
    for loss in LOSSES:
        K, y, alpha, _, _, _ = draw(5, loss, 20)
        w = np.array([1, 2, 3] * 6 + [1, 1], dtype=float)
        at = np.repeat(np.arange(20), w.astype(int))
        one = IRLS().solve(SmoothERM(K, y, loss, alpha, w))
        two = IRLS().solve(SmoothERM(K[np.ix_(at, at)], y[at], loss, alpha))
        merged = np.bincount(at, two.value)
        np.testing.assert_allclose(one.value, merged, atol=1e-8 * abs(merged).max())
        assert one.extra["intercept"] == pytest.approx(two.extra["intercept"], abs=1e-8)


def test_degenerate_kernels_and_targets():
    n = 12
    y = np.where(np.arange(n) % 3, 1.0, -1.0)
    for K in (np.zeros((n, n)), np.ones((n, n))):
        solution = IRLS().solve(SmoothERM(K, y, Logistic(), 0.1))
        assert solution.converged
        assert solution.extra["intercept"] + solution.extra["product"][0] == pytest.approx(
            np.log(2), rel=1e-8
        )
    constant = IRLS().solve(SmoothERM(RBF()(np.arange(5.0)[:, None]), np.full(5, 7.0), Huber(), 1))
    assert constant.extra["intercept"] == pytest.approx(7.0, rel=1e-12)
    np.testing.assert_array_equal(constant.value, 0.0)
    one = IRLS().solve(SmoothERM(np.array([[2.0]]), [3.0], Squared(), 0.5, None, False))
    assert one.value[0] == pytest.approx(3.0 / 2.5)
    one = IRLS().solve(SmoothERM(np.array([[2.0]]), [3.0], Squared(), 0.5))
    assert one.extra["intercept"] == pytest.approx(3.0) and one.value[0] == 0.0


def test_the_problem_is_not_changed_and_memory_is_that_of_one_matrix():
    X = np.random.default_rng(0).standard_normal((300, 2))
    K, y = RBF()(X), np.where(X[:, 0] > 0, 1.0, -1.0)
    kept = K.copy()
    K.setflags(write=False)
    IRLS().solve(SmoothERM(K, y, Logistic(), 0.1))
    np.testing.assert_array_equal(K, kept)
    lazy = SmoothERM(Gram(RBF(), X, keep=False), y, Logistic(), 0.1)
    with config(memory=int(1.4 * K.nbytes)):
        assert IRLS().solve(lazy).converged
    with config(memory=K.nbytes // 2), pytest.raises(MemoryBudgetExceeded, match="IRLS"):
        IRLS().solve(lazy)


def test_limits_end_it_with_a_true_certificate():
    K, y, _, w, _, _ = draw(2, Logistic(), 40)
    solution = IRLS(max_iter=1).solve(SmoothERM(K, y, Logistic(), 1e-3, w))
    assert not solution.converged and "max_iter" in solution.message
    a, b = solution.value, solution.extra["intercept"]
    assert solution.primal == pytest.approx(objective(K, y, Logistic(), 1e-3, w, a, b), rel=1e-10)
    sharp = IRLS(1e-12).solve(SmoothERM(K, y, Logistic(), 1e-3, w))
    assert solution.dual <= sharp.primal <= solution.primal
    start = time.monotonic()
    late = IRLS(max_time=0.0).solve(SmoothERM(K, y, Logistic(), 1e-3, w))
    assert not late.converged and "max_time" in late.message and time.monotonic() - start < 5


# ------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"loss": Hinge()}, "not smooth"),
        ({"loss": "logistic"}, "not smooth"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": np.nan}, "alpha"),
        ({"y": [1.0]}, r"\(1,\)"),
        ({"y": np.ones((3, 1))}, r"\(3, 1\)"),
        ({"y": [1.0, np.nan, -1.0]}, "row 1"),
        ({"y": [1.0, 1e200, -1.0], "loss": Squared()}, "larger unit"),
        ({"y": [1.0, 2.0, -1.0]}, "labels are"),
        ({"weights": [1.0, 0.0, 1.0]}, "> 0"),
        ({"K": np.ones((3, 2))}, "square"),
        ({"K": np.array([[1, 2, 0], [0, 1, 0], [0, 0, 1.0]])}, "not symmetric"),
        ({"K": np.full((3, 3), np.nan)}, "overflows"),
        ({"K": np.zeros((0, 0)), "y": []}, "no rows"),
    ],
)
def test_bad_problems_are_refused(change, text):
    given = {"K": np.eye(3), "y": [1.0, -1.0, 1.0], "loss": Logistic(), "alpha": 1.0} | change
    with pytest.raises(InvalidInput, match=text):
        IRLS().solve(SmoothERM(**given))


def test_an_indefinite_matrix_is_refused():
    K = np.array([[1.0, 3.0], [3.0, 1.0]])
    with pytest.raises(NotPositiveDefinite, match="IRLS") as caught:
        IRLS().solve(SmoothERM(K, [1.0, -1.0], Squared(), 0.1))
    assert caught.value.smallest_eigenvalue < 0


@pytest.mark.parametrize("options", [{"tol": 0}, {"max_iter": 0}, {"max_time": -1}, {"tol": "x"}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInput, match="IRLS"):
        IRLS(**options)


def test_a_loss_of_ones_own():
    class LogCosh(Loss):
        smooth = True

        def _value(self, y, f):
            return np.logaddexp(f - y, y - f) - np.log(2)

        def _gradient(self, y, f):
            return np.tanh(f - y)

        def _curvature(self, y, f):
            return 1 / np.cosh(f - y) ** 2

        def _conjugate(self, y, u):
            with np.errstate(divide="ignore", invalid="ignore"):
                entropy = 0.5 * ((1 + u) * np.log1p(u) + (1 - u) * np.log1p(-u))
            return np.where(abs(u) <= 1, y * u + np.nan_to_num(entropy), np.inf)

    K, y, _, w, _, _ = draw(4, Huber(), 30)
    solution = IRLS().solve(SmoothERM(K, y, LogCosh(), 0.1, w))
    assert solution.converged
    g = w * np.tanh(K @ solution.value + solution.extra["intercept"] - y)
    np.testing.assert_allclose(0.1 * solution.value, -g, atol=1e-8)


# --------------------------------------------------------------------------------- parts
def test_balance_shrinks_the_heavier_side():
    g = np.array([3.0, -1.0, 0.0, -1.5])
    share = balance(g)
    assert (share * g).sum() == pytest.approx(0.0, abs=1e-15)
    assert (share <= 1).all() and (share >= 0).all()
    np.testing.assert_array_equal(balance(np.array([1.0, 2.0])), 0.0)
    np.testing.assert_array_equal(balance(np.zeros(2)), 0.0)


@pytest.mark.parametrize("root", [-1e6, -3.0, 0.0, 1e-8, 50.0, 1e9])
def test_root_of_rising_functions(root):
    def steep(s):
        return float(np.tanh(s - root)), 1.0, float(1 / np.cosh(min(abs(s - root), 300.0)) ** 2)

    assert root_of_rising(steep, 1.0) == pytest.approx(root, rel=1e-12, abs=1e-12)

    def wall(s):  # overflows above
        with np.errstate(over="ignore"):
            e = float(np.exp(s - root))
        return e - 1.0, e + 1.0, e

    assert root_of_rising(wall, 1.0) == pytest.approx(root, rel=1e-12, abs=1e-12)


def test_a_step_in_features_copies_none_of_them():
    rng = np.random.default_rng(0)
    F = rng.standard_normal((200_000, 8))
    metric = PrimalMetric(F, np.ones(len(F)), 0.1, True)
    h = rng.uniform(size=len(F))
    tracemalloc.start()
    metric.factor(h)
    got = metric.sizes(h - 0.5)
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(got, np.abs(metric.F).T @ np.abs(h - 0.5))
    A = np.sqrt(h)[:, None] * (metric.F - h @ metric.F / h.sum())
    L = np.tril(metric._factor)
    np.testing.assert_allclose(L @ L.T, A.T @ A + 0.1 * np.eye(8), rtol=1e-10, atol=1e-8)
    assert held < 0.8 * F.nbytes
