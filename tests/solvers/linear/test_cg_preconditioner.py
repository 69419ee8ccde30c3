"""The low-rank preconditioner: what it solves, its rank, and weights as repetition."""

import numpy as np
import pytest

import mercer
from mercer.operators import Dense
from mercer.solvers import ConjugateGradients, Linear
from mercer.solvers.linear.cg import LowRankPreconditioner, default_rank

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 4, 80))
K = np.exp(-(np.subtract.outer(x, x) ** 2))
RIDGES = (1e-3, 10.0 ** rng.uniform(-4, 1, 80))


@pytest.mark.parametrize("ridge", [1e-3, 10.0 ** rng.uniform(-4, -3, 80)])
@pytest.mark.parametrize("scale", [1e-140, 1.0, 1e140])
def test_full_rank_is_the_matrix_itself(ridge, scale):
    rough = np.exp(-np.abs(np.subtract.outer(x, x)))  # no pivot of which can be left out
    ridge = np.asarray(ridge)
    P = LowRankPreconditioner(Dense(scale * rough), scale * ridge, rank=80, random_state=0)
    assert P.facts["rank"] == 80
    R = rng.standard_normal((80, 2))
    solved = scale * P.solve(R)
    back = rough @ solved + np.reshape(ridge, (-1, 1)) * solved
    np.testing.assert_allclose(back, R, atol=1e-6)
    np.testing.assert_allclose(scale * P.solve(R[:, 0]), solved[:, 0])


@pytest.mark.parametrize("ridge", RIDGES)
def test_condition_is_at_most_two_once_the_trace_says_so(ridge):
    P = LowRankPreconditioner(Dense(K), ridge, rank=80, random_state=0)
    assert P.facts["rank"] < 80  # it stops where more would not pay
    C = P.solve(K + np.diag(np.broadcast_to(ridge, 80)))
    values = np.linalg.eigvals(C).real
    assert values.min() > 1 - 1e-6 and values.max() < 2 + 1e-6


def test_no_ridge_and_nothing_at_all():
    P = LowRankPreconditioner(Dense(K), 0.0, rank=10, random_state=0)
    assert np.isfinite(P.solve(np.ones(80))).all()
    half = np.where(np.arange(80) < 40, 0.0, 1.0)
    R = rng.standard_normal(80)
    assert R @ LowRankPreconditioner(Dense(K), half, rank=10, random_state=0).solve(R) > 0
    zero = LowRankPreconditioner(Dense(np.zeros((3, 3))), 2.0, random_state=0)
    np.testing.assert_allclose(zero.solve(np.ones(3)), 0.5)


def test_an_object_of_it_serves_many_solves():
    P = LowRankPreconditioner(Dense(K), 1e-4, rank=20, random_state=0)
    b = np.sin(3 * x)
    fast = ConjugateGradients(preconditioner=P).solve(Linear(K, b, ridge=1e-4))
    named = ConjugateGradients(preconditioner="rpcholesky", rank=20, random_state=0)
    same = named.solve(Linear(K, b, ridge=1e-4))
    assert fast.converged and fast.n_iter == same.n_iter
    np.testing.assert_allclose(fast.value, same.value, rtol=1e-10)


def test_rank_is_cut_by_the_budget():
    assert default_rank(100) == 100 and default_rank(1000) == 300
    assert default_rank(10**4) == 500
    with mercer.config(memory=32 * 10**4 * 7):
        assert default_rank(10**4) == 7
    with mercer.config(memory=1000):
        assert default_rank(10**4) == 1


def test_slow_is_not_called_rounding():
    A, b = np.diag(np.logspace(0, -8, 600)), np.random.default_rng(0).normal(size=600)
    solution = ConjugateGradients(tol=1e-6, max_iter=20000).solve(Linear(A, b))
    assert solution.n_iter < 1000 and solution.extra["stopped"] == "slow"
    assert "rounding" not in solution.message and "'rpcholesky'" in solution.message
    assert "accept" not in solution.message  # tol must be below 1
    with mercer.config(memory=2**20):
        limited = ConjugateGradients(tol=1e-6, max_iter=5).solve(Linear(A, b))
    assert limited.extra["stopped"] == "limit" and "5 iterations" in limited.message


def test_default_rank_follows_size_and_budget():
    p, b = np.random.default_rng(0).uniform(-2, 2, (400, 2)), np.ones(400)
    A = np.exp(-((p[:, None] - p[None]) ** 2).sum(-1) / (2 * 0.05**2))
    solver = ConjugateGradients(preconditioner="rpcholesky", random_state=0)
    assert solver.solve(Linear(A, b, 1e-6)).extra["rank"] == 300
    with mercer.config(memory=400 * 32 * 9):
        assert solver.solve(Linear(A, b, 1e-6)).extra["rank"] == 9
