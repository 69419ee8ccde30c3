"""The way back: ridge as in scikit-learn, fixed points that improve, and training points found."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import KernelPCA as Peer
from sklearn.exceptions import NotFittedError

from mercer import (
    RBF,
    Constant,
    KernelPCA,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
    White,
)
from mercer.errors import InvalidInput


def points(n=60, d=2, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


@pytest.mark.parametrize("alpha", [1.0, 0.01])
def test_ridge_equals_scikit_learn(alpha):
    X, new = points(), points(9, seed=1)
    ours = KernelPCA(4, RBF(1.5), alpha=alpha, fit_inverse_transform=True, preimage="ridge").fit(X)
    theirs = Peer(4, kernel="rbf", gamma=1 / 4.5, alpha=alpha, fit_inverse_transform=True).fit(X)
    back = theirs.inverse_transform(theirs.transform(new))
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(new)), back, atol=1e-6)
    assert ours.dual_coef_.shape == X.shape and ours.X_transformed_fit_.shape == (60, 4)


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize(
    "kernel",
    [RBF(1.5), RBF([1.0, 2.0]), RBF(covariance=[[2.0, 0.5], [0.5, 1.0]]), RationalQuadratic(1.5),
     Matern(2.0, nu=2.5)],
    ids=str,
)  # fmt: skip
def test_a_training_point_is_its_own_preimage(kernel, learned):
    X = points()
    model = KernelPCA(kernel=kernel, fit_inverse_transform=learned).fit(X)
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X, atol=1e-3)
    new = points(20, seed=5) * 0.7
    few = KernelPCA(25, kernel, fit_inverse_transform=learned).fit(X)
    assert np.abs(few.inverse_transform(few.transform(new)) - new).max() < 0.3


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize(
    "kernel",
    [2.0 * RBF(1.0), RBF(1.0) * 1e-3 + 3.0, 1.0 + 2.0 * (0.5 * RBF(1.0)), RBF(1.0) + White(1e-9)],
    ids=str,
)
def test_constants_do_not_move_the_fixed_point(kernel, learned):
    X = points()
    plain = KernelPCA(30, RBF(1.0)).fit(X)
    model = KernelPCA(30, kernel, fit_inverse_transform=learned).fit(X)
    back = model.inverse_transform(model.transform(X))
    assert np.abs(back - X).max() < 2e-3
    np.testing.assert_allclose(back, plain.inverse_transform(plain.transform(X)), atol=1e-5)
    KernelPCA(3, kernel, preimage="fixed_point").fit(X).inverse_transform(X[:, [0, 1, 0]])


def test_other_combinations_are_not_radial():
    for kernel in (RBF() + RBF(2.0), RBF() * Linear(), Laplacian() * 2.0, Constant(0.0) * RBF()):
        with pytest.raises(InvalidInput, match="radial"):
            KernelPCA(3, kernel, preimage="fixed_point").fit(points())


def test_the_fixed_point_is_nearer_in_feature_space_than_the_ridge():
    X, new = points(), points(15, seed=3)
    k, kernel = 4, RBF(1.0)
    fixed = KernelPCA(k, kernel, fit_inverse_transform=True).fit(X)
    ridge = KernelPCA(k, kernel, fit_inverse_transform=True, preimage="ridge").fit(X)
    Z = fixed.transform(new)

    def distance(model, points):
        """‖φ(x) − Pφ‖² up to what does not depend on x: −2 Σ γᵢ k(xᵢ, x)."""
        gamma = Z @ model.component_coef_.T + model.center_coef_
        return -2 * (gamma * kernel(points, X)).sum(axis=1)

    a, b = distance(fixed, fixed.inverse_transform(Z)), distance(fixed, ridge.inverse_transform(Z))
    assert (a <= b + 1e-12).all() and a.mean() < b.mean()


def test_noise_is_taken_off():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 300)
    ring = np.column_stack([np.cos(angle), np.sin(angle)])
    noisy = ring + 0.15 * rng.standard_normal(ring.shape)
    model = KernelPCA(4, RBF(1.0)).fit(noisy)
    clean = model.inverse_transform(model.transform(noisy))
    off = np.abs(np.linalg.norm(clean, axis=1) - 1).mean()
    assert off < 0.6 * np.abs(np.linalg.norm(noisy, axis=1) - 1).mean()


@pytest.mark.parametrize("solver", ["auto", "dense", "cholesky"])
def test_the_linear_kernel_goes_back_exactly(solver):
    X = points(30, 3) + 5
    model = KernelPCA(3, Linear(), eigen_solver=solver).fit(X)
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X, atol=1e-9)


def test_which_way_back_takes_off_more_noise():
    rng = np.random.default_rng(0)
    clean = load_digits().data[rng.permutation(1797)] / 16
    noisy = clean + 0.3 * rng.standard_normal(clean.shape)

    def errors(X, k, alpha):
        model = KernelPCA(k, "rbf", alpha=alpha, fit_inverse_transform=True).fit(X[:1000])
        Z = model.transform(noisy[-40:])
        ways = (model.set_params(preimage=way) for way in ("auto", "ridge"))
        return [((way.inverse_transform(Z) - clean[-40:]) ** 2).mean() for way in ways]

    fixed, ridge = errors(noisy, 100, 1.0)
    same, worse = errors(noisy, 100, 0.01)
    assert abs(same / fixed - 1) < 0.01  # alpha is the ridge's
    assert ridge < 0.9 * fixed < 0.6 * worse
    fixed, ridge = errors(noisy, 20, 1.0)
    assert fixed < ridge
    fixed, ridge = errors(clean, 100, 0.1)
    assert fixed < 0.75 * ridge


def test_pivots_go_back_too():
    X = points(200)
    model = KernelPCA(20, RBF(1.5), eigen_solver="cholesky", rank=60, fit_inverse_transform=True)
    model.fit(X)
    assert model.dual_coef_.shape == (60, 2)
    assert np.abs(model.inverse_transform(model.transform(X)) - X).mean() < 0.02


def test_far_from_the_origin_and_other_units():
    X = points()
    plain = KernelPCA(10, RBF(1.5)).fit(X)
    far = KernelPCA(10, RBF(1.5e3)).fit(X * 1e3 + 1e7)
    a = plain.inverse_transform(plain.transform(X))
    b = far.inverse_transform(far.transform(X * 1e3 + 1e7))
    np.testing.assert_allclose((b - 1e7) / 1e3, a, atol=1e-4)


def test_what_is_refused():
    X = points()
    poly = KernelPCA(3, Polynomial(3)).fit(X)
    with pytest.raises(NotFittedError, match="fit_inverse_transform"):
        poly.inverse_transform(np.zeros((1, 3)))
    with pytest.raises(InvalidInput, match="radial"):
        KernelPCA(3, Polynomial(2), preimage="fixed_point").fit(X)
    with pytest.raises(InvalidInput, match="preimage"):
        KernelPCA(3, preimage="best", fit_inverse_transform=True).fit(X)
    for way in (KernelPCA(3, preimage="best").fit, KernelPCA(3, preimage=None).partial_fit):
        with pytest.raises(InvalidInput, match="preimage"):
            way(X)
    with pytest.raises(InvalidInput, match="radial"):  # its distance is a sum of moduli
        KernelPCA(3, Laplacian(), preimage="fixed_point").fit(X)
    model = KernelPCA(3).fit(X)
    for wrong in (np.zeros((2, 2)), np.full((1, 3), np.nan), np.zeros(3)):
        with pytest.raises(InvalidInput, match="inverse_transform"):
            model.inverse_transform(wrong)
    given = KernelPCA(2, "precomputed").fit(X @ X.T)
    assert not hasattr(given, "inverse_transform")
    with pytest.raises(AttributeError) as refusal:
        given.inverse_transform(np.zeros((1, 2)))
    assert "pre-image" in str(refusal.value.__cause__ or refusal.value)
    done = KernelPCA(3, Polynomial(3), fit_inverse_transform=True, alpha=0.1).fit(X)
    assert done.inverse_transform(done.transform(X)).shape == X.shape
