"""Passes of coordinate descent: the loop against its plain twin, and one variable by hand."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.jit.steps import passes

RNG = np.random.default_rng(0)


def twin(Q, p, v, l1, l2, most):
    p, v = p.copy(), v.copy()
    for _ in range(most):
        for j in range(len(v)):
            c = Q[j, j] + l2
            if c > 0:
                u = Q[j, j] * v[j] - p[j]
                new = np.sign(u) * max(0.0, abs(u) - l1) / c
                p, v[j] = p + (new - v[j]) * Q[j], new
    return p, v


def run(Q, p, v, l1, l2, most, goal=0.0):
    p, v = p.copy(), v.copy()
    made = passes(Q, Q.diagonal().copy(), p, v, l1, l2, most, goal)
    return made, p, v


@pytest.mark.parametrize("l2", [0.0, 0.7])
def test_it_is_what_it_says(l2):
    B = RNG.standard_normal((9, 6))
    Q, p, v = B.T @ B, 5 * RNG.standard_normal(6), RNG.standard_normal(6)
    made, got_p, got_v = run(Q, p, v, 1.5, l2, 4)
    want_p, want_v = twin(Q, p, v, 1.5, l2, 4)
    assert made == 4
    np.testing.assert_allclose(got_v, want_v, rtol=1e-12)
    np.testing.assert_allclose(got_p, want_p, atol=1e-11)
    np.testing.assert_allclose(got_p, p + Q @ (got_v - v), atol=1e-11)


def test_one_variable_by_hand():
    for p, v in ((-3.0, 1.0), (3.0, -1.0), (0.5, 0.0), (-1.0, 0.0)):
        got = run(np.array([[2.0]]), np.array([p]), np.zeros(1), 1.0, 0.0, 1)[2]
        assert got.tolist() == [v]


def test_a_column_of_nothing_stays_and_the_goal_ends_it():
    Q = np.diag([1.0, 0.0, 2.0])
    made, _, v = run(Q, np.array([-5.0, -5.0, -5.0]), np.zeros(3), 1.0, 0.0, 50, 1e-12)
    assert made == 2 and v.tolist() == [4.0, 0.0, 2.0]


def test_inputs_may_be_read_only():
    Q = np.eye(3)
    Q.setflags(write=False)
    diagonal = np.ones(3)
    diagonal.setflags(write=False)
    v = np.zeros(3)
    passes(Q, diagonal, np.array([-2.0, 0.0, 2.0]), v, 1.0, 0.0, 5, 0.0)
    assert v.tolist() == [1.0, 0.0, -1.0]
