"""Components of points that come in batches: moments in coordinates that may grow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import qr, solve_triangular

from mercer.domains import concatenate
from mercer.errors import NotPositiveDefinite, speaks, who
from mercer.kernels import Kernel
from mercer.lapack import dpotrf, dpstrf, heard, svd
from mercer.memory import require_memory
from mercer.models.pca.components import (
    EPS,
    RANK,
    Axes,
    Components,
    FeatureRows,
    Wanted,
    certificate,
    n_features,
    without_rounding,
)
from mercer.settings import get_config
from mercer.solvers.linear import signs_of
from mercer.threads import blas_for

# ---- Mean and scatter of rows that come in batches, and their principal axes ----


@dataclass(frozen=True)
class Count:
    """How many rows there are, and what they weigh."""

    rows: int = 0
    weight: float = 0.0
    uneven: float = 0.0
    whole: bool = True

    @classmethod
    def of(cls, n: int, w: np.ndarray | None) -> Count:
        """Return the count of n rows of positive weights w, None for 1."""
        if w is None:
            return cls(n, float(n), 1.0)
        weight = float(w.sum())
        return cls(n, weight, float(w @ (w / weight)), bool((w == np.round(w)).all()))

    def plus(self, other: Count) -> Count:
        """Return the count of both."""
        weight = self.weight + other.weight
        a, b = self.weight / weight, other.weight / weight
        uneven = a * self.uneven + b * other.uneven
        return Count(self.rows + other.rows, weight, uneven, self.whole and other.whole)

    @property
    def freedom(self) -> float:
        """W − 1 for counts; W − Σw²/W for other weights, whose unit then does not matter.

        Over it the scatter is the variance of the repeated rows, or the unbiased one of rows that
        count by their weights.
        """
        return max(0.0, self.weight - (1.0 if self.whole else self.uneven))


class RunningScatter:
    """Total weight W, mean μ and scatter S = Σ w(x − μ)(x − μ)ᵀ = RᵀR of weighted rows.

    The scatter is kept as a triangle R, r × D with r ≤ D, brought up to date by a QR
    factorisation: no batch forms S itself, so small variances keep their digits. Batches of any
    size give the same W, μ and S up to rounding (Chan, Golub, LeVeque, Amer. Statist. 37 (1983),
    for the merging of two means).
    """

    def __init__(self, count: Count, mean: np.ndarray, R: np.ndarray):
        self.count, self.mean, self.R = count, mean, R

    @property
    def weight(self) -> float:
        """The total weight."""
        return self.count.weight

    @property
    def square(self) -> float:
        """Σ w‖x‖², that is ‖R‖² + W‖μ‖²."""
        return float((self.R**2).sum()) + self.weight * float(self.mean @ self.mean)

    @classmethod
    def none(cls, D: int) -> RunningScatter:
        """Return the moments of no rows."""
        return cls(Count(), np.zeros(D), np.zeros((0, D)))

    def padded(self, D: int) -> RunningScatter:
        """Return the moments in more coordinates, all of them 0 so far."""
        more = D - len(self.mean)
        return RunningScatter(
            self.count, np.pad(self.mean, (0, more)), np.pad(self.R, ((0, 0), (0, more)))
        )

    def projected(self, E: np.ndarray) -> RunningScatter:
        """Return the moments of Eᵀx, D × q orthonormal columns E."""
        R = self.R @ E
        if len(R) > E.shape[1]:
            R = qr(R, mode="r", overwrite_a=True, check_finite=False)[0][: E.shape[1]]
        return RunningScatter(self.count, self.mean @ E, np.ascontiguousarray(R))

    def add(self, rows: Any, weights: np.ndarray | None) -> RunningScatter:
        """Return the moments with some rows more."""
        w = np.ones(len(rows)) if weights is None else weights
        rows, w = rows[w > 0], w[w > 0]
        if not len(w):
            return self
        count = self.count.plus(Count.of(len(w), w))
        total = float(w.sum())
        near = rows - rows[0]  # a mean of large numbers that differ little keeps its digits
        own = (w / total) @ near
        near -= own
        near *= np.sqrt(w)[:, None]
        own += rows[0]
        step = own - self.mean
        # S ← S + S′ + (W W′/(W + W′)) (μ′ − μ)(μ′ − μ)ᵀ
        between = np.sqrt(self.weight / count.weight * total) * step
        stack = np.vstack([self.R, near, between[None]])
        R = heard(qr, stack, mode="r", overwrite_a=True, check_finite=False)[0][: min(stack.shape)]
        return RunningScatter(
            count, self.mean + (total / count.weight) * step, np.ascontiguousarray(R)
        )

    def axes(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the eigenvalues of S, descending, its eigenvectors, and a residual.

        No more than there are rows, or columns. The residual is the largest ‖S v − λ v‖ / λ₁.
        """
        _, sigma, Vt = svd(self.R)
        sigma, Vt = sigma[: self.count.rows], Vt[: self.count.rows]
        values = sigma**2
        top = float(values.max(initial=0.0)) or 1.0
        apart = self.R.T @ (self.R @ Vt.T) - Vt.T * values
        return values, Vt.T, float(np.linalg.norm(apart, axis=0).max(initial=0.0)) / top


# ---- incremental ----


CHUNK = 512  # points that are taken up at a time
SPARE = 32  # points, or half as many as the limit, that may come in before as many are dropped
SPANNED = 1e-13  # part of k(x, x) outside the span below which a point brings nothing new
COLUMNS = 1000  # up to which a fit keeps the factor of its scatter: 8 MB
INDEFINITE = 1e-6  # part of k(x, x) below zero that is no rounding


@dataclass(frozen=True, eq=False)
class SpanBasis:
    """Orthonormal coordinates of the span of φ at some points: F(x) = L⁻¹k(P, x), K(P, P) = LLᵀ."""

    points: Any
    L: np.ndarray

    def coordinates(self, kernel: Kernel, X: Any) -> np.ndarray:
        """Return F(x), a row for each point."""
        if self.points is None:
            return np.zeros((kernel.domain.size(X), 0))
        cross = np.asarray(kernel(self.points, X), dtype=float)
        return np.asarray(solve_triangular(self.L, cross, lower=True, check_finite=False)).T

    def grown(self, kernel: Kernel, X: Any, limit: int) -> tuple[SpanBasis, np.ndarray]:
        """Return the basis with points of X taken in, and the squared length that each x has left.

        Greedy pivoting: the point farthest from the span comes next, until none is off it or there
        are `limit` points.
        """
        n, r = kernel.domain.size(X), len(self.L)
        most = max(0, min(n, limit - r))
        _fits(n * (4 * r + 3 * n + most) + 2 * r * r, r)
        diagonal = np.array(kernel.diag(X), dtype=float)
        F = self.coordinates(kernel, X)
        left = diagonal - np.einsum("ij,ij->i", F, F)
        if (left < -INDEFINITE * max(float(diagonal.max(initial=0.0)), 1e-300)).any():
            raise NotPositiveDefinite(
                f"{who()}: a squared distance to the span of earlier points is {left.min():.3g}, "
                f"so {kernel} is not a kernel. mercer.check_kernel shows a counter-example.",
                float(left.min()),
            )
        floor = SPANNED * diagonal
        K = np.asarray(kernel(X), dtype=float) - F @ F.T
        chosen: list[int] = []
        new = np.zeros((n, most))
        while len(chosen) < most:
            i = int(np.argmax(np.where(left > floor, left, 0.0)))
            if left[i] <= floor[i]:
                break
            j = len(chosen)
            column = (K[:, i] - new[:, :j] @ new[i, :j]) / np.sqrt(left[i])
            new[:, j] = column
            left = left - column**2
            left[i] = 0.0
            chosen.append(i)
        if not chosen:
            return self, np.maximum(left, 0.0)
        m = len(chosen)
        s = r + m
        _fits(6 * s * s + n * (2 * s + most + n), s)
        L = np.zeros((r + m, r + m))
        L[:r, :r] = self.L
        L[r:, :r], L[r:, r:] = F[chosen], np.tril(new[chosen][:, :m])
        taken = kernel.domain.take(X, np.array(chosen))
        points = taken if r == 0 else concatenate(kernel.domain, self.points, taken)
        return SpanBasis(points, L), np.maximum(left, 0.0)

    def reduced(self, kernel: Kernel, limit: int, T: np.ndarray) -> tuple[SpanBasis, np.ndarray]:
        """Return the basis of `limit` of the points, and its axes in the coordinates of this one.

        Points are dropped one at a time, the one whose loss ‖T d‖²/‖d‖² is least, TᵀT the second
        moments. d, the direction that no other point has, is a column of L⁻¹; those that stay lose
        their part along it.
        """
        r = len(self.L)
        D = solve_triangular(self.L, np.eye(r), lower=True, check_finite=False)
        D /= np.linalg.norm(D, axis=0)
        TD, stay = T @ D, np.arange(r)
        while len(stay) > limit:
            i = int(np.argmin(np.einsum("ij,ij->j", TD, TD)))
            d, image = D[:, i].copy(), TD[:, i].copy()
            D, TD, stay = (np.delete(a, i, axis=-1) for a in (D, TD, stay))
            along = d @ D
            D -= np.outer(d, along)
            TD -= np.outer(image, along)
            lengths = np.maximum(np.linalg.norm(D, axis=0), 1e-150)
            D /= lengths
            TD /= lengths
        E, upper = heard(qr, self.L[stay].T, mode="economic", check_finite=False)
        signs = np.where(np.diag(upper) < 0, -1.0, 1.0)
        points = kernel.domain.take(self.points, stay)
        return SpanBasis(points, np.ascontiguousarray((signs[:, None] * upper).T)), E * signs


def _factor(S: np.ndarray, top: float) -> np.ndarray:
    """Return R with RᵀR = S by Cholesky, with pivots where S is singular but for rounding.

    They end where rounding of the largest eigenvalue is left: Higham, Analysis of the Cholesky
    decomposition of a semi-definite matrix (1990).
    """
    if top == 0:
        return np.zeros((0, len(S)))
    nothing = max(32, len(S)) * EPS * top
    U, info = dpotrf(S)
    if info == 0 and float(np.diagonal(U).min()) ** 2 > nothing:
        return U
    U, order, rank, _ = dpstrf(S, tol=nothing)
    R = np.empty((rank, len(S)))
    R[:, order - 1] = np.triu(U)[:rank]
    return R


def _fits(numbers: int, points: int) -> None:
    require_memory(8 * numbers, f"{who()}: a basis of {points} points", "Give a smaller rank")


@dataclass(frozen=True, eq=False)
class Stream:
    """What a model knows of all batches so far.

    Parameters
    ----------
    moments : RunningScatter
        Of the coordinates.
    basis : SpanBasis or None
        The coordinates; None for the kernel's own finite features.
    trace : float
        Σ w k(x, x).
    lost : float
        Σ w times the squared length that points have outside the basis.
    """

    moments: RunningScatter
    basis: SpanBasis | None
    trace: float = 0.0
    lost: float = 0.0

    @classmethod
    def start(cls, kernel: Kernel, X: Any, finite: bool) -> Stream:
        """Return what is known before the first batch."""
        if finite:
            return cls(RunningScatter.none(int(n_features(kernel, X) or 0)), None)
        return cls(RunningScatter.none(0), SpanBasis(None, np.zeros((0, 0))))

    @classmethod
    def after(cls, found: Axes, rows: FeatureRows) -> Stream | None:
        """Return what a fit leaves to later batches; None where the factor would be large.

        Parameters
        ----------
        found : Axes
            What was found; only the SVD finds all axes, whatever number was asked for.
        rows : FeatureRows
            In these.
        """
        (n, D), w = rows.shape, rows.weights
        if D > COLUMNS or 32 * D * D > get_config().memory:
            return None
        if found.scatter is not None:
            with blas_for(D):
                R = _factor(found.scatter, float(found.values.max(initial=0.0)))
        elif found.way == "svd":
            R = np.sqrt(found.values)[:, None] * found.V.T
        else:  # few rows, which are a factor as they are
            R = rows.pull(np.diag(np.ones(n) if w is None else 1 / np.sqrt(w)), found.mean).T
        return cls(RunningScatter(Count.of(n, w), found.mean, np.ascontiguousarray(R)), None)

    @classmethod
    def from_state(cls, state: dict[str, Any], points: Any) -> Stream:
        """Return what `state` wrote down; the points of the basis are kept elsewhere."""
        moments = RunningScatter(Count(**state["count"]), state["mean"], state["factor"])
        L = state["basis"]
        basis = None if L is None else SpanBasis(points, L)
        return cls(moments, basis, state["trace"], state["lost"])

    def state(self) -> dict[str, Any]:
        """Return all but the points as plain numbers and arrays, fit for a model file."""
        return {
            "count": dict(vars(self.moments.count)),
            "mean": self.moments.mean,
            "factor": self.moments.R,
            "basis": None if self.basis is None else self.basis.L,
            "trace": self.trace,
            "lost": self.lost,
        }

    def take(self, kernel: Kernel, X: Any, w: np.ndarray | None, limit: int | None) -> Stream:
        """Return what is known with a batch of canonical points more.

        Parameters
        ----------
        kernel : Kernel
            With words resolved.
        X : canonical collection
            The points.
        w : ndarray or None
            Their weights.
        limit : int or None
            Largest number of points in the basis; None for as many as are needed.
        """
        n, known = kernel.domain.size(X), self
        width = max(1, len(known.moments.mean))
        if known.basis is None:
            require_memory(
                8 * 4 * width * width,
                f"{who()}: the scatter of {width} features",
                "Use fewer columns",
            )
            for _, phi, weights in FeatureRows(kernel, X, w).blocks():
                phi = phi.toarray() if hasattr(phi, "toarray") else np.asarray(phi, dtype=float)
                squares = float(weights @ np.einsum("ij,ij->i", phi, phi))
                known = Stream(known.moments.add(phi, weights), None, known.trace + squares)
            return known
        most = n + width if limit is None else limit
        for start in range(0, n, CHUNK):
            rows = slice(start, min(start + CHUNK, n))
            part = kernel.domain.take(X, np.arange(rows.start, rows.stop))
            weights = np.ones(rows.stop - rows.start) if w is None else w[rows]
            known = known._taken(kernel, part, weights, most)
        return known

    def _taken(self, kernel: Kernel, X: Any, w: np.ndarray, limit: int) -> Stream:
        if self.basis is None:
            return self
        if not (w > 0).any():
            return self
        X = kernel.domain.take(X, np.flatnonzero(w > 0))
        w = w[w > 0]
        spare = limit + max(SPARE, limit // 2)
        basis, left = self.basis.grown(kernel, X, spare)
        diagonal = np.asarray(kernel.diag(X), dtype=float)
        trace, lost = self.trace + float(w @ diagonal), self.lost + float(w @ left)
        moments = self.moments.padded(len(basis.L)).add(basis.coordinates(kernel, X), w)
        if len(basis.L) > limit:
            T = np.vstack([moments.R, np.sqrt(moments.weight) * moments.mean])
            basis, E = basis.reduced(kernel, limit, T)
            before, moments = moments.square, moments.projected(E)
            lost += max(0.0, before - moments.square)
        return Stream(moments, basis, trace, lost)

    @speaks("KernelPCA")
    def components(self, want: Wanted) -> Components:
        """Return the principal components of all that came."""
        moments = self.moments
        mean, D = moments.mean, len(moments.mean)
        values, V, residual = moments.axes()
        if self.basis is None:
            values = without_rounding(values, V, mean, moments.weight, squared=False)
        else:
            floor = max(RANK * float(values.max(initial=0.0)), 8 * EPS * self.trace)
            values = np.where(values > floor, values, 0.0)
        if not len(values):
            values, V = np.zeros(1), np.zeros((D, 1))
        total = float((moments.R**2).sum()) + self.lost
        k = want.cut(values, total)
        values, V = values[:k], V[:, :k] * (values[:k] > 0)
        values, V = want.padded(max(1, moments.count.rows), values, V)
        V = V * signs_of(V)
        solution = certificate(values, residual, 1e3 * max(D, 10) * EPS, "batches")
        shared: dict[str, Any] = {
            "values": values,
            "vectors": None,
            "intercept": -(mean @ V),
            "square": float(mean @ mean),
            "total": total,
            "solution": solution,
            "method": "incremental",
            "error": self.lost / total if total > 0 else 0.0,
        }
        if self.basis is None:
            return Components(points=None, coef=None, centre=None, axes=V, origin=mean, **shared)
        back = np.column_stack([V, mean])
        if D:
            back = solve_triangular(self.basis.L, back, lower=True, trans=1, check_finite=False)
        return Components(points=self.basis.points, coef=back[:, :-1], centre=back[:, -1], **shared)
