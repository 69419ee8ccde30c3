"""Where a search for parameters begins beside what was given, and what to doubt at its end."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.errors import MercerError, users_level, who
from mercer.kernels import Kernel, with_median
from mercer.models.gp.base import row_key
from mercer.models.gp.parameters import Parameters
from mercer.operators import gram_of

if TYPE_CHECKING:
    from mercer.models.gp.regression import Problem

# An amplitude and a noise in other units than y, or length scales far from all distances, are a
# start at which the evidence has no slope: everything is noise there, and stays it. Then the
# search begins at a second place too, and the better end counts.


START = 0.1  # of the variance of y, or of the function: where the search for the noise starts
START_APART = 10.0  # factor between the variances of y and of the function: both are starts then
NO_SPREAD = (
    "did not begin: y does not vary beyond what the mean explains, so that the evidence has no "
    "maximum; the parameters are those of the start"
)
BLIND = (
    "; to the kernel as given all rows are alike, or each like no other, so that the search began "
    "at median distances too"
)
ROWS = 64  # that tell whether a kernel sees the data
PROBED = 100  # rows on which an end is compared with what was not tuned
PROBE_NOISE, PARTS = 0.2, (1.0, 0.3, 0.1)  # of the variance of y; of median distances
BEHIND = 1.0  # nats by which an end is worse than that
PERIODS = 60  # between the spacing of the rows and all of them that a doubted end is compared with
PERIODS_APART = 3.0  # factor between the period given and that found of which users are told
ALIKE, ALONE = 0.05, 1e-3  # correlations all so near to 1, or to 0, say nothing
START_SAME = 1e-12  # correlations this near to 1 are of the same point


def first_noise(problem: Problem) -> float:
    """Return where the search for the noise starts, in the units of y²."""
    if problem.varies.any():
        return START * problem.unit()
    return START * (_function_variance(problem) or problem.targets.variance_unit())


def place(parameters: Parameters, noise: Any, problem: Problem) -> None:
    """Hold parameters where the evidence has no maximum; add starts where one says little."""
    if not problem.varies.any():
        parameters.hold(NO_SPREAD)
        return
    kernels, level = [problem.kernel], parameters.noise
    scaled = any("length_scale" in name for name in parameters.names)
    if scaled and blind(problem.kernel, problem.X, problem.Y):
        kernels.append(with_median(problem.kernel, problem.X, problem.weights))
        parameters.remark = BLIND
    starts = [(kernel, level) for kernel in kernels]
    if isinstance(noise, str) and level:
        function = _function_variance(problem)
        ratio = problem.unit() / function if function > 0 else 1.0
        if (
            not 1 / START_APART <= ratio <= START_APART
        ):  # amplitude and noise are in other units than y
            starts += [_in_units(kernel, level, ratio) for kernel in kernels]
    for start in starts[1:]:
        parameters.also(*start)


def doubts(
    problem: Problem, parameters: Parameters, known: Any
) -> Callable[[np.ndarray, float], list[np.ndarray]]:
    """Return what tells, at the end of a search, of a better place to start from.

    A search may stay where each row is like no other to the kernel, or where all is noise. Then a
    kernel with median distances, or with a part of them, explains some rows better than what was
    found, although nothing of it was tuned. An end that explains half of y is not asked.
    """

    def ask(theta: np.ndarray, found: float) -> list[np.ndarray]:
        if found >= problem.half_explained():
            return []
        rows = spread_rows(problem.X, problem.Y, PROBED)
        evidence, unit = problem.evidence(rows), problem.targets.variance_unit()

        def value(kernel: Kernel, level: Any) -> float:
            return evidence.value(kernel, (known[rows] if level is None else level) / unit)

        return better_start(theta, _probes(problem, parameters, rows), parameters, value)

    return ask


def better_start(
    theta: np.ndarray,
    probes: list[np.ndarray],
    parameters: Parameters,
    evidence: Callable[[Kernel, Any], float],
) -> list[np.ndarray]:
    """Return the best of some places, of which nothing was tuned, if it is better than an end.

    `evidence` is that of some rows, for a kernel and a noise.
    """

    def value(theta: np.ndarray) -> float:
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                found = evidence(*parameters.read(theta)) + parameters.log_prior(theta)[0]
        except (MercerError, ArithmeticError, np.linalg.LinAlgError):
            return -np.inf
        return found if np.isfinite(found) else -np.inf

    values = [value(probe) for probe in probes]
    best = int(np.argmax(values))
    return [probes[best]] if values[best] > value(theta) + BEHIND else []


def at_parts(kernel: Kernel, X: Any, weights: Any) -> list[Kernel]:
    """Return a kernel with median distances, and with parts of them, where it has lengths."""
    scales = np.array(["length_scale" in name for name in kernel.theta_names], dtype=bool)
    if not scales.any():
        return [kernel]
    kernel = with_median(kernel, X, weights)
    return [kernel.with_theta(kernel.theta + np.log(part) * scales) for part in PARTS]


def _probes(problem: Problem, parameters: Parameters, rows: np.ndarray) -> list[np.ndarray]:
    """Return θ of an amplitude like that of y, some noise, and parts of median distances."""
    level, weights = parameters.noise, None if problem.weights is None else problem.weights[rows]
    kernels = at_parts(problem.kernel, problem.kernel.domain.subset(problem.X, rows), weights)
    kernels = [one for kernel in kernels for one in _at_periods(kernel, problem.X)]
    if "noise" in parameters.names:
        level = PROBE_NOISE * problem.unit()
        function = _function_variance(problem)
        if function > 0:
            ratio = problem.unit() / function
            kernels = [_in_units(kernel, level, ratio)[0] for kernel in kernels]
    return [parameters.place(kernel, level) for kernel in kernels]


def _at_periods(kernel: Kernel, X: Any) -> list[Kernel]:
    """Return a kernel and, where it has periods, those with others that the rows could tell."""
    periods = np.array([name.rpartition("__")[2] == "period" for name in kernel.theta_names])
    spacing = _spacing(X) if periods.any() else None
    if spacing is None:
        return [kernel]
    low, high = np.log(2 * spacing), np.log(float(np.ptp(X, axis=0).max()))
    places = np.linspace(low, high, PERIODS) if low < high else ()
    there = [kernel.with_theta(np.where(periods, place, kernel.theta)) for place in places]
    return [kernel, *there]


def _in_units(kernel: Kernel, noise: float, ratio: float) -> tuple[Kernel, float]:
    """Return a start at which the variance of the function is `ratio` times larger.

    By the factors of its terms; where it has none the noise goes the other way.
    """
    factors = [name.rpartition("__")[2] == "value" for name in kernel.theta_names]
    if not any(factors):
        return kernel, noise / ratio
    return kernel.with_theta(kernel.theta + np.where(factors, np.log(ratio), 0.0)), noise


def _function_variance(problem: Problem) -> float:
    """Return the prior variance of the function in the units of y²."""
    mean = mean_variance(problem.kernel, problem.X, problem.weights)
    return mean * problem.targets.variance_unit()


def mean_variance(kernel: Kernel, X: Any, weights: Any = None) -> float:
    """Return the mean of k(x, x) over the rows; 0 where it is not a finite number."""
    with np.errstate(all="ignore"):
        d = np.asarray(gram_of(kernel, X).diagonal(), dtype=float)
        mean = float(np.average(d, weights=weights))
    return mean if np.isfinite(mean) else 0.0


def spread_rows(X: Any, Y: np.ndarray, most: int) -> np.ndarray:
    """Return some rows, the same ones however they are ordered."""
    order, count = np.lexsort(row_key(X, Y).T), min(len(Y), most)
    return np.sort(order[np.linspace(0, len(Y) - 1, count).astype(int)])


def blind(kernel: Kernel, X: Any, Y: np.ndarray) -> bool:
    """Whether all rows are alike to the kernel, or each like no other."""
    n = len(Y)
    if n < 2 or not kernel.domain.holds_points:
        return False
    rows = spread_rows(X, Y, ROWS)
    with np.errstate(all="ignore"):
        K = np.array(kernel(kernel.domain.subset(X, rows)), dtype=float)
        size = np.sqrt(np.diagonal(K))
        K /= size
        K /= size[:, None]
    if not np.isfinite(K).all():
        return False
    np.einsum("ii->i", K)[...] = 1.0
    if K.min() > 1 - ALIKE:
        return True
    K[K > 1 - START_SAME] = 0.0
    return bool(np.median(np.abs(K, out=K).max(axis=1)) < ALONE)


def warn_of_end(parameters: Parameters, theta: np.ndarray, X: Any) -> None:
    """Warn of where a search ended: at a limit that was given, or at a period to doubt."""
    for i, word in parameters.at_limits(theta):
        warnings.warn(
            f"{who()}: the search ended at the {word} limit {np.exp(theta[i]):.4g} that was given "
            f"for the {parameters.words[i]}, and the best value may be beyond. Widen the limits, "
            "unless they are meant to bind.",
            UserWarning,
            stacklevel=users_level(),
        )
    _warn_of_periods(parameters, theta, X)


def _warn_of_periods(parameters: Parameters, theta: np.ndarray, X: Any) -> None:
    """Warn of a period that a search took far from where it was, or below the spacing of rows.

    The evidence has a hill for every period that divides a true one, or that the rows cannot tell
    from it.
    """
    for i, name in enumerate(parameters.names):
        if name.rpartition("__")[2] != "period":
            continue
        start, end = np.exp(parameters.theta[i]), np.exp(theta[i])
        spacing = _spacing(X)
        below = spacing is not None and end < spacing
        if not below and max(start / end, end / start) <= PERIODS_APART:
            continue
        why = f", below the spacing of the rows, {spacing:.3g}" if below else ""
        cure = (
            f"Where the period is known, hold it, fixed=[{name!r}], or keep it near, "
            f"bounds={{{name!r}: ({start / 1.5:.4g}, {start * 1.5:.4g})}}."
        )
        if spacing is not None and start < spacing:
            cure = f"Rows cannot tell such periods from longer ones: start above {2 * spacing:.3g}."
        warnings.warn(
            f"{who()}: the search took the {parameters.words[i]} from {start:.4g} to {end:.4g}"
            f"{why}. {cure}",
            UserWarning,
            stacklevel=users_level(),
        )


def _spacing(X: Any) -> float | None:
    """Return the median distance of neighbours in the column where it is least; None of others."""
    if not (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f"):
        return None
    gaps = [np.diff(np.unique(column)) for column in X.T]
    return min((float(np.median(gap)) for gap in gaps if len(gap)), default=None)
