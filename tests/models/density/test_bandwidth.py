"""Bandwidths: rules, whitening, determinants, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import gaussian_kde

from mercer.errors import InvalidInput, speaking_for
from mercer.models.density.bandwidth import (
    SMOOTHINGS,
    Bandwidth,
    as_bandwidth,
    centre_of,
    column_scales,
    row_number,
    smoothing,
)

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3)) * [1.0, 10.0, 0.01]


def test_rules_of_one_column_are_those_of_scipy():
    x = X[:, 0]
    for rule in ("scott", "silverman"):
        kde = gaussian_kde(x, bw_method=rule)
        value = as_bandwidth(rule, x[:, None]).value
        assert isinstance(value, float)
        assert value == pytest.approx(np.sqrt(kde.covariance[0, 0]), rel=1e-12)


def test_rules_of_columns():
    std = X.std(axis=0, ddof=1)
    np.testing.assert_allclose(as_bandwidth("scott", X).value, std * 40 ** (-1 / 7), rtol=1e-12)
    np.testing.assert_allclose(
        as_bandwidth("silverman", X).value, std * (40 * 5 / 4) ** (-1 / 7), rtol=1e-12
    )


@pytest.mark.parametrize("rule", ["scott", "silverman"])
def test_weights_are_repetitions(rule):
    w = RNG.integers(0, 4, 40)
    w[:2] = 1
    a = as_bandwidth(rule, X, w.astype(float)).value
    b = as_bandwidth(rule, np.repeat(X, w, axis=0)).value
    np.testing.assert_allclose(a, b, rtol=1e-12)


def test_numbers_of_rows():
    whole = np.array([1.0, 3.0, 2.0, 7.0])
    assert row_number(whole) == pytest.approx(13, rel=1e-14)
    assert row_number(np.full(40, 1 / 40)) == pytest.approx(40, rel=1e-12)
    shares = np.array([0.1, 0.2, 0.4])
    kish = shares.sum() ** 2 / (shares @ shares)
    for scale in (1e-300, 1e-5, 1.0, 2.5):
        assert row_number(scale * shares) == pytest.approx(kish, rel=1e-12)
    assert row_number(np.array([0.4])) == 1
    assert row_number(np.array([5.0])) == 5
    assert row_number(np.array([1e308, 1e308])) == 1e300
    # Continuous: weights just below and above 1 count alike.
    assert row_number(np.full(9, 1 - 1e-9)) == pytest.approx(row_number(np.full(9, 1 + 1e-9)))


@pytest.mark.parametrize("rule", ["scott", "silverman"])
@pytest.mark.parametrize("scale", [1e-290, 1 / 40, 0.4])
def test_shares_are_as_good_as_equal_weights(rule, scale):
    a = as_bandwidth(rule, X, np.full(40, scale)).value
    np.testing.assert_allclose(a, as_bandwidth(rule, X).value, rtol=1e-12)
    one = np.r_[1.0, np.full(39, 1e-30)]  # one row has all of the weight
    assert np.isfinite(as_bandwidth(rule, X, one).value).all()


@pytest.mark.parametrize("name", SMOOTHINGS)
@pytest.mark.parametrize("rule", ["scott", "silverman"])
def test_rules_smooth_as_widely_with_every_kernel(name, rule):
    # The variance of a draw of κ, times h², is the squared bandwidth of the gaussian.
    draws = smoothing(name).sample(np.random.default_rng(3), 200_000, 3)
    h = as_bandwidth(rule, X, kernel=smoothing(name)).value
    gauss = as_bandwidth(rule, X).value
    np.testing.assert_allclose((draws * h).std(axis=0), gauss, rtol=0.01)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
def test_rules_at_huge_and_tiny_scales(scale):
    a, b = as_bandwidth("scott", X[:, :1] * scale).value, as_bandwidth("scott", X[:, :1]).value
    assert a / scale == pytest.approx(b, rel=1e-12)


def test_rules_far_from_zero():
    a = as_bandwidth("scott", X + 1e6).value
    np.testing.assert_allclose(a, as_bandwidth("scott", X).value, rtol=1e-7)


@pytest.mark.parametrize("form", ["number", "columns", "matrix"])
def test_whitening(form):
    A = RNG.standard_normal((3, 3))
    H = {"number": 0.7, "columns": np.array([0.5, 2.0, 3.0]), "matrix": A @ A.T + np.eye(3)}[form]
    full = H if np.ndim(H) == 2 else np.diag(np.broadcast_to(H, 3))
    B = as_bandwidth(H, X)
    expected = np.linalg.norm((X[:5] - X[5:10]) @ np.linalg.inv(full), axis=1)
    got = np.linalg.norm(B.whiten(X[:5], X[0]) - B.whiten(X[5:10], X[0]), axis=1)
    np.testing.assert_allclose(got, expected, rtol=1e-11)
    assert B.log_det == pytest.approx(np.linalg.slogdet(full)[1], abs=1e-12)
    np.testing.assert_allclose(B.spread(X), X @ full, rtol=1e-12)
    np.testing.assert_allclose(B.scaled(2.0).whiten(X), B.whiten(X) / 2, rtol=1e-12)


def test_whitening_does_not_overflow():
    far = np.array([[1e308, -1e308, 1e308]])
    for H in (1e-5, [1e-5, 1.0, 1e5], np.diag([1e-5, 1.0, 2.0])):
        Z = as_bandwidth(H, X).whiten(far, -far[0])
        assert np.isfinite(Z).all()


@pytest.mark.parametrize("h", [3.0, 7.0, 0.1, 1e-305, 1e300, 2.0**-1070])
def test_frames_of_numbers_round_nothing(h):
    whole = np.arange(1.0, 6.0)[:, None]
    frame = as_bandwidth(h, whole).frame(smoothing("tophat"), whole)
    Z = frame(whole)
    assert len(np.unique(Z)) == 5 or h < 1e-308  # huge coordinates are cut there
    if 1e-300 < h < 1e200:
        np.testing.assert_array_equal(Z / Z[0], whole)
        assert frame.radius / Z[0, 0] == h
    again = as_bandwidth([h], whole).frame(smoothing("tophat"), whole)
    assert again.radius == frame.radius
    assert as_bandwidth(h, whole).frame(smoothing("gaussian"), whole).radius == 1.0


def test_centres_have_few_digits():
    whole = RNG.integers(1000, 1100, (50, 2)).astype(float)
    centre = centre_of(whole)
    assert (centre == np.rint(centre)).all()
    assert (np.abs(centre - 1050) <= 64).all()
    shifted = whole + 2.0**40
    np.testing.assert_array_equal(shifted - centre_of(shifted), np.rint(shifted - 2.0**40 - 1024))
    assert np.isfinite(centre_of(np.array([[1e308], [-1e308]]))).all()
    assert centre_of(np.full((3, 1), 5.0)).shape == (1,)


@pytest.mark.parametrize(
    ("bandwidth", "match"),
    [
        (0.0, "> 0"),
        (-1.0, "> 0"),
        ([1.0, 0.0, 1.0], "> 0"),
        (np.nan, "not finite"),
        (np.inf, "not finite"),
        ([1.0, 2.0], "shape"),
        (np.ones((3, 2)), "shape"),
        (np.ones((1, 3)), "shape"),
        (np.zeros((3, 3)), "positive definite"),
        (np.ones((3, 3)), "positive definite"),
        (-np.eye(3), "positive definite"),
        (np.triu(np.ones((3, 3))), "symmetric"),
        ("median", "median"),
        (None, "None"),
        (True, "True"),
        ({}, "dict"),
        ([[1.0], [2.0, 3.0]], "give a number"),
    ],
)
def test_refused(bandwidth, match):
    with pytest.raises(InvalidInput, match=match) as caught, speaking_for("Mine"):
        as_bandwidth(bandwidth, X)
    assert str(caught.value).startswith("Mine: ")


def test_rules_refuse_what_has_no_spread():
    with pytest.raises(InvalidInput, match="column 1 is constant"):
        as_bandwidth("scott", np.c_[X[:, 0], np.full(40, 0.1)])
    with pytest.raises(InvalidInput, match="there is one"):
        as_bandwidth("scott", X[:1])
    with pytest.raises(InvalidInput, match="there is one"):
        as_bandwidth("scott", X[:2], np.array([5.0, 0.0]))
    scales, total = column_scales(X, None, "scott")
    assert total == 40
    np.testing.assert_allclose(scales, X.std(axis=0, ddof=1), rtol=1e-12)


def test_one_column_takes_a_list():
    assert Bandwidth(np.array([2.0]), 1).log_det == pytest.approx(np.log(2))
    assert as_bandwidth([2.0], X[:, :1]).log_det == pytest.approx(np.log(2))
    assert as_bandwidth([[2.0]], X[:, :1]).log_det == pytest.approx(np.log(2))
