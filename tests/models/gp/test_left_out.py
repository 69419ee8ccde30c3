"""Leave-one-out of Gaussian processes against conditionals written out, and against refits."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import RBF
from mercer.errors import InvalidInput
from mercer.models.gp.evidence import Evidence
from mercer.models.gp.left_out import leave_out

KERNEL = 1.3 * RBF(0.8)


def problem(rng, n=14, t=2, q=2, vector=True):
    X = rng.standard_normal((n, 2))
    Z = rng.standard_normal((n, t))
    H = np.column_stack([np.ones(n), X[:, 0], X[:, 1]])[:, :q]
    w = rng.uniform(0.3, 3.0, n)
    noise = rng.uniform(0.05, 0.5, n) if vector else 0.2
    return X, Z, H, w, noise


def given_the_others(C, H, Z, S):
    """Mean and variance of rows S given the others: generalised least squares, then kriging."""
    T = np.setdiff1d(np.arange(len(Z)), S)
    inverse = np.linalg.inv(C[np.ix_(T, T)])
    cross = C[np.ix_(S, T)] @ inverse
    A = np.linalg.inv(H[T].T @ inverse @ H[T])
    beta = A @ H[T].T @ inverse @ Z[T]
    rest = H[S] - cross @ H[T]
    mean = H[S] @ beta + cross @ (Z[T] - H[T] @ beta)
    covariance = C[np.ix_(S, S)] - cross @ C[np.ix_(T, S)] + rest @ A @ rest.T
    return mean, np.diagonal(covariance)


@pytest.mark.parametrize("q", [0, 1, 3])
@pytest.mark.parametrize("vector", [True, False])
def test_is_the_conditional(rng, q, vector):
    X, Z, H, w, noise = problem(rng, q=q, vector=vector)
    fit = Evidence(X, Z, w, H).posterior(KERNEL, noise)
    C = KERNEL(X) + np.diag(noise / w)
    for groups in (None, rng.integers(0, 5, len(X))):
        mean, variance = leave_out(fit, Z, H, groups, "loo")
        for i in range(len(X)):
            S = np.array([i]) if groups is None else np.flatnonzero(groups == groups[i])
            expected, spread = given_the_others(C, H, Z, S)
            at = int(np.flatnonzero(S == i)[0])
            np.testing.assert_allclose(mean[i], expected[at], rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(variance[i], spread[at], rtol=1e-10)


def test_one_row_leaves_the_prior():
    X, Z = np.zeros((1, 1)), np.array([[2.0]])
    fit = Evidence(X, Z).posterior(KERNEL, 0.5)
    mean, variance = leave_out(fit, Z, np.zeros((1, 0)), None, "loo")
    np.testing.assert_allclose(mean, [[0.0]], atol=1e-15)
    np.testing.assert_allclose(variance, [1.8])


def test_a_row_that_the_basis_needs(rng):
    X = np.array([[0.0], [0.0], [0.0], [1.0]])
    H, Z = np.column_stack([np.ones(4), X]), rng.standard_normal((4, 1))
    fit = Evidence(X, Z, None, H).posterior(KERNEL, 0.5)
    with pytest.raises(InvalidInput, match="without row 3 the others"):
        leave_out(fit, Z, H, None, "loo")
    with pytest.raises(InvalidInput, match="without row"):
        leave_out(fit, Z, H, np.array([0, 1, 1, 1]), "loo")
