"""The fit of Gaussian process classification: from labels to parameters, sites, certificate."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.engines import pick
from mercer.models.gp.regression import Problem
from mercer.models.gp.search import BLIND, blind, with_median

if TYPE_CHECKING:
    from mercer.kernels import Kernel
    from mercer.models.gp.parameters import Parameters

# ---- Where a search for the kernel of a classifier begins, and what to say of where it ended ----


FAINT = 1e-3  # mean of k(x, x) at which latent values are too small to be seen in probabilities
FAINT_REMARK = "; the kernel as given is near 0, so that the search began at k(x, x) = 1 too"
WIDE = 30.0  # prior standard deviation beyond which Laplace's method says little
EDGE = 1e-6  # distance of logarithms to a bound


def add_starts(
    parameters: Parameters, kernel: Kernel, X: Any, codes: np.ndarray, weights: Any
) -> None:
    """Add a start where the evidence has no slope at the kernel as given.

    To such a kernel all rows are alike, or each like no other, or its values are so small that all
    probabilities are the same.
    """
    other = kernel
    rows: Any = SimpleNamespace(kernel=kernel, X=X, Y=codes[:, None].astype(float))
    rows.key = lambda: Problem.key(rows)
    if any("length_scale" in name for name in parameters.names) and blind(rows):
        other = with_median(kernel, X, weights)
        parameters.remark += BLIND
    factors = [name.rpartition("__")[2] == "value" for name in kernel.theta_names]
    mean = _mean_variance(kernel, X)
    if any(factors) and 0.0 < mean < FAINT:
        other = other.with_theta(other.theta - np.where(factors, np.log(mean), 0.0))
        parameters.remark += FAINT_REMARK
    if not np.array_equal(other.theta, kernel.theta):
        parameters.also(other, None)


def doubt(theta: np.ndarray, parameters: Parameters, K: np.ndarray) -> str:
    """Return what to say of parameters with which Laplace's method is far from the posterior.

    Where a function separates the classes its evidence grows with the amplitude, since the mode
    moves away while the curvature there vanishes: probabilities are then too near the middle.
    """
    at_end = [
        name.rpartition("__")[2] == "value" and high - value < EDGE
        for name, value, high in zip(parameters.names, theta, parameters.bounds[:, 1], strict=True)
    ]
    deviation = float(np.sqrt(max(np.diagonal(K).mean(), 0.0)))
    if not any(at_end) and deviation <= WIDE:
        return ""
    return (
        f"; the prior standard deviation of latent values is {deviation:.3g}, where Laplace's "
        "probabilities are too near the middle, as with classes that are separable or very uneven: "
        "compare method='ep' or 'vi'"
    )


def _mean_variance(kernel: Kernel, X: Any) -> float:
    with np.errstate(all="ignore"):
        d = np.asarray(pick(X).to_numpy(pick(X).diag(kernel, X)), dtype=float)
    return float(d.mean()) if np.isfinite(d).all() else 1.0


# ---- classifier fit ----
