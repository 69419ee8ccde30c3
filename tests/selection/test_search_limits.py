"""search: what it refuses, what fails inside it, its limits in memory and time."""

from __future__ import annotations

import pickle
import threading
import time
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, KFold

import mercer
from mercer import RBF, SVC, SVR, KernelRidge, KernelRidgeClassifier, Precomputed, search
from mercer.errors import InvalidInput, MemoryBudgetExceeded, NotConverged, NotPositiveDefinite
from mercer.selection.grid import grid_search as search_grid
from mercer.selection.grid.paths import MarginWalk
from mercer.selection.grid.scorer import FoldScorer

ALPHAS = {"alpha": [0.1, 1.0, 10.0]}


def data(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(n)


# -- refusals -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({}, None),
        ({"alpha": []}, "grid"),
        ({"alpha": 1.0}, "grid"),
        ({"alpha": "loo"}, "grid"),
        ([], "empty"),
        (3, "grid"),
        ({"beta": [1.0]}, "beta"),
        ({"kernel__scale": [1.0]}, "scale"),
        ({"kernel__length_scale": [-1.0, -2.0]}, "length_scale"),
    ],
)
def test_grids(grid, words):
    if words is None:  # one point without parameters, as for GridSearchCV
        result = search(KernelRidge(RBF(1.0)), grid, *data())
        assert result.best_params_ == {}
        return
    with pytest.raises(InvalidInput, match=words):
        search(KernelRidge(RBF(1.0)), grid, *data())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cv": 1}, "cv"),
        ({"cv": 61}, "cv"),
        ({"cv": "five"}, "cv"),
        ({"cv": True}, "cv"),
        ({"cv": []}, "folds"),
        ({"cv": [(np.arange(60), [])]}, "without"),
        ({"cv": [(np.arange(70), np.arange(5))]}, "cv"),
        ({"cv": [(np.arange(7),)]}, "cv"),
        ({"scoring": "no_such_score"}, "scoring"),
        ({"scoring": ["r2", "neg_max_error"]}, "GridSearchCV"),
        ({"scoring": 3}, "scoring"),
        ({"max_time": -1}, "max_time"),
        ({"max_time": "long"}, "max_time"),
        ({"refit": "r2"}, "refit"),
        ({"sample_weight": np.ones(5)}, "sample_weight"),
        ({"sample_weight": -np.ones(60)}, "negative"),
    ],
)
def test_options(options, words):
    with pytest.raises(InvalidInput, match=words):
        search(KernelRidge(RBF(1.0)), ALPHAS, *data(), **options)


def test_data():
    X, y = data()
    with pytest.raises(InvalidInput, match="60 rows and y has 59"):
        search(KernelRidge(RBF(1.0)), ALPHAS, X, y[:-1])
    with pytest.raises(InvalidInput, match="1 rows"):
        search(KernelRidge(RBF(1.0)), ALPHAS, X[:1], y[:1])
    with pytest.raises(InvalidInput, match="X"):
        search(KernelRidge(RBF(1.0)), ALPHAS, 3.0, y)
    with pytest.raises(InvalidInput, match="NaN"):
        search(KernelRidge(RBF(1.0)), ALPHAS, np.where(X == X[0], np.nan, X), y)
    with pytest.raises(InvalidInput, match="y"):
        search(KernelRidge(RBF(1.0)), ALPHAS, X)
    with pytest.raises(InvalidInput, match="one class"):
        search(SVC(), {"C": [1.0, 10.0]}, X, np.zeros(60))


# -- failures -------------------------------------------------------------------------------------
@pytest.mark.parametrize("model", [KernelRidge(RBF(1.0)), SVC(RBF(1.0)), SVR(RBF(1.0))])
def test_a_setting_that_fails_is_nan_and_last(model):
    X, y = data()
    y = y > 0 if isinstance(model, SVC) else y
    name = "alpha" if isinstance(model, KernelRidge) else "C"
    grid = {name: [-1.0, 1.0, "much"]}
    with pytest.warns(FitFailedWarning, match="10 of 15 fits failed"):
        result = search(model, grid, X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = GridSearchCV(model, grid).fit(X, y)
    table = result.results_
    assert list(np.isnan(table["mean_test_score"])) == [True, False, True]
    assert list(table["rank_test_score"]) == list(theirs.cv_results_["rank_test_score"])
    assert result.best_params_ == {name: 1.0}
    assert "10 of 15 fits failed" in repr(result)


def test_all_failing_raises_the_first_error():
    X, y = data()
    with pytest.raises(InvalidInput, match="negative"):
        search(KernelRidge(RBF(1.0)), {"alpha": [-1.0, -2.0]}, X, y)
    bad = -np.eye(60) + 2 * np.ones((60, 60))
    with pytest.raises(NotPositiveDefinite):
        search(KernelRidge(Precomputed()), {"alpha": [1e-3]}, bad, y)

    class Broken(RegressorMixin, BaseEstimator):
        def fit(self, X, y):
            raise RuntimeError("no")

    with pytest.raises(InvalidInput, match="RuntimeError: no"):
        search(Broken(), {}, X, y)


def test_an_indefinite_function_fails_as_in_a_fit():
    X, y = data()

    def not_a_kernel(s, t):
        return float(np.dot(s, t)) - 3.0

    with pytest.raises(NotPositiveDefinite):
        search(KernelRidge(not_a_kernel), {"alpha": [1e-6]}, X, y)
    with pytest.warns(FitFailedWarning):
        result = search(KernelRidge(), {"kernel": [not_a_kernel, RBF(1.0)], "alpha": [0.1]}, X, y)
    assert result.best_params_["kernel"] == RBF(1.0)


def test_a_fold_that_always_fails_is_an_error():
    X = data(30)[0]
    y = np.r_[np.zeros(10), np.ones(20)]
    cv = [(np.arange(10, 30), np.arange(10)), (np.arange(5, 30), np.arange(5))]
    with pytest.raises(InvalidInput, match="one class"):  # no point has a mean score
        search(SVC(), {"C": [1.0, 2.0]}, X, y, cv=cv)


def test_scores_that_fail_are_nan():
    def picky(model, X, y):
        if model.alpha == 1.0:
            raise ValueError("not this one")
        return model.score(X, y)

    with pytest.warns(FitFailedWarning, match="not this one"):
        result = search(KernelRidge(RBF(1.0)), ALPHAS, *data(), scoring=picky)
    assert list(np.isnan(result.results_["mean_test_score"])) == [False, True, False]


def test_weights_that_a_score_cannot_take_are_mentioned():
    def plain(model, X, y):
        return model.score(X, y)

    with pytest.warns(UserWarning, match="sample_weight"):
        search(KernelRidge(RBF(1.0)), ALPHAS, *data(), scoring=plain, sample_weight=np.ones(60))


def test_unconverged_paths_are_counted_once():
    X, y = data(200)
    model = SVR(RBF(0.1), tol=1e-14)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        search(model, {"C": [1e6, 1e7]}, X, y, cv=2, refit=False)
    mine = [w for w in said if issubclass(w.category, NotConverged)]
    assert len(mine) <= 1


# -- limits ---------------------------------------------------------------------------------------
def test_a_small_memory_budget_gives_the_same_scores():
    X, y = data(200)
    grid = {"alpha": [0.1, 1.0], "kernel__length_scale": [0.5, 1.0]}
    expected = search(KernelRidge(RBF()), grid, X, y)
    machine = search(SVC(RBF(1.0)), {"C": [0.1, 1.0]}, X, y > 0)
    with mercer.config(memory="700kB"):  # the matrix is 320 kB, fits on its parts do not fit
        result = search(KernelRidge(RBF()), grid, X, y)
        again = search(SVC(RBF(1.0)), {"C": [0.1, 1.0]}, X, y > 0)
    for a, b in ((expected, result), (machine, again)):
        scores = (r.results_["mean_test_score"] for r in (a, b))
        np.testing.assert_allclose(*scores, atol=1e-9)
    with mercer.config(memory="100kB"):  # nor does the matrix: conjugate gradients
        tiles = search(KernelRidge(RBF(), tol=1e-9), grid, X, y).results_["mean_test_score"]
    np.testing.assert_allclose(tiles, expected.results_["mean_test_score"], atol=1e-9)
    with mercer.config(memory="10kB"), pytest.raises(MemoryBudgetExceeded):
        search(KernelRidge(RBF()), grid, X, y)


def test_max_time_leaves_points_out_and_says_so():
    X, y = data()
    grid = {"kernel__length_scale": list(np.geomspace(0.1, 10, 30)), "alpha": [0.1, 1.0]}
    result = search(KernelRidge(RBF()), grid, X, y, max_time=0)
    scores = result.results_["mean_test_score"]
    assert 1 <= np.isfinite(scores).sum() < len(scores)
    assert "max_time" in result.message
    assert "max_time" in repr(result)
    assert np.isfinite(result.best_score_)
    assert result.results_["rank_test_score"][result.best_index_] == 1
    whole = search(KernelRidge(RBF()), grid, X, y, max_time=600)
    assert whole.message == ""
    assert np.isfinite(whole.results_["mean_test_score"]).all()


def test_max_time_stops_slow_models_between_fits():
    class Slow(RegressorMixin, BaseEstimator):
        def __init__(self, a=0):
            self.a = a

        def fit(self, X, y):
            time.sleep(0.02)
            self.mean_ = float(np.mean(y))
            return self

        def predict(self, X):
            return np.full(len(X), self.mean_)

    result = search(Slow(), {"a": list(range(1000))}, *data(), max_time=0.2)
    tried = np.isfinite(result.results_["mean_test_score"]).sum()
    assert 1 <= tried < 1000


def test_an_interrupt_passes_and_leaves_things_as_they_were(monkeypatch):
    X, y = data()
    model = KernelRidge(RBF(1.0))

    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("mercer.selection.grid.paths.ridge_values", stop)
    with pytest.raises(KeyboardInterrupt):
        search(model, ALPHAS, X, y)
    monkeypatch.undo()
    assert not hasattr(model, "dual_coef_")
    assert search(model, ALPHAS, X, y).best_score_ > 0
    assert threading.active_count() < 50


@pytest.mark.parametrize("model", [SVC(RBF(1.0)), SVR(RBF(1.0))])
def test_folds_side_by_side_score_the_same(model, monkeypatch):
    X, y = data(200)
    y = np.digitize(y, [-0.5, 0.5]) if isinstance(model, SVC) else y
    monkeypatch.setattr("mercer.selection.grid.paths.WORTH_THREADS", 0)
    found = []
    for threads in (1, 3):
        with mercer.config(threads=threads):
            found.append(search(model, {"C": [0.1, 1.0, 10.0]}, X, y).results_)
    for name in ("mean_test_score", "split4_test_score"):
        assert np.array_equal(found[0][name], found[1][name])


@pytest.mark.parametrize("threads", [1, 3])
def test_an_interrupt_stops_all_folds(threads, monkeypatch):
    X, y = data(200)
    monkeypatch.setattr("mercer.selection.grid.paths.WORTH_THREADS", 0)
    calls = []

    def stop(self, *args):
        calls.append(1)
        raise KeyboardInterrupt

    monkeypatch.setattr("mercer.selection.grid.paths.MarginWalk.solve", stop)
    with mercer.config(threads=threads), pytest.raises(KeyboardInterrupt):
        search(SVR(RBF(1.0)), {"C": [0.1, 1.0, 10.0]}, X, y)
    assert len(calls) <= 5  # no fold goes on to its next C
    monkeypatch.undo()
    assert search(SVR(RBF(1.0)), {"C": [1.0]}, X, y).best_score_ > 0


def test_a_path_that_breaks_off_is_finished_by_fits(monkeypatch):
    X, y = data()
    grid = {"C": [0.1, 1.0, 10.0]}
    expected = search(SVR(RBF(1.0), tol=1e-8), grid, X, y)
    solve = MarginWalk.solve

    def sometimes(self, model, *args):
        if model.C == 1.0:
            raise NotPositiveDefinite("no")
        return solve(self, model, *args)

    monkeypatch.setattr("mercer.selection.grid.paths.MarginWalk.solve", sometimes)
    result = search(SVR(RBF(1.0), tol=1e-8), grid, X, y)
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(result.results_[name], expected.results_[name], atol=1e-6)


def test_the_model_and_the_grid_are_not_changed():
    X, y = data()
    model = KernelRidge(RBF(1.0), alpha=7.0)
    kernels = [RBF(0.5), RBF(2.0)]
    search(model, {"kernel": kernels, "alpha": [0.1]}, X, y)
    assert model.get_params()["alpha"] == 7.0
    assert model.kernel == RBF(1.0)
    assert kernels == [RBF(0.5), RBF(2.0)]
    with pytest.raises(NotFittedError):
        model.predict(X)


# -- the result -----------------------------------------------------------------------------------
def test_the_result_asks_its_model():
    X, y = data()
    result = search(KernelRidge(RBF(1.0)), ALPHAS, X, y)
    assert np.array_equal(result.predict(X), result.best_estimator_.predict(X))
    assert result.kernel_ == RBF(1.0)
    assert result.cv_results_ is result.results_
    with pytest.raises(AttributeError):
        result.no_such_thing  # noqa: B018
    twin = pickle.loads(pickle.dumps(result))
    assert twin.best_params_ == result.best_params_
    assert np.array_equal(twin.predict(X), result.predict(X))
    without = search(KernelRidge(RBF(1.0)), ALPHAS, X, y, refit=False)
    with pytest.raises(AttributeError, match="refit"):
        without.best_estimator_  # noqa: B018
    with pytest.raises(AttributeError):
        without.predict(X)


def test_the_table_makes_a_frame():
    pandas = pytest.importorskip("pandas")
    X, y = data()
    frame = pandas.DataFrame(search(KernelRidge(RBF(1.0)), ALPHAS, X, y).results_)
    assert list(frame["param_alpha"]) == [0.1, 1.0, 10.0]
    assert frame["mean_test_score"].idxmax() == frame["rank_test_score"].idxmin()


def test_weights_reach_the_refit():
    X, y = data()
    w = np.arange(60.0)
    result = search(KernelRidge(RBF(1.0)), ALPHAS, X, y, sample_weight=w)
    alpha = result.best_params_["alpha"]
    expected = KernelRidge(RBF(1.0), alpha).fit(X, y, sample_weight=w)
    assert np.array_equal(result.predict(X), expected.predict(X))


# -- FoldScorer -----------------------------------------------------------------------------------
def test_fold_scorer_scores_settings_of_a_kernel():
    X, y = data()
    scorer = FoldScorer(KernelRidge(), X, y, cv=KFold(3))
    scores = scorer.scores(RBF(1.0), [{"alpha": 0.1}, {"alpha": 1.0, "fit_intercept": True}, {}])
    assert scores.shape == (3, 3)
    for row, params in zip(scores, ({"alpha": 0.1}, {"fit_intercept": True}, {}), strict=True):
        for score, (train, test) in zip(row, KFold(3).split(X), strict=True):
            model = KernelRidge(RBF(1.0), **params).fit(X[train], y[train])
            assert score == pytest.approx(model.score(X[test], y[test]), abs=1e-9)
    assert scorer.failures == []
    own = FoldScorer(KernelRidgeClassifier(RBF(1.0)), X, y > 0).scores(None, [{"alpha": 0.1}])
    assert own.shape == (1, 5)


def test_names():
    assert mercer.search is mercer.selection.search is search_grid.search
