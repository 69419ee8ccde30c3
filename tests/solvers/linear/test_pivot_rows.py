"""Pivoted Cholesky with its rows on a device: the factor that main memory has."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import RBF, White
from mercer.operators import Gram
from mercer.solvers import rpcholesky
from mercer.solvers.linear.pivoted import DeviceRows, HostRows, pivot_rows

torch = pytest.importorskip("torch")

X = np.random.default_rng(0).standard_normal((90, 3))


def on_torch(**options):
    return mercer.config(engine="torch", device="cpu", **options)


@pytest.mark.parametrize("kernel", [RBF(1.5), RBF() + White(0.1)], ids=repr)
@pytest.mark.parametrize("block", [None, 1])
def test_same_factor(kernel, block):
    want = rpcholesky(Gram(kernel, X, keep=False), 25, 0, block=block)
    with on_torch():
        got = rpcholesky(Gram(kernel, X, keep=False), 25, 0, block=block)
    given = rpcholesky(Gram(kernel, torch.tensor(X), keep=False), 25, 0, block=block)
    for other in (got, given):
        assert isinstance(other.F, np.ndarray)
        np.testing.assert_array_equal(other.pivots, want.pivots)
        np.testing.assert_allclose(other.F, want.F, atol=1e-11)
        assert other.trace_error == pytest.approx(want.trace_error, abs=1e-11)


def test_a_precomputed_matrix_and_one_that_is_used_up():
    K = RBF(1.5)(X)
    want = rpcholesky(K, 20, 0)
    with on_torch():
        got = rpcholesky(Gram("precomputed", K), 20, 0)
        few = rpcholesky(Gram(RBF(), np.repeat(X[:4], 5, axis=0)), 20, 0)
    np.testing.assert_allclose(got.F, want.F, atol=1e-11)
    assert few.rank == 4 and few.trace_error < 1e-12


def test_place_follows_the_matrix_and_the_room_there():
    diagonal = np.ones(90)
    assert isinstance(pivot_rows(Gram(RBF(), X), 5, diagonal), HostRows)
    with on_torch():
        assert isinstance(pivot_rows(Gram(RBF(), X), 5, diagonal), DeviceRows)
        assert Gram(RBF(), X).device == torch.device("cpu")
        assert Gram(mercer.Spectrum(2), ["ab", "b"]).device is None
    with on_torch(memory=90 * 5 * 8):
        assert isinstance(pivot_rows(Gram(RBF(), X), 5, diagonal), HostRows)
    assert Gram(RBF(), X).device is None
