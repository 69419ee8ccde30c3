"""Tests, beside hyppo: permutations of one statistic, one process."""

from __future__ import annotations

import numpy as np

from mercer.statistics import distance_correlation_test, hsic_test, k_sample_test, mmd_test

from .base import Work, Works, sizes

try:
    from hyppo.independence import Dcorr, Hsic
    from hyppo.ksample import MMD, KSample
except ImportError:
    Dcorr = None

PEER = "hyppo"
FEW, MANY = 20, 200  # permutations: hyppo's times grow in proportion

__all__ = ["WORKS"]


def _pairs(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, X**2 + 3 * rng.standard_normal((n, d))


def two_samples(n: int, d: int, draws: int = FEW) -> Works:
    """Whether two samples are of one distribution: their MMD."""
    X, Y = _pairs(n, d)
    works: Works = {"mercer": lambda: mmd_test(X, Y, None, draws, 0)}
    if Dcorr is not None:
        works[PEER] = lambda: MMD().test(X, Y, reps=draws, workers=1, auto=False)
    return works


def several_samples(n: int, d: int, draws: int = FEW) -> Works:
    """The same of three samples; hyppo's by distances."""
    X, Y = _pairs(n, d)
    works: Works = {"mercer": lambda: k_sample_test(X, Y, X[::-1], n_permutations=draws, rng=0)}
    if Dcorr is not None:
        works[PEER] = lambda: KSample("Dcorr").test(
            X, Y, X[::-1], reps=draws, workers=1, auto=False
        )
    return works


def dependence(n: int, d: int, draws: int = FEW) -> Works:
    """Whether two columns of points are independent: their HSIC."""
    X, Y = _pairs(n, d)
    works: Works = {"mercer": lambda: hsic_test(X, Y, n_permutations=draws, rng=0)}
    if Dcorr is not None:
        works[PEER] = lambda: Hsic().test(X, Y, reps=draws, workers=1, auto=False)
    return works


def distances(n: int, d: int, draws: int = FEW) -> Works:
    """The same by the correlation of distances."""
    X, Y = _pairs(n, d)
    works: Works = {"mercer": lambda: distance_correlation_test(X, Y, draws, 0)}
    if Dcorr is not None:
        works[PEER] = lambda: Dcorr().test(X, Y, reps=draws, workers=1, auto=False)
    return works


WORKS: dict[str, Work] = {
    "MMD test": Work("Tests", two_samples, sizes((50, 2), (200, 10), (500, 5)), 400),
    "test of three samples": Work("Tests", several_samples, sizes((50, 2), (200, 10)), 300),
    "HSIC test": Work(
        "Tests", dependence, sizes((50, 2), (200, 10)) + sizes((500, 1), draws=MANY), 500
    ),
    "distance correlation test": Work("Tests", distances, sizes((50, 2), (500, 5)), 500),
}
