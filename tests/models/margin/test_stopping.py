"""KKT violations by hand, verdicts, and the words of warnings."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.models.margin.hard import kkt_violation
from mercer.models.margin.problems import is_good, stopped
from mercer.solvers import Solution


def solution(**facts):
    return Solution(
        value=None, converged=False, **{"n_iter": 7, "residual": 0.5, "gap": 2.0, **facts}
    )


def test_violations_by_hand():
    y, none = np.array([1.0, 1.0, -1.0, -1.0]), np.zeros(4, dtype=bool)
    a = np.array([0.5, 0.0, -0.5, 0.0])
    f = np.array([1.0, 3.0, -1.0, -2.0])
    assert kkt_violation(f, y, a, none, True) == kkt_violation(f, y, a, none, False) == 0
    assert kkt_violation(f + 5, y, a, none, True) == 0  # an offset may absorb it
    assert kkt_violation(f + 5, y, a, none, False) == 5
    inside = np.array([1.0, 0.25, -1.0, -2.0])  # a point without a coefficient inside the margin
    assert kkt_violation(inside, y, a, none, True) == 0.75
    beyond = np.array([1.5, 3.0, -1.25, -2.0])  # support vectors beyond it, on both sides
    assert kkt_violation(beyond, y, a, none, True) == 0.75
    assert kkt_violation(beyond, y, a, none, False) == 0.5
    low = np.array([-4.0, 3.0, -1.0, -2.0])  # below the margin, which is right at the bound
    assert kkt_violation(low, y, a, np.array([True, False, False, False]), True) == 0
    assert kkt_violation(low, y, a, none, True) == 5


def test_the_verdict_needs_both():
    good = solution(residual=1e-4, gap=1e-4, primal=1.0, dual=0.9999)
    assert is_good(good, 1e-3) and not is_good(good, 1e-5)
    assert not is_good(solution(residual=1e-4, gap=0.1, primal=1.0, dual=0.9), 1e-3)
    assert is_good(solution(residual=1e-4, gap=0.1, primal=1.0, dual=0.9), 1e-3, floor=0.2)
    assert not is_good(solution(residual=0.1, gap=0.0, primal=1.0, dual=1.0), 1e-3)


@pytest.mark.parametrize(
    ("cause", "begin"),
    [
        ("stopped by max_iter after 9 steps", "stopped by max_iter after 7 steps"),
        ("stopped by max_time (…)", "stopped by max_time"),
        ("stopped by the callback", "stopped by the callback"),
        ("rounding hides … lower C, or raise max_iter", "rounding hides"),
        ("", "rounding hides"),
    ],
)
def test_the_numbers_are_those_of_the_certificate(cause, begin):
    text = stopped(cause, solution(primal=8.0, dual=6.0), 1e-3, "or scale the columns.")
    assert text.startswith(begin) and "lower C" not in text
    assert "KKT violation 0.5, gap 2 of an objective of 8, tolerance 0.001" in text
