"""SVR and NuSVR: limits, refusals, interrupts, files, searches."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import RBF, SVR, Linear, NuSVR
from mercer.errors import InvalidInput, NotConverged
from tests.models.margins import Scratch, waves


# ---------------------------------------------------------------------- limits and refusals
def test_a_fit_that_was_stopped_says_so():
    """C1 of a fit that a limit ended."""
    X, y = waves(80)
    for model in (SVR(C=1e4, epsilon=0.0), NuSVR(C=1e4)):
        with pytest.warns(NotConverged, match="max_iter"):
            got = model.set_params(max_iter=5).fit(X, y)
        assert not got.solution_.converged and np.isfinite(got.predict(X)).all()
        s = Scratch(got, np.asarray(got.kernel_(X)), y)
        np.testing.assert_allclose(got.solution_.primal, s.primal, rtol=1e-6)
        np.testing.assert_allclose(got.solution_.dual, s.dual, rtol=1e-6, atol=1e-6)
        with pytest.warns(NotConverged):
            model.set_params(max_iter=-1, max_time=1e-9).fit(X, y)


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"C": 0.0}, "C"),
        ({"C": -1.0}, "C"),
        ({"C": np.inf}, "C"),
        ({"C": np.nan}, "C"),
        ({"C": "1"}, "C"),
        ({"C": None}, "C"),
        ({"tol": 0.0}, "tol"),
        ({"tol": -1e-3}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"max_iter": 2.5}, "max_iter"),
        ({"max_time": 0}, "max_time"),
        ({"kernel": "unheard of"}, "unheard of"),
    ],
)
@pytest.mark.parametrize("cls", [SVR, NuSVR])
def test_parameters_that_make_no_sense_are_refused(cls, params, name):
    model = cls(**params)
    with pytest.raises(InvalidInput, match=f"{cls.__name__}.*{name}"):
        model.fit(*waves(20))
    assert not hasattr(model, "support_")


@pytest.mark.parametrize("cls", [SVR, NuSVR])
def test_an_infinite_price_is_refused_with_another_way_to_the_function(cls):
    with pytest.raises(InvalidInput, match=r"finite number > 0.*support_kind_ has no 'bound'"):
        cls(C=np.inf).fit(*waves(20))


def test_the_tube_without_violations_is_that_of_a_large_price():
    X, y = waves(20)
    models = [SVR("rbf", C, 0.05, tol=1e-6).fit(X, y) for C in (1e4, 1e6)]
    for model in models:
        assert (model.support_kind_ == "margin").all()
        assert abs(model.predict(X) - y).max() <= 0.05 + 1e-6
    np.testing.assert_allclose(*(model.predict(X) for model in models), atol=1e-5)


@pytest.mark.parametrize("epsilon", [-0.1, np.nan, np.inf, "wide", None])
def test_a_tube_that_is_none_is_refused(epsilon):
    with pytest.raises(InvalidInput, match="SVR: epsilon"):
        SVR(epsilon=epsilon).fit(*waves(20))


@pytest.mark.parametrize("nu", [0.0, -0.5, 1.0001, np.nan, np.inf, "half", None, True])
def test_a_share_that_is_none_is_refused(nu):
    with pytest.raises(InvalidInput, match="NuSVR: nu"):
        NuSVR(nu=nu).fit(*waves(20))


@pytest.mark.parametrize("cls", [SVR, NuSVR])
def test_data_that_make_no_sense_are_refused(cls):
    X, y = waves(20)
    for bad in (np.full(20, np.nan), y[:-1], y.astype(str).astype(object) + "x", None):
        with pytest.raises(InvalidInput, match=cls.__name__):
            cls().fit(X, bad)
    with pytest.raises(InvalidInput, match="2 columns"):
        cls().fit(X, np.column_stack([y, y]))
    with pytest.warns(DataConversionWarning):
        cls().fit(X, y[:, None])
    with pytest.raises(InvalidInput, match="negative"):
        cls().fit(X, y, -np.ones(20))
    with pytest.raises(InvalidInput, match="zero"):
        cls().fit(X, y, np.zeros(20))
    with pytest.raises(InvalidInput):
        cls().fit(X[:0], y[:0])
    with pytest.raises(NotFittedError):
        cls().predict(X)
    model = cls().fit(X, y)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :1])


def test_a_failed_fit_leaves_the_earlier_one():
    X, y = waves(30)
    model = SVR().fit(X, y)
    before = model.predict(X)
    with pytest.raises(InvalidInput):
        model.fit(X, np.full(30, np.inf))
    np.testing.assert_array_equal(model.predict(X), before)


def test_an_interrupted_fit_leaves_the_earlier_one(monkeypatch):
    X, y = waves(30)
    model = NuSVR().fit(X, y)
    before, width = model.predict(X), model.epsilon_
    monkeypatch.setattr(mercer.solvers.SMO, "solve", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, 2 * y)
    np.testing.assert_array_equal(model.predict(X), before)
    assert model.epsilon_ == width


def _interrupt(*args, **kwargs):
    raise KeyboardInterrupt


# ------------------------------------------------------------------------ files and tools
@pytest.mark.parametrize("model", [SVR(C=4.0), NuSVR(Linear()), SVR("precomputed")], ids=repr)
def test_saved_loaded_pickled_cloned(model, tmp_path):
    X, y = waves(40)
    K = np.asarray(RBF()(X))
    X = K if model.kernel == "precomputed" else X
    model = clone(model).fit(X, y)
    mercer.save(model, tmp_path / "m.mercer")
    for again in (mercer.load(tmp_path / "m.mercer"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        np.testing.assert_array_equal(again.support_kind_, model.support_kind_)
        assert again.solution_.gap == model.solution_.gap
        assert getattr(again, "epsilon_", None) == getattr(model, "epsilon_", None)
    assert not hasattr(clone(model), "support_")


def test_grid_search_pipelines_and_scores():
    X, y = waves(80)
    search = GridSearchCV(SVR(RBF()), {"C": [0.1, 10.0], "kernel__length_scale": [0.5, 1.0]}, cv=3)
    assert search.fit(X, y).best_score_ > 0.8
    assert cross_val_score(make_pipeline(StandardScaler(), NuSVR(C=10.0)), X, y).mean() > 0.8
