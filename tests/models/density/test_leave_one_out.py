"""Leave-one-out densities by refits, and the bandwidth of largest likelihood by brute force."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import KernelDensity
from mercer.errors import InvalidInput
from mercer.models.density.bandwidth import SMOOTHINGS
from mercer.models.density.leave_one_out import has_lone_rows
from mercer.testing.certificates.unsupervised import certify_bandwidth

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 2)) * [1.0, 3.0]


@pytest.mark.parametrize("name", SMOOTHINGS)
def test_loo_is_a_refit_without_the_row(name):
    model = KernelDensity([1.0, 2.5], name).fit(X)
    refits = [
        KernelDensity([1.0, 2.5], name).fit(np.delete(X, i, axis=0)).score_samples(X[i : i + 1])[0]
        for i in range(40)
    ]
    got = model.loo()
    seen = np.isfinite(refits)
    assert np.array_equal(np.isfinite(got), seen)
    np.testing.assert_allclose(got[seen], np.array(refits)[seen], rtol=1e-11, atol=1e-11)


def test_loo_of_weights():
    # A row is left out with all its weight: what stayed of it would answer for it.
    w = RNG.choice([0.0, 0.5, 1.0, 2.0, 3.5], 40)
    got = KernelDensity(0.7).fit(X, sample_weight=w).loo()
    for i in range(40):
        rest = w.copy()
        rest[i] = 0.0
        refit = KernelDensity(0.7).fit(X, sample_weight=rest)
        assert got[i] == pytest.approx(refit.score_samples(X[i : i + 1])[0], rel=1e-11)


def test_loo_of_far_points_does_not_cancel():
    # κ(0) is larger than all other terms together by more than floats can tell.
    points = np.array([[0.0], [1.0], [40.0]])
    got = KernelDensity(1.0).fit(points).loo()
    expected = -0.5 * 39.0**2 - 0.5 * np.log(2 * np.pi) - np.log(2)
    assert got[2] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", [n for n in SMOOTHINGS if n != "tophat"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_best_bandwidth(name, weighted):
    w = RNG.integers(1, 4, 40).astype(float) if weighted else np.ones(40)
    model = KernelDensity("loo", name).fit(X, sample_weight=w if weighted else None)

    def likelihood(factor):
        return w @ KernelDensity(factor * model.bandwidth_, name).fit(X, sample_weight=w).loo()

    best = likelihood(1.0)
    near = [likelihood(np.exp(t)) for t in (-0.02, 0.02)]
    assert best >= max(near)
    slope = (likelihood(np.exp(1e-5)) - likelihood(np.exp(-1e-5))) / 2e-5
    assert abs(slope) < 1e-4 * w.sum()
    assert model.solution_.converged
    assert model.solution_.residual < 1e-8
    assert model.solution_.extra["score"] == pytest.approx(best / w.sum(), rel=1e-10)
    scales = np.sqrt(np.cov(X.T, fweights=w.astype(int)).diagonal())
    ratio = model.bandwidth_ / scales
    assert ratio[0] == pytest.approx(ratio[1], rel=1e-9) == pytest.approx(model.solution_.value)


PAIRS = np.repeat(RNG.normal(size=20), 2)[:, None] + 1e-4 * RNG.normal(size=(40, 1))
ROUNDED = np.r_[np.round(np.random.default_rng(10).normal(size=100), 1), 0.123][:, None]


@pytest.mark.parametrize("name", [n for n in SMOOTHINGS if n != "tophat"])
@pytest.mark.parametrize(
    "points", [X, X[:, :1], PAIRS, ROUNDED], ids=["d2", "d1", "pairs", "round"]
)
def test_the_maximum_is_global(name, points):
    # Pairs of near points, and rows with copies, have a maximum of their own far below the usual.
    model = KernelDensity("loo", name).fit(points)
    base = KernelDensity("silverman", name).fit(points).bandwidth_
    factors = np.geomspace(1e-5, 20, 300)
    others = [KernelDensity(f * base, name).fit(points).loo().mean() for f in factors]
    kinks = name not in ("gaussian", "exponential")  # at every distance, so that some are missed
    assert model.loo().mean() >= max(others) - (1e-3 if kinks else 1e-9)
    assert model.solution_.extra["score"] == pytest.approx(model.loo().mean(), rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("d", [1, 2])
def test_tophat_is_best_of_all_distances(seed, d):
    g = np.random.default_rng(seed)
    x, w = g.normal(size=(60, d)), g.integers(1, 3, 60).astype(float)
    for weights in (None, w):
        model = KernelDensity("loo", "tophat").fit(x, sample_weight=weights)
        assert model.solution_.converged
        assert certify_bandwidth(model) <= model.solution_.residual + 1e-9 <= 2e-6


@pytest.mark.parametrize("name", [n for n in SMOOTHINGS if n != "tophat"])
@pytest.mark.parametrize(
    "points", [X, PAIRS, ROUNDED, 1e-9 * X + 5.0], ids=["d2", "pairs", "round", "far"]
)
def test_certificates(name, points):
    w = np.random.default_rng(3).integers(0, 3, len(points)).astype(float)
    w[-1] = 1.0  # without a copy among the rounded ones
    for weights in (None, w):
        model = KernelDensity("loo", name).fit(points, sample_weight=weights)
        assert model.solution_.converged
        assert certify_bandwidth(model) < 1e-5
        model.bandwidth_ = 1.01 * model.bandwidth_
        assert certify_bandwidth(model) > 1e-4


def test_loo_of_normal_data_is_near_the_optimum():
    x = np.random.default_rng(1).standard_normal((2000, 1))
    model = KernelDensity("loo").fit(x)
    assert 0.6 < model.bandwidth_ / KernelDensity("silverman").fit(x).bandwidth_ < 1.7


@pytest.mark.parametrize("name", ["gaussian", "epanechnikov"])
def test_copies(name):
    twice = np.repeat(X, 2, axis=0)
    with pytest.raises(InvalidInput, match="every row has a copy"):
        KernelDensity("loo", name).fit(twice)
    # One row without a copy is enough for a maximum.
    model = KernelDensity("loo", name).fit(twice[:-1])
    assert np.isfinite(model.loo()).all()
    assert (model.bandwidth_ > 0).all()


def test_rows_without_a_copy():
    assert has_lone_rows(X)
    assert not has_lone_rows(np.repeat(X, 2, axis=0))
    assert has_lone_rows(np.repeat(X, 2, axis=0)[1:])


def test_shares_and_huge_weights():
    plain = KernelDensity("loo").fit(X)
    for weight in (1 / 40, 1e-300, 1.01, 2.0, 1e308):
        model = KernelDensity("loo").fit(X, sample_weight=np.full(40, weight))
        np.testing.assert_allclose(model.bandwidth_, plain.bandwidth_, rtol=1e-9)
        np.testing.assert_allclose(model.loo(), plain.loo(), rtol=1e-9)
    huge = KernelDensity(0.7).fit(X, sample_weight=np.full(40, 1e308))
    np.testing.assert_allclose(huge.loo(), KernelDensity(0.7).fit(X).loo(), rtol=1e-9)
    expected = KernelDensity(0.7).fit(X).score_samples(X)
    np.testing.assert_allclose(huge.score_samples(X), expected, rtol=1e-12)
    # Of one row with nearly all of the weight the others are not what subtraction leaves.
    heavy = KernelDensity(0.7).fit(X, sample_weight=np.r_[1e20, np.ones(39)])
    alone = KernelDensity(0.7).fit(X[1:]).score_samples(X[:1])
    assert heavy.loo()[0] == pytest.approx(alone[0], rel=1e-12)
    assert np.isfinite(huge.sample(3, random_state=0)).all()


def test_one_row_and_two_rows():
    with pytest.raises(InvalidInput, match="there is one"):
        KernelDensity("loo").fit(X[:1])
    # Of two points at a distance r in one dimension log κ(r/h)/h is largest at h = r.
    model = KernelDensity("loo").fit([[0.0], [3.0]])
    assert model.bandwidth_ == pytest.approx(3.0, rel=1e-6)
