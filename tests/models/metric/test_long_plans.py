"""A long table is planned from some of its rows, and the plan says what all of them say."""

import re

import numpy as np
import pytest

from mercer.domains import Table
from mercer.engines import KernelRate
from mercer.estimator.facts import Sketch
from mercer.models import FeatureMachineClassifier, FeatureMachineRegressor
from mercer.models.metric import base, learning

N = 6000


@pytest.fixture(autouse=True)
def one_way_to_solve(monkeypatch):
    """Of two that cost about the same a moment of other work may else choose either."""
    monkeypatch.setattr(learning, "solver_for", lambda n, like: {"solver": "cholesky"})
    monkeypatch.setattr(Sketch, "rate", KernelRate(2e-9, 1e-8))  # nothing is timed


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    kinds = rng.choice(["red", "green", "blue"], N).astype(object)
    kinds[[17, 4001]] = ["rare", None]  # rows that are hardly among some
    x = rng.normal(size=N)
    x[5] = np.nan
    return Table({"x": x, "kind": kinds, "skew": np.exp(2 * rng.normal(size=N))})


@pytest.mark.parametrize("model", [FeatureMachineRegressor, FeatureMachineClassifier])
def test_some_rows_plan_as_all_do(monkeypatch, table, model):
    y = np.arange(N) % 3
    whole = model().plan(table, y)
    monkeypatch.setattr(base, "PLANNED", 500)
    some = model().plan(table, y)
    assert (some.n_rows, some.method, some.owner) == (N, whole.method, whole.owner)
    assert some.why == whole.why and some.memory == whole.memory and some.budget == whole.budget
    assert re.search(f"all {N} rows", some.why)
    assert some.seconds < 10 * whole.seconds and whole.seconds < 10 * some.seconds


def test_arrays_of_numbers_too(monkeypatch):
    X = np.random.default_rng(1).normal(size=(N, 4))
    whole = FeatureMachineRegressor().plan(X)
    monkeypatch.setattr(base, "PLANNED", 500)
    some = FeatureMachineRegressor().plan(X)
    assert some.why == whole.why and some.memory == whole.memory and some.n_rows == N
