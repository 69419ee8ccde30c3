"""A kernel known only through its Gram matrix: what is taken, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import RBF, Precomputed
from mercer.errors import InvalidInput

K = RBF()(np.arange(5.0)[:, None])


def test_the_matrix_is_the_kernel():
    np.testing.assert_array_equal(Precomputed()(K), K)
    np.testing.assert_array_equal(Precomputed().diag(K), 1.0)
    np.testing.assert_array_equal(Precomputed()(K[:2], K), K[:2])
    np.testing.assert_array_equal(Precomputed()(K[:2], np.array([4, 0])), K[:2][:, [4, 0]])
    np.testing.assert_allclose(Precomputed().matmul(K, None, np.ones(5)), K.sum(1), atol=1e-15)
    np.testing.assert_allclose(Precomputed().matmul(K[:2], np.arange(5), np.ones(5)), K[:2].sum(1))


def test_lists_sparse_matrices_frames_and_integers():
    np.testing.assert_array_equal(Precomputed()(K.tolist()), K)
    np.testing.assert_array_equal(Precomputed()(sp.csr_array(K)), K)
    assert Precomputed()(np.eye(3, dtype=int)).dtype == np.float64
    assert Precomputed()(K.astype(np.float32)).dtype == np.float32
    pd = pytest.importorskip("pandas")
    np.testing.assert_array_equal(Precomputed()(pd.DataFrame(K)), K)


def test_the_result_is_not_the_users_matrix():
    given = K.copy()
    result = Precomputed()(given)
    result[0, 0] = 7.0
    Precomputed().diag(given)[0] = 7.0
    assert given[0, 0] == 1.0


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), "square"),
        (np.array([[1.0, 0.5], [0.4, 1.0]]), r"K\[0, 1\] = 0.5 and K\[1, 0\] = 0.4 differ by 0.1"),
        (np.array([[1.0, 0.0], [0.0, -2.0]]), r"K\[1, 1\] = -2 < 0"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "not finite"),
        (np.array([[np.inf]]), "not finite"),
        (np.ones(3), "dimensions"),
        (np.ones((2, 2, 2)), "dimensions"),
        ([["a"]], "numbers"),
        (np.zeros((0, 0)), "minimum of 1"),
        (np.arange(3), "positions"),
        (None, "None"),
        (np.ones((2, 2)) * 1j, "complex"),
    ],
    ids=["not square", "asymmetric", "negative", "nan", "inf", "vector", "cube", "text", "empty",
         "positions", "None", "complex"],
)  # fmt: skip
def test_bad_matrices(matrix, message):
    for call in (Precomputed(), Precomputed().diag):
        with pytest.raises(InvalidInput, match=message):
            call(matrix)


def test_asymmetry_is_measured_against_the_largest_entry():
    noisy = 1e6 * K
    noisy[0, 1] += 1e-3  # relative 1e-9: rounding
    assert Precomputed()(noisy).shape == (5, 5)
    noisy[0, 1] += 1.0  # relative 1e-6: not rounding
    with pytest.raises(InvalidInput, match="not symmetric"):
        Precomputed()(noisy)
    single = K.astype(np.float32)
    single[0, 1] += 1e-6
    assert Precomputed()(single).shape == (5, 5)


def test_asymmetry_is_found_in_any_tile():
    big = np.eye(1200)
    big[1100, 3] = 0.5
    with pytest.raises(InvalidInput, match=r"K\[1100, 3\] = 0\.5"):
        Precomputed()(big)


@pytest.mark.parametrize(
    "Y", [np.array([0, 5]), np.array([-1]), np.eye(6)], ids=["5", "-1", "6 rows"]
)
def test_positions_outside_the_matrix(Y):
    with pytest.raises(InvalidInput, match="Precomputed"):
        Precomputed()(K[:2], Y)


def test_there_is_nothing_to_tune_and_no_gradient():
    assert len(Precomputed().theta) == 0
    assert Precomputed().theta_vjp(K, np.ones((5, 5))).shape == (0,)
    with pytest.raises(InvalidInput, match="gradient"):
        Precomputed().gradient(K, K, np.ones(5))


def test_torch(torch):
    T = torch.as_tensor(K)
    result = Precomputed()(T)
    assert isinstance(result, torch.Tensor)
    np.testing.assert_array_equal(result.numpy(), K)
    np.testing.assert_array_equal(Precomputed().diag(T).numpy(), 1.0)
    with pytest.raises(InvalidInput, match="not symmetric"):
        Precomputed()(torch.tensor([[1.0, 2.0], [0.0, 1.0]]))
