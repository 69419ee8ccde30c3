"""Fitted margin machines: their functions, values at new points, and what their files must hold."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer import state
from mercer.domains import is_torch, to_host
from mercer.errors import ModelFileError
from mercer.estimator import (
    ONLY,
    Plan,
    Study,
    computing_where,
    is_plain_linear,
    study_of,
)
from mercer.models.margin.problems import n_tasks, pair_columns
from mercer.operators import gram_of, product_at
from mercer.rkhs import Function, feature_values, linear_weights, sums_of_features
from mercer.solvers.box import rows_kept, smo_cost

FEATURES = 4  # times fewer features than support vectors make the primal weights worth using
BY_CLASS = 5  # classes from which pairs are evaluated class by class: fewer products


def is_margin(model: Any) -> bool:
    """Whether a model is a margin machine; such a one keeps its support vectors only."""
    return "support_kind_" in getattr(model, "_learned", ())


# ---- answers ----


def has_pairs(model: Any) -> bool:
    """Whether the machines are those of pairs of classes; the layout tells."""
    classes = len(vars(model).get("classes_", ()))
    return classes > 2 and model.dual_coef_.shape[0] == classes - 1


def columns_of(model: Any) -> np.ndarray:
    """Return the coefficients of the functions, shape (n_SV, problems), from `dual_coef_`."""
    if not has_pairs(model):
        return np.ascontiguousarray(model.dual_coef_.T)
    k = len(model.classes_)
    return pair_columns(model.dual_coef_, np.repeat(np.arange(k), model.n_support_), k)


def function_of(model: Any) -> Function:
    """The solution as a function in the RKHS (plus its offset), over the support vectors."""
    check_is_fitted(model)
    coef, offset = columns_of(model), model.intercept_
    if coef.shape[1] == 1:
        return Function(model.kernel_, model.support_vectors_, coef[:, 0], float(offset[0]))
    return Function(model.kernel_, model.support_vectors_, coef, offset)


def weights_of_columns(model: Any) -> np.ndarray:
    """The weights of the columns, shape (problems, columns); of the linear kernel only."""
    check_is_fitted(model)
    if not is_plain_linear(model.kernel_):
        raise AttributeError(
            f"{type(model).__name__}: coef_ exists for the linear kernel only, not for "
            f"{model.kernel_}; function_ is the solution for any kernel."
        )
    if isinstance(model.support_vectors_, np.ndarray):
        return linear_weights(model.support_vectors_, columns_of(model)).T.copy()
    return np.asarray(model.support_vectors_.T @ columns_of(model)).T.copy()


def machine_values(model: Any, X: Any) -> np.ndarray:
    """Return f(x) + b for new points, shape (n, problems), in tiles; of a tensor where it is."""
    if is_torch(X):
        with computing_where(X):
            return machine_values(model, to_host(X))
    X = model._check_new(X)
    kernel = model.kernel_
    domain = kernel.domain
    X, points = domain.match(X, model.support_vectors_)
    with np.errstate(over="ignore", invalid="ignore"):
        if not len(model.support_):
            out = np.zeros((domain.size(X), len(model.intercept_)))
        elif (near := _far_out(model, X, points)) is not None:
            out = near
        elif (weights := weights_of_features(model)) is not None:
            out = feature_values(kernel, X, weights)
        else:
            out = _products(model, X, points)
        out = out + model.intercept_
    return model._finite(out)


def _far_out(model: Any, X: Any, points: Any) -> np.ndarray | None:
    """Return the values where those of kernels cancel, as far from the origin; None elsewhere."""
    if is_plain_linear(model.kernel_):
        return None  # by its weights in any case
    return sums_of_features(model.kernel_, points, columns_of(model), X)


def _products(model: Any, X: Any, points: Any) -> np.ndarray:
    kernel = model.kernel_
    if not has_pairs(model) or len(model.classes_) < BY_CLASS:
        return product_at(model, kernel, X, points, columns_of(model))
    # The support vectors of class c have k − 1 coefficients each, not one for every pair.
    k, ends = len(model.classes_), np.cumsum(model.n_support_)
    out = np.zeros((kernel.domain.size(X), k * (k - 1) // 2))
    pair = {both: p for p, both in enumerate(combinations(range(k), 2))}
    for c, (start, stop) in enumerate(zip(ends - model.n_support_, ends, strict=True)):
        if start == stop:
            continue
        mine = kernel.domain.take(points, slice(int(start), int(stop)))
        part = gram_of(kernel, X, mine) @ np.ascontiguousarray(model.dual_coef_[:, start:stop].T)
        for j in range(k):
            if j != c:
                out[:, pair[min(c, j), max(c, j)]] += part[:, j if j < c else j - 1]
    return out


def weights_of_features(model: Any) -> np.ndarray | None:
    """Return weights of explicit features, where those are much fewer than the support."""
    X = model.support_vectors_
    if is_plain_linear(model.kernel_) and isinstance(X, np.ndarray):
        return linear_weights(X, columns_of(model))
    D = model.kernel_._n_features(X)
    if D is None or FEATURES * D > len(model.support_):
        return None
    return np.asarray(model.kernel_._features(X).T @ columns_of(model))


# ---- files ----


def n_problems(model: Any) -> int:
    """Return how many problems a fitted model has solved, by its classes and its layout."""
    if "classes_" not in model._learned:
        return 1
    k = len(model.classes_)
    return n_tasks(k, "ovo" if np.shape(model.dual_coef_)[0] == k - 1 else "ovr")


def _n_rows(model: Any) -> int:
    """Return how many rows `dual_coef_` has: one for each class but one, or one for each class."""
    k = len(model.classes_) if "classes_" in model._learned else 2
    return k if 2 < k == np.shape(model.dual_coef_)[0] else k - 1


def _keeps_points(model: Any) -> bool:
    points, count = model.support_vectors_, vars(model).get("n_features_in_")
    if model.kernel_.domain.may_keep(points, count):
        return True
    if np.ndim(points) == 2:
        width, owner = points.shape[1], type(model).__name__
        raise ModelFileError(f"a {owner} of {count} columns keeps points of {width}")
    return False


def _has_targets(model: Any) -> bool:
    y = vars(model).get("y_fit_")
    return y is None or len(y) > np.max(model.support_, initial=-1)


NO_TARGETS = "the targets of a {} do not fit its support vectors"

#: What every margin machine learns.
MACHINE: state.State = {
    "kernel_": state.Anything(),
    "support_vectors_": state.Points("m", kept=False),
    "support_": state.Array("m"),
    "support_kind_": state.Array("m"),
    "dual_coef_": state.Floats(_n_rows, "m"),
    "intercept_": state.Floats(n_problems),
    **state.others("n_support_", "n_iter_", "solution_", needed=True),
    **state.INPUTS,
}
#: What those keep of their targets that can go on from them.
TARGETS: state.State = {
    "y_fit_": state.Spare(state.Floats("n", kind="if", says=NO_TARGETS)),
    "weights_fit_": state.Spare(state.Array("n", least=0, says=NO_TARGETS)),
}
RULES: tuple[state.Rule, ...] = (
    (NO_TARGETS, _has_targets),
    ("a {} keeps positions of training points out of range", _keeps_points),
)


# ---- plans ----


def plan_machine(model: Any, X: Any, y: Any) -> Plan:
    """Return the plan of a machine; of a tube with two multipliers a point."""
    return plan_box(study_of(model, X, y), 4 if hasattr(model, "epsilon") else 1)


def plan_box(study: Study, multipliers: int = 1) -> Plan:
    """Return the plan of a box problem: rows of the matrix, kept as far as they fit."""
    facts, rows = study.facts, rows_kept(study.facts)
    how = "All rows of the matrix are kept."
    if rows < facts.n:
        how = f"{rows} of {facts.n} rows of the matrix are kept; others are computed again."
    pairs = facts.outputs * (facts.outputs - 1) // 2
    many = f" {pairs} pairs of classes share them." if pairs > 1 else ""
    cost = smo_cost(facts, study.rates, study.sketch, multipliers=multipliers)
    return replace(study.plan("smo", cost), why=f"{ONLY} {how}{many}")
