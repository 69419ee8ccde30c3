"""How a ridge fit reacts to its targets, and so what it would be without some of its rows.

A ridge fit is linear in its targets: f(x) = Σᵢ lᵢ(x) yᵢ. Rows that a fit predicts exactly change
nothing in it, so the fit without the rows S is the fit to targets changed by r_S = y_S − f₋S(x_S):

    f₋S(x) = f(x) − Σ_{i∈S} lᵢ(x) rᵢ,    r_S = (Q_SS)⁻¹ a_S,    Q = SPS, a = Qy

with P of `mercer.models.ridge.exact`. In the dual P = RᵀR for a root R of B⁻¹ that is orthogonal
to the offset, and r_S solves the least squares problem R_S r = Ry: no difference 1 − h is taken. In
the primal αP = I − H with leverages H of rank D, or D + 1 with an offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy.linalg import qr, solve_triangular

from mercer.errors import InvalidInput, who
from mercer.lapack import dtrtri, heard
from mercer.memory import require_memory, row_blocks
from mercer.models.ridge.exact import LEVERAGE, LeastSquares
from mercer.models.ridge.spectrum import DualSpectrum, PrimalSpectrum, filters
from mercer.operators import gram_of


class DualSmoother:
    """The fit with one penalty, from a root R of B⁻¹ = RᵀR."""

    def __init__(self, p: LeastSquares, alpha: float, R: np.ndarray, outputs: np.ndarray):
        self.p, self.alpha, self.R, self.outputs = p, alpha, R, outputs
        self.u = np.zeros(len(R))
        self.length = 1.0
        if p.offset:
            self.u = R @ p.s
            self.length = float(np.linalg.norm(self.u))
            self.u /= self.length
        self.t = self._project(R @ (p.s[:, None] * p.T[:, outputs]))
        self.inner: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        """Memory that it holds."""
        return int(self.R.nbytes)

    def _project(self, B: np.ndarray) -> np.ndarray:
        return B - self.u[:, None] * (self.u @ B) if self.p.offset else B

    def left_out(self, rows: np.ndarray) -> np.ndarray | None:
        """Return r_S = y_S − f₋S(x_S) for the rows S, in the unit of the problem."""
        F = self._project(self.R[:, rows])
        Q, upper = heard(qr, F, mode="economic", check_finite=False)
        return solve_triangular(upper, Q.T @ self.t) / self.p.s[rows][:, None]

    def each_left_out(self) -> np.ndarray:
        """Return yᵢ − f₋ᵢ(xᵢ) for every row, left out alone."""
        diagonal = np.einsum("ij,ij->j", self.R, self.R) - (self.u @ self.R) ** 2
        return (self.R.T @ self.t) / (self.p.s * diagonal)[:, None]

    def weights(self, X: Any, points: Any) -> np.ndarray:
        """Return l(x) of new points, shape (m, n), given all training points."""
        p = self.p
        K = cross_gram(p, X, points)
        inner = self._project(self.R @ (K * p.s).T)
        out = (inner.T @ self.R) * p.s
        if p.offset:
            out += p.s * (self.u @ self.R) / self.length
        return out

    def own_weights(self, X: Any, points: Any, rows: np.ndarray) -> np.ndarray:
        """Return lᵢ(x) of new points, each of a row i of its own, (m,): l(x) = k(x)ᵀM + m₀."""
        p = self.p
        if self.inner is None:
            n = len(self.R)
            require_memory(16 * n * n, f"{who()}: the {n} × {n} inverse", "Fit fewer rows")
            F = self._project(self.R) * p.s
            self.inner = F.T @ F
        out = np.einsum("mj,jm->m", cross_gram(p, X, points), self.inner[:, rows])
        if p.offset:
            out += (p.s * (self.u @ self.R) / self.length)[rows]
        return np.asarray(out)

    def degrees_of_freedom(self) -> float:
        """Return tr ∂f/∂y = n − α tr P."""
        trace = float(np.einsum("ij,ij->", self.R, self.R)) - float(((self.u @ self.R) ** 2).sum())
        return max(0.0, len(self.R) - self.alpha * trace)


class PrimalSmoother:
    """The fit with one penalty, from the spectrum of ΦᵀWΦ: H = ZZᵀ."""

    def __init__(self, spectrum: PrimalSpectrum, alpha: float, outputs: np.ndarray):
        p = spectrum.problem
        self.p, self.alpha, self.outputs, self.mu = p, alpha, outputs, spectrum.mu
        root = np.sqrt(filters(spectrum.values, np.array([alpha]))[:, 0])
        self.V = spectrum.V * root
        self.Z = spectrum.Z * root
        t = spectrum.t[:, outputs]
        self.e = t - self.Z @ (self.Z.T @ t)  # t is centred, so that the offset is in it
        if p.offset:
            self.Z = np.hstack([self.Z, (p.s / np.sqrt(p.w.sum()))[:, None]])

    @property
    def nbytes(self) -> int:
        """Memory that it holds."""
        return int(self.Z.nbytes)

    def left_out(self, rows: np.ndarray) -> np.ndarray | None:
        """Return r_S for the rows S; None where leverages near 1 leave too few digits.

        (I − ZZᵀ)⁻¹ = I + Z(I − ZᵀZ)⁻¹Zᵀ: the smaller of the two systems is solved.
        """
        Z, e = self.Z[rows], self.e[rows]
        small = len(rows) <= Z.shape[1]
        free = np.eye(min(Z.shape)) - (Z @ Z.T if small else Z.T @ Z)
        values, vectors = heard(np.linalg.eigh, free)
        if values[0] < LEVERAGE:
            return None
        inner = e if small else Z.T @ e
        solved = vectors @ ((vectors.T @ inner) / values[:, None])
        return (solved if small else e + Z @ solved) / self.p.s[rows][:, None]

    def each_left_out(self) -> np.ndarray:
        """Return yᵢ − f₋ᵢ(xᵢ) for every row, left out alone."""
        free = 1 - np.einsum("ij,ij->i", self.Z, self.Z)
        with np.errstate(divide="ignore", invalid="ignore"):
            out = self.e / (self.p.s * free)[:, None]
        for i in np.flatnonzero(free < LEVERAGE):
            rows = np.array([i])
            out[i] = self.p.T[rows][:, self.outputs] - self.p.refit(rows, self.alpha, self.outputs)
        return out

    def weights(self, X: Any, points: Any) -> np.ndarray:
        """Return l(x) of new points, shape (m, n)."""
        p, inner = self.p, self._inner(X)
        out = (inner @ self.Z[:, : self.V.shape[1]].T) * p.s
        return out + p.w / p.w.sum() if p.offset else out

    def own_weights(self, X: Any, points: Any, rows: np.ndarray) -> np.ndarray:
        """Return lᵢ(x) of new points, each of a row i of its own, shape (m,)."""
        p, inner = self.p, self._inner(X)
        out = np.einsum("mr,mr->m", inner, self.Z[rows, : self.V.shape[1]]) * p.s[rows]
        return out + p.w[rows] / p.w.sum() if p.offset else out

    def _inner(self, X: Any) -> np.ndarray:
        return np.asarray(self.p.kernel._features(X) @ self.V) - self.mu @ self.V

    def degrees_of_freedom(self) -> float:
        """Return tr ∂f/∂y = tr H."""
        return float(np.einsum("ij,ij->", self.Z, self.Z))


def smoothers(p: LeastSquares, alpha: Any) -> Iterator[DualSmoother | PrimalSmoother]:
    """Yield one smoother for each different penalty, from one factorisation."""
    alphas = np.broadcast_to(np.asarray(alpha, dtype=float), (p.T.shape[1],))
    different = np.unique(alphas)
    if p.D is None and len(different) == 1:
        f = p.factored(float(different[0]), matrices=2.2)
        R, _ = dtrtri(np.asfortranarray(f.lower()), lower=1, overwrite_c=1)
        del f
        yield DualSmoother(p, float(different[0]), R, np.arange(len(alphas)))
        return
    spectrum = p.spectrum()
    for value in different:
        outputs = np.flatnonzero(alphas == value)
        if isinstance(spectrum, DualSpectrum):
            root = np.sqrt(filters(spectrum.values, np.array([value])))
            yield DualSmoother(p, float(value), root * spectrum.U.T, outputs)
        else:
            yield PrimalSmoother(spectrum, float(value), outputs)


def each_fit(
    p: LeastSquares, alpha: Any, values: Callable[[Any], np.ndarray]
) -> Callable[[Any, np.ndarray], np.ndarray]:
    """Return the fits without each row, each at points of its own: f₋ᵢ(x) = f(x) − lᵢ(x)rᵢ.

    Parameters
    ----------
    p : LeastSquares
        The problem that was fitted.
    alpha : float or array
        The penalty, or one for each output.
    values : callable
        From m points to the values f(x), shape (m, t).

    Returns
    -------
    callable
        From m points and the positions of m rows, of positive weight, to values (m, t).
    """
    p.check_loo()
    fits = [(one, p.unit * one.each_left_out()) for one in smoothers(p, alpha)]
    domain, count = p.kernel.domain, len(p.T)

    def at(X: Any, rows: np.ndarray) -> np.ndarray:
        out = np.array(values(X), dtype=np.float64)
        own = rows if p.active is None else np.searchsorted(p.active, rows)
        for part in row_blocks(len(rows), 32 * count):
            Z = domain.take(X, part)
            for one, r in fits:
                shares = one.own_weights(Z, p.all_X, own[part])
                out[part][:, one.outputs] -= shares[:, None] * r[own[part]]
        return out

    return at


def cross_gram(p: LeastSquares, X: Any, points: Any) -> np.ndarray:
    """Return k(X, rows of positive weight), given all training points."""
    if p.kernel.domain.holds_points:
        K = gram_of(p.kernel, *p.kernel.domain.match(X, points)).to_dense()
    else:
        K = np.asarray(X, dtype=float)
    return K if p.active is None else K[:, p.active]


def as_groups(groups: Any, n: int, weights: np.ndarray | None) -> np.ndarray:
    """Return the groups as numbers 0, 1, …; refuse them where one of them is all the data.

    Parameters
    ----------
    groups : sequence of n labels
        Any hashable labels.
    n : int
        Rows.
    weights : ndarray or None
        Weights of the rows; rows of weight zero are no data.
    """
    known: dict[Any, int] = {}
    try:
        labels = groups.tolist() if hasattr(groups, "tolist") else list(groups)
        codes = np.array([known.setdefault(label, len(known)) for label in labels], dtype=int)
    except TypeError as error:
        raise InvalidInput(
            f"{who()}: groups are not a sequence of labels ({error}); give one label for each "
            f"of the {n} rows."
        ) from error
    if any(label != label for label in known):
        raise InvalidInput(f"{who()}: groups contain NaN; give every row a label.")
    if len(codes) != n:
        raise InvalidInput(f"{who()}: {len(codes)} groups for {n} rows; give one label a row.")
    active = codes if weights is None else codes[weights > 0]
    if len(np.unique(active)) < 2:
        raise InvalidInput(
            f"{who()}: all rows are in one group, so that nothing is left to fit; give at least "
            "two groups of rows of positive weight."
        )
    return codes


def degrees_of_freedom(p: LeastSquares, alpha: Any) -> np.ndarray:
    """Return tr ∂f/∂y over the rows of positive weight, for each output."""
    out = np.empty(p.T.shape[1])
    for one in smoothers(p, alpha):
        out[one.outputs] = one.degrees_of_freedom()
    return out


def leave_groups_out(p: LeastSquares, alpha: Any, groups: np.ndarray) -> np.ndarray:
    """Return f₋S(x_S) for every group S of rows, at all n rows, those of weight zero too."""
    active = np.arange(p.n) if p.active is None else p.active
    idle = np.setdiff1d(np.arange(p.n), active)
    out = np.empty((p.n, p.T.shape[1]))
    for one in smoothers(p, alpha):
        r = group_residuals(one, groups[active])
        out[np.ix_(active, one.outputs)] = p.T[:, one.outputs] - r
        for part in row_blocks(len(idle), 32 * len(active)):
            rows = idle[part]
            L = one.weights(p.kernel.domain.take(p.all_X, rows), p.all_X)
            same = groups[rows][:, None] == groups[active][None, :]
            out[np.ix_(rows, one.outputs)] = L @ p.T[:, one.outputs] - (L * same) @ r
    return p.unit * out


def group_residuals(one: DualSmoother | PrimalSmoother, groups: np.ndarray) -> np.ndarray:
    """Return r_S = y_S − f₋S(x_S) at all rows of positive weight, in the unit of the problem."""
    p = one.p
    out = np.empty((len(p.T), len(one.outputs)))
    order = np.argsort(groups, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        r = one.left_out(rows)
        if r is None:
            r = p.T[np.ix_(rows, one.outputs)] - p.refit(rows, one.alpha, one.outputs)
        out[rows] = r
    return out


# ---- Prediction intervals by jackknife+: all leave-one-out fits at a new point, from one fit ----


ROUNDING = 1e-9  # of n + 1: 0.9 · 10 is nine, whatever the last digit says


def jackknife_plus(
    p: LeastSquares,
    fits: Iterable[DualSmoother | PrimalSmoother],
    points: Any,
    f: np.ndarray,
    coverage: float,
    groups: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return both ends of the intervals at new points, where the fit has the values f (m, t)."""
    lower, upper = np.empty(f.shape), np.empty(f.shape)
    weights = None if p.equal else p.w
    for one in fits:
        r = one.each_left_out() if groups is None else group_residuals(one, groups)
        r = p.unit * r
        for rows in row_blocks(len(f), 64 * len(p.T)):
            L = one.weights(p.kernel.domain.take(points, rows), p.all_X)
            for k, j in enumerate(one.outputs):
                without = f[rows, j][:, None] - _shares(L, r[:, k], groups)
                R = np.abs(r[:, k])
                upper[rows, j] = order_statistic(without + R, coverage, weights)
                lower[rows, j] = -order_statistic(R - without, coverage, weights)
    return lower, upper


def order_statistic(
    values: np.ndarray, coverage: float, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return the ⌈c(n + 1)⌉-th smallest value of each row, ∞ where that is more than n.

    Parameters
    ----------
    values : ndarray of shape (m, n)
        The values.
    coverage : float
        The share c.
    weights : ndarray of shape (n,), optional
        How often each value counts: the smallest v such that values ≤ v weigh c(Σw + 1).
    """
    m, n = values.shape
    if weights is None:
        k = max(1, int(np.ceil((coverage - ROUNDING) * (n + 1))))
        return np.partition(values, k - 1, axis=1)[:, k - 1] if k <= n else np.full(m, np.inf)
    target = (coverage - ROUNDING) * (float(weights.sum()) + 1)
    order = np.argsort(values, axis=1)
    reached = np.cumsum(weights[order], axis=1) >= target
    first = np.argmax(reached, axis=1)
    found = np.take_along_axis(values, np.take_along_axis(order, first[:, None], 1), 1)[:, 0]
    return np.where(reached.any(axis=1), found, np.inf)


def _shares(L: np.ndarray, r: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Return what leaving out each row, or its whole group S, takes off: Σ_{i∈S} lᵢ(x) rᵢ."""
    if groups is None:
        return L * r
    labels, codes = np.unique(groups, return_inverse=True)
    by_group = np.zeros((len(r), len(labels)))
    by_group[np.arange(len(r)), codes] = r
    return (L @ by_group)[:, codes]


def check_coverage(coverage: Any) -> float:
    """Return the probability that an interval is to have, between 0 and 1."""
    number = isinstance(coverage, int | float | np.number) and not isinstance(coverage, bool)
    if not number or not 0 < float(coverage) < 1:
        raise InvalidInput(f"{who()}: coverage={coverage!r}; give a number between 0 and 1.")
    return float(coverage)
