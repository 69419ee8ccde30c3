"""Evidence of linear models, BIC and AIC, and the degrees of freedom that these count."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from mercer.checks import check_number
from mercer.domains import to_host
from mercer.errors import InvalidInput, speaks, who
from mercer.estimator import beyond_features, check_targets, check_weights
from mercer.kernels import Kernel, Linear, as_kernel
from mercer.lapack import heard
from mercer.memory import require_memory

# The rows that a model must leave over, but for rounding: without, residuals do not tell the noise.
LEFT_OVER = 1 - 1e-6


class Unbounded(InvalidInput):
    """The likelihood of a model that passes through all targets has no largest value."""


@speaks("bic")
def bic(log_likelihood: Any, n_parameters: Any, n_samples: Any) -> Any:
    """Return the Bayesian information criterion ℓ − (d/2) log n: the larger the better.

    It approximates the log evidence of a model as n grows. Many programs print −2 times this
    number, d log n − 2ℓ, and there the smaller is the better; the choice is the same.

    Parameters
    ----------
    log_likelihood : float or array
        The log-likelihood ℓ at its maximum.
    n_parameters : float or array
        How many parameters d were fitted; effective ones need not be whole.
    n_samples : float or array
        How many rows n.

    Returns
    -------
    float or array
        One value for each model.

    See Also
    --------
    information_criteria : The same for a fitted model.

    Examples
    --------
    >>> from mercer import bic
    >>> round(bic(-100.0, 3, 50), 2), round(bic(-50.0, 6, 50), 2)    # the larger wins
    (-105.87, -61.74)
    """
    ell, d, n = _numbers(log_likelihood, n_parameters, n_samples)
    return _plain(ell - 0.5 * d * np.log(n))


@speaks("aic")
def aic(log_likelihood: Any, n_parameters: Any) -> Any:
    """Return Akaike's information criterion ℓ − d: the larger the better.

    It estimates the log-likelihood of new data, and prefers richer models than `bic` does from
    eight rows on. Many programs print −2 times this number, 2d − 2ℓ.

    Parameters
    ----------
    log_likelihood : float or array
        The log-likelihood ℓ at its maximum.
    n_parameters : float or array
        How many parameters d were fitted; effective ones need not be whole.

    Returns
    -------
    float or array
        One value for each model.

    See Also
    --------
    information_criteria : The same for a fitted model.

    Examples
    --------
    >>> from mercer import aic
    >>> aic(-100.0, 3), aic(-50.0, 6)
    (-103.0, -56.0)
    """
    ell, d, _ = _numbers(log_likelihood, n_parameters, 1.0)
    return _plain(ell - d)


@dataclass(frozen=True)
class InformationCriteria:
    """Log-likelihood of a fitted model, and what it comes to after its parameters are paid for.

    Attributes
    ----------
    log_likelihood : float
        ℓ on the data given.
    degrees_of_freedom : float
        The number of parameters counted.
    n_samples : float
        The number of rows, or the sum of their weights.
    aic, bic : float
        ℓ − d and ℓ − (d/2) log n: the larger the better.
    """

    log_likelihood: float
    degrees_of_freedom: float
    n_samples: float

    @property
    def aic(self) -> float:
        """ℓ − d."""
        return float(aic(self.log_likelihood, self.degrees_of_freedom))

    @property
    def bic(self) -> float:
        """ℓ − (d/2) log n."""
        return float(bic(self.log_likelihood, self.degrees_of_freedom, self.n_samples))


@speaks("information_criteria")
def information_criteria(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    noise_variance: float | None = None,
    n_parameters: float | None = None,
) -> InformationCriteria:
    """Return log-likelihood, degrees of freedom, AIC and BIC of a fitted model on its data.

    A classifier needs ``predict_proba``: ℓ = Σ wᵢ log p(yᵢ | xᵢ). A regression model has Gaussian
    noise around its predictions, of the variance given or of the one that fits best,
    s² = Σ wᵢ(yᵢ − f(xᵢ))²/n: ℓ = −(n/2)(log 2πs² + 1). The variance is not counted among the
    parameters, being one in every model. Several targets have a variance each.

    Parameters
    ----------
    model : estimator
        Fitted on X and y.
    X, y : data
        What it was fitted on.
    sample_weight : array of shape (n,), optional
        The weights it was fitted with; a weight of 2 is the row given twice.
    noise_variance : float, optional
        The variance of the noise, where known. Needed when the degrees of freedom leave less than
        one row over: the residuals vanish then, whatever the noise.
    n_parameters : float, optional
        The number of parameters; by default `degrees_of_freedom` of the model.

    Returns
    -------
    InformationCriteria
        With ``log_likelihood``, ``degrees_of_freedom``, ``n_samples``, ``aic`` and ``bic``.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRidge, Polynomial
    >>> from mercer.selection import information_criteria
    >>> x = np.linspace(-2, 2, 40)[:, None]
    >>> y = 4 * x[:, 0] ** 2 - 2 * x[:, 0] + 3 + np.random.default_rng(0).standard_normal(40)
    >>> fits = [KernelRidge(Polynomial(m), alpha=1e-6).fit(x, y) for m in range(1, 6)]
    >>> 1 + int(np.argmax([information_criteria(fit, x, y).bic for fit in fits]))
    2
    """
    _check_model(model)
    if n_parameters is None:
        points = getattr(model, "kernel_", Linear()).domain.holds_points
        d = degrees_of_freedom(model, None if points else X)
    else:
        check_number(n_parameters, "n_parameters", 0.0, closed=True)
        d = float(n_parameters)
    if is_classifier(model):
        ell, n = _label_likelihood(model, X, y, sample_weight)
    else:
        if noise_variance is not None:
            check_number(noise_variance, "noise_variance", 0.0)
        ell, n = _gaussian_likelihood(model, X, y, sample_weight, noise_variance, d)
    return InformationCriteria(ell, d, n)


def _check_model(model: Any) -> None:
    """Refuse what is no fitted estimator."""
    if isinstance(model, type) or not hasattr(model, "fit"):
        raise InvalidInput(f"{who()}: model={model!r} is no estimator; give a fitted one.")
    check_is_fitted(model)


def degrees_of_freedom(model: Any, X: Any = None) -> float:
    """Return how many parameters a fitted model has spent.

    For ridge models the trace of the matrix that turns y into the fitted values,
    tr K(K + αW⁻¹)⁻¹, and one for an offset. For logistic regression and other smooth losses that of
    their last Newton step, a ridge with the curvatures of the loss as weights. For another model
    with weights ``coef_`` the number of those that are not zero, and of its offsets: right for the
    lasso and without a penalty, too many where all weights are shrunk. Of k > 2 classes that sum
    to one, k − 1 are counted.

    Parameters
    ----------
    model : estimator
        Fitted; with a method ``degrees_of_freedom`` or with ``coef_``.
    X : array of shape (n, n), optional
        The training Gram matrix, needed again only when the kernel of the model is precomputed.

    Returns
    -------
    float
        The number; the sum over several targets.

    Examples
    --------
    >>> from mercer import KernelRidge, Linear
    >>> from mercer.selection import degrees_of_freedom
    >>> model = KernelRidge(Linear(), alpha=1.0).fit([[1.0], [1.0], [1.0]], [1.0, 2.0, 3.0])
    >>> degrees_of_freedom(model)
    0.75
    """
    _check_model(model)
    own = getattr(model, "degrees_of_freedom", None)
    if own is not None:
        found = np.asarray((own() if X is None else own(X)) if callable(own) else own)
        outputs = np.shape(getattr(model, "dual_coef_", 0.0))[1:]
        return float(found.sum() if found.ndim else np.broadcast_to(found, outputs).sum())
    weights = getattr(model, "coef_", None)
    if weights is None:
        raise InvalidInput(
            f"degrees_of_freedom: a {type(model).__name__} has neither a method degrees_of_freedom "
            "nor weights coef_; use a model with one, such as KernelLogisticRegression, or give "
            "n_parameters to information_criteria."
        )
    weights = weights.toarray() if hasattr(weights, "toarray") else np.asarray(weights)
    count = float(np.count_nonzero(weights))
    if getattr(model, "fit_intercept", False):
        count += np.size(model.intercept_)
    classes = len(getattr(model, "classes_", ()))
    if classes > 2 and weights.ndim == 2 and len(weights) == classes:
        count *= (classes - 1) / classes
    return count


def _label_likelihood(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[float, float]:
    if not hasattr(model, "predict_proba"):
        raise InvalidInput(
            f"{who()}: {type(model).__name__} gives no probabilities, so there is no likelihood; "
            "use a classifier with predict_proba."
        )
    P, labels = np.asarray(model.predict_proba(X), dtype=float), np.asarray(y).reshape(-1)
    if len(labels) != len(P):
        raise InvalidInput(f"{who()}: X has {len(P)} rows and y has {len(labels)}.")
    match = labels[:, None] == np.asarray(model.classes_)[None, :]
    if not match.any(axis=1).all():
        i = int(np.argmin(match.any(axis=1)))
        raise InvalidInput(f"{who()}: y[{i}] = {labels[i]!r} is no class of the model.")
    w = check_weights(sample_weight, len(P))
    w = np.ones(len(P)) if w is None else w
    p = P[match][w > 0]
    with np.errstate(divide="ignore"):
        return float(w[w > 0] @ np.log(p)), float(w.sum())


def _gaussian_likelihood(
    model: Any, X: Any, y: Any, sample_weight: Any, noise_variance: float | None, d: float
) -> tuple[float, float]:
    F = np.asarray(model.predict(X), dtype=float)
    T = check_targets(y, len(F))
    if T.size != F.size:
        raise InvalidInput(f"{who()}: y has shape {T.shape}, the predictions {F.shape}.")
    w = check_weights(sample_weight, len(F))
    w = np.ones(len(F)) if w is None else w
    n, outputs = float(w.sum()), T.reshape(len(T), -1).shape[1]
    with np.errstate(over="ignore"):
        squares = w @ (T.reshape(len(T), -1) - F.reshape(len(T), -1)) ** 2
    if not np.isfinite(squares).all():
        raise InvalidInput(
            f"{who()}: squared errors overflow; divide y by its size before the fit."
        )
    if noise_variance is not None:
        log_norm = n * outputs * np.log(2 * np.pi * noise_variance)
        return float(-0.5 * (log_norm + squares.sum() / noise_variance)), n
    if n - d / outputs < LEFT_OVER or (squares == 0).any():
        raise Unbounded(
            f"{who()}: {type(model).__name__} has {d:.4g} degrees of freedom for {n:g} rows and "
            "passes through the targets, so that its likelihood has no bound. Give noise_variance, "
            "or fit a simpler model."
        )
    return float(-0.5 * n * (np.log(2 * np.pi * squares / n) + 1).sum()), n


def _numbers(ell: Any, d: Any, n: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if hasattr(ell, "predict"):
        raise InvalidInput(
            f"{who()}: takes numbers. For a fitted model, take "
            f"mercer.selection.information_criteria(model, X, y).{who()}."
        )
    found = []
    for name, value, low in (
        ("log_likelihood", ell, -np.inf),
        ("n_parameters", d, 0.0),
        ("n_samples", n, 1.0),
    ):
        try:
            array = np.asarray(value, dtype=float)
        except (OverflowError, TypeError, ValueError):
            array = np.array(np.nan)
        if (
            np.isnan(array).any()
            or (array < low).any()
            or (name[0] == "n" and np.isinf(array).any())
        ):
            legal = "numbers" if low == -np.inf else f"numbers ≥ {low:g}"
            raise InvalidInput(f"{who()}: {name}={value!r}; give {legal}.")
        found.append(array)
    try:
        np.broadcast_shapes(*(array.shape for array in found))
    except ValueError:
        names = ("log_likelihood", "n_parameters", "n_samples")
        told = ", ".join(f"{n} {a.shape}" for n, a in zip(names, found, strict=True) if a.ndim)
        raise InvalidInput(
            f"{who()}: shapes do not go together: {told}; give one number for each model, or one "
            "for all."
        ) from None
    return found[0], found[1], found[2]


def _plain(value: np.ndarray) -> Any:
    return float(value) if np.ndim(value) == 0 else value


# ---- Bounds on the risk of what was fitted, from its risk on the training data and what it cost.


@speaks("risk_bound")
def risk_bound(
    empirical_risk: float,
    n_samples: float,
    *,
    n_functions: float | None = None,
    vc_dimension: float | None = None,
    confidence: float = 0.95,
) -> float:
    r"""Return a bound on the error probability of a classifier chosen by its training error.

    With probability at least 1 − δ over the training set, for all f of a class F at once,
    R(f) ≤ Rₙ(f) + C. For finitely many functions, by Hoeffding's inequality and a sum over them,

    C = √((log|F| + log(2/δ))/2n),

    and for infinitely many, by the inequality of Vapnik and Chervonenkis,

    C = √(32(log S + log(8/δ))/n), log S ≤ min(d log(en/d), n log 2),

    where S is the number of ways to label n points, bounded by Sauer's lemma, and d the VC
    dimension: the number of features (with the constant) for linear functions of them. The
    constants 32 and 8 are those of the classical proof. They are large: a bound below ½ needs some
    thousand rows for each dimension. What a bound is good for is to compare classes, as `srm` does.

    Any loss between 0 and 1 will do for the finite class. The bound is not clipped: above 1 it
    says nothing, but it still has an order.

    Parameters
    ----------
    empirical_risk : float
        Rₙ(f), the share of the n rows that f gets wrong, from 0 to 1.
    n_samples : float
        The number of rows n ≥ 1.
    n_functions : float, optional
        |F| ≥ 1; a whole number may be as large as ``2**5000``.
    vc_dimension : float, optional
        d ≥ 0. Give one of the two.
    confidence : float, default=0.95
        1 − δ, between 0 and 1.

    Returns
    -------
    float
        Rₙ(f) + C.

    Examples
    --------
    >>> from mercer import risk_bound
    >>> round(risk_bound(0.1, 1000, n_functions=100), 4)
    0.1644
    >>> round(risk_bound(0.1, 100_000, vc_dimension=3), 4)
    0.2122
    """
    if (n_functions is None) == (vc_dimension is None):
        given = "both" if n_functions is not None else "neither"
        raise InvalidInput(
            f"{who()}: got {given} of n_functions and vc_dimension; give one, the size of the "
            "class of functions or its VC dimension."
        )
    share = isinstance(empirical_risk, Real) and not isinstance(empirical_risk, bool)
    if not share or not 0 <= empirical_risk <= 1:
        raise InvalidInput(
            f"{who()}: empirical_risk={empirical_risk!r}; give a number from 0 to 1."
        )
    n, delta = _samples(n_samples), _delta(confidence)
    if n_functions is not None:
        _at_least("n_functions", n_functions, 1.0)
        penalty = np.sqrt((log(n_functions) + np.log(2 / delta)) / (2 * n))
    else:
        d = _at_least("vc_dimension", vc_dimension, 0.0)
        penalty = np.sqrt(32 * (_log_shatter(n, d) + np.log(8 / delta)) / n)
    return float(empirical_risk + penalty)


@speaks("regression_bound")
def regression_bound(
    mean_squared_error: float,
    n_samples: float,
    vc_dimension: float,
    *,
    confidence: float | None = None,
) -> float:
    r"""Return the bound of Vapnik on the mean squared error of a regression function.

    R(f) ≤ Rₙ(f)/(1 − √ε)₊, ε = (d(log(n/d) + 1) + log(4/δ))/n. Squared errors have no largest
    value, so the penalty multiplies. Infinite when ε ≥ 1: too few rows for so many parameters.
    By default δ = 4/√n, and ε = p − p log p + log(n)/2n with p = d/n, the form in which
    Cherkassky, Shao, Mulier and Vapnik (1999) found it to choose well from few rows. It holds for
    noise without heavy tails, and its constants are practical ones rather than proved.

    Parameters
    ----------
    mean_squared_error : float
        Rₙ(f) ≥ 0 on the training rows.
    n_samples : float
        The number of rows n ≥ 1.
    vc_dimension : float
        d ≥ 0: the number of parameters of a function linear in them.
    confidence : float, optional
        1 − δ, between 0 and 1.

    Returns
    -------
    float
        The bound, perhaps infinite.

    Examples
    --------
    >>> from mercer.selection import regression_bound
    >>> round(regression_bound(1.0, 100, 3), 2)
    1.66
    >>> regression_bound(1.0, 10, 10)
    inf
    """
    check_number(mean_squared_error, "mean_squared_error", 0.0, closed=True)
    n, d = _samples(n_samples), _at_least("vc_dimension", vc_dimension, 0.0)
    log_delta = np.log(np.sqrt(n)) if confidence is None else np.log(4 / _delta(confidence))
    if d >= n:
        return float("inf")
    epsilon = ((d * (np.log(n / d) + 1) if d else 0.0) + log_delta) / n
    return float(mean_squared_error / (1 - np.sqrt(epsilon))) if epsilon < 1 else float("inf")


def _log_shatter(n: float, d: float) -> float:
    """Return a bound on the log of the number of labellings of n points: Sauer's lemma."""
    if d == 0:
        return 0.0
    everything = n * np.log(2.0)
    return min(d * np.log(np.e * n / d), everything) if d < n else everything


def _samples(value: Any) -> float:
    check_number(value, "n_samples", 1.0, closed=True)
    return float(value)


def _at_least(name: str, value: Any, low: float) -> float:
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond 1e308
        number = np.inf if value > 0 else -np.inf
    except (TypeError, ValueError):
        number = np.nan
    if isinstance(value, bool) or not number >= low:
        raise InvalidInput(f"{who()}: {name}={value!r}; give a number ≥ {low:g}.")
    return number


def _delta(confidence: Any) -> float:
    check_number(confidence, "confidence", 0.0, 1.0)
    return 1.0 - float(confidence)


# ---- The evidence of a Bayesian linear model in closed form, with the posterior of its weights.
# With weights θ = Ru, u ~ N(0, I) and RRᵀ the prior covariance, everything is in units of the
# noise: A = W^½ΦR/σ, t = W^½y/σ. The posterior of u is N(M⁻¹Aᵀt, M⁻¹) with M = I + AᵀA, and y has
# the covariance σ²W^(−½)(I + AAᵀ)W^(−½). Both come from one thin decomposition A = U diag(s) Vᵀ,
# whose size is the smaller of n and d, and which, unlike a factor of AᵀA, does not square the
# condition.


# An eigenvalue of a prior covariance this far below zero, relative to the largest, is no rounding.
NEGATIVE = 1e-10


@dataclass(frozen=True, eq=False, repr=False)
class Evidence:
    """What `evidence` found: how well the model explains the data, and what it learned.

    Attributes
    ----------
    log_evidence : float
        log p(y | X), the weights integrated out; the larger the better.
    mean : array of shape (d,)
        Posterior mean of the weights: the ridge solution with α = noise over prior variance.
    covariance : array of shape (d, d)
        Posterior covariance of the weights, computed when first asked for.
    degrees_of_freedom : float
        Σ s²/(1 + s²): how many weights the data determine, from 0 to min(n, d).
    noise_variance : float
        The σ² given.
    n_samples : float
        The number of rows, or the sum of their weights.
    kernel : Kernel
        Whose features carry the weights; `Linear` for the columns themselves.
    """

    log_evidence: float
    mean: np.ndarray
    noise_variance: float
    n_samples: float
    kernel: Kernel
    _root: Any
    _s: np.ndarray
    _Vt: np.ndarray

    @cached_property
    def covariance(self) -> np.ndarray:
        """Posterior covariance R M⁻¹ Rᵀ of the weights."""
        d = len(self.mean)
        require_memory(
            24 * d * d, f"evidence: the {d} × {d} posterior covariance", "Use fewer features"
        )
        half = self._Vt / np.hypot(1.0, self._s)[:, None]
        out = half.T @ half
        if len(self._Vt) < d:  # directions that no row looks at keep their prior variance
            out += np.eye(d) - self._Vt.T @ self._Vt
        out = _times_root(self._root, _times_root(self._root, out).T)
        return 0.5 * (out + out.T)

    @property
    def degrees_of_freedom(self) -> float:
        """The trace of A M⁻¹ Aᵀ."""
        return float(np.sum((self._s / np.hypot(1.0, self._s)) ** 2))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the mean of a new target at each row of X.

        Parameters
        ----------
        X : collection of points
            New points.
        return_std : bool, default=False
            Whether to return also the standard deviation of a new target, noise included.

        Returns
        -------
        array of shape (m,), or two of them
            Mean, and standard deviation where asked for.
        """
        Phi = self._features(X)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = Phi @ self.mean
            if not return_std:
                return mean
            seen, unseen = self._parts(Phi)
            variance = _squares(seen) + _squares(unseen) + self._beyond(X, Phi)
            return mean, np.sqrt(variance + self.noise_variance)

    def posterior_variance(self, X: Any) -> np.ndarray:
        """Return the variance of θᵀφ(x) at each row of X, without noise.

        Parameters
        ----------
        X : collection of points
            New points.
        """
        return self.noise_variance * self.design(X)[0]

    def design(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return vᵀAv and vᵀAAv for the features v of each row of X, A = covariance/σ².

        These are what the criteria of `mercer.selection.active` are made of.

        Parameters
        ----------
        X : collection of points
            Candidates for the next label.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            Phi = self._features(X)
            seen, unseen = self._parts(Phi)
            beyond = self._beyond(X, Phi)
            spread = seen / np.hypot(1.0, self._s) @ self._Vt + unseen
            spread = _times_root(self._root, spread.T).T / self.noise_variance
            once = (_squares(seen) + _squares(unseen) + beyond) / self.noise_variance
            if not beyond.any():
                return once, _squares(spread)
            return once, _squares(spread) + beyond * (self._root / self.noise_variance) ** 2

    def _features(self, X: Any) -> np.ndarray:
        Phi = _features(self.kernel, X)
        if Phi.shape[1] != len(self.mean):
            raise InvalidInput(
                f"evidence: X has {Phi.shape[1]} features, the model {len(self.mean)}; give the "
                "columns of the data it was computed from."
            )
        return Phi

    def _parts(self, Phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return M^(−½)Rᵀφ in the directions V that the data look at, and in the others."""
        v = _times_root(self._root, Phi.T, transposed=True).T
        c = v @ self._Vt.T
        wide = len(self._Vt) < len(self.mean)
        return c / np.hypot(1.0, self._s), v - c @ self._Vt if wide else np.zeros_like(v)

    def _beyond(self, X: Any, Phi: np.ndarray) -> np.ndarray:
        """Return the prior variance of what points have without a feature, such as new letters."""
        beyond = beyond_features(self.kernel, self.kernel.domain.check(to_host(X)), Phi)
        if not beyond.any():
            return beyond
        if np.ndim(self._root):
            raise InvalidInput(
                f"evidence: X[{int(np.argmax(beyond > 0))}] has parts for which {self.kernel} "
                "has no feature, and a prior variance for each weight does not say how uncertain "
                "these are; give one number as prior_variance, or an alphabet with all letters."
            )
        return self._root**2 * beyond

    def __repr__(self) -> str:
        return (
            f"Evidence(log_evidence={self.log_evidence:.6g}, {len(self.mean)} weights, "
            f"{self.degrees_of_freedom:.3g} degrees of freedom)"
        )


@speaks("evidence")
def evidence(
    X: Any,
    y: Any,
    noise_variance: float,
    prior_variance: Any,
    *,
    kernel: Any = None,
    sample_weight: Any = None,
) -> Evidence:
    r"""Return the log evidence (Bayesian score) of a linear model, and its posterior.

    The model is y = Φθ + e with e ~ N(0, σ²I) and θ ~ N(0, σₚ²I). With λ = σ²/σₚ²

    log p(y) = −(n/2) log 2πσ² + (d/2) log λ − ½ log|ΦᵀΦ + λI|
    − (‖y‖² − yᵀΦ(ΦᵀΦ + λI)⁻¹Φᵀy)/2σ²,

    the posterior mean of θ is (ΦᵀΦ + λI)⁻¹Φᵀy and its covariance σ²(ΦᵀΦ + λI)⁻¹. The constant
    −(n/2) log 2π, which some texts leave out, is in: the value is the density of y itself. Of two
    models for the same y the one with the larger evidence explains it better; a model that is too
    rich spreads its prior over data that were not seen.

    Cost: one singular value decomposition, of the order n·d·min(n, d).

    Parameters
    ----------
    X : collection of n points
        Rows of numbers, or what the kernel accepts. No offset is added: give a column of ones, or
        ``kernel=Polynomial(1)``.
    y : array of shape (n,) or (n, 1)
        Targets.
    noise_variance : float
        σ² > 0.
    prior_variance : float, array of shape (d,) or (d, d)
        σₚ² > 0; or one variance ≥ 0 for each weight; or their covariance matrix.
    kernel : Kernel or str, optional
        A kernel with finite features; weights are then those of ``kernel.features(X)``.
    sample_weight : array of shape (n,), optional
        Weights; a weight of 2 is the row given twice, 0 the row left out. (``tune`` by the
        evidence takes them for precisions, the noise of row i having the variance σ²/wᵢ.)

    Returns
    -------
    Evidence
        With ``log_evidence``, ``mean`` and ``covariance``; it predicts, too.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Polynomial, evidence
    >>> x = np.linspace(-2, 2, 10)[:, None]
    >>> y = 4 * x[:, 0] ** 2 - 2 * x[:, 0] + 3 + np.random.default_rng(0).standard_normal(10)
    >>> scores = [
    ...     evidence(x, y, 1.0, 10.0, kernel=Polynomial(m)).log_evidence for m in range(1, 6)
    ... ]
    >>> 1 + int(np.argmax(scores))
    2
    """
    check_number(noise_variance, "noise_variance", 0.0)
    kernel = as_kernel(Linear() if kernel is None else kernel)
    X = to_host(X)
    points = kernel.domain.check(X)
    n = kernel.domain.size(points)
    y = check_targets(y, n)
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.ndim != 1:
        raise InvalidInput(
            f"evidence: y has shape {y.shape}; give one target. The log evidence of several is the "
            "sum over its columns."
        )
    w = check_weights(sample_weight, n)
    kernel = kernel.fit_params(points, w)
    Phi = _features(kernel, X)
    root = _root(prior_variance, Phi.shape[1])
    w = np.ones(n) if w is None else w
    with np.errstate(over="ignore", invalid="ignore"):
        scale = np.sqrt(w) / np.sqrt(float(noise_variance))
        A = scale[:, None] * _times_root(root, Phi.T, transposed=True).T
        t = scale * y
    if not (np.isfinite(A).all() and np.isfinite(t).all()):
        raise InvalidInput(
            "evidence: X or y in units of the noise overflows; scale the columns of X and y, for "
            "example with sklearn.preprocessing.StandardScaler."
        )
    U, s, Vt = heard(np.linalg.svd, A, full_matrices=False)
    h, c = np.hypot(1.0, s), U.T @ t
    if not np.isfinite(h).all():
        raise InvalidInput("evidence: X in units of the noise overflows; scale the columns of X.")
    mean = _times_root(root, Vt.T @ (s / h / h * c))
    with np.errstate(over="ignore"):
        misfit = np.sum((t - U @ c) ** 2) + np.sum((c / h) ** 2)
        constant = w.sum() * np.log(2 * np.pi * float(noise_variance))
        value = -0.5 * (constant + misfit) - np.sum(np.log(h))
    return Evidence(float(value), mean, float(noise_variance), float(w.sum()), kernel, root, s, Vt)


def _features(kernel: Kernel, X: Any) -> np.ndarray:
    """Return the finite features of points as a dense float64 array."""
    X = kernel.domain.check(to_host(X))
    if getattr(X, "dtype", None) == np.float32:
        X = X.astype(np.float64)
    D, n = kernel._n_features(X), kernel.domain.size(X)
    require_memory(
        32 * n * (D or 1), f"evidence: the {n} × {D} features", "Use fewer rows or features"
    )
    with np.errstate(over="ignore", invalid="ignore"):
        Phi = kernel._features(X)  # refuses kernels without a finite map
    Phi = Phi.toarray() if sp.issparse(Phi) else np.asarray(Phi, dtype=float)
    if not np.isfinite(Phi).all():
        i = int(np.argmin(np.isfinite(Phi).all(axis=1)))
        raise InvalidInput(
            f"evidence: {kernel} overflows at row {i} of X; scale the columns, for example with "
            "sklearn.preprocessing.StandardScaler."
        )
    return Phi


def _squares(B: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", B, B)


def _root(prior: Any, d: int) -> Any:
    """Return R with RRᵀ the prior covariance: a number, a vector for a diagonal, or a matrix."""
    legal = f"give a number > 0, {d} variances ≥ 0, or a {d} × {d} covariance matrix"
    try:
        value = np.asarray(prior, dtype=float)
    except (OverflowError, TypeError, ValueError):
        raise InvalidInput(f"evidence: prior_variance={prior!r}; {legal}.") from None
    if isinstance(prior, bool | np.bool_) or value.shape not in ((), (d,), (d, d)):
        raise InvalidInput(f"evidence: prior_variance has shape {value.shape}; {legal}.")
    if not np.isfinite(value).all():
        raise InvalidInput(f"evidence: prior_variance holds NaN or infinity; {legal}.")
    if value.ndim == 2:
        if np.abs(value - value.T).max() > NEGATIVE * np.abs(value).max():
            raise InvalidInput("evidence: prior_variance is not a symmetric matrix.")
        eigenvalues, vectors = np.linalg.eigh(value)
        if eigenvalues[0] < -NEGATIVE * max(eigenvalues[-1], 0.0):
            raise InvalidInput(
                f"evidence: prior_variance has the eigenvalue {eigenvalues[0]:.3g} < 0, so it is "
                "not a covariance matrix."
            )
        return vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    if (value < 0).any() or (value.ndim == 0 and value == 0):
        raise InvalidInput(f"evidence: prior_variance={prior!r}; {legal}.")
    return np.sqrt(value)


def _times_root(root: Any, B: np.ndarray, transposed: bool = False) -> np.ndarray:
    """Return RB or RᵀB."""
    if np.ndim(root) == 2:
        return (root.T if transposed else root) @ B
    return (root if np.ndim(root) == 0 or B.ndim == 1 else root[:, None]) * B
