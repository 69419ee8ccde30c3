"""`Explanation`: the shares of columns in values of a function, that add up to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from mercer.domains import (
    IncompleteVectors,
    Numbers,
    Table,
    Tables,
    Vectors,
    is_torch,
    to_host,
)
from mercer.errors import InvalidInput, who
from mercer.kernels import NoProduct, Terms, groups_of, terms_of
from mercer.rkhs.features import check_weights
from mercer.rkhs.games import GAMES, GameShares, Places, ProductGame, asked, host_rows

FEW = 500  # rows of a background that nobody gave, for the marginal game
FEWER = 100  # and for the game of a background


#: By how much rows lower the variances of functionals ℓ of a process, from ℓ(k(xᵢ, ·)), a column
#: for each, and ℓ(xⱼ), a row for each, or None; and the scale of each output.
Posterior = tuple[Callable[[np.ndarray, np.ndarray | None], np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Explanation:
    r"""Shares of columns in values f(x): :math:`f(x) = \text{base} + \sum_j \varphi_j(x)`.

    Names and shapes are those that plots of shap take; `to_shap` makes the object that they ask
    for.

    Parameters
    ----------
    values : ndarray of shape (n, p) or (n, p, t)
        The share φⱼ of each column, or group of columns, in each row; t outputs.
    base : float or ndarray of shape (t,)
        What f is worth when nothing is known.
    columns : tuple of str
        The names of the p columns or groups.
    data : ndarray of shape (n, p)
        What the rows hold.
    std : ndarray of the shape of `values`, optional
        Standard deviations: of the posterior, for a Gaussian process; else standard errors where
        orders of the columns were drawn.
    interactions : ndarray of shape (n, p, p) or (n, p, p, t), optional
        Half of what two columns do together in each of both places, and on the diagonal what a
        column does alone: a row adds up to its share.
    game : str, default="marginal"
        Which one it is.
    error : float, default=0.0
        By how much values may be off, where a kernel was taken as a mixture of products.
    outputs : tuple of str, optional
        The names of t outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Function, Linear
    >>> f = Function(Linear(), [[1.0, 2.0]], [1.0])  # x₁ + 2x₂
    >>> told = f.explain([[3.0, 1.0]], background=[[0.0, 0.0], [2.0, 0.0]])
    >>> told.values, told.base
    (array([[2., 2.]]), 1.0)
    >>> told.columns
    ('x0', 'x1')
    """

    values: np.ndarray
    base: Any
    columns: tuple[str, ...]
    data: np.ndarray
    std: np.ndarray | None = None
    interactions: np.ndarray | None = None
    game: str = "marginal"
    error: float = 0.0
    outputs: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Explanation:
        """Return the explanation of some rows; an output is chosen by `output`."""
        rows = np.atleast_1d(np.arange(len(self))[rows])
        some: dict[str, Any] = {
            name: None if (part := getattr(self, name)) is None else part[rows]
            for name in ("values", "data", "std", "interactions")
        }
        return replace(self, **some)

    def __add__(self, other: Explanation) -> Explanation:
        """Return the explanation of a sum of functions, at the same rows in the same game."""
        if not isinstance(other, Explanation):
            return NotImplemented
        told = (self.columns, self.game, self.values.shape)
        if told != (other.columns, other.game, other.values.shape):
            raise InvalidInput(
                f"Explanation: {self!r} and {other!r} are not of the same rows, columns and game."
            )
        both = (self.interactions, other.interactions)
        return replace(
            self,
            values=self.values + other.values,
            base=self.base + other.base,
            std=None,  # of a sum it is not known
            interactions=None if both[0] is None or both[1] is None else both[0] + both[1],
            error=self.error + other.error,
        )

    def __mul__(self, factor: Any) -> Explanation:
        """Return the explanation of a multiple of the function."""
        if not isinstance(factor, Real):
            return NotImplemented
        factor = float(factor)
        size = abs(factor)
        return replace(
            self,
            values=factor * self.values,
            base=factor * self.base,
            std=None if self.std is None else size * self.std,
            interactions=None if self.interactions is None else factor * self.interactions,
            error=size * self.error,
        )

    __rmul__ = __mul__

    @property
    def base_values(self) -> np.ndarray:
        """`base`, for each row."""
        return np.broadcast_to(self.base, (len(self), *np.shape(self.base))).copy()

    @property
    def feature_names(self) -> list[str]:
        """`columns`, as shap calls them."""
        return list(self.columns)

    @property
    def totals(self) -> np.ndarray:
        """f(x), which base and shares add up to."""
        return np.asarray(self.base + self.values.sum(axis=1))

    @property
    def importances(self) -> np.ndarray:
        """Mean |φⱼ| over the rows, shape (p,) or (p, t)."""
        return np.abs(self.values).mean(axis=0)

    @property
    def importances_std(self) -> np.ndarray:
        """Standard errors of `importances`, as rows are a sample; NaN of one row."""
        n = len(self)
        if n < 2:
            return np.full(self.values.shape[1:], np.nan)
        return np.asarray(np.abs(self.values).std(axis=0, ddof=1) / np.sqrt(n))

    def output(self, which: int | str) -> Explanation:
        """Return the explanation of one output.

        Parameters
        ----------
        which : int or str
            Its position or name.
        """
        if self.values.ndim == 2:
            raise InvalidInput("Explanation.output: there is one output only.")
        names = self.outputs or ()
        if isinstance(which, str) and which not in names:
            raise InvalidInput(
                f"Explanation.output: no output {which!r}; there are {', '.join(names)}."
            )
        k = names.index(which) if isinstance(which, str) else int(which)
        pick: dict[str, Any] = {
            name: None if (part := getattr(self, name)) is None else part[..., k]
            for name in ("values", "std", "interactions")
        }
        return replace(self, **pick, base=float(self.base[k]), outputs=None)

    def top(self, row: int = 0, count: int = 5) -> list[tuple[str, Any, float]]:
        """Return the columns that matter most to a row, with what it holds and their shares.

        Parameters
        ----------
        row : int, default=0
            The row.
        count : int, default=5
            How many columns.
        """
        if self.values.ndim == 3:
            raise InvalidInput("Explanation.top: choose an output first, by output(name).")
        order = np.argsort(-np.abs(self.values[row]), kind="stable")[:count]
        return [(self.columns[j], self.data[row, j], float(self.values[row, j])) for j in order]

    def plot(self, kind: str = "waterfall", *, row: int = 0, **options: Any) -> Any:
        """Draw the shares; matplotlib is needed.

        Parameters
        ----------
        kind : {"waterfall", "bar", "beeswarm"}, default="waterfall"
            From the base to the value of one row; means of |φⱼ| over the rows; or a dot for each
            row and column, coloured by what the row holds.
        row : int, default=0
            The row of a waterfall.
        **options
            Keywords of `mercer.plot.ExplanationDisplay.from_explanation`.

        Returns
        -------
        ExplanationDisplay
            What was drawn.
        """
        from mercer.plot import ExplanationDisplay

        return ExplanationDisplay.from_explanation(self, kind, row=row, **options)

    def to_shap(self) -> Any:
        """Return it as a ``shap.Explanation``, which shap's plots ask for; shap is needed."""
        try:
            from shap import Explanation as Shap
        except ImportError as error:
            raise ImportError(
                "Explanation.to_shap: shap is not installed; the plots of mercer need it not."
            ) from error
        return Shap(
            self.values,
            self.base_values,
            self.data,
            feature_names=self.feature_names,
            output_names=None if self.outputs is None else list(self.outputs),
        )

    def __repr__(self) -> str:
        n, p, *t = self.values.shape
        outputs = f", {t[0]} outputs" if t else ""
        return f"Explanation({n} rows, {p} columns{outputs}, game={self.game!r})"


def explain(
    f: Any,
    X: Any,
    *,
    game: str = "marginal",
    background: Any = None,
    background_weight: Any = None,
    interactions: bool = False,
    groups: Any = None,
    columns: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    random_state: int = 0,
    slopes: np.ndarray | None = None,
    posterior: Posterior | None = None,
) -> Explanation:
    """Return the shares of columns in values of a function; see `Function.explain`.

    Of a process `slopes` (d, t) are those of its mean, and `posterior` tells deviations.
    """
    if game not in GAMES:
        legal = ", ".join(map(repr, GAMES))
        raise InvalidInput(f"{who()}: game={game!r}; legal: {legal}.")
    X, points = rows_with_columns(f, X)
    count = points.shape[1]
    names = tuple(points.names) if isinstance(points, Table) else None
    called = _names(columns, names, count)
    together = _together(groups, called)
    try:
        terms = terms_of(f.kernel, count, names)
    except NoProduct as refused:
        if game != "background" or not isinstance(X, np.ndarray):
            raise InvalidInput(_no_product(refused)) from refused
        terms = None
    coef = to_host(f.coef).astype(np.float64).reshape(len(f), f.n_outputs)
    behind: Any = None
    weights: Any = None
    if game != "baseline":
        behind, weights = _background(f, points, background, background_weight, game)
    error, players = 0.0, together
    if terms is None:
        players = _all(together, count)
        found = asked(
            lambda Z: np.asarray(f(Z), dtype=np.float64).reshape(len(Z), -1) - f.offset,
            X,
            behind,
            weights,
            players,
            np.random.default_rng(random_state),
            interactions,
        )
    else:
        players = groups_of(terms, count, together)
        played = ProductGame(terms, players, points, coef, game, behind, weights)
        found = played.shares(X, interactions)
        if posterior is not None and game != "baseline":
            found = replace(found, std=_deviations(played, X, posterior))
        error = terms.error * float(np.abs(coef).sum(axis=0).max(initial=0.0))
    if slopes is not None:
        found = _with_line(found, slopes, X, behind, weights, players)
    return _told(f, X, found, players, called, game, error, outputs)


def explain_answers(
    answers: Callable[[Any], Any],
    X: Any,
    background: Any,
    *,
    background_weight: Any = None,
    interactions: bool = False,
    groups: Any = None,
    outputs: Sequence[str] | None = None,
    random_state: int = 0,
) -> Explanation:
    """Return the shares of columns in answers of any model, which is asked at mixed rows.

    Parameters
    ----------
    answers : callable
        From a table, or rows of numbers if X are such, to n values or values of shape (n, t).
    X : data frame, Table, dict of columns or 2-D array
        The rows.
    background : the same
        Rows that stand for what is not known.
    background_weight : array, optional
        Their weights.
    interactions : bool, default=False
        Whether those of pairs are wanted.
    groups : list of lists of columns, optional
        Columns that share as one.
    outputs : sequence of str, optional
        The names of t outputs.
    random_state : int, default=0
        Decides the orders of columns, where they are drawn.
    """
    if background is None:
        raise InvalidInput(
            f"{who()}: a table model keeps no rows, so background=None cannot stand for them; give "
            "rows such as those of the fit, some hundred of them."
        )
    X, B = _as_columns(X, "X"), _as_columns(background, "background")
    if isinstance(X, Table) and isinstance(B, Table) and set(X.names) == set(B.names):
        B = B.select(X.names) if X.named else B
    elif type(X) is not type(B) or X.shape[1] != B.shape[1]:
        raise InvalidInput(
            f"{who()}: background has other columns than X; give rows of the same table."
        )
    count = X.shape[1]
    called = _names(None, X.names if isinstance(X, Table) and X.named else None, count)
    players = _all(_together(groups, called), count)
    weights, column = check_weights(background_weight, len(B)), np.ndim(answers(X[:1])) == 1

    def asked_for(Z: Any) -> np.ndarray:
        return np.asarray(answers(Z), dtype=np.float64).reshape(len(Z), -1)

    rng = np.random.default_rng(random_state)
    found = asked(asked_for, X, B, weights, players, rng, interactions)
    zero = np.zeros(()) if column else np.zeros(found.values.shape[2])
    return _shown(zero, column, X, found, players, called, "background", 0.0, outputs)


def _as_columns(X: Any, name: str) -> Any:
    """Return rows of numbers as an array, other tables as a `Table`."""
    if isinstance(X, Table):
        return X
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "fiub":
        return X
    if isinstance(X, list | np.ndarray) or is_torch(X):
        rows = np.asarray(to_host(X))
        if rows.ndim != 2:
            raise InvalidInput(f"{who()}: {name} has {rows.ndim} axes; give rows and columns.")
        return rows if rows.dtype.kind in "fiub" else Table.from_rows(rows)
    return Table.from_frame(X, name)


def _moved(
    X: np.ndarray, behind: np.ndarray | None, weights: np.ndarray | None, players: list[Places]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of the background, and how far from it each player moves each column.

    The second has shape (n, p, d).
    """
    mean = np.zeros(X.shape[1]) if behind is None or weights is None else weights @ behind
    moved = np.zeros((len(X), len(players), X.shape[1]))
    for p, group in enumerate(players):
        columns = list(group)
        moved[:, p, columns] = X[:, columns] - mean[columns]
    return mean, moved


def _with_line(
    found: GameShares,
    slopes: np.ndarray,
    X: np.ndarray,
    behind: np.ndarray | None,
    weights: np.ndarray | None,
    players: list[Places],
) -> GameShares:
    """Return shares of f and of a line, whose shares are those of its slopes."""
    mean, moved = _moved(X, behind, weights, players)
    lines = slopes.reshape(len(slopes), -1)
    return replace(found, values=found.values + moved @ lines, base=found.base + mean @ lines)


def _deviations(played: ProductGame, X: Any, posterior: Posterior) -> np.ndarray:
    """Return posterior standard deviations of shares, (n, p, t)."""
    lines = isinstance(X, np.ndarray)
    moved = _moved(X, played.background, played.weights, played.groups)[1] if lines else None

    known, scale = posterior

    def explained(sections: np.ndarray, rows: slice) -> np.ndarray:
        return known(sections, None if moved is None else moved[rows].reshape(-1, moved.shape[2]))

    return np.sqrt(played.variances(X, explained))[:, :, None] * scale


def players_of(
    terms: Terms, count: int, columns: Sequence[str] | None, groups: Any
) -> tuple[list[Places], tuple[str, ...]]:
    """Return the groups of columns that share, which no factor divides, and what they are called.

    Parameters
    ----------
    terms : Terms
        The kernel.
    count : int
        How many columns there are.
    columns : sequence of str or None
        Their names.
    groups : sequence of sequences of columns, dict of name to columns, or None
        Columns, by name or position, that share as one.
    """
    called = _names(columns, None, count)
    given = groups if isinstance(groups, dict) else None
    together = _together(groups if given is None else given.values(), called)
    players = groups_of(terms, count, together)
    named = {} if given is None else dict(zip(together, map(str, given), strict=True))
    told = (named.get(g) or " & ".join(called[i] for i in g) for g in players)
    return players, tuple(told)


def _told(
    f: Any,
    X: Any,
    found: GameShares,
    players: list[Places],
    called: tuple[str, ...],
    game: str,
    error: float,
    outputs: Sequence[str] | None,
) -> Explanation:
    return _shown(
        np.asarray(f.offset), f.coef.ndim == 1, X, found, players, called, game, error, outputs
    )


def _shown(
    offset: np.ndarray,
    single: bool,
    X: Any,
    found: GameShares,
    players: list[Places],
    called: tuple[str, ...],
    game: str,
    error: float,
    outputs: Sequence[str] | None,
) -> Explanation:
    pairs = found.pairs
    if pairs is not None:
        pairs = 0.5 * pairs
        alone = found.values - pairs.sum(axis=2)
        at = np.arange(len(players))
        pairs[:, at, at] = alone
    base = found.base + offset

    def shaped(part: np.ndarray | None) -> Any:
        return None if part is None else part[..., 0] if single else part

    return Explanation(
        shaped(found.values),
        float(base[0]) if single else base,
        tuple(" & ".join(called[i] for i in group) for group in players),
        _data(X, players),
        shaped(found.std),
        shaped(pairs),
        game,
        error,
        None if single or outputs is None else tuple(map(str, outputs)),
    )


def rows_with_columns(f: Any, X: Any) -> tuple[Any, Any]:
    """Return rows to explain and points, both as arrays or as tables of the same columns.

    Parameters
    ----------
    f : Function
        Its kernel and its points.
    X : collection
        The rows.
    """
    domain = f.kernel.domain
    legal = isinstance(domain, Vectors | IncompleteVectors | Numbers | Tables)
    if not domain.holds_points or not legal:
        what = domain.name if domain.holds_points else "a Gram matrix"
        raise InvalidInput(
            f"{who()}: explanations share values among columns, and the points are {what}, which "
            "have none; put the kernel on a column of a table, k.on('name')."
        )
    X, points = domain.match(domain.check(X), f.points)
    X, points = host_rows(X), host_rows(points)
    X, points = (Z.toarray() if hasattr(Z, "toarray") else Z for Z in (X, points))
    if isinstance(points, Table):
        return (X.select(points.names) if points.named else X), points
    wide = (np.asarray(Z, dtype=np.float64) for Z in (X, points))
    X, points = (Z[:, None] if Z.ndim == 1 else Z for Z in wide)
    return X, points


def _names(
    columns: Sequence[str] | None, names: tuple[str, ...] | None, count: int
) -> tuple[str, ...]:
    told = names if columns is None else tuple(map(str, columns))
    if told is None or len(told) != count:
        told = tuple(f"x{j}" for j in range(count))
    return told


def _together(groups: Any, called: tuple[str, ...]) -> list[Places]:
    """Return groups that the user gave, as positions."""
    if groups is None:
        return []
    out = []
    for group in groups:
        places = []
        for column in [group] if isinstance(group, str | int | np.integer) else group:
            if isinstance(column, str):
                if column not in called:
                    raise InvalidInput(
                        f"{who()}: groups names a column {column!r}; there are {', '.join(called)}."
                    )
                places.append(called.index(column))
            elif not 0 <= int(column) < len(called):
                raise InvalidInput(
                    f"{who()}: groups names column {column}; there are 0 to {len(called) - 1}."
                )
            else:
                places.append(int(column))
        out.append(tuple(sorted(places)))
    taken = [j for group in out for j in group]
    if len(set(taken)) < len(taken):
        raise InvalidInput(f"{who()}: groups names a column twice.")
    return out


def _all(together: list[Places], count: int) -> list[Places]:
    """Return the groups, and each other column by itself."""
    held = {j for group in together for j in group}
    return sorted(together + [(j,) for j in range(count) if j not in held])


def _background(
    f: Any, points: Any, background: Any, weight: Any, game: str
) -> tuple[Any, np.ndarray]:
    """Return rows that stand for what is not known, and weights that sum to 1."""
    if background is None:
        n, most = len(f), FEW if game == "marginal" else FEWER
        if n == 0:
            raise InvalidInput(
                f"{who()}: the model keeps no points, which would be the background; give one."
            )
        some = np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(int)
        rows = points.take(some) if isinstance(points, Table) else points[some]
        return rows, np.full(min(n, most), 1.0 / min(n, most))
    domain = f.kernel.domain
    try:
        B, _ = domain.match(domain.check(background, "background"), f.points)
        B, _ = rows_with_columns(f, background)
    except InvalidInput as error:
        raise InvalidInput(f"{who()}: background: {error}") from error
    width = B.shape[1]
    if width != points.shape[1]:
        raise InvalidInput(
            f"{who()}: background has {width} columns, and the model {points.shape[1]}; give rows "
            "such as those of the fit."
        )
    return B, check_weights(weight, B.shape[0])


def _data(X: Any, players: list[Places]) -> np.ndarray:
    columns = list(X.columns) if isinstance(X, Table) else list(X.T)
    if all(len(group) == 1 for group in players) and isinstance(X, np.ndarray):
        return X[:, [group[0] for group in players]]
    out = np.empty((X.shape[0], len(players)), dtype=object)
    for p, group in enumerate(players):
        if len(group) == 1:
            out[:, p] = list(columns[group[0]])
        else:
            out[:, p] = [tuple(row) for row in zip(*(columns[j] for j in group), strict=True)]
    return out


def _no_product(error: NoProduct) -> str:
    return (
        f"{who()}: {error} is no sum of products over columns, so that columns have no shares "
        "of it in closed form; give game='background', which asks the model at mixed rows, or fit "
        "a product over columns: RBF, Laplacian, Matern with a length scale each, or parts put on "
        "their columns by .on(...)."
    )
