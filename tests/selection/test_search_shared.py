"""search: what settings and folds share beside penalties of ridge and machines, on any threads."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as PeerSVC

import mercer
from mercer import (
    RBF,
    SVC,
    SVR,
    GaussianProcessRegressor,
    KernelLogisticRegression,
    KernelPCA,
    KernelRidge,
    OneClassSVM,
    White,
    search,
)
from mercer.errors import InvalidInput
from mercer.selection.grid import paths, scorer as scorer_module
from tests.selection.searches import both, classes, numbers


# -- processes whose parameters are given ---------------------------------------------------------
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("outputs", ["one", "two", "column", "huge", "tiny", "constant"])
def test_noises_of_a_process(normalize, weighted, outputs):
    X, y = numbers(80)
    forms = {"two": np.stack([y, 5 * y**2], axis=1), "column": y[:, None], "huge": 1e60 * y}
    y = forms | {"one": y, "tiny": 1e-60 * y, "constant": np.full(80, 3.0)}
    y = y[outputs]
    w = np.random.default_rng(0).integers(0, 3, 80).astype(float) if weighted else None
    unit = float(np.var(y)) or 1.0
    grid = {"kernel__length_scale": [0.3, 1.0, 3.0], "noise": [0.01 * unit, 0.1 * unit, unit]}
    if outputs in ("huge", "tiny") and not normalize:
        grid["noise"] = [0.1, 1.0]
    model = GaussianProcessRegressor(RBF(1.0), optimizer=None, normalize_y=normalize)
    both(model, grid, X, y, 1e-7, weights=w)


def test_a_process_with_many_noises_a_mean_or_a_search_is_as_it_is():
    X, y = numbers(60)
    model = GaussianProcessRegressor(RBF(1.0), optimizer=None)
    both(model, {"noise": np.geomspace(1e-2, 1, 8).tolist()}, X, y, scoring="r2")
    both(model, {"noise": [0.1, 0.0, "fit", (0.1, 1.0), [0.1]]}, X, y, 1e-7, cv=3)
    both(model, {"noise": [0.1, 0.2], "mean": ["zero", "constant", "linear"]}, X, y)
    both(model.set_params(kernel=RBF(1.0) + White(0.1)), {"noise": [0.1, 0.2]}, X, y)
    both(model.set_params(kernel="precomputed"), {"noise": [0.1, 0.2]}, RBF(1.0)(X), y)
    fitted = model.set_params(kernel=RBF(1.0), optimizer="lbfgs", fixed=("kernel",))
    both(fitted, {"noise": [0.1, 0.2]}, X, y, cv=3)


def test_a_process_on_a_matrix_that_is_none_of_a_kernel_is_refused():
    X, y = numbers(40)
    K = RBF(1.0)(X) - 0.5 * np.eye(40)
    model = GaussianProcessRegressor("precomputed", optimizer=None)
    with pytest.raises(mercer.errors.MercerError):
        search(model, {"noise": [2.0, 3.0]}, K, y)


def test_a_process_that_is_asked_for_more_than_its_mean_is_fitted():
    X, y = numbers(50)

    def spread(model, X, y):
        return -float(model.predict(X, return_std=True)[1].mean())

    model = GaussianProcessRegressor(RBF(1.0), optimizer=None)
    both(model, {"noise": [0.1, 1.0]}, X, y, scoring=spread)


# -- one class along nu ---------------------------------------------------------------------------
@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc", "f1"])
@pytest.mark.parametrize("weighted", [True, False])
def test_shares_of_one_class(scoring, weighted):
    X, y = numbers(90)
    sides = np.where(y > np.quantile(y, 0.2), 1, -1)
    w = np.random.default_rng(0).integers(1, 4, 90).astype(float) if weighted else None
    grid = {"kernel__length_scale": [0.5, 1.0, 3.0], "nu": [0.5, 0.05, 1.0, 0.1]}
    both(OneClassSVM(RBF(1.0)), grid, X, sides, 1e-3, weights=w, scoring=scoring)


def test_one_class_without_targets_or_with_impossible_shares():
    X = numbers(60)[0]

    def inside(model, X, y=None):
        return float(np.mean(model.predict(X) == 1))

    grid = {"nu": [0.1, 0.5]}
    theirs = GridSearchCV(OneClassSVM(RBF(1.0)), grid, scoring=inside).fit(X)
    ours = search(OneClassSVM(RBF(1.0)), grid, X, scoring=inside)
    assert ours.best_params_ == theirs.best_params_
    sides = np.where(X[:, 0] > -1, 1, -1)
    with pytest.warns(FitFailedWarning, match="nu"):
        found = search(OneClassSVM(RBF(1.0)), {"nu": [0.5, 2.0]}, X, sides, scoring="accuracy")
    assert np.isnan(found.results_["mean_test_score"]).tolist() == [False, True]
    with pytest.raises(InvalidInput, match="all fits failed"):
        search(OneClassSVM(RBF(1.0)), {"nu": [-1.0]}, X, sides, scoring="accuracy")


# -- pipelines ------------------------------------------------------------------------------------
def pipeline(**options):
    return Pipeline([("z", KernelPCA(4, kernel=RBF())), ("a", LogisticRegression())], **options)


def test_first_steps_are_fitted_once_for_settings_of_the_last(monkeypatch):
    X, y = classes(80, 3)
    fits = []
    fit = KernelPCA.fit_transform
    monkeypatch.setattr(KernelPCA, "fit_transform", lambda *a, **o: fits.append(1) or fit(*a, **o))
    grid = {"z__kernel__length_scale": [0.5, 1.0], "a__C": [0.1, 1.0, 10.0]}
    found = search(pipeline(), grid, X, y, refit=False)
    assert len(fits) == 2 * 5
    monkeypatch.undo()
    theirs = GridSearchCV(pipeline(), grid).fit(X, y)
    np.testing.assert_allclose(
        found.results_["mean_test_score"], theirs.cv_results_["mean_test_score"]
    )


def test_pipelines_of_all_kinds(tmp_path):
    X, y = classes(70, 3)
    both(pipeline(), {"a": [LogisticRegression(), PeerSVC(), SVC(), "passthrough"]}, X, y)
    both(pipeline(), {"z": ["passthrough", PCA(2), StandardScaler()], "a__C": [0.1, 1.0]}, X, y)
    both(pipeline(), [{"a__C": [1.0, 2.0]}, {"steps": [[("q", PeerSVC())]]}], X, y)
    both(pipeline(), {"a__C": [1.0, -1.0, 2.0]}, X, y, scoring="neg_log_loss")
    both(pipeline(memory=str(tmp_path)), {"a__C": [1.0, 2.0]}, X, y)
    both(Pipeline([("a", PeerSVC())]), {"a__C": [1.0, 2.0]}, X, y)


def test_a_last_step_that_overwrites_its_rows_does_no_harm():
    class Spoiler(LogisticRegression):
        def fit(self, X, y):
            super().fit(X, y)
            X[...] = np.nan
            return self

    X, y = classes(60, 2)
    model = Pipeline([("z", StandardScaler()), ("a", Spoiler())])
    both(model, {"a__C": [0.1, 1.0, 10.0]}, X, y)


# -- threads --------------------------------------------------------------------------------------
def outcome(model, grid, X, y, threads, **options):
    with mercer.config(threads=threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = search(model, grid, X, y, refit=False, **options)
    return np.array([found.results_[f"split{k}_test_score"] for k in range(5)])


@pytest.mark.parametrize(
    "model, grid",
    [
        (KernelRidge(RBF()), {"alpha": np.geomspace(1e-6, 1, 8)}),
        (GaussianProcessRegressor(RBF(), optimizer=None), {"noise": [0.01, 0.1, 1.0]}),
        (GaussianProcessRegressor(RBF(), optimizer=None, mean="constant"), {"noise": [0.01, 0.1]}),
        (SVR(RBF()), {"C": [0.1, 1.0, 10.0]}),
        (mercer.KernelQuantileRegressor(RBF()), {"alpha": [0.1, 1.0, -1.0]}),
        (mercer.NuSVR(RBF()), {"nu": [0.2, 0.5, 3.0]}),
    ],
)
@pytest.mark.parametrize("scoring", ["neg_mean_absolute_error", "neg_max_error", "own"])
def test_bits_do_not_depend_on_threads(monkeypatch, model, grid, scoring):
    monkeypatch.setattr(scorer_module, "SHARED", 0)
    monkeypatch.setattr(paths, "WORTH_THREADS", 0)
    X, y = numbers(150)
    if scoring == "own":
        scoring = lambda model, X, y: float(model.predict(X[:3]) @ y[:3])  # noqa: E731
    found = [outcome(model, grid, X, y, t, scoring=scoring) for t in (1, 2, 5)]
    assert np.array_equal(found[0], found[1], equal_nan=True)
    assert np.array_equal(found[0], found[2], equal_nan=True)


@pytest.mark.parametrize("k", [2, 4])
def test_bits_of_classifiers_do_not_depend_on_threads(monkeypatch, k):
    monkeypatch.setattr(scorer_module, "SHARED", 0)
    monkeypatch.setattr(paths, "WORTH_THREADS", 0)
    X, y = classes(150, k)
    for model, grid in (
        (SVC(RBF()), {"C": [0.1, 1.0, 1000.0]}),
        (KernelLogisticRegression(RBF()), {"alpha": [0.1, 1.0]}),
    ):
        found = [outcome(model, grid, X, y, t, scoring=None) for t in (1, 2)]
        assert np.array_equal(*found)


def test_failures_are_told_in_their_order_on_threads(monkeypatch):
    monkeypatch.setattr(scorer_module, "SHARED", 0)
    X, y = numbers(60)
    calls = []

    def odd(model, X, y):
        calls.append(model.nu)
        if len(calls) in (3, 7):
            raise ValueError(f"call {len(calls)}")
        return 1.0

    with (
        mercer.config(threads=2),
        pytest.warns(FitFailedWarning, match="2 of 15 fits failed.*fold 2: ValueError: call 3"),
    ):
        found = search(mercer.NuSVR(RBF()), {"nu": [0.2, 0.5, 0.6]}, X, y, scoring=odd, refit=False)
    assert calls == [0.2] * 5 + [0.5] * 5 + [0.6] * 5
    assert np.isnan(found.results_["split2_test_score"]).tolist() == [True, False, False]
    assert np.isnan(found.results_["split1_test_score"]).tolist() == [False, True, False]


def test_an_interrupt_ends_threads(monkeypatch):
    monkeypatch.setattr(scorer_module, "SHARED", 0)

    def stop(model, X, y):
        raise KeyboardInterrupt

    with mercer.config(threads=2), pytest.raises(KeyboardInterrupt):
        search(mercer.NuSVR(RBF()), {"nu": [0.2, 0.5]}, *numbers(60), scoring=stop)


def test_time_is_up_on_threads(monkeypatch):
    monkeypatch.setattr(scorer_module, "SHARED", 0)
    with mercer.config(threads=2):
        found = search(
            mercer.NuSVR(RBF()), {"nu": [0.2, 0.5, 0.7]}, *numbers(60), max_time=0, refit=False
        )
    known = ~np.isnan(found.results_["mean_test_score"])
    assert known.any()
