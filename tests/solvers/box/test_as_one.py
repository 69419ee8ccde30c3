"""All variables at once: kinks at 0, Newton leaps, rows in float32, beside the definition."""

import numpy as np
import pytest

import mercer
from mercer import RBF, SVC, SVR
from mercer.jit import pair_steps
from mercer.operators import Gram
from mercer.solvers import SMO, BoxQP
from mercer.solvers.box import block, descent, rows
from mercer.solvers.box.newton import newton_leap


def tube(n=60, d=3, C=2.0, epsilon=0.1, seed=0, dtype=float):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(dtype)
    y = np.sin(X[:, 0].astype(float)) + 0.3 * rng.standard_normal(n)
    none, bound = np.zeros(n), np.full(n, C)
    p = np.concatenate([epsilon - y, -epsilon - y])
    both = np.tile(np.arange(n), 2)
    K = Gram(RBF(1.0), X, keep=False)
    low, high = np.concatenate([none, -bound]), np.concatenate([bound, none])
    return BoxQP(K, p, low, high, (0.0,), index=both)


def shuffled(problem):
    """Return the same problem with its variables in another order, which is no tube."""
    order = np.random.default_rng(1).permutation(len(problem.p))
    parts = (problem.p[order], problem.lower[order], problem.upper[order])
    return BoxQP(problem.K, *parts, problem.totals, index=problem.index[order]), order


@pytest.mark.parametrize("C", [0.01, 1.0, 1e4])
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 10.0])
def test_a_tube_is_the_same_as_two_variables_a_point(C, epsilon):
    problem = tube(C=C, epsilon=epsilon)
    other, order = shuffled(problem)
    assert problem.checked("SMO").is_tube and not other.checked("SMO").is_tube
    one, two = (SMO(tol=1e-9).solve(p) for p in (problem, other))
    assert one.converged and two.converged
    np.testing.assert_allclose(one.dual, two.dual, rtol=1e-8, atol=1e-12)
    a = np.zeros(120)
    a[order] = two.value
    coef = [np.sum(np.split(v, 2), axis=0) for v in (one.value, a)]
    np.testing.assert_allclose(*coef, atol=1e-6 * C)
    rise, fall = np.split(one.value, 2)
    assert (rise >= 0).all() and (fall <= 0).all() and (rise * fall == 0).all()
    assert abs(one.value.sum()) <= 1e-12 * C * 60


def test_the_certificate_of_a_tube_is_that_of_its_definition():
    problem = tube(n=90, C=3.0)
    solution = SMO(tol=1e-6).solve(problem)
    K = np.asarray(problem.K.to_dense())
    rise, fall = np.split(solution.value, 2)
    a, y = rise + fall, -0.5 * (problem.p[:90] + problem.p[90:])
    f, b = K @ a, solution.extra["multipliers"][0]
    primal = 0.5 * a @ f + 3.0 * np.maximum(0, abs(y - f + b) - 0.1).sum()
    dual = y @ a - 0.1 * abs(a).sum() - 0.5 * a @ f
    assert solution.converged and primal - dual <= 1e-6 * primal
    np.testing.assert_allclose(solution.dual, dual, rtol=1e-10)
    assert primal - dual <= solution.gap * (1 + 1e-6) + 1e-12


def test_a_start_that_overlaps_is_taken():
    problem = tube()
    start = np.concatenate([np.full(60, 0.5), np.full(60, -0.5)])
    one, two = SMO(tol=1e-9).solve(problem, start), SMO(tol=1e-9).solve(problem)
    np.testing.assert_allclose(one.dual, two.dual, rtol=1e-8)


def test_shapes_that_are_no_tube():
    problem = tube(8)
    box = problem.checked("SMO")
    assert box.is_tube
    parts = {"K": problem.K, "p": problem.p, "lower": problem.lower, "upper": problem.upper}
    rest = {"totals": (0.0,), "index": problem.index}
    low = problem.lower.copy()
    low[0] = -1.0
    p = problem.p.copy()
    p[0], p[8] = p[8], p[0]
    for change in ({"lower": low}, {"p": p}, {"totals": ()}, {"signs": np.ones(16)}):
        assert not BoxQP(**{**parts, **rest, **change}).checked("SMO").is_tube
    one = BoxQP(np.eye(1), [0.1, -0.1], [0.0, -1.0], [1.0, 0.0], (0.0,), index=[0, 0])
    assert one.checked("SMO").is_tube and SMO().solve(one).value.tolist() == [0, 0]


def test_steps_stop_at_a_kink():
    Q, kinks = np.eye(2), np.full(2, 0.5)
    a, G = np.array([-0.2, 0.2]), np.array([-3.2, 3.2])
    pair_steps(Q, G, a, np.full(2, -9.0), np.full(2, 9.0), 2, kinks, 1e-12, 1)
    assert a.tolist() == [0.0, 0.0]
    pair_steps(Q, G, a, np.full(2, -9.0), np.full(2, 9.0), 2, kinks, 1e-12, 10)
    np.testing.assert_allclose(a, [2.5, -2.5])  # ½a² − 3a + ½|a| each


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("split", [None, 50, 80])
def test_a_leap_lowers_the_objective_and_keeps_the_sums(dtype, split):
    rng = np.random.default_rng(0)
    n = 80
    X = rng.standard_normal((n, 4))
    Q = np.asarray(RBF(2.0)(X)).astype(dtype)
    p, lower, upper = rng.standard_normal(n), np.full(n, -1.0), np.full(n, 1.0)
    a = rng.uniform(-0.9, 0.9, n)
    a[:5], a[5:9] = -1.0, 1.0
    G = Q.astype(float) @ a + p
    before, value = a.copy(), a @ (G + p)
    newton_leap(Q, G, a, lower, upper, split, np.flatnonzero(abs(a) < 1))
    assert a @ (G + p) < value and (abs(a) <= 1).all()
    np.testing.assert_array_equal(a[:9], before[:9])
    np.testing.assert_allclose(G, Q.astype(float) @ a + p, atol=1e-10)
    if split is not None:
        for part in (slice(0, split), slice(split, n)):
            np.testing.assert_allclose(a[part].sum(), before[part].sum(), atol=1e-12)


def test_a_leap_inside_the_box_is_the_minimum():
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((30, 40))
    Q, p = Z @ Z.T, rng.standard_normal(30)
    a, far = np.zeros(30), np.full(30, 1e6)
    G = p.copy()
    newton_leap(Q, G, a, -far, far, None, np.arange(30))
    np.testing.assert_allclose(a, -np.linalg.solve(Q, p), rtol=1e-8)
    assert abs(G).max() < 1e-9


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("C", [1.0, 1e3, 1e5])
def test_leaps_and_float32_rows_give_the_same_machine(monkeypatch, single, C):
    """Everything that is for many points, on few of them."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((350, 4))
    y = X[:, 0] + 0.3 * rng.standard_normal(350) > 0
    expected = SVC(RBF(1.5), C, tol=1e-6).fit(X, y)
    monkeypatch.setattr(descent, "WORKING_SET", 24)
    monkeypatch.setattr("mercer.solvers.box.smo.WORKING_SET", 24)
    monkeypatch.setattr("mercer.solvers.box.smo.PILOT", 40)
    monkeypatch.setattr(block, "FEW", 0)
    monkeypatch.setattr(block, "STEP", 1e-3)
    monkeypatch.setattr(block, "SETTLED", 2.0)
    monkeypatch.setattr(rows, "WHOLE_UP_TO", 0)
    monkeypatch.setattr("mercer.models.margin.problems.SMALL", 0)
    if single:
        monkeypatch.setattr(rows, "SINGLE_FROM", 10)
    model = SVC(RBF(1.5), C, tol=1e-6).fit(X, y)
    assert model.solution_.converged
    np.testing.assert_allclose(model.solution_.dual, expected.solution_.dual, rtol=3e-6)


@pytest.mark.parametrize("memory", ["3MB", "1GB"])
def test_many_points_of_a_tube(monkeypatch, memory):
    monkeypatch.setattr(rows, "WHOLE_UP_TO", 0)
    monkeypatch.setattr(rows, "SINGLE_FROM", 10)
    monkeypatch.setattr("mercer.solvers.box.smo.PILOT", 40)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(500)
    with mercer.config(memory=memory):
        model = SVR(RBF(0.7), C=10.0, epsilon=0.02).fit(X, y)
    other = SVR(RBF(0.7), C=10.0, epsilon=0.02, tol=1e-8).fit(X, y)
    assert model.solution_.converged
    np.testing.assert_allclose(model.predict(X), other.predict(X), atol=2e-2)
    assert model.solution_.dual <= other.solution_.primal + 1e-9
