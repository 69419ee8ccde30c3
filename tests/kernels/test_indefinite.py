import numpy as np
import pytest

from mercer.kernels.repaired import lowest, search


def judge(A):
    """Accept positions on which A is negative, as a sorted tuple."""

    def accept(index):
        assert (np.diff(index) > 0).all()
        low = np.linalg.eigvalsh(A[np.ix_(index, index)])[0]
        return tuple(index.tolist()) if low < -1e-9 else None

    return accept


def test_lowest_agrees_with_all_eigenvalues():
    A = np.random.default_rng(0).standard_normal((7, 7))
    A = A + A.T
    values, vectors = lowest(A, 3)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(A)[:3])
    np.testing.assert_allclose(A @ vectors, vectors * values, atol=1e-12)
    assert lowest(A[:1, :1], 4)[0].shape == (1,)


def test_definite_matrix_has_nothing_to_find():
    def never(index):
        raise AssertionError("not to be asked")

    assert search(np.eye(6), never, -1e-9, np.random.default_rng(0)) is None


def test_everything_rejected_gives_none():
    A = -np.eye(4)
    assert search(A, lambda index: None, -1e-9, np.random.default_rng(0)) is None


@pytest.mark.parametrize(("n", "m"), [(8, 2), (8, 3), (8, 5), (8, 7), (40, 4), (40, 7), (270, 5)])
def test_finds_exactly_the_planted_rows(n, m):
    rng = np.random.default_rng(10 * n + m)
    A = np.eye(n)
    index = np.sort(rng.choice(n, m, replace=False))
    t = 1.01 / (m - 1)
    A[np.ix_(index, index)] = (1 + t) * np.eye(m) - t
    shuffled = rng.permutation(n)
    assert search(A, judge(A), -1e-6, rng) == tuple(index.tolist())
    B = A[np.ix_(shuffled, shuffled)]
    found = search(B, judge(B), -1e-6, rng)
    assert sorted(shuffled[list(found)].tolist()) == index.tolist()


def test_one_row():
    A = np.diag([1.0, -1.0, 1.0])
    assert search(A, judge(A), -1e-9, np.random.default_rng(0)) == (1,)
    assert search(-np.ones((1, 1)), judge(-np.ones((1, 1))), 0.0, np.random.default_rng(0)) == (0,)
