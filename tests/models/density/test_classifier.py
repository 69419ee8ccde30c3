"""Bayes' rule with kernel densities: the formula, priors, leaving out by refits, odd data."""

import tracemalloc
import warnings

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.datasets import load_iris
from sklearn.ensemble import AdaBoostClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB

import mercer
from mercer import KernelDensity
from mercer.errors import InvalidInput, ModelFileError
from mercer.models.density.classifier import KDEClassifier
from mercer.models.density.nadaraya import NadarayaWatsonClassifier

rng = np.random.default_rng(0)
IRIS, SPECIES = load_iris(return_X_y=True)
X = IRIS[::3, :2] + 0.01 * rng.standard_normal((50, 2))
y = np.array(["setosa", "versicolor", "virginica"])[SPECIES[::3]]
W = rng.integers(0, 4, len(y)).astype(float)
W[:2] = 1.0
NEW = X[::2] + 0.2 * rng.standard_normal((25, 2))
KERNELS = ["gaussian", "epanechnikov", "tophat", "triangular", "biweight", "cosine"]


def joint(points, labels, weights, h, new, priors=None):
    """log p(c)p(x | c) of gaussian densities, by loops."""
    out = []
    for q, c in enumerate(np.unique(labels[weights > 0])):
        Z, w = points[labels == c], weights[labels == c]
        bandwidth = np.broadcast_to(h[q], (points.shape[1],))
        logs = norm.logpdf(new[:, None, :], Z[None], bandwidth).sum(axis=2)
        with np.errstate(divide="ignore"):
            density = logsumexp(logs, axis=1, b=w / w.sum())
        share = weights[labels == c].sum() / weights.sum()
        out.append(density + np.log(share if priors is None else priors[q]))
    return np.stack(out, axis=1)


@pytest.mark.parametrize("priors", [None, [0.2, 0.3, 0.5]], ids=["shares", "given"])
def test_the_formula(priors):
    model = KDEClassifier([0.3, 0.4], priors=priors).fit(X, y, W)
    expected = joint(X, y, W, [[0.3, 0.4]] * 3, NEW, priors)
    np.testing.assert_allclose(model.predict_joint_log_proba(NEW), expected, rtol=1e-9)
    posterior = np.exp(expected - logsumexp(expected, axis=1, keepdims=True))
    np.testing.assert_allclose(model.predict_proba(NEW), posterior, atol=1e-12)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(NEW)), posterior, atol=1e-12)
    np.testing.assert_array_equal(model.predict(NEW), model.classes_[expected.argmax(axis=1)])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("bandwidth", ["scott", "silverman", "loo", 0.5])
def test_it_is_bayes_rule_on_its_densities(kernel, bandwidth):
    model = KDEClassifier(bandwidth, kernel).fit(X, y)
    densities = dict(zip(model.classes_.tolist(), model.class_densities_, strict=True))
    rule = mercer.bayes_rule(densities, model.priors_)
    far = np.vstack([NEW, [[100.0, 100.0], [-50.0, 3.0]]])
    np.testing.assert_allclose(model.predict_proba(far), rule.predict_proba(far), atol=1e-12)
    np.testing.assert_array_equal(model.predict(far), rule.predict(far))
    for c, density in densities.items():
        own = KernelDensity(bandwidth, kernel).fit(X[y == c])
        np.testing.assert_allclose(density.score_samples(far), own.score_samples(far), rtol=1e-12)


def test_one_point_a_class_is_gaussian_naive_bayes():
    centres = np.array([[0.0, 0.0], [2.0, 1.0]])
    model = KDEClassifier(1.0).fit(centres, [0, 1])
    theirs = GaussianNB().fit(centres, [0, 1])
    theirs.var_ = np.ones((2, 2))
    np.testing.assert_allclose(model.predict_proba(NEW), theirs.predict_proba(NEW), rtol=1e-9)
    assert KDEClassifier().fit(IRIS, SPECIES).score(IRIS, SPECIES) > 0.95


def test_priors_by_name_and_of_zero():
    names = ["setosa", "versicolor", "virginica"]
    by_order = KDEClassifier(priors=[0.1, 0.0, 0.9]).fit(X, y)
    by_name = KDEClassifier(priors=dict(zip(names, [0.1, 0.0, 0.9], strict=True))).fit(X, y)
    np.testing.assert_array_equal(by_order.predict_proba(NEW), by_name.predict_proba(NEW))
    assert "versicolor" not in by_order.predict(X)
    assert "versicolor" not in by_order.loo()
    shares = KDEClassifier().fit(X, y, W).priors_
    np.testing.assert_allclose(shares, [W[y == c].sum() / W.sum() for c in names])


@pytest.mark.parametrize(
    "priors",
    [
        [0.5, 0.5],
        [0.5, 0.5, 0.5],
        [1.5, -0.5, 0.0],
        [np.nan, 0.5, 0.5],
        "equal",
        {"setosa": 1.0},
        1.0,
    ],
    ids=str,
)
def test_wrong_priors(priors):
    with pytest.raises(InvalidInput, match=r"KDEClassifier: priors.*give"):
        KDEClassifier(priors=priors).fit(X, y)


def test_outside_all_supports_the_priors_decide():
    model = KDEClassifier(0.3, "tophat", priors=[0.2, 0.5, 0.3]).fit(X, y)
    far = [[1e3, 1e3]]
    np.testing.assert_allclose(model.predict_proba(far), [[0.2, 0.5, 0.3]])
    assert np.isneginf(model.predict_joint_log_proba(far)).all()
    assert model.predict(far) == ["versicolor"]
    gauss = KDEClassifier(0.3).fit(X, y)
    for x in ([[1e6, 0.0]], [[-1e150, 1e150]]):
        p = gauss.predict_proba(x)
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(), 1.0)


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov", "tophat"])
@pytest.mark.parametrize("priors", [None, [0.2, 0.3, 0.5]], ids=["shares", "given"])
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
def test_leaving_out_is_refitting(kernel, priors, weights):
    h = [0.35, 0.3]
    model = KDEClassifier(h, kernel, priors=priors).fit(X, y, weights)
    got, said = model.loo_proba(), model.loo()
    w = np.ones(len(y)) if weights is None else weights
    for i in range(len(y)):
        less = w.copy()
        less[i] = 0.0
        again = KDEClassifier(h, kernel, priors=priors).fit(X, y, less)
        expected = again.predict_proba(X[i : i + 1])[0]
        np.testing.assert_allclose(got[i], expected, atol=1e-10)
        first, second = np.sort(expected)[[-1, -2]]
        assert first - second < 1e-9 or said[i] == again.predict(X[i : i + 1])[0]


def test_a_class_of_one_row_is_gone_when_that_is_left_out():
    points, labels = np.array([[0.0], [0.3], [5.0]]), np.array(["a", "a", "b"])
    model = KDEClassifier().fit(points, labels)
    assert model.predict(points).tolist() == ["a", "a", "b"]
    assert model.loo().tolist() == ["a", "a", "a"]
    np.testing.assert_allclose(model.loo_proba()[2], [1.0, 0.0])
    with pytest.raises(InvalidInput, match="only training point"):
        KDEClassifier(1.0).fit(points[:1], labels[:1]).loo()


@pytest.mark.parametrize("bandwidth", ["scott", "silverman", 0.4])
@pytest.mark.parametrize("shared", [False, True])
def test_weights_are_repetitions(bandwidth, shared):
    repeated = np.repeat(np.arange(len(y)), W.astype(int))
    weighted = KDEClassifier(bandwidth, shared=shared).fit(X, y, W)
    again = KDEClassifier(bandwidth, shared=shared).fit(X[repeated], y[repeated])
    for a, b in zip(weighted.class_densities_, again.class_densities_, strict=True):
        np.testing.assert_allclose(a.bandwidth_, b.bandwidth_, rtol=1e-6)
    np.testing.assert_allclose(weighted.predict_proba(NEW), again.predict_proba(NEW), atol=1e-6)


@pytest.mark.parametrize("bandwidth", ["scott", "silverman", "loo"])
@pytest.mark.parametrize("shared", [False, True])
def test_shares_as_weights(bandwidth, shared):
    plain = KDEClassifier(bandwidth, shared=shared).fit(X, y).predict_proba(NEW)
    for scale in (1 / len(y), 1e-200, 0.4, *((1.01, 1e200) if bandwidth == "loo" else ())):
        weighted = KDEClassifier(bandwidth, shared=shared).fit(X, y, np.full(len(y), scale))
        np.testing.assert_allclose(weighted.predict_proba(NEW), plain, atol=1e-6)
    huge = KDEClassifier(bandwidth, shared=shared).fit(X, y, np.full(len(y), 1e308))
    np.testing.assert_allclose(huge.predict_proba(NEW).sum(axis=1), 1.0)
    np.testing.assert_allclose(huge.loo_proba().sum(axis=1), 1.0)


def test_boosting():
    model = AdaBoostClassifier(KDEClassifier(), n_estimators=3, random_state=0).fit(IRIS, SPECIES)
    assert model.score(IRIS, SPECIES) > 0.95
    light = KDEClassifier().fit(np.arange(6.0)[:, None], [0, 0, 0, 0, 1, 1], [1, 1, 1, 1, 0.4, 0.4])
    assert light.predict([[0.0], [5.0]]).tolist() == [0, 1]


def test_many_classes_take_no_matrix():
    labels = np.arange(20_000) % 2000
    points = rng.standard_normal((20_000, 1))
    for model in (KDEClassifier(0.3), NadarayaWatsonClassifier(0.3)):
        tracemalloc.start()
        try:
            model.fit(points, labels)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 20e6  # a byte for each row and class would be 40e6


def test_classes_of_weight_zero_are_absent():
    w = (y != "setosa").astype(float)
    model = KDEClassifier().fit(X, y, w)
    again = KDEClassifier().fit(X[w > 0], y[w > 0])
    assert model.classes_.tolist() == ["versicolor", "virginica"]
    np.testing.assert_allclose(model.predict_proba(NEW), again.predict_proba(NEW), rtol=1e-12)
    np.testing.assert_allclose(model.loo_proba()[w > 0], again.loo_proba(), rtol=1e-9)
    absent = X[w == 0]
    np.testing.assert_allclose(model.loo_proba()[w == 0], again.predict_proba(absent), rtol=1e-9)


# ---------------------------------------------------------------------------------- bandwidths
def test_rules_within_classes_and_shared():
    model = KDEClassifier("scott").fit(X, y, W)
    inside = np.empty_like(X)
    for c, density in zip(model.classes_, model.class_densities_, strict=True):
        rows, w = X[y == c], W[y == c]
        mean = w @ rows / w.sum()
        inside[y == c] = rows - mean
        spread = np.sqrt(w @ (rows - mean) ** 2 / (w.sum() - 1))
        np.testing.assert_allclose(density.bandwidth_, w.sum() ** (-1 / 6) * spread, rtol=1e-9)
    pooled = np.sqrt(W @ inside**2 / (W.sum() - 1))
    shared = KDEClassifier("scott", shared=True).fit(X, y, W)
    for density in shared.class_densities_:
        np.testing.assert_allclose(density.bandwidth_, (W.sum() / 3) ** (-1 / 6) * pooled)


@pytest.mark.parametrize("kernel", KERNELS)
def test_columns_flat_in_a_class_do_not_stop_the_search(kernel):
    # A third column that varies in two classes and not in "setosa".
    points = np.column_stack([X, np.where(y == "setosa", 0.0, rng.standard_normal(len(y)))])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = KDEClassifier("loo", kernel).fit(points, y)
    h = model.class_densities_[0].bandwidth_
    rows = points[y == "setosa"]
    own = KernelDensity("loo", kernel).fit(rows[:, :2])
    np.testing.assert_allclose(h[:2], own.bandwidth_, rtol=1e-9)
    inside = points[y != "setosa", 2] - np.repeat(
        [points[y == c, 2].mean() for c in ("versicolor", "virginica")],
        [(y == "versicolor").sum(), (y == "virginica").sum()],
    )
    pooled = np.sqrt(inside @ inside / (len(y) - 1))
    np.testing.assert_allclose(h[2], own.solution_.value * pooled, rtol=1e-9)
    # No other factor of the columns that vary is better, with the third as it is.
    best = KernelDensity(h, kernel).fit(rows).loo().mean()
    for factor in (0.7, 0.9, 1.1, 1.4):
        other = KernelDensity(h * [factor, factor, 1.0], kernel).fit(rows).loo().mean()
        assert other < best


def test_a_class_without_a_likelihood_is_told():
    points = np.vstack([X, X[:1] + 9.0, np.repeat(X[:3], 2, axis=0)])
    labels = np.r_[y, ["lone"], ["pairs"] * 6]
    with pytest.warns(UserWarning, match="class 'lone', 'pairs', .*Scott's rule") as told:
        model = KDEClassifier("loo").fit(points, labels)
    assert len(told) == 1
    scott = KDEClassifier("scott").fit(points, labels)
    for name, a, b in zip(
        model.classes_, model.class_densities_, scott.class_densities_, strict=True
    ):
        assert np.array_equal(a.bandwidth_, b.bandwidth_) == (name in ("lone", "pairs"))
    with pytest.warns(UserWarning, match="class 0, 1, 2, 3, 4, and 15 more"):
        KDEClassifier("loo").fit(np.arange(20.0)[:, None], np.arange(20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KDEClassifier("scott").fit(points, labels)


@pytest.mark.filterwarnings("ignore:.*finds nothing for class:UserWarning")
@pytest.mark.parametrize("bandwidth", ["scott", "silverman", "loo"])
@pytest.mark.parametrize("shared", [False, True])
def test_columns_that_do_not_vary(bandwidth, shared):
    flat = np.column_stack([X, np.full(len(y), 3.0)])
    plain = KDEClassifier(bandwidth, shared=shared).fit(X, y)
    model = KDEClassifier(bandwidth, shared=shared).fit(flat, y)
    np.testing.assert_allclose(model.predict_proba(flat), plain.predict_proba(X), atol=1e-9)
    moved = np.column_stack([NEW, np.full(len(NEW), 5.0)])
    np.testing.assert_allclose(model.predict_proba(moved), plain.predict_proba(NEW), atol=1e-9)
    told = np.column_stack([X, np.searchsorted(np.unique(y), y)])
    assert KDEClassifier(bandwidth, shared=shared).fit(told, y).score(told, y) > 0.97
    twice = np.repeat(np.arange(len(y)), 2)
    copies = KDEClassifier(bandwidth, shared=shared).fit(X[twice], y[twice])
    assert np.isfinite(copies.predict_proba(NEW)).all()
    lone = KDEClassifier(bandwidth, shared=shared).fit(np.vstack([X, [[9.0, 9.0]]]), [*y, "lone"])
    assert lone.predict([[9.0, 9.0]]) == ["lone"]
    same = KDEClassifier(bandwidth, shared=shared).fit(np.ones((3, 2)), [0, 1, 1])
    np.testing.assert_allclose(same.predict_proba([[1.0, 1.0], [5.0, 2.0]]), [[1 / 3, 2 / 3]] * 2)


@pytest.mark.parametrize("priors", [None, [0.6, 0.3, 0.1]], ids=["shares", "given"])
@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
def test_the_shared_bandwidth_has_the_least_left_out_log_loss(priors, kernel):
    model = KDEClassifier("loo", kernel, priors=priors, shared=True).fit(X, y)
    code = np.searchsorted(model.classes_, y)
    h = model.class_densities_[0].bandwidth_

    def error(factor):
        P = KDEClassifier(factor * h, kernel, priors=priors).fit(X, y).loo_proba()
        return -np.log(np.maximum(P[np.arange(len(y)), code], 1 / len(y))).mean()

    np.testing.assert_allclose(model.loo_error_, error(1.0), rtol=1e-9)
    least = min(error(f) for f in np.geomspace(0.1, 10, 80))
    assert model.loo_error_ <= least * (1.001 if kernel == "gaussian" else 1.03)
    assert model.loo_path_[:, 1].min() == model.loo_error_


def test_priors_of_the_fit_stay():
    model = KDEClassifier(0.3).fit(X, y)
    before = model.loo_proba()
    model.set_params(priors=[0.8, 0.1, 0.1])
    np.testing.assert_array_equal(model.loo_proba(), before)


def test_shared_bandwidth_and_shares_are_local_shares():
    ours = KDEClassifier([0.3, 0.2]).fit(X, y, W)
    local = NadarayaWatsonClassifier([0.3, 0.2]).fit(X, y, W)
    np.testing.assert_allclose(ours.loo_proba(), local.loo_proba(), atol=1e-10)
    np.testing.assert_allclose(ours.predict_proba(NEW), local.predict_proba(NEW), atol=1e-10)


# ------------------------------------------------------------------------------------- the rest
def test_one_class_and_one_row():
    one = KDEClassifier().fit(X, ["a"] * len(y))
    np.testing.assert_array_equal(one.predict_proba(NEW), 1.0)
    assert set(one.predict(NEW)) == set(one.loo()) == {"a"}
    assert KDEClassifier().fit([[1.0, 2.0]], ["b"]).predict([[3.0, 4.0]]) == ["b"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"bandwidth": 0.0}, "bandwidth"),
        ({"bandwidth": "best"}, "'best'"),
        ({"bandwidth": [1.0, 2.0, 3.0]}, "shape"),
        ({"kernel": "rbf"}, "smoothing kernel"),
        ({"shared": "no"}, "shared='no'"),
        ({"shared": True, "bandwidth": "best"}, "'best'"),
    ],
    ids=str,
)
def test_wrong_parameters(params, message):
    with pytest.raises(InvalidInput, match=rf"KDEClassifier: .*{message}"):
        KDEClassifier(**params).fit(X, y)


def test_wrong_data():
    for bad in [(X, y[:-1]), (X * np.nan, y), (X[:0], y[:0]), (X, None)]:
        with pytest.raises(InvalidInput):
            KDEClassifier().fit(*bad)
    with pytest.raises(InvalidInput, match="features"):
        KDEClassifier().fit(X, y).predict(X[:, :1])


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_units_do_not_matter(scale):
    for params in ({}, {"bandwidth": "loo"}, {"bandwidth": "loo", "shared": True}):
        plain = KDEClassifier(**params).fit(X, y).predict_proba(NEW)
        scaled = KDEClassifier(**params).fit(scale * X, y).predict_proba(scale * NEW)
        np.testing.assert_allclose(scaled, plain, atol=1e-4)


def test_grid_search():
    search = GridSearchCV(KDEClassifier(), {"bandwidth": [1e-9, 0.3, 1e9], "shared": [True]}, cv=3)
    assert search.fit(X, y).best_params_["bandwidth"] == 0.3


def test_files(tmp_path):
    model = KDEClassifier("loo", shared=True).fit(X, y, W)
    mercer.save(model, tmp_path / "model")
    again = mercer.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(NEW), model.predict_proba(NEW))
    np.testing.assert_array_equal(again.loo(), model.loo())
    with_code = model.y_fit_.copy()
    with_code[3] = 99
    for name, value in [
        ("priors_", np.ones(2)),
        ("priors_", np.zeros(3)),
        ("priors_", np.array([5.0, 7.0, 1.0])),
        ("priors_given_", "no"),
        ("class_densities_", []),
        ("class_densities_", [KernelDensity()] * 3),
        ("class_densities_", [KernelDensity().fit(X[:, :1])] * 3),
        ("y_fit_", np.ones(3)),
        ("y_fit_", with_code),
        ("y_fit_", np.full(len(y), 0.5)),
        ("sample_weight_", np.full(len(y), -1.0)),
        ("sample_weight_", np.zeros(len(y))),
        ("X_fit_", np.full_like(X, np.nan)),
    ]:
        broken = KDEClassifier().fit(X, y)
        setattr(broken, name, value)
        mercer.save(broken, tmp_path / "broken")
        with pytest.raises(ModelFileError):
            mercer.load(tmp_path / "broken")
