"""Fits of few rows while other processes keep all cores busy, beside the same fits on idle ones.

    python benchmarks/crowded.py                  four processes that spin, fits of up to 1000 rows
    python benchmarks/crowded.py --spinning 8     more of them
    python benchmarks/crowded.py --only SVC       some fits

Cores that are shared give every thread its part, no more. So the first line is work that has one
thread and waits for nobody: what takes as many times as long beside the others has lost nothing
but its share. A fit that had several cores to itself may lose one more time as much.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from works.base import blobs, classes, regression, width

import mercer
from mercer import RBF

ROWS = (100, 300, 1000)
SPINNING = 4
SPAN = 0.5  # seconds for the runs of a fit on idle cores; beside others it has four times as long
FEWEST = 3


def alone(n: int) -> Callable[[], Any]:
    """Python's own arithmetic: one thread that waits for nobody."""
    return lambda: sum(i * i for i in range(1000 * n))


def ridge(n: int) -> Callable[[], Any]:
    """A ridge regression."""
    X, y = regression(n, 10)
    return lambda: mercer.KernelRidge(RBF(width(10))).fit(X, y)


def svc(n: int) -> Callable[[], Any]:
    """A support vector machine."""
    X, y = classes(n, 10)
    return lambda: mercer.SVC(RBF(width(10))).fit(X, y)


def process(n: int) -> Callable[[], Any]:
    """A Gaussian process, its kernel given."""
    X, y = regression(n, 10)
    fixed = {"noise": 0.1, "optimizer": None}
    return lambda: mercer.GaussianProcessRegressor(RBF(width(10)), **fixed).fit(X, y)


def components(n: int) -> Callable[[], Any]:
    """Leading components."""
    X = blobs(n, 10)
    return lambda: mercer.KernelPCA(5, RBF(width(10))).fit(X)


def logistic(n: int) -> Callable[[], Any]:
    """A logistic regression."""
    X, y = classes(n, 10)
    return lambda: mercer.KernelLogisticRegression(RBF(width(10))).fit(X, y)


def spectral(n: int) -> Callable[[], Any]:
    """Clusters of a graph."""
    X = blobs(n, 10)
    return lambda: mercer.SpectralClustering(5, RBF(width(10)), random_state=0).fit(X)


def clusters(n: int) -> Callable[[], Any]:
    """Clusters around means in feature space."""
    X = blobs(n, 10)
    return lambda: mercer.KernelKMeans(5, RBF(width(10)), random_state=0).fit(X)


def table(n: int) -> Callable[[], Any]:
    """The default for tables."""
    X, y = regression(n, 6)
    return lambda: mercer.TableRegressor(random_state=0).fit(X, y)


FITS = {
    "one thread by itself": alone,
    "KernelRidge": ridge,
    "SVC": svc,
    "GaussianProcessRegressor": process,
    "KernelPCA": components,
    "KernelLogisticRegression": logistic,
    "SpectralClustering": spectral,
    "KernelKMeans": clusters,
    "TableRegressor": table,
}


@contextmanager
def spinners(count: int) -> Iterator[None]:
    """Keep so many processes busy."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(0.5)
        yield
    finally:
        for process_ in busy:
            process_.kill()
            process_.wait()


def typical(work: Callable[[], Any], span: float) -> float:
    """Return the median of the seconds of some runs."""
    times: list[float] = []
    while len(times) < FEWEST or (sum(times) < span and len(times) < 50):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
        if times[0] > 4 * span:
            break
    return median(times)


def main(words: list[str] | None = None) -> None:
    """Read the command line, time all fits, and print a table."""
    parser = argparse.ArgumentParser(prog="crowded.py", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", default="", help="fits whose name holds this")
    parser.add_argument("--spinning", type=int, default=SPINNING, help="how many processes spin")
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS, help="rows of the fits")
    told = parser.parse_args(words)
    names = [name for name in FITS if told.only.lower() in name.lower() or FITS[name] is alone]
    works = {(name, n): FITS[name](n) for name in names for n in told.rows}
    warnings.simplefilter("ignore")
    for work in works.values():
        work()  # compiles, loads
    idle = {cell: typical(work, SPAN) for cell, work in works.items()}
    with spinners(told.spinning):
        busy = {cell: typical(work, 4 * SPAN) for cell, work in works.items()}
    print(f"{told.spinning} processes that spin, {os.cpu_count()} cores; medians")
    print(f"{'fit':26}{'rows':>6}{'idle ms':>11}{'crowded ms':>12}{'times':>8}")
    for (name, n), seconds in idle.items():
        times = busy[name, n] / seconds
        print(f"{name:26}{n:6}{1e3 * seconds:11.2f}{1e3 * busy[name, n]:12.2f}{times:8.2f}")


if __name__ == "__main__":
    main()
