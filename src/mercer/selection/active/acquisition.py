"""What the label of a point would teach a model: the criteria of active learning.

With features v of a point and A = (ΦᵀWΦ + αI)⁻¹, a label at v turns A into A − Avvᵀ A/(1 + vᵀAv).
The trace of A, the squared error of the weights in units of the noise, falls by vᵀAAv/(1 + vᵀAv);
the variance of the prediction at v itself is vᵀAv in the same units.
"""

from __future__ import annotations

from inspect import signature
from numbers import Real
from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from scipy.special import log_ndtr, ndtr
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from mercer.domains import concatenate
from mercer.errors import InvalidInput, speaks
from mercer.estimator import beyond_features
from mercer.lapack import heard
from mercer.losses import Logistic
from mercer.memory import row_blocks
from mercer.models.gp import GaussianProcessClassifier
from mercer.models.gp.regression import ProcessRegressor, require_diagonal
from mercer.models.ridge import LeastSquares, Ridge
from mercer.models.risk import Risk
from mercer.settings import get_config

# ---- vᵀAv and vᵀAAv of a fitted model at new points, from features or from kernel values only ----
# A = (VᵀWV + αJ)⁻¹ with V = Φ and J = I; with an offset V = [Φ 1] and J = diag(I, 0). From
# features, with QR of the stacked [W^½V; (αJ)^½] = QR: vᵀAv = ‖R⁻ᵀv‖² and Av = R⁻¹R⁻ᵀv.
#
# From kernel values, with C = K + αW⁻¹, kₓ = k(X, x), z = C⁻¹kₓ and A₀ the part without offset:
# A₀ = (I − ΦᵀC⁻¹Φ)/α, so that φᵀA₀φ = (k(x, x) − kₓᵀz)/α, and with Kz = kₓ − αW⁻¹z
# ‖A₀φ‖² = (k(x, x) − 2kₓᵀz + zᵀKz)/α² = (k(x, x) − kₓᵀz − α zᵀW⁻¹z)/α².
# An offset adds by block inversion, with g = A₀ΦᵀW1 = ΦᵀC⁻¹1, h = C⁻¹1, the Schur complement
# s = 1ᵀW1 − 1ᵀWΦg = α 1ᵀh and r = (1 − kₓᵀh)/s: A(φ, 1) = (A₀φ − rg, r), hence
# vᵀAv = φᵀA₀φ + s r² and ‖Av‖² = ‖A₀φ‖² − 2r gᵀA₀φ + r²(‖g‖² + 1), where gᵀA₀φ = hᵀW⁻¹z and
# ‖g‖² = 1ᵀh − α hᵀW⁻¹h.
#
# What a point has beyond the features of the labelled ones, such as runs of letters that these do
# not have, is orthogonal to V: A is 1/α there, so its squared length β = k(x, x) − ‖φ(x)‖² adds
# β/α to vᵀAv and β/α² to vᵀAAv.


class WeightCovariance:
    """The two forms at canonical points, for a fitted ridge model or a risk near its solution."""

    def __init__(self, model: Any, weights: np.ndarray | None = None):
        alpha = np.unique(np.asarray(model.alpha_, dtype=float))
        if len(alpha) > 1:
            raise InvalidInput(
                f"active: {type(model).__name__} has a penalty for each output; fit it with one."
            )
        self.kernel, self.offset, self.alpha = model.kernel_, model.fit_intercept_, float(alpha[0])
        self.unit = self.alpha if self.alpha > 0 else 1.0
        weights = model.sample_weight_ if weights is None else weights
        targets = np.zeros((len(model.y_fit_), 1))  # what was measured does not matter
        self.problem = LeastSquares(self.kernel, model.X_fit_, targets, weights, self.offset)
        n = len(self.problem.w)
        D = self.kernel._n_features(self.problem.X)
        self.primal = D is not None and D <= n
        self.width = D if self.primal else n
        if self.primal:
            self._factor_features()
        elif self.alpha > 0:
            self._factor_gram()
        else:
            raise self._undetermined()

    def __call__(self, points: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return vᵀAv and vᵀAAv for every point."""
        with np.errstate(over="ignore", invalid="ignore"):
            once, twice = self._from_features(points) if self.primal else self._from_gram(points)
        return np.maximum(once, 0.0), np.maximum(twice, 0.0)

    # -- features -----------------------------------------------------------------------------
    def _factor_features(self) -> None:
        V = self._with_offset(self._features(self.problem.X))
        penalty = np.sqrt(self.alpha) * np.eye(V.shape[1])
        if self.offset:
            penalty = penalty[:-1]
        stacked = np.vstack([self.problem.s[:, None] * V, penalty])
        self.R, self.order = heard(la.qr, stacked, mode="r", pivoting=True)
        self.R = self.R[: V.shape[1]]
        d = np.abs(np.diagonal(self.R))
        if len(d) < V.shape[1] or d[-1] <= len(stacked) * np.finfo(float).eps * d[0]:
            raise self._undetermined()

    def _features(self, points: Any) -> np.ndarray:
        V = self.kernel._features(points)
        return V.toarray() if sp.issparse(V) else np.asarray(V, dtype=float)

    def _with_offset(self, V: np.ndarray) -> np.ndarray:
        return np.hstack([V, np.ones((len(V), 1))]) if self.offset else V

    def _from_features(self, points: Any) -> tuple[np.ndarray, np.ndarray]:
        phi = self._features(points)
        V = self._with_offset(phi).T[self.order]
        half = la.solve_triangular(self.R, V, trans=1, check_finite=False)
        whole = la.solve_triangular(self.R, half, check_finite=False)
        once, twice = np.einsum("ij,ij->j", half, half), np.einsum("ij,ij->j", whole, whole)
        beyond = beyond_features(self.kernel, points, phi)
        if not beyond.any():
            return once, twice
        if self.alpha == 0:
            raise self._undetermined()
        return once + beyond / self.alpha, twice + beyond / self.alpha**2

    def _undetermined(self) -> InvalidInput:
        return InvalidInput(
            "active: alpha=0 and the labelled points do not determine all weights, so the variance "
            "is infinite in some direction; give alpha > 0, or label more points first."
        )

    # -- kernel values ------------------------------------------------------------------------
    def _factor_gram(self) -> None:
        # B = SKS + αI with S = W^½: C⁻¹ = S B⁻¹ S
        self.factor = self.problem.factored(self.alpha)
        if self.offset:
            self.h = self.factor.solve(self.problem.s)

    def _from_gram(self, points: Any) -> tuple[np.ndarray, np.ndarray]:
        alpha, s = self.alpha, self.problem.s
        sk = s[:, None] * np.asarray(self.kernel(points, self.problem.X), dtype=float).T
        z = self.factor.solve(sk)  # W^(−½) C⁻¹ kₓ
        left = np.asarray(self.kernel.diag(points), dtype=float) - np.einsum("ij,ij->j", sk, z)
        once = left / alpha
        twice = (once - np.einsum("ij,ij->j", z, z)) / alpha
        if self.offset:
            total = float(s @ self.h)
            schur = alpha * total
            r = (1.0 - self.h @ sk) / schur
            once = once + schur * r**2
            square = total - alpha * float(self.h @ self.h)
            twice = twice - 2 * r * (self.h @ z) + r**2 * (square + 1.0)
        return once, twice


# ---- Gaussian processes: less variance elsewhere, or a better optimum ----


ROWS = 512  # candidates taken at a time beside the reference points


def expected_improvement(model: Any, candidates: Any, goal: str, best: float | None) -> np.ndarray:
    """Return E max(best − f(x), 0) at each candidate, s[zΦ(z) + φ(z)] with z = (best − m)/s."""
    if goal not in ("min", "max"):
        raise InvalidInput(f"active: goal={goal!r}; give 'min' or 'max'.")
    sign = 1.0 if goal == "min" else -1.0
    if best is not None and not (isinstance(best, Real) and np.isfinite(best)):
        raise InvalidInput(f"active: best={best!r}; give a finite number, or leave it out.")
    mean, std = _of_function(model, candidates, "expected-improvement", return_std=True)
    mean, std = (A[:, 0] if A.ndim == 2 and A.shape[1] == 1 else A for A in (mean, std))
    if mean.ndim != 1:
        raise InvalidInput(
            "active: 'expected-improvement' is for one output; the improvement of several has no "
            "one meaning. Fit a model of the one that counts."
        )
    if best is None:
        points = getattr(model, "X_fit_", None)
        points = getattr(model, "X_train_", None) if points is None else points
        if points is None:
            raise InvalidInput(
                f"active: a {type(model).__name__} does not keep its training points; give best=, "
                "the value to improve on."
            )
        seen = np.asarray(model.predict(points), dtype=float).reshape(-1)
        if hasattr(model, "inducing_points_"):  # the training points are not kept
            seen = np.concatenate([seen, mean])
        best = float((sign * seen).min()) * sign
    gain = sign * (best - mean)
    out = np.maximum(gain, 0.0)
    some = std > 0
    z = gain[some] / std[some]
    density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    out[some] = std[some] * _improvement(z, density)
    return out


def _improvement(z: np.ndarray, density: np.ndarray) -> np.ndarray:
    """Return zΦ(z) + φ(z), which is never negative; far below 0 by its asymptotic ratio."""
    plain = z * ndtr(z) + density
    # For z ≪ 0 both terms cancel: φ(z)(1 + zΦ(z)/φ(z)), with Φ/φ from the logarithm, is φ/z² there.
    far = z < -6
    ratio = np.exp(log_ndtr(z[far]) + 0.5 * z[far] ** 2) * np.sqrt(2 * np.pi)
    tail = np.where(z[far] < -30, 1 / z[far] ** 2, np.maximum(1 + z[far] * ratio, 0.0))
    plain[far] = density[far] * tail
    return plain


def integrated_variance(model: Any, candidates: Any, reference: Any) -> np.ndarray:
    """Return the mean over reference points r of c(r, x)²/(c(x, x) + σ²), at each candidate x."""
    require_fit(model)
    reference = candidates if reference is None else reference
    joint = _Process(model) if isinstance(model, ProcessRegressor) else _Other(model)
    for X, what in ((candidates, "candidates"), (reference, "reference points")):
        if getattr(X, "shape", (1,))[0] == 0 or (isinstance(X, list) and not X):
            raise InvalidInput(f"active: there are no {what}; give at least one.")
    candidates, reference = joint.points(candidates), joint.points(reference)
    m, r = joint.size(candidates), joint.size(reference)
    room = int((get_config().memory / 32) ** 0.5)
    if room < r + 1:
        raise InvalidInput(
            f"active: the covariance of {r} reference points does not fit the memory budget; give "
            f"reference= a sample of fewer than {room} points."
        )
    noise, step, out = joint.noise(), max(1, min(ROWS, room - r)), np.empty(m)
    for start in range(0, m, step):
        rows = np.arange(start, min(start + step, m))
        cov = joint.covariance(reference, candidates, rows).reshape(
            r + len(rows), r + len(rows), -1
        )
        own = np.maximum(np.einsum("iit->it", cov[r:, r:]), 0.0) + noise
        fall = np.einsum("rxt,rxt->xt", cov[:r, r:], cov[:r, r:])
        out[rows] = np.divide(fall, own, out=np.zeros_like(fall), where=own > 0).sum(axis=1) / r
    return out


class _Process:
    """Joint covariances of a process of this package, at points of any kind."""

    @speaks("active")
    def __init__(self, model: Any):
        self.model, self.kernel = model, model.kernel_
        require_diagonal(self.kernel)

    def points(self, X: Any) -> Any:
        return self.model._check_X(X, self.kernel, reset=False)

    def size(self, X: Any) -> int:
        return int(self.kernel.domain.size(X))

    @speaks("active")
    def noise(self) -> np.ndarray:
        """Return the variance of the noise of a label, of each output."""
        return self.model._noise_at(True, 1)[0]

    def covariance(self, A: Any, B: Any, rows: np.ndarray) -> np.ndarray:
        """Return the covariance of the function at A and some of B, in the units of y²."""
        domain = self.kernel.domain
        joined = concatenate(domain, A, domain.take(B, rows))
        return self.model._covariance(self.kernel, joined)[:, :, None] * self.model.y_scale_**2


class _Other:
    """The same of a model with predict(X, return_cov=True)."""

    def __init__(self, model: Any):
        self.model = model

    def points(self, X: Any) -> Any:
        return X

    def size(self, X: Any) -> int:
        return int(_num_samples(X))

    def noise(self) -> np.ndarray:
        return np.array([np.mean(np.asarray(getattr(self.model, "noise_", 0.0), dtype=float))])

    def covariance(self, A: Any, B: Any, rows: np.ndarray) -> np.ndarray:
        joined = _stack(A, _safe_indexing(B, rows))
        return _of_function(self.model, joined, "integrated-variance", return_cov=True)[1]


def require_fit(model: Any) -> None:
    """Refuse a model that was not fitted, also one that answers with its prior."""
    if isinstance(model, ProcessRegressor | GaussianProcessClassifier):
        model._require_fit()
    else:
        check_is_fitted(model)


def _of_function(model: Any, X: Any, criterion: str, **what: bool) -> tuple:
    """Return the mean and the std or covariance of the function, without the noise."""
    require_fit(model)
    try:
        if hasattr(model, "posterior_variance"):
            mean, spread = model.predict(X, with_noise=False, **what)
        else:
            mean, spread = model.predict(X, **what)
    except TypeError:
        raise InvalidInput(
            f"active: a {type(model).__name__} has no posterior of a function; "
            f"criterion={criterion!r} takes GaussianProcessRegressor, "
            "SparseGaussianProcessRegressor, or a model with predict(X, return_std=..., "
            "return_cov=...)."
        ) from None
    return np.asarray(mean, dtype=float), np.asarray(spread, dtype=float)


def _stack(A: Any, B: Any) -> Any:
    """Return two collections of the same kind as one."""
    if sp.issparse(A):
        return sp.vstack([A, B]).tocsr()
    if hasattr(A, "iloc"):
        import pandas as pd

        return pd.concat([A, B])
    if hasattr(A, "shape") or np.ndim(A) > 1:
        return np.concatenate([np.asarray(A), np.asarray(B)])
    return [*A, *B]


# ---- Scores by any criterion ----


CRITERIA = ("a-optimal", "variance", "integrated-variance", "expected-improvement")
TAKEN = (
    "KernelRidge, KernelRidgeClassifier, KernelLogisticRegression of two classes, the result of "
    "evidence"
)
# Scores that differ by no more than rounding, so that every machine takes the same of equals.
TIE = 1e-10


def next_point(model: Any, candidates: Any, criterion: str | None = None, **options: Any) -> int:
    """Return the position of the candidate whose label would teach the model most.

    Parameters
    ----------
    model : KernelRidge, KernelRidgeClassifier, KernelLogisticRegression, Evidence or another
        Fitted; see `scores`.
    candidates : collection of m points
        Points that could be labelled: rows of numbers, strings, what the model accepts.
    criterion : str, optional
        See `scores`.
    **options
        `reference`, `goal` and `best` of `scores`.

    Returns
    -------
    int
        Where the score is largest; of equals the first.

    Examples
    --------
    >>> from mercer import KernelRidge, Linear
    >>> from mercer.selection import active
    >>> line = KernelRidge(Linear(), alpha=0.0, fit_intercept=True).fit([[1.0], [-1.0]], [0.0, 0.0])
    >>> active.next_point(line, [[0.0], [-0.5], [1.0]])    # far from one another
    2
    """
    values = scores(model, candidates, criterion, **options)
    return int(np.argmax(values >= values.max() * (1 - TIE)))


def scores(
    model: Any,
    candidates: Any,
    criterion: str | None = None,
    *,
    reference: Any = None,
    goal: str = "min",
    best: float | None = None,
) -> np.ndarray:
    r"""Return how much a label at each candidate would teach: the larger the more.

    "a-optimal"
        vᵀAAv/(1 + vᵀAv): by how much the squared error of the weights falls, in units of the noise
        variance. It needs no explicit features: with C = K + αW⁻¹ and kₓ = k(X, x),
        vᵀAv = (k(x, x) − kₓᵀC⁻¹kₓ)/α and
        vᵀAAv = (k(x, x) − 2kₓᵀC⁻¹kₓ + kₓᵀC⁻¹KC⁻¹kₓ)/α². Where features are infinite the error
        itself is infinite too, and its fall is not.
    "variance"
        The variance of the prediction. For ridge models k(x, x) − kₓᵀC⁻¹kₓ, that of a Gaussian
        process with the kernel k and the noise variance α; for α = 0 vᵀAv. Of a Gaussian process
        that of the function, without the noise; of a classifier that of the latent function.
    "integrated-variance"
        By how much the mean variance of the function over `reference` falls, which is the mean of
        c(r, x)²/(c(x, x) + σ²), c the posterior covariance (Cohn's criterion). It does not care
        for places where nobody looks. Gaussian processes for numbers.
    "expected-improvement"
        E max(best − f(x), 0), how much lower than the best so far the function is expected to be
        there; with ``goal="max"`` how much higher. For finding the least or largest value of a
        function in few evaluations, not for learning it. Gaussian processes for numbers. Where the
        model believes in noise, a place that was evaluated may come again: leave it out of the
        candidates if it must not.

    An offset that is not penalised counts as one more feature, a constant, with a flat prior.

    Logistic regression of two classes is taken as the ridge regression of its last Newton step
    (Laplace's approximation): row i has the weight wᵢpᵢ(1 − pᵢ), the label of a candidate the
    weight h = p(1 − p), so that "a-optimal" is h vᵀAAv/(1 + h vᵀAv) and "variance" is vᵀAv, that
    of the log-odds. A label that is known beforehand teaches nothing.

    Parameters
    ----------
    model : KernelRidge, KernelRidgeClassifier, KernelLogisticRegression, Evidence or another
        Fitted. Another model needs, for "a-optimal", a method ``design(X)`` that returns vᵀAv and
        vᵀAAv; for "variance", that, or ``posterior_variance(X)``, or
        ``predict(X, return_std=True)``; for the others what a Gaussian process has.
    candidates : collection of m points
        Points that could be labelled.
    criterion : str, optional
        "a-optimal", "variance", "integrated-variance" or "expected-improvement". By default
        "variance" for Gaussian processes, "a-optimal" for the others.
    reference : collection of points, optional
        Where the variance counts, for "integrated-variance"; by default the candidates.
    goal : {"min", "max"}, default="min"
        What "expected-improvement" looks for.
    best : float, optional
        The value to improve on; by default the least (largest) posterior mean at the training
        points, which noise does not make too good. A sparse process keeps only its inducing
        points: there the candidates count too.

    Returns
    -------
    array of shape (m,)
        Not negative.

    Examples
    --------
    >>> from mercer import RBF, KernelRidge
    >>> from mercer.selection import active
    >>> model = KernelRidge(RBF(1.0), alpha=1.0).fit([[0.0]], [1.0])
    >>> active.scores(model, [[0.0], [9.0]], "variance")    # halved where a label is, 1 far away
    array([0.5, 1. ])
    """
    if criterion is None:
        plain = isinstance(model, Ridge | Risk) or hasattr(model, "design")
        criterion = "a-optimal" if plain or not _has_variance(model) else "variance"
    if criterion not in CRITERIA:
        names = ", ".join(map(repr, CRITERIA[:-1]))
        raise InvalidInput(f"active: criterion={criterion!r}; give {names} or {CRITERIA[-1]!r}.")
    if reference is not None and criterion != "integrated-variance":
        raise InvalidInput(f"active: reference is for 'integrated-variance', not {criterion!r}.")
    if (goal != "min" or best is not None) and criterion != "expected-improvement":
        raise InvalidInput(
            f"active: goal and best are for 'expected-improvement', not {criterion!r}."
        )
    if criterion == "integrated-variance":
        return integrated_variance(model, candidates, reference)
    if criterion == "expected-improvement":
        return expected_improvement(model, candidates, goal, best)
    if isinstance(model, Ridge | Risk):
        check_is_fitted(model)
        values = _kernel_scores(model, candidates, criterion)
    elif criterion == "a-optimal":
        if not hasattr(model, "design"):
            cure = " Use criterion='variance'." if _has_variance(model) else ""
            raise InvalidInput(
                f"active: a {type(model).__name__} does not say how its weights vary; "
                f"criterion='a-optimal' takes {TAKEN}, or a model with design(X).{cure}"
            )
        values = _a_optimal(*model.design(candidates))
    else:
        values = _variance(model, candidates)
    if not len(values):
        raise InvalidInput("active: there are no candidates; give at least one.")
    if not np.isfinite(values).all():
        i = int(np.argmin(np.isfinite(values)))
        raise InvalidInput(
            f"active: the score of candidate {i} is {values[i]}; it is far outside the labelled "
            "points. Scale the columns."
        )
    return values


def _kernel_scores(model: Any, candidates: Any, criterion: str) -> np.ndarray:
    """Return the scores of a model with a kernel, the candidates taken in blocks of rows."""
    kernel = model.kernel_
    if not kernel.domain.holds_points:
        raise InvalidInput(
            "active: a precomputed matrix does not hold k(x, x) of a candidate; fit the model with "
            "the kernel itself."
        )
    ridge = isinstance(model, Ridge)
    design = WeightCovariance(model, None if ridge else _curvatures(model))
    points = model._check_X(candidates, kernel, reset=False)
    m = kernel.domain.size(points)
    parts = []
    for rows in row_blocks(m, 8 * 5 * design.width):
        some = kernel.domain.take(points, rows)
        once, twice = design(some)
        if criterion == "variance":
            parts.append(once * design.unit if ridge else once)
            continue
        h = 1.0 if ridge else Logistic().curvature(1.0, model.decision_function(some))
        parts.append(_a_optimal(once, twice, h))
    return np.concatenate(parts)


def _curvatures(model: Any) -> np.ndarray:
    """Return wp(1 − p) of the rows that a logistic regression of two classes was fitted to."""
    name = type(model).__name__
    two = isinstance(model.loss_, Logistic) and len(model.classes_) == 2
    if not two or vars(model).get("stream_") is not None:
        why = "keeps no rows of a stream" if two else "has no two classes with probabilities"
        raise InvalidInput(f"active: this {name} {why}; active takes {TAKEN}.")
    h = Logistic().curvature(1.0, model.decision_function(model.X_fit_))
    h = h if model.sample_weight_ is None else h * model.sample_weight_
    if not (h > 0).any():
        raise InvalidInput(
            f"active: this {name} is certain of all its rows, so that nothing can be learned; fit "
            "it with a larger alpha."
        )
    return h


def _a_optimal(once: np.ndarray, twice: np.ndarray, h: Any = 1.0) -> np.ndarray:
    return h * np.asarray(twice, dtype=float) / (1.0 + h * np.asarray(once, dtype=float))


def _has_variance(model: Any) -> bool:
    if hasattr(model, "posterior_variance") or hasattr(model, "latent_mean_and_variance"):
        return True
    try:
        return "return_std" in signature(model.predict).parameters
    except (AttributeError, TypeError, ValueError):
        return False


def _variance(model: Any, candidates: Any) -> np.ndarray:
    if isinstance(model, ProcessRegressor | GaussianProcessClassifier):
        require_fit(model)
    if hasattr(model, "posterior_variance"):
        variance = np.asarray(model.posterior_variance(candidates), dtype=float)
        return variance.reshape(len(variance), -1).sum(axis=1)
    if hasattr(model, "latent_mean_and_variance"):
        variance = np.asarray(model.latent_mean_and_variance(candidates)[1], dtype=float)
        return variance.reshape(len(variance), -1).sum(axis=1)
    try:
        _, std = model.predict(candidates, return_std=True)
    except (TypeError, ValueError) as error:
        if isinstance(error, ValueError) and "unpack" not in str(error):
            raise
        raise InvalidInput(
            f"active: a {type(model).__name__} does not say how sure it is; criterion='variance' "
            f"takes {TAKEN}, or a model with posterior_variance(X) or predict(X, return_std=True)."
        ) from None
    std = np.asarray(std, dtype=float)
    return (std.reshape(len(std), -1) ** 2).sum(axis=1)
