"""tune for models of regularised risk: losses of left-out rows, folds, and sparse weights."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.datasets import load_iris, make_moons
from sklearn.model_selection import cross_val_score

from mercer import (
    RBF,
    KernelERM,
    KernelHuberRegressor,
    KernelLogisticRegression,
    KernelRidge,
    L1VMClassifier,
    L1VMRegressor,
    tune,
)
from mercer.errors import InvalidInput, NotConverged, speaking_for
from mercer.losses import as_loss
from mercer.models.margin.folds import stratified_folds
from mercer.selection.tuning.errors import CountedErrors

rng = np.random.default_rng(9)
X = rng.standard_normal((40, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(40)
P, L = make_moons(50, noise=0.25, random_state=2)
LOO = {"criterion": "loo", "max_iter": 2}


def folds_of(y):
    fold = stratified_folds(y, 5, np.random.RandomState(0))
    return [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(5)]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "exponential"])
def test_loss_of_left_out_classes(loss):
    result = tune(KernelERM(loss=loss), P, L, **LOO)
    values = as_loss(loss).value(2.0 * L - 1, result.model.loo_decision_function())
    assert result.score == pytest.approx(values.mean(), rel=1e-4)
    assert result.criterion == "approximate leave-one-out: mean loss"


@pytest.mark.parametrize("loss", ["squared", "absolute", "pinball", "epsilon_insensitive", "huber"])
def test_loss_of_left_out_numbers(loss):
    result = tune(KernelERM(loss=loss), X, Y, **LOO)
    assert result.score == pytest.approx(
        as_loss(loss).value(Y, result.model.loo()).mean(), rel=1e-3, abs=1e-6
    )
    assert result.score < as_loss(loss).value(Y, np.full(40, Y.mean())).mean()


def test_squared_loss_is_ridge():
    risk = tune(KernelERM(RBF(1.0), "squared"), X, Y, over="alpha", criterion="loo")
    ridge = tune(KernelRidge(RBF(1.0), fit_intercept=True), X, Y, over="alpha")
    assert 2 * risk.score == pytest.approx(ridge.score, rel=0.02)


def test_several_classes():
    x, y = load_iris(return_X_y=True)
    x, y = x[::3], y[::3]
    result = tune(KernelLogisticRegression(), x, y, over="alpha", criterion="loo")
    values = result.model.loo_decision_function()
    losses = logsumexp(values, axis=1) - values[np.arange(50), y]
    assert result.score == pytest.approx(losses.mean(), rel=1e-3)
    result = tune(
        KernelERM(loss="squared_hinge"), x, y, over={"alpha": [0.1, 1.0]}, criterion="loo"
    )
    signs = np.where(y[:, None] == np.arange(3), 1.0, -1.0)
    losses = np.maximum(0, 1 - signs * result.model.loo_decision_function()) ** 2
    assert result.score == pytest.approx(losses.mean(), rel=1e-3)


def test_weights_of_left_out_rows():
    w = np.r_[np.zeros(10), rng.uniform(0.5, 2, 40)]
    a = tune(KernelLogisticRegression(), P, L, w, over="alpha", criterion="loo")
    b = tune(KernelLogisticRegression(), P[10:], L[10:], w[10:], over="alpha", criterion="loo")
    assert a.score == pytest.approx(b.score, rel=1e-4)
    losses = np.logaddexp(0, -(2.0 * L[10:] - 1) * b.model.loo_decision_function())
    assert b.score == pytest.approx(np.average(losses, weights=w[10:]), rel=1e-4)


def test_folds():
    result = tune(KernelLogisticRegression(), P, L, max_iter=2)
    best = KernelLogisticRegression().set_params(**result.params)
    assert result.score == pytest.approx(1 - cross_val_score(best, P, L, cv=folds_of(L)).mean())
    likely = tune(KernelLogisticRegression(), P, L, scoring="neg_log_loss", over="alpha")
    best = KernelLogisticRegression(likely.model.kernel_).set_params(alpha=likely.params["alpha"])
    refits = cross_val_score(best, P, L, cv=folds_of(L), scoring="neg_log_loss")
    assert likely.score == pytest.approx(-refits.mean(), rel=1e-4)
    over = {"alpha": (1e-3, 1e-2), "delta": [0.1, 1.35]}
    both = tune(KernelHuberRegressor(), X, Y, over=over, max_iter=1)
    assert both.score < 0.3 * Y.var() and {"alpha", "delta"} <= set(both.params)
    losses = tune(
        KernelERM("rbf", alpha=0.1), X, Y, over={"loss": ["squared", "huber", "absolute"]}
    )
    assert len(losses.table) == 3 and losses.model.loss == losses.params["loss"]


def test_units_of_the_target_move_the_penalty():
    small = tune(KernelERM(RBF(1.0), "absolute"), X, 1e-6 * Y, over="alpha")
    usual = tune(KernelERM(RBF(1.0), "absolute"), X, Y, over="alpha")
    assert small.params["alpha"] == pytest.approx(1e6 * usual.params["alpha"], rel=0.5)
    assert small.score == pytest.approx(1e-12 * usual.score, rel=0.05)


def test_sparse_weights():
    number = tune(L1VMRegressor(RBF(1.0)), X, Y, over="alpha")
    best = L1VMRegressor(RBF(1.0), number.params["alpha"])
    cv = folds_of(np.zeros(40))
    refits = cross_val_score(best, X, Y, cv=cv, scoring="neg_mean_squared_error")
    assert number.score == pytest.approx(-refits.mean(), rel=1e-3) and number.score < 0.3 * Y.var()
    classes = tune(L1VMClassifier(RBF(1.0)), P, L, over={"alpha": None, "l1_ratio": [0.5, 1.0]})
    assert classes.score < 0.2 and classes.params["l1_ratio"] in (0.5, 1.0)


def test_refusals():
    for over in (["delta"], {"loss": ["huber", "squared"]}):
        model = KernelHuberRegressor() if over == ["delta"] else KernelERM()
        with pytest.raises(InvalidInput, match="belongs to the loss"):
            tune(model, X, Y, over=over, criterion="loo")
    with pytest.raises(InvalidInput, match="'loo' and 'cv'"):
        tune(KernelLogisticRegression(), P, L, criterion="evidence")
    for options in ({"scoring": "r2"}, {"cv": 3}):
        with pytest.raises(InvalidInput, match="is for held-out folds"):
            tune(KernelRidge(), X, Y, criterion="loo", **options)
    assert tune(KernelRidge(), X, Y, scoring="r2").criterion == "minus the held-out r2"


def test_fits_that_did_not_converge_are_told_with_their_own_cure():
    model = KernelERM(RBF(1.0), "hinge", max_iter=1)
    with pytest.warns(NotConverged) as caught:
        tune(model, X, X[:, 0] > 0, criterion="cv", cv=2, max_iter=1)
    told = [str(w.message) for w in caught if "in tune" in str(w.message)]
    assert len(told) == 1
    assert re.search(
        r"^KernelERM: \d+ warnings .* stopped by max_iter after 1 .*more steps", told[0]
    )


def test_of_many_reasons_the_commonest_is_told():
    counted = CountedErrors()
    slow, rounded = "A: residual {}: raise max_iter.", "A: residual {}: rounding; raise alpha."
    said = [rounded.format(r) for r in ("1e-07", "0.25", "3")] + [slow.format(r) for r in (1, 2)]
    with counted._counting():
        for message in said[::-1]:
            warnings.warn(message, NotConverged, stacklevel=1)
    told = pytest.warns(NotConverged, match=r"A: 5 warnings .*rounding; raise alpha")
    with speaking_for("A"), told:
        counted.warn()
