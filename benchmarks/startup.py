"""First use, in new processes: imports, the first SVC, `mercer --help`, `mercer fit`.

Bytecode is kept, as of what is installed, in a folder of its own. Seconds of a first SVC are those
of its imports too; "beyond" is what they are more than scikit-learn's.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
from timing import Row

from mercer.datasets import load_diabetes_table, load_wine_table
from mercer.domains import Table

__all__ = ["rows"]

SVC = """
import time
began = time.perf_counter()
from {} import SVC
import numpy as np
X = np.random.default_rng(0).standard_normal((300, 10))
SVC().fit(X, X[:, 0] + X[:, 1] ** 2 > 1)
print(time.perf_counter() - began)
"""
ROUNDS = 5


def _run(env: dict[str, str], *command: str) -> tuple[float, str]:
    began = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    return time.perf_counter() - began, done.stdout


def _wall(env: dict[str, str], *command: str) -> float:
    _run(env, *command)  # writes bytecode
    return min(_run(env, *command)[0] for _ in range(ROUNDS))


def _first(env: dict[str, str], package: str) -> float:
    """Return the seconds of the first SVC of a process, imports included."""
    command = (sys.executable, "-c", SVC.format(package))
    _run(env, *command)
    return min(float(_run(env, *command)[1]) for _ in range(ROUNDS))


def _compiled(env: dict[str, str]) -> float:
    """Return the same where nothing is compiled."""
    with tempfile.TemporaryDirectory() as empty:
        return float(
            _run({**env, "NUMBA_CACHE_DIR": empty}, sys.executable, "-c", SVC.format("mercer"))[1]
        )


def _fit(env: dict[str, str], table: Table, y: np.ndarray) -> float:
    """Return the seconds of ``mercer fit`` on a small table, the start of Python included."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "table.csv")
        with open(path, "w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow([*table.names, "target"])
            lines.writerows(zip(*(table[name] for name in table.names), y, strict=True))
        model = os.path.join(folder, "model.mercer")
        words = ["fit", path, "--target", "target", "-o", model, "--force", "-q"]
        return _wall(env, sys.executable, "-m", "mercer.cli", *words)


def _small(n: int = 200) -> tuple[Table, np.ndarray, np.ndarray]:
    """Return rows of six numbers and a colour, and targets: numbers and classes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 6))
    columns = {name: X[:, k] for k, name in enumerate("abcdef")}
    colours = rng.choice(["red", "green", "blue"], n)
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.1 * rng.standard_normal(n)
    return Table({**columns, "colour": colours}), y, np.where(y > 0, "yes", "no")


def rows() -> list[Row]:
    """Time imports and the shortest way to a model."""
    with tempfile.TemporaryDirectory() as bytecode:
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        return _rows({**env, "PYTHONPYCACHEPREFIX": bytecode})


def _rows(env: dict[str, str]) -> list[Row]:
    python = sys.executable
    base = _wall(env, python, "-c", "import sklearn.base")
    ours = _wall(env, python, "-c", "import sklearn.base; from mercer import RBF, KernelRidge")
    bare = _wall(env, python, "-c", "pass")
    cli = _wall(env, python, "-m", "mercer.cli", "--help")
    peer, first = _first(env, "sklearn.svm"), _first(env, "mercer")
    empty = min(_compiled(env) for _ in range(2))
    table, numbers, classes = _small()
    at_least = f"import sklearn.base alone takes {base:.2f} s"
    return [
        Row(
            "import RBF and KernelRidge beyond sklearn.base", max(ours - base, 0.0), note="≤ 0.3 s"
        ),
        Row("first SVC beyond scikit-learn's", first - peer, note=f"≤ 0.25 s; {peer:.2f} s"),
        Row("the same with nothing compiled", empty - peer, note="≤ 2.5 s"),
        Row("mercer --help", cli, note=f"≤ 0.3 s; the bare interpreter takes {bare:.3f} s"),
        Row("mercer fit, 200 rows, numbers", _fit(env, table, numbers), note=f"≤ 2 s; {at_least}"),
        Row("mercer fit, 200 rows, classes", _fit(env, table, classes), note=f"≤ 2 s; {at_least}"),
        Row("mercer fit, 442 rows of 10 numbers", _fit(env, *load_diabetes_table()), note="≤ 3 s"),
        Row(
            "mercer fit, 178 rows of 13 numbers, 3 classes",
            _fit(env, *load_wine_table()),
            note="≤ 3 s",
        ),
    ]
