"""Constant and white-noise kernels."""

import math

import numpy as np
import pytest

from mercer import RBF, Constant, White
from mercer.errors import InvalidInput


def test_constant():
    np.testing.assert_array_equal(Constant(2.5)(["a", "b"], ["c"]), [[2.5], [2.5]])
    np.testing.assert_array_equal(Constant(2.5).diag(["a", "b"]), 2.5)
    np.testing.assert_array_equal(Constant(4.0).features(["a", "b"]), [[2.0], [2.0]])
    assert Constant(4.0).n_features(["a"]) == 1


def test_white_is_v_on_the_diagonal_of_one_collection():
    X = np.zeros((3, 2))  # equal values are still three observations
    np.testing.assert_array_equal(White(0.5)(X), 0.5 * np.eye(3))
    np.testing.assert_array_equal(White(0.5)(X, X), 0.5 * np.eye(3))
    np.testing.assert_array_equal(White(0.5)(X, X.copy()), 0.0)
    np.testing.assert_array_equal(White(0.5).diag(X), 0.5)
    np.testing.assert_array_equal(White(0.5).matmul(X, None, np.arange(3.0)), 0.5 * np.arange(3.0))


@pytest.mark.parametrize(("cls", "name"), [(Constant, "value"), (White, "noise")])
@pytest.mark.parametrize(
    "bad", [-1.0, -1e-300, math.nan, math.inf, None, "1", [1.0], True], ids=repr
)
def test_parameters_are_not_negative(cls, name, bad):
    with pytest.raises(InvalidInput, match=f"{cls.__name__}: {name}"):
        cls(bad)


@pytest.mark.parametrize("cls", [Constant, White])
def test_zero_is_legal_and_not_tuned(cls):
    kernel = cls(0.0)
    assert len(kernel.theta) == 0
    np.testing.assert_array_equal(kernel(np.ones((2, 1))), 0.0)
    assert len((kernel + RBF()).theta) == 1


def test_dtype_follows_the_points():
    single = np.ones((2, 2), dtype=np.float32)
    for kernel in (Constant(), White()):
        assert kernel(single).dtype == np.float32
        assert kernel.diag(single).dtype == np.float32
        assert kernel(np.ones((2, 2), dtype=int)).dtype == np.float64
