"""Kernel machines: prototype features and the model behind them, in one estimator."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import mercer
from mercer import RBF, KernelMachine, KernelRidge, Prototypes
from mercer.errors import InvalidInput, ModelFileError
from mercer.features.prototypes import prototype_blocks

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
Y = np.array(["no", "yes"])[(X[:, 0] * X[:, 1] > 0).astype(int)]
T = np.sin(2 * X[:, 0]) + X[:, 1]
CORNERS = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])


# ---------------------------------------------------------------------------------------- XOR
def test_logistic_regression_on_four_prototypes_solves_xor():
    y = [0, 1, 1, 0]
    assert LogisticRegression().fit(CORNERS, y).score(CORNERS, y) < 1.0
    machine = KernelMachine(RBF(0.5), prototypes=CORNERS).fit(CORNERS, y)
    assert machine.predict(CORNERS).tolist() == y
    noisy = np.repeat(CORNERS, 50, axis=0) + 0.15 * RNG.standard_normal((200, 2))
    machine = KernelMachine(RBF(0.5), prototypes=CORNERS).fit(noisy, np.repeat(y, 50))
    assert machine.score(noisy, np.repeat(y, 50)) > 0.97
    assert machine.coef_.shape == (1, 4)
    assert machine.coef_[0, 0] < 0 < machine.coef_[0, 1]  # corners of class 0 pull down


# -------------------------------------------------------------------------- it is its pipeline
@pytest.mark.parametrize("model", [LogisticRegression(), LinearSVC(), KNeighborsClassifier(3)])
@pytest.mark.parametrize("how", ["all", "random", "kmeans", X[:7]])
def test_it_says_what_a_pipeline_says(model, how):
    parts = {"n_prototypes": 9, "random_state": 0}
    machine = KernelMachine("rbf", how, model, **parts).fit(X, Y)
    pipe = make_pipeline(Prototypes("rbf", how, **parts), clone(model)).fit(X, Y)
    new = RNG.standard_normal((20, 2))
    assert machine.predict(new).tolist() == pipe.predict(new).tolist()
    for name in ("decision_function", "predict_proba"):
        assert hasattr(machine, name) == hasattr(model, name)
        if hasattr(model, name):
            np.testing.assert_allclose(
                getattr(machine, name)(new), getattr(pipe, name)(new), atol=1e-12
            )
    assert machine.score(X, Y) == pipe.score(X, Y)
    np.testing.assert_allclose(machine.features(new), pipe[0].transform(new))
    assert machine.classes_.tolist() == ["no", "yes"]


def test_it_is_what_its_model_is():
    assert is_classifier(KernelMachine()) and not is_regressor(KernelMachine())
    assert is_regressor(KernelMachine(estimator=Ridge()))
    assert is_regressor(KernelMachine(estimator=KernelRidge()))
    assert not hasattr(KernelMachine(estimator=Ridge()), "predict_proba")
    with pytest.raises(AttributeError, match="LinearRegression has no decision_function"):
        KernelMachine(estimator=LinearRegression()).decision_function(X)
    with pytest.raises(NotFittedError):
        KernelMachine().predict(X)


@pytest.mark.parametrize("model", [Ridge(0.1), LogisticRegression(C=10)])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_function_it_learned(model, classes):
    y = T if isinstance(model, Ridge) else np.digitize(T, np.quantile(T, [0.3, 0.6][: classes - 1]))
    machine = KernelMachine(RBF(), "random", model, n_prototypes=12, random_state=0).fit(X, y)
    new = RNG.standard_normal((9, 2))
    answer = machine.predict(new) if isinstance(model, Ridge) else machine.decision_function(new)
    np.testing.assert_allclose(machine.function_(new), answer, atol=1e-10)
    assert len(machine.function_) == 12


def test_models_that_are_not_linear_have_no_function():
    machine = KernelMachine(estimator=make_pipeline(StandardScaler(), Ridge())).fit(X, T)
    with pytest.raises(AttributeError, match="Pipeline has no coef_"):
        machine.function_  # noqa: B018
    outputs = KernelMachine(estimator=Ridge()).fit(X, np.column_stack([T, -T]))
    np.testing.assert_allclose(outputs.function_(X), outputs.predict(X), atol=1e-10)


# ---------------------------------------------------------------------------------------- weights
def test_weights_are_repetition_and_zero_is_absence():
    w = RNG.integers(0, 3, 60).astype(float)
    model = Ridge(0.1)
    a = KernelMachine(RBF(), "all", model).fit(X, T, sample_weight=w)
    b = KernelMachine(RBF(), "all", model).fit(
        np.repeat(X, w.astype(int), axis=0), np.repeat(T, w.astype(int))
    )
    np.testing.assert_allclose(a.predict(X), b.predict(X), atol=1e-9)
    labels = np.where(w > 0, Y, "maybe")  # a class without weight is no class
    assert KernelMachine().fit(X, labels, sample_weight=w).classes_.tolist() == ["no", "yes"]
    frame = pd.DataFrame(X, columns=["a", "b"])
    c = KernelMachine(RBF(), "all", model).fit(frame, pd.Series(T), sample_weight=w)
    np.testing.assert_allclose(c.predict(frame), a.predict(X), atol=1e-9)


def test_a_model_without_weights_says_so():
    with pytest.raises(InvalidInput, match="KNeighborsClassifier takes no sample_weight"):
        KernelMachine(estimator=KNeighborsClassifier()).fit(X, Y, sample_weight=np.ones(60))


# ------------------------------------------------------------------------------------ other data
def test_strings_sparse_rows_and_gram_matrices():
    words = ["aab", "aba", "xyz", "zyx", "aaa", "zzz"]
    y = [0, 0, 1, 1, 0, 1]
    kernel = lambda s, t: float(len(set(s) & set(t)))  # noqa: E731
    assert KernelMachine(kernel).fit(words, y).score(words, y) == 1.0
    assert KernelMachine(kernel, ["aaa", "zzz"]).fit(words, y).predict(["ab"]).tolist() == [0]
    dense = KernelMachine(RBF()).fit(X, Y).decision_function(X)
    sparse = KernelMachine(RBF()).fit(sp.csr_array(X), Y).decision_function(sp.csr_array(X))
    np.testing.assert_allclose(sparse, dense, atol=1e-8)
    K = RBF()(X)
    matrix = KernelMachine("precomputed").fit(K, Y)
    np.testing.assert_allclose(matrix.decision_function(K), dense, atol=1e-3)  # lbfgs stops early
    few = KernelMachine("precomputed", [3, 8, 9], Ridge()).fit(K, T)
    expected = Ridge().fit(K[:, [3, 8, 9]], T).predict(K[:, [3, 8, 9]])
    np.testing.assert_allclose(few.predict(K), expected)


def test_many_predictions_stay_in_the_budget():
    machine = KernelMachine(RBF(), X[:8], Ridge()).fit(X, T)
    many = RNG.standard_normal((3000, 2))
    expected = machine.predict(many)
    with mercer.config(memory=200_000):
        np.testing.assert_allclose(machine.predict(many), expected, rtol=1e-12)
        assert len(prototype_blocks(machine, many)) > 1


# ---------------------------------------------------------------------------------- parameters
def test_nested_parameters():
    machine = KernelMachine().set_params(estimator__C=3.0, kernel__length_scale=2.0)
    assert machine.estimator.C == 3.0 and machine.kernel == RBF(2.0)
    grid = {"kernel__length_scale": [0.3, 1.0], "estimator__alpha": [0.1, 1.0]}
    found = GridSearchCV(KernelMachine(RBF(), estimator=Ridge()), grid, cv=3).fit(X, T)
    assert set(found.best_params_) == set(grid)
    assert cross_val_score(KernelMachine(), X, Y, cv=3).mean() > 0.7


@pytest.mark.parametrize("bad", ["logistic", LogisticRegression, 3])
def test_an_estimator_that_is_none_is_refused(bad):
    with pytest.raises(InvalidInput, match=r"KernelMachine: estimator=.* has no fit"):
        KernelMachine(estimator=bad).fit(X, Y)


def test_refusals_leave_the_machine_as_it_was():
    machine = KernelMachine().fit(X, Y)
    before = machine.predict(X).tolist()
    for data in ((X, None), (X, Y[:-1]), (X[:, :0], Y), (X, np.full(60, "a"))):
        with pytest.raises(ValueError):
            machine.fit(*data)
        assert machine.predict(X).tolist() == before


# ---------------------------------------------------------------------------------------- files
@pytest.mark.parametrize("model", [None, Ridge(), LogisticRegression(), KernelRidge("linear")])
def test_saved_and_loaded(model, tmp_path):
    y = (T > 0).astype(float)
    machine = KernelMachine(RBF(), X[:5], model).fit(X, y)
    mercer.save(machine, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.predict(X), machine.predict(X))
    assert repr(again) == repr(machine)


def test_a_state_that_does_not_fit_is_refused():
    machine = KernelMachine(RBF(), X[:5], Ridge()).fit(X, T)
    machine.prototypes_ = X[:4]
    with pytest.raises(ModelFileError, match="does not fit its prototypes"):
        machine._check_state()
