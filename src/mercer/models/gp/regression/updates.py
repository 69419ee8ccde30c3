"""What the factor of a fit tells without another: rows left out, added and taken away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import qr, solve_triangular

from mercer.domains import concatenate
from mercer.errors import InvalidInput, NotPositiveDefinite, speaking_for, speaks, who
from mercer.estimator import check_targets, check_weights
from mercer.lapack import dtrtri, heard
from mercer.memory import require_memory, row_blocks
from mercer.models.gp.regression.data import Problem, check_noise
from mercer.models.gp.regression.evidence import GaussianFit, explain
from mercer.operators import gram_of
from mercer.solvers import CholeskyFactor
from mercer.solvers.linear import append_rows, delete_rows, drift, factor_again

# ---- Rows added and taken away ----
# C gains or loses rows and columns; its Cholesky factor is changed to match at n² flops a row
# (`mercer.solvers.linear.cholesky`), and everything behind the factor costs n² anyway.


DRIFT = 1e-12  # of a factor, relative: beyond it C is factorised anew
RESIDUAL = 1e-10  # of the linear system, the same

#: Points, targets, weights, noise and the factor of C of rows that were changed.
Rows = tuple[Any, np.ndarray, Any, Any, CholeskyFactor]


@speaks(".add")
def appended(model: Any, X: Any, y: Any, sample_weight: Any, noise: Any) -> Rows | None:
    """Return the rows of a fitted model and new ones; None where the new ones weigh nothing."""
    kernel = model.kernel_
    if not kernel.domain.holds_points:
        raise InvalidInput(
            f"{who()}: a precomputed Gram matrix cannot be continued, as the model does not "
            "keep points; fit the larger matrix, or use the kernel itself."
        )
    X = model._check_X(X, kernel, reset=False)
    m, t = kernel.domain.size(X), len(model.y_mean_)
    Y = check_targets(y, m).reshape(m, -1)
    if Y.shape[1] != t:
        raise InvalidInput(f"{who()}: y has {Y.shape[1]} outputs, the model was fitted to {t}.")
    nothing = sample_weight is not None and not np.any(np.asarray(sample_weight))
    weights = check_weights(None if nothing else sample_weight, m)
    scaled = _more_noise(model, noise, m)
    if nothing:
        return None
    if weights is not None and not (weights > 0).all():
        rows = np.flatnonzero(weights)
        X, Y, weights = kernel.domain.take(X, rows), Y[rows], weights[rows]
        scaled = scaled[rows] if np.ndim(scaled) else scaled
    n, m = len(model.y_fit_), len(Y)
    factor = model._fit_state().factor.on_host()
    corner = np.array(kernel(X), dtype=float)
    np.einsum("ii->i", corner)[...] += scaled if weights is None else scaled / weights
    cross = np.asarray(kernel(model.X_fit_, X), dtype=float)
    points = concatenate(kernel.domain, model.X_fit_, kernel.domain.keep(X))
    if weights is not None or model.sample_weight_ is not None:
        old, new = (
            np.ones(size) if w is None else w
            for w, size in ((model.sample_weight_, n), (weights, m))
        )
        weights = np.concatenate([old, new])
    if np.ndim(scaled):
        scaled = np.concatenate([model.scaled_noise_, scaled])
    try:
        with speaking_for(kernel):
            changed = append_rows(factor, cross, corner, "noise")
    except NotPositiveDefinite as error:
        trace, unit = factor.trace() + float(np.trace(corner)), float(np.mean(model.y_scale_**2))
        raise explain(error, str(kernel), trace, n + m, unit) from error
    return points, np.vstack([model._targets(), Y]), weights, scaled, changed


@speaks(".remove")
def reduced(model: Any, index: Any) -> Rows | None:
    """Return the rows of a fitted model without some; None where these are none."""
    n = len(model.y_fit_)
    index = _positions(index, n)
    if len(index) == n:
        raise InvalidInput(
            f"{who()}: these are all {n} rows, which would leave none to learn from; keep at "
            "least one, or fit anew."
        )
    keep = np.delete(np.arange(n), index)
    if len(keep) == n:
        return None
    with speaking_for(model.kernel_):
        changed = delete_rows(model._fit_state().factor.on_host(), index, "noise")
    points = model.kernel_.domain.take(model.X_fit_, keep)
    weights, scaled = model.sample_weight_, model.scaled_noise_
    weights = None if weights is None else weights[keep]
    scaled = scaled[keep] if np.ndim(scaled) else scaled
    return points, model._targets()[keep], weights, scaled, changed


def solved_again(problem: Problem, scaled: Any, factor: CholeskyFactor) -> GaussianFit:
    """Return the fit with a changed factor, or with a fresh one where that has drifted."""
    kernel = problem.kernel
    fresh = drift(factor) > DRIFT
    if fresh:
        with speaking_for(kernel):
            factor = factor_again(factor, "noise")
    evidence = problem.evidence()
    fit = evidence.posterior(kernel, scaled, factor)
    if not fresh and not (fit.residual or 0.0) <= RESIDUAL:
        with speaking_for(kernel):
            fit = evidence.posterior(kernel, scaled, factor_again(factor, "noise"))
    return fit


def _more_noise(model: Any, noise: Any, m: int) -> Any:
    """Return the noise of m new rows in units of z², a number where all rows share one."""
    if np.ndim(model.scaled_noise_) == 0:
        if noise is not None:
            raise InvalidInput(
                f"{who()}: noise is given, but the rows of this model share one variance; "
                "leave it out, give sample_weight instead, or fit with a variance a row."
            )
        return model.scaled_noise_
    if noise is None:
        raise InvalidInput(
            f"{who()}: the model was fitted with a variance of the noise for each row; give "
            f"those of the {m} new rows, noise=…"
        )
    given = check_noise(noise, m, False, word=None)
    return np.broadcast_to(np.asarray(given, dtype=float), (m,)) / model.y_scale_[0] ** 2


def _positions(index: Any, n: int) -> np.ndarray:
    """Return distinct positions from 0 to n − 1."""
    legal = f"give positions from 0 to {n - 1}, a slice, or a mask of {n} truth values"
    if isinstance(index, slice):
        return np.arange(n)[index]
    chosen = np.asarray(index)
    if chosen.size == 0:
        return np.zeros(0, dtype=int)
    chosen = np.atleast_1d(chosen)
    if chosen.dtype == bool and chosen.shape == (n,) and np.ndim(index):
        return np.flatnonzero(chosen)
    if chosen.dtype.kind not in "iu" or chosen.ndim != 1:
        raise InvalidInput(f"{who()}: index={index!r}; {legal}.")
    outside = (chosen < -n) | (chosen >= n)
    if outside.any():
        raise InvalidInput(f"{who()}: there is no row {chosen[outside][0]}; {legal}.")
    return np.unique(np.where(chosen < 0, chosen + n, chosen))


# ---- Leave-one-out, exact and from one factorisation ----
# Rows S of targets z given all the others are normal with covariance (Q_SS)⁻¹ and mean
# z_S − (Q_SS)⁻¹a_S, where a = Qz and Q = C⁻¹ − C⁻¹H(HᵀC⁻¹H)⁻¹HᵀC⁻¹ (Rasmussen & Williams, section
# 5.4.2; with a flat prior on the coefficients of H the same algebra, since log p(z) differs from
# −½zᵀQz by a constant). With R = L⁻¹ and the projection P that takes RH away, Q = FᵀF for F = PR:
# no difference of squares is taken.


# Rows of which less than this is left beside the basis decide a coefficient of it alone.
ALONE = 1e-12


def each_fit(
    model: Any,
    fit: GaussianFit,
    Z: np.ndarray,
    basis: Any,
    mean: Callable[[Any, int], np.ndarray],
) -> Callable[[Any, np.ndarray], np.ndarray]:
    """Return the means given all rows but one, each at points of its own: f₋ᵢ(x) = f(x) − lᵢ(x)rᵢ.

    l(x) = k(x)ᵀQ + h(x)ᵀ(HᵀC⁻¹H)⁻¹HᵀC⁻¹, in the order of the rows ``X_fit_``.
    """
    kernel, n = model.kernel_, len(Z)
    H = np.zeros((n, 0)) if basis is None else basis.columns(model.X_fit_, n)
    r = (Z - leave_out(fit, Z, H, None)[0]) * model.y_scale_
    require_memory(16 * n * n, f"{who()}: the {n} × {n} inverse", "Use fewer rows")
    Q = fit.factor.solve(np.eye(n))
    G = fit.basis_factor.solve(fit.basis_solve.T) if H.shape[1] else np.zeros((0, n))
    Q -= fit.basis_solve @ G

    def at(X: Any, rows: np.ndarray) -> np.ndarray:
        out = np.array(mean(X, len(rows)), dtype=np.float64)
        for part in row_blocks(len(rows), 32 * n):
            Y = kernel.domain.take(X, part)
            K = gram_of(kernel, *kernel.domain.match(Y, model.X_fit_)).to_dense()
            shares = np.einsum("mj,jm->m", K, Q[:, rows[part]])
            if len(G):
                h = basis.columns(Y, len(K))
                shares += np.einsum("mq,qm->m", h, G[:, rows[part]])
            out[part] -= shares[:, None] * r[rows[part]]
        return out

    return at


def leave_out(
    fit: GaussianFit, Z: np.ndarray, H: np.ndarray, groups: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean (n, t) and variance (n,) of each row of Z given the rows of other groups.

    The variance is that of z itself, the noise σ²/w of its row in C included.

    Parameters
    ----------
    fit : GaussianFit
        The fit to all rows.
    Z : array of shape (n, t)
        Its targets.
    H : array of shape (n, q)
        Its basis; q may be 0.
    groups : array of n ints, or None
        The group of each row; None leaves out each row alone.
    """
    n = fit.factor.n
    require_memory(16 * n * n, f"{who()}: the inverse of the {n} × {n} factor", "Use fewer rows")
    if isinstance(fit.factor, CholeskyFactor):
        F = dtrtri(fit.factor.lower().T, lower=0, overwrite_c=1)[0].T  # (Lᵀ)⁻¹ is (L⁻¹)ᵀ, in place
    else:  # the n³ flops are the device's
        F = fit.factor.half_solve(np.eye(n))
    whole = np.einsum("ij,ij->j", F, F)  # (C⁻¹)ᵢᵢ
    if H.shape[1]:
        U = heard(qr, F @ H, mode="economic", check_finite=False)[0]
        for _ in range(2):  # the second time takes away what rounding left
            F -= U @ (U.T @ F)
    if groups is None:
        free = np.einsum("ij,ij->j", F, F)
        _require_others(np.flatnonzero(free <= ALONE * whole))
        return Z - fit.dual / free[:, None], 1.0 / free
    mean, variance = np.empty(Z.shape), np.empty(len(Z))
    order = np.argsort(groups, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        # Q_SS = upperᵀupper
        upper = heard(qr, F[:, rows], mode="r", check_finite=False)[0][: len(rows)]
        least = np.abs(np.diagonal(upper)) ** 2
        _require_others(rows[least <= ALONE * whole[rows]])
        inner = solve_triangular(upper, fit.dual[rows], trans="T")
        mean[rows] = Z[rows] - solve_triangular(upper, inner)
        root = solve_triangular(upper, np.eye(len(rows)))
        variance[rows] = np.einsum("ij,ij->i", root, root)
    return mean, variance


def _require_others(rows: np.ndarray) -> None:
    if len(rows):
        raise InvalidInput(
            f"{who()}: without row {int(rows[0])} the others do not determine the coefficients of "
            "the mean; use mean='zero', or fewer columns of X."
        )
