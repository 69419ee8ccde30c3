"""Problems descended side by side on a device end where they end one by one."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from mercer import RBF, SVC
from mercer.checks import Clock
from mercer.errors import NotConverged
from mercer.models.margin import problems
from mercer.operators import Gram
from mercer.selection import search
from mercer.solvers import SMO, BoxQP
from mercer.solvers.box import rows, rows_for, together

pytest.importorskip("torch", reason="torch is not installed")
from tests.pretend_cuda import pretend_cuda, to_cuda

N = 240
rng = np.random.default_rng(0)
X = rng.standard_normal((N, 3))
X[-20:] = X[:20]  # points that are given twice
F = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(N)
CS = [0.1, 1.0, 30.0]


def labels(classes):
    return np.digitize(F, np.quantile(F, np.linspace(0, 1, classes + 1)[1:-1]))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Let few rows be many, and working sets have less than all variables."""
    monkeypatch.setattr(rows, "RESIDENT_FROM", 20)
    monkeypatch.setattr(problems, "SMALL", 0)
    for name, value in {"SIZE": 64, "FRESH": 16, "STEPS": 256}.items():
        monkeypatch.setattr(together, name, value)


@pytest.fixture
def seen(monkeypatch):
    """Collect what is descended together."""
    made, run = [], problems.descend_together
    monkeypatch.setattr(problems, "descend_together", lambda *a: made.append(run(*a)) or made[-1])
    return made


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("multi", ["ovo", "ovr"])
@pytest.mark.parametrize("C", CS)
def test_classes_are_those_of_main_memory(monkeypatch, seen, single, multi, C):
    monkeypatch.setattr(rows, "SINGLE_FROM", 20 if single else 10**6)
    y, weights = labels(4), np.arange(N) % 3 / 2.0
    model = SVC(RBF(1.0), C=C, tol=1e-6, multi_class=multi, decision_function_shape="ovr")
    expected = model.fit(X, y, weights).decision_function(X)
    dual = model.solution_.dual
    with pretend_cuda():
        model.fit(to_cuda(X), to_cuda(y), to_cuda(weights))
    assert seen[-1] is not None and len(seen[-1].steps) == (6 if multi == "ovo" else 4)
    proven = [solution for solution in seen[-1].solutions if solution is not None]
    assert bool(proven) != single
    assert model.solution_.converged and model.solution_.residual <= 1e-6
    assert model.solution_.dual == pytest.approx(dual, rel=1e-6)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-4)


@pytest.mark.parametrize("intercept", [True, False])
def test_searches_and_paths_are_those_of_main_memory(seen, intercept):
    model, y = SVC(RBF(1.0), tol=1e-6, fit_intercept=intercept), labels(3)
    expected = search(model, {"C": CS}, X, y, cv=4)
    along = model.path(X, y, CS, cv=4)
    with pretend_cuda():
        found = search(model, {"C": CS}, to_cuda(X), to_cuda(y), cv=4)
        there = model.path(to_cuda(X), to_cuda(y), CS, cv=4)
    if intercept:  # all three values, four folds, three pairs
        assert any(each is not None and len(each.steps) == 36 for each in seen)
    else:
        assert all(each is None for each in seen)
    for key in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(found.results_[key], expected.results_[key], atol=1e-12)
    assert found.best_params_ == expected.best_params_
    np.testing.assert_allclose(there.scores, along.scores, atol=1e-12)
    np.testing.assert_allclose(there.losses, along.losses, atol=1e-5)


def test_probabilities_are_those_of_main_memory(seen):
    model, y = SVC(RBF(1.0), tol=1e-7, probability=True), labels(3)
    expected = model.fit(X, y).predict_proba(X)
    with pretend_cuda():
        model.fit(to_cuda(X), y)
    assert len(seen[-1].steps) == 15  # five folds of three pairs
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-4)


def test_a_fold_of_one_class_says_that_class():
    y = np.zeros(N, dtype=int)
    y[:3], folds = 1, [(np.arange(3, N), np.arange(3)), (np.arange(0, N, 2), np.arange(1, N, 2))]
    model = SVC(RBF(1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = model.path(X, y, CS, cv=folds)
        with pretend_cuda():
            found = model.path(to_cuda(X), y, CS, cv=folds)
    np.testing.assert_allclose(found.scores, expected.scores)


def both(K):
    """Return problems of two values of C, with what is descended together."""
    y = np.where(F > 0, 1.0, -1.0)
    return [BoxQP(K, -y, np.minimum(0, C * y), np.maximum(0, C * y), (0.0,)) for C in (1.0, 5.0)]


def test_starts_limits_and_memory(monkeypatch):
    with pretend_cuda():
        K = Gram(RBF(1.0), to_cuda(X), keep=False)
        found = rows_for(K, single=False)
        some = both(K)
        one = together.descend_together(some, found, 1e-8, Clock(None))
        again = together.descend_together(some, found, 1e-8, Clock(None), one.starts)
        assert again.steps == [0, 0] and all(again.solutions)
        for problem, solution, start in zip(some, one.solutions, one.starts, strict=True):
            told = SMO(1e-8).solve(BoxQP(RBF(1.0)(X), *_rest(problem)))
            assert solution.dual == pytest.approx(told.dual, rel=1e-7)
            assert (start >= problem.lower).all() and (start <= problem.upper).all()
            assert abs(start.sum()) < 1e-9
        late = together.descend_together(some, found, 1e-8, Clock(1e-9))
        assert late.solutions == [None, None]
        monkeypatch.setattr(together, "PATIENCE", 0)
        stuck = together.descend_together(some, found, 1e-8, Clock(None))
        assert stuck.solutions == [None, None] and max(stuck.steps) > 0
        assert together.descend_together(some[:1], found, 1e-8, Clock(None)) is None
    with pretend_cuda(free=8 * N * N * 3):  # one problem at a time
        found = rows_for(Gram(RBF(1.0), to_cuda(X), keep=False), single=False)
        monkeypatch.undo()
        alone = together.descend_together(some, found, 1e-8, Clock(None))
        for mine, other in zip(alone.solutions, one.solutions, strict=True):  # points given twice
            assert mine.dual == pytest.approx(other.dual, rel=1e-7)  # share what they have
    assert together.descend_together(some, rows_for(K_host()), 1e-8, Clock(None)) is None


def _rest(problem):
    return problem.p, problem.lower, problem.upper, problem.totals


def K_host():
    return Gram(RBF(1.0), X, keep=False)


def test_limits_on_steps_are_those_of_one_problem(seen):
    with pretend_cuda(), pytest.warns(NotConverged, match="max_iter"):
        SVC(RBF(1.0), C=30.0, max_iter=5).fit(to_cuda(X), labels(3))
    assert not seen
