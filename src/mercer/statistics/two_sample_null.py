"""Nulls of MMD² without draws: a gamma law with exact moments, and a normal cross-statistic."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import gamma, norm

from mercer.domains import GramRows
from mercer.errors import InvalidInput
from mercer.statistics.base import check_finite
from mercer.statistics.discrepancy import Discrepancy
from mercer.statistics.gram_forms import choose_forms
from mercer.statistics.label_vectors import Labelled

__all__ = ["cross_normal", "gamma_pvalue", "label_moments"]

SMALLEST = float(np.finfo(np.float64).tiny)  # a p-value is never 0


def label_moments(
    size: tuple[float, float], estimator: str, sums: tuple[float, float, float]
) -> tuple[float, float]:
    """Return mean and variance of MMD² over all permutations of the labels.

    MMD² = Σ over i ≠ j of aᵢⱼ b(labels of i and j), with aᵢⱼ = kᵢⱼ − (kᵢᵢ + kⱼⱼ)/2, which is minus
    half of a squared distance: adding terms of i or of j alone changes neither estimator. Mantel
    (Cancer Research 27, 1967) gives the moments of such a sum in terms of S = Σ aᵢⱼ, Q = Σ aᵢⱼ² and
    R = Σᵢ (Σⱼ aᵢⱼ − S/N)², and of those of b.

    Parameters
    ----------
    size : tuple of float
        Sizes of the samples.
    estimator : {"unbiased", "biased"}
        Which estimator.
    sums : tuple of float
        S, Q and R of all points.
    """
    n, m = size
    N = n + m
    less = 1 if estimator == "unbiased" else 0
    x, y, z = 1 / (n * (n - less)), 1 / (m * (m - less)), -1 / (n * m)
    S_b = n * (n - 1) * x + m * (m - 1) * y + 2 * n * m * z
    Q_b = n * (n - 1) * x**2 + m * (m - 1) * y**2 + 2 * n * m * z**2
    R_b = n * ((n - 1) * x + m * z) ** 2 + m * ((m - 1) * y + n * z) ** 2
    if estimator == "unbiased":
        S_b = R_b = 0.0  # exactly: every row of b sums to zero
    S, Q, R = sums
    pairs = N * (N - 1)
    mean = S * S_b / pairs
    # Centre both, which moves the sum by a constant and keeps digits: then S = 0.
    Q = max(Q - S**2 / pairs, 0.0)
    Q_b, R_b = Q_b - S_b**2 / pairs, R_b - S_b**2 / N
    variance = 2 * Q * Q_b / pairs
    if N > 2:
        variance += 4 * (R - Q) * (R_b - Q_b) / (pairs * (N - 2))
    if N > 3:
        variance += (2 * Q - 4 * R) * (2 * Q_b - 4 * R_b) / (pairs * (N - 2) * (N - 3))
    return mean, max(variance, 0.0)


def gamma_pvalue(statistic: Discrepancy) -> tuple[float, float, dict[str, float]]:
    """Return the statistic, its p-value under a gamma law, and the moments that law has.

    The biased MMD² is positive; its law has two moments, hence a shape. A statistic with other
    moments is brought to that shape by its own mean and deviation (a Pearson law of type III).

    Parameters
    ----------
    statistic : Discrepancy
        The statistic of the samples.
    """
    points, forms = statistic.points, statistic.forms
    if not points.unit and points.counts is None:
        raise InvalidInput(
            f"{statistic.owner}: null='gamma' takes weights that are whole numbers, the counts of "
            "rows; use null='permutation'."
        )
    observed = statistic.checked(statistic.observed(squares=True))
    unit = np.float64(forms.unit)  # S, Q and R are of kernel values over this
    t, d = points.weights, forms.diagonal / unit
    N, trace = t.sum(), t @ d
    rows = forms.sums / unit - (N * d + trace) / 2
    S = float(t @ rows)
    sums = S, forms.squares, float(t @ (rows - S / N) ** 2)
    n, m = points.totals()
    mean, variance = label_moments((n, m), statistic.estimator, sums)
    center, spread = label_moments((n, m), "biased", sums)
    with np.errstate(over="ignore", under="ignore"):
        moments = {"mean": float(mean * unit), "variance": float(variance * unit * unit)}
    if min(np.sqrt(variance), center) <= forms.resolution / unit:
        forms.refuse_lost(points.totals(), statistic.owner)
        return observed, 1.0, moments  # every permutation has one value
    shape = center**2 / spread
    score = (observed / unit - mean) / np.sqrt(variance)
    pvalue = gamma.sf(shape + score * np.sqrt(shape), shape)
    return observed, float(max(pvalue, SMALLEST)), moments


def cross_normal(
    points: Labelled, rng: np.random.Generator, owner: str
) -> tuple[float, float, float]:
    """Return the studentised cross-MMD, its p-value, and the cross-MMD² itself.

    With the witness f of one half of both samples, (mean f(X) − mean f(Y))/s over the other half,
    s² = var f(X)/n + var f(Y)/m, is standard normal in the limit when the distributions are equal:
    given f it is a sum of independent terms.

    Parameters
    ----------
    points : Labelled
        The samples.
    rng : Generator
        Draws the halves.
    owner : str
        Whose arguments they are.
    """
    index = [rng.permutation(np.flatnonzero(points.labels == label)) for label in (0, 1)]
    for name, part in zip("XY", index, strict=True):
        if len(part) < 4:
            raise InvalidInput(
                f"{owner}: null='normal' splits each sample in two and needs at least 4 points in "
                f"each, but {name} has {len(part)}. Use null='permutation'."
            )
    half = [len(part) // 2 for part in index]
    make = np.concatenate([part[h:] for part, h in zip(index, half, strict=True)])
    judge = np.concatenate([part[:h] for part, h in zip(index, half, strict=True)])
    labels = points.labels[make]
    coef = np.where(labels == 0, 1.0 / (labels == 0).sum(), -1.0 / (labels == 1).sum())
    points.kernel._bind(points.Z).verify()
    f = _values(points.kernel, points.Z, judge, make, coef)
    check_finite(f, owner)
    unit = float(np.ldexp(1.0, np.frexp(np.abs(f).max())[1]))  # squares stay in range
    f = f / unit
    x, y = f[: half[0]], f[half[0] :]
    square = float(x.mean() - y.mean())
    error = float(np.sqrt(x.var(ddof=1) / len(x) + y.var(ddof=1) / len(y)))
    scale = float(np.abs(points.kernel.diag(points.Z)).max()) / unit
    if error <= 1e-13 * scale:
        forms = choose_forms(points.kernel, points.Z, points.weights)
        forms(np.zeros((len(points), 0)))
        forms.refuse_lost(points.totals(), owner)
        return 0.0, 1.0, square * unit
    statistic = square / error
    return statistic, float(max(norm.sf(statistic), SMALLEST)), square * unit


def _values(kernel: Any, Z: Any, rows: np.ndarray, cols: np.ndarray, coef: np.ndarray) -> Any:
    if isinstance(kernel.domain, GramRows):
        return Z[np.ix_(rows, cols)] @ coef
    take = kernel.domain.take
    return np.asarray(kernel.matmul(take(Z, rows), take(Z, cols), coef))
