"""Where a search for parameters begins, besides the kernel and the noise as they were given.

An amplitude and a noise in other units than y, or length scales far from all distances, are a
start at which the evidence has no slope: everything is noise there, and stays it. Then the search
begins at a second place too, and the better end counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import GramRows
from mercer.engines import pick
from mercer.errors import MercerError
from mercer.kernels import Kernel
from mercer.kernels.algebra import Combination
from mercer.kernels.scales import median_distance
from mercer.models.gp.parameters import Parameters
from mercer.models.gp.problem import Problem
from mercer.models.ridge_data import take_rows

__all__ = ["blind", "first_noise", "mean_variance", "place", "with_median"]

START = 0.1  # of the variance of y, or of the function: where the search for the noise starts
APART = 10.0  # factor between the variances of y and of the function: both are starts then
NO_SPREAD = (
    "did not begin: y does not vary beyond what the mean explains, so that the evidence has no "
    "maximum; the parameters are those of the start"
)
BLIND = (
    "; to the kernel as given all rows are alike, or each like no other, so that the search began "
    "at median distances too"
)
ROWS = 64  # that tell whether a kernel sees the data
ALIKE, ALONE = 0.05, 1e-3  # correlations all so near to 1, or to 0, say nothing
SAME = 1e-12  # correlations this near to 1 are of the same point


def first_noise(problem: Problem) -> float:
    """Return where the search for the noise starts, in the units of y²."""
    if problem.varies().any():
        return START * problem.unit()
    return START * (mean_variance(problem) or 1.0) * problem.targets.variance_unit()


def place(parameters: Parameters, noise: Any, problem: Problem) -> None:
    """Hold parameters where the evidence has no maximum; add starts where one says little.

    Parameters
    ----------
    parameters : Parameters
        At the start that the user gave.
    noise : "fit", float or ndarray
        As the user gave it.
    problem : Problem
        What the evidence is of.
    """
    if not problem.varies().any():
        parameters.hold(NO_SPREAD)
        return
    kernels, level = [problem.kernel], parameters.noise
    if any("length_scale" in name for name in parameters.names) and blind(problem):
        kernels.append(with_median(problem.kernel, problem.X, problem.weights))
        parameters.remark = BLIND
    starts = [(kernel, level) for kernel in kernels]
    if isinstance(noise, str) and level:
        function = mean_variance(problem) * problem.targets.variance_unit()
        ratio = problem.unit() / function if function > 0 else 1.0
        if not 1 / APART <= ratio <= APART:  # amplitude and noise are in other units than y
            starts += [_in_units(kernel, level, ratio) for kernel in kernels]
    elif level and "noise" in parameters.names and level < parameters.noise_bounds[0]:
        starts += [(kernel, first_noise(problem)) for kernel in kernels]
    for start in starts[1:]:
        parameters.also(*start)


def _in_units(kernel: Kernel, noise: float, ratio: float) -> tuple[Kernel, float]:
    """Return a start at which the variance of the function is `ratio` times larger.

    By the factors of its terms; where it has none the noise goes the other way.
    """
    factors = [name.rpartition("__")[2] == "value" for name in kernel.theta_names]
    if not any(factors):
        return kernel, noise / ratio
    return kernel.with_theta(kernel.theta + np.where(factors, np.log(ratio), 0.0)), noise


def mean_variance(problem: Problem) -> float:
    """Return the mean of k(x, x) over the rows; 0 where it is not a finite number."""
    kernel, X = problem.kernel, problem.X
    with np.errstate(all="ignore"):
        d = pick(X).to_numpy(pick(X).diag(kernel, X))
        mean = float(np.average(np.asarray(d, dtype=float), weights=problem.weights))
    return mean if np.isfinite(mean) else 0.0


def blind(problem: Problem) -> bool:
    """Whether all rows are alike to the kernel, or each like no other."""
    kernel, n = problem.kernel, len(problem.Y)
    if n < 2 or isinstance(kernel.domain, GramRows):
        return False
    order = np.lexsort(problem.key().T)  # the same rows, however they are ordered
    rows = np.sort(order[np.linspace(0, n - 1, min(n, ROWS)).astype(int)])
    with np.errstate(all="ignore"):
        K = np.array(kernel(take_rows(kernel, problem.X, rows)), dtype=float)
        size = np.sqrt(np.diagonal(K))
        K /= size
        K /= size[:, None]
    if not np.isfinite(K).all():
        return False
    np.einsum("ii->i", K)[...] = 1.0
    if K.min() > 1 - ALIKE:
        return True
    K[K > 1 - SAME] = 0.0
    return bool(np.median(np.abs(K, out=K).max(axis=1)) < ALONE)


def with_median(kernel: Kernel, X: Any, weights: np.ndarray | None) -> Kernel:
    """Return the kernel with its length scales at median distances, of each column if it has many.

    Length scales that distances do not decide, such as that of a periodic kernel, stay.

    Parameters
    ----------
    kernel : Kernel
        Its words resolved.
    X : canonical collection
        The rows.
    weights : ndarray of shape (n,) or None
        Theirs.
    """
    if isinstance(kernel, Combination):
        inside = zip(kernel._parts, kernel._inside(X), strict=True)
        return kernel._replace({name: with_median(k, Z, weights) for name, (k, Z) in inside})
    if "length_scale" not in dict(kernel._own()):
        return kernel
    try:
        if np.ndim(kernel.length_scale) == 0:  # type: ignore[attr-defined]
            return kernel._replace({"length_scale": "median"}).fit_params(X, weights)
        X = X.tocsc() if sp.issparse(X) else X
        each = [median_distance(X[:, [j]], weights) for j in range(X.shape[1])]
        return kernel._replace({"length_scale": np.sqrt(len(each)) * np.array(each)})
    except (MercerError, TypeError, IndexError):  # no word of its, or no points with distances
        return kernel
