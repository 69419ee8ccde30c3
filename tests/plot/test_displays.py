"""The displays draw what the models say, and refuse what cannot be drawn."""

import warnings

import numpy as np
import pytest

import mercer
from mercer import RBF, GaussianProcessRegressor, KernelRidge, SparseGaussianProcessRegressor
from mercer.errors import InvalidInput
from mercer.plot import EvidenceDisplay, PosteriorDisplay

pytest.importorskip("matplotlib")


@pytest.fixture
def axes():
    from matplotlib.figure import Figure

    return Figure().subplots()


@pytest.fixture
def model(rng):
    X = np.sort(rng.uniform(0, 6, 15))[:, None]
    y = 3 + 2 * np.sin(X[:, 0]) + 0.1 * rng.standard_normal(15)
    return mercer.GaussianProcessRegressor(RBF(1.0)).fit(X, y)


def test_posterior(model, axes):
    shown = PosteriorDisplay.from_estimator(model, n_samples=3, ax=axes, n_points=50)
    mean, std = model.predict(shown.x[:, None], return_std=True, with_noise=False)
    np.testing.assert_allclose(shown.line_.get_ydata(), mean)
    np.testing.assert_allclose(shown.upper - shown.mean, 1.6448536 * std, rtol=1e-6)
    assert len(shown.sample_lines_) == 3 and shown.ax_ is axes and shown.figure_ is axes.figure
    np.testing.assert_array_equal(shown.points_.get_offsets(), np.c_[shown.X_fit, shown.y_fit])
    wide = PosteriorDisplay.from_estimator(model, shown.x, with_noise=True, ax=axes)
    assert (wide.upper > shown.upper).all()
    texts = [t.get_text() for t in axes.get_legend().get_texts()]
    assert "90% of the function" in texts and "90% of a new observation" in texts


def test_styles(model, axes):
    shown = PosteriorDisplay.from_estimator(model, ax=axes, line_kwargs={"color": "red", "lw": 3})
    assert shown.line_.get_color() == "red" and shown.line_.get_linewidth() == 3
    with pytest.raises(InvalidInput, match="line_kwargs"):
        PosteriorDisplay.from_estimator(model, ax=axes, line_kwargs="red")


def test_several_outputs(rng, axes):
    X = np.linspace(0, 3, 9)[:, None]
    model = mercer.GaussianProcessRegressor(RBF(1.0), noise=0.01, optimizer=None)
    model.fit(X, np.c_[X, -X])
    shown = PosteriorDisplay.from_estimator(model, X, output=1, n_samples=2, ax=axes)
    np.testing.assert_allclose(shown.mean, model.predict(X)[:, 1])
    assert shown.samples.shape == (9, 2)


@pytest.mark.parametrize("over", [None, "length_scale", ["length_scale", "noise"]])
def test_evidence(over, model, axes):
    shown = EvidenceDisplay.from_estimator(model, over, resolution=4, ax=axes)
    best = dict(zip(model.theta_names_, model.theta_, strict=True))
    there = [np.log(grid[1]) for grid in shown.grids]
    theta = model.theta_.copy()
    for name, value in zip(shown.names, there, strict=True):
        theta[list(best).index(name)] = value
    assert shown.values[(1,) * len(there)] == pytest.approx(model.log_marginal_likelihood(theta))
    assert (shown.values <= model.log_marginal_likelihood_value_ + 1e-6).all()


def test_ranges(model, axes):
    ranges = {"kernel__length_scale": (0.5, 2.0)}
    shown = EvidenceDisplay.from_estimator(model, "length_scale", ranges=ranges, ax=axes)
    np.testing.assert_allclose(shown.grids[0][[0, -1]], [0.5, 2.0])
    with pytest.raises(InvalidInput, match="low ≤ high"):
        EvidenceDisplay.from_estimator(model, "noise", ranges={"noise": (2, 1)}, ax=axes)


def test_refusals(model, rng):
    X = rng.standard_normal((8, 2))
    with pytest.raises(InvalidInput, match="one column"):
        PosteriorDisplay.from_estimator(
            mercer.GaussianProcessRegressor(RBF(), noise=0.1, optimizer=None).fit(X, X[:, 0])
        )
    with pytest.raises(InvalidInput, match="no posterior"):
        PosteriorDisplay.from_estimator(KernelRidge().fit(X[:, :1], X[:, 1]))
    with pytest.raises(InvalidInput, match="coverage=1"):
        PosteriorDisplay.from_estimator(model, coverage=1)
    with pytest.raises(InvalidInput, match="over='size'"):
        EvidenceDisplay.from_estimator(model, "size")
    with pytest.raises(InvalidInput, match="no parameters"):
        EvidenceDisplay.from_estimator(KernelRidge().fit(X, X[:, 0]))
    with pytest.raises(ValueError, match="not fitted"):
        PosteriorDisplay.from_estimator(mercer.GaussianProcessRegressor())


# ----------------------------------------------------------------- the prior, frames, and refusals
def test_the_prior_is_drawn_where_one_says_where(axes):
    from sklearn.exceptions import NotFittedError

    model, X = GaussianProcessRegressor(4.0 * RBF(1.0), 0.1), np.linspace(0, 5, 20)
    shown = PosteriorDisplay.from_estimator(model, X, n_samples=2, coverage=0.5, ax=axes)
    assert shown.points_ is None and len(shown.sample_lines_) == 2
    np.testing.assert_allclose(shown.upper, 2.0 * 0.6744897501960817)
    with pytest.raises(NotFittedError, match="not fitted; give X for its prior"):
        PosteriorDisplay.from_estimator(model)


def test_a_sparse_model_has_no_data_to_draw(axes):
    X = np.linspace(0, 6, 40)[:, None]
    model = SparseGaussianProcessRegressor(RBF(1.0), 0.01, n_inducing=9, optimizer=None)
    shown = PosteriorDisplay.from_estimator(model.fit(X, np.sin(X[:, 0])), n_samples=2, ax=axes)
    assert shown.points_ is None and len(shown.x) == 400


def test_a_model_of_a_frame_is_drawn_without_a_word(axes):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"time": np.linspace(0, 6, 12)})
    model = GaussianProcessRegressor(RBF(1.0), 0.1, optimizer=None).fit(frame, np.sin(frame.time))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PosteriorDisplay.from_estimator(model, n_samples=1, ax=axes)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"output": 1}, "output=1; give a whole number from 0 to 0"),
        ({"output": -1}, "output=-1"),
        ({"colour": "red"}, "colour is no argument; styles are band_kwargs"),
        ({"n_points": 0}, "n_points=0"),
        ({"n_samples": -1}, "n_samples=-1"),
    ],
)
def test_what_a_posterior_display_refuses(options, words):
    model = GaussianProcessRegressor(RBF(1.0), 0.1, optimizer=None).fit([[0.0], [1.0]], [1.0, 2.0])
    with pytest.raises(InvalidInput, match=words):
        PosteriorDisplay.from_estimator(model, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"resolution": 0}, "resolution=0"),
        ({"resolution": "x"}, "resolution='x'"),
        ({"ranges": {"noize": (1, 2)}}, "ranges names 'noize'"),
        ({"ranges": {"noise": 3}}, r"ranges\['noise'\] = 3"),
        ({"ranges": {"noise": (2, 2)}}, "0 < low < high"),
        ({"ranges": [1]}, "give a dict"),
    ],
)
def test_what_an_evidence_display_refuses(options, words):
    model = GaussianProcessRegressor(RBF(1.0), 0.1, optimizer=None).fit([[0.0], [1.0]], [1.0, 2.0])
    with pytest.raises(InvalidInput, match=words):
        EvidenceDisplay.from_estimator(model, "noise", **options)
