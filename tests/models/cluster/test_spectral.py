"""Spectral clustering: rings and moons, scikit-learn's embedding, weights as copies, odd graphs."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import eigh
from sklearn.cluster import SpectralClustering as Peer
from sklearn.datasets import make_circles, make_moons
from sklearn.manifold import spectral_embedding
from sklearn.metrics import adjusted_rand_score

import mercer
from mercer import RBF, Polynomial, SpectralClustering
from mercer.errors import InvalidInput, MemoryBudgetExceeded, ModelFileError
from mercer.models.cluster import affinity
from mercer.models.cluster.affinity import NormalisedAffinity
from mercer.testing.certificates.unsupervised import certify_embedding


def rings(n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    return make_circles(n, factor=0.4, noise=0.04, random_state=0)


def blobs(seed: int = 0, each: int = 25, k: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(k), each)
    return 8.0 * np.array([(0, 0), (1, 0), (0, 1), (1, 1)])[y] + rng.standard_normal((len(y), 2)), y


def normalised(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """D^−½ A D^−½ of a graph without loops, and the degrees, by loops."""
    n, S, d = len(A), np.zeros_like(A), np.zeros(len(A))
    for i in range(n):
        d[i] = sum(A[i, j] for j in range(n) if j != i)
    for i in range(n):
        for j in range(n):
            S[i, j] = 0.0 if i == j else A[i, j] / np.sqrt(d[i] * d[j])
    return S, d


@pytest.mark.parametrize("way", ["kmeans", "cluster_qr"])
def test_rings_and_moons_are_told_apart(way):
    for X, y in (rings(), make_moons(200, noise=0.05, random_state=0)):
        for kernel in (RBF(0.15), 2.0 * RBF(0.2) ** 2, "precomputed"):
            data = RBF(0.15)(X) if kernel == "precomputed" else X
            model = SpectralClustering(2, kernel, assign_labels=way, random_state=0).fit(data)
            assert adjusted_rand_score(model.labels_, y) == 1.0
            np.testing.assert_array_equal(model.predict(data), model.labels_)


def test_the_embedding_is_that_of_its_definition_and_of_scikit_learn():
    X, _ = blobs(each=10)
    A = RBF(3.0)(X)
    S, d = normalised(A)
    values, vectors = eigh(S)
    model = SpectralClustering(3, RBF(3.0), n_components=5).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, 1 - values[::-1][:5], atol=1e-12)
    U = (vectors / np.sqrt(d)[:, None])[:, ::-1][:, :5]
    np.testing.assert_allclose(np.abs(model.embedding_), np.abs(U), atol=1e-9)
    peer = spectral_embedding(A, n_components=5, drop_first=False, random_state=0)
    np.testing.assert_allclose(model.embedding_, peer, atol=1e-7)


@pytest.mark.parametrize("way", ["kmeans", "cluster_qr"])
@pytest.mark.parametrize("seed", range(3))
def test_labels_are_scikit_learns(way, seed):
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.standard_normal((60, 2)) * 0.7 + c for c in ([0, 0], [4, 0], [0, 5])])
    A = RBF(1.5)(X)
    ours = SpectralClustering(3, "precomputed", assign_labels=way, random_state=0).fit(A)
    peer = Peer(3, affinity="precomputed", assign_labels=way, random_state=0).fit(A)
    assert adjusted_rand_score(ours.labels_, peer.labels_) == 1.0


def test_weights_are_copies():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    w = rng.integers(0, 4, 30)
    copies = np.repeat(np.arange(30), w)
    for kernel, way in ((RBF(0.8), "kmeans"), (RBF(0.8), "cluster_qr"), ("precomputed", "kmeans")):
        data, several = X, X[copies]
        if kernel == "precomputed":
            data, several = RBF(0.8)(X), RBF(0.8)(X[copies])
        a = SpectralClustering(3, kernel, assign_labels=way, random_state=0)
        b = SpectralClustering(3, kernel, assign_labels=way, random_state=0)
        a.fit(data, sample_weight=w.astype(float))
        b.fit(several)
        np.testing.assert_allclose(a.eigenvalues_, b.eigenvalues_, atol=1e-10)
        np.testing.assert_allclose(a.embedding_[copies], b.embedding_, atol=1e-9)
        np.testing.assert_array_equal(a.labels_[copies], b.labels_)
        assert certify_embedding(a, data, None) < 1e-12
        assert (a.labels_[w == 0] >= 0).all()


@pytest.mark.parametrize("owned", [True, False])
def test_fractions_of_copies_and_zero_weights(owned):
    rng = np.random.default_rng(1)
    X, w = rng.standard_normal((25, 2)), rng.uniform(0, 3, 25)
    w[:4], w[4:8] = 0.0, 0.3
    A = RBF(1.0)(X)
    d = np.array(
        [
            sum(w[j] * A[i, j] for j in range(25) if j != i) + max(w[i] - 1, 0) * A[i, i]
            for i in range(25)
        ]
    )
    kernel, data = (RBF(1.0), X) if owned else (mercer.Precomputed(), A)
    S = NormalisedAffinity(kernel, data, w)
    assert S.owned is owned
    np.testing.assert_allclose(S.degrees, d, rtol=1e-12)
    dense = np.sqrt(np.outer(w, w)) * A
    np.fill_diagonal(dense, np.maximum(w - 1, 0) * np.diag(A))
    expected = dense / np.sqrt(np.outer(d, d)) + np.diag((w > 0).astype(float))
    np.testing.assert_allclose(S.to_dense(), expected, atol=1e-13)
    np.testing.assert_allclose(S @ np.eye(25), expected, atol=1e-13)
    np.testing.assert_allclose(S.diagonal(), np.diag(expected), atol=1e-13)
    v = rng.standard_normal(25)
    np.testing.assert_allclose(S @ v, expected @ v, atol=1e-12)


def test_degrees_keep_their_digits_beside_large_loops():
    A = np.array([[1.0, 1e-20, 0], [1e-20, 1.0, 2e-20], [0, 2e-20, 1.0]])
    S = NormalisedAffinity(mercer.Precomputed(), A, np.ones(3))
    np.testing.assert_allclose(S.degrees, [1e-20, 3e-20, 2e-20], rtol=1e-12)


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("precomputed", [False, True])
def test_products_and_factorisation_find_the_same_pairs(narrow, precomputed, monkeypatch):
    X, _ = rings(300)
    kernel = RBF(0.08 if narrow else 1.0)
    values = eigh(normalised(kernel(X))[0])[0]
    monkeypatch.setattr(affinity, "DENSE", 0)
    used = []
    inverse = affinity._by_inverse
    monkeypatch.setattr(affinity, "_by_inverse", lambda *a: (used.append(1), inverse(*a))[1])
    data = kernel(X) if precomputed else X
    before = data.copy()
    model = SpectralClustering(3, "precomputed" if precomputed else kernel, random_state=0)
    model.fit(data)
    assert model.solution_.converged and model.solution_.residual <= 1e-8
    np.testing.assert_allclose(model.eigenvalues_, 1 - values[::-1][:3], atol=1e-9)
    assert certify_embedding(model, data, None) < 1e-8
    np.testing.assert_array_equal(data, before)
    assert bool(used) is narrow


def test_tiles_give_the_same_clusters():
    X, y = blobs(each=100)
    whole = SpectralClustering(4, RBF(2.0), random_state=0).fit(X)
    with mercer.config(memory=1_500_000):
        assert NormalisedAffinity(RBF(2.0), X, np.ones(len(X))).matrix is None
        tiles = SpectralClustering(4, RBF(2.0), random_state=0, method="exact").fit(X)
        np.testing.assert_array_equal(tiles.predict(X), tiles.labels_)
        with pytest.raises(InvalidInput, match="Negative values"):
            SpectralClustering(2, "linear").fit(X - X.mean(axis=0))
    np.testing.assert_array_equal(whole.labels_, tiles.labels_)
    assert adjusted_rand_score(tiles.labels_, y) == 1.0
    with mercer.config(memory=100_000), pytest.raises(MemoryBudgetExceeded):
        SpectralClustering(4, RBF(2.0)).fit(X)


def test_a_graph_in_pieces():
    A = np.kron(np.eye(3), np.ones((4, 4)))
    for way in ("kmeans", "cluster_qr"):
        model = SpectralClustering(3, "precomputed", assign_labels=way, random_state=0).fit(A)
        assert adjusted_rand_score(model.labels_, np.repeat(np.arange(3), 4)) == 1.0
        np.testing.assert_allclose(model.eigenvalues_, 0, atol=1e-12)
    two = SpectralClustering(2, "precomputed", random_state=0).fit(A).labels_
    assert len(set(two)) == 2  # three pieces in two clusters: some answer, no error
    assert set(SpectralClustering(1, "precomputed").fit(A).labels_) == {0}


def test_rows_without_neighbours_are_in_no_cluster():
    X, y = blobs(each=10)
    far = np.concatenate([X, [[1e6, 0.0]]])
    with pytest.warns(UserWarning, match="1 rows have no affinity"):
        model = SpectralClustering(4, RBF(2.0), random_state=0).fit(far)
    assert model.labels_[-1] == -1
    assert adjusted_rand_score(model.labels_[:-1], y) == 1.0
    np.testing.assert_array_equal(
        model.predict([[-1e7, 0.0], X[0], [1e6, 0.0]]), [-1, model.labels_[0], -1]
    )
    with pytest.raises(InvalidInput, match="no two of 5 rows"):
        SpectralClustering(2, "precomputed").fit(np.eye(5))
    with pytest.raises(InvalidInput, match="an affinity with another"):
        SpectralClustering(3, "precomputed").fit(np.eye(5) + _pair(5))


def _pair(n: int) -> np.ndarray:
    A = np.zeros((n, n))
    A[0, 1] = A[1, 0] = 1.0
    return A


def test_affinities_need_not_be_definite():
    A = np.array([[0, 1, 0, 0], [1, 0, 0.01, 0], [0, 0.01, 0, 1], [0, 0, 1, 0]], dtype=float)
    labels = SpectralClustering(2, "precomputed", random_state=0).fit_predict(A)
    assert labels[0] == labels[1] != labels[2] == labels[3]


def test_negative_affinities_are_refused_with_a_cure():
    X = np.array([[1.0], [-1.0], [2.0]])
    with pytest.raises(InvalidInput, match=r"rows 1 and 2 is -2 < 0.*k\*\*2") as info:
        SpectralClustering(2, "linear").fit(X)
    assert "Negative values in data" in str(info.value)
    SpectralClustering(2, Polynomial(2, 0.0), random_state=0).fit(X)
    for A in (X @ X.T, RBF(1.0)(X) - 0.5, np.array([[-1.0, 0.5], [0.5, 1.0]]), -np.eye(3)):
        with pytest.raises(InvalidInput, match="Negative values in data: the affinity of rows"):
            SpectralClustering(2, "precomputed").fit(A)


def test_one_point_equal_points_and_too_many_clusters():
    assert SpectralClustering(1).fit_predict([[1.0, 2.0]]).tolist() == [0]
    assert SpectralClustering(1, RBF()).fit_predict(np.zeros((5, 2))).tolist() == [0] * 5
    with pytest.raises(InvalidInput, match="n_clusters=8 with n_samples=3"):
        SpectralClustering().fit(np.arange(3.0)[:, None])
    with pytest.raises(InvalidInput, match="n_components=9"):
        SpectralClustering(2, n_components=9).fit(np.arange(3.0)[:, None])
    X = np.arange(6.0)[:, None]
    assert len(set(SpectralClustering(6, RBF(), random_state=0).fit_predict(X))) == 6
    with pytest.raises(InvalidInput, match="cluster_qr"):
        SpectralClustering(2, RBF(), n_components=3, assign_labels="cluster_qr").fit(X)


def test_scales_of_the_affinity_do_not_matter():
    X, _ = blobs(each=10)
    A = RBF(2.0)(X)
    labels = SpectralClustering(4, "precomputed", random_state=0).fit_predict(A)
    for scale in (1e-100, 1e100):
        got = SpectralClustering(4, "precomputed", random_state=0).fit_predict(scale * A)
        np.testing.assert_array_equal(got, labels)
    single = SpectralClustering(4, "precomputed", random_state=0).fit_predict(A.astype(np.float32))
    np.testing.assert_array_equal(single, labels)


def test_new_points_go_where_their_neighbours_are():
    X, y = rings(300)
    model = SpectralClustering(2, RBF(0.15), random_state=0).fit(X)
    t = np.linspace(0, 2 * np.pi, 50)
    circle = np.column_stack([np.cos(t), np.sin(t)])
    outer, inner = model.predict(circle), model.predict(0.4 * circle)
    assert set(outer) == {model.labels_[y == 0][0]} and set(inner) == {model.labels_[y == 1][0]}
    A = RBF(0.15)
    same = SpectralClustering(2, "precomputed", random_state=0).fit(A(X))
    np.testing.assert_array_equal(same.predict(A(circle, X)), outer)


def test_training_points_are_placed_where_they_were():
    """With equal degrees the extension gives back the embedding: points on a circle, evenly."""
    t = 2 * np.pi * np.arange(24) / 24
    X = np.column_stack([np.cos(t), np.sin(t)])
    model = SpectralClustering(4, RBF(0.5), n_components=3, random_state=0).fit(X)
    np.testing.assert_allclose(model._placed(X)[0], model.embedding_, atol=1e-10)


def test_same_seed_same_bits_and_clusters_by_size():
    X, _ = blobs(each=30)
    X = X[:100]
    a = SpectralClustering(4, RBF(2.0), random_state=3).fit(X)
    b = SpectralClustering(4, RBF(2.0), random_state=3).fit(X)
    np.testing.assert_array_equal(a.embedding_, b.embedding_)
    np.testing.assert_array_equal(a.labels_, b.labels_)
    sizes = np.bincount(a.labels_)
    assert (np.diff(sizes) <= 0).all() and sizes.tolist() == [30, 30, 30, 10]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"n_clusters": 0}, "n_clusters=0"),
        ({"n_clusters": 2.0}, "n_clusters=2.0"),
        ({"n_clusters": True}, "n_clusters=True"),
        ({"n_components": 0}, "n_components=0"),
        ({"n_init": 0}, "n_init=0"),
        ({"tol": 0.0}, "tol=0.0"),
        ({"tol": "small"}, "tol='small'"),
        ({"assign_labels": "magic"}, "assign_labels='magic'"),
        ({"kernel": "no such"}, "SpectralClustering"),
        ({"random_state": "a"}, "SpectralClustering: random_state='a'; give None"),
        ({"random_state": -1}, "SpectralClustering: random_state=-1"),
    ],
)
def test_refused_parameters(params, words):
    with pytest.raises(InvalidInput, match=words):
        SpectralClustering(**{"n_clusters": 2, **params}).fit(np.arange(5.0)[:, None])


def test_refused_data():
    for X in ([[np.nan], [1.0]], np.zeros((0, 2)), [[0.0, 1.0], [np.inf, 1.0]]):
        with pytest.raises(InvalidInput):
            SpectralClustering(2).fit(X)
    with pytest.raises(InvalidInput, match="not symmetric"):
        SpectralClustering(2, "precomputed").fit([[1.0, 0.5], [0.1, 1.0]])
    with pytest.raises(AttributeError):
        _ = SpectralClustering(1).fit([[1.0], [2.0]]).function_


def test_a_damaged_file_is_refused(tmp_path):
    X, _ = blobs(each=5)
    model = SpectralClustering(2, RBF(3.0), random_state=0).fit(X)
    model.embedding_ = model.embedding_[1:]
    mercer.save(model, tmp_path / "m.mercer")
    with pytest.raises(ModelFileError):
        mercer.load(tmp_path / "m.mercer")


@pytest.mark.parametrize("n", [6, 50, 500])
@pytest.mark.parametrize("way", ["kmeans", "cluster_qr"])
def test_equal_rows_have_one_label(n, way):
    model = SpectralClustering(3, RBF(1.0), assign_labels=way, random_state=0)
    with pytest.warns(UserWarning, match="only 1 of n_clusters=3"):
        assert (model.fit(np.zeros((n, 2))).labels_ == 0).all()
    pairs = np.repeat([[0.0, 0.0], [3.0, 0.0]], [n, n - 1], axis=0)
    with pytest.warns(UserWarning, match="only 2 of n_clusters=3"):
        model.fit(pairs)
    assert model.labels_.tolist() == [0] * n + [1] * (n - 1)
    assert (model.predict(pairs) == model.labels_).all()
    assert certify_embedding(model, pairs, None) < 1e-8
    for form in (sp.csr_array, lambda rows: [tuple(row) for row in rows]):
        data = form(pairs)
        same = model.set_params(kernel=_near if isinstance(data, list) else RBF(1.0))
        with pytest.warns(UserWarning, match="only 2"):
            assert same.fit(data).labels_.tolist() == [0] * n + [1] * (n - 1)
        model.set_params(kernel=RBF(1.0))


def _near(a, b):
    return float(np.exp(-0.5 * sum((x - y) ** 2 for x, y in zip(a, b, strict=True))))


def test_copies_are_the_graph_of_the_copies():
    X, _ = blobs(each=20)
    twice = np.concatenate([X, X[::2], X[::4]])
    whole = SpectralClustering(4, RBF(2.0), random_state=0).fit(twice)
    values = eigh(normalised(RBF(2.0)(twice))[0])[0]
    np.testing.assert_allclose(whole.eigenvalues_, 1 - values[::-1][:4], atol=1e-10)
    assert whole.embedding_.shape == (len(twice), 4)
    np.testing.assert_array_equal(whole.embedding_[: len(X) : 2], whole.embedding_[len(X) :][:40])
    assert certify_embedding(whole, twice, None) < 1e-10
    halves = SpectralClustering(4, RBF(2.0), random_state=0).fit(twice, sample_weight=0.5)
    assert certify_embedding(halves, twice, None) < 1e-10


def test_an_eigenvector_that_is_one_of_many_is_told():
    t = np.linspace(0.0, 2 * np.pi, 30, endpoint=False)
    ring = np.column_stack([np.cos(t), np.sin(t)])
    with pytest.warns(UserWarning, match="eigenvalues 2 and 3 are equal"):
        SpectralClustering(2, RBF(0.5), random_state=0).fit(ring)
    with pytest.warns(UserWarning, match="are equal"):
        SpectralClustering(3, "precomputed", random_state=0).fit(np.ones((40, 40)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SpectralClustering(3, RBF(0.5), random_state=0).fit(ring)
