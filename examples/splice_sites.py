"""Where does an intron begin? String kernels on DNA, and the same answer from sparse features.

Every string has GT in its middle; at half of them an intron begins. Four kernels look at the same
strings in four ways. Run it with ``python examples/splice_sites.py``; it takes some seconds.
"""

from __future__ import annotations

import numpy as np

import mercer
from mercer.datasets import make_splice


def main() -> None:
    """Compare four kernels, then fit many strings by their features."""
    X, y = make_splice(400, random_state=0)
    known, new = X[:300], X[300:]
    print(f"{len(known)} strings such as\n   {X[0]}  ({y[0]})\n   {X[1]}  ({y[1]})\n")

    kernels = {
        "spectrum: runs of 3, anywhere": mercer.Spectrum(3),
        "mismatch: runs of 4, one letter may differ": mercer.Mismatch(4, 1),
        "subsequence: 3 letters in order, gaps": mercer.Subsequence(3, decay=0.6),
        "weighted degree: runs at their place": mercer.WeightedDegree(4),
    }
    print("right on 100 new strings, by a support vector machine")
    for name, kernel in kernels.items():
        model = mercer.SVC(kernel.normalized(), C=10.0).fit(known, y[:300])
        print(f"   {name:44}{model.score(new, y[300:]):5.0%}")

    # The place decides, so the sum of what a kernel sees there and elsewhere is a fair try.
    both = mercer.WeightedDegree(4).normalized() + 0.3 * mercer.Spectrum(3).normalized()
    model = mercer.SVC(both, C=10.0, probability=True, random_state=0).fit(known, y[:300])
    print(f"   {'weighted degree + 0.3 spectrum':44}{model.score(new, y[300:]):5.0%}\n")

    doubtful = int(np.abs(model.predict_proba(new)[:, 1] - 0.5).argmin())
    print(
        f"the most doubtful one: {new[doubtful]}, p(site) = "
        f"{model.predict_proba([new[doubtful]])[0, 1]:.2f}, it is '{y[300 + doubtful]}'\n"
    )

    # Four letters make 4⁵ runs of five: as many columns, however many strings there are.
    many, labels = make_splice(3000, random_state=1)
    kernel = mercer.Spectrum(5, alphabet="ACGT")
    features = kernel.features(many)
    ridge = mercer.KernelRidgeClassifier(kernel, alpha=10.0).fit(many, labels)
    print(
        f"{len(many)} strings: features of shape {features.shape}, "
        f"{features.nnz / features.shape[0]:.0f} of them not zero in a row"
    )
    print(f"ridge in that space: leave-one-out {np.mean(ridge.loo() == labels):.0%} right")


if __name__ == "__main__":
    main()
