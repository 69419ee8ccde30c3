"""Feature machines, the default of tables: fits of several sizes and widths, and predictions.

MANY=50000 in the environment takes so many rows, and nothing else: minutes for each of three fits.
"""

from __future__ import annotations

import os
from functools import partial

import numpy as np
from timing import Row, best_of

from mercer.models import FeatureMachineClassifier, FeatureMachineRegressor

__all__ = ["rows"]

LIMITS = {1000: "≤ 5 s", 5000: "≤ 60 s", 50_000: "≤ 600 s"}


def rows(sizes: tuple[int, ...] = (180, 440, 1000, 5000)) -> list[Row]:
    """Time a fit of numbers, of two and of four classes; of 1000 rows with 30 columns too."""
    out = []
    shapes = [*((n, 10) for n in sizes), (1000, 30)]
    if many := int(os.environ.get("MANY", "0")):
        shapes = [(many, 10)]
    for n, d in shapes:
        X, y = _waves(n, d)
        works = {
            "numbers": (FeatureMachineRegressor(), y),
            "2 classes": (FeatureMachineClassifier(), y > 0),
            "4 classes": (FeatureMachineClassifier(), np.digitize(y, [-1.0, 0.0, 1.0])),
        }
        for name, (model, target) in works.items():
            model.set_params(max_rows=30).fit(X[:60], target[:60])  # compile
            model.set_params(max_rows=700)
            (fit,) = best_of(1, partial(model.fit, X, target))
            work = f"feature machine fit n={n} d={d}, {name}"
            out.append(Row(work, fit, note=LIMITS.get(n, "")))
            if n >= 5000:
                New, _ = _waves(10_000, d, seed=1)
                works_of_new = partial(model.predict, New), partial(model.predict, New[:1])
                many, one = best_of(3, *works_of_new)
                told = f"{len(model.members_)} members"
                out.append(Row(f"… predict 10000 rows, {name}", many, note=f"≤ 1 s; {told}"))
                out.append(Row(f"… predict 1 row, {name}", one, note=told))
    return out


def _waves(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return columns of which three matter, and a target with some noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=n)
