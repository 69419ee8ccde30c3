"""A two-sample test of spread, written as those of mercer are."""

from typing import Any

import numpy as np

from mercer.checks import as_rng
from mercer.errors import InvalidInput, speaks, who
from mercer.operators import Gram
from mercer.statistics import TestResult
from mercer.statistics.permutation import Relabel, drawn_result, resample
from mercer.statistics.samples import pool


@speaks("spread_test")
def spread_test(
    X: Any, Y: Any, kernel: Any = None, n_permutations: int = 999, rng: Any = None
) -> TestResult:
    r"""Test whether two samples are spread alike about their means in feature space.

    The spread of a sample is V = mean ‖φ(x) − μ‖² = mean k(x, x) − ‖μ‖², and the statistic
    |log V_X − log V_Y|. Where the samples have one distribution, every way to share the points out
    is equally likely, so the p-value is valid at any size.

    Parameters
    ----------
    X, Y : collections of n and m points, two or more each
        The samples.
    kernel : Kernel, str or callable, optional
        The kernel; RBF at the median distance of all points when left out.
    n_permutations : int, default=999
        Number of draws.
    rng : None, int or Generator
        Source of randomness.

    Returns
    -------
    TestResult
        ``extra["spreads"]`` holds V_X and V_Y.
    """
    k, Z, sizes, _ = pool([X, Y], kernel, [None, None], ["X", "Y"])
    if min(sizes) < 2:
        raise InvalidInput(f"{who()}: one point has no spread; give two or more in each sample.")
    K = Gram(k, Z)
    lengths = K.diagonal()

    def spreads(draws: np.ndarray) -> np.ndarray:
        """Return V of both samples for labels that were drawn, shape (2, draws)."""
        V = np.stack([draws == 0, draws == 1]) / np.reshape(sizes, (2, 1, 1))
        inside = np.stack([((K @ v.T) * v.T).sum(axis=0) for v in V])
        return np.maximum(V @ lengths - inside, 1e-15 * lengths.max())

    def statistic(draws: np.ndarray) -> np.ndarray:
        logs = np.log(spreads(draws))
        return np.abs(logs[0] - logs[1])

    labels = np.repeat([0, 1], sizes)
    drawn = resample(
        None,
        statistic,
        Relabel(labels),
        n_permutations,
        as_rng(rng),
        data=labels,
    )
    extra = {"kernel": k, "spreads": spreads(labels[None])[:, 0]}
    return drawn_result(drawn, "log ratio of spreads, permutations", tuple(sizes), extra)
