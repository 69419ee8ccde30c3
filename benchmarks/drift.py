"""How often drift that no column shows alone is named, and how often chance is called drift.

Run a part with ``python benchmarks/drift.py power``, ``level`` or ``dependence``; each takes some
minutes at most on two cores, and prints the shares of data sets with their counts.

- power: two columns of ten are correlated by ρ in one sample and by −ρ in the other, 500 rows each;
  every column is normal in both. Counted is how often their pair is named first, beyond chance.
- level: two samples of one distribution, columns correlated. Counted is how often any column or
  pair at all is called out at an adjusted p-value of 5 %. The level is exact by design at any
  size, so 60 + 60 rows serve.
- dependence: one column of four is a function of one of six others; the same two counts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from mercer.statistics import TestExplanation, hsic_test, mmd_test

COLUMNS = 10
LEVEL = 0.05


def tied(rng: np.random.Generator, n: int, correlation: float) -> np.ndarray:
    """Return normal rows of which the first two columns are correlated."""
    Z = rng.standard_normal((n, COLUMNS))
    Z[:, 1] = correlation * Z[:, 0] + (1 - correlation**2) ** 0.5 * Z[:, 1]
    return Z


def first_is(told: TestExplanation, *columns: str) -> bool:
    """Whether these columns are named first, beyond chance."""
    first = told.shares[0]
    return first.columns == columns and first.adjusted is not None and first.adjusted <= LEVEL


def count(title: str, sets: int, one: Callable[[np.random.Generator], bool]) -> int:
    """Print in how many data sets something is so."""
    start, found = time.perf_counter(), 0
    for seed in range(sets):
        found += one(np.random.default_rng(seed))
    each = (time.perf_counter() - start) / sets
    print(f"{title}: {found} of {sets} data sets ({each:.2f} s each)", flush=True)
    return found


def power(sets: int = 100, n: int = 500, draws: int = 499) -> None:
    """Print how often the pair is named whose correlation has another sign."""
    for correlation in (0.6, 0.4, 0.3):

        def flipped(rng: np.random.Generator, r: float = correlation) -> bool:
            result = mmd_test(tied(rng, n, r), tied(rng, n, -r), None, draws, rng)
            return first_is(result.explain(), "x0", "x1")

        count(f"correlation ±{correlation}, the pair is named first", sets, flipped)


def level(sets: int = 1000, n: int = 60, draws: int = 199) -> None:
    """Print how often something is called out where nothing differs."""

    def any_called(rng: np.random.Generator) -> bool:
        result = mmd_test(tied(rng, n, 0.6), tied(rng, n, 0.6), None, draws, rng)
        return bool(result.explain().significant(LEVEL))

    count("no drift, a column or pair is called out", sets, any_called)


def dependence(sets: int = 100, n: int = 300, draws: int = 199) -> None:
    """Print the same of tests of independence."""

    def tested(rng: np.random.Generator, link: float) -> TestExplanation:
        X, Y = rng.standard_normal((n, 6)), rng.standard_normal((n, 4))
        Y[:, 1] += link * X[:, 2] ** 2
        return hsic_test(X, Y, n_permutations=draws, rng=rng).explain()

    count(
        "y1 = x2² + noise, the pair is named first",
        sets,
        lambda rng: first_is(tested(rng, 1.0), "x2", "y1"),
    )
    count(
        "independent, a column or pair is called out",
        10 * sets,
        lambda rng: bool(tested(rng, 0.0).significant(LEVEL)),
    )


PARTS = {"power": power, "level": level, "dependence": dependence}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
