"""What plans say of approximations, before and after a fit, and which fits keep a plan."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from mercer import (
    RBF,
    KernelERM,
    KernelKMeans,
    KernelLogisticRegression,
    KernelPCA,
    KernelRidge,
    Nystroem,
    Polynomial,
    SpectralClustering,
)
from tests.models.planned_data import K, data


@pytest.mark.parametrize("count", [30, 700])
def test_the_error_of_centres_that_are_given_is_theirs(count):
    """Not that of as many rows drawn at random; `Nystroem` knows what they leave."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 3))
    far = np.full((count, 3), 50.0) + rng.normal(size=(count, 3))
    for Z, share in ((far, 1.0), (X[:count], None)):
        share = share or Nystroem(RBF(1.0), count, Z).fit(X).trace_error_
        for model, y in ((KernelRidge, X[:, 0]), (KernelLogisticRegression, X[:, 0] > 0)):
            plan = model(RBF(1.0), centers=Z).plan(X, y)
            assert plan.error == pytest.approx(share, rel=0.1, abs=1e-3)
            assert (f"But {count} centres leave" in plan.why) == (share > 0.1)
            assert plan.why.startswith("You asked for centres.")


def test_few_centres_that_leave_much_are_told_where_they_were_asked_for():
    X = np.random.default_rng(0).normal(size=(800, 3))
    for asked in ({"n_centers": 30}, {"n_centers": 30, "solver": "falkon"}):
        plan = KernelRidge(RBF(1.0), **asked).plan(X, X[:, 0])
        assert plan.error > 0.1 and "But 30 centres leave 0.2" in plan.why


@pytest.mark.parametrize(
    "model",
    [
        KernelKMeans(2, kernel=K, method="nystrom", rank=20, random_state=0),
        SpectralClustering(2, kernel=K, method="nystrom", rank=20, random_state=0),
        KernelPCA(2, kernel=K, eigen_solver="cholesky", rank=20),
    ],
)
def test_a_fit_with_pivots_knows_what_they_left(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = clone(model).fit(data(150)[0])
    assert 0 < model.plan_.error == model.approximation_error_ < 1
    assert "not estimated" not in str(model.plan_).splitlines()[3]


def test_a_loss_with_kinks_and_stochastic_gradients_keep_their_plan():
    X, y = data(60)
    for model, target in (
        (KernelERM(K, "hinge"), y > 0),
        (KernelERM(K, "absolute"), y),
        (KernelERM(K, "hinge"), np.digitize(y, [-0.5, 0.5])),
        (KernelLogisticRegression(Polynomial(2), solver="sgd", tol=1e-2, random_state=0), y > 0),
    ):
        told = model.plan(X, target)
        kept = model.fit(X, target).plan_
        assert (kept.method, kept.memory, kept.why) == (told.method, told.memory, told.why)
        assert kept.seconds is None  # a fit measures nothing
