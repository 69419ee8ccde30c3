"""XOR by logistic regression on four prototypes, and how few prototypes a wave needs.

Run it with ``python examples/prototypes_xor.py``; it takes a few seconds.
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

from mercer import RBF, KernelMachine, KernelRidge, L1VMRegressor

CORNERS = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])


def main() -> None:
    """Tell the story."""
    corners()
    clouds()
    few()


def corners() -> None:
    """The four points themselves."""
    y = np.array([0, 1, 1, 0])
    machine = KernelMachine(RBF(0.5), prototypes=CORNERS).fit(CORNERS, y)
    print("1. XOR: opposite corners of a square are of one class")
    print("   corner    class    kernel values with the four prototypes    predicted")
    for x, c, z, p in zip(
        CORNERS, y, machine.features(CORNERS), machine.predict(CORNERS), strict=True
    ):
        values = "   ".join(f"{value:.3f}" for value in z)
        print(f"   ({x[0]:.0f}, {x[1]:.0f}) {c:8}    {values:38} {p:12}")
    weights = "   ".join(f"{w:+.3f}" for w in machine.coef_[0])
    print(f"   weights of the prototypes: {weights}, offset {machine.intercept_[0]:+.3f}\n")


def clouds() -> None:
    """Noise around the corners: which prototypes are good enough."""
    rng = np.random.default_rng(0)
    corner = rng.integers(0, 4, 400)
    X = CORNERS[corner] + 0.17 * rng.standard_normal((400, 2))
    y = np.isin(corner, (1, 2)).astype(int)
    train, test = slice(0, 200), slice(200, 400)
    print("2. The same with noise, 200 points to learn from and 200 to judge by")
    plain = LogisticRegression().fit(X[train], y[train])
    print(f"   {'logistic regression on the coordinates':48} {plain.score(X[test], y[test]):.3f}")
    for name, how in (
        ("the four corners", CORNERS),
        ("four means of clusters", "kmeans"),
        ("four training points at random", "random"),
        ("all 200 training points", "all"),
    ):
        machine = KernelMachine(RBF(0.5), how, n_prototypes=4, random_state=0)
        score = machine.fit(X[train], y[train]).score(X[test], y[test])
        print(f"   {'with prototypes: ' + name:48} {score:.3f}")
    print()


def few() -> None:
    """Sparse weights along the penalty."""
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0, 10, 200))
    y = np.sin(x**2 / 8) + 0.15 * rng.standard_normal(200)
    new = np.linspace(0, 10, 500)
    truth = np.sin(new**2 / 8)
    ridge = KernelRidge(RBF(0.6), alpha=0.3, fit_intercept=True).fit(x[:, None], y)
    error = np.sqrt(np.mean((ridge.predict(new[:, None]) - truth) ** 2))
    print("3. A noisy wave, 200 points. How many are needed?")
    print(f"   kernel ridge regression: all 200, error {error:.3f}")
    path = L1VMRegressor(RBF(0.6)).path(x[:, None], y, n_alphas=7)
    print("       alpha   prototypes   error   duality gap / objective")
    for alpha, count, model in zip(path.alphas, path.n_nonzero, path.models, strict=True):
        error = np.sqrt(np.mean((model.predict(new[:, None]) - truth) ** 2))
        share = model.solution_.gap / model.solution_.primal
        print(f"   {alpha:9.3g} {count:12} {error:7.3f} {share:25.0e}")


if __name__ == "__main__":
    main()
