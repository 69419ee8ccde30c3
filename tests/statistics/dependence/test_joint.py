"""Joint independence of several variables: the definition, exact level, what pairs cannot see."""

from itertools import permutations, product

import numpy as np
import pytest
from scipy import stats

import mercer
from mercer import RBF, Laplacian, Linear
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.statistics import dhsic, dhsic_test, hsic, hsic_test


def by_definition(matrices):
    """Three sums over one, two and 2d free indices, as expectations over rows drawn at random."""
    means = [K.mean(axis=1) for K in matrices]
    joint = np.mean(np.prod(matrices, axis=0))
    apart = np.prod([K.mean() for K in matrices])
    return joint + apart - 2 * np.mean(np.prod(means, axis=0))


def by_embeddings(features):
    """‖mean of φ₁⊗…⊗φ_d − mean φ₁ ⊗ … ⊗ mean φ_d‖², with the features written out."""
    n = len(features[0])
    joint, apart = 0.0, 1.0
    for i in range(n):
        one = 1.0
        for F in features:
            one = np.multiply.outer(one, F[i])
        joint = joint + one / n
    for F in features:
        apart = np.multiply.outer(apart, F.mean(axis=0))
    return float(((joint - apart) ** 2).sum())


@pytest.mark.parametrize("count", [2, 3, 4])
def test_it_is_the_definition(count):
    rng = np.random.default_rng(count)
    variables = [rng.normal(size=(15, k + 1)) for k in range(count)]
    kernels = [RBF(1.0), Laplacian(2.0), 3.0 * RBF(0.5), RBF(2.0)][:count]
    matrices = [k(X) for k, X in zip(kernels, variables, strict=True)]
    found = dhsic(*variables, kernels=kernels)
    assert found == pytest.approx(by_definition(matrices), rel=1e-10, abs=1e-15)
    given = dhsic(*matrices, kernels="precomputed")
    assert given == pytest.approx(found, rel=1e-10, abs=1e-15)
    linear = dhsic(*variables, kernels=Linear())
    assert linear == pytest.approx(by_embeddings(variables), rel=1e-9)


def test_of_two_variables_it_is_hsic_and_its_test():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    y = x[:, 0] ** 2 + rng.normal(size=40)
    assert dhsic(x, y) == pytest.approx(hsic(x, y), rel=1e-10)
    ours, theirs = dhsic_test(x, y, rng=3), hsic_test(x, y, rng=3)
    assert ours.pvalue == theirs.pvalue
    np.testing.assert_allclose(ours.null, theirs.null, rtol=1e-9)


def test_draws_are_criteria_of_shuffled_variables():
    variables = np.random.default_rng(1).normal(size=(3, 4))
    K, L, M = (RBF(1.0)(x[:, None]) for x in variables)
    orders = [np.ix_(p, p) for p in permutations(range(4))]
    every = np.array([by_definition([K, L[p], M[q]]) for p, q in product(orders, repeat=2)])
    result = dhsic_test(*variables, kernels=RBF(1.0), n_permutations=400, rng=0)
    gaps = np.abs(result.null[:, None] - every).min(axis=1)
    assert gaps.max() < 1e-14
    # Each is shuffled on its own: more criteria are met than one permutation of both could make.
    assert len(np.unique(result.null.round(12))) > 24


def test_order_of_variables_and_unit_of_kernels_do_not_matter():
    rng = np.random.default_rng(2)
    x, y, z = rng.normal(size=(3, 30))
    assert dhsic(x, y, z) == pytest.approx(dhsic(z, x, y), rel=1e-10)
    twice = dhsic(x, y, z, kernels=[2.0 * RBF("median"), None, "rbf"])
    assert twice == pytest.approx(2 * dhsic(x, y, z), rel=1e-10)


def test_level_is_exact():
    """All ranks of the data among 19 draws are equally likely."""
    rng = np.random.default_rng(3)
    p = [
        dhsic_test(*rng.normal(size=(3, 8)), n_permutations=19, rng=rng).pvalue for _ in range(600)
    ]
    counts = np.bincount(np.rint(20 * np.array(p)).astype(int), minlength=21)[1:]
    assert stats.chisquare(counts).pvalue > 0.001
    low, high = stats.binom.ppf([0.005, 0.995], len(p), 0.05)
    assert low <= counts[0] <= high


def test_it_sees_what_pairs_do_not():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(2, 80))
    z = np.sign(x * y) * np.abs(rng.normal(size=80))
    result = dhsic_test(x, y, z, n_permutations=199, rng=0)
    assert result.pvalue == 0.005
    assert result.extra["characteristic"] and len(result.extra["kernels"]) == 3
    assert result.sizes == (80,)
    for a, b in ((x, y), (x, z), (y, z)):
        assert hsic_test(a, b, n_permutations=199, rng=0).pvalue > 0.05
    quick = dhsic_test(*rng.normal(size=(3, 40)), rng=0, early_stop=5)
    assert quick.stopped and quick.exceedances == 5


def test_blocks_strata_and_kinds_of_data():
    rng = np.random.default_rng(5)
    group = np.repeat([0.0, 5.0], 20)
    x, y, z = group + rng.normal(size=(3, 40))
    assert dhsic_test(x, y, z, n_permutations=99, rng=0).pvalue == 0.01
    assert dhsic_test(x, y, z, n_permutations=99, rng=0, strata=group).pvalue > 0.05
    assert "blocks" in dhsic_test(x, y, z, n_permutations=9, rng=0, blocks=4).method
    words = ["ab", "b", "abab", "a"] * 10

    def shared(a, b):
        return float(len(set(a) & set(b)))

    mixed = dhsic_test(x, words, z, kernels=[None, shared, None], n_permutations=9, rng=0)
    assert 0 < mixed.pvalue <= 1
    # A variable that does not vary says nothing of the others, and is independent of all.
    assert dhsic_test(x[:12], np.ones(12), n_permutations=9, rng=0).pvalue == 1.0
    assert dhsic([1.0], [2.0], [3.0]) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize(
    "variables, change, message",
    [
        (1, {}, r"dhsic_test: got 1 variable; give two or more"),
        (3, {"kernels": [RBF(1.0)]}, "kernels holds 1 for 3 variables"),
        (2, {"n_permutations": 0}, "n_permutations"),
        (2, {"early_stop": 0}, "early_stop"),
        (2, {"rng": "x"}, "rng"),
        (2, {"kernels": "nonsense"}, "not a known name"),
    ],
)
def test_wrong_arguments_are_named(variables, change, message):
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidInput, match=message):
        dhsic_test(*rng.normal(size=(variables, 6)), **change)


def test_wrong_variables_are_named():
    x = np.arange(6.0)
    with pytest.raises(InvalidInput, match="variable 0 has 6 rows and variable 2 has 5"):
        dhsic(x, x, x[:5])
    with pytest.raises(InvalidInput, match=r"variable 1 is a kernel.*write kernels="):
        dhsic(x, RBF(1.0))
    with mercer.config(memory="1 MB"), pytest.raises(MemoryBudgetExceeded, match="dhsic: 2 matri"):
        dhsic(np.arange(1000.0), np.arange(1000.0))
