"""Jackknife+ intervals against refits, and how often they hold a new target."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import mercer
from mercer import RBF, KernelRidge, Linear, Polynomial
from mercer.errors import InvalidInput
from mercer.models.ridge.left_out import order_statistic

N = 23
rng = np.random.default_rng(11)
X = rng.standard_normal((N, 2))
Y = np.c_[np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(N), X[:, 1] ** 2]
NEW = rng.standard_normal((9, 2))
GROUPS = rng.integers(0, 5, N)
WEIGHTS = {
    "none": None,
    "uneven": rng.uniform(0.3, 3, N),
    "zeros": np.where(np.arange(N) % 4 == 0, 0.0, rng.integers(1, 4, N)),
}


def sorted_place(values, weights, coverage):
    """The definition, by sorting: weights are repetitions."""
    at, total = np.argsort(values), 0.0
    for i in at:
        total += weights[i]
        if total >= coverage * (weights.sum() + 1) - 1e-9:
            return values[i]
    return np.inf


def brute(model, X, Y, w, new, coverage, groups):
    """Return lower and upper ends from one refit a group."""
    Y = Y.reshape(len(X), -1)
    live = np.arange(len(X)) if w is None else np.flatnonzero(w)
    weights = np.ones(len(live)) if w is None else w[live]
    ends = np.empty((2, len(new), Y.shape[1]))
    without = np.empty((len(live), len(new), Y.shape[1]))
    R = np.empty((len(live), Y.shape[1]))
    for k, i in enumerate(live):
        rest = groups != groups[i]
        part = clone(model).fit(X[rest], Y[rest], sample_weight=None if w is None else w[rest])
        without[k] = part.predict(new)
        R[k] = abs(Y[i] - part.predict(X[i : i + 1])[0])
    for q in range(len(new)):
        for j in range(Y.shape[1]):
            ends[1, q, j] = sorted_place(without[:, q, j] + R[:, j], weights, coverage)
            ends[0, q, j] = -sorted_place(R[:, j] - without[:, q, j], weights, coverage)
    return ends


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("kernel", [RBF(0.8), Linear(), Polynomial(2)], ids=repr)
@pytest.mark.parametrize("alpha", [0.2, [0.1, 1.0]], ids=["number", "each"])
def test_intervals_equal_refits(kernel, weights, alpha, offset):
    w = WEIGHTS[weights]
    model = KernelRidge(kernel, alpha, fit_intercept=offset).fit(X, Y, sample_weight=w)
    K = kernel(X)
    given = KernelRidge("precomputed", alpha, fit_intercept=offset).fit(K, Y, sample_weight=w)
    for coverage, groups in ((0.8, None), (0.6, GROUPS)):
        codes = np.arange(N) if groups is None else groups
        want = brute(model, X, Y, w, NEW, coverage, codes)
        got = model.predict_interval(NEW, coverage, groups=groups)
        np.testing.assert_allclose(got, want, atol=1e-8)
        got = given.predict_interval(kernel(NEW, X), coverage, groups=groups, gram=K)
        np.testing.assert_allclose(got, want, atol=1e-7)


def test_shapes_caches_and_files(tmp_path):
    model = KernelRidge(RBF(), 0.1).fit(X, Y[:, 0])
    lower, upper = model.predict_interval(NEW)
    assert lower.shape == upper.shape == (9,)
    assert (lower < upper).all()
    assert model._smoother_cache is not None
    np.testing.assert_array_equal(model.predict_interval(NEW)[0], lower)
    size = len(pickle.dumps(model))
    assert size < len(pickle.dumps(clone(model).fit(X, Y[:, 0]))) + 100
    mercer.save(model, tmp_path / "m.mercer")
    back = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_allclose(back.predict_interval(NEW)[1], upper)
    model.fit(X, 2 * Y[:, 0])
    np.testing.assert_allclose(model.predict_interval(NEW)[1], 2 * upper)


def test_a_small_budget_cuts_tiles_and_keeps_nothing():
    points, new = rng.standard_normal((200, 2)), rng.standard_normal((300, 2))
    model = KernelRidge(RBF(), 0.1).fit(points, points**2)
    want = model.predict_interval(new)
    model.fit(points, points**2)
    with mercer.config(memory=1_050_000):
        got = model.predict_interval(new)
        assert model._smoother_cache is None
    np.testing.assert_allclose(got, want, atol=1e-12)


def test_too_few_rows_for_the_coverage():
    model = KernelRidge(RBF(), 0.1).fit(X[:9], Y[:9, 0])
    lower, upper = model.predict_interval(NEW, 0.95)
    assert (lower == -np.inf).all()
    assert (upper == np.inf).all()
    lower, upper = model.predict_interval(NEW, 0.9)  # nine rows are just enough
    assert np.isfinite([lower, upper]).all()
    one = KernelRidge(RBF(), 0.1).fit(X[:1], Y[:1, 0])
    assert one.predict_interval(NEW, 0.5)[1].shape == (9,)
    with pytest.raises(InvalidInput, match="at least 2 rows"):
        KernelRidge(RBF(), 0.1, fit_intercept=True).fit(X[:1], Y[:1]).predict_interval(NEW)


@pytest.mark.parametrize("kernel", [RBF(), Linear()])
def test_shift_and_scale_of_the_target(kernel):
    model = KernelRidge(kernel, 0.1, fit_intercept=True)
    lower, upper = model.fit(X, Y[:, 0]).predict_interval(NEW)
    for shift, scale in ((1e6, 1.0), (0.0, 1e150), (-3.0, 1e-3)):
        got = model.fit(X, shift + scale * Y[:, 0]).predict_interval(NEW)
        tolerance = 1e-9 * (abs(shift) + scale)
        np.testing.assert_allclose(got[0], shift + scale * lower, atol=tolerance)
        np.testing.assert_allclose(got[1], shift + scale * upper, atol=tolerance)
    mirrored = model.fit(X, -Y[:, 0]).predict_interval(NEW)
    np.testing.assert_allclose(mirrored[0], -upper, atol=1e-9)


def test_a_weight_is_rows_left_out_together():
    w = rng.integers(1, 4, N)
    model = KernelRidge(RBF(), 0.1, fit_intercept=True)
    want = model.fit(X, Y, sample_weight=w).predict_interval(NEW, 0.7)
    rows = np.repeat(np.arange(N), w)
    got = model.fit(X[rows], Y[rows]).predict_interval(NEW, 0.7, groups=rows)
    np.testing.assert_allclose(got, want, atol=1e-8)


@pytest.mark.parametrize("case", ["rbf", "linear", "interpolating"])
def test_coverage_over_200_draws(case):
    kernel, alpha = {
        "rbf": (RBF(1.0), 0.3),
        "linear": (Linear(), 1.0),
        "interpolating": (RBF(0.3), 1e-8),
    }[case]
    draws, n, new = 200, 40, 20
    hits, noise = 0, np.random.default_rng(1)
    for _ in range(draws):
        x = noise.uniform(-3, 3, (n + new, 1))
        y = np.sin(x[:, 0]) + 0.3 * noise.standard_t(3, n + new)
        model = KernelRidge(kernel, alpha, fit_intercept=True).fit(x[:n], y[:n])
        lower, upper = model.predict_interval(x[n:], 0.9)
        hits += np.sum((lower <= y[n:]) & (y[n:] <= upper))
    assert hits / (draws * new) >= 0.88


def test_groups_widen_intervals_of_repeated_measurements():
    person = np.repeat(np.arange(12), 6)
    x = np.repeat(np.arange(12.0)[:, None], 6, axis=0) + 1e-3 * rng.standard_normal((72, 1))
    y = np.repeat(rng.standard_normal(12), 6) + 0.01 * rng.standard_normal(72)
    model = KernelRidge(RBF(0.3), 1e-2).fit(x, y)
    apart = np.subtract(*model.predict_interval(x[::6])[::-1])
    together = np.subtract(*model.predict_interval(x[::6], groups=person)[::-1])
    assert np.median(together) > 2 * np.median(apart)


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 1.5, "0.9", None, np.nan, True, [0.9]])
def test_illegal_coverage_is_refused(coverage):
    model = KernelRidge(RBF(), 0.1).fit(X, Y)
    with pytest.raises(InvalidInput, match=r"predict_interval: coverage"):
        model.predict_interval(NEW, coverage)


def test_the_training_matrix_must_be_given_again():
    K = RBF()(X)
    model = KernelRidge("precomputed", 0.1).fit(K, Y)
    cross = RBF()(NEW, X)
    with pytest.raises(InvalidInput, match="gram=K"):
        model.predict_interval(cross)
    with pytest.raises(InvalidInput, match="not the matrix the model was fitted on"):
        model.predict_interval(cross, gram=K + np.eye(N))
    with pytest.raises(InvalidInput, match="without them"):
        KernelRidge(RBF(), 0.1).fit(X, Y).predict_interval(NEW, gram=K)


def test_words_and_frames():
    words = ["".join(rng.choice(list("abc"), 5)) for _ in range(30)]
    y = np.array([word.count("a") for word in words]) + 0.1 * rng.standard_normal(30)

    def common(a, b):
        return float(sum(a.count(c) * b.count(c) for c in "abc"))

    model = KernelRidge(common, 0.5).fit(words, y)
    K = np.array([[common(a, b) for b in words] for a in words])
    given = KernelRidge("precomputed", 0.5).fit(K, y)
    new = ["aaaaa", "bcbca"]
    cross = np.array([[common(a, b) for b in words] for a in new])
    for groups in (None, [word[0] for word in words]):
        got = model.predict_interval(new, 0.8, groups=groups)
        want = given.predict_interval(cross, 0.8, groups=groups, gram=K)
        np.testing.assert_allclose(got, want, atol=1e-8)
    frame = pd.DataFrame(X, columns=["a", "b"])
    kernel = RBF().on(["a"]) + Linear().on(["b"])
    by_name = KernelRidge(kernel, 0.2).fit(frame, Y[:, 0])
    by_place = KernelRidge(RBF().on([0]) + Linear().on([1]), 0.2).fit(X, Y[:, 0])
    got = by_name.predict_interval(frame[:4])
    np.testing.assert_allclose(got, by_place.predict_interval(X[:4]), atol=1e-9)


@pytest.mark.parametrize("coverage", [1e-3, 1e-9, 1e-12, 1e-300])
def test_tiny_coverage_takes_the_first_place(coverage):
    values = np.array([[3.0, 1.0, 2.0]])
    assert order_statistic(values, coverage)[0] == 1.0
    assert order_statistic(values, coverage, np.full(3, 0.5))[0] == 1.0
    model = KernelRidge(RBF(), 0.3).fit(X, Y[:, 0])
    small = model.predict_interval(NEW, coverage)
    np.testing.assert_array_equal(small, model.predict_interval(NEW, 0.5 / (N + 1)))
    wide = model.predict_interval(NEW, 0.95)
    assert (small[1] <= wide[1]).all() and (small[0] >= wide[0]).all()


def test_order_statistics():
    values = np.array([[3.0, 1.0, 2.0]])
    for coverage, want in ((0.5, 2.0), (0.75, 3.0), (0.76, np.inf), (0.01, 1.0)):
        assert order_statistic(values, coverage)[0] == want
        assert order_statistic(values, coverage, np.ones(3))[0] == want
    assert order_statistic(values, 0.5, np.array([10.0, 1.0, 1.0]))[0] == 3.0
