"""KernelKMeans: against scikit-learn, weights from a fixed start, any data, answers, errors."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import RBF, KernelKMeans, Linear, Matern, Polynomial, Spectrum, distance
from mercer.errors import InvalidInput, NotAKernel, NotConverged

rng = np.random.default_rng(0)
X = rng.standard_normal((120, 3))
W = rng.integers(0, 4, 120).astype(float)
W[:6] = 1.0


def rings(n=200):
    angle, radius = rng.uniform(0, 2 * np.pi, n), np.repeat([1.0, 4.0], n // 2)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return radius[:, None] * circle + 0.1 * rng.standard_normal((n, 2)), np.repeat([0, 1], n // 2)


# ------------------------------------------------------------------------------ scikit-learn
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_the_linear_kernel_is_plain_k_means(seed, offset):
    rng = np.random.default_rng(seed)
    n, d, k = int(rng.integers(20, 200)), int(rng.integers(1, 6)), int(rng.integers(2, 8))
    X = rng.standard_normal((n, d)) + offset
    w = None if seed % 2 else rng.uniform(0, 3, n)
    start = X[rng.choice(n, k, replace=False)] if seed % 3 else 3 * rng.standard_normal((k, d))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = KMeans(k, init=start, n_init=1, algorithm="lloyd", tol=0, max_iter=1000)
        peer.fit(X, sample_weight=w)
    ours = KernelKMeans(k, "linear", init=start).fit(X, sample_weight=w)
    assert ours.solution_.converged
    # Empty clusters take the farthest points, in an order that differs between releases of NumPy.
    name = cdist(peer.cluster_centers_, ours.cluster_centers_).argmin(1)
    assert sorted(name) == list(range(k))
    assert (ours.labels_ == name[peer.labels_]).all()
    assert ours.inertia_ == pytest.approx(peer.inertia_, rel=1e-10)
    theirs = peer.cluster_centers_[np.argsort(name)]
    np.testing.assert_allclose(ours.cluster_centers_, theirs, rtol=1e-9, atol=1e-12)
    new = rng.standard_normal((50, d)) + offset
    assert (ours.predict(new) == name[peer.predict(new)]).all()
    np.testing.assert_allclose(ours.transform(new), cdist(new, theirs), rtol=1e-8)
    assert ours.score(new) == pytest.approx(peer.score(new), rel=1e-9)


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(2), Linear(covariance=np.diag([1, 4, 9]))])
def test_features_or_matrix_the_answer_is_the_same(kernel):
    start = rng.integers(0, 4, len(X))
    a = KernelKMeans(4, kernel, init=start).fit(X, sample_weight=W)
    b = KernelKMeans(4, "precomputed", init=start).fit(kernel(X), sample_weight=W)
    assert a.center_features_ is not None and b.center_features_ is None
    assert (a.labels_ == b.labels_).all()
    np.testing.assert_allclose(a.inertia_path_, b.inertia_path_, rtol=1e-9)
    new = X[:30] + 0.1
    assert (a.predict(new) == b.predict(kernel(new, X))).all()
    np.testing.assert_allclose(a.center_squares_, b.center_squares_, rtol=1e-9)


# ----------------------------------------------------------------------------------- weights
@pytest.mark.parametrize("kernel", ["linear", RBF(1.0), Matern(0.5)])
@pytest.mark.parametrize("method", ["exact", "nystrom", "minibatch"])
def test_a_weight_is_a_repetition_from_a_fixed_start(kernel, method):
    repeated = np.repeat(np.arange(len(X)), W.astype(int))
    order = np.random.default_rng(1).permutation(len(repeated))
    if method != "exact":  # pivots and batches are drawn along the rows
        order = np.arange(len(repeated))
    start = X[:4]
    shared = {"init": start, "method": method, "rank": 40, "batch_size": 100, "random_state": 0}
    a = KernelKMeans(4, kernel, **shared).fit(X, sample_weight=W)
    b = KernelKMeans(4, kernel, **shared).fit(X[repeated[order]])
    if method == "exact":
        assert (a.labels_[repeated[order]] == b.labels_).all()
        assert a.inertia_ == pytest.approx(b.inertia_, rel=1e-10)
    assert (a.predict(X) == b.predict(X)).all()
    np.testing.assert_allclose(a.transform(X), b.transform(X), rtol=1e-7)


def test_rows_of_no_weight_have_labels_and_no_say():
    weights = np.ones(len(X))
    weights[50:] = 0
    moved = X.copy()
    moved[50:] += 100 * rng.standard_normal((70, 3))
    for kernel in ("linear", RBF(1.0)):
        for method in ("exact", "nystrom", "minibatch"):
            shared = {"init": X[:3], "method": method, "random_state": 0, "rank": 30}
            a = KernelKMeans(3, kernel, **shared).fit(moved, sample_weight=weights)
            b = KernelKMeans(3, kernel, **shared).fit(X[:50])
            assert (a.labels_[:50] == b.labels_).all()
            assert a.inertia_ == pytest.approx(b.inertia_, rel=1e-9)
            assert (a.labels_ == a.predict(moved)).all()


def test_scaled_weights_change_nothing_but_the_inertia():
    a = KernelKMeans(4, random_state=0).fit(X, sample_weight=W)
    b = KernelKMeans(4, random_state=0).fit(X, sample_weight=1e-6 * W)
    assert (a.labels_ == b.labels_).all() and b.inertia_ == pytest.approx(1e-6 * a.inertia_)


# ----------------------------------------------------------------------------------- answers
def test_answers_are_those_of_the_definition():
    model = KernelKMeans(3, RBF(1.2), random_state=0).fit(X)
    K, new = RBF(1.2)(X), rng.standard_normal((20, 3))
    for c in range(3):
        members = model.labels_ == c
        mean = RBF(1.2)(new, X[members]).mean(axis=1)
        square = 1 - 2 * mean + K[np.ix_(members, members)].mean()
        np.testing.assert_allclose(model.transform(new)[:, c] ** 2, square, rtol=1e-9)
        np.testing.assert_allclose(model.function_(new)[:, c], mean, rtol=1e-9)
    D = model.transform(new)
    assert (model.predict(new) == D.argmin(1)).all()
    assert model.score(new) == pytest.approx(-(D.min(1) ** 2).sum())
    assert model.score(new, sample_weight=np.arange(20)) == pytest.approx(
        -(np.arange(20) * D.min(1) ** 2).sum()
    )
    assert (model.predict(X) == model.labels_).all()
    assert -model.score(X) == pytest.approx(model.inertia_) == model.inertia_path_[-1]
    assert (clone(model).fit_predict(X) == model.labels_).all()
    np.testing.assert_allclose(clone(model).fit_transform(X), model.transform(X))
    assert model.n_iter_ == len(model.inertia_path_) == model.solution_.n_iter


def test_rings_that_no_line_separates():
    points, truth = rings()
    near = np.exp(-(distance("linear", points) ** 2) / 0.5)
    warped = near / np.sqrt(np.outer(near.sum(0), near.sum(0)))  # normalised cut
    powered = np.linalg.matrix_power(warped, 64)
    powered = (powered + powered.T) / 2
    model = KernelKMeans(2, "precomputed", n_init=10, random_state=0)
    plain = KernelKMeans(2, "linear", n_init=10, random_state=0).fit(points)
    scale = np.sqrt(np.outer(powered.diagonal(), powered.diagonal()))
    assert adjusted_rand_score(truth, model.fit_predict(powered / scale)) == 1
    assert adjusted_rand_score(truth, plain.labels_) < 0.5


def test_restarts_never_make_it_worse():
    one = KernelKMeans(6, random_state=3).fit(X).inertia_
    many = KernelKMeans(6, random_state=3, n_init=10).fit(X).inertia_
    assert many <= one


def test_outputs_have_names_and_may_be_frames():
    frame = pd.DataFrame(X, columns=list("abc"))
    model = KernelKMeans(3, random_state=0).set_output(transform="pandas").fit(frame)
    assert list(model.transform(frame).columns) == [f"kernelkmeans{c}" for c in range(3)]
    assert isinstance(model.fit_transform(frame), pd.DataFrame)
    pipe = make_pipeline(StandardScaler(), KernelKMeans(3, random_state=0)).fit(X)
    assert pipe.predict(X).shape == (120,)


# ---------------------------------------------------------------------------------- any data
def test_strings_and_functions_of_two_points():
    words = ["abab", "abba", "baba", "xyz", "zyx", "xxyz"]
    common = lambda s, t: float(sum(s.count(c) * t.count(c) for c in "abxyz"))  # noqa: E731
    model = KernelKMeans(2, common, random_state=0).fit(words)
    assert (model.labels_[:3] == model.labels_[0]).all()
    assert (model.labels_[3:] == 1 - model.labels_[0]).all()
    assert model.predict(["bbaa"]) == model.labels_[0]
    given = KernelKMeans(2, common, init=["ab", "xy"]).fit(words)
    assert given.labels_.tolist() == [0, 0, 0, 1, 1, 1]
    overlap = lambda s, t: float(len(set(s) & set(t)))  # noqa: E731
    lists = [[1], [1, 2], [8, 9, 10], [9, 10]]  # of unequal lengths
    assert KernelKMeans(2, overlap, init=[[9], [1, 2]]).fit(lists).labels_.tolist() == [1, 1, 0, 0]
    K = np.array([[common(s, t) for t in words] for s in words])
    same = KernelKMeans(2, "precomputed", init=[0, 3]).fit(K)
    assert same.labels_.tolist() == [0, 0, 0, 1, 1, 1]
    assert same.inertia_ == pytest.approx(given.inertia_)


def test_precomputed_has_no_distances_of_new_points():
    K = RBF(1.0)(X)
    model = KernelKMeans(3, "precomputed", random_state=0)
    D = model.fit_transform(K)
    points = KernelKMeans(3, RBF(1.0), random_state=0).fit(X)
    np.testing.assert_allclose(D, points.transform(X), atol=1e-7)
    assert (model.labels_ == points.labels_).all()
    assert not hasattr(model, "transform") and not hasattr(model, "score")
    with pytest.raises(AttributeError, match="do not tell k\\(x, x\\)") as info:
        model.transform(K)
    assert "do not tell k(x, x)" in str(info.value.__cause__)
    assert hasattr(points, "transform")


def test_sparse_single_and_read_only_rows():
    S = sp.random(80, 12, 0.4, format="csr", random_state=0)
    dense = KernelKMeans(4, "linear", init=np.arange(80) % 4).fit(S.toarray())
    sparse = KernelKMeans(4, "linear", init=np.arange(80) % 4).fit(S)
    assert (dense.labels_ == sparse.labels_).all()
    np.testing.assert_allclose(dense.transform(S.toarray()), sparse.transform(S), atol=1e-9)
    assert (KernelKMeans(4, random_state=0).fit(S).predict(S) >= 0).all()
    single = X.astype(np.float32)
    single.setflags(write=False)
    model = KernelKMeans(3, random_state=0).fit(single)
    assert model.transform(single).dtype == np.float64
    K = RBF(1.0)(X.astype(np.float32))
    assert K.dtype == np.float32
    K.setflags(write=False)
    assert KernelKMeans(3, "precomputed", random_state=0).fit(K).solution_.converged
    assert KernelKMeans(3, "linear", init=X[:3].astype(np.float32)).fit(X).solution_.converged


def test_a_model_is_saved_with_its_answers(tmp_path):
    for kernel in ("linear", RBF(1.0), Polynomial(2)):
        model = KernelKMeans(3, kernel, random_state=0).fit(X)
        mercer.save(model, tmp_path / "m.mercer")
        again = mercer.load(tmp_path / "m.mercer")
        assert (again.predict(X) == model.labels_).all()
        assert again.inertia_ == model.inertia_ and again.method_ == model.method_
        assert (again.inertia_path_ == model.inertia_path_).all()


# ------------------------------------------------------------------------- odd and impossible
def test_more_clusters_than_points():
    with pytest.raises(InvalidInput, match="n_clusters=8 with n_samples = 5"):
        KernelKMeans().fit(X[:5])
    with pytest.raises(InvalidInput, match="of positive weight"):
        KernelKMeans(3).fit(X[:5], sample_weight=[1, 1, 0, 0, 0])
    everyone = KernelKMeans(5, random_state=0).fit(X[:5])
    assert sorted(everyone.labels_) == [0, 1, 2, 3, 4] and everyone.inertia_ < 1e-12
    assert KernelKMeans(1).fit(X[:1]).labels_.tolist() == [0]


@pytest.mark.parametrize("kernel", ["linear", RBF(1.0), "precomputed"])
@pytest.mark.parametrize("method", ["exact", "nystrom"])
def test_fewer_different_points_than_clusters_are_fewer_clusters(kernel, method):
    points = np.repeat(np.array([[0.0, 1.0], [3.0, 3.0], [-5.0, 2.0]]), 4, axis=0)
    data = points @ points.T if kernel == "precomputed" else points
    with pytest.warns(UserWarning, match="only 3 clusters are not empty"):
        model = KernelKMeans(5, kernel, method=method, random_state=0).fit(data)
    assert model.solution_.converged and model.inertia_ < 1e-9
    assert sorted(set(model.labels_)) == [0, 1, 2]
    assert model.labels_.reshape(3, 4).std(axis=1).max() == 0
    assert (model.predict(data) == model.labels_).all()
    if kernel != "precomputed":
        assert model.transform(data).shape == (12, 3)
    with pytest.warns(UserWarning, match="only 1 clusters"):
        same = KernelKMeans(2, kernel, method=method).fit(np.ones((6, 6)))
    assert (same.labels_ == 0).all()


@pytest.mark.parametrize("scale", [1e-100, 1e-8, 1e8, 1e100])
def test_large_and_small_units(scale):
    a = KernelKMeans(3, "linear", init=X[:3]).fit(X)
    b = KernelKMeans(3, "linear", init=scale * X[:3]).fit(scale * X)
    assert (a.labels_ == b.labels_).all()
    assert b.inertia_ == pytest.approx(a.inertia_ * scale**2, rel=1e-9)


def test_zero_points_and_constant_columns():
    flat = np.column_stack([X[:, 0], np.full(120, 7.0)])
    assert KernelKMeans(3, "linear", random_state=0).fit(flat).solution_.converged
    with pytest.warns(UserWarning, match="only 1 clusters"):
        assert KernelKMeans(2, "linear").fit(np.zeros((4, 2))).inertia_ == 0


def test_limits_are_told():
    with pytest.warns(NotConverged, match="after 1 sweeps"):
        model = KernelKMeans(5, max_iter=1, random_state=0).fit(X)
    assert not model.solution_.converged and 0 < model.solution_.residual < 1
    loose = KernelKMeans(5, tol=0.9, random_state=0).fit(X)
    assert loose.n_iter_ <= KernelKMeans(5, random_state=0).fit(X).n_iter_
    assert loose.solution_.converged and loose.solution_.residual <= 0.9
    with pytest.warns(UserWarning):
        KernelKMeans(3, init=np.zeros(120, int), max_iter=1).fit(X)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"n_clusters": 0}, "n_clusters=0; give a whole number"),
        ({"n_clusters": 2.5}, "n_clusters=2.5"),
        ({"n_clusters": True}, "n_clusters=True"),
        ({"n_init": 0}, "n_init=0"),
        ({"n_init": "many"}, "'auto'"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"tol": -1}, "tol=-1"),
        ({"tol": np.nan}, "tol=nan"),
        ({"method": "fast"}, "method='fast'"),
        ({"method": None}, "method=None"),
        ({"rank": 0}, "rank=0"),
        ({"batch_size": -3}, "batch_size=-3"),
        ({"init": "kmeans"}, "init='kmeans'"),
        ({"init": X[:2]}, "init has 2 points"),
        ({"init": X[:3, :2]}, "init"),
        ({"init": np.full(120, 3)}, "labels from 3 to 3"),
        ({"init": np.full(120, -1)}, "labels from -1 to -1"),
        ({"init": [[np.nan] * 3] * 3}, "init"),
        ({"init": 5}, "init"),
        ({"kernel": "no such"}, "no such"),
        ({"random_state": "a"}, "KernelKMeans: random_state='a'; give None"),
    ],
)
def test_parameters_that_make_no_sense_are_named(params, text):
    model = KernelKMeans(**{"n_clusters": 3, **params})
    with pytest.raises(InvalidInput, match=text):
        model.fit(X)
    assert not hasattr(model, "labels_")


def test_matrices_that_are_none():
    with pytest.raises(InvalidInput, match="square"):
        KernelKMeans(2, "precomputed").fit(np.ones((3, 4)))
    with pytest.raises(InvalidInput, match="positions of 2 training points"):
        KernelKMeans(2, "precomputed", init=[[1.0], [2.0]]).fit(np.eye(3))
    with pytest.raises(InvalidInput, match="positions"):
        KernelKMeans(2, "precomputed", init=[0, 9]).fit(np.eye(3))
    K = np.array([[1.0, -9, -9], [-9, 1, -9], [-9, -9, 1]])
    with pytest.raises(NotAKernel, match="squared length of the centre"):
        KernelKMeans(1, "precomputed").fit(K)
    with pytest.raises(InvalidInput):
        KernelKMeans(2).fit(X * np.nan)
    with pytest.raises(InvalidInput):
        KernelKMeans(2).fit(np.zeros((0, 3)))


@pytest.mark.parametrize("method", ["exact", "nystrom", "minibatch"])
@pytest.mark.parametrize("init", ["k-means++", "random", "labels"])
def test_distances_and_edges_are_no_kernel(method, init):
    D = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    A = (D < np.median(D)).astype(float)
    np.fill_diagonal(A, 0.0)
    start = np.arange(len(X)) % 3 if init == "labels" else init
    for K in (D, A):
        with pytest.raises(NotAKernel, match="perhaps one of distances or of edges"):
            KernelKMeans(3, "precomputed", method=method, init=start, random_state=0).fit(K)
    rows = {tuple(x): i for i, x in enumerate(X)}
    if method == "exact":
        with pytest.raises(NotAKernel, match="squared distance of row"):
            own = lambda s, t: D[rows[tuple(s)], rows[tuple(t)]]  # noqa: E731
            KernelKMeans(3, own, init=start, random_state=0).fit(X)


def test_a_failed_fit_leaves_the_model_as_it_was():
    model = KernelKMeans(3, random_state=0).fit(X)
    before = model.labels_
    with pytest.raises(InvalidInput):
        model.fit(X[:2])
    assert model.labels_ is before
    assert len(model.predict(X)) == 120


@pytest.mark.parametrize("method", ["exact", "nystrom", "minibatch"])
@pytest.mark.parametrize("kernel", ["linear", RBF(1.0)])
def test_equal_points_are_not_split_by_a_given_start(kernel, method):
    points, shared = np.full((12, 2), 0.1), {"method": method, "random_state": 0}
    for start in (np.arange(12) % 3, [[0.0, 0.0], [5.0, 5.0], [9.0, 9.0]]):
        with pytest.warns(UserWarning, match="only 1 clusters"):
            model = KernelKMeans(3, kernel, init=start, **shared).fit(points)
        assert (model.labels_ == 0).all() and (model.predict(points) == 0).all()
        assert model.solution_.converged and model.transform(points).shape == (12, 1)
    # a cluster that equal points gave up is open to others
    mixed = np.concatenate([points, [[3.0, 3.0]]])
    if method != "minibatch":
        model = KernelKMeans(2, kernel, init=np.r_[np.arange(12) % 2, 1], **shared).fit(mixed)
        assert len(set(model.labels_[:12])) == 1 and model.labels_[12] != model.labels_[0]


def test_centres_of_the_linear_kernel_are_points_with_every_method():
    for points in (X, X[:, :2], np.tile(X[:10], 20)):
        for method in ("exact", "nystrom", "minibatch"):
            for data in (points, sp.csr_array(points)):
                model = KernelKMeans(2, "linear", method=method, batch_size=64, random_state=0).fit(
                    data
                )
                centres = model.cluster_centers_
                assert centres.shape == (2, points.shape[1])
                np.testing.assert_allclose(model.transform(data), cdist(points, centres), atol=1e-6)
    assert not hasattr(KernelKMeans(2, Polynomial(2)).fit(X), "cluster_centers_")


def test_labels_may_be_a_column():
    start = np.arange(120) % 3
    expected = KernelKMeans(3, init=start).fit(X).labels_
    assert (KernelKMeans(3, init=pd.Series(start)).fit(X).labels_ == expected).all()
    assert (KernelKMeans(3, init=pd.DataFrame(X[:3])).fit(X).labels_ >= 0).all()


def test_numbers_without_squares_are_refused():
    blobs = 1e-165 * np.concatenate([X, X + 20])
    with pytest.raises(InvalidInput, match="underflows"):
        KernelKMeans(2, "linear").fit(blobs)


@pytest.mark.parametrize("kernel", [Spectrum(1), Spectrum(2).normalized(), Spectrum(1) + 0.5])
def test_letters_that_training_did_not_have_are_far_from_all_centres(kernel):
    X, new = ["ab", "ba", "aab", "bba"] * 3, ["abcc", "ab", "", "cc"]
    model = KernelKMeans(2, kernel, random_state=0).fit(X)
    assert model.center_features_ is not None
    for k in (kernel.on("s"), kernel):
        points = {"s": new} if k is not kernel else new
        seen = {"s": X} if k is not kernel else X
        model = KernelKMeans(2, k, random_state=0).fit(seen)
        shares = np.equal.outer(model.labels_, [0, 1]) / np.bincount(model.labels_)
        K, L = np.asarray(k(points, seen)), np.asarray(k(seen))
        squares = k.diag(points)[:, None] - 2 * K @ shares
        squares = squares + np.einsum("ij,ij->j", shares, L @ shares)
        np.testing.assert_allclose(model.transform(points) ** 2, squares, atol=1e-12)
        assert np.isclose(model.score(points), -squares.min(axis=1).sum())


@pytest.mark.parametrize("seed", range(8))
def test_points_beyond_the_floats_are_refused_without_a_word_of_numpy(seed):
    """Inner products and lengths are infinite of either sign, as the centres happen to lie."""
    X = np.random.default_rng(seed).normal(size=(20, 3))
    model = mercer.KernelKMeans(2, mercer.Polynomial(2, 1.0)).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidInput, match="KernelKMeans: "):
            model.predict(np.full((2, 3), 1.7e308))
