"""Generators: shapes, reproducibility, the curve they promise, bad sizes."""

import numpy as np
import pytest

from mercer.datasets import make_rings, make_sine
from mercer.errors import InvalidInput


def test_sine_lies_on_the_curve_without_noise():
    X, y = make_sine(40, noise=0.0, random_state=1)
    assert (np.diff(X[:, 0]) >= 0).all()
    np.testing.assert_allclose(y, np.sin(2 * np.pi * X[:, 0]), atol=1e-15)


def test_rings_have_their_radius_without_noise():
    X, y = make_rings(31, rings=3, noise=0.0, random_state=1)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1 + y)
    assert np.ptp(np.bincount(y)) <= 1


@pytest.mark.parametrize("make", [make_sine, make_rings])
def test_same_seed_same_data(make):
    for a, b in zip(make(20, random_state=3), make(20, random_state=3), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(make(20, random_state=3)[0], make(20, random_state=4)[0])


@pytest.mark.parametrize("make", [make_sine, make_rings])
@pytest.mark.parametrize(
    "bad",
    [{"n": 0}, {"n": 2.5}, {"n": True}, {"noise": -1}, {"noise": np.nan}, {"noise": "much"}],
)
def test_bad_arguments(make, bad):
    with pytest.raises(InvalidInput, match=next(iter(bad))):
        make(**bad)


@pytest.mark.parametrize("bad", [0, -1, 1.5])
def test_bad_rings(bad):
    with pytest.raises(InvalidInput, match="rings"):
        make_rings(rings=bad)
