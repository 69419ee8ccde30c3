"""A process for twenty thousand rows: how many inducing points are enough, and how to know.

Run it with ``python examples/gp_sparse.py``; it takes some seconds.
"""

from __future__ import annotations

import numpy as np

from mercer import RBF, GaussianProcessRegressor, SparseGaussianProcessRegressor


def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points of the square and a noisy landscape over them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 2))
    hills = np.sin(1.5 * X[:, 0]) * np.cos(1.2 * X[:, 1]) + 0.3 * X[:, 0]
    return X, hills + 0.2 * rng.standard_normal(n)


def main() -> None:
    """Tell the story."""
    X, y = rows(20_000, 0)
    new, later = rows(2_000, 1)
    print("1. Log evidence of 20,000 rows: it is between the two numbers, proved for each m")
    print("     m        below        above   error of new rows   noise (true: 0.200)")
    kernel = 1.0 * RBF([1.0, 1.0])
    for m in (10, 20, 40, 80, 160):
        model = SparseGaussianProcessRegressor(kernel, noise=0.04, n_inducing=m).fit(X, y)
        below = model.log_marginal_likelihood_value_
        above = below + model.solution_.extra["evidence_gap"]
        error = np.sqrt(((model.predict(new) - later) ** 2).mean())
        print(f"   {m:3} {below:12.1f} {above:12.1f} {error:19.4f} {model.noise_**0.5:12.3f}")
    exact(model, kernel, X, y, new, later)


def exact(model, kernel, X, y, new, later) -> None:
    """Compare with the exact process of a part of the rows."""
    print("\n2. The exact process, of as many rows as one likes to wait for")
    for n in (250, 1000):
        part = GaussianProcessRegressor(kernel, noise=0.04).fit(X[:n], y[:n])
        error = np.sqrt(((part.predict(new) - later) ** 2).mean())
        print(f"   {n:5} rows: error {error:.4f}")
    mean, std = model.predict(new, return_std=True)
    held = (np.abs(later - mean) < 1.645 * std).mean()
    print(f"   90% bands of the sparse process hold {held:.1%} of new rows")


if __name__ == "__main__":
    main()
