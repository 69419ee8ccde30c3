"""Level and power of the tests: how often they reject at 5 %, under the null and against it.

Not a timing: run it by name, ``python benchmarks/power.py``. It takes about five minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import binom

from mercer import RBF
from mercer.statistics import (
    distance_correlation_test,
    hsic_agg_test,
    hsic_test,
    kci_test,
    ksd_test,
    mmd_agg_test,
    mmd_split_test,
    mmd_test,
)

__all__ = ["main"]

SETS, DRAWS = 200, 99
Data = Callable[[np.random.Generator], tuple[Any, ...]]


def _two(second: Callable[[np.random.Generator], np.ndarray]) -> Data:
    return lambda rng: (rng.normal(size=50), second(rng))


def _humps(rng: np.random.Generator) -> np.ndarray:
    return rng.choice([-1.0, 1.0], 50) * 0.95 + 0.31 * rng.normal(size=50)


def _pair(y: Callable[[np.ndarray, np.random.Generator], np.ndarray]) -> Data:
    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        x = rng.uniform(-1, 1, 60)
        return x, y(x, rng)

    return draw


def _circle(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    angle = rng.uniform(0, 2 * np.pi, 60)
    x, y = np.cos(angle), np.sin(angle)
    return x + 0.2 * rng.normal(size=60), y + 0.2 * rng.normal(size=60)


def _cause(link: float) -> Data:
    def draw(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        z = rng.normal(size=100)
        x = np.sin(2 * z) + 0.5 * rng.normal(size=100)
        return x, z**2 / 2 + link * x + 0.5 * rng.normal(size=100), z

    return draw


def _blobs(ratio: float) -> Data:
    """Gretton's blobs: 25 centres, 10 apart, of variances 1 and 1, or `ratio` and 1, turned."""
    turn = np.array([[1.0, -1.0], [1.0, 1.0]]) / 2**0.5

    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        first, second = 10.0 * rng.integers(0, 5, size=(2, 250, 2))
        first += rng.normal(size=(250, 2))
        second += (rng.normal(size=(250, 2)) * [ratio**0.5, 1.0]) @ turn.T
        return first, second

    return draw


def _rings(gap: float) -> Data:
    """Two rings of radii 1 and 2, and of 1 + gap and 2 − gap, of which the noise is 0.1."""

    def ring(rng: np.random.Generator, radii: list[float]) -> np.ndarray:
        angle, radius = rng.uniform(0, 2 * np.pi, 250), rng.choice(radii, 250)
        around = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
        return around + 0.1 * rng.normal(size=(250, 2))

    return lambda rng: (ring(rng, [1.0, 2.0]), ring(rng, [1.0 + gap, 2.0 - gap]))


def _shift(by: float) -> Data:
    return lambda rng: (rng.normal(size=(250, 2)), rng.normal(size=(250, 2)) + by)


PLANE = {
    "blobs alike": _blobs(1.0),
    "blobs, ratio 4": _blobs(4.0),
    "blobs, ratio 6": _blobs(6.0),
    "blobs, ratio 9": _blobs(9.0),
    "rings, 0.06 nearer": _rings(0.06),
    "rings, 0.12 nearer": _rings(0.12),
    "shift by 0.1 each": _shift(0.1),
    "shift by 0.2 each": _shift(0.2),
}
SAMPLES = {
    "one distribution": _two(lambda rng: rng.normal(size=50)),
    "mean shifted by 0.7": _two(lambda rng: rng.normal(0.7, 1, 50)),
    "deviation 2": _two(lambda rng: rng.normal(0, 2, 50)),
    "two humps, same moments": _two(_humps),
}
PAIRS = {
    "independent": _pair(lambda x, rng: rng.normal(size=60)),
    "y = x² + noise": _pair(lambda x, rng: x**2 + 0.15 * rng.normal(size=60)),
    "y = sin 6x + noise": _pair(lambda x, rng: np.sin(6 * x) + 0.3 * rng.normal(size=60)),
    "a circle": _circle,
}
FITS = {
    "standard normal": lambda rng: (rng.normal(size=100),),
    "mean shifted by 0.3": lambda rng: (rng.normal(0.3, 1, 100),),
    "Student's t, 3 degrees": lambda rng: (rng.standard_t(3, 100),),
}
CAUSES = {"one cause": _cause(0.0), "and a link of 0.5": _cause(0.5)}


def _rejections(draw: Data, test: Callable[..., Any], seed: int, sets: int) -> float:
    hits = 0
    for i in range(sets):
        rng = np.random.default_rng([seed, i])
        hits += test(*draw(rng), rng).pvalue <= 0.05
    return hits / sets


def _table(
    title: str, cases: dict[str, Data], tests: dict[str, Callable[..., Any]], sets: int = SETS
) -> None:
    print(f"\n{title}\n{'':26}" + "".join(f"{name:>18}" for name in tests))
    for row, (name, draw) in enumerate(cases.items()):
        shares = [_rejections(draw, test, row, sets) for test in tests.values()]
        print(f"{name:26}" + "".join(f"{share:>18.1%}" for share in shares), flush=True)


def main() -> None:
    """Print the tables."""
    low, high = binom.ppf([0.005, 0.995], SETS, 0.05) / SETS
    print(f"Share of {SETS} data sets rejected at 5 %, {DRAWS} draws; the first row of each table")
    print(f"is the level, whose 99 % band is {low:.1%} to {high:.1%}.")
    _table(
        "50 + 50 points, one column",
        SAMPLES,
        {
            "mmd_test": lambda x, y, rng: mmd_test(x, y, None, DRAWS, rng),
            "RBF(0.3)": lambda x, y, rng: mmd_test(x, y, RBF(0.3), DRAWS, rng),
            "mmd_agg_test": lambda x, y, rng: mmd_agg_test(x, y, None, DRAWS, rng),
            "mmd_split_test": lambda x, y, rng: mmd_split_test(x, y, None, DRAWS, rng),
        },
    )
    _table(
        "250 + 250 points, two columns, 60 data sets",
        PLANE,
        {
            "mmd_test": lambda x, y, rng: mmd_test(x, y, None, DRAWS, rng),
            "RBF(1)": lambda x, y, rng: mmd_test(x, y, RBF(1.0), DRAWS, rng),
            "mmd_agg_test": lambda x, y, rng: mmd_agg_test(x, y, None, DRAWS, rng),
            "mmd_split_test": lambda x, y, rng: mmd_split_test(x, y, None, DRAWS, rng),
        },
        sets=60,
    )
    _table(
        "60 pairs",
        PAIRS,
        {
            "hsic_test": lambda x, y, rng: hsic_test(x, y, None, None, DRAWS, rng),
            "null=moments": lambda x, y, rng: hsic_test(x, y, null="moments"),
            "hsic_agg_test": lambda x, y, rng: hsic_agg_test(x, y, None, None, DRAWS, rng),
            "distances": lambda x, y, rng: distance_correlation_test(x, y, DRAWS, rng),
        },
    )
    score = np.negative  # that of the standard normal
    _table(
        "100 points against the standard normal",
        FITS,
        {"ksd_test": lambda x, rng: ksd_test(x[:, None], score, None, DRAWS, rng)},
    )
    _table(
        "100 rows, x = sin 2z + noise, y = z²/2 + noise, given z",
        CAUSES,
        {"kci_test": lambda x, y, z, rng: kci_test(x, y, z, rng=rng)},
    )


if __name__ == "__main__":
    main()
