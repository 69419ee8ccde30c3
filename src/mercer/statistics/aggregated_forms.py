"""MMD² of many kernels for many draws: by tiles that share a distance, on a device, or by factors.

=================  ==============================================================================
way                what a draw costs, for each kernel
=================  ==============================================================================
`SharedForms`      uᵀKu of N numbers, from half of K, which is made in tiles and not stored
`SignedForms`      rᵀHr of n = N/2 signs, a quarter of that
`DeviceShared`,    the same on a device, in bands
`DeviceSigned`
`RankedForms`,     |Fv|² with a factor of K
`RankedSigns`
=================  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.engines.budget import require_memory
from mercer.engines.device.sums import device_forms
from mercer.engines.many import many_forms
from mercer.settings import get_config
from mercer.statistics.discrepancy import Discrepancy
from mercer.statistics.gram_forms import transposed_product
from mercer.statistics.kernel_grid import Source
from mercer.statistics.label_vectors import Labelled
from mercer.statistics.place import Place

__all__ = ["DeviceShared", "DeviceSigned", "RankedForms", "RankedSigns"]
__all__ += ["SharedForms", "SignedForms"]

EXACT = 1024  # points up to which products are in double precision; beyond, in single


class _Forms:
    """What both ways to draw share: precision, memory and ties."""

    place: Place | None = None

    def __init__(self, sources: Sequence[Source], size: int, rows: int, estimator: str):
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

    Parameters
    ----------
    sources : sequence of Source
        The kernels.
    points : Labelled
        The samples.
    estimator : {"unbiased", "biased"}
        Which estimator.
    """

    def __init__(self, sources: Sequence[Source], points: Labelled, estimator: str):
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
    """The same on a device.

    Parameters
    ----------
    sources : sequence of Source
        The kernels, of points on the device.
    points : Labelled
        The samples, whose place the device is.
    estimator : {"unbiased", "biased"}
        Which estimator.
    """

    def __init__(self, sources: Sequence[Source], points: Labelled, estimator: str):
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
    """MMD² of each kernel when pairs (xᵢ, yᵢ) change places by signs: rᵀHr over i ≠ j.

    Parameters
    ----------
    sources : sequence of Source
        The kernels.
    n : int
        Number of pairs.
    estimator : {"unbiased", "biased"}
        Which estimator.
    """

    def __init__(self, sources: Sequence[Source], n: int, estimator: str):
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
    """The same on a device.

    Parameters
    ----------
    sources : sequence of Source
        The kernels, of points on the device.
    n : int
        Number of pairs.
    estimator : {"unbiased", "biased"}
        Which estimator.
    place : Place
        The device.
    """

    def __init__(self, sources: Sequence[Source], n: int, estimator: str, place: Place):
        super().__init__(sources, n, estimator)
        self.place = place
        self._set_precision(not place.single, 2 * n)

    def _forms(self, draws: Any) -> tuple[np.ndarray, np.ndarray]:
        place: Any = self.place
        R = place.vectors(draws.T)
        f, _, diagonals = device_forms(self.sources, self.size, R, places=self.places)
        return f.T.cpu().numpy(), diagonals.sum(1).cpu().numpy()


class RankedForms:
    """MMD² of each kernel from a factor of its matrix, K ≈ FᵀF.

    Parameters
    ----------
    samples : list of Labelled
        The samples as each kernel takes them.
    rank : int
        Rank of each factor.
    estimator : {"unbiased", "biased"}
        Which estimator.
    rng : Generator
        Source of the pivots.
    owner : str
        Whose arguments they are.
    """

    slack = 1e-9

    def __init__(
        self,
        samples: list[Labelled],
        rank: int,
        estimator: str,
        rng: np.random.Generator,
        owner: str,
    ):
        N, q = len(samples[0]), len(samples)
        require_memory(
            8 * N * min(rank, N) * (q + 2),
            f"{owner}: factors of rank {min(rank, N)} of {q} kernels of {N} points",
            "Use a smaller rank or fewer kernels",
        )
        self.statistics = [
            Discrepancy(points, estimator, owner, rank=rank, rng=rng) for points in samples
        ]
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
