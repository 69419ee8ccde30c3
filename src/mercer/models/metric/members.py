"""The models that are members of a feature machine, of each loss, and what they say of classes."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import log_expit

from mercer.estimator import computing_where
from mercer.models.margin import SVC
from mercer.models.metric.learning import HINGE, LOGISTIC, SQUARED, EncodedRows, Metric, solver_for
from mercer.models.metric.scores import numbers_of
from mercer.models.metric.stacking import LogPool, log_loss, two_columns
from mercer.models.ridge import KernelRidge
from mercer.models.risk import KernelLogisticRegression

STEEP = 4.0  # slope at which the function of a pair becomes a probability


def fitted(
    metric: Metric,
    rows: EncodedRows,
    labels: np.ndarray | None,
    loss: str,
    tol: float | None = None,
    max_time: float | None = None,
) -> Any:
    """Return the model of a loss in a metric; in the span of centres where rows are many.

    A ridge regression, and what is fitted in the span of centres, is computed where the tensor is
    that the rows came in; other losses have no exact form on a device. What iterates ends after
    `max_time` seconds, whether it has converged or not.
    """
    how: dict[str, Any] = {} if tol is None else {"tol": tol}
    how |= {} if max_time is None else {"max_time": max_time}
    there, target = rows.like, labels
    if loss == SQUARED:
        how |= rows.how or solver_for(len(rows), there)
        model: Any = KernelRidge(metric.kernel, alpha=metric.alpha, fit_intercept=True, **how)
        target = rows.T[:, 0] if rows.T.shape[1] == 1 else rows.T
    elif loss == HINGE:
        there = None
        model = SVC(metric.kernel, C=1 / metric.alpha, decision_function_shape="ovo", **how)
    else:
        given = rows.how or {}
        centres = given if "n_centers" in given else solver_for(len(rows))
        there = there if centres else None
        model = KernelLogisticRegression(metric.kernel, alpha=metric.alpha, **centres, **how)
    with computing_where(there):
        return model.fit(rows.Z, target, rows.w)


def class_values(model: Any, Z: np.ndarray | None, classes: int) -> np.ndarray:
    """Return a column of values for each class, one for two; of classes it has not seen, little.

    Without rows they are those of its own rows, each left out.
    """
    if isinstance(model, KernelRidge):
        found = np.asarray(model.predict(Z))
        return found.reshape(len(found), -1)
    values = model.loo_decision_function() if Z is None else model.decision_function(Z)
    values = np.asarray(values).reshape(len(values), -1)
    if isinstance(model, SVC) and classes > 2:
        seen = len(model.classes_)
        values = of_pairs(values if seen > 2 else -values, seen)  # of two, positive for the second
    values = two_columns(values)
    out = np.full((len(values), classes), values.min(axis=1, keepdims=True) - 3.0)
    out[:, model.classes_] = values
    return out[:, 1:] - out[:, :1] if classes == 2 else out


def of_pairs(values: np.ndarray, classes: int) -> np.ndarray:
    """Return Σ log σ(s f) of each class over its pairs, from functions positive for the first.

    That is the logarithm of a product of probabilities, one for each pair.
    """
    out = np.zeros((len(values), classes))
    for f, (i, j) in zip(STEEP * values.T, combinations(range(classes), 2), strict=True):
        out[:, i] += log_expit(f)
        out[:, j] += log_expit(-f)
    return out


def error_of(loss: str, values: np.ndarray, labels: np.ndarray, w: np.ndarray | None) -> float:
    """Return the log loss of what members say of rows, of margins and ridges once calibrated."""
    if loss == LOGISTIC:
        return log_loss(_softmax(values), labels, w)
    return log_loss(LogPool.of([values], labels, w, 1)([values]), labels, w)


def _softmax(values: np.ndarray) -> np.ndarray:
    scores = two_columns(values)
    P = np.exp(scores - scores.max(axis=1, keepdims=True))
    return P / P.sum(axis=1, keepdims=True)


# ---- What is known of the members of a machine ----


def width_of(machine: Any) -> int:
    """Return how many encoded columns a machine reads."""
    return len(numbers_of(machine.encoder_))


def fits_its_members(machine: Any) -> bool:
    """Whether members are as many as are told of, read encoded rows and say what is pooled."""
    members, classes = machine.members_, len(vars(machine).get("classes_", ()))
    outputs = (classes if classes > 2 else 1) if classes else len(machine.y_mean_)
    told = (machine.weights_, machine.views_, machine.ways_)
    return all(len(each) == len(members) for each in told) and all(
        member.n_features_in_ == width_of(machine)
        and _says(member, outputs, classes)
        and (hasattr(member.kernel_, "matrix") or hasattr(member.kernel_, "length_scale"))
        for member in members
    )


def fitted_rows(machine: Any) -> tuple[int, int]:
    """Return how many rows its members were fitted on, and how many centres, if any, they keep."""
    known = [member for member in machine.members_ if "n_rows_" in vars(member)]
    rows = max([len(machine.left_out_), *(member.n_rows_ for member in known)])
    kept = min((len(member.X_fit_) for member in known), default=rows)
    return rows, kept if known and kept < min(member.n_rows_ for member in known) else 0


def _says(member: Any, outputs: int, classes: int) -> bool:
    if type(member) is KernelRidge:
        return member.dual_coef_.shape[1:] == (() if outputs == 1 else (outputs,))
    codes = np.asarray(member.classes_)
    known = codes.dtype.kind == "i" and codes.min() >= 0 and codes.max() < classes
    if type(member) is SVC:
        return known and member.decision_function_shape == member.multi_class == "ovo"
    return type(member) is KernelLogisticRegression and known
