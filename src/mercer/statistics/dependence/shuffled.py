"""Estimates of dependence after the rows of Y were shuffled, each in the cheapest way that fits.

====================  ==========================================  ===========================
way                   an arrangement p costs                      when
====================  ==========================================  ===========================
`Factored`            ‖Fᵀ G[p]‖², 2nrs operations                 both have few features
`Mixed`               tr(G[p]ᵀ A G[p]), 2n²s, by matrix products  one has a handful
`Gathered`            Σ Aᵢⱼ L[pᵢ, pⱼ], n²/2 entries of each        both matrices fit the budget
`DeviceGathered`      the same, on a device                       both fit its memory
`Banded`              the same; L again for each batch of them    one matrix fits
`Retiled`             the kernel values of both, again            none does
====================  ==========================================  ===========================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.domains import namespace
from mercer.errors import InvalidInput, who
from mercer.kernels import Kernel, Precomputed, PrecomputedBound
from mercer.memory import row_blocks
from mercer.operators import (
    Gram,
    Place,
    gathered_sums,
    gram_of,
    inverses,
    joint,
    shuffled,
    shuffled_factors,
    shuffled_products,
)
from mercer.settings import get_config
from mercer.statistics.factors import Factor, error_bound, exact_factor
from mercer.statistics.samples import Pair

# ---- The matrix A that turns any kernel matrix L into an estimate of dependence, Σᵢⱼ Aᵢⱼ Lᵢⱼ ----
# With weights wᵢ that count repetitions, W = Σ wᵢ, K centred by their mean, Kc, and κ its
# diagonal,
#
#     biased:    A = (w wᵀ) ∘ Kc / W²,
#     unbiased:  A = ((w wᵀ) ∘ Ku − diag(w) ∘ Ku) / (W (W − 3)),
#                Kuᵢⱼ = Kcᵢⱼ + (κᵢ + κⱼ)/(W − 2) − Σ wκ/((W − 1)(W − 2)).
#
# Ku is the U-centred matrix of Székely and Rizzo (2014), written for K after centring: over pairs
# of different observations its rows sum to 0, so that what the sums over triples and quadruples
# in the estimator of Song et al. (2012) subtract from L is subtracted already. Both matrices have
# the form Kᵢⱼ + sᵢ + sⱼ, and rows of A sum to 0: L need not be centred, but is, against rounding.


CONTRAST_ROUNDING = (
    32 * np.finfo(float).eps
)  # of k(x, x): nearer to their mean, points are all the same


def require_observations(total: float, unbiased: bool) -> None:
    """Refuse the unbiased estimator of fewer than four observations."""
    if unbiased and not total > 3:
        raise InvalidInput(
            f"{who()}: the unbiased estimator needs at least 4 observations (total weight above "
            f"3), got {total:g}; use estimator='biased' or more data."
        )


def mean_shift(sums: np.ndarray, total: float, weights: np.ndarray) -> np.ndarray:
    """Return s with Kᵢⱼ + sᵢ + sⱼ centred by the weighted mean, from the row sums K w."""
    means = sums / total
    return 0.5 * float(weights @ means) / total - means


@dataclass(frozen=True, eq=False)
class Contrast:
    """A, by its parts.

    Parameters
    ----------
    shift : ndarray of shape (n,)
        s, with Kᵢⱼ + sᵢ + sⱼ centred.
    weights : ndarray of shape (n,)
        w.
    scale : float
        1/W² or 1/(W(W − 3)); 0 where all points are the same.
    unbiased : bool
        Whether an observation does not meet itself.
    """

    shift: np.ndarray
    weights: np.ndarray
    scale: float
    unbiased: bool

    @classmethod
    def of(
        cls, sums: np.ndarray, diagonal: np.ndarray, weights: np.ndarray, unbiased: bool
    ) -> Contrast:
        """Return A from the row sums K w and the diagonal of K."""
        shift = mean_shift(sums, float(weights.sum()), weights)
        kappa = diagonal + 2.0 * shift
        if float(np.abs(kappa).max()) <= CONTRAST_ROUNDING * float(np.abs(diagonal).max()):
            return cls(np.zeros_like(shift), weights, 0.0, unbiased)
        return cls.linear(sums, diagonal, weights, unbiased)

    @classmethod
    def linear(
        cls, sums: np.ndarray, diagonal: np.ndarray, weights: np.ndarray, unbiased: bool
    ) -> Contrast:
        """Return the same of any symmetric matrix, also where its points are nearly the same."""
        W = float(weights.sum())
        shift = mean_shift(sums, W, weights)
        kappa = diagonal + 2.0 * shift
        scale = 1.0 / (W * (W - 3.0)) if unbiased else 1.0 / W**2
        if unbiased:
            spread = float(weights @ kappa)
            shift = shift + kappa / (W - 2.0) - 0.5 * spread / ((W - 1.0) * (W - 2.0))
        return cls(shift, weights, scale, unbiased)

    def tile(self, K: np.ndarray, rows: slice, cols: slice) -> np.ndarray:
        """Return A on a tile of K, as if no observation met itself; a new array."""
        A = K + self.shift[rows, None]
        A += self.shift[cols]
        A *= (self.scale * self.weights[rows])[:, None]
        A *= self.weights[cols]
        return A

    def excess(self, diagonal: np.ndarray) -> np.ndarray:
        """Return what the diagonal of A lacks of the tiles: observations that meet themselves."""
        if not self.unbiased:
            return np.zeros_like(diagonal)
        return self.scale * self.weights * (diagonal + 2.0 * self.shift)

    def dense(self, K: np.ndarray) -> np.ndarray:
        """Turn K into A, in place."""
        excess = self.excess(K.diagonal().copy())
        K += self.shift[:, None]
        K += self.shift
        K *= (self.scale * self.weights)[:, None]
        K *= self.weights
        K[np.diag_indices_from(K)] -= excess
        return K


# ---- shuffled pairs ----


ROUNDING = 1e-14  # part of ‖A‖‖L‖ that the order of a sum of products may change
FEW = 6  # features up to which products with the whole matrix beat gathering its entries
MANY = 256  # rows from which on a look for features costs less than it may save
SINGLE = 2.0**-21  # part of ‖A‖‖L‖ that rounding may change where values have single precision
GROUP = 8  # arrangements whose kernel values are computed together


def shuffles(pair: Pair, unbiased: bool) -> Any:
    """Return the cheapest exact way to shuffle a pair of variables.

    Parameters
    ----------
    pair : Pair
        The variables; weights that are not None stay with the rows of X.
    unbiased : bool
        Which estimator.
    """
    n, memory = pair.n, get_config().memory
    w = np.ones(n) if pair.weights is None else pair.weights
    stored = 20 * n * n <= memory
    most = int(2 * n**0.5) if stored else min(500, memory // (64 * n))
    most = min(most, n // 2)
    search = not stored or n >= MANY
    x = exact_factor(pair.kernel_x, pair.X, most, search)
    few = min(most, FEW) if x is None else most  # products with a matrix pay for a handful only
    y = exact_factor(pair.kernel_y, pair.Y, few, search)
    if x is not None and y is not None:
        return Factored(x, y, w, unbiased, exact=True, place=pair.place)
    if fits_device(pair, 2):
        return DeviceGathered(pair, w, unbiased)
    if stored and y is not None and y.rank <= FEW:
        return Mixed(gram_matrix(pair.kernel_x, pair.X), y, w, unbiased)
    if stored and x is not None and x.rank <= FEW and pair.weights is None:
        return Mixed(gram_matrix(pair.kernel_y, pair.Y), x, w, unbiased, swapped=True)
    if stored:
        K, L = gram_matrix(pair.kernel_x, pair.X), gram_matrix(pair.kernel_y, pair.Y)
        return Gathered(K, L, w, unbiased)
    if 12 * n * n <= memory:
        return Banded(pair, w, unbiased)
    return Retiled(pair, w, unbiased)


def fits_device(pair: Pair, matrices: int) -> bool:
    """Whether a pair has a device that holds so many matrices, and two more that are shuffled."""
    place = pair.place
    if place is None:
        return False
    taken = place.takes(pair.kernel_x, pair.X) and place.takes(pair.kernel_y, pair.Y)
    return taken and (4 if place.single else 8) * (matrices + 3) * pair.n**2 <= place.memory()


def gram_matrix(kernel: Kernel, X: Any) -> np.ndarray:
    """Return the kernel matrix as a float64 array of our own."""
    K = Gram(kernel, X, keep=False).to_dense()
    own = isinstance(kernel, Precomputed) or K.dtype != np.float64
    return np.array(K, dtype=np.float64) if own else np.ascontiguousarray(K)


def centred_matrix(K: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Centre a kernel matrix by a weighted mean, in place; points all the same give 0 exactly."""
    w = np.ones(len(K)) if weights is None else weights
    parts = Contrast.of(K @ w, K.diagonal().copy(), w, False)
    if parts.scale == 0.0:
        K[...] = 0.0
        return K
    K += parts.shift[:, None]
    K += parts.shift
    return K


class Gathered:
    """Both matrices stored; sums that differ by less than `resolution` may be equal."""

    words, error = "", 0.0

    def __init__(self, K: np.ndarray, L: np.ndarray, w: np.ndarray, unbiased: bool):
        parts = Contrast.of(K @ w, K.diagonal().copy(), w, unbiased)
        self.A, self.L = parts.dense(K), centred_matrix(L)
        self.diagonals = self.A.diagonal().copy(), self.L.diagonal().copy()
        self.observed = float(np.vdot(self.A, self.L))
        self.resolution = ROUNDING * float(np.linalg.norm(self.A) * np.linalg.norm(self.L))

    def evaluate(self, P: np.ndarray) -> np.ndarray:
        """Return the estimates of arrangements."""
        a, b = self.diagonals
        return 2.0 * shuffled(self.A, self.L, P) + b[P] @ a


class DeviceGathered:
    """Both matrices on a device; sums that differ by less than `resolution` may be equal."""

    words, error = "", 0.0

    def __init__(self, pair: Pair, w: np.ndarray, unbiased: bool):
        place: Any = pair.place
        self.place: Place = place
        self.A = contrast_on_device(pair.kernel_x, pair.X, w, unbiased, self.place)
        self.L = centred_on_device(pair.kernel_y, pair.Y, self.place)
        self.resolution = rounding(self.A, self.L)
        self.observed = float(self.evaluate(np.arange(pair.n)[None])[0])

    def evaluate(self, P: Any) -> np.ndarray:
        """Return the estimates of arrangements."""
        return np.asarray(gathered_sums([self.A], self.L, self.place.tensor(P))[:, 0].cpu())


def contrast_on_device(kernel: Kernel, X: Any, w: np.ndarray, unbiased: bool, place: Place) -> Any:
    """Return the matrix A of `contrast` as a tensor."""
    K, parts = _gram(kernel, X, w, unbiased, place)
    diagonal = K.diagonal().double().clone().cpu().numpy()  # K is overwritten below
    _add_shift(K, parts, place)
    scaled = place.wide(parts.scale * w).to(K.dtype)
    K *= scaled[:, None]
    K *= place.wide(w).to(K.dtype)
    K.diagonal().sub_(place.wide(parts.excess(diagonal)).to(K.dtype))
    return K


def centred_on_device(kernel: Kernel, Y: Any, place: Place) -> Any:
    """Return a centred kernel matrix as a tensor; points all the same give 0 exactly."""
    L, parts = _gram(kernel, Y, np.ones(len(Y)), False, place)
    if parts.scale == 0.0:
        return L.zero_()
    return _add_shift(L, parts, place)


def rounding(A: Any, L: Any) -> float:
    """Return how far equal sums of products may be apart."""
    part = ROUNDING if A.element_size() == 8 else SINGLE
    return part * float(A.norm().double() * L.norm().double())


def _gram(
    kernel: Kernel, X: Any, w: np.ndarray, unbiased: bool, place: Place
) -> tuple[Any, Contrast]:
    """Return K as a tensor of our own, and the parts of A."""
    K, weights = place.gram(kernel, X), place.wide(w)
    sums = namespace(K).concatenate([(part * weights).sum(1) for part in K.split(4096)])
    diagonal = K.diagonal().double()
    return K, Contrast.of(sums.cpu().numpy(), diagonal.cpu().numpy(), w, unbiased)


def _add_shift(K: Any, parts: Contrast, place: Place) -> Any:
    shift = place.wide(parts.shift).to(K.dtype)
    K += shift[:, None]
    K += shift
    return K


class Banded:
    """One matrix stored, of the other bands of rows, computed again for a batch of arrangements."""

    error = 0.0
    words = "values of the kernel of Y computed anew for each batch, to fit the memory budget"

    def __init__(self, pair: Pair, w: np.ndarray, unbiased: bool):
        K = gram_matrix(pair.kernel_x, pair.X)
        self.A = Contrast.of(K @ w, K.diagonal().copy(), w, unbiased).dense(K)
        self.pair, self.own = pair, self.A.diagonal().copy()
        self.shift, self.lengths = _centring(pair.kernel_y, pair.Y)
        size = float(np.linalg.norm(self.A))
        self.resolution = ROUNDING * size * float(np.abs(self.lengths).sum())
        self.observed = float(self.evaluate(np.arange(pair.n)[None])[0])

    def evaluate(self, P: np.ndarray) -> np.ndarray:
        """Return the estimates of arrangements."""
        n, kernel, Y = self.pair.n, self.pair.kernel_y, self.pair.Y
        out = self.lengths[P] @ self.own
        for rows in row_blocks(n, 64 * n):
            L = rows_of(kernel, Y, rows)
            L += self.shift[rows, None]
            L += self.shift
            out += 2.0 * shuffled(self.A, L, P, rows.start)
        return out


class Mixed:
    """One matrix stored, of the other a few features."""

    words, error = "", 0.0

    def __init__(
        self, K: np.ndarray, other: Factor, w: np.ndarray, unbiased: bool, swapped: bool = False
    ):
        self.A = Contrast.of(K @ w, K.diagonal().copy(), w, unbiased).dense(K)
        self.G, self.swapped = other.centred(np.ones(len(w))), swapped
        self.observed = float(self.evaluate(np.arange(len(w))[None])[0])
        size = float(np.linalg.norm(self.G.T @ self.G))
        missing = other.missing * float(np.linalg.norm(self.A))
        self.resolution = ROUNDING * float(np.linalg.norm(self.A)) * size + missing

    def evaluate(self, P: np.ndarray) -> np.ndarray:
        """Return the estimates of arrangements."""
        n, s = self.G.shape
        out = np.zeros(len(P))
        P = inverses(P) if self.swapped else P
        step = max(1, min(len(P), get_config().memory // (64 * n * max(1, s)), 4096 // max(1, s)))
        for start in range(0, len(P), step):
            G = self.G[P[start : start + step].T].reshape(n, -1)
            out[start : start + step] = (
                np.einsum("ij,ij->j", G, self.A @ G).reshape(-1, s).sum(axis=1)
            )
        return out


class Factored:
    """Features of both; `error` bounds the distance from the kernels' own estimate."""

    words = ""

    def __init__(
        self,
        x: Factor,
        y: Factor,
        w: np.ndarray,
        unbiased: bool,
        exact: bool = False,
        place: Place | None = None,
    ):
        self.place = place
        self.w, self.unbiased, W = w, unbiased, float(w.sum())
        self.factors = x, y
        self.even = bool((w == w[0]).all())
        F, self.G = x.centred(w), y.centred(w)
        self.F = F * w[:, None]
        self.scale = 1.0 / (W * (W - 3.0)) if unbiased else 1.0 / W**2
        kappa = np.einsum("ij,ij->i", F, F)
        self.own = np.zeros(len(w))
        if unbiased:  # wᵢ Ku_ii, what an observation that meets itself has added
            self.own = w * (kappa * W / (W - 2.0) - float(w @ kappa) / ((W - 1.0) * (W - 2.0)))
        self.lengths = np.einsum("ij,ij->i", self.G, self.G)
        self.error = error_bound(x, y, w, unbiased)
        self.observed = float(self.evaluate(np.arange(len(w))[None])[0])
        sizes = [float(np.linalg.norm(B.T @ B)) for B in (self.F, self.G)]
        self.resolution = ROUNDING * self.scale * sizes[0] * sizes[1]
        if exact:  # nothing but rounding is missing
            self.resolution, self.error = self.resolution + self.error, 0.0

    def evaluate(self, P: np.ndarray) -> np.ndarray:
        """Return the estimates of arrangements."""
        if self.even and self.G.shape[1] > self.F.shape[1]:  # the smaller factor is moved
            sums = self._products(self.G, self.F, inverses(P))
        else:
            sums = self._products(self.F, self.G, P)
        if self.unbiased and self.even:
            sums -= self.lengths[P] @ self.own
        elif self.unbiased:  # the mean of the features that the weights now meet
            means = np.stack([self.w @ self.G[p] for p in P]) / self.w.sum()
            own = self.own
            cross = np.stack([own @ self.G[p] for p in P])
            sums -= self.lengths[P] @ own - 2.0 * (cross * means).sum(axis=1)
            sums -= own.sum() * (means**2).sum(axis=1)
        return self.scale * sums

    def _products(self, F: np.ndarray, G: np.ndarray, P: np.ndarray) -> np.ndarray:
        """Return ‖Fᵀ G[p]‖² of arrangements."""
        if self.place is None:
            return shuffled_factors(F, G, P)
        wide = self.place.wide
        return np.asarray(shuffled_products(wide(F), wide(G), self.place.tensor(P)).cpu())


class Retiled:
    """Nothing stored: kernel values are computed again for each group of arrangements."""

    error = 0.0
    words = (
        "kernel values computed anew for every few shuffles, as no matrix fits the memory budget "
        "(a larger one is faster, or a rank)"
    )

    def __init__(self, pair: Pair, w: np.ndarray, unbiased: bool):
        self.pair, n = pair, pair.n
        diagonal = np.asarray(pair.kernel_x.diag(pair.X), dtype=float)
        sums = np.asarray(pair.kernel_x.matmul(pair.X, None, w), dtype=float)
        self.parts = Contrast.of(sums, diagonal, w, unbiased)
        self.excess = self.parts.excess(diagonal)
        self.shift, self.lengths = _centring(pair.kernel_y, pair.Y)
        self.first = bound_matrix(pair.kernel_x, pair.X)
        traces = [float(np.abs(d).sum()) for d in (diagonal + 2 * self.parts.shift, self.lengths)]
        self.resolution = ROUNDING * self.parts.scale * traces[0] * traces[1]
        self.observed = float(self.evaluate(np.arange(n)[None])[0])

    def evaluate(self, P: np.ndarray) -> np.ndarray:
        """Return the estimates of arrangements."""
        out = -(self.lengths[P] @ self.excess)
        if self.parts.scale == 0.0:
            return out * 0.0
        for start in range(0, len(P), GROUP):
            group = P[start : start + GROUP]
            bounds = [bound_matrix(self.pair.kernel_y, self.pair.Y, p) for p in group]
            shifts = self.shift[group]

            def step(tiles: list[np.ndarray], rows: slice, cols: slice, s: Any = shifts) -> Any:
                A = self.parts.tile(tiles[0], rows, cols)
                return [
                    np.vdot(A, L) + A.sum(axis=1) @ s[t, rows] + A.sum(axis=0) @ s[t, cols]
                    for t, L in enumerate(tiles[1:])
                ]

            out[start : start + GROUP] += joint([self.first, *bounds], len(group), step)
        return out


def _centring(kernel: Kernel, Y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return s with Lᵢⱼ + sᵢ + sⱼ centred, and the diagonal of that, without storing L."""
    bound_matrix(kernel, Y).verify()
    ones = np.ones(kernel.domain.size(Y))
    sums = np.asarray(kernel.matmul(Y, None, ones), dtype=float)
    shift = mean_shift(sums, float(len(ones)), ones)
    return shift, np.asarray(kernel.diag(Y), dtype=float) + 2.0 * shift


def rows_of(kernel: Kernel, X: Any, rows: slice) -> np.ndarray:
    """Return some rows of the kernel matrix as an array of our own."""
    if not kernel.domain.holds_points:
        return np.array(gram_of(kernel, X).rows(rows), dtype=np.float64)
    some = kernel.domain.take(X, np.arange(rows.start, rows.stop))
    return np.asarray(gram_of(kernel, some, X).to_dense(), dtype=np.float64, order="C")


def bound_values(kernel: Kernel, X: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return the bound kernel, the sums of its rows and its diagonal; stored where it fits."""
    n = kernel.domain.size(X)
    if 20 * n * n <= get_config().memory:
        K = gram_matrix(kernel, X)
        return PrecomputedBound(Precomputed(), K), K.sum(axis=1), K.diagonal().copy()
    sums = np.asarray(kernel.matmul(X, None, np.ones(n)), dtype=float)
    return bound_matrix(kernel, X), sums, np.asarray(kernel.diag(X), dtype=float)


class _Rearranged(PrecomputedBound):
    """A given matrix with its rows and columns in another order."""

    def __init__(self, kernel: Any, K: Any, order: np.ndarray):
        super().__init__(kernel, K)
        self.order = order

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return a part of the matrix in the new order."""
        return self._K[np.ix_(self.order[rows], self.order[cols])]


def bound_matrix(kernel: Kernel, X: Any, order: np.ndarray | None = None) -> Any:
    """Return the kernel bound to the points, or to the points in another order."""
    if order is not None and type(kernel) is Precomputed:
        return _Rearranged(kernel, X, order)
    return gram_of(kernel, X if order is None else kernel.domain.subset(X, order)).bound
