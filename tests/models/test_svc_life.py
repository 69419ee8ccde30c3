"""SVC among other estimators: limits, interrupts, memory, copies, files, searches."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import RBF, SVC, Constant
from mercer.errors import MemoryBudgetExceeded, ModelFileError, NotConverged
from mercer.models.margin import problems
from mercer.solvers import SMO
from tests.models.margins import blobs


# --------------------------------------------------------------------------- stops and interrupts
def test_one_warning_for_many_problems():
    X, y = load_wine(return_X_y=True)
    model = SVC("linear", max_iter=3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert [w.category for w in caught] == [NotConverged]
    text = str(caught[0].message)
    assert text.startswith("SVC: 3 of 3 problems") and "First: stopped by max_iter" in text
    assert not model.solution_.converged and (model.n_iter_ == 3).all()
    assert model.predict(X).shape == (178,)
    assert SVC(max_iter=-1).fit(X, y).solution_.converged


def test_max_time_is_for_the_whole_fit(monkeypatch):
    X, y = load_iris(return_X_y=True)
    seen = []
    solve = SMO.solve

    def record(self, *args, **kwargs):
        seen.append(self.max_time)
        return solve(self, *args, **kwargs)

    monkeypatch.setattr(problems.SMO, "solve", record)
    SVC(max_time=100.0).fit(X, y)
    assert len(seen) == 3 and seen == sorted(seen, reverse=True) and 0 < seen[-1] < 100


@pytest.mark.parametrize("fitted", [True, False])
def test_an_interrupt_leaves_the_estimator_as_it_was(fitted, monkeypatch):
    X, y = load_iris(return_X_y=True)
    model = SVC(RBF(1.0))
    if fitted:
        model.fit(X[:80], y[:80])
    before = dict(vars(model))
    solve, calls = SMO.solve, []

    def interrupted(self, *args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return solve(self, *args, **kwargs)

    monkeypatch.setattr(problems.SMO, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is before[name] for name in before)


def test_a_warning_made_an_error_leaves_the_estimator_as_it_was():
    X, y = blobs(60)
    model = SVC().fit(X, y)
    expected = model.decision_function(X)
    model.set_params(max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(NotConverged):
            model.fit(X[:30], y[:30])
    np.testing.assert_array_equal(model.decision_function(X), expected)


def test_a_small_memory_budget_changes_nothing_but_the_digits():
    X, y = blobs(700, 4, seed=6)
    expected = SVC(RBF(1.5), tol=1e-6).fit(X, y)
    with mercer.config(memory="1MB"):
        model = SVC(RBF(1.5), tol=1e-6).fit(X, y)
        values = model.decision_function(X)
    np.testing.assert_allclose(values, expected.decision_function(X), atol=1e-4)
    with mercer.config(memory=20_000), pytest.raises(MemoryBudgetExceeded):
        SVC(RBF(1.5)).fit(X, y)


# -------------------------------------------------------------------- life among other estimators
def test_clone_pickle_pipeline_and_search():
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), SVC())
    search = GridSearchCV(
        pipeline,
        {"svc__kernel__length_scale": [0.5, 2.0], "svc__C": [0.1, 10.0]},
        cv=3,
        error_score="raise",
    ).fit(X, y)
    assert search.best_score_ > 0.94
    assert search.best_params_["svc__C"] == 10.0
    model = search.best_estimator_
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    K = RBF(1.0)(X)
    scores = cross_val_score(SVC("precomputed"), K, y, cv=3, error_score="raise")
    np.testing.assert_allclose(scores, cross_val_score(SVC(RBF(1.0)), X, y, cv=3))


def test_saved_models_say_the_same(tmp_path):
    X, y = load_iris(return_X_y=True)
    X = X[::3]
    y = np.array(["a", "b", "c"])[y[::3]]
    for i, model in enumerate(
        [
            SVC().fit(X, y),
            SVC("linear", multi_class="ovr").fit(X, y),
            SVC(RBF(0.5), np.inf).fit(X, y),
            SVC(Constant(1.0)).fit(X[:34], y[:34]),  # ‖f‖ = 0, an infinite margin
        ]
    ):
        path = tmp_path / f"{i}.mercer"
        mercer.save(model, path)
        again = mercer.load(path)
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
        assert again.loo_bound_ == model.loo_bound_
        np.testing.assert_array_equal(again.margin_, model.margin_)
        assert again.solution_.gap == model.solution_.gap


@pytest.mark.parametrize(
    "changes",
    [
        {"dual_coef_": np.ones((2, 3))},
        {"dual_coef_": np.full((2, 30), np.nan)},
        {"intercept_": np.zeros(2)},
        {"classes_": np.array(["a", "a", "c"])},
        {"classes_": np.array(["a", "b"])},
        {"n_support_": np.array([1, 1, 1])},
        {"support_": np.arange(3)},
        {"support_kind_": np.array(["margin"])},
        {"margin_": 1.0},
        {"support_vectors_": np.zeros((3, 4))},
        {"n_features_in_": 9},
    ],
    ids=lambda c: next(iter(c)),
)
def test_states_that_do_not_fit_are_refused(changes):
    X, y = load_iris(return_X_y=True)
    model = SVC().fit(X, np.array(["a", "b", "c"])[y])
    model._check_state()
    vars(model).update(changes)
    with pytest.raises(ModelFileError):
        model._check_state()
    for name in ("dual_coef_", "kernel_", "classes_", "n_support_"):
        part = SVC().fit(X, y)
        del vars(part)[name]
        with pytest.raises(ModelFileError, match=name):
            part._check_state()
    SVC()._check_state()


def test_repeated_fits_and_torch():
    torch = pytest.importorskip("torch")
    X, y = blobs(50)
    model = SVC().fit(X, y)
    values = model.decision_function(X)
    np.testing.assert_array_equal(model.fit(X, y).decision_function(X), values)
    other = SVC().fit(torch.as_tensor(X), torch.as_tensor(y))
    np.testing.assert_allclose(other.decision_function(torch.as_tensor(X)), values, atol=1e-10)
