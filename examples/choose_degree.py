"""Choosing the degree of a polynomial: every criterion at once, on ten noisy points of a parabola.

Run it with ``python examples/choose_degree.py``; it takes a few seconds.
"""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import KFold

from mercer import KernelRidge, Polynomial, evidence, search, srm
from mercer.selection import information_criteria

DEGREES = range(1, 9)
KERNELS = [Polynomial(m) for m in DEGREES]
NEW = 1.8
FOLDS = KFold(5, shuffle=True, random_state=0)


def truth(x: np.ndarray) -> np.ndarray:
    """Return the parabola behind the data."""
    return 4 * x**2 - 2 * x + 3


def parabola(seed: int, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Return n equal steps from −2 to 2, and the parabola there with noise of variance one."""
    x = np.linspace(-2, 2, n)
    return x[:, None], truth(x) + np.random.default_rng(seed).standard_normal(n)


def main() -> None:
    """Tell the story."""
    one_sample()
    many_samples()


def one_sample() -> None:
    """What each degree makes of the same ten points."""
    x, y = parabola(seed=23)
    print("Ten points of 4x² − 2x + 3 with noise of variance 1.")
    print(f"The truth at x = {NEW} is {truth(np.array(NEW)):.2f}.\n")
    print(f"  degree   at {NEW}   training   left out   5 folds     bound   log evidence      BIC")
    bounds, folds, rows = srm(KERNELS, x, y).bounds, cross_validated(x, y), []
    for m, kernel, bound, fold in zip(DEGREES, KERNELS, bounds, folds, strict=True):
        fit = KernelRidge(kernel, alpha=1e-9).fit(x, y)
        training, left_out = np.mean((fit.predict(x) - y) ** 2), np.mean((fit.loo() - y) ** 2)
        score = evidence(x, y, noise_variance=1.0, prior_variance=10.0, kernel=kernel).log_evidence
        bic = information_criteria(fit, x, y, noise_variance=1.0).bic
        rows.append([training, left_out, fold, bound, -score, -bic])
        print(
            f"  {m:6} {fit.predict([[NEW]])[0]:8.2f} {training:10.3f} {left_out:10.3g} {fold:9.3g}"
            f" {bound:9.3g} {score:14.2f} {bic:8.2f}"
        )
    best = [DEGREES[i] for i in np.argmin(rows, axis=0)]
    print("  chosen {:19} {:10} {:9} {:9} {:14} {:8}\n".format(*best))


def cross_validated(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the mean squared error of every degree over the folds, by one search."""
    found = search(
        KernelRidge(alpha=1e-9), {"kernel": KERNELS}, x, y, FOLDS, scoring="neg_mean_squared_error"
    )
    return -found.results_["mean_test_score"]


def many_samples(draws: int = 100) -> None:
    """How often each criterion finds degree 2."""
    options = {
        "bound": {},
        "evidence": {"noise_variance": 1.0, "prior_variance": 10.0},
        "bic": {"noise_variance": 1.0},
    }
    print(f"Degree chosen in {draws} draws of ten points:\n")
    print("            " + "".join(f"{m:5}" for m in DEGREES))
    for criterion, more in options.items():
        chosen = [
            1 + srm(KERNELS, *parabola(seed), criterion=criterion, **more).best_index_
            for seed in range(draws)
        ]
        counts = [chosen.count(m) for m in DEGREES]
        print(f"  {criterion:9} " + "".join(f"{c or '':>5}" for c in counts))


if __name__ == "__main__":
    main()
