"""The parts of a feature machine, against brute force."""

import numpy as np
import pytest
from scipy.optimize import minimize

from mercer.checks import Clock
from mercer.kernels import Matern
from mercer.models.metric.learning import (
    EncodedRows,
    Metric,
    by_gradients,
    descend,
    joined,
    plain,
    root_of,
)
from mercer.models.metric.members import (
    FIRST,
    Judged,
    halves_of,
    honest_error,
    leave_out,
    squared_error,
    stack,
)
from mercer.models.metric.scores import NormalScores
from mercer.models.ridge import KernelRidge


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(50, 4))
    T = np.sin(2 * Z[:, :1]) + 0.1 * rng.normal(size=(50, 1))
    return EncodedRows(Z, T / T.std(), rng.uniform(0.5, 2.0, 50))


# ----------------------------------------------------------------------------------------- learning
def test_learning_lowers_the_left_out_error(rows):
    start = plain(rows, Matern(nu=1.5))
    error = np.mean(
        [
            rows.w[i] * (rows.T[i] - _without(rows, start, i)) ** 2 / rows.w.mean()
            for i in range(len(rows))
        ]
    )
    assert start.error == pytest.approx(error, rel=1e-6)
    found = descend(rows, start, Clock())
    assert found.error < 0.8 * start.error and found.shares.argmax() == 0
    steps = list(by_gradients(rows, plain(rows, Matern(nu=0.5)), False, 3, Clock()))
    assert len(steps) == 3 and steps[-1].shares.argmax() == 0
    (full,) = by_gradients(rows, plain(rows, Matern(nu=0.5)), True, 1, Clock())
    assert full.map.ndim == 2 and full.shares.argmax() == 0


def _without(rows, metric, i):
    others = np.delete(np.arange(len(rows)), i)
    rest = rows.take(others)
    model = KernelRidge(metric.kernel, alpha=metric.alpha, fit_intercept=True)
    return model.fit(rest.Z, rest.T[:, 0], rest.w).predict(rows.Z[[i]])[0]


def test_the_root_of_a_metric():
    rng = np.random.default_rng(1)
    B = rng.normal(size=(3, 5))
    A = root_of(B.T @ B)
    assert A.shape == (3, 5)  # directions that hold nothing are left out
    np.testing.assert_allclose(A.T @ A, B.T @ B / np.abs(B.T @ B).max(), atol=1e-12)
    np.testing.assert_allclose(root_of(np.array([4.0, 1.0])), [1.0, 0.5])
    assert root_of(np.zeros((2, 2))) is None and root_of(np.zeros(3)) is None


def test_a_metric_between_two():
    profile, one, two = Matern(nu=0.5), np.array([1.0, 4.0]), np.array([4.0, 1.0])
    between = joined(Metric(profile, one, 1.0), Metric(profile, two, 4.0))
    np.testing.assert_allclose(between.map, [2.0, 2.0])
    assert between.alpha == pytest.approx(2.0)
    full = joined(Metric(profile, np.diag(one), 1.0), Metric(profile, np.diag(two), 1.0))
    np.testing.assert_allclose(full.map.T @ full.map, np.diag([8.5, 8.5]), atol=1e-12)
    again = joined(full, full)
    np.testing.assert_allclose(again.map.T @ again.map, full.map.T @ full.map, atol=1e-12)


# ---------------------------------------------------------------------------------------- judgement
def test_halves_have_every_class_and_every_size():
    rng = np.random.default_rng(2)
    labels = np.repeat([0, 1, 2], [20, 7, 2])
    a, b = halves_of(np.zeros((29, 1)), labels, rng)
    assert sorted(np.r_[a, b]) == list(range(29))
    counts = np.abs(np.bincount(labels[a], minlength=3) - np.bincount(labels[b], minlength=3))
    assert (counts <= 2).all() and set(labels[a]) == set(labels[b]) == {0, 1, 2}
    T = rng.normal(size=(101, 1))
    a, b = halves_of(T, None, rng)
    assert abs(len(a) - len(b)) <= 1 and abs(np.median(T[a]) - np.median(T[b])) < 0.5


def test_rows_are_left_out_in_the_metric_of_the_other_half(rows):
    halves = np.arange(0, 50, 2), np.arange(1, 50, 2)
    metrics = tuple(
        Metric(Matern(nu=1.5), np.full(4, scale), alpha)
        for scale, alpha in ((0.5, 0.1), (1.0, 0.3))
    )
    found = leave_out(Judged(FIRST, "", metrics, 1.0), rows, halves)
    factor = found.metrics[0].alpha / 0.1
    assert found.metrics[1].alpha == pytest.approx(factor * 0.3)
    for i in (0, 1, 6, 7):
        metric = found.metrics[1 - i % 2]  # row 0 is in the first half: the second's metric
        assert found.left_out[i, 0] == pytest.approx(_without(rows, metric, i), rel=1e-6)
    assert found.error == pytest.approx(squared_error(found.left_out, rows))


def test_weights_of_the_mean_are_the_best_on_the_simplex(rows):
    rng = np.random.default_rng(3)
    found = [rows.T + s * rng.normal(size=rows.T.shape) for s in (0.2, 0.3, 0.4, 5.0)]
    weights = stack(found, rows, 3)
    assert weights.sum() == pytest.approx(1.0) and (weights >= 0).all()
    assert weights[3] == 0 and np.count_nonzero(stack(found, rows, 1)) == 1

    def error(w):
        w = np.abs(w) / np.abs(w).sum()
        return squared_error(sum(a * b for a, b in zip(w, found, strict=True)), rows)

    best = min(minimize(error, rng.random(4), method="Nelder-Mead").fun for _ in range(5))
    assert error(weights) < 1.02 * best  # scaled to sum 1 after the fact


def test_an_error_with_weights_of_the_other_half_is_not_optimistic():
    """Of many useless members some fit by chance: that may not show in the error told."""
    told, seen = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rows = EncodedRows(np.zeros((20, 1)), rng.normal(size=(20, 1)))
        found = [0.5 * rng.normal(size=(20, 1)) for _ in range(8)]
        halves = np.arange(10), np.arange(10, 20)
        told.append(honest_error(found, rows, halves, 3))
        weights = stack(found, rows, 3)
        seen.append(squared_error(sum(w * f for w, f in zip(weights, found, strict=True)), rows))
    assert np.mean(told) > 1.0 > np.mean(seen)  # 1 is the error of the mean, the best there is


# ------------------------------------------------------------------------------------------- scores
def test_normal_scores_are_monotone_and_know_weights():
    rng = np.random.default_rng(4)
    Z = np.column_stack([np.exp(rng.normal(size=300)), rng.integers(0, 2, 300), np.ones(300)])
    numbers = np.array([True, True, True])
    scores = NormalScores.of(Z, None, numbers)
    assert scores.views == ["", "ranks of some"]  # two values, one value: nothing to rank
    out = scores.view(Z, "ranks of some")
    np.testing.assert_array_equal(out[:, 1:], Z[:, 1:])
    order = np.argsort(Z[:, 0])
    assert (np.diff(out[order, 0]) >= 0).all()
    assert abs(out[:, 0].mean()) < 0.05 and abs(out[:, 0].std() - 1) < 0.1
    assert scores.view(np.array([[1e9, 0, 1], [-1e9, 0, 1]]), "ranks")[:, 0] == pytest.approx(
        [out[:, 0].max(), out[:, 0].min()]
    )
    weight = rng.integers(1, 4, 300)
    one = NormalScores.of(Z, weight.astype(float), numbers)
    two = NormalScores.of(np.repeat(Z, weight, axis=0), None, numbers)
    np.testing.assert_allclose(one.knots, two.knots)
    assert (NormalScores.of(Z, None, ~numbers).views) == [""]
