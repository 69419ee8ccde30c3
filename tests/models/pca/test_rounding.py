"""Components of points far from 0, or nearly equal in feature space: digits kept, or loss told."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from mercer import PCA, RBF, KernelPCA, Linear
from mercer.errors import NotConverged

SOLVERS = ["dense", "subspace", "cholesky"]


def points(n=60, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def test_nearly_constant_kernels_are_not_called_indefinite():
    X = points(600)
    for length in (1e3, 1e5):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = KernelPCA(3, RBF(length), eigen_solver="subspace").fit(X)
        truth = KernelPCA(3, "linear").fit(X).eigenvalues_ / length**2
        np.testing.assert_allclose(model.eigenvalues_, truth, rtol=1e-5)


def test_rounding_of_nearly_equal_points_is_told():
    X = points(300)
    for options in ({}, {"tol": 1e-7}):
        with pytest.warns(NotConverged, match="nearly equal"):
            model = KernelPCA(3, RBF(1e7), eigen_solver="subspace", **options).fit(X)
        assert not model.solution_.converged and model.solution_.residual > 1e-5
    with pytest.warns(NotConverged, match=r"above 1e-09"):  # what was asked for is what judges
        KernelPCA(3, RBF(1e5), eigen_solver="subspace", tol=1e-9).fit(X)
    truth = KernelPCA(3, "linear").fit(X).explained_variance_ratio_
    for length in (1e5, 1e6, 1e7):
        model = KernelPCA(3, RBF(length), eigen_solver="cholesky").fit(X)
        off = np.abs(model.explained_variance_ratio_ - truth).max()
        assert off <= model.approximation_error_ <= 1
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            dense = KernelPCA(3, RBF(length), eigen_solver="dense").fit(X)
        assert dense.solution_.converged == (length < 1e6) == (not caught)
        off = np.abs(dense.explained_variance_ratio_ - truth).max()
        assert off <= 10 * dense.solution_.extra["rounding"]


@pytest.mark.parametrize("shape", [(20, 50), (60, 80), (40, 500), (520, 700)])
@pytest.mark.parametrize("offset", [1e3, 1e6, 1e8])
def test_more_columns_than_rows_far_from_0(shape, offset):
    X = points(*shape) + offset
    near = X - X.mean(axis=0)
    truth = np.linalg.eigvalsh(near @ near.T)[::-1][:3]
    for kernel in ("linear", 2.0 * Linear() + 3.0):
        model = KernelPCA(3, kernel).fit(X)
        assert model.eigen_solver_ == "features" and model.solution_.converged
        # √2 x has a rounding of its own
        factor, rtol = (1.0, 1e-9) if kernel == "linear" else (2.0, 1e-7)
        np.testing.assert_allclose(model.eigenvalues_, factor * truth, rtol=rtol)
        Z = model.transform(X)
        np.testing.assert_allclose((Z**2).sum(axis=0), model.eigenvalues_, rtol=1e-7)
        np.testing.assert_allclose(model.fit_transform(X), Z, atol=1e-6)
    if len(X) < 100:
        np.testing.assert_allclose(PCA(3).fit(X).singular_values_ ** 2, truth, rtol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("offset", [1e6, 1e7, 1e8, 1e9])
def test_points_lost_in_rounding_are_not_called_converged(solver, offset):
    X = points(20, 50) + offset
    if solver == "cholesky" and offset < 1e8:  # its error says it
        model = KernelPCA(3, "linear", eigen_solver=solver).fit(X)
        assert model.approximation_error_ > 1e-4
        return
    with pytest.warns(NotConverged):
        model = KernelPCA(3, "linear", eigen_solver=solver).fit(X)
    assert not model.solution_.converged


@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_nothing_is_told_where_features_keep_the_digits(offset):
    X = points(55, 4, seed=5)
    far = X + offset
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        near, model = KernelPCA(2, Linear()).fit(far - offset), KernelPCA(2, Linear()).fit(far)
    want = near.transform(far - offset)
    np.testing.assert_allclose(model.transform(far), want, atol=1e-15 * offset)
    np.testing.assert_allclose(model.function_(far), want, atol=1e-14 * offset)
    with pytest.warns(UserWarning, match="Subtract the means of the columns"):
        KernelPCA(2, lambda a, b: float(a @ b)).fit(far)
