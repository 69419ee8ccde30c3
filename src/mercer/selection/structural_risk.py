"""Structural risk minimisation: of nested models the one with the best guarantee, or score."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone, is_classifier
from sklearn.utils.multiclass import type_of_target

from mercer import state
from mercer.domains import to_host
from mercer.errors import InvalidInput, speaks, users_level
from mercer.estimator import TakesKernel, check_targets, check_weights, r_squared
from mercer.kernels import Constant, Kernel, Linear, Polynomial, Power, Product, Sum
from mercer.lapack import heard
from mercer.memory import require_memory, row_blocks
from mercer.models import SVC, KernelLogisticRegression, KernelRidge
from mercer.selection.criteria import (
    Unbounded,
    degrees_of_freedom,
    evidence,
    information_criteria,
    regression_bound,
    risk_bound,
)
from mercer.solvers import column_norms

# ---- Least squares in the features of a kernel, to rounding, whatever the units of the data ----
# A penalty, however small, and normal equations, which square the condition of the features, both
# lose directions that matter when columns are far from 0 (years, prices). Here the features are
# scaled to length one and solved by their singular values. Where a shift of the points leaves the
# functions the same set, as for polynomials up to a degree, the points are first moved to [−1, 1].


# Columns this many half-ranges from 0, or so many times as wide as others, want to be scaled.
FAR, WIDE = 10.0, 1e3


class FeatureLeastSquares(TakesKernel, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Weighted least squares in the finite features of a kernel: what `srm` makes of a kernel.

    Minimises Σᵢ wᵢ(yᵢ − vᵀφ(xᵢ))² without a penalty; of several minima the one of least length,
    in units of the lengths of the features.

    Parameters
    ----------
    kernel : Kernel or str
        A kernel with finite features.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel with words resolved.
    rank_ : int
        How many features are independent on the training rows.
    weights_ : array of shape (D,) or (D, n_outputs)
        Weights of the features of (x − ``shift_``)/``scale_``.
    shift_, scale_ : array of shape (d,), or None
        The middle of each column and half of its range; None where the kernel does not allow it.
    """

    _state = state.worded(
        {
            "kernel_": state.Anything(),
            "rank_": state.Anything(),
            "weights_": state.Floats(...),
            "shift_": state.Maybe(state.Array("d")),
            "scale_": state.Maybe(state.Array("d")),
            **state.INPUTS,
        },
        state.MISFIT,
        lacks=state.MISFIT,
    )
    _rules = ((state.MISFIT, lambda model: (model.shift_ is None) == (model.scale_ is None)),)

    rank_: int
    weights_: np.ndarray
    shift_: np.ndarray | None
    scale_: np.ndarray | None

    score = r_squared

    def __init__(self, kernel: Any):
        self.kernel = kernel

    @speaks("srm")
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : collection of n points
            What the kernel accepts.
        y : array of shape (n,) or (n, n_outputs)
            Targets.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out.
        """
        with self._all_or_nothing(X):
            kernel = self._kernel()
            X = self._check_X(X, kernel, reset=True)
            n = kernel.domain.size(X)
            T = check_targets(y, n)
            w = check_weights(sample_weight, n)
            self.kernel_ = kernel.fit_params(X, w)
            if w is not None:
                kept = np.flatnonzero(w)
                X, T, w = kernel.domain.take(X, kept), T[kept], w[kept]
            self.shift_, self.scale_ = _middle(X) if _shifts(self.kernel_) else (None, None)
            root = np.ones(len(T)) if w is None else np.sqrt(w)
            A = root[:, None] * self._features(X)
            lengths = column_norms(A)
            lengths[lengths == 0] = 1.0
            U, s, Vt = heard(np.linalg.svd, A / lengths, full_matrices=False)
            kept = s > max(A.shape) * np.finfo(float).eps * s.max(initial=0.0)
            self.rank_ = int(kept.sum())
            t = (root * T.T).T
            inner = (U.T @ t)[kept]
            self.weights_ = ((Vt[kept].T / lengths[:, None]) / s[kept]) @ inner
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return f(x) for each row of X.

        Parameters
        ----------
        X : collection of points
            New points.
        """
        X = self._check_new(X)
        domain = self.kernel_.domain
        tiles = row_blocks(domain.size(X), 32 * len(self.weights_))
        parts = [self._features(domain.take(X, rows)) @ self.weights_ for rows in tiles]
        return self._finite(np.concatenate(parts))

    def degrees_of_freedom(self) -> Any:
        """Return the number of independent features, for each output."""
        outputs = self.weights_.shape[1:]
        return np.full(outputs, float(self.rank_)) if outputs else float(self.rank_)

    def _features(self, X: Any) -> np.ndarray:
        n, D = self.kernel_.domain.size(X), self.kernel_._n_features(X)
        require_memory(
            32 * n * (D or 1), f"srm: the {n} × {D} features of {self.kernel_}", "Use fewer rows"
        )
        with np.errstate(over="ignore", invalid="ignore"):
            if self.shift_ is not None:
                X = (X - self.shift_) / self.scale_
            Phi = self.kernel_._features(X)
        Phi = Phi.toarray() if sp.issparse(Phi) else np.asarray(Phi, dtype=float)
        if not np.isfinite(Phi).all():
            i = int(np.argmin(np.isfinite(Phi).all(axis=1)))
            raise InvalidInput(
                f"srm: {self.kernel_} overflows at row {i} of X; scale the columns, for example "
                "with sklearn.preprocessing.StandardScaler."
            )
        return Phi


def has_constant(kernel: Kernel) -> bool:
    """Whether constants are known to be linear functions of the features."""
    if isinstance(kernel, Sum):
        return any(map(has_constant, kernel._kernels()))
    if isinstance(kernel, Product | Power):
        return all(map(has_constant, kernel._kernels()))
    size = {Polynomial: "offset", Constant: "value"}.get(type(kernel))
    return size is not None and bool(getattr(kernel, size) > 0)


def _shifts(kernel: Kernel) -> bool:
    """Whether f(Ax + b) is in the span of the features for every f in it, A diagonal."""
    parts = kernel._kernels()
    if isinstance(kernel, Sum):  # a shift of a linear function is that function and a constant
        others = [part for part in parts if not isinstance(part, Linear)]
        return has_constant(kernel) and all(map(_shifts, others))
    if isinstance(kernel, Product | Power):
        return all(map(_shifts, parts))
    return has_constant(kernel)


def out_of_scale(kernel: Kernel, X: Any) -> bool:
    """Whether a penalty on the features of a kernel weighs them by the units of the columns.

    Parameters
    ----------
    kernel : Kernel
        Any kernel; only of sums and products of polynomials is it known.
    X : collection of points
        What the kernel accepts.
    """
    if not (_shifts(kernel) or isinstance(kernel, Linear | Polynomial)):
        return False
    middle, half = _middle(kernel.domain.check(X))
    if middle is None or half is None:
        return False
    return bool((np.abs(middle) > FAR * half).any() or half.max() > WIDE * half.min())


def _middle(X: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the middle and half the range of every column; of sparse rows only None."""
    if sp.issparse(X) or not isinstance(X, np.ndarray) or X.ndim != 2:
        return None, None
    low, high = X.min(axis=0) / 2, X.max(axis=0) / 2
    half = high - low
    return low + high, np.where(half > 0, half, np.maximum(np.abs(high), 1.0))


# ---- srm nested ----


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
    one = one or not isinstance(models, Iterable)
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


@speaks("srm")
def _holds_labels(y: Any, task: str) -> bool:
    """Whether kernels are to tell classes; NaN in y is refused with its row."""
    if task not in TASKS:
        raise InvalidInput(f"srm: task={task!r}; give one of {', '.join(TASKS)}.")
    try:
        values = np.asarray(to_host(y))
    except ValueError as error:
        raise InvalidInput(f"srm: y cannot be read as an array ({error}).") from None
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        check_targets(values, len(values))
    if task != "auto":
        return task == "classification"
    if values.dtype.kind in "fiu" and values.size and (values == values.flat[0]).all():
        return False  # one number only: no classes to be told apart
    try:
        with np.errstate(invalid="ignore"):  # it casts large numbers to whole ones
            return type_of_target(values, input_name="y") in ("binary", "multiclass")
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"srm: y holds neither numbers nor labels ({error}).") from None


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
            stacklevel=users_level(),
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


@speaks("srm")
def _risk(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[float, float]:
    """Return the error share or the mean squared error on the rows, and their number."""
    values = np.asarray(model.predict(X))
    w = check_weights(sample_weight, len(values))
    w = np.ones(len(values)) if w is None else w
    if is_classifier(model):
        losses = (values != np.asarray(y).reshape(-1)).astype(float)
    else:
        misses = check_targets(y, len(values)) - values
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
        what = f"{kernel}" if kernel is not None else f"a {type(model).__name__}"
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
        if np.ndim(given) != 1 or len(given) != k:
            raise InvalidInput(
                f"srm: {name} has {np.size(given)} entries for {k} models; give one each."
            )
        return [("vc_dimension" if name == "vc_dimensions" else name, v) for v in given]
    return [None] * k
