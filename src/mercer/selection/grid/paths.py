"""Which settings of a model come together, and their answers on the folds."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing, get_tags

from mercer import checks
from mercer.errors import MercerError, NotPositiveDefinite
from mercer.estimator import Sample, asks_centers, choose_class
from mercer.kernels import Kernel, Linear, unproven
from mercer.models import (
    SVC,
    SVR,
    GaussianProcessRegressor,
    KernelNeighborsClassifier,
    KernelNeighborsRegressor,
    KernelRidge,
    KernelRidgeClassifier,
    OneClassSVM,
)
from mercer.models.margin import (
    LARGE,
    WORTH_THREADS,
    Machine,
    Tally,
    fold_machines,
    grown,
    machines_of_folds,
    spread,
    values_at,
    votes,
)
from mercer.models.neighbors import NeighborsBase
from mercer.models.ridge import LeastSquares
from mercer.selection.grid.ridge import RidgeFold, primal_values, ridge_values
from mercer.settings import config, get_config
from mercer.solvers import Rows, factor
from mercer.threads import inheriting, single_threaded_blas, workers

# ---- What stands for a fitted model, and plain fits ----


class NeedsModel(Exception):
    """A scorer asks for more than values on the test rows."""


class Answer:
    """What a fitted model would answer on the test rows of a fold.

    Parameters
    ----------
    model : estimator
        Of which kind the fitted one would be.
    values : ndarray
        Predictions of a regressor, decision values or shares of the classes of a classifier.
    classes : ndarray, optional
        The classes of the training rows.
    verb : str, default="decision_function"
        The method of a classifier that returns the values.
    """

    def __init__(
        self,
        model: Any,
        values: np.ndarray,
        classes: np.ndarray | None = None,
        verb: str = "decision_function",
    ):
        self._model, self._values = model, values
        self._outliers = isinstance(model, OneClassSVM)
        if classes is not None:
            self.classes_ = classes
        if classes is not None or self._outliers:
            setattr(self, verb, self._given)

    def _given(self, X: Any) -> np.ndarray:
        return self._values

    def predict(self, X: Any) -> np.ndarray:
        """Return the predictions, whatever X."""
        if self._outliers:
            return np.where(self._values >= 0, 1, -1)
        classes = vars(self).get("classes_")
        return self._values if classes is None else choose_class(self._values, classes)

    def __sklearn_tags__(self) -> Any:
        return get_tags(self._model)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(self._model, name):
            raise NeedsModel(name)
        raise AttributeError(name)


def split_rows(model: Any, X: Any, rows: np.ndarray, train: np.ndarray) -> Any:
    """Return rows of X; of a Gram matrix their columns of the training rows only."""
    if not get_tags(model).input_tags.pairwise:
        return _safe_indexing(X, rows)
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    return X[np.ix_(rows, train)]


def plain_fit(
    model: Any, params: dict[str, Any], X: Any, y: Any, weights: Any, near: Any = None
) -> Any:
    """Return a fitted clone of a model with other parameters, as ``GridSearchCV`` makes it.

    Parameters
    ----------
    model : estimator
        The model; not changed.
    params : dict
        Other parameters of it.
    X, y, weights : data
        As for ``fit``; y and weights may be None.
    near : estimator, optional
        A model fitted to the same rows with another penalty, whose solution is the start.
    """
    copies = {name: clone(value, safe=False) for name, value in params.items()}
    fresh = clone(model).set_params(**copies)
    options = {} if weights is None else {"sample_weight": weights}
    if near is not None:
        return fresh._fit_from(near, X, y, **options)
    return fresh.fit(X, **options) if y is None else fresh.fit(X, y, **options)


def grouped(values: Sequence[Any]) -> list[tuple[Any, list[int]]]:
    """Return the different ones of some values, and the positions of each, in the order they come.

    Only those that read alike are compared, since kernels and dicts have no hash.

    Parameters
    ----------
    values : sequence
        Anything that has an ``==``; where that is no answer, values count as different.
    """
    groups: list[tuple[Any, list[int]]] = []
    alike: dict[tuple, list[int]] = {}
    for i, value in enumerate(values):
        candidates = alike.setdefault((type(value), repr(value)), [])
        for g in candidates:
            if _same(groups[g][0], value):
                groups[g][1].append(i)
                break
        else:
            candidates.append(len(groups))
            groups.append((value, [i]))
    return groups


def _same(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except ValueError:  # arrays inside
        return False


def of_kernel(name: str) -> bool:
    """Whether a parameter is the kernel, or one of its."""
    return name.partition("__")[0] == "kernel"


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
            K = scorer.sliced(model, kernel, {}, k)
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


# ---- Support vector machines on the test rows of folds, along C from warm starts ----


def prepared_targets(model: Any, y: Any, weights: Any) -> Any:
    """Return what `model` makes of targets and weights alone, for points that say nothing."""
    blank, none = clone(model).set_params(kernel=Linear()), np.zeros((len(y), 1))
    return blank._prepare(none, *(() if isinstance(model, OneClassSVM) else (y,)), weights)


def walkable(model: Any, C: Any) -> bool:
    """Whether a path along C gives the model that a fit gives: C finite, and no limit on steps.

    Of a `OneClassSVM` it is ν that grows, a share.
    """
    number = isinstance(C, int | float | np.number) and not isinstance(C, bool)
    unlimited = model.max_iter in (None, -1) and model.max_time is None
    share = float(C) <= 1 or not isinstance(model, OneClassSVM) if number else False
    return share and unlimited and 0 < float(C) < np.inf


@dataclass(frozen=True, eq=False)
class MarginWalk:
    """One fold of `SVC`, `SVR` or `OneClassSVM` on the rows of a Gram matrix of all points.

    Parameters
    ----------
    model : SVC, SVR or OneClassSVM
        With all parameters but C, or ν.
    data : Sample
        All points; weights are zero but for the training rows of the fold.
    rows : Rows
        Of their Gram matrix.
    train, test : ndarray of int
        Positions; of the training rows those of positive weight, increasing.
    """

    model: Any
    data: Sample
    rows: Rows
    train: np.ndarray
    test: np.ndarray

    @classmethod
    def of(
        cls, model: Any, part: Sample, X: Any, rows: Rows, train: np.ndarray, test: np.ndarray
    ) -> MarginWalk:
        """Return the fold whose training rows have the checked targets `part`."""
        n = rows.n
        mine = train if part.kept is None else train[part.kept]
        y, weights = np.zeros(n, dtype=part.y.dtype), np.zeros(n)
        y[mine], weights[mine] = part.y, part.weights
        data = Sample(part.kernel, X, y, weights, None, None, n, part.classes)
        return cls(model, data, rows, mine, test)

    def largest(self) -> float:
        """Return the C from which a fit would try whether the margin is hard."""
        if isinstance(self.model, OneClassSVM):
            return np.inf
        top = float(self.rows.diagonal.max()) * float(self.data.weights[self.train].min())
        return LARGE / top if top > 0 else np.inf

    def along(
        self, Cs: Sequence[float], tally: Tally, ended: Callable[[], bool]
    ) -> Iterator[np.ndarray]:
        """Yield the values at the test rows for each C, which must not decrease.

        It ends where a problem has no solution, which a fit explains, or when `ended` says so.
        """
        last: list[Machine] = []
        before = 1.0
        for C in Cs:
            if ended():
                return
            at = copy.copy(self.model)
            setattr(at, "nu" if isinstance(at, OneClassSVM) else "C", float(C))
            try:
                last = self.solve(at, last, float(C) / before)
            except MercerError:
                return
            before = float(C)
            tally.count(last)
            yield self.values(last)

    def solve(self, model: Any, last: list[Machine], factor: float) -> list[Machine]:
        """Return the machines of a model, from those for a C that is `factor` times smaller."""
        n = len(self.data.y)
        if not is_classifier(model):
            lone = isinstance(model, OneClassSVM) or not last
            start = () if lone else (grown(last[0], factor),)
            return [model._machine(self.data, self.rows, *start)]
        starts = [spread(grown(m, factor), m.index, n) for m in last]
        if not starts:
            starts = [np.zeros(n)] * len(model._tasks(self.data))
        return fold_machines(model, self.data, self.rows, self.train, starts)

    def values(self, machines: list[Machine]) -> np.ndarray:
        """Return what ``predict`` or ``decision_function`` returns."""
        values = values_at(self.rows, machines, self.test)
        if values.shape[1] == 1:
            return values[:, 0]
        classes = len(self.data.classes)  # type: ignore[arg-type]
        return votes(values, classes) if self.model.multi_class == "ovo" else values


def walk_together(
    walks: Sequence[MarginWalk],
    Cs: Sequence[Sequence[float]],
    tally: Tally,
    late: Callable[[], bool],
) -> Iterator[Iterable[np.ndarray]]:
    """Yield the values of each walk along its own C, solved on several threads where that pays."""
    threads = min(get_config().threads, len(walks))
    rows = walks[0].rows
    if not rows.in_memory and is_classifier(walks[0].model):
        yield from _side_by_side(walks, Cs, tally, late)
        return
    if threads < 2 or not rows.whole or sum(map(len, Cs)) * rows.n**2 < WORTH_THREADS:
        for walk, mine in zip(walks, Cs, strict=True):
            yield walk.along(mine, tally, late)
        return
    stop = threading.Event()

    def work(walk: MarginWalk, mine: Sequence[float]) -> tuple[list[np.ndarray], Tally]:
        counts = Tally()
        with config(threads=1):
            ended = lambda: stop.is_set() or late()  # noqa: E731
            return list(walk.along(mine, counts, ended)), counts

    with single_threaded_blas(), workers(threads, stop) as pool:
        jobs = [
            pool.submit(inheriting(work), walk, mine) for walk, mine in zip(walks, Cs, strict=True)
        ]
        found = [job.result() for job in jobs]
    for values, counts in found:
        tally.add(counts)
        yield values


def _side_by_side(
    walks: Sequence[MarginWalk],
    Cs: Sequence[Sequence[float]],
    tally: Tally,
    late: Callable[[], bool],
) -> Iterator[Iterable[np.ndarray]]:
    """Yield what `walk_together` does, all folds and all C solved at once on the device of rows."""
    if late():
        return
    jobs: list[Any] = []
    for walk, mine in zip(walks, Cs, strict=True):
        for C in mine:
            model = copy.copy(walk.model)
            model.C = float(C)
            jobs.append((model, walk.data, walk.train, None))
    found = iter(machines_of_folds(jobs, walks[0].rows))
    for walk, mine in zip(walks, Cs, strict=True):
        values = []
        for _ in mine:
            machines = next(found)
            tally.count(machines)
            values.append(walk.values(machines))
        yield values


# ---- What settings share, by model ----


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
    for others, members in grouped([without(name, setting) for setting in settings]):
        model = clone(base).set_params(**others)
        penalties = [settings[i].get(name, getattr(base, name)) for i in members]
        try:
            yield from answers(scorer, model, kernel, penalties, members)
        except MercerError:
            continue  # the fits say what is wrong, and where


def without(name: str, setting: dict[str, Any]) -> dict[str, Any]:
    """Return settings but for one."""
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


def _process(
    scorer: Any, model: Any, kernel: Kernel, noises: Sequence[Any], members: Sequence[int]
) -> Iterator[tuple[int, int, Answer]]:
    """All variances of the noise, where nothing is tuned: the mean is that of ridge with α = σ².

    That is in the units of the targets, which each fold moves and scales by its own.
    """
    usable = [j for j, noise in enumerate(noises) if _is_penalty(noise)]
    if not usable or model.optimizer is not None or model.mean != "zero":
        return
    values = np.array([float(noises[j]) for j in usable])
    at = clone(model).set_params(noise=float(values[0]))
    folds, units = [], []
    for train, test in scorer.folds:
        train = np.sort(train)
        weights = scorer.of(train)[1]
        some = np.ones(len(train), dtype=bool) if weights is None else np.asarray(weights) > 0
        problem = prepared_targets(at, *scorer.of(train))[0]
        s = np.ones(len(problem.Y)) if problem.weights is None else np.sqrt(problem.weights)
        T = problem.targets.forward(problem.Y)
        folds.append(RidgeFold(train[some], test, T, s, 1.0, problem.column, None))
        units.append(problem.targets)
    K = None if scorer.late() else scorer.gram(model, kernel)
    if K is None or not _definite(kernel, K):
        return
    alphas = np.stack([values / unit.variance_unit() for unit in units])
    found = ridge_values(K, folds, alphas, False)
    for k, (fold, unit, mine) in enumerate(zip(folds, units, found, strict=True)):
        scale, mean = (v[0] if fold.column else v for v in (unit.scale, unit.mean))
        for j, some in zip(usable, mine, strict=True):
            if some is not None:
                yield members[j], k, Answer(model, some * scale + mean)


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
        train = kernel.domain.subset(X, fold.train)
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
        factor(K, max(INDEFINITE * float(np.trace(K)), 1e-300), owner=kernel)
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
    """Paths along C, or ν, on the rows of one Gram matrix."""
    usable = [j for j, C in enumerate(Cs) if walkable(model, C)]
    usable.sort(key=lambda j: float(Cs[j]))
    if not usable:
        return
    checks.check_parameters(model)
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
    ((OneClassSVM,), "nu", _margin),
    ((GaussianProcessRegressor,), "noise", _process),
    ((KernelNeighborsClassifier, KernelNeighborsRegressor), "n_neighbors", neighbour_answers),
)
