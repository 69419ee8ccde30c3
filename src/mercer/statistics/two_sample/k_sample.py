"""The k-sample test: have several samples one distribution?"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from mercer.checks import as_rng, check_index
from mercer.domains import namespace
from mercer.errors import InvalidInput, speaking_for, speaks, who
from mercer.kernels import Kernel
from mercer.statistics.base import TestResult
from mercer.statistics.permutation import (
    CountedRelabel,
    Relabel,
    drawn_result,
    drawn_there,
    resample,
    row_labels,
    state_of,
)
from mercer.statistics.two_sample.discrepancy import Discrepancy
from mercer.statistics.two_sample.explaining import explain_samples
from mercer.statistics.two_sample.forms import LowRankForms, choose_forms, transposed_product
from mercer.statistics.two_sample.labels import Labelled, labelled
from mercer.statistics.two_sample.test import largest_batch


@speaks("k_sample_test")
def k_sample_test(
    *samples: Any,
    kernel: Any = None,
    n_permutations: int = 999,
    rng: Any = None,
    blocks: Any = None,
    strata: Any = None,
    sample_weight: Any = None,
    early_stop: int | None = None,
    rank: int | None = None,
    pairwise: bool = False,
) -> TestResult:
    r"""Test whether several samples come from one distribution.

    The statistic is the sum of squares between the samples in feature space,

    .. math:: \sum_g n_g \lVert \mu_g - \mu \rVert^2,

    with the mean embeddings μ_g of the samples and μ of all points. For two samples it is
    nm/(n + m) times the biased MMD², so the test is that of ``mmd_test(estimator="biased")``. The
    p-value is (k + 1)/(B + 1) over random ways to share the points out to samples of these sizes.
    Other estimators and nulls are those of two samples, in `mmd_test`.

    Parameters
    ----------
    *samples : collections of points
        Two samples or more. With ``kernel="precomputed"`` consecutive rows of the Gram matrix of
        all points.
    kernel : Kernel, str or callable, optional
        The kernel; RBF at the median distance of all points when left out.
    n_permutations : int, default=999
        Number of draws B.
    rng : None, int or Generator
        Source of randomness.
    blocks : int, array of labels of all rows, or one array a sample, optional
        Rows that move together, as in `mmd_test`.
    strata : array of labels of all rows, or one array a sample, optional
        Rows change places only within their stratum.
    sample_weight : sequence of arrays, optional
        Weights of each sample. Counts, where each may be None, or other weights for all samples;
        as in `mmd_test`. Whole-number weights that are no counts must be divided by their mean.
    early_stop : int, optional
        Stop drawing at this many draws that reach the statistic.
    rank : int, optional
        Approximate the Gram matrix by this rank; ``extra["approximation_error"]`` bounds the error
        of the statistic, and ``extra["rank"]`` and ``extra["trace_error"]`` tell how far it went.
    pairwise : bool, default=False
        Also test every pair of samples with the same kernel. ``extra["pairwise"]`` has a result
        for each pair (i, j), counted from 0, and ``extra["adjusted"]`` a symmetric matrix of their
        p-values, adjusted by Holm's method for the number of pairs.

    Returns
    -------
    TestResult
        With `statistic`, `pvalue`, `null`, `method`; ``extra["kernel"]`` is the kernel used.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.statistics import k_sample_test
    >>> rng = np.random.default_rng(0)
    >>> A, B = rng.normal(size=(30, 2)), rng.normal(size=(25, 2))
    >>> C = rng.normal(1.5, size=(20, 2))
    >>> result = k_sample_test(A, B, C, rng=0, pairwise=True)
    >>> result.pvalue
    0.001
    >>> result.extra["adjusted"].round(2)
    array([[1.  , 0.31, 0.  ],
           [0.31, 1.  , 0.  ],
           [0.  , 0.  , 1.  ]])
    """
    if len(samples) < 2:
        raise InvalidInput(
            f"{who()}: got {len(samples)} sample{'s' * (len(samples) != 1)}; give two or more, "
            "each as an argument of its own: k_sample_test(A, B, C)."
        )
    generator = as_rng(rng)
    B = check_index(n_permutations, "n_permutations", 1)
    names = [f"sample {i}" for i in range(len(samples))]
    for X, name in zip(samples, names, strict=True):
        if isinstance(X, Kernel):
            raise InvalidInput(f"{who()}: {name} is a kernel, {X!r}; write kernel={X!r}.")
    points = labelled(list(samples), kernel, sample_weight, names)
    points.require_weights()
    extra = {"kernel": points.kernel, "characteristic": bool(points.kernel.characteristic)}
    origin = partial(
        explain_samples,
        samples=samples,
        names=names,
        sample_weight=sample_weight,
        statistic=between,
        null="permutation",
        n_permutations=B,
        kernel=points.kernel,
        state=state_of(generator),
        blocks=blocks,
        strata=strata,
        rank=rank,
    )
    points = points.centred()
    design = points.design(blocks, strata)
    pairs = _pair_designs(points, blocks, strata) if pairwise else {}
    batch = max(1, largest_batch(points, B * len(samples)) // len(samples))
    statistic = _Between(points, rank, generator, B > batch or early_stop is not None)
    method = f"between-sample sum of squares of {len(samples)} samples"
    forms = statistic.forms
    if isinstance(forms, LowRankForms):
        method += f" of a Gram matrix of rank {forms.low.rank}"
        extra |= {"approximation_error": statistic.approximation_error()} | forms.about()
    drawn = resample(
        None,
        statistic.evaluate,
        drawn_there(design, forms.place, B),
        B,
        generator,
        early_stop=early_stop,
        largest_batch=batch,
        resolution=statistic.resolution,
        data=design.labels,
    )
    if drawn.observed == 0.0:
        forms.refuse_lost(points.totals())
    if pairwise:
        results = {
            pair: _compared(points, pair, *drawn_for, B, generator, early_stop, rank)
            for pair, drawn_for in pairs.items()
        }
        for result in results.values():
            result.extra["kernel"] = extra["kernel"]
        adjusted = np.ones((len(samples), len(samples)))
        for (i, j), p in zip(results, holm([r.pvalue for r in results.values()]), strict=True):
            adjusted[i, j] = adjusted[j, i] = p
        extra |= {"pairwise": results, "adjusted": adjusted}
    method += ", permutations" + points.words(blocks, strata, design)
    found = drawn_result(drawn, method, points.sizes, extra)
    return replace(found, origin=partial(origin, batch=batch, place=forms.place))


def between(points: Labelled, forms: Any) -> _Between:
    """Return the statistic of given forms."""
    return _Between(points, forms=forms)


def holm(pvalues: Any) -> np.ndarray:
    """Return p-values adjusted for their number by Holm's method.

    Parameters
    ----------
    pvalues : sequence of float
        The p-values of several tests.
    """
    p = np.asarray(pvalues, dtype=float)
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(raised, 1.0)
    return adjusted


class _Between:
    """Σ_g v_gᵀKv_g/n_g − tᵀKt/N for the labels given and for many others."""

    def __init__(
        self,
        points: Labelled,
        rank: int | None = None,
        rng: np.random.Generator | None = None,
        keep: bool = False,
        forms: Any = None,
    ):
        self.points = points
        self.count = int(points.labels.max()) + 1
        self.forms = forms or choose_forms(
            points.kernel,
            points.Z,
            points.weights,
            rank=rank,
            rng=rng,
            keep=keep,
            place=points.place,
        )
        # The statistic is at most N times a mean of kernel values.
        self.reach = float(points.weights.sum())
        self.resolution = self.forms.resolution * self.reach

    def evaluate(self, draws: np.ndarray) -> np.ndarray:
        t = self.points.weights
        if self.count == 2:  # Σ_YY follows from vᵀKv and vᵀKt, as in `Discrepancy`
            V = self.forms.bring(self.points.vectors(draws, 0))
            form = self.forms(V)
            n, cross = transposed_product(V, np.column_stack([np.ones(len(V)), self.forms.sums])).T
            whole = t @ self.forms.sums
            value = form / n + (whole - 2 * cross + form) / (t.sum() - n) - whole / t.sum()
        else:
            parts = [self.forms.bring(self.points.vectors(draws, g)) for g in range(self.count)]
            V = np.hstack(parts) if self.forms.place is None else namespace(parts[0]).hstack(parts)
            form = self.forms(V).reshape(self.count, -1)
            n = transposed_product(V, np.ones(len(V))).reshape(self.count, -1)
            value = (form / n).sum(0) - t @ self.forms.sums / t.sum()
        return np.where(np.abs(value) <= self.resolution, 0.0, value)

    def approximation_error(self) -> float:
        """Return a bound of the error of the statistic.

        It is Σ_g v_gᵀEv_g/n_g − tᵀEt/N ≥ 0 with E = K − FᵀF, and |Eᵢⱼ| ≤ √(Eᵢᵢ Eⱼⱼ).
        """
        error = np.zeros(len(self.points)) if self.forms.error is None else self.forms.error
        reach = np.bincount(self.points.labels, weights=self.points.weights * np.sqrt(error))
        return float((reach**2 / self.points.totals()).sum()) + self.resolution


def _pair_designs(
    points: Labelled, blocks: Any, strata: Any
) -> dict[tuple[int, int], tuple[Relabel | CountedRelabel, str]]:
    """Return for every pair of samples what is drawn, and that in words."""
    codes = row_labels(blocks, points.sizes, "blocks")
    kinds = row_labels(strata, points.sizes, "strata")
    found = {}
    for i, j in combinations(range(len(points.sizes)), 2):
        pair, rows = points.part((i, j))
        own = None if codes is None else codes[rows]
        kind = None if kinds is None else kinds[rows]
        with speaking_for(f"{who()} (samples {i} and {j})"):
            design = pair.design(own, kind)
        found[i, j] = design, pair.words(own, kind, design)
    return found


def _compared(
    points: Labelled,
    which: tuple[int, int],
    design: Relabel | CountedRelabel,
    words: str,
    B: int,
    rng: np.random.Generator,
    early_stop: int | None,
    rank: int | None,
) -> TestResult:
    """Return the test of a pair of samples, by the biased MMD²."""
    pair, _ = points.part(which)
    statistic = Discrepancy(pair, "biased", rank=rank, rng=rng, keep=True)
    drawn = resample(
        None,
        statistic.evaluate,
        design,
        B,
        rng,
        early_stop=early_stop,
        largest_batch=largest_batch(pair, B),
        resolution=statistic.forms.resolution,
        data=design.labels,
    )
    method = "biased MMD², permutations" + words
    return drawn_result(drawn, method, pair.sizes, {})
