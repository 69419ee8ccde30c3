"""Conjugate gradients: answers, certificates, preconditioning, limits, hopeless systems."""

import numpy as np
import pytest

from mercer.errors import InvalidInput, NotConverged, NotPositiveDefinite
from mercer.operators import Dense, Gram
from mercer.solvers import Cholesky, ConjugateGradients, Linear, NystromPreconditioner, rpcholesky


def gram(n, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, n + 5))
    return X @ X.T / n


def with_spectrum(values, seed=0):
    n = len(values)
    Q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))
    K = (Q * values) @ Q.T
    return (K + K.T) / 2


def rbf(n, length=0.5, seed=0):
    X = np.random.default_rng(seed).uniform(-2, 2, (n, 2))
    return np.exp(-((X[:, None] - X[None]) ** 2).sum(-1) / (2 * length**2))


def residuals(A, b, x, ridge):
    full = np.asarray(A, dtype=float) + np.diag(np.broadcast_to(ridge, len(A)))
    b, x = b.reshape(len(A), -1), x.reshape(len(A), -1)
    return np.linalg.norm(full @ x - b, axis=0) / np.linalg.norm(b, axis=0)


class Watched(Dense):
    """A matrix that records the width of every product."""

    def __init__(self, array):
        super().__init__(array, symmetric=True)
        self.widths = []

    def _matmul(self, V):
        self.widths.append(V.shape[1])
        return super()._matmul(V)


@pytest.mark.parametrize("preconditioner", [None, "rpcholesky"])
@pytest.mark.parametrize("ridge", [0.3, np.linspace(0.1, 2, 90)], ids=["scalar", "vector"])
@pytest.mark.parametrize("shape", [(90,), (90, 1), (90, 8)])
def test_agrees_with_a_direct_solve_and_its_certificate_is_true(preconditioner, ridge, shape):
    A = gram(90)
    b = np.random.default_rng(1).standard_normal(shape)
    A.flags.writeable = b.flags.writeable = False
    solver = ConjugateGradients(tol=1e-10, preconditioner=preconditioner, random_state=0)
    solution = solver.solve(Linear(A, b, ridge))
    assert solution.converged and solution.message == "" and solution.value.shape == shape
    expected = np.linalg.solve(A + np.diag(np.broadcast_to(ridge, 90)), b)
    np.testing.assert_allclose(solution.value, expected, rtol=1e-6, atol=1e-9)
    again = residuals(A, b, solution.value, ridge)
    assert again.max() <= 1.01e-10
    np.testing.assert_allclose(solution.residual, again.max(), rtol=0.05, atol=1e-15)
    np.testing.assert_allclose(solution.extra["residuals"], again, rtol=0.05, atol=1e-15)
    assert solution.extra["columns_left"] == 0


@pytest.mark.parametrize("order", ["C", "F"])
def test_float32_matrices_reach_single_precision(order):
    A = np.array(gram(60), dtype=np.float32, order=order)
    b = np.random.default_rng(0).standard_normal((60, 2))
    solution = ConjugateGradients(tol=1e-5).solve(Linear(A, b, 0.5))
    assert solution.converged and residuals(A, b, solution.value, 0.5).max() < 1.1e-5


def test_the_preconditioner_lowers_the_number_of_iterations():
    A, b = rbf(500), np.random.default_rng(0).standard_normal((500, 3))
    counts = []
    for options in ({}, {"rank": 10}, {"rank": 150}):
        preconditioner = "rpcholesky" if options else None
        solver = ConjugateGradients(preconditioner=preconditioner, random_state=0, **options)
        solution = solver.solve(Linear(A, b, 1e-4))
        assert solution.converged
        counts.append(solution.n_iter)
    assert counts[0] > 1.2 * counts[1] > 1.2 * counts[2]
    assert counts[2] < counts[0] / 5


def test_full_rank_preconditioner_needs_a_couple_of_iterations():
    A = gram(80)
    solution = ConjugateGradients(preconditioner="rpcholesky", rank=80, random_state=0).solve(
        Linear(A, np.ones(80), 1e-3)
    )
    assert solution.converged and solution.n_iter <= 3
    assert solution.extra["rank"] == 80 and solution.extra["trace_error"] < 1e-12


def test_the_factor_stops_when_the_ridge_covers_the_rest():
    A = rbf(300)
    solver = ConjugateGradients(preconditioner="rpcholesky", rank=300, random_state=0)
    solution = solver.solve(Linear(A, np.ones(300), 0.1))
    assert solution.extra["rank"] < 200
    assert solver.solve(Linear(A, np.ones(300), 1e4)).extra["rank"] == 0


def test_a_preconditioner_of_ones_own():
    A, b = rbf(200), np.ones(200)
    own = NystromPreconditioner(rpcholesky(A, 100, 0).F, 1e-3)
    solution = ConjugateGradients(preconditioner=own).solve(Linear(A, b, 1e-3))
    assert solution.converged
    assert solution.n_iter < ConjugateGradients().solve(Linear(A, b, 1e-3)).n_iter / 2


def test_ridge_zero_with_preconditioner():
    A = gram(60) + 0.05 * np.eye(60)
    solver = ConjugateGradients(preconditioner="rpcholesky", rank=20, random_state=0)
    solution = solver.solve(Linear(A, np.ones(60)))
    assert solution.converged and residuals(A, np.ones(60), solution.value, 0.0).max() < 1.1e-8


def test_partly_zero_vector_ridge_with_preconditioner():
    A, ridge = gram(60) + 0.05 * np.eye(60), np.r_[np.zeros(30), np.ones(30)]
    solver = ConjugateGradients(preconditioner="rpcholesky", rank=20, random_state=0)
    solution = solver.solve(Linear(A, np.ones(60), ridge))
    assert solution.converged and residuals(A, np.ones(60), solution.value, ridge).max() < 1.1e-8


# ------------------------------------------------------------------------------- columns
def test_all_columns_share_one_product_and_leave_when_done():
    values = np.r_[np.ones(50), np.linspace(2, 100, 50)]
    A = with_spectrum(values)
    lam, V = np.linalg.eigh(A)
    rng = np.random.default_rng(0)
    easy = V[:, lam < 1.5] @ rng.standard_normal((50, 5))  # eigenvectors: one iteration
    hard = rng.standard_normal((100, 2))
    watched = Watched(A)
    solution = ConjugateGradients().solve(Linear(watched, np.hstack([easy, hard])))
    assert solution.converged
    assert watched.widths[0] == 7 and watched.widths[1] == 2
    assert solution.n_iter <= len(watched.widths) <= solution.n_iter + 3


def test_columns_do_not_influence_each_other():
    A, B = rbf(120), np.random.default_rng(0).standard_normal((120, 4))
    together = ConjugateGradients(tol=1e-10).solve(Linear(A, B, 0.01)).value
    for j in range(4):
        alone = ConjugateGradients(tol=1e-10).solve(Linear(A, B[:, j], 0.01)).value
        np.testing.assert_allclose(together[:, j], alone, rtol=1e-5, atol=1e-8)


def test_zero_right_hand_sides_cost_nothing():
    watched = Watched(gram(20))
    solution = ConjugateGradients().solve(Linear(watched, np.zeros((20, 3)), 1.0))
    assert solution.converged and solution.n_iter == 0 and solution.residual == 0.0
    assert not solution.value.any() and watched.widths == []
    b = np.zeros((20, 3))
    b[:, 1] = 1.0
    solution = ConjugateGradients().solve(Linear(watched, b, 1.0))
    assert solution.converged and not solution.value[:, [0, 2]].any() and solution.value[:, 1].any()


@pytest.mark.parametrize("preconditioner", [None, "rpcholesky"])
def test_one_by_one(preconditioner):
    solver = ConjugateGradients(preconditioner=preconditioner, random_state=0)
    solution = solver.solve(Linear([[3.0]], [8.0], 1.0))
    np.testing.assert_allclose(solution.value, [2.0], rtol=1e-8)
    assert solution.converged


@pytest.mark.parametrize("preconditioner", [None, "rpcholesky"])
@pytest.mark.parametrize("scale", [1e-200, 1e-150, 1e150, 1e200])
@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_extreme_scales(preconditioner, scale, size):
    A, b = gram(40), np.random.default_rng(0).standard_normal(40)
    solver = ConjugateGradients(preconditioner=preconditioner, random_state=0)
    solution = solver.solve(Linear(A * scale, b * size, 0.1 * scale))
    assert solution.converged
    expected = np.linalg.solve(A + 0.1 * np.eye(40), b)
    np.testing.assert_allclose(solution.value * (scale / size), expected, rtol=1e-5, atol=1e-8)


def test_a_solution_that_overflows_is_refused():
    with pytest.raises(InvalidInput, match="overflow"):
        ConjugateGradients().solve(Linear(np.eye(3) * 1e-200, np.full(3, 1e200)))


# ------------------------------------------------------------------------------- failure
def test_iteration_limit_is_reported_with_cause_and_cure():
    A, b = rbf(200), np.random.default_rng(0).standard_normal((200, 2))
    solution = ConjugateGradients(max_iter=5).solve(Linear(A, b, 1e-6))
    assert not solution.converged and solution.n_iter == 5
    again = residuals(A, b, solution.value, 1e-6).max()
    np.testing.assert_allclose(solution.residual, min(again, 1.0), rtol=1e-6)
    with pytest.warns(NotConverged, match=r"2 of 2 .*5 iterations.*max_iter.*rpcholesky") as seen:
        solution.unwrap()
    assert len(seen) == 1


def test_time_limit():
    A = rbf(200)
    solution = ConjugateGradients(max_time=1e-9).solve(Linear(A, np.ones(200), 1e-8))
    assert solution.n_iter == 1 and not solution.converged and "1e-09 s" in solution.message


def test_unreachable_tolerance_stalls_and_says_so():
    A = with_spectrum(np.logspace(0, -11, 60))
    b = np.random.default_rng(0).standard_normal(60)
    solution = ConjugateGradients(tol=1e-15, max_iter=5000).solve(Linear(A, b))
    assert not solution.converged and solution.n_iter < 5000
    assert "rounding or a singular matrix" in solution.message
    assert solution.extra["stopped"] == "rounding" and "accept" not in solution.message
    near = ConjugateGradients(tol=1e-15).solve(Linear(A, b, ridge=1e-3))
    assert not near.converged and "accept tol=" in near.message
    np.testing.assert_allclose(solution.residual, residuals(A, b, solution.value, 0.0)[0], rtol=0.1)


def test_inconsistent_singular_system_is_not_called_solved():
    A = np.ones((2, 2))
    solution = ConjugateGradients().solve(Linear(A, np.array([1.0, -1.0])))
    assert not solution.converged and solution.residual >= 0.99
    assert np.isfinite(solution.value).all()
    A = np.diag(np.r_[np.ones(20), np.zeros(5)])
    solution = ConjugateGradients().solve(Linear(A, np.ones(25)))
    assert not solution.converged and 0.4 < solution.residual <= 1.0
    with pytest.warns(NotConverged, match="singular"):
        solution.unwrap()


def test_consistent_singular_systems_are_solved():
    F = np.random.default_rng(0).standard_normal((50, 4))
    A = F @ F.T
    b = A @ np.ones(50)
    solution = ConjugateGradients().solve(Linear(A, b))
    assert solution.converged
    np.testing.assert_allclose(A @ solution.value, b, rtol=1e-6, atol=1e-6)


def test_the_zero_matrix():
    solution = ConjugateGradients().solve(Linear(np.zeros((3, 3)), np.ones(3)))
    assert not solution.converged and not solution.value.any()
    assert solution.residual == pytest.approx(1.0, rel=1e-14)
    for preconditioner in (None, "rpcholesky"):
        solver = ConjugateGradients(preconditioner=preconditioner, random_state=0)
        solution = solver.solve(Linear(np.zeros((3, 3)), np.ones(3), 2.0))
        np.testing.assert_allclose(solution.value, 0.5)


@pytest.mark.parametrize("preconditioner", [None, "rpcholesky"])
def test_indefinite_matrices_are_refused_with_a_proof(preconditioner):
    A = with_spectrum(np.r_[-0.5, np.linspace(0.5, 2, 30)])
    solver = ConjugateGradients(preconditioner=preconditioner, random_state=0, rank=31)
    with pytest.raises(NotPositiveDefinite):
        solver.solve(Linear(A, np.random.default_rng(0).standard_normal(31)))


def test_the_proof_of_indefiniteness_is_a_rayleigh_quotient():
    A = with_spectrum(np.r_[-0.5, np.linspace(0.5, 2, 30)])
    with pytest.raises(NotPositiveDefinite, match="check_kernel") as error:
        ConjugateGradients().solve(Linear(A, np.random.default_rng(0).standard_normal(31)))
    assert -0.5 - 1e-9 <= error.value.smallest_eigenvalue < 0
    with pytest.raises(NotPositiveDefinite, match="entry 1") as error:
        ConjugateGradients().solve(Linear(np.diag([1.0, -2.0]), np.ones(2), 0.5))
    assert error.value.smallest_eigenvalue == -1.5


def test_asymmetric_matrices_are_refused():
    with pytest.raises(InvalidInput, match="symmetric"):
        ConjugateGradients().solve(Linear(np.array([[2.0, 1.0], [0.0, 2.0]]), np.ones(2)))


@pytest.mark.parametrize("sign", [-1.0, 0.0, np.nan])
def test_a_preconditioner_that_is_not_positive_definite_is_refused(sign):
    class Bad:
        def solve(self, R):
            return sign * R

    with pytest.raises(InvalidInput, match="preconditioner"):
        ConjugateGradients(preconditioner=Bad()).solve(Linear(np.eye(3), np.ones(3)))


def test_an_operator_that_turns_nan_is_refused():
    class Rotten(Dense):
        def _matmul(self, V):
            return np.full(V.shape, np.nan)

    with pytest.raises(InvalidInput, match="NaN"):
        ConjugateGradients().solve(Linear(Rotten(np.eye(3), True), np.ones(3)))


class Drifting(Dense):
    """Products whose error grows with the size of the vector, as in a noisy engine."""

    def __init__(self, array, noise):
        super().__init__(array, symmetric=True)
        self.noise, self.rng = noise, np.random.default_rng(0)

    def _matmul(self, V):
        out = super()._matmul(V)
        return out * (1 + self.noise * self.rng.standard_normal(out.shape))


def test_a_drifting_recurrence_is_not_believed():
    A, b = gram(80), np.random.default_rng(1).standard_normal(80)
    solution = ConjugateGradients(tol=1e-12).solve(Linear(Drifting(A, 1e-7), b, 1e-2))
    assert not solution.converged
    assert residuals(A, b, solution.value, 1e-2)[0] > 1e-12
    good = ConjugateGradients(tol=1e-4).solve(Linear(Drifting(A, 1e-7), b, 1e-2))
    assert good.converged and residuals(A, b, good.value, 1e-2)[0] < 1.1e-4


def test_true_residuals_are_taken_every_fifty_iterations_and_at_the_end():
    A = Watched(with_spectrum(np.logspace(0, -5, 300)))
    b = np.random.default_rng(0).standard_normal(300)
    solution = ConjugateGradients(max_iter=120).solve(Linear(A, b))
    assert solution.n_iter == 120 and len(A.widths) == 120 + 2 + 1


class OneFault(Dense):
    """The tenth product is wrong, as after a flipped bit."""

    def __init__(self, array):
        super().__init__(array, symmetric=True)
        self.count = 0

    def _matmul(self, V):
        self.count += 1
        return super()._matmul(V) * (2.0 if self.count == 10 else 1.0)


def test_a_single_wrong_product_is_noticed_at_the_next_check_and_repaired():
    A, b = with_spectrum(np.linspace(1, 30, 200)), np.random.default_rng(0).standard_normal(200)
    seen = []
    solver = ConjugateGradients(tol=1e-13, callback=lambda i, r: seen.append(r))
    solution = solver.solve(Linear(OneFault(A), b))
    assert seen[49] > 100 * seen[48]  # the recurrence had believed itself
    assert solution.residual < 2e-13 and residuals(A, b, solution.value, 0.0)[0] < 2e-13


# --------------------------------------------------------------------- callback, interrupt
def test_callback_sees_every_iteration_and_ends_below_the_tolerance():
    seen = []
    A = rbf(100)
    solver = ConjugateGradients(callback=lambda i, r: seen.append((i, r)))
    solution = solver.solve(Linear(A, np.random.default_rng(0).standard_normal((100, 3)), 0.01))
    assert [i for i, _ in seen] == list(range(1, solution.n_iter + 1))
    assert all(type(r) is float for _, r in seen)
    assert seen[0][1] > seen[-1][1] and seen[-1][1] <= 1e-8


def test_an_interrupt_passes_through_and_leaves_everything_as_it_was():
    A, b = rbf(100), np.ones(100)
    A0, b0 = A.copy(), b.copy()

    def stop(iteration, residual):
        if iteration == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ConjugateGradients(callback=stop).solve(Linear(A, b, 0.01))
    np.testing.assert_array_equal(A, A0)
    np.testing.assert_array_equal(b, b0)


def test_same_seed_same_bits():
    A, b = rbf(200), np.ones(200)
    solver = ConjugateGradients(preconditioner="rpcholesky", rank=30, random_state=3)
    one, two = (solver.solve(Linear(A, b, 1e-3)) for _ in range(2))
    np.testing.assert_array_equal(one.value, two.value)
    assert one.n_iter == two.n_iter


def test_lazy_gram_matrix():
    from mercer import RBF

    X = np.random.default_rng(0).standard_normal((150, 3))
    problem = Linear(Gram(RBF(), X, keep=False), X, 0.1)
    direct = Cholesky().solve(problem).value
    for preconditioner in (None, "rpcholesky"):
        solver = ConjugateGradients(tol=1e-10, preconditioner=preconditioner, random_state=0)
        np.testing.assert_allclose(solver.solve(problem).value, direct, rtol=1e-6, atol=1e-8)
    with pytest.raises(InvalidInput, match="not symmetric"):
        ConjugateGradients().solve(Linear(Gram(RBF(), X, X + 1), np.ones(150)))


BAD = {
    "tol": [0.0, 1.0, "x"],
    "max_iter": [0, 1.5],
    "rank": [0],
    "max_time": [0.0],
    "callback": [3],
    "preconditioner": ["jacobi", 3, np.eye(3)],
}


@pytest.mark.parametrize("name", BAD)
def test_parameters_are_checked(name):
    for value in BAD[name]:
        with pytest.raises(InvalidInput, match=name):
            ConjugateGradients(**{name: value})
