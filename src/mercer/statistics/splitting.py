"""Kernel choice by splitting samples: a part chooses the kernel, the rest is tested."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer.checks import as_rng, check_index
from mercer.errors import InvalidInput, speaks, who
from mercer.estimator import check_weights
from mercer.kernels import Kernel
from mercer.memory import require_memory
from mercer.operators import gram_of, joint_rows, many_forms, sources_of
from mercer.statistics.base import TestResult, check_null
from mercer.statistics.dependence import Contrast, check_options, pair_test, paired_collections
from mercer.statistics.factors import pivoted_factor
from mercer.statistics.kernels import FAMILIES, listed
from mercer.statistics.observations import Observations, labels_at, observations, taken
from mercer.statistics.permutation import row_labels
from mercer.statistics.samples import as_counts, one_sample
from mercer.statistics.two_sample import (
    NULLS,
    Labelled,
    centred_features,
    choose_forms,
    collected,
    compare_samples,
    weights_of,
)

# Added to a variance of kernel values up to 1, so that 0/0 is not a power (Liu et al. 2020).
RIDGE = 1e-8


@speaks("mmd_split_test")
def mmd_split_test(
    X: Any,
    Y: Any,
    kernels: Any = None,
    n_permutations: int = 999,
    rng: Any = None,
    *,
    train_fraction: float = 0.5,
    estimator: str = "unbiased",
    null: str = "permutation",
    n_bandwidths: int = 10,
    families: Any = FAMILIES,
    blocks: Any = None,
    strata: Any = None,
    sample_weight: Any = None,
    early_stop: int | None = None,
    rank: int | None = None,
) -> TestResult:
    r"""Test whether two samples come from one distribution, with a kernel chosen on a part of them.

    On a random part of both samples the kernel is chosen that has the largest MMD²/σ, where σ² =
    4 Var f(x)/n + 4 Var f(y)/m is the variance of MMD² and f the witness function: the larger it
    is, the larger the power. The rest is tested with this kernel by `mmd_test`. The test is valid
    since the points that it sees had no say in the choice; it has power from these points alone.

    Parameters
    ----------
    X, Y : collections of n and m points
        The samples. With ``kernels=["precomputed"]`` the rows K[:n] and K[n:] of the Gram matrix.
    kernels : sequence of Kernel, str or callable, optional
        What is chosen from. When left out, and for vectors only: Gaussian and Laplacian kernels at
        bandwidths for the part that chooses, as in `mmd_agg_test`.
    n_permutations : int, default=999
        Number of draws B.
    rng : None, int or Generator
        Source of randomness, of the split and of the draws.
    train_fraction : float, default=0.5
        Part of each sample that chooses the kernel.
    estimator, null : str
        As in `mmd_test`.
    n_bandwidths : int, default=10
        Bandwidths of each family of the collection that is made for the data.
    families : sequence of {"rbf", "laplacian"}, default=("rbf", "laplacian")
        Its families.
    blocks, strata, sample_weight, early_stop : optional
        As in `mmd_test`. Blocks are not split, nor pairs for ``null="wild"``. Weights that are
        whole numbers are counts, of which each copy goes to a part on its own.
    rank : int, optional
        Approximate Gram matrices by this rank, for large samples: those of all kernels where one is
        chosen, and that of the one chosen where it is tested. The level does not suffer, at any
        rank.

    Returns
    -------
    TestResult
        That of `mmd_test` on the rest. ``extra["kernel"]`` is the kernel chosen,
        ``extra["kernels"]`` are all, with ``extra["criteria"]``; ``extra["train"]`` holds the
        weights of the rows of X and of Y in the part that chose. With `rank`,
        ``extra["approximation_error"]``, ``extra["rank"]`` and ``extra["trace_error"]`` are those
        of `mmd_test`.

    References
    ----------
    Sutherland et al., "Generative models and model criticism via optimized maximum mean
    discrepancy", ICLR 2017; Liu et al., "Learning deep kernels for non-parametric two-sample
    tests", ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.statistics import mmd_split_test
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(100, 2)), rng.normal(size=(100, 2)) * [1.0, 2.0]
    >>> result = mmd_split_test(X, Y, rng=0)
    >>> result.pvalue
    0.01
    """
    generator = as_rng(rng)
    share = check_fraction(train_fraction)
    given = weights_of(sample_weight, ["X", "Y"])
    sizes = [size_of(Z, kernels, name) for Z, name in ((X, "X"), (Y, "Y"))]
    together = check_null(null, NULLS) == "wild"
    if together and (sizes[0] != sizes[1] or sample_weight is not None):
        raise InvalidInput(
            f"{who()}: null='wild' exchanges x_i with y_i and needs samples of one size without "
            f"weights; X has {sizes[0]} points and Y has {sizes[1]}. Use null='permutation'."
        )
    if together and np.shape(blocks) == (sizes[0],):
        blocks = (blocks, blocks)  # labels of pairs
    groups = groups_of(blocks, sizes)
    parts = [split_rows(sizes[0], given[0], groups[0], share, 2, generator, "X")]
    if together:
        parts.append(parts[0])  # pairs stay pairs
    else:
        parts.append(split_rows(sizes[1], given[1], groups[1], share, 2, generator, "Y"))
    train, test = zip(*parts, strict=True)
    points, collection, Z = collected(X, Y, kernels, n_bandwidths, families, train)
    centred = [centred_features(k, z, points.weights) for k, z in zip(collection, Z, strict=True)]
    if rank is not None:
        check_index(rank, "rank", 1)
    criteria = _mmd_criteria(centred, points, rank, generator)
    kernel = collection[int(np.argmax(criteria))]
    result = compare_samples(
        X,
        Y,
        kernel,
        n_permutations,
        generator,
        estimator=estimator,
        null=null,
        blocks=None if blocks is None else np.concatenate(groups),
        strata=strata,
        sample_weight=test,
        early_stop=early_stop,
        rank=rank,
    )
    tested = tuple(int((part > 0).sum()) for part in test)
    return told(result, tested, collection, criteria, train)


# ------------------------------------------------------------------------------------ criteria
def _mmd_criteria(
    kernels: list[tuple[Kernel, Any]], points: Labelled, rank: int | None, rng: np.random.Generator
) -> np.ndarray:
    """Return MMD²/σ of each kernel: the mean and the variance of the witness, points left out."""
    labels, weights, own = points.labels, points.weights, points.own
    t = np.where(labels[:, None] == np.arange(2), weights[:, None], 0.0)
    sums, diagonals = _row_sums(kernels, points, t, rank, rng)
    n, m = t.sum(0)
    each = own @ t / t.sum(0) ** 2  # 1/n for points that count once
    x, y = labels == 0, labels == 1
    out = []
    for s, d in zip(sums, diagonals, strict=True):
        # Over a power of two near k(x, x), so that squares stay in range; σ has the same unit.
        unit = np.ldexp(1.0, np.frexp(np.abs(d).max())[1])
        s, d = s / unit, d / unit
        # A point meets its copies, but not itself.
        again = (weights - own) * d
        f = np.where(
            x,
            (s[:, 0] + again) / (n - own) - s[:, 1] / m,
            s[:, 0] / n - (s[:, 1] + again) / (m - own),
        )
        square = float(weights[x] @ f[x]) / n - float(weights[y] @ f[y]) / m
        spread = [variance_of(f[part], weights[part]) for part in (x, y)]
        variance = 4 * float(each @ spread)
        ridge = RIDGE * float(np.abs(d).max(initial=0.0)) ** 2
        out.append(square / (variance + ridge) ** 0.5 if variance + ridge > 0 else 0.0)
    return np.array(out)


def _row_sums(
    kernels: list[tuple[Kernel, Any]],
    points: Labelled,
    t: np.ndarray,
    rank: int | None,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return K t without the diagonals, which come second, of each kernel in turn."""
    if rank is None:
        sources, order = sources_of([k for k, _ in kernels], [z for _, z in kernels])
        _, sums, diagonals = many_forms(sources, len(t), np.empty((len(t), 0)), t)
        back = np.argsort(order)
        return sums[back], diagonals[back]
    sums, diagonals = np.empty((len(kernels), *t.shape)), np.empty((len(kernels), len(t)))
    for k, (kernel, Z) in enumerate(kernels):
        F = choose_forms(kernel, Z, points.weights, rank=rank, rng=rng).F
        diagonals[k] = np.einsum("ri,ri->i", F, F)
        sums[k] = F.T @ (F @ t) - diagonals[k][:, None] * t
    return sums, diagonals


def variance_of(values: np.ndarray, weights: np.ndarray) -> float:
    mean = float(weights @ values) / float(weights.sum())
    return float(weights @ (values - mean) ** 2) / float(weights.sum())


# --------------------------------------------------------------------------------------- split
def split_rows(
    n: int,
    sample_weight: Any,
    labels: np.ndarray,
    share: float,
    least: int,
    rng: np.random.Generator,
    name: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights of the part that chooses and of the part that is tested."""
    given = check_weights(sample_weight, n)
    w = np.ones(n) if given is None else given
    counts = as_counts(w)
    if counts is not None:
        require_memory(
            64 * int(counts.sum()),
            f"{who()}: a split of the {int(counts.sum())} rows that the weights count",
            "Give smaller counts",
        )
    # Units that are not split: blocks, or copies of a row, or rows.
    rows = np.flatnonzero(w > 0) if counts is None else np.repeat(np.arange(n), counts)
    units = labels[rows] if len(np.unique(labels)) < n else np.arange(len(rows))
    names, unit = np.unique(units, return_inverse=True)
    chosen = np.zeros(len(names), dtype=bool)
    chosen[rng.permutation(len(names))[: round(share * len(names))]] = True
    each = w[rows] if counts is None else np.ones(len(rows))
    train = np.bincount(rows, weights=each * chosen[unit], minlength=n)
    test = np.bincount(rows, weights=each * ~chosen[unit], minlength=n)
    for part, what in ((train, "chooses the kernel"), (test, "is tested")):
        size = int((part > 0).sum() if counts is None else part.sum())
        if size < least:
            raise InvalidInput(
                f"{who()}: the part of {name} that {what} has {size} points, and needs "
                f"{least}; give more points, or another train_fraction than {share:g}."
            )
    return train, test


def groups_of(blocks: Any, sizes: list[int]) -> list[np.ndarray]:
    """Return for each row of each sample what it must stay together with."""
    codes = row_labels(blocks, sizes, "blocks")
    codes = np.arange(sum(sizes)) if codes is None else codes
    return np.split(codes, np.cumsum(sizes)[:-1])


def check_fraction(train_fraction: Any) -> float:
    number = isinstance(train_fraction, int | float | np.number)
    if not (number and 0 < train_fraction < 1):
        raise InvalidInput(
            f"{who()}: train_fraction={train_fraction!r}; give a number between 0 and 1."
        )
    return float(train_fraction)


def size_of(X: Any, kernels: Any, name: str) -> int:
    kernel = None if kernels is None else listed(kernels)[0]
    k, points = one_sample(X, kernel, name)
    return int(k.domain.size(points))


def told(
    result: TestResult, sizes: tuple[int, ...], kernels: list, criteria: np.ndarray, train: Any
) -> TestResult:
    """Return the result with the choice in it."""
    chosen: Kernel | tuple[Kernel, Kernel] = kernels[int(np.argmax(criteria))]
    extra = {"kernel": chosen, "kernels": kernels, "criteria": criteria, "train": train}
    method = f"on what did not choose the kernel: {result.method}"
    return replace(result, method=method, sizes=sizes, extra={**result.extra, **extra})


# ---- Kernel choice by splitting pairs: a part chooses the kernels, the rest is tested ----


@speaks("hsic_split_test")
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
    check_options(estimator, null, n_permutations, early_stop)
    generator = as_rng(rng)
    share = check_fraction(train_fraction)
    n = size_of(X, kernels_x, "X")
    (labels,) = groups_of(blocks, [n])
    train, test = split_rows(n, sample_weight, labels, share, 4, generator, "X and Y")
    first, second = paired_collections(X, Y, kernels_x, kernels_y, n_bandwidths, families, train)
    xs, ys = ([observations(pair) for pair in side] for side in (first, second))
    if rank is None:
        criteria = _criteria(xs, ys)
    else:
        criteria = _ranked_criteria(xs, ys, rank, generator)
    kernels = [(x.kernel_x, y.kernel_y) for x in first for y in second]
    best = int(np.argmax(criteria))
    y = second[best % len(second)]
    chosen = replace(first[best // len(second)], kernel_y=y.kernel_y, Y=y.Y, weights=test)
    rows = np.arange(n)
    if sample_weight is None:  # 0 and 1 only say which part a row is in
        rows = np.flatnonzero(test)
        chosen = taken(chosen, rows)
    result = pair_test(
        chosen,
        n_permutations,
        generator,
        estimator=estimator,
        null=null,
        blocks=None if blocks is None else labels[rows],
        strata=labels_at(strata, rows, n, "strata"),
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
            bounds.append(gram_of(kernel, points).bound)
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
    xs: list[Observations], ys: list[Observations], rank: int, rng: np.random.Generator
) -> np.ndarray:
    """Return the same from features of each kernel.

    With centred features F and G, Σⱼ wⱼ(FFᵀ)ᵢⱼ(GGᵀ)ᵢⱼ = FᵢᵀMGᵢ, M = Fᵀdiag(w)G, and shifts of K by
    sᵢ + sⱼ add sᵢGᵢᵀGᵀw + GᵢᵀGᵀ(w∘s), of which the first is 0.
    """
    w = xs[0].weights
    first = [pivoted_factor(x.pair.kernel_x, x.pair.X, rank, rng) for x in xs]
    second = [pivoted_factor(y.pair.kernel_y, y.pair.Y, rank, rng) for y in ys]
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
