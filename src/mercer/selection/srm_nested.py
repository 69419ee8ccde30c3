"""Structural risk minimisation: of nested models the one with the best guarantee, or score."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.multiclass import type_of_target

from mercer.domains.vectors import to_host
from mercer.errors import InvalidInput
from mercer.estimator.base import check_targets, check_weights
from mercer.kernels import Kernel
from mercer.models import SVC, KernelLogisticRegression, KernelRidge
from mercer.selection.bounds import regression_bound, risk_bound
from mercer.selection.criteria import Unbounded, degrees_of_freedom, information_criteria
from mercer.selection.evidence_linear import evidence
from mercer.selection.srm_least_squares import FeatureLeastSquares, has_constant, out_of_scale

__all__ = ["SRMResult", "srm"]

CRITERIA = ("bound", "bic", "evidence")
TASKS = ("auto", "regression", "classification")
# Interpolation in all but name: the penalty of a kernel of infinite features, in units of trace K.
HARDLY = 1e-12
# The price of an error of a kernel given without a model, in units of 1/mean k(x, x).
PRICE = 100.0
# The penalty of logistic regression for a kernel given without a model, in units of mean k(x, x).
SMALL = 1e-5


@dataclass(frozen=True, repr=False, eq=False)
class SRMResult:
    """What `srm` found.

    Attributes
    ----------
    best_index_ : int
        Which model was chosen; of equals the first, which is the simplest.
    best_estimator_ : estimator
        It, fitted on all rows.
    table : list of dict
        One row a model: ``model``, ``risk`` on the training rows, ``parameters`` and ``score``.
    criterion : str
        What the score is.
    scores : array
        The scores; of bounds the least was chosen, of others the largest.
    bounds : array
        The same, when they are bounds.
    """

    best_index_: int
    best_estimator_: Any
    table: list[dict[str, Any]]
    criterion: str

    @property
    def scores(self) -> np.ndarray:
        """The score of every model."""
        return np.array([row["score"] for row in self.table])

    @property
    def bounds(self) -> np.ndarray:
        """The bound on the risk of every model."""
        if self.criterion != "bound":
            raise AttributeError(f"criterion={self.criterion!r} gives scores, not bounds")
        return self.scores

    def predict(self, X: Any) -> np.ndarray:
        """Return the predictions of the chosen model.

        Parameters
        ----------
        X : collection of points
            New points.
        """
        return self.best_estimator_.predict(X)

    def __repr__(self) -> str:
        lines = [f"{'risk':>12} {'parameters':>11} {self.criterion:>12}"]
        for i, row in enumerate(self.table):
            mark = "  <- chosen" if i == self.best_index_ else ""
            lines.append(
                f"{row['risk']:12.4g} {row['parameters']:11.4g} {row['score']:12.4g}"
                f"  {row['model']}{mark}"
            )
        return "\n".join(lines)


def srm(
    models: Iterable[Any],
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    criterion: str = "bound",
    confidence: float | None = None,
    n_functions: Sequence[float] | None = None,
    vc_dimensions: Sequence[float] | None = None,
    noise_variance: float | None = None,
    prior_variance: Any = 1.0,
    task: str = "auto",
) -> SRMResult:
    """Fit nested models, simplest first, and take the one with the best guarantee.

    A richer model fits the training rows better, and its fit says less about new ones. For
    ``criterion="bound"`` both are added: for two classes the training error and the penalty of
    `risk_bound`, for numbers `regression_bound` of the mean squared error. The VC dimension of
    functions that are linear in D features is D, with an offset D + 1 unless a constant is among
    the features, as in polynomials. Each bound holds with the
    confidence asked for; all k of them with 1 − kδ.

    ``criterion="bic"`` takes the largest `bic`, where the degrees of freedom are paid for. A model
    that leaves less than a row over is out, unless the noise is known. ``criterion="evidence"``
    takes the largest log `evidence` of the features with the noise and prior given; the model is
    fitted as it is.

    Parameters
    ----------
    models : sequence of estimators or kernels
        For example ``[Polynomial(m) for m in range(1, 6)]``. Where y holds numbers a kernel stands
        for least squares in its features, without a penalty, in any units; one with infinitely
        many features for `KernelRidge` that interpolates. Where y holds labels it stands for `SVC`
        with a high price of errors, for the bic `KernelLogisticRegression` with a small penalty:
        scale the columns for these.
    X, y : data
        Training rows.
    sample_weight : array of shape (n,), optional
        Weights; a weight of 2 is the row given twice.
    criterion : {"bound", "bic", "evidence"}, default="bound"
        What decides.
    confidence : float, optional
        1 − δ of the bound; 0.95 for classes, see `regression_bound` for numbers.
    n_functions : sequence of float, optional
        How many functions each model has to choose from, when that is finite; for classes.
    vc_dimensions : sequence of float, optional
        The VC dimension of each model, where its kernel has no finite features.
    noise_variance : float, optional
        The variance of the noise of y; needed for the evidence.
    prior_variance : float or array, default=1.0
        Of the weights, for the evidence.
    task : {"auto", "regression", "classification"}, default="auto"
        What kernels are to do. "auto" asks scikit-learn's ``type_of_target``, which takes whole
        numbers, such as counts, for labels.

    Returns
    -------
    SRMResult
        ``best_estimator_``, ``best_index_``, ``scores`` and a ``table``.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Polynomial, srm
    >>> x = np.linspace(-2, 2, 10)[:, None]
    >>> y = 4 * x[:, 0] ** 2 - 2 * x[:, 0] + 3 + np.random.default_rng(0).standard_normal(10)
    >>> srm([Polynomial(m) for m in range(1, 4)], x, y)
            risk  parameters        bound
           29.17           2        144.5  Polynomial(degree=1, offset=1.0)
          0.3754           3        3.157  Polynomial(degree=2, offset=1.0)  <- chosen
          0.2366           4        3.877  Polynomial(degree=3, offset=1.0)
    """
    if criterion not in CRITERIA:
        raise InvalidInput(f"srm: criterion={criterion!r}; give one of {', '.join(CRITERIA)}.")
    one = isinstance(models, Kernel | str) or hasattr(models, "fit")
    models = [] if one else list(models)
    if not models:
        raise InvalidInput("srm: give a list of models or kernels, the simplest first.")
    sizes = _sizes(len(models), n_functions, vc_dimensions)
    labels = _holds_labels(y, task)
    table, fitted = [], []
    for i, model in enumerate(models):
        fit = _fitted(_model(model, X, labels, criterion), X, y, sample_weight)
        fitted.append(fit)
        risk, n = _risk(fit, X, y, sample_weight)
        if criterion == "bound":
            count, score = _bound(fit, X, y, risk, n, confidence, sizes[i])
        elif criterion == "bic":
            count, score = _bic(fit, X, y, sample_weight, noise_variance)
        else:
            count, score = _evidence(fit, X, y, sample_weight, noise_variance, prior_variance)
        table.append({"model": model, "risk": risk, "parameters": count, "score": score})
    scores = np.array([row["score"] for row in table])
    best = int(np.argmin(scores) if criterion == "bound" else np.argmax(scores))
    if not np.isfinite(scores[best]):
        raise InvalidInput(
            f"srm: no model has a finite {criterion}: all have too many parameters for the rows. "
            "Give simpler models, more rows"
            + (", or noise_variance." if criterion == "bic" else ".")
        )
    return SRMResult(best, fitted[best], table, criterion)


def _holds_labels(y: Any, task: str) -> bool:
    """Whether kernels are to tell classes; NaN in y is refused with its row."""
    if task not in TASKS:
        raise InvalidInput(f"srm: task={task!r}; give one of {', '.join(TASKS)}.")
    values = np.asarray(to_host(y))
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        check_targets(values, len(values), "srm")
    if task != "auto":
        return task == "classification"
    if values.dtype.kind in "fiu" and values.size and (values == values.flat[0]).all():
        return False  # one number only: no classes to be told apart
    with np.errstate(invalid="ignore"):  # it casts large numbers to whole ones
        return type_of_target(values, input_name="y") in ("binary", "multiclass")


def _model(model: Any, X: Any, labels: bool, criterion: str) -> Any:
    """Return a copy of a model, or the model that a kernel stands for."""
    if not isinstance(model, Kernel):
        if not hasattr(model, "fit"):
            raise InvalidInput(
                f"srm: got a {type(model).__name__}; give kernels, such as Polynomial(2), or "
                "models."
            )
        return clone(model)
    if not labels and model.n_features(X) is not None:
        return FeatureLeastSquares(model)
    diagonal = np.asarray(model.fit_params(X).diag(X), dtype=float)
    mean = float(diagonal.mean()) or 1.0
    if labels and out_of_scale(model, X):
        warnings.warn(
            f"srm: columns of X are far from 0 or of very different sizes, so that the penalty of "
            f"the classifier for {model!r} decides; scale them, for example with "
            "sklearn.preprocessing.StandardScaler.",
            UserWarning,
            stacklevel=3,
        )
    if not labels:
        return KernelRidge(model, alpha=HARDLY * mean * len(diagonal))
    if criterion == "bic":
        return KernelLogisticRegression(model, alpha=SMALL * mean)
    return SVC(model, C=PRICE / mean)


def _fitted(model: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    return (
        model.fit(X, y) if sample_weight is None else model.fit(X, y, sample_weight=sample_weight)
    )


def _risk(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[float, float]:
    """Return the error share or the mean squared error on the rows, and their number."""
    values = np.asarray(model.predict(X))
    w = check_weights(sample_weight, len(values), "srm")
    w = np.ones(len(values)) if w is None else w
    if is_classifier(model):
        losses = (values != np.asarray(y).reshape(-1)).astype(float)
    else:
        misses = check_targets(y, len(values), "srm") - values
        with np.errstate(over="ignore"):
            losses = (misses.reshape(len(misses), -1) ** 2).mean(axis=1)
        if not np.isfinite(losses).all() or (misses.any() and not losses.any()):
            raise InvalidInput(
                f"srm: y is of the order {np.abs(np.asarray(y, dtype=float)).max():.0e}, and its "
                "squares leave the range of numbers; give y in other units."
            )
    return float(np.average(losses, weights=w)), float(w.sum())


def _bound(
    model: Any, X: Any, y: Any, risk: float, n: float, confidence: float | None, size: Any
) -> tuple[float, float]:
    kind, number = size or ("vc_dimension", _dimension(model, X))
    if not is_classifier(model):
        if kind == "n_functions":
            raise InvalidInput(
                "srm: n_functions bounds the risk of classes, and y holds numbers; give "
                "vc_dimensions, or labels."
            )
        return float(number), regression_bound(risk, n, number, confidence=confidence)
    if kind == "vc_dimension" and len(model.classes_) > 2:
        raise InvalidInput(
            f"srm: a VC dimension is that of two classes, and y, taken for labels, has "
            f"{len(model.classes_)}; use criterion='bic', or n_functions.{_perhaps_numbers(y)}"
        )
    confidence = 0.95 if confidence is None else confidence
    return float(number), risk_bound(risk, n, confidence=confidence, **{kind: number})


def _bic(
    model: Any, X: Any, y: Any, sample_weight: Any, noise_variance: float | None
) -> tuple[float, float]:
    try:
        found = information_criteria(model, X, y, sample_weight, noise_variance=noise_variance)
    except Unbounded:
        return degrees_of_freedom(model), -np.inf
    return found.degrees_of_freedom, found.bic


def _evidence(
    model: Any, X: Any, y: Any, sample_weight: Any, noise: float | None, prior: Any
) -> tuple[float, float]:
    kernel = getattr(model, "kernel_", None)
    if noise is None:
        raise InvalidInput(
            "srm: the evidence needs noise_variance, the variance of the noise of y."
        )
    if not isinstance(kernel, Kernel):
        raise InvalidInput(
            f"srm: a {type(model).__name__} has no kernel; the evidence is that of the features "
            "of one. Give kernels, or use criterion='bic'."
        )
    if is_classifier(model):
        raise InvalidInput(
            f"srm: the evidence is that of numbers, and y was taken for labels of "
            f"{len(model.classes_)} classes; use criterion='bound' or 'bic'.{_perhaps_numbers(y)}"
        )
    found = evidence(X, y, noise, prior, kernel=kernel, sample_weight=sample_weight)
    return float(len(found.mean)), found.log_evidence


def _perhaps_numbers(y: Any) -> str:
    """Return what to do where whole numbers that are targets were taken for labels."""
    if np.asarray(y).dtype.kind not in "fiu":
        return ""
    return (
        " If y holds whole numbers that are not classes, such as counts, give task='regression', "
        "or models such as KernelRidge(kernel)."
    )


def _dimension(model: Any, X: Any) -> float:
    """Return the number of features of a model's kernel, and one for an offset."""
    kernel = getattr(model, "kernel_", None)
    if kernel is None:
        weights = getattr(model, "coef_", None)
        D = None if weights is None else np.shape(weights)[-1]
    else:
        D = kernel.n_features(X)
    if D is None:
        what = f"{kernel!r}" if kernel is not None else f"a {type(model).__name__}"
        raise InvalidInput(
            f"srm: {what} has no finite number of features, so its VC dimension is not known; "
            "give vc_dimensions or n_functions, or use criterion='bic'."
        )
    offset = bool(getattr(model, "fit_intercept", False))
    if kernel is not None and has_constant(kernel):
        offset = False  # the features can do what it does
    return float(D + offset)


def _sizes(k: int, n_functions: Any, vc_dimensions: Any) -> list[Any]:
    """Return for each model how its size is called and what it is; None where it is not given."""
    if n_functions is not None and vc_dimensions is not None:
        raise InvalidInput("srm: got both n_functions and vc_dimensions; give one of them.")
    for name, given in (("n_functions", n_functions), ("vc_dimensions", vc_dimensions)):
        if given is None:
            continue
        if len(given) != k:
            raise InvalidInput(
                f"srm: {name} has {len(given)} entries for {k} models; give one each."
            )
        return [("vc_dimension" if name == "vc_dimensions" else name, v) for v in given]
    return [None] * k
