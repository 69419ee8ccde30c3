"""Matrices that no kernel has: refused by whoever would rest an answer on them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.datasets import make_moons

from mercer import (
    RBF,
    SVC,
    FromFunction,
    GaussianProcessRegressor,
    KernelPCA,
    KernelPerceptron,
    KernelRidge,
    KernelRidgeClassifier,
    Nystroem,
    Precomputed,
    config,
)
from mercer.errors import InvalidInput, NotPositiveDefinite, speaking_for
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


def cut(n=300):
    """Return an RBF matrix whose small entries are 0, and labels: indefinite, but not by much."""
    X, y = make_moons(n, noise=0.05, random_state=0)
    K = RBF(0.5)(X)
    K[K <= 1e-3] = 0.0
    return K, y


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("model", [KernelRidge, KernelRidgeClassifier])
def test_the_smallest_eigenvalue_behind_a_ridge(model, alpha):
    K, y = cut()
    low = np.linalg.eigvalsh(K)[0]
    with pytest.raises(NotPositiveDefinite, match="smallest eigenvalue") as caught:
        model("precomputed", alpha=alpha).fit(K, y)
    assert caught.value.smallest_eigenvalue == pytest.approx(low, rel=1e-6)
    assert f"{low:.4g}" in str(caught.value)


def test_a_bound_of_it_says_so():
    K, y = cut()
    low = np.linalg.eigvalsh(K)[0]
    with (
        pytest.raises(NotPositiveDefinite, match=r"has an eigenvalue of .* or less, so") as caught,
        config(memory=16 * K.size - 1),
    ):
        KernelRidge("precomputed", alpha=1.0, solver="cholesky").fit(K, y)
    assert low < caught.value.smallest_eigenvalue < 0


def test_the_repair_that_is_told_works():
    K, y = cut(100)
    for model in (KernelRidge, SVC, GaussianProcessRegressor):
        with pytest.raises(NotPositiveDefinite) as caught:
            model("precomputed").fit(K, y)
        way = re.search(r"is (\(.*\.T), with v, U = (numpy.*\))\.$", str(caught.value))
        v, U = eval(way[2], {"numpy": np, "K": K})
        repaired = eval(way[1], {"U": U, "v": v})
        np.testing.assert_allclose(repaired, K, atol=0.05)
        model("precomputed").fit(repaired, y)

    def far(a, b):
        return -abs(a[0] - b[0]) + 0.1

    X = np.linspace(0, 1, 12)[:, None]
    with pytest.raises(NotPositiveDefinite) as caught:
        KernelRidge(far, alpha=0.1).fit(X, X[:, 0])
    way = re.search(r"kernel(\.repaired\(.*?\)) is", str(caught.value))[1]
    KernelRidge(eval(f"k{way}", {"k": FromFunction(far)}), alpha=0.1).fit(X, X[:, 0])


@pytest.mark.parametrize("model", [KernelRidge, SVC, KernelPCA, GaussianProcessRegressor, Nystroem])
def test_points_where_kernel_values_belong(model):
    X = np.random.default_rng(0).standard_normal((80, 2))
    with pytest.raises(InvalidInput, match=r"X has shape \(80, 2\).*must be square\.") as caught:
        model(kernel="precomputed").fit(X, X[:, 0] > 0)
    assert str(caught.value).startswith(f"{model.__name__}: X has")
    assert str(caught.value).count("square") == 1
