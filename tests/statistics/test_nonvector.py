"""Tests on strings, graphs, bags and tables: the numbers of the Gram matrix, power, refusals."""

import numpy as np
import pytest

import mercer
from mercer import RBF, SetKernel
from mercer.errors import InvalidInput, NotAKernel
from mercer.kernels import Categorical
from mercer.kernels.graphs import VertexHistogram, WeisfeilerLehman
from mercer.kernels.strings import LocalAlignment, LongestCommonSubstring, Spectrum
from mercer.statistics import (
    hsic,
    hsic_agg_test,
    hsic_split_test,
    hsic_test,
    k_sample_test,
    kci_test,
    mmd,
    mmd_agg_test,
    mmd_split_test,
    mmd_test,
    witness,
)

N = 20


def strings(rng, letters, n=N):
    return ["".join(rng.choice(list(letters), rng.integers(4, 9))) for _ in range(n)]


def graphs(rng, labels, n=N):
    sizes = rng.integers(3, 7, n)
    return [
        mercer.Graph(
            edges=[(i, i + 1) for i in range(m - 1)], n_nodes=m, labels=rng.choice(labels, m)
        )
        for m in sizes
    ]


def tables(rng, letters, n=N):
    site = rng.choice(["north", "south"], n)
    return {"sequence": strings(rng, letters, n), "age": rng.normal(40, 5, n), "site": site}


def bags(rng, letters, n=N):
    return [strings(rng, letters, rng.integers(1, 4)) for _ in range(n)]


MIXED = Spectrum(1).normalized().on("sequence") * Categorical(0.5).on("site") + RBF(9.0).on("age")
KINDS = {
    "strings": (strings, "aabc", "abcc", Spectrum(2).normalized()),
    "graphs": (graphs, [0, 0, 1], [0, 1, 1], WeisfeilerLehman(1).normalized()),
    "tables": (tables, "aaab", "abbb", MIXED),
    "bags": (bags, "aaab", "abbb", SetKernel(Spectrum(1).normalized())),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def samples(kind, rng, alike=False):
    make, first, second, kernel = KINDS[kind]
    return make(rng, first), make(rng, first if alike else second), kernel


def joined(A, B):
    if isinstance(A, dict):
        return {name: [*A[name], *B[name]] for name in A}
    return [*A, *B]


@every_kind
def test_the_discrepancy_is_that_of_the_gram_matrix(rng, kind):
    A, B, kernel = samples(kind, rng)
    K = kernel(joined(A, B))
    expected = K[:N, :N].mean() + K[N:, N:].mean() - 2 * K[:N, N:].mean()
    assert mmd(A, B, kernel, estimator="biased") == pytest.approx(expected, abs=1e-12)
    a = mmd_test(A, B, kernel, rng=0, n_permutations=99)
    b = mmd_test(K[:N], K[N:], "precomputed", rng=0, n_permutations=99)
    assert a.statistic == pytest.approx(b.statistic, abs=1e-12) and a.pvalue == b.pvalue
    values = witness(A, B, kernel)(A)
    np.testing.assert_allclose(values, K[:N, :N].mean(1) - K[:N, N:].mean(1), atol=1e-12)


@every_kind
def test_different_samples_are_told_apart_and_equal_ones_are_not(rng, kind):
    A, B, kernel = samples(kind, rng)
    options = {"kernel": kernel, "rng": 0, "n_permutations": 199}
    assert mmd_test(A, B, **options).pvalue < 0.05
    assert k_sample_test(A, B, **options).pvalue < 0.05
    A, B, kernel = samples(kind, rng, alike=True)
    assert mmd_test(A, B, **options).pvalue > 0.01
    assert k_sample_test(A, B, samples(kind, rng, alike=True)[0], **options).pvalue > 0.01


@every_kind
def test_dependence_is_that_of_the_gram_matrices(rng, kind):
    X, _, kernel = samples(kind, rng)
    K = kernel(X)
    y = K[:, 0] + 0.01 * rng.standard_normal(N)
    L = RBF("median")(y[:, None])
    H = np.eye(N) - 1 / N
    expected = np.trace(K @ H @ L @ H) / N**2
    assert hsic(X, y, kernel, estimator="biased") == pytest.approx(expected, rel=1e-9)
    result = hsic_test(X, y, kernel, rng=0, n_permutations=199)
    assert result.pvalue < 0.05
    same = hsic_test(K, y, "precomputed", rng=0, n_permutations=199)
    assert result.pvalue == same.pvalue


def test_two_kinds_of_data_at_once(rng):
    words, made = strings(rng, "abcd"), graphs(rng, [0, 1, 2])
    k, g = Spectrum(1).normalized(), VertexHistogram().normalized()
    assert 0 < hsic_test(words, made, k, g, rng=0, n_permutations=99).pvalue <= 1
    marked = [mercer.Graph(n_nodes=len(w), edges=[], labels=list(w)) for w in words]
    assert hsic_test(words, marked, k, g, rng=0, n_permutations=199).pvalue < 0.05
    assert 0 < hsic_agg_test(words, marked, [k], [g], rng=0, n_permutations=99).pvalue < 0.05
    assert 0 < hsic_split_test(words, marked, [k], [g], rng=0).pvalue <= 1
    assert 0 < kci_test(words, rng.normal(size=N), rng.normal(size=N), k, rng=0).pvalue <= 1


@pytest.mark.parametrize("kind", ["strings", "graphs"])
def test_several_kernels(rng, kind):
    A, B, kernel = samples(kind, rng)
    assert mmd_agg_test(A, B, [kernel, kernel**2], rng=0, n_permutations=99).pvalue < 0.1
    assert 0 < mmd_split_test(A, B, [kernel, kernel**2], rng=0).pvalue <= 1
    assert mmd_test(A, B, kernel, rng=0, n_permutations=99, rank=N).pvalue < 0.1


def test_weights_are_counts_of_strings(rng):
    A, B, kernel = samples("strings", rng)
    weights = rng.integers(1, 3, N)
    repeated = [w for w, count in zip(A, weights, strict=True) for _ in range(count)]
    got = mmd(A, B, kernel, sample_weight=(weights, None))
    assert got == pytest.approx(mmd(repeated, B, kernel), rel=1e-10)


def test_what_is_refused(rng):
    A, B, kernel = samples("strings", rng)
    for wrong, message in (
        ([*B[:3], None], r"Y\[3\] is missing"),
        ([*B[:3], 7], r"Y\[3\] is 7"),
        ([], "empty"),
        ([b"ab", b"c"], "bytes"),
    ):
        with pytest.raises(InvalidInput, match=rf"mmd_test: .*{message}"):
            mmd_test(A, wrong, kernel)
    with pytest.raises(InvalidInput, match="give a kernel"):
        mmd_test(A, B)
    with pytest.raises(InvalidInput, match="give a kernel"):
        mmd_agg_test(A, B)
    with pytest.raises(InvalidInput, match=r"rows and Y"):
        hsic_test(A, B[:-1], kernel, kernel)
    indefinite = [k for k in (LongestCommonSubstring(), LocalAlignment()) if not k.psd]
    for k in indefinite:
        with pytest.raises(NotAKernel, match="mmd_test"):
            mmd_test(A, B, k)
        repaired = mmd_test(A, B, k.repaired("clip"), rng=0, n_permutations=49)
        assert 0 < repaired.pvalue <= 1
