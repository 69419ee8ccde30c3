"""Bounds on the risk of what was fitted, from its risk on the training data and what it cost."""

from __future__ import annotations

from math import log
from numbers import Real
from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.solvers.base import check_number

__all__ = ["regression_bound", "risk_bound"]


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
    owner = "risk_bound"
    if (n_functions is None) == (vc_dimension is None):
        given = "both" if n_functions is not None else "neither"
        raise InvalidInput(
            f"{owner}: got {given} of n_functions and vc_dimension; give one, the size of the "
            "class of functions or its VC dimension."
        )
    share = isinstance(empirical_risk, Real) and not isinstance(empirical_risk, bool)
    if not share or not 0 <= empirical_risk <= 1:
        raise InvalidInput(
            f"{owner}: empirical_risk={empirical_risk!r}; give a number from 0 to 1."
        )
    n, delta = _samples(owner, n_samples), _delta(owner, confidence)
    if n_functions is not None:
        _at_least(owner, "n_functions", n_functions, 1.0)
        penalty = np.sqrt((log(n_functions) + np.log(2 / delta)) / (2 * n))
    else:
        d = _at_least(owner, "vc_dimension", vc_dimension, 0.0)
        penalty = np.sqrt(32 * (_log_shatter(n, d) + np.log(8 / delta)) / n)
    return float(empirical_risk + penalty)


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
    owner = "regression_bound"
    check_number(mean_squared_error, "mean_squared_error", owner, 0.0, closed=True)
    n, d = _samples(owner, n_samples), _at_least(owner, "vc_dimension", vc_dimension, 0.0)
    log_delta = np.log(np.sqrt(n)) if confidence is None else np.log(4 / _delta(owner, confidence))
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


def _samples(owner: str, value: Any) -> float:
    check_number(value, "n_samples", owner, 1.0, closed=True)
    return float(value)


def _at_least(owner: str, name: str, value: Any, low: float) -> float:
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond 1e308
        number = np.inf if value > 0 else -np.inf
    except (TypeError, ValueError):
        number = np.nan
    if isinstance(value, bool) or not number >= low:
        raise InvalidInput(f"{owner}: {name}={value!r}; give a number ≥ {low:g}.")
    return number


def _delta(owner: str, confidence: Any) -> float:
    check_number(confidence, "confidence", owner, 0.0, 1.0)
    return 1.0 - float(confidence)
