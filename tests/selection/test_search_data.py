"""search: the answer of GridSearchCV for every kernel, kind of data, fold and score."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
)

from mercer import (
    RBF,
    SVC,
    SVR,
    KernelRidge,
    KernelRidgeClassifier,
    Linear,
    Matern,
    RowBlocks,
    White,
    search,
    tune,
)
from mercer.errors import InvalidInput
from mercer.selection.grid import scorer as scorer_module
from tests.selection.searches import PENALTIES, alike, both, classes, letters, numbers


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


@pytest.mark.parametrize("look", [tune, lambda m, *a: search(m, {"alpha": [1]}, *a)])
def test_rows_in_blocks_are_to_be_sampled(look):
    X = np.arange(8.0)[:, None]
    blocks = RowBlocks.from_arrays(X, X[:, 0], block_rows=3)
    for given in ((blocks,), (blocks, X[:, 0])):
        with pytest.raises(InvalidInput, match=r"sample: X, y, weight = blocks\.sample\("):
            look(KernelRidge(), *given)


def test_a_sparse_target_is_refused_in_words():
    X = np.random.default_rng(0).normal(size=(12, 2))
    with pytest.raises(InvalidInput, match="search: y is sparse; give a dense array"):
        search(KernelRidge(), {"alpha": [0.1, 1.0]}, X, sp.csr_array(X[:, :1]), cv=3)


# ---- usual scores by their formula ----

ERRORS = ["mean_squared", "root_mean_squared", "mean_absolute"]


@pytest.mark.parametrize(
    "scoring",
    [
        None,
        "r2",
        "neg_mean_squared_error",
        "neg_root_mean_squared_error",
        "neg_mean_absolute_error",
    ],
)
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_errors_are_those_of_sklearn(scoring, outputs, weighted):
    X, y = numbers(60)
    y = y if outputs == 1 else np.stack([y, -2 * y + 1, y**2], axis=1)
    weights = np.random.default_rng(0).uniform(0.2, 2.0, 60) if weighted else None
    grid = {"alpha": [1e-2, 0.1, 1.0, 3.0, 10.0, 30.0]}
    both(KernelRidge(RBF(1.0)), grid, X, y, 1e-10, weights, scoring=scoring)


@pytest.mark.parametrize("kind", [int, bool, str])
@pytest.mark.parametrize("weighted", [False, True])
def test_accuracy_is_that_of_sklearn(kind, weighted):
    X, y = classes(80, 2)
    weights = np.random.default_rng(0).uniform(0.2, 2.0, 80) if weighted else None
    both(SVC(RBF(1.0)), {"C": [0.1, 1.0, 10.0]}, X, y.astype(kind), 1e-12, weights)


def test_constant_targets_of_a_fold_score_as_in_sklearn():
    X, y = numbers(40)
    y[:8] = 1.0  # the first test fold
    both(KernelRidge(RBF(1.0)), {"alpha": [0.1, 1.0]}, X, y, 1e-10)
