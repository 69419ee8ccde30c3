"""search: warm starts along alpha, one search for all numbers of neighbours, kernels in groups."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import KFold

from mercer import (
    RBF,
    SVC,
    KernelERM,
    KernelHuberRegressor,
    KernelLogisticRegression,
    KernelNeighborsClassifier,
    KernelNeighborsRegressor,
    KernelQuantileRegressor,
    KernelRidgeClassifier,
    Matern,
    search,
    tune,
)
from mercer.errors import InvalidInput
from mercer.models.neighbors import models
from mercer.selection.grid.grid_search import by_kernel
from mercer.selection.grid.paths import grouped
from mercer.selection.grid.scorer import WarmStarts
from tests.selection.searches import alike, both, classes, letters, numbers

ALPHAS = [0.01, 10.0, 0.3, 1.0]

RISKS = [
    KernelERM(RBF(1.0), "huber"),
    KernelERM(RBF(1.0), "absolute", tol=1e-9),
    KernelERM(RBF(1.0), "epsilon_insensitive", tol=1e-9),
    KernelERM("rbf", "pinball", tol=1e-9),
    KernelERM("linear", "squared"),
    KernelHuberRegressor(RBF(1.0), delta=0.2),
    KernelQuantileRegressor(RBF(1.0), [0.9, 0.1], tol=1e-9),
    KernelQuantileRegressor("rbf", [0.9, 0.1], tol=1e-9),
    KernelERM(RBF(1.0), "hinge", tol=1e-9),
    KernelERM(RBF(1.0), "squared_hinge"),
    KernelERM(RBF(1.0), "exponential"),
    KernelLogisticRegression(RBF(1.0)),
    KernelLogisticRegression("linear"),
]


def data_of(model, n=60):
    labels = getattr(model, "_kind", lambda: "")() == "classification"
    labels |= isinstance(model, KernelLogisticRegression)
    return classes(n) if labels else numbers(n)


@pytest.mark.parametrize("model", RISKS, ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_warm_starts_give_the_scores_of_grid_search(model, weighted):
    X, y = data_of(model)
    weights = None
    if weighted:
        weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    both(model, {"alpha": ALPHAS}, X, y, atol=1e-5, weights=weights, cv=3)


@pytest.mark.parametrize("model", RISKS, ids=repr)
def test_warm_starts_take_fewer_steps_to_the_same_place(model):
    X, y = data_of(model)
    near, cold, warm = None, 0, 0
    for alpha in 10.0 ** np.arange(1, -2.1, -0.25):
        fresh = clone(model).set_params(alpha=alpha)
        alone = clone(fresh).fit(X, y)
        near = fresh._fit_from(near, X, y)
        cold, warm = cold + alone.n_iter_, warm + near.n_iter_
        np.testing.assert_allclose(near._values(X), alone._values(X), atol=2e-4)
    # several quantiles start from one another anyway, and the squared loss takes one step
    few = isinstance(model, KernelQuantileRegressor) or getattr(model, "loss", "") == "squared"
    assert warm <= 1.1 * cold if few else warm < cold


def test_the_searches_do_start_warm(monkeypatch):
    seen = []
    original = KernelLogisticRegression._fit_from

    def spy(self, near, *args, **kwargs):
        seen.append((self.alpha, None if near is None else near.alpha))
        return original(self, near, *args, **kwargs)

    monkeypatch.setattr(KernelLogisticRegression, "_fit_from", spy)
    X, y = classes(60)
    search(KernelLogisticRegression(RBF(1.0)), {"alpha": ALPHAS}, X, y, cv=2, refit=False)
    down = sorted(ALPHAS, reverse=True)
    chain = list(zip(down, [None, *down[:-1]], strict=True))
    assert seen == [pair for pair in chain for _ in range(2)]


def test_other_settings_and_failures_break_the_chain():
    X, y = classes(60)
    grid = {"alpha": [1.0, -1.0, 0.1], "fit_intercept": [True, False]}
    both(KernelLogisticRegression(RBF(1.0)), grid, X, y, atol=1e-6, cv=3)


def test_the_order_of_fits():
    settings = [{"alpha": 1.0}, {"alpha": "x"}, {"alpha": 5.0}, {"alpha": 0.1, "tol": 1e-3}]
    starts = WarmStarts(KernelHuberRegressor(), settings)
    left = np.argwhere(np.ones((4, 2), dtype=bool))
    assert [i for i, _ in starts.order(left, False)] == [1, 1, 2, 2, 0, 0, 3, 3]
    assert [k for _, k in starts.order(left, True)] == [0, 0, 0, 0, 1, 1, 1, 1]
    starts.keep(2, 0, "fit")
    assert starts.near(0, 0) == "fit" and starts.near(0, 1) is None and starts.near(3, 0) is None
    starts.keep(3, 0, "other")
    assert starts.near(0, 0) is None and starts.near(3, 0) == "other"
    cold = WarmStarts(KernelRidgeClassifier(), settings)
    assert cold.order(left, False) == [tuple(pair) for pair in left.tolist()]
    cold.keep(0, 0, "fit")
    assert cold.near(0, 0) is None


# ------------------------------------------------------------------------------------- neighbours
@pytest.mark.parametrize("kernel", ["rbf", RBF(0.5), "linear", Matern(1.0) + RBF(2.0)], ids=repr)
@pytest.mark.parametrize("weights", ["uniform", "distance", np.exp], ids=str)
def test_neighbours_of_one_search(kernel, weights):
    grid = {"n_neighbors": [7, 1, 40, 2, 3]}
    X, y = classes(60)
    X = np.vstack([X, X[:10]])  # equal points, equal distances
    y = np.append(y, y[:10])
    both(KernelNeighborsClassifier(kernel, weights=weights), grid, X, y, atol=0, cv=3)
    both(KernelNeighborsRegressor(kernel, weights=weights), grid, X, y, atol=1e-12, cv=3)


@pytest.mark.parametrize("scoring", ["neg_log_loss", "roc_auc_ovr", "accuracy"])
def test_neighbours_and_probabilities(scoring):
    X, y = classes(60)
    grid = {"n_neighbors": [5, 10], "weights": ["uniform", "distance"]}
    both(KernelNeighborsClassifier(RBF(1.0)), grid, X, y, atol=1e-12, cv=3, scoring=scoring)


def test_neighbours_of_words_and_matrices():
    words, y = letters(40)
    for weights in ("uniform", "distance"):
        model = KernelNeighborsRegressor(alike, weights=weights)
        both(model, {"n_neighbors": [1, 2, 9]}, np.array(words, dtype=object), y, cv=4)
    X, y = classes(50)
    K = RBF(1.0)(X)
    both(KernelNeighborsClassifier("precomputed"), {"n_neighbors": [1, 4]}, K, y, atol=0, cv=3)


def test_too_many_neighbours_fail_alone():
    X, y = numbers(30)
    with pytest.warns(FitFailedWarning, match=r"n_neighbors.: 25.* in fold 0"):
        found = search(KernelNeighborsRegressor(RBF(1.0)), {"n_neighbors": [25, 3, 0]}, X, y, cv=3)
    assert np.isnan(found.results_["mean_test_score"]).tolist() == [True, False, True]


def test_there_is_one_search_a_fold(monkeypatch):
    calls = []
    original = models.find_nearest

    def spy(kernel, Q, X, diagonal, k, **options):
        calls.append(k)
        return original(kernel, Q, X, diagonal, k, **options)

    monkeypatch.setattr(models, "find_nearest", spy)
    X, y = numbers(60)
    grid = {"n_neighbors": list(range(1, 21))}
    search(KernelNeighborsRegressor(RBF(1.0)), grid, X, y, cv=KFold(4), refit=False)
    assert calls == [20] * 4


# ----------------------------------------------------------------------------------------- groups
def test_kernels_in_groups_are_compared_with_those_that_read_alike(monkeypatch):
    count = []
    original = RBF.__eq__
    monkeypatch.setattr(RBF, "__eq__", lambda a, b: count.append(1) or original(a, b))
    scales = np.linspace(0.1, 9, 100)
    points = [{"kernel__length_scale": s, "alpha": a} for a in (1.0, 2.0) for s in scales]
    groups = by_kernel(points, KernelHuberRegressor(RBF()))
    assert [members for _, members in groups] == [[i, i + 100] for i in range(100)]
    assert len(count) <= 300


def test_groups_of_arrays_and_long_arrays():
    a, b = np.arange(1.0, 2001), np.arange(1.0, 2001)
    b[1000] = 7.0  # which repr does not show
    first, second = {"x": RBF(a)}, {"x": RBF(b)}
    assert repr(first) == repr(second)
    found = grouped([first, second, {"x": RBF(a.copy())}])
    assert [members for _, members in found] == [[0, 2], [1]]
    assert len(grouped([{"x": a}, {"x": a.copy()}])) == 2  # == is no answer


# ------------------------------------------------------------------ scores that a model cannot give
def test_scores_of_probabilities_that_some_points_lack():
    X, y = classes(60, 2)
    grid = {"loss": ["hinge", "logistic"]}
    found = both(KernelERM(RBF(1.0), "hinge"), grid, X, y, atol=1e-6, scoring="neg_log_loss", cv=3)
    assert found.best_params_ == {"loss": "logistic"}
    grid = {"probability": [False, True], "C": [1.0, 10.0]}
    model = SVC(RBF(1.0), random_state=0)
    with pytest.warns(FitFailedWarning, match="6 of 12 fits failed"):
        found = search(model, grid, X, y, 3, scoring="neg_log_loss")
    assert found.best_params_["probability"]
    assert np.isnan(found.results_["mean_test_score"]).sum() == 2


def test_a_score_that_no_point_has_names_the_model_and_the_fold():
    X, y = classes(60, 2)
    model, bad = KernelRidgeClassifier(RBF(1.0)), {"scoring": "neg_log_loss"}
    with pytest.raises(InvalidInput, match=r"all fits failed.*fold 0.*KernelRidgeClassifier has"):
        search(model, {"alpha": [1.0]}, X, y, **bad)
    with pytest.raises(InvalidInput, match=r"could be scored.*KernelRidgeClassifier has"):
        tune(model, X, y, **bad)


def test_failures_of_folds_name_the_fold_and_the_kernel():
    X, y = classes(60, 2)
    order = np.argsort(y)
    with pytest.raises(
        InvalidInput, match=r"all fits failed, the first with.*in fold 0: .*one class"
    ):
        search(SVC(), {"C": [1.0, 2.0]}, X[order], y[order], cv=KFold(2))
    with pytest.warns(FitFailedWarning, match=r"with {'kernel': 'nope', 'C': 1.0} in fold 0"):
        search(SVC(), {"kernel": ["rbf", "nope"], "C": [1.0]}, X, y, cv=3)


def test_results_are_no_estimators():
    X, y = numbers(30)
    found = search(KernelHuberRegressor(RBF(1.0)), {"alpha": [1.0]}, X, y, cv=2)
    with pytest.raises(TypeError, match="clone"):
        clone(found)


def test_time_is_looked_at_between_two_penalties():
    X, y = classes(60, 2)
    found = search(SVC(RBF(1.0)), {"C": [0.1, 1.0, 10.0]}, X, y, cv=3, max_time=0.0)
    scored = ~np.isnan(found.results_["mean_test_score"])
    assert scored.tolist() == [True, False, False] and "1 of 3 points" in found.message
    grid = {"n_neighbors": [1, 3], "weights": ["uniform", "distance"]}
    found = search(KernelNeighborsClassifier(RBF(1.0)), grid, X, y, cv=3, max_time=0.0)
    assert 1 <= (~np.isnan(found.results_["mean_test_score"])).sum() < 4


def test_missing_targets_are_named_by_their_row():
    X, y = numbers(30)
    y[13] = np.nan
    with pytest.raises(ValueError, match=r"all fits failed.*y contains NaN at row 13\."):
        search(KernelHuberRegressor(RBF(1.0)), {"alpha": [1.0]}, X, y, cv=3)
