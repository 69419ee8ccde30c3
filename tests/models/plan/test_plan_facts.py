"""Facts of data, default centres, and the sketch against brute force."""

from itertools import pairwise

import numpy as np
import pytest

import mercer
from mercer import RBF, FromFunction, Linear, Matern, Polynomial, Precomputed, RowBlocks, Spectrum
from mercer.estimator.facts import Sketch, default_centers, facts_of
from mercer.solvers.cost import Facts

rng = np.random.default_rng(0)


# -- centres -----------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [1, 2, 999, 1000, 1001, 10_000, 123_456, 10**9])
def test_default_centres_follow_the_stated_rule(n):
    wanted = min(n, max(1000, int(np.ceil(10 * np.sqrt(n)))))
    assert default_centers(n, 2**60) == wanted


@pytest.mark.parametrize("budget", [1, 1000, 10**6, 10**9])
def test_the_matrix_of_centres_takes_a_quarter_of_the_budget(budget):
    m = default_centers(10**8, budget)
    assert m >= 1
    assert m == 1 or 8 * m * m <= budget / 4


def test_the_budget_in_force_counts():
    with mercer.config(memory="1MB"):
        assert default_centers(10**6) == default_centers(10**6, 10**6) < 1000


# -- facts -------------------------------------------------------------------------------------
def test_facts_of_vectors():
    X = rng.standard_normal((50, 4))
    facts = facts_of(RBF(), X, 3)
    assert (facts.n, facts.columns, facts.outputs, facts.features) == (50, 4, 3, None)
    assert not facts.given and not facts.stream and facts.itemsize == 8
    assert facts.budget == mercer.get_config().memory
    assert facts_of(Linear(), X.astype("f4")).itemsize == 4
    assert facts_of(Linear(), X).features == 4
    assert facts_of(RBF(), facts) is facts


def test_facts_of_other_points():
    kernel = Spectrum(2)
    words = kernel.domain.check(["abab", "bb", "a"])
    facts = facts_of(kernel, words)
    assert facts.n == 3 and facts.columns == 0
    assert facts_of(Precomputed(), np.eye(4)).given


def test_facts_of_blocks_ask_for_no_features():
    blocks = RowBlocks.from_arrays(rng.standard_normal((50, 4)), np.zeros(50), block_rows=7)
    facts = facts_of(RBF(), blocks)
    assert facts.stream and facts.n == 50 and facts.columns == 4


def test_sparse_features_are_counted():
    letters = np.array(list("abcdefgh"))
    words = ["".join(rng.choice(letters, 6)) for _ in range(900)]
    kernel = Spectrum(3).fit_params(words)
    facts = facts_of(kernel, kernel.domain.check(words))
    if facts.features is not None and 64 < facts.features < 900:
        assert facts.nonzeros is not None
        assert 0 < facts.nonzeros < 0.1 * 900 * facts.features


# -- sketch ------------------------------------------------------------------------------------
def left_of(K, index):
    """Share of the trace that some columns leave, from the definition."""
    rest = K - K[:, index] @ np.linalg.pinv(K[np.ix_(index, index)], hermitian=True) @ K[index]
    return np.trace(rest) / np.trace(K)


@pytest.mark.parametrize("m", [5, 40, 200])
def test_what_centres_leave_is_near_the_truth(m):
    X = rng.standard_normal((1200, 2))
    kernel = Matern(1.0, nu=1.5)
    truth = np.mean([left_of(kernel(X), rng.permutation(1200)[:m]) for _ in range(3)])
    assert truth / 2 < Sketch(kernel, X).left(m, 1200) < 2 * truth


def test_beyond_the_sample_it_falls_by_a_power():
    X = rng.standard_normal((900, 1))
    sketch = Sketch(Matern(1.0, nu=0.5), X)
    values = [sketch.left(m, 10**9) for m in (100, 380, 400, 800, 1600, 10**6)]
    assert all(a >= b > 0 for a, b in pairwise(values))
    assert sketch.left(900, 900) == 0.0


def test_eigenvalues_are_near_those_of_the_matrix():
    X = rng.standard_normal((1500, 2))
    kernel = RBF(1.0)
    truth = np.linalg.eigvalsh(kernel(X))[::-1]
    sketch = Sketch(kernel, X)
    for rank in (0, 3, 20):
        assert truth[rank] / 2 < sketch.eigenvalue(rank, 1500) < 2 * truth[rank]
    assert sketch.eigenvalue(10**6, 1500) <= sketch.eigenvalue(255, 1500)


def test_a_sketch_is_the_same_each_time():
    X = rng.standard_normal((2000, 3))
    with_speed = [Sketch(RBF(), X, 5) for _ in range(2)]
    for sketch in with_speed:  # as many points whatever the machine does meanwhile
        sketch.__dict__["rate"] = mercer.engines.rates.KernelRate(1e-9)
    assert with_speed[0].left(77, 2000) == with_speed[1].left(77, 2000)
    assert np.array_equal(with_speed[0].gram, with_speed[1].gram)


@pytest.mark.parametrize(
    "X",
    [np.zeros((1, 2)), np.zeros((2, 2)), np.ones((300, 2)), 1e8 * rng.standard_normal((40, 2))],
    ids=["one", "two", "duplicates", "huge"],
)
def test_degenerate_points(X):
    sketch = Sketch(RBF(1.0), X)
    n = len(X)
    for m in (1, 2, n, 10 * n):
        assert 0.0 <= sketch.left(m, n) <= 1.0
        assert sketch.eigenvalue(m, n) >= 0.0


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("kernel", [RBF(3.0), Polynomial(3), Matern(2.0, nu=2.5)], ids=str)
def test_points_in_single_precision(kernel, d):
    """Their Gram matrix, rounded to single precision, has no Cholesky factor."""
    X = rng.standard_normal((600, d)).astype(np.float32)
    some, same = Sketch(kernel, X), Sketch(kernel, X.astype(float))
    for m in (1, 10, 100, 500):
        assert some.left(m, 600) == pytest.approx(same.left(m, 600), rel=1e-6)


def test_what_is_no_kernel_is_left_to_the_fit():
    X, kernel = rng.standard_normal((60, 3)), FromFunction(lambda a, b: float(np.tanh(1 + a @ b)))
    sketch = Sketch(kernel, kernel.domain.check(list(X)))
    assert 0.0 <= sketch.left(20, 60) <= 1.0 and sketch.eigenvalue(20, 60) >= 0.0


def test_a_kernel_that_is_zero():
    sketch = Sketch(Linear(), np.zeros((30, 2)))
    assert sketch.left(3, 30) == 1.0  # nothing to leave, and nothing known
    assert sketch.eigenvalue(3, 30) == 0.0


def test_blocks_are_judged_by_rows_of_some():
    X = np.repeat(np.arange(5000.0), 2).reshape(-1, 2)
    blocks = RowBlocks.from_arrays(X, block_rows=200)
    seen = Sketch(RBF(), blocks).X
    assert len(seen) <= 1000 and len(np.unique(seen[:, 0] // 200)) == 5  # blocks of 25
    assert seen[:, 0].min() < 200 and seen[:, 0].max() >= 4800
    facts = facts_of(RBF(), blocks)
    assert isinstance(facts, Facts) and facts.block == 200 and facts.n == 5000
    whole = facts_of(RBF(), RowBlocks.from_generator(lambda: iter([X[:7], X[7:9]])))
    assert whole.block == 7 and whole.n == 9
