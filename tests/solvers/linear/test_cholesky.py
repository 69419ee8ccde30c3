"""factor and Cholesky against NumPy, on matrices good, bad and indifferent."""

import tracemalloc

import numpy as np
import pytest
import scipy.linalg as sla

from mercer import config
from mercer.errors import InvalidInput, MemoryBudgetExceeded, NotConverged, NotPositiveDefinite
from mercer.operators import Centered, Dense, Gram, LowRank
from mercer.solvers import Cholesky, Linear, factor
from mercer.solvers.linear import inplace as diagnosis_module


def gram(n, seed=0, rank=None):
    X = np.random.default_rng(seed).standard_normal((n, rank or n + 5))
    K = X @ X.T
    return (K + K.T) / 2


def with_spectrum(values, seed=0):
    n = len(values)
    Q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))
    K = (Q * values) @ Q.T
    return (K + K.T) / 2


def rbf(n, length=1.0, seed=0):
    x = np.random.default_rng(seed).uniform(0, 4, n)
    return np.exp(-(np.subtract.outer(x, x) ** 2) / (2 * length**2))


# ---------------------------------------------------------------------------- the factor
@pytest.mark.parametrize("n", [1, 2, 5, 255, 256, 257, 600])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_everything_agrees_with_numpy(n, order, overwrite):
    K = np.array(gram(n), order=order)
    full = K + 0.5 * np.eye(n)
    rng = np.random.default_rng(1)
    b, B = rng.standard_normal(n), rng.standard_normal((n, 4))
    before = K.copy()
    f = factor(K, 0.5, overwrite=overwrite)
    if not overwrite:
        np.testing.assert_array_equal(K, before)
    assert f.jitter == 0.0 and f.n == n
    tight = {"rtol": 1e-8, "atol": 1e-10}
    np.testing.assert_allclose(f.lower(), np.linalg.cholesky(full), **tight)
    np.testing.assert_allclose(f.solve(b), np.linalg.solve(full, b), **tight)
    for rhs in (B, np.asfortranarray(B), B[:, :1], B[:, ::2]):
        keep = rhs.copy()
        np.testing.assert_allclose(f.solve(rhs), np.linalg.solve(full, rhs), **tight)
        half = sla.solve_triangular(np.linalg.cholesky(full), rhs, lower=True)
        np.testing.assert_allclose(f.half_solve(rhs), half, **tight)
        np.testing.assert_allclose(f.matmul(rhs), full @ rhs, **tight)
        np.testing.assert_array_equal(rhs, keep)
    np.testing.assert_allclose(f.matmul(b), full @ b, **tight)
    np.testing.assert_allclose((f.half_solve(b) ** 2).sum(), b @ np.linalg.solve(full, b), **tight)
    np.testing.assert_allclose(f.logdet(), np.linalg.slogdet(full)[1], rtol=1e-10, atol=1e-10)
    inverse = np.linalg.inv(full)
    np.testing.assert_allclose(f.inverse(), inverse, **tight)
    np.testing.assert_array_equal(f.inverse(), f.inverse().T)
    np.testing.assert_allclose(f.inverse_diagonal(), np.diagonal(inverse), **tight)
    np.testing.assert_allclose(f.solve(b), np.linalg.solve(full, b), **tight)  # still usable


def test_vector_ridge():
    K, ridge = gram(30), np.random.default_rng(3).uniform(0, 2, 30)
    f = factor(K, ridge)
    np.testing.assert_allclose(f.inverse(), np.linalg.inv(K + np.diag(ridge)), rtol=1e-7)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_extreme_scales(scale):
    K, b = gram(20), np.random.default_rng(0).standard_normal(20)
    f = factor(K * scale, scale)
    expected = np.linalg.solve(K + np.eye(20), b) / scale
    np.testing.assert_allclose(f.solve(b), expected, rtol=1e-9)
    np.testing.assert_allclose(f.matmul(expected), b, rtol=1e-9)
    logdet = np.linalg.slogdet(K + np.eye(20))[1] + 20 * np.log(scale)
    np.testing.assert_allclose(f.logdet(), logdet, rtol=1e-12)


def test_float32_is_factorised_in_float64():
    K = (gram(40) + np.eye(40)).astype(np.float32)
    before = K.copy()
    f = factor(K, overwrite=True)
    np.testing.assert_array_equal(K, before)
    x = f.solve(np.ones(40, dtype=np.float32))
    assert x.dtype == np.float64
    np.testing.assert_allclose(K.astype(float) @ x, np.ones(40), rtol=1e-10)


def test_empty_matrix_has_an_empty_factor():
    f = factor(np.zeros((0, 0)))
    assert f.logdet() == 0.0 and f.solve(np.zeros(0)).shape == (0,)
    assert f.solve(np.zeros((0, 3))).shape == (0, 3) and f.inverse().shape == (0, 0)
    assert f.inverse_diagonal().shape == (0,) and f.lower().shape == (0, 0)
    assert f.matmul(np.zeros((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("n", [0, 1, 2, 70, 300])
def test_into_inverse_leaves_the_matrix_beside_it(n):
    K = gram(n) if n else np.zeros((0, 0))
    f = factor(K, 0.5)
    assert f.trace() == pytest.approx(np.trace(K) + 0.5 * n)
    kept = f._a
    a = f.into_inverse()
    assert a is kept
    np.testing.assert_allclose(np.tril(a), np.tril(np.linalg.inv(K + 0.5 * np.eye(n))), atol=1e-8)
    np.testing.assert_array_equal(np.triu(a, 1), np.triu(K, 1))


def test_messages_name_the_knob():
    for K, ridge in ((np.diag([1.0, -0.5]), 0.1), (np.diag([1.0, 1.0, -1e-9]), 0.0)):
        with pytest.raises(NotPositiveDefinite, match="noise") as caught:
            factor(K, ridge, jitter=0.0, owner="k", knob="noise")
        assert "alpha" not in str(caught.value)
        with pytest.raises(NotPositiveDefinite, match="alpha"):
            factor(K, ridge, jitter=0.0)


def test_wrong_right_hand_sides_are_refused():
    f = factor(np.eye(3))
    for B in (np.ones(4), np.ones((4, 3)), np.ones((3, 1, 1)), 1.0):
        for method in (f.solve, f.half_solve, f.matmul):
            with pytest.raises(InvalidInput, match="CholeskyFactor"):
                method(B)


# ------------------------------------------------------------------------------- memory
@pytest.mark.parametrize("order", ["C", "F"])
def test_overwriting_allocates_no_second_matrix_even_when_jitter_is_needed(order):
    n = 700
    good = np.array(gram(n), order=order)
    singular = np.array(gram(n, rank=5), order=order)
    for K, jittered in ((good, False), (singular, True)):
        tracemalloc.start()
        f = factor(K, overwrite=True)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (f.jitter > 0) == jittered
        assert np.shares_memory(f._a, K)
        assert peak < 0.25 * K.nbytes


def test_solves_and_residuals_need_no_matrix_and_the_inverse_diagonal_one():
    n = 1500
    f = factor(gram(n), 1.0, overwrite=True)
    b = np.ones(n)
    peaks = []
    for work in (lambda: f.matmul(f.solve(b)), f.inverse_diagonal, f.inverse):
        tracemalloc.start()
        work()
        peaks.append(tracemalloc.get_traced_memory()[1] / (8 * n * n))
        tracemalloc.stop()
    assert peaks[0] < 0.25 and peaks[1] < 1.25 and peaks[2] < 1.25
    with config(memory=8 * n * n - 1):
        for work in (f.inverse_diagonal, f.inverse):
            with pytest.raises(MemoryBudgetExceeded):
                work()


def test_read_only_input_is_left_alone_even_with_overwrite():
    K = gram(10)
    K.flags.writeable = False
    before = K.copy()
    factor(K, 1.0, overwrite=True)
    np.testing.assert_array_equal(K, before)


def test_the_budget_is_respected_before_any_work():
    with config(memory="100kB"), pytest.raises(MemoryBudgetExceeded) as error:
        factor(np.eye(200))
    assert error.value.needed == 8 * 200 * 200
    K = np.eye(200)
    with config(memory="100kB"):
        factor(K, overwrite=True)  # needs nothing


# ------------------------------------------------------------------------------- jitter
@pytest.mark.parametrize("n", [2, 50, 300])
@pytest.mark.parametrize("order", ["C", "F"])
def test_duplicates_get_a_reported_jitter_and_the_factor_is_of_the_jittered_matrix(n, order):
    base = rbf((n + 1) // 2, 0.05)
    index = np.arange(n) // 2
    K = np.array(base[np.ix_(index, index)], order=order)
    f = factor(K)
    mean = np.trace(K) / n
    assert 1e-14 * mean <= f.jitter <= 1e-8 * mean
    L = f.lower()
    np.testing.assert_allclose(L @ L.T, K + f.jitter * np.eye(n), atol=1e-13 * n)
    v = np.random.default_rng(0).standard_normal(n)
    np.testing.assert_allclose(f.matmul(v), K @ v, atol=1e-12 * n)  # K itself, without jitter
    np.testing.assert_array_equal(f.matrix(), np.triu(K) + np.triu(K, 1).T)
    f.matrix()[...] = 0.0  # an array of its own
    np.testing.assert_allclose(f.matmul(v), K @ v, atol=1e-12 * n)


def test_no_jitter_where_none_is_needed():
    assert factor(with_spectrum(np.logspace(0, -12, 60))).jitter == 0.0


def test_jitter_is_scaled_by_the_matrix():
    K = gram(30, rank=3)
    one, big = factor(K), factor(K * 1e100)
    assert one.jitter > 0
    np.testing.assert_allclose(big.jitter, one.jitter * 1e100, rtol=1e-12)


def test_jitter_can_be_forbidden_or_fixed():
    K = np.ones((3, 3))
    with pytest.raises(NotPositiveDefinite, match="jitter is off") as error:
        factor(K, jitter=0.0)
    assert abs(error.value.smallest_eigenvalue) < 1e-14
    assert factor(K, jitter=0.25).jitter == 0.25
    assert factor(np.eye(3), jitter=0.25).jitter == 0.0
    for bad in ("none", -1.0, np.nan, None):
        with pytest.raises(InvalidInput, match="jitter"):
            factor(K, jitter=bad)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("negative", [-1.0, -1e-3, -1e-6])
def test_a_clearly_indefinite_matrix_is_never_jittered_into_an_answer(order, negative):
    n = 60
    K = np.array(with_spectrum(np.r_[negative, np.linspace(0.5, 1.0, n - 1)]), order=order)
    with pytest.raises(NotPositiveDefinite, match=r"Wrong\(\).*indefinite.*check_kernel") as error:
        factor(K, owner="Wrong()")
    np.testing.assert_allclose(error.value.smallest_eigenvalue, negative, rtol=1e-6)
    assert isinstance(error.value, np.linalg.LinAlgError) and isinstance(error.value, ValueError)


def test_a_negative_eigenvalue_below_rounding_is_repaired():
    K = with_spectrum(np.r_[-1e-11, np.linspace(0.5, 1.0, 40)])
    assert 0 < factor(K).jitter <= 1e-8


def test_the_ridge_may_make_an_indefinite_matrix_definite():
    K = with_spectrum(np.r_[-0.5, np.linspace(0.5, 1.0, 40)])
    assert factor(K, 0.6).jitter == 0.0
    with pytest.raises(NotPositiveDefinite) as error:
        factor(K, 0.4)
    np.testing.assert_allclose(error.value.smallest_eigenvalue, -0.1, rtol=1e-6)


@pytest.mark.parametrize("K", [-np.eye(3), np.zeros((3, 3)), np.diag([1.0, -1.0]), [[-2.0]]])
def test_hopeless_diagonals(K):
    with pytest.raises(NotPositiveDefinite) as error:
        factor(np.array(K))
    assert error.value.smallest_eigenvalue == np.linalg.eigvalsh(np.array(K))[0]


def test_large_failures_are_diagnosed_by_lanczos(monkeypatch):
    monkeypatch.setattr(diagnosis_module, "_DENSE", 10)
    for negative in (-2.0, -1e-2, -1e-5):
        values = np.r_[negative, np.zeros(100), np.linspace(0.1, 3.0, 50)]
        with pytest.raises(NotPositiveDefinite, match="about") as error:
            factor(with_spectrum(values))
        np.testing.assert_allclose(error.value.smallest_eigenvalue, negative, rtol=0.05)
    for K, smallest in ((-np.eye(20), -1.0), (np.zeros((20, 20)), 0.0)):
        with pytest.raises(NotPositiveDefinite) as error:
            factor(K)
        np.testing.assert_allclose(error.value.smallest_eigenvalue, smallest, rtol=0.05, atol=1e-12)


# --------------------------------------------------------------------------- bad input
def test_bad_matrices_are_refused():
    for K in (np.ones((2, 3)), np.ones(3), np.eye(2) * 1j, np.array([["a"]])):
        with pytest.raises(InvalidInput):
            factor(K)
    for bad in (np.nan, np.inf):
        K = gram(5)
        K[1, 3] = K[3, 1] = bad
        for overwrite in (False, True):
            with pytest.raises(InvalidInput, match="row 1, column 3"):
                factor(K, 1.0, overwrite=overwrite)
    with pytest.raises(InvalidInput, match="symmetric"):
        factor(np.array([[2.0, 1.0], [0.0, 2.0]]))
    with pytest.raises(InvalidInput, match="overflow"):
        factor(np.diag([1e308, 1e308]), 1.7e308)
    with pytest.raises(InvalidInput, match="ridge"):
        factor(np.eye(2), -1.0)


# --------------------------------------------------------------------------- the solver
def true_residual(A, b, x, ridge):
    full = np.asarray(A, dtype=float) + np.diag(np.broadcast_to(ridge, len(A)))
    R, b = (full @ x - b).reshape(len(A), -1), np.reshape(b, (len(A), -1))
    norms = np.linalg.norm(b, axis=0)
    return (np.linalg.norm(R, axis=0)[norms > 0] / norms[norms > 0]).max()


@pytest.mark.parametrize("ridge", [0.5, np.linspace(0.1, 2, 80)], ids=["scalar", "vector"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(80,), (80, 1), (80, 7)])
def test_the_certificate_is_true_and_inputs_are_unchanged(ridge, dtype, shape):
    A = gram(80).astype(dtype)
    b = np.random.default_rng(2).standard_normal(shape)
    A.flags.writeable = b.flags.writeable = False
    solution = Cholesky().solve(Linear(A, b, ridge))
    assert solution.converged and solution.value.shape == shape and solution.n_iter == 0
    assert solution.extra["jitter"] == 0.0
    again = true_residual(A, b, solution.value, ridge)
    assert again < 1e-12 and solution.residual < 1e-12
    assert solution.unwrap() is solution.value


def test_the_residual_is_measured_not_assumed():
    A = with_spectrum(np.logspace(0, -13, 50))
    b = np.random.default_rng(0).standard_normal(50)
    solution = Cholesky(tol=0.5).solve(Linear(A, b))
    again = true_residual(A, b, solution.value, 0.0)
    assert again > 1e-9  # an ill-conditioned system does leave one
    assert 0.3 * again < solution.residual < 3 * again


def test_zero_columns_have_residual_zero():
    b = np.zeros((5, 3))
    b[:, 1] = 1.0
    solution = Cholesky().solve(Linear(gram(5), b, 1.0))
    assert solution.converged and (solution.value[:, [0, 2]] == 0).all()
    assert Cholesky().solve(Linear(gram(5), np.zeros(5), 1.0)).residual == 0.0


def test_consistent_duplicates_are_solved_in_spite_of_jitter():
    index = np.arange(40) // 2
    K = rbf(20, 0.05)[np.ix_(index, index)]
    y = np.sin(index.astype(float))
    solution = Cholesky().solve(Linear(K, y))
    assert solution.extra["jitter"] > 0 and solution.converged
    np.testing.assert_allclose(K @ solution.value, y, atol=1e-6)


def test_contradictory_duplicates_are_not_called_solved():
    K, y = np.ones((2, 2)), np.array([1.0, -1.0])
    solution = Cholesky().solve(Linear(K, y))
    assert not solution.converged and solution.residual > 0.1
    with pytest.warns(NotConverged, match=r"singular.*alpha.*duplicate"):
        solution.unwrap()


def test_failure_names_the_kernel():
    from mercer import RBF

    X = np.zeros((4, 1))
    with pytest.raises(NotPositiveDefinite, match=r"RBF\("):
        Cholesky(jitter=0.0).solve(Linear(Gram(RBF(), X), np.ones(4)))


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_solver_at_extreme_scales(scale):
    A, b = gram(15), np.random.default_rng(0).standard_normal(15)
    for factor_b in (1.0, 1e-100, 1e100):
        solution = Cholesky().solve(Linear(A * scale, b * factor_b, scale))
        assert solution.converged and solution.residual < 1e-12
        expected = np.linalg.solve(A + np.eye(15), b) / scale * factor_b
        np.testing.assert_allclose(solution.value, expected, rtol=1e-9)


def test_one_by_one():
    solution = Cholesky().solve(Linear([[3.0]], [8.0], 1.0))
    assert solution.value.tolist() == [2.0] and solution.residual == 0.0


def test_operators_keep_what_they_hold():
    from mercer import RBF, Precomputed

    X = np.random.default_rng(0).standard_normal((30, 2))
    K = RBF()(X)
    b = np.ones(30)
    expected = np.linalg.solve(K + np.eye(30), b)
    user, kept = K.copy(), Gram(RBF(), X)
    kept @ b  # computes the matrix and keeps it
    operators = [Dense(user), Gram(Precomputed(), user), kept, Gram(RBF(), X, keep=False)]
    for A in operators:
        for _ in range(2):
            solution = Cholesky().solve(Linear(A, b, 1.0))
            np.testing.assert_allclose(solution.value, expected, rtol=1e-9)
        np.testing.assert_array_equal(A.to_dense(), K)
    np.testing.assert_array_equal(user, K)
    np.testing.assert_allclose(factor(Gram(RBF(), X), 1.0).solve(b), expected, rtol=1e-9)


def test_composite_operators():
    F = np.random.default_rng(0).standard_normal((20, 3))
    for A in (LowRank(F), Centered(Dense(F @ F.T, symmetric=True)), 2.0 * LowRank(F)):
        dense = A.to_dense()
        solution = Cholesky().solve(Linear(A, np.ones(20), 0.1))
        np.testing.assert_allclose(
            solution.value, np.linalg.solve(dense + 0.1 * np.eye(20), np.ones(20)), rtol=1e-8
        )


def test_a_fresh_gram_matrix_is_factorised_in_place():
    from mercer import RBF

    n = 1500
    X = np.random.default_rng(0).standard_normal((n, 3))
    with config(threads=1):
        tracemalloc.start()
        solution = Cholesky().solve(Linear(Gram(RBF(), X), np.ones(n), 1.0))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert solution.converged
    assert peak < 1.6 * 8 * n * n


def test_parameters_are_checked():
    for tol in (0.0, -1.0, "x"):
        with pytest.raises(InvalidInput, match="tol"):
            Cholesky(tol=tol)
