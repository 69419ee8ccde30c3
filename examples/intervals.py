"""Intervals that hold: jackknife+ from one fit, for any kernel and any noise.

Run it with ``python examples/intervals.py``; it takes a few seconds.
"""

from __future__ import annotations

import numpy as np

from mercer import RBF, KernelRidge

KERNEL = RBF(0.8)


def measurements(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return places and values around a curve, with noise that has heavy tails."""
    x = rng.uniform(0, 10, n)
    return x[:, None], np.sin(x) + 0.25 * x + 0.3 * rng.standard_t(3, n)


def main() -> None:
    """Tell the story."""
    one_fit()
    coverage()
    people()


def one_fit() -> None:
    """All fits without one row, from one factorisation."""
    X, y = measurements(60, np.random.default_rng(0))
    model = KernelRidge(KERNEL, alpha=0.5, fit_intercept=True).fit(X, y)
    left_out = model.loo()
    refits = [
        KernelRidge(KERNEL, alpha=0.5, fit_intercept=True)
        .fit(np.delete(X, i, 0), np.delete(y, i))
        .predict(X[[i]])[0]
        for i in range(len(y))
    ]
    print("1. Sixty rows, each predicted without itself")
    print(f"   mean error on rows that were fitted: {np.abs(model.predict(X) - y).mean():.3f}")
    print(f"   mean error on rows left out:         {np.abs(left_out - y).mean():.3f}")
    print(f"   largest difference from sixty refits: {np.abs(left_out - refits).max():.0e}\n")


def coverage() -> None:
    """Draw data again and again, and count how often a new value is inside."""
    rng = np.random.default_rng(1)
    print("2. How many of 20 000 new values are inside? (200 draws of 50 rows)")
    print("   wanted   jackknife+   training residuals   penalty")
    for alpha in (1.0, 1e-6):
        for wanted in (0.8, 0.9):
            hits = naive = 0
            for _ in range(200):
                X, y = measurements(50, rng)
                new, later = measurements(100, rng)
                model = KernelRidge(KERNEL, alpha, fit_intercept=True).fit(X, y)
                lower, upper = model.predict_interval(new, wanted)
                hits += np.sum((lower <= later) & (later <= upper))
                width = np.quantile(np.abs(y - model.predict(X)), wanted)
                naive += np.sum(np.abs(later - model.predict(new)) <= width)
            print(f"   {wanted:6.2f} {hits / 20_000:12.3f} {naive / 20_000:20.3f} {alpha:9g}")
    print("   A fit that follows its noise thinks well of itself; rows left out know better.\n")


def people() -> None:
    """Rows that belong together must be left out together."""
    rng = np.random.default_rng(2)

    def visits(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        person = np.repeat(np.arange(count), 5)
        age = np.repeat(rng.uniform(0, 10, count), 5) + 0.02 * rng.standard_normal(5 * count)
        own = np.repeat(rng.standard_normal(count), 5)
        return age[:, None], np.sin(age) + own + 0.1 * rng.standard_normal(5 * count), person

    X, y, person = visits(40)
    new, later, _ = visits(2000)
    model = KernelRidge(RBF(0.3), alpha=0.05, fit_intercept=True).fit(X, y)
    print("3. Forty people with five visits each; intervals for the visits of new people, 90%")
    for name, groups in (("rows left out one by one", None), ("people left out", person)):
        lower, upper = model.predict_interval(new, 0.9, groups=groups)
        inside = np.mean((lower <= later) & (later <= upper))
        print(f"   {name:<25} {inside:.3f} inside, width {np.mean(upper - lower):.2f}")


if __name__ == "__main__":
    main()
