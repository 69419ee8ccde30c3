"""RBF and rational quadratic: K4, K6 and D5 of the specification."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics import pairwise

from mercer import RBF, Laplacian, Matern, PowerExponential, RationalQuadratic
from mercer.errors import InvalidInput, NotAKernel

SPHERICAL = [RBF, Matern, RationalQuadratic, PowerExponential, Laplacian]


def test_rbf_is_its_definition():
    # exp(−‖x−x′‖²/2ℓ²) with ‖x−x′‖² = 25 and ℓ = 5
    assert RBF(5.0)([[0.0, 0.0]], [[3.0, 4.0]])[0, 0] == pytest.approx(math.exp(-0.5), rel=1e-15)


def test_rbf_equals_scikit_learn(rng):
    X, Y = rng.standard_normal((30, 4)), rng.standard_normal((20, 4))
    expected = pairwise.rbf_kernel(X, Y, gamma=0.5 / 1.7**2)
    np.testing.assert_allclose(RBF(1.7)(X, Y), expected, atol=1e-13)
    scales = np.array([0.3, 1.0, 2.0, 10.0])
    np.testing.assert_allclose(RBF(scales)(X, Y), gp.RBF(scales)(X, Y), atol=1e-13)


def test_rational_quadratic_equals_scikit_learn(rng):
    X, Y = rng.standard_normal((30, 4)), rng.standard_normal((20, 4))
    expected = gp.RationalQuadratic(length_scale=0.8, alpha=2.5)(X, Y)
    np.testing.assert_allclose(RationalQuadratic(0.8, 2.5)(X, Y), expected, atol=1e-13)


def test_rational_quadratic_tends_to_the_rbf(rng):
    X = rng.standard_normal((20, 3))
    np.testing.assert_allclose(RationalQuadratic(1.2, 1e9)(X), RBF(1.2)(X), atol=1e-8)
    # log1p keeps it exact where (1 + s/2α)^−α would have lost every digit
    np.testing.assert_allclose(RationalQuadratic(1.2, 1e15)(X), RBF(1.2)(X), atol=1e-14)


def test_covariance_is_a_mahalanobis_distance(rng):
    A = rng.standard_normal((3, 3))
    sigma = A @ A.T + 0.1 * np.eye(3)
    X = rng.standard_normal((12, 3))
    gaps = X[:, None] - X[None]
    s = np.einsum("ijk,kl,ijl->ij", gaps, np.linalg.inv(sigma), gaps)
    np.testing.assert_allclose(RBF(covariance=sigma)(X), np.exp(-0.5 * s), atol=1e-12)
    diagonal = np.diag([0.25, 1.0, 4.0])
    np.testing.assert_allclose(RBF(covariance=diagonal)(X), RBF([0.5, 1.0, 2.0])(X), atol=1e-14)


def test_one_length_scale_in_a_list_is_one_for_all_columns(rng):
    X = rng.standard_normal((5, 3))
    np.testing.assert_array_equal(RBF([2.0])(X), RBF(2.0)(X))


@pytest.mark.parametrize("cls", SPHERICAL)
def test_characteristic(cls):
    assert cls().characteristic is True


# ------------------------------------------------------------------------------- accuracy
def _by_differences(X, scale=1.0):
    gaps = (X[:, None].astype(float) - X[None].astype(float)) / scale
    return np.exp(-0.5 * (gaps**2).sum(-1))


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e8, -1e12])
def test_no_cancellation_far_from_the_origin(offset):
    X = offset + np.arange(12.0)[:, None] * [1.0, 0.5]
    np.testing.assert_allclose(RBF(0.7)(X), _by_differences(X, 0.7), atol=1e-12)
    np.testing.assert_allclose(RBF(2.0)(X), _by_differences(X, 2.0), atol=1e-12)
    np.testing.assert_allclose(
        RBF(2.0)(X, X[::2].copy()), _by_differences(X, 2.0)[:, ::2], atol=1e-12
    )


def test_no_cancellation_between_two_far_clusters(rng):
    # centring cannot help here: half of the points are at −1e8, half at +1e8
    near = rng.integers(-3, 4, (10, 2)).astype(float)
    X = np.vstack([near - 1e8, near + 1e8])
    for kernel in (RBF(), Matern(), Matern(nu=0.5), Matern(nu=0.3), RationalQuadratic()):
        K = kernel(X)
        np.testing.assert_allclose(K[:10, :10], kernel(near), atol=1e-12)
        np.testing.assert_allclose(K[10:, 10:], kernel(near), atol=1e-12)


def exactly(kernel, X, Y):
    """Kernel values from differences in float64, by the definition."""
    gaps = X.astype(float)[:, None] - Y.astype(float)
    if isinstance(kernel, Laplacian):
        return np.exp(-(np.abs(gaps) / kernel.length_scale).sum(2))
    if getattr(kernel, "covariance", None) is not None:
        s = np.einsum("ijk,kl,ijl->ij", gaps, np.linalg.inv(kernel.covariance), gaps)
    elif isinstance(kernel, PowerExponential):
        s = (np.abs(gaps / kernel.length_scale) ** kernel.norm).sum(2)
    else:
        s = ((gaps / kernel.length_scale) ** 2).sum(2)
    return kernel._profile(s, np)


FAR_APART = [
    RBF(1.3),
    RBF([1.3, 0.7, 2.1]),
    RBF(covariance=[[1.5, 0.2, 0], [0.2, 1, 0], [0, 0, 2]]),
    Matern(1.3, nu=0.5),
    Matern([1.3, 0.7, 2.1], nu=2.5),
    RationalQuadratic(1.3),
    PowerExponential(1.3, 0.8),
    PowerExponential([1.3, 0.7, 2.1], 0.8, 1.2),
    Laplacian(1.3),
    Laplacian([1.3, 0.7, 2.1]),
]


@pytest.mark.parametrize("kernel", FAR_APART, ids=repr)
@pytest.mark.parametrize("distance", [30.0, 1e3, 1e5, 1e6])
def test_float32_groups_far_apart(kernel, distance, rng):
    """One group has all its digits: neither a move nor a scale may round them away."""
    near, far = rng.normal(size=(2, 20, 3))
    X = np.vstack([near, far + distance]).astype(np.float32)
    Y = X[::3] + np.float32(0.25)
    error = 3e-5 if distance < 100 else 3e-6  # below, one product serves
    v = rng.normal(size=len(X)).astype(np.float32)
    for A, B in ((X, None), (X, Y)):
        want = exactly(kernel, A, A if B is None else B)
        found = kernel(A, B)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, want, atol=error)
        sparse = kernel(sp.csr_array(A), None if B is None else sp.csr_array(B))
        np.testing.assert_allclose(sparse, want, atol=1e-4 if distance < 100 else 3e-6)
    np.testing.assert_allclose((kernel * 2.0 + RBF(9.0))(X), 2 * exactly(kernel, X, X)
                               + exactly(RBF(9.0), X, X), atol=3 * error)  # fmt: skip
    np.testing.assert_allclose(kernel.matmul(X, None, v), exactly(kernel, X, X) @ v, atol=1e-4)
    wide = X.astype(float)
    W = rng.normal(size=(len(X), len(X)))
    np.testing.assert_allclose(kernel.theta_vjp(X, W), kernel.theta_vjp(wide, W), atol=2e-2)
    np.testing.assert_allclose(
        kernel.gradient(X, X, v),
        kernel.gradient(wide, wide, v),
        atol=3e-2 if distance < 100 else 1e-4,
    )


@pytest.mark.parametrize("kernel", FAR_APART, ids=repr)
def test_float32_tensors_far_apart(kernel, rng):
    torch = pytest.importorskip("torch")
    near, far = rng.normal(size=(2, 20, 3))
    X = np.vstack([near, far + 1e6]).astype(np.float32)
    found = kernel(torch.as_tensor(X))
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), exactly(kernel, X, X), atol=3e-6)


@pytest.mark.parametrize("kernel", FAR_APART[:2] + FAR_APART[3:], ids=repr)
def test_groups_very_far_apart(kernel, rng):
    near, far = rng.normal(size=(2, 20, 3))
    X = np.vstack([near, far + 1e12])
    np.testing.assert_allclose(kernel(X), exactly(kernel, X, X), atol=1e-13)


def test_float32_far_from_the_origin():
    X = (10_000 + np.arange(8.0)[:, None] / 4).astype(np.float32)
    K = RBF()(X)
    assert K.dtype == np.float32
    np.testing.assert_allclose(K, _by_differences(X), atol=2e-6)
    split = np.vstack([X, -X])
    np.testing.assert_allclose(RBF()(split), _by_differences(split), atol=2e-6)


@pytest.mark.parametrize("cls", SPHERICAL)
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e3, 1e8, 1e150])
def test_the_diagonal_is_exactly_one(cls, scale, rng):
    X = scale * rng.standard_normal((30, 3))
    X[7] = X[3]
    K = cls()(X)
    np.testing.assert_array_equal(np.diag(K), 1.0)
    np.testing.assert_array_equal(cls().diag(X), 1.0)
    assert K[7, 3] == pytest.approx(1.0, abs=1e-12)
    assert K.max() <= 1.0 + 2**-52  # the exponentials of some releases of NumPy round up


@pytest.mark.parametrize("nu", [0.1, 0.5, 0.9, 1.0, 1.4])
def test_rough_kernels_see_coinciding_points(nu, rng):
    # √s turns an error of 1e-16·‖x‖² into one of 1e-8·‖x‖ unless s is exact near 0
    X = 30 * rng.standard_normal((60, 5))
    Y = np.ascontiguousarray(X[::3][:, ::-1])[:, ::-1]  # the same numbers, another layout
    K = Matern(nu=nu)(X, Y)
    np.testing.assert_allclose(K[::3].diagonal(), 1.0, atol=1e-12)
    near = X + 1e-9
    expected = Matern(nu=nu)(np.zeros((1, 1)), [[1e-9 * math.sqrt(5)]])[0, 0]
    np.testing.assert_allclose(Matern(nu=nu)(X, near).diagonal(), expected, atol=1e-7)


@pytest.mark.parametrize("kernel", [c() for c in SPHERICAL] + [Matern(nu=2.5), Matern(nu=0.7)])
def test_huge_coordinates_give_zeros_not_nan(kernel):
    X = np.array([[1.7e308], [-1.7e308], [1.7e308], [0.0], [1e200]])
    K = kernel(X)
    assert np.isfinite(K).all()
    np.testing.assert_allclose(K[0], [1, 0, 1, 0, 0], atol=1e-290)


def test_a_length_scale_too_small_for_the_points_is_named():
    with pytest.raises(InvalidInput, match="length_scale"):
        RBF(1e-300)([[1e10], [2e10]])


def test_extreme_length_scales(rng):
    X = rng.standard_normal((6, 2))
    np.testing.assert_array_equal(RBF(1e-8)(X), np.eye(6))
    np.testing.assert_array_equal(RBF(1e12)(X), np.ones((6, 6)))


# ------------------------------------------------------------------------------ bad input
@pytest.mark.parametrize("cls", SPHERICAL)
@pytest.mark.parametrize(
    "value",
    [
        0.0,
        -1.0,
        math.nan,
        math.inf,
        "mean",
        None,
        [],
        [1.0, -1.0],
        [[1.0]],
        True,
        "1.0",
        [1, "a"],
        {},
    ],
    ids=repr,
)
def test_a_length_scale_must_be_positive(cls, value):
    with pytest.raises(InvalidInput, match=f"{cls.__name__}: length_scale"):
        cls(value)


@pytest.mark.parametrize("cls", SPHERICAL)
def test_as_many_length_scales_as_columns(cls, rng):
    kernel = cls([1.0, 2.0])
    for call in (kernel, kernel.diag):
        with pytest.raises(InvalidInput, match="2 length scales for 3 columns"):
            call(rng.standard_normal((4, 3)))


def test_as_many_length_scales_as_columns_in_a_product(rng):
    with pytest.raises(InvalidInput, match="PowerExponential: 2 length scales for 3 columns"):
        PowerExponential([1.0, 2.0], norm=1.0)(rng.standard_normal((4, 3)))


@pytest.mark.parametrize("alpha", [0.0, -1.0, math.nan, math.inf, "x", [1.0], None, True])
def test_alpha_must_be_positive(alpha):
    with pytest.raises(InvalidInput, match="RationalQuadratic: alpha"):
        RationalQuadratic(1.0, alpha)


def test_bad_covariances():
    with pytest.raises(InvalidInput, match="both given"):
        RBF(2.0, covariance=np.eye(2))
    with pytest.raises(NotAKernel, match="symmetric"):
        RBF(covariance=[[1.0, 0.5], [0.0, 1.0]])
    with pytest.raises(NotAKernel, match=r"smallest eigenvalue -1"):
        RBF(covariance=[[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(NotAKernel, match="positive definite"):
        RBF(covariance=[[1.0, 1.0], [1.0, 1.0]])
    with pytest.raises(InvalidInput, match="square"):
        RBF(covariance=np.ones((2, 3)))
    with pytest.raises(InvalidInput, match="covariance is 2 × 2 but X has 3 columns"):
        RBF(covariance=np.eye(2))(np.ones((2, 3)))
