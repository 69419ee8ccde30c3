import numpy as np
import pytest
import scipy.sparse as sp

import mercer
from mercer import RBF, Function, mean_embedding
from mercer.errors import InvalidInput

rng = np.random.default_rng(2)
X = rng.standard_normal((12, 2))
Y = rng.standard_normal((8, 2))


def test_values_are_means_of_kernel_values():
    mu = mean_embedding(RBF(), X)
    np.testing.assert_allclose(mu(Y), RBF()(Y, X).mean(1))
    assert isinstance(mu, Function) and mu.offset == 0.0


def test_inner_products_are_means():
    mu, nu = mean_embedding(RBF(), X), mean_embedding(RBF(), Y)
    assert mu.inner(nu) == pytest.approx(RBF()(X, Y).mean())
    assert mu.norm() ** 2 == pytest.approx(RBF()(X).mean())
    f = Function(RBF(), Y, rng.standard_normal(8))
    assert mu.inner(f) == pytest.approx(f(X).mean())  # ⟨μ, f⟩ = mean of f
    mmd = RBF()(X).mean() + RBF()(Y).mean() - 2 * RBF()(X, Y).mean()
    assert (mu - nu).norm() ** 2 == pytest.approx(mmd)


@pytest.mark.parametrize("offset", [1e4, 1e6, 1e8])
def test_differences_of_means_far_from_the_origin(offset):
    P, Q = X + offset, Y + offset
    gap = mean_embedding(mercer.Linear(), P) - mean_embedding(mercer.Linear(), Q)
    want = np.linalg.norm((P - offset).mean(0) - (Q - offset).mean(0))
    assert gap.norm() == pytest.approx(want, abs=1e-6)
    square = mercer.statistics.mmd(P, Q, mercer.Linear(), "biased")
    assert gap.norm() ** 2 == pytest.approx(square, abs=1e-6)
    both = Function(mercer.Linear(), gap.points, np.stack([gap.coef, 2 * gap.coef], 1))
    np.testing.assert_allclose(both.norm(), [want, 2 * want], atol=1e-6)


def test_weights_count_and_need_not_sum_to_one():
    weights = rng.integers(0, 4, 12).astype(float)
    repeated = np.repeat(X, weights.astype(int), axis=0)
    for k in (RBF(), RBF("median"), mercer.Laplacian("scale")):
        mu, nu = mean_embedding(k, X, weights), mean_embedding(k, repeated)
        np.testing.assert_allclose(mu(Y), nu(Y), rtol=1e-10)
    np.testing.assert_allclose(
        mean_embedding(RBF(), X, 1e-300 * weights)(Y), mean_embedding(RBF(), X, weights)(Y)
    )
    assert mean_embedding(RBF(), X, weights).coef.sum() == pytest.approx(1.0)


def test_linear_embedding_is_the_mean():
    mu = mean_embedding(mercer.Linear(), X)
    np.testing.assert_allclose(mu(np.eye(2)), X.mean(0))
    np.testing.assert_allclose(
        mean_embedding(mercer.Linear(), sp.csr_array(X))(np.eye(2)), X.mean(0)
    )


def test_objects_and_precomputed():
    mu = mean_embedding(lambda a, b: float(a == b), ["u", "v", "u"])
    np.testing.assert_allclose(mu(["u", "v", "w"]), [2 / 3, 1 / 3, 0])
    K = RBF()(X)
    np.testing.assert_allclose(mean_embedding("precomputed", K)(K), K.mean(1))


@pytest.mark.parametrize(
    "weights",
    [[1.0], -np.ones(12), np.zeros(12), np.full(12, np.inf), np.ones((12, 1)), ["a"] * 12],
)
def test_bad_weights(weights):
    with pytest.raises(InvalidInput, match="weights"):
        mean_embedding(RBF(), X, weights)


def test_no_points_and_one():
    with pytest.raises(InvalidInput, match="no points"):
        mean_embedding(RBF(), np.empty((0, 2)))
    assert mean_embedding(RBF(), X[:1])(X[:1])[0] == 1.0
