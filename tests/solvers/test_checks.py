"""The checks every solver makes, and the norms they are measured by."""

import numpy as np
import pytest

from mercer.checks import check_index, check_number
from mercer.errors import InvalidInput, speaking_for
from mercer.solvers.base import (
    check_finite_symmetric,
    check_rhs,
    check_ridge,
    check_square,
    column_norms,
)


def gram(n, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, n + 2))
    return X @ X.T


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", [(0, 0), (3, 1), (29, 29), (1, 29)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_one_bad_entry_anywhere_is_found_and_located(bad, where, order):
    K = np.array(gram(30), order=order)
    K[where] = bad
    with (
        pytest.raises(InvalidInput, match=rf"me: .*row {where[0]}, column {where[1]};"),
        speaking_for("me"),
    ):
        check_finite_symmetric(K)


def test_bad_entries_that_cancel_in_a_sum_are_found():
    K = gram(6)
    K[2, 3] = K[3, 2] = np.inf
    K[2, 4] = K[4, 2] = -np.inf
    with pytest.raises(InvalidInput, match="row 2, column 3"), speaking_for("me"):
        check_finite_symmetric(K)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n", [2, 5, 800])
def test_asymmetry_is_found_and_located(order, n):
    K = np.array(gram(n), order=order)
    K[0, n - 1] += 1e-3 * np.abs(K).max()
    with (
        pytest.raises(InvalidInput, match=rf"not symmetric: entry \(0, {n - 1}\)"),
        speaking_for("me"),
    ):
        check_finite_symmetric(K)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1.0, 1e150, 1e306])
def test_symmetric_matrices_pass_at_every_scale_with_rounding_and_without_warning(scale):
    K = gram(40) * scale
    K[3, 5] *= 1 + 1e-14
    with np.errstate(all="raise", under="ignore"):
        check_finite_symmetric(K)


def test_sums_that_overflow_do_not_hide_asymmetry_nor_raise_on_a_good_matrix():
    K = np.full((50, 50), 1.5e308)
    check_finite_symmetric(K)
    K[4, 7] = 1e307
    with pytest.raises(InvalidInput, match="not symmetric"), speaking_for("me"):
        check_finite_symmetric(K)


def test_single_precision_noise_passes_but_not_single_precision_asymmetry():
    K = gram(60).astype(np.float32)
    K[2, 9] *= np.float32(1 + 5e-7)
    check_finite_symmetric(K)
    K[2, 9] *= np.float32(1.5)
    with pytest.raises(InvalidInput), speaking_for("me"):
        check_finite_symmetric(K)


def test_strided_integer_and_empty_matrices_are_accepted():
    check_finite_symmetric(gram(20)[::2, ::2])
    check_finite_symmetric(np.eye(3, dtype=int))
    check_finite_symmetric(np.zeros((0, 0)))


@pytest.mark.parametrize("shape", [(2, 3), (3,), (2, 2, 2), ()])
def test_square(shape):
    with pytest.raises(InvalidInput, match="square"), speaking_for("me"):
        check_square(np.zeros(shape))


@pytest.mark.parametrize("dtype", [complex, object, "U3", "datetime64[s]"])
def test_square_needs_real_numbers(dtype):
    with pytest.raises(InvalidInput, match="real"), speaking_for("me"):
        check_square(np.zeros((2, 2), dtype=dtype))


@pytest.mark.parametrize(
    "b",
    [
        np.zeros(4),
        np.zeros((4, 1)),
        np.zeros((3, 2, 1)),
        1.0,
        ["a", "b", "c"],
        [1j, 0, 0],
        [[1, 2], [3], [4]],
        None,
    ],
)
def test_bad_right_hand_sides(b):
    with pytest.raises(InvalidInput, match="me: b"), speaking_for("me"):
        check_rhs(b, 3)


def test_right_hand_side_with_nan_names_the_row():
    with pytest.raises(InvalidInput, match="row 2"), speaking_for("me"):
        check_rhs(np.array([[0.0, 1], [1, 1], [1, np.nan]]), 3)


@pytest.mark.parametrize(
    "ridge", [-1.0, np.nan, np.inf, [1.0, -1e-9, 1.0], np.ones(4), np.ones((3, 1)), "a", None, 1j]
)
def test_bad_ridges(ridge):
    with pytest.raises(InvalidInput, match="ridge"), speaking_for("me"):
        check_ridge(ridge, 3)


def test_good_ridges():
    assert check_ridge(np.float32(2), 3) == 2.0
    assert check_ridge(0, 3) == 0.0
    assert check_ridge([1, 2, 3], 3).dtype == np.float64
    with pytest.raises(InvalidInput, match="positive"), speaking_for("me"):
        check_ridge([1.0, 0.0, 1.0], 3, positive=True)


@pytest.mark.parametrize("value", [0.0, -1, 1.0, np.nan, "1", None, True])
def test_numbers(value):
    with pytest.raises(InvalidInput, match="tol="), speaking_for("me"):
        check_number(value, "tol", 0.0, 1.0)
    check_number(0.5, "tol", 0.0, 1.0)
    check_number(0.0, "tol", 0.0, closed=True)


@pytest.mark.parametrize("value", [0, 4, 1.0, True, None, "2"])
def test_indices(value):
    with pytest.raises(InvalidInput, match="k="), speaking_for("me"):
        check_index(value, "k", 1, 3)
    assert check_index(np.int64(3), "k", 1, 3) == 3


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_column_norms_neither_overflow_nor_underflow(scale):
    M = np.random.default_rng(0).standard_normal((7, 3)) * scale
    expected = np.linalg.norm(M / scale, axis=0)
    with np.errstate(over="raise"):
        np.testing.assert_allclose(column_norms(M) / scale, expected, rtol=1e-13)
    assert column_norms(np.zeros((4, 2))).tolist() == [0.0, 0.0]
    assert column_norms(np.zeros((0, 2))).tolist() == [0.0, 0.0]
    assert np.isnan(column_norms(np.array([[np.nan], [1.0]]))[0])
