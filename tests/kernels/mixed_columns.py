"""Columns of every kind, as a dict and as frames, for the tests of tables."""

import numpy as np
import pytest

from mercer.domains import Table

N = 60


def columns(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "age": rng.uniform(20, 60, N),
        "dose": rng.choice([0.001, 0.002, 0.004], N),
        "site": rng.choice(["here", "there", "nowhere"], N),
        "smoker": rng.random(N) < 0.5,
        "sequence": ["".join(rng.choice(list("ACGT"), 12)) for _ in range(N)],
        "note": [
            f"the patient felt {w} and slept well {i}"
            for i, w in enumerate(rng.choice(["fine", "ill", "dizzy"], N))
        ],
        "patient": [f"P-{i:04d}" for i in range(N)],
        "unit": ["mg"] * N,
        "id": np.arange(N),
    }


def frames():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    data = columns()
    return data, [pandas.DataFrame(data), polars.DataFrame(data), Table(data)]
