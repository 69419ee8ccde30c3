"""Which metrics and losses make a model: the best few of what was tried, together."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mercer.checks import Clock
from mercer.errors import InvalidInput, MercerError
from mercer.memory import on_gpu
from mercer.models.metric.learning import (
    AGAIN,
    HINGE,
    KEPT,
    LOGISTIC,
    SQUARED,
    TWICE,
    EncodedRows,
    Pace,
    Shares,
    rows_in_time,
    trials_of,
)
from mercer.models.metric.members import error_of, fitted
from mercer.models.metric.scores import NormalScores
from mercer.models.metric.stacking import LogPool, Mean, squared_error
from mercer.models.metric.trials import (
    FIRST,
    LARGE,
    Bench,
    Judged,
    Recipe,
    each,
    edge_for,
    folds_of,
    hold_out,
    recipes_for,
)
from mercer.threads import LOOKED, Ticker, blas_for

#: Metrics of one scale, and learned ones, in which logistic regressions and margins are tried;
#: how many logistic ones where a fit takes long beside them, of few rows and of several classes.
TRIED, TRIED_ELSE = {LOGISTIC: (3, 1), HINGE: (3, 1)}, (1, 1)
BEHIND = 1.5  # times the least log loss, beyond which one of them is not looked at again,
HOPELESS = 2.0  # and beyond which no other bandwidth is tried
MARGINS = 30_000  # rows up to which margins are fitted
LONGER = 2.0  # times as long as without a fifth of the rows a fit to all may take
SHORT = 30.0  # seconds for which it is looked whether other processes keep the cores busy
PARTS = 4  # of the rows left out: what is told of one was chosen by the others
FINER = 16  # trials at folds that it takes to leave out rows more finely


@dataclass(frozen=True)
class Chosen:
    """The metrics of a model, the models in them, and what is known of them at rows left out."""

    judged: list[Judged]
    members: list[Any]  # empty where they are fitted to other rows
    together: Mean | LogPool
    left_out: np.ndarray
    error: float
    rows: RowsLeftOut = field(repr=False)
    late: bool = False  # whether time was too short for others

    def with_first(self, members: list[Any]) -> Chosen:
        """Return the first of them, for which there are models, as if there were no others.

        What is told is of these alone: they are weighed anew.
        """
        if len(members) == len(self.judged):
            return replace(self, members=members)
        return replace(self.rows.pooled(self.judged[: len(members)], members), late=True)


@dataclass(frozen=True)
class RowsLeftOut:
    """Rows that fits are made without: what all judged metrics have said of them is compared."""

    rows: EncodedRows  # all of them
    labels: np.ndarray | None
    known: np.ndarray  # those that are left out
    classes: int
    most: int  # members

    def ranked(self, tried: list[Judged]) -> list[Judged]:
        """Return those of the largest weights together, the others by error after them."""
        weights = self._fit_together(tried, np.arange(len(self.known)), len(tried)).weights
        errors = np.array([judged.error for judged in tried])
        return [tried[k] for k in np.lexsort((errors, -weights))]

    def pooled(self, tried: list[Judged], members: list[Any] | None = None) -> Chosen:
        """Return those that are given a weight, the largest first, and what is told of them.

        A row left out is predicted with penalties, bandwidths, rounds, weights and slopes that
        three quarters of the rows have chosen, others than it; of rows beyond those in folds, with
        penalties and rounds that the folds have chosen.
        """
        known, labels = self.known, self.labels
        key = (self.rows.T.mean(axis=1) if labels is None else labels)[known]
        part = folds_of(key, PARTS, np.random.default_rng(0))
        columns = self.classes or self.rows.T.shape[1]
        left = np.full((len(self.rows), columns), np.nan)
        for p in range(PARTS):
            seen, unseen = np.flatnonzero(part != p), np.flatnonzero(part == p)
            honest = [self._chosen_by(judged, seen) for judged in tried]
            together = self._fit_together(honest, seen, self.most)
            left[known[unseen]] = together([judged.left_out[unseen] for judged in honest])
        there = self.rows.take(known)
        if labels is None:
            error = squared_error(left[known], there.T, there.w)
        else:
            wrong = left[known].argmax(axis=1) != labels[known]
            error = float(np.average(wrong, weights=there.w))
        together = self._fit_together(tried, np.arange(len(known)), self.most)
        kept = np.argsort(-together.weights, kind="stable")  # the largest first
        kept = kept[: np.count_nonzero(together.weights)]
        fitted = [members[k] for k in kept] if members else []
        return Chosen([tried[k] for k in kept], fitted, together.take(kept), left, error, self)

    def _chosen_by(self, judged: Judged, seen: np.ndarray) -> Judged:
        """Return it with what is best of all that was compared at some of the rows."""
        there, labels = self.rows.take(self.known[seen]), self.labels
        if len(judged.compared) == 1:
            return judged
        if labels is not None and judged.loss != SQUARED:
            right = labels[self.known[seen]]
            errors = [error_of(judged.loss, v[seen], right, there.w) for v in judged.compared]
        else:
            errors = [squared_error(v[seen], there.T, there.w) for v in judged.compared]
        best = int(np.argmin(np.nan_to_num(errors, nan=np.inf)))
        return judged if best == 0 else replace(judged, left_out=judged.compared[best])

    def _fit_together(self, tried: list[Judged], seen: np.ndarray, most: int) -> Mean | LogPool:
        index = self.known[seen]
        found, there = [judged.left_out[seen] for judged in tried], self.rows.take(index)
        if self.labels is None:
            return Mean.of(found, there.T, there.w, most)
        return LogPool.of(found, self.labels[index], there.w, most)


def losses_for(shares: Shares, classes: int, fit: bool) -> dict[str, tuple[int, int]]:
    """Return the losses beside the squared one, and in how many metrics each is tried.

    That is, metrics of one scale and learned ones. Margins are fitted to all rows in memory, not
    to blocks. A softmax of several classes takes too long on many rows.
    """
    out = {}
    if fit and shares.rows <= MARGINS:
        out[HINGE] = TRIED[HINGE]
    if classes == 2 or shares.leaves_out:
        out[LOGISTIC] = TRIED_ELSE if shares.folds > 2 or classes > 2 else TRIED[LOGISTIC]
    return out


class Choice:
    """The search for the members of a model, among the rows of all views."""

    def __init__(
        self,
        rows: EncodedRows,
        scores: NormalScores,
        labels: np.ndarray | None,
        *,
        n_models: int,
        max_rows: int,
        clock: Clock,
        rng: Any,
        fit: bool = True,
    ):
        self.fit = fit
        self.rows, self.labels, self.clock, self.rng = rows, labels, clock, rng
        self.n_models = n_models
        self.classes = 0 if labels is None else int(labels.max()) + 1
        self.views = {view: replace(rows, Z=scores.view(rows.Z, view)) for view in scores.views}
        shares = Shares.of(len(rows), max_rows, labels is not None)
        self.trials = Clock(trials_of(shares, clock.limit))
        self.trials.began = clock.began
        max_rows = rows_in_time(rows.Z, len(rows), max_rows, self.trials.limit)
        self.shares = shares = Shares.of(len(rows), max_rows, labels is not None)
        self.leaves_out, many = shares.leaves_out, shares.bench < len(rows)
        every = np.arange(len(rows))
        self.bench = np.sort(rng.choice(every, shares.bench, replace=False)) if many else every
        key = rows.T.mean(axis=1) if labels is None else labels
        self.fold = folds_of(key[self.bench], shares.folds, rng)
        self.tried: list[Judged] = []
        self.failure: MercerError | None = None
        self.ticker = Ticker("learning metrics")
        self.late = False  # whether time was too short for a metric or a member
        self.pace = Pace()
        self.plain = 0.0  # seconds of a trial of one scale
        self.longest = dict.fromkeys((SQUARED, LOGISTIC, HINGE), 0.0)  # seconds of a trial
        self.least = np.inf  # log loss of logistic regressions and margins at folds

    def _has_time(self, loss: str = SQUARED) -> bool:
        """Whether another trial is likely to end in time; the first is made whatever it takes.

        What the first of a loss takes is guessed from those of ridges.
        """
        rest = self.trials.rest()
        guess = self.longest[SQUARED] * (max(1, self.classes - 1) if loss == LOGISTIC else 1)
        return not self.tried or rest is None or rest > (self.longest[loss] or guess)

    def _tried(self, began: float, found: Judged, text: str) -> None:
        self.tried.append(found)
        self._took(began, found.loss)
        self.ticker.tell(f"{found.name}: {text}")

    def _took(self, began: float, loss: str) -> None:
        self.longest[loss] = max(self.longest[loss], self.clock.spent - began)

    def made(self) -> Chosen:
        """Return the members, fitted to all rows; unfitted where others are to be fitted."""
        try:
            with blas_for(self.bench if len(self.bench) > LARGE else ()):
                self._try_all()
            with blas_for(min(len(self.rows), LOOKED) if self._is_short else self.rows.Z):
                whole, known = self._on_all_rows()
                chosen = self._left_out(known).pooled(whole)
                chosen = self._fitted(chosen, whole) if self.fit else chosen
                return replace(chosen, late=chosen.late or self.late)
        finally:
            self.ticker.close()

    @property
    def _is_short(self) -> bool:
        return self.clock.limit is not None and self.clock.limit <= SHORT

    def _left_out(self, known: np.ndarray) -> RowsLeftOut:
        return RowsLeftOut(self.rows, self.labels, known, self.classes, self.n_models)

    def _try_all(self) -> None:
        ranked: list[tuple[float, int, Bench]] = []
        for view, seen in self.views.items():
            if not self._has_time():
                break
            bench = Bench(seen.take(self.bench), view, self.fold)
            errors = [self._attempt(bench, recipe) for recipe in FIRST]
            ranked.append((min(errors), len(ranked), bench))
        self.plain = self.longest[SQUARED]
        ranked.sort(key=lambda item: item[:2])
        for recipe in recipes_for(len(self.bench), int(self.rows.factors.max()) + 1):
            for _, _, bench in ranked[: recipe.views]:
                self._attempt(bench, recipe)
        if not self.tried:
            raise self.failure or InvalidInput("no metric could be learned from these rows.")
        self.tried.sort(key=lambda judged: judged.error)
        if self.labels is not None:
            benches = {bench.view: bench for _, _, bench in ranked}
            self._try_losses(benches, self.labels[self.bench])

    def _try_losses(self, benches: dict[str, Bench], labels: np.ndarray) -> None:
        """Try logistic regressions and margins in the best metrics."""
        plain_ones = [judged for judged in self.tried if judged.recipe in FIRST]
        learned = [judged for judged in self.tried if judged.recipe not in FIRST]
        of_kernel = {judged.recipe.name: judged for judged in reversed(plain_ones)}
        best_of_kernels = sorted(of_kernel.values(), key=lambda judged: judged.error)
        for loss, (of_one, of_learned) in losses_for(self.shares, self.classes, self.fit).items():
            chosen = best_of_kernels if loss == HINGE else plain_ones
            for judged in learned[:of_learned] + chosen[:of_one]:
                if self._has_time(loss) and not self._attempt_loss(
                    benches[judged.view], judged, loss, labels
                ):
                    break

    def _attempt_loss(self, bench: Bench, judged: Judged, loss: str, labels: np.ndarray) -> bool:
        """Try another loss in a metric; return whether others of its kind are worth a trial.

        That is so where it is better than the ridge regression in its metric. One that is far
        behind another at the folds is not tried on.
        """
        began = self.clock.spent
        with suppress(MercerError):  # of a class that some fits do not see, say
            most = HOPELESS * self.least
            found = bench.with_loss(judged, loss, labels, self.classes, self.trials, most)
            of_one = (self.clock.spent - began) / max(1, len(found.compared))
            found = replace(found, seconds=TWICE * of_one)
            self.least = min(self.least, found.error)
            if not np.isfinite(found.error) or found.error > BEHIND * self.least:
                self._took(began, loss)
                return True
            rest = self.trials.rest()
            soon = rest is None or rest > FINER * of_one
            # in three folds of a logistic regression it is enough to leave out folds
            if soon and (loss == HINGE or bench.count == 2):
                found = bench.leave_out(found, labels, self.classes)
            self._tried(began, found, f"log loss {found.error:.3g} of rows left out")
            ridge = error_of(SQUARED, judged.left_out, labels, bench.rows.w)
            return found.error < ridge or judged.recipe not in FIRST
        self._took(began, loss)
        return False

    def _attempt(self, bench: Bench, recipe: Recipe) -> float:
        if not self._has_time():
            self.late = self.late or recipe not in FIRST
            return np.inf
        began = self.clock.spent
        least = min((judged.error for judged in self.tried), default=np.inf)
        so_far = f"; least left-out error so far {least:.3g}" if self.tried else ""
        self.ticker.tell(f"trying {recipe.name}{so_far}")
        try:
            found = bench.judge(recipe, self.trials)
        except MercerError as error:
            self.failure = self.failure or error
            return np.inf
        if found is None or not np.isfinite(found.error):
            return np.inf
        least = min(judged.error for judged in [*self.tried, found])
        self._tried(began, found, f"left-out error {found.error:.3g}, least {least:.3g}")
        return found.error

    def _on_all_rows(self) -> tuple[list[Judged], np.ndarray]:
        """Return what was tried with predictions for rows left out, and for which rows.

        Of few rows they are there already. Of more, the best are tried again: ridges leave out each
        row of all, and what takes longer is fitted without some rows that nothing was learned from.
        Where there is no time to leave out each row of all, those of the folds are known.
        """
        rows = self.rows
        if len(self.bench) == len(rows):
            return self.tried, self.bench
        best = self._left_out(self.bench).ranked(self.tried)[: min(AGAIN, self.n_models + KEPT)]
        if self.leaves_out:
            known, fold = np.arange(len(rows)), self._folds_of_all()
        else:
            free = np.setdiff1d(np.arange(len(rows)), self.bench)
            known = np.sort(self.rng.choice(free, self.shares.held_out, replace=False))
        if (rest := self.clock.rest()) is not None and len(rows) > LARGE:
            self._in_seconds(rest / (TWICE + 1))  # a plan is rough
        # a trial on more rows, with one penalty; without it those of the folds are known
        guess = self.plain / 2 * (len(rows) / len(self.bench)) ** 2 if self.leaves_out else 0.0
        whole: list[Judged] = []
        for judged in best:
            limit = self._rest_for_one(whole)
            longest = max((other.seconds for other in whole), default=guess)
            if limit is not None and limit <= longest:
                self.late = True
                break
            if self.leaves_out:
                began, bench = self.clock.spent, Bench(self.views[judged.view], judged.view, fold)
                found = bench.at_penalties(judged, (1.0,))
                found = replace(found, seconds=self.clock.spent - began)
            else:
                found = self._held_out(judged, known, limit)
            if np.isfinite(found.error):
                whole.append(found)
                self.ticker.tell(f"{found.name}, all rows: left-out error {found.error:.3g}")
        if whole or not self.leaves_out:
            return whole or [self._at_least_one(best, known)], known
        return self.tried, self.bench

    def _in_seconds(self, seconds: float) -> None:
        """Let models be fitted with as many centres as there is time for."""
        how = self.pace.how(self.rows.Z, self.rows.T, self.rows.like, seconds)
        self.views = {view: replace(seen, how=how) for view, seen in self.views.items()}

    def _held_out(self, judged: Judged, known: np.ndarray, limit: float | None) -> Judged:
        seen, began = self.views[judged.view], self.clock.spent
        found = hold_out(judged, seen, self.labels, self.classes, known, limit)
        seconds = self.clock.spent - began
        found = replace(found, model=found.model if self.fit else None, seconds=seconds)
        slow = limit is not None and len(seen) > LARGE and seconds > limit / TWICE
        if slow and (rest := self._rest_for_one([found]) or 0.0) > 0:
            count = len(seen) - len(known)
            self.pace.took(seconds, seen.Z[:count], seen.T[:count], seen.how or {}, seen.like)
            self._in_seconds(rest)
        return found

    def _at_least_one(self, best: list[Judged], known: np.ndarray) -> Judged:
        """Return the best of what is fitted soonest, whatever it takes."""
        self._in_seconds((self.clock.rest() or 0.0) / AGAIN)
        return self._held_out(_soonest(best), known, None)

    def _rest_for_one(self, whole: list[Judged]) -> float | None:
        """Return the seconds for another fit that leaves out rows, if all are to be made again."""
        rest = self.clock.rest()
        return None if rest is None else (rest - sum(one.seconds for one in whole)) / TWICE

    def _folds_of_all(self) -> np.ndarray:
        """Return the folds with all rows in them; those that no metric saw may be in any."""
        fold = self.rng.integers(int(self.fold.max()) + 1, size=len(self.rows))
        fold[self.bench] = self.fold
        return fold

    def _fitted(self, chosen: Chosen, whole: list[Judged]) -> Chosen:
        """Return them with models in their metrics, fitted to all rows.

        Where there is no time for that they are those that were held out from. Members of which
        there is neither are not members: the others are weighed anew. If there is none at all, it
        is the best of what is fitted soonest.
        """
        longest = dict.fromkeys(self.longest, 0.0)

        def one(k: int) -> Any:
            told, rest, began = chosen.judged[k], self.clock.rest(), self.clock.spent
            if rest is not None and rest <= LONGER * max(told.seconds, longest[told.loss]):
                return told.model
            model = self._fit_to_all(told)
            longest[told.loss] = max(longest[told.loss], (self.clock.spent - began) / LONGER)
            return model

        rows, count = len(self.rows), len(chosen.judged)
        if rows > LARGE or on_gpu(self.rows.like):  # a matrix that is large has all cores
            models = [*map(one, range(count))]
        else:
            dear = LOGISTIC if any(told.loss == LOGISTIC for told in chosen.judged) else SQUARED
            models = each(one, count, edge_for(rows, dear, self.classes))
        if all(model is not None for model in models):
            return replace(chosen, members=models)
        self.late = True
        judged = [told for told, model in zip(chosen.judged, models, strict=True) if model]
        models = [model for model in models if model]
        if not models:
            judged = [_soonest(chosen.judged if count == 1 else [*chosen.judged, *whole])]
            models = [self._fit_to_all(judged[0])]
        return chosen.rows.pooled(judged, models)

    def _fit_to_all(self, told: Judged) -> Any:
        return fitted(told.metric, self.views[told.view], self.labels, told.loss)


def _soonest(judged: list[Judged]) -> Judged:
    """Return the first ridge regression, which is fitted soonest, or else the first."""
    return next((told for told in judged if told.loss == SQUARED), judged[0])
