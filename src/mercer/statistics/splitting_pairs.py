"""Kernel choice by splitting pairs: a part chooses the kernels, the rest is tested."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer.engines.many import joint_rows
from mercer.statistics.aggregated_pairs import paired_collections
from mercer.statistics.base import TestResult
from mercer.statistics.contrast import Contrast
from mercer.statistics.factors import pivoted_factor
from mercer.statistics.independence import check_options, pair_test
from mercer.statistics.observations import Observations, labels_at, observations, taken
from mercer.statistics.samples import as_counts, as_rng
from mercer.statistics.splitting import (
    RIDGE,
    check_fraction,
    groups_of,
    size_of,
    split_rows,
    told,
    variance_of,
)

__all__ = ["hsic_split_test"]


def hsic_split_test(
    X: Any,
    Y: Any,
    kernels_x: Any = None,
    kernels_y: Any = None,
    n_permutations: int = 999,
    rng: Any = None,
    *,
    train_fraction: float = 0.5,
    estimator: str = "biased",
    null: str = "permutation",
    n_bandwidths: int = 5,
    families: Any = ("rbf",),
    blocks: Any = None,
    strata: Any = None,
    sample_weight: Any = None,
    early_stop: int | None = None,
    rank: int | None = None,
) -> TestResult:
    r"""Test whether two variables are independent, with kernels chosen on a part of the pairs.

    On a random part the pair of kernels is chosen that has the largest HSIC/σ, where σ² is the
    variance of HSIC, 4 Varᵢ(meanⱼ KcᵢⱼLcᵢⱼ)/n for centred matrices Kc and Lc. The rest is tested
    with these kernels by `hsic_test`; the pairs that it sees had no say in the choice.

    Parameters
    ----------
    X, Y : collections of n points
        The variables; row i of both belongs together. The Gram matrix when precomputed.
    kernels_x, kernels_y : sequence of Kernel, str or callable, optional
        What is chosen from. When left out, and for vectors only: Gaussian kernels at bandwidths
        for the part that chooses, as in `hsic_agg_test`.
    n_permutations : int, default=999
        Number of shuffles B.
    rng : None, int or Generator
        Source of randomness, of the split and of the shuffles.
    train_fraction : float, default=0.5
        Part of the pairs that chooses the kernels.
    estimator, null : str
        As in `hsic_test`.
    n_bandwidths : int, default=5
        Bandwidths of each family of a collection that is made for the data.
    families : sequence of {"rbf", "laplacian"}, default=("rbf",)
        Its families.
    blocks, strata, sample_weight, early_stop : optional
        As in `hsic_test`. Blocks are not split. Weights that are whole numbers are counts, of which
        each copy goes to a part on its own.
    rank : int, optional
        Approximate kernels by so many features, for large n: all of them where a pair is chosen,
        and that pair where it is tested. The level does not suffer, at any rank.

    Returns
    -------
    TestResult
        That of `hsic_test` on the rest. ``extra["kernel"]`` is the pair of kernels chosen,
        ``extra["kernels"]`` are all pairs, with ``extra["criteria"]``; ``extra["train"]`` holds
        the weights of the rows in the part that chose. With `rank`,
        ``extra["approximation_error"]``, ``extra["rank"]`` and ``extra["trace_error"]`` are those
        of `hsic_test`.

    References
    ----------
    Sutherland et al., ICLR 2017, for the criterion; Song, Smola, Gretton, Bedo, Borgwardt, JMLR 13,
    2012, for the variance.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.statistics import hsic_split_test
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, size=300)
    >>> y = np.sin(12 * x) + 0.3 * rng.normal(size=300)
    >>> hsic_split_test(x, y, rng=0).pvalue
    0.001
    """
    owner = "hsic_split_test"
    check_options(estimator, null, n_permutations, early_stop, owner)
    generator = as_rng(rng, owner)
    share = check_fraction(train_fraction, owner)
    n = size_of(X, kernels_x, owner, "X")
    (labels,) = groups_of(blocks, [n], owner)
    train, test = split_rows(n, sample_weight, labels, share, 4, generator, owner, "X and Y")
    first, second = paired_collections(
        X, Y, kernels_x, kernels_y, n_bandwidths, families, train, owner
    )
    xs, ys = ([observations(pair, owner) for pair in side] for side in (first, second))
    if rank is None:
        criteria = _criteria(xs, ys)
    else:
        criteria = _ranked_criteria(xs, ys, rank, generator, owner)
    kernels = [(x.kernel_x, y.kernel_y) for x in first for y in second]
    best = int(np.argmax(criteria))
    y = second[best % len(second)]
    chosen = replace(first[best // len(second)], kernel_y=y.kernel_y, Y=y.Y, weights=test)
    rows = np.arange(n)
    if sample_weight is None:  # 0 and 1 only say which part a row is in
        rows = np.flatnonzero(test)
        chosen = taken(chosen, rows, owner)
    result = pair_test(
        chosen,
        n_permutations,
        generator,
        owner,
        estimator=estimator,
        null=null,
        blocks=None if blocks is None else labels[rows],
        strata=labels_at(strata, rows, n, "strata", owner),
        early_stop=early_stop,
        rank=rank,
    )
    tested = test.sum() if as_counts(test) is not None else (test > 0).sum()
    return told(result, (int(tested),), kernels, criteria, train)


def _criteria(xs: list[Observations], second: list[Observations]) -> np.ndarray:
    """Return HSIC/σ of each pair of kernels, the kernel of X in the outer loop.

    A pass over the tiles of all matrices gives Σⱼ AᵢⱼLᵢⱼ, wᵢ times the mean that observation i has
    with all others.
    """
    w = xs[0].weights
    ys = [y.pair for y in second]
    sides = [[(x.pair.kernel_x, x.pair.X) for x in xs], [(y.kernel_y, y.Y) for y in ys]]
    bounds, parts, diagonals = [], [], []
    for side, unbiased in zip(sides, (True, False), strict=True):
        for kernel, points in side:
            sums = np.asarray(kernel.matmul(points, None, w), dtype=float)
            diagonals.append(np.asarray(kernel.diag(points), dtype=float))
            parts.append(Contrast.of(sums, diagonals[-1], w, unbiased))
            bounds.append(kernel._bind(points))
    pairs = [(i, len(xs) + j) for i in range(len(xs)) for j in range(len(ys))]

    def step(tiles: list[np.ndarray], rows: slice, cols: slice) -> np.ndarray:
        A = [p.tile(T, rows, cols) for p, T in zip(parts[: len(xs)], tiles, strict=False)]
        L = [
            T + p.shift[rows, None] + p.shift[cols]
            for p, T in zip(parts[len(xs) :], tiles[len(xs) :], strict=True)
        ]
        return np.stack([np.einsum("ij,ij->i", a, b) for a in A for b in L], axis=1)

    found = joint_rows(bounds, len(pairs), step, what="criteria")
    out = []
    for k, (i, j) in enumerate(pairs):
        lengths = diagonals[j] + 2.0 * parts[j].shift
        rows = found[:, k] - parts[i].excess(diagonals[i]) * lengths
        rows *= parts[i].scale > 0 and parts[j].scale > 0
        size = float(np.abs(diagonals[i]).max() * np.abs(diagonals[j]).max())
        out.append(_ratio(rows, w, size))
    return np.array(out)


def _ratio(rows: np.ndarray, w: np.ndarray, size: float) -> float:
    """Return HSIC/σ from the part that each observation has in HSIC."""
    total = float(w.sum())
    variance = 4 * variance_of(rows * total / w, w) / total
    return float(rows.sum()) / (variance + RIDGE * size**2) ** 0.5


def _ranked_criteria(
    xs: list[Observations],
    ys: list[Observations],
    rank: int,
    rng: np.random.Generator,
    owner: str,
) -> np.ndarray:
    """Return the same from features of each kernel.

    With centred features F and G, Σⱼ wⱼ(FFᵀ)ᵢⱼ(GGᵀ)ᵢⱼ = FᵢᵀMGᵢ, M = Fᵀdiag(w)G, and shifts of K by
    sᵢ + sⱼ add sᵢGᵢᵀGᵀw + GᵢᵀGᵀ(w∘s), of which the first is 0.
    """
    w = xs[0].weights
    first = [pivoted_factor(x.pair.kernel_x, x.pair.X, rank, rng, owner) for x in xs]
    second = [pivoted_factor(y.pair.kernel_y, y.pair.Y, rank, rng, owner) for y in ys]
    out = []
    for x in first:
        F = x.centred(w)
        kappa = np.einsum("ij,ij->i", F, F)
        # Of centred features the row sums are 0.
        parts = Contrast.of(np.zeros(len(w)), kappa, w, True)
        for y in second:
            G = y.centred(w)
            lengths = np.einsum("ij,ij->i", G, G)
            rows = np.einsum("ij,ij->i", F @ (F.T @ (w[:, None] * G)), G)
            rows += G @ (G.T @ (w * parts.shift))
            rows = parts.scale * w * rows - parts.excess(kappa) * lengths
            size = float((x.F**2).sum(1).max() * (y.F**2).sum(1).max())
            out.append(_ratio(rows, w, size))
    return np.array(out)
