"""tune for every model: the compass search, scores that refits confirm, limits and refusals."""

from __future__ import annotations

import time

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer, mean_pinball_loss
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score

import mercer
from mercer import RBF, SVC, SVR, KernelRidge, Linear, Matern, NuSVC, NuSVR, tune
from mercer.errors import InvalidInput, MemoryBudgetExceeded, MercerError, NotPositiveDefinite
from mercer.models import (
    KernelMachine,
    KernelNeighborsClassifier,
    KernelNeighborsRegressor,
    KernelPerceptron,
    KernelQuantileRegressor,
    NearestBarycentre,
    StructuredKernelRidge,
)
from mercer.models.margin.folds import stratified_folds
from mercer.selection.tuning.compass import CompassSearch
from mercer.selection.tuning.what import Axis, TunePlan

rng = np.random.default_rng(7)
X = rng.standard_normal((50, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(50)
P, L = make_moons(70, noise=0.25, random_state=1)
CLASSIFIERS = [NuSVC(nu=0.3), KernelPerceptron("rbf", max_epochs=20), NearestBarycentre()]
CLASSIFIERS += [KernelNeighborsClassifier(), KernelMachine(estimator=LogisticRegression())]
REGRESSORS = [KernelRidge(), NuSVR(), KernelNeighborsRegressor(), SVR()]


def folds_of(y, k=5, seed=0):
    fold = stratified_folds(y, k, np.random.RandomState(seed))
    return [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(k)]


# ------------------------------------------------------------------------------------ every model
@pytest.mark.filterwarnings("ignore::mercer.errors.NotConverged")
@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda m: type(m).__name__)
def test_held_out_accuracy_is_that_of_refits(model):
    result = tune(model, P, L, criterion="cv", max_iter=4)
    best = type(model)(**model.get_params(deep=False)).set_params(**result.params)
    refits = cross_val_score(best, P, L, cv=folds_of(L))
    assert result.score == pytest.approx(1 - refits.mean(), abs=1e-9)
    assert result.score == min(row["error"] for row in result.table)
    assert "wrong" in result.criterion and (result.predict(P) == L).mean() > 0.8
    for cv in (StratifiedKFold(3), 3):
        result = tune(model, P, L, criterion="cv", cv=cv, max_iter=1, scoring="balanced_accuracy")
        best = type(model)(**model.get_params(deep=False)).set_params(**result.params)
        splits = cv if cv != 3 else folds_of(L, 3)
        refits = cross_val_score(best, P, L, cv=splits, scoring="balanced_accuracy")
        assert result.score == pytest.approx(-refits.mean(), abs=1e-9)
        assert result.criterion == "minus the held-out balanced accuracy"


@pytest.mark.parametrize("model", REGRESSORS, ids=lambda m: type(m).__name__)
def test_held_out_error_is_that_of_refits(model):
    cv = KFold(4, shuffle=True, random_state=3)
    options = {"criterion": "cv", "cv": cv, "max_iter": 2}
    options["fixed"] = ["nu"] if isinstance(model, NuSVR) else []
    result = tune(model, X, Y, **options)
    best = type(model)().set_params(**result.params)
    refits = cross_val_score(best, X, Y, cv=cv, scoring="neg_mean_squared_error")
    assert result.score == pytest.approx(-refits.mean(), rel=1e-3)
    assert result.score < 0.6 * Y.var() and "mean squared" in result.criterion
    again = tune(model, X, Y, **options)
    assert again.params == result.params and again.table == result.table


def test_quantiles_by_pinball_loss():
    model = KernelQuantileRegressor(quantile=0.8)
    result = tune(model, X, Y, max_iter=3)
    assert result.criterion == "held-out pinball loss"
    best = KernelQuantileRegressor(quantile=0.8).set_params(**result.params)
    pinball = make_scorer(mean_pinball_loss, alpha=0.8, greater_is_better=False)
    refits = cross_val_score(best, X, Y, cv=folds_of(np.zeros(50)), scoring=pinball)
    assert result.score == pytest.approx(-refits.mean(), rel=1e-4)
    several = tune(KernelQuantileRegressor(quantile=[0.2, 0.8]), X, Y, max_iter=1)
    assert several.predict(X).shape == (50, 2)
    few, y = X[:20], Y[:20]
    both = tune(KernelQuantileRegressor(quantile=[0.2, 0.8]), few, y, criterion="loo", max_iter=1)
    misses = y[:, None] - both.model.loo()
    each = np.maximum([0.2, 0.8] * misses, [-0.8, -0.2] * misses)
    assert both.score == pytest.approx(each.mean(), rel=1e-4)
    left = tune(model, few, y, criterion="loo", max_iter=1)
    assert left.criterion == "approximate leave-one-out: pinball loss"
    miss = y - left.model.loo()
    assert left.score == pytest.approx(np.maximum(0.8 * miss, -0.2 * miss).mean(), rel=1e-4)


def test_structured_outputs():
    words = [("up" if a > 0 else "down") for a in X[:, 0]]

    def shared(s, t):
        return float(len(set(s) & set(t)))

    result = tune(StructuredKernelRidge("rbf", shared), X, words, max_iter=2)
    assert result.score < 0.2 and set(result.predict(X)) == {"up", "down"}
    with pytest.raises(InvalidInput, match="has 'cv'"):
        tune(StructuredKernelRidge("rbf", shared), X, words, criterion="loo")


def test_estimators_inside_a_machine():
    model = KernelMachine("rbf", estimator=LogisticRegression(C=1.0))
    result = tune(model, P, L, max_iter=2)
    assert result.model.estimator.C == result.params["estimator__C"]
    only = tune(model, P, L, over={"estimator__C": (0.1, 10.0)})
    assert all(0.1 <= row["estimator__C"] <= 10.0 for row in only.table)
    assert only.model.kernel_.length_scale == only.table[0]["length_scale"]


# ------------------------------------------------------------------------------------ neighbours
@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_neighbours_as_many_as_brute_force(weights):
    result = tune(KernelNeighborsClassifier(RBF(1.0), weights=weights), P, L, over="n_neighbors")
    d = ((P[:, None] - P[None]) ** 2).sum(-1)
    d = np.sqrt(np.maximum(0, 2 - 2 * np.exp(-d / 2)))
    order = np.argsort(np.where(np.eye(70, dtype=bool), np.inf, d), axis=1, kind="stable")
    wrong = []
    for k in range(1, 31):
        near = order[:, :k]
        w = np.ones((70, k)) if weights == "uniform" else 1 / np.take_along_axis(d, near, 1)
        ones = (w * L[near]).sum(1)
        wrong.append(((ones > w.sum(1) - ones) != L).mean())
    assert result.params["n_neighbors"] == 1 + int(np.argmin(np.round(wrong, 12)))
    assert result.score == pytest.approx(min(wrong), abs=1e-12)
    assert result.criterion == "exact leave-one-out: share of left-out rows that are wrong"
    assert (result.model.loo() != L).mean() == pytest.approx(result.score, abs=1e-12)


def test_neighbours_of_strings_matrices_and_numbers():
    def shared(s, t):
        return float(len(set(s) & set(t)))

    words = ["abc", "bcd", "cde", "abd", "xyz", "yzu", "zuv", "xyu"] * 2
    result = tune(KernelNeighborsClassifier(shared), words, [0, 0, 0, 0, 1, 1, 1, 1] * 2)
    assert result.score == 0 and result.params == {"n_neighbors": 1}
    K = Linear()(P)
    given = tune(KernelNeighborsClassifier("precomputed"), K, L)
    points = tune(KernelNeighborsClassifier("linear"), P, L)
    assert given.params == points.params and given.score == points.score
    two = tune(KernelNeighborsRegressor(RBF([1.0, 1.0])), X, np.c_[Y, X[:, 1]])
    miss = np.c_[Y, X[:, 1]] - two.model.loo()
    assert two.score == pytest.approx((miss**2).mean(), rel=1e-9)
    with pytest.raises(InvalidInput, match="takes no sample_weight"):
        tune(KernelNeighborsClassifier(), P, L, np.ones(70))


def test_support_vectors_by_the_span_rule():
    result = tune(SVC(), P, L, criterion="loo", max_iter=4)
    assert "approximate" in result.criterion
    wrong = result.model.loo(P) != L
    assert result.score == pytest.approx(wrong.mean(), abs=1e-9)
    number = tune(SVR(), X, Y, criterion="loo", max_iter=2)
    assert number.score == pytest.approx(((Y - number.model.loo(X)) ** 2).mean(), rel=1e-3)


# --------------------------------------------------------------------------------------- the data
def test_weights_rows_and_classes():
    w = np.r_[np.zeros(20), np.ones(50)]
    a = tune(NuSVC(nu=0.3), P, L, sample_weight=w, max_iter=2)
    b = tune(NuSVC(nu=0.3), P[20:], L[20:], max_iter=2)
    assert a.params == pytest.approx(b.params, rel=1e-6) and a.score == b.score
    x, y = load_iris(return_X_y=True)
    some = tune(KernelNeighborsClassifier(), x, np.array(["c", "a", "b"])[y], max_points=60)
    assert some.n_points == 60 and "60 of 150" in some.message
    assert set(some.predict(x)) == {"a", "b", "c"}
    for max_points in (60, 150):
        pair = [
            tune(NearestBarycentre(), x, y, max_points=max_points, random_state=5) for _ in "ab"
        ]
        assert pair[0].table == pair[1].table


@pytest.mark.parametrize("n", [3, 4, 5])
def test_very_few_rows(n):
    result = tune(KernelNeighborsRegressor(), X[:n], Y[:n])
    assert 1 <= result.params["n_neighbors"] < n
    folds = tune(KernelRidge(), X[:n], Y[:n], criterion="cv", cv=n)
    assert np.isfinite(folds.score)


def test_degenerate_targets():
    flat = tune(KernelNeighborsRegressor(), X, np.full(50, 3.0))
    assert flat.score == pytest.approx(0, abs=1e-20) and flat.converged
    np.testing.assert_allclose(
        tune(NuSVR(), X, np.full(50, 3.0), max_iter=1).predict(X), 3.0, atol=0.1
    )
    with pytest.raises(MercerError, match="class"):
        tune(NuSVC(), P, np.zeros(70))
    assert tune(KernelNeighborsClassifier(), P, np.zeros(70)).score == 0


def test_refusals():
    with pytest.raises(InvalidInput, match="nothing to tune: Linear"):
        tune(NearestBarycentre("linear"), P, L)
    with pytest.raises(InvalidInput, match="too few"):
        tune(NearestBarycentre(), P[:2], L[:2])
    with pytest.raises(InvalidInput, match="NaN"):
        tune(NearestBarycentre(), P * np.nan, L)
    with pytest.raises(MercerError, match="NaN"):
        tune(NuSVR(), X, Y * np.nan)
    with pytest.raises(InvalidInput, match="inconsistent"):
        tune(NuSVR(), X, Y[:9])
    for model in (NuSVR(), NuSVC()):
        with pytest.raises(InvalidInput, match="y is None"):
            tune(model, X, None)
    with pytest.raises(InvalidInput, match="1d array"):
        tune(NuSVC(), P, np.c_[L, L])
    with pytest.raises(InvalidInput, match="pipeline"):
        tune(LogisticRegression(), P, L)
    with pytest.raises(InvalidInput, match="'cv'"):
        tune(NearestBarycentre(), P, L, criterion="evidence")
    with pytest.raises(NotPositiveDefinite):
        tune(NuSVC(lambda a, b: float(np.tanh(a @ b - 1))), P, L)
    with mercer.config(memory="20kB"), pytest.raises(MemoryBudgetExceeded):
        tune(NuSVC(), np.tile(P, (20, 1)), np.tile(L, 20))


def test_stops_in_time_with_the_best_so_far():
    x = rng.standard_normal((300, 4))
    for model, y in (
        (NuSVC(nu=0.2), rng.integers(0, 2, 300)),
        (KernelNeighborsRegressor(), x[:, 0]),
    ):
        start = time.monotonic()
        result = tune(model, x, y, max_time=0.0)
        assert time.monotonic() - start < 20
        assert not result.converged and "max_time" in result.message and len(result.table) >= 1
        assert len(result.table) < 40
    lists = {"kernel": ["rbf", "matern"], "alpha": None}
    late = tune(KernelRidge(), X, Y, over=lists, max_time=0.0)
    assert not late.converged and "max_time" in late.message


# ------------------------------------------------------------------------------------ the compass
def bowl(kernel, settings):
    """Least at length scale 0.4, C = 7, k = 4 and word "b"; NaN for k = 5."""
    return np.array(
        [
            np.log(kernel.length_scale / 0.4) ** 2
            + np.log(s["C"] / 7) ** 2
            + 0.1 * (s["k"] - 4) ** 2
            + (s["word"] != "b")
            if s["k"] != 5
            else np.nan
            for s in settings
        ]
    )


def axes():
    return (
        Axis("C", (0.01, 1.0, 100.0), (1e-3, 1e3)),
        Axis("k", (1, 20), (1, 40), "whole"),
        Axis("word", ("a", "b"), kind="choice"),
    )


def test_compass_finds_the_bottom_of_a_bowl():
    plan = TunePlan(np.log([[1e-3, 1e3]]), axes())
    search = CompassSearch(bowl, RBF(1.0), plan, 200)
    converged, message = search.run()
    assert converged and message == "no further gain"
    assert search.best.kernel.length_scale == pytest.approx(0.4, rel=0.15)
    assert search.best.settings["C"] == pytest.approx(7, rel=0.15)
    assert search.best.settings["k"] == 4 and search.best.settings["word"] == "b"
    assert all(np.isfinite(row["error"]) for row in search.table)
    few = CompassSearch(bowl, RBF(1.0), plan, 2)
    assert few.run() == (False, "stopped by max_iter")


def test_compass_respects_its_box_and_skips_what_has_no_influence():
    plan = TunePlan(np.log([[0.9, 1.2]]), (Axis("C", (20.0,), (10.0, 30.0)), *axes()[1:]))
    search = CompassSearch(bowl, RBF(1.0), plan, 200)
    search.run()
    assert search.best.kernel.length_scale == pytest.approx(0.9)
    assert search.best.settings["C"] == 10.0
    seen = []
    flat = CompassSearch(
        lambda k, s: np.ones(len(s)), RBF(1.0), TunePlan(np.log([[1e-3, 1e3]]), ()), 99
    )
    flat.errors = lambda k, s: (seen.append(k.length_scale), np.ones(len(s)))[1]
    assert flat.run()[0] and len(seen) == 5 and flat.best.kernel.length_scale == 1.0


def test_compass_moves_whole_numbers_of_the_kernel():
    def errors(kernel, settings):
        return np.array([abs(kernel.degree - 6) + 0.0 for _ in settings])

    plan = TunePlan(np.zeros((1, 2)), (Axis("degree", (1, 2, 3), (1, 10), "whole", True),))
    search = CompassSearch(errors, mercer.Polynomial(2), plan, 99)
    assert search.run()[0] and search.best.kernel.degree == 6


def test_compass_says_why_nothing_worked():
    def errors(kernel, settings):
        raise InvalidInput("no good")

    with pytest.raises(InvalidInput, match="no good"):
        CompassSearch(errors, Matern(1.0), TunePlan(np.log([[0.1, 9.0]]), ()), 5).run()
    nothing = CompassSearch(
        lambda k, s: np.full(len(s), np.nan), RBF(), TunePlan(np.zeros((1, 2)), ()), 5
    )
    with pytest.raises(InvalidInput, match="no parameters have a finite score"):
        nothing.run()


def test_models_with_centres_by_held_out_rows():
    X = rng.standard_normal((120, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
    model = KernelRidge(RBF(), n_centers=3, random_state=0)
    result = tune(model, X, y, max_iter=2)
    assert result.criterion == "held-out mean squared error"
    assert result.score > 0.3 * np.mean((result.model.predict(X) - y) ** 2)
    for criterion in ("loo", "evidence"):
        with pytest.raises(InvalidInput, match="centres"):
            tune(model, X, y, criterion=criterion)
    chosen = tune(KernelRidge(RBF(), 0.1), X, y, over={"n_centers": [3, 40]}, max_iter=2)
    assert chosen.model.n_centers == 40
