"""tune: lists of choices are obeyed, what cannot be fitted is said, contradictions are refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GroupKFold

from mercer import (
    RBF,
    SVC,
    KernelNeighborsRegressor,
    KernelRidge,
    KernelRidgeClassifier,
    Laplacian,
    Matern,
    Polynomial,
    tune,
)
from mercer.errors import InvalidInput
from mercer.selection.tuning.what import check_names

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(40)
L = (Y > 0).astype(int)


# ------------------------------------------------------------------------------- lists are obeyed
@pytest.mark.parametrize("criterion", ["loo", "evidence", "cv"])
@pytest.mark.parametrize("model", [KernelRidge(), KernelRidgeClassifier()], ids=repr)
@pytest.mark.parametrize("name", ["length_scale", "kernel__length_scale"])
def test_choices_beside_a_list_of_kernels(model, criterion, name):
    y = L if isinstance(model, KernelRidgeClassifier) else Y
    over = {"kernel": ["rbf", Matern()], name: [1.5, 2.5], "alpha": None}
    result = tune(model, X, y, over=over, criterion=criterion, max_iter=4)
    assert result.params["kernel__length_scale"] in (1.5, 2.5)
    assert result.model.kernel_.length_scale == result.params["kernel__length_scale"]
    shown = {round(row["length_scale"], 12) for row in result.table}
    assert shown == {1.5, 2.5}


def test_choices_that_only_the_listed_kernels_have():
    kernels = [Polynomial(2), Polynomial(3)]
    over = {"kernel": kernels, "offset": [5.0, 7.0], "alpha": None}
    assert tune(KernelRidge(), X, Y, over=over).params["kernel__offset"] in (5.0, 7.0)
    found = tune(KernelRidge(), X, Y, over={"kernel": [Polynomial(2)], "degree": (1, 3)})
    assert {row["kernel__degree"] for row in found.table} == {1, 2, 3}


@pytest.mark.parametrize("model", [KernelRidge(), SVC()], ids=repr)
def test_the_kernels_of_the_user_are_not_changed(model):
    kernels = [RBF(), Matern()]
    y = L if isinstance(model, SVC) else Y
    over = {"kernel": kernels, "kernel__length_scale": [1.5, 2.5]}
    result = tune(model, X, y, over=over, max_iter=2)
    assert kernels == [RBF(), Matern()]
    assert result.params["kernel"] in kernels
    again = type(model)().set_params(**result.params)
    assert again.kernel == result.model.kernel and kernels == [RBF(), Matern()]


def test_a_generator_of_folds_serves_every_kernel():
    folds = list(GroupKFold(4).split(X, Y, np.arange(40) % 8))
    over = {"kernel": [RBF(), Matern()]}
    once = tune(KernelRidge(), X, Y, over=over, criterion="cv", cv=iter(folds), max_iter=3)
    again = tune(KernelRidge(), X, Y, over=over, criterion="cv", cv=folds, max_iter=3)
    assert once.score == again.score and len(once.table) == len(again.table)


# ------------------------------------------------------------------------- what cannot be fitted
@pytest.mark.parametrize(
    ("model", "over", "match"),
    [
        (KernelRidge(), {"kernel": ["rbf", "nope"]}, r"kernel='nope'.*nope"),
        (KernelRidge(), {"alpha": [0.1, -1]}, r"alpha=-1"),
        (KernelRidge(), {"alpha": [0.1, "loo"]}, r"alpha='loo'.*number > 0"),
        (KernelRidge(), {"length_scale": [1.0, -1.0]}, r"length_scale=-1"),
        (SVC(), {"C": [1.0, -1.0]}, r"C=-1\.0.*C"),
        (SVC(), {"kernel": ["rbf", "nope"]}, r"1 choice .*kernel='nope'"),
        (KernelNeighborsRegressor(), {"n_neighbors": [1, 100]}, r"n_neighbors=100"),
        (KernelNeighborsRegressor(), {"n_neighbors": [1, "a"]}, r"n_neighbors='a'"),
        (
            KernelNeighborsRegressor(),
            {"weights": ["uniform", "x", "y"]},
            r"2 choices .*weights='x'",
        ),
    ],
    ids=str,
)
def test_choices_that_cannot_be_fitted_are_told(model, over, match):
    y = L if isinstance(model, SVC) else Y
    with pytest.warns(FitFailedWarning, match=match):
        result = tune(model, X, y, over=over, max_iter=2)
    assert np.isfinite(result.score)
    bad = {"nope", -1, "loo", 100, "x", "y"}
    assert not any(isinstance(v, str | int) and v in bad for v in result.params.values())


def test_a_kernel_parameter_that_cannot_be_set_is_told():
    with pytest.warns(FitFailedWarning, match="length_scale=-1"):
        tune(SVC(), X, L, over={"length_scale": [1.0, -1.0]}, max_iter=2)


def test_no_warning_where_a_choice_works_somewhere():
    # 35 neighbours are too many on no fold of 40 rows; a wide range of alpha may fail at its end
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitFailedWarning)
        tune(KernelNeighborsRegressor(), X, Y, over={"n_neighbors": [1, 39]})
        tune(KernelRidge(), X, Y, over={"alpha": (1e-300, 1.0)}, criterion="cv", max_iter=2)


def test_errors_where_every_choice_fails():
    with pytest.raises(InvalidInput, match="nope"):
        tune(KernelRidge(), X, Y, over={"kernel": ["nope"]})
    with pytest.raises(InvalidInput, match=r"alpha='a' .*number > 0"):
        tune(KernelRidge(), X, Y, over={"alpha": ["a"]})
    with pytest.raises(
        InvalidInput, match=r"tune: no parameters could be scored; first ValueError"
    ):
        tune(KernelRidge(), X, Y, scoring="accuracy", max_iter=2)
    with pytest.raises(InvalidInput, match=r"no parameters have a finite score"):
        tune(KernelRidge(), X, Y, scoring=lambda m, a, b: np.nan, max_iter=2)


# ----------------------------------------------------------------------------------- contradictions
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"over": ["alpha"], "fixed": ["alpha"]}, "'alpha' is in fixed.*and in over"),
        ({"fixed": "alpha", "bounds": {"alpha": (1, 2)}}, "'alpha' is in fixed.*and in bounds"),
        ({"over": ["length_scale"], "fixed": ["kernel__length_scale"]}, "in fixed"),
        ({"over": {"length_scale": (1, 2), "kernel__length_scale": (3, 4)}}, "one parameter"),
        ({"over": {"alpha": [1, 2]}, "bounds": {"alpha": (3, 4)}}, "both say where"),
        ({"over": ["length_scale"], "bounds": {"alpha": (1, 2)}}, "'alpha' is not tuned; add it"),
        ({"over": ["alpha"], "bounds": {"length_scale": (1, 2)}}, "is not tuned; add it"),
        ({"over": {"kernel": (RBF(), Laplacian())}}, r"a list \[...\] of choices"),
        ({"criterion": "cv", "cv": []}, "cv gives no folds"),
        ({"criterion": "cv", "cv": GroupKFold(3)}, r"cv=GroupKFold\(...\).split\(X, y, groups\)"),
    ],
    ids=str,
)
def test_contradictions_and_what_to_do(options, match):
    with pytest.raises(InvalidInput, match=match):
        tune(KernelRidge(), X, Y, **options)


def test_names_that_do_not_contradict():
    check_names({"kernel": None, "alpha": None}, ["length_scale[0]"], {"length_scale": (1, 2)})
    check_names(None, ["alpha"], {"length_scale": (1, 2)})


@pytest.mark.parametrize("model", [KernelRidge(RBF(0.7)), SVC(RBF(0.7))], ids=repr)
def test_the_kernel_may_be_held_by_its_name(model):
    result = tune(model, X, L if isinstance(model, SVC) else Y, fixed=["kernel"])
    assert result.model.kernel_ == RBF(0.7) and len(result.table) >= 1
    assert "no kernel parameter was to be tuned" in result.message
    if isinstance(model, KernelRidge):
        part = tune(model, X, Y, over=["kernel", "alpha"], fixed=["length_scale"])
        assert part.model.kernel_ == RBF(0.7)
        linear = tune(KernelRidge("linear"), X, Y, fixed="kernel")
        assert set(linear.params) == {"alpha"}
