"""K-means for many points: tiles, pivots and batches inside the memory budget, and their errors."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import mercer
from mercer import RBF, KernelKMeans, Matern
from mercer.errors import MemoryBudgetExceeded, NotConverged
from mercer.estimator import choice
from mercer.models.cluster import kmeans_fit
from mercer.models.cluster.lloyd import WINDOW, step_batches
from mercer.models.cluster.spaces import pivoted_features
from mercer.operators import Dense
from mercer.testing.certificates.unsupervised import certify_clusters

rng = np.random.default_rng(0)
CENTRES = 4 * rng.standard_normal((5, 3))
TRUTH = rng.integers(0, 5, 900)
X = CENTRES[TRUTH] + 0.5 * rng.standard_normal((900, 3))
KERNEL = RBF(2.0)


def exact_inertia(K, labels, w):
    total = float(w @ K.diagonal())
    for c in np.unique(labels):
        a = np.where(labels == c, w, 0.0)
        total -= a @ K @ a / a.sum() if a.any() else 0.0
    return total


def test_tiles_say_what_the_stored_matrix_says():
    start, w = rng.integers(0, 5, 900), rng.choice([0.0, 1.0, 2.5], 900)
    whole = KernelKMeans(5, KERNEL, init=start, method="exact").fit(X, sample_weight=w)
    for memory in (4_000_000, 1_000_000):
        with mercer.config(memory=memory):
            tiled = KernelKMeans(5, KERNEL, init=start, method="exact").fit(X, sample_weight=w)
            assert (tiled.predict(X) == whole.labels_).all()
        assert (tiled.labels_ == whole.labels_).all()
        np.testing.assert_allclose(tiled.inertia_path_, whole.inertia_path_, rtol=1e-11)


@pytest.mark.parametrize(
    ("method", "share"), [("exact", 0.3), ("nystrom", 0.8), ("minibatch", 0.8)]
)
def test_a_fit_stays_inside_the_budget(method, share):
    n = 1500
    points = np.resize(X, (n, 3)) + 0.01 * rng.standard_normal((n, 3))
    budget = int(share * 8 * n * n)
    model = KernelKMeans(5, KERNEL, method=method, rank=50, batch_size=128, random_state=0)
    model.fit(points[:100])
    tracemalloc.start()
    try:
        with mercer.config(memory=budget):
            model.fit(points).predict(points)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 1.1 * budget + 2e5
    assert certify_clusters(model, points) == 0


def test_what_does_not_fit_is_refused_before_it_is_computed():
    for method, cure in [("nystrom", "smaller rank"), ("minibatch", "smaller batch_size")]:
        with (
            mercer.config(memory=400_000),
            pytest.raises(MemoryBudgetExceeded, match=cure),
        ):
            KernelKMeans(5, KERNEL, method=method).fit(X)
    with mercer.config(memory=200_000), pytest.raises(MemoryBudgetExceeded, match="fewer clusters"):
        KernelKMeans(5, KERNEL, method="exact").fit(X)


def test_auto_follows_its_rule(monkeypatch):
    def method(memory, kernel=KERNEL, data=X, **params):
        with mercer.config(memory=memory):
            model = KernelKMeans(3, kernel, random_state=0, batch_size=50, **params)
            return model.fit(data).method_

    K = 8 * 900**2
    assert method(2 * K - 2) == "exact"  # in tiles, which do not take long
    monkeypatch.setattr(choice, "LIMIT", 0.0)
    assert method(2 * K) == "exact"
    assert method(2 * K - 2) == "nystrom"
    assert method(2 * K - 2, "linear") == "exact"  # three features
    assert method(4 * K, "precomputed", np.asarray(KERNEL(X))) == "exact"
    pivots = 4 * 8 * 900 * 100
    assert method(pivots) == "nystrom"
    assert method(pivots - 1) == "minibatch"
    monkeypatch.setattr(kmeans_fit, "MOST_EXACT", 899)
    assert method(2 * K) == "nystrom"


# ------------------------------------------------------------------------------------ pivots
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rank", [5, 30, 120])
def test_the_error_of_pivots_bounds_that_of_the_inertia(rank, weighted):
    w = rng.choice([0.0, 1.0, 3.0], 900) if weighted else np.ones(900)
    kernel = Matern(1.0)
    model = KernelKMeans(5, kernel, method="nystrom", rank=rank, random_state=0)
    model.fit(X, sample_weight=w)
    K = np.asarray(kernel(X))
    true = exact_inertia(K, model.labels_, w)
    slack = model.approximation_error_ * float(w @ K.diagonal())
    assert 0 < model.approximation_error_ < 1
    assert model.inertia_ - slack - 1e-9 <= true <= model.inertia_ + 1e-9
    assert model.inertia_ == pytest.approx(-model.score(X, sample_weight=w), rel=1e-9)
    assert model.solution_.extra["approximation_error"] == model.approximation_error_
    assert len(model.X_fit_) == rank and model.center_coef_.shape == (rank, 5)
    assert (model.predict(X) == model.labels_).all()
    assert certify_clusters(model, X, weights=w) == 0
    path = model.inertia_path_
    assert (np.diff(path) < 0).all() and path[-1] == model.inertia_


def test_all_pivots_are_exact():
    points, start = X[:80], TRUTH[:80] % 3
    exact = KernelKMeans(3, KERNEL, init=start).fit(points)
    pivots = KernelKMeans(3, KERNEL, init=start, method="nystrom", rank=80).fit(points)
    assert pivots.approximation_error_ < 1e-8
    assert (exact.labels_ == pivots.labels_).all()
    assert exact.inertia_ == pytest.approx(pivots.inertia_, rel=1e-6)
    K = np.asarray(KERNEL(points))
    given = KernelKMeans(3, "precomputed", init=start, method="nystrom", rank=80).fit(K)
    assert (given.labels_ == exact.labels_).all()
    assert (given.predict(K) == exact.labels_).all()


def test_features_of_pivots_reproduce_kernel_values_with_them():
    K, w = np.asarray(KERNEL(X[:60])), rng.choice([0.0, 1.0, 4.0], 60)
    low = pivoted_features(Dense(K, symmetric=True), K.diagonal(), w, 12, np.random.RandomState(0))
    F = (low.F + low.mean[:, None]).T
    np.testing.assert_allclose(F @ F[low.pivots].T, K[:, low.pivots], atol=1e-9)
    assert (w[low.pivots] > 0).all()
    left = w @ (K.diagonal() - (F**2).sum(1))
    assert low.error == pytest.approx(left) and low.share == pytest.approx(left / w.sum())
    np.testing.assert_allclose(low.F @ w, 0, atol=1e-9)


# ----------------------------------------------------------------------------------- batches
@pytest.mark.parametrize("init", ["k-means++", "random", X[[0, 1, 2, 3, 4]], TRUTH])
def test_batches_find_what_sweeps_find(init):
    model = KernelKMeans(5, KERNEL, init=init, method="minibatch", batch_size=200, n_init=3)
    model.set_params(random_state=1).fit(X)
    labelled = isinstance(init, np.ndarray) and init.ndim == 1
    exact = KernelKMeans(5, KERNEL, init=TRUTH).fit(X)
    if labelled or isinstance(init, str):
        assert adjusted_rand_score(model.labels_, exact.labels_) > 0.95
        assert exact.inertia_ <= model.inertia_ * (1 + 1e-9) <= 1.05 * exact.inertia_
    assert (model.predict(X) == model.labels_).all()
    assert model.inertia_ == pytest.approx(-model.score(X))
    assert model.approximation_error_ is None
    assert certify_clusters(model, X) == 0
    assert model.n_iter_ == len(model.inertia_path_)


def test_centres_of_batches_are_short_means():
    K = np.asarray(KERNEL(X))
    found = step_batches(
        lambda rows, cols: K[np.ix_(rows, cols)],
        np.ones(900),
        np.ones(900),
        [np.array([i]) for i in range(3)],
        batch_size=64,
        max_iter=40,
        rng=np.random.RandomState(0),
    )
    np.testing.assert_allclose(found.coef.sum(axis=0), 1.0)
    assert (found.coef >= 0).all()
    assert (np.count_nonzero(found.coef, axis=0) <= WINDOW + 64).all()
    a = found.coef
    part = K[np.ix_(found.index, found.index)]
    np.testing.assert_allclose(found.squares, np.einsum("ij,ik,kj->j", a, part, a), rtol=1e-12)


def test_batches_may_end_too_early():
    with pytest.warns(NotConverged, match="after 2 batches"):
        model = KernelKMeans(3, KERNEL, method="minibatch", max_iter=2, random_state=0).fit(X)
    assert model.n_iter_ == 2 and not model.solution_.converged
    K = np.asarray(KERNEL(X))
    a = KernelKMeans(3, "precomputed", method="minibatch", random_state=0).fit(K)
    b = KernelKMeans(3, KERNEL, method="minibatch", random_state=0).fit(X)
    assert (a.labels_ == b.labels_).all() and a.inertia_ == pytest.approx(b.inertia_)


def test_one_point_in_every_way():
    for method in ("exact", "nystrom", "minibatch"):
        model = KernelKMeans(1, KERNEL, method=method).fit(X[:1])
        assert model.labels_.tolist() == [0] and model.inertia_ < 1e-12
        assert model.transform(X[:1])[0, 0] < 1e-6


@pytest.mark.parametrize("memory", ["3MB", "10MB", "18MB"])
def test_a_small_budget_means_small_batches(memory, monkeypatch):
    monkeypatch.setattr(choice, "LIMIT", 0.0)
    points = np.random.default_rng(0).standard_normal((6000, 5))
    points[::2] += 6.0
    with mercer.config(memory=memory), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        model = KernelKMeans(2, RBF(3.0), random_state=0, max_iter=30).fit(points)
        assert model.method_ == "minibatch"
        assert len(set(model.labels_[::2])) == len(set(model.labels_[1::2])) == 1
        with pytest.raises(MemoryBudgetExceeded, match="batch_size"):
            KernelKMeans(2, method="minibatch", batch_size=6000).fit(points)


def test_a_budget_too_small_for_batches_is_exact_in_tiles():
    points = np.random.default_rng(0).standard_normal((1500, 20))
    with mercer.config(memory="600kB"):
        model = KernelKMeans(2, "linear", random_state=0).fit(points)
    assert model.method_ == "exact" and model.solution_.converged
    start = model.labels_
    assert (KernelKMeans(2, "linear", init=start).fit(points).labels_ == start).all()
