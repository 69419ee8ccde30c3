"""DP-means: optimum conditions by brute force, monotone objective, ends on any input, any space."""

from __future__ import annotations

import warnings
from itertools import pairwise, product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV

import mercer
from mercer import RBF, DPMeans, Matern, penalty_from_k
from mercer.errors import InvalidInput, NotAKernel, NotConverged
from mercer.models.cluster.dpmeans_fit import InputSpace, KernelSpace
from mercer.testing.certificates.unsupervised import dp_means_violation


def planted(seed: int, k: int = 5, each: int = 20, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centres = 30.0 * rng.permutation(np.array(list(product(range(-2, 3), repeat=d)), float))[:k]
    y = np.repeat(np.arange(k), each)
    return centres[y] + rng.standard_normal((k * each, d)), y


def squares(X: np.ndarray) -> np.ndarray:
    return ((X[:, None] - X[None]) ** 2).sum(axis=2)


def objective(X: np.ndarray, labels: np.ndarray, penalty: float, w: np.ndarray) -> float:
    """The definition, in a double loop."""
    total = 0.0
    used = [c for c in np.unique(labels) if w[labels == c].sum() > 0]
    for c in used:
        rows = labels == c
        mean = (w[rows, None] * X[rows]).sum(0) / w[rows].sum()
        for x, weight in zip(X[rows], w[rows], strict=True):
            total += weight * float(((x - mean) ** 2).sum())
    return total + penalty * len(used)


@pytest.mark.parametrize("kernel", [None, "linear", RBF(8.0), Matern(12.0), "precomputed"])
@pytest.mark.parametrize("seed", range(3))
def test_finds_planted_clusters_from_any_order(kernel, seed):
    X, y = planted(seed)
    order = np.random.default_rng(seed).permutation(len(X))
    for rows in (np.arange(len(X)), np.arange(len(X))[::-1], order):
        data = X[rows] @ X[rows].T if kernel == "precomputed" else X[rows]
        penalty = 0.5 if isinstance(kernel, mercer.Kernel) else 150.0
        model = DPMeans(penalty, kernel).fit(data)
        assert model.n_clusters_ == 5
        assert adjusted_rand_score(model.labels_, y[rows]) == 1.0
        np.testing.assert_array_equal(model.predict(data), model.labels_)


@pytest.mark.parametrize("seed", range(100))
def test_the_objective_never_rises_and_the_end_is_an_optimum(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 40)), int(rng.integers(1, 4))
    X = np.round(rng.standard_normal((n, d)), int(rng.integers(0, 3)))  # ties and duplicates
    w = np.ones(n) if seed % 2 else rng.choice([0.0, 0.1, 0.7, 1.0, 2.5], n)
    w[0] = 1.0
    penalty = float(10 ** rng.uniform(-3, 1.5))
    kernel = (None, "linear", RBF(1.0))[seed % 3]
    model = DPMeans(penalty, kernel).fit(X, sample_weight=w)
    path = model.solution_.extra["objectives"]
    assert model.solution_.converged
    assert all(b <= a for a, b in pairwise(path))
    K = None if kernel is None else mercer.kernels.as_kernel(kernel)(X)
    D = squares(X) if K is None else np.diag(K)[:, None] + np.diag(K) - 2 * K
    assert dp_means_violation(D, model.labels_, penalty + 1e-12, w) <= 1e-12 * max(1.0, D.max())
    assert model.objective_ == path[-1]
    if kernel is None:
        expected = objective(X, model.labels_, penalty, w)
        np.testing.assert_allclose(model.objective_, expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(
            model.inertia_, expected - penalty * model.n_clusters_, atol=1e-9
        )
        start = objective(X, np.zeros(n, int), penalty, w)
        np.testing.assert_allclose(path[0], start, rtol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_no_better_partition_is_one_move_or_one_new_point_away(seed):
    """All partitions of few points: the result is among those that meet the conditions."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((6, 2)) * 2
    penalty, D, w = 1.5, squares(X), np.ones(6)
    best, legal = np.inf, []
    for code in product(range(6), repeat=6):
        labels = np.array(code)
        if any(c and c - 1 not in labels[:i] for i, c in enumerate(labels)):
            continue  # one way of numbering a partition
        best = min(best, objective(X, labels, penalty, w))
        if dp_means_violation(D, labels, penalty) <= 1e-12:
            legal.append(frozenset(frozenset(np.flatnonzero(labels == c)) for c in set(code)))
    model = DPMeans(penalty).fit(X)
    got = frozenset(frozenset(np.flatnonzero(model.labels_ == c)) for c in range(model.n_clusters_))
    assert got in legal
    assert model.objective_ >= best - 1e-12


def test_input_space_is_the_feature_space_of_the_linear_kernel():
    X, _ = planted(7)
    for penalty in (0.5, 3.0, 50.0, 1e4):
        a, b = DPMeans(penalty).fit(X), DPMeans(penalty, "linear").fit(X)
        np.testing.assert_array_equal(a.labels_, b.labels_)
        np.testing.assert_allclose(a.objective_, b.objective_, rtol=1e-9)
        np.testing.assert_allclose(a.transform(X[:5]), b.transform(X[:5]), atol=1e-5)
    assert b.cluster_centers_ is None and a.X_fit_ is None


def test_centres_distances_and_predictions():
    X, _ = planted(1)
    new = np.random.default_rng(0).uniform(-70, 70, (50, 3))
    model = DPMeans(150.0).fit(X)
    for c in range(model.n_clusters_):
        np.testing.assert_allclose(model.cluster_centers_[c], X[model.labels_ == c].mean(0))
    gaps = np.linalg.norm(new[:, None] - model.cluster_centers_, axis=2)
    np.testing.assert_allclose(model.transform(new), gaps)
    np.testing.assert_array_equal(model.predict(new), gaps.argmin(1))
    kernel = RBF(20.0)
    model = DPMeans(0.5, kernel).fit(X)
    gaps = np.stack(
        [
            mercer.distance_to_set(kernel, new, X[model.labels_ == c])
            for c in range(model.n_clusters_)
        ],
        axis=1,
    )
    np.testing.assert_allclose(model.transform(new), gaps, atol=1e-7)
    np.testing.assert_array_equal(model.predict(new), gaps.argmin(1))
    assert list(model.get_feature_names_out()[:1]) == ["dpmeans0"]
    model.set_output(transform="pandas")
    assert model.transform(new).shape == gaps.shape


def test_weights_are_copies_and_rows_of_weight_zero_are_placed():
    X, _ = planted(3)
    rng = np.random.default_rng(0)
    w = rng.integers(0, 4, len(X)).astype(float)
    for kernel, penalty in ((None, 60.0), (None, 2.0), (RBF(3.0), 0.4)):
        a = DPMeans(penalty, kernel).fit(X, sample_weight=w)
        b = DPMeans(penalty, kernel).fit(np.repeat(X, w.astype(int), axis=0))
        np.testing.assert_array_equal(np.repeat(a.labels_, w.astype(int)), b.labels_)
        np.testing.assert_allclose(a.objective_, b.objective_)
        np.testing.assert_array_equal(a.labels_[w == 0], a.predict(X[w == 0]))


def test_a_light_point_opens_a_cluster_only_where_that_pays():
    X = np.array([[0.0], [0.0], [3.0]])
    light = DPMeans(3.0).fit(X, sample_weight=[1, 1, 0.1])
    heavy = DPMeans(3.0).fit(X, sample_weight=[1, 1, 1.0])
    assert (light.n_clusters_, heavy.n_clusters_) == (1, 2)
    assert light.solution_.residual == 0


@pytest.mark.parametrize("kernel", [None, "linear", RBF(1.0)])
@pytest.mark.parametrize(
    "X",
    [
        np.zeros((7, 2)),
        np.ones((1, 1)),
        np.repeat(np.arange(4.0)[:, None], 5, axis=0),
        np.repeat([[0.1], [0.2], [0.3]], 33, axis=0),
        np.r_[np.zeros((5, 1)), [[1e8]], [[1e8 + 1e-3]]],
        1e6 + np.random.default_rng(0).standard_normal((20, 2)),
        np.array([[-1.0], [1.0], [0.0]]),
        np.tile(np.eye(3), (4, 1)),
        1e-9 * np.arange(6.0)[:, None],
    ],
)
@pytest.mark.parametrize("penalty", [0.0, 5e-324, 1e-18, 1.0, 1e300, None])
def test_ends_on_awkward_points(X, penalty, kernel):
    model = DPMeans(penalty, kernel).fit(X)
    assert model.solution_.converged
    path = model.solution_.extra["objectives"]
    assert all(b <= a for a, b in pairwise(path))
    assert 1 <= model.n_clusters_ <= len(np.unique(X, axis=0))
    assert set(model.labels_) == set(range(model.n_clusters_))
    if penalty == 1e300:
        assert model.n_clusters_ == 1
    if penalty == 0.0 and kernel is None:
        assert model.n_clusters_ == len(np.unique(X, axis=0))


def test_scales_out_of_range():
    X, y = planted(0)
    for power in (-200, 150):
        scale = 10.0**power
        model = DPMeans().fit(X * scale)
        assert adjusted_rand_score(model.labels_, DPMeans().fit(X).labels_) == 1.0
    with pytest.raises(InvalidInput, match="out of the range of floats"):
        DPMeans().fit(X * 1e200)
    model, far = DPMeans(150.0).fit(X), 1e200 * X  # squares of new distances are no numbers
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gaps = far[:, None] / 1e200 - model.cluster_centers_ / 1e200
        np.testing.assert_array_equal(model.predict(far), (gaps**2).sum(axis=2).argmin(axis=1))
        np.testing.assert_allclose(
            model.transform(far), 1e200 * np.sqrt((gaps**2).sum(axis=2)), rtol=1e-12
        )
        for ask, rows in ((model.score, far), (model.transform, np.full((1, X.shape[1]), 1.7e308))):
            with pytest.raises(InvalidInput, match=r"^DPMeans: .*out of the range of floats"):
                ask(rows)
    assert adjusted_rand_score(DPMeans(150.0).fit(X.astype(np.float32)).labels_, y) == 1.0


def test_offsets_do_not_matter_in_the_space_of_the_data():
    X, y = planted(2)
    assert adjusted_rand_score(DPMeans(150.0).fit(X + 1e10).labels_, y) == 1.0


def test_sparse_rows_and_other_objects():
    X, y = planted(4)
    dense, sparse = DPMeans(150.0).fit(X), DPMeans(150.0).fit(sp.csr_array(X))
    np.testing.assert_array_equal(dense.labels_, sparse.labels_)
    np.testing.assert_allclose(dense.cluster_centers_, sparse.cluster_centers_)
    np.testing.assert_array_equal(sparse.predict(sp.csr_array(X)), y * 0 + sparse.labels_)
    common = lambda s, t: float(len(set(s) & set(t)))  # noqa: E731
    words = ["abc", "abcd", "bcd", "xyz", "xyzw", "yzw"]
    labels = DPMeans(1.0, common).fit_predict(words)
    assert len(set(labels[:3])) == len(set(labels[3:])) == 1 and labels[0] != labels[3]


def test_tiles_give_the_same_clusters():
    X, _ = planted(5, each=60)
    whole = DPMeans(0.5, RBF(8.0)).fit(X)
    with mercer.config(memory=400_000):
        tiles = DPMeans(0.5, RBF(8.0)).fit(X)
        assert KernelSpace(RBF(8.0), X, np.ones(len(X))).K is None
        np.testing.assert_array_equal(tiles.predict(X), tiles.labels_)
        many = DPMeans(0.0).fit(X)
    np.testing.assert_array_equal(whole.labels_, tiles.labels_)
    assert many.n_clusters_ == len(X)


def test_spaces_tell_true_distances():
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((12, 2)), rng.uniform(0.5, 2, 12)
    labels = rng.integers(0, 3, 12)
    means = np.array([np.average(X[labels == c], axis=0, weights=w[labels == c]) for c in range(3)])
    expected = ((X[:, None] - means) ** 2).sum(2)
    kernel = mercer.Linear()
    for space in (InputSpace(X, w), InputSpace(sp.csr_array(X), w), KernelSpace(kernel, X, w)):
        found = space.to_means(labels, 3)
        np.testing.assert_allclose(found.own, expected[np.arange(12), labels], atol=1e-12)
        np.testing.assert_array_equal(found.index, expected.argmin(1))
        np.testing.assert_allclose(found.squares, expected.min(1), atol=1e-12)
        np.testing.assert_allclose(space.to_point(4), squares(X)[4], atol=1e-12)


@pytest.mark.parametrize("kernel", [RBF(1.0), Matern(1.0), "precomputed"])
@pytest.mark.parametrize("penalty", [0.5, 0.51, 0.8, 1.0])
def test_many_clusters_open_where_no_points_are_far_apart(kernel, penalty):
    """Points of a sphere are within 2, so that with λ ≥ ½ all of them are within 2√λ."""
    X = np.random.default_rng(0).standard_normal((400, 5))
    order = np.random.default_rng(1).permutation(len(X))
    data, turned = X, X[order]
    if kernel == "precomputed":
        data, turned = RBF(1.0)(X), RBF(1.0)(X[order])
    model = DPMeans(penalty, kernel, max_iter=50).fit(data)
    assert model.solution_.converged and model.n_clusters_ > 50 > model.n_iter_
    assert all(b < a for a, b in pairwise(model.solution_.extra["objectives"]))
    K = data if kernel == "precomputed" else kernel(X)
    D = np.diag(K)[:, None] + np.diag(K) - 2 * K
    assert dp_means_violation(D, model.labels_, penalty + 1e-12) <= 1e-12
    again = DPMeans(penalty, kernel, max_iter=50).fit(turned)
    assert adjusted_rand_score(again.labels_, model.labels_[order]) == 1.0


def test_a_limit_on_the_sweeps_is_told():
    X = np.random.default_rng(0).standard_normal((300, 2))
    assert DPMeans(0.5).fit(X).n_iter_ > 2
    with pytest.warns(NotConverged, match="raise max_iter"):
        model = DPMeans(0.5, max_iter=1).fit(X)
    assert not model.solution_.converged and model.solution_.residual > 0


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"penalty": -1.0}, "number ≥ 0"),
        ({"penalty": np.nan}, "number ≥ 0"),
        ({"penalty": np.inf}, "number ≥ 0"),
        ({"penalty": "small"}, "number ≥ 0"),
        ({"penalty": True}, "number ≥ 0"),
        ({"max_iter": 0}, "whole number ≥ 1"),
        ({"max_iter": 2.5}, "whole number ≥ 1"),
        ({"kernel": "no such"}, "DPMeans"),
    ],
)
def test_refused_parameters(params, words):
    with pytest.raises(InvalidInput, match=words):
        DPMeans(**params).fit([[0.0], [1.0]])


def test_refused_data():
    with pytest.raises(InvalidInput):
        DPMeans(1.0).fit([[np.nan], [1.0]])
    with pytest.raises(InvalidInput):
        DPMeans(1.0).fit(np.zeros((0, 2)))
    with pytest.raises(NotAKernel, match="not a kernel"):
        DPMeans(1.0, "precomputed").fit([[1.0, 9.0], [9.0, 1.0]])
    model = DPMeans(1.0, "precomputed").fit(np.eye(3))
    assert not hasattr(model, "transform")
    with pytest.raises(AttributeError):
        _ = model.function_
    with pytest.raises(InvalidInput, match="all sample weights are zero"):
        DPMeans(1.0).fit([[1.0]], sample_weight=[0.0])


def test_a_damaged_file_is_refused(tmp_path):
    X, _ = planted(0)
    for kernel in (None, RBF(3.0)):
        model = DPMeans(0.5, kernel).fit(X)
        model.labels_ = model.labels_ + 100
        mercer.save(model, tmp_path / "m.mercer")
        with pytest.raises(mercer.errors.ModelFileError):
            mercer.load(tmp_path / "m.mercer")


def test_no_warnings_from_numpy():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DPMeans(0.0, RBF(1.0)).fit(np.zeros((5, 2)))
        DPMeans(penalty_from_k([[0.0], [1.0]], 2)).fit([[0.0], [1.0]])


def test_a_penalty_beyond_all_squares_of_tiny_numbers_is_one_cluster():
    points = 1e-200 * np.random.default_rng(0).standard_normal((20, 2))
    model = DPMeans(1e300).fit(points)
    assert model.n_clusters_ == 1 and model.penalty_ == 1e300 == model.objective_
    assert model.solution_.converged
    plain = DPMeans(3.0).fit(points * 1e200)
    assert DPMeans(3.0).fit(points * 1e200).penalty_ == plain.penalty_ == 3.0


@pytest.mark.parametrize("kernel", [None, "rbf", "linear"])
def test_the_score_is_minus_the_squared_distances(kernel):
    points = np.random.default_rng(1).standard_normal((60, 2))
    model = DPMeans(0.5, kernel).fit(points)
    assert model.score(points) == pytest.approx(-model.inertia_)
    new, w = points[:10] + 0.1, np.arange(10.0)
    nearest = model.transform(new).min(axis=1) ** 2
    assert model.score(new) == pytest.approx(-nearest.sum())
    assert model.score(new, sample_weight=w) == pytest.approx(-(w @ nearest))
    assert not hasattr(DPMeans(0.5, "precomputed"), "score")
    search = GridSearchCV(DPMeans(kernel=kernel), {"penalty": [0.1, 1.0]}, cv=3).fit(points)
    assert search.best_params_ == {"penalty": 0.1}
