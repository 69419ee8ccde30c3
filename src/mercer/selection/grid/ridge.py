"""Ridge systems of many folds and penalties from one Krylov space a fold, with certified values.

Fold j has the matrix Aⱼ = ΠSKSΠ, where S holds the roots of its training weights (0 elsewhere) and
Π removes the direction of s where an offset is fitted. Lanczos from the right-hand side b gives
AV = VT + βveᵀ, and V(T + αI)⁻¹e₁‖b‖ is the Galerkin solution for every α at once (the spaces of A
and A + αI are the same), with residual ‖b‖ Π βᵢ/dᵢ(α), dᵢ the pivots of T + αI. All folds share the
product with K, which is what costs.

A residual r moves the value at a point x by at most √k(x, x) ‖r‖/(2√α): it is k(x, ·)ᵀS(A + αI)⁻¹r,
and √λ/(λ + α) ≤ 1/(2√α); twice that with an offset, a mean of such values. So iterations stop when
values are known to `TOL` of the targets' root mean square, or where ‖r‖ ≤ ε‖A‖‖z‖, ε the rounding
of a float64: a factorisation promises no more.
Residuals are computed again from the answers.

What such a space does not tell in few steps is solved for each fold, on several threads: by a
factorisation for each penalty, or, of many penalties, by one reduction to a band for all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal

from mercer.lapack import dpotrs
from mercer.models.ridge import LeastSquares
from mercer.settings import get_config
from mercer.solvers import factor
from mercer.solvers.linear import REDUCTION, Band, fortran_float64, potrf, restore
from mercer.threads import inheriting, single_threaded_blas, workers

TOL = 2e-10  # error of a value relative to the root mean square of the targets
LOOSE = 5.0  # times that, as recomputed: rounding of the products
EPS = float(np.finfo(float).eps)
ROUNDING = 4 * EPS  # residual relative to ‖A‖‖z‖ that counts as that of a factorisation
MOST, PERIOD = 600, 16  # steps at most, and between two looks at the rate of convergence
BANDWIDTH, SPEED = 1e10, 8e10  # bytes and operations a second of a step, by few or many columns
BRIEF = 4e-4  # seconds that a step takes at least
SHARE = 0.2  # of the memory budget that bases may take, one and a copy while it grows
FEW, PANEL = 8, 10**6  # columns and operations up to which BLAS has a way without copies


@dataclass(frozen=True, eq=False)
class Shifted:
    """Solutions of (Aⱼ + αᵢI) z = bⱼ.

    Parameters
    ----------
    z : ndarray of shape (penalties, columns, n)
        The solutions; zero where there is no training row.
    product : ndarray of shape (penalties, columns, n)
        K S z, the values of the functions at all points.
    error : ndarray of shape (penalties, columns)
        Bound on the error of these values relative to the root mean square of the targets, from
        residuals computed anew.
    backward : ndarray of shape (penalties, columns)
        These residuals relative to ‖A‖‖z‖.
    steps : int
        Products with K that the basis took.
    """

    z: np.ndarray
    product: np.ndarray
    error: np.ndarray
    backward: np.ndarray
    steps: int

    @property
    def good(self) -> np.ndarray:
        """Whether the values are within the tolerance, or as good as those of a factorisation."""
        return (self.error <= LOOSE * TOL) | (self.backward <= ROUNDING)


class _Column:
    """The recurrence of one right-hand side: its basis, the entries of T, residuals by penalty.

    Every basis vector is made orthogonal to all others. What that removes is of the size of
    rounding as long as it is done in every step, so AV = VT + βveᵀ holds to rounding; done now and
    then, where orthogonality is lost to √ε, it would remove as much.
    """

    def __init__(self, b: np.ndarray, alphas: np.ndarray):
        self.alphas, self.norm = alphas, float(np.linalg.norm(b))
        self.basis = np.empty((2 * PERIOD, len(b)))
        self.last = b / self.norm if self.norm > 0 else b
        self.k, self.diagonal, self.beside = 0, np.empty(MOST), np.empty(MOST)
        self.pivots: list[np.ndarray] = []
        self.residual = np.full(len(alphas), self.norm)

    def take(self, w: np.ndarray) -> None:
        """Continue with w = A times the last basis vector."""
        k = self.k
        if k == len(self.basis):
            self.basis = np.concatenate([self.basis, np.empty_like(self.basis)])
        self.basis[k] = self.last
        a = float(w @ self.last)
        w = w - a * self.last
        if k:
            w -= self.beside[k - 1] * self.basis[k - 1]
        V = self.basis[: k + 1]
        w -= (V @ w) @ V
        b = float(np.linalg.norm(w))
        pivot = a + self.alphas
        if k:
            pivot = pivot - self.beside[k - 1] ** 2 / self.pivots[-1]
        pivot = np.maximum(pivot, self.alphas)  # T ⪰ 0, but for rounding
        self.diagonal[k], self.beside[k], self.k = a, b, k + 1
        self.pivots.append(pivot)
        self.residual = self.residual * (b / pivot)
        self.last = w / b if b > 0 else w

    def coordinates(self) -> np.ndarray:
        """Return (T + αI)⁻¹e₁‖b‖ for all α, one column each, by LDLᵀ of T + αI."""
        k = self.k
        d = np.array(self.pivots).reshape(k, len(self.alphas))
        x = np.empty_like(d)
        for i in range(k):
            x[i] = -self.beside[i - 1] / d[i - 1] * x[i - 1] if i else self.norm
        x /= d
        for i in range(k - 2, -1, -1):
            x[i] -= self.beside[i] / d[i] * x[i + 1]
        return x

    def solutions(self) -> np.ndarray:
        """Return the solutions, one row a penalty."""
        return self.coordinates().T @ self.basis[: self.k]

    def largest(self) -> float:
        """Return the largest eigenvalue of T, never more than ‖A‖ and soon as much."""
        k = self.k
        if k < 2:
            return float(self.diagonal[:k].max(initial=0.0))
        T = self.diagonal[:k], self.beside[: k - 1]
        return float(eigvalsh_tridiagonal(*T, select="i", select_range=(k - 1, k - 1))[0])

    def floor(self) -> np.ndarray:
        """Return the residuals that rounding leaves, for each penalty."""
        size = np.linalg.norm(self.coordinates(), axis=0)
        return EPS / 4 * self.largest() * size


def shifted_solutions(
    K: np.ndarray,
    S: np.ndarray,
    B: np.ndarray,
    alphas: np.ndarray,
    fold: np.ndarray,
    offset: bool,
) -> Shifted:
    """Solve (ΠSKSΠ + αI) z = b for all columns and penalties, as far as that pays.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric positive semidefinite.
    S : ndarray of shape (columns, n)
        Roots of the weights of the training rows of each column, 0 at other rows.
    B : ndarray of shape (columns, n)
        Right-hand sides, 0 at other rows; with an offset orthogonal to S.
    alphas : ndarray of shape (penalties,)
        Numbers > 0.
    fold : ndarray of int of shape (columns,)
        Which fold each column belongs to: the columns of a fold share factorisations elsewhere.
    offset : bool
        Whether Π removes the direction of s.

    Returns
    -------
    Shifted
        Solutions; those that are not ``good`` are to be found by a factorisation.
    """
    n = len(K)
    U = S / np.linalg.norm(S, axis=1, keepdims=True) if offset else None
    counts = np.maximum(1, np.count_nonzero(S, axis=1))
    size = np.linalg.norm(B, axis=1) / np.sqrt(counts)  # root mean square
    size = np.where(size > 0, size, 1.0)
    top = np.sqrt(max(float(K.diagonal().max(initial=0.0)), 0.0))
    bound = top / (2.0 * np.sqrt(alphas)) / size[:, None]  # times ‖r‖: the error of a value
    bound *= 2.0 if offset else 1.0  # the offset is a mean of values, so it adds as much
    columns = [_Column(b, alphas) for b in B]
    wanted = np.full(bound.shape, TOL) / np.maximum(bound, 1e-300)  # residuals to reach
    excess = np.stack([c.residual for c in columns]) / wanted
    before, steps, live = None, 0, np.flatnonzero((excess > 1).any(axis=1))
    most = min(MOST, n, int(SHARE * get_config().memory) // (2 * 8 * n * max(1, len(B))))
    with single_threaded_blas(), workers(get_config().threads) as pool:
        while len(live) and steps < most:
            last = np.stack([columns[j].last for j in live])
            W = _times(K, S[live], None if U is None else U[live], last, pool)
            list(pool.map(lambda j, w: columns[j].take(w), live, W))
            excess[live] = np.stack([columns[j].residual for j in live]) / wanted[live]
            steps += 1
            if steps % PERIOD == 0:
                floors = np.stack(list(pool.map(lambda j: columns[j].floor(), live)))
                wanted[live] = np.maximum(wanted[live], floors)
                excess[live] = np.stack([columns[j].residual for j in live]) / wanted[live]
                if before is not None and not _worth_it(excess, before, fold, counts, steps, n):
                    break
                before = excess.copy()
            live = live[(excess[live] > 1).any(axis=1)]
    z = np.stack([c.solutions() for c in columns], axis=1)
    product = ((S * z).reshape(-1, n) @ K).reshape(z.shape)
    r = np.linalg.norm(B - _without(U, S * product) - alphas[:, None, None] * z, axis=2)
    scale = np.array([c.largest() for c in columns]) * np.linalg.norm(z, axis=2)
    return Shifted(z, product, bound.T * r, r / np.maximum(scale, 1e-300), steps)


def factorisation_cost(m: int) -> float:
    """Return about the seconds of a factorisation of order m, with the copy of its matrix."""
    return m**3 / 3 / SPEED + 2 * 8 * m**2 / BANDWIDTH


def direct_cost(m: int, penalties: Any) -> Any:
    """Return about the seconds of so many penalties on a fold of m rows without a Krylov space."""
    return factorisation_cost(m) * np.minimum(penalties, REDUCTION)


def _step_cost(n: int, columns: int) -> float:
    """Return about the seconds of a product of K with so many columns, all threads together."""
    return BRIEF + max(8 * n * n / BANDWIDTH, 2 * columns * n * n / SPEED)


def _times(
    K: np.ndarray, S: np.ndarray, U: np.ndarray | None, rows: np.ndarray, pool: Any
) -> np.ndarray:
    """Return ΠSKSΠ v for a row v of each fold."""
    return _without(U, S * _product(K, S * _without(U, rows), pool))


def _product(K: np.ndarray, rows: np.ndarray, pool: Any) -> np.ndarray:
    """Return rows K for a symmetric K, by bands of K; the bands do not depend on the threads."""
    c, n = rows.shape
    out = np.empty((n, c))
    columns = np.ascontiguousarray(rows.T)
    band = min(64, max(8, PANEL // (c * n))) if c <= FEW else 512
    starts = range(0, n, band)
    share = -(-len(starts) // get_config().threads)

    def work(first: int) -> None:
        for i in starts[first : first + share]:
            np.matmul(K[i : i + band], columns, out=out[i : i + band])

    list(pool.map(work, range(0, len(starts), share)))
    return out.T


def _without(U: np.ndarray | None, W: np.ndarray) -> np.ndarray:
    """Return the rows without their part along the unit vectors U, where there are any."""
    return W if U is None else W - (W * U).sum(axis=-1, keepdims=True) * U


def _worth_it(
    excess: np.ndarray, before: np.ndarray, fold: np.ndarray, counts: np.ndarray, steps: int, n: int
) -> bool:
    """Whether to go on, or to solve otherwise for every penalty of a fold that is not there yet.

    As long as the steps so far have cost less than half of that, they go on: so little is lost
    however convergence turns out, and it often turns out faster than it began. Beyond that they go
    on where the present rate promises to be cheaper.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.log(before / excess) / PERIOD
        need = np.where(excess > 1, np.log(excess) / np.maximum(rate, 1e-12), 0.0)
    each = np.unique(fold)
    wait = np.stack([need[fold == f].max(axis=0) for f in each])
    rows = [int(counts[fold == f].max()) for f in each]
    columns = int((excess > 1).any(axis=1).sum())
    product = _step_cost(n, columns)

    def price(k: float, s: float) -> float:
        """Of s steps after k, and of what is left for those that need more."""
        basis = columns * 8 * n * (k + s / 2) / BANDWIDTH
        left = (wait > s).sum(axis=1)
        return s * (product + basis) + sum(map(direct_cost, rows, left))

    now = price(steps, 0.0)
    if price(0.0, float(steps)) - price(0.0, 0.0) < now / 2:
        return True
    options = np.unique(wait[(wait > 0) & (wait <= MOST - steps)])
    return any(price(steps, float(s)) < now for s in options)


# ---- Values of ridge fits on the test rows of folds, for all penalties of one kernel together ----


RUNS = 50  # blocks of a matrix that are copied one by one


@dataclass(frozen=True, eq=False)
class RidgeFold:
    """A fold: training rows of positive weight, their targets and weights, and the test rows."""

    train: np.ndarray
    test: np.ndarray
    T: np.ndarray
    s: np.ndarray
    unit: float
    column: bool
    classes: np.ndarray | None

    @classmethod
    def of(cls, data: Any, train: np.ndarray, test: np.ndarray) -> RidgeFold:
        """Return the fold of checked data of its training rows."""
        w = np.ones(len(train)) if data.weights is None else data.weights
        some = w > 0
        T = data.y[some]
        largest = float(np.abs(T).max(initial=0.0))
        unit = 1.0 if largest == 0 or 1e-100 < largest < 1e100 else largest
        return cls(train[some], test, T / unit, np.sqrt(w[some]), unit, data.column, data.classes)

    def right(self, offset: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return S(T − 1m), m the weighted means where an offset is fitted, and m."""
        w = self.s**2
        m = w @ self.T / w.sum() if offset else np.zeros(self.T.shape[1])
        return self.s[:, None] * (self.T - m), m

    def shaped(self, values: np.ndarray) -> np.ndarray:
        """Return values (…, t) in the user's units, without the last axis where t is 1."""
        values = self.unit * values
        return values[..., 0] if self.column else values


def ridge_values(
    K: np.ndarray, folds: Sequence[RidgeFold], alphas: np.ndarray, offset: bool
) -> list[list[Any]]:
    """Return for each fold and penalty the values at its test rows; None where a fit must say.

    Penalties of shape (folds, penalties) are each fold's own.

    Returns
    -------
    list of list
        Arrays of shape (test rows,) or (test rows, outputs); None where K + αI could not be
        factorised.
    """
    count = alphas.shape[-1]
    each = np.broadcast_to(alphas, (len(folds), count))
    out: list[list[Any]] = [[None] * count for _ in folds]
    pending = [list(range(count)) for _ in folds]
    if (each == each[0]).all() and _krylov_pays(K, folds, count):
        pending = _by_krylov(K, folds, each[0], offset, out)
    stop = threading.Event()
    room = max(1, get_config().memory // K.nbytes - 2)  # a fold takes a matrix, and a part of one
    with single_threaded_blas(), workers(min(get_config().threads, room), stop) as pool:
        jobs = [
            pool.submit(inheriting(_directly), K, fold, own, offset, left, mine, stop.is_set)
            for fold, own, left, mine in zip(folds, each, pending, out, strict=True)
            if left
        ]
        for job in jobs:
            job.result()
    return out


def _krylov_pays(K: np.ndarray, folds: Sequence[RidgeFold], count: int) -> bool:
    """Whether a first look at the rate of convergence is cheap beside the factorisations."""
    n, columns = len(K), sum(f.T.shape[1] for f in folds)
    direct = sum(direct_cost(len(f.train), count) for f in folds)
    solutions = 4 * 8 * n * columns * count  # bytes: they, their products, residuals, right sides
    small = solutions <= SHARE * get_config().memory
    return small and 2 * PERIOD * _step_cost(n, columns) < direct / 2


def _by_krylov(
    K: np.ndarray, folds: Sequence[RidgeFold], alphas: np.ndarray, offset: bool, out: list[list]
) -> list[list[int]]:
    """Fill in what Krylov spaces give to all digits; return the penalties left for each fold."""
    n = len(K)
    owner = np.concatenate([np.full(f.T.shape[1], i) for i, f in enumerate(folds)])
    S, B = np.zeros((len(owner), n)), np.zeros((len(owner), n))
    means = []
    for i, fold in enumerate(folds):
        b, m = fold.right(offset)
        at = np.ix_(owner == i, fold.train)
        S[at], B[at] = fold.s, b.T
        means.append(m)
    found = shifted_solutions(K, S, B, alphas, owner, offset)
    pending = []
    for i, fold in enumerate(folds):
        mine = owner == i
        good = found.good[:, mine].all(axis=1)
        f = found.product[:, mine]  # (penalties, t, n)
        b = means[i]
        if offset:
            w = fold.s**2
            b = b - f[:, :, fold.train] @ w / w.sum()
        values = fold.shaped(np.swapaxes(f[:, :, fold.test] + np.asarray(b)[..., None], 1, 2))
        for k in np.flatnonzero(good):
            out[i][k] = values[k]
        pending.append(np.flatnonzero(~good).tolist())
    return pending


def _directly(
    K: np.ndarray,
    fold: RidgeFold,
    alphas: np.ndarray,
    offset: bool,
    left: list[int],
    out: list,
    ended: Callable[[], bool],
) -> None:
    """Fill in the values of one fold: by a factorisation each, or by one reduction to a band."""
    s, (b, mean) = fold.s[:, None], fold.right(offset)
    A = _part(K, fold.train, fold.train)
    if not (fold.s == 1).all():
        A *= s
        A *= s.T
    rhs = np.hstack([b, s]) if offset else b
    A = fortran_float64(A, overwrite=True)
    many = len(left) > REDUCTION and Band.is_there()
    found = (_by_band if many else _by_factors)(A, rhs, alphas[left], ended)
    cross = _part(K, fold.test, fold.train)
    for k, z in zip(left, found, strict=False):
        if z is None:  # the factorisation of a fit decides what so small a penalty means
            continue
        level = mean
        if offset:
            h, z = z[:, -1:], z[:, :-1]
            shift = (s.T @ z) / float((s.T @ h)[0, 0])
            z, level = z - h * shift, mean + shift[0]
        out[k] = fold.shaped(cross @ (s * z) + level)


def _by_factors(
    A: np.ndarray, rhs: np.ndarray, alphas: np.ndarray, ended: Callable[[], bool]
) -> Iterator[np.ndarray | None]:
    """Yield (A + αI)⁻¹ times the right-hand sides for each penalty; A is overwritten."""
    diagonal = A.diagonal().copy()
    for alpha in alphas:
        if ended():
            return
        restore(A, diagonal + alpha)
        yield dpotrs(A, rhs, lower=1)[0] if potrf(A) else None


def _by_band(
    A: np.ndarray, rhs: np.ndarray, alphas: np.ndarray, ended: Callable[[], bool]
) -> Iterator[np.ndarray | None]:
    """Yield the same from one reduction; all are turned back together."""
    band = Band.of(A, ended)
    if band is None:
        return
    turned = band.turned(rhs)
    found = [band.solve(float(alpha), turned) for alpha in alphas]
    good = [z for z in found if z is not None]
    back = iter(np.hsplit(band.back(np.hstack(good)), len(good)) if good else ())
    for z in found:
        yield None if z is None else next(back)


def _part(K: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return K[rows][:, columns] as an array of its own."""
    down, across = _runs(rows), _runs(columns)
    if len(down) * len(across) > RUNS:
        return K[np.ix_(rows, columns)]
    out = np.empty((len(rows), len(columns)))  # folds that were not shuffled: a few large blocks
    for i, a, m in down:
        for j, b, k in across:
            out[i : i + m, j : j + k] = K[a : a + m, b : b + k]
    return out


def _runs(index: np.ndarray) -> list[tuple[int, int, int]]:
    """Return runs of consecutive positions: where each begins in the index, at what, its length."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(index) != 1) + 1])
    lengths = np.diff(np.append(starts, len(index)))
    return list(zip(starts.tolist(), index[starts].tolist(), lengths.tolist(), strict=True))


def primal_values(problem: LeastSquares, features: Any, alphas: np.ndarray) -> list[np.ndarray]:
    """Return the values at points with finite features, for each penalty, as (points, t)."""
    A, mu, t = problem._centred_features()
    G, right = A.T @ A, A.T @ t
    level = problem.w @ problem.T / problem.w.sum() if problem.offset else 0.0
    out = []
    for alpha in alphas:
        v = factor(G, float(alpha), owner=problem.kernel).solve(right)
        b = level - mu @ v if problem.offset else 0.0
        out.append(problem.unit * (np.asarray(features @ v) + b))
    return out
