"""K-means far from the origin: rounding must not decide what differences of the points decide."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import KMeans

from mercer import (
    RBF,
    Constant,
    DPMeans,
    KernelKMeans,
    KernelNeighborsRegressor,
    KernelPCA,
    Linear,
    Polynomial,
)
from mercer.errors import NotConverged
from mercer.testing.certificates.unsupervised import certify_clusters


def planted(n=20, d=50, offset=1e6, seed=0):
    rng = np.random.default_rng(seed)
    return offset + 0.3 * rng.standard_normal((n, d)) + 3.0 * (np.arange(n) % 2)[:, None]


def peer(X, k, start):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return KMeans(k, init=start, n_init=1, tol=0, max_iter=1000).fit(X)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e5, 1e6, 1e8])
@pytest.mark.parametrize("kernel", [Linear(), Linear() + Constant(3.0), 4.0 * Linear()])
def test_more_columns_than_rows_with_an_offset(kernel, offset):
    X = planted(offset=offset)
    model = KernelKMeans(2, kernel, init=X[:2]).fit(X)
    assert (model.labels_ == np.arange(20) % 2).all() and model.solution_.converged
    assert (model.predict(X) == model.labels_).all()
    assert certify_clusters(model, X) == 0
    assert KernelKMeans(2, kernel, random_state=0).fit(X).labels_.tolist() in (
        (np.arange(20) % 2).tolist(),
        (1 - np.arange(20) % 2).tolist(),
    )


@pytest.mark.parametrize(
    "model",
    [
        KernelKMeans(2, "linear", method="minibatch", max_iter=5, random_state=0),
        DPMeans(4.0, "linear"),
        KernelPCA(2, "linear", eigen_solver="cholesky", rank=10),
        KernelPCA(2, Polynomial(2), eigen_solver="dense"),
        KernelNeighborsRegressor(Polynomial(2), 3),
    ],
    ids=repr,
)
def test_what_kernel_values_do_not_show_after_rounding_is_told(model):
    X = planted(d=3, offset=0.0)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*leaves an error")
        clone(model).fit(X, X[:, 0])
        clone(model).fit(np.ones((20, 3)) * 1e8, X[:, 0])  # nothing is there to be lost
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        with pytest.warns(UserWarning, match="leaves an error of about"):
            clone(model).fit(X + 1e8, X[:, 0])


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e5, 1e6])
@pytest.mark.parametrize("wide", [False, True])
def test_plain_k_means_at_any_offset(wide, offset):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        n, d, k = (40, 60, 4) if wide else (60, 5, 4)
        X = rng.standard_normal((n, d)) + offset
        start = X[rng.choice(n, k, replace=False)]
        ours, other = KernelKMeans(k, "linear", init=start).fit(X), peer(X, k, start)
        assert (ours.labels_ == other.labels_).all()
        assert (ours.predict(X) == ours.labels_).all()
        np.testing.assert_allclose(ours.cluster_centers_, other.cluster_centers_, rtol=1e-9)
        assert certify_clusters(ours, X) == 0


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_column_of_times_since_1970(form):
    rng = np.random.default_rng(3)
    X = 100.0 * (np.arange(20) % 2)[:, None] + rng.standard_normal((20, 41))
    X[:, 40] = 1.7e9 + rng.uniform(-1, 1, 20)
    model = KernelKMeans(2, "linear", init=X[:2]).fit(form(X))
    assert (model.labels_ == np.arange(20) % 2).all()
    assert (model.predict(form(X)) == model.labels_).all()
    assert model.inertia_ == pytest.approx(peer(X, 2, X[:2]).inertia_, rel=1e-6)
    assert certify_clusters(model, form(X)) == 0


def test_a_far_point_does_not_blur_the_others():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((60, 2)), [[1e9, 0.0]]])
    start = X[[0, 1, 2, 60]]
    ours = KernelKMeans(4, "linear", init=start).fit(X)
    assert ours.solution_.converged and ours.labels_[60] == 3
    assert (ours.labels_[:60] == peer(X[:60], 3, start[:3]).labels_).all()
    assert (ours.predict(X) == ours.labels_).all() and certify_clusters(ours, X) == 0


@pytest.mark.parametrize("level", [1.0, 1e6, 1e9])
def test_a_constant_that_is_added_changes_nothing(level):
    X = np.random.default_rng(1).standard_normal((80, 2))
    one = KernelKMeans(4, RBF(1.0), init=X[:4]).fit(X)
    two = KernelKMeans(4, RBF(1.0) + Constant(level), init=X[:4]).fit(X)
    three = KernelKMeans(4, "precomputed", init=np.arange(4)).fit(RBF(1.0)(X) + level)
    for model in (two, three):
        assert (model.labels_ == one.labels_).all() and model.solution_.converged
        assert model.inertia_ == pytest.approx(one.inertia_, rel=1e-14 * level + 1e-9)


@pytest.mark.parametrize("offset", [1e3, 1e5, 1e6])
def test_the_certificate_and_a_given_matrix_far_from_the_origin(offset):
    X = planted(offset=offset)
    K = X @ X.T
    model = KernelKMeans(2, "precomputed", init=[0, 1]).fit(K)
    assert (model.labels_ == np.arange(20) % 2).all() and model.solution_.converged
    assert (model.predict(K) == model.labels_).all()
    for fitted, data in ((model, K), (KernelKMeans(2, "linear", init=X[:2]).fit(X), X)):
        assert certify_clusters(fitted, data) == 0
        fitted.labels_ = np.where(np.arange(20) == 0, 1, 0)  # what rounding once made of it
        assert certify_clusters(fitted, data) > 0.4


def test_integers_on_a_grid_tie_alike_far_from_the_origin():
    grid = np.stack(np.meshgrid(np.arange(6.0), np.arange(6.0)), axis=-1).reshape(-1, 2)
    for kernel in ("linear", Polynomial(2)):
        near = KernelKMeans(3, "linear", init=grid[[0, 5, 30]]).fit(grid)
        far = KernelKMeans(3, "linear", init=grid[[0, 5, 30]] + 1e6).fit(grid + 1e6)
        assert (near.labels_ == far.labels_).all(), kernel
        assert (far.predict(grid + 1e6) == far.labels_).all()
        assert (near.predict(grid) == near.labels_).all()
