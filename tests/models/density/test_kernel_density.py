"""KernelDensity against double loops, scikit-learn, scipy and numerical integrals."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.integrate import cumulative_trapezoid
from scipy.linalg import sqrtm
from scipy.special import logsumexp
from scipy.stats import gaussian_kde, kstest
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity as Peer

import mercer
from mercer import KernelDensity
from mercer.errors import InvalidInput, MemoryBudgetExceeded, ModelFileError
from mercer.models.density.bandwidth import SMOOTHINGS, smoothing

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3)) * [1.0, 2.0, 0.5] + [0.0, 5.0, -3.0]
Q = RNG.standard_normal((25, 3)) * [1.5, 3.0, 0.8] + [0.0, 5.0, -3.0]
W = RNG.uniform(0.0, 2.0, 60)
W[5] = 0.0


def bandwidths(d, rng=None):
    A = np.random.default_rng(1).standard_normal((d, d))
    return {
        "number": 0.8,
        "columns": np.linspace(0.5, 1.3, d),
        "matrix": A @ A.T / d + 0.5 * np.eye(d),
    }


def brute(H, name, X, Q, w=None):
    """Log densities by double loops from the definition."""
    d = X.shape[1]
    H = H if np.ndim(H) == 2 else np.diag(np.broadcast_to(H, d))
    kernel, inverse = smoothing(name), np.linalg.inv(H)
    w = np.ones(len(X)) if w is None else w
    out = []
    for q in Q:
        terms = [kernel.log_profile(np.sum((inverse @ (q - x)) ** 2)) for x in X]
        with np.errstate(divide="ignore"):
            out.append(logsumexp(terms, b=w))
    shift = kernel.log_normaliser(d) - np.linalg.slogdet(H)[1] - np.log(w.sum())
    return np.array(out) + shift


def same(got, expected, tol=1e-11):
    seen = np.isfinite(expected)
    assert np.array_equal(np.isfinite(got), seen)
    np.testing.assert_allclose(got[seen], expected[seen], rtol=tol, atol=tol)


@pytest.mark.parametrize("form", ["number", "columns", "matrix"])
@pytest.mark.parametrize("name", SMOOTHINGS)
def test_double_loop(name, form):
    for d, w in ((1, None), (2, W), (3, W)):
        H = bandwidths(d)[form]
        model = KernelDensity(H, name).fit(X[:, :d], sample_weight=w)
        same(model.score_samples(Q[:, :d]), brute(H, name, X[:, :d], Q[:, :d], w))


@pytest.mark.parametrize("d", [5, 8, 13])
def test_many_columns(d):
    rng = np.random.default_rng(d)
    A, B = rng.standard_normal((30, d)), rng.standard_normal((9, d))
    for name, h in (("gaussian", 0.4), ("biweight", 4.0), ("exponential", 0.3)):
        same(KernelDensity(h, name).fit(A).score_samples(B), brute(h, name, A, B))


@pytest.mark.parametrize("name", ["gaussian", "tophat", "epanechnikov", "exponential", "linear"])
@pytest.mark.parametrize("weighted", [False, True])
def test_scikit_learn(name, weighted):
    w = np.where(W > 0, W, 0.5) if weighted else None
    rng = np.random.default_rng(4)
    A, B = rng.standard_normal((400, 3)), rng.standard_normal((100, 3))
    w = None if w is None else np.resize(w, 400)
    ours = KernelDensity(0.7, name).fit(A, sample_weight=w)
    peer = Peer(bandwidth=0.7, kernel=name, rtol=0, atol=0).fit(A, sample_weight=w)
    p, q = np.exp(ours.score_samples(B)), np.exp(peer.score_samples(B))
    np.testing.assert_allclose(p, q, rtol=0, atol=1e-10 * q.max())
    assert ours.score(A) == pytest.approx(peer.score(A), rel=1e-9)


def test_cosine_of_scikit_learn_in_odd_dimensions():
    ours, peer = KernelDensity(2.0, "cosine").fit(X), Peer(bandwidth=2.0, kernel="cosine").fit(X)
    np.testing.assert_allclose(ours.score_samples(X), peer.score_samples(X), rtol=0, atol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_scipy(weighted):
    w = W if weighted else None
    kde = gaussian_kde(X.T, weights=w)
    model = KernelDensity(sqrtm(kde.covariance).real).fit(X, sample_weight=w)
    np.testing.assert_allclose(model.score_samples(Q), kde.logpdf(Q.T), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", SMOOTHINGS)
def test_integral_on_the_line(name):
    x = X[:8, :1]
    for rule in (0.3, "scott", "loo"):
        model = KernelDensity(rule, name).fit(x, sample_weight=W[:8])
        h = model.bandwidth_
        reach = h * {"gaussian": 10.0, "exponential": 50.0}.get(name, 1.0)
        edges = np.unique(np.concatenate([x - reach, x, x + reach]))
        half = 0.5 * np.diff(edges)[:, None]  # Gauss's rule where the density has no kink
        places, shares = np.polynomial.legendre.leggauss(80)
        at = edges[:-1, None] + half * (1 + places)
        density = np.exp(model.score_samples(at.reshape(-1, 1))).reshape(at.shape)
        assert (half * density * shares).sum() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("form", ["number", "columns", "matrix"])
@pytest.mark.parametrize("name", SMOOTHINGS)
def test_integral_in_the_plane(name, form):
    H = bandwidths(2)[form]
    points = X[:8, :2] - X[:8, :2].mean(axis=0)
    model = KernelDensity(H, name).fit(points, sample_weight=W[:8])
    reach = {"gaussian": 8.0, "exponential": 30.0}.get(name, 1.0) * np.max(
        np.linalg.norm(np.atleast_2d(H), axis=0)
    )
    ends = [(points[:, k].min() - reach, points[:, k].max() + reach) for k in (0, 1)]
    axes = [np.linspace(a, b, 601) for a, b in ends]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    area = (axes[0][1] - axes[0][0]) * (axes[1][1] - axes[1][0])
    mass = np.exp(model.score_samples(grid)).sum() * area
    assert mass == pytest.approx(1, abs=5e-3 if name == "tophat" else 1e-3)


# ---------------------------------------------------------------------------------- far and near
def test_far_points_have_finite_log_densities():
    model = KernelDensity(0.1).fit(X)
    far = np.array([[1e3, 0, 0], [1e6, 0, 0], [1e120, 0, 0], [1e200, 1e200, 0], [1e308, 0, -1e308]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = model.score_samples(far)
    assert np.isfinite(got).all()
    assert (np.diff(got)[:3] < 0).all()
    near = ((far[0] - X) ** 2).sum(axis=1) / 0.01
    expected = logsumexp(-near / 2) - np.log(60) - 1.5 * np.log(2 * np.pi * 0.01)
    assert got[0] == pytest.approx(expected, rel=1e-12)
    exponential = KernelDensity(0.1, "exponential").fit(X).score_samples(far)
    assert np.isfinite(exponential).all()
    assert exponential[1] == pytest.approx(-1e7, rel=1e-3)


def test_outside_the_support_without_a_warning():
    far = [[1e3, 0, 0], [1e308, -1e308, 1e308]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in SMOOTHINGS:
            if smoothing(name).compact:
                model = KernelDensity(0.5, name).fit(X)
                assert np.isneginf(model.score_samples(far)).all()
                assert model.score(far) == -np.inf
                assert not np.isnan(KernelDensity(1e-3, name).fit(X).loo()).any()


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e150])
@pytest.mark.parametrize("rule", ["scott", "loo"])
def test_units(scale, rule):
    one, other = KernelDensity(rule).fit(X), KernelDensity(rule).fit(X * scale)
    np.testing.assert_allclose(other.bandwidth_ / scale, one.bandwidth_, rtol=1e-9)
    shift = 3 * np.log(scale)
    got = other.score_samples(Q * scale) + shift
    np.testing.assert_allclose(got, one.score_samples(Q), rtol=0, atol=1e-7)


def test_far_from_zero():
    a = KernelDensity(0.5).fit(X).score_samples(Q)
    b = KernelDensity(0.5).fit(X + 2.0**30).score_samples(Q + 2.0**30)
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["tophat", "epanechnikov", "linear", "cosine"])
@pytest.mark.parametrize(
    "h", [1.0, 3.0, 5.0, 7.0, 2**0.5, 5**0.5, 0.7, 0.1 + 0.2, np.nextafter(3, 4)]
)
def test_the_rim_on_whole_numbers_is_that_of_scikit_learn(name, h):
    rng = np.random.default_rng(0)
    for d, low in ((1, 1000), (2, -5), (3, 0), (1, 10**9)):
        A = rng.integers(low, low + 15, (80, d)).astype(float)
        ours = KernelDensity(h, name).fit(A)
        peer = Peer(bandwidth=h, kernel=name, rtol=0, atol=0).fit(A)
        p, q = ours.score_samples(A), peer.score_samples(A)
        if name == "cosine" and d == 2:
            q += ours.score_samples(A[:1]) - q[0]  # normalised in another way
        np.testing.assert_allclose(p, q, rtol=0, atol=1e-9)
        # By the others: the loop, with the rim outside.
        r = np.sqrt(((A[:, None] - A) ** 2).sum(axis=2)) + np.diag(np.full(80, np.inf))
        alone = ~(r < h).any(axis=1)
        assert np.array_equal(np.isneginf(ours.loo()), alone)


def test_the_rim_of_a_tophat_is_outside():
    # Whole numbers stay exact: a point at a distance of one bandwidth does not count.
    grid = np.arange(1000.0, 1010.0)[:, None]
    model = KernelDensity(1.0, "tophat").fit(grid)
    np.testing.assert_allclose(np.exp(model.score_samples(grid)), 0.05, rtol=1e-14)
    np.testing.assert_allclose(np.exp(model.score_samples([[1004.5]])), 0.1, rtol=1e-14)


def test_tiny_bandwidths_and_huge_points():
    points = np.arange(6.0)[:, None]
    for h, scale in ((1e-305, 1.0), (1.0, 1e302)):
        got = KernelDensity(h).fit(points * scale).score_samples(points * scale)
        expected = -0.5 * np.log(2 * np.pi) - np.log(h) - np.log(6)
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_identical_points_and_one_point():
    zero = np.zeros((4, 2))
    for points in (zero, zero[:1]):
        model = KernelDensity(2.0).fit(points)
        expected = -np.log(2 * np.pi * 4)
        assert model.score_samples(zero[:1])[0] == pytest.approx(expected, rel=1e-14)
        for rule in ("scott", "silverman", "loo"):
            with pytest.raises(InvalidInput, match="KernelDensity: "):
                KernelDensity(rule).fit(points)
    assert model.loo()[0] == -np.inf
    assert KernelDensity(2.0).fit(zero).loo()[0] == pytest.approx(expected, rel=1e-14)


# ------------------------------------------------------------------------------------------ data
def test_weights_are_repetitions():
    w = np.random.default_rng(7).integers(0, 4, 60)
    for bandwidth in (0.8, "scott", "silverman"):
        a = KernelDensity(bandwidth).fit(X, sample_weight=w)
        b = KernelDensity(bandwidth).fit(np.repeat(X, w, axis=0))
        np.testing.assert_allclose(a.bandwidth_, b.bandwidth_, rtol=1e-9)
        np.testing.assert_allclose(a.score_samples(Q), b.score_samples(Q), rtol=0, atol=1e-9)


def test_tiny_and_huge_weights():
    a = KernelDensity(0.8).fit(X, sample_weight=W).score_samples(Q)
    for scale in (1e-200, 1e200):
        b = KernelDensity(0.8).fit(X, sample_weight=W * scale).score_samples(Q)
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-11)


def test_kinds_of_data():
    model = KernelDensity(0.8).fit(X)
    expected = model.score_samples(Q)
    sparse = KernelDensity(0.8).fit(sp.csr_array(X))
    np.testing.assert_array_equal(sparse.score_samples(sp.csc_array(Q)), expected)
    frame = KernelDensity(0.8).fit(pd.DataFrame(X, columns=list("abc")))
    np.testing.assert_array_equal(
        frame.score_samples(pd.DataFrame(Q, columns=list("abc"))), expected
    )
    single = KernelDensity(0.8).fit(X.astype(np.float32)).score_samples(Q.astype(np.float32))
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, expected, atol=1e-4)
    fortran = KernelDensity(0.8).fit(np.asfortranarray(X)).score_samples(np.asfortranarray(Q))
    np.testing.assert_array_equal(fortran, expected)


def test_points_are_kept():
    mine = X.copy()
    model = KernelDensity(0.8).fit(mine)
    expected = model.score_samples(Q)
    mine[:] = 0
    np.testing.assert_array_equal(model.score_samples(Q), expected)


@pytest.mark.parametrize(
    ("parameters", "points"),
    [
        ({"kernel": "rbf"}, X),
        ({"kernel": "precomputed"}, X),
        ({"bandwidth": 0}, X),
        ({"bandwidth": "best"}, X),
        ({"bandwidth": "scott"}, np.c_[X, np.ones(60)]),
        ({"bandwidth": "loo"}, np.c_[X, np.ones(60)]),
        ({}, np.where(np.eye(60, 3) > 0, np.nan, X)),
        ({}, X[:, 0]),
        ({}, X[:0]),
        ({}, [["a", "b"]]),
    ],
)
def test_refused(parameters, points):
    model = KernelDensity(0.8).fit(X)
    before = model.score_samples(Q)
    with pytest.raises(InvalidInput, match=r"KernelDensity|Vectors"):
        model.set_params(**parameters).fit(points)
    np.testing.assert_array_equal(model.score_samples(Q), before)


def test_new_points_are_checked():
    model = KernelDensity(0.8).fit(X)
    for bad in (X[:, :2], np.full((1, 3), np.inf), X[:, 0]):
        with pytest.raises(InvalidInput):
            model.score_samples(bad)


# ------------------------------------------------------------------------------ memory and threads
def test_no_matrix_is_stored():
    A = np.random.default_rng(0).standard_normal((6000, 2))
    model = KernelDensity(0.3).fit(A)
    model.score_samples(A[:50])
    with mercer.config(memory="3MB"):
        tracemalloc.start()
        try:
            model.score_samples(A)
            model.loo()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 3e6
    with mercer.config(memory=50_000), pytest.raises(MemoryBudgetExceeded):
        model.score_samples(A)


def test_threads_and_numbers_of_queries_do_not_matter():
    A = np.random.default_rng(0).standard_normal((2000, 2))
    model = KernelDensity("scott").fit(A)
    with mercer.config(threads=1):
        expected = model.score_samples(A)
    with mercer.config(threads=3):
        np.testing.assert_allclose(model.score_samples(A), expected, rtol=1e-13)
    parts = [model.score_samples(A[i : i + 7]) for i in range(0, 70, 7)]
    np.testing.assert_allclose(np.concatenate(parts), expected[:70], rtol=1e-13)


# ---------------------------------------------------------------------------------------- sampling
@pytest.mark.parametrize("form", ["number", "columns", "matrix"])
@pytest.mark.parametrize("name", SMOOTHINGS)
def test_draws_follow_the_density(name, form):
    points = X[:6, :2]
    w = np.array([1.0, 0.0, 5.0, 1.0, 2.0, 0.5])
    H = bandwidths(2)[form]
    model = KernelDensity(H, name).fit(points, sample_weight=w)
    drawn = model.sample(3000, random_state=5)
    assert drawn.shape == (3000, 2)
    assert np.isfinite(model.score_samples(drawn)).all()
    # Along a line through the plane, against integrals of the density over the lines across it.
    full = H if np.ndim(H) == 2 else np.diag(np.broadcast_to(H, 2))
    reach = (14 if name == "exponential" else 6) * np.linalg.norm(full, 2)
    kernel, inverse = smoothing(name), np.linalg.inv(full)
    for along in (np.array([1.0, 0.0]), np.array([0.6, -0.8])):
        axes = np.array([along, [-along[1], along[0]]])
        low, high = (points @ axes.T).min(axis=0) - reach, (points @ axes.T).max(axis=0) + reach
        a, b = (np.linspace(low[k], high[k], 501) for k in (0, 1))
        plane = np.stack(np.meshgrid(a, b, indexing="ij"), axis=-1) @ axes
        values = sum(
            share * kernel.profile(np.sum(((plane - x) @ inverse.T) ** 2, axis=-1))
            for share, x in zip(w / w.sum(), points, strict=True)
        )
        below = cumulative_trapezoid(values.sum(axis=1), a, initial=0.0)
        below /= below[-1]
        assert kstest(drawn @ along, lambda t, a=a, below=below: np.interp(t, a, below)).pvalue > (
            1e-3
        )


def test_draws_repeat_and_are_checked():
    model = KernelDensity().fit(X)
    assert model.sample().shape == (1, 3)
    np.testing.assert_array_equal(model.sample(5, random_state=3), model.sample(5, random_state=3))
    rng = np.random.default_rng(3)
    assert not np.array_equal(model.sample(5, random_state=rng), model.sample(5, random_state=rng))
    assert model.sample(2, np.random.RandomState(0)).shape == (2, 3)
    for bad in (0, -1, 1.5, "two", None):
        with pytest.raises(InvalidInput, match="n_samples"):
            model.sample(bad)
    with pytest.raises(InvalidInput, match="random_state"):
        model.sample(1, random_state="seed")


# --------------------------------------------------------------------------------- used by others
def test_bayes_rule():
    rng = np.random.default_rng(0)
    a, b = rng.normal(-1, 1, (200, 2)), rng.normal(2, 1, (200, 2))
    densities = {"low": KernelDensity().fit(a), "high": KernelDensity("silverman").fit(b)}
    rule = mercer.bayes_rule(densities, {"low": 0.3, "high": 0.7})
    new = rng.normal(0.5, 2, (50, 2))
    joint = np.c_[
        np.log(0.3) + densities["low"].score_samples(new),
        np.log(0.7) + densities["high"].score_samples(new),
    ]
    assert np.array_equal(rule.predict(new), np.array(["low", "high"])[joint.argmax(axis=1)])
    shares = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    np.testing.assert_allclose(rule.predict_proba(new), shares, rtol=1e-9)


def test_grid_search():
    search = GridSearchCV(KernelDensity(), {"bandwidth": [0.01, 0.5, 50.0]}).fit(X)
    assert search.best_params_ == {"bandwidth": 0.5}


def test_damaged_state_is_refused():
    for name, value in (
        ("smoothing_", "rbf"),
        ("bandwidth_", -1.0),
        ("bandwidth_", np.ones(2)),
        ("sample_weight_", np.ones(3)),
        ("X_fit_", np.full((60, 3), np.nan)),
    ):
        model = KernelDensity(0.5).fit(X)
        setattr(model, name, value)
        with pytest.raises(ModelFileError):
            model._check_state()
    model = KernelDensity(0.5).fit(X)
    del model.bandwidth_
    with pytest.raises(ModelFileError, match="bandwidth_"):
        model._check_state()


# ---------------------------------------------------------------------------------------- messages
@pytest.mark.parametrize("kernel", ["rbf", mercer.RBF(2.0)], ids=repr)
def test_an_rbf_is_a_gaussian(kernel):
    for model in (KernelDensity(kernel=kernel), mercer.KDEClassifier(kernel=kernel)):
        with pytest.raises(InvalidInput, match=r"kernel='gaussian', .* length scale as bandwidth"):
            model.fit(X, np.arange(len(X)) % 2)
    with pytest.raises(InvalidInput, match=r"give one of 'gaussian', .*'exponential'"):
        KernelDensity(kernel="laplacian").fit(X)


@pytest.mark.parametrize("nu, name", [(0.5, "exponential"), (np.inf, "gaussian"), (1.5, None)])
def test_matern_kernels_that_are_smoothing_kernels_are_told(nu, name):
    kernel = mercer.Matern(2.0, nu)
    with pytest.raises(InvalidInput, match="is no smoothing kernel") as caught:
        KernelDensity(kernel=kernel).fit(X)
    assert (name is not None) == ("It is kernel=" in str(caught.value))
    if name:  # the cure is the same function, made a density
        assert f"It is kernel={name!r}, with the length scale as bandwidth" in str(caught.value)
        model = KernelDensity(2.0, name).fit(X[:1])
        ratios = np.exp(model.score_samples(X)) / kernel(X, X[:1])[:, 0]
        np.testing.assert_allclose(ratios, ratios[0], rtol=1e-9)


@pytest.mark.parametrize("word", ["auto", "LOO"])
def test_words_for_bandwidths_are_all_named(word):
    with pytest.raises(InvalidInput, match="'scott', 'silverman', 'loo'"):
        KernelDensity(word).fit(X)


@pytest.mark.parametrize("text", [["a", "b"], np.array([["a", "b"]] * 2)], ids=["list", "array"])
def test_words_are_not_sent_to_kernels_that_are_refused(text):
    for model in (KernelDensity(), mercer.KDEClassifier(), mercer.PCA()):
        with pytest.raises(InvalidInput, match="TableEncoder") as caught:
            model.fit(text, [0, 1])
        assert "lambda" not in str(caught.value)
