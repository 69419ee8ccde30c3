"""Lloyd's algorithm against the double loop: the objective never rises, and where it ends."""

from __future__ import annotations

import warnings
from itertools import pairwise, product

import numpy as np
import pytest

from mercer import RBF, KernelKMeans, Laplacian, Linear, Matern, Polynomial
from mercer.errors import NotConverged
from mercer.models.cluster.lloyd import (
    Look,
    compare,
    draw_points,
    fill_empty,
    lloyd,
    rounding_of,
    start_at,
)
from mercer.models.cluster.spaces import FeatureSpace, GramSpace
from mercer.operators import Gram


def deviance(K, labels, w):
    """Σ over clusters of Σᵢⱼ wᵢwⱼ d²ᵢⱼ / 2W_c, by a double loop."""
    total = 0.0
    for c in np.unique(labels):
        members = [i for i in np.flatnonzero(labels == c) if w[i] > 0]
        mass, inside = 0.0, 0.0
        for i in members:
            mass += w[i]
            for j in members:
                inside += w[i] * w[j] * (K[i, i] + K[j, j] - 2 * K[i, j]) / 2
        total += inside / mass if mass else 0.0
    return total


KERNELS = [RBF(1.0), Matern(0.7), Laplacian(2.0), Polynomial(3), Linear()]


@pytest.mark.parametrize("seed", range(100))
def test_the_deviance_falls_with_every_sweep_and_is_that_of_the_double_loop(seed):
    rng = np.random.default_rng(seed)
    n, d, k = int(rng.integers(2, 40)), int(rng.integers(1, 5)), int(rng.integers(1, 7))
    k = min(k, n)
    X = rng.standard_normal((n, d)) * 10 ** rng.uniform(-2, 1)
    if seed % 3 == 0:
        X = np.round(X, 1)  # ties, and points given twice
    K = np.asarray(KERNELS[seed % len(KERNELS)](X))
    w = np.ones(n) if seed % 2 else rng.choice([0.0, 0.5, 1.0, 3.0], n)
    w[:k] = np.maximum(w[:k], 0.5)
    labels = rng.integers(0, k, n)
    space = GramSpace(K, K.diagonal().copy(), w)
    seen = []
    look = space.look

    def watched(labels, k, *, afresh=False):
        seen.append(labels.copy())
        return look(labels, k, afresh=afresh)

    space.look = watched
    run = lloyd(space, labels, k, max_iter=300)
    scale = 1e-12 * float(w @ K.diagonal())
    assert all(b < a for a, b in pairwise(run.path))
    visited = [deviance(K, labels, w) for labels in seen]
    assert all(b <= a + scale for a, b in pairwise(visited))
    assert run.inertia == pytest.approx(deviance(K, run.labels, w), rel=1e-9, abs=scale)
    assert run.converged and run.residual == 0
    # no point is nearer to another centre, by the definition
    means = [(run.labels == c) * w for c in range(k) if ((run.labels == c) * w).any()]
    means = np.array([m / m.sum() for m in means])
    squares = np.einsum("ij,jk,ik->i", means, K, means) - 2 * (K @ means.T)
    own = {c: i for i, c in enumerate(np.unique(run.labels[w > 0]))}
    for i in np.flatnonzero(w > 0):
        assert squares[i, own[run.labels[i]]] <= squares[i].min() + 1e-9 * K.diagonal().max()


def best_of_all(K, k, w):
    return min(
        deviance(K, np.array(labels), w)
        for labels in product(range(k), repeat=len(K))
        if len(set(labels)) == k
    )


@pytest.mark.parametrize("seed", range(6))
def test_enough_restarts_find_the_optimum_of_all_partitions(seed):
    rng = np.random.default_rng(seed)
    n, k = 7, 2 + seed % 2
    X, w = rng.standard_normal((n, 2)), rng.uniform(0.5, 2, n)
    kernel = [RBF(1.0), Linear(), Matern(1.0)][seed % 3]
    best = best_of_all(np.asarray(kernel(X)), k, w)
    model = KernelKMeans(k, kernel, n_init=60, random_state=seed).fit(X, sample_weight=w)
    assert model.inertia_ == pytest.approx(best, rel=1e-9)


def test_features_and_their_gram_matrix_are_one_space():
    rng = np.random.default_rng(0)
    F, w = rng.standard_normal((60, 4)), rng.uniform(0, 2, 60)
    labels = rng.integers(0, 5, 60)
    spaces = [
        FeatureSpace(F, w),
        GramSpace(F @ F.T, (F**2).sum(1), w),
        GramSpace(Gram(Linear(), F, keep=False), (F**2).sum(1), w),
    ]
    runs = [lloyd(space, labels, 5) for space in spaces]
    for run in runs[1:]:
        assert (run.labels == runs[0].labels).all()
        np.testing.assert_allclose(run.path, runs[0].path, rtol=1e-10)
    rows = [space.rows(np.array([3, 3, 7])) for space in spaces]
    np.testing.assert_allclose(rows[1], rows[0], atol=1e-12)
    np.testing.assert_allclose(rows[2], rows[0], atol=1e-12)


def test_sums_brought_up_to_date_are_the_sums():
    rng = np.random.default_rng(1)
    X, w = rng.standard_normal((90, 3)), rng.uniform(0, 2, 90)
    K = RBF(1.0)(X)
    for matrix in (K, Gram(RBF(1.0), X, keep=False)):
        space = GramSpace(matrix, np.ones(90), w)
        labels = rng.integers(0, 4, 90)
        space.look(labels, 4)
        for _ in range(30):
            labels = labels.copy()
            labels[rng.integers(0, 90, 5)] = rng.integers(0, 4, 5)
            step = space.look(labels, 4)
        anew = GramSpace(K, np.ones(90), w).look(labels, 4)
        assert not space._exact
        np.testing.assert_allclose(step.own, anew.own, atol=1e-13)
        assert (step.nearest == anew.nearest).all()
        space.look(labels, 4, afresh=True)
        assert space._exact


def test_ties_go_to_the_first_centre_whatever_rounding_says():
    inner = np.array([[1.0, 0.5], [1.0 + 1e-15, 0.5], [0.0, 0.9]])
    look = compare(inner, np.ones(3), np.ones(2), np.array([1, 0]), rounding_of(3))
    assert look.nearest.tolist() == [0, 2]
    assert look.wrong.tolist() == [False, True]
    # half way between two centres
    for start in ([[0.0], [2.0]], [[2.0], [0.0]]):
        model = KernelKMeans(2, "linear", init=start, max_iter=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            labels = model.fit([[0.0], [1.0], [2.0]]).labels_
        assert labels[1] == 0


def test_an_empty_cluster_gets_the_farthest_point_that_is_not_alone():
    weights = np.array([1.0, 1, 1, 0, 1])
    labels = np.array([0, 0, 0, 0, 1])

    def filled(least):
        return fill_empty(Look(labels, least, least, np.full(5, 1e-14), None), weights, 4)

    # not the row of no weight, nor the one alone
    assert filled(np.array([1.0, 3, 2, 9, 8])).tolist() == [0, 2, 3, 0, 1]
    assert labels.tolist() == [0, 0, 0, 0, 1]
    assert filled(np.full(5, 1e-14)).tolist() == labels.tolist()


def test_a_start_with_empty_clusters_ends_with_full_ones():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((30, 2))
    far = [[0.0, 0.0], [500.0, 0.0], [600.0, 0.0], [0.0, 700.0]]
    for kernel in ("linear", RBF(1.0)):
        model = KernelKMeans(4, kernel, init=far).fit(X)
        assert sorted(set(model.labels_)) == [0, 1, 2, 3]
        model = KernelKMeans(4, kernel, init=np.full(30, 2)).fit(X)
        assert sorted(set(model.labels_)) == [0, 1, 2, 3]


def test_points_are_drawn_far_from_one_another_and_never_twice():
    rng = np.random.RandomState(0)
    X = np.repeat(np.array([[0.0], [1.0], [50.0]]), [40, 1, 1], axis=0)
    w = np.ones(42)
    space = FeatureSpace(X, w)
    firsts = []
    for _ in range(200):
        for spread in (True, False):
            index = draw_points(space, 3, rng, spread=spread)
            assert sorted(X[index, 0]) == [0.0, 1.0, 50.0]
        firsts.append(X[draw_points(space, 2, rng)[:2], 0])
    assert np.mean([50.0 in pair for pair in firsts]) > 0.95
    assert len(draw_points(space, 5, rng)) == 3  # no more are different
    w[41] = 0.0
    assert all(50.0 not in X[draw_points(space, 2, rng), 0] for _ in range(50))


def test_draws_follow_squared_distances_times_weights():
    # without trials two points: the second in proportion to w d² given the first
    X, w = np.array([[0.0], [1.0], [2.0]]), np.array([1e9, 4.0, 1.0])
    space, rng = FeatureSpace(X, w), np.random.RandomState(5)
    random = [X[draw_points(space, 2, rng, spread=False)][1, 0] for _ in range(2000)]
    assert np.mean(np.array(random) == 1.0) == pytest.approx(0.8, abs=0.04)


def test_clusters_around_points():
    X = np.array([[0.0], [0.4], [9.0], [9.5]])
    space = FeatureSpace(X, np.ones(4))
    assert start_at(space, np.array([3, 0]), 2).tolist() == [1, 1, 0, 0]
