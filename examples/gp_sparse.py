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
    model = SparseGaussianProcessRegressor(1.0 * RBF([1.0, 1.0]), n_inducing=160)
    model.fit(X, y)
    print("1. Parameters of largest bound, with 160 inducing points")
    print(f"   {model.kernel_}, noise {model.noise_**0.5:.3f} (true: 0.200)\n")
    between(model, X, y, new, later)
    too_few(X, y)
    exact(model, X, y, new, later)


def between(model: SparseGaussianProcessRegressor, X, y, new, later) -> None:
    """Enclose the evidence of the exact process, which nobody computes."""
    print("2. With these parameters the log evidence of all 20,000 rows is between two numbers")
    print("     m        below        above   error of new rows")
    for m in (20, 40, 80, 160):
        kept = SparseGaussianProcessRegressor(
            model.kernel_, noise=model.noise_, n_inducing=m, optimizer=None
        ).fit(X, y)
        below = kept.log_marginal_likelihood_value_
        above = below + kept.solution_.extra["evidence_gap"]
        error = np.sqrt(((kept.predict(new) - later) ** 2).mean())
        print(f"   {m:3} {below:12.1f} {above:12.1f} {error:19.4f}")
    print("   When both agree, more points are no use.\n")


def too_few(X: np.ndarray, y: np.ndarray) -> None:
    """Show the trap: with few points the bound prefers a model that needs few."""
    print("3. Parameters tuned with too few points explain what they cannot see as noise")
    for m in (10, 40, 160):
        model = SparseGaussianProcessRegressor(1.0 * RBF([1.0, 1.0]), n_inducing=m)
        model.fit(X, y)
        value = model.log_marginal_likelihood_value_
        print(f"   m = {m:3}: bound {value:9.1f}, noise {model.noise_**0.5:.3f}")
    print("   So compare the bounds of two m, not only the gap of one.\n")


def exact(model: SparseGaussianProcessRegressor, X, y, new, later) -> None:
    """Compare with the exact process of a part of the rows."""
    print("4. The exact process, of as many rows as one likes to wait for")
    for n in (250, 1000):
        part = GaussianProcessRegressor(1.0 * RBF([1.0, 1.0])).fit(X[:n], y[:n])
        error = np.sqrt(((part.predict(new) - later) ** 2).mean())
        print(f"   {n:5} rows: error {error:.4f}")
    mean, std = model.predict(new, return_std=True)
    held = (np.abs(later - mean) < 1.645 * std).mean()
    print(f"   90% bands of the sparse process hold {held:.1%} of new rows")


if __name__ == "__main__":
    main()
