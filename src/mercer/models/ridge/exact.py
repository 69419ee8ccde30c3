"""Weighted penalised least squares in a feature space: dual, primal or spectral, with exact LOO.

Minimise ½ Σᵢ wᵢ‖yᵢ − f(xᵢ) − b‖² + (α/2)‖f‖². With S = W^½ and B = SKS + αI the dual solution is
a = S B⁻¹ S (y − b); with features Φ of D < n columns the primal one is v = (ΦᵀWΦ + αI)⁻¹ΦᵀW(y − b).
With an offset b everything holds with B⁻¹ replaced by P = B⁻¹ − B⁻¹ssᵀB⁻¹/(sᵀB⁻¹s), s = S1, the
inverse on the part where the offset has been fitted; a = SPSy. Leaving point i out changes its
residual from yᵢ − f(xᵢ) to aᵢ/(SPS)ᵢᵢ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import to_host
from mercer.errors import InvalidInput, NotPositiveDefinite
from mercer.estimator import JUDGED, indefinite, is_sparse
from mercer.kernels import Kernel, unproven
from mercer.lapack import eigh, heard
from mercer.memory import named_when_full, require_memory
from mercer.models.ridge.spectrum import (
    DualSpectrum,
    PrimalSpectrum,
    RidgeFit,
    dual_certificate,
    primal_certificate,
    shows_rounding,
)
from mercer.operators import gram_of
from mercer.settings import get_config
from mercer.solvers import CholeskyFactor, DenseEigen, Eigen, factor

PATH_COLUMNS = 256
# Penalties worth trying, in units of trace(K): below, rounding of K decides; above, f is zero.
SMALLEST_ALPHA, LARGEST_ALPHA = 1e-10, 1e4
HUGE = 1e150  # the square of more is no float64
FEWER = "Fit fewer rows, use a kernel with finite features"
ONE = "give one number as alpha, with solver='cg' or 'falkon'"
# A leverage this near to 1 leaves too few digits in 1 − h; such rows are fitted again without.
LEVERAGE = 1e-6
REFITS = 50  # rows of leverage near 1, at most, that are fitted again without


class LeastSquares:
    """The problem for one kernel, one collection and targets T of shape (n, t)."""

    def __init__(
        self, kernel: Kernel, X: Any, T: np.ndarray, weights: np.ndarray | None, offset: bool
    ):
        self.kernel, self.offset = kernel, offset
        self.n = kernel.domain.size(X)
        # A row of weight zero is a row that is not there; its coefficient is zero.
        self.active = None if weights is None or (weights > 0).all() else np.flatnonzero(weights)
        self.all_X, self.all_T = X, T
        if self.active is not None:
            X = kernel.domain.subset(X, self.active)
            T, weights = T[self.active], weights[self.active]  # type: ignore[index]
        # Squares of targets beyond 1e±100 would overflow or vanish: solve in units of the largest.
        largest = float(np.abs(T).max(initial=0.0))
        self.unit = 1.0 if largest == 0 or 1e-100 < largest < 1e100 else largest
        self.X, self.T = X, T / self.unit
        self.w = np.ones(len(T)) if weights is None else weights
        self.s = np.sqrt(self.w)
        self.equal = bool((self.w == 1).all())
        self.D = self._primal_dimension()
        self._kept: Any = None
        if self.D is not None:
            self._to_host()

    def _to_host(self) -> None:
        """Bring points to NumPy, for what has no form on a device."""
        self.X, self.all_X = (to_host(points) for points in (self.X, self.all_X))

    def _primal_dimension(self) -> int | None:
        D = self.kernel._n_features(self.X)
        return D if D is not None and D < len(self.T) else None

    # -- entry points -------------------------------------------------------------------------
    def fit(
        self, alpha: Any, alphas: np.ndarray | None, dual: Callable[..., RidgeFit] | None = None
    ) -> RidgeFit:
        """Return the fit for a number, one number an output, or "loo".

        ``dual(problem, alpha)`` solves the dual problem in place of a factorisation.
        """
        fit = self._fit_scaled(alpha, alphas, dual or LeastSquares._fit_dual)
        return fit if self.unit == 1.0 else fit.times(self.unit)

    @named_when_full("KernelRidge", f"{FEWER}, solver='cg' or 'falkon'")
    def _fit_scaled(
        self, alpha: Any, alphas: np.ndarray | None, dual: Callable[..., RidgeFit]
    ) -> RidgeFit:
        self._check_diagonal()
        if isinstance(alpha, str):
            self._to_host()
            return self._fit_path(alphas)
        if np.ndim(alpha) and len(set(np.ravel(alpha))) > 1:
            self._to_host()
            return self.spectrum().fit(np.asarray(alpha, dtype=float))
        alpha = float(np.ravel(alpha)[0])
        return self._fit_primal(alpha) if self.D is not None else dual(self, alpha)

    def leave_one_out(self, alpha: Any) -> np.ndarray:
        """Return the leave-one-out predictions for a penalty, at all n points."""
        return self.unit * self._leave_one_out(alpha)

    @named_when_full("KernelRidge", FEWER)
    def _leave_one_out(self, alpha: Any) -> np.ndarray:
        self.check_loo()
        if self.D is not None or np.ndim(alpha):
            spectrum = self.spectrum()
            alphas = np.broadcast_to(np.asarray(alpha, dtype=float), (self.T.shape[1],))
            return self._everywhere(self._left_out(spectrum, alphas), spectrum.fit(alphas))
        f = self.factored(alpha, matrices=2.2, device=True)
        a, b, h = self.dual(f)
        inverse = f.inverse_diagonal()
        if self.offset:
            inverse = inverse - h**2 / float(self.s @ h)
        predictions = self.T - a / (self.w * inverse)[:, None]
        return self._everywhere(predictions, self._certified(f, a, b, alpha))

    def leave_out_last(self, alphas: np.ndarray, count: int) -> np.ndarray:
        """Return leave-one-out predictions of the last rows alone, (penalties, count, outputs).

        One Gram matrix serves all penalties. The last block of (L Lᵀ)⁻¹ is (L₂₂L₂₂ᵀ)⁻¹, so that
        beside a factorisation little is left to do. Rows of weight zero do not count.
        """
        K, out = self.scaled_gram(matrices=2.0 + (count / len(self.T)) ** 2), []
        for alpha in alphas:
            f = self._factor(K.copy(), float(alpha))
            a, _, h = self.dual(f)
            inverse = f.inverse_diagonal(count)
            if self.offset:
                inverse = inverse - h[-count:] ** 2 / float(self.s @ h)
            residuals = a[-count:] / (self.w[-count:] * inverse)[:, None]
            out.append(self.unit * (self.T[-count:] - residuals))
        return np.array(out)

    def check_loo(self) -> None:
        if self.offset and len(self.T) < 2:
            raise InvalidInput(
                "KernelRidge: leave-one-out with an offset needs at least 2 rows of positive "
                f"weight, got {len(self.T)}."
            )

    def _left_out(self, spectrum: DualSpectrum | PrimalSpectrum, alphas: np.ndarray) -> np.ndarray:
        """Return f₋ᵢ(xᵢ) from a spectrum; rows of leverage 1 to many digits are fitted again."""
        outputs = np.arange(self.T.shape[1])
        predictions = self.T - spectrum.loo_residuals(alphas, outputs)
        rows = spectrum.rows_of_leverage_one(alphas, LEVERAGE)
        if len(rows) > REFITS:
            return predictions
        for i in rows:
            predictions[i] = self.refit(np.array([i]), alphas, outputs)[0]
        return predictions

    def refit(self, rows: np.ndarray, alpha: Any, outputs: np.ndarray) -> np.ndarray:
        """Return some outputs' predictions at rows by a fit without them, in this unit."""
        others = np.delete(np.arange(len(self.T)), rows)
        T = self.T[np.ix_(others, outputs)]
        points = self.kernel.domain.subset(self.X, others)
        rest = LeastSquares(self.kernel, points, T, self.w[others], self.offset)
        fit = rest.fit(alpha, None)
        weights = fit.coef
        if weights is None:
            weights = self.kernel._features(rest.X).T @ fit.dual_coef
        phi = self.kernel._features(self.kernel.domain.take(self.X, rows))
        return np.asarray(phi @ weights) + fit.intercept

    def loo_gradient(self, alpha: float) -> tuple[float, np.ndarray, float]:
        """Return the mean squared LOO error E, the matrix ∂E/∂K and ∂E/∂log α.

        With Q = SPS (the inverse of C = K + αW⁻¹ where the offset is fitted), a = Qy, d = diag Q
        and r = a/d: ∂a = −Q∂C a and ∂d = −diag(Q∂C Q), so for E = Σ cᵢrᵢ² the cotangent of C is
        Q diag(q) Q − ½(a pᵀQ + Qp aᵀ) with q = Σ 2cr²/d and p = 2cr/d.
        """
        f = self.factored(alpha, matrices=6)
        a, _, h = self.dual(f)
        Q = f.inverse()
        if self.offset:
            Q -= np.outer(h, h / float(self.s @ h))
        if not self.equal:
            Q *= self.s[:, None]
            Q *= self.s[None, :]
        d = Q.diagonal().copy()
        r = a / d[:, None]
        c = self.w[:, None] / (self.w.sum() * self.T.shape[1])
        error = float((c * r * r).sum())
        p = 2 * c * r / d[:, None]
        q = (p * r).sum(1)
        root = Q * np.sqrt(q)[None, :]
        Qp = Q @ p
        G = root @ root.T
        del root, Q
        cross = a @ Qp.T
        G -= 0.5 * (cross + cross.T)
        return error, G, float(alpha * (G.diagonal() / self.w).sum())

    # -- dual ---------------------------------------------------------------------------------
    def _check_diagonal(self) -> None:
        """|k(x, y)|² ≤ k(x, x)k(y, y): finite lengths mean a finite Gram matrix, in O(n)."""
        with np.errstate(over="ignore", invalid="ignore"):
            d = np.asarray(gram_of(self.kernel, self.X).diagonal(), dtype=float)
        if not np.isfinite(d).all():
            i = int(np.argmin(np.isfinite(d)))
            raise InvalidInput(
                f"{self.kernel}: k(x, x) is {d[i]} at row {i}; the kernel overflows on these "
                "data. Scale the columns, for example with sklearn.preprocessing.StandardScaler."
            )
        most, top = float(self.w.max(initial=0.0)), float(d.max(initial=1.0))
        if most > 1 and not most < HUGE / np.sqrt(top):
            raise InvalidInput(
                f"KernelRidge: weights up to {most:.3g} and k(x, x) up to {top:.3g} give products "
                "that are more than float64 can square; divide alpha and all weights by the same "
                "number."
            )

    def scaled_gram(self, matrices: float = 1.0, device: bool = False, cure: str = FEWER) -> Any:
        """Return SKS as an array of our own; `matrices` of its size will be alive at once.

        With `device` it is a tensor where the engine computes on one: formed, scaled and, by its
        owner, factorised in the same memory, with strips of it beside.
        """
        m, gram = len(self.T), gram_of(self.kernel, self.X)
        like = gram.like if device else None
        matrices = matrices if like is None else min(matrices, 1.4)
        require_memory(
            int(matrices * m * m * 8) + 4 * self.T.nbytes,
            f"KernelRidge: {matrices:g} × the {m} × {m} Gram matrix, to factorise it,",
            cure,
            like,
        )
        self.kernel.domain.check_training(self.X)
        K: Any = gram.to_dense() if like is None else gram.matrix_there()
        if like is None:
            foreign = K is self.X or not K.flags.writeable or K.base is not None
            K = K.astype(np.float64, copy=foreign)
        if not self.equal:
            s: Any = self.s if like is None else K.new_tensor(self.s)
            K *= s[:, None]
            K *= s[None, :]
        return K

    def factored(
        self, alpha: float, matrices: float = 1.0, device: bool = False, cure: str = FEWER
    ) -> Any:
        """Factorise SKS + αI in place; a K that is indefinite behind the ridge is refused too."""
        return self._factor(self.scaled_gram(matrices, device, cure), alpha)

    def _factor(self, K: Any, alpha: float) -> Any:
        trace = float(K.diagonal().sum())
        try:
            f = factor(K, alpha, overwrite=True, owner=self.kernel)
        except NotPositiveDefinite as error:
            low = float(error.smallest_eigenvalue or 0.0) - alpha
            if low < -1e-8 * trace:
                raise indefinite(self.kernel, self.equal, low) from None
            raise
        if alpha > 0 and unproven(self.kernel):
            low = f.smallest_eigenvalue() - alpha
            if low < -1e-8 * trace:
                del f
                raise self._hidden(low)
        return f

    def _hidden(self, low: float) -> NotPositiveDefinite:
        """Return the error for an eigenvalue behind the ridge; of few rows it names the smallest.

        Few steps of Lanczos do not reach it where the ridge is large.
        """
        few = len(self.T) <= JUDGED and 16 * len(self.T) ** 2 <= get_config().memory
        if few:
            low = float(eigh(self.scaled_gram(), eigvals_only=True, overwrite_a=True)[0])
        return indefinite(self.kernel, self.equal, low, bound=not few)

    def dual(self, f: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return a, b and h = B⁻¹s from a factorisation of B."""
        s = self.s[:, None]
        b, h = np.zeros(self.T.shape[1]), np.zeros(len(self.s))
        if self.offset:
            solved = f.solve(np.hstack([s * self.T, s]))
            z, h = solved[:, :-1], solved[:, -1]
            b = (self.s @ z) / (self.s @ h)
            z = z - h[:, None] * b
        else:
            z = f.solve(s * self.T)
        return s * z, b, h

    def _fit_dual(self, alpha: float) -> RidgeFit:
        f = self.factored(alpha, device=True, cure=f"{FEWER}, solver='cg' or 'falkon'")
        a, b, _ = self.dual(f)
        return self._certified(f, a, b, alpha)

    def _certified(self, f: Any, a: np.ndarray, b: np.ndarray, alpha: float) -> RidgeFit:
        # f.matmul multiplies by SKS + αI, the matrix that was factorised, not by its factor.
        z = a / self.s[:, None]
        Ka = (f.matmul(z) - alpha * z) / self.s[:, None]
        solution = dual_certificate(self, a, b, Ka, alpha, f.jitter)
        if isinstance(f, CholeskyFactor) and shows_rounding(f.trace() / f.n, z, solution):
            Ka = (f.matmul(z, wide=True) - alpha * z) / self.s[:, None]
            solution = dual_certificate(self, a, b, Ka, alpha, f.jitter)
        return RidgeFit(self.spread(a), None, b, alpha, solution)

    # -- primal -------------------------------------------------------------------------------
    def _centred_features(self) -> tuple[Any, np.ndarray, np.ndarray]:
        """Return S(Φ − 1μᵀ), μ and S(T − 1m): weighted centring makes room for the offset."""
        n, D = len(self.T), self.D or 0
        require_memory(
            (3 * n + 3 * D) * D * 8,
            f"KernelRidge: the {n} × {D} features of {self.kernel}",
            "Fit fewer rows or columns",
        )
        phi = self._phi()
        if sp.issparse(phi):
            phi = phi.toarray()
        phi = np.asarray(phi, dtype=float)
        if not np.isfinite(phi).all():
            raise InvalidInput(
                f"{self.kernel}: its features are not finite on these data; scale the columns."
            )
        mu = self.w @ phi / self.w.sum() if self.offset else np.zeros(phi.shape[1])
        return (phi - mu) * self.s[:, None], mu, self._centred_targets()

    def _centred_targets(self) -> np.ndarray:
        m = self.w @ self.T / self.w.sum() if self.offset else 0.0
        return (self.T - m) * self.s[:, None]

    def _fit_primal(self, alpha: float) -> RidgeFit:
        if is_sparse(self.kernel, self.X):
            return self.from_primal(*solve_sparse(self, self._phi(), alpha), alpha)
        A, mu, t = self._centred_features()
        f = factor(A.T @ A, alpha, overwrite=True, owner=self.kernel)
        v = f.solve(A.T @ t)
        return self.from_primal(v, mu, f.jitter, alpha)

    def _phi(self) -> Any:
        """Return the features; sparse ones are kept."""
        phi = self.kernel._features(self.X) if self._kept is None else self._kept
        if sp.issparse(phi):
            self._kept = phi = sp.csr_array(phi)
        return phi

    def from_primal(self, v: np.ndarray, mu: np.ndarray, jitter: float, alpha: Any) -> RidgeFit:
        """Return the fit for primal weights v: f(x) = vᵀφ(x) + b."""
        phi = self._phi()
        b = self.w @ self.T / self.w.sum() - mu @ v if self.offset else np.zeros(v.shape[1])
        a = dual_of(self, v, phi, b, alpha)
        solution = primal_certificate(self, v, b, phi, a, alpha, jitter)
        return RidgeFit(self.spread(a), v, b, alpha, solution)

    # -- spectral -----------------------------------------------------------------------------
    def spectrum(self) -> DualSpectrum | PrimalSpectrum:
        if self.D is not None:
            A, mu, t = self._centred_features()
            pairs = DenseEigen().solve(Eigen(A.T @ A)).unwrap()
            return PrimalSpectrum(pairs, A, mu, t, self)
        K = self.scaled_gram(matrices=5, cure=f"{FEWER}, {ONE}")
        return DualSpectrum(DenseEigen().solve(Eigen(K)).unwrap(), K, self)

    def alpha_range(self) -> tuple[float, float]:
        """Return the smallest and the largest penalty worth trying."""
        diagonal = np.asarray(gram_of(self.kernel, self.X).diagonal(), dtype=float)
        mean = float(diagonal.mean()) if len(diagonal) else 0.0
        mean = mean if mean > 0 else 1.0
        return SMALLEST_ALPHA * mean * max(len(diagonal), 10), LARGEST_ALPHA * mean

    def _fit_path(self, alphas: np.ndarray | None) -> RidgeFit:
        self.check_loo()
        spectrum = self.spectrum()
        if alphas is None:
            alphas = np.geomspace(*self.alpha_range(), 31)
        outputs = np.arange(self.T.shape[1])
        errors = np.empty(len(alphas))
        step = max(1, PATH_COLUMNS // len(outputs))  # penalties whose residuals are one product
        for i in range(0, len(alphas), step):
            part = alphas[i : i + step]
            residuals = spectrum.loo_residuals(
                np.repeat(part, len(outputs)), np.tile(outputs, len(part))
            )
            by_column = self.w @ residuals**2 / self.w.sum()
            errors[i : i + step] = by_column.reshape(len(part), -1).mean(axis=1)
        errors = np.where(np.isfinite(errors), errors, np.inf)
        if not np.isfinite(errors).any():
            raise InvalidInput(
                "KernelRidge: no penalty has a finite leave-one-out error; scale the target, and "
                "look for rows that nothing but themselves explains."
            )
        # Ties (all penalties interpolate, say) go to the larger penalty, the simpler function.
        best = len(errors) - 1 - int(np.argmin(errors[::-1]))
        value = float(alphas[best])
        chosen = np.full(len(outputs), value)
        fit = spectrum.fit(chosen)
        loo = self._everywhere(self._left_out(spectrum, chosen), fit)
        return RidgeFit(
            fit.dual_coef, fit.coef, fit.intercept, value, fit.solution, alphas, errors, loo
        )

    # -- rows of weight zero ------------------------------------------------------------------
    def spread(self, a: np.ndarray) -> np.ndarray:
        if self.active is None:
            return a
        out = np.zeros((self.n, a.shape[1]))
        out[self.active] = a
        return out

    def _everywhere(self, predictions: np.ndarray, fit: RidgeFit) -> np.ndarray:
        """Rows of weight zero were left out anyway: their prediction is that of the fit."""
        if self.active is None:
            return predictions
        idle = np.setdiff1d(np.arange(self.n), self.active)
        out = np.empty((self.n, predictions.shape[1]))
        out[self.active] = predictions
        pair = self.kernel.domain.pair(self.all_X, idle, slice(None))
        out[idle] = gram_of(self.kernel, *pair) @ fit.dual_coef + fit.intercept
        return out


# ---- The primal: normal equations of sparse features, dual coefficients of weights ----


REFINED = 2  # times that the gradient, computed from the features, corrects the weights


def solve_sparse(
    p: LeastSquares, phi: sp.csr_array, alpha: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return primal weights v, the mean features μ and the jitter of the factorisation.

    With weighted means taken off, (ΦᵀWΦ − ωμμᵀ + αI)v = ΦᵀW(T − 1m), ω the sum of the weights.
    The difference loses what digits μμᵀ and ΦᵀWΦ share; corrections by the gradient, which is
    computed from the features themselves, bring them back.
    """
    D = phi.shape[1]
    require_memory(
        3 * D * D * 8 + 3 * phi.nnz * 12,
        f"KernelRidge: the {D} × {D} normal equations of {p.kernel}",
        "Fit fewer rows or columns",
    )
    if not np.isfinite(phi.data).all():
        raise InvalidInput(
            f"{p.kernel}: its features are not finite on these data; scale the columns."
        )
    total = float(p.w.sum())
    weighted = sp.diags_array(p.w) @ phi
    mu = np.asarray(phi.T @ p.w) / total if p.offset else np.zeros(D)
    m: Any = p.w @ p.T / total if p.offset else np.zeros(p.T.shape[1])
    G = (phi.T @ weighted).toarray()
    G -= total * np.outer(mu, mu)
    f = factor(G, alpha, overwrite=True, owner=p.kernel)
    v = np.zeros((D, p.T.shape[1]))
    for _ in range(1 + REFINED):
        e = p.T - m - (np.asarray(phi @ v) - mu @ v)
        slope = np.asarray(weighted.T @ e) - np.outer(mu, p.w @ e)
        v += f.solve(slope - alpha * v)
    return v, mu, f.jitter


def dual_of(p: LeastSquares, v: np.ndarray, phi: Any, b: np.ndarray, alpha: Any) -> np.ndarray:
    """Return coefficients a with Φᵀa = v: W(y − f)/α, or where α is too small a projection."""
    alpha = np.broadcast_to(np.asarray(alpha, dtype=float), (v.shape[1],))
    if (alpha > 0).all():
        a = p.w[:, None] * (p.T - np.asarray(phi @ v) - b) / alpha
        error = np.linalg.norm(np.asarray(phi.T @ a) - v)
        if error <= 1e-8 * np.linalg.norm(v):
            return a
    dense = phi.toarray() if sp.issparse(phi) else np.asarray(phi, dtype=float)
    return heard(np.linalg.lstsq, dense.T, v, rcond=None)[0]
