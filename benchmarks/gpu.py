"""`make bench-gpu`: what one GPU does, in absolute times; names as arguments run only those rows.

Names: agreement, products, combined, cholesky, ridge, iterated, machines, searches, logistic,
clusters, features, falkon, billion, evidence, aggregated.
Sizes are those of an accelerator with 139 GiB; SCALE=0.1 in the environment takes a tenth of the
rows, PROFILE=20 prints the 20 functions that take longest.
Where there is none, `python benchmarks/gpu.py agreement --device cpu` compares torch on the CPU
with NumPy.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
from timing import Row, print_table

import mercer
from mercer import RBF, GaussianProcessRegressor, KernelRidge

SCALE = float(os.environ.get("SCALE", "1"))
PROFILE = int(os.environ.get("PROFILE", "0"))


def sized(n: float) -> int:
    """Return a number of rows at the scale of this run."""
    return max(1000, int(SCALE * n))


def timed(work: Callable[[], Any], rounds: int = 1) -> tuple[float, Any, float]:
    """Return the best time, the last result, and the peak of device memory in GiB."""
    import torch

    best = float("inf")
    torch.cuda.reset_peak_memory_stats()
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        result = work()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best, result, torch.cuda.max_memory_allocated() / 2**30


def normal(n: int, d: int, seed: int, dtype: str = "float32") -> Any:
    """Return random rows, made on the device."""
    import torch

    source = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(n, d, device="cuda", dtype=getattr(torch, dtype), generator=source)


def target(X: Any) -> Any:
    """Return a smooth function of the rows, chunk by chunk."""
    import torch

    parts = [
        torch.sin(2 * part[:, 0]) + part[:, 1] * part[:, 2] + 0.5 * torch.cos(part[:, 3:6].sum(1))
        for part in X.split(2**24)
    ]
    return torch.cat(parts)


def agreement(device: str = "cuda") -> Iterator[Row]:
    """Compare kernels, estimators and tests on the device with main memory, in both precisions."""
    from agreement import compared

    return compared(device)


def products() -> Iterator[Row]:
    """Time K V without K, fused, against plain torch tiles."""
    import torch

    n, m = sized(1e6), 10_000
    for d, t, asked in ((20, 1, 2000), (20, 16, 500), (100, 1, 250), (9, 1, 0)):
        X, Z, V = normal(n, d, 0), normal(m, d, 1), normal(m, t, 2)
        kernel = RBF((2.0 * d) ** 0.5)
        some = slice(0, 2000)
        exact = kernel(X[some].double(), Z.double()) @ V.double()
        got = kernel.matmul(X, Z, V)
        seconds, _, _ = timed(lambda: kernel.matmul(X, Z, V), 5)  # noqa: B023
        plain, _, _ = timed(lambda: _plain(X, Z, V, d, torch), 2)  # noqa: B023
        error = float((got[some].double() - exact).norm() / exact.norm())
        rate = n * m / seconds / 1e9
        note = f"{rate:.0f} G pairs/s (asked {asked}); relative error {error:.1e}"
        yield Row(f"RBF K·V, {n} × {m}, d={d}, t={t}, float32", seconds, plain, "torch", note=note)
    X, Z, V = (normal(k, c, s, "float64") for k, c, s in ((n, 20, 0), (m, 20, 1), (m, 1, 2)))
    seconds, _, _ = timed(lambda: RBF(6.0).matmul(X, Z, V), 2)
    yield Row(
        f"RBF K·V, {n} × {m}, d=20, t=1, float64",
        seconds,
        note=f"{n * m / seconds / 1e9:.0f} G pairs/s, tiles",
    )


def _plain(X: Any, Z: Any, V: Any, d: int, torch: Any) -> Any:
    """Multiply as one would in torch: a product, an exponential, a product."""
    out = []
    zz = (Z * Z).sum(1) / (4.0 * d)
    for part in X.split(6000):
        s = (part @ Z.T) / (2.0 * d)
        s -= zz
        s -= (part * part).sum(1, keepdim=True) / (4.0 * d)
        out.append(s.exp_() @ V)
    return torch.cat(out)


def combined() -> Iterator[Row]:
    """Time products with sums, products and kernels of some columns, and gradients."""
    from mercer import Matern

    n, m, d = sized(1e6), 10_000, 20
    X, Z, V = normal(n, d, 0), normal(m, d, 1), normal(m, 1, 2)
    rbf, rough = RBF(4.0), Matern(3.0, nu=1.5)
    low, high = list(range(10)), list(range(10, 20))
    kernels = {
        "Matérn 3/2": rough,
        "RBF + Matérn 3/2": rbf + rough,
        "RBF · Matérn 3/2": rbf * rough,
        "RBF of 10 columns · Matérn 3/2 of 10": rbf.on(low) * rough.on(high),
        "RBF of 10 columns + RBF of 10": rbf.on(low) + rbf.on(high),
        "RBF of 10 columns": rbf.on(low),
    }
    for name, kernel in kernels.items():
        got = kernel.matmul(X[:2000], Z, V)
        exact = kernel(X[:2000].double(), Z.double()) @ V.double()
        error = float((got.double() - exact).norm() / exact.norm())
        seconds, _, _ = timed(lambda: kernel.matmul(X, Z, V), 5)  # noqa: B023
        note = f"{n * m / seconds / 1e9:.0f} G pairs/s; relative error {error:.1e}"
        yield Row(f"{name}, K·V, {n} × {m}, d={d}, float32", seconds, note=note)
    X = X[: sized(2e5)]
    for name, kernel in (("RBF", rbf), ("Matérn 3/2", rough)):
        kernel.gradient(X[:2000], Z, V[:, 0])
        seconds, _, _ = timed(lambda: kernel.gradient(X, Z, V[:, 0]), 5)  # noqa: B023
        note = f"{len(X) * m / seconds / 1e9:.0f} G pairs/s"
        yield Row(f"{name}, gradient, {len(X)} × {m}, d={d}, float32", seconds, note=note)


def cholesky() -> Iterator[Row]:
    """Time the factorisation in place."""
    from mercer.solvers import factor

    n = sized(65536)
    X = normal(n, 20, 0, "float64")
    K = RBF(3.0)(X)
    seconds, f, peak = timed(lambda: factor(K, 1.0, overwrite=True))
    b = normal(n, 1, 1, "float64")
    residual = float((f.matmul(f.solve(b)) - b).norm() / b.norm())
    note = f"{n**3 / 3 / seconds / 1e12:.0f} TF/s, peak {peak:.0f} GiB, residual {residual:.0e}"
    yield Row(f"Cholesky in place, n={n}, float64", seconds, note=note)


def ridge() -> Iterator[Row]:
    """Time the exact fit of 100000 points."""
    n = sized(1e5)
    X = normal(n, 20, 0, "float64")
    y = target(X)
    model = KernelRidge(RBF(4.0), alpha=1.0, solver="cholesky")
    model.fit(X[:2000], y[:2000])
    seconds, fitted, peak = timed(lambda: model.fit(X, y))
    note = f"asked 16 s; residual {fitted.solution_.residual:.1e}, peak {peak:.0f} GiB"
    yield Row(f"KernelRidge exact, n={n}, d=20, float64", seconds, note=note)


def iterated() -> Iterator[Row]:
    """Time exact fits whose matrix fits nowhere: products in float32, residuals in float64."""
    from mercer import Matern

    for n, asked in ((3e5, "10 s"), (1e6, "100 s")):
        n = sized(n)
        X = normal(n, 10, 0, "float64")
        y = target(X) + 0.3 * normal(n, 1, 1, "float64")[:, 0]
        model = KernelRidge(Matern(3.0, nu=1.5), alpha=1.0, solver="cg", tol=1e-4, random_state=0)
        model.fit(X[:5000], y[:5000])
        seconds, fitted, peak = timed(lambda: model.fit(X, y))  # noqa: B023
        told = fitted.solution_
        note = (
            f"asked {asked}; residual {told.residual:.1e} in float64, {told.n_iter} iterations, "
            f"{told.extra['rounds']} rounds, K {told.extra['storage']}, peak {peak:.0f} GiB"
        )
        yield Row(
            f"KernelRidge by conjugate gradients, n={n}, d=10, Matérn 3/2", seconds, note=note
        )


def machines() -> Iterator[Row]:
    """Time support vector machines: rows of the matrix lie on the device."""
    n, d = sized(1e5), 50
    X = normal(n, d, 0, "float64")
    y = (target(X) + 0.3 * normal(n, 1, 1, "float64")[:, 0] > 0).int()
    for C, asked in ((1.0, "asked 20 s"), (10.0, "not asked")):
        model = mercer.SVC(RBF((d / 2) ** 0.5), C=C)
        model.fit(X[:4000], y[:4000])
        seconds, fitted, peak = timed(lambda: model.fit(X, y))  # noqa: B023
        told = fitted.solution_
        note = (
            f"{asked}; gap {told.gap / told.primal:.1e} of the objective, violation "
            f"{told.residual:.1e}, {len(fitted.support_)} support vectors, peak {peak:.0f} GiB"
        )
        yield Row(f"SVC n={n}, d={d}, C={C:g}", seconds, note=note)


def searches() -> Iterator[Row]:
    """Time machines that share a matrix: classes, folds and values of C."""
    n, d = sized(1e4), 20
    X = normal(n, d, 0, "float64")
    f = target(X) + 0.3 * normal(n, 1, 1, "float64")[:, 0]
    y = (f > 0).int()
    model = mercer.SVC(RBF(d**0.5))
    some = slice(0, 4000)
    mercer.search(model, {"C": [1.0, 2.0]}, X[some], y[some], cv=2, refit=False)
    for folds, count in ((5, 10), (10, 50)):
        grid = {"C": np.logspace(-2, 2, count)}
        seconds, found, peak = timed(
            lambda: mercer.search(model, grid, X, y, cv=folds, refit=False)  # noqa: B023
        )
        note = f"best C {found.best_params_['C']:.3g}, {found.best_score_:.4f}, peak {peak:.0f} GiB"
        yield Row(f"search of SVC, n={n}, d={d}, {count} C, {folds} folds", seconds, note=note)
    n = sized(2e4)
    X = normal(n, d, 0, "float64")
    f = target(X) + 0.3 * normal(n, 1, 1, "float64")[:, 0]
    cuts = f.quantile(f.new_tensor(np.linspace(0, 1, 11)[1:-1]))
    y = (f[:, None] > cuts).sum(1)
    seconds, fitted, peak = timed(lambda: model.fit(X, y), 2)
    told = fitted.solution_
    note = f"gap {told.gap / told.primal:.1e} of the objective, converged: {told.converged}"
    yield Row(f"SVC n={n}, d={d}, 10 classes, C=1", seconds, note=f"{note}, peak {peak:.0f} GiB")


def logistic() -> Iterator[Row]:
    """Time exact logistic regression."""
    n, d = sized(20_000), 20
    X = normal(n, d, 0, "float64")
    y = (target(X) + 0.3 * normal(n, 1, 1, "float64")[:, 0] > 0).int()
    model = mercer.KernelLogisticRegression(RBF((d / 2) ** 0.5), alpha=1.0)
    model.fit(X[:2000], y[:2000])
    seconds, fitted, peak = timed(lambda: model.fit(X, y), 2)
    told = fitted.solution_
    note = f"asked 1 s; residual {told.residual:.1e}, {told.n_iter} iterations, peak {peak:.0f} GiB"
    yield Row(f"KernelLogisticRegression exact, n={n}, d={d}, float64", seconds, note=note)


def clusters() -> Iterator[Row]:
    """Time kernel k-means."""
    n, d, k = sized(50_000), 20, 10
    X = normal(n, d, 0) + 3.0 * normal(k, d, 1).repeat(-(-n // k), 1)[:n]
    model = mercer.KernelKMeans(k, RBF(d**0.5), random_state=0)
    model.fit(X[:2000])
    seconds, fitted, peak = timed(lambda: model.fit(X), 2)
    note = f"asked 1 s; {fitted.n_iter_} iterations, peak {peak:.0f} GiB"
    yield Row(f"KernelKMeans n={n}, d={d}, k={k}, float32", seconds, note=note)


def features() -> Iterator[Row]:
    """Time metrics learned from 60000 rows, and exact regressions of all of them."""
    n, d = sized(60_000), 20
    X = normal(n, d, 0, "float64")
    y = target(X)
    mercer.FeatureMachineRegressor(1, max_rows=200).fit(X[:1000], y[:1000])
    model = mercer.FeatureMachineRegressor()
    seconds, fitted, peak = timed(lambda: model.fit(X, y))
    exact = sum(member.plan_.method == "cholesky" for member in fitted.members_)
    new = normal(10_000, d, 9, "float64")
    truth = target(new).cpu().numpy()
    error = float(np.std(fitted.predict(new) - truth) / np.std(truth))
    note = (
        f"asked 60 s; {exact} of {len(fitted.members_)} regressions exact, peak {peak:.0f} GiB, "
        f"error at new points {error:.3f} of the deviation"
    )
    yield Row(f"FeatureMachineRegressor, n={n}, d={d}, float64", seconds, note=note)


def _falkon(
    n: int, d: int, m: int, iterations: int, scale: float, asked: str, penalty: float = 1e-7
) -> Row:
    X = normal(n, d, 0)
    y = target(X)
    model = KernelRidge(
        RBF(scale),
        alpha=penalty * n,
        solver="falkon",
        n_centers=m,
        max_iter=iterations,
        tol=1e-12,
        random_state=0,
    )
    some = KernelRidge(RBF(scale), solver="falkon", n_centers=500, max_iter=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mercer.errors.NotConverged)  # the iterations are fixed
        some.fit(X[:4000], y[:4000])
        seconds, fitted, peak = timed(lambda: model.fit(X, y))
    new = normal(100_000, d, 9)
    truth = target(new).cpu().numpy()
    error = float(np.std(fitted.predict(new) - truth) / np.std(truth))
    note = (
        f"asked {asked}; {fitted.solution_.n_iter} iterations, peak {peak:.0f} GiB, residual "
        f"{fitted.solution_.residual:.1e}, error at new points {error:.3f} of the deviation"
    )
    return Row(f"Falkon n={n}, d={d}, m={m}, float32", seconds, note=note)


def falkon() -> Iterator[Row]:
    """Time ten million rows with a hundred thousand centres."""
    yield _falkon(sized(1e7), 28, sized(1e5), 15, 5.0, "90 s")


def billion() -> Iterator[Row]:
    """Time a billion rows."""
    yield _falkon(sized(1e9), 9, 20_000, 8, 2.0, "480 s", penalty=1e-6)


def evidence() -> Iterator[Row]:
    """Time the evidence of a Gaussian process and its gradient."""
    n, d = sized(20_000), 20
    X = normal(n, d, 0, "float64")
    y = target(X)
    model = GaussianProcessRegressor(RBF(np.full(d, 4.0)), noise=0.1, optimizer=None)
    model.fit(X, y)
    seconds, _, peak = timed(lambda: model.log_marginal_likelihood(eval_gradient=True), 2)
    note = f"asked 3 s; peak {peak:.0f} GiB"
    yield Row(f"GP evidence and gradient, n={n}, ARD d={d}, float64", seconds, note=note)


def aggregated() -> Iterator[Row]:
    """Time the aggregated two-sample test."""
    n, d = sized(5000), 100
    X, Y = normal(n, d, 0), normal(n, d, 1) + 0.05
    from mercer.statistics import mmd_agg_test

    work: Callable[[], Any] = lambda: mmd_agg_test(X, Y, n_permutations=2000, rng=0)  # noqa: E731
    work()
    seconds, result, peak = timed(work, 2)
    note = f"asked 0.5 s; p-value {result.pvalue:.3g}, peak {peak:.0f} GiB"
    yield Row(f"aggregated MMD, 20 kernels, {n}+{n}, d={d}, 2000 draws", seconds, note=note)


ROWS = {
    f.__name__: f
    for f in (
        agreement,
        products,
        combined,
        cholesky,
        ridge,
        iterated,
        machines,
        searches,
        logistic,
        clusters,
        features,
        falkon,
        billion,
        evidence,
        aggregated,
    )
}


def main(arguments: list[str]) -> None:
    """Run the named rows, or all."""
    try:
        import torch
    except ImportError:
        sys.exit("benchmarks/gpu.py: torch is not installed; pip install 'mercer[torch]'.")
    if arguments == ["agreement", "--device", "cpu"]:
        sys.exit(_run(agreement, "cpu"))
    if not torch.cuda.is_available():
        sys.exit("benchmarks/gpu.py: torch sees no CUDA device here, so there is nothing to time.")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    table: list[Row] = []
    wrong = 0
    for name in arguments or ROWS:
        profile = cProfile.Profile()
        with profile if PROFILE else nullcontext():
            wrong += _run(ROWS[name], table=table)
        if PROFILE:
            pstats.Stats(profile).sort_stats("tottime").print_stats(PROFILE)
        torch.cuda.empty_cache()
    print_table(table)
    sys.exit(min(wrong, 1))


def _run(rows: Callable[..., Iterator[Row]], *options: str, table: list[Row] | None = None) -> int:
    """Print rows as they come; return how many say that something is wrong."""
    wrong = 0
    try:
        for row in rows(*options):
            wrong += "TOO LARGE" in row.note
            print(f"{row.work}: {row.mercer:.3f} s; {row.note}", flush=True)
            if table is not None:
                table.append(row)
    except (
        mercer.errors.MercerError,
        RuntimeError,
        TypeError,
    ) as error:  # go on
        print(f"{rows.__name__}: {type(error).__name__}: {error}", flush=True)
        wrong += 1
    return wrong


if __name__ == "__main__":
    main(sys.argv[1:])
