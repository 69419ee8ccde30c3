"""One evaluation of a sparse evidence: a pass over the rows for its value, another for gradients.

With m inducing points u, K_uu = LLᵀ, A = L⁻¹K_uf, and P the diagonal matrix of the precisions of
the rows, both approximations need S = APAᵀ, B = I + S, b = APz and γ = B⁻¹b. Each row is in L⁻ᵀγ,
the coefficients of the mean, and in B, the covariance, by its tile of K_uf alone.

S is the sum of A's tiles, each from a triangular solve, or L⁻¹(K_uf P K_fu)L⁻ᵀ, which is cheaper
and errs by ε·cond(K_uu)·tr PK; the second is taken where that is harmless.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky

from mercer.errors import NotPositiveDefinite, who
from mercer.lapack import add_square, cho_solve, dtrsm, solve_rows
from mercer.memory import require_memory
from mercer.models.gp.sparse.points import (
    EPS,
    check_rows,
    check_trace,
    conditioned,
    corner,
    corner_factor,
    cross,
    is_single,
)
from mercer.operators import Gram, fold, gram_of
from mercer.solvers.linear import mirror
from mercer.threads import blas_for

if TYPE_CHECKING:
    from mercer.kernels import Kernel

MATRICES = 9  # of m × m alive at once beside the partial sums of a pass
# S from K_uf P K_fu errs by ε·cond(K_uu)·tr PK; up to this much a row tiles need not be whitened.
HARMLESS = 1e-8
REFINED = 1e-12  # relative residual that is not worth another solve


@dataclass(frozen=True, eq=False)
class SparseFit:
    """The posterior at one kernel, noise and set of inducing points.

    Parameters
    ----------
    lower : ndarray of shape (m, m)
        L, the Cholesky factor of K_uu + jitter·I.
    posterior : ndarray of shape (m, m)
        The Cholesky factor of B = I + APAᵀ.
    dual : ndarray of shape (m, t)
        α = L⁻ᵀγ: the posterior mean is Σ αⱼ k(uⱼ, ·).
    value : float
        The bound, or FITC's evidence.
    upper : float or None
        An upper bound of the exact evidence, where there is one.
    residual : float
        ‖K_uf P(z − K_fu α) − K_uu α‖/‖|K_uf| P|z|‖, recomputed, the worst output.
    jitter : float
        What had to be added to the diagonal of K_uu; 0.0 normally.
    """

    lower: np.ndarray
    posterior: np.ndarray
    dual: np.ndarray
    value: float
    upper: float | None
    residual: float
    jitter: float


@dataclass(eq=False)
class Pass:
    """What the first pass over the rows leaves behind; see the head of the file."""

    bound: Any
    corner: Gram
    lower: np.ndarray
    jitter: float
    whitened: bool
    diagonal: np.ndarray
    precision: np.ndarray
    uniform: bool
    rounding: float = EPS  # relative error of q
    null: bool = False  # K_uu = 0
    explained: Any = None  # q, where rows are whitened
    S: Any = None
    b: Any = None
    posterior: Any = None
    gamma: Any = None
    value: float = 0.0
    slack: float = 0.0


def solve_left(L: np.ndarray, M: np.ndarray, trans: int = 0) -> np.ndarray:
    """Return L⁻¹M, or L⁻ᵀM; in the memory of M where that is in Fortran order."""
    return dtrsm(1.0, L, M, lower=1, trans_a=trans, overwrite_b=1)


class SparseEvidence(ABC):
    """What both approximations share: the rows, one pass for S and b, and the posterior.

    X : canonical collection
        The points; the Gram matrix of a precomputed kernel.
    Z : ndarray of shape (n, t)
        The targets; outputs share kernel, noise and inducing points.
    weights : ndarray of shape (n,), optional
        Positive; the evidence is that of rows given so many times.
    """

    def __init__(self, X: Any, Z: np.ndarray, weights: np.ndarray | None = None):
        self.X = X
        self.Z = np.ascontiguousarray(Z if Z.ndim == 2 else Z[:, None])
        self.n, self.t = self.Z.shape
        self.weights = weights
        self.w = np.broadcast_to(1.0, (self.n,)) if weights is None else weights

    # -- what users of it ask for -------------------------------------------------------------
    def value(self, kernel: Kernel, noise: Any, U: Any) -> float:
        """Return the objective, summed over the outputs; one pass over the rows.

        Parameters
        ----------
        kernel : Kernel
            Covariance of the function.
        noise : float or ndarray of shape (n,)
            Variance of the noise of a row of weight 1, positive.
        U : canonical collection of m points
            The inducing points; positions of rows where the kernel is precomputed.
        """
        with self._threads(kernel, U):
            return self._first(kernel, noise, U).value

    def value_and_gradient(
        self, kernel: Kernel, noise: Any, U: Any, points: bool = False
    ) -> tuple[float, np.ndarray, float, np.ndarray | None]:
        """Return the objective and its gradient; two passes over the rows.

        Parameters
        ----------
        kernel, noise, U
            As for `value`.
        points : bool, default=False
            Whether the gradient in the inducing points is wanted too.

        Returns
        -------
        value : float
            The objective.
        gradient : ndarray of shape (p,)
            In ``kernel.theta``.
        noise_gradient : float
            In the logarithm of the noise; of a vector in that of a common factor.
        points_gradient : ndarray of shape (m, d) or None
            In U.
        """
        with self._threads(kernel, U):
            first = self._first(kernel, noise, U)
            outer = cross(kernel, U, self.X) if points else None
            gradient, noise_gradient, moved, G = self._second(first, kernel, noise, outer)
            G = np.ascontiguousarray(0.5 * (G + G.T))
            if len(kernel.theta):
                gradient = gradient + first.corner.pull_theta(G)
            if moved is not None:
                every = slice(0, len(G))
                moved = moved + cross(kernel, U, U).pull_points(every, every, 2 * G)
        return first.value, gradient, noise_gradient, moved

    def posterior(self, kernel: Kernel, noise: Any, U: Any) -> SparseFit:
        """Return the posterior, certified by another pass over the rows.

        Parameters
        ----------
        kernel, noise, U
            As for `value`.

        Returns
        -------
        SparseFit
            With its residual.
        """
        with self._threads(kernel, U):
            # Whitened, so that every row is looked at: K − Q has no diagonal entry below 0.
            return self._certified(self._first(kernel, noise, U, whiten=True))

    def _certified(self, first: Pass) -> SparseFit:
        dual = solve_left(first.lower, first.gamma.copy(order="F"), 1)
        K = self._corner_matrix(first.corner)
        gap, residual = self._residual(first, K, dual)
        for _ in range(2):
            if not REFINED < residual < np.inf:
                break
            step = cho_solve((first.posterior, True), solve_left(first.lower, gap.copy(order="F")))
            better = dual + solve_left(first.lower, np.asfortranarray(step), 1)
            new_gap, new_residual = self._residual(first, K, better)
            if not new_residual < residual:
                break
            dual, gap, residual = better, new_gap, new_residual
        upper = self._upper(first)
        return SparseFit(
            first.lower, first.posterior, dual, first.value, upper, residual, first.jitter
        )

    @staticmethod
    def _threads(kernel: Kernel, U: Any) -> Any:
        stack = ExitStack()
        stack.enter_context(np.errstate(over="ignore", invalid="ignore"))  # values are looked at
        stack.enter_context(blas_for(kernel.domain.size(U)))
        return stack

    # -- one evaluation -----------------------------------------------------------------------
    def _first(self, kernel: Kernel, noise: Any, U: Any, whiten: bool = False) -> Pass:
        n, t = self.n, self.t
        bound = cross(kernel, self.X, U)
        m = bound.shape[1]
        other = 8 * (MATRICES * m * m + n * (t + 3))
        require_memory(
            other, f"{who()}: matrices of {m} inducing points", "Use a smaller n_inducing"
        )
        square = corner(kernel, self.X, U)
        K = self._corner_matrix(square)
        noise = np.asarray(noise, dtype=float)
        norm = float(np.abs(K).sum(0).max(initial=0.0))
        single = is_single(K)
        if norm == 0.0:  # then K_uf is 0 too, or the kernel none: this makes q show the least of it
            K = EPS * float(np.mean(noise)) * np.eye(m)
        f = corner_factor(K, bound.name)
        lower = np.asfortranarray(f.lower())
        del K
        diagonal = np.asarray(self._gram(kernel).diagonal(), dtype=float)
        precision = self.w / noise
        uniform = self.weights is None and noise.ndim == 0
        first = Pass(bound, square, lower, f.jitter, True, diagonal, precision, uniform)
        del f
        first.null = norm == 0.0
        rcond, first.rounding = conditioned(lower, norm or 1.0, single)
        first.whitened = whiten or first.null or self._must_whiten(first, rcond)
        if first.whitened:
            first.explained = np.empty(n)
        root = self._roots(first, np.broadcast_to(noise, (n,)))

        def step(sums: list[np.ndarray], rows: slice, T: np.ndarray) -> None:
            if first.whitened:
                solve_rows(lower, T)
                np.einsum("ij,ij->i", T, T, out=first.explained[rows])
            z, scale = self.Z[rows], root(rows, T)
            if scale is not None:
                T *= scale[:, None]
                z = z * scale[:, None]
            add_square(T, sums[0])
            sums[1] += T.T @ z

        S, b = fold(bound, ((m, m), (m, t)), step, other=other, what="sparse bound")
        if first.whitened:
            check_rows(first, noise)
        S = S.T  # its upper triangle holds the sums
        mirror(S)
        if first.uniform:
            S *= precision[0]
            b *= precision[0]
        if not first.whitened:
            S = solve_left(lower, np.asfortranarray(solve_left(lower, S.copy(order="F")).T))
            S = 0.5 * (S + S.T)
            b = solve_left(lower, b)
        first.S, first.b = S, b
        if not first.whitened:
            check_trace(first, float(diagonal @ precision))
        B = S + np.eye(m)
        try:
            first.posterior = np.asfortranarray(cholesky(B, lower=True, check_finite=False))
        except (LinAlgError, ValueError):
            raise NotPositiveDefinite(
                f"{who()}: with {bound.name} the equations of the posterior are singular to "
                f"rounding: the noise {float(np.min(noise)):.3g}, in units of z², is too small "
                "beside the kernel's values. Use a larger noise or fewer inducing points."
            ) from None
        first.gamma = cho_solve((first.posterior, True), b)
        self._evaluate(first, noise)
        if not np.isfinite(first.value):
            raise NotPositiveDefinite(
                f"{who()}: with {bound.name} the objective is {first.value}; noise or kernel "
                "values are too small or too large for float64. Scale the data."
            )
        return first

    def _gram(self, kernel: Kernel) -> Gram:
        return gram_of(kernel, self.X, host=True)

    @staticmethod
    def _corner_matrix(square: Gram) -> np.ndarray:
        K = np.array(square.to_dense(), dtype=np.float64, order="C")
        return K if square.symmetric else 0.5 * (K + K.T)

    def _must_whiten(self, first: Pass, rcond: float) -> bool:
        """Whether S from m × m matrices alone would be too inaccurate; see HARMLESS."""
        scale = float(first.diagonal @ first.precision)
        return not EPS * scale <= HARMLESS * self.n * rcond

    def _roots(self, first: Pass, noise: np.ndarray) -> Any:
        """Return a function of rows and their Aᵀ that gives the roots of their precisions."""
        if first.uniform:
            return lambda rows, T: None
        root = np.sqrt(first.precision)
        return lambda rows, T: root[rows]

    @abstractmethod
    def _evaluate(self, first: Pass, noise: np.ndarray) -> None:
        """Set the value, from S and b."""

    @abstractmethod
    def _second(
        self, first: Pass, kernel: Kernel, noise: Any, outer: Any
    ) -> tuple[np.ndarray, float, np.ndarray | None, np.ndarray]:
        """Return ∂F/∂θ without the part of K_uu, ∂F/∂log σ², the same of ∂F/∂U, and ∂F/∂K_uu."""

    def _quadratic(self, first: Pass) -> float:
        """Return −log|B|/2 − zᵀPz/2 + bᵀγ/2, the first term once an output."""
        logdet = float(np.log(np.diagonal(first.posterior)).sum())
        square = float(np.einsum("it,it,i->", self.Z, self.Z, first.precision))
        return -self.t * logdet - 0.5 * square + 0.5 * float((first.b * first.gamma).sum())

    def _pull(
        self, first: Pass, kernel: Kernel, outer: Any, step: Any, more: tuple = ()
    ) -> tuple[np.ndarray, np.ndarray | None, list[np.ndarray]]:
        """Run the second pass: `step` makes ∂F/∂K_fu of a band and may add to further sums."""
        bound, p, m = first.bound, len(kernel.theta), first.bound.shape[1]
        width = 0 if outer is None else self.X.shape[1]
        every = slice(0, m)

        def add(sums: list[np.ndarray], rows: slice, T: np.ndarray) -> None:
            W = step(sums[2:], rows, T)
            if p and first.whitened:  # the kernel values were overwritten
                sums[0] += bound.pull_theta(rows, every, W)
            elif p:
                sums[0] += bound.pull_theta_with(rows, every, W, T)
            if outer is not None:
                sums[1] += outer.pull_points(every, rows, W.T)

        shapes = ((p,), (m, width), *more)
        other = 8 * (MATRICES * m * m + self.n * (self.t + 3))
        gradient, moved, *rest = fold(
            bound, shapes, add, arrays=4, other=other, what="sparse gradient"
        )
        return gradient, None if outer is None else moved, rest

    def _residual(self, first: Pass, K: np.ndarray, dual: np.ndarray) -> tuple[np.ndarray, float]:
        p = first.precision

        def step(sums: list[np.ndarray], rows: slice, T: np.ndarray) -> None:
            z = self.Z[rows] * p[rows, None]
            sums[0] += T.T @ (z - p[rows, None] * (T @ dual))
            sums[1] += np.abs(T, out=T).T @ np.abs(z)

        shape = dual.shape
        gap, right = fold(first.bound, (shape, shape), step, what="certificate")
        gap -= K @ dual
        size = np.linalg.norm(right, axis=0)
        worst = np.linalg.norm(gap, axis=0) / np.where(size > 0, size, 1.0)
        return gap, float(worst.max(initial=0.0))

    def _upper(self, first: Pass) -> float | None:
        return None


# ---- Titsias' collapsed bound: a lower bound of the log evidence from m inducing points,
# streamed.
# With u the function at the inducing points, Q = K_fu K_uu⁻¹ K_uf, P = diag(w/σ²), τ = tr P(K −
# Q),
#
#     F = log N(z | 0, Q + P⁻¹) − τ/2 ≤ log N(z | 0, K + P⁻¹)
#
# (Titsias, Variational learning of inducing variables in sparse Gaussian processes, AISTATS 2009).
# K_uu = LLᵀ, A = L⁻¹K_uf, S = APAᵀ, B = I + S, b = APz, γ = B⁻¹b turn it into
#
#     F = −½ Σ w log 2πσ² − ½ log|B| − ½ zᵀPz + ½ bᵀγ − ½ τ,  τ = tr PK − tr S.
#
# F depends on A through AᵀA alone, so with Ȧ = ∂F/∂A the derivatives are ∂F/∂K_uf = L⁻ᵀȦ and
# ∂F/∂K_uu = −½ L⁻ᵀ ȦAᵀ L⁻¹. Here Ȧ = [(I − B⁻¹) − γγᵀ]AP + γzᵀP, and ȦAᵀ = SB⁻¹S + γγᵀ. No
# difference of nearly equal matrices is left: I − B⁻¹ = B⁻¹S. Of several outputs the F are added.
#
# An upper bound of the evidence comes from the same numbers: K ⪰ Q bounds the determinant, and
# K + P⁻¹ ⪯ Q + (1 + τ)P⁻¹ the quadratic form (Titsias 2014; Burt, Rasmussen & van der Wilk, JMLR
# 2020).


class CollapsedBound(SparseEvidence):
    """Titsias' bound, of repeated rows where there are weights; see the head of the file."""

    def _evaluate(self, first: Pass, noise: np.ndarray) -> None:
        first.slack = max(0.0, float(first.diagonal @ first.precision - np.trace(first.S)))
        self._constant = -0.5 * self.t * float(np.sum(self.w * np.log(2 * np.pi * noise)))
        first.value = self._constant + self._quadratic(first) - 0.5 * self.t * first.slack

    def _second(
        self, first: Pass, kernel: Kernel, noise: Any, outer: Any
    ) -> tuple[np.ndarray, float, np.ndarray | None, np.ndarray]:
        t, L, LB, S, p = self.t, first.lower, first.posterior, first.S, first.precision
        share = cho_solve((LB, True), S)  # I − B⁻¹
        M = 0.5 * t * (share + share.T) - first.gamma @ first.gamma.T
        alpha = solve_left(L, first.gamma.copy(order="F"), 1)
        R, right = M, first.gamma
        if not first.whitened:
            R = solve_left(L, M.copy(order="F"), 1)
            R, right = solve_left(L, np.asfortranarray(R.T), 1), alpha
        scale = p[0] if first.uniform else 1.0
        R, right = np.ascontiguousarray(scale * R), scale * right

        def step(sums: list[np.ndarray], rows: slice, T: np.ndarray) -> np.ndarray:
            if first.whitened:
                solve_rows(L, T)
            W = T @ R
            W += self.Z[rows] @ right.T
            if first.whitened:
                solve_rows(L, W, transposed=True)
            if not first.uniform:
                W *= p[rows, None]
            return W

        gradient, moved = np.zeros(len(kernel.theta)), None
        if len(gradient) or outer is not None:
            gradient, moved, _ = self._pull(first, kernel, outer, step)
        if len(gradient):
            c = np.broadcast_to(-0.5 * t * p, self.n)
            gradient = gradient + self._gram(kernel).pull_diagonal(c)
        square = float(np.einsum("it,it,i->", self.Z, self.Z, p))
        noise_gradient = (
            -0.5 * float((M * S).sum())
            - float((first.b * first.gamma).sum())
            + 0.5 * (square + t * float(first.diagonal @ p) - t * float(np.sum(self.w)))
        )
        # ȦAᵀ = YᵀY + γγᵀ with Y = LB⁻¹S, so ∂F/∂K_uu = −½(t VᵀV + ααᵀ) with V = YL⁻¹.
        Y = solve_left(LB, S.copy(order="F"))
        V = solve_left(L, np.asfortranarray(Y.T), 1)
        return gradient, noise_gradient, moved, -0.5 * (t * (V @ V.T) + alpha @ alpha.T)

    def _upper(self, first: Pass) -> float:
        """Return U with zᵀ(Q + aP⁻¹)⁻¹z = (zᵀPz − bᵀ(aI + S)⁻¹b)/a, a = 1 + τ.

        τ is a difference of traces; what rounding may have taken from it is added.
        """
        rounding = EPS * len(first.S) * float(first.diagonal @ first.precision)
        a = 1.0 + first.slack + rounding
        square = float(np.einsum("it,it,i->", self.Z, self.Z, first.precision))
        root = cholesky(first.S + a * np.eye(len(first.S)), lower=True, check_finite=False)
        c = solve_left(np.asfortranarray(root), first.b.copy(order="F"))
        logdet = float(np.log(np.diagonal(first.posterior)).sum())
        return self._constant - self.t * logdet - 0.5 * (square - float((c * c).sum())) / a


# ---- FITC: the evidence of a process that is exact at each row and low-rank between them,
# streamed.
# The covariance K is replaced by Q + diag(K − Q), so the rows have the noise λ = k − q + σ² and
#
#     F = log N(z | 0, Q + diag λ),  qᵢ = ‖aᵢ‖², A = L⁻¹K_uf
#
# (Snelson & Ghahramani, Sparse Gaussian processes using pseudo-inputs, NIPS 2005; named by
# Quiñonero-Candela & Rasmussen, JMLR 2005). A row of weight w is w rows, each with an own share of
# diag(K − Q): with p = w/λ, P = diag p and the letters of `sparse_bound`,
#
#     F = −½ Σ w log 2πλ − ½ log|B| − ½ zᵀPz + ½ bᵀγ.
#
# One pass knows aᵢ, hence λᵢ, hence S and b. With r = z − Aᵀγ and hᵢ = pᵢ²/2wᵢ·(aᵢᵀB⁻¹aᵢ + rᵢ²)
# the derivative in λᵢ is gᵢ = hᵢ − pᵢ/2, and Ȧ = −B⁻¹AP + γrᵀP − 2A diag(g), so that ȦAᵀ = SB⁻¹S
# + γγᵀ − 2A diag(h)Aᵀ.


class FITC(SparseEvidence):
    """FITC's log evidence; no bound of the exact one. See the head of the file."""

    def _must_whiten(self, first: Pass, rcond: float) -> bool:
        return True  # qᵢ is wanted row by row

    def _roots(self, first: Pass, noise: np.ndarray) -> Any:
        first.uniform, first.precision = False, np.empty(self.n)

        def root(rows: slice, T: np.ndarray) -> np.ndarray:
            q = first.explained[rows]
            p = self.w[rows] / (np.maximum(first.diagonal[rows] - q, 0.0) + noise[rows])
            first.precision[rows] = p
            return np.sqrt(p)

        return root

    def _evaluate(self, first: Pass, noise: np.ndarray) -> None:
        spread = (
            -0.5 * self.t * float(np.sum(self.w * np.log(2 * np.pi * self.w / first.precision)))
        )
        first.value = spread + self._quadratic(first)

    def _second(
        self, first: Pass, kernel: Kernel, noise: Any, outer: Any
    ) -> tuple[np.ndarray, float, np.ndarray | None, np.ndarray]:
        t, L, LB, S, p = self.t, first.lower, first.posterior, first.S, first.precision
        m = len(L)
        inverse = np.asfortranarray(cho_solve((LB, True), np.eye(m)))
        gamma = np.asfortranarray(first.gamma)
        g = np.empty(self.n)

        def step(sums: list[np.ndarray], rows: slice, T: np.ndarray) -> np.ndarray:
            solve_rows(L, T)
            W = T @ inverse
            r = self.Z[rows] - T @ gamma
            part = p[rows]
            h = 0.5 * t * np.einsum("ij,ij->i", T, W) + 0.5 * np.einsum("ij,ij->i", r, r)
            h *= part**2 / self.w[rows]
            g[rows] = h - 0.5 * t * part
            W *= (-t * part)[:, None]
            W += (r * part[:, None]) @ gamma.T
            root = np.sqrt(h)
            # √h·a serves the sum of haaᵀ first, then 2g·a = 2g/√h·(√h·a), where h > 0.
            safe = np.where(root > 0, root, 1.0)
            T *= safe[:, None]
            add_square(T if (root > 0).all() else T * (root > 0)[:, None], sums[0])
            T *= (2 * g[rows] / safe)[:, None]
            W -= T
            solve_rows(L, W, transposed=True)
            return W

        gradient, moved, (N,) = self._pull(first, kernel, outer, step, ((m, m),))
        N = N.T
        mirror(N)
        if len(gradient):
            gradient = gradient + self._gram(kernel).pull_diagonal(g)
        Y = solve_left(LB, S.copy(order="F"))
        inner = t * (Y.T @ Y) + gamma @ gamma.T - 2.0 * N
        G = solve_left(L, np.asfortranarray(inner), 1)
        G = solve_left(L, np.asfortranarray(G.T), 1)
        return gradient, float(np.sum(g * noise)), moved, -0.5 * G
