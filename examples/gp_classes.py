"""Classes with probabilities: three approximations of what cannot be integrated.

Run it with ``python examples/gp_classes.py``; it takes a few seconds.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit
from sklearn.datasets import load_iris

from mercer import RBF, GaussianProcessClassifier

METHODS = ("laplace", "ep", "vi")


def wavy(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points of the plane, labels, and the true probability of the label 1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 2))
    p = expit(3 * np.sin(1.5 * X[:, 0]) - 2 * X[:, 1])
    return X, (rng.random(n) < p).astype(int), p


def main() -> None:
    """Tell the story."""
    two()
    far()
    three()


def two() -> None:
    """Compare the methods where the truth is known."""
    print("1. Two classes, 150 rows: evidence, and the distance to the true probabilities")
    X, y, _ = wavy(150, 0)
    new, labels, p = wavy(3000, 1)
    for method in METHODS:
        model = GaussianProcessClassifier(1.0 * RBF(1.0), method).fit(X, y)
        q = model.predict_proba(new)[:, 1]
        loss = -np.log(np.where(labels == 1, q, 1 - q)).mean()
        value = model.log_marginal_likelihood_value_
        bound = " (a lower bound)" if method == "vi" else ""
        print(
            f"   {method:8} mean distance {np.abs(q - p).mean():.3f}, log loss {loss:.3f}, "
            f"log evidence {value:.2f}{bound}"
        )
    best = -(p * np.log(p) + (1 - p) * np.log1p(-p)).mean()
    print(f"   nobody can have a smaller log loss than {best:.3f}\n")


def far() -> None:
    """Show what happens away from the data."""
    print("2. The probability of class 1 on the way out of the data")
    X, y, _ = wavy(150, 0)
    model = GaussianProcessClassifier(1.0 * RBF(1.0), "ep").fit(X, y)
    for x in (0.0, 3.0, 6.0, 12.0):
        (p,), (mean, std) = model.predict_proba([[0.0, -x]])[:, 1:].T, model_at(model, x)
        print(f"   at (0, {-x:4.0f}): {p[0]:.2f}   latent function {mean:+.2f} ± {std:.2f}")
    print()


def model_at(model: GaussianProcessClassifier, x: float) -> tuple[float, float]:
    """Return mean and standard deviation of the latent function."""
    mean, variance = model.latent_mean_and_variance([[0.0, -x]])
    return float(mean[0]), float(variance[0] ** 0.5)


def three() -> None:
    """Fit several classes at once."""
    print("3. Three kinds of iris, a third of the flowers held out")
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    out = np.arange(len(y)) % 3 == 0
    for method, way in (("laplace", "softmax"), ("vi", "softmax"), ("ep", "one_vs_rest")):
        model = GaussianProcessClassifier(1.0 * RBF(1.0), method, multi_class=way)
        model.fit(X[~out], y[~out])
        p = model.predict_proba(X[out])
        loss = -np.log(p[np.arange(out.sum()), y[out]]).mean()
        print(
            f"   {method:8} {way:12} right {model.score(X[out], y[out]):.2f}, log loss {loss:.3f}"
        )


if __name__ == "__main__":
    main()
