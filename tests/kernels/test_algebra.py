"""Sums, products, powers, exp and series as equalities of matrices (K10), and what is refused."""

import math

import numpy as np
import pytest

from mercer import (
    RBF,
    Constant,
    Cosine,
    FromFunction,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Precomputed,
    White,
)
from mercer.errors import InvalidInput, NotAKernel
from mercer.kernels import GCD, Minimum, Product, Sum, as_kernel

K1, K2 = RBF(0.7), Linear()


@pytest.fixture
def X(rng):
    return rng.standard_normal((9, 3))


@pytest.fixture
def Y(rng):
    return rng.standard_normal((5, 3))


def both(kernel, X, Y):
    return kernel(X), kernel(X, Y)


@pytest.mark.parametrize(
    ("kernel", "formula"),
    [
        (K1 + K2, lambda a, b: a + b),
        (K1 * K2, lambda a, b: a * b),
        (2.5 * K1, lambda a, b: 2.5 * a),
        (K1 * 2.5, lambda a, b: 2.5 * a),
        (K1 * np.float32(2.5), lambda a, b: 2.5 * a),
        (0 * K1, lambda a, b: 0 * a),
        (K1 + 1, lambda a, b: a + 1),
        (3 + K1, lambda a, b: a + 3),
        (K2**3, lambda a, b: b**3),
        (K2 ** np.int64(2), lambda a, b: b**2),
        (K1.exp(), lambda a, b: np.exp(a)),
        (K2.series([1, 0, 0.5]), lambda a, b: 1 + 0.5 * b**2),
        (K2.series((0.25,)), lambda a, b: 0.25 + 0 * b),
        (K2.series(iter([0.0, 2.0])), lambda a, b: 2 * b),
        ((K1 + K2) * (K1 + 2), lambda a, b: (a + b) * (a + 2)),
        ((2 * K1 + K2) ** 2, lambda a, b: (2 * a + b) ** 2),
        (sum([K1, K2, K1]), lambda a, b: 2 * a + b),
    ],
    ids=lambda v: repr(v) if not callable(v) or hasattr(v, "theta") else "",
)
def test_identities(kernel, formula, X, Y):
    for got, a, b in zip(both(kernel, X, Y), both(K1, X, Y), both(K2, X, Y), strict=True):
        np.testing.assert_allclose(got, formula(a, b), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kernel.diag(X), np.diag(kernel(X)), rtol=1e-12)


def test_the_polynomial_kernel_is_a_power_of_a_sum(X):
    np.testing.assert_allclose(((Linear() + 0.5) ** 3)(X), Polynomial(3, 0.5)(X), rtol=1e-12)


def test_exp_is_its_series(X):
    k = Cosine()
    series = k.series([1 / math.factorial(m) for m in range(20)])
    np.testing.assert_allclose(k.exp()(X), series(X), rtol=1e-12)


def test_features_of_sums_products_and_powers(X):
    for kernel in (K2 + 2.0, K2 * Polynomial(2), (K2 + 1) ** 2, 3 * K2, K2 + K2):
        phi = kernel.features(X)
        assert phi.shape[1] == kernel.n_features(X)
        np.testing.assert_allclose(phi @ phi.T, kernel(X), rtol=1e-10, atol=1e-10)
    assert (K1 + K2).n_features(X) is None


def test_characteristic_is_inherited_where_it_may_be():
    assert (RBF() + Linear()).characteristic
    assert (2.0 * RBF()).characteristic
    assert (RBF() * Matern()).characteristic
    assert (RBF() ** 2).characteristic
    assert not (RBF() * Linear()).characteristic
    assert not (0.0 * RBF()).characteristic
    assert not (Linear() + Polynomial()).characteristic
    assert not RBF().series([1.0]).characteristic
    assert RBF().series([1.0, 1.0]).characteristic


def test_theta_strings_the_parts_together():
    k = 2.0 * RBF([0.5, 3.0]) + Polynomial(2, 0.7)
    assert k.theta_names == [
        "k1__k1__value",
        "k1__k2__length_scale[0]",
        "k1__k2__length_scale[1]",
        "k2__offset",
    ]
    np.testing.assert_allclose(np.exp(k.theta), [2.0, 0.5, 3.0, 0.7])
    moved = k.with_theta(np.log([1.0, 2.0, 3.0, 4.0]))
    assert moved.k1.k1.value == pytest.approx(1.0)
    np.testing.assert_allclose(moved.k1.k2.length_scale, [2.0, 3.0])
    assert moved.k2.offset == pytest.approx(4.0)
    with pytest.raises(InvalidInput, match="expected"):
        k.with_theta([1.0])


# ------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    "attempt",
    [lambda: RBF() - Linear(), lambda: RBF() - 1.0, lambda: 2.0 - RBF()],
    ids=["k1 - k2", "k - 1", "2 - k"],
)
def test_a_difference_is_refused_with_the_reason(attempt):
    with pytest.raises(NotAKernel, match=r"not a kernel in general.*negative"):
        attempt()


def test_minus_k_is_refused_with_the_reason():
    with pytest.raises(NotAKernel, match=r"-k is not a kernel.*squared length"):
        -RBF()


def test_a_combination_does_not_change_with_its_parts():
    part = RBF(1.0)
    whole = [part + Linear(), 2.0 * part, part**2, part.exp(), part.on(0), part.normalized()]
    before = [repr(k) for k in whole]
    part.set_params(length_scale=5.0)
    assert [repr(k) for k in whole] == before
    inner = RBF(1.0) + Linear()
    outer = 2.0 * inner
    inner.k1.set_params(length_scale=9.0)
    assert outer.k2.k1.length_scale == 1.0


def test_sum_and_division(rng):
    X = rng.standard_normal((6, 2))
    assert sum([RBF(), Linear()]) == RBF() + Linear()
    np.testing.assert_allclose((RBF() / 4)(X), 0.25 * RBF()(X))
    with pytest.raises(NotAKernel, match="> 0"):
        RBF() / -1.0
    with pytest.raises(InvalidInput, match="numbers"):
        RBF() / RBF()


def test_kernels_of_scikit_learn_are_refused_with_a_cure():
    from sklearn.gaussian_process.kernels import RBF as PeerRBF
    from sklearn.metrics.pairwise import rbf_kernel

    for peer in (PeerRBF(), rbf_kernel):
        with pytest.raises(InvalidInput, match=r"mercer\.RBF"):
            as_kernel(peer)


@pytest.mark.parametrize("c", [-1, -1e-300, float("-inf"), np.float64(-2)])
@pytest.mark.parametrize("combine", [lambda k, c: c * k, lambda k, c: k * c, lambda k, c: k + c])
def test_negative_multiples_are_refused(combine, c):
    with pytest.raises(NotAKernel, match="≥ 0"):
        combine(RBF(), c)


@pytest.mark.parametrize("c", [math.inf])
def test_infinite_multiples_are_refused(c):
    with pytest.raises(InvalidInput):
        c * RBF()


@pytest.mark.parametrize("p", [0.5, -1, 0, 2.0, "2", None, True, 1.5])
def test_other_powers_are_refused(p):
    with pytest.raises(NotAKernel, match="whole powers"):
        RBF() ** p


@pytest.mark.parametrize(
    ("coefficients", "error"),
    [
        ([1.0, -1e-9], NotAKernel),
        ([-1.0], NotAKernel),
        ([], InvalidInput),
        ([math.nan], InvalidInput),
        ([math.inf], InvalidInput),
        (["a"], InvalidInput),
        ([[1.0]], InvalidInput),
    ],
    ids=repr,
)
def test_bad_series(coefficients, error):
    with pytest.raises(error, match="series"):
        RBF().series(coefficients)


def test_the_negative_coefficient_is_named():
    with pytest.raises(NotAKernel, match=r"c2 = -0\.5"):
        RBF().series([1, 0, -0.5])


@pytest.mark.parametrize("other", ["rbf", None, [1.0], RBF, True, 1j, np.eye(2)], ids=repr)
def test_what_is_neither_kernel_nor_number_is_refused(other):
    for attempt in (lambda: RBF() + other, lambda: RBF() * other):
        with pytest.raises((InvalidInput, TypeError)):
            attempt()


def test_kernels_that_share_no_points_do_not_combine():
    with pytest.raises(InvalidInput, match="precomputed"):
        RBF() + Precomputed()
    with pytest.raises(InvalidInput, match="is not a Kernel"):
        Sum(RBF(), 2.0)
    with pytest.raises(InvalidInput, match="is not a Kernel"):
        Product("rbf", RBF())


def test_numbers_kernels_keep_their_domain_in_a_sum():
    with pytest.raises(InvalidInput, match="legal are"):
        (Minimum() + Minimum())([-1.0])
    with pytest.raises(InvalidInput, match="legal are"):
        (GCD() * Laplacian())([[1.5]])
    assert (GCD() + Minimum())([2, 4])[0, 1] == 4.0


def test_precomputed_kernels_combine_with_each_other_and_with_constants():
    K = np.array([[2.0, 1.0], [1.0, 2.0]])
    np.testing.assert_array_equal((Precomputed() + Precomputed())(K), 2 * K)
    np.testing.assert_array_equal((2.0 * Precomputed())(K), 2 * K)


def test_white_noise_in_a_sum_is_on_the_diagonal_only(X):
    k = RBF() + White(0.5)
    np.testing.assert_allclose(k(X), RBF()(X) + 0.5 * np.eye(9), atol=1e-15)
    np.testing.assert_allclose(k(X, X.copy()), RBF()(X), atol=1e-12)
    np.testing.assert_allclose(k(X, X), k(X))


def test_functions_of_objects_combine_with_vector_kernels(X):
    k = FromFunction(lambda a, b: float(a @ b)) + RBF()
    np.testing.assert_allclose(k(X), Linear()(X) + RBF()(X), atol=1e-12)


@pytest.mark.parametrize("combine", [lambda k, c: c * k, lambda k, c: k * c, lambda k, c: k + c])
@pytest.mark.parametrize("c", [float("nan"), np.float32("nan")])
def test_nan_is_called_what_it_is(combine, c):
    with pytest.raises(InvalidInput, match="not a number") as info:
        combine(RBF(), c)
    assert "negative" not in str(info.value)


# ------------------------------------------------------------------- dtype of combinations
COMPANY = [
    lambda k: 2.0 * k,
    lambda k: k * 2.0,
    lambda k: White(0.5) + k,
    lambda k: (2.0 * White()) ** 2 + (k + 1.0),
    lambda k: (Constant().on("b") + White()).exp() * k,
    lambda k: (1.0 + k).normalized(),
    lambda k: (3.0 * Constant()).series([0.0, 1.0]) + k,
]


@pytest.mark.parametrize("combine", COMPANY)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constants_follow_the_dtype_of_their_company(combine, dtype, rng):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": rng.standard_normal(6).astype(dtype), "b": list("xyzxyz")})
    k, alone = combine(RBF().on("a")), RBF().on("a")
    assert alone(frame).dtype == dtype
    for K in (k(frame), k(frame, frame[:3]), k.diag(frame), k.matmul(frame, None, np.ones(6))):
        assert K.dtype == dtype
    np.testing.assert_allclose(k.diag(frame), k(frame).diagonal(), rtol=1e-6)
    wide = k(frame.assign(a=frame["a"].astype(float)))
    np.testing.assert_allclose(k(frame), wide, rtol=1e-5)
    W = np.ones((6, 6))
    np.testing.assert_allclose(
        k.theta_vjp(frame, W), k.theta_vjp(frame.assign(a=frame["a"].astype(float)), W), rtol=1e-4
    )
    phi = (2.0 * Linear().on("a") + 1.0).features(frame)
    assert phi.dtype == dtype and phi.shape == (6, 2)


def test_constants_follow_a_warp_to_torch(torch):
    words = ["a", "bb", "cccc"]
    k = RBF().warp(lambda ws: torch.tensor([[float(len(w))] for w in ws]))
    got = (2.0 * k + 1.0)(words)
    np.testing.assert_allclose(np.asarray(got), 2 * np.asarray(k(words)) + 1, rtol=1e-6)
    np.testing.assert_allclose(np.asarray((2.0 * k + 1.0).diag(words)), 3.0)


def test_two_constants_have_the_dtype_of_the_points():
    k = 2.0 * Constant() + White()
    assert k(np.zeros((2, 1), np.float32)).dtype == np.float32
    assert k(["a", "b"]).dtype == np.float64


# ------------------------------------------------------------------- combined kernel values
@pytest.mark.parametrize(
    "k",
    [2.0 * Precomputed(), Precomputed() + 1.0, Precomputed() ** 2, Precomputed().exp(),
     Precomputed() * Precomputed(), (2.0 * Precomputed()).series([1.0, 1.0])],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), "square"),
        (np.array([[1.0, 0.5], [0.4, 1.0]]), r"not symmetric: K\[0, 1\] = 0.5"),
        (np.array([[1.0, 0.0], [0.0, -2.0]]), r"K\[1, 1\] = -2 < 0"),
        (np.arange(3), "positions"),
    ],
    ids=["not square", "asymmetric", "negative", "positions"],
)
def test_combined_kernel_values_are_checked_too(k, matrix, message):
    for call in (k, k.diag, lambda K: k.matmul(K, None, np.ones(len(K)))):
        with pytest.raises(InvalidInput, match=message):
            call(matrix)
    with pytest.raises(InvalidInput, match="6 training points"):
        k(np.eye(2), np.array([5]))


@pytest.mark.parametrize("k", [Precomputed(), 2.0 * Precomputed() + 1.0], ids=repr)
def test_kernel_values_are_not_normalised(k):
    with pytest.raises(InvalidInput, match=r"K / r\[:, None\] / r"):
        k.normalized()


def test_normalising_keeps_a_kernel_characteristic():
    assert (RBF() + Linear()).normalized().characteristic
    assert not Linear().normalized().characteristic
    assert (2.0 * RBF()).normalized().series([0.0, 0.0, 1.0]).characteristic
    assert not RBF().series([1.0]).characteristic
