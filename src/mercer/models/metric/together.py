"""What members are worth, by what each says of rows left out, and what is told of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mercer.models.metric.learning import SQUARED, EncodedRows
from mercer.models.metric.members import error_of
from mercer.models.metric.stacking import LogPool, Mean, squared_error
from mercer.models.metric.trials import Judged, folds_of

PARTS = 4  # of the rows left out: what is told of one was chosen by the others


@dataclass(frozen=True)
class Chosen:
    """The metrics of a model, the models in them, and what is known of them at rows left out."""

    judged: list[Judged]
    members: list[Any]  # empty where they are fitted to other rows
    together: Mean | LogPool
    left_out: np.ndarray
    error: float
    rows: LeftOut = field(repr=False)
    late: bool = False  # whether time was too short for others

    def with_first(self, members: list[Any]) -> Chosen:
        """Return the first of them, for which there are models, as if there were no others.

        What is told is of these alone: they are weighed anew.
        """
        if len(members) == len(self.judged):
            return replace(self, members=members)
        return replace(self.rows.pooled(self.judged[: len(members)], members), late=True)


@dataclass(frozen=True)
class LeftOut:
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
