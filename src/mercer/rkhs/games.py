r"""Shapley values of functions Σᵢ αᵢ k(xᵢ, ·) + b: the shares of columns in a value, exactly.

A game says what f is worth when only the columns S are known, v(S). Where k is a sum of products
over columns, v(S) is one too, and the Shapley values of a product are an integral,

.. math:: \varphi_j = \sum_i \alpha_i \int_0^1 (a_{ij} - c_{ij})
    \prod_{l \ne j} (t\,a_{il} + (1 - t)\,c_{il})\,dt,

of a polynomial in t, which Gauss's rule takes exactly (Owen 1972: the multilinear extension along
the diagonal). Any other f is asked at mixed rows: all of them for few columns, else orders drawn
at random, with the standard error of the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from math import comb, factorial
from typing import Any

import numpy as np

from mercer.domains import Table, is_torch, to_host
from mercer.errors import InvalidInput, who
from mercer.kernels import ColumnFactor, Term, Terms, factor_diagonal, factor_values
from mercer.memory import require_memory
from mercer.settings import get_config
from mercer.threads import inheriting, workers

GAMES = ("marginal", "background", "baseline")
NODES = 32  # of Gauss's rule at most: exact up to 64 columns
ENTRIES = 2**19  # numbers of an array in flight
SECTIONS = 2**23  # numbers of what shares are of all sections k(xᵢ, ·) at a time
POINTS = 1024  # training points at a time; fixed, so that bits do not depend on memory
ROWS = 32  # rows of the background at a time: their values stay in a cache
ENOUGH = 2**13  # values of f a row that are all asked for, before orders are drawn
MOST = 2**16  # and where interactions are wanted, which orders do not tell
ORDERS = 64  # orders drawn for a row, half of them the others backwards

Places = tuple[int, ...]


def nodes_for(players: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights on [0, 1] that are exact for the game of so many factors."""
    t, w = np.polynomial.legendre.leggauss(max(1, min(NODES, (players + 1) // 2)))
    return 0.5 + 0.5 * t, 0.5 * w


@dataclass(frozen=True)
class GameShares:
    """What a game gives at n rows: shares of p groups of columns in t outputs.

    Parameters
    ----------
    values : ndarray of shape (n, p, t)
        The shares.
    base : ndarray of shape (t,)
        v(∅), which the shares of a row add to its value.
    pairs : ndarray of shape (n, p, p, t) or None
        Interactions of two groups, 0 on the diagonal.
    std : ndarray of shape (n, p, t) or None
        Standard errors, or those of the posterior.
    """

    values: np.ndarray
    base: np.ndarray
    pairs: np.ndarray | None = None
    std: np.ndarray | None = None


# ---- Elements: what a group of columns multiplies a term by ----


def exponentials(a: np.ndarray | None, s: np.ndarray | None, degree: int) -> np.ndarray:
    """Return the coefficients of a·exp(zs) up to z^degree; both have one shape, or are absent."""
    shape = a.shape if a is not None else s.shape if s is not None else (1, 1)
    out = np.zeros((degree + 1, *shape))
    out[0] = 1.0 if a is None else a
    for k in range(1, degree + 1 if s is not None else 1):
        out[k] = out[k - 1] * s / k
    return out


def times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the product of two truncated power series, whose coefficients are the first axis."""
    if len(a) == 1:
        return a * b
    out = np.zeros(np.broadcast_shapes(a.shape, b.shape))
    for k in range(len(a)):
        out[k:] += a[k] * b[: len(b) - k]
    return out


class ProductGame:
    """The game of one function whose kernel is a sum of products over groups of columns.

    Parameters
    ----------
    terms : Terms
        The kernel.
    groups : list of tuples of int
        The groups, which no factor divides.
    points : canonical collection of N points
        Those of the function.
    coef : ndarray of shape (N, t)
        Its coefficients.
    game : {"marginal", "background", "baseline"}
        What stands for a column that is not known.
    background : canonical collection, optional
        The rows b of the first two.
    weights : ndarray, optional
        Their weights, which sum to 1.
    """

    def __init__(
        self,
        terms: Terms,
        groups: list[Places],
        points: Any,
        coef: np.ndarray,
        game: str,
        background: Any = None,
        weights: np.ndarray | None = None,
    ):
        self.groups, self.game = groups, game
        self.points, self.coef = points, coef
        self.background, self.weights = background, weights
        players = {column: p for p, group in enumerate(groups) for column in group}
        self.terms = [Played.of(term, players) for term in terms.terms]

    def __len__(self) -> int:
        return len(self.groups)

    def shares(self, X: Any, interactions: bool = False) -> GameShares:
        """Return the shares of all groups at some rows.

        Parameters
        ----------
        X : canonical collection
            The rows.
        interactions : bool, default=False
            Whether those of pairs are wanted as well.
        """
        n, p, t = _size(X), len(self), self.coef.shape[1]
        room = 8 * n * p * t * (1 + p * interactions)
        require_memory(room, f"{who()}: the shares of {p} columns in {n} rows", "Give fewer rows")
        values, base = np.zeros((n, p, t)), np.zeros(t)
        pairs = np.zeros((n, p, p, t)) if interactions else None
        for start in range(0, len(self.coef), POINTS):
            some = slice(start, start + POINTS)
            part = take(self.points, some)
            for term in self.terms:
                piece = _Piece(self, term, part, self.coef[some])
                base += piece.base()
                piece.add(X, values, pairs)
        if pairs is not None:
            pairs += pairs.swapaxes(1, 2)
        return GameShares(values, base, pairs)

    def variances(self, X: Any, explained: Callable[[np.ndarray, slice], np.ndarray]) -> np.ndarray:
        r"""Return the posterior variances of all shares, (n, p), of a Gaussian process.

        A share is linear in f, φ = ℓ(f), so its variance is ℓℓ′k less what the rows explain of it,
        a quadratic form in ℓ(k(xᵢ, ·)). Both are games of products; a removed column of a baseline
        has no value of f, and so no variance.

        Parameters
        ----------
        X : canonical collection
            The rows.
        explained : callable
            From ℓ(k(xᵢ, ·)), a matrix of a column for each row and then each player, and the rows
            it is of, to what is known of each.
        """
        n, p, count = _size(X), len(self), _size(self.points)
        out = np.zeros((n, p))
        step = max(1, SECTIONS // max(1, p * count))
        for start in range(0, n, step):
            some = slice(start, min(n, start + step))
            rows = take(X, some)
            sections = np.zeros((count, some.stop - start, p))
            for low in range(0, count, POINTS):
                held = slice(low, min(count, low + POINTS))
                points = take(self.points, held)
                for term in self.terms:
                    piece = _Piece(self, term, points, np.ones((held.stop - low, 1)))
                    gained = term.scale * piece.gains(rows)
                    sections[held][:, :, list(term.players)] += gained.transpose(2, 0, 1)
            for term in self.terms:
                out[some][:, list(term.players)] += term.scale * self._double(term, rows)
            known = explained(sections.reshape(count, -1), some)
            out[some] -= known.reshape(some.stop - start, p)
        return np.maximum(out, 0.0)

    def _double(self, term: Played, X: Any) -> np.ndarray:
        """Return ℓℓ′ of a term at some rows, for each of its players."""
        from mercer.jit import double_shares

        behind = self.background
        b = np.asarray(self.weights)
        own, cross = term.diagonal(X), term.elements(X, behind)
        apart = term.elements(behind, behind)
        if self.game == "marginal":
            cross = np.einsum("kpxb,b->kpx", cross, b)[..., None]
            apart = np.einsum("kpbc,b,c->kp", apart, b, b)[..., None, None]
            b = np.ones(1)
        nodes, weights = nodes_for(len(term.players))
        out = np.zeros((own.shape[2], own.shape[1]))
        if not term.degree:
            parts = (np.ascontiguousarray(A[0].swapaxes(0, 1)) for A in (own, cross))
            double_shares(*parts, np.ascontiguousarray(apart[0]), b, nodes, weights, out)
            return out
        for i, j in np.ndindex(len(b), len(b)):
            there, back = cross[..., i], cross[..., j]
            rest = apart[:, :, i, j, None]
            for t, u in zip(nodes, weights, strict=True):
                for s, v in zip(nodes, weights, strict=True):
                    mixed = s * t * own + t * (1 - s) * back + (1 - t) * s * there
                    mixed += (1 - t) * (1 - s) * rest
                    gain = own - there - back + rest
                    for p in range(out.shape[1]):
                        product = times(term.lead()[:, 0], gain[:, p])
                        for q in range(out.shape[1]):
                            product = product if q == p else times(product, mixed[:, q])
                        out[:, p] += u * v * b[i] * b[j] * product[-1]
        return out

    def worth(self, known: Sequence[Mapping[int, Any]]) -> list[np.ndarray]:
        """Return v(S) for some sets S of groups, at all combinations of values of their columns.

        Parameters
        ----------
        known : list of dict of int to canonical collection
            For each set the rows that hold the values of each group: m₁ of the first, and so on.

        Returns
        -------
        list of ndarray of shape (m₁, …, t)
            The values; of the empty set, (t,).
        """
        t = self.coef.shape[1]
        out = [np.zeros((*map(_size, rows.values()), t)) for rows in known]
        for start in range(0, len(self.coef), POINTS):
            some = slice(start, start + POINTS)
            part = take(self.points, some)
            for term in self.terms:
                piece = _Piece(self, term, part, self.coef[some])
                for total, rows in zip(out, known, strict=True):
                    total += piece.worth(rows)
        return out

    def own_worth(self, known: Sequence[Mapping[int, Any]]) -> list[np.ndarray]:
        """Return the mean of k(x, x′) over rows x and x′ of the background that share values.

        That is the variance of v(S) under a process of covariance k.

        Parameters
        ----------
        known : list of dict of int to canonical collection
            For each set of groups the rows that hold the values they share, as in `worth`.

        Returns
        -------
        list of ndarray of shape (m₁, …)
            The variances.
        """
        out = [np.zeros(tuple(map(_size, rows.values()))) for rows in known]
        for term in self.terms:
            apart = term.elements(self.background, self.background)
            for total, rows in zip(out, known, strict=True):
                total += self._own_worth(term, apart, rows)
        return out

    def _own_worth(self, term: Played, apart: np.ndarray, rows: Mapping[int, Any]) -> np.ndarray:
        places = {player: p for p, player in enumerate(term.players)}
        here = {places[g] for g in rows if g in places}
        rest = term.lead()
        for p in range(len(places)):
            rest = rest if p in here else times(rest, apart[:, p])
        w = np.asarray(self.weights)
        wide = np.broadcast_to(rest, (len(rest), len(w), len(w)))
        values = np.einsum("kij,i,j->k", wide, w, w)
        for axis, (group, Z) in enumerate(rows.items()):
            values = np.broadcast_to(values[..., None], (*values.shape, _size(Z)))
            if group in places:
                p = places[group]
                A = term.element(p, partial(_diagonal, Z))
                values = times(values, A.reshape(len(A), *[1] * axis, -1))
        return np.asarray(term.scale * values[-1])


def _diagonal(Z: Any, kernel: Any, at: Places) -> np.ndarray:
    return factor_diagonal(kernel, Z, at)


@dataclass(frozen=True)
class Played:
    """A term whose factors are told by the groups that play them."""

    weight: float
    offset: float
    degree: int
    players: tuple[int, ...]
    factors: tuple[tuple[ColumnFactor, ...], ...]

    @classmethod
    def of(cls, term: Term, by_column: dict[int, int]) -> Played:
        held: dict[int, list[ColumnFactor]] = {}
        for factor in term.factors:
            held.setdefault(by_column[factor.columns[0]], []).append(factor)
        players = tuple(sorted(held))
        factors = tuple(tuple(held[p]) for p in players)
        return cls(term.weight, term.offset, term.degree, players, factors)

    @property
    def scale(self) -> float:
        """What the last coefficient of the product is multiplied by."""
        return self.weight * factorial(self.degree)

    def lead(self) -> np.ndarray:
        """Return exp(z·offset), in powers of z."""
        return exponentials(None, np.full((1, 1), self.offset), self.degree)

    def elements(self, X: Any, Y: Any) -> np.ndarray:
        """Return what each player multiplies by: (degree + 1, players, rows of X, of Y)."""
        shape = (_size(X), _size(Y))
        return self._elements(shape, lambda kernel, at: factor_values(kernel, X, Y, at))

    def diagonal(self, X: Any) -> np.ndarray:
        """Return the same of each row with itself: (degree + 1, players, rows)."""
        return self._elements((_size(X),), lambda kernel, at: factor_diagonal(kernel, X, at))

    def _elements(
        self, shape: tuple[int, ...], values: Callable[[Any, Places], np.ndarray]
    ) -> np.ndarray:
        out = np.empty((self.degree + 1, len(self.players), *shape))
        for p in range(len(self.players)):
            out[:, p] = self.element(p, values)
        return out

    def element(self, p: int, values: Callable[[Any, Places], np.ndarray]) -> np.ndarray:
        """Return what the p-th player multiplies by, in powers of z, from values of a kernel."""
        a = s = None
        for factor in self.factors[p]:
            for kernel in factor.kernels:
                value = values(kernel, factor.columns)
                a = value if a is None else a * value
            for kernel in factor.inner:
                value = values(kernel, factor.columns)
                s = value if s is None else s + value
        return exponentials(a, s, self.degree)


class _Piece:
    """One term of a game at some of the function's points."""

    def __init__(self, game: ProductGame, term: Played, points: Any, coef: np.ndarray):
        self.game, self.term, self.points = game, term, points
        self.coef = term.scale * coef
        self.nodes, self.weights = nodes_for(len(term.players))
        self._kept: list[tuple[np.ndarray, np.ndarray]] | None = None
        self._loops: list[tuple[np.ndarray, np.ndarray]] | None = None

    def removed(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return blocks of what stands for players that are left out, with their weights.

        Each is of shape (degree + 1, players, rows of the background, points).
        """
        if self._kept is not None:
            return self._kept
        game, degree = self.game, self.term.degree
        shape = (degree + 1, len(self.term.players), 1, len(self.points))
        if game.game == "baseline":
            one = np.zeros(shape)
            one[0] = 1.0
            self._kept = [(one, np.ones(1))]
            return self._kept
        marginal, b = game.game == "marginal", np.asarray(game.weights)
        if not marginal:
            require_memory(
                16 * len(b) * int(np.prod(shape)),
                f"{who()}: the game of {len(b)} rows of the background",
                "Give fewer rows as background=, some hundred, or use game='marginal'",
            )

        def block(start: int) -> tuple[np.ndarray, np.ndarray]:
            some = slice(start, start + ROWS)
            C = self.term.elements(take(game.background, some), self.points)
            if marginal:
                return np.einsum("kpbi,b->kpi", C, b[some])[:, :, None], np.ones(1)
            return C, b[some]

        self._kept = list(_each(block, range(0, len(b), ROWS)))
        if marginal:
            self._kept = [(reduce(np.add, [mean for mean, _ in self._kept]), np.ones(1))]
        return self._kept

    def worth(self, rows: Mapping[int, Any]) -> np.ndarray:
        """Return the term's part of v(S) at all combinations of rows of the groups in S."""
        places = {player: p for p, player in enumerate(self.term.players)}
        here = {places[g] for g in rows if g in places}
        values = np.zeros((self.term.degree + 1, 1, len(self.points)))
        for C, b in self.removed():
            product = self.term.lead()
            for p in range(C.shape[1]):
                product = product if p in here else times(product, C[:, p])
            wide = np.broadcast_to(product, (len(product), len(b), len(self.points)))
            values += np.einsum("kbi,b->ki", wide, b)[:, None]
        if not rows:
            return np.asarray(values[-1, 0] @ self.coef)
        for axis, (group, Z) in enumerate(rows.items()):
            shape = [len(values), *values.shape[1 : axis + 1], 1, len(self.points)]
            values = values.reshape(shape)
            if group in places:
                A = self.term.element(places[group], partial(self._values, Z))
                values = times(values, A.reshape(len(A), *[1] * axis, -1, len(self.points)))
            else:
                shape[-2] = _size(Z)
                values = np.broadcast_to(values, shape)
        return np.asarray(values[-1] @ self.coef)

    def _values(self, Z: Any, kernel: Any, at: Places) -> np.ndarray:
        return factor_values(kernel, Z, self.points, at)

    def base(self) -> np.ndarray:
        """Return the value of the empty set, Σᵢ αᵢ Π c."""
        total = np.zeros(len(self.points))
        for C, b in self.removed():
            product = self.term.lead()
            for p in range(C.shape[1]):
                product = times(product, C[:, p])
            total += b @ np.broadcast_to(product[-1], (len(b), len(self.points)))
        return np.asarray(total @ self.coef)

    def add(self, X: Any, values: np.ndarray, pairs: np.ndarray | None) -> None:
        """Add the term's shares at all rows."""
        players, count = len(self.term.players), len(self.points)
        if not players:
            return
        wide = players * count * (self.term.degree + 1)
        step = max(1, ENTRIES // wide)
        at = np.array(self.term.players)

        def work(start: int) -> None:
            some = slice(start, start + step)
            A = self.term.elements(take(X, some), self.points)
            rows = np.arange(_size(X))[some]
            own = None
            if pairs is not None:
                own = np.zeros((len(rows), len(at), len(at), self.coef.shape[1]))
            values[some, at] += self._gains(A, own) @ self.coef
            if pairs is not None:
                pairs[np.ix_(rows, at, at)] += own

        self.removed()
        if not self.term.degree:
            self._filled()  # before threads ask for it
        for _ in _each(work, range(0, _size(X), step)):
            pass

    def gains(self, X: Any) -> np.ndarray:
        """Return what each player gains of k(xᵢ, ·), without the scale: (rows, players, points)."""
        if not self.term.players:
            return np.zeros((_size(X), 0, _size(self.points)))
        return self._gains(self.term.elements(X, self.points), None)

    def _gains(self, A: np.ndarray, pairs: np.ndarray | None) -> np.ndarray:
        """Return what players gain of k(xᵢ, ·), (rows, players, points), and add pairs of f."""
        if self.term.degree:
            return self._by_series(A, pairs)
        from mercer.jit import product_pairs, product_shares

        A, coef = _padded(A[0]), self.coef
        gained = np.zeros(A.shape)
        if pairs is not None:
            coef = np.concatenate([coef, np.zeros((A.shape[2] - len(coef), coef.shape[1]))])
        for C, b in self._filled():
            product_shares(A, C, b, self.nodes, self.weights, gained)
            if pairs is not None:
                product_pairs(A, C, b, self.nodes, self.weights, coef, pairs)
        return gained[:, :, : len(self.points)]

    def _filled(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return `removed` as compiled loops take it, (rows of the background, players, points)."""
        if self._loops is None:
            self._loops = [(_padded(C[0]), b) for C, b in self.removed()]
        return self._loops

    def _by_series(self, A: np.ndarray, pairs: np.ndarray | None) -> np.ndarray:
        """Return the gains of a term of an inner product: power series in place of numbers."""
        _, players, rows, count = A.shape
        out = np.zeros((rows, players, count))
        for C_all, b_all in self.removed():
            for k in range(len(b_all)):
                C = C_all[:, :, k : k + 1]
                for t, w in zip(self.nodes, self.weights * b_all[k], strict=True):
                    mixed = C + t * (A - C)
                    after = [self.term.lead()]
                    for p in reversed(range(1, players)):
                        after.append(times(after[-1], mixed[:, p]))
                    before = exponentials(None, None, self.term.degree)
                    for p in range(players):
                        gain = times(before, A[:, p] - C[:, p])
                        out[:, p] += w * times(gain, after[players - 1 - p])[-1]
                        if pairs is not None:
                            inner = gain
                            for q in range(p + 1, players):
                                both = times(inner, A[:, q] - C[:, q])
                                both = times(both, after[players - 1 - q])[-1]
                                pairs[:, p, q] += w * (both @ self.coef)
                                inner = times(inner, mixed[:, q])
                        before = times(before, mixed[:, p])
        return out


def _each(work: Callable[[int], Any], starts: range) -> Iterator[Any]:
    """Yield what parts give, in their order, several at a time."""
    threads = min(get_config().threads, len(starts))
    if threads <= 1:
        yield from map(work, starts)
        return
    with workers(threads) as pool:
        for done in [pool.submit(inheriting(work), start) for start in starts]:
            yield done.result()


def _padded(A: np.ndarray) -> np.ndarray:
    """Return (players, rows, points) as rows first, with zeros up to full lanes of points."""
    from mercer.jit import LANE

    players, rows, count = A.shape
    out = np.zeros((rows, players, -(-count // LANE) * LANE))
    out[:, :, :count] = A.swapaxes(0, 1)
    return out


def _size(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def take(X: Any, rows: Any) -> Any:
    return X.take(rows) if isinstance(X, Table) else X[rows]


# ---- Any function, asked at mixed rows ----


class MixedRows:
    """Values of any f at rows of which some columns are those of x, the others of a background.

    Parameters
    ----------
    f : callable
        From rows to values, of shape (n, t).
    X : ndarray of shape (n, d) or Table
        The rows.
    background : ndarray or Table
        Rows that stand for what is not known.
    groups : sequence of tuples of int
        Columns that are taken together.
    """

    def __init__(
        self,
        f: Callable[[Any], np.ndarray],
        X: Any,
        background: Any,
        groups: Sequence[Places],
    ):
        self.f, self.count, self.groups = f, _size(background), groups
        tables = isinstance(X, Table)
        self.pool: Any = background.joined(X) if tables else np.concatenate([background, X])
        self.player = np.zeros(self.pool.shape[1], dtype=int)
        for g, group in enumerate(groups):
            self.player[list(group)] = g

    def __call__(self, row: int, drawn: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Return f where the known groups are those of a row, and the others of rows drawn.

        Parameters
        ----------
        row : int
            Which one of X.
        drawn : ndarray of shape (m,)
            Rows of the background.
        known : ndarray of shape (m, p) of bool
            Which groups are known.
        """
        step, parts = max(1, ENTRIES // max(1, len(self.player))), []
        for start in range(0, len(known), step):
            some = slice(start, start + step)
            from_x = known[some][:, self.player]
            index = np.where(from_x, self.count + row, drawn[some, None])
            parts.append(self.at(index))
        return np.concatenate(parts)

    def at(self, index: np.ndarray) -> np.ndarray:
        """Return f at rows whose columns come from these positions."""
        if isinstance(self.pool, Table):
            return self.f(self.pool.mixed(index))
        return self.f(np.take_along_axis(self.pool, index, axis=0))

    def whole(self, rows: np.ndarray) -> np.ndarray:
        """Return f at rows of the background, and after them those of X."""
        return self.f(take(self.pool, rows))


def asked(
    f: Callable[[Any], np.ndarray],
    X: Any,
    background: Any,
    weights: np.ndarray,
    groups: Sequence[Places],
    rng: np.random.Generator,
    interactions: bool = False,
) -> GameShares:
    """Return the shares in the game of a background for any f of points with columns.

    All mixed rows are asked where they are few; else orders are drawn, each with itself backwards,
    and rows of the background by their weights; `std` is the standard error, of the draws.

    Parameters
    ----------
    f : callable
        From rows to values, of shape (n, t).
    X : ndarray of shape (n, d) or Table
        The rows.
    background : ndarray or Table
        The rows that stand for what is not known.
    weights : ndarray
        Their weights, which sum to 1.
    groups : sequence of tuples of int
        Columns that are taken together.
    rng : Generator
        Decides the orders.
    interactions : bool, default=False
        Whether those of pairs are wanted, of few columns.
    """
    mixed, p = MixedRows(f, X, background, groups), len(groups)
    base = np.asarray(weights @ mixed.whole(np.arange(mixed.count)))
    if 2**p * mixed.count <= (MOST if interactions else ENOUGH):
        return _all_subsets(mixed, _size(X), weights, base, interactions)
    if interactions:
        raise InvalidInput(
            f"{who()}: interactions of {p} columns need all of their subsets for a model whose "
            "kernel is no product; give fewer columns together, by groups=, fewer rows of the "
            "background, or interactions=False."
        )
    return _orders(mixed, _size(X), weights, base, rng)


def _all_subsets(
    mixed: MixedRows, n: int, weights: np.ndarray, base: np.ndarray, interactions: bool
) -> GameShares:
    p, t, count = len(mixed.groups), len(base), mixed.count
    known = ((np.arange(2**p)[:, None] >> np.arange(p)) & 1).astype(bool)
    sizes = known.sum(axis=1)
    told, drawn = np.repeat(known, count, axis=0), np.tile(np.arange(count), 2**p)
    values = np.zeros((n, p, t))
    pairs = np.zeros((n, p, p, t)) if interactions else None
    for i in range(n):
        found = mixed(i, drawn, told).reshape(2**p, count, t)
        worth = np.einsum("sbt,b->st", found, weights)
        for j in range(p):
            without = np.flatnonzero(~known[:, j])
            share = 1.0 / (p * np.array([comb(p - 1, s) for s in sizes[without]]))
            values[i, j] = share @ (worth[without | (1 << j)] - worth[without])
            for k in range(j + 1, p if pairs is not None else 0):
                free = without[~known[without, k]]
                share = 1.0 / ((p - 1) * np.array([comb(p - 2, s) for s in sizes[free]]))
                both = worth[free | (1 << j) | (1 << k)] - worth[free | (1 << j)]
                pairs[i, j, k] = share @ (both - worth[free | (1 << k)] + worth[free])  # type: ignore[index]
    if pairs is not None:
        pairs += pairs.swapaxes(1, 2)
    return GameShares(values, base, pairs)


def _orders(
    mixed: MixedRows, n: int, weights: np.ndarray, base: np.ndarray, rng: np.random.Generator
) -> GameShares:
    p, t, half, count = len(mixed.groups), len(base), ORDERS // 2, mixed.count
    values, std = np.zeros((n, p, t)), np.zeros((n, p, t))
    at_x = mixed.whole(count + np.arange(n))
    at_b = mixed.whole(np.arange(count))
    # Rows of the background in turn, as their weights say, so that each counts as it should.
    places = (np.arange(half) + rng.random()) / half
    for i in range(n):
        orders = np.array([rng.permutation(p) for _ in range(half)])
        drawn = np.searchsorted(np.cumsum(weights), places * weights.sum(), side="right")
        drawn = rng.permutation(np.minimum(drawn, count - 1))
        gains = np.zeros((half, p, t))
        for turned in (orders, orders[:, ::-1]):
            rank = np.argsort(turned, axis=1)
            known = (rank[:, None, :] <= np.arange(p - 1)[None, :, None]).reshape(-1, p)
            between = mixed(i, np.repeat(drawn, p - 1), known).reshape(half, p - 1, t)
            ends = at_b[drawn][:, None], np.broadcast_to(at_x[i], (half, 1, t))
            step = np.diff(np.concatenate([ends[0], between, ends[1]], axis=1), axis=1)
            np.put_along_axis(
                gains,
                turned[:, :, None],
                np.take_along_axis(gains, turned[:, :, None], 1) + 0.5 * step,
                axis=1,
            )
        values[i] = gains.mean(axis=0)
        std[i] = gains.std(axis=0, ddof=1) / half**0.5
        # The gains of an order add up to f(x) − f(b): what the draw of b left over is shared out.
        left = at_x[i] - base - values[i].sum(axis=0)
        values[i] += left / p
    return GameShares(values, base, None, std)


def host_rows(X: Any) -> Any:
    """Return rows of numbers in main memory; other points as they are."""
    return to_host(X) if is_torch(X) else X
