"""Few points: values of all pairs at once, beside the definition and the way of tiles."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import mercer
from mercer import RBF, KernelRidge, Laplacian, Linear, Matern, Polynomial, RationalQuadratic
from mercer.domains import Vectors
from mercer.engines import small_tiles
from mercer.errors import InvalidInput
from mercer.kernels import Constant, Kernel, PowerExponential, White
from mercer.kernels.few import gram_of_few
from mercer.operators import Gram, gram_of

SCALES = [0.7, 1.3, 2.0]
KERNELS = [
    RBF(1.3),
    RBF(SCALES),
    Matern(0.8, nu=0.5),
    Matern(0.8, nu=1.5),
    Matern(SCALES, nu=2.5),
    Matern(0.8, nu=0.8),
    RationalQuadratic(1.1, alpha=1.5),
    PowerExponential(1.2, power=0.7),
    Linear(),
    Polynomial(3, 1.0, length_scale=1.7),
    2.0 * RBF(0.9) + Matern(1.8, nu=2.5),
    RBF(1.1) * RationalQuadratic(2.0),
    (RBF(1.1) + 0.5) ** 2,
    (0.3 * Linear()).exp() + White(0.2),
    RBF(SCALES) * 3.0 + Linear() * 0.1 + 1.0,
]


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 3))


def squared(k: Kernel, x: np.ndarray, y: np.ndarray) -> float:
    scale = np.broadcast_to(np.asarray(k.length_scale, dtype=float), x.shape)
    return sum(((a - b) / c) ** 2 for a, b, c in zip(x, y, scale, strict=True))


def defined(k: Kernel, x: np.ndarray, y: np.ndarray, same: bool) -> float:
    """The value by its formula, a number at a time."""
    kind = type(k).__name__
    if kind == "RBF":
        return math.exp(-0.5 * squared(k, x, y))
    if kind == "Matern":
        z = math.sqrt(2 * k.nu * squared(k, x, y))
        if k.nu == 0.8:
            from scipy.special import gamma, kv

            return 1.0 if z == 0 else 2 ** (1 - k.nu) / gamma(k.nu) * z**k.nu * kv(k.nu, z)
        return {0.5: 1.0, 1.5: 1 + z, 2.5: 1 + z + z * z / 3}[k.nu] * math.exp(-z)
    if kind == "RationalQuadratic":
        return (1 + squared(k, x, y) / (2 * k.alpha)) ** -k.alpha
    if kind == "PowerExponential":
        return math.exp(-(squared(k, x, y) ** (k.power / 2)))
    if kind == "Linear":
        return float(x @ y)
    if kind == "Polynomial":
        return (float(x @ y) / k.length_scale**2 + k.offset) ** k.degree
    if kind == "Constant":
        return k.value
    if kind == "White":
        return k.noise * same
    parts = [defined(part, x, y, same) for part in k._kernels()]
    if kind == "Power":
        return parts[0] ** k.degree
    if kind == "Exp":
        return math.exp(parts[0])
    return sum(parts) if kind == "Sum" else math.prod(parts)


def table(k: Kernel, X: np.ndarray, Y: np.ndarray | None = None) -> np.ndarray:
    Z = X if Y is None else Y
    return np.array(
        [[defined(k, x, z, Y is None and i == j) for j, z in enumerate(Z)] for i, x in enumerate(X)]
    )


def in_tiles(k: Kernel, X: np.ndarray, Y: np.ndarray | None = None) -> np.ndarray:
    with small_tiles(49):
        assert gram_of_few(k, X, Y) is None or len(X) * len(X if Y is None else Y) <= 49
        return k(X) if Y is None else k(X, Y)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 30, 101, 130])
def test_values_are_those_of_the_definition(kernel, n):
    X, Y = rows(n), rows(7, 1)
    K = gram_of_few(kernel, X)
    assert K is not None and K.shape == (n, n) and K.dtype == np.float64
    assert (K == K.T).all()
    some = np.unique(np.linspace(0, n - 1, 9).astype(int))
    np.testing.assert_allclose(
        K[np.ix_(some, some)], table(kernel, X[some]), rtol=1e-12, atol=1e-14
    )
    np.testing.assert_allclose(K, in_tiles(kernel, X), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        gram_of_few(kernel, Y, X[some]), table(kernel, Y, X[some]), rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_symmetric_to_the_bit_with_the_right_diagonal(kernel):
    X = np.vstack([rows(40), rows(40)[:13], np.zeros((2, 3))])  # equal points, and the origin
    K = kernel(X)
    assert (K == K.T).all()
    np.testing.assert_allclose(np.diag(K), kernel.diag(X), rtol=1e-13)
    np.testing.assert_allclose(K[:13, 40:53], kernel(X[:13], X[40:53]), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kernel", [RBF(1.0), Matern(1.0, nu=1.5), Matern(1.0, nu=0.5)], ids=str)
@pytest.mark.parametrize("n", [3, 40, 170, 350])
def test_near_and_far_points_keep_their_digits(kernel, n):
    """Distances are those of differences, also a million units from the origin."""
    step = 2.0**-12
    X = 1e6 + step * np.arange(n, dtype=float)[:, None] * np.ones(4)
    K = kernel(X)
    s = (step * np.arange(n)) ** 2 * 4
    np.testing.assert_allclose(K[0], kernel.at_squares(s), rtol=1e-11)


@pytest.mark.parametrize("scale", [1e-200, 1e-150, 1e-30, 1e30, 1e150, 1e200])
@pytest.mark.parametrize("kernel", [RBF, Matern, RationalQuadratic])
def test_tiny_and_huge_scales(kernel, scale):
    X = rows(12)
    for length_scale in (scale, np.full(3, scale)):
        np.testing.assert_allclose(kernel(length_scale)(X * scale), kernel(1.0)(X), rtol=1e-10)
    K = kernel(1.0)(X * scale)
    assert np.isfinite(K).all() and (np.diag(K) == 1).all()


def test_sums_of_scales_that_differ_by_far():
    """Slow tails and scales so short that every distance in them overflows."""
    X = rows(15) * 1e60
    slow, short = RationalQuadratic(1.0, alpha=0.01), RBF(1e-120)
    K = (slow + short)(X)
    np.testing.assert_allclose(K, in_tiles(slow, X) + np.eye(15), rtol=1e-9)


def test_nothing_warns_and_what_overflows_is_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        K = RBF(1.0)(np.array([[0.0], [1e200], [-1e200]]))
        np.testing.assert_array_equal(K, np.eye(3))
        with pytest.raises(InvalidInput, match="overflows on these data"):
            Polynomial(3)(np.array([[1e150], [1.0]]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kernel", [RBF(), Linear(), RBF() + White(), Matern() * 2.0], ids=str)
def test_what_is_not_finite_is_refused(kernel, bad):
    X = rows(20)
    X[7, 1] = bad
    for given in ((X,), (X, rows(5)), (rows(5), X)):
        with pytest.raises(InvalidInput, match="not finite"):
            kernel(*given)
    with pytest.raises(InvalidInput):
        KernelRidge(kernel).fit(X, np.zeros(20))


def test_shapes_and_types_that_do_not_fit_are_refused_as_ever():
    with pytest.raises(InvalidInput, match="length scales for 3 columns"):
        RBF([1.0, 2.0])(rows(4))
    with pytest.raises(InvalidInput, match="must have the same columns"):
        RBF()(rows(4), rows(4)[:, :2])
    with pytest.raises(InvalidInput, match="expected 2 dimensions"):
        RBF()(rows(4)[0])
    with pytest.raises(InvalidInput, match="takes a parameter from data"):
        RBF("median")(rows(4), rows(3))
    assert RBF()(np.empty((0, 3))).shape == (0, 0)
    assert RBF()(rows(4), np.empty((0, 3))).shape == (4, 0)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_single_precision_and_other_layouts(kernel):
    X = rows(30).astype(np.float32)
    K = kernel(X)
    assert K.dtype == np.float32 and (K == K.T).all()
    np.testing.assert_allclose(K, kernel(X.astype(np.float64)), rtol=2e-4, atol=1e-5)
    for other in (np.asfortranarray(rows(30)), rows(60)[::2], rows(30).astype(">f8")):
        np.testing.assert_allclose(kernel(other), kernel(np.array(other, dtype=float)), rtol=1e-12)
    mixed = kernel(X, rows(5))
    assert mixed.dtype == np.float64


def test_single_precision_that_overflows_is_refused():
    X = np.full((4, 1), 1e15, dtype=np.float32)
    with pytest.raises(InvalidInput, match="overflow"):
        Polynomial(3)(X)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_little_memory_and_options_do_not_change_values(kernel):
    X = rows(60)
    K = kernel(X)
    with mercer.config(threads=1):
        np.testing.assert_array_equal(kernel(X), K)
    with mercer.config(memory=200_000):
        np.testing.assert_allclose(kernel(X), K, rtol=1e-10, atol=1e-12)
    for seen in (Gram(kernel, X).to_dense(), gram_of(kernel, X).to_dense(out=np.empty((60, 60)))):
        np.testing.assert_array_equal(seen, K)


def test_white_noise_belongs_to_a_point_and_itself():
    """Rows that are equal to training points, or the very array, are other observations."""
    X = rows(15)
    k = RBF() + White(0.5)
    np.testing.assert_allclose(np.diag(k(X)), 1.5)
    np.testing.assert_allclose(np.diag(k(X, X.copy())), 1.0)
    np.testing.assert_allclose(np.diag(gram_of(k, X, X).to_dense()), 1.0)


def test_tensors_stay_tensors_and_keep_their_gradients():
    torch = pytest.importorskip("torch")
    X = rows(10)
    T = torch.tensor(X, requires_grad=True)
    K = (2.0 * RBF(0.9) + Matern(1.8, nu=2.5))(T)
    assert isinstance(K, torch.Tensor)
    K.sum().backward()
    assert torch.isfinite(T.grad).all()
    with mercer.config(engine="torch", device="cpu"):
        np.testing.assert_allclose(RBF()(X), RBF()(X), rtol=1e-12)
        assert gram_of_few(RBF(), X) is None


def test_formulas_of_others_are_followed():
    """A class that changes the profile or the metric is asked itself."""

    class Squared(RBF):
        def _profile(self, s, xp):
            return super()._profile(s, xp) ** 2

    class Stretched(RBF):
        def _to_metric(self, X):
            return X * np.array([1.0, 2.0, 0.5]) / self.length_scale

    class Scaled(RBF):
        def _scale(self, X):
            return 2.0 * np.ones(X.shape[1])

    class Bound(Constant):
        def _bind(self, X, Y=None):
            return RBF(1.0)._bind(X, Y)

    X = rows(20)
    many = np.concatenate([X, rows(1000, seed=1)])
    for kernel in (Scaled(), Scaled() + 1.0, Bound(0.5), Bound(0.5) ** 2):
        corner = kernel(many)[:20, :20]  # whatever a class replaces, few points have the same
        np.testing.assert_allclose(kernel(X), corner, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(Squared()(X), RBF()(X) ** 2, rtol=1e-12)
    stretched = RBF([1.0, 0.5, 2.0])(X)
    np.testing.assert_allclose(Stretched()(X), stretched, rtol=1e-9)
    np.testing.assert_allclose((Stretched() + 1.0)(X), stretched + 1, rtol=1e-9)
    covariance = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.1], [0.0, 0.1, 0.5]])
    L = np.linalg.cholesky(covariance)
    np.testing.assert_allclose(
        RBF(covariance=covariance)(X), RBF()(np.linalg.solve(L, X.T).T), rtol=1e-9
    )
    mixed = RBF().on([0, 1]) + Laplacian(2.0) + Constant(0.5)
    np.testing.assert_allclose(mixed(X), RBF()(X[:, :2]) + Laplacian(2.0)(X) + 0.5, rtol=1e-10)
    assert type(RBF().domain) is Vectors


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_a_part_that_is_shared_is_not_written_to(kernel):
    """The same kernel twice in a sum sees the same distances."""
    X = rows(25)
    np.testing.assert_allclose(
        (kernel + kernel * kernel)(X), kernel(X) + kernel(X) ** 2, rtol=1e-12
    )


@pytest.mark.parametrize("kernel", [RBF(1.1), 2.0 * RBF(0.9) + Matern(1.8, nu=2.5)], ids=str)
@pytest.mark.parametrize("n", [1, 2, 50])
def test_small_fits_and_single_rows(kernel, n):
    X, y = rows(n), np.sin(rows(n)[:, 0])
    model = KernelRidge(kernel, alpha=0.1).fit(X, y)
    dual = np.linalg.solve(table(kernel, X) + 0.1 * np.eye(n), y)
    New = rows(9, 5)
    together = model.predict(New)
    np.testing.assert_allclose(together, table(kernel, New, X) @ dual, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose([model.predict(x[None])[0] for x in New], together, rtol=1e-12)
    process = mercer.GaussianProcessRegressor(kernel, noise=0.1, optimizer=None).fit(X, y)
    mean, std = process.predict(New, return_std=True)
    own = [process.predict(x[None], return_std=True) for x in New]
    np.testing.assert_allclose(np.ravel([m for m, _ in own]), mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.ravel([s for _, s in own]), std, rtol=1e-9)
