"""SMO at its limits: stops, Ctrl-C, matrices that are no Gram matrices, huge scales, nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import mercer
from mercer.errors import InvalidInput, NotConverged, NotPositiveDefinite
from mercer.operators import Gram
from mercer.solvers import SMO, BoxQP, Linear
from tests.solvers.boxes import check, classes, gram, machine

KINDS = ("linear", "polynomial", "gaussian")


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


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to another process")
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
