"""search: the answer of GridSearchCV for every model, kernel, kind of data, fold and score."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as PeerSVC

import mercer
from mercer import (
    RBF,
    SVC,
    SVR,
    KernelPerceptron,
    KernelRidge,
    KernelRidgeClassifier,
    Linear,
    Matern,
    NuSVC,
    NuSVR,
    Polynomial,
    TableRegressor,
    White,
    search,
)
from mercer.selection import scorer as scorer_module

PENALTIES = [1e-3, 1e-1, 10.0]


def numbers(n=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.standard_normal(n)
    return X, y


def classes(n=120, k=3, seed=0):
    X, y = numbers(n, seed)
    return X, np.digitize(y, np.quantile(y, np.arange(1, k) / k))


def letters(n=40, seed=0):
    rng = np.random.default_rng(seed)
    words = ["".join(rng.choice(["a", "b"], rng.integers(1, 9))) for _ in range(n)]
    return words, np.array([w.count("a") for w in words])


def alike(s, t):
    """Count the letters that two words share, and compare their lengths."""
    return s.count("a") * t.count("a") + 0.37 * s.count("b") * t.count("b") + min(len(s), len(t))


def both(model, grid, X, y, atol=1e-9, weights=None, **options):
    """Search both ways; compare tables, choices and refits; return ours."""
    cv = options.get("cv", 5)
    if not isinstance(cv, int) and not hasattr(cv, "split"):
        cv = list(cv)
        options = {**options, "cv": cv}
    groups = options.pop("groups", None)
    fit = {} if weights is None else {"sample_weight": weights}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = GridSearchCV(model, grid, **options).fit(X, y, groups=groups, **fit)
        ours = search(model, grid, X, y, groups=groups, sample_weight=weights, **options)
    mine, table = ours.results_, theirs.cv_results_
    assert mine["params"] == table["params"]
    for name in table:
        if name.startswith("param_"):
            assert list(mine[name]) == list(table[name])
        elif "test_score" in name and name != "rank_test_score":
            np.testing.assert_allclose(mine[name], table[name], rtol=0, atol=atol, err_msg=name)
    if atol == 0:
        assert np.array_equal(mine["rank_test_score"], table["rank_test_score"])
    assert ours.best_index_ == theirs.best_index_
    assert ours.best_params_ == theirs.best_params_
    assert ours.best_score_ == pytest.approx(theirs.best_score_, abs=max(atol, 1e-12))
    assert ours.n_splits_ == theirs.n_splits_
    return ours


# -- models ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("kernel", [RBF(1.0), "rbf", Linear(), Polynomial(2), RBF("median")])
def test_ridge(kernel, offset):
    model = KernelRidge(kernel, fit_intercept=offset)
    result = both(model, {"alpha": PENALTIES}, *numbers())
    assert isinstance(result.best_estimator_, KernelRidge)
    X = numbers()[0]
    again = KernelRidge(kernel, result.best_params_["alpha"], fit_intercept=offset)
    assert np.array_equal(result.predict(X), again.fit(*numbers()).predict(X))


def test_ridge_by_krylov_spaces(monkeypatch):
    monkeypatch.setattr("mercer.selection.ridge_folds.SMALL", 10)
    monkeypatch.setattr("mercer.selection.ridge_folds._krylov_pays", lambda *a: True)
    X, y = numbers(200)
    grid = {"kernel__length_scale": [0.3, 1.0, 5.0], "alpha": np.geomspace(1e-4, 10, 6)}
    both(KernelRidge(RBF()), grid, X, y)
    both(KernelRidge(RBF(), fit_intercept=True), grid, X, y + 100, atol=1e-8)


def test_ridge_with_several_outputs_weights_and_huge_targets():
    X, y = numbers()
    T = np.stack([y, y**2], axis=1)
    w = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    grid = {"alpha": PENALTIES, "fit_intercept": [True, False]}
    both(KernelRidge(RBF(1.0)), grid, X, T)
    both(KernelRidge(RBF(1.0)), grid, X, T, weights=w)
    both(KernelRidge(RBF("scale")), grid, X, y, weights=w)
    both(KernelRidge(RBF(1.0)), grid, X, 1e120 * y)


def test_unusual_penalties_are_fitted_as_they_are():
    X, y = numbers(50)
    T = np.stack([y, y**2], axis=1)
    both(KernelRidge(RBF(1.0)), {"alpha": ["loo", 0.1, 1, np.float32(0.5)]}, X, y, cv=3)
    both(KernelRidge(RBF(1.0)), {"alpha": [np.array([0.1, 1.0]), 0.1]}, X, T, cv=3)


@pytest.mark.parametrize("k", [2, 4])
def test_ridge_classifier(k):
    X, y = classes(k=k)
    names = np.array(["red", "green", "blue", "white"])[y]
    grid = {"alpha": PENALTIES, "class_weight": [None, "balanced"], "kernel": ["rbf", Matern(1.0)]}
    both(KernelRidgeClassifier(), grid, X, names, atol=0)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("kind", ["ovo", "ovr"])
def test_svc(k, kind):
    X, y = classes(k=k)
    model = SVC(RBF(1.0), multi_class=kind)
    grid = {"C": [10.0, 0.1, 1.0], "kernel__length_scale": [0.5, 2.0]}
    both(model, grid, X, y, atol=0)


@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
def test_svc_on_real_tables(load):
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    both(SVC(), {"C": [0.1, 1.0, 10.0, 100.0]}, X, y, atol=0)


def test_svc_with_weights_and_classes_of_unequal_size():
    X, y = classes()
    y = np.where(y == 2, 1, y)
    w = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    grid = {"C": [0.1, 1.0, 10.0], "class_weight": [None, "balanced", {0: 3.0, 1: 1.0}]}
    both(SVC(), grid, X, y, atol=1e-12)
    both(SVC(), grid, X, y, atol=1e-12, weights=w)


def test_svc_with_no_shared_way():
    X, y = classes(60, k=2)
    both(SVC(RBF(0.3)), {"C": [1.0, 1e9, np.inf]}, X, y, atol=0, cv=3)
    both(SVC(RBF(1.0), max_iter=5), {"C": [1.0, 10.0]}, X, y, atol=0, cv=3)
    grid = {"C": [1.0, 10.0], "probability": [True]}
    both(SVC(RBF(1.0)), grid, X, y, cv=3, scoring="neg_log_loss")


def test_svr():
    X, y = numbers()
    w = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    grid = {"C": [10.0, 0.1, 1.0], "epsilon": [0.0, 0.1], "kernel": [RBF(1.0), "rbf"]}
    model = SVR(tol=1e-8)
    both(model, grid, X, y, atol=1e-6)
    both(model, grid, X, y, atol=1e-6, weights=w)


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (KernelPerceptron(), {"kernel__length_scale": [0.5, 1.0], "kernel": [RBF(1.0)]}),
        (NuSVC(RBF(1.0)), {"nu": [0.1, 0.3]}),
        (NuSVR(RBF(1.0), tol=1e-8), {"nu": [0.1, 0.3], "C": [1.0]}),
    ],
)
def test_models_on_parts_of_the_matrix(model, grid, monkeypatch):
    seen = []
    plain = scorer_module.plain_fit

    def spy(base, params, X, y, weights):
        seen.append(params.get("kernel"))
        return plain(base, params, X, y, weights)

    monkeypatch.setattr(scorer_module, "plain_fit", spy)
    X, y = classes(60, k=2)
    both(model, grid, X, y, cv=3, atol=1e-6)
    assert set(seen) == {"precomputed"}


@pytest.mark.parametrize("name", ["KernelLogisticRegression", "KernelHuberRegressor"])
def test_regularised_risk(name):
    if name not in mercer.__all__:
        pytest.skip(f"there is no {name}")
    X, y = classes(60, k=2)
    model = getattr(mercer, name)(kernel=RBF(1.0))
    both(model, {"alpha": PENALTIES}, X, y, cv=3, atol=1e-5)


def test_neighbours():
    X, y = classes(60)
    model = mercer.models.KernelNeighborsClassifier(RBF(1.0))
    both(model, {"n_neighbors": [1, 5], "weights": ["uniform", "distance"]}, X, y, atol=0)
    words, count = letters()
    model = mercer.models.KernelNeighborsClassifier(alike)
    grid = {"n_neighbors": [1, 3], "weights": ["uniform", "distance"]}
    both(model, grid, words, count > 2, atol=0, cv=3)


def test_other_estimators():
    X, y = classes(60, k=2)
    pipe = make_pipeline(StandardScaler(), SVC(RBF(1.0)))
    both(pipe, {"svc__C": [0.1, 1.0], "svc__kernel__length_scale": [0.5, 1.0]}, X, y, atol=0)
    both(PeerSVC(), {"C": [0.1, 1.0]}, X, y, atol=0, weights=np.arange(60.0))
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "x", "y")})
    both(TableRegressor(), {"alpha": [0.1, 1.0]}, frame, X[:, 2], cv=3)


# -- kernels and kinds of data --------------------------------------------------------------------
def test_kernels_in_a_list_and_several_grids():
    X, y = numbers()
    grid = [
        {"kernel": [RBF(1.0), Matern(1.0), RBF(1.0) + Linear(), "rbf"], "alpha": [0.1, 1.0]},
        {"kernel": [RBF(1.0)], "kernel__length_scale": [0.5, 2.0]},
        {"kernel": ["rbf"], "kernel__length_scale": [0.5, 2.0], "fit_intercept": [True]},
    ]
    result = both(KernelRidge(), grid, X, y)
    assert len(result.results_["params"]) == 12
    assert result.results_["param_fit_intercept"].mask.sum() == 10


def test_a_gram_matrix_is_computed_once_for_each_kernel(monkeypatch):
    calls = []
    gram = scorer_module.Gram

    def spy(kernel, X, **options):
        calls.append(kernel)
        return gram(kernel, X, **options)

    monkeypatch.setattr(scorer_module, "Gram", spy)
    X, y = numbers()
    search(KernelRidge(RBF()), {"kernel__length_scale": [0.5, 1.0], "alpha": PENALTIES}, X, y)
    assert len(calls) == 2
    calls.clear()
    search(KernelRidge("rbf"), {"alpha": PENALTIES}, X, y)
    assert len(calls) == 5  # the scale comes from the training rows of each fold


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (KernelRidge(alike), {"alpha": PENALTIES}),
        (SVR(alike, tol=1e-6), {"C": [0.1, 1.0]}),
        (KernelRidgeClassifier(alike), {"alpha": PENALTIES}),
        (SVC(alike), {"C": [0.1, 1.0]}),
    ],
)
def test_words(model, grid):
    words, y = letters()
    y = y > 2 if hasattr(model, "class_weight") else y + 0.1 * np.arange(len(y))
    for X in (words, np.array(words), np.array(words, dtype=object)):
        both(model, grid, X, y, cv=3, atol=1e-5)


def test_tables_with_kernels_on_columns():
    X, y = numbers()
    frame = pd.DataFrame({"a": X[:, 0], "site": np.where(X[:, 1] > 0, "x", "y"), "b": X[:, 2]})
    kernel = RBF(1.0).on("a") * RBF(1.0).on(["a", "b"])
    grid = {"alpha": PENALTIES, "kernel": [kernel, RBF(1.0).on("b")]}
    result = both(KernelRidge(), grid, frame, y)
    columns = {name: frame[name].to_numpy() for name in frame}
    again = search(KernelRidge(), grid, columns, y)
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(again.results_[name], result.results_[name], atol=1e-12)


@pytest.mark.parametrize("model", [KernelRidge(), SVR(tol=1e-8)])
def test_precomputed(model):
    X, y = numbers()
    name = "alpha" if isinstance(model, KernelRidge) else "C"
    model.set_params(kernel="precomputed")
    result = both(model, {name: PENALTIES}, RBF(1.0)(X), y, atol=1e-6)
    direct = search(model.__class__(RBF(1.0)), {name: PENALTIES}, X, y)
    difference = result.results_["mean_test_score"] - direct.results_["mean_test_score"]
    assert np.abs(difference).max() < 1e-3


def test_sparse_torch_lists_and_read_only(torch):
    import scipy.sparse as sp

    X, y = numbers(50)
    frozen, still = X.copy(), y.copy()
    frozen.setflags(write=False)
    still.setflags(write=False)
    expected = both(KernelRidge(RBF(1.0)), {"alpha": PENALTIES}, frozen, still)
    for data in (
        sp.csr_matrix(X),
        X.tolist(),
        torch.tensor(X),
        pd.DataFrame(X, columns=list("abc")),
    ):
        target = torch.tensor(y) if data is not X and isinstance(data, torch.Tensor) else list(y)
        result = search(KernelRidge(RBF(1.0)), {"alpha": PENALTIES}, data, target)
        np.testing.assert_allclose(
            result.results_["mean_test_score"], expected.results_["mean_test_score"], atol=1e-9
        )


def test_noise_on_the_diagonal_stays_there():
    X, y = numbers(60)
    model = KernelRidge(RBF(1.0) + White(0.5))
    both(model, {"alpha": PENALTIES}, X, y)
    rows = np.arange(60)
    seen = [(rows[:40], rows[20:]), (np.r_[rows[:30], rows[:10]], rows[30:])]
    both(model, {"alpha": PENALTIES}, X, y, cv=seen)  # rows in both parts, rows that train twice
    both(SVR(RBF(1.0), tol=1e-8), {"C": [1.0]}, X, y, cv=seen, atol=1e-6)


# -- folds and scores -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "cv",
    [
        2,
        KFold(3, shuffle=True, random_state=0),
        StratifiedKFold(3),
        ShuffleSplit(4, test_size=0.3, random_state=0),
        RepeatedKFold(n_splits=2, n_repeats=2, random_state=0),
        ((np.arange(60), np.arange(60, 120)), (np.arange(50, 120), np.arange(50))),
    ],
)
def test_folds(cv):
    X, y = classes()
    both(SVC(RBF(1.0)), {"C": [0.1, 1.0]}, X, y, cv=cv, atol=0)
    both(KernelRidgeClassifier(RBF(1.0)), {"alpha": PENALTIES}, X, y, cv=cv, atol=0)


def test_masks_generators_and_groups():
    X, y = classes()
    mask = np.arange(120) < 60
    both(SVC(RBF(1.0)), {"C": [0.1, 1.0]}, X, y, cv=[(mask, ~mask)], atol=0)
    result = search(SVC(), {"C": [1.0]}, X, y, cv=(pair for pair in KFold(3).split(X)))
    assert result.n_splits_ == 3
    groups = np.arange(120) % 4
    for cv in (GroupKFold(3), LeaveOneGroupOut()):
        both(KernelRidgeClassifier(), {"alpha": PENALTIES}, X, y, cv=cv, groups=groups, atol=0)


def test_a_class_absent_from_a_fold():
    X, y = classes(60)
    order = np.argsort(y, kind="stable")
    both(SVC(RBF(1.0)), {"C": [0.1, 1.0]}, X[order], y[order], cv=KFold(3), atol=0)
    both(KernelRidgeClassifier(), {"alpha": [0.1]}, X[order], y[order], cv=KFold(3), atol=0)


@pytest.mark.parametrize(
    "scoring", ["neg_mean_squared_error", "neg_max_error", make_scorer(mean_absolute_error)]
)
def test_scores_of_regression(scoring):
    w = np.ones(90)
    grid = {"alpha": PENALTIES}
    both(KernelRidge(RBF(1.0)), grid, *numbers(), scoring=scoring)
    both(KernelRidge(RBF(1.0)), grid, *numbers(), scoring=scoring, weights=w)


@pytest.mark.parametrize("scoring", ["roc_auc", "balanced_accuracy", "average_precision", "f1"])
@pytest.mark.parametrize("model", [SVC(RBF(1.0), tol=1e-8), KernelRidgeClassifier(RBF(1.0))])
def test_scores_of_classification(model, scoring):
    name = "C" if isinstance(model, SVC) else "alpha"
    X, y = classes(k=2)
    both(model, {name: PENALTIES}, X, y, scoring=scoring, atol=1e-9)


def test_a_function_of_the_model_gets_the_model_and_the_points():
    def size(model, X, y):
        assert X.shape[1] == 3
        return -len(model.support_) + 0.001 * model.score(X, y)

    X, y = classes(k=2)
    both(SVC(RBF(1.0)), {"C": [0.1, 1.0]}, X, y, scoring=size, atol=0)


def test_equal_scores_go_to_the_first_point():
    X = np.r_[np.zeros((10, 1)), np.ones((10, 1))] * 10
    y = np.r_[np.zeros(10), np.ones(10)]
    result = both(SVC(RBF(1.0)), {"C": [10.0, 1.0, 5.0]}, X, y, atol=0)
    assert result.best_params_ == {"C": 10.0}
    both(KernelRidge(RBF(1.0)), {"alpha": PENALTIES}, X, np.zeros(20))
    both(KernelRidge(RBF(1.0)), {"alpha": PENALTIES}, X, np.ones(20))
    constant = {"alpha": PENALTIES, "fit_intercept": [True]}
    ours = search(KernelRidge(RBF(1.0)), constant, X, np.ones(20))
    assert np.isfinite(ours.results_["mean_test_score"]).all()


@pytest.mark.parametrize("n", [6, 10])
def test_few_rows_and_duplicates(n):
    X, y = numbers(n)
    both(KernelRidge(RBF(1.0)), {"alpha": PENALTIES}, X, y, cv=3)
    both(SVR(RBF(1.0)), {"C": [0.1, 1.0]}, X, y, cv=3, atol=1e-8)
    X[1::2] = X[::2]
    both(KernelRidge(RBF(1.0)), {"alpha": PENALTIES}, X, y, cv=3)
    both(SVC(RBF(1.0)), {"C": [0.1, 1.0]}, X, np.arange(n) % 2, cv=3, atol=0)
