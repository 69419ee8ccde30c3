"""Sums of radial profiles over points: double loops, points left out, far points, derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

import mercer
from mercer.errors import MemoryBudgetExceeded
from mercer.models.density.bandwidth import SMOOTHINGS, smoothing
from mercer.operators import log_sums, nearest_squares, profiles, rim

KERNELS = [smoothing(name) for name in SMOOTHINGS]
RNG = np.random.default_rng(0)


def squares(Q, X):
    return ((Q[:, None] - X[None]) ** 2).sum(axis=2)


def check(got, expected, tol=1e-12):
    seen = np.isfinite(expected)
    assert np.array_equal(np.isfinite(got), seen)
    np.testing.assert_allclose(got[seen], expected[seen], rtol=tol, atol=tol)


@pytest.mark.parametrize("kernel", KERNELS, ids=SMOOTHINGS)
@pytest.mark.parametrize("d", [1, 3, 4, 5, 9])
def test_double_loop(kernel, d):
    X, Q = RNG.standard_normal((70, d)), RNG.standard_normal((41, d))
    w = RNG.uniform(0.1, 3, 70)
    check(log_sums(Q, X, w, kernel.code), logsumexp(kernel.log_profile(squares(Q, X)), 1, b=w))
    s = squares(X, X)
    np.fill_diagonal(s, np.inf)
    check(log_sums(None, X, w, kernel.code), logsumexp(kernel.log_profile(s), 1, b=w[None]))
    np.testing.assert_allclose(nearest_squares(X), s.min(axis=1), rtol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=SMOOTHINGS)
def test_panels_and_blocks(kernel, monkeypatch):
    # Small ones, so that rows to leave out lie in every place of a panel and of a block.
    X = RNG.standard_normal((67, 2))
    whole = log_sums(None, X, None, kernel.code, slopes=True)
    near = nearest_squares(X)
    monkeypatch.setattr(profiles, "PANEL", 10)
    monkeypatch.setattr(profiles, "BLOCK", 7)
    for got, expected in zip(log_sums(None, X, None, kernel.code, slopes=True), whole, strict=True):
        check(got, expected)
    np.testing.assert_array_equal(nearest_squares(X), near)


@pytest.mark.parametrize("kernel", KERNELS, ids=SMOOTHINGS)
def test_slopes(kernel):
    X, w = RNG.standard_normal((30, 2)), RNG.uniform(0.5, 2, 30)
    h, e = 1.7, 1e-6
    _, slope = log_sums(None, X / h, w, kernel.code, slopes=True)
    up, down = (log_sums(None, X / (h * np.exp(t)), w, kernel.code) for t in (e, -e))
    seen = np.isfinite(up)
    np.testing.assert_allclose(slope[seen], (up[seen] - down[seen]) / (2 * e), atol=1e-4)
    assert not slope[~seen].any()
    assert seen.sum() > 20


def test_far_points_among_near_ones():
    X = RNG.standard_normal((50, 2))
    Q = np.r_[X[:5], [[60.0, 0.0], [1e5, 1e5], [1e160, 0.0]], X[5:9]]
    for kernel in KERNELS:
        if kernel.compact:
            continue
        got = log_sums(Q, X, None, kernel.code)
        assert np.isfinite(got).all()
        ordinary = np.r_[:7, 8:12]
        expected = logsumexp(kernel.log_profile(squares(Q[ordinary], X)), axis=1)
        np.testing.assert_allclose(got[ordinary], expected, rtol=1e-13, atol=1e-12)


def test_nobody_is_left():
    one = np.zeros((1, 3))
    assert nearest_squares(one)[0] == np.inf
    for kernel in KERNELS:
        logs, slope = log_sums(None, one, None, kernel.code, slopes=True)
        assert logs[0] == -np.inf
        assert slope[0] == 0
        assert log_sums(one, one, None, kernel.code)[0] == 0


def test_a_heavy_point_far_beyond_a_light_one():
    X, w = np.array([[0.0], [40.0]]), np.array([1e-290, 1.0])
    got = log_sums(np.array([[0.0], [1.0]]), X, w, 0)
    expected = [np.log(1e-290), np.log(1e-290) - 0.5]
    reference = logsumexp(-0.5 * squares(np.array([[0.0], [1.0]]), X), axis=1, b=w)
    np.testing.assert_allclose(got, reference, rtol=1e-12)
    assert (got >= np.array(expected) - 1e-9).all()


def test_points_that_do_not_count_are_not_counted():
    # A heavy point so far away that its share is below all floats, and a light one here.
    for code, far in ((0, 1e4), (6, 1e6)):
        got = log_sums(np.zeros((1, 1)), np.array([[0.0], [far]]), np.array([1e-305, 1.0]), code)
        assert got[0] == pytest.approx(np.log(1e-305), rel=1e-12)


def test_the_rim_is_where_rounded_roots_reach_the_radius():
    for h in np.r_[RNG.uniform(0.5, 2, 300), 1.0, 3.0, 2**0.5, 3**0.5, 1e-9, 1e-170, 1e170]:
        edge = rim(float(h))
        assert np.sqrt(edge) >= h
        assert np.sqrt(np.nextafter(edge, 0.0)) < h


@pytest.mark.parametrize("kernel", KERNELS, ids=SMOOTHINGS)
def test_radius_and_frame(kernel):
    rng = np.random.default_rng(0)
    X, Q = rng.standard_normal((50, 3)), rng.standard_normal((300, 3))
    for h in (0.4, 1.3):
        expected = log_sums(Q / h, X / h, None, kernel.code)
        check(log_sums(Q, X, None, kernel.code, radius=h), expected)
        moved = log_sums(Q + 4.0, X / h, None, kernel.code, frame=lambda Z, h=h: (Z - 4.0) / h)
        check(moved, expected, 1e-9)


def test_long_sums_keep_their_digits():
    X = np.zeros((300_001, 1))
    assert log_sums(X[:1], X, None, 0)[0] == pytest.approx(np.log(300_001), rel=1e-15)


def test_budget():
    X = RNG.standard_normal((4000, 2))
    with mercer.config(memory=60_000), pytest.raises(MemoryBudgetExceeded, match="4000 points"):
        log_sums(X, X, None, 0)
