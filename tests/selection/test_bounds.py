"""risk_bound and regression_bound: known values, monotonicity, coverage, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.errors import InvalidInput
from mercer.selection import regression_bound, risk_bound

NAN = float("nan")


def test_finite_class_is_the_formula():
    for n, size, confidence in ((10, 1, 0.9), (1000, 100, 0.95), (7, 2.0**500, 0.5)):
        penalty = np.sqrt((np.log(size) + np.log(2 / (1 - confidence))) / (2 * n))
        found = risk_bound(0.25, n, n_functions=size, confidence=confidence)
        assert found == pytest.approx(0.25 + penalty, rel=1e-12)


def test_a_class_may_be_huge():
    expected = np.sqrt((5000 * np.log(2) + np.log(40)) / 20000)
    assert risk_bound(0.0, 10000, n_functions=2**5000) == pytest.approx(expected)
    assert risk_bound(0.0, 10, n_functions=np.inf) == np.inf


def test_vc_is_the_formula():
    for n, d, confidence in ((1000, 3, 0.9), (10**6, 50, 0.99)):
        log_s = d * np.log(np.e * n / d)
        penalty = np.sqrt(32 * (log_s + np.log(8 / (1 - confidence))) / n)
        found = risk_bound(0.1, n, vc_dimension=d, confidence=confidence)
        assert found == pytest.approx(0.1 + penalty, rel=1e-12)
        # what the inequality says of this penalty: it fails with probability δ
        assert 8 * np.exp(log_s - n * penalty**2 / 32) == pytest.approx(1 - confidence)
        assert n * penalty**2 >= 2  # where the inequality is proved


def test_labellings_are_never_more_than_all():
    everything = np.sqrt(32 * (10 * np.log(2) + np.log(160)) / 10)
    for d in (9, 10, 11, 1e6, np.inf):
        assert risk_bound(0.0, 10, vc_dimension=d) == pytest.approx(everything)
    assert risk_bound(0.0, 10, vc_dimension=0) == pytest.approx(np.sqrt(3.2 * np.log(160)))


@pytest.mark.parametrize("name", ["n_functions", "vc_dimension"])
def test_monotone(name):
    sizes = [1, 2, 3, 5, 9, 10, 11, 100, 10**4, 10**9]
    for n in (1, 10, 1000):
        values = [risk_bound(0.1, n, **{name: s}) for s in sizes]
        assert (np.diff(values) >= 0).all()
    rows = [risk_bound(0.1, n, **{name: 5}) for n in (1, 2, 10, 100, 10**5, 10**9)]
    assert (np.diff(rows) < 0).all()
    sure = [risk_bound(0.1, 100, confidence=c, **{name: 5}) for c in (0.01, 0.5, 0.99, 1 - 1e-12)]
    assert (np.diff(sure) > 0).all()
    assert risk_bound(0.3, 50, **{name: 5}) - risk_bound(0.1, 50, **{name: 5}) == pytest.approx(0.2)
    assert risk_bound(1.0, 1, **{name: 5}) > 1  # not clipped
    assert risk_bound(0.0, 10**15, **{name: 5}) < 1e-5


def test_finite_class_covers():
    """Of 20 thresholds the one of least training error: its true error is below the bound."""
    rng, inside = np.random.default_rng(0), 0
    thresholds = np.linspace(0, 1, 20)
    for _ in range(300):
        x = rng.uniform(size=60)
        y = np.where(rng.uniform(size=60) < 0.2, x < 0.4, x >= 0.4)
        errors = [(y != (x >= t)).mean() for t in thresholds]
        t = thresholds[np.argmin(errors)]
        true = 0.2 + 0.6 * abs(t - 0.4)
        inside += true <= risk_bound(min(errors), 60, n_functions=20, confidence=0.8)
    assert inside >= 0.8 * 300
    tight = [risk_bound(0.2, n, n_functions=20, confidence=0.8) for n in (60, 6000)]
    assert tight[0] < 0.45 and tight[1] < 0.23  # and not by being absurd


def test_regression_is_the_formula():
    n, d = 50, 4
    p = d / n
    factor = 1 - np.sqrt(p - p * np.log(p) + np.log(n) / (2 * n))
    assert regression_bound(2.0, n, d) == pytest.approx(2 / factor)
    epsilon = (d * (np.log(n / d) + 1) + np.log(4 / 0.1)) / n
    with_delta = regression_bound(2.0, n, d, confidence=0.9)
    assert with_delta == pytest.approx(2 / (1 - np.sqrt(epsilon)))
    assert regression_bound(2.0, n, d, confidence=1 - 4 / np.sqrt(50)) == pytest.approx(2 / factor)


def test_regression_is_monotone_and_may_be_infinite():
    values = [regression_bound(1.0, 30, d) for d in range(40)]
    finite = np.isfinite(values)
    assert finite[0] and not finite[-1] and (np.diff(finite.astype(int)) <= 0).all()
    assert (np.diff(np.array(values)[finite]) > 0).all() and values[0] > 1
    assert regression_bound(0.0, 30, 2) == 0.0
    assert regression_bound(1.0, 10**9, 2) == pytest.approx(1, rel=1e-3)
    assert regression_bound(1.0, 1, 1) == np.inf


@pytest.mark.parametrize(
    ("arguments", "options", "word"),
    [
        ((0.1, 10), {}, "neither"),
        ((0.1, 10), {"n_functions": 2, "vc_dimension": 2}, "both"),
        ((-0.1, 10), {"n_functions": 2}, "empirical_risk"),
        ((1.1, 10), {"n_functions": 2}, "empirical_risk=1.1; give a number from 0 to 1"),
        ((True, 10), {"n_functions": 2}, "empirical_risk"),
        ((NAN, 10), {"n_functions": 2}, "empirical_risk"),
        (("a", 10), {"n_functions": 2}, "empirical_risk"),
        ((0.1, 0), {"n_functions": 2}, "n_samples"),
        ((0.1, NAN), {"n_functions": 2}, "n_samples"),
        ((0.1, 10), {"n_functions": 0}, "n_functions"),
        ((0.1, 10), {"n_functions": NAN}, "n_functions"),
        ((0.1, 10), {"n_functions": "many"}, "n_functions"),
        ((0.1, 10), {"vc_dimension": -1}, "vc_dimension"),
        ((0.1, 10), {"vc_dimension": True}, "vc_dimension"),
        ((0.1, 10), {"n_functions": 2, "confidence": 0}, "confidence"),
        ((0.1, 10), {"n_functions": 2, "confidence": 1}, "confidence"),
        ((0.1, 10), {"n_functions": 2, "confidence": 95}, "confidence"),
    ],
)
def test_refusals(arguments, options, word):
    with pytest.raises(InvalidInput, match=word):
        risk_bound(*arguments, **options)


@pytest.mark.parametrize("arguments", [(-1, 10, 1), (NAN, 10, 1), (1, 0, 1), (1, 10, -1)])
def test_refusals_of_regression(arguments):
    with pytest.raises(InvalidInput, match="regression_bound"):
        regression_bound(*arguments)
