"""How tests of samples explain themselves: their statistic of the matrices of shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mercer.errors import InvalidInput, who
from mercer.kernels import around_mean
from mercer.memory import require_memory
from mercer.operators import Place, many_forms, with_first
from mercer.rkhs import EntryShares, Explanation, Function, explain, rows_with_columns
from mercer.settings import get_config
from mercer.statistics.base import TestResult
from mercer.statistics.permutation import drawn_there
from mercer.statistics.shares import (
    TestExplanation,
    columned,
    host_draws,
    players,
    product_terms,
    refuse_rank,
    told,
)
from mercer.statistics.two_sample.forms import ROUNDING, transposed_product
from mercer.statistics.two_sample.labels import MANY, Labelled, labelled

MOST = 1024  # draws whose forms are found together


class EntryForms:
    """Quadratic forms of all matrices of shares, found together; `which` of them is told."""

    place = None
    resolution = 0.0

    def __init__(self, source: EntryShares, weights: np.ndarray):
        self.source, self.weights, self.which = source, weights, 0
        self.found: Any = None
        self.sums = self.diagonal = np.zeros(0)

    def bring(self, V: np.ndarray) -> np.ndarray:
        """Return label vectors as numbers, where forms are still to be found."""
        return V if self.found is not None else np.ascontiguousarray(V, dtype=np.float64)

    def __call__(self, V: np.ndarray, squares: bool = False) -> np.ndarray:
        """Return vᵀGv for each column of V."""
        if self.found is None:
            t = self.weights
            forms, sums, diagonals = many_forms([self.source], len(V), V, t[:, None], what="shares")
            forms += transposed_product(V * V, diagonals.T).T
            self.found = forms, sums[:, :, 0] + diagonals * t, diagonals
        forms, sums, diagonals = self.found
        self.sums, self.diagonal = sums[self.which], diagonals[self.which]
        return np.asarray(forms[self.which])


def explain_samples(
    result: TestResult,
    *,
    samples: Sequence[Any],
    names: Sequence[str],
    kernel: Any,
    sample_weight: Any,
    statistic: Callable[..., Any],
    null: str,
    n_permutations: int,
    state: tuple[Any, Any],
    blocks: Any,
    strata: Any,
    rank: Any,
    batch: int,
    place: Place | None,
    pairs: bool,
    columns: Any = None,
    groups: Any = None,
) -> TestExplanation:
    """Return the shares of columns in the statistic of some samples.

    Parameters
    ----------
    result : TestResult
        The test.
    kernel : Kernel
        Without words.
    samples, names, sample_weight, blocks, strata, rank : object
        As the test took them.
    statistic : callable
        From labelled points and forms to what evaluates draws.
    null : str
        How the null came about.
    n_permutations : int
        Draws of the test, had it not stopped early.
    state : tuple
        Of the generator, before the first of them.
    batch : int
        Draws made at a time.
    place : Place or None
        Where they were made.
    pairs, columns, groups : object
        See `TestResult.explain`.
    """
    refuse_rank(rank)
    if null == "normal":
        raise InvalidInput(
            f"{who()}: the statistic of null='normal' is a mean over half of the points, with the "
            "witness of the others; test with null='permutation'."
        )
    points = labelled(list(samples), kernel, sample_weight, list(names), fit=False)
    f = Function(points.kernel, points.Z, np.zeros(len(points)))
    Z, _ = rows_with_columns(f, points.Z)
    terms = product_terms(kernel, Z)
    groups, called = players(terms, Z.shape[1], columned(samples[0]), columns, groups)
    source = EntryShares(terms, groups, around_mean(kernel, Z), pairs)
    draws = n_permutations if null in ("permutation", "wild") else 0
    few = _few(len(points), len(points.sizes))
    copies = len(points) if points.counts is None else int(points.counts.sum())
    require_memory(
        8 * (4 * (draws + 1) * source.count + len(points) * (4 * few + 2 * source.count))
        + (8 if null == "wild" else 1) * draws * min(copies, len(points) * MANY),
        f"{who()}: shares of {len(groups)} columns and {len(source.pairs)} pairs in {draws} draws",
        "Give pairs=False, or columns together by groups=",
    )
    arrangements = _arrangements(points, null, blocks, strata, state, draws, batch, place)
    T = np.empty((len(arrangements), source.count))
    for start in range(0, len(T), few):
        some = slice(start, start + few)
        forms = EntryForms(source, points.weights)
        way = statistic(points, forms)
        for m in range(source.count):
            forms.which = m
            T[some, m] = way.evaluate(arrangements[some])
    largest = float(np.abs(np.asarray(kernel.diag(points.Z), dtype=float)).max())
    size = largest * way.reach
    return told(
        result,
        called,
        T,
        source.pairs if pairs else None,
        alone=True,
        resolution=ROUNDING * size,
        scale=size,
        error=terms.error * 4 * way.reach,
        telling=partial(_telling, points, groups, called),
    )


def _few(n: int, samples: int) -> int:
    """Return how many draws at a time a quarter of the memory holds."""
    return int(max(16, min(MOST, get_config().memory // (4 * 16 * n * samples))))


def _arrangements(
    points: Labelled,
    null: str,
    blocks: Any,
    strata: Any,
    state: tuple[Any, Any],
    draws: int,
    batch: int,
    place: Place | None,
) -> np.ndarray:
    """Return labels of the data, then of the draws of the test, as it made them."""
    if not draws:
        return _own(points)[None]
    if null == "wild":
        signs = host_draws(drawn_there(points.pairs(blocks), place, draws), state, draws, batch)
        moved = signs < 0
        both = np.concatenate([moved, ~moved], axis=1)  # of a pair that changes places
        return with_first(points.labels, both.astype(points.labels.dtype))
    design: Any = points.design(blocks, strata)
    made = host_draws(drawn_there(design, place, draws), state, draws, batch)
    return np.asarray(with_first(design.labels, made))


def _own(points: Labelled) -> np.ndarray:
    return points.labels if points.counts is None else np.repeat(points.labels, points.counts)


def _telling(
    points: Labelled, groups: Any, called: tuple[str, ...], count: int, judges: list[int]
) -> dict[str, tuple[np.ndarray, Explanation]]:
    """Return rows of each sample around which it is denser than the others, most of all."""
    labels, domain = points.labels, points.kernel.domain
    share = points.weights / points.totals()[labels]
    ends = np.cumsum((0, *points.sizes))
    found = {}
    for g, name in enumerate(points.names):
        own = labels == g
        rest = np.where(own, 0.0, share)
        if len(points.sizes) > 2:
            rest = points.weights / points.weights.sum()
        f = Function(points.kernel, points.Z, np.where(own, share, 0.0) - rest)
        rows = np.flatnonzero(own)
        if len(judges) == len(called):
            heights = f(domain.subset(points.Z, rows))
        else:
            every = explain(f, domain.subset(points.Z, rows), game="baseline", groups=groups)
            heights = every.values[:, judges].sum(axis=1)
        best = rows[np.argsort(-heights, kind="stable")[:count]]
        shares = explain(f, domain.subset(points.Z, best), game="baseline", groups=groups)
        found[name] = points.given[best] - ends[g], replace(shares, columns=called)
    return found
