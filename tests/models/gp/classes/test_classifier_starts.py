"""Searches of classifiers: starts that see nothing, doubts; what a fit keeps, what it refuses."""

import pickle
import re
import warnings

import numpy as np
import pytest

import mercer
from mercer import RBF, GaussianProcessClassifier
from mercer.errors import InvalidInput, NotConverged
from mercer.models.gp.classes.sites import Logit, Probit

METHODS = ["laplace", "ep", "vi"]


def data(n=60, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    f = X[:, 0] + 0.4 * rng.standard_normal(n)
    return X, np.digitize(f, np.linspace(-0.8, 0.8, classes + 1)[1:-1])


# -- starts --------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("kernel", "scale", "remark"),
    [
        (1.0 * RBF(1e-6), 1.0, "median distances"),
        (1.0 * RBF(1e6), 1.0, "median distances"),
        (1.0 * RBF(1.0), 1e4, "median distances"),
        (1e-12 * RBF(1.0), 1.0, r"k\(x, x\) = 1"),
        (1e-9 * RBF([1e7, 1e7]), 1.0, "median distances.*near 0"),
    ],
)
def test_a_start_on_a_plateau_is_left(method, kernel, scale, remark):
    X, y = data(40)
    # Both of these ends are local maxima of Laplace's evidence, 0.5 apart.
    fine = [GaussianProcessClassifier(k, method).fit(X, y) for k in (1.0 * RBF(1.0), None)]
    assert all("began" not in model.search_.message for model in fine)
    want = min(model.log_marginal_likelihood_value_ for model in fine)
    got = GaussianProcessClassifier(kernel, method).fit(scale * X, y)
    assert got.log_marginal_likelihood_value_ > want - 0.01
    assert re.search(remark, got.search_.message)


def test_starts_on_plateaus_of_several_classes_and_held_parameters():
    X, y = data(50, 3)
    want = GaussianProcessClassifier().fit(X, y).log_marginal_likelihood_value_
    got = GaussianProcessClassifier(1.0 * RBF(1e6)).fit(X, y)
    assert got.log_marginal_likelihood_value_ > want - 0.01
    held = GaussianProcessClassifier(1.0 * RBF(1e6), fixed=("length_scale",)).fit(X, y)
    assert (
        held.kernel_.k2.length_scale == pytest.approx(1e6) and "median" not in held.search_.message
    )
    faint = GaussianProcessClassifier(1e-12 * RBF(1.0), fixed=("value",)).fit(X, y)
    assert faint.kernel_.k1.value == pytest.approx(1e-12)


def test_restarts_find_what_one_start_does_not():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, (120, 1))
    y = np.sin(25 * X[:, 0]) > 0
    once = GaussianProcessClassifier(1.0 * RBF(2.0)).fit(X, y)
    often = GaussianProcessClassifier(1.0 * RBF(2.0), n_restarts=6, random_state=0).fit(X, y)
    assert often.log_marginal_likelihood_value_ > once.log_marginal_likelihood_value_ + 1.0
    assert often.search_.n_evaluations > once.search_.n_evaluations
    again = GaussianProcessClassifier(1.0 * RBF(2.0), n_restarts=6, random_state=0).fit(X, y)
    np.testing.assert_array_equal(often.theta_, again.theta_)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kernel", [1e-3 * RBF(1.0), 1e3 * RBF(20.0)], ids=["faint", "long"])
def test_an_end_that_explains_little_is_doubted(method, kernel):
    rng = np.random.default_rng(31)
    X = rng.uniform(-3, 3, (70, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] / 2 + 0.3 * rng.normal(size=70) > 0
    want = GaussianProcessClassifier(1.0 * RBF(1.0), method).fit(X, y).search_.value
    got = GaussianProcessClassifier(kernel, method).fit(X, y).search_.value
    assert got == pytest.approx(want, abs=0.01)  # it was 5 nats less


# -- doubts --------------------------------------------------------------------------------------
def test_an_amplitude_that_runs_away_is_doubted():
    X = np.random.default_rng(1).normal(size=(120, 3))
    rare = X[:, 0] > 2
    model = GaussianProcessClassifier().fit(X, rare)
    assert "compare method='ep' or 'vi'" in model.search_.message
    line = np.linspace(-1, 1, 40)[:, None]
    assert (
        "compare method='ep'"
        in GaussianProcessClassifier().fit(line, line[:, 0] > 0).search_.message
    )
    capped = GaussianProcessClassifier(bounds={"value": (1e-3, 4.0)}).fit(X, rare)
    assert "deviation of latent values is 2" in capped.search_.message
    for fine in (
        GaussianProcessClassifier().fit(*data(80)),
        GaussianProcessClassifier(method="ep").fit(X, rare),
    ):
        assert "compare" not in fine.search_.message


# -- what a fit keeps ----------------------------------------------------------------------------
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_parameters_set_after_the_fit_wait_for_the_next(classes, link, tmp_path):
    X, y = data(40, classes)
    model = GaussianProcessClassifier(2.0 * RBF(), link=link, optimizer=None).fit(X, y)
    want, evidence = model.predict_proba(X), model.log_marginal_likelihood(model.theta_)
    assert (model.method_, model.link_) == ("laplace", link)
    for change in ({"link": "probit"}, {"link": "logit"}, {"method": "ep"}, {"method": "vi"}):
        other = pickle.loads(pickle.dumps(model)).set_params(**change)
        np.testing.assert_array_equal(other.predict_proba(X), want)
        assert other.log_marginal_likelihood(other.theta_) == pytest.approx(evidence, abs=1e-9)
        mercer.save(other, tmp_path / "model")
        np.testing.assert_array_equal(mercer.load(tmp_path / "model").predict_proba(X), want)
    other.link_ = "cauchit"
    with pytest.raises(mercer.errors.ModelFileError):
        other._check_state()


@pytest.mark.parametrize("link", [Logit(), Probit()])
def test_links_are_given_by_name(link):
    with pytest.raises(InvalidInput, match=f"give its name, '{link.name}'"):
        GaussianProcessClassifier(link=link).fit(*data(10))


def test_an_evidence_that_was_not_found_is_said_to_be():
    X, y = data(30)
    model = GaussianProcessClassifier(2.0 * RBF(), optimizer=None).fit(X, y)
    far = np.log([1e25, 1.0])
    with pytest.warns(NotConverged, match="GaussianProcessClassifier: the mode"):
        model.log_marginal_likelihood(far)
    with pytest.warns(NotConverged, match="GaussianProcessClassifier: the mode"):
        model.log_marginal_likelihood(far, eval_gradient=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.log_marginal_likelihood(model.theta_, eval_gradient=True)


# -- messages ------------------------------------------------------------------------------------
def test_wrong_points_are_named():
    X, y = data(20)
    K = np.asarray(RBF()(X))
    model = GaussianProcessClassifier("precomputed").fit(K, y)
    for diag, text in [
        (-np.ones(20), r"diag\[0\] = -1; k\(x, x\) is"),
        (np.where(np.arange(20) == 3, np.inf, 1.0), r"diag\[3\] = inf"),
        (np.ones(3), r"shape \(3,\)"),
    ]:
        with pytest.raises(InvalidInput, match=text):
            model.predict_proba(K, diag=diag)
    with pytest.raises(InvalidInput, match=r"kernel values of new points.*all 20 training points"):
        model.predict(K[:, :10])
    with pytest.raises(InvalidInput, match="GaussianProcessClassifier: X is None"):
        GaussianProcessClassifier().fit(None, y)


def test_frames_that_are_not_numbers_are_named():
    pd = pytest.importorskip("pandas")
    X, y = data(20)
    frame = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(np.where(X[:, 1] > 0, "u", "v"))})
    with pytest.raises(InvalidInput, match=r"GaussianProcessClassifier: column 'b' .* categories"):
        GaussianProcessClassifier().fit(frame, y)


def test_frames_that_are_not_read_are_named():
    pl = pytest.importorskip("polars")
    X, y = data(20)
    with pytest.raises(InvalidInput, match=r"X\.collect\(\)"):
        GaussianProcessClassifier().fit(pl.LazyFrame({"a": X[:, 0]}), y)
