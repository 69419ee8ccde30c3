"""SMO: answers against LIBSVM and brute force, certificates from scratch, stops, hard cases."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.svm import SVC as LIBSVM

import mercer
from mercer.errors import InvalidInput, NotConverged, NotPositiveDefinite
from mercer.operators import Dense, Gram
from mercer.solvers import SMO, BoxQP, Linear, Rows
from tests.solvers.boxes import (
    Certificate,
    arrays,
    by_coordinates,
    classes,
    gram,
    machine,
    random_box,
)


def check(problem, solution, tol=None):
    """Require that the certificate is true and, if it converged, good; return it."""
    a, multipliers = solution.value, solution.extra["multipliers"]
    true = Certificate(problem, a, multipliers)
    blur = true.blur.max(initial=0)
    assert true.outside == 0
    np.testing.assert_allclose(true.sums, problem.totals, rtol=0, atol=true.slack)
    np.testing.assert_allclose(solution.dual, -true.value, rtol=1e-9, atol=1e-12 * true.size)
    np.testing.assert_allclose(solution.gap, true.gap, rtol=1e-6, atol=true.haze)
    rounded = 1e-12 * max(abs(solution.primal), abs(solution.dual))
    np.testing.assert_allclose(solution.primal - solution.dual, solution.gap, atol=rounded)
    assert solution.gap >= 0 and len(multipliers) == len(problem.totals)
    np.testing.assert_allclose(solution.residual, true.violation, rtol=1e-6, atol=blur)
    if solution.converged:
        assert solution.message == ""
        assert tol is None or true.violation <= tol * (1 + 1e-6) + blur
        assert tol is None or true.gap <= 1.01 * tol * abs(true.value) + true.haze
    else:
        assert solution.message
    return true


# ------------------------------------------------------------------- 200 random machines
KINDS = ("linear", "polynomial", "gaussian")


def random_machine(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(10, 301))
    X, y = classes(rng, n, int(rng.integers(1, 8)), repeated=seed % 4 == 0)
    K = gram(KINDS[seed % 3], X, rng.uniform(0.1, 2))
    weight = rng.uniform(0.1, 3, n) if seed % 2 else np.ones(n)
    return K, y, 10 ** rng.uniform(-3, 4), weight


def libsvm(K, y, C, weight):
    """Return LIBSVM's coefficients with an offset, made feasible to rounding."""
    import warnings

    model = LIBSVM(kernel="precomputed", C=C, tol=1e-6, max_iter=200_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it stops at max_iter: its objective is what it reached
        model.fit(K, y, sample_weight=weight)
    a = np.zeros(len(y))
    a[model.support_] = model.dual_coef_[0]
    return a


@pytest.mark.parametrize("seed", range(100))
def test_with_an_offset_no_worse_than_libsvm(seed):
    K, y, C, weight = random_machine(seed)
    problem = machine(K, y, C, weight)
    solution = SMO(tol=1e-6).solve(problem)
    assert solution.converged, solution.message
    check(problem, solution, 1e-6)
    theirs = -Certificate(problem, libsvm(K, y, C, weight), (0.0,)).value
    assert solution.dual >= theirs - 1e-6 * abs(theirs)
    loose = SMO().solve(problem)
    assert loose.converged and loose.gap <= 1e-3 * max(abs(loose.primal), abs(loose.dual))
    assert solution.dual <= loose.primal * (1 + 1e-9)
    check(problem, loose, 1e-3)


@pytest.mark.parametrize("seed", range(100, 200))
def test_without_an_offset_the_certificate_and_the_path_of_libsvm_agree(seed):
    """Without an offset: LIBSVM with one, on the same data, cannot reach a larger dual."""
    K, y, C, weight = random_machine(seed)
    problem = machine(K, y, C, weight, offset=False)
    solution = SMO(tol=1e-6).solve(problem)
    assert solution.converged, solution.message
    check(problem, solution, 1e-6)
    theirs = -Certificate(problem, libsvm(K, y, C, weight)).value  # feasible here too
    assert solution.dual >= theirs - 1e-6 * abs(theirs)


@pytest.mark.parametrize("seed", range(12))
def test_without_an_offset_it_is_the_minimum_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    X, y = classes(rng, int(rng.integers(3, 30)), repeated=seed % 2 == 0)
    K = gram(KINDS[seed % 3], X) + 0.1 * np.eye(len(y))
    problem = machine(K, y, 10 ** rng.uniform(-2, 1), rng.uniform(0.5, 2, len(y)), offset=False)
    expected = by_coordinates(problem)
    got = SMO(tol=1e-10).solve(problem)
    np.testing.assert_allclose(got.value, expected, atol=1e-7 * abs(expected).max())
    assert got.dual >= -Certificate(problem, expected).value * (1 - 1e-10)


@pytest.mark.parametrize("seed", range(60))
def test_any_box_has_a_true_certificate(seed):
    problem = random_box(seed)
    for tol in (1e-2, 1e-8):
        solution = SMO(tol=tol).solve(problem)
        assert solution.converged, solution.message
        check(problem, solution, tol)


@pytest.mark.parametrize("seed", range(20))
def test_any_box_is_solved_as_a_general_solver_solves_it(seed):
    problem = random_box(seed)
    Q, p, lower, upper, groups = arrays(problem)
    got = SMO(tol=1e-9).solve(problem)
    held = [
        {"type": "eq", "fun": lambda a, g=g, t=t: a[g].sum() - t, "jac": lambda a, g=g: 1.0 * g}
        for g, t in zip([groups == 0, groups == 1], problem.totals, strict=False)
    ]
    theirs = minimize(
        lambda a: 0.5 * a @ Q @ a + p @ a,
        got.value * 0.5,
        jac=lambda a: Q @ a + p,
        bounds=list(zip(lower, upper, strict=True)),
        constraints=held,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 2000},
    )
    assert -got.dual <= theirs.fun + 1e-7 * (1 + abs(theirs.fun))


# ------------------------------------------------------------------------ known answers
def test_xor_with_the_quadratic_kernel():
    X = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    y = np.array([-1.0, 1.0, 1.0, -1.0])
    solution = SMO(tol=1e-12).solve(machine((1 + X @ X.T) ** 2, y, 1e6))
    np.testing.assert_allclose(solution.value, y / 8, atol=1e-12)
    np.testing.assert_allclose(solution.extra["multipliers"], 0, atol=1e-12)
    np.testing.assert_allclose(solution.extra["product"], y, atol=1e-11)
    np.testing.assert_allclose([solution.dual, solution.primal], 0.25, atol=1e-11)


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, 1e-3), (-3e4, 2e4), (5.0, 7.0)])
def test_two_points_on_a_line(low, high):
    x, y = np.array([low, high]), np.array([-1.0, 1.0])
    solution = SMO(tol=1e-9).solve(machine(np.outer(x, x), y, 1e9))
    np.testing.assert_allclose(x @ solution.value, 2 / (high - low), rtol=1e-6)
    b = -solution.extra["multipliers"][0]
    np.testing.assert_allclose(b, -(high + low) / (high - low), rtol=1e-6, atol=1e-9)


def test_the_identity_is_solved_in_closed_form():
    """min ½‖a‖² + pᵀa over a box: each coordinate is −p, clipped."""
    p = np.linspace(-3, 3, 31)
    solution = SMO(tol=1e-12).solve(BoxQP(np.eye(31), p, np.full(31, -1.0), np.full(31, 2.0)))
    np.testing.assert_allclose(solution.value, np.clip(-p, -1, 2), atol=1e-12)


def test_projection_on_the_simplex():
    """min ½‖a − v‖² on the simplex, against the sort-and-threshold formula."""
    v = np.random.default_rng(0).standard_normal(40)
    u = np.sort(v)[::-1]
    over = np.cumsum(u) - 1
    k = np.flatnonzero(u - over / np.arange(1, 41) > 0)[-1]
    expected = np.maximum(v - over[k] / (k + 1), 0)
    solution = SMO(tol=1e-12).solve(BoxQP(np.eye(40), -v, np.zeros(40), np.ones(40), (1.0,)))
    np.testing.assert_allclose(solution.value, expected, atol=1e-11)
    np.testing.assert_allclose(solution.extra["multipliers"], -over[k] / (k + 1), atol=1e-11)


def test_a_linear_program_is_filled_in_order():
    """K = 0 leaves the fractional knapsack: the cheapest variables are filled first."""
    rng = np.random.default_rng(0)
    p, upper = rng.standard_normal(50), rng.random(50)
    total = 0.37 * upper.sum()
    solution = SMO(tol=1e-9).solve(BoxQP(np.zeros((50, 50)), p, np.zeros(50), upper, (total,)))
    order = np.argsort(p)
    before = np.concatenate([[0], np.cumsum(upper[order])[:-1]])
    expected = np.empty(50)
    expected[order] = np.clip(total - before, 0, upper[order])
    assert solution.converged
    np.testing.assert_allclose(solution.value, expected, atol=1e-9)


# ----------------------------------------------------------- variables, points, signs, sums
def test_the_index_may_be_any_selection_in_any_order():
    X, y = classes(0, 60)
    K = gram("gaussian", X)
    some = np.random.default_rng(1).permutation(60)[:35]
    part = SMO(tol=1e-10).solve(machine(K, y[some], 2.0, index=some))
    alone = SMO(tol=1e-10).solve(machine(K[np.ix_(some, some)], y[some], 2.0))
    np.testing.assert_allclose(part.value, alone.value, atol=1e-7)
    np.testing.assert_allclose(part.dual, alone.dual, rtol=1e-9)
    points = np.unique(some)
    a = np.zeros(60)
    a[some] = part.value
    np.testing.assert_allclose(part.extra["product"], (K @ a)[points], atol=1e-10)


def test_an_index_of_some_points_again_and_again_is_the_matrix_written_out():
    K, rng = gram("gaussian", classes(2, 30)[0]), np.random.default_rng(3)
    index = rng.integers(0, 20, 50)  # with repetition, and a third of the points not at all
    signs = np.where(rng.random(50) < 0.5, 1.0, -1.0)
    p = rng.standard_normal(50)
    box = np.full(50, -1.0), np.ones(50)
    short = BoxQP(K, p, *box, (0.5,), None, index, signs)
    long = BoxQP(arrays(short)[0], p, *box, (0.5,))
    one, other = SMO(tol=1e-9).solve(short), SMO(tol=1e-9).solve(long)
    np.testing.assert_allclose(one.dual, other.dual, rtol=1e-8)
    np.testing.assert_allclose(one.extra["multipliers"], other.extra["multipliers"], atol=1e-7)
    f = K @ np.bincount(index, weights=one.value * signs, minlength=30)
    np.testing.assert_allclose(one.extra["product"], f[np.unique(index)], atol=1e-10)


def test_signs_are_a_change_of_variables():
    X, y = classes(1, 50)
    K = gram("polynomial", X / 3)
    signed = SMO(tol=1e-9).solve(machine(K, y, 1.0, offset=False))
    box = BoxQP(K, -np.ones(50), np.zeros(50), np.ones(50), signs=y)
    plain = SMO(tol=1e-9).solve(box)
    np.testing.assert_allclose(plain.value * y, signed.value, atol=1e-5)
    np.testing.assert_allclose(plain.dual, signed.dual, rtol=1e-8)
    check(box, plain, 1e-9)


def test_regression_has_two_variables_a_point_and_uses_one_of_them():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((70, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(70)
    K = gram("gaussian", X)
    C, epsilon = 2.0, 0.1
    none = np.zeros(70)
    problem = BoxQP(
        K,
        np.r_[epsilon - y, -epsilon - y],
        np.r_[none, none - C],
        np.r_[none + C, none],
        (0.0,),
        index=np.r_[:70, :70],
    )
    solution = SMO(tol=1e-9).solve(problem)
    check(problem, solution, 1e-9)
    rise, fall = solution.value[:70], solution.value[70:]
    assert not ((rise > 0) & (fall < 0)).any()
    from sklearn.svm import SVR

    theirs = SVR(kernel="precomputed", C=C, epsilon=epsilon, tol=1e-9).fit(K, y)
    a = np.zeros(70)
    a[theirs.support_] = theirs.dual_coef_[0]
    np.testing.assert_allclose(K @ (rise + fall), K @ a, atol=1e-6)
    np.testing.assert_allclose(-solution.extra["multipliers"][0], theirs.intercept_[0], atol=1e-7)


def test_two_sums_are_held_and_the_multipliers_split_the_gradient():
    X, y = classes(4, 80, noise=1.0)
    K, nu = gram("gaussian", X), 0.4
    groups = (y < 0).astype(int)
    W = len(y)
    problem = BoxQP(
        K, np.zeros(W), np.minimum(y, 0), np.maximum(y, 0), (nu * W / 2, -nu * W / 2), groups
    )
    solution = SMO(tol=1e-9).solve(problem)
    check(problem, solution, 1e-9)
    G = K @ solution.value
    for g in (0, 1):
        free = (groups == g) & (solution.value != 0) & (solution.value != y)
        assert free.any()
        np.testing.assert_allclose(G[free], solution.extra["multipliers"][g], atol=1e-8)
    from sklearn.svm import NuSVC

    theirs = NuSVC(nu=nu, kernel="precomputed", tol=1e-9).fit(K, y)
    rho = (solution.extra["multipliers"][0] - solution.extra["multipliers"][1]) / 2
    a = np.zeros(W)
    a[theirs.support_] = theirs.dual_coef_[0]
    np.testing.assert_allclose(solution.value / rho, a, atol=1e-5 * abs(a).max())


def test_a_group_may_be_empty_or_fixed():
    K, p = np.eye(4), np.arange(4.0)
    problem = BoxQP(K, p, -np.ones(4), np.ones(4), (1.0, 0.0), np.zeros(4))
    check(problem, SMO(tol=1e-9).solve(problem), 1e-9)
    problem = BoxQP(K, p, np.r_[0, 0, -1, -1.0], np.r_[0, 0, 1, 1.0], (0.0, 0.0), [0, 0, 1, 1])
    solution = SMO(tol=1e-9).solve(problem)
    check(problem, solution, 1e-9)
    np.testing.assert_allclose(solution.value, [0, 0, 0.5, -0.5], atol=1e-9)


# --------------------------------------------------------------------------------- starts
def test_a_start_at_the_solution_stays_there():
    X, y = classes(5, 150, noise=1.0)
    problem = machine(gram("gaussian", X), y, 3.0)
    first = SMO(tol=1e-6).solve(problem)
    again = SMO(tol=1e-6).solve(problem, start=first.value)
    assert first.n_iter > 100 and again.n_iter <= 5
    np.testing.assert_allclose(again.value, first.value, atol=1e-6)


def test_a_start_outside_the_box_and_with_wrong_sums_is_put_right():
    X, y = classes(6, 60, noise=1.0)
    problem = machine(gram("gaussian", X), y, 1.0)
    expected = SMO(tol=1e-9).solve(problem)
    for start in (np.full(60, 50.0), -np.full(60, 50.0), 3 * y, 1e300 * y, np.zeros(60)):
        stopped = SMO(max_iter=0).solve(problem, start)
        check(problem, stopped)  # feasible, and honest about not being the answer
        assert not stopped.converged and stopped.n_iter == 0
        solution = SMO(tol=1e-9).solve(problem, start)
        np.testing.assert_allclose(solution.value, expected.value, atol=1e-6)
    np.testing.assert_array_equal(start, 0)


def test_a_feasible_start_is_left_as_it_is():
    problem = machine(np.eye(4), np.array([1.0, 1, -1, -1]), 1.0)
    start = np.array([0.25, 0.5, -0.75, 0.0])
    np.testing.assert_array_equal(SMO(max_iter=0).solve(problem, start).value, start)


@pytest.mark.parametrize("start", [np.zeros(3), np.full(4, np.nan), "zero", np.zeros((4, 2))])
def test_a_start_that_is_none_is_refused(start):
    problem = machine(np.eye(4), np.array([1.0, 1, -1, -1]), 1.0)
    with pytest.raises(InvalidInput, match="SMO"):
        SMO().solve(problem, start)


# ------------------------------------------------------------------- rows, lazy or in memory
@pytest.mark.parametrize("offset", [True, False])
def test_a_lazy_gram_gives_what_its_matrix_gives(offset):
    X, y = classes(7, 120, noise=1.0)
    kernel = mercer.RBF(1.3)
    dense = machine(np.asarray(kernel(X)), y, 2.0, offset=offset)
    lazy = machine(Gram(kernel, X, keep=False), y, 2.0, offset=offset)
    one, other = SMO(tol=1e-8).solve(dense), SMO(tol=1e-8).solve(lazy)
    np.testing.assert_allclose(one.value, other.value, atol=1e-6)
    rows = Rows(lazy.K)
    shared = [SMO(tol=1e-8).solve(machine(rows.K, y, C, offset=offset), rows=rows) for C in (1, 2)]
    np.testing.assert_allclose(shared[1].value, one.value, atol=1e-6)
    assert rows.computed <= 120  # the second problem found them computed


def test_a_float32_matrix_is_solved_as_the_matrix_it_is():
    X, y = classes(8, 80, noise=1.0)
    K = gram("gaussian", X).astype(np.float32)
    solution = SMO(tol=1e-5).solve(machine(K, y, 1.0))
    assert solution.converged and solution.value.dtype == np.float64
    check(machine(K.astype(float), y, 1.0), solution)


def test_an_operator_and_an_array_are_the_same_problem():
    X, y = classes(9, 40)
    K = gram("gaussian", X)
    one = SMO(tol=1e-8).solve(machine(K, y, 1.0))
    other = SMO(tol=1e-8).solve(machine(Dense(K, symmetric=True), y, 1.0))
    fortran = SMO(tol=1e-8).solve(machine(np.asfortranarray(K), y, 1.0))
    np.testing.assert_array_equal(one.value, other.value)
    np.testing.assert_array_equal(one.value, fortran.value)


def test_many_points_go_through_working_sets_and_are_set_aside():
    """More points than a working set holds: float32 rows, sets, shrinking, a true certificate.

    Far from the margin, where it decides nothing, the product may be that of float32 rows.
    """
    rng = np.random.default_rng(0)
    n = 5000
    X = rng.standard_normal((n, 4))
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)
    kernel = mercer.RBF(2.0)
    problem = machine(Gram(kernel, X, keep=False), y, 10.0)
    solution = SMO(tol=1e-3).solve(problem)
    assert solution.converged and solution.extra["outer"] > 3
    points = np.flatnonzero(solution.value)
    f = np.asarray(kernel(X, X[points])) @ solution.value[points]
    np.testing.assert_allclose(solution.extra["product"], f, atol=1e-4 * abs(f).max())
    G, up = f - y, solution.value < np.maximum(0, 10 * y)
    down = solution.value > np.minimum(0, 10 * y)
    violation = G[down].max() - G[up].min()
    np.testing.assert_allclose(solution.residual, violation, atol=1e-8)
    assert violation <= 1e-3 + 1e-8
    b = solution.extra["multipliers"][0]
    primal = 0.5 * solution.value @ f + 10 * np.maximum(0, 1 - y * (f - b)).sum()
    dual = y @ solution.value - 0.5 * solution.value @ f
    np.testing.assert_allclose([solution.primal, solution.dual], [primal, dual], rtol=1e-6)
    np.testing.assert_allclose(solution.gap, primal - dual, rtol=1e-4)
    assert primal - dual <= 1e-3 * primal


# ------------------------------------------------------------------- limits and interruption
def slow_problem(n=300, offset=True):
    """A problem of tens of thousands of steps."""
    X, y = classes(11, n, 6, noise=2.0)
    return machine(gram("polynomial", X), y, 1e4, offset=offset)


@pytest.mark.parametrize("offset", [True, False])
def test_max_iter_stops_with_a_feasible_answer_that_says_so(offset):
    problem = slow_problem(offset=offset)
    for limit in (0, 1, 7, 500):
        solution = SMO(max_iter=limit).solve(problem)
        assert not solution.converged and solution.n_iter <= limit
        assert "max_iter" in solution.message
        check(problem, solution)
    with pytest.warns(NotConverged, match="max_iter"):
        solution.unwrap()


def test_max_time_stops():
    problem = slow_problem()
    solution = SMO(tol=1e-12, max_time=1e-4).solve(problem)
    assert not solution.converged and "max_time" in solution.message
    check(problem, solution)


def test_the_callback_sees_progress_and_can_stop():
    X, y = classes(0, 3000, 5, noise=1.0)
    problem = machine(Gram(mercer.RBF(1.0), X, keep=False), y, 100.0)
    seen = []
    solution = SMO(callback=seen.append).solve(problem)
    assert solution.converged and len(seen) >= 3
    assert [set(info) for info in seen] == [{"n_iter", "violation", "active", "seconds"}] * len(
        seen
    )
    for name in ("n_iter", "seconds"):
        assert (np.diff([info[name] for info in seen]) >= 0).all()
    assert seen[-1]["violation"] < 0.1 * seen[0]["violation"]
    assert all(0 < info["active"] <= 3000 for info in seen)
    stopped = SMO(callback=lambda info: info["n_iter"] > 0).solve(problem)
    assert not stopped.converged and "callback" in stopped.message
    assert 0 < stopped.n_iter < solution.n_iter
    check(machine(problem.K.to_dense(), y, 100.0), stopped)


def test_what_a_callback_raises_is_raised():
    def press(info):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SMO(callback=press).solve(slow_problem())


SCRIPT = """
    import sys, time
    import numpy as np
    from mercer.solvers import SMO
    from tests.solvers.boxes import machine, classes, gram
    SMO().solve(machine(np.eye(4), np.array([1.0, 1, -1, -1]), 1.0))  # compile
    X, y = classes(0, 1500, 10, noise=5.0)
    problem = machine(gram("polynomial", X), y, 1e9)
    print("ready", flush=True)
    try:
        SMO(tol=1e-14, max_iter=10**12).solve(problem)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.exit(130)
    print("finished", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent otherwise on Windows")
def test_ctrl_c_is_heard_during_a_long_solve():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.join(root, "src"), root])}
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )
    try:
        assert process.stdout.readline().strip() == "ready", process.stderr.read()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
    finally:
        process.kill()
        process.wait()
    assert out.strip() == "interrupted" and process.returncode == 130, err


# --------------------------------------------------------------------------- hard matrices
def test_an_indefinite_matrix_is_named():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 40))
    y = np.where(rng.random(40) < 0.5, 1.0, -1.0)
    for offset in (True, False):
        with pytest.raises(NotPositiveDefinite, match="semidefinite"):
            SMO().solve(machine((A + A.T) / 2, y, 10.0, offset=offset))
        with pytest.raises(NotPositiveDefinite):
            SMO().solve(machine(-np.eye(40), y, 10.0, offset=offset))


def test_rounding_is_not_called_indefinite():
    """Gram matrices of rank 1 and of points given again and again have curvatures of ±1e-16."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.standard_normal(15), 8)
    y = np.where(rng.random(120) < 0.5, 1.0, -1.0)
    for K in (np.outer(x, x), np.exp(-((x[:, None] - x) ** 2)), 1e9 * np.outer(x, x)):
        for offset in (True, False):
            problem = machine(K, y, 1.0, offset=offset)
            check(problem, SMO().solve(problem))


@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize(
    "K",
    [np.ones((30, 30)), np.zeros((30, 30)), np.eye(30), 1e-12 * np.eye(30)],
    ids=["constant", "zero", "identity", "tiny"],
)
def test_degenerate_kernels_are_solved(K, offset):
    y = np.where(np.arange(30) % 3 == 0, 1.0, -1.0)
    for C in (1e-3, 1.0, 1e4):
        problem = machine(K, y, C, offset=offset)
        solution = SMO(tol=1e-6).solve(problem)
        assert solution.converged, solution.message
        check(problem, solution, 1e-6)


def test_where_the_optimum_is_zero_the_gap_is_judged_by_its_rounding():
    """A constant kernel and Σa = 0: f = 0 and the objective is 0, up to rounding."""
    rng = np.random.default_rng(0)
    for K in (np.ones((40, 40)), gram("linear", rng.standard_normal((40, 1)))):
        problem = BoxQP(K, np.zeros(40), -rng.random(40), rng.random(40), (0.0,))
        solution = SMO(tol=1e-6).solve(problem, start=rng.uniform(-1, 1, 40))
        assert solution.converged, solution.message
        check(problem, solution, 1e-6)


def test_contradicting_duplicates_are_at_their_bounds():
    X, y = classes(0, 60)
    X, y = np.vstack([X, X]), np.r_[y, -y]
    problem = machine(gram("gaussian", X), y, 7.0)
    solution = SMO(tol=1e-6).solve(problem)
    check(problem, solution, 1e-6)
    np.testing.assert_allclose(solution.extra["product"], 0, atol=1e-5)
    np.testing.assert_array_equal(solution.value, 7 * y)


@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize(("scale", "C"), [(1e12, 1e12), (1e12, 1.0), (1e-12, 1e12), (1.0, 1e12)])
@pytest.mark.parametrize("kind", KINDS)
def test_huge_scales_end_with_an_honest_certificate(kind, scale, C, offset):
    X, y = classes(3, 60, noise=0.5)
    problem = machine(scale * gram(kind, X), y, C, offset=offset)
    solution = SMO(max_iter=300_000).solve(problem)
    check(problem, solution)
    assert np.isfinite(solution.value).all()


def test_unscaled_columns_end_with_an_honest_certificate():
    X, y = classes(3, 80, noise=0.5)
    X = X * [1e6, 1.0, 1e-6]
    for kind in KINDS:
        problem = machine(gram(kind, X), y, 1.0)
        check(problem, SMO(max_iter=300_000).solve(problem))


# -------------------------------------------------------------------------- small and wrong
@pytest.mark.parametrize("totals", [(), (0.5,)])
def test_one_variable(totals):
    solution = SMO(tol=1e-9).solve(BoxQP([[2.0]], [-1.0], [0.0], [9.0], totals))
    assert solution.converged
    np.testing.assert_allclose(solution.value, 0.5)


@pytest.mark.parametrize("totals", [(), (0.25,), (0.5, -0.25)])
def test_one_point_with_two_variables(totals):
    groups = [0, 1] if len(totals) == 2 else None
    problem = BoxQP([[2.0]], [-0.5, -1.0], [0.0, -3.0], [3.0, 0.0], totals, groups, [0, 0])
    solution = SMO(tol=1e-9).solve(problem)
    assert solution.converged
    check(problem, solution, 1e-9)
    if not totals:
        np.testing.assert_allclose(solution.value, [0.25, 0.0], atol=1e-9)


def test_no_variable():
    solution = SMO().solve(BoxQP(np.zeros((0, 0)), [], [], []))
    assert solution.converged and solution.value.shape == (0,)
    assert solution.gap == solution.primal == solution.dual == 0
    solution = SMO().solve(BoxQP(np.eye(3), [], [], [], index=np.zeros(0, dtype=int)))
    assert solution.converged and solution.value.shape == (0,)


def test_a_box_of_one_point():
    problem = BoxQP(np.eye(3), np.ones(3), np.arange(3.0), np.arange(3.0), (3.0,))
    solution = SMO().solve(problem)
    np.testing.assert_array_equal(solution.value, [0, 1, 2])
    assert solution.converged and solution.gap == 0


def test_equal_bits_twice_and_inputs_left_alone():
    X, y = classes(0, 100, noise=1.0)
    problem = machine(gram("gaussian", X), y, 1.0)
    for v in (problem.K, problem.p, problem.lower, problem.upper):
        v.setflags(write=False)
    start = np.zeros(100)
    start.setflags(write=False)
    one, other = SMO().solve(problem, start), SMO().solve(problem, start)
    np.testing.assert_array_equal(one.value, other.value)
    assert one.n_iter == other.n_iter


@pytest.mark.parametrize("tol", [-1e-3, 0.0, np.nan, "small", None, True])
def test_a_tolerance_that_is_none_is_refused(tol):
    with pytest.raises(InvalidInput, match="tol"):
        SMO(tol=tol).solve(machine(np.eye(2), np.array([1.0, -1.0]), 1.0))


def test_another_problem_is_refused():
    with pytest.raises(InvalidInput, match="BoxQP"):
        SMO().solve(Linear(np.eye(2), np.ones(2)))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("offset", [True, False])
def test_a_matrix_with_nan_is_refused(value, offset):
    K = np.eye(6)
    K[2, 3] = K[3, 2] = value
    y = np.array([1.0, -1, 1, -1, 1, -1])
    with pytest.raises(InvalidInput, match=r"finite|NaN"):
        SMO().solve(machine(K, y, 1.0, offset=offset))


def test_an_asymmetric_matrix_is_refused():
    K = np.eye(6)
    K[2, 3] = 0.5
    with pytest.raises(InvalidInput, match="symmetric"):
        SMO().solve(machine(K, np.array([1.0, -1, 1, -1, 1, -1]), 1.0))


def test_it_says_what_it_is():
    assert repr(SMO(tol=0.1, max_iter=5)) == "SMO(tol=0.1, max_iter=5, max_time=None)"
