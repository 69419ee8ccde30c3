"""rpcholesky: law, accuracy, degenerate matrices; NystromPreconditioner against dense solves."""

import itertools

import numpy as np
import pytest
from scipy.stats import chi2

import mercer
from mercer.errors import InvalidInput, MemoryBudgetExceeded, NotAKernel, NotPositiveDefinite
from mercer.kernels import RBF, Linear, LongestCommonSubstring, Matern, White
from mercer.operators import Dense, Gram, LowRank
from mercer.solvers import NystromPreconditioner, rpcholesky


def rbf(n, length=0.5, seed=0):
    X = np.random.default_rng(seed).uniform(-2, 2, (n, 2))
    square = ((X[:, None] - X[None]) ** 2).sum(-1)
    return np.exp(-square / (2 * length**2))


def law(A, rank):
    """Probability of every sequence of pivots, one pivot at a time: the definition."""
    out = {}
    for pivots in itertools.permutations(range(len(A)), rank):
        S, probability = A.copy(), 1.0
        for i in pivots:
            d = np.maximum(np.diagonal(S), 0)
            probability *= d[i] / d.sum()
            S = S - np.outer(S[:, i], S[i]) / S[i, i]
            S[i] = S[:, i] = 0
        out[pivots] = probability
    return out


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_law_of_the_pivots_is_that_of_one_pivot_at_a_time(rank):
    # Strongly correlated points with unequal diagonal: proposals are often rejected.
    x = np.array([0.0, 0.3, 1.0, 1.2, 3.0])
    A = np.exp(-(np.subtract.outer(x, x) ** 2)) * np.outer([1, 2, 1, 1, 0.7], [1, 2, 1, 1, 0.7])
    expected = law(A, rank)
    assert abs(sum(expected.values()) - 1) < 1e-12
    rng = np.random.RandomState(7)
    draws = 1500
    counts = dict.fromkeys(expected, 0)
    for _ in range(draws):
        counts[tuple(int(i) for i in rpcholesky(Dense(A, True), rank, rng).pivots)] += 1
    statistic, freedom, rare_seen, rare = 0.0, -1, 0, 0.0
    for key, probability in expected.items():
        if draws * probability < 5:
            rare_seen, rare = rare_seen + counts[key], rare + probability
            continue
        statistic += (counts[key] - draws * probability) ** 2 / (draws * probability)
        freedom += 1
    if draws * rare >= 5:
        statistic += (rare_seen - draws * rare) ** 2 / (draws * rare)
        freedom += 1
    assert statistic < chi2.ppf(0.999, freedom)


@pytest.mark.parametrize("n", [1, 2, 30, 120])
def test_exact_at_full_rank_and_residual_positive_semidefinite_on_the_way(n):
    A = rbf(n, 0.1) + 0.01 * np.eye(n)
    for rank in sorted({1, (n + 1) // 2, n}):
        low = rpcholesky(A, rank, random_state=0)
        assert low.F.shape == (rank, n) and low.rank == rank and low.F.flags.c_contiguous
        assert len(set(low.pivots.tolist())) == rank
        E = A - low.F.T @ low.F
        assert np.linalg.eigvalsh(E)[0] > -1e-12
        np.testing.assert_allclose(low.trace_error, np.trace(E) / np.trace(A), atol=1e-12)
        np.testing.assert_allclose(E[low.pivots], 0, atol=1e-12)  # exact on the pivots
    np.testing.assert_allclose(low.F.T @ low.F, A, atol=1e-12)


def test_rank_above_n_means_n_and_rank_zero_means_nothing():
    A = np.diag([1.0, 2.0])
    assert rpcholesky(A, 100, 0).F.shape == (2, 2)
    nothing = rpcholesky(A, 0, 0)
    assert nothing.F.shape == (0, 2) and nothing.trace_error == 1.0


def test_rank_deficient_matrices_stop_at_their_rank():
    F = np.random.default_rng(0).standard_normal((200, 7))
    low = rpcholesky(LowRank(F), 150, random_state=1)
    assert low.rank == 7 and low.trace_error < 1e-13
    np.testing.assert_allclose(low.F.T @ low.F, F @ F.T, atol=1e-10)


def test_duplicates_zeros_and_the_zero_matrix():
    A = np.kron(np.diag([1.0, 0.0, 2.0]), np.ones((3, 3)))
    low = rpcholesky(A, 9, random_state=0)
    assert low.rank == 2 and low.trace_error == 0.0
    assert set((low.pivots // 3).tolist()) == {0, 2}
    zero = rpcholesky(np.zeros((4, 4)), 3, random_state=0)
    assert zero.F.shape == (0, 4) and zero.trace_error == 0.0
    assert rpcholesky(np.zeros((0, 0)), 3, random_state=0).F.shape == (0, 0)


@pytest.mark.parametrize("tol", [0.5, 1e-2, 1e-6])
def test_the_tolerance_is_met_with_fewer_pivots(tol):
    A = rbf(400)
    low = rpcholesky(A, 300, random_state=0, tol=tol)
    assert low.trace_error <= tol and low.rank < 300
    assert np.trace(A - low.F.T @ low.F) / np.trace(A) <= tol * (1 + 1e-9)


def test_near_the_best_possible_error():
    A = rbf(300)
    low = rpcholesky(A, 40, random_state=0)
    values = np.linalg.eigvalsh(A)[::-1]
    best = values[40:].sum() / values.sum()
    assert best < low.trace_error < 20 * best


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not():
    A = rbf(200)
    one, two = rpcholesky(A, 30, 5), rpcholesky(A, 30, np.random.RandomState(5))
    np.testing.assert_array_equal(one.F, two.F)
    assert not np.array_equal(one.pivots, rpcholesky(A, 30, 6).pivots)
    assert rpcholesky(A, 5).rank == 5  # no seed at all


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_scale_changes_nothing_but_the_scale(scale):
    A = rbf(80)
    one, other = rpcholesky(A, 20, 0), rpcholesky(A * scale, 20, 0)
    np.testing.assert_array_equal(one.pivots, other.pivots)
    np.testing.assert_allclose(other.F, one.F * np.sqrt(scale), rtol=1e-6, atol=1e-9 * scale**0.5)
    np.testing.assert_allclose(other.trace_error, one.trace_error, rtol=1e-9)


def test_float32_matrices():
    A = rbf(150).astype(np.float32)
    low = rpcholesky(A, 150, random_state=0)
    assert np.abs(low.F.T @ low.F - A).max() < 1e-3
    assert low.rank < 150 and low.F.dtype == np.float64


class Counting(Dense):
    def __init__(self, array):
        super().__init__(array, symmetric=True)
        self.entries = 0

    def _block(self, rows, cols):
        out = super()._block(rows, cols)
        self.entries += out.size
        return out

    def to_dense(self):
        raise AssertionError("the whole matrix was asked for")

    _matmul = to_dense


def test_only_the_rows_it_needs_are_read():
    A = Counting(rbf(500))
    low = rpcholesky(A, 50, random_state=0)
    assert low.rank == 50
    assert A.entries < 50 * 500 + 50 * 500  # rows, plus proposals of about their number


def test_gram_operator():
    from mercer import RBF

    X = np.random.default_rng(0).standard_normal((100, 2))
    low = rpcholesky(Gram(RBF(), X, keep=False), 60, random_state=0)
    np.testing.assert_allclose(low.F.T @ low.F, RBF()(X), atol=1e-3)


def test_bad_matrices_are_refused():
    with pytest.raises(NotPositiveDefinite, match="diagonal entry 1") as error:
        rpcholesky(np.diag([1.0, -1.0]), 1)
    assert error.value.smallest_eigenvalue == -1.0
    with pytest.raises(NotPositiveDefinite, match="Schur complement"):
        rpcholesky(np.array([[1.0, 2.0], [2.0, 1.0]]), 2, 0)
    for bad in (np.nan, np.inf):
        A = rbf(5)
        A[2, 2] = bad
        with pytest.raises(InvalidInput, match="diagonal"):
            rpcholesky(A, 3, 0)
        A = np.full((5, 5), bad)
        np.fill_diagonal(A, 1.0)
        with pytest.raises(InvalidInput, match="NaN or infinity"):
            rpcholesky(A, 3, 0)
    with pytest.raises(InvalidInput, match="square"):
        rpcholesky(np.ones((2, 3)), 1)
    for rank in (-1, 1.5, None):
        with pytest.raises(InvalidInput, match="rank"):
            rpcholesky(np.eye(2), rank)
    with pytest.raises(InvalidInput, match="tol"):
        rpcholesky(np.eye(2), 1, tol=-1.0)


# ------------------------------------------------------------------ NystromPreconditioner
@pytest.mark.parametrize("r", [0, 1, 5, 40, 60])
@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("shape", [(40,), (40, 1), (40, 6)])
def test_woodbury_equals_a_dense_solve(r, vector, shape):
    rng = np.random.default_rng(r)
    F = rng.standard_normal((r, 40))
    ridge = rng.uniform(0.01, 5, 40) if vector else 0.3
    R = rng.standard_normal(shape)
    keep = R.copy()
    P = NystromPreconditioner(F, ridge)
    dense = F.T @ F + np.diag(np.broadcast_to(ridge, 40))
    np.testing.assert_allclose(P.solve(R), np.linalg.solve(dense, R), rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(R, keep)


@pytest.mark.parametrize("ridge", [1e-6, 1e-10, 1e-13])
def test_stays_positive_definite_when_the_ridge_is_tiny(ridge):
    F = rpcholesky(rbf(150), 60, random_state=0).F
    P = NystromPreconditioner(F, ridge)
    M = P.solve(np.eye(150))
    np.testing.assert_allclose(M, M.T, atol=1e-8 / ridge)
    assert np.linalg.eigvalsh((M + M.T) / 2)[0] > -1e-13 / ridge
    rng = np.random.default_rng(0)
    for v in (rng.standard_normal(150), F[0], F.T @ rng.standard_normal(60)):
        assert v @ P.solve(v) > 0


def test_extreme_scales_of_the_preconditioner():
    F = np.random.default_rng(0).standard_normal((4, 20))
    one = NystromPreconditioner(F, 0.5).solve(np.ones(20))
    for scale in (1e-150, 1e150):
        other = NystromPreconditioner(F * np.sqrt(scale), 0.5 * scale).solve(np.ones(20))
        np.testing.assert_allclose(other * scale, one, rtol=1e-9)


def test_preconditioner_input_is_checked():
    for ridge in (0.0, -1.0, np.nan, np.ones(3), np.array([1.0, 0.0])):
        with pytest.raises(InvalidInput, match="ridge"):
            NystromPreconditioner(np.ones((1, 2)), ridge)
    for F in (np.ones(3), np.array([[np.nan, 1.0]])):
        with pytest.raises(InvalidInput, match="F has shape"):
            NystromPreconditioner(F, 1.0)
    with pytest.raises(InvalidInput, match="R has shape"):
        NystromPreconditioner(np.ones((1, 2)), 1.0).solve(np.ones(3))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_similarity_that_is_no_kernel_is_refused(weighted):
    K = Gram(LongestCommonSubstring(), ["a", "b", "ab", "ba"])
    with pytest.raises(NotAKernel, match=r"rpcholesky.*repaired"):
        rpcholesky(2.0 * K if weighted else K, 2, 0)
    fixed = LongestCommonSubstring().repaired("clip").fit_params(["a", "b", "ab", "ba"])
    assert rpcholesky(Gram(fixed, ["a", "b", "ab", "ba"]), 2, 0).rank == 2


# ----------------------------------------------------------------- weights, blocks, lazy rows
def test_one_pivot_at_a_time_has_the_same_law_and_error():
    x = np.array([0.0, 0.3, 1.0, 1.2, 3.0])
    A = np.exp(-(np.subtract.outer(x, x) ** 2))
    expected, rng, draws = law(A, 2), np.random.RandomState(3), 1500
    counts = dict.fromkeys(expected, 0)
    for _ in range(draws):
        low = rpcholesky(Dense(A, True), 2, rng, block=1)
        counts[tuple(int(i) for i in low.pivots)] += 1
    statistic = sum((counts[k] - draws * p) ** 2 / (draws * p) for k, p in expected.items())
    assert statistic < chi2.ppf(0.999, len(expected) - 1)
    K = rbf(300)
    errors = {
        block: [rpcholesky(K, 30, seed, block=block).trace_error for seed in range(20)]
        for block in (None, 1, 7)
    }
    spread = np.std(errors[1], ddof=1) * np.sqrt(2 / 20)
    for block in (None, 7):
        assert abs(np.mean(errors[block]) - np.mean(errors[1])) < 4 * spread


@pytest.mark.parametrize("block", [None, 1, 5])
def test_the_factor_is_that_of_its_pivots_for_any_block(block):
    K = rbf(60)
    low = rpcholesky(K, 12, 0, block=block)
    Z = low.pivots
    expected = K[:, Z] @ np.linalg.solve(K[np.ix_(Z, Z)], K[Z])
    np.testing.assert_allclose(low.F.T @ low.F, expected, atol=1e-9)
    assert low.trace_error == pytest.approx(np.trace(K - expected) / 60, rel=1e-8)


def test_weights_are_repetition_in_law_and_error():
    x = np.array([0.0, 0.4, 1.0, 2.5])
    A = np.exp(-(np.subtract.outer(x, x) ** 2))
    w = np.array([1.0, 3.0, 0.0, 2.0])
    root = np.sqrt(w)
    expected = law(root[:, None] * A * root + 1e-300 * np.eye(4), 2)
    rng, draws, counts = np.random.RandomState(0), 1500, {}
    for _ in range(draws):
        low = rpcholesky(Dense(A, True), 2, rng, sample_weight=w)
        key = tuple(int(i) for i in low.pivots)
        counts[key] = counts.get(key, 0) + 1
        C = A[:, low.pivots]
        projected = C @ np.linalg.solve(A[np.ix_(low.pivots, low.pivots)], C.T)
        np.testing.assert_allclose(low.F.T @ low.F, projected, atol=1e-12)
        left = w @ np.diagonal(A - projected) / w.sum()
        assert low.trace_error == pytest.approx(left, abs=1e-12)
    assert not any(2 in key for key in counts)
    for key, probability in expected.items():
        spread = np.sqrt(draws * probability) + 1
        assert abs(counts.get(key, 0) - draws * probability) < 4.5 * spread


def test_rows_of_a_lazy_gram_matrix_are_those_of_the_dense_one():
    X = np.random.default_rng(0).standard_normal((90, 2))
    for kernel in (RBF(), RBF() + White(0.3), Matern(nu=0.5).on([0]) + Linear()):
        lazy = rpcholesky(Gram(kernel, X, keep=False), 20, 0)
        dense = rpcholesky(Dense(kernel(X), True), 20, 0)
        np.testing.assert_array_equal(lazy.pivots, dense.pivots)
        np.testing.assert_allclose(lazy.F, dense.F, atol=1e-7)
    single = rpcholesky(Gram(RBF(), X.astype(np.float32), keep=False), 20, 0)
    assert single.F.dtype == np.float64
    want = rpcholesky(Dense(RBF()(X), True), 20, 0)
    np.testing.assert_array_equal(single.pivots, want.pivots)
    np.testing.assert_allclose(single.F.T @ single.F, want.F.T @ want.F, atol=1e-4)


def test_the_factor_fits_the_budget_or_is_refused_before_any_row():
    X = np.random.default_rng(0).standard_normal((2000, 3))
    with mercer.config(memory=4_000_000):
        K = Gram(RBF(), X, keep=False)
        with pytest.raises(
            MemoryBudgetExceeded, match=r"Cholesky factor of 300 × 2000.*smaller rank"
        ):
            rpcholesky(K, 300, 0)
        assert rpcholesky(K, 150, 0).rank == 150
    with mercer.config(memory=8 * 2000 * 10):  # all of it for the factor; rows come one by one
        low = rpcholesky(Gram(RBF(), X, keep=False), 10, 0)
    np.testing.assert_allclose(low.F, rpcholesky(Gram(RBF(), X, keep=False), 10, 0).F, atol=1e-12)


def test_weights_and_blocks_that_are_refused():
    K = rbf(5)
    for w in (-np.ones(5), np.ones(4), np.full(5, np.nan)):
        with pytest.raises(InvalidInput, match="sample_weight"):
            rpcholesky(K, 2, sample_weight=w)
    for block in (0, -1, 1.5, "all"):
        with pytest.raises(InvalidInput, match="block"):
            rpcholesky(K, 2, block=block)
    assert rpcholesky(K, 3, 0, sample_weight=np.zeros(5)).rank == 0
