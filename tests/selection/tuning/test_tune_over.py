"""tune: what `over`, `fixed`, `bounds` and `criterion` mean, for every search."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_moons

from mercer import (
    RBF,
    SVC,
    SVR,
    KernelRidge,
    KernelRidgeClassifier,
    Linear,
    Matern,
    Polynomial,
    TableClassifier,
    TableRegressor,
    tune,
)
from mercer.errors import InvalidInput
from mercer.selection.tuning.what import Axis, Units, make_plan, read_over, split_choices

rng = np.random.default_rng(2)
X = rng.standard_normal((40, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(40)
P, L = make_moons(60, noise=0.25, random_state=0)


# ----------------------------------------------------------------------------------- what it means
@pytest.mark.parametrize("criterion", ["loo", "evidence", "cv"])
def test_over_names_are_all_that_changes(criterion):
    model = KernelRidge(RBF(0.7), 0.3)
    alpha = tune(model, X, Y, over=["alpha"], criterion=criterion)
    assert alpha.model.kernel_.length_scale == pytest.approx(0.7)
    assert alpha.params["alpha"] != 0.3 and len({row["length_scale"] for row in alpha.table}) == 1
    scale = tune(model, X, Y, over="kernel__length_scale", criterion=criterion)
    assert scale.model.alpha == 0.3 and scale.params["kernel__length_scale"] != 0.7
    both = tune(model, X, Y, over=["length_scale", "alpha"], criterion=criterion)
    assert both.score == pytest.approx(tune(model, X, Y, criterion=criterion).score, rel=1e-3)
    assert both.score <= min(alpha.score, scale.score) + 1e-9
    near = tune(
        model, X, Y, over={"alpha": (0.5, 0.6), "length_scale": (0.4, 0.5)}, criterion=criterion
    )
    assert 0.5 <= near.params["alpha"] <= 0.6 + 1e-12
    assert 0.4 <= near.params["kernel__length_scale"] <= 0.5 + 1e-12


@pytest.mark.parametrize("criterion", ["loo", "evidence", "cv"])
def test_fixed_and_bounds_of_the_penalty(criterion):
    held = tune(KernelRidge(RBF(), 0.3), X, Y, fixed="alpha", criterion=criterion)
    assert held.model.alpha == 0.3 and all(row.get("alpha", 0.3) == 0.3 for row in held.table)
    held = tune(KernelRidge(RBF(), 0.0037), X, Y, fixed="alpha", criterion=criterion)
    assert held.model.alpha == 0.0037  # which is not exp(log 0.0037)
    near = tune(KernelRidge(), X, Y, bounds={"alpha": (2.0, 3.0)}, criterion=criterion)
    assert all(2.0 - 1e-9 <= row["alpha"] <= 3.0 + 1e-9 for row in near.table)
    one = tune(
        KernelRidge(RBF(0.5), 0.3), X, Y, fixed=["alpha", "length_scale"], criterion=criterion
    )
    assert len(one.table) == 1 and one.converged and "nothing was left" in one.message


@pytest.mark.parametrize("criterion", ["loo", "evidence"])
def test_held_penalties_end_where_the_slope_is_zero(criterion):
    best = tune(KernelRidge(RBF(), 0.3), X, Y, over="length_scale", criterion=criterion)
    for factor in (0.9, 1.1):
        other = KernelRidge(RBF(factor * best.params["kernel__length_scale"]), 0.3)
        one = tune(other, X, Y, fixed=["alpha", "length_scale"], criterion=criterion)
        assert one.score > best.score


@pytest.mark.parametrize("criterion", ["loo", "evidence", "cv"])
def test_choices_are_all_tried(criterion):
    over = {"length_scale": [0.2, 0.5, 2.0], "alpha": [0.01, 0.1]}
    result = tune(KernelRidge(RBF(0.7), 0.3), X, Y, over=over, criterion=criterion)
    pairs = [(s, a) for s in over["length_scale"] for a in over["alpha"]]
    by_hand = [
        tune(
            KernelRidge(RBF(s), a), X, Y, fixed=["length_scale", "alpha"], criterion=criterion
        ).score
        for s, a in pairs
    ]
    assert result.score == pytest.approx(min(by_hand), rel=1e-9)
    best = pairs[int(np.argmin(by_hand))]
    assert (result.model.kernel_.length_scale, result.model.alpha) == pytest.approx(best)
    assert len(result.table) == 6
    again = KernelRidge().set_params(**result.params).fit(X, Y)
    np.testing.assert_allclose(again.predict(X), result.predict(X), rtol=1e-9)


@pytest.mark.parametrize("criterion", ["loo", "cv"])
def test_whole_numbers(criterion):
    y = X[:, 0] ** 3 - X[:, 1] + 0.05 * rng.standard_normal(40)
    for over in (["degree", "alpha"], {"kernel__degree": (1, 4), "alpha": None}):
        result = tune(KernelRidge(Polynomial(2)), X, y, over=over, criterion=criterion)
        assert result.model.kernel_.degree == 3 and result.params["kernel__degree"] == 3
        assert all(
            type(d) is int for d in {r.get("degree", r.get("kernel__degree")) for r in result.table}
        )


@pytest.mark.parametrize("criterion", ["loo", "evidence", "cv"])
def test_a_list_of_kernels(criterion):
    over = {"kernel": ["linear", RBF("median"), Matern("median")], "alpha": None}
    result = tune(KernelRidge(), X, Y, over=over, criterion=criterion)
    each = [
        tune(KernelRidge(k), X, Y, over=["kernel", "alpha"], criterion=criterion)
        for k in over["kernel"]
    ]
    best = min(each, key=lambda r: r.score)
    assert result.score == best.score and result.model.kernel_ == best.model.kernel_
    assert len(result.table) == sum(len(r.table) for r in each)
    assert {row["kernel"] for row in result.table} >= {"linear"}
    again = KernelRidge().set_params(**result.params).fit(X, Y)
    np.testing.assert_allclose(again.predict(X), result.predict(X), rtol=1e-9)


def test_support_vectors_over():
    only = tune(SVC(RBF(0.7)), P, L, over=["C"])
    same = tune(SVC(RBF(0.7)), P, L, fixed=["length_scale"])
    assert only.params == same.params and only.table == same.table
    scale = tune(SVC(C=3.0), P, L, over=["length_scale"])
    assert scale.params["C"] == 3.0
    near = tune(SVC(), P, L, over={"C": (2.0, 5.0), "length_scale": None})
    assert all(2.0 <= row["C"] <= 5.0 for row in near.table)
    both = tune(SVR(RBF()), X, Y, over=["epsilon", "C"], max_iter=5)
    assert {"epsilon", "C"} <= set(both.params) and both.model.epsilon == both.params["epsilon"]
    listed = tune(SVC(RBF(0.7)), P, L, over={"C": [1.0, 7.0], "class_weight": [None, "balanced"]})
    assert len(listed.table) == 4 and listed.params["C"] in (1.0, 7.0)


def test_a_kernel_with_kernel_in_its_names():
    kernel = RBF(0.5).on([0]) + Linear()
    assert "k1__kernel__length_scale" in kernel.theta_names
    held = tune(KernelRidge(RBF(0.5).on([0])), X, Y, over=["alpha"])
    assert held.model.kernel_.kernel.length_scale == 0.5
    for name in ("kernel__length_scale", "kernel__kernel__length_scale"):
        free = tune(KernelRidge(RBF(0.5).on([0])), X, Y, over=[name], max_iter=3)
        assert free.model.kernel_.kernel.length_scale != 0.5


def test_tables():
    table = {"a": X[:, 0], "b": X[:, 1]}
    free = tune(TableRegressor("rbf", alpha=0.2), table, Y, over=["length_scale"])
    assert free.model.alpha == 0.2
    scored = tune(
        TableRegressor("rbf"), table, 10 * Y, criterion="cv", scoring="neg_mean_absolute_error"
    )
    plain = tune(TableRegressor("rbf"), table, Y, criterion="cv", scoring="neg_mean_absolute_error")
    assert scored.score == pytest.approx(10 * plain.score, rel=1e-6)
    assert scored.criterion == "held-out mean absolute error"
    svc = tune(TableClassifier(model="svc"), table, L[:40], over={"C": (1.0, 2.0)}, max_iter=2)
    assert 1.0 <= svc.model.C <= 2.0
    kernels = tune(TableRegressor(), table, Y, over={"kernel": ["rbf", "linear"], "alpha": None})
    assert kernels.model.predict(table).shape == (40,)


def test_no_search_changes_the_model_or_the_data():
    model, points, y = KernelRidge(RBF("median"), 0.5), X.copy(), Y.copy()
    points.flags.writeable = y.flags.writeable = False
    for criterion in ("loo", "evidence", "cv"):
        tune(model, points, y, over={"alpha": [0.1, 1.0]}, criterion=criterion)
    tune(SVC(), points, y > 0, scoring="balanced_accuracy", max_iter=1)
    assert model.kernel == RBF("median") and model.alpha == 0.5 and not hasattr(model, "kernel_")


# --------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    "options, words",
    [
        ({"over": ["width"]}, "no parameter 'width'.*'length_scale', 'alpha'"),
        ({"over": ["kernel__width"]}, "no parameter 'kernel__width'"),
        ({"over": ["fit_intercept"]}, "no usual range"),
        ({"over": []}, "give names"),
        ({"over": 3}, "give names"),
        ({"over": [3]}, "give names"),
        ({"over": {"alpha": 3.0}}, r"over\['alpha'\]"),
        ({"over": {"alpha": (3.0, 1.0)}}, "low"),
        ({"over": {"alpha": []}}, r"over\['alpha'\]"),
        ({"over": ["alpha"], "bounds": {"length_scale": (1.0, 2.0)}}, "is not tuned; add it"),
        ({"over": ["alpha"], "fixed": ["width"]}, "no parameter 'width'"),
        ({"criterion": "aic"}, "'loo' and 'evidence' and 'cv'"),
        ({"criterion": "cv", "cv": 1}, "2 folds"),
        ({"criterion": "cv", "cv": 99}, "2 folds"),
        ({"criterion": "cv", "cv": "five"}, "cv='five'"),
        ({"criterion": "cv", "cv": True}, "cv=True"),
        ({"criterion": "cv", "scoring": "nonsense"}, "scoring"),
        ({"fixed": ["width"]}, "'length_scale', 'alpha'"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(InvalidInput, match=words):
        tune(KernelRidge(), X, Y, **options)


def test_a_word_for_alpha_cannot_be_held():
    for alpha in ("loo", [0.1, 0.2], 0.0):
        with pytest.raises(InvalidInput, match="cannot be held"):
            tune(KernelRidge(RBF(), alpha), X, np.c_[Y, Y], over=["length_scale"])
    for criterion in ("loo", "cv"):
        assert tune(KernelRidge(RBF(), "loo"), X, Y, criterion=criterion).params["alpha"] > 0


def test_positions_need_all_rows():
    folds = [(np.arange(20), np.arange(20, 40)), (np.arange(20, 40), np.arange(20))]
    assert tune(KernelRidge(), X, Y, criterion="cv", cv=folds).n_points == 40
    with pytest.raises(InvalidInput, match="positions among 40"):
        tune(KernelRidge(), X, Y, criterion="cv", cv=folds, max_points=30)


# ------------------------------------------------------------------------------------------ parts
def test_reading_over():
    assert read_over(None) is None and read_over("C") == {"C": None}
    assert read_over(("a", "b")) == {"a": None, "b": None}
    assert read_over({"a": np.array([1.0, 2.0]), "b": (1, 2)}) == {"a": [1.0, 2.0], "b": (1, 2)}


def test_values_beside_one():
    number = Axis("C", (1.0,), (0.5, 1.5))
    assert number.near(1.0, np.log(2)) == [1.5, 0.5]
    assert number.near(1.5, np.log(2)) == [0.75]
    whole = Axis("k", (1,), (1, 9), "whole")
    assert whole.near(5, 0.01) == [6, 4] and whole.near(1, 0.5) == [2] and whole.near(9, 9.0) == [1]
    assert Axis("w", ("a", "b", None), kind="choice").near(None, 1.0) == ["a", "b"]


def test_plan_of_a_ridge_model():
    units = Units(2.0, 1.0, 40)
    plan = make_plan(KernelRidge(), RBF([1.0, 2.0]), units, {"length_scale[1]": (3.0, 4.0)})
    np.testing.assert_allclose(np.exp(plan.box), [[1, 1], [3, 4]])
    assert plan.fixed == ["length_scale[0]", "alpha"] and plan.axes == ()
    everything = make_plan(KernelRidge(), RBF(), units, None, fixed=["length_scale", "alpha"])
    assert everything.empty
    cases, rest = split_choices(KernelRidge(Polynomial(2)), {"degree": (1, 3), "alpha": None}, True)
    assert [c["kernel__degree"] for c in cases] == [1, 2, 3] and rest == {"alpha": None}
    cases, rest = split_choices(KernelRidge(Polynomial(2)), {"degree": (1, 3)}, False)
    assert cases == [{}] and rest == {"degree": (1, 3)}


def test_classifier_labels_of_any_kind_are_scored():
    names = np.array(["no", "yes"])[L]
    result = tune(KernelRidgeClassifier(), P, names, criterion="cv")
    assert result.score < 0.2 and set(result.predict(P)) == {"no", "yes"}
    assert tune(KernelRidgeClassifier(), P, L == 1, criterion="cv").score == result.score
