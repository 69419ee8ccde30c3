"""Spectral clustering of graphs stored by their edges: neighbours, sparse affinities, odd ones."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import eigh
from sklearn.cluster import SpectralClustering as Peer
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import kneighbors_graph
from sklearn.utils import get_tags

import mercer
from mercer import RBF, Linear, Polynomial, SpectralClustering
from mercer.errors import InvalidInput, MemoryBudgetExceeded, NotConverged
from mercer.models.cluster import affinity
from mercer.models.cluster.graph import SparseAffinity, neighbour_graph
from mercer.testing.certificates.unsupervised import certify_embedding

WAYS = ("kmeans", "discretize", "cluster_qr")


def near(k: int, kernel: object = "rbf", n_neighbors: int = 10, **how: object):
    """A model of neighbours."""
    how = {"random_state": 0, "affinity": "nearest_neighbors", **how}
    return SpectralClustering(k, kernel, n_neighbors=n_neighbors, **how)


def peers(k: int, X: object, way: str, **how: object) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Peer(k, assign_labels=way, random_state=0, **how).fit(X).labels_


def shapes() -> dict[str, tuple[np.ndarray, int]]:
    rng = np.random.default_rng(5)
    apart = np.concatenate([rng.standard_normal((30, 2)) + 50.0 * i for i in range(3)])
    return {
        "rings": (make_circles(200, factor=0.4, noise=0.04, random_state=0)[0], 2),
        "moons": (make_moons(200, noise=0.05, random_state=0)[0], 2),
        "blobs": (make_blobs(200, centers=4, random_state=3, cluster_std=1.5)[0], 4),
        "pieces": (apart, 3),
    }


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return adjusted_rand_score(a, b) == 1.0


# -- the graph --------------------------------------------------------------------------------
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", shapes())
def test_partitions_are_scikit_learns(shape, way):
    X, k = shapes()[shape]
    model = near(k, assign_labels=way).fit(X)
    assert same(model.labels_, peers(k, X, way, affinity="nearest_neighbors"))
    assert model.solution_.converged and certify_embedding(model, X, None) < 1e-8
    assert (model.predict(X) == model.labels_).mean() > 0.95
    graph = kneighbors_graph(X, 10, include_self=True)
    A = sp.csr_array(0.5 * (graph + graph.T))
    given = SpectralClustering(k, "precomputed", assign_labels=way, random_state=0).fit(A)
    assert same(given.labels_, peers(k, A, way, affinity="precomputed"))
    assert same(given.labels_, model.labels_)
    np.testing.assert_allclose(given.eigenvalues_, model.eigenvalues_, atol=1e-10)


def test_the_graph_is_its_definition():
    X = np.random.default_rng(1).standard_normal((30, 3))
    w = np.ones(30)
    w[[3, 8]] = 0.0
    for kernel in (RBF(0.01), RBF(100.0), Linear(), Polynomial(2, 1.0), 3.0 * RBF(1.0)):
        K, n = kernel(X), 30
        C = np.zeros((n, n))
        for i in np.flatnonzero(w):
            far = [(K[i, i] + K[j, j] - 2 * K[i, j], j) for j in np.flatnonzero(w) if j != i]
            if isinstance(kernel, RBF):  # values are 0 or 1; distances of points are not
                far = [(float(np.sum((X[i] - X[j]) ** 2)), j) for _, j in far]
            C[i, [j for _, j in sorted(far)[:4]]] = C[i, i] = 1.0
        A = neighbour_graph(kernel, X, w, np.diag(K), 5)
        np.testing.assert_array_equal(A.toarray(), 0.5 * (C + C.T))
        assert A.nnz <= 2 * 5 * n
        if not isinstance(kernel, RBF):
            given = neighbour_graph(mercer.Precomputed(), K, w, np.diag(K), 5)
            np.testing.assert_array_equal(given.toarray(), A.toarray())


def test_no_scale_of_the_points_or_the_kernel_matters():
    X, k = shapes()["moons"]
    expected = near(k).fit_predict(X)
    for kernel, factor in ((RBF(1e-3), 1.0), (RBF(1.0), 1e-100), (RBF(1.0), 1e100), ("linear", 1)):
        np.testing.assert_array_equal(near(k, kernel).fit_predict(factor * X), expected)
    np.testing.assert_array_equal(near(k, "precomputed").fit_predict(X @ X.T), expected)
    np.testing.assert_array_equal(
        near(k, "precomputed").fit_predict(sp.csr_array(X @ X.T)), expected
    )
    np.testing.assert_array_equal(near(k).fit_predict(sp.csr_array(X)), expected)


def test_points_that_are_no_vectors_have_neighbours():
    words = ["aaaa", "aaab", "aaba", "abaa", "zzzz", "zzzy", "zyzz", "zzyz"]
    labels = near(2, mercer.Spectrum(1), n_neighbors=3).fit(words)
    assert same(labels.labels_, np.repeat([0, 1], 4))
    assert labels.predict(["aaaaa", "zzyyz"]).tolist() == labels.labels_[[0, 4]].tolist()


@pytest.mark.parametrize("way", WAYS)
def test_weights_are_copies(way):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((25, 2)), rng.standard_normal((20, 2)) + 4.0])
    w = rng.integers(0, 4, len(X))
    copies = np.repeat(np.arange(len(X)), w)
    a = near(3, n_neighbors=6, assign_labels=way).fit(X, sample_weight=w.astype(float))
    b = near(3, n_neighbors=6, assign_labels=way).fit(X[copies])
    np.testing.assert_allclose(a.eigenvalues_, b.eigenvalues_, atol=1e-10)
    np.testing.assert_allclose(a.embedding_[copies], b.embedding_, atol=1e-9)
    np.testing.assert_array_equal(a.labels_[copies], b.labels_)
    assert certify_embedding(a, X, None) < 1e-10 and certify_embedding(b, X[copies], None) < 1e-10
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    assert (a.labels_[w == 0] >= 0).all()
    A = RBF(1.0)(X)
    A[A < 0.3] = 0.0
    several = sp.csr_array(A[np.ix_(copies, copies)])
    kwargs = {"kernel": "precomputed", "assign_labels": way, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        c = SpectralClustering(2, **kwargs).fit(sp.csr_array(A), sample_weight=w.astype(float))
        d = SpectralClustering(2, **kwargs).fit(several)
    np.testing.assert_array_equal(c.labels_[copies], d.labels_)


def test_a_pile_of_equal_rows_is_one_neighbour():
    """As many copies as neighbours would be an island; as one point they are joined to others."""
    X = np.concatenate([np.repeat([[0.0, 0.0]], 20, axis=0), np.arange(1, 9)[:, None] * [[0.1, 0]]])
    far = np.concatenate([X, X + 9.0])
    model = near(2, n_neighbors=5).fit(far)
    assert same(model.labels_, np.repeat([0, 1], len(X)))
    for weight in (0.25, 1e-300, 7.0):
        same_graph = near(2, n_neighbors=5).fit(far, sample_weight=weight)
        assert same(same_graph.labels_, model.labels_)  # rounding names two equal clusters
    with pytest.warns(UserWarning, match="only 1 of n_clusters=2"):
        assert near(2, n_neighbors=3).fit_predict(np.zeros((6, 2))).tolist() == [0] * 6


def test_numbers_of_neighbours():
    X = np.random.default_rng(0).standard_normal((12, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # all points are alike in the complete graph
        everyone = near(2, n_neighbors=12).fit(X)
    np.testing.assert_allclose(everyone.eigenvalues_, [0, 12 / 11], atol=1e-12)
    for k, n in ((13, 12), (10, 5)):
        with pytest.raises(InvalidInput, match=f"n_neighbors={k} with n_samples={n} points"):
            near(2, n_neighbors=k).fit(X[:n])
    with pytest.raises(InvalidInput, match="n_neighbors=12 with n_samples=11"):
        near(2, n_neighbors=12).fit(X, sample_weight=np.arange(12.0))
    for bad in (0, 1, 2.0, "5", True, None):
        with pytest.raises(InvalidInput, match="n_neighbors="):
            near(2, n_neighbors=bad).fit(X)
    with pytest.raises(InvalidInput, match="n_clusters=13 with n_samples=12"):
        near(13, n_neighbors=3).fit(X)
    assert len(set(near(12, n_neighbors=3).fit_predict(X))) == 12
    chain = near(2, n_neighbors=2).fit(np.array([[0.0], [1.0], [9.0], [10.0]]))
    assert same(chain.labels_, np.array([0, 0, 1, 1]))


def test_refused_and_told():
    X = np.random.default_rng(0).standard_normal((30, 2))
    for word in ("precomputed", "rbf", "precomputed_nearest_neighbors", None, 3):
        with pytest.raises(InvalidInput, match=r"([Gg]ive 'kernel', .*|a kernel )is given as"):
            SpectralClustering(2, affinity=word).fit(X)
    with pytest.raises(InvalidInput, match="method='nystrom' stands for kernel values"):
        near(2, method="nystrom").fit(X)
    with pytest.raises(InvalidInput, match=r"sigmoid|Sigmoid"):
        near(2, "sigmoid").fit(X)
    with pytest.raises(InvalidInput, match="assign_labels='discretize' needs as many components"):
        SpectralClustering(2, RBF(), n_components=3, assign_labels="discretize").fit(X)
    near(2, "linear").fit(X - X.mean(axis=0))  # kernel values below 0 are no edges here
    assert get_tags(near(2, "precomputed")).input_tags.positive_only is False
    plan = near(2).plan(X)
    assert plan.method == "exact" and plan.fits and "neighbours" in plan.why
    with mercer.config(memory=20_000), pytest.raises(MemoryBudgetExceeded):
        near(2).fit(X)


def test_new_points_go_where_their_neighbours_are(tmp_path):
    X, y = make_circles(300, factor=0.4, noise=0.03, random_state=0)
    t = np.linspace(0, 2 * np.pi, 40)
    circle = np.column_stack([np.cos(t), np.sin(t)])
    new = np.concatenate([circle, 0.4 * circle])
    model = near(2).fit(X)
    expected = np.repeat([model.labels_[y == 0][0], model.labels_[y == 1][0]], 40)
    np.testing.assert_array_equal(model.predict(new), expected)
    K = Linear()
    given = near(2, "precomputed").fit(K(X))
    np.testing.assert_array_equal(near(2, "linear").fit(X).predict(new), expected)
    # Rows of k(x, xᵢ) order training points of all lengths, for k(x, x) is the same for all.
    np.testing.assert_array_equal(given.predict(K(new, X)), expected)
    np.testing.assert_array_equal(given.predict(sp.csr_array(K(new, X))), expected)
    for case in (model, given):
        mercer.save(case, tmp_path / "m.mercer")
        for again in (mercer.load(tmp_path / "m.mercer"), pickle.loads(pickle.dumps(case))):
            data = new if case is model else K(new, X)
            np.testing.assert_array_equal(again.predict(data), expected)
    # A fit to kernel values forgets that there were neighbours.
    model.set_params(affinity="kernel", kernel=RBF(0.15)).fit(X)
    assert not hasattr(model, "diagonal_") and (model.predict(X) == model.labels_).all()


# -- sparse affinities ------------------------------------------------------------------------
def edges(n: int = 60, seed: int = 0) -> np.ndarray:
    """Affinities most of which are 0, in three groups."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2)) + 3.0 * np.arange(3).repeat(n // 3)[:, None]
    A = RBF(0.8)(X)
    A[A < 0.1] = 0.0
    return A


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"])
def test_a_sparse_matrix_is_the_dense_one(form):
    A = edges()
    dense = SpectralClustering(3, "precomputed", random_state=0).fit(A)
    for kind in (sp.csr_array, sp.csr_matrix):
        S = kind(A).asformat(form)
        model = SpectralClustering(3, "precomputed", random_state=0).fit(S)
        np.testing.assert_array_equal(model.labels_, dense.labels_)
        np.testing.assert_allclose(model.embedding_, dense.embedding_, atol=1e-10)
        np.testing.assert_allclose(model.extension_, dense.extension_, atol=1e-12)
        np.testing.assert_array_equal(model.predict(S), dense.predict(A))
        np.testing.assert_array_equal(model.predict(A[:5]), dense.predict(sp.csr_array(A[:5])))
        assert certify_embedding(model, S, None) < 1e-10


def test_duplicates_zeros_and_single_precision_are_what_they_say():
    A = edges()
    labels = SpectralClustering(3, "precomputed", random_state=0).fit_predict(A)
    S = sp.coo_array(A)
    rows, cols = np.concatenate([S.coords] * 2 + [[[0, 5], [5, 0]]], axis=1)
    values = np.concatenate([0.5 * S.data, 0.5 * S.data, [0.0, 0.0]])
    for given in (
        sp.coo_array((values, (rows, cols)), shape=A.shape),
        sp.csr_array(A.astype(np.float32) * (1 + 1e-6 * np.tri(len(A), dtype=np.float32))),
        sp.csr_array(1e-200 * A),
        sp.csr_array((100 * A).round().astype(int)),
    ):
        got = SpectralClustering(3, "precomputed", random_state=0).fit_predict(given)
        assert same(got, labels)


@pytest.mark.parametrize("weights", [None, "whole", "any"])
def test_the_operator_is_that_of_the_dense_graph(weights):
    A = edges(30)
    rng = np.random.default_rng(3)
    w = {None: np.ones(30), "whole": rng.integers(0, 4, 30) * 1.0}.get(weights, rng.random(30) * 3)
    dense = affinity.NormalisedAffinity(mercer.Precomputed(), A, w)
    S = SparseAffinity(sp.csr_array(A), w)
    np.testing.assert_allclose(S.to_dense(), dense.to_dense(), atol=1e-13)
    np.testing.assert_allclose(S @ np.eye(30), dense @ np.eye(30), atol=1e-13)
    np.testing.assert_allclose(S.diagonal(), dense.diagonal(), atol=1e-13)
    np.testing.assert_allclose(S.degrees, dense.degrees, rtol=1e-12)
    S.patience(12)
    for sigma in (1e-3, 0.5):
        inverse = S.inverse(sigma)
        product = (2.0 + sigma) * np.eye(30) - S.to_dense()
        np.testing.assert_allclose(product @ (inverse @ np.eye(30)), np.eye(30), atol=1e-10)
        np.testing.assert_allclose(inverse.forward(np.eye(30)), S.to_dense() - np.eye(30))


def test_a_long_path_a_grid_and_a_graph_without_shape():
    """Eigenvalues that crowd at 1 by a factorisation, others by products; each with its proof."""
    n = 3000
    line = sp.diags_array([np.ones(n - 1)] * 2, offsets=[1, -1])
    path = SpectralClustering(3, "precomputed", assign_labels="cluster_qr", random_state=0).fit(
        line
    )
    # The walk on a path has the eigenvalues cos(πj/(n − 1)).
    exact = 1.0 - np.cos(np.pi * np.arange(3) / (n - 1))
    np.testing.assert_allclose(path.eigenvalues_, exact, rtol=1e-6, atol=1e-13)
    assert path.solution_.converged and (np.diff(path.labels_) != 0).sum() == 2
    short = sp.diags_array([np.ones(24)] * 2, offsets=[1, -1])
    grid = sp.csr_array(sp.kron(short, sp.eye_array(25)) + sp.kron(sp.eye_array(25), short))
    model = SpectralClustering(2, "precomputed", n_components=4, random_state=0).fit(grid)
    assert model.solution_.converged and certify_embedding(model, grid, None) < 1e-8
    loose = sp.random_array((600, 600), density=0.03, random_state=np.random.default_rng(0))
    model = SpectralClustering(3, "precomputed", random_state=0).fit(loose + loose.T)
    assert model.solution_.converged and certify_embedding(model, loose + loose.T, None) < 1e-8


@pytest.mark.parametrize("memory", ["8GB", 700_000])
def test_products_and_factorisation_find_the_same_pairs(memory, monkeypatch):
    """With too little memory for a factor products go on, and end or say that they do not."""
    X, _ = make_circles(500, factor=0.4, noise=0.04, random_state=0)
    A = neighbour_graph(RBF(), X, np.ones(500), np.ones(500), 6)
    off = A.toarray()
    np.fill_diagonal(off, 0.0)
    d = off.sum(axis=1)
    exact = 1.0 - eigh(off / np.sqrt(np.outer(d, d)), eigvals_only=True)[::-1][:3]
    model = SpectralClustering(3, "precomputed", random_state=0)
    with mercer.config(memory=memory), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        model.fit(A)
    np.testing.assert_allclose(model.eigenvalues_, exact, atol=1e-7)
    if memory == "8GB":
        assert model.solution_.converged and model.solution_.residual <= 1e-8


def test_pieces_and_points_alone():
    piece = np.ones((4, 4))
    A = sp.csr_array(sp.block_diag([piece, piece, piece, np.zeros((1, 1))]))
    for way in WAYS:
        model = SpectralClustering(3, "precomputed", assign_labels=way, random_state=0)
        with pytest.warns(UserWarning, match="1 rows have no affinity"):
            model.fit(A)
        assert same(model.labels_[:12], np.arange(3).repeat(4)) and model.labels_[12] == -1
        new = sp.csr_array(([1.0, 1.0], ([0, 1], [1, 12])), shape=(3, 13))
        assert model.predict(new).tolist() == [model.labels_[0], -1, -1]
    with pytest.raises(InvalidInput, match="no two of 5 rows"):
        SpectralClustering(2, "precomputed").fit(sp.eye_array(5))
    with pytest.raises(InvalidInput, match="no two of 5 rows"):
        SpectralClustering(2, "precomputed").fit(sp.csr_array((5, 5)))
    one = SpectralClustering(1, "precomputed").fit(sp.csr_array([[0.0]]))
    assert one.labels_.tolist() == [0]


def test_many_pieces_beside_the_dense_way():
    """More pieces than LAPACK's small case: eigenvalue 1 many times, found by blocks."""
    rng = np.random.default_rng(0)
    X = np.concatenate([0.1 * rng.standard_normal((60, 2)) + 20.0 * i for i in range(8)])
    for way in WAYS:
        model = near(8, n_neighbors=6, assign_labels=way).fit(X)
        assert same(model.labels_, np.arange(8).repeat(60)) and model.solution_.converged
        np.testing.assert_allclose(model.eigenvalues_, 0, atol=1e-10)


def test_what_is_no_graph_is_refused_as_a_dense_matrix():
    A = edges(30)
    skew, gone, low, tall = A.copy(), A.copy(), A.copy(), A[:, :7]
    skew[2, 3] += 1.0
    gone[1, 1] = np.nan
    low[4, 5] = low[5, 4] = -0.5
    for bad in (skew, gone, low, tall, -A, A[:0], A[:, :0]):
        texts = []
        for given in (bad, sp.csr_array(bad)):
            with pytest.raises(InvalidInput) as info:
                SpectralClustering(2, "precomputed").fit(given)
            texts.append(str(info.value))
        assert texts[0] == texts[1]
    broken = sp.csr_array(A)
    broken.indices[0] = 10**6
    with pytest.raises(InvalidInput, match="SpectralClustering: X is a broken sparse matrix"):
        SpectralClustering(2, "precomputed").fit(broken)
    model = SpectralClustering(3, "precomputed", random_state=0).fit(sp.csr_array(A))
    with pytest.raises(InvalidInput, match="29 features"):
        model.predict(sp.csr_array(A[:, :-1]))
    before = model.labels_
    with pytest.raises(InvalidInput):
        model.fit(sp.csr_array(skew))
    assert model.labels_ is before


def test_a_large_graph_is_never_made_dense():
    n = 10_000  # 800 MB as a dense matrix
    ring = sp.diags_array([np.ones(n - 1)] * 2, offsets=[1, -1]).tocsr()
    ring[n // 2 - 1, n // 2] = ring[n // 2, n // 2 - 1] = 0.0
    with mercer.config(memory="100MB"):
        model = SpectralClustering(2, "precomputed", assign_labels="cluster_qr", random_state=0)
        assert model.plan(ring).fits
        model.fit(ring)
        assert same(model.labels_, np.repeat([0, 1], n // 2))
        assert (model.predict(ring[:: n // 10]) == model.labels_[:: n // 10]).all()
        with pytest.raises(MemoryBudgetExceeded, match="10000 × 10000"):
            SpectralClustering(2, "precomputed", method="nystrom").fit(ring)


def test_old_pickles_have_the_parameters_that_came_since():
    model = SpectralClustering(2, RBF(1.0)).fit([[0.0], [1.0], [5.0]])
    state = model.__getstate__()
    for name in ("affinity", "n_neighbors"):
        del state[name]
    old = SpectralClustering.__new__(SpectralClustering)
    old.__setstate__(state)
    assert old.affinity == "kernel" and old.n_neighbors == 10 and repr(old) == repr(model)
