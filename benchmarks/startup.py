"""`import mercer` beside `import sklearn.base`, `mercer --help`, `mercer fit`: new processes."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
import time

from timing import Row

from mercer.datasets import load_diabetes_table, load_wine_table

__all__ = ["rows"]


def _wall(*command: str, rounds: int = 7) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        best = min(best, time.perf_counter() - start)
    return best


def _fit(load: object) -> float:
    """Return the seconds of ``mercer fit`` on a small table, the start of Python included."""
    table, y = load()  # type: ignore[operator]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "table.csv")
        with open(path, "w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow([*table.names, "target"])
            lines.writerows(zip(*(table[name] for name in table.names), y, strict=True))
        model = os.path.join(folder, "model.mercer")
        words = ["fit", path, "--target", "target", "-o", model, "--force", "-q"]
        return _wall(sys.executable, "-m", "mercer.cli", *words, rounds=3)


def rows() -> list[Row]:
    """Time imports and the shortest way to a model."""
    base = _wall(sys.executable, "-c", "import sklearn.base")
    ours = _wall(sys.executable, "-c", "import sklearn.base; from mercer import RBF, KernelRidge")
    bare = _wall(sys.executable, "-c", "pass")
    cli = _wall(sys.executable, "-m", "mercer.cli", "--help")
    return [
        Row(
            "import RBF and KernelRidge beyond sklearn.base", max(ours - base, 0.0), note="≤ 0.3 s"
        ),
        Row("mercer --help", cli, note=f"≤ 0.3 s; the bare interpreter takes {bare:.3f} s"),
        Row("mercer fit, 442 rows of 10 numbers", _fit(load_diabetes_table), note="≤ 3 s"),
        Row("mercer fit, 178 rows of 13 numbers, 3 classes", _fit(load_wine_table), note="≤ 3 s"),
    ]
