"""Two-sample tests over a collection of kernels: no bandwidth to choose, and a valid level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.engines.many import many_forms
from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.settings import get_config
from mercer.statistics.base import TestResult, check_estimator, check_null
from mercer.statistics.combined import combined, combined_result
from mercer.statistics.gram_forms import choose_forms, transposed_product
from mercer.statistics.kernel_grid import FAMILIES, Source, grid, listed, sources_of
from mercer.statistics.label_vectors import Labelled, centred_features, labelled
from mercer.statistics.permutation import resample
from mercer.statistics.samples import as_rng

__all__ = ["collected", "mmd_agg_test"]

NULLS = ("permutation", "wild")
EXACT = 1024  # points up to which products are in double precision; beyond, in single


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
) -> TestResult:
    r"""Test whether two samples come from one distribution, with many kernels at once.

    Every kernel sees the same draws. Its MMD² is studentised by the mean and the deviation over the
    draws and the data, and the statistic of a draw is the largest over kernels. The p-value is the
    rank of the data among the draws: valid at any sample size, for any kernels, with no correction
    for their number. So no bandwidth need be chosen: differences on small and on large scales are
    found alike. Kernels that are functions of one distance share its computation.

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
        As in `mmd_test`. There is no `rank`, as kernels would each need their own factor, and no
        `early_stop`, as deviations are those of all draws.

    Returns
    -------
    TestResult
        The statistic is the largest studentised one. ``extra["kernel"]`` is the kernel that stands
        out most, ``extra["kernels"]`` are all of them, with ``extra["statistics"]``, their MMD²
        (with signs, over pairs i ≠ j), and ``extra["pvalues"]``, what each alone would say.

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
    points, collection, Z = collected(X, Y, kernels, n_bandwidths, families, sample_weight, owner)
    points.require_weights(owner)
    if estimator == "unbiased":
        points.require_two(owner)
    centred = [centred_features(k, z, points.weights) for k, z in zip(collection, Z, strict=True)]
    sources, order = sources_of([k for k, _ in centred], [z for _, z in centred])
    method = f"largest studentised {estimator} MMD² of {len(collection)} kernels, "
    if null == "wild":
        if strata is not None:
            raise InvalidInput(
                f"{owner}: null='wild' does not go with strata; use null='permutation', which does."
            )
        design: Any = points.pairs(blocks, owner)
        statistic: Any = _Signed(sources, design.n, estimator)
        data = np.ones(design.n)
        method += "wild bootstrap of Rademacher signs"
        method += ", blocks share a sign" if blocks is not None else ""
    else:
        design = points.design(blocks, strata, owner)
        statistic, data = _Shared(sources, points, estimator), design.labels
        method += "permutations" + points.words(blocks, strata, design)
    drawn = resample(
        None,
        statistic.evaluate,
        design,
        n_permutations,
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
    return combined_result(found, collection, T[0], method, points.sizes)


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
        points = labelled([X, Y], None, sample_weight, owner, names)
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


class _Forms:
    """What both ways to draw share: precision, memory and ties."""

    def __init__(self, sources: Sequence[Source], size: int, rows: int, estimator: str):
        self.sources, self.size, self.estimator = sources, size, estimator
        # Values of profiles of a distance are at most 1; those of other kernels may have no range.
        exact = rows <= EXACT or not all(source.shared for source in sources)
        self.dtype: Any = np.dtype(np.float64 if exact else np.float32)
        self.slack = 1e-9 if exact else 1e-5
        # Sums of some hundred products are rounded; the errors of their sum grow by its root.
        share = 64.0 if exact else 1.0 / rows**0.5
        levels = np.array([level for source in sources for level in source.levels()])
        self.resolution = share * float(np.finfo(self.dtype).eps) * levels

    def batch(self) -> int:
        """Return how many draws at a time a quarter of the memory budget holds."""
        kernels = sum(source.count for source in self.sources)
        row = (16 + self.dtype.itemsize) * self.size + 8 * 20 * kernels
        return int(max(1, get_config().memory // (4 * row)))


class _Shared(_Forms):
    """MMD² of each kernel for points shared out anew.

    With u = +t on X and −t on Y, t the weights, and K without its diagonal, Σ_XX = (c + 2g + f)/4,
    Σ_YY = (c − 2g + f)/4 and Σ_XY = (c − f)/4, where f = uᵀKu, g = uᵀKt and c = tᵀKt. One product
    for each kernel, in which terms of both signs keep rounding small.
    """

    def __init__(self, sources: Sequence[Source], points: Labelled, estimator: str):
        super().__init__(sources, len(points), len(points), estimator)
        self.points, self.t = points, points.weights
        self.sums: np.ndarray | None = None

    def evaluate(self, draws: np.ndarray) -> np.ndarray:
        """Return the statistics of labels, a row for each draw and a column for each kernel."""
        V, t = self.points.vectors(draws, 0), self.t
        U = np.empty(V.shape, self.dtype)
        np.multiply(V, 2, out=U, casting="unsafe")
        U -= t[:, None].astype(self.dtype)
        ask = t[:, None] if self.sums is None else None
        f, sums, diagonals = many_forms(self.sources, len(t), U, ask, other=U.nbytes + V.nbytes)
        if self.sums is None:
            self.sums = sums[:, :, 0]
        f = f.T
        g, c = transposed_product(U, self.sums.T), self.sums @ t
        n, own = transposed_product(V, np.column_stack([np.ones(len(t)), self.points.own])).T
        n, m = n[:, None], t.sum() - n[:, None]
        own, rest = own[:, None], t @ self.points.own - own[:, None]
        if self.estimator == "biased":
            own, rest = np.zeros_like(n), np.zeros_like(m)
        # On the diagonal a point meets itself, as often as it counts: v² − v·own/n times.
        mine = transposed_product(V, diagonals.T)
        other = diagonals @ t - mine
        first, second, across = mine, other, np.zeros((1, 1))
        if not self.points.unit:
            W = np.asarray(V, dtype=np.float64)
            first, across = (W * W).T @ diagonals.T, (W * (t[:, None] - W)).T @ diagonals.T
            second = ((t[:, None] - W) ** 2).T @ diagonals.T
        value = ((c + 2 * g + f) / 4 + first - own / n * mine) / (n * n - own)
        value += ((c - 2 * g + f) / 4 + second - rest / m * other) / (m * m - rest)
        return value - 2 * ((c - f) / 4 + across) / (n * m)


class _Signed(_Forms):
    """MMD² of each kernel when pairs (xᵢ, yᵢ) change places by signs: rᵀHr over i ≠ j."""

    def __init__(self, sources: Sequence[Source], n: int, estimator: str):
        super().__init__(sources, n, 2 * n, estimator)
        self.places = ((0, 0, 1.0), (n, n, 1.0), (0, n, -1.0), (n, 0, -1.0))

    def evaluate(self, draws: np.ndarray) -> np.ndarray:
        """Return the statistics of signs, a row for each draw and a column for each kernel."""
        n = self.size
        R = np.ascontiguousarray(draws.T, dtype=self.dtype)
        f, _, diagonals = many_forms(
            self.sources, n, R, places=self.places, other=R.nbytes + draws.nbytes
        )
        if self.estimator == "unbiased":
            return f.T / (n * (n - 1))
        return (f.T + diagonals.sum(1)) / n**2
