"""`counterfactual`: the nearest row of which a model would say something else."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from sklearn.base import is_classifier

from mercer.checks import as_number, check_index
from mercer.domains import Table
from mercer.errors import InvalidInput, NotConverged, speaks, users_level
from mercer.explain.asking import AskedModel, names_of, places_of, rows_of
from mercer.rkhs import Function, rows_with_columns

FEW = 500  # rows of a background that nobody gave
COMBINATIONS = 512  # of levels that are all looked at
STARTS = 6  # rows that meet the target, and rows that do not, from which a search begins
FINER = 40  # halvings of a step back
STEPS = 33  # places on the way back to the row that are looked at first
SMALL = 1e-6  # a change by less than this part of a column's spread is none, where none will do


class Change(NamedTuple):
    """A column, what it held, and what it would have to hold."""

    column: str
    before: Any
    after: Any


@dataclass(frozen=True, eq=False)
class Counterfactual:
    """A row near another one, of which a model says something else.

    Parameters
    ----------
    row : ndarray of shape (1, d) or Table of one row
        The row; ``model.predict(row)`` is `answer`.
    changes : tuple of Change
        The columns that differ, those by the largest part of their spread first.
    distance : float
        √Σ((x′ⱼ − xⱼ)/sⱼ)² over numbers, with one for each other column that differs.
    answer : float or label
        What the model says of the row, asked at the end.
    before : float or label
        What it says of the row that was given.
    found : bool
        Whether the target is met. If not, the row is the one that came nearest to it.

    Examples
    --------
    >>> from mercer import KernelRidge, counterfactual
    >>> model = KernelRidge("linear", alpha=1e-9).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> print(counterfactual(model, [0.5], target=1.5))
    x0 0.5 → 1.5: 0.5 → 1.5
    """

    row: Any
    changes: tuple[Change, ...]
    distance: float
    answer: Any
    before: Any
    found: bool = True

    def __str__(self) -> str:
        told = ", ".join(f"{c.column} {_word(c.before)} → {_word(c.after)}" for c in self.changes)
        what = f"{told or 'no change'}: {_word(self.before)} → {_word(self.answer)}"
        return what if self.found else f"{what}, which is not the target"

    def __repr__(self) -> str:
        return f"Counterfactual({self}; distance={self.distance:.3g})"


@speaks("counterfactual")
def counterfactual(
    model: Any,
    x: Any,
    target: Any,
    *,
    background: Any = None,
    columns: Any = None,
    bounds: Mapping[Any, tuple[float, float]] | None = None,
    categorical: Any = None,
    output: int | None = None,
) -> Counterfactual:
    r"""Return the nearest row of which a model would say something else.

    It solves

    .. math:: \min_{x'} \sum_j ((x'_j - x_j)/s_j)^2 \quad\text{such that } f(x') \text{ meets the
        target},

    with sⱼ the standard deviation of a column in the background; a category that differs counts
    one (Wachter, Mittelstadt & Russell 2018). Numbers are sought by sequential quadratic
    programming, with the gradient of f where the kernel has one and by differences of answers
    otherwise, from the row and from rows of the background that meet the target; levels of
    categories are tried one by one, and together where there are few. The problem is not convex:
    the row is the nearest that was found, and what the model says of it is asked at the end.

    Parameters
    ----------
    model : estimator
        Fitted; a regression or a classifier.
    x : array of shape (d,), or one row of a table
        The row.
    target : number, (low, high) or label
        Of a regression a number to be reached, from whichever side x is on, or an interval; of a
        classifier the class.
    background : collection of rows, optional
        Rows that tell the spread, the range and the levels of columns, such as those of the fit.
        By default points that the model keeps; models of tables keep none.
    columns : list, optional
        The columns that may change, by name or position; by default all that vary.
    bounds : dict of column to (low, high), optional
        Limits of numbers, by name or position; by default the range in the background.
    categorical : list, optional
        Columns of numbers that are names of levels. Text, truth values and what a frame declares to
        be categories are taken as such.
    output : int, optional
        Which of several outputs of a regression the target is of.

    Returns
    -------
    Counterfactual
        With ``row``, ``changes``, ``distance``, ``answer`` and ``found``. Where nothing meets the
        target ``found`` is False, and a warning says so.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, KernelLogisticRegression, counterfactual
    >>> X = np.random.default_rng(0).standard_normal((80, 2))
    >>> model = KernelLogisticRegression(RBF(2.0), alpha=0.1).fit(X, X[:, 0] > 0)
    >>> told = counterfactual(model, X[0], target=False, columns=[0])
    >>> told.changes[0].column, bool(told.changes[0].after < X[0, 0]), bool(told.answer)
    ('x0', True, False)
    """
    rows, pool = _pool(model, x, background)
    names = names_of(model, pool)
    goal = _Goal(model, AskedModel(model, x if background is None else background), target, output)
    before = goal.answer(rows)
    if goal.met(rows)[0]:
        return Counterfactual(rows, (), 0.0, before, before)
    goal.aim(rows, pool)
    search = _Search(goal, pool, names, columns, bounds, categorical)
    z, lev, found = search.nearest()
    row = search.rows(z[None], lev[None])
    told = Counterfactual(
        row, search.changes(z, lev), search.distance(z, lev), goal.answer(row), before, found
    )
    if not found:
        wider = "columns that may change" if columns is not None else "wider bounds"
        text = (
            f"counterfactual: no row was found that meets target={target!r}; the nearest try is "
            f"{told}. Give {wider}, more rows as background, or another target."
        )
        warnings.warn(text, NotConverged, stacklevel=users_level())
    return told


def _word(value: Any) -> str:
    number = isinstance(value, float | np.floating)
    return f"{value:.4g}" if number else str(value)


def _pool(model: Any, x: Any, background: Any) -> tuple[Any, Any]:
    """Return the row, and a collection of it and the background."""
    if background is None:
        f = getattr(model, "function_", None)
        if not isinstance(f, Function) or hasattr(model, "encoder_") or not len(f):
            raise InvalidInput(
                f"counterfactual: {type(model).__name__} keeps no rows; give background=X, such as "
                "the rows of the fit."
            )
        background, n = rows_with_columns(f, f.points)[0], len(f)
        if n > FEW:
            some = np.linspace(0, n - 1, FEW).astype(int)
            background = (
                background.take(some) if isinstance(background, Table) else background[some]
            )
    many = rows_of(background, "background")
    if isinstance(x, Mapping):
        x = {name: value if np.ndim(value) else [value] for name, value in x.items()}
    elif hasattr(x, "to_frame") and not hasattr(x, "columns"):  # a row of a frame
        x = x.to_frame().T.infer_objects()
    elif isinstance(x, list | tuple | np.ndarray) and np.ndim(x) == 1:
        one = np.asarray(x)
        x = one[None] if one.dtype.kind in "fiub" else [list(x)]
    rows = rows_of(x, "x")
    if rows.shape[0] != 1:
        raise InvalidInput(f"counterfactual: x has {rows.shape[0]} rows; give one.")
    if isinstance(many, Table) and not isinstance(rows, Table) and rows.shape[1] == many.shape[1]:
        rows = Table(dict(zip(many.names, rows.T, strict=True)))
        rows.named = many.named
    if isinstance(rows, Table) and isinstance(many, np.ndarray):
        rows = rows.numeric("x")
    if type(rows) is not type(many) or rows.shape[1] != many.shape[1]:
        raise InvalidInput(
            "counterfactual: x and background have other columns; give rows of the same table."
        )
    if isinstance(many, Table):
        rows = rows.select(many.names) if many.named else rows
        return rows, rows.joined(many)
    rows, many = rows.astype(np.float64), many.astype(np.float64)
    return rows, np.vstack([rows, many])


# ---- What is wanted: A·values + b ≥ 0 ----


class _Goal:
    """Values of a model, and the margins A·values + b by which they meet a target."""

    def __init__(self, model: Any, asked: AskedModel, target: Any, output: int | None):
        self.model, self.asked, self.target = model, asked, target
        self.classes = list(model.classes_) if is_classifier(model) else None
        self.output = output
        self.function: Any = None
        self.slopes: Any = None
        self.A: Any = None
        self.b: Any = None
        if self.classes is not None:
            if output is not None:
                raise InvalidInput("counterfactual: output is of regressions; leave it out.")
            if target not in self.classes:
                shown = ", ".join(map(repr, self.classes))
                raise InvalidInput(
                    f"counterfactual: target={target!r} is no class of the model; there are "
                    f"{shown}."
                )
            verbs: tuple[str, ...] = ("decision_function", "predict_proba")
            pairs = len(self.classes) > 2 and getattr(model, "multi_class", "") == "ovo"
            if pairs and hasattr(model, "pairwise_decision_function"):
                verbs = ("pairwise_decision_function", *verbs)
            self.verb = next((v for v in verbs if callable(getattr(model, v, None))), "")
            if not self.verb:
                raise InvalidInput(
                    f"counterfactual: {type(model).__name__} has neither decision_function nor "
                    "predict_proba, so that nothing tells how near a class is."
                )
            return
        self.verb = "predict"
        if not callable(getattr(model, "predict", None)):
            raise InvalidInput(
                f"counterfactual: {type(model).__name__} has no predict; give a fitted model."
            )
        ends = target if isinstance(target, tuple | list) else (target,)
        try:
            self.ends = tuple(as_number(end) for end in ends)
        except (TypeError, ValueError, OverflowError):
            self.ends = ()
        ordered = len(self.ends) < 2 or self.ends[0] <= self.ends[-1]
        if not 1 <= len(self.ends) <= 2 or not ordered or np.isnan(self.ends).any():
            raise InvalidInput(
                f"counterfactual: target={target!r}; give a number, or (low, high) with low ≤ high."
            )

    def values(self, rows: Any) -> np.ndarray:
        """Return values (m, t), of one output (m, 1)."""
        values = self.asked(self.verb, rows)
        values = values.reshape(len(values), -1).astype(np.float64)
        if self.classes is not None:
            return values
        t = values.shape[1]
        if self.output is None and t > 1:
            raise InvalidInput(
                f"counterfactual: the model has {t} outputs; say which one the target is of, "
                "output=0."
            )
        if self.output is not None:
            check_index(self.output, "output", 0, t - 1)
        return values[:, [self.output or 0]]

    def answer(self, rows: Any) -> Any:
        """Return what the model says of a row."""
        if self.classes is None:
            return float(self.values(rows)[0, 0])
        return self.asked("predict", rows)[0]

    def met(self, rows: Any) -> np.ndarray:
        """Return whether rows meet the target, by what the model predicts."""
        if self.classes is not None:
            return np.asarray(self.asked("predict", rows) == self.target)
        values = self.values(rows)[:, 0]
        if len(self.ends) == 2:
            return (values >= self.ends[0]) & (values <= self.ends[1])
        if self.A is None:
            return values == self.ends[0]
        return np.asarray(self.A[0, 0] * (values - self.ends[0]) >= 0)

    def aim(self, rows: Any, pool: Any) -> None:
        """Settle which margins have to be positive, and whether they have a gradient."""
        here = self.values(rows)
        t = here.shape[1]
        if self.classes is None and len(self.ends) == 2:
            low, high = self.ends
            held = [(1.0, -low), (-1.0, high)]
            held = [(a, b) for a, b in held if np.isfinite(b)]
            self.A, self.b = np.array([[a] for a, _ in held]), np.array([b for _, b in held])
        elif self.classes is None:
            side = 1.0 if here[0, 0] < self.ends[0] else -1.0
            self.A, self.b = np.array([[side]]), np.array([-side * self.ends[0]])
        else:
            self.A = _ahead(len(self.classes), self.classes.index(self.target), t, self.verb)
            self.b = np.zeros(len(self.A))
        f = getattr(self.model, "function_", None)
        if not isinstance(f, Function) or not isinstance(rows, np.ndarray):
            return
        slopes = getattr(self.model, "mean_coef_", None)
        self.slopes = None if slopes is None else np.reshape(slopes, (rows.shape[1], -1))
        try:
            some = pool[:20]
            told = np.asarray(f(some), dtype=np.float64).reshape(len(some), -1)
            told = told if self.slopes is None else told + some @ self.slopes
            f.gradient(rows)
        except (InvalidInput, NotImplementedError, TypeError, AttributeError):
            return
        if self.output is not None:
            told = told[:, [self.output]]
        if told.shape[1] == t and np.allclose(told, self.values(some), rtol=1e-6, atol=1e-9):
            self.function = f

    def margins(self, rows: Any) -> np.ndarray:
        """Return by how much rows meet each condition, (m, c)."""
        return np.asarray(self.values(rows) @ self.A.T + self.b)

    def gradient(self, rows: np.ndarray) -> np.ndarray:
        """Return the gradients of the margins at one row, (c, d)."""
        G = np.asarray(self.function.gradient(rows), dtype=np.float64).reshape(rows.shape[1], -1)
        G = G if self.slopes is None else G + self.slopes
        G = G if self.output is None else G[:, [self.output]]
        return np.asarray(self.A @ G.T)


def _ahead(count: int, wanted: int, t: int, verb: str) -> np.ndarray:
    """Return what multiplies t values so that a class is predicted where all products are ≥ 0."""
    if t == 1:
        return np.array([[1.0 if wanted == 1 else -1.0]])
    if verb.startswith("pairwise"):
        pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
        return np.array(
            [
                (1.0 if a == wanted else -1.0) * np.eye(len(pairs))[k]
                for k, (a, b) in enumerate(pairs)
                if wanted in (a, b)
            ]
        )
    return np.array([np.eye(t)[wanted] - np.eye(t)[k] for k in range(t) if k != wanted])


# ---- Where it is sought ----


class _Search:
    """Rows as numbers z, of columns that may change by any step, and levels, rows of the pool."""

    def __init__(
        self,
        goal: _Goal,
        pool: Any,
        names: tuple[str, ...],
        columns: Any,
        bounds: Any,
        categorical: Any,
    ):
        self.goal, self.pool, self.names = goal, pool, names
        as_levels = {j for one in _listed(categorical) for j in places_of(one, names)}
        free = list(range(len(names)))
        if columns is not None:
            free = [j for one in _listed(columns) for j in places_of(one, names)]
        limits = {}
        for one, ends in (bounds or {}).items():
            (j,) = places_of(one, names)
            limits[j] = _ends(ends, names[j])
        self.numbers: list[int] = []
        self.levels: list[int] = []
        self.choices: list[list[int]] = []  # rows of the pool with each level, that of x first
        spread, low, high = [], [], []
        self.codes: dict[int, np.ndarray] = {}
        for j in sorted(set(free)):
            column = pool.columns[j] if isinstance(pool, Table) else pool[:, j]
            told = isinstance(pool, Table) and pool.names[j] in pool.declared
            number = column.dtype.kind in "fiu" and not told and j not in as_levels
            if number and not np.isnan(float(column[0])):
                held = column[1:].astype(np.float64)
                held = held[~np.isnan(held)]
                s = float(held.std()) if len(held) else 0.0
                if s == 0.0 and columns is None and j not in limits:
                    continue
                ends = (held.min(), held.max()) if len(held) else (column[0], column[0])
                ends = limits.get(j, ends)
                self.numbers.append(j)
                spread.append(s if s > 0 else 1.0)
                low.append(min(float(ends[0]), float(column[0])))
                high.append(max(float(ends[1]), float(column[0])))
                continue
            if j in limits:
                raise InvalidInput(
                    f"counterfactual: bounds of {names[j]}, which holds no number in x; leave them "
                    "out."
                )
            codes, first = _codes(column, number)
            if len(first) > 1:
                self.levels.append(j)
                self.choices.append(first)
                self.codes[j] = codes
        if not self.numbers and not self.levels:
            raise InvalidInput(
                "counterfactual: no column can change, as none of them varies; give more rows as "
                "background, or bounds."
            )
        self.s, self.low, self.high = np.array(spread), np.array(low), np.array(high)
        table = isinstance(pool, Table)
        held = [pool.columns[j] if table else pool[:, j] for j in self.numbers]
        self.x = np.array([float(column[0]) for column in held])
        self.whole = np.array([column.dtype.kind in "iu" for column in held], dtype=bool)
        self.home = np.zeros(len(self.levels), dtype=int)
        self.unit = 1.0

    # -- rows -----------------------------------------------------------------------------------
    def rows(self, Z: np.ndarray, levels: np.ndarray) -> Any:
        """Return the rows of numbers (m, p) and levels (m, q)."""
        m = len(Z)
        if isinstance(self.pool, Table):
            index = np.zeros((m, len(self.names)), dtype=int)
            index[:, self.levels] = levels
            table = self.pool.mixed(index)
            columns = list(table.columns)
            for k, j in enumerate(self.numbers):
                z = Z[:, k]
                kind = columns[j].dtype
                if self.whole[k]:
                    columns[j] = z.astype(kind) if (z == np.rint(z)).all() else z
                else:
                    columns[j] = z
            changed = Table(dict(zip(table.names, columns, strict=True)))
            changed.declared, changed.named = table.declared, table.named
            return changed
        out = np.repeat(self.pool[:1], m, axis=0)
        out[:, self.numbers] = Z
        for q, j in enumerate(self.levels):
            out[:, j] = self.pool[levels[:, q], j]
        return out

    def distance(self, z: np.ndarray, lev: np.ndarray) -> float:
        """Return how far a row is from x."""
        return float(self.distances(z[None], lev[None])[0])

    def distances(self, Z: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Return how far rows are from x."""
        return np.sqrt(np.square((Z - self.x) / self.s).sum(axis=1) + (levels != 0).sum(axis=1))

    def changes(self, z: np.ndarray, lev: np.ndarray) -> tuple[Change, ...]:
        """Return what differs, the largest difference first."""
        told: list[tuple[float, Change]] = []
        row = self.rows(z[None], lev[None])
        table = isinstance(row, Table)
        sizes = {j: abs(z[k] - self.x[k]) / self.s[k] for k, j in enumerate(self.numbers)}
        sizes |= {j: float(lev[q] != 0) for q, j in enumerate(self.levels)}
        for j, size in sizes.items():
            if size > 0:
                old = self.pool.columns[j][0] if table else self.pool[0, j]
                new = row.columns[j][0] if table else row[0, j]
                told.append((size, Change(self.names[j], _plain(old), _plain(new))))
        told.sort(key=lambda each: -each[0])
        return tuple(change for _, change in told)

    def met(self, Z: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Return which rows meet the target."""
        return self.goal.met(self.rows(Z, levels))

    def least(self, Z: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Return the least margin of each row."""
        return self.goal.margins(self.rows(Z, levels)).min(axis=1)

    # -- the search -----------------------------------------------------------------------------
    def nearest(self) -> tuple[np.ndarray, np.ndarray, bool]:
        """Return numbers and levels of the nearest row found, and whether it meets the target."""
        Z, levels = self.starts()
        least, far = self.least(Z, levels), self.distances(Z, levels)
        self.unit = float(np.ptp(least)) or 1.0
        good = self.met(Z, levels)
        order = np.argsort(far, kind="stable")
        begin = [i for i in order if good[i]][:STARTS]
        short = np.argsort(far - least / self.unit, kind="stable")
        begin += [i for i in short if not good[i]][:STARTS]
        if not good[0]:
            begin.append(0)  # x itself
        best: Any = None
        for i in dict.fromkeys(begin):
            z, lev = Z[i], levels[i]
            if best is not None and (lev != 0).sum() >= best[0] ** 2:
                continue
            for start in self.tries(z, lev, bool(good[i])):
                if not self.met(start[None], lev[None])[0]:
                    continue
                one, two = self.drawn_back(start, lev)
                d = self.distance(one, two)
                if best is None or d < best[0]:
                    best = d, one, two
        if best is not None:
            return best[1], best[2], True
        nearest = int(np.argmax(least))
        z, lev = self.ascent(Z[nearest], levels[nearest]), levels[nearest]
        if self.met(z[None], lev[None])[0]:
            tries = [z, *self.tries(z, lev, True)]
            held = [t for t in tries if self.met(t[None], lev[None])[0]]
            drawn = [self.drawn_back(t, lev) for t in held]
            one, two = min(drawn, key=lambda each: self.distance(*each))
            return one, two, True
        return np.where(self.whole, np.rint(z), z), lev, False

    def starts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return rows from which the search begins: x, x with other levels, rows of the pool."""
        count = np.prod([float(len(c)) for c in self.choices]) if self.choices else 1.0
        if count <= COMBINATIONS:
            every = list(product(*self.choices))
            lev = np.array(every, dtype=int).reshape(len(every), len(self.levels))
        else:
            flips = [
                np.where(np.arange(len(self.levels)) == q, row, 0)
                for q, choice in enumerate(self.choices)
                for row in choice
            ]
            lev = np.array([self.home, *flips])
        n = self.pool.shape[0]
        table = isinstance(self.pool, Table)
        B = np.empty((n, len(self.numbers)))
        for k, j in enumerate(self.numbers):
            column = self.pool.columns[j] if table else self.pool[:, j]
            B[:, k] = column.astype(np.float64)
        B = np.where(np.isnan(B), self.x, np.clip(B, self.low, self.high))
        own = np.zeros((n, len(self.levels)), dtype=int)
        for q, j in enumerate(self.levels):
            own[:, q] = np.array(self.choices[q])[self.codes[j]]
        Z = np.vstack([np.tile(self.x, (len(lev), 1)), B, B])
        return Z, np.vstack([lev, own, np.zeros_like(own)])

    def tries(self, z: np.ndarray, lev: np.ndarray, good: bool) -> list[np.ndarray]:
        """Return rows that may meet the target, of the same levels: the start, and a descent's."""
        out = [z] if good else []
        if len(self.numbers):
            found = self.descent(z, lev)
            out.append(found)
            if self.whole.any():
                away = np.where(found > self.x, np.ceil(found), np.floor(found))
                away = np.clip(away, self.low, self.high)
                out.append(np.where(self.whole, away, found))
                out.append(np.where(self.whole, np.rint(found), found))
                out.pop(-3)
        return out

    def margins_and_slopes(self, lev: np.ndarray) -> tuple[Callable, Callable]:
        """Return the margins and their derivatives as functions of (z − x)/s."""
        h = 1e-5

        def at(u: np.ndarray) -> np.ndarray:
            return self.x + self.s * u

        def margins(u: np.ndarray) -> np.ndarray:
            return self.goal.margins(self.rows(at(u)[None], lev[None]))[0] / self.unit

        def slopes(u: np.ndarray) -> np.ndarray:
            if self.goal.function is not None:
                G = self.goal.gradient(self.rows(at(u)[None], lev[None]))
                return G[:, self.numbers] * self.s / self.unit
            p = len(u)
            both = np.vstack([u + h * np.eye(p), u - h * np.eye(p)])
            told = self.goal.margins(self.rows(at(both), np.tile(lev, (2 * p, 1)))) / self.unit
            return (told[:p] - told[p:]).T / (2 * h)

        return margins, slopes

    def descent(self, z: np.ndarray, lev: np.ndarray) -> np.ndarray:
        """Return numbers near x that meet the target, by sequential quadratic programming."""
        margins, slopes = self.margins_and_slopes(lev)
        limits = list(zip((self.low - self.x) / self.s, (self.high - self.x) / self.s, strict=True))
        slack = 1e-9
        found = minimize(
            lambda u: 0.5 * float(u @ u),
            (z - self.x) / self.s,
            jac=lambda u: u,
            method="SLSQP",
            bounds=limits,
            constraints={"type": "ineq", "fun": lambda u: margins(u) - slack, "jac": slopes},
            options={"maxiter": 100, "ftol": 1e-12},
        )
        u = np.where(np.isfinite(found.x), found.x, 0.0)
        short = float(margins(u).min())
        if -1e-6 < short < 0:  # a step beyond what rounding left
            G = slopes(u)[int(margins(u).argmin())]
            u = u + G * (2e-9 - 2 * short) / max(float(G @ G), 1e-300)
        return np.clip(self.x + self.s * u, self.low, self.high)

    def ascent(self, z: np.ndarray, lev: np.ndarray) -> np.ndarray:
        """Return numbers of a large least margin."""
        if not self.numbers:
            return z
        margins, slopes = self.margins_and_slopes(lev)

        def loss(u: np.ndarray) -> tuple[float, np.ndarray]:
            told = margins(u)
            return -float(told.min()), -slopes(u)[int(told.argmin())]

        limits = list(zip((self.low - self.x) / self.s, (self.high - self.x) / self.s, strict=True))
        found = minimize(loss, (z - self.x) / self.s, jac=True, method="L-BFGS-B", bounds=limits)
        return np.clip(self.x + self.s * found.x, self.low, self.high)

    def drawn_back(self, z: np.ndarray, lev: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return a row that is nearer to x and meets the target as z does."""
        z, lev = z.copy(), lev.copy()
        while True:
            tiny = (np.abs(z - self.x) < SMALL * self.s) & (z != self.x)
            moved = np.flatnonzero(z != self.x)
            flipped = np.flatnonzero(lev != 0)
            if tiny.any():
                back = np.where(tiny, self.x, z)
                if self.met(back[None], lev[None])[0]:
                    z = back
                    continue
            count = len(moved) + len(flipped)
            if not count:
                return z, lev
            Z, levels = np.tile(z, (count, 1)), np.tile(lev, (count, 1))
            Z[np.arange(len(moved)), moved] = self.x[moved]
            levels[np.arange(len(moved), count), flipped] = 0
            good = self.met(Z, levels)
            if not good.any():
                break
            far = np.where(good, self.distances(Z, levels), np.inf)
            z, lev = Z[int(far.argmin())], levels[int(far.argmin())]
        if not len(moved):
            return z, lev
        part = np.linspace(0, 1, STEPS)[1:]
        good = self.met(self.between(z, part), np.tile(lev, (len(part), 1)))
        first = int(np.argmax(good))
        low, high = part[first] - part[0], part[first]
        if not good[first]:
            return z, lev
        for _ in range(FINER):
            middle = 0.5 * (low + high)
            met = self.met(self.between(z, np.array([middle])), lev[None])[0]
            low, high = (low, middle) if met else (middle, high)
        return self.between(z, np.array([high]))[0], lev

    def between(self, z: np.ndarray, part: np.ndarray) -> np.ndarray:
        """Return rows on the way from x to z, whole numbers rounded towards z."""
        Z = self.x + part[:, None] * (z - self.x)
        away = np.where(z > self.x, np.ceil(Z), np.floor(Z))
        return np.where(part[:, None] == 1, z, np.where(self.whole, away, Z))


def _listed(columns: Any) -> list[Any]:
    if columns is None:
        return []
    return [columns] if isinstance(columns, str | int | np.integer) else list(columns)


def _ends(ends: Any, name: str) -> tuple[float, float]:
    try:
        low, high = (as_number(end) for end in ends)
    except (TypeError, ValueError, OverflowError):
        low, high = 1.0, 0.0
    if not low <= high or not np.isfinite([low, high]).all():
        raise InvalidInput(
            f"counterfactual: bounds of {name} are {ends!r}; give finite (low, high), low ≤ high."
        )
    return low, high


def _codes(column: np.ndarray, number: bool) -> tuple[np.ndarray, list[int]]:
    """Return the level of each row, that of x first, and a row with each level.

    A number that x lacks may be one of nine that occur. What is missing elsewhere is no level.
    """
    known: dict[Any, int] = {}
    first: list[int] = []
    codes = np.empty(len(column), dtype=int)
    values = list(column)
    if number:
        held = np.sort(column[~np.isnan(column.astype(np.float64))])
        some = held[np.linspace(0, len(held) - 1, 9).astype(int)] if len(held) else held
        keep = set(some.tolist())
        values = [v if v in keep else None for v in column.tolist()]
    for i, value in enumerate(values):
        key = None if value is None or value != value else value
        if key is None and i > 0:
            codes[i] = 0  # as x
            continue
        if key not in known:
            known[key] = len(first)
            first.append(i)
        codes[i] = known[key]
    return codes, first


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
