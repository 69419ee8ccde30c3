"""Powers of two and cosines by polynomials, against the library's to the last bits."""

from __future__ import annotations

import numpy as np

from mercer.jit.density import FLOOR, _cosine, _power


def test_powers_of_two():
    rng = np.random.default_rng(0)
    t = np.concatenate([rng.uniform(-999, 0, 3000), rng.uniform(-1, 1, 3000), -np.arange(40) / 2])
    got = np.array([_power(v) for v in t])
    assert np.abs(got / np.exp2(t) - 1).max() < 1e-15
    assert _power(0.0) == 1.0
    assert _power(-3.0) == 0.125
    assert _power(-np.inf) == _power(-1e300) == _power(FLOOR) == 0.0
    assert _power(FLOOR + 1) == 2.0 ** (FLOOR + 1)


def test_cosine():
    s = np.concatenate([np.linspace(0, 1, 2001), 1 - np.logspace(-15, -2, 50)])
    got = np.array([_cosine(v) for v in s])
    # cos(π√s/2) = sin(π(1 − s)/(2(1 + √s))), which keeps its digits near s = 1.
    expected = np.sin(0.5 * np.pi * (1 - s) / (1 + np.sqrt(s)))
    np.testing.assert_allclose(got, expected, rtol=2e-15, atol=0)
    assert _cosine(1.0) == 0.0
    assert _cosine(0.0) == 1.0
