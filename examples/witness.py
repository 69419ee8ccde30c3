"""Two samples that share mean and variance: do they differ, and where?

Run it with ``python examples/witness.py``; it takes a few seconds. With a file name it also draws
the picture: ``python examples/witness.py witness.png`` (needs matplotlib).
"""

from __future__ import annotations

import sys

import numpy as np
from scipy import stats

from mercer import RBF
from mercer.statistics import TestResult, mmd, mmd_agg_test, mmd_split_test, mmd_test, witness

N = 400


def samples(seed: int = 0, n: int = N) -> tuple[np.ndarray, np.ndarray]:
    """Return draws of a normal and of a Laplace density, both of mean 0 and variance 1."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=n), rng.laplace(scale=2**-0.5, size=n)


def main(picture: str | None = None) -> None:
    """Tell the story."""
    x, y = samples()
    moments(x, y)
    result = kernel_test(x, y)
    where(x, y)
    which_kernel()
    if picture is not None:
        draw(x, y, result, picture)


def moments(x: np.ndarray, y: np.ndarray) -> None:
    """Compare what everybody compares first."""
    t = stats.ttest_ind(x, y).pvalue
    print(f"1. {N} draws each of a normal and a Laplace density, mean 0, variance 1")
    for name, sample in (("normal", x), ("Laplace", y)):
        print(f"   {name:8} mean {sample.mean():+.2f}, standard deviation {sample.std():.2f}")
    print(f"   t test of the means: p = {t:.3f}\n")


def kernel_test(x: np.ndarray, y: np.ndarray) -> TestResult:
    """Compare the distributions whole."""
    print("2. The squared MMD, and how often shuffled samples reach it")
    result = mmd_test(x, y, RBF(0.5), n_permutations=999, rng=0)
    low, high = result.confidence_interval()
    print(f"   {mmd(x, y, RBF(0.5)):.5f}, p = {result.pvalue:.3f} ({low:.3f} to {high:.3f})\n")
    return result


def where(x: np.ndarray, y: np.ndarray) -> None:
    """Ask the witness, which is largest where the first density is above the second."""
    print("3. Where they differ: the witness, and the densities it has not seen")
    f = witness(x, y, RBF(0.3))
    places = np.array([-3.0, -1.0, 0.0, 1.0, 3.0])
    truth = stats.norm.pdf(places) - stats.laplace.pdf(places, scale=2**-0.5)
    for place, value, difference in zip(places, f(places[:, None]), truth, strict=True):
        more = "normal" if value > 0 else "Laplace"
        print(f"   at {place:+.0f}: witness {value:+.3f}, densities {difference:+.3f}: more {more}")


def which_kernel(runs: int = 40, n: int = 150) -> None:
    """Count how often each way of choosing the kernel finds the difference at 5 %."""
    print(f"\n4. Power at 5 %, {runs} pairs of samples of {n}, by how the kernel is chosen")
    tests = {
        "median distance": lambda x, y, s: mmd_test(x, y, n_permutations=199, rng=s),
        "aggregated": lambda x, y, s: mmd_agg_test(x, y, n_permutations=199, rng=s),
        "by splitting": lambda x, y, s: mmd_split_test(x, y, n_permutations=199, rng=s),
    }
    for name, test in tests.items():
        found = sum(test(*samples(100 + s, n), s).pvalue <= 0.05 for s in range(runs))
        print(f"   {name:16} {found / runs:4.0%}")


def draw(x: np.ndarray, y: np.ndarray, result: TestResult, path: str) -> None:
    """Draw densities and witness, and the null of the test."""
    from matplotlib.figure import Figure

    from mercer.plot import WitnessDisplay

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    WitnessDisplay.from_samples(x, y, RBF(0.3), labels=("normal", "Laplace"), ax=left)
    result.plot(right)
    figure.savefig(path, dpi=150)
    print(f"   picture: {path}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
