"""BoxQP: what it refuses, the feasible point near a start, the certificate of a point."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from mercer import RBF
from mercer.errors import InvalidInput
from mercer.operators import Gram
from mercer.solvers import SMO, BoxQP
from tests.solvers.boxes import Certificate, arrays, random_box


def plain(**changes):
    """Three variables, one sum; with what a test changes."""
    given = {"K": np.eye(3), "p": [1.0, 2, 3], "lower": [0.0] * 3, "upper": [1.0] * 3}
    return BoxQP(**{**given, "totals": (1.0,), **changes})


def test_lists_and_integers_are_numbers_too():
    problem = BoxQP([[2, 0], [0, 2]], [-1, -2], [0, 0], [1, 1], index=[1, 0], signs=[1, -1])
    np.testing.assert_allclose(SMO(tol=1e-9).solve(problem).value, [0.5, 1.0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"K": np.ones((3, 2))}, "square"),
        ({"K": np.eye(4)}, "p"),
        ({"K": np.ones(3)}, "square"),
        ({"K": np.full((3, 3), "x")}, "dtype"),
        ({"K": 1j * np.eye(3)}, "dtype"),
        ({"K": Gram(RBF(), np.ones((3, 1)), np.ones((3, 1)))}, "symmetric"),
        ({"p": [1.0, 2.0]}, "p"),
        ({"p": [1.0, 2.0, np.nan]}, "p.*nan"),
        ({"p": ["a", "b", "c"]}, "p"),
        ({"lower": [0.0, 0.0]}, "lower"),
        ({"lower": [0.0, 0.0, -np.inf]}, "lower"),
        ({"upper": [1.0, 1.0, np.inf]}, "upper"),
        ({"upper": [1.0, np.nan, 1.0]}, "upper"),
        ({"upper": [1.0, -1.0, 1.0]}, r"lower\[1\] = 0 > upper\[1\] = -1"),
        ({"totals": (4.0,)}, "sum 4 of group 0 cannot be reached.*between 0 and 3"),
        ({"totals": (-0.1,)}, "cannot be reached"),
        ({"totals": (np.nan,)}, "sum|total"),
        ({"totals": (1.0, 1.0), "groups": [0, 0, 0]}, "group 1 cannot be reached"),
        ({"totals": (2.5, 0.0), "groups": [0, 0, 1]}, "group 0 cannot be reached"),
        ({"totals": (1.0, 0.0, 0.0)}, "at most two"),
        ({"groups": [0, 1]}, "groups"),
        ({"groups": [0, 0, 1]}, "groups"),
        ({"groups": [0, 0, 5]}, "groups"),
        ({"groups": [0, -1, 0]}, "groups"),
        ({"index": [0, 1, 3]}, "index"),
        ({"index": [0, 1, -1]}, "index"),
        ({"index": [0, 1]}, "p"),
        ({"index": [0.5, 1, 2]}, "index"),
        ({"signs": [1.0, -1.0]}, "signs"),
        ({"signs": [1.0, -1.0, 2.0]}, "signs"),
        ({"signs": [1.0, -1.0, np.nan]}, "signs"),
    ],
)
def test_what_is_no_problem_is_refused_by_name(changes, message):
    with pytest.raises(InvalidInput, match=f"SMO.*({message})"):
        SMO().solve(plain(**changes))


def test_totals_at_the_edge_of_the_box_are_reached():
    for total, expected in ((0.0, [0, 0, 0]), (3.0, [1, 1, 1])):
        solution = SMO().solve(plain(totals=(total,)))
        np.testing.assert_array_equal(solution.value, expected)
        assert solution.converged and 0 <= solution.gap < 1e-14
    weight = np.random.default_rng(0).random(1000)
    edge = BoxQP(np.eye(1000), np.zeros(1000), np.zeros(1000), weight, (float(sum(weight)),))
    np.testing.assert_allclose(SMO().solve(edge).value, weight)  # summed in another order


@pytest.mark.parametrize("seed", range(30))
def test_any_start_is_moved_into_the_box_and_its_sums_are_put_right(seed):
    problem = random_box(seed)
    rng = np.random.default_rng(seed)
    _, _, lower, upper, _ = arrays(problem)
    for scale in (0.0, 0.1, 10.0):
        start = scale * rng.standard_normal(len(lower))
        a = SMO(max_iter=0).solve(problem, start).value
        true = Certificate(problem, a, np.zeros(2))
        assert true.outside == 0
        np.testing.assert_allclose(true.sums, problem.totals, atol=true.slack)
        kept = SMO(max_iter=0).solve(problem, a).value  # a feasible point is its own repair
        np.testing.assert_allclose(kept, a, atol=true.slack)
    if not problem.totals:
        np.testing.assert_array_equal(a, np.clip(start, lower, upper))


@pytest.mark.parametrize("seed", range(30))
def test_primal_minus_dual_is_the_gap_and_bounds_the_minimum(seed):
    """−dual is the objective of a feasible point; −primal is below the minimum over the box."""
    problem = random_box(seed)
    best = SMO(tol=1e-10).solve(problem)
    for limit in (0, 1, 3, 10):
        some = SMO(max_iter=limit).solve(problem)
        true = Certificate(problem, some.value, some.extra["multipliers"])
        np.testing.assert_allclose(some.gap, true.gap, rtol=1e-9, atol=true.haze)
        np.testing.assert_allclose(some.dual, -true.value, rtol=1e-9, atol=1e-12 * true.size)
        assert some.gap >= 0
        assert some.primal >= best.dual - 1e-9 * (1 + abs(best.dual))
        assert some.dual <= best.dual + 1e-9 * (1 + abs(best.dual))


@pytest.mark.parametrize("seed", range(10))
def test_the_gap_is_the_best_first_order_decrease_when_the_multiplier_is_right(seed):
    """max over the feasible x of Gᵀ(a − x) is the smallest gap over all multipliers: an LP."""
    problem = random_box(3 * seed + 1)
    assert len(problem.totals) == 1
    Q, p, lower, upper, _ = arrays(problem)
    solution = SMO(max_iter=3).solve(problem)
    G = Q @ solution.value + p
    least = linprog(
        G, A_eq=np.ones((1, len(p))), b_eq=problem.totals, bounds=np.column_stack([lower, upper])
    )
    assert solution.gap >= G @ solution.value - least.fun - 1e-9 * abs(least.fun)


def test_multipliers_where_nothing_is_free():
    """Between the gradients that the bounds allow; with all at one bound, at the edge of them."""
    K = np.zeros((4, 4))
    problem = BoxQP(K, [1.0, 2.0, 5.0, 9.0], np.zeros(4), np.ones(4), (2.0,))
    solution = SMO(tol=1e-9).solve(problem)
    np.testing.assert_array_equal(solution.value, [1, 1, 0, 0])
    assert 2 <= solution.extra["multipliers"][0] <= 5 and solution.gap == 0
    empty = SMO(tol=1e-9).solve(BoxQP(K, [1.0, 2, 5, 9], np.zeros(4), np.ones(4), (0.0,)))
    assert empty.extra["multipliers"][0] <= 1 and empty.gap == 0 and empty.converged
    full = SMO(tol=1e-9).solve(BoxQP(K, [1.0, 2, 5, 9], np.zeros(4), np.ones(4), (4.0,)))
    assert full.extra["multipliers"][0] >= 9 and full.gap == 0 and full.converged


def test_a_problem_is_frozen():
    with pytest.raises(AttributeError):
        plain().p = np.zeros(3)
