"""Active learning with processes: variance, its integral, and expected improvement."""

import warnings

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor as Sklearn
from sklearn.gaussian_process.kernels import RBF as SklearnRBF

import mercer
from mercer import RBF, FromFunction, GaussianProcessRegressor, KernelRidge, config
from mercer.errors import InvalidInput
from mercer.selection import active


def process(X, y, noise=0.05, **options):
    kept = {"optimizer": None, "normalize_y": False, **options}
    return mercer.GaussianProcessRegressor(RBF(0.7), noise=noise, **kept).fit(X, y)


@pytest.fixture
def data(rng):
    X = rng.uniform(-2, 2, (12, 1))
    return X, np.sin(2 * X[:, 0]), np.linspace(-3, 3, 25)[:, None]


def test_variance_is_that_of_the_function_and_the_usual_choice(data):
    X, y, new = data
    model = process(X, y)
    expected = model.predict(new, return_std=True, with_noise=False)[1] ** 2
    np.testing.assert_allclose(active.scores(model, new), expected, atol=1e-12)
    ridge = KernelRidge(RBF(0.7), alpha=0.05).fit(X, y)
    np.testing.assert_allclose(active.scores(ridge, new, "variance"), expected, atol=1e-9)


def test_integrated_variance_is_the_fall_that_a_label_brings(data):
    """By brute force: add the candidate, and see the mean variance over the reference fall."""
    X, y, new = data
    model, reference = process(X, y), np.linspace(-1, 2, 9)[:, None]
    got = active.scores(model, new, "integrated-variance", reference=reference)
    before = model.posterior_variance(reference).mean()
    for i, x in enumerate(new):
        after = process(np.vstack([X, x[None]]), np.append(y, 0.0))
        assert got[i] == pytest.approx(
            before - after.posterior_variance(reference).mean(), abs=1e-9
        )


def test_integrated_variance_in_blocks(data, monkeypatch):
    X, y, new = data
    model = process(X, y)
    whole = active.scores(model, new, "integrated-variance")
    monkeypatch.setattr("mercer.selection.active.acquisition.ROWS", 4)
    np.testing.assert_allclose(active.scores(model, new, "integrated-variance"), whole, rtol=1e-9)
    with config(memory=5000), pytest.raises(InvalidInput, match="reference"):
        active.scores(model, new, "integrated-variance")


@pytest.mark.parametrize("goal", ["min", "max"])
def test_expected_improvement_by_quadrature(goal, data):
    X, y, new = data
    model = process(X, y)
    mean, std = model.predict(new, return_std=True, with_noise=False)
    seen = model.predict(X)
    best = seen.min() if goal == "min" else seen.max()
    got = active.scores(model, new, "expected-improvement", goal=goal)
    for g, m, s in zip(got, mean, std, strict=True):

        def part(f, m=m, s=s):
            gain = best - f if goal == "min" else f - best
            return max(gain, 0.0) * norm.pdf(f, m, s)

        assert g == pytest.approx(quad(part, m - 12 * s, m + 12 * s, points=[best])[0], abs=1e-7)


def test_improvement_far_below_is_small_positive_and_ordered():
    from mercer.selection.active.acquisition import _improvement

    z = -np.array([1.0, 5.9, 6.1, 20.0, 29.9, 30.1, 35.0])
    got = _improvement(z, norm.pdf(z))
    assert (got > 0).all() and (np.diff(got) < 0).all()
    np.testing.assert_allclose(got[-1], norm.pdf(35) / 35**2, rtol=1e-2)


def test_peers_take_part(data):
    X, y, new = data
    peer = Sklearn(SklearnRBF(0.7), alpha=0.05, optimizer=None).fit(X, y)
    model = process(X, y)
    for criterion in ("variance", "expected-improvement"):
        np.testing.assert_allclose(
            active.scores(peer, new, criterion), active.scores(model, new, criterion), atol=1e-8
        )


def test_optimum_is_found_in_few_evaluations():
    """Twelve evaluations find the least value of a wave that has several."""
    pool = np.linspace(-3, 3, 301)[:, None]
    value = np.sin(3 * pool[:, 0]) + 0.2 * (pool[:, 0] - 1) ** 2
    model = mercer.GaussianProcessRegressor(RBF(0.7), noise=1e-6, optimizer=None)
    found = active.learn(model, pool, value, 10, criterion="expected-improvement")
    assert value[found.order].min() < value.min() + 1e-3


def test_words(data):
    words = ["cat", "cart", "car", "care", "scare", "dog", "dig", "digs"]
    kernel = FromFunction(lambda s, t: len(set(s) & set(t)) / (len(s) * len(t)) ** 0.5)
    model = mercer.GaussianProcessRegressor(kernel, noise=0.1, optimizer=None)
    fit = model.fit(words[:4], [len(w) for w in words[:4]])
    for criterion in ("variance", "integrated-variance", "expected-improvement"):
        assert active.scores(fit, words, criterion).shape == (8,)


@pytest.mark.parametrize(
    ("criterion", "options", "word"),
    [
        ("expected-improvement", {"goal": "most"}, "goal='most'"),
        ("expected-improvement", {"best": np.nan}, "best=nan"),
        ("integrated-variance", {"reference": np.zeros((0, 1))}, "reference"),
        ("best", {}, "criterion='best'"),
    ],
)
def test_refusals(criterion, options, word, data):
    X, y, new = data
    with pytest.raises(InvalidInput, match=word):
        active.scores(process(X, y), new, criterion, **options)


def test_models_without_a_posterior_are_refused(data):
    X, y, new = data
    ridge = KernelRidge(RBF(0.7), alpha=0.05).fit(X, y)
    for criterion in ("integrated-variance", "expected-improvement"):
        with pytest.raises(InvalidInput, match="GaussianProcessRegressor"):
            active.scores(ridge, new, criterion)


# ---------------------------------------------------------------------- several outputs, any points
def test_integrated_variance_of_outputs_in_different_units(rng):
    X = rng.uniform(0, 5, (15, 1))
    Y = np.column_stack([np.sin(X[:, 0]), 1000 * np.cos(2 * X[:, 0])])
    Y += np.array([0.3, 300.0]) * rng.standard_normal(Y.shape)
    model = GaussianProcessRegressor(1.0 * RBF(1.0)).fit(X, Y)
    candidates, reference = np.linspace(0, 8, 9)[:, None], np.linspace(1, 6, 7)[:, None]
    found = active.scores(model, candidates, "integrated-variance", reference=reference)
    expected = np.zeros(9)
    _, cov = model.predict(np.vstack([reference, candidates]), return_cov=True, with_noise=False)
    for j in range(2):
        for i in range(9):
            c, own = cov[:7, 7 + i, j], cov[7 + i, 7 + i, j]
            expected[i] += np.mean(c**2 / (own + model.noise_[j]))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("kind", ["dict", "pandas", "polars"])
def test_tables_of_candidates(rng, kind):
    X = rng.standard_normal((12, 2))
    frames = pytest.importorskip("pandas" if kind == "dict" else kind)
    columns = {"a": X[:, 0], "b": X[:, 1]}
    frame = columns if kind == "dict" else frames.DataFrame(columns)
    model = GaussianProcessRegressor(RBF(1.0), 0.1, optimizer=None).fit(frame, X[:, 0])
    plain = GaussianProcessRegressor(RBF(1.0), 0.1, optimizer=None).fit(X, X[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for criterion in ("variance", "integrated-variance"):
            got = active.scores(model, frame, criterion)
            np.testing.assert_allclose(got, active.scores(plain, X, criterion), rtol=1e-9)


@pytest.mark.parametrize(
    ("criterion", "options"),
    [
        ("variance", {"best": 1.0}),
        ("variance", {"reference": [[0.0]]}),
        ("integrated-variance", {"goal": "max"}),
        ("expected-improvement", {"reference": [[0.0]]}),
        ("expected-improvement", {"best": "a"}),
        ("expected-improvement", {"best": np.nan}),
    ],
)
def test_options_of_another_criterion_are_refused(criterion, options):
    model = GaussianProcessRegressor(RBF(1.0), 0.1, optimizer=None).fit([[0.0]], [1.0])
    with pytest.raises(InvalidInput, match=next(iter(options))):
        active.scores(model, [[0.0], [1.0]], criterion, **options)


def test_sparse_processes_improve_on_all_that_is_known():
    """Of a sparse process X_fit_ is the inducing points; the least mean may lie elsewhere."""
    X = np.linspace(0, 6, 300)[:, None]
    y = np.sin(X[:, 0])
    model = mercer.SparseGaussianProcessRegressor(
        RBF(1.0), noise=0.01, n_inducing=10, optimizer=None
    ).fit(X, y)
    got = active.scores(model, X, "expected-improvement")
    told = active.scores(model, X, "expected-improvement", best=float(model.predict(X).min()))
    np.testing.assert_allclose(got, told, atol=1e-12)
