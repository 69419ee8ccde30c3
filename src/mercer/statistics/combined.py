"""One p-value from several statistics of the same draws, valid whatever their dependence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.statistics.base import TestResult

__all__ = ["Combined", "combined", "combined_result"]

SLACK = 1e-9  # of a studentised statistic, below which two are tied


@dataclass(frozen=True, eq=False)
class Combined:
    """What the statistics of all rows, the data first, say together.

    Parameters
    ----------
    values : ndarray of shape (B + 1,)
        One number for each row; large ones speak against the hypothesis.
    exceedances : int
        Rows after the first that reach it.
    pvalues : ndarray of shape (q,)
        Of each statistic alone.
    largest : int
        Which statistic of the data stands out most.
    """

    values: np.ndarray
    exceedances: int
    pvalues: np.ndarray
    largest: int


def combined(T: np.ndarray, resolution: Any, slack: float = SLACK) -> Combined:
    """Return the rows of T, each made one number: its largest studentised statistic.

    Under the hypothesis the data are one of the arrangements that were drawn, so rows are
    exchangeable. Means and deviations of columns are the same in whatever order the rows stand, so
    the largest are exchangeable too: the rank of the first is a valid p-value.

    Parameters
    ----------
    T : ndarray of shape (B + 1, q)
        Statistics, one row for the data and one for each draw.
    resolution : float or array of shape (q,)
        Differences within a column that may be rounding.
    slack : float
        As much, of studentised statistics.
    """
    rows = len(T)
    resolution = np.broadcast_to(np.asarray(resolution, dtype=float), T.shape[1:])
    # Over a power of two, so that squares stay in range.
    unit = np.ldexp(1.0, np.frexp(np.abs(T).max(0))[1] - 1)
    T = T / unit
    spread = T.std(0)
    real = spread > resolution / unit
    z = np.where(real, (T - T.mean(0)) / np.where(real, spread, 1.0), 0.0)
    # A column without spread has no say.
    values = z[:, real].max(1) if real.any() else np.zeros(rows)
    exceedances = int((values[1:] >= values[0] - slack).sum())
    pvalues = (z >= z[0] - slack).sum(0) / rows
    return Combined(values, exceedances, pvalues, int(np.argmax(z[0])))


def combined_result(
    found: Combined,
    kernels: Sequence[Any],
    statistics: np.ndarray,
    method: str,
    sizes: tuple[int, ...],
) -> TestResult:
    """Return the result of an aggregated test.

    Parameters
    ----------
    found : Combined
        The combination.
    kernels : sequence
        Of each statistic, the kernel or the pair of kernels.
    statistics : ndarray of shape (q,)
        Of the data.
    method : str
        How, in words.
    sizes : tuple of int
        Sizes of the samples.
    """
    B = len(found.values) - 1
    return TestResult(
        float(found.values[0]),
        (found.exceedances + 1) / (B + 1),
        found.values[1:],
        method,
        B,
        sizes,
        found.exceedances,
        False,
        {
            "kernel": kernels[found.largest],
            "kernels": list(kernels),
            "pvalues": found.pvalues,
            "statistics": statistics,
        },
    )
