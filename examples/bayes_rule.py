"""Bayes' rule: with known densities no classifier makes fewer errors, and learners come close.

Run it with ``python examples/bayes_rule.py``; it takes a few seconds.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import multivariate_normal
from sklearn.neighbors import KernelDensity

from mercer import RBF, SVC, KernelRidgeClassifier, Linear, bayes_rule

PRIORS = {"ill": 0.2, "well": 0.8}
DENSITIES = {
    "ill": multivariate_normal([1.5, 1.0], [[0.6, 0.3], [0.3, 0.6]]),
    "well": multivariate_normal([0.0, 0.0], [[1.0, -0.2], [-0.2, 0.5]]),
}


def sample(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n points of both classes, as often as the priors say."""
    rng = np.random.default_rng(seed)
    y = rng.choice(list(PRIORS), n, p=list(PRIORS.values()))
    X = np.empty((n, 2))
    for name, density in DENSITIES.items():
        X[y == name] = density.rvs((y == name).sum(), random_state=rng)
    return X, y


def main() -> None:
    """Tell the story."""
    X, y = sample(400, seed=0)
    new, truth = sample(20_000, seed=1)
    rule = bayes_rule(DENSITIES, PRIORS)
    print("1. Share of errors on 20000 new points")
    print(f"   {rule.risk(new, truth):.4f}  Bayes' rule with the true densities")
    print(f"   {rule.risk(new):.4f}  what the rule itself expects, without labels")
    estimated = {name: KernelDensity(bandwidth=0.4).fit(X[y == name]) for name in DENSITIES}
    learners = {
        "the rule with densities estimated from 400 points": bayes_rule(estimated, PRIORS),
        "SVC(RBF(1)) from 400 points": SVC(RBF(1.0)).fit(X, y),
        "KernelRidgeClassifier(RBF(1)) from 400 points": KernelRidgeClassifier(RBF(1.0)).fit(X, y),
        "SVC(Linear()) from 400 points": SVC(Linear()).fit(X, y),
    }
    for name, learner in learners.items():
        print(f"   {(learner.predict(new) != truth).mean():.4f}  {name}")

    print("\n2. To miss an illness costs ten times as much as a false alarm")
    careful = bayes_rule(DENSITIES, PRIORS, costs=[[0, 10], [1, 0]])
    for name, one in (("fewest errors", rule), ("least cost", careful)):
        decided = one.predict(new)
        missed = (decided[truth == "ill"] == "well").mean()
        alarms = (decided[truth == "well"] == "ill").mean()
        cost = np.where(truth == "ill", 10 * (decided == "well"), decided == "ill").mean()
        print(f"   {name:13}: misses {missed:4.0%}, false alarms {alarms:4.0%}, cost {cost:.3f}")

    print("\n3. A point far from everything: densities below 1e-300 still decide")
    far = [[60.0, 40.0]]
    print(f"   densities {[float(d.pdf(far)) for d in DENSITIES.values()]}")
    print(f"   log odds of well against ill: {rule.decision_function(far)[0]:.0f}")
    print(f"   decision: {rule.predict(far)[0]}")


if __name__ == "__main__":
    main()
