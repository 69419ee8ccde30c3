"""Matrices that no kernel has: refused by whoever would rest an answer on them."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import KernelPerceptron, Precomputed
from mercer.errors import NotPositiveDefinite, speaking_for
from mercer.estimator.trust import check_definite


def test_what_is_indefinite_by_rounding_only_passes():
    rng = np.random.default_rng(1)
    for n, d in ((1, 1), (5, 2), (60, 3)):
        Z = rng.standard_normal((n, d))
        for K in (Z @ Z.T, (Z @ Z.T).astype(np.float32).astype(float), np.zeros((n, n))):
            before = K.copy()
            check_definite(Precomputed(), K)
            np.testing.assert_array_equal(K, before)


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_the_smallest_eigenvalue_is_told(scale):
    K = scale * np.array([[1.0, 2.0], [2.0, 1.0]])
    with (
        pytest.raises(NotPositiveDefinite, match=r"Someone: .*smallest eigenvalue") as caught,
        speaking_for("Someone"),
    ):
        check_definite(Precomputed(), K)
    assert caught.value.smallest_eigenvalue == pytest.approx(-scale, rel=1e-3)


def test_a_perceptron_refuses_an_indefinite_matrix():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 30))
    A = A + A.T
    np.fill_diagonal(A, 5.0)
    y = np.arange(30) % 2
    with pytest.raises(NotPositiveDefinite, match="KernelPerceptron: the Gram matrix") as caught:
        KernelPerceptron("precomputed").fit(A, y)
    low = np.linalg.eigvalsh(A)[0]
    assert caught.value.smallest_eigenvalue == pytest.approx(low, rel=1e-3)
    Z = rng.standard_normal((30, 3)).astype(np.float32)  # as indefinite as rounding makes it
    KernelPerceptron("precomputed").fit(Z @ Z.T, Z[:, 0] > 0)
