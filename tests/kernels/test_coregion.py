"""Coregion: the covariance it stands for, its parameters, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import RBF, Coregion, KernelRidge, load, save
from mercer.errors import InvalidInput


@pytest.mark.parametrize(("t", "r"), [(1, 1), (2, 1), (2, 2), (5, 1), (5, 3), (4, 4)])
def test_weights_and_variances_come_back(rng, t, r):
    W, v = rng.standard_normal((t, r)), rng.uniform(0.1, 2.0, t)
    k = Coregion.from_weights(W, v)
    np.testing.assert_allclose(k.output_covariance(), W @ W.T + np.diag(v), rtol=1e-13, atol=1e-13)
    got_W, got_v = k.weights()
    np.testing.assert_allclose(got_W, W, rtol=1e-12)
    np.testing.assert_allclose(got_v, v, rtol=1e-12)
    assert (k.theta >= k.bounds[:, 0]).all() and (k.theta <= k.bounds[:, 1]).all()


def test_no_variance_and_weights_of_zero():
    k = Coregion.from_weights([[1.0], [-2.0]])
    np.testing.assert_allclose(k.output_covariance(), [[1, -2], [-2, 4]], rtol=1e-15)
    np.testing.assert_allclose(k.output_correlation(), [[1, -1], [-1, 1]], rtol=1e-15)
    k = Coregion.from_weights([[0.0, 0.0], [0.0, 3.0]], [2.0, 0.0])
    np.testing.assert_allclose(k.output_covariance(), [[2, 0], [0, 9]], rtol=1e-14, atol=1e-14)
    assert len(k.theta) == 6  # nothing is lost from what may be tuned


def test_huge_and_tiny_weights():
    for scale in (1e-100, 1e100):
        W = scale * np.array([[1.0, 0.5], [-1.0, 1.5]])
        k = Coregion.from_weights(W, scale**2)
        expected = W @ W.T + scale**2 * np.eye(2)
        np.testing.assert_allclose(k.output_covariance(), expected, rtol=1e-13)


def test_the_start_is_uncorrelated_but_no_saddle():
    for t, r in [(2, 1), (3, 1), (5, 2)]:
        k = Coregion(t, r)
        np.testing.assert_allclose(k.output_covariance(), np.eye(t), atol=1e-15)
        G = np.zeros((t, t))
        G[0, t - 1] = 1.0  # ∂/∂ of the covariance of the first and the last output
        assert np.abs(k._pull(G)).max() > 0.1


def test_positive_semidefinite_wherever_the_search_may_go(rng):
    for _ in range(20):
        k = Coregion(4, 2)
        k = k.with_theta(rng.uniform(*k.bounds.T))
        low = np.linalg.eigvalsh(k.output_correlation()).min()
        assert low > -1e-14


def test_gradient_is_that_of_the_matrix(rng):
    k = Coregion(3, 2).with_theta(np.log(rng.uniform(0.3, 2.5, 9)))
    G = rng.standard_normal((3, 3))
    expected = []
    for step in 1e-6 * np.eye(9):
        up, down = (k.with_theta(k.theta + s * step).output_covariance() for s in (1, -1))
        expected.append((G * (up - down)).sum() / 2e-6)
    np.testing.assert_allclose(k._pull(G), expected, rtol=1e-7, atol=1e-8)


def test_product_with_a_kernel_on_x_is_a_kronecker_product(rng):
    X = rng.standard_normal((6, 2))
    k = Coregion.from_weights(rng.standard_normal((3, 2)), 0.2)
    rows = np.vstack([np.column_stack([X, np.full(6, j)]) for j in range(3)])
    got = (RBF(1.3).on([0, 1]) * k.on([2]))(rows)
    np.testing.assert_allclose(got, np.kron(k.output_covariance(), RBF(1.3)(X)), atol=1e-14)


def test_gradient_in_x_leaves_the_output_alone(rng):
    k = RBF().on([0]) * Coregion.from_weights([[1.0], [-2.0]], 0.1).on([1])
    rows = np.column_stack([rng.standard_normal(5), [0, 1, 0, 1, 1]])
    got = k.gradient(rows, rows[:3], np.ones(3))
    assert (got[:, 1] == 0).all() and (got[:, 0] != 0).any()


def test_kept_in_a_file(rng, tmp_path):
    rows = np.column_stack([rng.standard_normal(8), rng.integers(0, 2, 8)])
    kernel = RBF().on([0]) * Coregion.from_weights([[1.0], [-2.0]], 0.1).on([1])
    model = KernelRidge(kernel, 0.1).fit(rows, rows[:, 0])
    save(model, tmp_path / "m.mercer")
    again = load(tmp_path / "m.mercer")
    assert again.kernel_ == kernel
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Coregion(0), "n_outputs=0"),
        (lambda: Coregion(2.0), "n_outputs=2.0"),
        (lambda: Coregion(True), "n_outputs=True"),
        (lambda: Coregion("two"), "n_outputs='two'"),
        (lambda: Coregion(2, 3), "rank=3 for 2 outputs"),
        (lambda: Coregion(2, 0), "rank=0"),
        (lambda: Coregion(2, scales=[1.0]), "give 2 positive numbers"),
        (lambda: Coregion(2, scales=[1.0, -1.0]), "scales"),
        (lambda: Coregion(2, angles=[1.0, np.nan]), "angles"),
        (lambda: Coregion(2, angles="a"), "angles"),
        (lambda: Coregion.from_weights([[1.0], [0.0]]), "output 1 has weights and variance 0"),
        (lambda: Coregion.from_weights([[1.0]], [-1.0]), "variances ≥ 0"),
        (lambda: Coregion.from_weights([[1.0]], [1.0, 2.0]), "shape"),
        (lambda: Coregion.from_weights("W"), "shape"),
        (lambda: Coregion(2)([[2]]), r"contains 2; legal are whole numbers in \[0, 1\]"),
        (lambda: Coregion(2)([[0.5]]), "contains 0.5"),
        (lambda: Coregion(2)([[-1]]), "contains -1"),
    ],
)
def test_refusals(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()


def test_one_output_is_a_constant():
    assert Coregion(1, scales=[2.0])([0, 0]).tolist() == [[4.0, 4.0], [4.0, 4.0]]
