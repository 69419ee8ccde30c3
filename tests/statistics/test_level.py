"""Level and power of the two-sample and k-sample tests, over many data sets.

A valid test at level u rejects at most a share u of null data sets. With 99 draws and no ties it
rejects exactly u at u = 0.05 and 0.01, so the count over 1000 data sets is binomial.
"""

import numpy as np
import pytest
from scipy.stats import binom, kstest

from mercer import RBF
from mercer.statistics import k_sample_test, mmd_test

SETS = 1000


def within_band(pvalues, sets=SETS):
    """Whether rejections at both levels are inside the 99 % band, and p-values are uniform."""
    p = np.asarray(pvalues)
    assert len(p) == sets and p.min() > 0
    for level in (0.05, 0.01):
        low, high = binom.interval(0.99, sets, level)
        rejected = int((p <= level + 1e-12).sum())
        assert low <= rejected <= high, f"{rejected} of {sets} at {level}"
    # (k + U)/(B + 1) with U uniform is uniform: p-values are spread over all of [0, 1].
    spread = p - np.random.default_rng(0).random(sets) / 100
    assert kstest(spread, "uniform").pvalue > 0.001


def pvalues(make, sets=SETS, **options):
    rng = np.random.default_rng(11)
    return [mmd_test(*make(rng), RBF(1.0), 99, rng, **options).pvalue for _ in range(sets)]


def normal(n, m):
    return lambda rng: (rng.standard_normal((n, 2)), rng.standard_normal((m, 2)))


@pytest.mark.parametrize("estimator", ["unbiased", "biased"])
def test_level_of_permutations(estimator):
    within_band(pvalues(normal(12, 8), estimator=estimator))


def test_level_of_the_wild_bootstrap_when_pairs_differ_in_law():
    """Pair i has a scale of its own: only x_i and y_i are exchangeable."""

    def make(rng):
        scale = np.linspace(0.2, 4.0, 12)[:, None]
        return scale * rng.standard_normal((12, 2)), scale * rng.standard_normal((12, 2))

    within_band(pvalues(make, null="wild"))


def test_level_of_a_low_rank():
    within_band(pvalues(normal(12, 12), sets=250, rank=5), sets=250)


def grouped(rng):
    """Groups of three sizes whose rows share most of their value, the larger ones mostly in Y."""
    sizes = np.array([2, 2, 2, 2, 3, 4, 4, 4, 4, 2, 2, 2, 3])
    centres = rng.standard_normal((13, 2))
    Z = np.repeat(centres, sizes, 0) + 0.2 * rng.standard_normal((sizes.sum(), 2))
    return Z, np.repeat(np.arange(13), sizes), int(sizes[:6].sum())


def test_level_of_blocks_and_that_they_are_needed():
    rng = np.random.default_rng(5)
    whole, loose = [], []
    for i in range(SETS):
        Z, labels, cut = grouped(rng)
        X, Y = Z[:cut], Z[cut:]
        whole.append(mmd_test(X, Y, RBF(1.0), 99, rng, blocks=labels).pvalue)
        if i < 100:
            loose.append(mmd_test(X, Y, RBF(1.0), 99, rng).pvalue)
    within_band(whole)
    assert (np.array(loose) <= 0.05).mean() > 0.25


@pytest.mark.parametrize(
    "blocks",
    [20, (np.arange(30), np.r_[np.arange(30), 30 + np.arange(300) // 20])],
    ids=["runs", "names"],
)
def test_level_of_blocks_whose_lengths_tell_the_samples(blocks):
    """Single rows in X, and in Y runs of twenty that X has none of: only like changes with like."""
    n, m = (25, 330) if isinstance(blocks, int) else (30, 330)
    rng = np.random.default_rng(3)
    found = []
    for _ in range(SETS):
        X, Y = rng.normal(size=(n, 1)), rng.normal(size=(m, 1))
        found.append(mmd_test(X, Y, RBF(1.0), 99, rng, blocks=blocks).pvalue)
    p = np.array(found)
    for level in (0.05, 0.01):
        assert (p <= level + 1e-12).sum() <= binom.interval(0.99, SETS, level)[1]


def test_level_of_weights_of_one_law():
    """Other weights than counts, in both samples."""

    def make(rng):
        return rng.lognormal(size=14), rng.lognormal(size=22)

    rng, found = np.random.default_rng(4), []
    for _ in range(SETS):
        X, Y = normal(14, 22)(rng)
        found.append(mmd_test(X, Y, RBF(1.0), 99, rng, sample_weight=make(rng)).pvalue)
    within_band(found)


def test_level_of_runs_of_a_time_series():
    """Runs of an autoregression, begun anew often enough to be independent."""

    def make(rng):
        Z = np.empty((16, 4))
        Z[:, 0] = rng.standard_normal(16)
        for t in range(1, 4):
            Z[:, t] = 0.9 * Z[:, t - 1] + np.sqrt(1 - 0.81) * rng.standard_normal(16)
        return Z[:8].reshape(-1, 1), Z[8:].reshape(-1, 1)

    within_band(pvalues(make, blocks=4))


def test_level_of_counts():
    """Tables of values with counts, as they come from repeated rows."""
    rng = np.random.default_rng(2)
    found = []
    for _ in range(SETS):
        tables = []
        for n in (14, 11):
            values, counts = np.unique(rng.normal(size=n).round(1), return_counts=True)
            tables.append((values[:, None], counts))
        (X, wx), (Y, wy) = tables
        found.append(mmd_test(X, Y, RBF(1.0), 99, rng, sample_weight=(wx, wy)).pvalue)
    within_band(found)


def test_level_within_strata_that_differ():
    """Strata of unequal shares in the samples: only permutations within them are valid."""

    def make(rng):
        strata = np.repeat([0, 1, 0, 1], [8, 3, 4, 9])
        Z = rng.standard_normal((24, 2)) + 3.0 * strata[:, None]
        return Z, strata

    rng = np.random.default_rng(8)
    found = []
    for _ in range(SETS):
        Z, strata = make(rng)
        found.append(mmd_test(Z[:11], Z[11:], RBF(1.0), 99, rng, strata=strata).pvalue)
    within_band(found)


def test_level_of_three_samples():
    rng = np.random.default_rng(5)
    found = []
    for _ in range(SETS):
        A, B, C = rng.standard_normal((7, 2)), rng.standard_normal((9, 2)), rng.normal(size=(6, 2))
        found.append(k_sample_test(A, B, C, kernel=RBF(1.0), n_permutations=99, rng=rng).pvalue)
    within_band(found)


@pytest.mark.parametrize("null", ["gamma", "normal"])
def test_approximate_nulls_are_near_their_level(null):
    rng = np.random.default_rng(6)
    p = np.array(
        [mmd_test(*normal(30, 25)(rng), RBF(1.0), rng=rng, null=null).pvalue for _ in range(500)]
    )
    for level, most in ((0.05, 0.085), (0.01, 0.03)):
        assert (p <= level).mean() < most
    assert (p <= 0.05).mean() > 0.02


# ----------------------------------------------------------------------------------- power
def shape(rng, n):
    """Mean 0 and variance 1, as the normal law, but two humps."""
    return 0.95 * rng.choice([-1.0, 1.0], (n, 1)) + np.sqrt(0.0975) * rng.standard_normal((n, 1))


ALTERNATIVES = {
    "mean shifted by 1": (lambda rng, n: rng.normal(1.0, 1.0, (n, 1)), None, 0.9),
    "standard deviation 2.5": (lambda rng, n: rng.normal(0.0, 2.5, (n, 1)), None, 0.9),
    # The median distance is too wide a scale for this one: the power is 0.1 there.
    "two humps of equal mean and variance": (shape, RBF(0.3), 0.7),
}


@pytest.mark.parametrize("null", ["permutation", "wild", "gamma"])
@pytest.mark.parametrize("name", ALTERNATIVES)
def test_power_at_five_percent_with_50_points_each(name, null):
    draw, kernel, least = ALTERNATIVES[name]
    rng = np.random.default_rng(1)
    p = [
        mmd_test(rng.standard_normal((50, 1)), draw(rng, 50), kernel, 99, rng, null=null).pvalue
        for _ in range(60)
    ]
    power = np.mean(np.array(p) <= 0.05)
    assert power >= least, f"power {power:.2f} against {name}"
