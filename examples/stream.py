"""A classifier that learns from a stream: rows come in batches, are used once, and are forgotten.

Run it with ``python examples/stream.py``; it takes a few seconds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import mercer
from mercer import KernelLogisticRegression, Polynomial

# The features are 1, x, y, x², xy and y², so no offset is needed beside them.
SETTINGS = {"kernel": Polynomial(2), "alpha": 1.0, "fit_intercept": False}
# Where a dial's two readings lie inside an ellipse the part is good, on the rim nobody is sure.
CLASSES = ["bad", "good"]
BATCH, ROWS = 100, 20_000


def main() -> None:
    """Tell the story."""
    X, y, _ = readings(np.random.default_rng(0), ROWS)
    new, labels, truth = readings(np.random.default_rng(1), 5_000)
    best = np.mean(np.where(truth > 0, "good", "bad") == labels)
    stream = KernelLogisticRegression(**SETTINGS)

    print("1. Batches of 100 rows, used once; the batch fit keeps all rows and starts afresh")
    print(f"   who knows the law is right on {best:.3f} of 5,000 new rows")
    print("    rows    stream    batch fit    weights apart    rows kept: stream    batch")
    seen = 0
    for rows in batches(ROWS):
        stream.partial_fit(X[rows], y[rows], classes=CLASSES)
        seen += len(rows)
        if seen in (100, 500, 2_000, 8_000, ROWS):
            batch = KernelLogisticRegression(**SETTINGS).fit(X[:seen], y[:seen])
            apart = np.linalg.norm(stream.coef_ - batch.coef_) / np.linalg.norm(batch.coef_)
            right = stream.score(new, labels), batch.score(new, labels)
            print(
                f"   {seen:5}     {right[0]:.3f}        {right[1]:.3f}            {apart:.3f}"
                f"    {len(stream.X_fit_):17}    {len(batch.X_fit_):5}"
            )
    print(f"   {stream.solution_.message}\n")

    print("2. Stopped after 8,000 rows, kept in a file, and gone on with")
    half = KernelLogisticRegression(**SETTINGS)
    half.partial_fit(X[:8_000], y[:8_000], classes=CLASSES)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "stream.mercer"
        mercer.save(half, file)
        print(f"   the file has {file.stat().st_size} bytes; the rows would have {X.nbytes}")
        again = mercer.load(file).partial_fit(X[8_000:], y[8_000:])
    difference = np.abs(again.coef_ - stream.coef_).max()
    print(f"   one call of 8,000 rows, a file, one of 12,000: weights differ by {difference:.0e}")


def readings(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw rows, their labels, and the log odds of "good" that the labels were drawn by."""
    X = rng.standard_normal((n, 2))
    z = 2.5 - 2.0 * X[:, 0] ** 2 - 1.0 * X[:, 1] ** 2 + 1.5 * X[:, 0] * X[:, 1]
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-z)), "good", "bad"), z


def batches(n: int) -> Iterator[np.ndarray]:
    """Return the rows in the order in which they come, a batch at a time."""
    for first in range(0, n, BATCH):
        yield np.arange(first, min(n, first + BATCH))


if __name__ == "__main__":
    main()
