"""Level and power of the tests: how often they reject at 5 %, under the null and against it.

Not a timing: run it by name, ``python benchmarks/power.py``. It takes about ten minutes. Beside our
shares stand those of two papers, and of the authors' implementation of one on the same data sets:

[1] Schrab, Kim, Albert, Laurent, Guedj, Gretton, "MMD aggregated two-sample test", JMLR 24, 2023.
[2] Sutherland, Tung, Strathmann, De, Ramdas, Smola, Gretton, "Generative models and model criticism
    via optimized maximum mean discrepancy", ICLR 2017.
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


def _blobs(ratio: float, n: int = 250, share: float = 1.0) -> Data:
    """Gretton's blobs: 25 centres, 10 apart, of variances 1 and 1, or `ratio` and 1, turned.

    The variances of the second are multiplied by `share`; with 2/(ratio + 1) both columns have
    variance 1, as in [2].
    """
    turn = np.array([[1.0, -1.0], [1.0, 1.0]]) / 2**0.5

    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        first, second = 10.0 * rng.integers(0, 5, size=(2, n, 2))
        first += rng.normal(size=(n, 2))
        second += (rng.normal(size=(n, 2)) * [(share * ratio) ** 0.5, share**0.5]) @ turn.T
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


def _ripples(count: int) -> Data:
    """500 points of the perturbed uniform density of [1], (17) in one dimension, and 500 uniform.

    On each of `count` intervals of [0, 1] a smooth bump up and one down, or the other way round.
    """

    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        sign = rng.choice([-1.0, 1.0], count)
        x = rng.uniform(size=2000)
        part = 4 * (count * x % 1)
        up = np.where(part < 2, 1.0, -1.0)
        bump = up * np.exp(-1 / np.maximum(1 - (part - 2 + up) ** 2, 1e-300))
        density = 1 + 2.7 / count * sign[(count * x).astype(int)] * bump
        taken = x[rng.uniform(0, 1 + 2.7 / count / np.e, 2000) < density]
        return taken[:500], rng.uniform(size=500)

    return draw


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
# The implementation of [1], https://github.com/antoninschrab/mmdagg, NumPy, by default but for 500
# draws of both kinds, on the first 100 data sets of PLANE.
PLANE_CITED = {"mmdagg of [1]": (0.04, 0.10, 0.35, 0.80, 0.18, 0.93, 0.20, 0.67)}
# Figure 3 of [1], Gaussian kernels and wild bootstrap, 500 data sets; the numbers are those of its
# repository, https://github.com/antoninschrab/mmdagg-paper (results/exp1_2.npy, paper/raw).
RIPPLES = {f"{count} perturbation{'s' * (count > 1)}": _ripples(count) for count in range(1, 5)}
RIPPLES_CITED = {
    "MMDAgg* of [1]": (1.0, 0.988, 0.602, 0.226),
    "median of [1]": (1.0, 0.812, 0.084, 0.018),
    "split of [1]": (1.0, 0.826, 0.144, 0.046),
}
# Figure 2c of [2], at 10 %, 100 data sets, read from the picture to 0.01: the power of the best of
# 30 Gaussian kernels, known from the power itself, and of the one that the ratio of MMD² to its
# deviation chooses on another sample of 500 + 500.
RATIOS = {f"blobs, ratio {ratio}": _blobs(ratio, 500, 2 / (ratio + 1)) for ratio in (2, 4, 6, 8)}
RATIOS_CITED = {
    "best of [2]": (0.23, 0.59, 0.96, 0.99),
    "chosen of [2]": (0.16, 0.46, 0.91, 0.97),
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


def _rejections(draw: Data, test: Callable[..., Any], seed: int, sets: int, level: float) -> float:
    hits = 0
    for i in range(sets):
        rng = np.random.default_rng([seed, i])
        hits += test(*draw(rng), rng).pvalue <= level
    return hits / sets


def _table(
    title: str,
    cases: dict[str, Data],
    tests: dict[str, Callable[..., Any]],
    cited: dict[str, tuple[float, ...]] | None = None,
    sets: int = SETS,
    level: float = 0.05,
) -> None:
    names = [*tests, *(cited or {})]
    print(f"\n{title}\n{'':26}" + "".join(f"{name:>18}" for name in names))
    for row, (name, draw) in enumerate(cases.items()):
        shares = [_rejections(draw, test, row, sets, level) for test in tests.values()]
        shares += [each[row] for each in (cited or {}).values()]
        print(f"{name:26}" + "".join(f"{share:>18.1%}" for share in shares), flush=True)


def _two_sample(scale: float | None, draws: int) -> dict[str, Callable[..., Any]]:
    tests = {"mmd_test": lambda x, y, rng: mmd_test(x, y, None, draws, rng)}
    if scale is not None:
        tests[f"RBF({scale:g})"] = lambda x, y, rng: mmd_test(x, y, RBF(scale), draws, rng)
    tests["mmd_agg_test"] = lambda x, y, rng: mmd_agg_test(x, y, None, draws, rng)
    tests["mmd_split_test"] = lambda x, y, rng: mmd_split_test(x, y, None, draws, rng)
    return tests


def main() -> None:
    """Print the tables."""
    low, high = binom.ppf([0.005, 0.995], SETS, 0.05) / SETS
    print(f"Share of {SETS} data sets rejected at 5 %, {DRAWS} draws; the first row of each table")
    print(f"is the level, whose 99 % band is {low:.1%} to {high:.1%}.")
    _table("50 + 50 points, one column", SAMPLES, _two_sample(0.3, DRAWS))
    _table(
        "250 + 250 points, two columns, 100 data sets",
        PLANE,
        _two_sample(1.0, DRAWS),
        PLANE_CITED,
        sets=100,
    )
    _table(
        "500 + 500 points, perturbed uniform and uniform, 199 draws, 100 data sets",
        RIPPLES,
        _two_sample(None, 199),
        RIPPLES_CITED,
        sets=100,
    )
    _table(
        "500 + 500 points, blobs of equal variances, at 10 %, 199 draws, 100 data sets",
        RATIOS,
        _two_sample(None, 199),
        RATIOS_CITED,
        sets=100,
        level=0.1,
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
