"""Powers of two that bring numbers to a moderate size: exact, and only where it is needed."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer.domains import largest, moderate, shifted

X = np.random.default_rng(0).standard_normal((5, 3))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("scale", [5e-320, 1e-300, 1e-130, 1e130, 1e307])
@pytest.mark.parametrize("top", [0, 480])
def test_there_and_back(make, scale, top):
    Z = make(scale * X)
    (moved,), shift = moderate([Z], top)
    assert shift and 2.0 ** (top - 1) <= largest(moved) <= 2.0**top
    back = shifted(moved, shift)
    assert (abs(back - Z)).max() == 0 and type(back) is type(Z)


def test_moderate_numbers_and_zeros_are_left_alone():
    for Z in (X, 1e100 * X, 1e-100 * X, 0 * X, X[:0], sp.csr_array((3, 2))):
        same, shift = moderate([Z])
        assert same[0] is Z and shift == 0


def test_the_largest_of_several():
    assert largest(np.array([[1.0, -3.0]]), sp.csr_array([[0.0, 2.0]])) == 3.0
    assert largest(np.empty((0, 2))) == 0.0 and largest() == 0.0
