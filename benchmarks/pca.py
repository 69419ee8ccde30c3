"""Kernel PCA against scikit-learn's dense and randomized solvers, at equal eigenvalues."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from sklearn.decomposition import KernelPCA as Peer
from timing import Row, best_of

from mercer import RBF, KernelPCA

__all__ = ["rows"]

LARGE = 50_000


def rows() -> list[Row]:
    """Time everything; about a minute on two cores, most of it the peers'."""
    return [*leading(), *large()]


def problem(n: int, d: int) -> tuple[np.ndarray, float]:
    """Return points and scikit-learn's default γ = 1/d.

    All directions are alike, so the eigenvalues come in clusters: the hard case for an iteration.
    """
    return np.random.default_rng(0).standard_normal((n, d)), 1.0 / d


def model(gamma: float, k: int, **options) -> KernelPCA:
    """Return our model with the kernel exp(−γ‖x − x′‖²)."""
    return KernelPCA(k, RBF((2 * gamma) ** -0.5), **options)


def leading(n: int = 5000, d: int = 20, k: int = 10, rounds: int = 2) -> list[Row]:
    """Ten components of 5000 points; the targets are 10× and 2.5×."""
    X, gamma = problem(n, d)
    new = np.random.default_rng(1).standard_normal((n, d))
    dense = Peer(k, kernel="rbf", gamma=gamma)
    randomized = Peer(k, kernel="rbf", gamma=gamma, eigen_solver="randomized", random_state=0)
    ours, theirs = best_of(rounds + 1, lambda: model(gamma, k).fit(X), lambda: randomized.fit(X))
    (exact,) = best_of(1, lambda: dense.fit(X))
    fitted = model(gamma, k).fit(X)
    both, peers = best_of(
        rounds,
        lambda: model(gamma, k).fit(X).transform(new),
        lambda: randomized.fit(X).transform(new),
    )
    truth = dense.eigenvalues_
    work = f"KernelPCA fit n={n} d={d} k={k}"
    own = f"eigenvalues off by {_off(fitted.eigenvalues_, truth):.0e} (at most 1e-6)"
    steps = f"{fitted.solution_.n_iter} products, residual {fitted.solution_.residual:.0e}"
    peer = f"its eigenvalues off by {_off(randomized.eigenvalues_, truth):.0e}"
    return [
        Row(work, ours, exact, "scikit-learn dense", note=f"target 10×; {own}; {steps}"),
        Row(work, ours, theirs, "scikit-learn randomized", note=f"target 2.5×; {peer}; {_peak(n)}"),
        Row(f"{work} + transform {n}", both, peers, "scikit-learn randomized"),
    ]


def large(n: int = LARGE, d: int = 20, k: int = 10) -> list[Row]:
    """The same of 50000 points, whose matrix of 20 GB is never stored."""
    X, gamma = problem(n, d)
    fits: list[KernelPCA] = []
    options = {"eigen_solver": "cholesky", "rank": 500}
    (seconds,) = best_of(1, lambda: fits.append(model(gamma, k, **options).fit(X)))
    error = fits[0].approximation_error_
    note = f"{len(fits[0].X_fit_)} pivots leave out {error:.2f} of the variance"
    return [Row(f"KernelPCA fit n={n} d={d} k={k}, pivoted Cholesky", seconds, note=note)]


def _off(values: np.ndarray, truth: np.ndarray) -> float:
    return float(np.abs(values / truth - 1).max())


FIT = """
import json, sys
sys.path.insert(0, sys.argv[1])
import pca
n = int(sys.argv[2])
X, gamma = pca.problem(n, 20)
pca.model(gamma, 10).fit(X[:600])
before = pca.status("VmRSS")
try:
    open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
except OSError:
    pass
pca.model(gamma, 10).fit(X)
print(json.dumps(pca.status("VmHWM") - before))
"""


def status(name: str) -> float:
    """Return a line of the process's status, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1000


def _peak(n: int) -> str:
    """Measure the peak of a fit in a process of its own."""
    command = [sys.executable, "-c", FIT, str(Path(__file__).parent), str(n)]
    child = subprocess.run(command, capture_output=True, text=True, check=True)
    return f"peak {float(json.loads(child.stdout)) * 1e6 / (8 * n * n):.2f} × n²·8 bytes"
