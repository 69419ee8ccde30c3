"""Which molecules are active? Kernels between graphs, in three methods.

Atoms are node labels and bonds are edge labels. The active molecules have a nitro group on their
ring; the others have as many atoms of each kind. Run it with ``python examples/molecules.py``.
"""

from __future__ import annotations

from sklearn.model_selection import cross_val_score

import mercer
from mercer.datasets import make_molecules
from mercer.statistics import mmd_test


def main() -> None:
    """Classify, say how sure, and test whether two boxes of molecules differ."""
    graphs, y = make_molecules(160, random_state=0)
    print(f"{len(graphs)} molecules; the first: {graphs[0]}, {y[0]}\n")

    kernels = {
        "atoms counted": mercer.VertexHistogram(),
        "Weisfeiler–Lehman, 1 round": mercer.WeisfeilerLehman(1),
        "Weisfeiler–Lehman, 3 rounds": mercer.WeisfeilerLehman(3),
        "shortest paths": mercer.ShortestPath(),
        "random walks": mercer.RandomWalk(0.01),
    }
    print("right in five folds, by a support vector machine")
    for name, kernel in kernels.items():
        scores = cross_val_score(mercer.SVC(kernel.normalized(), C=10.0), graphs, y, cv=5)
        print(f"   {name:30}{scores.mean():5.0%}")

    kernel = mercer.WeisfeilerLehman(3).normalized()
    process = mercer.GaussianProcessClassifier(5.0 * kernel).fit(graphs[:120], y[:120])
    chance = process.predict_proba(graphs[120:]).max(axis=1)
    right = process.predict(graphs[120:]) == y[120:]
    print(
        f"\na Gaussian process on 120 of them: {right.mean():.0%} of the other 40 right; "
        f"it is {chance.mean():.0%} sure on average"
    )

    active = [g for g, label in zip(graphs, y, strict=True) if label == "active"]
    inactive = [g for g, label in zip(graphs, y, strict=True) if label == "inactive"]
    apart = mmd_test(active, inactive, kernel, rng=0)
    alike = mmd_test(active[:40], active[40:], kernel, rng=0)
    print(
        f"two-sample test, active against inactive: p = {apart.pvalue:.3f}; "
        f"active against active: p = {alike.pvalue:.3f}"
    )


if __name__ == "__main__":
    main()
