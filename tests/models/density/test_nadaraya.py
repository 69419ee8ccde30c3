"""Local averages and planes: the formulas by loops, leaving out by refits, limits, odd data."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize, minimize_scalar
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import mercer
from mercer.errors import InvalidInput, MemoryBudgetExceeded, ModelFileError
from mercer.models.density.nadaraya import NadarayaWatson, NadarayaWatsonClassifier
from mercer.settings import config
from tests.models.words import alike, words

rng = np.random.default_rng(0)
N, D = 40, 2
X = rng.standard_normal((N, D)) * [1.0, 3.0]
Y = np.column_stack([np.sin(X[:, 0]) + X[:, 1], X[:, 0] ** 2])
y = Y[:, 0]
W = rng.integers(0, 4, N).astype(float)
NEW = rng.standard_normal((15, D)) * [1.2, 3.5]
H = np.array([[1.0, 0.3], [0.3, 2.0]])
PROFILES = {
    "gaussian": lambda r: np.exp(-0.5 * r * r),
    "exponential": lambda r: np.exp(-r),
    "epanechnikov": lambda r: max(0.0, 1 - r * r),
    "tophat": lambda r: float(r < 1),
    "triangular": lambda r: max(0.0, 1 - r),
    "biweight": lambda r: max(0.0, 1 - r * r) ** 2,
    "cosine": lambda r: np.cos(np.pi * r / 2) if r < 1 else 0.0,
}


def radius(x, z, bandwidth):
    matrix = np.asarray(bandwidth, dtype=float)
    if matrix.ndim < 2:
        matrix = np.diag(np.broadcast_to(matrix, (len(x),)))
    return float(np.linalg.norm(np.linalg.solve(matrix, x - z)))


def by_loops(x, points, targets, weights, bandwidth, kernel, degree=0):
    """The answer at one point, by the definition."""
    points, targets = points[weights > 0], targets[weights > 0]
    weights = weights[weights > 0]
    r = [radius(x, z, bandwidth) for z in points]
    k = np.array([w * PROFILES[kernel](v) for w, v in zip(weights, r, strict=True)])
    if not k.any():
        k = np.where(np.isclose(r, min(r), rtol=1e-12), weights, 0.0)
    if degree == 0:
        return sum(k_i * t for k_i, t in zip(k, targets, strict=True)) / k.sum()
    root = np.sqrt(k)[:, None]
    design = np.column_stack([np.ones(len(points)), points - x])
    return np.linalg.lstsq(root * design, root * targets, rcond=None)[0][0]


@pytest.mark.parametrize("kernel", PROFILES)
@pytest.mark.parametrize("bandwidth", [1.5, [0.8, 2.0], H], ids=["number", "columns", "matrix"])
def test_averages_by_loops(kernel, bandwidth):
    model = NadarayaWatson(bandwidth, kernel).fit(X, Y, W)
    expected = [by_loops(x, X, Y, W, bandwidth, kernel) for x in NEW]
    np.testing.assert_allclose(model.predict(NEW), expected, rtol=1e-9, atol=1e-12)
    one = NadarayaWatson(bandwidth, kernel).fit(X, y, W).predict(NEW)
    np.testing.assert_allclose(one, np.array(expected)[:, 0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kernel", PROFILES)
def test_planes_by_least_squares(kernel):
    bandwidth = [2.0, 6.0]
    model = NadarayaWatson(bandwidth, kernel, degree=1).fit(X, Y, W)
    inside = X[:12] + 0.1
    expected = [by_loops(x, X, Y, W, bandwidth, kernel, 1) for x in inside]
    np.testing.assert_allclose(model.predict(inside), expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("bandwidth", [0.3, 2.0, 1e6, H], ids=str)
@pytest.mark.parametrize("far", [0.0, 1e6])
def test_planes_are_reproduced(bandwidth, far):
    points = X + far
    plane = 3.0 + points @ [2.0, -1.0]
    model = NadarayaWatson(bandwidth, degree=1).fit(points, plane, W)
    used = points[W > 0]
    np.testing.assert_allclose(model.predict(used), plane[W > 0], atol=1e-6 * (1 + far * 1e-3))
    if np.ndim(bandwidth) == 0 and bandwidth < 1:
        return
    np.testing.assert_allclose(model.predict(NEW + far), 3.0 + (NEW + far) @ [2.0, -1.0], rtol=1e-6)


def test_a_huge_bandwidth_is_the_mean_or_the_regression():
    w = W / W.sum()
    for kernel in PROFILES:
        mean = NadarayaWatson(1e9, kernel).fit(X, Y, W).predict(NEW)
        np.testing.assert_allclose(mean, np.tile(w @ Y, (len(NEW), 1)), rtol=1e-6)
    plane = NadarayaWatson(1e9, degree=1).fit(X, Y, W).predict(NEW)
    root = np.sqrt(W)[:, None]
    design = np.column_stack([np.ones(N), X])
    coef = np.linalg.lstsq(root * design, root * Y, rcond=None)[0]
    np.testing.assert_allclose(plane, np.column_stack([np.ones(len(NEW)), NEW]) @ coef, rtol=1e-8)


@pytest.mark.parametrize("kernel", PROFILES)
@pytest.mark.parametrize("degree", [0, 1])
def test_a_tiny_bandwidth_is_the_nearest_point(kernel, degree):
    for scale in (1.0, 1e-200, 1e200):
        model = NadarayaWatson(1e-7 * scale, kernel, degree=degree).fit(scale * X, y)
        nearest = np.linalg.norm(NEW[:, None] - X, axis=2).argmin(axis=1)
        np.testing.assert_allclose(model.predict(scale * NEW), y[nearest], rtol=1e-12)


def test_far_points_have_an_answer():
    far = np.array([[1e3, 0.0], [-1e8, 1e8], [1e300, -1e300], [1e-320, 0.0]])
    for kernel in PROFILES:
        for degree in (0, 1):
            got = NadarayaWatson(0.5, kernel, degree=degree).fit(X, Y).predict(far)
            assert np.isfinite(got).all()
    i = np.linalg.norm(X - far[0], axis=1).argmin()
    np.testing.assert_allclose(NadarayaWatson(0.5).fit(X, y).predict(far[:1]), y[i], rtol=1e-9)


def test_equally_near_points_are_averaged():
    model = NadarayaWatson(0.1, "epanechnikov").fit([[0.0], [2.0], [2.0]], [1.0, 4.0, 7.0])
    np.testing.assert_allclose(model.predict([[1.0], [1.5]]), [4.0, 5.5])


def test_directions_without_spread_have_no_slope():
    line = np.column_stack([np.linspace(0, 1, 9), np.zeros(9)])
    model = NadarayaWatson(0.4, degree=1).fit(line, 2 * line[:, 0])
    np.testing.assert_allclose(model.predict([[0.5, 0.0], [0.5, 0.3]]), [1.0, 1.0], atol=1e-10)
    lone = NadarayaWatson(0.01, "tophat", degree=1).fit(X, y)
    np.testing.assert_allclose(lone.predict(X), y)
    same = NadarayaWatson(degree=1).fit(np.ones((5, 2)), np.arange(5.0))
    np.testing.assert_allclose(same.predict([[1.0, 1.0], [2.0, 5.0]]), 2.0)


@pytest.mark.parametrize("kernel", ["gaussian", "tophat", "cosine", "exponential"])
@pytest.mark.parametrize("degree", [0, 1])
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
def test_leaving_out_is_refitting(kernel, degree, weights):
    h = [0.7, 2.5]
    model = NadarayaWatson(h, kernel, degree=degree).fit(X, Y, weights)
    got = model.loo()
    for i in range(N):
        w = np.ones(N) if weights is None else weights.copy()
        w[i] = 0.0
        again = NadarayaWatson(h, kernel, degree=degree).fit(X, Y, w)
        np.testing.assert_allclose(got[i], again.predict(X[i : i + 1])[0], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
@pytest.mark.parametrize("degree", [0, 1])
def test_the_bandwidth_has_the_least_left_out_error(kernel, degree):
    model = NadarayaWatson(kernel=kernel, degree=degree).fit(X, y, W)
    w = W / W.sum()

    def error(factor):
        h = factor * model.bandwidth_
        return w @ (NadarayaWatson(h, kernel, degree=degree).fit(X, y, W).loo() - y) ** 2

    np.testing.assert_allclose(model.loo_error_, error(1.0), rtol=1e-9)
    tried = [error(f) for f in np.geomspace(0.05, 20, 150)]
    assert model.loo_error_ <= min(tried) * (1.001 if kernel == "gaussian" else 1.02)
    spread = np.sqrt(w @ (X - w @ X) ** 2)
    np.testing.assert_allclose(model.bandwidth_ / spread, (model.bandwidth_ / spread)[0])
    factors, errors = model.loo_path_.T
    assert (np.diff(factors) >= 0).all()
    np.testing.assert_allclose(errors.min() * (w @ (y - w @ y) ** 2), model.loo_error_, rtol=1e-9)


def test_outputs_choose_together_whatever_their_units():
    both = NadarayaWatson().fit(X, Y)
    other = NadarayaWatson().fit(X, Y * [1e-9, 1e5] + [3.0, 0.0])
    np.testing.assert_allclose(both.bandwidth_, other.bandwidth_, rtol=1e-3)


@pytest.mark.parametrize("kernel", PROFILES)
def test_repeated_rows_do_not_make_the_bandwidth_vanish(kernel):
    # Copies stay when a row is left out and want no other point: the search has a least factor.
    twice = np.repeat(np.arange(N), 2)
    model = NadarayaWatson(kernel=kernel).fit(X[twice], y[twice])
    assert np.isfinite(model.predict(NEW)).all()
    gaps = np.linalg.norm((X[:, None] - X) / model.bandwidth_, axis=2) + np.diag(np.full(N, np.inf))
    assert np.median(gaps.min(axis=1)) < 15
    assert model.loo_error_ == pytest.approx(np.mean((model.loo() - y[twice]) ** 2), abs=1e-15)
    # A weight of 2 has no copy that stays.
    heavy = NadarayaWatson(kernel=kernel).fit(X, y, np.full(N, 2.0))
    plain = NadarayaWatson(kernel=kernel).fit(X, y)
    np.testing.assert_allclose(heavy.bandwidth_, plain.bandwidth_, rtol=1e-9)


@pytest.mark.parametrize("values", [2, 3, 8])
@pytest.mark.parametrize("degree", [0, 1])
def test_columns_of_few_values(values, degree):
    # Rows at one place tell about each other: left out one by one, they agree.
    g = np.random.default_rng(values)
    x = g.integers(0, values, (200, 1)).astype(float)
    t = (-1.0) ** x[:, 0] + 0.1 * g.normal(size=200)
    model = NadarayaWatson(degree=degree).fit(x, t)
    assert model.score(x, t) > 0.95
    assert model.loo_error_ == pytest.approx(np.mean((model.loo() - t) ** 2), rel=1e-10)
    tried = [
        np.mean((NadarayaWatson(h, degree=degree).fit(x, t).loo() - t) ** 2)
        for h in np.geomspace(0.1, 4, 40)
    ]
    assert model.loo_error_ <= min(tried) * (1 + 1e-6)
    flips = np.where(g.random(200) < 0.1, 1 - x[:, 0] % 2, x[:, 0] % 2).astype(int)
    assert NadarayaWatsonClassifier().fit(x, flips).score(x, flips) > 0.85
    assert mercer.KDEClassifier("loo", shared=True).fit(x, flips).score(x, flips) > 0.85


def test_exclusive_or_of_two_columns():
    g = np.random.default_rng(0)
    x = g.integers(0, 2, (200, 2)).astype(float)
    t = (-1.0) ** x.sum(axis=1) + 0.1 * g.normal(size=200)
    assert NadarayaWatson().fit(x, t).score(x, t) > 0.95


def test_clusters_far_apart():
    x = np.r_[np.linspace(0, 1e-8, 40), 1.0][:, None]
    t = np.r_[np.sin(np.linspace(0, 6, 40)), 0.0]
    model = NadarayaWatson().fit(x, t)
    error = np.mean((NadarayaWatson(1e-10).fit(x, t).loo() - t) ** 2)
    assert model.loo_error_ <= 1.01 * error


@pytest.mark.parametrize("seed", range(3))
def test_the_bandwidth_is_a_minimiser(seed):
    g = np.random.default_rng(seed)
    x = g.uniform(0, 1, (60, 1))
    t = np.sin(6 * x[:, 0]) + 0.2 * g.normal(size=60)
    model = NadarayaWatson().fit(x, t)

    def error(h):
        return np.mean((NadarayaWatson(h).fit(x, t).loo() - t) ** 2)

    start = float(np.log(model.bandwidth_[0]))
    bracket = (start - 0.1, start, start + 0.1)
    best = minimize_scalar(lambda u: error(np.exp(u)), bracket, tol=1e-9)
    assert model.bandwidth_[0] == pytest.approx(np.exp(best.x), rel=1e-5)


def test_huge_targets_and_weights():
    same = NadarayaWatson(1.0).fit(X, np.full(N, 1e308))
    np.testing.assert_allclose(same.predict(NEW), 1e308, rtol=1e-12)
    for kernel in ("gaussian", "tophat"):
        plain = NadarayaWatson(kernel=kernel).fit(X, y, np.full(N, 9.0)).predict(NEW)
        huge = NadarayaWatson(kernel=kernel).fit(X, y, np.full(N, 1e308)).predict(NEW)
        assert np.isfinite(huge).all()
        assert huge.shape == plain.shape


@pytest.mark.parametrize("kernel", [k for k in PROFILES if k not in ("gaussian", "exponential")])
@pytest.mark.parametrize("h", [3.0, 5.0, 7.0, 2**0.5])
def test_the_rim_on_whole_numbers(kernel, h):
    g = np.random.default_rng(0)
    for d in (1, 2):
        x = g.integers(0, 12, (60, d)).astype(float) + 1000.0
        t = g.normal(size=60)
        model = NadarayaWatson(h, kernel).fit(x, t)
        expected = []
        for q in x:
            r = np.sqrt(((q - x) ** 2).sum(axis=1))
            k = np.array([PROFILES[kernel](v / h) if v < h else 0.0 for v in r])
            expected.append(k @ t / k.sum())
        np.testing.assert_allclose(model.predict(x), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kernel", PROFILES)
@pytest.mark.parametrize("degree", [0, 1])
def test_weights_are_repetitions(kernel, degree):
    repeated = np.repeat(np.arange(N), W.astype(int))
    for h in (1.5, "scott", "silverman"):
        weighted = NadarayaWatson(h, kernel, degree=degree).fit(X, Y, W)
        again = NadarayaWatson(h, kernel, degree=degree).fit(X[repeated], Y[repeated])
        np.testing.assert_allclose(weighted.bandwidth_, again.bandwidth_, rtol=1e-9)
        np.testing.assert_allclose(weighted.predict(NEW), again.predict(NEW), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kernel", PROFILES)
@pytest.mark.parametrize("degree", [0, 1])
def test_only_relative_weights_matter(kernel, degree):
    # A row of weight 1.01 that stayed with 0.01 would answer for itself at a small bandwidth.
    plain = NadarayaWatson(kernel=kernel, degree=degree).fit(X, Y, W)
    for scale in (1e-200, 1.01, 7.0, 1e200):
        model = NadarayaWatson(kernel=kernel, degree=degree).fit(X, Y, scale * W)
        np.testing.assert_allclose(model.bandwidth_, plain.bandwidth_, rtol=1e-6)
        np.testing.assert_allclose(model.loo(), plain.loo(), rtol=1e-6, atol=1e-8)
        assert model.loo_error_ == pytest.approx(plain.loo_error_, rel=1e-6)


def test_rows_of_weight_zero_are_absent_but_are_answered():
    used = W > 0
    model = NadarayaWatson().fit(X, y, W)
    again = NadarayaWatson().fit(X[used], y[used], W[used])
    np.testing.assert_array_equal(model.bandwidth_, again.bandwidth_)
    np.testing.assert_array_equal(model.predict(NEW), again.predict(NEW))
    np.testing.assert_array_equal(model.loo()[used], again.loo())
    np.testing.assert_allclose(model.loo()[~used], again.predict(X[~used]), rtol=1e-12)
    tiny = NadarayaWatson(1.0).fit(X, y, 1e-300 * W).predict(NEW)
    np.testing.assert_allclose(tiny, NadarayaWatson(1.0).fit(X, y, 1e300 * W).predict(NEW))


def test_rules_are_those_of_densities():
    n = W.sum()
    mean = W @ X / n
    spread = np.sqrt(W @ (X - mean) ** 2 / (n - 1))
    got = NadarayaWatson("scott").fit(X, y, W).bandwidth_
    np.testing.assert_allclose(got, n ** (-1 / 6) * spread)
    flat = np.column_stack([X, np.full(N, 7.0)])
    for rule in ("scott", "silverman", "loo"):
        wide = NadarayaWatson(rule).fit(flat, y)
        plain = NadarayaWatson(rule).fit(X, y)
        np.testing.assert_allclose(wide.bandwidth_[:2], plain.bandwidth_, rtol=1e-12)
        moved = np.column_stack([NEW, np.full(len(NEW), 9.0)])
        np.testing.assert_allclose(wide.predict(moved), plain.predict(NEW), rtol=1e-9)


def test_one_point_and_equal_points():
    for degree in (0, 1):
        one = NadarayaWatson(degree=degree).fit([[3.0, 1.0]], [7.0])
        np.testing.assert_allclose(one.predict(NEW), 7.0)
        with pytest.raises(InvalidInput, match="only training point"):
            one.loo()
    same = NadarayaWatson().fit(np.zeros((4, 1)), [0.0, 1.0, 2.0, 9.0])
    np.testing.assert_allclose(same.predict([[0.0], [5.0]]), 3.0)
    np.testing.assert_allclose(same.loo(), [4.0, 11 / 3, 10 / 3, 1.0])
    assert same.bandwidth_ == [1.0]
    constant = NadarayaWatson().fit(X, np.full(N, 5.0))
    np.testing.assert_allclose(constant.predict(NEW), 5.0)
    assert constant.loo_error_ < 1e-20
    assert not hasattr(same, "loo_error_")


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e150])
@pytest.mark.parametrize("degree", [0, 1])
def test_units_do_not_matter(scale, degree):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = NadarayaWatson(degree=degree).fit(X, y)
        scaled = NadarayaWatson(degree=degree).fit(scale * X, scale * y)
        np.testing.assert_allclose(scaled.bandwidth_ / scale, plain.bandwidth_, rtol=1e-7)
        got = scaled.predict(scale * NEW) / scale
    np.testing.assert_allclose(got, plain.predict(NEW), rtol=1e-6, atol=1e-6)


def test_float32_and_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b"])
    plain = NadarayaWatson().fit(X, y)
    np.testing.assert_array_equal(NadarayaWatson().fit(frame, y).predict(frame), plain.predict(X))
    single = NadarayaWatson(1.0).fit(X.astype(np.float32), y).predict(NEW)
    np.testing.assert_allclose(single, NadarayaWatson(1.0).fit(X, y).predict(NEW), rtol=1e-4)
    assert single.dtype == np.float64


# ------------------------------------------------------------------------------ other kernels
def test_kernels_weigh_by_their_values():
    for kernel in (mercer.RBF(1.3), mercer.Matern(2.0), mercer.RBF(1.0) * mercer.Laplacian(3.0)):
        model = NadarayaWatson(kernel=kernel).fit(X, Y, W)
        K = np.asarray(kernel(NEW, X)) * W
        expected = K @ Y / K.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(model.predict(NEW), expected, rtol=1e-10)
        less = np.where(np.eye(N) > 0, 0.0, W)  # each row is left out
        K = np.asarray(kernel(X)) * less
        np.testing.assert_allclose(model.loo(), K @ Y / K.sum(axis=1, keepdims=True), rtol=1e-10)
        assert model.bandwidth_ is None
    smooth = NadarayaWatson(1.3).fit(X, Y, W).predict(NEW)
    kernel = NadarayaWatson(kernel=mercer.RBF(1.3)).fit(X, Y, W).predict(NEW)
    np.testing.assert_allclose(kernel, smooth, rtol=1e-9)
    assert isinstance(NadarayaWatson(kernel="rbf").fit(X, y).kernel_, mercer.RBF)


def test_precomputed_and_words():
    kernel = mercer.RBF(1.3)
    K = np.asarray(kernel(X))
    model = NadarayaWatson(kernel="precomputed").fit(K, y, W)
    points = NadarayaWatson(kernel=kernel).fit(X, y, W)
    np.testing.assert_allclose(model.predict(kernel(NEW, X)), points.predict(NEW))
    np.testing.assert_allclose(model.loo(K), points.loo())
    with pytest.raises(InvalidInput, match=r"loo\(K\)"):
        model.loo()
    with pytest.raises(InvalidInput, match="square"):
        NadarayaWatson(kernel="precomputed").fit(K[:, :5], y)
    texts = words(30)
    lengths = np.array([float(len(t)) for t in texts])
    fitted = NadarayaWatson(kernel=alike).fit(texts, lengths)
    G = np.array([[alike(s, t) for t in texts] for s in texts])
    np.testing.assert_allclose(fitted.predict(texts), G @ lengths / G.sum(axis=1))


def test_no_kernel_value_gives_the_mean_and_a_negative_one_an_error():
    def shared(s, t):
        return float(len(set(s) & set(t)))

    model = NadarayaWatson(kernel=shared).fit(["ab", "cd", "ef"], [1.0, 2.0, 6.0], [1, 1, 2])
    np.testing.assert_allclose(model.predict(["xyz", "a", ""]), [3.75, 1.0, 3.75])
    np.testing.assert_allclose(model.loo(), [14 / 3, 13 / 3, 1.5])
    alone = NadarayaWatson(kernel=shared).fit(["ab", "cd"], [1.0, 2.0], [0.5, 1])
    np.testing.assert_allclose(alone.loo(), [2.0, 1.0])
    with pytest.raises(InvalidInput, match=r"Linear.*< 0.*RBF"):
        NadarayaWatson(kernel=mercer.Linear()).fit(X, y).predict(X)
    with pytest.raises(InvalidInput, match=r"degree=1.*planes"):
        NadarayaWatson(kernel=mercer.RBF(), degree=1).fit(X, y)


def test_sparse_rows():
    dense = NadarayaWatson().fit(X, y)
    sparse = NadarayaWatson().fit(sp.csr_array(X), y)
    np.testing.assert_array_equal(sparse.predict(sp.csc_array(NEW)), dense.predict(NEW))
    classes = mercer.KDEClassifier().fit(sp.csr_array(X), LABELS)
    again = mercer.KDEClassifier().fit(X, LABELS).predict_proba(NEW)
    np.testing.assert_array_equal(classes.predict_proba(sp.csr_array(NEW)), again)
    with config(memory=300), pytest.raises(MemoryBudgetExceeded, match="dense rows of a sparse X"):
        NadarayaWatson().fit(sp.csr_array(X), y)
    got = NadarayaWatson(kernel=mercer.RBF(1.0)).fit(sp.csr_array(X), y).predict(sp.csr_array(NEW))
    np.testing.assert_allclose(got, NadarayaWatson(kernel=mercer.RBF(1.0)).fit(X, y).predict(NEW))


# -------------------------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"bandwidth": 0.0}, "bandwidth"),
        ({"bandwidth": -1.0}, "bandwidth"),
        ({"bandwidth": np.nan}, "bandwidth"),
        ({"bandwidth": [1.0, 2.0, 3.0]}, "bandwidth of shape"),
        ({"bandwidth": [[1.0, 2.0], [2.0, 1.0]]}, "positive definite"),
        ({"bandwidth": "nearest"}, "nearest"),
        ({"bandwidth": None}, "bandwidth"),
        ({"kernel": "box"}, "box"),
        ({"kernel": 3}, "kernel=3"),
        ({"degree": 2}, "degree=2"),
        ({"degree": True}, "degree=True"),
        ({"degree": "one"}, "degree='one'"),
        ({"degree": np.array([0, 1])}, "degree=array"),
        ({"bandwidth": -5.0, "kernel": mercer.RBF(1.0)}, "smoothing kernels"),
        ({"bandwidth": "nonsense", "kernel": "rbf"}, "smoothing kernels"),
    ],
    ids=str,
)
def test_wrong_parameters(params, message):
    model = NadarayaWatson(1.0).fit(X, y)
    before = model.predict(NEW)
    changed = clone(model).set_params(**params)
    with pytest.raises(InvalidInput, match=rf"NadarayaWatson: .*{message}"):
        changed.fit(X, y)
    model.set_params(**params)
    with pytest.raises(InvalidInput):
        model.fit(X, y)
    model.set_params(bandwidth=1.0, kernel="gaussian", degree=0)
    np.testing.assert_array_equal(model.predict(NEW), before)


@pytest.mark.parametrize(
    "bad", [(X, y[:-1]), (X * np.nan, y), (X, y * np.nan), (X[:0], y[:0]), (X, None), ("abc", y)]
)
def test_wrong_data(bad):
    with pytest.raises(InvalidInput):
        NadarayaWatson().fit(*bad)
    with pytest.raises(InvalidInput, match="features"):
        NadarayaWatson().fit(X, y).predict(X[:, :1])
    with pytest.raises(InvalidInput, match="not what the model was fitted on"):
        NadarayaWatson(1.0).fit(X, y).loo(X + 1)


# ------------------------------------------------------------------------------------- the rest
def test_memory_is_that_of_bands():
    import tracemalloc

    many = rng.standard_normal((3000, 2))
    model = NadarayaWatson(0.3).fit(many, many[:, 0])
    model.predict(many[:5])
    with config(memory=4_000_000, threads=1):
        tracemalloc.start()
        got = model.predict(many)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 4_400_000
    np.testing.assert_allclose(got, model.predict(many), rtol=1e-10)
    with config(memory=20_000), pytest.raises(MemoryBudgetExceeded):
        model.predict(many)


@pytest.mark.parametrize("degree", [0, 1])
def test_memory_holds_copies_of_many_columns(degree):
    import tracemalloc

    many = rng.standard_normal((1500, 30))
    model = NadarayaWatson(3.0, degree=degree).fit(many, many[:, 0])
    expected, left = model.predict(many), model.loo()
    with config(memory=2_500_000, threads=1):
        for ask in (lambda: model.predict(many), model.loo):
            tracemalloc.start()
            got = ask()
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 2_500_000
            np.testing.assert_allclose(got, left if ask == model.loo else expected, rtol=1e-9)
    with config(memory=1_500_000), pytest.raises(MemoryBudgetExceeded, match="from 1500"):
        model.predict(many)


def test_many_classes_ask_for_their_room():
    points = rng.standard_normal((2000, 1))
    model = NadarayaWatsonClassifier(0.3).fit(points, np.arange(2000) % 500)
    with config(memory=10_000_000), pytest.raises(MemoryBudgetExceeded, match="500 values of 2000"):
        model.predict(points[:5])


def test_threads_give_the_same_bits():
    answers = []
    for threads in (1, 2):
        with config(threads=threads):
            answers.append(NadarayaWatson(degree=1).fit(X, y).predict(NEW))
    np.testing.assert_array_equal(*answers)


def test_grid_search_over_bandwidths():
    search = GridSearchCV(NadarayaWatson(), {"bandwidth": [1e-9, 0.5, 1e9], "degree": [0, 1]})
    search.fit(X[:, :1], X[:, 0] ** 2)
    assert search.best_params_ == {"bandwidth": 0.5, "degree": 1}


def test_files_that_do_not_fit_are_refused(tmp_path):
    model = NadarayaWatson(1.0).fit(X, y)
    for name, value in [
        ("sample_weight_", np.ones(3)),
        ("bandwidth_", -1.0),
        ("bandwidth_", "scott"),
        ("smoothing_", "box"),
        ("y_fit_", np.full(N, np.nan)),
        ("X_fit_", np.full((N, D), np.nan)),
        ("sample_weight_", np.zeros(N)),
        ("sample_weight_", np.full(N, np.inf)),
    ]:
        broken = NadarayaWatson(1.0).fit(X, y)
        setattr(broken, name, value)
        mercer.save(broken, tmp_path / "model")
        with pytest.raises(ModelFileError):
            mercer.load(tmp_path / "model")
    mercer.save(model, tmp_path / "model")
    np.testing.assert_array_equal(mercer.load(tmp_path / "model").predict(NEW), model.predict(NEW))


# ------------------------------------------------------------------------------- classification
LABELS = np.array(["red", "green", "blue"])[(X[:, 0] > 0) + (X[:, 1] > 1).astype(int)]


@pytest.mark.parametrize("kernel", PROFILES)
def test_shares_by_loops(kernel):
    model = NadarayaWatsonClassifier(1.0, kernel).fit(X, LABELS, W)
    onehot = (LABELS[:, None] == model.classes_).astype(float)
    expected = [by_loops(x, X, onehot, W, 1.0, kernel) for x in NEW]
    np.testing.assert_allclose(model.predict_proba(NEW), expected, rtol=1e-9, atol=1e-12)
    best = model.classes_[np.argmax(expected, axis=1)]
    np.testing.assert_array_equal(model.predict(NEW), best)


def test_classes_left_out_are_refits():
    model = NadarayaWatsonClassifier([0.5, 1.5]).fit(X, LABELS, W)
    got, said = model.loo_proba(), model.loo()
    for i in range(N):
        w = W.copy()
        w[i] = 0.0
        again = NadarayaWatsonClassifier([0.5, 1.5]).fit(X, LABELS, w)
        np.testing.assert_allclose(got[i], again.predict_proba(X[i : i + 1])[0], atol=1e-9)
        assert said[i] == again.predict(X[i : i + 1])[0]


def test_the_bandwidth_has_the_least_left_out_log_loss():
    model = NadarayaWatsonClassifier().fit(X, LABELS)
    code = np.searchsorted(model.classes_, LABELS)

    def error(factor):
        P = NadarayaWatsonClassifier(factor * model.bandwidth_).fit(X, LABELS).loo_proba()
        return -np.log(np.maximum(P[np.arange(N), code], 1 / N)).mean()

    np.testing.assert_allclose(model.loo_error_, error(1.0), rtol=1e-9)
    assert model.loo_error_ <= min(error(f) for f in np.geomspace(0.05, 20, 150)) * (1 + 1e-3)


def test_one_class_lost_classes_and_kernels():
    one = NadarayaWatsonClassifier().fit(X, ["a"] * N)
    assert (one.predict(NEW) == "a").all()
    np.testing.assert_array_equal(one.predict_proba(NEW), 1.0)
    w = (LABELS != "red").astype(float)
    model = NadarayaWatsonClassifier().fit(X, LABELS, w)
    kept = LABELS != "red"
    again = NadarayaWatsonClassifier().fit(X[kept], LABELS[kept])
    assert model.classes_.tolist() == ["blue", "green"]
    np.testing.assert_array_equal(model.predict_proba(NEW), again.predict_proba(NEW))
    assert np.isin(model.loo(), model.classes_).all()
    kernel = mercer.RBF(0.9)
    by_kernel = NadarayaWatsonClassifier(kernel=kernel).fit(X, LABELS)
    smooth = NadarayaWatsonClassifier(0.9).fit(X, LABELS)
    np.testing.assert_allclose(by_kernel.predict_proba(NEW), smooth.predict_proba(NEW), atol=1e-9)
    np.testing.assert_allclose(by_kernel.loo_proba(), smooth.loo_proba(), atol=1e-9)
    texts = words(30)
    longer = np.array([len(t) > 4 for t in texts])
    assert NadarayaWatsonClassifier(kernel=alike).fit(texts, longer).score(texts, longer) > 0.5


def test_classifier_search_and_errors():
    search = GridSearchCV(NadarayaWatsonClassifier(), {"bandwidth": [1e-9, 0.7, 1e9]}, cv=3)
    assert search.fit(X, LABELS).best_params_ == {"bandwidth": 0.7}
    with pytest.raises(InvalidInput, match="missing labels"):
        NadarayaWatsonClassifier().fit(X[:2], [1.0, np.nan])
    with pytest.raises(InvalidInput, match="NadarayaWatsonClassifier: bandwidth"):
        NadarayaWatsonClassifier(0.0).fit(X, LABELS)


# ------------------------------------------------------------------- a bandwidth for each column
def with_noise_column(n, seed, classes=False):
    rng = np.random.default_rng(seed)
    P = rng.uniform(-2, 2, size=(n, 3)) * [1.0, 5.0, 0.1]
    f = np.sin(2 * P[:, 0]) + 0.1 * P[:, 1]
    return P, (f > 0).astype(int) if classes else f + 0.3 * rng.normal(size=n)


def left_out_error(P, t, lengths):
    s = (((P[:, None] - P[None]) / lengths) ** 2).sum(axis=2)
    np.fill_diagonal(s, np.inf)
    K = np.exp(-0.5 * (s - s.min(axis=1)[:, None]))
    return float(np.mean((K @ t / K.sum(axis=1) - t) ** 2))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_column_that_tells_nothing_has_no_say(seed):
    P, t = with_noise_column(120, seed)
    common, own = (NadarayaWatson(word).fit(P, t) for word in ("loo", "loo-columns"))
    assert own.loo_error_ < 0.8 * common.loo_error_
    assert own.loo_error_ == pytest.approx(left_out_error(P, t, own.bandwidth_), rel=1e-9)
    ranges = np.ptp(P, axis=0)
    assert own.bandwidth_[2] > 0.8 * ranges[2]
    assert (own.bandwidth_[:2] < 0.4 * ranges[:2]).all()
    # No search finds much more from there; bandwidths follow the units of the columns.
    best = minimize(
        lambda logs: left_out_error(P, t, np.exp(logs)),
        np.log(own.bandwidth_),
        method="Nelder-Mead",
        options={"maxfev": 150},
    )
    assert own.loo_error_ < 1.01 * best.fun
    other = NadarayaWatson("loo-columns").fit(P * [8.0, 0.25, 1.0] + 4.0, t)
    np.testing.assert_allclose(other.bandwidth_, own.bandwidth_ * [8.0, 0.25, 1.0], rtol=1e-6)
    Q, _ = with_noise_column(300, 99)
    truth = np.sin(2 * Q[:, 0]) + 0.1 * Q[:, 1]
    errors = [np.mean((model.predict(Q) - truth) ** 2) for model in (common, own)]
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.parametrize(
    "options", [{"degree": 1}, {"kernel": "epanechnikov"}, {"kernel": "exponential"}], ids=str
)
def test_columns_are_chosen_with_any_kernel_and_with_planes(options):
    P, t = with_noise_column(80, 3)
    common, own = (NadarayaWatson(word, **options).fit(P, t) for word in ("loo", "loo-columns"))
    assert own.loo_error_ < common.loo_error_
    assert own.loo_error_ == pytest.approx(np.mean((own.loo() - t) ** 2), rel=1e-9)


def test_planes_are_not_caught_by_a_common_bandwidth_that_is_tiny():
    rng = np.random.default_rng(1)
    P = rng.normal(size=(200, 3))
    t = np.sin(2 * P[:, 0]) + 0.5 * P[:, 1] + 0.3 * rng.normal(size=200)
    common, own = (NadarayaWatson(w, degree=1).fit(P, t) for w in ("loo", "loo-columns"))
    assert common.bandwidth_.max() < 0.05  # no step along a column leads away from there
    assert own.loo_error_ < 0.5 * common.loo_error_ and own.bandwidth_.min() > 0.15


def test_columns_that_do_not_vary_one_column_weights_and_classes():
    P, t = with_noise_column(60, 4)
    wider = np.column_stack([P, np.full(60, 7.0)])
    model, common = (NadarayaWatson(word).fit(wider, t) for word in ("loo-columns", "loo"))
    own = NadarayaWatson("loo-columns").fit(P, t)
    assert model.bandwidth_[3] == common.bandwidth_[3]
    np.testing.assert_allclose(model.bandwidth_[:3], own.bandwidth_, rtol=1e-9)
    single, word = (NadarayaWatson(w).fit(P[:, :1], t) for w in ("loo-columns", "loo"))
    np.testing.assert_array_equal(single.bandwidth_, word.bandwidth_)
    equal = NadarayaWatson("loo-columns").fit(np.ones((5, 2)), np.arange(5.0))
    np.testing.assert_array_equal(equal.bandwidth_, [1.0, 1.0])
    weights = np.random.default_rng(5).uniform(0, 3, 60) * (np.arange(60) % 4 > 0)
    weighted, scaled = (NadarayaWatson("loo-columns").fit(P, t, c * weights) for c in (1.0, 7.3))
    np.testing.assert_allclose(scaled.bandwidth_, weighted.bandwidth_, rtol=1e-9)
    rng = np.random.default_rng(3)  # where the search from Scott's rule ends lowest
    Q = rng.normal(size=(90, 3))
    v = Q[:, 0] ** 2 + 0.3 * Q[:, 1] + 0.1 * rng.normal(size=90)
    fits = [NadarayaWatson("loo-columns").fit(Q, v, c * np.linspace(0.5, 2, 90)) for c in (1, 3)]
    np.testing.assert_allclose(fits[1].bandwidth_, fits[0].bandwidth_, rtol=1e-9)
    part = NadarayaWatson("loo-columns").fit(P[weights > 0], t[weights > 0], weights[weights > 0])
    np.testing.assert_allclose(weighted.bandwidth_, part.bandwidth_, rtol=1e-9)
    P, labels = with_noise_column(100, 6, classes=True)
    common, own = (NadarayaWatsonClassifier(w).fit(P, labels) for w in ("loo", "loo-columns"))
    assert own.loo_error_ < common.loo_error_
    with pytest.raises(InvalidInput, match="is for smoothing kernels"):
        NadarayaWatson("loo-columns", mercer.RBF(1.0)).fit(P, labels)


# ------------------------------------------------------------------------------ marginal effects
@pytest.mark.parametrize("kernel", sorted(set(PROFILES) - {"tophat"}))
@pytest.mark.parametrize("bandwidth", [2.5, [1.5, 4.0], 2 * H], ids=["number", "columns", "matrix"])
def test_gradients_are_differences(kernel, bandwidth):
    model = NadarayaWatson(bandwidth, kernel).fit(X, Y, W)
    found = model.gradient(NEW)
    assert found.shape == (len(NEW), D, 2)
    for c, step in enumerate(1e-6 * np.eye(D)):
        want = (model.predict(NEW + step) - model.predict(NEW - step)) / 2e-6
        np.testing.assert_allclose(found[:, c], want, atol=2e-7)
    single = NadarayaWatson(bandwidth, kernel).fit(X, y, W).gradient(NEW)
    np.testing.assert_allclose(single, found[:, :, 0], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kernel", PROFILES)
def test_the_gradient_of_planes_is_theirs(kernel):
    slopes = np.array([[2.0, -1.0], [0.5, 3.0]])
    model = NadarayaWatson([2.0, 6.0], kernel, degree=1).fit(X, X @ slopes + 5)
    np.testing.assert_allclose(model.gradient(NEW[:5]), [slopes] * 5, atol=1e-9)


def test_gradients_far_away_in_units_and_where_there_are_none():
    near = NadarayaWatson(0.1, "biweight").fit(X, y)
    assert not near.gradient(NEW + 100).any()  # the nearest point answers
    assert np.isfinite(NadarayaWatson(0.01).fit(X, y).gradient(NEW + 100)).all()
    assert np.isfinite(NadarayaWatson(1.0, "exponential").fit(X, y).gradient(X)).all()
    model, moved = (NadarayaWatson(h).fit(P, y) for h, P in ((1.0, X), (1024.0, 1024 * X + 2**20)))
    found = moved.gradient(1024 * NEW + 2**20)
    np.testing.assert_allclose(1024 * found, model.gradient(NEW), rtol=1e-9, atol=1e-12)
    huge = NadarayaWatson(1.0).fit(X, 1e300 * y).gradient(NEW)
    np.testing.assert_allclose(huge, 1e300 * model.gradient(NEW), rtol=1e-12)
    for kernel in ("tophat", mercer.RBF(1.0)):
        fitted = NadarayaWatson(kernel=kernel).fit(X, y)
        with pytest.raises(InvalidInput, match=r"NadarayaWatson\.gradient: kernel=.*no slopes"):
            fitted.gradient(NEW)
    with pytest.raises(InvalidInput, match="3"):
        model.gradient(np.zeros((2, 3)))
    with config(memory=4000), pytest.raises(MemoryBudgetExceeded, match="distances of"):
        model.gradient(NEW)
