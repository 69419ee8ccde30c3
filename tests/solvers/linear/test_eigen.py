"""Eigenpairs against NumPy: dense and by subspace iteration, easy and hard spectra."""

import numpy as np
import pytest

from mercer import config
from mercer.errors import InvalidInput, MemoryBudgetExceeded, NotConverged, NotPositiveDefinite
from mercer.operators import Centered, Dense, Gram, LowRank, Operator
from mercer.solvers import DenseEigen, Eigen, SubspaceIteration


def gram(n, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, n + 5))
    K = X @ X.T / n
    return (K + K.T) / 2


def with_spectrum(values, seed=0):
    n = len(values)
    Q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))
    K = (Q * values) @ Q.T
    return (K + K.T) / 2


def rbf(n, length=0.5, seed=0):
    X = np.random.default_rng(seed).uniform(-2, 2, (n, 2))
    return np.exp(-((X[:, None] - X[None]) ** 2).sum(-1) / (2 * length**2))


def check(A, solution, k, tol):
    """Everything a decomposition promises, from scratch."""
    values, V = solution.value.values, solution.value.vectors
    n = len(A)
    assert values.shape == (k,) and V.shape == (n, k)
    assert (np.diff(values) <= 0).all()
    expected = np.linalg.eigvalsh(A)[::-1][:k]
    scale = np.abs(expected).max()
    np.testing.assert_allclose(values / scale, expected / scale, atol=max(10 * tol, 1e-13 * n))
    np.testing.assert_allclose(V.T @ V, np.eye(k), atol=1e-12 * n)
    residual = np.linalg.norm(A / scale @ V - V * (values / scale), axis=0).max()
    assert residual <= 1.01 * tol
    first = [np.flatnonzero(np.abs(v) >= (1 - 1e-6) * np.abs(v).max())[0] for v in V.T]
    assert (V[first, np.arange(k)] > 0).all()
    return residual


# --------------------------------------------------------------------------------- dense
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("n", "k"), [(1, None), (1, 1), (2, 1), (7, 3), (60, None), (60, 5), (60, 50)]
)
def test_dense(n, k, order):
    A = np.array(gram(n), order=order)
    A.flags.writeable = False
    solution = DenseEigen().solve(Eigen(A, k))
    residual = check(A, solution, k or n, 1e-12)
    assert solution.converged
    np.testing.assert_allclose(solution.residual, residual, rtol=0.5, atol=1e-15)


@pytest.mark.parametrize("k", [None, 4])
@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_dense_at_extreme_scales(scale, k):
    A = gram(30) * scale
    solution = DenseEigen().solve(Eigen(A, k))
    check(A, solution, k or 30, 1e-12)
    assert solution.converged


@pytest.mark.parametrize(
    "A",
    [
        with_spectrum(np.linspace(-3, 1, 20)),
        -np.eye(5),
        np.zeros((4, 4)),
        np.ones((6, 6)),
        np.diag([1.0, 1.0, 1.0, 0.5]),
        with_spectrum(np.logspace(0, -16, 30)),
    ],
    ids=["indefinite", "negative", "zero", "rank one", "multiple", "ill-conditioned"],
)
def test_dense_on_awkward_matrices(A):
    n = len(A)
    for k in (None, 1, n // 2):
        solution = DenseEigen().solve(Eigen(A, k))
        assert solution.converged and solution.residual < 1e-12
        values, V = solution.value.values, solution.value.vectors
        np.testing.assert_allclose(values, np.linalg.eigvalsh(A)[::-1][: k or n], atol=1e-12)
        np.testing.assert_allclose(A @ V, V * values, atol=1e-12)


def test_signs_are_fixed_even_when_entries_tie():
    A = np.array([[2.0, -1.0], [-1.0, 2.0]])
    V = DenseEigen().solve(Eigen(A)).value.vectors
    np.testing.assert_allclose(V, np.array([[1, 1], [-1, 1]]) / np.sqrt(2), atol=1e-15)


def test_dense_float32_is_computed_in_float64():
    A = gram(40).astype(np.float32)
    A = (A + A.T) / 2
    solution = DenseEigen().solve(Eigen(A))
    assert solution.value.values.dtype == np.float64
    check(A.astype(float), solution, 40, 1e-12)


def test_the_estimated_residual_of_many_pairs_is_of_the_true_size():
    A = rbf(700, 0.3)
    solution = DenseEigen().solve(Eigen(A))
    V, values = solution.value.vectors, solution.value.values
    E = (A @ V - V * values) / values[0]
    frobenius = np.linalg.norm(E)
    assert solution.converged
    assert 0.5 * frobenius < solution.residual < 2 * frobenius
    assert solution.residual > 0.9 * np.linalg.norm(E, axis=0).max()


def test_dense_refuses_what_it_cannot_trust():
    with pytest.raises(InvalidInput, match="symmetric"):
        DenseEigen().solve(Eigen(np.array([[1.0, 2.0], [0.0, 1.0]])))
    with config(memory="1MB"), pytest.raises(MemoryBudgetExceeded, match="SubspaceIteration"):
        DenseEigen().solve(Eigen(np.eye(300)))


def test_empty_matrix():
    for solver, problem in (
        (DenseEigen(), Eigen(np.zeros((0, 0)))),
        (SubspaceIteration(), Eigen(np.zeros((0, 0)), 0)),
    ):
        solution = solver.solve(problem)
        assert solution.converged and solution.value.values.shape == (0,)


# ------------------------------------------------------------------------------ subspace
@pytest.mark.parametrize(
    ("A", "k"),
    [
        (gram(1), 1),
        (gram(5), 5),
        (gram(8), 3),
        (rbf(200), 10),
        (gram(150), 4),
        (with_spectrum(1.0 / np.arange(1.0, 201)), 12),
        (with_spectrum(np.r_[np.ones(6), np.full(94, 0.1)]), 4),
        (with_spectrum(np.logspace(0, -14, 80)), 30),
        (np.ones((50, 50)), 3),
        (np.diag(np.r_[5.0, 3.0, np.zeros(48)]), 6),
        (np.zeros((30, 30)), 2),
        (np.eye(40), 3),
    ],
    ids=[
        "n=1",
        "all",
        "small",
        "rbf",
        "flat",
        "1/i",
        "multiple",
        "decay",
        "rank 1",
        "rank 2",
        "zero",
        "identity",
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_subspace_iteration(A, k, seed):
    A = np.array(A)
    A.flags.writeable = False
    solution = SubspaceIteration(random_state=seed).solve(Eigen(A, k))
    assert solution.converged and solution.message == ""
    values = solution.value.values
    if values[0] > 0:
        check(A, solution, k, 1e-8)
    else:
        assert (values == 0).all()
    assert solution.residual <= 1e-8


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_subspace_iteration_at_extreme_scales(scale):
    A = rbf(100) * scale
    solution = SubspaceIteration(random_state=0).solve(Eigen(A, 5))
    assert solution.converged
    check(A, solution, 5, 1e-8)


def test_subspace_agrees_with_dense_vectors():
    A = rbf(150)
    dense = DenseEigen().solve(Eigen(A, 6)).value
    block = SubspaceIteration(tol=1e-11, random_state=0).solve(Eigen(A, 6)).value
    np.testing.assert_allclose(block.values, dense.values, rtol=1e-10)
    np.testing.assert_allclose(block.vectors, dense.vectors, atol=1e-7)


class Counting(Dense):
    def __init__(self, array):
        super().__init__(array, symmetric=True)
        self.products = 0

    def _matmul(self, V):
        self.products += 1
        return super()._matmul(V)

    def _block(self, rows, cols):
        raise AssertionError("entries were asked for")


def test_only_products_are_used_and_counted():
    A = Counting(rbf(150))
    solution = SubspaceIteration(random_state=0).solve(Eigen(A, 5))
    assert solution.n_iter == A.products


def test_kept_images_beat_plain_powers():
    """Plain simultaneous iteration needs log(tol)/log(λ_{p+1}/λ_k) products at least."""
    values = np.r_[np.linspace(1.1, 1.05, 3), np.linspace(1.0, 0.0, 297)]
    solution = SubspaceIteration(random_state=0).solve(Eigen(with_spectrum(values), 3))
    assert solution.converged
    p = 13  # k + oversample; values[13] is the first eigenvalue outside the block
    assert solution.n_iter < 0.5 * np.log(1e-8) / np.log(values[p] / values[2])


@pytest.mark.parametrize("memory", ["1GB", "600kB"])
def test_a_full_space_starts_again_from_its_best_pairs(memory):
    """A flat spectrum needs more vectors than the space may hold; a small budget holds fewer."""
    A = Dense(with_spectrum(np.linspace(1.0, 0.0, 400)), symmetric=True)
    solver = SubspaceIteration(tol=1e-9, oversample=2, random_state=0)
    with config(memory=memory):
        solution = solver.solve(Eigen(A, 3))
    assert solution.converged and solution.n_iter > 8
    check(A.array, solution, 3, 1e-9)


def test_a_space_beyond_the_budget_is_refused():
    A = Counting(rbf(200))
    with config(memory="50kB"), pytest.raises(MemoryBudgetExceeded, match="fewer pairs"):
        SubspaceIteration().solve(Eigen(A, 5))


def test_slack_is_what_centring_leaves_behind():
    A = with_spectrum(np.r_[np.linspace(1, 0, 60), -1e-4])
    with pytest.raises(NotPositiveDefinite):
        SubspaceIteration(random_state=0).solve(Eigen(A, 61))
    solution = SubspaceIteration(random_state=0, slack=1e-3).solve(Eigen(A, 61))
    np.testing.assert_allclose(solution.value.values[-1], -1e-4, rtol=1e-6)


def test_limit_is_reported_with_the_true_residual():
    A = with_spectrum(np.linspace(1.0, 0.99, 200))
    solution = SubspaceIteration(max_iter=4, random_state=0, tol=1e-12).solve(Eigen(A, 3))
    assert not solution.converged and solution.n_iter <= 4
    V, values = solution.value.vectors, solution.value.values
    again = np.linalg.norm(A @ V - V * values, axis=0).max() / values[0]
    np.testing.assert_allclose(solution.residual, again, rtol=1e-6)
    with pytest.warns(NotConverged, match=r"4 products.*max_iter"):
        solution.unwrap()


def test_unreachable_tolerance_stalls():
    solution = SubspaceIteration(tol=1e-20, random_state=0).solve(Eigen(rbf(80), 4))
    assert not solution.converged and solution.n_iter < 500 and "tol" in solution.message
    assert solution.residual < 1e-12


def test_indefinite_matrices_are_refused_with_a_bound():
    A = with_spectrum(np.r_[-2.0, np.linspace(0, 1, 60)])
    with pytest.raises(NotPositiveDefinite, match="DenseEigen") as error:
        SubspaceIteration(random_state=0).solve(Eigen(A, 3))
    assert -2.0 - 1e-12 <= error.value.smallest_eigenvalue < 0
    with pytest.raises(NotPositiveDefinite):
        SubspaceIteration(random_state=0).solve(Eigen(-np.eye(5), 2))


def test_same_seed_same_bits_and_signs_do_not_depend_on_the_seed():
    A = rbf(100)
    one, two, other = (
        SubspaceIteration(tol=1e-11, random_state=s).solve(Eigen(A, 3)).value for s in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.vectors, two.vectors)
    np.testing.assert_allclose(one.vectors, other.vectors, atol=1e-6)


def test_operators():
    from mercer import RBF

    X = np.random.default_rng(0).standard_normal((90, 2))
    K = RBF()(X)
    H = np.eye(90) - 1 / 90
    for A, dense in (
        (Gram(RBF(), X, keep=False), K),
        (Centered(Gram(RBF(), X)), H @ K @ H),
        (LowRank(X), X @ X.T),
    ):
        for solver in (DenseEigen(), SubspaceIteration(random_state=0)):
            solution = solver.solve(Eigen(A, 2))
            assert solution.converged
            np.testing.assert_allclose(
                solution.value.values, np.linalg.eigvalsh(dense)[::-1][:2], rtol=1e-8
            )


def test_float32_operator_reaches_single_precision():
    A = Dense(rbf(120).astype(np.float32), symmetric=True)
    solution = SubspaceIteration(tol=1e-5, random_state=0).solve(Eigen(A, 4))
    assert solution.converged and solution.value.vectors.dtype == np.float64


def test_parameters_are_checked():
    with pytest.raises(InvalidInput, match="k=None"):
        SubspaceIteration().solve(Eigen(np.eye(3)))
    for options in (
        {"tol": 0.0},
        {"max_iter": 0},
        {"oversample": -1},
        {"oversample": 1.5},
        {"slack": -1.0},
    ):
        with pytest.raises(InvalidInput, match=next(iter(options))):
            SubspaceIteration(**options)


def test_slow_is_not_called_inaccurate():
    rng = np.random.default_rng(90)
    n = int(rng.integers(2, 200))
    k = int(rng.integers(1, 13))
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    rng.random(n)
    values = rng.random(n)
    A = (Q * values) @ Q.T
    solver = SubspaceIteration(oversample=0, max_iter=2000, random_state=90)
    solution = solver.solve(Eigen(0.5 * (A + A.T), k=k))
    assert (n, k) == (131, 5) and solution.converged, solution.message
    np.testing.assert_allclose(solution.value.values, np.sort(values)[::-1][:5], atol=1e-12)


@pytest.mark.parametrize(("noise", "tol"), [(1e-5, 1e-9), (1e-14, 1e-16)])
def test_products_that_are_not_accurate_end_the_iteration(noise, tol):
    rng = np.random.default_rng(0)
    G = rng.standard_normal((150, 150))
    A = G @ G.T / 150

    class Noisy(Operator):
        symmetric = psd = True
        shape = A.shape

        def _matmul(self, V):
            return (A @ V) * (1 + noise * rng.standard_normal(V.shape))

    solution = SubspaceIteration(tol=tol, random_state=0).solve(Eigen(Noisy(), k=3))
    assert not solution.converged and solution.n_iter < 200
    assert "not accurate" in solution.message and solution.residual < 1e3 * noise


@pytest.mark.parametrize("k", [1, 2, 4, 10])
def test_many_equal_eigenvalues(k):
    n = 40
    A = np.eye(n) + (np.ones((n, n)) - np.eye(n)) / (n - 1)  # 2 once, 1 - 1/39 all the rest
    solution = DenseEigen().solve(Eigen(A, k=k))
    values, vectors = solution.value.values, solution.value.vectors
    np.testing.assert_allclose(values, [2.0, *[1 - 1 / (n - 1)] * (k - 1)], rtol=1e-12)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-12)
    assert solution.converged


# ------------------------------------------------------------- what a single vector cannot see
def _turned(values, seed=0):
    """Return a matrix with these eigenvalues."""
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values), len(values))))[0]
    return (Q * values) @ Q.T


@pytest.mark.parametrize("copies", [2, 3, 7])
@pytest.mark.parametrize("k", [1, 3, 8])
def test_equal_eigenvalues_are_all_found(copies, k):
    """ARPACK, which begins, sees one vector of each; random vectors beside it bring the others."""
    rest = 0.8 ** np.arange(300 - 2 * copies)
    values = np.concatenate([np.full(copies, 2.0), np.full(copies, 1.5), rest])
    A = _turned(values)
    solution = SubspaceIteration(tol=1e-9, random_state=0).solve(
        Eigen(Dense((A + A.T) / 2, symmetric=True, psd=True), k)
    )
    assert solution.converged
    np.testing.assert_allclose(solution.value.values, np.sort(values)[::-1][:k], rtol=1e-9)


@pytest.mark.parametrize("k", [2, 4, 6])
def test_groups_of_equal_points_have_equal_eigenvalues(k):
    """A matrix of few different rows has a rank below what ARPACK would like to span."""
    A = np.kron(np.eye(5), np.full((60, 60), 1 / 60.0))
    solution = SubspaceIteration(tol=1e-9, random_state=0).solve(
        Eigen(Dense(A, symmetric=True, psd=True), k)
    )
    expected = np.r_[np.ones(5), np.zeros(5)][:k]
    np.testing.assert_allclose(solution.value.values, expected, atol=1e-9)
    assert solution.converged and solution.residual <= 1e-9


def test_products_with_one_vector_are_for_matrices_in_memory():
    """Of others each product is dear, and has all vectors."""

    class Lazy(Dense):
        in_memory = False
        widths = ()

        def _matmul(self, V):
            self.widths = (*self.widths, V.ndim)
            return super()._matmul(V)

    A = _turned(0.9 ** np.arange(200))
    lazy = Lazy((A + A.T) / 2, symmetric=True, psd=True)
    assert SubspaceIteration(random_state=0).solve(Eigen(lazy, 3)).converged
    assert set(lazy.widths) == {2}
