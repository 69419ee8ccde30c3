"""Spectral clustering by a factor of the affinities."""

import tracemalloc

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import mercer
from mercer import RBF, Linear, SpectralClustering
from mercer.errors import InvalidInput, MemoryBudgetExceeded, NotAKernel
from mercer.estimator import choice
from mercer.models.cluster import affinity
from mercer.models.cluster.affinity import LowRankAffinity, pick_spectral_method


def blobs(each=60, seed=0):
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    y = np.repeat(np.arange(3), each)
    return centres[y] + rng.standard_normal((len(y), 2)), y


def rings(n=300):
    t = np.linspace(0, 2 * np.pi, n, endpoint=False)
    ring = np.column_stack([np.cos(t), np.sin(t)])
    return np.concatenate([3 * ring, ring[::3]]), np.repeat([0, 1], [n, len(ring[::3])])


def model(k=3, scale=2.0, rank=40, **options):
    options = {"method": "nystrom", "random_state": 0} | options
    return SpectralClustering(k, RBF(scale), rank=rank, **options)


# ----------------------------------------------------------------------------------- the operator
def test_the_operator_is_what_it_says(rng):
    X, w = rng.standard_normal((30, 2)), rng.uniform(0, 3, 30)
    w[:4], w[4:8] = 0.0, 0.3
    S = LowRankAffinity(RBF(1.0), X, w, 9, np.random.RandomState(0))
    A = S.F.T @ S.F
    d = np.array(
        [
            sum(w[j] * A[i, j] for j in range(30) if j != i) + max(w[i] - 1, 0) * A[i, i]
            for i in range(30)
        ]
    )
    np.testing.assert_allclose(S.degrees[S.present], d[S.present], rtol=1e-10)
    assert (S.present == ((w > 0) & (d > 1e-6))).all()
    raised = np.maximum(d, np.minimum(w, 1) * np.diag(A))
    dense = np.sqrt(np.outer(w, w)) * A
    np.fill_diagonal(dense, np.maximum(w - 1, 0) * np.diag(A))
    here = np.ix_(S.present, S.present)
    expected = (dense / np.sqrt(np.outer(raised, raised)))[here] + np.eye(S.present.sum())
    np.testing.assert_allclose(S.to_dense()[here], expected, atol=1e-12)
    np.testing.assert_allclose((S @ np.eye(30))[here], expected, atol=1e-12)
    np.testing.assert_allclose(S.diagonal()[S.present], np.diag(expected), atol=1e-12)
    np.testing.assert_allclose(S @ np.ones(30), S.to_dense() @ np.ones(30), atol=1e-12)
    assert np.linalg.eigvalsh(S.to_dense()).min() > -1e-12
    trace = float(w @ (1 - np.diag(A))) / w.sum()
    assert S.error == pytest.approx(trace, rel=1e-8)


def test_full_rank_is_exact():
    for (X, y), scale in ((blobs(), 2.0), (rings(150), 0.5)):
        k = len(set(y))
        exact = SpectralClustering(k, RBF(scale), random_state=0, method="exact").fit(X)
        low = model(k, scale, rank=len(X)).fit(X)
        assert low.method_ == "nystrom" and exact.method_ == "exact"
        assert low.approximation_error_ < 1e-6 and exact.approximation_error_ == 0.0
        np.testing.assert_allclose(low.eigenvalues_, exact.eigenvalues_, atol=1e-6)
        np.testing.assert_allclose(low.embedding_, exact.embedding_, atol=1e-5)
        np.testing.assert_array_equal(low.labels_, exact.labels_)
        assert low.solution_.converged


def test_clusters_at_a_low_rank():
    X, y = blobs()
    low = model(rank=20).fit(X)
    assert adjusted_rand_score(low.labels_, y) == 1.0
    assert 0 < low.approximation_error_ < 0.1 and len(low.eigenvalues_) == 3
    np.testing.assert_array_equal(low.predict(X), low.labels_)
    X, y = rings(400)
    assert adjusted_rand_score(model(2, 0.4, rank=60).fit(X).labels_, y) == 1.0


def test_certificate_is_that_of_the_factor():
    X, _ = blobs()
    low = model(rank=15).fit(X)
    S = LowRankAffinity(RBF(2.0), X, np.ones(len(X)), 15, np.random.RandomState(0))
    Z = low.embedding_ * np.sqrt(np.maximum(S.degrees, S.loops))[:, None]
    assert not (S.degrees < S.loops).any()
    gaps = S @ Z - (2 - low.eigenvalues_) * Z
    assert np.linalg.norm(gaps, axis=0).max() <= 1e-7


def test_outliers_make_no_clusters_of_their_own():
    X, y = blobs()
    far = np.array([[30.0, 30.0], [-30.0, 30.0], [30.0, -30.0]])  # of no affinity with any
    near = np.array([[3.0, -8.0], [-9.5, 1.0]])  # of little: less than to themselves
    both = np.concatenate([X, far, near])
    with pytest.warns(UserWarning, match="3 rows have no affinity"):
        low = model(rank=60).fit(both)
    assert adjusted_rand_score(low.labels_[: len(X)], y) == 1.0
    assert (low.labels_[len(X) : len(X) + 3] == -1).all() and (low.labels_[-2:] >= 0).all()
    assert low.labels_[-1] == low.labels_[0]  # the nearest blob
    exact = SpectralClustering(3, RBF(2.0), random_state=0).fit(both[np.r_[: len(X), -2, -1]])
    kept = np.delete(low.labels_, range(len(X), len(X) + 3))
    assert adjusted_rand_score(kept, exact.labels_) == 1.0


def test_weights_are_repetitions(rng):
    X, _ = blobs(20)
    w = rng.integers(0, 4, len(X))
    a = model(rank=15).fit(X, sample_weight=w)
    b = model(rank=15).fit(np.repeat(X, w, axis=0))
    np.testing.assert_array_equal(np.repeat(a.labels_, w), b.labels_)
    np.testing.assert_allclose(a.eigenvalues_, b.eigenvalues_, atol=1e-9)
    assert a.approximation_error_ == pytest.approx(b.approximation_error_, rel=1e-9)


def test_same_state_same_bits():
    X, _ = blobs()
    a, b = (model(rank=15, random_state=3).fit(X) for _ in range(2))
    np.testing.assert_array_equal(a.embedding_, b.embedding_)


# ------------------------------------------------------------------------------------------- auto
def test_auto(monkeypatch):
    with mercer.config(memory="1GB"):
        assert pick_spectral_method(RBF(), 3000, 100) == "exact"
        assert pick_spectral_method(RBF(), 60_000, 100) == "nystrom"
        assert pick_spectral_method(RBF(), 9_000, 100) == "nystrom"
        assert pick_spectral_method(RBF(), 100_000, 1000) == "exact"
        assert pick_spectral_method(mercer.Precomputed(), 60_000, 100) == "exact"
    X, y = blobs()
    monkeypatch.setattr(affinity, "MOST_EXACT", 100)
    monkeypatch.setattr(choice, "LIMIT", 0.0)
    low = SpectralClustering(3, RBF(2.0), random_state=0).fit(X)
    assert low.method_ == "nystrom" and adjusted_rand_score(low.labels_, y) == 1.0


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(choice, "LIMIT", 0.0)
    X, y = blobs(each=2000)
    with mercer.config(memory="40MB"):
        tracemalloc.start()
        low = SpectralClustering(3, RBF(3.0), random_state=0, rank=30, n_init=1).fit(X)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert low.method_ == "nystrom" and peak < 40e6
    assert adjusted_rand_score(low.labels_, y) > 0.99
    with (
        mercer.config(memory="1MB"),
        pytest.raises(MemoryBudgetExceeded, match="smaller rank"),
    ):
        model(rank=500).fit(X)


# -------------------------------------------------------------------------------------- bad input
def test_bad_input():
    X, _ = blobs(10)
    with pytest.raises(InvalidInput, match="Negative values"):
        SpectralClustering(2, Linear(), method="nystrom").fit(X - X.mean(0))
    with pytest.raises(InvalidInput, match="method='fast'"):
        SpectralClustering(2, method="fast").fit(X)
    for rank in (0, -3, 2.5, True):
        with pytest.raises(InvalidInput, match="rank"):
            model(rank=rank).fit(X)
    with pytest.raises(NotAKernel, match="nystrom"):
        SpectralClustering(2, mercer.EditDistance(), method="nystrom").fit(["ab", "abc", "x"])
    with pytest.raises(InvalidInput, match="no two of 30 rows"):
        model(scale=1e-6, rank=3).fit(X)
    with pytest.warns(UserWarning, match="larger rank"):
        model(scale=1.0, rank=4).fit(X)


def test_precomputed_and_more_pivots_than_rows():
    X, y = blobs(15)
    low = SpectralClustering(3, "precomputed", method="nystrom", rank=99, random_state=0)
    assert adjusted_rand_score(low.fit(RBF(2.0)(X)).labels_, y) == 1.0
    one = model(1, rank=5).fit(np.ones((6, 2)))
    assert (one.labels_ == 0).all()
