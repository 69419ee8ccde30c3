"""Shares of columns in the statistic of a test, against all subsets counted one by one."""

import copy
import pickle
from itertools import combinations, permutations
from math import factorial

import numpy as np
import pytest

import mercer
from mercer import RBF, Cosine, Laplacian, Linear, Matern, Polynomial, Spectrum, config
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.rkhs import EntryShares
from mercer.statistics import (
    TestShare,
    hsic,
    hsic_test,
    k_sample_test,
    mmd,
    mmd_agg_test,
    mmd_split_test,
    mmd_test,
    witness,
)
from mercer.statistics.shares import max_t

RNG = np.random.default_rng(0)
N, M, D = 9, 7, 3
X, Y = RNG.normal(size=(N, D)), RNG.normal(0.5, 1.0, size=(M, D))
Z = np.vstack([X, Y])
W = RNG.normal(size=(N, 2)) + X[:, :2] ** 2
SCALES = [1.0, 2.0, 0.5]
FREE = RNG.random(N), RNG.random(M)
COUNTS = np.array([1, 2, 0, 1, 1, 3, 1, 1, 1])


def of_columns(scales, Z):
    """The kernel matrices of an RBF kernel with a scale for each column."""
    return [RBF(s)(Z[:, [j]]) for j, s in enumerate(scales)]


def product_of(parts, S):
    K = np.ones_like(parts[0])
    for j in S:
        K = K * parts[j]
    return K


def summed_of(parts, S):
    """2 k₀ k₁ + k₁ k₂, whose factors outside S are 1."""
    return 2 * product_of(parts, {*S} & {0, 1}) + product_of(parts, {*S} & {1, 2})


def polynomial_of(parts, S):
    return (1.0 + sum((parts[j] for j in S), np.zeros_like(parts[0]))) ** 3


def counted(worth, p):
    """Return the Shapley values and the interactions of a game, subset by subset."""
    values, pairs = np.zeros(p), np.zeros((p, p))
    for j in range(p):
        rest = [k for k in range(p) if k != j]
        for size in range(p):
            w = factorial(size) * factorial(p - 1 - size) / factorial(p)
            for S in combinations(rest, size):
                values[j] += w * (worth({*S, j}) - worth({*S}))
        for k in rest:
            free = [i for i in rest if i != k]
            for size in range(p - 1):
                w = factorial(size) * factorial(p - 2 - size) / factorial(p - 1)
                for S in combinations(free, size):
                    gain = worth({*S, j, k}) - worth({*S, j}) - worth({*S, k}) + worth({*S})
                    pairs[j, k] += w * gain
    return values, pairs


KERNELS = {
    "rbf": (RBF(SCALES), lambda Z: of_columns(SCALES, Z), product_of),
    "sum": (
        2.0 * RBF(SCALES[:2]).on([0, 1]) + RBF(SCALES[1]).on(1) * RBF(SCALES[2]).on(2),
        lambda Z: of_columns(SCALES, Z),
        summed_of,
    ),
    "polynomial": (
        Polynomial(3, 1.0),
        lambda Z: [np.outer(z, z) for z in Z.T],
        polynomial_of,
    ),
}


@pytest.mark.parametrize("weights", [None, (COUNTS, None), FREE], ids=["none", "counts", "free"])
@pytest.mark.parametrize("estimator", ["unbiased", "biased"])
@pytest.mark.parametrize("name", KERNELS)
def test_shares_of_mmd_are_those_of_all_subsets(name, estimator, weights):
    kernel, parts_of, matrix = KERNELS[name]
    parts = parts_of(Z)
    how = {"estimator": estimator, "sample_weight": weights}

    def worth(S):
        K = matrix(parts, S)
        return mmd(K[:N], K[N:], "precomputed", **how)

    values, pairs = counted(worth, D)
    told = mmd_test(X, Y, kernel, 9, 0, **how).explain()
    size = np.abs(np.diagonal(matrix(parts, range(D)))).max()
    np.testing.assert_allclose(told.values, values, atol=1e-12 * size)
    off = ~np.eye(D, dtype=bool)
    np.testing.assert_allclose(told.pairs[off], pairs[off] / 2, atol=1e-12 * size)
    np.testing.assert_allclose(told.pairs.sum(axis=1), told.values, atol=1e-12 * size)
    np.testing.assert_allclose(told.values.sum(), told.statistic, atol=1e-12 * size)
    by_name = {share.columns: share.value for share in told.shares}
    assert len(by_name) == D + 3
    np.testing.assert_allclose(by_name["x0", "x2"], pairs[0, 2], atol=1e-12 * size)
    assert [s.columns for s in mmd_test(X, Y, kernel, 9, 0, **how).explain(pairs=False).shares] == [
        s.columns for s in told.shares if len(s.columns) == 1
    ]


def test_shares_of_several_samples_are_those_of_all_subsets():
    samples, parts = (X[:5], X[5:], Y), of_columns(SCALES, Z)

    def worth(S):
        K = product_of(parts, S)
        return k_sample_test(K[:5], K[5:N], K[N:], kernel="precomputed", n_permutations=1).statistic

    told = k_sample_test(*samples, kernel=RBF(SCALES), n_permutations=9, rng=0).explain()
    values, pairs = counted(worth, D)
    np.testing.assert_allclose(told.values, values, atol=1e-12)
    np.testing.assert_allclose(told.pairs[0, 1], pairs[0, 1] / 2, atol=1e-12)
    two = k_sample_test(X, Y, kernel=RBF(SCALES), n_permutations=9, rng=0).explain()
    same = mmd_test(X, Y, RBF(SCALES), 9, 0, estimator="biased").explain()
    np.testing.assert_allclose(two.values, same.values * N * M / (N + M), atol=1e-12)
    assert [s.adjusted for s in two.shares] == [s.adjusted for s in same.shares]


@pytest.mark.parametrize("weights", [None, COUNTS, FREE[0]], ids=["none", "counts", "free"])
@pytest.mark.parametrize("estimator", ["unbiased", "biased"])
def test_shares_of_hsic_are_halves_of_those_of_all_subsets(estimator, weights):
    first, second = of_columns(SCALES, X), of_columns(SCALES[:2], W)
    how = {"estimator": estimator, "sample_weight": weights}

    def between(S, T):
        K, L = product_of(first, S), product_of(second, T)
        return hsic(K, L, "precomputed", "precomputed", **how)

    told = hsic_test(X, W, RBF(SCALES), RBF(SCALES[:2]), 9, 0, **how).explain()
    of_x, _ = counted(lambda S: between(S, {0, 1}), D)
    of_y, _ = counted(lambda T: between({0, 1, 2}, T), 2)
    np.testing.assert_allclose(told.values, 0.5 * np.r_[of_x, of_y], atol=1e-13)
    cells = [counted(lambda S, T=T: between(S, T), D)[0] for T in ({0}, {1}, {0, 1})]
    alone = 0.5 * (cells[0] + cells[2] - cells[1])  # of the first column of Y
    np.testing.assert_allclose(told.pairs[:D, D], 0.5 * alone, atol=1e-13)
    np.testing.assert_allclose(told.pairs, told.pairs.T)
    np.testing.assert_allclose(told.pairs.sum(axis=1), told.values, atol=1e-13)
    np.testing.assert_allclose(told.values.sum(), told.statistic, atol=1e-13)
    assert told.columns == ("x0", "x1", "x2", "y0", "y1") and len(told.shares) == 5 + 6
    turned = hsic_test(W, X, RBF(SCALES[:2]), RBF(SCALES), 9, 0, estimator=estimator).explain()
    if weights is None:
        np.testing.assert_allclose(turned.values, told.values[[3, 4, 0, 1, 2]], atol=1e-13)


def test_p_values_are_those_of_the_draws_of_the_test():
    B, parts = 29, of_columns(SCALES, Z)
    result = mmd_test(X, Y, RBF(SCALES), B, 3)
    labels = np.repeat([0, 1], [N, M])
    drawn = np.random.default_rng(3).permuted(np.broadcast_to(labels, (B, N + M)).copy(), axis=1)
    T = []
    for own in np.vstack([labels, drawn]):
        order = np.argsort(own, kind="stable")

        def worth(S, order=order):
            K = product_of(parts, S)[np.ix_(order, order)]
            return mmd(K[:N], K[N:], "precomputed")

        values, pairs = counted(worth, D)
        T.append([*values, *pairs[np.triu_indices(D, 1)]])
    T = np.array(T)
    np.testing.assert_allclose(T[1:, :D].sum(axis=1), result.null, atol=1e-12)
    z = (T - T.mean(axis=0)) / T.std(axis=0)
    names = [("x0",), ("x1",), ("x2",), ("x0", "x1"), ("x0", "x2"), ("x1", "x2")]
    told = {share.columns: share for share in result.explain().shares}
    for m, name in enumerate(names):
        share = told[name]
        assert share.pvalue == pytest.approx((z[:, m] >= z[0, m] - 1e-9).mean())
        assert share.adjusted == pytest.approx((z.max(axis=1) >= z[0, m] - 1e-9).mean())
        assert share.deviations == pytest.approx(z[0, m], abs=1e-6)
    away = [share.deviations for share in result.explain().shares]
    assert away == sorted(away, reverse=True)


DESIGNS = {
    "blocks": {"blocks": 3},
    "strata": {"strata": (np.arange(N) % 2, np.arange(M) % 2)},
    "counts": {"sample_weight": (COUNTS, None)},
    "crowded": {"sample_weight": (15 * COUNTS, None)},
    "free": {"sample_weight": FREE},
    "biased": {"estimator": "biased"},
}


@pytest.mark.filterwarnings("ignore:mmd_test. are these counts")
@pytest.mark.parametrize("name", DESIGNS)
def test_one_column_has_the_p_value_of_the_test(name):
    result = mmd_test(X[:, 0], Y[:, 0], None, 49, 1, **DESIGNS[name])
    (share,) = result.explain().shares
    assert share.pvalue == share.adjusted == pytest.approx(result.pvalue)
    assert share.value == pytest.approx(result.statistic)


def test_one_column_has_the_p_value_of_the_other_tests():
    pairs = mmd_test(X[:M, 0], Y[:, 0], None, 49, 1, null="wild")
    assert pairs.explain().shares[0].pvalue == pytest.approx(pairs.pvalue)
    several = k_sample_test(X[:4, 0], X[4:, 0], Y[:, 0], n_permutations=49, rng=1)
    assert several.explain().shares[0].pvalue == pytest.approx(several.pvalue)
    for A in (X[:, :1], X):  # fewer columns than Y has, and more: other matrices are shuffled
        result = hsic_test(A, W, None, None, 49, 1, blocks=2)
        together = result.explain(groups=({"X": range(A.shape[1])}, None)).shares
        (whole,) = (share for share in together if share.columns == ("X",))
        assert whole.pvalue == pytest.approx(result.pvalue)
    for how in ({}, {"blocks": 2}, {"sample_weight": COUNTS}, {"sample_weight": FREE[0]}):
        result = hsic_test(X[:, 0], W[:, 0], None, None, 49, 1, **how)
        told = result.explain()
        assert [s.columns for s in told.shares] == [("x0", "y0"), ("x0",), ("y0",)]
        assert [s.pvalue for s in told.shares] == pytest.approx([result.pvalue] * 3)


def test_an_early_stop_does_not_stop_the_shares():
    whole = mmd_test(X, X[:M] + 0.01, None, 60, 2)
    soon = mmd_test(X, X[:M] + 0.01, None, 60, 2, early_stop=3)
    assert soon.stopped and soon.n_permutations < 60
    assert [s.adjusted for s in soon.explain().shares] == [
        s.adjusted for s in whole.explain().shares
    ]
    assert soon.explain().n_permutations == 60


def test_a_null_by_formula_has_shares_without_p_values():
    for result in (
        mmd_test(X, Y, RBF(SCALES), null="gamma"),
        hsic_test(X, W, RBF(SCALES), null="moments"),
    ):
        told = result.explain()
        np.testing.assert_allclose(told.values.sum(), result.statistic, atol=1e-13)
        assert {s.adjusted for s in told.shares} == {None} and told.significant() == []
        sizes = [abs(s.value) for s in told.shares]
        assert sizes == sorted(sizes, reverse=True) and "p-value" not in str(told)


# ---- laws ----


def test_columns_that_do_nothing_have_nothing():
    A, B = (np.column_stack([Q[:, :2], np.full(len(Q), 4.0)]) for Q in (X, Y))
    told = mmd_test(A, B, RBF(), 19, 0).explain()
    by_name = {s.columns: s for s in told.shares}
    for columns in (("x2",), ("x0", "x2")):
        assert by_name[columns].value == 0.0 and by_name[columns].adjusted == 1.0
    both = hsic_test(A, W, RBF(), RBF(), 19, 0).explain()
    assert both.values[2] == 0.0 and (both.pairs[2] == 0.0).all()
    nothing = mmd_test(np.ones((4, 2)), np.ones((3, 2)), RBF(), 19, 0).explain()
    assert {s.adjusted for s in nothing.shares} == {1.0} and not nothing.values.any()


def test_columns_share_alike_in_any_order():
    twins = [Q[:, [0, 0, 1]] for Q in (X, Y)]
    told = mmd_test(*twins, RBF(), 19, 0).explain()
    np.testing.assert_allclose(told.values[0], told.values[1], rtol=1e-10)
    for order in permutations(range(3)):
        moved = mmd_test(X[:, order], Y[:, order], RBF(), 19, 0).explain()
        usual = mmd_test(X, Y, RBF(), 19, 0).explain()
        np.testing.assert_allclose(moved.values, usual.values[list(order)], atol=1e-14)


def test_a_weight_is_a_repetition():
    often = np.repeat(X, COUNTS, axis=0)
    counted = mmd_test(X, Y, RBF(), 19, 0, sample_weight=(COUNTS, None)).explain()
    repeated = mmd_test(often, Y, RBF(), 19, 0).explain()
    np.testing.assert_allclose(counted.values, repeated.values, atol=1e-14)
    np.testing.assert_allclose(counted.pairs, repeated.pairs, atol=1e-14)
    assert [s.adjusted for s in counted.shares] == [s.adjusted for s in repeated.shares]


def test_a_mixture_says_by_how_much_shares_may_be_off():
    for kernel in (Matern([1.0, 2.0, 1.0]), mercer.RationalQuadratic(2.0, 1.5)):
        result = mmd_test(X, Y, kernel, 9, 0)
        told = result.explain()
        assert 1e-12 < told.error < 1e-4
        assert abs(told.values.sum() - result.statistic) <= told.error


def test_the_same_again_and_the_generator_is_left_alone():
    rng = np.random.default_rng(5)
    result = mmd_test(X, Y, None, 29, rng)
    state = rng.bit_generator.state
    first, second = result.explain(), result.explain()
    assert rng.bit_generator.state == state
    np.testing.assert_array_equal(first.pairs, second.pairs)
    assert list(map(str, first.shares)) == list(map(str, second.shares))


def test_bits_do_not_depend_on_threads_or_memory():
    A, B = RNG.normal(size=(300, 4)), RNG.normal(size=(250, 4))
    for result in (mmd_test(A, B, None, 20, 0), hsic_test(A[:250], B, None, None, 20, 0)):
        found = []
        for options in ({"threads": 1}, {"threads": 2}, {"threads": 2, "memory": "60MB"}):
            with config(**options):
                told = result.explain()
            found.append([(s.value, s.deviations) for s in told.shares])
        assert found[0] == found[1]
        np.testing.assert_allclose(found[0], found[2], rtol=1e-9, atol=1e-12)


def test_the_largest_of_all_is_called_out_as_often_as_it_may():
    """Each row of exchangeable ones in turn is the data: at most a share α is at most α."""
    T = np.random.default_rng(1).standard_gamma(0.5, size=(60, 7))
    T[:, 3] = 1.0  # without spread: no say
    least = []
    for row in range(len(T)):
        others = np.delete(np.arange(len(T)), row)
        _, pvalues, adjusted = max_t(T[[row, *others]], 0.0)
        assert adjusted[3] == pvalues[3] == 1.0 and (adjusted >= pvalues).all()
        least.append(adjusted.min())
    for k in range(1, len(T) + 1):
        assert (np.array(least) <= k / len(T) + 1e-12).sum() == k


def test_a_pair_is_named_whose_columns_are_as_before():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(150, 4)), rng.normal(size=(150, 4))
    A[:, 3] = 0.6 * A[:, 1] + 0.8 * A[:, 3]
    B[:, 3] = -0.6 * B[:, 1] + 0.8 * B[:, 3]
    told = mmd_test(A, B, None, 99, 0).explain()
    assert told.shares[0].columns == ("x1", "x3") and told.shares[0].adjusted == 0.01
    assert told.significant()[0] is told.shares[0]
    assert all({*s.columns} <= {"x1", "x3"} for s in told.significant())


# ---- names, groups, tables ----


def test_groups_share_as_one():
    parts = of_columns(SCALES, Z)

    def worth(S):
        K = product_of(parts, [j for g in S for j in ((0, 2), (1,))[g]])
        return mmd(K[:N], K[N:], "precomputed")

    values, _ = counted(worth, 2)
    result = mmd_test(X, Y, RBF(SCALES), 9, 0)
    for groups in ([[0, 2]], [["a", "c"]], {"both": [2, 0]}):
        told = result.explain(groups=groups, columns=["a", "b", "c"])
        np.testing.assert_allclose(told.values, values, atol=1e-13)
        assert told.columns == ("both" if isinstance(groups, dict) else "a & c", "b")
    pairs = hsic_test(X, W, n_permutations=9, rng=0)
    told = pairs.explain(groups=({"all": [0, 1, 2]}, None), columns=(None, ["u", "v"]))
    assert told.columns == ("all", "u", "v")
    np.testing.assert_allclose(told.values[0], pairs.statistic / 2)


def test_columns_have_the_names_of_frames():
    pd = pytest.importorskip("pandas")
    one, two = (pd.DataFrame(Q, columns=["age", "dose", "time"]) for Q in (X, Y))
    told = mmd_test(one, two[["time", "age", "dose"]].rename(columns=str), None, 9, 0).explain()
    assert told.columns == ("age", "dose", "time")
    assert hsic_test(one, one[["dose"]], n_permutations=9).explain().columns[-2:] == (
        "time",
        "dose",
    )


def test_tables_of_mixed_columns():
    towns = np.array(["n", "s", "w"])
    kernel = RBF(1.0).on("age") * mercer.Categorical(0.3).on("town")
    one, two = (
        {"age": Q[:, 0], "town": towns[(np.arange(len(Q)) * k) % 3]} for Q, k in ((X, 1), (Y, 3))
    )
    result = mmd_test(one, two, kernel, 19, 0)
    told = result.explain()
    assert told.columns == ("age", "town")
    np.testing.assert_allclose(told.values.sum(), result.statistic, atol=1e-14)
    positions, shares = told.rows(2)["X"]
    assert shares.data[0].tolist() == [one["age"][positions[0]], one["town"][positions[0]]]
    found = mercer.compare(one, two, n_permutations=20, rng=0)
    assert set(found.test.explain().columns) == {"age", "town"}
    np.testing.assert_allclose(found.test.explain().values.sum(), found.test.statistic)


def test_missing_cells_and_sparse_rows():
    import scipy.sparse as sp

    A = X.copy()
    A[0, 1] = np.nan
    result = mmd_test(A, Y, RBF().with_missing(0.5), 9, 0)
    np.testing.assert_allclose(result.explain().values.sum(), result.statistic, atol=1e-13)
    thin = mmd_test(sp.csr_array(X), sp.csr_array(Y), RBF(), 9, 0).explain()
    np.testing.assert_allclose(thin.values, mmd_test(X, Y, RBF(), 9, 0).explain().values)


def test_single_precision_and_far_away():
    usual = mmd_test(X, Y, RBF(), 9, 0).explain()
    single = mmd_test(X.astype(np.float32), Y.astype(np.float32), RBF(), 9, 0)
    np.testing.assert_allclose(single.explain().values, usual.values, atol=1e-6)
    far = mmd_test(X + 2.0**30, Y + 2.0**30, Linear(), 9, 0)
    lost = mmd_test(X + 2.0**30, Y + 2.0**30, Polynomial(3, 1.0), 9, 0).explain()
    assert lost.error > np.abs(lost.values).max() and {s.adjusted for s in lost.shares} == {1.0}
    near = mmd_test(X + 2.0**30 - 2.0**30, Y + 2.0**30 - 2.0**30, Linear(), 9, 0)
    np.testing.assert_allclose(far.explain().values, near.explain().values, rtol=1e-9)


def test_tensors():
    torch = pytest.importorskip("torch")
    told = mmd_test(torch.tensor(X), torch.tensor(Y), RBF(), 19, 0).explain()
    usual = mmd_test(X, Y, RBF(), 19, 0).explain()
    np.testing.assert_allclose(told.values, usual.values, atol=1e-13)
    assert [s.adjusted for s in told.shares] == [s.adjusted for s in usual.shares]


def test_draws_of_a_device_are_made_again(monkeypatch):
    pytest.importorskip("torch")
    from mercer.statistics import permutation
    from tests.pretend_cuda import pretend_cuda, to_cuda

    monkeypatch.setattr(permutation, "MANY", 0)
    monkeypatch.setattr(permutation, "CHUNK", 16)
    with pretend_cuda():
        A, B, C = (to_cuda(Q) for Q in (X[:M], Y, W[:M]))
        for result in (
            mmd_test(A, B, RBF(SCALES), 49, 0),
            mmd_test(A, B, RBF(SCALES), 49, 0, null="wild"),
            k_sample_test(A, B, kernel=RBF(SCALES), n_permutations=49, rng=0),
        ):
            assert result.origin.keywords["place"].remote
            told = result.explain(groups={"all": [0, 1, 2]})
            assert told.shares[0].pvalue == pytest.approx(result.pvalue)
        pair = hsic_test(A, C, RBF(SCALES), RBF(), 49, 0)
        together = {"X": [0, 1, 2]}, {"Y": [0, 1]}
        assert pair.explain(groups=together).shares[0].pvalue == pytest.approx(pair.pvalue)


# ---- rows ----


def test_rows_are_those_of_the_witness():
    told = mmd_test(X, Y, RBF(SCALES), 9, 0).explain()
    f = witness(X, Y, RBF(SCALES))(Z)
    rows = told.rows(3)
    for name, heights in (("X", f[:N]), ("Y", -f[N:])):
        positions, shares = rows[name]
        assert positions.tolist() == np.argsort(-heights)[:3].tolist()
        np.testing.assert_allclose(shares.totals, heights[positions], atol=1e-13)
        np.testing.assert_array_equal(shares.data, (X if name == "X" else Y)[positions])
    every = witness(X, Y, RBF(SCALES)).explain(X, game="baseline").values
    for columns in (["x2"], ["x0", "x1"]):
        heights = every[:, [int(name[1]) for name in columns]].sum(axis=1)
        assert told.rows(4, columns)["X"][0].tolist() == np.argsort(-heights)[:4].tolist()
    assert told.rows(4, "x2")["Y"][0].tolist() == told.rows(4, ["x2"])["Y"][0].tolist()
    left = mmd_test(X, Y, None, 9, 0, sample_weight=(COUNTS, None)).explain().rows(N)["X"][0]
    assert sorted(left) == np.flatnonzero(COUNTS).tolist()
    several = k_sample_test(X[:5], X[5:], Y, n_permutations=9).explain().rows(2)
    assert list(several) == ["sample 0", "sample 1", "sample 2"]
    assert all(max(positions) < 7 for positions, _ in several.values())


def test_rows_of_independence_add_up_to_the_statistic():
    for how in ({}, {"estimator": "unbiased"}, {"sample_weight": FREE[0]}):
        result = hsic_test(X, W, None, None, 9, 0, **how)
        positions, shares = result.explain().rows(N)["X and Y"]
        assert sorted(positions) == list(range(N))
        np.testing.assert_allclose(shares.values.sum(axis=0), result.explain().values, atol=1e-14)
        assert (np.diff(shares.totals) <= 1e-15).all()
        np.testing.assert_array_equal(shares.data.astype(float), np.c_[X, W][positions])
        judged = shares.values[np.argsort(positions)][:, [0, 4]].sum(axis=1)
        first = result.explain().rows(2, ["x0", "y1"])["X and Y"][0]
        assert first.tolist() == np.argsort(-judged)[:2].tolist()


# ---- what is refused ----


def refused(result, words, **how):
    with pytest.raises(InvalidInput, match=words) as error:
        result.explain(**how)
    assert str(error.value).startswith("TestResult.explain: ")


def test_what_has_no_shares_is_refused():
    refused(mmd_test(X, Y, None, 9, 0, rank=2), "matrix of rank 2.*without rank=")
    refused(hsic_test(X, W, n_permutations=9, rank=2), "matrix of rank 2")
    refused(mmd_test(X, Y, null="normal"), "half of the points.*null='permutation'")
    K = RBF()(Z)
    refused(mmd_test(K[:N], K[N:], "precomputed", 9), "a Gram matrix")
    refused(mmd_test(X, Y, Cosine(), 9), "Cosine.* is no sum of products.*RBF, Laplacian")
    refused(mmd_test(["ab", "ba"], ["aa", "bb"], Spectrum(1), 9, estimator="biased"), "strings")
    refused(mmd_agg_test(X, Y, n_permutations=9), "mmd_test, k_sample_test and hsic_test")
    result = mmd_test(X, Y, None, 9, 0)
    for gone in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert gone.statistic == result.statistic
        refused(gone, "Run the test again")
    told = result.explain()
    with pytest.raises(InvalidInput, match="explain the result"):
        pickle.loads(pickle.dumps(told)).rows()
    with pytest.raises(InvalidInput, match="rows: no column 'age'; there are x0, x1, x2"):
        told.rows(3, ["age"])
    with pytest.raises(InvalidInput, match="rows: count=0"):
        told.rows(0)
    refused(result, "groups names a column 'height'", groups=[["height"]])
    refused(result, r"columns=\['a', 'b'\]; give a name for each of the 3", columns=["a", "b"])
    refused(result, "columns='abc'; give a name for each of the 3", columns="abc")
    refused(result, "groups=3; give lists of columns", groups=3)
    refused(hsic_test(X, W, n_permutations=9), "a pair of groups", groups=[["x0"]])
    refused(mercer.statistics.distance_correlation_test(X, W, n_permutations=9), "hsic_test")


def test_samples_that_changed_are_refused():
    A = X.copy()
    result = mmd_test(A, Y, RBF(), 9, 0)
    A[0] += 3.0
    refused(result, "the samples have changed")


def test_what_does_not_fit_is_refused_before_any_work():
    A, B = RNG.normal(size=(400, 3)), RNG.normal(size=(400, 3))
    result = hsic_test(A, B, n_permutations=9)
    with config(memory="1MB"), pytest.raises(MemoryBudgetExceeded, match="shares of 3 and 3"):
        result.explain()
    result = mmd_test(A, B, n_permutations=999)
    with config(memory="1MB"), pytest.raises(MemoryBudgetExceeded, match="pairs=False"):
        result.explain()


def test_a_part_of_the_rows_explains_itself():
    result = mmd_split_test(np.vstack([X] * 3), np.vstack([Y] * 3) + 0.1, n_permutations=9, rng=0)
    np.testing.assert_allclose(result.explain().values.sum(), result.statistic, atol=1e-13)


def test_words():
    result = mmd_test(X, Y, None, 19, 0)
    assert "explain_samples" not in repr(result) and "partial" not in repr(result)
    told = result.explain()
    lines = repr(told).splitlines()
    assert lines[0].endswith("shared by 3 columns and 3 pairs") and lines[-1] == "and 1 more"
    assert str(TestShare(("a",), 0.5)) == "a: 0.5"
    assert lines[1] == str(told.shares[0]) and "adjusted)" in lines[1]


def test_tiles_hold_the_matrices_of_the_game():
    from mercer.kernels import groups_of, terms_of

    for kernel in (RBF(SCALES) + Polynomial(2, 1.0), Laplacian(2.0)):
        terms = terms_of(kernel, D)
        shares = EntryShares(terms, groups_of(terms, D), Z, pairs=True)
        whole = shares.stack(slice(0, N + M), slice(0, N + M))
        parts = list(shares.tiles(slice(2, 9), slice(4, 16), np.float64))
        assert len(parts) == shares.count == 6
        np.testing.assert_allclose(parts, whole[:, 2:9, 4:16], atol=1e-15)
        K = kernel(Z)
        left = K - whole[:D].sum(axis=0)
        np.testing.assert_allclose(left, left[0, 0], atol=1e-12)
