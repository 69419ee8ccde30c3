"""`effects`: how a model's answer depends on one column, on two, and what share of it each has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mercer.checks import check_index
from mercer.domains import Table, Tables, to_host
from mercer.errors import InvalidInput, speaks
from mercer.estimator import check_weights, new_points, posterior_of
from mercer.explain.components import (
    FunctionParts,
    Key,
    Places,
    accumulated,
    chosen_rows,
    grid_values,
    product_shares,
    take,
)
from mercer.kernels import NoProduct, Terms, are_effects, groups_of, terms_of
from mercer.rkhs import Function, ProductGame, rows_with_columns

KINDS = ("components", "partial", "accumulated")
FEW = 500  # rows of a background that nobody gave
ROWS = 256  # rows of a background at a time


@dataclass(frozen=True, eq=False)
class Effect:
    """The effect of one column, or of two together.

    Parameters
    ----------
    columns : tuple of str
        The columns.
    grid : tuple of ndarray
        The values of each at which the effect is told.
    values : ndarray of shape (m₁, …) or (m₁, …, t)
        The effect at all combinations of them; t outputs.
    std : ndarray of the shape of `values`, optional
        Standard deviations of the posterior, for a Gaussian process.
    share : float or ndarray of shape (t,), optional
        The share of the variance of f that is due to the effect alone.
    """

    columns: tuple[str, ...]
    grid: tuple[np.ndarray, ...]
    values: np.ndarray
    std: np.ndarray | None = None
    share: Any = None

    def __repr__(self) -> str:
        size = "×".join(str(len(g)) for g in self.grid)
        share = "" if np.ndim(self.share) or self.share is None else f", share={self.share:.3f}"
        return f"Effect({' & '.join(self.columns)}, {size} values{share})"


@dataclass(frozen=True, eq=False)
class Effects:
    r"""Effects of the columns on what a model says.

    Parameters
    ----------
    effects : tuple of Effect
        The effects; components in the order of their shares.
    constant : float or ndarray of shape (t,)
        Of components the constant, of others the mean of f over the rows.
    kind : {"components", "partial", "accumulated"}
        What is told.
    columns : tuple of str
        The names of all columns, or groups of columns that the kernel takes together.
    variance : float or ndarray of shape (t,), optional
        That of f, its columns taken as independent.
    first, total : ndarray of shape (p,) or (p, t), optional
        Sobol's indices: the share of the variance that a column has alone, and that in which it
        has a part. None where the kernel is no product over columns, or there are too many points.
    error : float, default=0.0
        By how much values may be off, where a kernel was taken as a mixture of products.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, Additive, KernelRidge, effects
    >>> X = np.random.default_rng(0).uniform(-1, 1, (80, 3))
    >>> model = KernelRidge(Additive(RBF())).fit(X, 2 * X[:, 0] + X[:, 1] * X[:, 2])
    >>> told = effects(model)
    >>> [effect.columns for effect in told.carrying(0.99)]
    [('x0',), ('x1', 'x2')]
    >>> bool(np.allclose(told.constant + told.at(X).sum(axis=1), model.predict(X)))
    True
    """

    effects: tuple[Effect, ...]
    constant: Any
    kind: str
    columns: tuple[str, ...]
    variance: Any = None
    first: np.ndarray | None = None
    total: np.ndarray | None = None
    error: float = 0.0
    _parts: Any = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.effects)

    def __iter__(self) -> Iterator[Effect]:
        return iter(self.effects)

    def __getitem__(self, which: int | str | tuple[str, ...]) -> Effect:
        """Return an effect by its position, its column, or its columns in any order."""
        if isinstance(which, int | np.integer):
            return self.effects[which]
        wanted = {which} if isinstance(which, str) else set(which)
        for effect in self.effects:
            if set(effect.columns) == wanted:
                return effect
        told = ", ".join(" & ".join(e.columns) for e in self.effects[:9])
        raise InvalidInput(f"Effects: there is no effect of {which!r}; there are {told}.")

    def plot(self, **options: Any) -> Any:
        """Draw the effects: curves with their bands, and surfaces; matplotlib is needed.

        Parameters
        ----------
        **options
            Keywords of `mercer.plot.EffectsDisplay.from_effects`.

        Returns
        -------
        EffectsDisplay
            What was drawn.
        """
        from mercer.plot import EffectsDisplay

        return EffectsDisplay.from_effects(self, **options)

    def carrying(self, share: float = 0.95) -> tuple[Effect, ...]:
        """Return the fewest effects that carry a share of the variance.

        Parameters
        ----------
        share : float, default=0.95
            The share of the variance of f, at most 1; of several outputs that of their sum.
        """
        if self.kind != "components":
            raise InvalidInput(
                f"Effects.carrying: effects of the kind {self.kind!r} do not add up; fit a model "
                "with the kernel Additive, whose components do."
            )
        scale = np.sum(self.variance)
        parts = [np.sum(e.share * self.variance) / (scale or 1.0) for e in self.effects]
        held = np.cumsum(parts)
        return self.effects[: int(np.searchsorted(held, share * (1 - 1e-12))) + 1]

    def at(self, X: Any) -> np.ndarray:
        """Return the components at rows, which add up to f, beside the constant.

        Parameters
        ----------
        X : collection of n points
            The rows.

        Returns
        -------
        ndarray of shape (n, len(self)) or (n, len(self), t)
            One column for each effect, in their order.
        """
        if self._parts is None:
            raise InvalidInput(
                f"Effects.at: effects of the kind {self.kind!r} do not add up to f; fit a model "
                "with the kernel Additive, whose components do."
            )
        f, components, keys = self._parts
        rows, _ = rows_with_columns(f, X)
        values = components.at(rows, keys)
        return values[..., 0] if f.coef.ndim == 1 else values

    def __repr__(self) -> str:
        told = ", ".join(" & ".join(e.columns) for e in self.effects[:4])
        more = f" and {len(self) - 4} more" if len(self) > 4 else ""
        return f"Effects({self.kind}: {told}{more})"


@speaks("effects")
def effects(
    model: Any,
    X: Any = None,
    columns: Any = None,
    *,
    kind: str | None = None,
    grid: int = 40,
    weight: Any = None,
) -> Effects:
    r"""Return how a model's answer depends on its columns: curves, surfaces and shares of variance.

    *Components*, of models whose kernel is made of `Additive`: the parts of f themselves,

    .. math:: f(x) = f_0 + \sum_j f_j(x_j) + \sum_{j<l} f_{jl}(x_j, x_l) + \dots,

    which add up to what the model says, row by row. Each has mean zero in each of its columns, so
    their variances add up to that of f, and the share of an effect is its Sobol index. They are
    independent of what else is asked.

    *Partial dependence*, of every other model: the mean of f over the rows, with the columns set to
    the values of the grid (Friedman 2001). For kernels that are sums of products over columns that
    is a sum of products with means, and exact; any other model is asked at the changed rows.
    *Accumulated local effects*: the mean slope of f at rows near each value, added up from left to
    right (Apley & Zhu 2020). No row is changed, so that correlated columns mislead less; for
    numbers and kernels with a gradient.

    Of Gaussian process regressions components and partial dependence have the standard deviations
    of the posterior.

    Parameters
    ----------
    model : estimator or Function
        A fitted model; one without a function in a kernel's space is asked by `predict`.
    X : collection of n points, optional
        Rows over which means are taken, from whose values the grids are chosen. By default the
        points that the model keeps, 500 of them at most.
    columns : list, optional
        What to tell, by names or positions: a column, or a tuple of two for both together. By
        default every column; of components, all of them.
    kind : {"components", "partial", "accumulated"}, optional
        By default components where there are such, else partial dependence.
    grid : int, default=40
        How many values of a column; of two together about half as many each. They are values that
        occur, at equal distances in rank; of categories the most frequent ones.
    weight : array of shape (n,), optional
        Weights of the rows; a weight of 2 is a row that occurs twice.

    Returns
    -------
    Effects
        The effects, with ``first`` and ``total`` shares of the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, KernelRidge, effects
    >>> X = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    >>> model = KernelRidge(RBF(), alpha=1e-6).fit(X, X[:, 0] ** 2 + X[:, 1])
    >>> told = effects(model, X)
    >>> told["x1"].values[[0, -1]].round(1)  # from the smallest value to the largest
    array([-0.7,  1.3])
    """
    check_index(grid, "grid", 2)
    if kind is not None and not (isinstance(kind, str) and kind in KINDS):
        raise InvalidInput(f"effects: kind={kind!r}; legal: {', '.join(map(repr, KINDS))}.")
    f = model if isinstance(model, Function) else getattr(model, "function_", None)
    if f is None:
        if isinstance(model, BaseEstimator):
            check_is_fitted(model)
        if kind in ("components", "accumulated"):
            raise InvalidInput(
                f"effects: kind={kind!r} needs a model with a function of a kernel, and "
                f"{type(model).__name__} has none; take kind='partial'."
            )
        return _asked(_Respondent(model, X, weight), columns, grid)
    told = _Told(model, f, X, weight)
    if kind is None:
        kind = "components" if told.terms is not None and are_effects(told.terms) else "partial"
    if kind == "components":
        return _components(told, columns, grid)
    if kind == "accumulated":
        return _accumulated(told, columns, grid)
    return _partial(told, columns, grid)


# ---- The rows, their columns and the values that are looked at ----


class _Told:
    """A function, rows with their weights, and the names of the columns."""

    def __init__(self, model: Any, f: Function, X: Any, weight: Any):
        self.model, self.f = model, f
        if not len(f):
            raise InvalidInput("effects: the model keeps no points, so there is nothing to tell.")
        if X is None and weight is not None:
            raise InvalidInput("effects: weight is of the rows X; give both, or none.")
        given = f.points if X is None else X
        if model is not f and X is not None:
            given = new_points(model, X)
        self.rows, self.points = rows_with_columns(f, given)
        if X is None and self.rows.shape[0] > FEW:
            self.rows = take(self.rows, np.linspace(0, self.rows.shape[0] - 1, FEW).astype(int))
        self.weights = _shares(weight, self.rows.shape[0])
        there = np.flatnonzero(self.weights > 0)
        if len(there) < len(self.weights):
            self.rows, self.weights = take(self.rows, there), self.weights[there]
        self.coef = to_host(f.coef).astype(np.float64).reshape(len(f), f.n_outputs)
        self.single = f.coef.ndim == 1
        count = self.points.shape[1]
        own = tuple(self.points.names) if isinstance(self.points, Table) else None
        named = getattr(model, "feature_names_in_", own)
        named = named if named is not None and len(named) == count else range(count)
        self.names = tuple(n if isinstance(n, str) else f"x{n}" for n in named)
        self.posterior = posterior_of(model)
        self.terms: Terms | None = None
        try:
            self.terms = terms_of(f.kernel, count, own)
        except NoProduct as error:
            self.refused = error
        self.error = 0.0
        if self.terms is not None:
            self.error = self.terms.error * float(np.abs(self.coef).sum(axis=0).max())

    def shaped(self, values: Any) -> Any:
        """Return values of t outputs, or of the one that there is."""
        values = np.asarray(values)
        if not self.single:
            return values
        return float(values[0]) if values.ndim == 1 else values[..., 0]

    def called(self, places: Places) -> str:
        """Return the name of a column, or of several that are one group."""
        return " & ".join(self.names[i] for i in places)

    def std(self, variance: np.ndarray, cross: np.ndarray, constant: float) -> Any:
        """Return the posterior deviations of linear functionals of f, None where there are none.

        Parameters
        ----------
        variance : ndarray of shape (m₁, …)
            Those under the kernel.
        cross : ndarray of shape (m₁, …, n)
            The functionals of the kernel with each point.
        constant : float
            What they make of the constant 1.
        """
        explained, scale = self.posterior
        known = explained(cross.reshape(-1, cross.shape[-1]).T.copy(), None, constant)
        left = np.maximum(variance.ravel() - known, 0.0)
        std = np.sqrt(left)[:, None] * scale
        return self.shaped(std.reshape(*variance.shape, -1))

    def refuse_slopes(self) -> None:
        """Refuse a model whose mean has a part that is not in the function."""
        if getattr(self.model, "mean_coef_", None) is not None:
            raise InvalidInput(
                "effects: the mean of the process is linear, which is no part of its kernel; fit "
                "with mean='constant', or add Linear() to the kernel."
            )


def _shares(weight: Any, n: int) -> np.ndarray:
    w = check_weights(weight, n)
    return np.full(n, 1.0 / n) if w is None else w / w.sum()


def _wanted(columns: Any, groups: Sequence[Places], names: Sequence[str]) -> list[Key]:
    """Return what a user asked for, as groups of positions; each column by default."""
    if columns is None:
        return [(group,) for group in groups]
    alone = (str, int, np.integer)
    if isinstance(columns, alone):
        columns = [columns]
    odd = isinstance(columns, bool | dict | bytes) or not isinstance(columns, Iterable)
    if odd or (isinstance(columns, np.ndarray) and columns.ndim == 0):
        raise InvalidInput(f"effects: columns={columns!r}; give a list of names or positions.")
    place = {j: group for group in groups for j in group}
    out: list[Key] = []
    for one in columns:
        parts: Any = [one] if isinstance(one, alone) else one
        listed = isinstance(parts, list | tuple) and 1 <= len(parts) <= 2
        if not listed or not all(isinstance(p, alone) and p is not True for p in parts):
            raise InvalidInput(f"effects: columns={one!r}; give a column, or a tuple of two.")
        found = []
        for part in parts:
            if isinstance(part, str):
                if part not in names:
                    raise InvalidInput(
                        f"effects: no column {part!r}; there are {', '.join(names)}."
                    )
                part = list(names).index(part)
            if not 0 <= int(part) < len(names):
                raise InvalidInput(f"effects: no column {part}; there are 0 to {len(names) - 1}.")
            found.append(place[int(part)])
        if len(set(found)) < len(found):
            raise InvalidInput(f"effects: columns={one!r} are one; give two different columns.")
        out.append(tuple(sorted(found)))
    return out


def _sizes(key: Key, grid: int) -> int:
    return grid if len(key) == 1 else max(2, grid // 2)


# ---- Components: what the function is made of ----


def _components(told: _Told, columns: Any, grid: int) -> Effects:
    if told.terms is None or not are_effects(told.terms):
        raise InvalidInput(
            f"effects: kind='components' needs a kernel of effects, and {told.f.kernel} is none; "
            "fit with Additive(...), or take kind='partial'."
        )
    told.refuse_slopes()
    parts = FunctionParts(told.terms, told.points, told.coef)
    variances = {key: parts.variance(key) for key in parts.keys}
    total: Any = sum(variances.values())
    scale = np.where(total > 0, total, 1.0)
    shares = {key: v / scale for key, v in variances.items()}
    keys = sorted(parts.keys, key=lambda key: -float(variances[key].sum()))
    groups = sorted({group for key in keys for group in key})
    if columns is not None:
        wanted = _wanted(columns, groups, told.names)
        for key in wanted:
            if key not in shares:
                raise InvalidInput(
                    f"effects: the kernel has no effect of {' & '.join(map(told.called, key))}; "
                    "give Additive a higher order, or take kind='partial'."
                )
        keys = wanted
    out = []
    for key in keys:
        rows = [take(told.rows, chosen_rows(told.rows, g, _sizes(key, grid))) for g in key]
        cross = parts.cross(key, rows)
        std = None
        if told.posterior is not None:
            std = told.std(parts.prior(key, rows), cross, 0.0)
        values = cross @ told.coef
        places = tuple(grid_values(Z, g) for Z, g in zip(rows, key, strict=True))
        names = tuple(map(told.called, key))
        share = told.shaped(shares[key])
        out.append(Effect(names, places, told.shaped(values), std, share))
    empty = np.zeros(told.coef.shape[1])
    first = np.stack([shares.get((g,), empty) for g in groups])
    whole = np.stack([sum((s for k, s in shares.items() if g in k), empty) for g in groups])
    return Effects(
        tuple(out),
        told.shaped(np.asarray(parts.constant + np.asarray(told.f.offset))),
        "components",
        tuple(map(told.called, groups)),
        told.shaped(np.asarray(total)),
        told.shaped(first),
        told.shaped(whole),
        told.error,
        (told.f, parts, keys),
    )


# ---- Partial dependence ----


def _partial(told: _Told, columns: Any, grid: int) -> Effects:
    if told.terms is None:
        names = told.names
        asked = _Respondent(told.model, None, None, told)
        return replace(_asked(asked, columns, grid), columns=names)
    told.refuse_slopes()
    groups = groups_of(told.terms, told.points.shape[1])
    keys = _wanted(columns, groups, told.names)
    rows = [
        [take(told.rows, chosen_rows(told.rows, g, _sizes(key, grid))) for g in key] for key in keys
    ]
    known: list[dict[int, Any]] = [
        {groups.index(g): Z for g, Z in zip(key, held, strict=True)}
        for key, held in zip(keys, rows, strict=True)
    ]
    coef = told.coef
    if (
        told.posterior is not None
    ):  # the functionals of the kernel at each point, for the deviations
        coef = np.eye(len(told.coef))
    found: list[Any] = [0.0] * (len(known) + 1)
    for start in range(0, len(told.weights), ROWS):
        some = np.arange(start, min(len(told.weights), start + ROWS))
        game = ProductGame(
            told.terms,
            groups,
            told.points,
            coef,
            "background",
            take(told.rows, some),
            told.weights[some],
        )
        parts = game.worth([*known, {}])
        found = [a + b for a, b in zip(found, parts, strict=True)]
    offset = np.asarray(told.f.offset)
    stds: list[Any] = [None] * len(keys)
    if told.posterior is not None:
        whole = ProductGame(
            told.terms, groups, told.points, coef, "background", told.rows, told.weights
        )
        prior = whole.own_worth(known)
        stds = [told.std(own, cross, 1.0) for own, cross in zip(prior, found, strict=False)]
        found = [cross @ told.coef for cross in found]
    shares = product_shares(told.terms, groups, told.points, told.coef, told.rows, told.weights)
    variance = first = total = None
    if shares is not None:
        variance, first, total = map(told.shaped, shares)
    out = []
    for key, held, values, std in zip(keys, rows, found, stds, strict=False):
        share = None
        if shares is not None and len(key) == 1:
            share = told.shaped(shares[1][groups.index(key[0])])
        places = tuple(grid_values(Z, g) for Z, g in zip(held, key, strict=True))
        names = tuple(map(told.called, key))
        out.append(Effect(names, places, told.shaped(values + offset), std, share))
    return Effects(
        tuple(out),
        told.shaped(np.asarray(found[-1] + offset)),
        "partial",
        tuple(map(told.called, groups)),
        variance,
        first,
        total,
        told.error,
    )


class _Respondent:
    """A model that is asked at changed rows: columns of a table or an array, and an answer."""

    def __init__(self, model: Any, X: Any, weight: Any, told: _Told | None = None):
        self.model, self.told = model, told
        if told is not None:
            self.rows, self.weights, self.names = told.rows, told.weights, told.names
            self.pandas = False
            return
        if X is None:
            raise InvalidInput(
                f"effects: {type(model).__name__} keeps no rows; give X, those over which means "
                "are taken."
            )
        if not callable(getattr(model, "predict", None)):
            raise InvalidInput(
                f"effects: {type(model).__name__} has no predict; give a fitted model."
            )
        self.rows = Tables().check(X)
        self.pandas = hasattr(X, "iloc")
        self.weights = _shares(weight, self.rows.shape[0])
        own = self.rows.names if isinstance(self.rows, Table) else None
        named = getattr(model, "feature_names_in_", own)
        named = range(self.rows.shape[1]) if named is None else named
        self.names = tuple(n if isinstance(n, str) else f"x{n}" for n in named)

    def answers(self, rows: Any) -> np.ndarray:
        """Return what the model says of rows, shape (n, t)."""
        if self.told is not None:
            values = self.told.f(rows)
        else:
            given = rows.to_pandas() if self.pandas and isinstance(rows, Table) else rows
            ask = getattr(self.model, "predict_proba", None) or self.model.predict
            values = ask(given)
        return np.asarray(values, dtype=np.float64).reshape(rows.shape[0], -1)

    def changed(self, places: Sequence[int], value: Any) -> Any:
        """Return all rows with the values of another row in some columns."""
        if isinstance(self.rows, np.ndarray):
            out = self.rows.copy()
            out[:, list(places)] = value[:, list(places)]
            return out
        n, columns = self.rows.shape[0], dict(zip(self.rows.names, self.rows.columns, strict=True))
        for place in places:
            columns[self.rows.names[place]] = np.repeat(value.columns[place], n)
        return Table(columns)


def _asked(asked: _Respondent, columns: Any, grid: int) -> Effects:
    groups = [(j,) for j in range(asked.rows.shape[1])]
    mean = asked.weights @ asked.answers(asked.rows)
    single = len(mean) == 1
    out = []
    for key in _wanted(columns, groups, asked.names):
        rows = [chosen_rows(asked.rows, g, _sizes(key, grid)) for g in key]
        values = np.empty((*map(len, rows), len(mean)))
        for at in np.ndindex(values.shape[:-1]):
            changed = asked
            for (place,), chosen, i in zip(key, rows, at, strict=True):
                one = take(asked.rows, chosen[i : i + 1])
                changed = _with_rows(changed, changed.changed([place], one))
            values[at] = asked.weights @ asked.answers(changed.rows)
        places = tuple(
            grid_values(take(asked.rows, chosen), g) for chosen, g in zip(rows, key, strict=True)
        )
        names = tuple(asked.names[j] for (j,) in key)
        out.append(Effect(names, places, values[..., 0] if single else values))
    constant = float(mean[0]) if single else mean
    return Effects(tuple(out), constant, "partial", tuple(asked.names))


def _with_rows(asked: _Respondent, rows: Any) -> _Respondent:
    new = object.__new__(_Respondent)
    vars(new).update(vars(asked), rows=rows)
    return new


# ---- Accumulated local effects ----


def _accumulated(told: _Told, columns: Any, grid: int) -> Effects:
    told.refuse_slopes()
    if isinstance(told.rows, Table):
        raise InvalidInput(
            "effects: kind='accumulated' adds up slopes, and rows of a table have none; give rows "
            "of numbers, or take kind='partial'."
        )
    groups = [(j,) for j in range(told.rows.shape[1])]
    keys = _wanted(columns, groups, told.names)
    if any(len(key) > 1 for key in keys):
        raise InvalidInput(
            "effects: kind='accumulated' is of one column; take kind='partial' for two together."
        )
    slopes = np.asarray(told.f.gradient(told.rows), dtype=np.float64)
    slopes = slopes.reshape(*told.rows.shape, -1)
    out = []
    for ((j,),) in keys:
        x = told.rows[:, j]
        edges = x[chosen_rows(told.rows, (j,), grid)]
        values = accumulated(x, slopes[:, j], told.weights, edges)
        out.append(Effect((told.names[j],), (edges,), told.shaped(values)))
    mean = told.weights @ np.asarray(told.f(told.rows)).reshape(len(told.rows), -1)
    return Effects(tuple(out), told.shaped(mean), "accumulated", told.names)
