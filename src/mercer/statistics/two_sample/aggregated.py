"""Two-sample tests over a collection of kernels: no bandwidth to choose, and a valid level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.checks import as_rng, check_index
from mercer.errors import InvalidInput, speaks, who
from mercer.kernels import Kernel
from mercer.memory import require_memory
from mercer.operators import Place, device_forms, many_forms, sources_of
from mercer.settings import get_config
from mercer.statistics.base import (
    TestResult,
    check_estimator,
    check_null,
    combined,
    combined_result,
)
from mercer.statistics.factors import rank_words
from mercer.statistics.kernels import FAMILIES, grid, listed
from mercer.statistics.permutation import drawn_there, resample
from mercer.statistics.two_sample.discrepancy import Discrepancy
from mercer.statistics.two_sample.forms import choose_forms, transposed_product
from mercer.statistics.two_sample.labels import Labelled, centred_features, labelled

# ---- MMD² of many kernels for many draws: by tiles that share a distance, on a device, or by
# factors.
# =================  ==============================================================================
# way                what a draw costs, for each kernel
# =================  ==============================================================================
# `SharedForms`      uᵀKu of N numbers, from half of K, which is made in tiles and not stored
# `SignedForms`      rᵀHr of n = N/2 signs, a quarter of that
# `DeviceShared`,    the same on a device, in bands
# `DeviceSigned`
# `RankedForms`,     |Fv|² with a factor of K
# `RankedSigns`
# =================  ==============================================================================


EXACT = 1024  # points up to which products are in double precision; beyond, in single


class _Forms:
    """What both ways to draw share: precision, memory and ties."""

    place: Place | None = None

    def __init__(self, sources: Sequence[Any], size: int, rows: int, estimator: str):
        self.sources, self.size, self.estimator = sources, size, estimator
        # Values of profiles of a distance are at most 1; those of other kernels may have no range.
        exact = rows <= EXACT or not all(source.shared for source in sources)
        self._set_precision(exact, rows)

    def _set_precision(self, exact: bool, rows: int) -> None:
        self.dtype: Any = np.dtype(np.float64 if exact else np.float32)
        self.slack = 1e-9 if exact else 1e-5
        # Sums of some hundred products are rounded; the errors of their sum grow by its root.
        share = 64.0 if exact else 1.0 / rows**0.5
        levels = np.array([level for source in self.sources for level in source.levels()])
        self.resolution = share * float(np.finfo(self.dtype).eps) * levels

    def batch(self) -> int:
        """Return how many draws at a time a quarter of the memory holds."""
        kernels = sum(source.count for source in self.sources)
        row = (16 + self.dtype.itemsize) * self.size + 8 * 20 * kernels
        memory = get_config().memory
        if self.place is not None:  # vectors in both precisions, and keys to draw them by
            row, memory = row + 64 * self.size, self.place.memory()
        return int(max(1, memory // (4 * row)))


class SharedForms(_Forms):
    """MMD² of each kernel for points shared out anew.

    With u = +t on X and −t on Y, t the weights, and K without its diagonal, Σ_XX = (c + 2g + f)/4,
    Σ_YY = (c − 2g + f)/4 and Σ_XY = (c − f)/4, where f = uᵀKu, g = uᵀKt and c = tᵀKt. One product
    for each kernel, in which terms of both signs keep rounding small.
    """

    def __init__(self, sources: Sequence[Any], points: Labelled, estimator: str):
        super().__init__(sources, len(points), len(points), estimator)
        self.points, self.t = points, points.weights
        self.sums: Any = None
        self.diagonals = np.zeros((0, 0))

    def evaluate(self, draws: Any) -> np.ndarray:
        """Return the statistics of labels, a row for each draw and a column for each kernel."""
        V, t = self.points.vectors(draws, 0), self.t
        V, f = self._forms(V)
        sums, diagonals = self.sums, self.diagonals
        c = sums @ t
        ones = np.ones(len(t))
        parts = np.column_stack([sums.T, diagonals.T, ones, self.points.own])
        q = len(sums)
        found = transposed_product(V, parts)
        g, mine = 2 * found[:, :q] - c, found[:, q : 2 * q]
        n, own = found[:, -2:-1], found[:, -1:]
        m, rest = t.sum() - n, t @ self.points.own - own
        if self.estimator == "biased":
            own, rest = np.zeros_like(n), np.zeros_like(m)
        # On the diagonal a point meets itself, as often as it counts: v² − v·own/n times.
        other = diagonals @ t - mine
        first, second, across = mine, other, np.zeros((1, 1))
        if not self.points.unit:
            first = transposed_product(self._wide(V) ** 2, diagonals.T)
            across = transposed_product(V, (t * diagonals).T) - first
            second = diagonals @ t**2 - 2 * across - first
        value = ((c + 2 * g + f) / 4 + first - own / n * mine) / (n * n - own)
        value += ((c - 2 * g + f) / 4 + second - rest / m * other) / (m * m - rest)
        return value - 2 * ((c - f) / 4 + across) / (n * m)

    def _forms(self, V: Any) -> tuple[Any, np.ndarray]:
        """Return the vectors, and f of each of them; the first call finds Kt and the diagonals."""
        t = self.t
        U = np.empty(V.shape, self.dtype)
        np.multiply(V, 2, out=U, casting="unsafe")
        U -= t[:, None].astype(self.dtype)
        ask = t[:, None] if self.sums is None else None
        f, sums, diagonals = many_forms(self.sources, len(t), U, ask, other=U.nbytes + V.nbytes)
        if self.sums is None:
            self.sums, self.diagonals = sums[:, :, 0], diagonals
        return V, f.T

    @staticmethod
    def _wide(V: Any) -> Any:
        return V.astype(np.float64) if isinstance(V, np.ndarray) else V.double()


class DeviceShared(SharedForms):
    """The same on a device."""

    def __init__(self, sources: Sequence[Any], points: Labelled, estimator: str):
        super().__init__(sources, points, estimator)
        place: Any = points.place
        self.place = place
        self._set_precision(not place.single, len(points))
        self.on_device = place.wide(points.weights)[:, None]

    def _forms(self, V: Any) -> tuple[Any, np.ndarray]:
        place: Any = self.place
        V = place.vectors(V)
        ask = self.on_device if self.sums is None else None
        U = 2 * V - self.on_device.to(V.dtype)
        f, sums, diagonals = device_forms(self.sources, len(U), U, ask)
        if self.sums is None:
            self.sums, self.diagonals = sums[:, :, 0].cpu().numpy(), diagonals.cpu().numpy()
        return V, f.T.cpu().numpy()


class SignedForms(_Forms):
    """MMD² of each kernel when pairs (xᵢ, yᵢ) change places by signs: rᵀHr over i ≠ j."""

    def __init__(self, sources: Sequence[Any], n: int, estimator: str):
        super().__init__(sources, n, 2 * n, estimator)
        self.places = ((0, 0, 1.0), (n, n, 1.0), (0, n, -1.0), (n, 0, -1.0))

    def evaluate(self, draws: Any) -> np.ndarray:
        """Return the statistics of signs, a row for each draw and a column for each kernel."""
        n = self.size
        f, traces = self._forms(draws)
        return f / (n * (n - 1)) if self.estimator == "unbiased" else (f + traces) / n**2

    def _forms(self, draws: Any) -> tuple[np.ndarray, np.ndarray]:
        R = np.ascontiguousarray(draws.T, dtype=self.dtype)
        f, _, diagonals = many_forms(
            self.sources, self.size, R, places=self.places, other=R.nbytes + draws.nbytes
        )
        return f.T, diagonals.sum(1)


class DeviceSigned(SignedForms):
    """The same on a device."""

    def __init__(self, sources: Sequence[Any], n: int, estimator: str, place: Place):
        super().__init__(sources, n, estimator)
        self.place = place
        self._set_precision(not place.single, 2 * n)

    def _forms(self, draws: Any) -> tuple[np.ndarray, np.ndarray]:
        place: Any = self.place
        R = place.vectors(draws.T)
        f, _, diagonals = device_forms(self.sources, self.size, R, places=self.places)
        return f.T.cpu().numpy(), diagonals.sum(1).cpu().numpy()


class RankedForms:
    """MMD² of each kernel from a factor of its matrix, K ≈ FᵀF."""

    slack = 1e-9

    def __init__(
        self, samples: list[Labelled], rank: int, estimator: str, rng: np.random.Generator
    ):
        N, q = len(samples[0]), len(samples)
        require_memory(
            8 * N * min(rank, N) * (q + 2),
            f"{who()}: factors of rank {min(rank, N)} of {q} kernels of {N} points",
            "Use a smaller rank or fewer kernels",
        )
        self.statistics = [Discrepancy(points, estimator, rank=rank, rng=rng) for points in samples]
        self.points, self.place, self.estimator = samples[0], samples[0].place, estimator
        self.resolution = np.array([s.forms.resolution for s in self.statistics])

    def batch(self) -> int:
        """Return how many draws at a time a quarter of the memory holds."""
        memory = get_config().memory if self.place is None else self.place.memory()
        return int(max(1, memory // (4 * 96 * len(self.points))))

    def evaluate(self, draws: Any) -> np.ndarray:
        """Return the statistics of draws, a row for each and a column for each kernel."""
        first = self.statistics[0]
        V = first.forms.bring(self.points.vectors(draws, first.label))
        return np.column_stack([s.values(V) for s in self.statistics])

    def errors(self) -> list[float]:
        """Return how far the statistic of each kernel may be from that of its matrix."""
        return [s.approximation_error() for s in self.statistics]

    def about(self) -> dict[str, Any]:
        """Return what a test tells of the approximation, of each kernel."""
        told = [s.forms.about() for s in self.statistics]
        return {
            "rank": np.array([each["rank"] for each in told]),
            "trace_error": np.array([each["trace_error"] for each in told]),
            "approximation_error": np.array(self.errors()),
        }


class RankedSigns(RankedForms):
    """The same for signs of pairs: with D the differences of the columns of F in pairs, |Dr|²."""

    def evaluate(self, draws: Any) -> np.ndarray:
        """Return the statistics of signs, a row for each draw and a column for each kernel."""
        n = len(self.points) // 2
        R = self.statistics[0].forms.bring(draws.T)
        out = np.empty((R.shape[1], len(self.statistics)))
        for k, s in enumerate(self.statistics):
            D = s.forms.F[:, :n] - s.forms.F[:, n:]
            q = (transposed_product(R, D.T) ** 2).sum(1)
            biased = self.estimator == "biased"
            out[:, k] = q / n**2 if biased else (q - (D * D).sum()) / (n * (n - 1))
        return out

    def errors(self) -> list[float]:
        """Return the same; of a pair |hᵢⱼ| ≤ bᵢbⱼ, b the sum of the roots of both diagonals."""
        n, out = len(self.points) // 2, []
        for s in self.statistics:
            root = s.forms.error**0.5
            b = root[:n] + root[n:]
            square = float(b.sum()) ** 2
            biased = self.estimator == "biased"
            out.append(square / n**2 if biased else (square - float(b @ b)) / (n * (n - 1)))
        return out


# ---- aggregated ----


NULLS = ("permutation", "wild")


@speaks("mmd_agg_test", unless_spoken=True)
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
        bandwidths from half the 5 % quantile of the distances, or the quantile of five neighbours
        (5/N) where that is smaller, to twice the largest: clusters are seen from within.
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
    estimator = check_estimator(estimator)
    check_null(null, NULLS)
    generator = as_rng(rng)
    B = check_index(n_permutations, "n_permutations", 1)
    points, collection, Z = collected(X, Y, kernels, n_bandwidths, families, sample_weight)
    points.require_weights()
    if estimator == "unbiased":
        points.require_two()
    if rank is not None:
        check_index(rank, "rank", 1)
    centred = [centred_features(k, z, points.weights) for k, z in zip(collection, Z, strict=True)]
    method = f"largest studentised {estimator} MMD² of {len(collection)} kernels, "
    if null == "wild":
        if strata is not None:
            raise InvalidInput(
                f"{who()}: null='wild' does not go with strata; use null='permutation', which does."
            )
        design: Any = points.pairs(blocks)
        data = np.ones(design.n)
        method += "wild bootstrap of Rademacher signs"
        method += ", blocks share a sign" if blocks is not None else ""
    else:
        design = points.design(blocks, strata)
        data = design.labels
        method += "permutations" + points.words(blocks, strata, design)
    statistic: Any
    if rank is not None:
        samples = [replace(points, kernel=k, Z=z) for k, z in centred]
        order = np.arange(len(samples))
        way = RankedSigns if null == "wild" else RankedForms
        statistic = way(samples, rank, estimator, generator)
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
            forms.refuse_lost(points.totals())
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
    X: Any, Y: Any, kernels: Any, n_bandwidths: int, families: Any, sample_weight: Any
) -> tuple[Labelled, list[Kernel], list[Any]]:
    """Return the samples, the kernels made for them, and the points as each kernel takes them.

    X, Y : collections of points
        The samples.
    kernels : sequence or None
        As the user gave them.
    n_bandwidths, families : object
        Of the collection that is made for the data.
    sample_weight : pair or None
        Weights.
    """
    names = ["X", "Y"]
    if kernels is None:
        points = labelled([X, Y], None, sample_weight, names, fit=False)
        made = grid(points.Z, n_bandwidths, families, points.weights)
        return points, made, [points.Z] * len(made)
    several = listed(kernels)
    points = labelled([X, Y], several[0], sample_weight, names)
    made, Z = [points.kernel], [points.Z]
    for kernel in several[1:]:
        if kernel.domain == points.kernel.domain:
            made.append(kernel.fit_params(points.Z, points.weights))
            Z.append(points.Z)
        else:
            other = labelled([X, Y], kernel, sample_weight, names)
            made.append(other.kernel)
            Z.append(other.Z)
    return points, made, Z
