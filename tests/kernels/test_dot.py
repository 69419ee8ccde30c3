"""Linear, polynomial, exponential and cosine kernels: K1, K2, K3, K8 of the specification."""

import math
from itertools import combinations_with_replacement

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import pairwise

from mercer import RBF, Cosine, Exponential, Linear, Polynomial
from mercer.errors import InvalidInput, NotAKernel


def test_definitions():
    x, y = [[1.0, 2.0]], [[3.0, -4.0]]
    assert Linear()(x, y)[0, 0] == -5.0
    assert Linear([[2.0, 1.0], [1.0, 3.0]])(x, y)[0, 0] == pytest.approx(-16.0)
    assert Polynomial(3, 2.0)(x, y)[0, 0] == -27.0
    assert Exponential(2.0)(x, y)[0, 0] == pytest.approx(math.exp(-5 / 4))
    assert Cosine()(x, y)[0, 0] == pytest.approx(-5 / (math.sqrt(5) * 5))


def test_the_xor_gram_matrix():
    # (1 + xᵀx′)² on the four corners (S4): 9 on the diagonal, 1 elsewhere
    X = [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]]
    np.testing.assert_array_equal(Polynomial(2, 1.0)(X), 8 * np.eye(4) + 1)


def test_equal_to_scikit_learn(rng):
    X, Y = rng.standard_normal((20, 4)), rng.standard_normal((15, 4))
    np.testing.assert_allclose(Linear()(X, Y), pairwise.linear_kernel(X, Y), atol=1e-13)
    np.testing.assert_allclose(
        Polynomial(4, 0.5)(X, Y), pairwise.polynomial_kernel(X, Y, 4, 1.0, 0.5), rtol=1e-11
    )
    np.testing.assert_allclose(Cosine()(X, Y), pairwise.cosine_similarity(X, Y), atol=1e-13)


# ------------------------------------------------------------------------ explicit features
@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("m", [1, 2, 3, 5])
@pytest.mark.parametrize("c", [0.0, 0.3, 1.0])
def test_polynomial_features(d, m, c, rng):
    kernel = Polynomial(m, c)
    X = rng.standard_normal((7, d))
    phi = kernel.features(X)
    expected = math.comb(d + m, m) if c > 0 else math.comb(d + m - 1, m)
    assert phi.shape == (7, expected) and kernel.n_features(X) == expected
    np.testing.assert_allclose(phi @ phi.T, kernel(X), rtol=1e-10, atol=1e-10)


def test_polynomial_features_have_multinomial_weights():
    # (xᵀx′ + c)² in the plane: c, √2c x₁, √2c x₂, x₁², √2 x₁x₂, x₂²
    x, c = np.array([[2.0, 3.0]]), 0.5
    expected = [c, math.sqrt(2 * c) * 2, math.sqrt(2 * c) * 3, 4, math.sqrt(2) * 6, 9]
    np.testing.assert_allclose(np.sort(Polynomial(2, c).features(x)[0]), np.sort(expected))


def test_polynomial_features_are_every_monomial(rng):
    d, m, c = 3, 4, 2.0
    x = rng.standard_normal(d)
    expected = []
    for degree in range(m + 1):
        for powers in combinations_with_replacement(range(d), degree):
            counts = [powers.count(k) for k in range(d)] + [m - degree]
            multinomial = math.factorial(m) / math.prod(map(math.factorial, counts))
            monomial = math.prod(x[k] for k in powers)
            expected.append(math.sqrt(multinomial * c ** (m - degree)) * monomial)
    np.testing.assert_allclose(np.sort(Polynomial(m, c).features([x])[0]), np.sort(expected))


def test_features_of_sparse_rows_and_of_zero_vectors():
    X = sp.csr_array([[0.0, 1.0], [0.0, 0.0], [2.0, 0.0]])
    for kernel in (Linear(), Polynomial(2), Polynomial(2, 0.0), Cosine(), Linear(np.eye(2))):
        phi = kernel.features(X)
        phi = phi.toarray() if sp.issparse(phi) else phi
        np.testing.assert_allclose(phi @ phi.T, kernel(X), atol=1e-14)


def test_linear_features_with_a_singular_matrix(rng):
    F = rng.standard_normal((4, 2))
    kernel, X = Linear(F @ F.T), rng.standard_normal((6, 4))
    np.testing.assert_allclose(kernel(X), (X @ F) @ (X @ F).T, atol=1e-12)
    np.testing.assert_allclose(kernel.features(X) @ kernel.features(X).T, kernel(X), atol=1e-12)


def test_the_exponential_kernel_normalised_is_the_rbf(rng):
    X = rng.standard_normal((10, 3))
    np.testing.assert_allclose(Exponential(1.7).normalized()(X), RBF(1.7)(X), atol=1e-13)


def test_the_exponential_kernel_has_no_finite_features(rng):
    assert Exponential().n_features(np.ones((2, 2))) is None
    with pytest.raises(InvalidInput, match="no finite feature map"):
        Exponential().features(np.ones((2, 2)))


# ---------------------------------------------------------------------------------- cosine
def test_cosine_of_a_zero_vector_is_zero():
    X = np.array([[0.0, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(Cosine()(X), [[0, 0], [0, 1]], atol=1e-15)
    np.testing.assert_allclose(Cosine().diag(X), [0, 1])
    np.testing.assert_allclose(Cosine()(sp.csr_array(X)), [[0, 0], [0, 1]], atol=1e-15)


@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e160, 1e300])
def test_cosine_does_not_over_or_underflow(scale):
    X = np.array([[3.0, 4.0], [4.0, 3.0]])
    np.testing.assert_allclose(Cosine()(scale * X), Cosine()(X), rtol=1e-14)


def test_cosine_is_the_normalised_linear_kernel(rng):
    X = rng.standard_normal((8, 3))
    np.testing.assert_allclose(Cosine()(X), Linear().normalized()(X), atol=1e-14)


# ------------------------------------------------------------------------------ bad input
@pytest.mark.parametrize("degree", [0, -1, 1.5, 2.0, "2", None, True, math.nan])
def test_degree_is_whole_and_positive(degree):
    with pytest.raises(InvalidInput, match="Polynomial: degree"):
        Polynomial(degree)


@pytest.mark.parametrize("offset", [-1e-9, -1.0, math.nan, math.inf, "1", None, [1.0]])
def test_offset_is_not_negative(offset):
    with pytest.raises(InvalidInput, match="Polynomial: offset"):
        Polynomial(2, offset)


def test_linear_covariance_must_be_positive_semidefinite():
    with pytest.raises(NotAKernel, match="smallest eigenvalue"):
        Linear([[1.0, 0.0], [0.0, -1.0]])
    with pytest.raises(NotAKernel, match="not symmetric"):
        Linear([[1.0, 1.0], [0.0, 1.0]])
    with pytest.raises(InvalidInput, match="covariance is 2 × 2 but X has 3 columns"):
        Linear(np.eye(2))(np.ones((1, 3)))
    with pytest.raises(InvalidInput, match="covariance"):
        Linear("identity")
    with pytest.raises(InvalidInput, match="covariance"):
        Linear([[math.nan]])


def test_exponential_takes_one_scale():
    with pytest.raises(InvalidInput, match="one number"):
        Exponential([1.0, 2.0])
    with pytest.raises(InvalidInput, match="Exponential: length_scale"):
        Exponential(0.0)


def test_integer_rows_are_computed_in_floating_point():
    X = np.array([[200, 100]], dtype=np.uint8)
    assert Linear()(X)[0, 0] == 50_000.0
    assert Polynomial(2, 0.0)(X)[0, 0] == 2.5e9


def test_degree_may_be_a_numpy_integer():
    assert Polynomial(np.int64(2))([[1.0]])[0, 0] == 4.0


@pytest.mark.parametrize("scale", [1e-310, 1e-170, 1e170, 1e307])
@pytest.mark.parametrize("kind", [np.array, sp.csr_array], ids=["dense", "sparse"])
def test_cosine_does_not_depend_on_the_units(scale, kind, rng):
    X = rng.standard_normal((6, 4))
    X[0, 1:] = 0
    X[3] = 0
    Y = rng.standard_normal((2, 4))
    np.testing.assert_allclose(Cosine()(kind(scale * X)), Cosine()(X), atol=1e-9)
    np.testing.assert_allclose(Cosine()(kind(scale * X), kind(Y)), Cosine()(X, Y), atol=1e-9)
    assert Cosine()(kind(scale * X)).diagonal().tolist() == pytest.approx([1, 1, 1, 0, 1, 1])
    if scale < 1e300:
        G = Cosine().gradient(kind(X), kind(Y), np.ones(2))
        moved = Cosine().gradient(kind(1e170 * X), kind(Y), np.ones(2))
        np.testing.assert_allclose(1e170 * moved[X.any(1)], G[X.any(1)], atol=1e-12)


def test_cosine_of_entries_stored_twice():
    X = sp.csr_array((np.array([1.0, 2.0, 4.0]), np.array([0, 0, 1]), [0, 3]), shape=(1, 2))
    Y = sp.csr_array([[1.0, 0.0]])
    assert Cosine()(X, Y)[0, 0] == pytest.approx(0.6)
    assert X.nnz == 3  # the user's matrix stays as it was
