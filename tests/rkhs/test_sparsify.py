import numpy as np
import pytest

from mercer import RBF
from mercer.rkhs.function import project

rng = np.random.default_rng(3)


def error(K, coef, index, beta):
    change = coef.copy()
    change[index] -= beta
    return np.sqrt(np.maximum(np.einsum("it,ij,jt->t", change, K, change), 0))


@pytest.mark.parametrize("tol", [0.5, 0.1, 1e-3, 1e-5])
@pytest.mark.parametrize("t", [1, 3])
def test_error_bound_and_projection(tol, t):
    K = RBF()(rng.standard_normal((60, 2)))
    coef = rng.standard_normal((60, t))
    norm = np.sqrt(np.einsum("it,ij,jt->t", coef, K, coef))
    index, beta = project(K, coef, tol)
    assert len(set(index.tolist())) == len(index) == len(beta) < 60
    assert (error(K, coef, index, beta) <= tol * norm).all()
    # Against the projection by a dense solve on the same points.
    want = np.linalg.lstsq(K[np.ix_(index, index)], (K @ coef)[index], rcond=None)[0]
    values = K[:, index] @ want
    np.testing.assert_allclose(K[:, index] @ beta, values, atol=1e-6 * np.abs(values).max())


def test_first_choice_takes_most_off():
    K = RBF()(rng.standard_normal((20, 2)))
    coef = rng.standard_normal((20, 1))
    index, _ = project(K, coef, 0.3)
    left = [error(K, coef, np.array([p]), (K @ coef)[p] / K[p, p])[0] for p in range(20)]
    assert index[0] == int(np.argmin(left))


def test_rank_one_and_zero():
    K = np.ones((8, 8))
    index, beta = project(K, np.arange(8.0)[:, None], 1e-6)
    assert len(index) == 1 and beta[0, 0] == pytest.approx(28.0)
    index, beta = project(K, np.zeros((8, 2)), 0.1)
    assert len(index) == 0 and beta.shape == (0, 2)
    index, beta = project(np.zeros((3, 3)), np.ones((3, 1)), 0.1)  # k = 0: f is 0
    assert len(index) == 0


def test_nothing_can_go():
    coef = rng.uniform(1, 2, (6, 1))
    index, beta = project(np.eye(6), coef, 0.01)
    assert sorted(index.tolist()) == list(range(6))
    np.testing.assert_allclose(beta, coef[index])


def test_more_points_than_the_first_block_of_the_basis():
    K = RBF(0.05)(np.linspace(0, 10, 200)[:, None])
    coef = rng.standard_normal((200, 1))
    index, beta = project(K, coef, 1e-3)
    assert len(index) > 64
    assert error(K, coef, index, beta)[0] <= 1e-3 * np.sqrt(coef[:, 0] @ K @ coef[:, 0])
