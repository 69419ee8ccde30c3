"""Working sets, variables set aside, reused blocks, shared rows: large machinery on small data."""

import sys
import threading

import numpy as np
import pytest

import mercer
from mercer import RBF, SVC
from mercer.operators import Gram
from mercer.solvers import SMO, BoxQP, Rows
from mercer.solvers.box import descent, rows


@pytest.fixture
def small_sets(monkeypatch):
    """Sets of 24, variables set aside as soon as they are idle, no problem solved as one block."""
    monkeypatch.setattr(descent, "WORKING_SET", 24)
    monkeypatch.setattr("mercer.solvers.box.smo.WORKING_SET", 24)
    monkeypatch.setattr(descent, "PATIENCE", 1)
    monkeypatch.setattr(descent, "SET_ASIDE", 0.2)
    monkeypatch.setattr(descent, "SET_ASIDE_COPY", 0.2)
    monkeypatch.setattr(descent, "GATHERED_VARIABLES", 0)
    monkeypatch.setattr(descent, "AS_ONE", 0)
    monkeypatch.setattr(descent, "DRAGGING", 10**9)


def data(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, np.where(X[:, 0] + 0.7 * rng.standard_normal(n) > 0, 1.0, -1.0)


def problems(X, y, C=3.0):
    """Return the dual of every kind of machine: a sum, none, two, two variables a point, signs."""
    K, n, o = Gram(RBF(1.0), X, keep=False), len(y), np.ones(len(y))
    low, high = np.minimum(0, C * y), np.maximum(0, C * y)
    t = X[:, 0] + 0.3 * y
    twice = np.tile(np.arange(n), 2)
    pair = np.r_[0.1 - t, -0.1 - t], np.r_[0 * o, -C * o], np.r_[C * o, 0 * o]
    half = (0.2 * n, -0.2 * n)
    return {
        "a sum": BoxQP(K, -y, low, high, (0.0,)),
        "no sum": BoxQP(K, -y, low, high),
        "two sums": BoxQP(K, 0 * y, np.minimum(0, y), np.maximum(0, y), half, (y < 0) * 1),
        "two variables a point": BoxQP(K, *pair, (0.0,), index=twice),
        "two variables, no sum": BoxQP(K, *pair, index=twice),
        "signs": BoxQP(K, 0 * y, 0 * y, o, (0.3 * n,), signs=y),
    }


NAMES = list(problems(*data(8)))


def watch_blocks(monkeypatch, K):
    """Compare every block with K; count them, and those of restricted views."""
    count = {"whole": 0, "restricted": 0}
    original = descent.BoxDescent._block

    def checked(self, view, chosen, pool):
        Q = original(self, view, chosen, pool)
        variables = chosen if view.variables is None else view.variables[chosen]
        at = self.box.index[variables]
        true = K[np.ix_(at, at)]
        if self.box.signs is not None:
            s = self.box.signs[variables]
            true = true * s[:, None] * s
        np.testing.assert_allclose(Q, true, atol=1e-6)
        count["whole" if view.variables is None else "restricted"] += 1
        return Q

    monkeypatch.setattr(descent.BoxDescent, "_block", checked)
    return count


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_every_block_is_that_of_the_kernel(name, complete, small_sets, monkeypatch):
    X, y = data()
    problem = problems(X, y)[name]
    reference = SMO(tol=1e-5).solve(problem)
    count = watch_blocks(monkeypatch, RBF(1.0)(X))
    monkeypatch.setattr(rows, "WHOLE_UP_TO", 0)
    with mercer.config(memory="100MB" if complete else "700kB"):
        shared = Rows(problem.K)
        assert shared.complete == complete
        solution = SMO(tol=1e-5).solve(problem, rows=shared)
    assert solution.converged, solution.message
    assert abs(solution.dual - reference.dual) <= 3e-5 * abs(reference.dual)
    assert count["whole"] > 1 and count["restricted"] > 1, "the test must see both kinds"


@pytest.mark.parametrize("name", ["a sum", "two variables a point"])
def test_the_objective_never_rises(name, small_sets, monkeypatch):
    X, y = data(300, 1)
    problem = problems(X, y)[name]
    K, values = RBF(1.0)(X), []
    original = descent.BoxDescent._solve_block

    def noted(self, view, *args):
        moved = original(self, view, *args)
        a = self.view.a.copy()
        if view.variables is not None:
            a[view.variables] = view.a
        f = K @ np.bincount(self.box.index, weights=a, minlength=len(X))
        values.append(0.5 * a @ f[self.box.index] + problem.p @ a)
        return moved

    monkeypatch.setattr(descent.BoxDescent, "_solve_block", noted)
    assert SMO().solve(problem).converged
    assert len(values) > 3
    assert (np.diff(values) <= 1e-9 * np.abs(values[-1])).all()


def test_float32_rows_do_not_touch_the_certificate(small_sets, monkeypatch):
    monkeypatch.setattr(rows, "SINGLE_FROM", 10)
    monkeypatch.setattr(rows, "WHOLE_UP_TO", 0)
    X, y = data(500, 2)
    X = 3.0 * X
    problem = problems(X, y, C=50.0)["a sum"]
    shared = Rows(problem.K)
    assert not shared.exact
    solution = SMO(tol=1e-4).solve(problem, rows=shared)
    a, K = solution.value, RBF(1.0)(X)
    f = K @ a
    value = 0.5 * a @ f - y @ a
    b = solution.extra["multipliers"][0]
    G = f - y - b
    gap = (G * (a - np.where(G > 0, problem.lower, problem.upper))).sum()
    assert abs(-solution.dual - value) <= 1e-11 * abs(value)
    assert abs(solution.gap - gap) <= 1e-9 * abs(value)


def test_rows_may_be_filled_while_others_fetch(monkeypatch):
    monkeypatch.setattr(rows, "WHOLE_UP_TO", 0)
    X, _ = data(300, 3)
    K = RBF(1.0)(X)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for trial in range(20):
            shared = Rows(Gram(RBF(1.0), X, keep=False))
            failures = []

            def fetch(seed, shared=shared, failures=failures):
                rng = np.random.default_rng(seed)
                try:
                    for _ in range(10):
                        points = rng.permutation(300)[:20]
                        slots = shared.fetch(points)
                        np.testing.assert_allclose(shared.store[slots], K[points], atol=1e-12)
                except Exception as error:
                    failures.append(error)

            workers = [threading.Thread(target=fetch, args=(10 * trial + k,)) for k in range(3)]
            for worker in workers:
                worker.start()
            shared.fill()
            for worker in workers:
                worker.join()
            assert not failures, failures[0]
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_three_classes_do_not_depend_on_the_number_of_threads(multi_class, monkeypatch):
    monkeypatch.setattr("mercer.models.margin.problems.WORTH_THREADS", 0)
    monkeypatch.setattr(rows, "WHOLE_UP_TO", 0)
    monkeypatch.setattr("mercer.models.margin.problems.SMALL", 0)
    rng = np.random.default_rng(4)
    X = rng.standard_normal((600, 2))
    y = rng.integers(0, 3, 600)
    values = []
    for threads in (1, 2, 3):
        with mercer.config(threads=threads):
            model = SVC(RBF(1.0), C=2.0, multi_class=multi_class).fit(X, y)
        values.append((model.dual_coef_, model.intercept_))
    for coef, intercept in values[1:]:
        np.testing.assert_array_equal(coef, values[0][0])
        np.testing.assert_array_equal(intercept, values[0][1])
