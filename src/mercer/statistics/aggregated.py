"""Two-sample tests over a collection of kernels: no bandwidth to choose, and a valid level."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.solvers.base import check_index
from mercer.statistics.aggregated_forms import (
    DeviceShared,
    DeviceSigned,
    RankedForms,
    RankedSigns,
    SharedForms,
    SignedForms,
)
from mercer.statistics.base import TestResult, check_estimator, check_null
from mercer.statistics.combined import combined, combined_result
from mercer.statistics.device_draws import drawn_there
from mercer.statistics.factors import rank_words
from mercer.statistics.gram_forms import choose_forms
from mercer.statistics.kernel_grid import FAMILIES, grid, listed, sources_of
from mercer.statistics.label_vectors import Labelled, centred_features, labelled
from mercer.statistics.permutation import resample
from mercer.statistics.samples import as_rng

__all__ = ["collected", "mmd_agg_test"]

NULLS = ("permutation", "wild")


def mmd_agg_test(
    X: Any,
    Y: Any,
    kernels: Any = None,
    n_permutations: int = 999,
    rng: Any = None,
    *,
    estimator: str = "unbiased",
    null: str = "permutation",
    n_bandwidths: int = 10,
    families: Any = FAMILIES,
    blocks: Any = None,
    strata: Any = None,
    sample_weight: Any = None,
    rank: int | None = None,
) -> TestResult:
    r"""Test whether two samples come from one distribution, with many kernels at once.

    Every kernel sees the same draws. Its MMD² is studentised by the mean and the deviation over the
    draws and the data, and the statistic of a draw is the largest over kernels. The p-value is the
    rank of the data among the draws: valid at any sample size, for any kernels, with no correction
    for their number. So no bandwidth need be chosen: differences on small and on large scales are
    found alike. Kernels that are functions of one distance share its computation.

    With tensors, or ``config(engine="torch")``, all that is N × N is made on their device, in their
    precision, and one product for each kernel serves all draws.

    Parameters
    ----------
    X, Y : collections of n and m points
        The samples. With ``kernels=["precomputed"]`` the rows K[:n] and K[n:] of the Gram matrix.
    kernels : sequence of Kernel, str or callable, optional
        The collection. When left out, and for vectors only: Gaussian and Laplacian kernels at
        bandwidths from half the 5 % quantile of the distances to twice the largest.
    n_permutations : int, default=999
        Number of draws B.
    rng : None, int or Generator
        Source of randomness.
    estimator : {"unbiased", "biased"}, default="unbiased"
        The statistic of each kernel, as in `mmd`.
    null : {"permutation", "wild"}, default="permutation"
        "wild": x_i and y_i change places by random signs; needs n = m and takes a quarter of the
        work. Valid when x_i and y_i are exchangeable pair by pair: for rows in random order, not
        for samples that were sorted.
    n_bandwidths : int, default=10
        Bandwidths of each family of the collection that is made for the data.
    families : sequence of {"rbf", "laplacian"}, default=("rbf", "laplacian")
        Its families.
    blocks, strata, sample_weight : optional
        As in `mmd_test`. There is no `early_stop`, as deviations are those of all draws.
    rank : int, optional
        Approximate the Gram matrix of each kernel by a factor of this rank, for large samples: of
        N points and q kernels a draw then costs q·rank·N. The level does not suffer, at any rank,
        as the factors do not know the samples; the power of narrow kernels does, which have no
        small rank.

    Returns
    -------
    TestResult
        The statistic is the largest studentised one. ``extra["kernel"]`` is the kernel that stands
        out most, ``extra["kernels"]`` are all of them, with ``extra["statistics"]``, their MMD²
        (with signs, over pairs i ≠ j), and ``extra["pvalues"]``, what each alone would say. With
        `rank`, ``extra["rank"]``, ``extra["trace_error"]`` and ``extra["approximation_error"]``
        are the rank of each factor, the part of the trace that it leaves out, and the most by which
        its MMD² is off.

    References
    ----------
    Schrab, Kim, Albert, Laurent, Guedj, Gretton, "MMD aggregated two-sample test", JMLR 24, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.statistics import mmd_agg_test
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=300)
    >>> y = rng.uniform(size=300)
    >>> y = y + np.sin(40 * y) / 50  # the same but for fast ripples
    >>> mmd_agg_test(x, y, rng=0).pvalue < 0.05
    True
    """
    owner = "mmd_agg_test"
    estimator = check_estimator(estimator, owner)
    check_null(null, NULLS, owner)
    generator = as_rng(rng, owner)
    B = check_index(n_permutations, "n_permutations", owner, 1)
    points, collection, Z = collected(X, Y, kernels, n_bandwidths, families, sample_weight, owner)
    points.require_weights(owner)
    if estimator == "unbiased":
        points.require_two(owner)
    if rank is not None:
        check_index(rank, "rank", owner, 1)
    centred = [centred_features(k, z, points.weights) for k, z in zip(collection, Z, strict=True)]
    method = f"largest studentised {estimator} MMD² of {len(collection)} kernels, "
    if null == "wild":
        if strata is not None:
            raise InvalidInput(
                f"{owner}: null='wild' does not go with strata; use null='permutation', which does."
            )
        design: Any = points.pairs(blocks, owner)
        data = np.ones(design.n)
        method += "wild bootstrap of Rademacher signs"
        method += ", blocks share a sign" if blocks is not None else ""
    else:
        design = points.design(blocks, strata, owner)
        data = design.labels
        method += "permutations" + points.words(blocks, strata, design)
    statistic: Any
    if rank is not None:
        samples = [replace(points, kernel=k, Z=z) for k, z in centred]
        order = np.arange(len(samples))
        way = RankedSigns if null == "wild" else RankedForms
        statistic = way(samples, rank, estimator, generator, owner)
        method += f", Gram matrices of {rank_words(statistic.about()['rank'])}"
    else:
        statistic, order = _exact(points, centred, estimator, null, design)
    drawn = resample(
        None,
        statistic.evaluate,
        drawn_there(design, statistic.place, B),
        B,
        generator,
        largest_batch=statistic.batch(),
        data=data,
        owner=owner,
    )
    T = np.empty((drawn.n_drawn + 1, len(collection)))
    T[0, order], T[1:, order] = drawn.observed, drawn.values
    resolution = np.empty(len(collection))
    resolution[order] = statistic.resolution
    found = combined(T, resolution, statistic.slack)
    if not found.values.any():  # no kernel has anything to say
        for k, z in centred:
            forms = choose_forms(k, z, points.weights)
            forms(np.zeros((len(points), 0)))
            forms.refuse_lost(points.totals(), owner)
    result = combined_result(found, collection, T[0], method, points.sizes)
    if rank is not None:
        result.extra.update(statistic.about())
    return result


def _exact(
    points: Labelled, centred: list[tuple[Kernel, Any]], estimator: str, null: str, design: Any
) -> tuple[Any, np.ndarray]:
    """Return what computes the statistics of draws, and the order of its kernels."""
    kernels, Z = [k for k, _ in centred], [z for _, z in centred]
    place = points.place
    if place is not None and all(place.takes(k, z) for k, z in centred):
        there = {id(z): place.points(z) for z in Z}  # one tensor for all kernels of one collection
        sources, order = sources_of(kernels, [there[id(z)] for z in Z])
        if null == "wild":
            return DeviceSigned(sources, design.n, estimator, place), order
        return DeviceShared(sources, points, estimator), order
    sources, order = sources_of(kernels, Z)
    if null == "wild":
        return SignedForms(sources, design.n, estimator), order
    return SharedForms(sources, points, estimator), order


def collected(
    X: Any,
    Y: Any,
    kernels: Any,
    n_bandwidths: int,
    families: Any,
    sample_weight: Any,
    owner: str,
) -> tuple[Labelled, list[Kernel], list[Any]]:
    """Return the samples, the kernels made for them, and the points as each kernel takes them.

    Parameters
    ----------
    X, Y : collections of points
        The samples.
    kernels : sequence or None
        As the user gave them.
    n_bandwidths, families : object
        Of the collection that is made for the data.
    sample_weight : pair or None
        Weights.
    owner : str
        Whose arguments they are.
    """
    names = ["X", "Y"]
    if kernels is None:
        points = labelled([X, Y], None, sample_weight, owner, names, fit=False)
        made = grid(points.Z, n_bandwidths, families, points.weights, owner)
        return points, made, [points.Z] * len(made)
    several = listed(kernels, owner)
    points = labelled([X, Y], several[0], sample_weight, owner, names)
    made, Z = [points.kernel], [points.Z]
    for kernel in several[1:]:
        if kernel.domain == points.kernel.domain:
            made.append(kernel.fit_params(points.Z, points.weights))
            Z.append(points.Z)
        else:
            other = labelled([X, Y], kernel, sample_weight, owner, names)
            made.append(other.kernel)
            Z.append(other.Z)
    return points, made, Z
