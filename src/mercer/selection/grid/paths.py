"""Which settings of a model come together, and their answers on the folds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer.errors import MercerError, NotPositiveDefinite
from mercer.estimator import asks_centers, take_rows, unproven
from mercer.kernels import Kernel
from mercer.models import (
    SVC,
    SVR,
    KernelNeighborsClassifier,
    KernelNeighborsRegressor,
    KernelRidge,
    KernelRidgeClassifier,
)
from mercer.models.neighbors import NeighborsBase
from mercer.models.ridge import LeastSquares
from mercer.models.risk import Risk
from mercer.selection.grid.answers import Answer, grouped, plain_fit, split_rows
from mercer.selection.grid.margin import MarginWalk, prepared_targets, walk_together, walkable
from mercer.selection.grid.ridge import RidgeFold, primal_values, ridge_values
from mercer.solvers import factor

# ---- All numbers of neighbours from one search on a fold: the most asked for hold all fewer
# ones.


def neighbour_answers(
    scorer: Any,
    model: NeighborsBase,
    kernel: Kernel | None,
    counts: Sequence[Any],
    members: Sequence[int],
) -> Iterator[tuple[int, int, Answer]]:
    """Yield the number of a setting, that of a fold, and the answer of a fit on that fold.

    Parameters
    ----------
    scorer : FoldScorer
        The folds, and the Gram matrix.
    model : KernelNeighborsClassifier or KernelNeighborsRegressor
        With all parameters but ``n_neighbors``.
    kernel : Kernel or None
        Its kernel, if the Gram matrix may be shared.
    counts : sequence
        Values of ``n_neighbors``; those that are none are left to the fits, which say so.
    members : sequence of int
        The numbers of their settings.
    """
    if scorer.weights is not None:
        return
    for k, (train, test) in enumerate(scorer.folds):
        usable = [j for j, count in enumerate(counts) if _is_count(count, len(train))]
        if not usable or scorer.late():
            continue
        most = max(counts[j] for j in usable)
        fresh, K = clone(model).set_params(n_neighbors=int(most)), None
        if kernel is not None and fresh._uniform:  # a matrix does not tell distances to new points
            K = scorer._sliced(model, kernel, {}, k)
        if K is not None:
            fresh.set_params(kernel="precomputed")
            known, new = K[np.ix_(train, train)], K[np.ix_(test, train)]
        else:
            known, new = (split_rows(model, scorer.X, rows, train) for rows in (train, test))
        fitted = plain_fit(fresh, {}, known, *scorer.of(train))
        points = fitted._check_new(new)
        found: list[list[np.ndarray]] = [[] for _ in usable]
        for far, where in fitted._in_blocks(points, int(most), distances=not fitted._uniform):
            for parts, j in zip(found, usable, strict=True):
                c = int(counts[j])
                weights = fitted._weights_of(None if far is None else far[:, :c])
                parts.append(fitted._combine(where[:, :c], weights))
        classes = vars(fitted).get("classes_")
        for parts, j in zip(found, usable, strict=True):
            values = np.concatenate(parts)
            yield members[j], k, Answer(model, values, classes, "predict_proba")


def _is_count(value: Any, n: int) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and 1 <= value <= n


# ---- scorer paths ----


INDEFINITE = 5e-9  # part of the trace below which an eigenvalue is no rounding; half of a fit's


def shared_answers(
    scorer: Any, base: Any, kernel: Kernel | None, settings: Sequence[dict[str, Any]]
) -> Iterator[tuple[int, int, Answer]]:
    """Yield the number of a setting, that of a fold, and the answer of a fit on that fold.

    What is not yielded has no shared way.

    Parameters
    ----------
    scorer : FoldScorer
        The folds, and the Gram matrix.
    base : estimator
        With the kernel.
    kernel : Kernel or None
        The same, words not resolved; None where no Gram matrix may be shared.
    settings : sequence of dict
        Other parameters.
    """
    name, answers = next((way for kinds, *way in WAYS if type(base) in kinds), ("", None))
    if answers is None or (kernel is None and name != "n_neighbors"):
        return
    for others, members in grouped([_without(name, setting) for setting in settings]):
        model = clone(base).set_params(**others)
        penalties = [settings[i].get(name, getattr(base, name)) for i in members]
        try:
            yield from answers(scorer, model, kernel, penalties, members)
        except MercerError:
            continue  # the fits say what is wrong, and where


def _without(name: str, setting: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in setting.items() if key != name}


def _ridge(
    scorer: Any, model: Any, kernel: Kernel, alphas: Sequence[Any], members: Sequence[int]
) -> Iterator[tuple[int, int, Answer]]:
    """All penalties of a kernel: one Krylov space a fold, or its few features."""
    usable = [j for j, alpha in enumerate(alphas) if _is_penalty(alpha)]
    if not usable or asks_centers(model):
        return
    values = np.array([float(alphas[j]) for j in usable])
    offset = bool(model.fit_intercept)
    for resolved, numbers in _by_kernel(scorer, model, kernel):
        if scorer.late():
            return
        folds = [_fold(scorer, model, k) for k in numbers]
        found = _primal(scorer, model, resolved, folds, values, offset)
        if found is None:
            K = scorer.gram(model, resolved)
            if K is None or not _definite(resolved, K):
                return
            found = ridge_values(K, folds, values, offset)
        for k, fold, mine in zip(numbers, folds, found, strict=True):
            for j, some in zip(usable, mine, strict=True):
                if some is not None:
                    yield members[j], k, Answer(model, some, fold.classes)


def _fold(scorer: Any, model: Any, k: int) -> RidgeFold:
    train, test = np.sort(scorer.folds[k][0]), scorer.folds[k][1]
    return RidgeFold.of(prepared_targets(model, *scorer.of(train)), train, test)


def _primal(
    scorer: Any,
    model: Any,
    kernel: Kernel,
    folds: Sequence[RidgeFold],
    alphas: np.ndarray,
    offset: bool,
) -> list[list[np.ndarray]] | None:
    """Return values from explicit features, where these are fewer than the rows; else None."""
    X = scorer.points(model, kernel)
    D = kernel._n_features(X)
    if D is None or any(D >= len(fold.train) for fold in folds):
        return None
    take, out = kernel.domain.take, []
    for fold in folds:
        train = take_rows(kernel, X, fold.train)
        problem = LeastSquares(kernel, train, fold.T, fold.s**2, offset)
        problem._check_diagonal()
        some = primal_values(problem, kernel._features(take(X, fold.test)), alphas)
        out.append([fold.shaped(values) for values in some])
    return out


def _definite(kernel: Kernel, K: np.ndarray) -> bool:
    """Whether a matrix is that of a kernel, where nothing but the user's word says so."""
    if not unproven(kernel):
        return True
    try:
        factor(K, max(INDEFINITE * float(np.trace(K)), 1e-300), owner=repr(kernel))
    except NotPositiveDefinite:
        return False
    return True


def _is_penalty(alpha: Any) -> bool:
    number = isinstance(alpha, int | float | np.number) and not isinstance(alpha, bool)
    return number and 0 < float(alpha) < np.inf


def _by_kernel(scorer: Any, model: Any, kernel: Kernel) -> list[tuple[Kernel, list[int]]]:
    """Return the kernels that the folds come to, and the folds of each."""
    groups: list[tuple[Kernel, list[int]]] = []
    for k in range(len(scorer.folds)):
        resolved = scorer.resolved(model, kernel, k)
        if groups and groups[-1][0] == resolved:
            groups[-1][1].append(k)
        else:
            groups.append((resolved, [k]))
    return groups


def _margin(
    scorer: Any, model: Any, kernel: Kernel, Cs: Sequence[Any], members: Sequence[int]
) -> Iterator[tuple[int, int, Answer]]:
    """Paths along C on the rows of one Gram matrix."""
    usable = [j for j, C in enumerate(Cs) if walkable(model, C)]
    usable.sort(key=lambda j: float(Cs[j]))
    if not usable:
        return
    model._check_params()
    for resolved, numbers in _by_kernel(scorer, model, kernel):
        if scorer.late():
            return
        X, rows = scorer.points(model, resolved), scorer.rows(model, resolved)
        walks, chosen = [], []
        for k in numbers:
            train, test = np.sort(scorer.folds[k][0]), scorer.folds[k][1]
            part = prepared_targets(model, *scorer.of(train))
            walk = MarginWalk.of(model, part, X, rows, train, test)
            walks.append(walk)
            chosen.append([j for j in usable if float(Cs[j]) < walk.largest()])
        prices = [[float(Cs[j]) for j in mine] for mine in chosen]
        found = walk_together(walks, prices, scorer.tally, scorer.late)
        for k, walk, mine, values in zip(numbers, walks, chosen, found, strict=True):
            for j, some in zip(mine, values, strict=False):
                yield members[j], k, Answer(model, some, walk.data.classes)


#: Models whose settings come together, the parameter in which these differ, and the way.
WAYS: tuple = (
    ((KernelRidge, KernelRidgeClassifier), "alpha", _ridge),
    ((SVC, SVR), "C", _margin),
    ((KernelNeighborsClassifier, KernelNeighborsRegressor), "n_neighbors", neighbour_answers),
)


# ---- Which fits of a fold begin where others ended: regularised risks, from large penalties
# down.


class WarmStarts:
    """The last solution on each fold, for a fit that differs in a smaller penalty only.

    Parameters
    ----------
    base : estimator
        The model; models without warm starts are fitted in the order of the settings.
    settings : sequence of dict
        Its parameters, one dict for each fit on a fold.
    """

    def __init__(self, base: Any, settings: Sequence[dict[str, Any]]):
        self.warm = isinstance(base, Risk)
        self._group, self._rank = np.arange(len(settings)), np.zeros(len(settings))
        self._last: dict[tuple[int, int], Any] = {}
        if self.warm:
            for g, (_, members) in enumerate(grouped(_warm_without(settings, "alpha"))):
                self._group[members] = g
            self._rank = np.array([-_number(s.get("alpha", base.alpha)) for s in settings])

    def order(self, left: np.ndarray, by_fold: bool) -> list[tuple[int, int]]:
        """Return pairs of setting and fold in the order of the fits.

        Parameters
        ----------
        left : ndarray of int of shape (fits, 2)
            The pairs.
        by_fold : bool
            Whether all fits of a fold come together.
        """

        def key(pair: tuple[int, int]) -> tuple:
            i, k = pair
            return (k if by_fold else 0, self._group[i], self._rank[i], i, k)

        return sorted(((int(i), int(k)) for i, k in left), key=key)

    def near(self, i: int, k: int) -> Any:
        """Return a fitted model to begin with, or None."""
        return self._last.get((int(self._group[i]), k))

    def keep(self, i: int, k: int, model: Any) -> None:
        """Note the fitted model of a setting on a fold; those of other groups are done with."""
        if self.warm:
            group = int(self._group[i])
            self._last = {key: held for key, held in self._last.items() if key[0] == group}
            self._last[group, k] = model


def _warm_without(settings: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [{key: value for key, value in s.items() if key != name} for s in settings]


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return np.inf
    return number if number == number else np.inf
