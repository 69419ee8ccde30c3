"""Sums of radial profiles with torch: those of the compiled loops, whatever the tiles."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

import mercer
from mercer.errors import MemoryBudgetExceeded
from mercer.models.density.bandwidth import SMOOTHINGS, smoothing
from mercer.operators import log_sums, nearest_squares

pytest.importorskip("torch")
from mercer.operators import device as sums

POINTS = {d: np.random.default_rng(d).standard_normal((50, d)) for d in (1, 3, 6)}


def on_torch(**options):
    return mercer.config(engine="torch", device="cpu", **options)


@pytest.fixture(params=[(13, 200), (2**14, 2**24)], ids=["small tiles", "one tile"])
def tiles(request, monkeypatch):
    monkeypatch.setattr(sums, "WIDTH", request.param[0])
    monkeypatch.setattr(sums, "ENTRIES", request.param[1])


def near(got, expected, tol=1e-12):
    seen = np.isfinite(expected)
    assert np.array_equal(got[~seen], expected[~seen])
    assert np.abs(got[seen] - expected[seen]).max(initial=0.0) <= tol * max(
        1.0, np.abs(expected[seen]).max(initial=0.0)
    )


@pytest.mark.parametrize("name", SMOOTHINGS)
@pytest.mark.parametrize("d", POINTS)
def test_like_the_compiled_loops(name, d, tiles, rng):
    X, code = POINTS[d], smoothing(name).code
    Q = np.concatenate([2 * rng.standard_normal((20, d)), X[:3], np.full((1, d), 60.0)])
    for w in (None, rng.uniform(0.1, 3.0, len(X))):
        for queries in (Q, None):
            for radius in (0.3, 2.5):
                given = (queries, X, w, code)
                want = log_sums(*given, radius=radius, slopes=True)
                with on_torch():
                    got = log_sums(*given, radius=radius, slopes=True)
                    near(log_sums(*given, radius=radius), want[0])
                near(got[0], want[0])
                near(got[1], want[1])


def test_brute_force_and_a_frame(tiles, rng):
    X, Q = POINTS[3], rng.standard_normal((9, 3))
    s = ((2 * Q[:, None] - X[None]) ** 2).sum(axis=2)
    with on_torch():
        near(log_sums(Q, X, None, 0, frame=lambda Z: 2 * Z), logsumexp(-0.5 * s, axis=1))
        near(log_sums(Q, X, None, 6, frame=lambda Z: 2 * Z), logsumexp(-np.sqrt(s), axis=1))


@pytest.mark.parametrize("name", ["gaussian", "exponential"])
def test_far_points_lose_no_terms(name, tiles):
    X, code = POINTS[1], smoothing(name).code
    for place in (1e4, 1e8, 1e200):
        Q = np.array([[place], [-place]])
        want = log_sums(Q, X, None, code, slopes=True)
        with on_torch():
            got = log_sums(Q, X, None, code, slopes=True)
        for g, e in zip(got, want, strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-12)


def test_large_coordinates_take_differences(tiles):
    X = np.array([[1e8], [1e8 + 1.0], [1e8 + 3.0]])
    want = log_sums(X, X, None, 0)
    with on_torch():
        near(log_sums(X, X, None, 0), want)
    near(want, log_sums(X - 1e8, X - 1e8, None, 0), 1e-7)


def test_rims_one_point_copies_and_lattices(tiles):
    grid = np.arange(6.0)[:, None]
    for code in (1, 2, 3, 4, 5):
        want = log_sums(grid, grid, None, code, radius=2.0)
        with on_torch():
            near(log_sums(grid, grid, None, code, radius=2.0), want)
    one = np.zeros((1, 2))
    with on_torch():
        assert log_sums(None, one, None, 0)[0] == -np.inf
        got = log_sums(None, one, None, 3, slopes=True)
        assert got[0][0] == -np.inf and got[1][0] == 0.0
        assert nearest_squares(one)[0] == np.inf
        assert log_sums(None, np.zeros((3, 2)), None, 0) == pytest.approx(np.log(2.0))
        assert len(log_sums(np.zeros((0, 2)), one, None, 0)) == 0


def test_nearest(tiles):
    for X in POINTS.values():
        want = nearest_squares(X)
        with on_torch():
            np.testing.assert_allclose(nearest_squares(X), want, rtol=1e-14)


def test_budget():
    X = POINTS[6]
    want = log_sums(X, X, None, 0)
    with on_torch(memory=60_000):
        near(log_sums(X, X, None, 0), want)
    with on_torch(memory=2_000), pytest.raises(MemoryBudgetExceeded, match="50 points"):
        log_sums(X, X, None, 0)
