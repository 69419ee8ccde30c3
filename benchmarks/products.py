"""K·V without storing K, n=50000, d=20, 4 columns, inside 500 MB: time against the limit, peak."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import limits
import numpy as np
from timing import Row, best_of

import mercer
from mercer.operators import Gram

__all__ = ["rows"]

CHILD = """
import sys
import numpy as np, mercer
from mercer.operators import Gram

def status(name):
    line = next(line for line in open("/proc/self/status") if line.startswith(name))
    return int(line.split()[1]) / 1000

n, d, t = map(int, sys.argv[1:4])
X = np.random.default_rng(0).standard_normal((n, d)); V = np.ones((n, t))
Gram(mercer.RBF(4.0), X[:3000], keep=False) @ V[:3000]
before = status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
with mercer.config(memory="500MB"):
    Gram(mercer.RBF(4.0), X) @ V
print(status("VmHWM") - before)
"""


def rows(n: int = 50000, d: int = 20, t: int = 4, rounds: int = 2) -> list[Row]:
    """Time the product, and measure the peak of its memory in a process of its own."""
    X = np.random.default_rng(0).standard_normal((n, d))
    V = np.random.default_rng(1).standard_normal((n, t))

    def product() -> np.ndarray:
        with mercer.config(memory="500MB"):
            return Gram(mercer.RBF(4.0), X) @ V

    ours, limit = best_of(
        rounds, product, lambda: limits.gemm_exp(n * n / 2, d, columns=t, symmetric=True)
    )
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(n), str(d), str(t)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    )
    note = f"peak {float(child.stdout):.0f} MB beyond the data, budget 500 MB"
    return [Row(f"K·V n={n} d={d} t={t}", ours, limit=limit, limit_name="GEMM+exp+GEMM", note=note)]
