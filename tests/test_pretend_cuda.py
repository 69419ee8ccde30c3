"""Estimators and tests given tensors of a GPU answer as with arrays, on a pretend device."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor

import mercer
from mercer import RBF
from mercer.domains.vectors import to_host
from mercer.engines.base import TorchEngine
from mercer.errors import MemoryBudgetExceeded
from mercer.operators import Gram
from mercer.solvers.linear.cg import LowRankPreconditioner
from mercer.statistics import (
    hsic_agg_test,
    hsic_test,
    k_sample_test,
    kci_test,
    ksd_test,
    mmd_agg_test,
    mmd_test,
)

pytest.importorskip("torch", reason="torch is not installed")
from tests.pretend_cuda import pretend_cuda, to_cuda

RNG = np.random.default_rng(0)
X, NEW = RNG.standard_normal((40, 3)), RNG.standard_normal((9, 3))
Y, LABELS = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(40), (X[:, 0] + X[:, 1] > 0).astype(int)
NEW_Y, NEW_LABELS = np.sin(NEW[:, 0]), (NEW[:, 0] + NEW[:, 1] > 0).astype(int)
WEIGHTS = 0.5 + np.arange(40) % 3
SMALL = {"n_centers": 15, "random_state": 0, "tol": 1e-13}
ANSWERS = ("predict", "predict_proba", "decision_function", "transform", "score_samples")

MODELS = {
    "ridge cholesky": mercer.KernelRidge(solver="cholesky"),
    "ridge loo": mercer.KernelRidge(solver="cholesky", alpha="loo"),
    "ridge cg": mercer.KernelRidge(RBF("median"), solver="cg", tol=1e-12),
    "ridge falkon": mercer.KernelRidge(solver="falkon", **SMALL),
    "ridge of a function": mercer.KernelRidge(lambda a, b: float(a @ b) + 1.0),
    "ridge of features": mercer.KernelRidge(
        mercer.FromFeatures(lambda X: np.hstack([X, X**2])), solver="cholesky"
    ),
    "ridge classifier": mercer.KernelRidgeClassifier(),
    "logistic": mercer.KernelLogisticRegression(),
    "logistic falkon": mercer.KernelLogisticRegression(RBF(), solver="falkon", **SMALL),
    "erm": mercer.KernelERM(loss="huber"),
    "erm falkon": mercer.KernelERM(loss="squared", solver="falkon", **SMALL),
    "quantile": mercer.KernelQuantileRegressor(),
    "structured": mercer.StructuredKernelRidge(),
    "gp": mercer.GaussianProcessRegressor(RBF(), noise=0.1, optimizer=None),
    "gp noise": mercer.GaussianProcessRegressor(RBF(), noise=0.1 * WEIGHTS, optimizer=None),
    "gp classifier": mercer.GaussianProcessClassifier(RBF(), optimizer=None),
    "pca": mercer.KernelPCA(3, kernel=RBF()),
    "kde": mercer.KernelDensity(),
    "kmeans": mercer.KernelKMeans(3, random_state=0),
    "spectral": mercer.SpectralClustering(2, random_state=0),
    "nystroem": mercer.Nystroem(n_components=10, random_state=0),
    "prototypes": mercer.Prototypes(n_prototypes=5, random_state=0),
    "fourier": mercer.RandomFourierFeatures(n_components=10, random_state=0),
    "sketch": mercer.TensorSketch(n_components=10, random_state=0),
    "svc": mercer.SVC(),
    "svr": mercer.SVR(),
    "one class": mercer.OneClassSVM(),
    "l1vm": mercer.L1VMRegressor(),
    "machine": mercer.KernelMachine(random_state=0),
    "nadaraya": mercer.NadarayaWatson(),
    "neighbours": mercer.KernelNeighborsClassifier(),
    "perceptron": mercer.KernelPerceptron(random_state=0),
    "table encoder": mercer.TableEncoder(),
    "table regressor": mercer.TableRegressor("rbf"),
    "table classifier": mercer.TableClassifier("rbf"),
    "table auto": mercer.TableRegressor("auto"),
    "table machine": mercer.TableRegressor(),
    "features": mercer.FeatureMachineRegressor(2),
    "features of classes": mercer.FeatureMachineClassifier(2),
}


def answers(model, place):
    """Return what a model says of data at a place, and its score there."""
    model = clone(model)
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, np.ndarray):
            model.set_params(**{name: place(value)})
    y, new = (LABELS, NEW_LABELS) if is_classifier(model) else (Y, NEW_Y)
    weighed = {}
    if "sample_weight" in inspect.signature(model.fit).parameters:
        weighed["sample_weight"] = place(WEIGHTS)
    model.fit(place(X), place(y), **weighed)
    found = {name: getattr(model, name)(place(NEW)) for name in ANSWERS if hasattr(model, name)}
    if hasattr(model, "loo") and not hasattr(model, "n_centers"):
        given = "X" in inspect.signature(model.loo).parameters
        found["loo"] = model.loo(place(X)) if given else model.loo()
    if hasattr(model, "labels_"):
        found["labels"] = model.labels_
    if hasattr(model, "score"):
        found["score"] = model.score(place(NEW), place(new))
        if is_classifier(model) or is_regressor(model):
            found["weighed"] = model.score(place(NEW), place(new), place(WEIGHTS[:9]))
    return found


def test_the_device_refuses_what_cuda_refuses():
    """Else the sweeps below would prove nothing."""
    import torch

    with pretend_cuda() as log:
        A = to_cuda(X)
        assert str(A.device) == str((A[1:] @ A.T).device) == "cuda:0" and A.is_cuda
        assert torch.zeros(3, device="cuda").is_cuda and not torch.zeros(3).is_cuda
        for work in (
            lambda: np.asarray(A),
            lambda: A.numpy(),
            lambda: A + torch.zeros(40, 3),
            lambda: torch.zeros(3, 40) @ A,
            lambda: A.cpu() * A,
        ):
            with pytest.raises((TypeError, RuntimeError), match="cuda:0"):
                work()
        log.copies.clear()
        assert not A.cpu().is_cuda and not A.to("cpu").is_cuda
        assert log.copies == [40 * 3 * 8] * 2
    with pretend_cuda(limit=1000), pytest.raises(torch.OutOfMemoryError):
        A @ A.T


@pytest.mark.parametrize("name", MODELS)
def test_estimators_take_tensors_of_a_device(name):
    """Rows, targets, weights and noise lie there; answers are arrays, and those of the CPU."""
    expected = answers(MODELS[name], lambda A: A)
    with pretend_cuda():
        found = answers(MODELS[name], to_cuda)
    compare(found, expected)


@pytest.mark.parametrize("name", ["ridge cholesky", "ridge cg", "gp", "pca", "kde", "svc"])
def test_estimators_bring_arrays_to_a_device(name):
    expected = answers(MODELS[name], lambda A: A)
    with pretend_cuda(), mercer.config(engine="torch", device="cuda"):
        found = answers(MODELS[name], lambda A: A)
    compare(found, expected)


def compare(found, expected):
    """Check that answers are arrays or numbers, and to ten digits those expected."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert isinstance(found[name], np.ndarray | float), name
        np.testing.assert_allclose(found[name], value, rtol=1e-10, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("keep", [None, False])
def test_operators_multiply_tensors_where_they_are(keep):
    """Of a tensor comes a tensor beside it, of an array an array, whatever K was made of."""
    V, K, B = WEIGHTS[:, None] * [1.0, -2.0], RBF()(X), RBF()(X, NEW)
    with pretend_cuda():
        x, new = to_cuda(X), to_cuda(NEW)
        square, wide = Gram(RBF(), x, keep=keep), Gram(RBF(), x, new, keep=keep)
        products = {
            "square": (square @ to_cuda(V), K @ V),
            "one column": (square @ to_cuda(V[:, 0]), K @ V[:, 0]),
            "wide": (wide @ to_cuda(V[:9]), B @ V[:9]),
            "transposed": (wide.T @ to_cuda(V), B.T @ V),
            "made of two": ((square + 2.0 * square) @ to_cuda(V), 3.0 * K @ V),
            "of arrays": (Gram(RBF(), X, keep=keep) @ to_cuda(V), K @ V),
        }
        for name, (found, expected) in products.items():
            assert found.is_cuda, name
            np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-10, err_msg=name)
        host = square @ V
        with pytest.raises(mercer.errors.InvalidInput, match=r"cannot multiply by shape \(9,\)"):
            square @ to_cuda(V[:9, 0])
    assert isinstance(host, np.ndarray)


OTHER = RNG.standard_normal((30, 3)) + 0.3
DRAWS = {"n_permutations": 59, "rng": 0}
TESTS = {
    "mmd": lambda place: mmd_test(place(X), place(OTHER), RBF(), **DRAWS),
    "mmd median": lambda place: mmd_test(place(X), place(OTHER), **DRAWS),
    "mmd weighed": lambda place: mmd_test(
        place(X), place(OTHER), sample_weight=(place(WEIGHTS), place(WEIGHTS[:30])), **DRAWS
    ),
    "mmd rank": lambda place: mmd_test(place(X), place(OTHER), rank=5, **DRAWS),
    "mmd aggregated": lambda place: mmd_agg_test(place(X), place(OTHER), n_bandwidths=2, **DRAWS),
    "k samples": lambda place: k_sample_test(place(X), place(OTHER), place(NEW), **DRAWS),
    "hsic": lambda place: hsic_test(place(X), place(Y[:, None]), **DRAWS),
    "hsic labels": lambda place: hsic_test(place(X), place(LABELS[:, None] * 1.0), **DRAWS),
    "hsic aggregated": lambda place: hsic_agg_test(
        place(X), place(Y[:, None]), n_bandwidths=2, **DRAWS
    ),
    "kci": lambda place: kci_test(place(X), place(Y[:, None]), place(X[:, :1]), rng=0),
    "ksd": lambda place: ksd_test(place(X), lambda z: -z, rng=0),
}


@pytest.mark.parametrize("name", TESTS)
def test_tests_take_tensors_of_a_device(name):
    expected = TESTS[name](lambda A: A)
    with pretend_cuda():
        given = TESTS[name](to_cuda)
        with mercer.config(engine="torch", device="cuda"):
            brought = TESTS[name](lambda A: A)
    # The ridges of kci end a search, which two ways to compute distances reach to its tolerance.
    close = 1e-10 if name == "kci" else 1e-12
    for found in (given, brought):
        assert found.statistic == pytest.approx(expected.statistic, rel=1e-10)
        assert found.pvalue == pytest.approx(expected.pvalue, abs=close)


MANY = RNG.standard_normal((120, 3))
MANY_MOVED = MANY + 1
SINE = np.sin(MANY[:, 0])
FEW = {"n_centers": 50, "random_state": 0, "tol": 1e-13}


def fitted(model, labels=False):
    """Return a function of a place that fits a model to rows there and tells its predictions."""
    y = (SINE > 0).astype(int) if labels else SINE

    def work(place):
        f = clone(model).fit(place(MANY), y)
        return f.predict_proba(place(NEW)) if labels else f.predict(place(NEW))

    return work


def brought(work):
    """Let arrays be brought to the device, where there is one."""

    def under_torch(place):
        if place is not to_cuda:
            return work(place)
        with mercer.config(engine="torch", device="cuda"):
            return work(lambda A: A)

    return under_torch


def told(test, **options):
    """Return a function of a place that tells the statistic and the level of a test."""

    def work(place):
        result = test(place(MANY), place(MANY_MOVED), **options, **DRAWS)
        return np.array([result.statistic, result.pvalue])

    return work


def pivots(place):
    """Return the product of a pivoted factor with itself."""
    lazy = mercer.operators.Gram(RBF(), place(MANY), keep=False)
    F = to_host(mercer.solvers.rpcholesky(lazy, 120, random_state=0).F)
    return F.T @ F


RIDGE = mercer.KernelRidge(RBF(), solver="cholesky")
CENTRED = mercer.KernelRidge(RBF(), solver="falkon", **FEW)
WORK = {
    "gram": lambda place: RBF()(place(MANY)),
    "product": lambda place: RBF().matmul(place(MANY), None, SINE),
    "weights of parameters": lambda place: RBF().theta_vjp(place(MANY), np.ones((120, 120))),
    "gradient": lambda place: RBF().gradient(place(MANY), place(MANY), SINE),
    "operator": lambda place: mercer.operators.Gram(RBF(), place(MANY)) @ SINE,
    "pivots": pivots,
    "ridge": fitted(RIDGE),
    "ridge brought": brought(fitted(RIDGE)),
    "ridge loo": lambda place: clone(RIDGE).fit(place(MANY), SINE).loo(),
    "ridge cg": fitted(mercer.KernelRidge(RBF(), solver="cg", tol=1e-13)),
    "ridge falkon": fitted(CENTRED),
    "ridge falkon brought": brought(fitted(CENTRED)),
    "ridge falkon blocks": lambda place: (
        clone(CENTRED).fit(mercer.RowBlocks.from_arrays(place(MANY), SINE)).predict(place(NEW))
    ),
    "logistic falkon": fitted(
        mercer.KernelLogisticRegression(RBF(), solver="falkon", **FEW), labels=True
    ),
    "gp": fitted(mercer.GaussianProcessRegressor(RBF(), noise=0.1, optimizer=None)),
    "pca": lambda place: mercer.KernelPCA(2, kernel=RBF()).fit(place(MANY)).eigenvalues_,
    "kde": lambda place: mercer.KernelDensity().fit(place(MANY)).score_samples(place(MANY)),
    "mmd": told(mmd_test),
    "mmd rank": told(mmd_test, rank=50),
    "hsic": told(hsic_test),
    "hsic rank": told(hsic_test, rank=50),
}
# A matrix of 40 columns, one copy of the rows, and less than that.
LIMITS = (8 * 120 * 40, 8 * 120 * 3, 8 * 120)


@pytest.mark.parametrize("name", WORK)
def test_a_full_device_is_told_in_the_words_of_the_library(name):
    """Another program has taken what was free: smaller pieces, or an error with a cure."""
    expected = np.asarray(WORK[name](lambda A: A))
    met = 0
    for limit in LIMITS:
        with pretend_cuda(limit=limit) as log:
            try:
                found = to_host(WORK[name](to_cuda))
            except MemoryBudgetExceeded as error:
                assert "main memory" in str(error)
            else:
                np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
            met += log.refused
    assert met  # else nothing was proven


@pytest.mark.parametrize("model", [mercer.KernelRidge(), mercer.KernelLogisticRegression()])
def test_predictions_at_single_precision_are_made_in_chunks_of_it(model, monkeypatch):
    monkeypatch.setattr("mercer.engines.passes.device.ROWS", 50)
    monkeypatch.setattr("mercer.engines.passes.device.LEAST", 50)
    rows = RNG.standard_normal((400, 3)).astype(np.float32)
    fitted = clone(model).fit(X, LABELS)
    verb = "decision_function" if is_classifier(model) else "predict"
    expected = getattr(fitted, verb)(rows)
    with pretend_cuda(limit=4 * 50 * 40 * 2):  # not 400 × 3 in float64, nor kernel values of all
        found = getattr(fitted, verb)(to_cuda(rows))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_the_preconditioner_on_a_device_has_the_rank_that_its_memory_allows():
    model = mercer.KernelRidge(RBF(), solver="cg", alpha=1e-8)
    with pretend_cuda(), mercer.config(memory="150kB"):
        assert clone(model).fit(to_cuda(MANY), SINE).solution_.extra["rank"] > 100
    lazy = mercer.operators.Gram(RBF(), MANY, keep=False)
    with pretend_cuda(free=8 * 120 * 50):
        there = mercer.operators.Gram(RBF(), to_cuda(MANY), keep=False)
        assert LowRankPreconditioner(there, 1e-8).facts["rank"] == 11
        assert LowRankPreconditioner(lazy, 1e-8).facts["rank"] > 100


def test_products_in_tiles_bring_rows_to_a_device_once(monkeypatch):
    """Not once more to learn what is free there, nor for another product."""
    seen = []
    asarray = TorchEngine.asarray

    def spied(engine, A):
        seen.append(np.shape(A))
        return asarray(engine, A)

    monkeypatch.setattr(TorchEngine, "asarray", spied)
    with pretend_cuda(free=8 * 120 * 120), mercer.config(engine="torch", device="cuda"):
        K, expected = mercer.operators.Gram(RBF(), MANY), RBF().matmul(MANY, None, SINE)
        seen.clear()
        for _ in range(2):
            np.testing.assert_allclose(K @ SINE, expected, rtol=1e-10)
    assert seen.count(MANY.shape) == 1
