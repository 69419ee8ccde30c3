"""Functions as sums of effects: their values, posterior deviations and variances, in closed form.

Where every term of the kernel is a product of kernels of functions of mean zero, f is the sum of
its terms, and no two of them have anything in common: the effects are orthogonal, and shares of the
variance add up to 1 (Sobol 1993; Durrande et al. 2013). Of other products of kernels of the columns
the shares are sums over pairs of points, under the product of the marginal distributions.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np

from mercer.domains import Table, point_keys
from mercer.domains.tables import select
from mercer.errors import who
from mercer.kernels import Term, Terms, factor_values
from mercer.memory import require_memory

Places = tuple[int, ...]
Key = tuple[Places, ...]  # the groups of columns of an effect

ENTRIES = 2**21  # numbers of an array in flight
PAIRED = 4000  # points, times terms, of which all pairs are looked at
STRIP = 256  # of these points at a time


class FunctionParts:
    """The parts of a function of mean zero in each of their columns, by the groups of columns.

    Parameters
    ----------
    terms : Terms
        The kernel, each term a product of kernels of functions of mean zero.
    points : canonical collection of n points
        Those of the function.
    coef : ndarray of shape (n, t)
        Its coefficients.
    """

    def __init__(self, terms: Terms, points: Any, coef: np.ndarray):
        self.points, self.coef = points, coef
        self.terms: dict[Key, list[Term]] = {}
        for term in terms.terms:
            key = tuple(sorted(factor.columns for factor in term.factors))
            self.terms.setdefault(key, []).append(term)
        alone = self.terms.pop((), [])
        self.constant = sum(term.weight for term in alone) * coef.sum(axis=0)
        self.keys = sorted(self.terms, key=lambda key: (len(key), key))

    def at(self, X: Any, keys: Sequence[Key]) -> np.ndarray:
        """Return some parts at rows, shape (m, parts, t)."""
        m, n = X.shape[0], len(self.coef)
        out = np.zeros((m, len(keys), self.coef.shape[1]))
        step = max(1, ENTRIES // max(1, n))
        for start in range(0, m, step):
            some = slice(start, min(m, start + step))
            Z = X.take(np.arange(m)[some]) if isinstance(X, Table) else X[some]
            known: dict[tuple[Places, int], np.ndarray] = {}
            for s, key in enumerate(keys):
                for term in self.terms[key]:
                    values: Any = term.weight
                    for factor in term.factors:
                        which = factor.columns, id(factor.kernels[0])
                        if which not in known:
                            k = factor.kernels[0]
                            known[which] = factor_values(k, Z, self.points, factor.columns)
                        values = values * known[which]
                    out[some, s] += values @ self.coef
        return out

    def cross(self, key: Key, rows: Sequence[Any]) -> np.ndarray:
        """Return the kernel of a part at all combinations of rows: (m₁, …, n)."""
        total: Any = 0.0
        for term in self.terms[key]:
            values: Any = np.full((1,) * len(rows) + (1,), term.weight)
            for factor in term.factors:
                axis = key.index(factor.columns)
                own = factor_values(factor.kernels[0], rows[axis], self.points, factor.columns)
                shape = [1] * len(rows) + [own.shape[1]]
                shape[axis] = own.shape[0]
                values = values * own.reshape(shape)
            total = total + values
        return np.asarray(total)

    def prior(self, key: Key, rows: Sequence[Any]) -> np.ndarray:
        """Return the kernel of a part where both points are one, at combinations of rows."""
        total: Any = 0.0
        for term in self.terms[key]:
            values: Any = np.full((1,) * len(rows), term.weight)
            for factor in term.factors:
                axis = key.index(factor.columns)
                own = factor.kernels[0].diag(select(rows[axis], list(factor.columns)))
                shape = [1] * len(rows)
                shape[axis] = len(own)
                values = values * np.asarray(own, dtype=np.float64).reshape(shape)
            total = total + values
        return np.asarray(total)

    def variance(self, key: Key) -> np.ndarray:
        """Return the variance of a part under the measures of its columns, shape (t,)."""
        total: Any = 0.0
        shares: list[np.ndarray] = []
        seen = []
        for term in self.terms[key]:
            held = {}
            for factor in term.factors:
                U, w = factor.kernels[0].nodes()  # type: ignore[attr-defined]
                points = select(self.points, list(factor.columns))
                held[factor.columns] = np.asarray(factor.kernels[0](U, points)), w
            seen.append((term.weight, [held[columns] for columns in key]))
        if len(key) <= 2:
            for weight, parts in seen:
                first = weight * parts[0][0]
                shares = [w for _, w in parts]
                if len(key) == 1:
                    total = total + first @ self.coef
                else:
                    total = total + np.stack([(first * c) @ parts[1][0].T for c in self.coef.T], -1)
            axes = "ab"[: len(key)]
            return np.asarray(np.einsum(f"{axes}t,{','.join(axes)}->t", np.square(total), *shares))
        n = len(self.coef)
        what = f"{who()}: the variances of effects of {len(key)} columns"
        require_memory(24 * n * n, what, "Give Additive a lower order")
        for weight, parts in seen:
            for other, others in seen:
                both: Any = weight * other
                for (A, w), (B, _) in zip(parts, others, strict=True):
                    both = both * (A.T @ (w[:, None] * B))
                total = total + np.einsum("it,ij,jt->t", self.coef, both, self.coef)
        return np.maximum(total, 0.0)


def product_shares(
    terms: Terms,
    groups: Sequence[Places],
    points: Any,
    coef: np.ndarray,
    rows: Any,
    weights: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    r"""Return variance, first-order and total shares of groups of columns, of a sum of products.

    With A_p the mean of aᵢₚ(u)aⱼₚ(u) over the rows u and c_p that of aᵢₚ(u), the function has the
    variance αᵀ(Π A_p − Π c_p c_pᵀ)α, of which αᵀ((A_p − c_p c_pᵀ) Π_{l≠p} c_l c_lᵀ)α is due to p
    alone, and αᵀ((A_p − c_p c_pᵀ) Π_{l≠p} A_l)α is what p takes part in; products of entries.

    Parameters
    ----------
    terms : Terms
        The kernel.
    groups : sequence of tuples of int
        The groups, which no factor divides.
    points : canonical collection of n points
        Those of the function.
    coef : ndarray of shape (n, t)
        Its coefficients.
    rows : canonical collection
        The rows u, whose columns are taken as independent.
    weights : ndarray
        Their weights, which sum to 1.

    Returns
    -------
    tuple of arrays of shapes (t,), (p, t) and (p, t), or None
        None for kernels of inner products, and for more than 4000 points times terms.
    """
    n, count = len(coef), len(terms.terms)
    if any(term.degree for term in terms.terms) or n * count > PAIRED or not n * count:
        return None
    place = {column: p for p, group in enumerate(groups) for column in group}
    held = 8 * n * count * (len(weights) * len(groups) + 3 * STRIP * len(groups))
    require_memory(held, f"{who()}: the shares of {len(groups)} columns", "Give fewer rows")
    A = np.ones((len(groups), len(weights), count * n))
    alpha = np.concatenate([term.weight * coef for term in terms.terms])
    for s, term in enumerate(terms.terms):
        some = slice(s * n, (s + 1) * n)
        for factor in term.factors:
            for kernel in factor.kernels:
                values = factor_values(kernel, rows, points, factor.columns)
                A[place[factor.columns[0]], :, some] *= values
    means = np.einsum("b,pbi->pi", weights, A)
    A -= means[:, None]  # variances of what is left: nothing cancels
    A *= np.sqrt(weights)[:, None]
    total = np.zeros((len(groups), alpha.shape[1]))
    variance = np.zeros(alpha.shape[1])
    others = _without_each(means)
    first = np.square(np.einsum("pbi,pi,it->pbt", A, others, alpha)).sum(axis=1)
    edges = [*range(0, len(alpha), STRIP), len(alpha)]
    for low, high in pairwise(edges):
        some = slice(low, high)
        moved = np.stack([a.T @ a[:, some] for a in A])
        whole = moved + means[:, :, None] * means[:, None, some]
        # Π whole − Π means = Σ_p (Π_{l<p} means) moved_p (Π_{l>p} whole), without cancelling
        behind = np.ones_like(moved[0])
        after = [behind]
        for p in range(len(groups) - 1, 0, -1):
            behind = behind * whole[p]
            after.append(behind)
        ahead = np.ones_like(moved[0])
        fixed = np.ones_like(moved[0])
        for p in range(len(groups)):
            back = after[len(groups) - 1 - p]
            total[p] += np.einsum("it,ij,jt->t", alpha, ahead * moved[p] * back, alpha[some])
            variance += np.einsum("it,ij,jt->t", alpha, fixed * moved[p] * back, alpha[some])
            ahead = ahead * whole[p]
            fixed = fixed * (means[p][:, None] * means[p][None, some])
    scale = np.where(variance > 0, variance, 1.0)
    return np.maximum(variance, 0.0), first / scale, np.maximum(total, 0.0) / scale


def _without_each(values: np.ndarray) -> np.ndarray:
    """Return the products of all rows but one, for each."""
    out = np.ones_like(values)
    for p in range(1, len(values)):
        out[p] = out[p - 1] * values[p - 1]
    behind = np.ones_like(values[0])
    for p in range(len(values) - 1, -1, -1):
        out[p] *= behind
        behind = behind * values[p]
    return out


# ---- Values that are looked at, and slopes added up over them ----


def take(X: Any, rows: np.ndarray) -> Any:
    """Return some rows of an array or a table."""
    return X.take(rows) if isinstance(X, Table) else X[rows]


def chosen_rows(X: Any, places: Places, count: int) -> np.ndarray:
    """Return rows at which a column has values of a grid: in their order, or by how often."""
    part = select(X, list(places))
    column: Any = part if isinstance(part, np.ndarray) else part.columns[0]
    if len(places) == 1 and column.dtype.kind in "fiu":
        column = column.reshape(-1).astype(np.float64)
        order = np.argsort(column, kind="stable")
        order = order[~np.isnan(column[order])]
        new = np.diff(column[order], prepend=np.nan) != 0
        places_of_new = np.flatnonzero(new)
        if len(places_of_new) > count:  # at equal distances in rank
            ranks = np.linspace(0, len(order) - 1, count).round().astype(int)
            at = np.searchsorted(places_of_new, ranks, side="right") - 1
            places_of_new = places_of_new[np.unique(at)]
        return order[places_of_new]
    keys = point_keys(part)
    if keys is None:
        keys = list(range(part.shape[0]))
    seen: dict[Any, list[int]] = {}
    for i, key in enumerate(keys):
        seen.setdefault(key, []).append(i)
    held = sorted(seen.values(), key=lambda rows: (-len(rows), rows[0]))[:count]
    if len(places) == 1 and len(seen) <= count:
        with suppress(TypeError):  # of mixed kinds, which have no order
            held = sorted(held, key=lambda rows: column[rows[0]])
    return np.array([rows[0] for rows in held], dtype=int)


def grid_values(X: Any, places: Places) -> np.ndarray:
    """Return what rows hold in a column, or in several of one group: tuples then."""
    part = select(X, list(places))
    if len(places) == 1:
        return part[:, 0] if isinstance(part, np.ndarray) else np.asarray(part.columns[0])
    columns = list(part.T) if isinstance(part, np.ndarray) else list(part.columns)
    out = np.empty(part.shape[0], dtype=object)
    out[:] = list(zip(*columns, strict=True))
    return out


def accumulated(
    x: np.ndarray, slopes: np.ndarray, weights: np.ndarray, edges: np.ndarray
) -> np.ndarray:
    """Return the mean slopes between edges, added up, with mean zero over the rows: (m, t).

    Parameters
    ----------
    x : ndarray of shape (n,)
        The column.
    slopes : ndarray of shape (n, t)
        The slopes of f in it at the rows.
    weights : ndarray of shape (n,)
        Weights of the rows, which sum to 1.
    edges : ndarray of shape (m,)
        Increasing, from the smallest value to the largest.
    """
    if len(edges) < 2:
        return np.zeros((len(edges), slopes.shape[1]))
    last = len(edges) - 2
    bins = np.clip(np.searchsorted(edges, x, side="left") - 1, 0, last)
    held = np.bincount(bins, weights=weights, minlength=last + 1)
    means: Any = np.stack(
        [np.bincount(bins, weights=weights * s, minlength=last + 1) for s in slopes.T], axis=1
    )
    means = means / np.where(held > 0, held, 1.0)[:, None]
    steps = np.concatenate([np.zeros((1, means.shape[1])), means * np.diff(edges)[:, None]])
    values = np.cumsum(steps, axis=0)
    level = [weights @ np.interp(x, edges, column) for column in values.T]
    return values - np.array(level)
