"""Gaussian processes: fits at equal evidence, one evaluation against LAPACK, bands, memory.

Peers start where mercer starts, and the log evidence of every answer is computed by the same
program. GPyTorch takes 50 steps of Adam in float64, wherever that leads.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import limits
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import (
    GaussianProcessClassifier as PeerClassifier,
    GaussianProcessRegressor as PeerRegressor,
    kernels as peer,
)
from timing import Row, best_of

from mercer import RBF, GaussianProcessClassifier, GaussianProcessRegressor, get_config
from mercer.engines import tiles as blocks
from mercer.lapack import add_square
from mercer.models.gp.regression.evidence import Evidence
from mercer.models.gp.sparse.evidence import CollapsedBound
from mercer.operators import sums

try:
    import gpytorch
    import torch
except ImportError:
    gpytorch = None

__all__ = ["rows"]

STEPS = 50


def rows() -> list[Row]:
    """Time everything; about five minutes on two cores, most of them the peers'."""
    return [*regression(), *evaluation(), *prediction(), *classification(), *sparse()]


# -- data ---------------------------------------------------------------------------------------
def problem(n: int = 2000, d: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Return points and a draw of a smooth function of them, with a tenth of its variance noise.

    The draw is one of random Fourier features, with length scales from 1 to 8.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    W = rng.standard_normal((d, 500)) / np.geomspace(1.0, 8.0, d)[:, None]
    f = np.cos(X @ W + rng.uniform(0, 2 * np.pi, 500)) @ rng.standard_normal(500) * (2 / 500) ** 0.5
    y = f + 0.1**0.5 * rng.standard_normal(n)
    return X, (y - y.mean()) / y.std()


def once(work) -> tuple[float, object]:
    """Time what takes too long to be repeated, and return its answer."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        answer = work()
    return time.perf_counter() - start, answer


# -- regression ---------------------------------------------------------------------------------
def regression(n: int = 2000, d: int = 8, rounds: int = 3) -> list[Row]:
    """Find length scales, variance and noise from the same start; the target is 6× and 5×."""
    X, y = problem(n, d)
    evidence = Evidence(X, y[:, None])

    def model() -> GaussianProcessRegressor:
        return GaussianProcessRegressor(1.0 * RBF(np.ones(d)), normalize_y=False)

    start = peer.ConstantKernel(1.0) * peer.RBF(np.ones(d)) + peer.WhiteKernel(1.0)
    (ours,) = best_of(rounds, lambda: model().fit(X, y))
    fitted = model().fit(X, y)
    search = fitted.search_
    reached = evidence.value(fitted.kernel_, fitted.noise_)
    theirs, other = once(lambda: PeerRegressor(start, alpha=0.0).fit(X, y))
    found = other.kernel_
    kernel = found.k1.k1.constant_value * RBF(found.k1.k2.length_scale)
    note = (
        f"evidence {reached:.3f} in {search.n_evaluations} evaluations (+{search.n_coarse} on a "
        f"part), theirs {evidence.value(kernel, found.k2.noise_level):.3f}; target 6×; "
        f"{_peak(n, d)}"
    )
    work = f"GP fit n={n} d={d} ARD"
    out = [Row(work, ours, theirs, "scikit-learn", note=note)]
    if gpytorch is None:
        out[0].note += "; gpytorch is not installed, its row is left out"
        return out
    seconds, (kernel, noise) = once(lambda: _adam(X, y))
    note = f"its evidence {evidence.value(kernel, noise):.3f} after {STEPS} steps; target 5×"
    return [*out, Row(work, ours, seconds, "GPyTorch", note=note)]


def _adam(X: np.ndarray, y: np.ndarray) -> tuple[object, float]:
    """Return kernel and noise after some steps of Adam on GPyTorch's exact evidence."""

    class Process(gpytorch.models.ExactGP):
        def __init__(self, x, t, likelihood):
            super().__init__(x, t, likelihood)
            self.mean = gpytorch.means.ZeroMean()
            inner = gpytorch.kernels.RBFKernel(ard_num_dims=x.shape[1])
            self.kernel = gpytorch.kernels.ScaleKernel(inner)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    x, t = torch.as_tensor(X), torch.as_tensor(y)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    process = Process(x, t, likelihood).double()
    process.kernel.outputscale = 1.0
    process.kernel.base_kernel.lengthscale = 1.0
    process.train()
    likelihood.train()
    optimizer = torch.optim.Adam(process.parameters(), lr=0.1)
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, process)
    # Its settings are left alone: conjugate gradients above 800 rows, here faster than Cholesky.
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = -evidence(process(x), t)
        loss.backward()
        optimizer.step()
    scales = process.kernel.base_kernel.lengthscale.detach().numpy().ravel()
    kernel = process.kernel.outputscale.item() * RBF(scales)
    return kernel, likelihood.noise.item()


FIT = """
import json, sys
sys.path.insert(0, sys.argv[1])
import gp, numpy as np
n, d = int(sys.argv[2]), int(sys.argv[3])
X, y = gp.problem(n, d)
model = gp.GaussianProcessRegressor(1.0 * gp.RBF(np.ones(d)), normalize_y=False)
model.fit(X[:400], y[:400])
before = gp.status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
model.fit(X, y)
print(json.dumps(gp.status("VmHWM") - before))
"""

SPARSE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import gp, mercer
n, d, m = map(int, sys.argv[2:5])
X, y = gp.problem(n, d)
kernel = gp.sparse_kernel(d)
gp.CollapsedBound(X[:2000], y[:2000, None]).value_and_gradient(kernel, 0.1, X[:m])
before = gp.status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
with mercer.config(memory="1GB"):
    gp.CollapsedBound(X, y[:, None]).value_and_gradient(kernel, 0.1, X[:m])
print(json.dumps(gp.status("VmHWM") - before))
"""


def status(name: str) -> float:
    """Return a line of the process's status, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1000


def _child(program: str, *sizes: int) -> float:
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", program, here, *map(str, sizes)]
    child = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(child.stdout))


def _peak(n: int, d: int) -> str:
    """Measure the peak of a fit in a process of its own."""
    matrices = _child(FIT, n, d) * 1e6 / (8 * n * n)
    return f"peak {matrices:.1f} × n²·8 bytes, target 4"


def evaluation(n: int = 2000, d: int = 8, rounds: int = 7) -> list[Row]:
    """One evidence with its gradient against what LAPACK and the Gram matrix take alone."""
    X, y = problem(n, d)
    kernel = 1.3 * RBF(np.geomspace(1.0, 8.0, d))
    evidence, bound = Evidence(X, y[:, None]), kernel._bind(X)
    K, work = kernel(X), np.empty((n, n))
    K.flat[:: n + 1] += 0.1

    def lapack() -> None:
        np.copyto(work, K)
        limits.potrf(work)
        limits.potri(work)

    ours, gram, both, copy = best_of(
        rounds,
        lambda: evidence.value_and_gradient(kernel, 0.1),
        lambda: blocks.gram(bound, out=work),
        lapack,
        lambda: np.copyto(work, K),
    )
    limit = gram + both - copy
    name = "potrf+potri+Gram"
    note = "target at most 1.40×"
    return [Row(f"evidence+gradient n={n} d={d}", ours, limit=limit, limit_name=name, note=note)]


def prediction(n: int = 2000, m: int = 2000, d: int = 8, rounds: int = 5) -> list[Row]:
    """Mean and standard deviation at new points, with the parameters given."""
    X, y = problem(n + m, d)
    scales = np.geomspace(1.0, 8.0, d)
    ours = GaussianProcessRegressor(
        1.3 * RBF(scales), noise=0.1, optimizer=None, normalize_y=False
    ).fit(X[:n], y[:n])
    start = peer.ConstantKernel(1.3) * peer.RBF(scales) + peer.WhiteKernel(0.1)
    theirs = PeerRegressor(start, alpha=0.0, optimizer=None).fit(X[:n], y[:n])
    new = X[n:]
    ours_s, theirs_s = best_of(
        rounds,
        lambda: ours.predict(new, return_std=True),
        lambda: theirs.predict(new, return_std=True),
    )
    apart = np.abs(
        np.array(ours.predict(new, return_std=True)) - theirs.predict(new, return_std=True)
    )
    note = f"largest difference {apart.max():.0e}; target 1×"
    return [Row(f"mean and std of {m} points n={n}", ours_s, theirs_s, "scikit-learn", note=note)]


# -- classification -----------------------------------------------------------------------------
def classification(n: int = 1000, d: int = 5, rounds: int = 3) -> list[Row]:
    """Laplace's approximation with its parameters found from the same start; the target is 8×."""
    X, f = problem(n, d)
    y = (f + 0.3 * np.random.default_rng(1).standard_normal(n) > 0).astype(int)

    def model() -> GaussianProcessClassifier:
        return GaussianProcessClassifier(1.0 * RBF(np.ones(d)), method="laplace", link="logit")

    start = peer.ConstantKernel(1.0) * peer.RBF(np.ones(d))
    (ours,) = best_of(rounds, lambda: model().fit(X, y))
    fitted = model().fit(X, y)
    theirs, other = once(lambda: PeerClassifier(start).fit(X, y))
    note = (
        f"evidence {fitted.log_marginal_likelihood_value_:.3f} in "
        f"{fitted.search_.n_evaluations} evaluations (+{fitted.search_.n_coarse} on a part), "
        f"theirs {other.log_marginal_likelihood_value_:.3f}; target 8×"
    )
    return [Row(f"Laplace GPC fit n={n} d={d} ARD", ours, theirs, "scikit-learn", note=note)]


# -- inducing points ----------------------------------------------------------------------------
def sparse_kernel(d: int) -> RBF:
    """Return the kernel of the sparse figure."""
    return 1.3 * RBF(np.geomspace(1.0, 8.0, d))


def sparse(n: int = 200_000, d: int = 10, m: int = 500, rounds: int = 2) -> list[Row]:
    """One collapsed bound with its gradient against the products of order nm² in it."""
    X, y = problem(n, d)
    kernel, bound = sparse_kernel(d), CollapsedBound(X, y[:, None])
    ours, limit = best_of(
        rounds,
        lambda: bound.value_and_gradient(kernel, 0.1, X[:m]),
        lambda: _products(n, m),
    )
    note = f"peak {_child(SPARSE, n, d, m):.0f} MB beyond the data, target 1 GB; target at most 2×"
    work = f"sparse bound+gradient n={n} m={m}"
    return [Row(work, ours, limit=limit, limit_name="SYRK+GEMM", note=note)]


def _products(n: int, m: int) -> None:
    """Do the SYRK of the bound and the GEMM of its gradient, tile by tile in the cache."""
    size = max(sums.ROWS, sums.ENTRIES // m)
    threads = get_config().threads
    tiles = round(n / size / threads)
    rng = np.random.default_rng(0)

    def work(_: int) -> None:
        T, M = rng.standard_normal((size, m)), rng.standard_normal((m, m))
        square, out = np.zeros((m, m), order="F"), np.empty((size, m))
        for _ in range(tiles):
            add_square(T, square)
            np.matmul(T, M, out=out)

    with blocks.single_threaded_blas(), ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
