"""A symmetric matrix between orthogonal factors and a band: sizes, scales, shifts, limits."""

import numpy as np
import pytest

from mercer.solvers.linear import Band

SIZES = [1, 2, 3, 63, 64, 65, 66, 127, 128, 129, 200]


def dense(band, n):
    """Write out the band."""
    B = np.zeros((n, n))
    for k, row in enumerate(band.diagonals):
        some = row[: n - k] if k < n else row[:0]
        B += np.diag(some, -k) + (np.diag(some, k) if k else 0)
    return B


def semidefinite(rng, n, rank=None):
    F = rng.standard_normal((n, rank or n))
    return np.asfortranarray(F @ F.T)


@pytest.mark.parametrize("n", SIZES)
def test_the_factors_are_those_of_the_matrix(rng, n):
    A = rng.standard_normal((n, n))
    A = np.asfortranarray(A + A.T)  # indefinite too
    band = Band.of(A.copy(order="F"))
    Q = band.back(np.eye(n))
    np.testing.assert_allclose(Q.T @ Q, np.eye(n), atol=1e-13)
    np.testing.assert_allclose(Q @ dense(band, n) @ Q.T, A, atol=1e-13 * n)
    np.testing.assert_allclose(band.turned(np.eye(n)), Q.T, atol=1e-13)


def test_only_the_lower_triangle_is_read(rng):
    A = semidefinite(rng, 100)
    spoiled = A.copy(order="F")
    spoiled[np.triu_indices(100, 1)] = np.nan
    first, second = Band.of(A), Band.of(spoiled)
    assert np.array_equal(first.diagonals, second.diagonals)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("scale", [1e-120, 1.0, 1e120])
def test_residuals_are_those_of_a_factorisation(rng, n, scale):
    A = scale * semidefinite(rng, n, max(1, n // 3))
    b = rng.standard_normal((n, 2))
    band = Band.of(A.copy(order="F"))
    turned = band.turned(b)
    for alpha in scale * np.array([1e-10, 1e-3, 10.0]):
        z = band.back(band.solve(alpha, turned))
        left = A @ z + alpha * z - b
        size = np.linalg.norm(A, 2) * np.linalg.norm(z, axis=0) + 1
        assert (np.linalg.norm(left, axis=0) <= 50 * n * np.finfo(float).eps * size).all()


def test_zeros_duplicates_and_diagonals(rng):
    for A in (np.zeros((70, 70)), np.ones((70, 70)), np.diag(np.arange(70.0))):
        band = Band.of(np.asfortranarray(A))
        z = band.back(band.solve(0.5, band.turned(np.ones((70, 1)))))
        np.testing.assert_allclose(A @ z + 0.5 * z, np.ones((70, 1)), atol=1e-10)


def test_what_is_not_positive_definite_has_no_solution(rng):
    A = semidefinite(rng, 90) - 50 * np.eye(90)
    band = Band.of(np.asfortranarray(A))
    assert band.solve(1.0, band.turned(np.ones((90, 1)))) is None
    lowest = -np.linalg.eigvalsh(A).min()
    assert band.solve(lowest + 1.0, band.turned(np.ones((90, 1)))) is not None


def test_it_ends_when_it_is_told_to(rng):
    assert Band.of(semidefinite(rng, 200), lambda: True) is None
