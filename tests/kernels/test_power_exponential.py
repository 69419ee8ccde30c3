"""The powered exponential kernel, of Euclidean and of ℓₚ distances."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import approx_fprime
from scipy.spatial.distance import cdist, pdist

import mercer
from mercer import RBF, Laplacian, Matern, PowerExponential
from mercer.errors import InvalidInput, NotAKernel

SHAPES = [(1.0, 2.0), (0.3, 2.0), (1.7, 2.0), (2.0, 2.0), (0.9, 1.4), (1.4, 1.4), (0.6, 1.0)]
SHAPES += [(1.0, 1.0), (0.4, 0.7), (0.7, 0.7)]


@pytest.mark.parametrize(("power", "norm"), SHAPES)
def test_it_is_its_definition(power, norm, rng):
    X, Y, scale = rng.standard_normal((15, 4)), rng.standard_normal((9, 4)), [0.5, 1.0, 2.0, 9.0]
    expected = np.exp(-(cdist(X / scale, Y / scale, "minkowski", p=norm) ** power))
    k = PowerExponential(scale, power, norm)
    np.testing.assert_allclose(k(X, Y), expected, rtol=1e-13)
    np.testing.assert_allclose(k(sp.csr_array(X), sp.csr_array(Y)), expected, rtol=1e-12)
    assert np.linalg.eigvalsh(k(X)).min() > 0


def test_kernels_it_contains(rng):
    X = rng.standard_normal((20, 3))
    X[4] = X[9]
    for k, same in [
        (PowerExponential(1.3), Matern(1.3, nu=0.5)),
        (PowerExponential(1.3, 2.0), RBF(1.3 / 2**0.5)),
        (PowerExponential([1.0, 2.0, 0.5], 1.0, 1.0), Laplacian([1.0, 2.0, 0.5])),
    ]:
        np.testing.assert_allclose(k(X), same(X), rtol=1e-13)
        np.testing.assert_allclose(
            k.gradient(X, X, np.arange(20.0)), same.gradient(X, X, np.arange(20.0)), atol=1e-12
        )
    # one column has one distance, whatever its norm
    x = X[:, :1]
    np.testing.assert_allclose(
        PowerExponential(2.0, 0.6, 1.1)(x), PowerExponential(2.0, 0.6)(x), rtol=1e-13
    )
    # p = q is a product over columns
    parts = [PowerExponential(1.5, 0.7).on([i]) for i in range(3)]
    np.testing.assert_allclose(
        PowerExponential(1.5, 0.7, 0.7)(X), (parts[0] * parts[1] * parts[2])(X), rtol=1e-13
    )


@pytest.mark.parametrize(("power", "norm"), SHAPES)
def test_derivatives_at_the_ends_of_the_range_too(power, norm, rng):
    X, Y = rng.standard_normal((6, 3)), rng.standard_normal((5, 3))
    X[2] = Y[1]  # equal points, and
    X[3, 1] = Y[4, 1]  # equal coordinates
    W = rng.standard_normal((6, 5))
    k = PowerExponential([0.8, 1.5, 1.1], power, norm)
    down = np.array([[0, 0, 0, -1e-7]])  # beyond the upper bound there is no kernel
    steps = np.vstack([1e-7 * np.eye(4)[:3], down])
    slopes = [(W * (k.with_theta(k.theta + h)(X, Y) - k(X, Y))).sum() / h.sum() for h in steps]
    np.testing.assert_allclose(k.theta_vjp(X, W, Y), slopes, atol=2e-5)
    c = rng.standard_normal(5)
    rows = [i for i in range(6) if i not in (2, 3)]
    found = k.gradient(X, Y, c)
    for i in rows:
        expected = approx_fprime(X[i], lambda x: float(k(x[None], Y)[0] @ c), 1e-7)
        np.testing.assert_allclose(found[i], expected, atol=1e-5)
    # a term of a coordinate that coincides counts nothing
    others = np.array([j != 4 for j in range(5)])
    far = k.gradient(X[[3]], Y[others], c[others])[0, 1]
    assert found[3, 1] == pytest.approx(far, abs=1e-12)
    others = np.array([j != 1 for j in range(5)])
    np.testing.assert_allclose(found[2], k.gradient(X[[2]], Y[others], c[others])[0], atol=1e-12)


@pytest.mark.parametrize(("power", "norm"), SHAPES)
def test_autograd_finds_the_gradient(power, norm, rng):
    torch = pytest.importorskip("torch")
    X, c = rng.standard_normal((7, 3)), rng.standard_normal(7)
    k, T = PowerExponential(1.2, power, norm), torch.tensor(X, requires_grad=True)
    Y = torch.as_tensor(X.copy())
    (k(T, Y) @ torch.as_tensor(c)).sum().backward()
    np.testing.assert_allclose(T.grad.numpy(), k.gradient(X, X.copy(), c), atol=1e-12)


def test_near_points_far_from_the_origin(rng):
    X = rng.standard_normal((10, 3))
    X[1] = X[0] + 1e-9
    moved = X + 2.0**20  # rounds X, so that the differences are asked of what was kept
    for k in (PowerExponential(1.0, 0.3), PowerExponential([1.0, 2.0, 3.0], 0.3, 0.6)):
        np.testing.assert_allclose(k(moved), k(moved - 2.0**20), rtol=1e-9, atol=1e-13)


def test_words(rng):
    X = rng.standard_normal((40, 3))
    for p in (2.0, 1.0, 1.4, 0.6):
        k = PowerExponential("median", 0.5, p).fit_params(X)
        assert k.length_scale == pytest.approx(np.median(pdist(X, "minkowski", p=p)), rel=1e-12)
        k = PowerExponential("scale", 0.5, p).fit_params(X)
        assert k.length_scale == pytest.approx(3 ** (1 / p) * X.std(), rel=1e-12)
    as_rbf = PowerExponential("scale", 2.0)
    np.testing.assert_allclose(as_rbf(X), RBF("scale")(X), rtol=1e-12)


def test_the_power_is_tuned_within_the_norm(rng):
    X = rng.uniform(-3, 3, (60, 1))
    y = np.sin(2 * X[:, 0])
    for norm in (2.0, 1.3):
        model = mercer.GaussianProcessRegressor(PowerExponential(1.0, 0.8, norm), noise=1e-3)
        tuned = mercer.tune(model, X, y).model.kernel
        assert 0.8 < tuned.power <= norm * (1 + 1e-12)
        assert np.linalg.eigvalsh(tuned(X)).min() > -1e-12


@pytest.mark.parametrize(
    ("power", "norm", "error"),
    [
        (2.1, 2.0, NotAKernel),
        (1.5, 1.0, NotAKernel),
        (1.0, 0.5, NotAKernel),
        (1.0, 2.5, NotAKernel),
        (1.0, np.inf, InvalidInput),
        (0.0, 2.0, InvalidInput),
        (-1.0, 2.0, InvalidInput),
        (np.nan, 2.0, InvalidInput),
        ("1", 2.0, InvalidInput),
        ([1.0, 2.0], 2.0, InvalidInput),
        (1.0, 0.0, InvalidInput),
        (1.0, None, InvalidInput),
    ],
)
def test_what_is_no_kernel_is_refused(power, norm, error):
    with pytest.raises(error, match=r"PowerExponential: (power|norm)="):
        PowerExponential(1.0, power, norm)
    k = PowerExponential(1.0, 0.5, 1.5)
    with pytest.raises(error):
        k.set_params(power=power, norm=norm)
    assert k == PowerExponential(1.0, 0.5, 1.5)
