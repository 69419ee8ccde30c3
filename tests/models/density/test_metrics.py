"""`KernelDensity` in other metrics: densities of integral one, and their verbs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.neighbors import KernelDensity as Theirs

import mercer
from mercer import KernelDensity
from mercer.errors import InvalidInput, ModelFileError
from mercer.models.density.bandwidth import SMOOTHINGS, smoothing
from mercer.models.density.norms import directions, log_sphere, mean_square

METRICS = ["manhattan", "chebyshev", "product", 2.5]
rng = np.random.default_rng(0)
X = rng.standard_normal((40, 3))
Q = rng.standard_normal((15, 3))
W = rng.integers(1, 4, 40).astype(float)


def length(u, metric):
    p = {"manhattan": 1, "chebyshev": np.inf, "euclidean": 2}.get(metric, metric)
    return float(np.linalg.norm(u, ord=p))


def brute(name, metric, h, points, queries, w=None):
    """Log densities by double loops from the definition."""
    kernel, line, d = smoothing(name, metric), smoothing(name), points.shape[1]
    w = np.ones(len(points)) if w is None else w

    def log_kappa(u):
        if metric == "product":
            return sum(line.log_profile(float(c) ** 2) + line.log_normaliser(1) for c in u)
        return line.log_profile(length(u, metric) ** 2) + kernel.log_normaliser(d)

    with np.errstate(divide="ignore"):
        terms = [[log_kappa((q - x) / h) for x in points] for q in queries]
        logs = logsumexp(np.reshape(terms, (len(queries), -1)), b=w, axis=1)
    return logs - np.log(np.broadcast_to(h, d)).sum() - math.log(w.sum())


def same(got, expected, tol=1e-11):
    seen = np.isfinite(expected)
    assert np.array_equal(np.isfinite(got), seen)
    np.testing.assert_allclose(got[seen], expected[seen], rtol=tol, atol=tol)


def orthant(name, d, k):
    """Return midpoints of cells of the positive orthant as far as κ reaches, and their volume."""
    reach = {"gaussian": 6.0, "exponential": 16.0}.get(name, 1.0)
    line = (np.arange(k) + 0.5) * reach / k
    points = np.stack(np.meshgrid(*[line] * d, indexing="ij"), axis=-1).reshape(-1, d)
    return points, (reach / k) ** d


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", SMOOTHINGS)
def test_integrals_are_one_and_deviations_are_told(name, metric):
    for d, k, tol in ((1, 2000, 1e-3), (2, 160, 5e-3), (3, 36, 3e-2)):
        points, cell = orthant(name, d, k)
        tol = 4 * tol if name == "tophat" else tol  # which jumps
        model = KernelDensity(1.0, name, metric).fit(np.zeros((1, d)))
        mass = np.exp(model.score_samples(points)) * cell * 2**d
        assert abs(mass.sum() - 1) < tol
        told = smoothing(name, metric).deviation(d)
        assert abs(math.sqrt(mass @ points[:, 0] ** 2) / told - 1) < tol


def test_volumes_of_balls():
    for d in (1, 2, 3, 7):
        volume = {p: math.exp(log_sphere(p, d)) / d for p in (1.0, 2.0, math.inf)}
        assert math.isclose(volume[1.0], 2**d / math.factorial(d), rel_tol=1e-13)
        assert math.isclose(volume[2.0], math.pi ** (d / 2) / math.gamma(d / 2 + 1), rel_tol=1e-13)
        assert math.isclose(volume[math.inf], 2**d, rel_tol=1e-13)
        assert math.isclose(mean_square(2.0, d), 1 / d, rel_tol=1e-13)
        assert math.isclose(mean_square(1e7, d), mean_square(math.inf, d), rel_tol=1e-5)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", SMOOTHINGS)
def test_double_loop(name, metric):
    for h, w in ((1.3, None), (np.array([0.8, 1.5, 2.0]), W)):
        points, w = X[:12], None if w is None else w[:12]
        model = KernelDensity(h, name, metric).fit(points, sample_weight=w)
        same(model.score_samples(Q[:6]), brute(name, metric, h, points, Q[:6], w))


def test_one_column_is_one_column():
    for name in SMOOTHINGS:
        plain = KernelDensity("loo", name).fit(X[:, :1])
        for metric in METRICS[1:3]:
            model = KernelDensity("loo", name, metric).fit(X[:, :1])
            # the search begins elsewhere where the rounding of distances differs
            assert math.isclose(model.bandwidth_, plain.bandwidth_, rel_tol=1e-9)
            same(model.score_samples(Q[:, :1]), plain.score_samples(Q[:, :1]), 1e-7)


@pytest.mark.parametrize(
    "name, radial", [("gaussian", 2), ("exponential", "l1"), ("tophat", math.inf)]
)
def test_products_that_are_radial(name, radial):
    product = KernelDensity("scott", name, "product").fit(X)
    model = KernelDensity("scott", name, radial).fit(X)
    assert np.array_equal(product.score_samples(Q), model.score_samples(Q))
    one = sum(
        KernelDensity(float(h), name).fit(X[:1, [c]]).score_samples(Q[:, [c]])
        for c, h in enumerate(product.bandwidth_)
    )
    same(product.set_params(bandwidth=product.bandwidth_).fit(X[:1]).score_samples(Q), one)


def test_names_of_one_metric():
    for names in (("manhattan", "cityblock", "l1", 1), ("chebyshev", "infinity", np.inf)):
        models = [KernelDensity(0.9, "biweight", name).fit(X) for name in names]
        assert {model.metric_ for model in models} == {names[0]}
        assert all(np.array_equal(m.loo(), models[0].loo()) for m in models)
    euclidean = [KernelDensity("loo", metric=name).fit(X) for name in ("euclidean", "l2", 2.0)]
    assert {tuple(model.bandwidth_) for model in euclidean} == {
        tuple(KernelDensity("loo").fit(X).bandwidth_)
    }


@pytest.mark.parametrize("metric", ["manhattan", "chebyshev", 3])
@pytest.mark.parametrize("name", ["gaussian", "epanechnikov", "tophat", "exponential", "linear"])
def test_scikit_learn_but_for_the_normaliser(name, metric):
    how = {"metric_params": {"p": 3}} if metric == 3 else {}
    theirs = Theirs(bandwidth=1.4, kernel=name, metric="minkowski" if how else metric, **how)
    theirs = theirs.fit(X, sample_weight=W).score_samples(Q)
    ours = KernelDensity(1.4, name, metric).fit(X, sample_weight=W).score_samples(Q)
    seen = np.isfinite(ours)
    assert np.array_equal(seen, theirs > -100)
    shift = ours[seen] - theirs[seen]
    np.testing.assert_allclose(shift, shift[0], atol=1e-7)


@pytest.mark.parametrize("metric", ["manhattan", "chebyshev", "product"])
@pytest.mark.parametrize("h", [1.0, 3.0, 0.1 * 3])
def test_the_rim_is_outside(metric, h):
    steps = np.stack(np.meshgrid(*[np.arange(-4, 5)] * 2), axis=-1).reshape(-1, 2) * (h / 3)
    seen = np.isfinite(KernelDensity(h, "tophat", metric).fit([[0.0, 0.0]]).score_samples(steps))
    size = np.abs(steps).sum(1) if metric == "manhattan" else np.abs(steps).max(1)
    assert np.array_equal(seen, size < h)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", ["gaussian", "triangular", "tophat"])
def test_leave_one_out(name, metric):
    model = KernelDensity(2.5, name, metric).fit(X, sample_weight=W)
    rest = [np.delete(np.arange(len(X)), i) for i in (0, 7, 39)]
    refits = [
        KernelDensity(2.5, name, metric).fit(X[r], sample_weight=W[r]).score_samples(X[[i]])[0]
        for i, r in zip((0, 7, 39), rest, strict=True)
    ]
    same(model.loo()[[0, 7, 39]], np.array(refits))
    small = X[:12, :2]
    best = KernelDensity("loo", name, metric).fit(small)
    assert best.solution_.converged
    score = best.loo().mean()
    assert math.isclose(score, best.solution_.extra["score"], rel_tol=1e-9)
    for factor in np.geomspace(0.3, 4.0, 20):
        other = KernelDensity(factor * best.bandwidth_, name, metric).fit(small).loo().mean()
        assert other <= score + 1e-5


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", ["gaussian", "triangular", "cosine", "tophat"])
def test_draws_follow_the_density(name, metric):
    model = KernelDensity(1.0, name, metric).fit(np.zeros((1, 2)))
    drawn = model.sample(6000, random_state=1)
    points, cell = orthant(name, 2, 160)
    mass = np.exp(model.score_samples(points)) * cell * 4
    for f in (lambda u: abs(u[:, 0]), lambda u: (u**2).sum(1), lambda u: np.abs(u).max(1)):
        values = f(drawn)
        expected = mass @ f(points) / mass.sum()
        assert abs(values.mean() - expected) < 5 * values.std() / math.sqrt(6000) + 0.004 * expected
    assert abs(drawn.mean(axis=0)).max() < 5 * drawn.std() / math.sqrt(6000)
    assert np.isfinite(model.score_samples(drawn)).all()


def test_directions_have_length_one():
    for p in (1.0, 1.7, 2.0, 40.0, math.inf):
        U = directions(np.random.default_rng(0), 500, 3, p)
        np.testing.assert_allclose([length(u, p) for u in U], 1.0, rtol=1e-12)
        assert abs((U**2).mean(axis=0) - mean_square(p, 3)).max() < 0.06


@pytest.mark.parametrize("metric", ["manhattan", "chebyshev", "product", 3])
def test_on_a_grid(metric):
    model = KernelDensity([0.7, 1.1], "biweight", metric).fit(X[:, :2])
    axes, density = model.density_on_grid(n_points=(150, 140))
    places = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    exact = np.exp(model.score_samples(places)).reshape(density.shape)
    assert abs(density - exact).max() < 0.02 * exact.max()


@pytest.mark.filterwarnings("error")
def test_extremes():
    far = np.array([[0.0, 0.0], [3e3, 4e3], [1e200, 1e300]])
    for metric in (*METRICS, 300.0):
        logs = KernelDensity(1.0, "gaussian", metric).fit(far[:1]).score_samples(far)
        assert np.isfinite(logs).all() and (np.diff(logs) < 0).all()
    many = KernelDensity("scott", "epanechnikov", "product").fit(rng.standard_normal((5, 500)))
    assert np.isfinite(many.score_samples(many.X_fit_)).all()
    near = KernelDensity(1.0, "triangular", 300.0).fit([[0.0, 0.0]])
    tip = near.score_samples([[0.0, 0.0], [0.0, 0.01]])
    assert math.isclose(math.exp(tip[1] - tip[0]), 0.99, rel_tol=1e-12)


@pytest.mark.parametrize(
    "metric, words",
    [
        ("haversine", "Project the points to a plane"),
        ("minkowski", "metric=3"),
        ("canberra", "'manhattan'"),
        (0.5, "p ≥ 1"),
        (math.nan, "p ≥ 1"),
        (True, "True; give"),
        (None, "None; give"),
        (["l1"], r"\['l1'\]; give"),
    ],
)
def test_refused_metrics(metric, words):
    with pytest.raises(InvalidInput, match=f"KernelDensity: metric=.*{words}"):
        KernelDensity(1.0, metric=metric).fit(X)


def test_a_matrix_is_for_the_euclidean_metric():
    H = np.eye(3) + 0.2
    with pytest.raises(InvalidInput, match="a bandwidth matrix beside metric='manhattan'"):
        KernelDensity(H, metric="manhattan").fit(X)
    KernelDensity(H, metric="product").fit(X)  # the gaussian, which is radial


def test_files_and_states(tmp_path):
    for metric in ("manhattan", 2.5):
        model = KernelDensity("scott", "cosine", metric).fit(X)
        mercer.save(model, tmp_path / "m.mercer")
        again = mercer.load(tmp_path / "m.mercer")
        assert np.array_equal(again.score_samples(Q), model.score_samples(Q))
        said = model.score_samples(Q)
        assert np.array_equal(model.set_params(metric="euclidean").score_samples(Q), said)
    for name, value in (("metric_", "haversine"), ("metric_", 0.2), ("bandwidth_", np.eye(3))):
        model = KernelDensity(0.5, metric="manhattan").fit(X)
        setattr(model, name, value)
        with pytest.raises(ModelFileError):
            model._check_state()


def test_tensors(torch):
    model = KernelDensity("scott", metric="manhattan").fit(torch.as_tensor(X))
    said = model.score_samples(torch.as_tensor(Q))
    same(np.asarray(said), KernelDensity("scott", metric="manhattan").fit(X).score_samples(Q))
    with mercer.config(engine="torch"):
        same(np.asarray(model.score_samples(Q)), np.asarray(said))
