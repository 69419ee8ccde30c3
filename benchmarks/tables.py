"""A frame of 4 numeric and 3 categorical columns: its kernel against that of its numeric part."""

from __future__ import annotations

import numpy as np
import pandas
from timing import Row, best_of

import mercer

__all__ = ["rows"]

NUMBERS = ["age", "weight", "dose", "days"]
TEXTS = ["site", "sex", "group"]


def rows(n: int = 20000, rounds: int = 3) -> list[Row]:
    """Time matrices and products of a mixed kernel and of its numeric part, from a pandas frame.

    Reading the frame is part of the work. Matrices are those of half the rows: one of 20000 would
    have 3.2 GB, of which fresh memory costs more than the kernel.
    """
    rng = np.random.default_rng(0)
    numbers: dict[str, object] = {name: rng.standard_normal(n) for name in NUMBERS}
    texts = {name: rng.choice(list("abcdefgh"), n).astype(object) for name in TEXTS}
    frame = pandas.DataFrame(numbers | texts)
    half = frame[: n // 2]
    holed = frame.assign(dose=_holed(rng, n))
    plain = mercer.RBF(2.0).on(NUMBERS)
    kernels = {
        "ρ = 0.5": (plain * mercer.Categorical(0.5).on(TEXTS), frame),
        "ρ = 0": (plain * mercer.Categorical().on(TEXTS), frame),
        "a tenth of one column missing": (
            mercer.RBF(2.0).with_missing(0.0).on(NUMBERS) * mercer.Categorical(0.5).on(TEXTS),
            holed,
        ),
    }
    v = rng.standard_normal(n)
    for kernel, table in [(plain, frame), *kernels.values()]:
        kernel(table[:300])  # compile
    out = []
    for name, (kernel, table) in kernels.items():
        part = table[: n // 2]
        times = best_of(
            rounds,
            lambda kernel=kernel, part=part: kernel(part),  # type: ignore[misc]
            lambda: plain(half),
            lambda kernel=kernel, table=table: kernel.matmul(table, None, v),  # type: ignore[misc]
            lambda: plain.matmul(frame, None, v),
        )
        for work, ours, alone in (
            (f"mixed columns, {name}: k(X), n={n // 2}", *times[:2]),
            (f"mixed columns, {name}: K·v, n={n}", *times[2:]),
        ):
            note = f"{ours / alone:.2f}× of the numeric part (at most 2×)"
            out.append(Row(work, ours, limit=alone, limit_name="numeric part", note=note))
    return out


def _holed(rng: np.random.Generator, n: int) -> np.ndarray:
    x = rng.standard_normal(n)
    x[rng.random(n) < 0.1] = np.nan
    return x
