"""Quadratic forms vᵀKv of the pooled points for many label vectors: by tiles or by features."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.checks import check_index
from mercer.domains import is_torch, namespace
from mercer.errors import InvalidInput, who
from mercer.kernels import Kernel, Linear, Precomputed
from mercer.memory import require_memory, row_blocks
from mercer.operators import Place, device_forms, gram_of, quadratic, sources_of
from mercer.settings import get_config
from mercer.solvers import rpcholesky

ROUNDING = 2.0**-46  # error of a mean of kernel values, relative to the largest k(x, x)


def transposed_product(V: Any, A: np.ndarray) -> np.ndarray:
    """Return VᵀA in float64, by blocks of rows, for V of any dtype.

    Parameters
    ----------
    V : ndarray or tensor of shape (N, b)
        Label vectors; of tensors the product is taken on their device.
    A : ndarray of shape (N,) or (N, c)
        The other factor.
    """
    if is_torch(V):
        other = namespace(V).as_tensor(np.ascontiguousarray(A), device=V.device)
        return np.asarray((V.double().T @ other).cpu())
    out = np.zeros((V.shape[1], *A.shape[1:]))
    for rows in row_blocks(len(V), 64 * max(1, V.shape[1])):
        out += V[rows].T.astype(np.float64, copy=False) @ A[rows]
    return out


class Forms:
    """What quadratic forms of K say about its points, however they are computed.

    `sums` are Kt, `diagonal` is that of K, `squares` is Σᵢⱼ tᵢtⱼ((kᵢⱼ − (kᵢᵢ + kⱼⱼ)/2)/unit)²,
    `resolution` the rounding error of a statistic made of means of kernel values, `error` the
    diagonal of what an approximation leaves out, or None.

    Parameters
    ----------
    weights : ndarray of shape (N,)
        Weights t of the points.
    diagonal : ndarray of shape (N,)
        Of K.
    """

    error: np.ndarray | None = None
    place: Any = None  # Place, where it is a device

    def __init__(self, weights: np.ndarray, diagonal: np.ndarray):
        self.weights, self.diagonal = weights, diagonal
        self.sums, self.squares = np.zeros(0), 0.0
        largest = float(np.abs(diagonal).max(initial=0.0))
        largest = largest if np.isfinite(largest) else 0.0  # a statistic will not be finite either
        self.resolution = ROUNDING * largest
        # A power of four, in units of which squares stay in range.
        self.unit = 4.0 ** int(np.frexp(largest)[1] // 2)

    def bring(self, V: Any) -> Any:
        """Return label vectors where the forms are computed.

        Parameters
        ----------
        V : ndarray or tensor of shape (N, b)
            Label vectors.
        """
        if self.place is not None:
            return self.place.vectors(V)
        return V if isinstance(V, np.ndarray) else V.cpu().numpy()

    def refuse_lost(self, totals: np.ndarray) -> None:
        """Refuse points that differ, but by less than kernel values show after rounding.

        For a statistic of zero. Under the hypothesis MMD² is about V(1/n + 1/m), with V the mean
        squared distance to the mean; where that is rounding, zero says nothing. Points that are
        all alike are another matter: then rows of K are equal.

        Parameters
        ----------
        totals : ndarray of shape (q,)
            Total weights of the samples.
        """
        t, N = self.weights, float(self.weights.sum())
        rows = self.sums / N
        variance = float(t @ (self.diagonal - rows)) / N
        apart = max(float(np.ptp(self.diagonal)), float(np.ptp(rows)))
        if apart > self.resolution and variance * float((1 / totals).sum()) < 100 * self.resolution:
            raise InvalidInput(
                f"{who()}: the differences of the points are lost in the rounding of kernel values "
                f"of about {float(np.abs(self.diagonal).max()):.2g}. Centre and scale the columns, "
                "or use a kernel of the scale of the data."
            )


class TiledForms(Forms):
    """vᵀKv from tiles of K, in one pass over half of them for each batch of vectors.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    Z : canonical collection
        The points.
    weights : ndarray of shape (N,)
        t, for the row sums Kt.
    keep : bool
        Whether several passes are to come: then K is kept, if it takes at most half the budget.
    """

    def __init__(self, kernel: Kernel, Z: Any, weights: np.ndarray, keep: bool):
        gram, N = gram_of(kernel, Z), len(weights)
        with np.errstate(all="ignore"):  # an overflow is named when its tile comes
            super().__init__(weights, np.asarray(gram.diagonal(), dtype=np.float64))
        given = isinstance(kernel, Precomputed)
        if keep and not given and 8 * N * N <= get_config().memory // 2:
            gram = gram_of(Precomputed(), gram.to_dense())
        self.bound = gram.bound

    def __call__(self, V: np.ndarray, squares: bool = False) -> np.ndarray:
        """Return vᵀKv for each column of V; the first call also finds Kt."""
        t = self.weights if squares or not len(self.sums) else None
        shift = self.diagonal / 2 if squares else None
        stored = 8 * len(V) ** 2 if isinstance(self.bound.kernel, Precomputed) else 0
        other = min(stored, get_config().memory // 2)
        q, sums, second = quadratic(self.bound, V, t, shift, self.unit, other)
        if sums is not None:
            self.sums, self.squares = sums, second
        return q


class FeatureForms(Forms):
    """vᵀKv = |Fv|² for points that are a few features."""

    def __init__(self, F: np.ndarray, weights: np.ndarray, place: Place | None = None):
        self.F, self.place = F, place
        self.on_device: Any = None if place is None else place.wide(F.T)
        with np.errstate(all="ignore"):  # an overflow is named where it reaches a statistic
            super().__init__(weights, np.einsum("ri,ri->i", F, F))
            self.sums = F.T @ (F @ weights)

    def __call__(self, V: np.ndarray, squares: bool = False) -> np.ndarray:
        """Return |Fv|² for each column of V."""
        if squares:  # multiplied out
            F, t, d = self.F / self.unit**0.5, self.weights, self.diagonal / self.unit
            whole = float((((F * t) @ F.T) ** 2).sum())
            cross, trace = float((t * d) @ (F.T @ (F @ t))), float(t @ d)
            second = whole - 2 * cross + (t.sum() * float(t @ d**2) + trace**2) / 2
            self.squares = max(0.0, float(second))
        with np.errstate(over="ignore"):
            if self.place is not None:
                G = self.bring(V).double().T @ self.on_device
                return np.asarray((G * G).sum(1).cpu())
            G = transposed_product(V, self.F.T)
            return np.asarray((G * G).sum(1))


class LowRankForms(FeatureForms):
    """vᵀKv ≈ |Fv|² with FᵀF ≈ K from randomly pivoted Cholesky; K − FᵀF has a known diagonal."""

    def __init__(
        self,
        kernel: Kernel,
        Z: Any,
        weights: np.ndarray,
        rank: int,
        rng: np.random.Generator,
        place: Place | None = None,
    ):
        N = len(weights)
        require_memory(
            2 * min(rank, N) * N * 8,
            f"{who()}: a factor of rank {min(rank, N)} of the Gram matrix of {N} points",
            "Use a smaller rank",
        )
        operator = gram_of(kernel, Z)
        with np.errstate(all="ignore"):  # rpcholesky names an overflow
            self.low = rpcholesky(operator, rank, random_state=int(rng.integers(2**31)))
        super().__init__(self.low.F, weights, place)
        exact = np.asarray(operator.diagonal(), dtype=np.float64)
        self.resolution = ROUNDING * float(np.abs(exact).max(initial=0.0))
        self.error = np.maximum(exact - self.diagonal, 0.0)

    def about(self) -> dict[str, Any]:
        """Return what a test tells of the approximation."""
        return {"rank": self.low.rank, "trace_error": self.low.trace_error}


class DeviceForms(Forms):
    """vᵀKv from bands of K, of which half is computed for each batch of vectors."""

    def __init__(self, kernel: Kernel, Z: Any, weights: np.ndarray, place: Place):
        with np.errstate(all="ignore"):  # an overflow is named when its tile comes
            super().__init__(weights, np.asarray(kernel._diag(Z), dtype=np.float64))
        self.place = place
        self.sources, _ = sources_of([kernel], place.points(Z))
        if place.single:  # errors of a mean are as likely of one sign as of the other
            self.resolution *= place.eps / (2.0**-46 * len(weights) ** 0.5)

    def __call__(self, V: Any, squares: bool = False) -> np.ndarray:
        """Return vᵀKv for each column of V; the first call also finds Kt."""
        V, N = self.bring(V), len(self.weights)
        t = None if len(self.sums) else self.place.wide(self.weights)[:, None]
        forms, sums, diagonals = device_forms(self.sources, N, V, t)
        own = (V.double() ** 2).T @ diagonals[0]
        if t is not None:
            self.sums = (sums[0, :, 0] + diagonals[0] * t[:, 0]).cpu().numpy()
        return (forms[0] + own).cpu().numpy()

    def paired(self, R: Any) -> tuple[np.ndarray, tuple[float, float, float]]:
        """Return rᵀHr for columns r of signs, and the sums that do not depend on signs.

        H = Kxx + Kyy − Kxy − Kyx; the sums are Σ (Kxx + Kyy), Σ (Kxy + Kyx) and tr Kxy.
        """
        R = self.bring(R)
        n = len(R)
        places = ((0, 0, 1.0), (n, n, 1.0), (0, n, -1.0), (n, 0, -1.0))
        if not len(self.sums):
            self(np.zeros((2 * n, 0)))
        ones = self.place.wide(np.ones((n, 1)))
        forms, sums, diagonals = device_forms(self.sources, n, R, ones, places=places)
        own = float(diagonals.sum())
        apart = float(sums.sum()) + own  # within − between
        whole = float(self.sums.sum())
        pairs = (float(self.diagonal.sum()) - own) / 2
        return (forms[0] + own).cpu().numpy(), ((whole + apart) / 2, (whole - apart) / 2, pairs)


def choose_forms(
    kernel: Kernel,
    Z: Any,
    weights: np.ndarray,
    *,
    rank: int | None = None,
    rng: np.random.Generator | None = None,
    keep: bool = False,
    place: Place | None = None,
) -> Any:
    """Return the quadratic forms of K, exact or of low rank.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    Z : canonical collection
        The points.
    weights : ndarray of shape (N,)
        Weights t of the points.
    rank : int, optional
        Rank of the approximation; exact when left out.
    rng : Generator, optional
        Source of the pivots.
    keep : bool
        Whether several batches are to come.
    place : Place or None
        The device, if there is one.
    """
    if rank is None:
        plain = type(kernel) is Linear and getattr(kernel, "covariance", None) is None
        if plain and isinstance(Z, np.ndarray) and 2 * Z.shape[1] <= len(weights):
            return FeatureForms(np.ascontiguousarray(Z.T), weights, place)
        if place is not None and place.takes(kernel, Z):
            return DeviceForms(kernel, Z, weights, place)
        return TiledForms(kernel, Z, weights, keep)
    rank = check_index(rank, "rank", 1)
    return LowRankForms(kernel, Z, weights, rank, rng or np.random.default_rng(), place)
