"""Feature machines fitted to tensors: those of arrays, with members fitted where the rows are."""

import io

import numpy as np
import pytest

import mercer
from mercer.models import (
    FeatureMachineClassifier,
    FeatureMachineRegressor,
    KernelLogisticRegression,
    KernelRidge,
)
from mercer.models.metric import learning
from mercer.models.metric.learning import LOGISTIC
from mercer.models.metric.members import fitted
from mercer.settings import get_config

pytest.importorskip("torch", reason="torch is not installed")
import torch

from tests.pretend_cuda import pretend_cuda, to_cuda

rng = np.random.default_rng(0)
X = rng.normal(size=(100, 3))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=100)
LABELS = np.digitize(Y, [-0.5, 0.5])
NEW = rng.normal(size=(9, 3))
FEW = {"n_models": 3, "max_rows": 40}
REGRESSION = ("predict", "predict_interval")
CLASSES = ("predict", "predict_proba", "decision_function")


def with_gaps(A, part=0.05):
    A = A.copy()
    A[np.random.default_rng(1).random(A.shape) < part] = np.nan
    return A


def machine(y):
    kind = FeatureMachineRegressor if y.dtype.kind == "f" else FeatureMachineClassifier
    return kind(**FEW)


def answers(model, rows):
    names = CLASSES if hasattr(model, "classes_") else REGRESSION
    return {name: getattr(model, name)(rows) for name in names}


def assert_same(found, expected):
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-8, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "y", [Y, np.c_[Y, X[:, 2] ** 2], LABELS, (Y > 0).astype(int)], ids=["y", "Y", "3", "2"]
)
def test_tensors_are_the_rows_that_they_hold(y, dtype):
    rows, new = (with_gaps(A).astype(dtype) for A in (X, NEW))
    expected = machine(y).fit(rows, y)
    model = machine(y).fit(torch.tensor(rows), torch.tensor(y))
    assert model.ways_ == expected.ways_
    for name in model._learned:
        if isinstance(getattr(expected, name), np.ndarray):
            assert type(getattr(model, name)) is np.ndarray, name
    assert_same(answers(model, torch.tensor(new)), answers(expected, new))
    assert_same(answers(model, new), answers(expected, new))
    score = model.score(torch.tensor(rows), torch.tensor(y))
    assert score == pytest.approx(expected.score(rows, y), abs=1e-8)


@pytest.mark.parametrize("y", [Y, LABELS], ids=["regression", "classification"])
def test_weights_may_be_tensors(y):
    weights = np.where(np.arange(100) % 4, 1.0, 0.0)
    expected = machine(y).fit(X, y, weights)
    model = machine(y).fit(torch.tensor(X), torch.tensor(y), torch.tensor(weights))
    assert_same(answers(model, NEW), answers(expected, NEW))


@pytest.mark.parametrize("y", [Y, LABELS], ids=["regression", "classification"])
def test_a_file_of_a_fit_to_tensors(y, tmp_path):
    model = machine(y).fit(torch.tensor(X), torch.tensor(y))
    mercer.save(model, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    assert_same(answers(again, torch.tensor(NEW)), answers(model, NEW))


def test_a_pickle_holds_no_tensor():
    import pickle

    class Reads(pickle.Unpickler):
        def find_class(self, module, name):
            assert not module.startswith("torch"), f"{module}.{name}"
            return super().find_class(module, name)

    model = machine(Y).fit(torch.tensor(X), torch.tensor(Y))
    again = Reads(io.BytesIO(pickle.dumps(model))).load()
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))


@pytest.fixture
def fits(monkeypatch):
    """Engine, device and solver of each fit of a member, in order."""
    noted = []
    for kind in (KernelRidge, KernelLogisticRegression):
        fit = kind.fit

        def note(self, *given, fit=fit):
            noted.append((type(self), get_config().engine, get_config().device, self.solver))
            return fit(self, *given)

        monkeypatch.setattr(kind, "fit", note)
    return noted


def test_members_are_fitted_where_the_rows_are(fits):
    machine(Y).fit(X, Y)
    assert {engine for _, engine, _, _ in fits} == {"auto"}
    fits.clear()
    machine(Y).fit(torch.tensor(X), torch.tensor(Y))
    assert {each[1:] for each in fits} == {("torch", "cpu", "auto")}


def test_many_rows_in_main_memory_are_in_the_span_of_centres(fits, monkeypatch):
    monkeypatch.setattr(learning, "EXACT", 70)  # the bench has fewer
    monkeypatch.setattr(learning, "CENTERS", 30)
    expected = machine(Y).fit(X, Y)
    fits.clear()
    model = machine(Y).fit(torch.tensor(X), torch.tensor(Y))
    assert {each[1:] for each in fits} == {("torch", "cpu", "falkon")}
    np.testing.assert_allclose(model.predict(NEW), expected.predict(NEW), atol=1e-3)


def test_logistic_regressions_are_fitted_there_in_the_span_of_centres(fits, monkeypatch):
    labels = (Y > 0).astype(int)
    rows = learning.EncodedRows(X, labels[:, None] - 0.5, like=torch.tensor(X))
    metric = learning.Metric(mercer.RBF(), np.ones(3), 1.0)
    fitted(metric, rows, labels, LOGISTIC)
    monkeypatch.setattr(learning, "EXACT", 70)
    fitted(metric, rows, labels, LOGISTIC)
    assert [each[1::2] for each in fits] == [("auto", "auto"), ("torch", "falkon")]


@pytest.mark.parametrize("y", [Y, LABELS], ids=["regression", "classification"])
def test_on_a_gpu_ridges_are_exact_as_far_as_its_memory_goes(y, fits, monkeypatch):
    expected = answers(machine(y).fit(X, y), NEW)
    monkeypatch.setattr(learning, "EXACT", 50)  # rows in main memory
    fits.clear()
    with pretend_cuda(), mercer.config(threads=1):  # what torch is told holds for one thread
        model = machine(y).fit(to_cuda(X), to_cuda(y))
        found = answers(model, to_cuda(NEW))
    ridges = {each[1:] for each in fits if each[0] is KernelRidge}
    assert ridges == {("torch", "cuda:0", "cholesky")}
    assert_same(found, expected)
    monkeypatch.setattr(learning, "free_memory", lambda like: 8 * 2 * 100**2)
    assert learning.solver_for(100, None) == learning.in_centers(100)
    with pretend_cuda():
        assert learning.solver_for(100, to_cuda(X)) == {"solver": "cholesky"}
        assert learning.solver_for(101, to_cuda(X)) == learning.in_centers(101)


def test_a_plan_of_tensors():
    plan = machine(Y).plan(torch.tensor(X), torch.tensor(Y))
    assert plan.why == machine(Y).plan(X, Y).why


def test_infinity_is_refused():
    with pytest.raises(mercer.errors.InvalidInput, match="infinity"):
        machine(Y).fit(torch.tensor(np.where(X > 2, np.inf, X)), torch.tensor(Y))
