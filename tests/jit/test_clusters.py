"""The compiled loops of k-means against what they say they do, in plain NumPy."""

import numpy as np
import pytest

from mercer.jit import come_closer, draw_at, sweep
from mercer.models.cluster.lloyd import lloyd
from mercer.models.cluster.spaces import FeatureSpace


def _draw(mass, u):
    total = np.cumsum(mass / mass.max())
    drawn = np.searchsorted(total, u * total[-1], side="right")
    return np.minimum(drawn, np.flatnonzero(mass)[-1])


@pytest.mark.parametrize("n", [1, 2, 7, 200])
def test_draws_are_those_of_cumulated_masses(n):
    rng = np.random.default_rng(n)
    w, left = rng.random(n), rng.random(n) * (rng.random(n) < 0.5)
    left[0] = 0.25
    u = np.append(rng.random(50), [0.0, 1.0])
    drawn = np.empty(len(u), dtype=np.int64)
    assert draw_at(w, left, u, np.empty(n), drawn)
    assert (drawn == _draw(w * left, u)).all() and ((w * left)[drawn] > 0).all()
    assert not draw_at(w, np.zeros(n), u, np.empty(n), drawn)


@pytest.mark.parametrize("n", [1, 3, 5, 130])
def test_the_best_of_some_points_brings_distances_down(n):
    rng = np.random.default_rng(n)
    X, w = rng.standard_normal((n, 3)), rng.random(n)
    X[n // 2 :] = X[n // 2]  # equal points are at distance 0, not at that of rounding
    left, lengths = np.full(n, 5.0), (X * X).sum(axis=1)
    drawn = rng.integers(0, n, 4)
    inner = X[drawn] @ X.T
    squares = np.minimum(((X[drawn][:, None] - X) ** 2).sum(axis=-1), left)
    best = come_closer(inner, lengths, drawn, 1e-14, w, left, np.empty((2, n)))
    assert best == np.argmin(squares @ w)
    np.testing.assert_allclose(left, squares[best], atol=1e-12)
    assert (left[(X == X[drawn[best]]).all(axis=1)] == 0).all()


def _plain(X, w, labels, k, sweeps):
    """Lloyd's algorithm, until nothing moves."""
    path = []
    for _ in range(sweeps):
        C = np.stack([np.average(X[labels == c], axis=0, weights=w[labels == c]) for c in range(k)])
        squares = ((X[:, None] - C) ** 2).sum(axis=-1)
        path.append(w @ squares[np.arange(len(X)), labels])
        after = squares.argmin(axis=1)
        after[w == 0] = labels[w == 0]
        if (after == labels).all() or len(np.unique(after[w > 0])) < k:
            break
        labels = after
    return labels, path


@pytest.mark.parametrize("shape", [(5, 1, 2), (63, 2, 3), (64, 3, 4), (65, 5, 9), (900, 4, 12)])
@pytest.mark.parametrize("scale", [1.0, 1e-100, 1e100])
def test_bounds_leave_the_labels_of_every_sweep(shape, scale):
    n, d, k = shape
    rng = np.random.default_rng(n)
    X, w = scale * rng.standard_normal((n, d)), rng.integers(1, 4, n).astype(float)
    start = np.arange(n) % k
    for most in (1, 2, 3, 200):
        space = FeatureSpace(X, w)
        labels, path = space.ahead(start, k, most, 0.0)
        inertias = _plain(X, w, start, k, len(path) + 1)[1]
        done = min(len(path), len(inertias))
        np.testing.assert_allclose(path[:done], inertias[:done], rtol=1e-9)
        assert len(path) <= most
        if len(path) == most or len(inertias) == len(path) + 1:
            again, _ = _plain(X, w, start, k, len(path))
            assert (labels == again).all()
    assert (start == np.arange(n) % k).all()


def test_no_sweep_leaves_a_cluster_empty():
    X = np.array([[0.0], [1.0], [1.1], [9.0]])
    labels = np.array([0, 0, 1, 0])  # the centre of 1 is 1.1, that of 0 is 3.33
    w = np.ones(4)
    sums = np.array([[10.0], [1.1]])
    state = sums, np.array([3.0, 1.0]), np.array([3, 1]), np.full(4, np.inf), np.zeros(4)
    room = np.empty(9)
    done, ended = sweep(X, w, X[:, 0] ** 2, labels, 1e-15, 0.0, *state, room, 10**6)
    assert ended and done >= 1 and set(labels) == {0, 1}
    np.testing.assert_allclose(sums[:, 0], [X[labels == c].sum() for c in (0, 1)])


@pytest.mark.parametrize("k", [1, 2, 6])
def test_runs_of_equal_points_and_weights_of_zero(k):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (80, 2)).astype(float)
    w = rng.integers(0, 3, 80).astype(float)
    run = lloyd(FeatureSpace(X, w), np.arange(80) % k, k)
    assert run.converged and (np.diff(run.path) < 0).all()
    C = np.stack([np.average(X[run.labels == c], axis=0, weights=w[run.labels == c])
                  for c in range(k)])  # fmt: skip
    squares = ((X[:, None] - C) ** 2).sum(axis=-1)
    own = squares[np.arange(80), run.labels]
    assert (own <= squares.min(axis=1) + 1e-12).all()
    assert run.inertia == pytest.approx(w @ own)


def test_a_long_run_goes_on_where_a_call_ended(monkeypatch):
    from mercer.models.cluster import spaces

    rng = np.random.default_rng(1)
    X, w = rng.standard_normal((400, 2)), np.ones(400)
    start = rng.integers(0, 7, 400)
    whole, path = FeatureSpace(X, w).ahead(start, 7, None, 0.0)
    monkeypatch.setattr(spaces, "SWEEPS", 2)
    monkeypatch.setattr(spaces, "LONG", 1)
    parts, steps = FeatureSpace(X, w).ahead(start, 7, None, 0.0)
    assert (whole == parts).all() and steps == path
