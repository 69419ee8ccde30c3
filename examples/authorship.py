"""Who wrote this sentence? Words, letters, and both, on sentences of three projects.

The sentences are those of the docstrings of numpy, scipy and scikit-learn on this machine. Run it
with ``python examples/authorship.py``; it takes some seconds.
"""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import train_test_split

import mercer
from mercer.datasets import load_sentences


def main() -> None:
    """Compare kernels on words and on letters, then ask about sentences of our own."""
    sentences, authors = load_sentences(200)
    known, new, a, b = train_test_split(
        sentences, authors, test_size=0.25, random_state=0, stratify=authors
    )
    print(f"{len(known)} sentences to learn from, {len(new)} held out; one of them:\n   {new[0]}\n")

    words = mercer.BagOfWords(stop_words="english")
    letters = mercer.Spectrum((2, 3, 4)).normalized()
    kernels = {"words": words, "runs of letters": letters, "both": words + letters}
    print("right on held-out sentences, by logistic regression")
    for name, kernel in kernels.items():
        model = mercer.KernelLogisticRegression(kernel, alpha=0.003).fit(known, a)
        print(f"   {name:18}{model.score(new, b):5.0%}")

    print("\nSentences of nobody, and the probability of each author")
    asked = [
        "Return the inverse of a square array.",
        "Integrate a system of ordinary differential equations.",
        "The estimator is cloned and fitted on each fold of the training data.",
    ]
    print("   " + "".join(f"{name:>14}" for name in model.classes_))
    for text, row in zip(asked, model.predict_proba(asked), strict=True):
        print("   " + "".join(f"{p:14.2f}" for p in row) + f"   {text}")
    near = np.argsort(-(words.fit_params(known))([asked[0]], known)[0])[:2]
    print("\nNearest to the first, in words:", *[f"   {known[i]}" for i in near], sep="\n")


if __name__ == "__main__":
    main()
