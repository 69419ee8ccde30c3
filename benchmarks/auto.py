"""What "auto" takes beside the best of the ways that it chooses among, on problems drawn.

A way is a rival where its answer is the same up to its tolerance. Of `KernelKMeans`, of
`SpectralClustering` and of tests the other ways are approximations, which "auto" takes only where
nothing exact fits or is done in time: there the exact way, asked for by name, shows what the choice
itself costs.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from works.base import blobs, classes, regression, width

import mercer
from mercer import RBF, Laplacian, Linear, Matern, Polynomial

__all__ = ["compare", "drawn", "table"]

LEAST = 100  # rows
SPAN = 0.4  # seconds for the rounds of a problem, beyond the first of each way
ROUNDS = 21
DOUBT = 5.0  # times as many seconds where "auto" seems to have lost
SHORT, REPEATED = 0.05, 3  # seconds up to which a fit is made so many times in a round
LONG = 1.0  # seconds beyond which a way is left out that is foretold to take far longer than "auto"
FAR = 3.0  # times as long
GOOD, BAD = 1.2, 2.0
Fit = Callable[[str], Any]


class Problem(NamedTuple):
    """A problem that was drawn: what it is, a fit by a way, the ways, and what is foretold."""

    kind: str
    n: int
    d: int
    fit: Fit
    ways: tuple[str, ...]
    told: dict[str, float]
    taken: str


def ridge(n: int, d: int, rng: Any) -> tuple[Any, tuple, tuple[str, ...]]:
    """Ridge regressions of a small, usual or large penalty."""
    s = width(d)
    kernel = [RBF(s), Matern(s, nu=1.5), Matern(s, nu=0.5), Laplacian(float(d))][rng.integers(4)]
    alpha = 10.0 ** rng.uniform(-3, 1)
    data = regression(n, d)
    return (
        lambda way: mercer.KernelRidge(kernel, alpha=alpha, solver=way, random_state=0),
        data,
        ("cholesky", "cg"),
    )


def logistic(n: int, d: int, rng: Any) -> tuple[Any, tuple, tuple[str, ...]]:
    """Logistic regressions of two classes."""
    alpha, k = 10.0 ** rng.uniform(-2, 1), RBF(width(d))
    return (
        lambda way: mercer.KernelLogisticRegression(k, alpha=alpha, solver=way, random_state=0),
        classes(n, d),
        ("cholesky", "cg"),
    )


def risk(n: int, d: int, rng: Any) -> tuple[Any, tuple, tuple[str, ...]]:
    """Other smooth risks."""
    alpha, k = 10.0 ** rng.uniform(-2, 1), Matern(width(d), nu=1.5)
    loss = ("squared_hinge", "huber")[rng.integers(2)]
    return (
        lambda way: mercer.KernelERM(k, loss, alpha=alpha, solver=way, random_state=0),
        classes(n, d) if loss == "squared_hinge" else regression(n, d),
        ("cholesky", "cg"),
    )


def components(n: int, d: int, rng: Any) -> tuple[Any, tuple, tuple[str, ...]]:
    """A few leading components."""
    k, s = int(rng.integers(2, 20)), width(d)
    kernel = [RBF(s), Matern(s, nu=1.5)][rng.integers(2)]
    return (
        lambda way: mercer.KernelPCA(k, kernel, eigen_solver=way, random_state=0),
        (blobs(n, d),),
        ("dense", "subspace"),
    )


def features(n: int, d: int, rng: Any) -> tuple[Any, tuple, tuple[str, ...]]:
    """Leading components of a kernel with finite features."""
    d = min(d, 12)
    kernel = [Linear(), Polynomial(2, 1.0)][rng.integers(2)]
    return (
        lambda way: mercer.KernelPCA(2, kernel, eigen_solver=way, random_state=0),
        (blobs(n, d),),
        ("features", "dense", "subspace"),
    )


def clusters(n: int, d: int, rng: Any) -> tuple[Any, tuple, tuple[str, ...]]:
    """Clusters around means in feature space."""
    k = int(rng.integers(2, 10))
    return (
        lambda way: mercer.KernelKMeans(k, RBF(width(d)), method=way, random_state=0),
        (blobs(n, d),),
        ("exact",),
    )


def spectral(n: int, d: int, rng: Any) -> tuple[Any, tuple, tuple[str, ...]]:
    """Clusters of a graph."""
    k = int(rng.integers(2, 10))
    return (
        lambda way: mercer.SpectralClustering(k, RBF(width(d)), method=way, random_state=0),
        (blobs(n, d),),
        ("exact",),
    )


KINDS = {
    "ridge": (ridge, 30_000),
    "logistic": (logistic, 10_000),
    "risk": (risk, 10_000),
    "components": (components, 12_000),
    "features": (features, 12_000),
    "clusters": (clusters, 12_000),
    "spectral": (spectral, 8_000),
}


def drawn(count: int, seed: int, only: str = "", begin: int = 0) -> Iterator[Problem]:
    """Yield problems, each from a seed of its own: those from `begin` on are the same ones."""
    names = [name for name in KINDS if only.lower() in name]
    for i in range(begin, count):
        name, rng = names[i % len(names)], np.random.default_rng((seed, i))
        make, most = KINDS[name]
        n = int(np.exp(rng.uniform(np.log(LEAST), np.log(most))))
        d = int(np.exp(rng.uniform(np.log(2), np.log(60))))
        model, data, ways = make(n, d, rng)
        plan = model("auto").plan(*data)
        told = {p.method: p.seconds or 0.0 for p in (plan, *plan.alternatives)}

        def fit(way: str, model: Any = model, data: Any = data) -> Any:
            return model(way).fit(*data)

        yield Problem(name, n, d, fit, ways, told, plan.method)


def timed(problem: Problem) -> dict[str, float]:
    """Return the least seconds of "auto" and of each way, in turn.

    A way that is foretold to take seconds, and far longer than "auto", is left out.
    """
    ways = ("auto", *problem.ways)
    best: dict[str, float] = dict.fromkeys(ways, np.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.fit("auto")  # compiles, loads, and touches memory
        spent = 0.0
        for k in range(ROUNDS):
            for way in ways[:: 1 if k % 2 else -1]:  # who comes first finds cold caches
                told = problem.told.get(way, 0.0)
                if way != "auto" and told > max(LONG, FAR * problem.told[problem.taken]):
                    continue
                if best[way] > LONG and k > 1:
                    continue
                for _ in range(1 if best[way] > SHORT else REPEATED):
                    began = time.perf_counter()
                    problem.fit(way)
                    took = time.perf_counter() - began
                    best[way] = min(best[way], took)
                    spent += took
            near = best["auto"] <= GOOD * min(best.values())
            if spent > (SPAN if near else DOUBT * SPAN) and k:
                break  # what looks lost may be a moment of the machine, and is looked at longer
    return {way: seconds for way, seconds in best.items() if np.isfinite(seconds)}


def compare(count: int, seed: int, only: str = "") -> None:
    """Time "auto" and each way on so many problems, and print how often it was near the best."""
    lost: list[tuple[str, float]] = []
    for problem in drawn(count, seed, only):
        times = timed(problem)
        lost.append((problem.kind, times["auto"] / min(times.values())))
        print(line(problem, times), flush=True)
    print(f"\nseed {seed}, {count} problems")
    print(table(lost))


def line(problem: Problem, times: dict[str, float]) -> str:
    """Return what a problem took, in a line."""
    told = "  ".join(f"{way} {1000 * t:9.1f} ms" for way, t in times.items())
    lost = times["auto"] / min(times.values())
    return f"{problem.kind:11} n={problem.n:6} d={problem.d:3}  {told}  {lost:5.2f} × the best"


def table(lost: Iterable[tuple[str, float]]) -> str:
    """Return how often "auto" was near the best, of each kind and of all."""
    lost = list(lost)
    rows = [f"{'kind':11}{'problems':>9}{'≤ 1.2 ×':>9}{'≤ 2 ×':>8}{'worst':>8}"]
    for kind in (*dict.fromkeys(kind for kind, _ in lost), "all"):
        of_kind = np.array([ratio for name, ratio in lost if kind in (name, "all")])
        good, fair = (of_kind <= GOOD).mean(), (of_kind <= BAD).mean()
        row = f"{kind:11}{len(of_kind):9}{good:9.1%}{fair:8.1%}{of_kind.max():8.2f}"
        rows.append(row)
    return "\n".join(rows)
