"""`import mercer` against `import sklearn.base`, and `mercer --help`, each in new processes."""

from __future__ import annotations

import subprocess
import sys
import time

from timing import Row

__all__ = ["rows"]


def _wall(*command: str, rounds: int = 7) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        best = min(best, time.perf_counter() - start)
    return best


def rows() -> list[Row]:
    """Time imports."""
    base = _wall(sys.executable, "-c", "import sklearn.base")
    ours = _wall(sys.executable, "-c", "import sklearn.base; from mercer import RBF, KernelRidge")
    bare = _wall(sys.executable, "-c", "pass")
    cli = _wall(sys.executable, "-m", "mercer.cli", "--help")
    return [
        Row(
            "import RBF and KernelRidge beyond sklearn.base", max(ours - base, 0.0), note="≤ 0.3 s"
        ),
        Row("mercer --help", cli, note=f"≤ 0.3 s; the bare interpreter takes {bare:.3f} s"),
    ]
