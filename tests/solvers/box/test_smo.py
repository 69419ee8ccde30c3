"""SMO: answers against LIBSVM and brute force, certificates from scratch, starts, rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.svm import SVC as LIBSVM

import mercer
from mercer.errors import InvalidInput
from mercer.operators import Dense, Gram
from mercer.solvers import SMO, BoxQP, Rows
from tests.solvers.boxes import (
    Certificate,
    arrays,
    by_coordinates,
    check,
    classes,
    gram,
    machine,
    random_box,
)

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


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")  # of SLSQP, by rounding
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


def test_many_points_go_through_working_sets_and_are_set_aside(monkeypatch):
    """More points than a working set holds: float32 rows, sets, shrinking, a true certificate.

    Far from the margin, where it decides nothing, the product may be that of float32 rows.
    """
    monkeypatch.setattr("mercer.solvers.box.descent.AS_ONE", 0)
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
