"""Tables read by the command line beside pandas and polars, and a million rows planned.

    python benchmarks/files.py                 a million rows
    python benchmarks/files.py --rows 100000   fewer

The last column is the time of ``mercer fit --plan`` in a process of its own, start and all.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from mercer.cli.tables import read_table

BUDGET = 8 * 10**9
TABLES = ("numbers", "mixed")


def table(kind: str, n: int) -> pd.DataFrame:
    """Return ten columns and a target: numbers, or six numbers, three words and whole numbers."""
    rng = np.random.default_rng(0)
    data: dict[str, Any] = {f"x{j}": rng.normal(size=n) for j in range(10)}
    if kind == "mixed":
        for j, count in enumerate((4, 30, 300)):
            words = np.array([f"word {i}" for i in range(count)])
            data[f"x{7 + j}"] = words[rng.integers(0, count, n)]
        data["x6"] = rng.integers(0, 90, n)
    data["y"] = data["x0"] + np.sin(3 * data["x1"]) + 0.1 * rng.normal(size=n)
    return pd.DataFrame(data)


def least(work: Callable[[], Any], rounds: int = 3) -> float:
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


def planned(path: str) -> float:
    """Return the seconds of ``mercer fit --plan`` in a process of its own."""
    words = ["fit", path, "--target", "y", "--plan"]
    command = [sys.executable, "-m", "mercer.cli", *words]
    return least(lambda: subprocess.run(command, check=True, capture_output=True), 2)


def main() -> None:
    """Print what each table takes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    n = parser.parse_args().rows
    print(f"{'table':18}{'MB':>6}{'mercer':>9}{'pandas':>9}{'polars':>9}{'ratio':>8}{'plan':>8}")
    for kind in TABLES:
        frame = table(kind, n)
        with tempfile.TemporaryDirectory() as folder:
            for form in ("parquet", "csv"):
                path = os.path.join(folder, f"t.{form}")
                if form == "csv":
                    frame.to_csv(path, index=False)
                else:
                    frame.to_parquet(path)
                ours = least(lambda path=path: read_table(path, budget=BUDGET))
                theirs = least(lambda p=path, f=form: getattr(pd, f"read_{f}")(p))
                others = least(lambda p=path, f=form: getattr(pl, f"read_{f}")(p))
                size, plan = os.path.getsize(path) / 1e6, planned(path)
                print(
                    f"{kind + ', ' + form:18}{size:6.0f}{ours:8.2f}s{theirs:8.2f}s{others:8.2f}s"
                    f"{theirs / ours:8.2f}{plan:7.1f}s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
