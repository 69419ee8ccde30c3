"""Kernels on tables, on categories and on missing values: instances, points and formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer import kernels as mk
from mercer.domains import Table
from mercer.kernels import Kernel
from mercer.kernels.strings import Spectrum, Subsequence

LEVELS = ["low", "middle", "high"]
Sampler = Callable[[np.random.Generator, int], Any]


def _gone(value: Any) -> bool:
    return value is None or value != value


# -------------------------------------------------------------------------------- formulas
def _categorical(k: Any, x: Any, y: Any) -> float:
    same = [(_gone(a) and _gone(b)) or a == b for a, b in zip(x, y, strict=True)]
    return math.prod(1.0 if s else float(k.similarity) for s in same)


def _ordinal(k: Any, x: Any, y: Any) -> float:
    total, levels = 0.0, list(k.order)
    for a, b in zip(x, y, strict=True):
        if _gone(a) != _gone(b):
            return 0.0
        if not _gone(a):
            total += abs(levels.index(a) - levels.index(b))
    return math.exp(-total / float(k.length_scale))


def _with_missing(k: Any, x: Any, y: Any) -> float:
    from mercer.testing.oracles import oracle

    rows = isinstance(x, np.ndarray)
    if not rows and k.fill is None:
        return float(_gone(x) and _gone(y)) if _gone(x) or _gone(y) else oracle(k.kernel, x, y)

    def filled(p: Any) -> Any:
        if not rows:
            return k.fill if _gone(p) else p
        fill = np.broadcast_to(np.asarray(k.fill, dtype=float), p.shape)
        return np.array([f if _gone(v) else v for v, f in zip(p, fill, strict=True)])

    pairs = list(zip(x, y, strict=True)) if rows else [(x, y)]
    differ = sum(_gone(a) != _gone(b) for a, b in pairs)
    rho = 0.5 ** (1 / len(pairs)) if k.agreement is None else float(k.agreement)
    a = filled(x)
    return oracle(k.kernel, a, a if x is y else filled(y)) * rho**differ


TABLE_FORMULAS: dict[type, Callable[[Any, Any, Any], float]] = {
    mk.Categorical: _categorical,
    mk.Ordinal: _ordinal,
    mk.WithMissing: _with_missing,
}


# ----------------------------------------------------------------------------------- points
def sample_clinic(rng: np.random.Generator, n: int) -> Table:
    """Return n rows of two columns of numbers, a category, an ordered one and a sequence.

    About a tenth of the entries is missing.
    """
    columns = {
        "age": rng.uniform(20, 60, n).astype(object),
        "dose": rng.standard_normal(n).astype(object),
        "site": rng.choice(["here", "there"], n).astype(object),
        "severity": rng.choice(LEVELS, n).astype(object),
        "sequence": np.array(
            ["".join(rng.choice(list("ACGT"), rng.integers(3, 9))) for _ in range(n)], dtype=object
        ),
    }
    for values in columns.values():
        values[rng.random(n) < 0.1] = None
    return Table(columns)


def _complete(rng: np.random.Generator, n: int) -> Table:
    return Table(
        {
            "sequence": ["".join(rng.choice(list("ACGT"), 5)) for _ in range(n)],
            "age": rng.uniform(20, 60, n),
            "site": rng.choice(["here", "there"], n),
            "dose": rng.standard_normal(n),
        }
    )


def _rows(rng: np.random.Generator, n: int) -> np.ndarray:
    out = np.empty((n, 3), dtype=object)
    out[:, 0] = rng.standard_normal(n)
    out[:, 1] = rng.choice(["a", "b", "c"], n)
    out[:, 2] = rng.standard_normal(n)
    return out


def _with_gaps(rng: np.random.Generator, n: int) -> np.ndarray:
    X = rng.standard_normal((n, 3))
    X[rng.random((n, 3)) < 0.2] = np.nan
    return X


def _levels(rng: np.random.Generator, n: int) -> list:
    return rng.choice(np.array([*LEVELS, None], dtype=object), n).tolist()


def _numbers(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.integers(1, 4, (n, 2))


def table_kernels() -> list[tuple[str, Kernel, Sampler | None]]:
    """Return name, kernel and sampler of points of each example."""
    RBF = mk.RBF
    clinic = (
        RBF(9.0).with_missing().on(["age", "dose"]) * mk.Categorical(0.4).on("site")
        + mk.Ordinal(LEVELS, 2.0).on("severity")
        + mk.Spectrum(2).normalized().with_missing().on("sequence")
    )
    effects = mk.Additive(
        [
            RBF(9.0).with_missing().on("age"),
            0.5 * mk.Categorical(0.3).on("site"),
            mk.Spectrum(2).normalized().with_missing().on("sequence"),
        ]
    )
    issue = RBF().on(["age", "dose"]) * mk.Categorical().on("site") + mk.Spectrum(3).on("sequence")
    return [
        ("Categorical", mk.Categorical(), None),
        ("Categorical-similar", mk.Categorical(0.4), None),
        ("Ordinal", mk.Ordinal(LEVELS, 1.5), _levels),
        ("Ordinal-data", mk.Ordinal(), _numbers),
        ("WithMissing", RBF(2.0).with_missing(fill=0.3), None),
        ("WithMissing-tuned", RBF(2.0).with_missing(fill=0.3, agreement=0.6), None),
        ("WithMissing-median", RBF("median").with_missing(), None),
        ("WithMissing-columns", RBF([1.0, 2.0, 0.5]).with_missing([0.1, 0.2, 0.3], 0.0), None),
        ("WithMissing-number", mk.Minimum().with_missing(fill=1.0, agreement=0.7), None),
        ("WithMissing-words", mk.Spectrum(2).with_missing(), None),
        ("WithMissing-fill", mk.Subsequence(2, 0.7).with_missing("ab", agreement=0.3), None),
        ("Additive-clinic", effects, sample_clinic),
        ("Additive-rows", mk.Additive([RBF(), mk.Categorical(0.5), RBF()], 3), _rows),
        ("Additive-missing", mk.Additive(RBF().with_missing()), _with_gaps),
        ("OnColumns-clinic", clinic, sample_clinic),
        ("OnColumns-mixed", issue, _complete),
        ("OnColumns-rows", RBF().on([0, 2]) * mk.Categorical(0.5).on(1), _rows),
    ]


# ---- Bags of points for the laws: examples of the mean map, and its definition for two bags ----


def common_first(x: Any, y: Any) -> float:
    """Return 1 where the first coordinates have the same sign, and 0 else."""
    return float((x[0] > 0) == (y[0] > 0))


def bag_kernels() -> dict[str, mk.Kernel]:
    """Return kernels by name; points are sampled from their domains."""
    return {
        "SetKernel": mk.SetKernel(mk.RBF(1.3)),
        "SetKernel-linear": mk.SetKernel(mk.Linear()),
        "SetKernel-median": mk.SetKernel(mk.Matern("median", 2.5)),
        "SetKernel-normalized": mk.SetKernel(2.0 * mk.RBF() + 0.5).normalized(),
        "SetKernel-objects": mk.SetKernel(mk.FromFunction(common_first)) + 0.5,
        "SetKernel-counted": mk.SetKernel(Spectrum(2)),
        "SetKernel-strings": mk.SetKernel(Subsequence(2, 0.4)),
        "SetKernel-tables": mk.SetKernel(mk.RBF().on("a") * mk.Linear().on(["b", "c"])),
    }


def mean_map(k: Any, x: Any, y: Any) -> float:
    """Return 1/(|A||B|) Σ Σ κ(a, b) for two bags of points, 0 where one is empty."""
    from mercer.testing.oracles import oracle, points

    if not len(x) or not len(y):
        return 0.0
    inner = k.kernel
    A, B = (points(inner, _collection(inner, bag)) for bag in (x, y))
    return math.fsum(oracle(inner, a, b) for a in A for b in B) / (len(A) * len(B))


def _collection(inner: mk.Kernel, bag: tuple) -> Any:
    """Return the points of a bag as a collection; rows of a table have the names a, b, c."""
    if inner.domain.name == "tables":
        return Table(dict(zip("abc", np.array(bag).T, strict=True)))
    return list(map(list, bag)) if isinstance(bag[0], tuple) else list(bag)
