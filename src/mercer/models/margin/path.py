"""Solutions of a support vector classifier along C, and their folds, on one set of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer import checks
from mercer.checks import Clock, check_grid
from mercer.errors import InvalidInput, speaking_for
from mercer.estimator import Sample
from mercer.models.margin.folds import (
    Tally,
    fold_machines,
    machines_of_folds,
    splits,
    values_at,
    with_time_left,
)
from mercer.models.margin.problems import Machine, Task, gram_rows, spread, votes
from mercer.solvers import Rows

ALIKE = 1.01  # ratio of losses up to which they count as equal


@dataclass(frozen=True, eq=False)
class SVCPath:
    """What `SVC.path` found; entry i of everything belongs to the i-th C as it was given.

    ``mean_score``, ``best_index``, ``best_C`` and ``best_model`` need the scores of folds; without
    `cv` they raise `InvalidInput`.

    Attributes
    ----------
    Cs : ndarray of shape (n_C,)
        The values of C, as given.
    models : list of SVC
        The fitted model of each.
    n_support : ndarray of shape (n_C,)
        How many support vectors it has.
    dual, gap : ndarray of shape (n_C,)
        Its dual value and duality gap.
    n_iter : ndarray of shape (n_C,)
        Steps of the solver from the solution for the next smaller C.
    scores : ndarray of shape (n_C, n_folds) or None
        Share of the test rows of each fold that are right, rows counted by sample weight; None
        without `cv`.
    losses : ndarray of shape (n_C, n_folds) or None
        Their mean hinge loss over the two-class problems that they belong to; None without `cv`.
    fold_iter : ndarray of shape (n_C,) or None
        Steps of the solver in all folds; None without `cv`.
    """

    Cs: np.ndarray
    models: list[Any]
    n_support: np.ndarray
    dual: np.ndarray
    gap: np.ndarray
    n_iter: np.ndarray
    scores: np.ndarray | None = None
    losses: np.ndarray | None = None
    fold_iter: np.ndarray | None = None

    @property
    def mean_score(self) -> np.ndarray:
        """The mean of the scores over the folds."""
        return self._folds("mean_score")[0].mean(axis=1)

    @property
    def best_index(self) -> int:
        """Which C has the best mean score; of equal ones the smallest with the least mean loss.

        Losses that differ by less than a hundredth count as equal.
        """
        scores, losses = (values.mean(axis=1) for values in self._folds("best_index"))
        best = scores >= scores.max() - 1e-12  # sums of the same scores in another order
        good = best & (losses <= ALIKE * losses[best].min())
        return int(np.argmin(np.where(good, self.Cs, np.inf)))

    @property
    def best_C(self) -> float:
        """The best C by `best_index`."""
        self._folds("best_C")
        return float(self.Cs[self.best_index])

    @property
    def best_model(self) -> Any:
        """The model with the best C, fitted on all rows."""
        self._folds("best_model")
        return self.models[self.best_index]

    def _folds(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        if self.scores is None or self.losses is None:
            raise InvalidInput(
                f"SVCPath: {name} needs the scores of folds; call path(X, y, Cs, cv=5)."
            )
        return self.scores, self.losses

    def __repr__(self) -> str:
        low, high = self.Cs.min(), self.Cs.max()
        text = f"SVCPath({len(self.Cs)} values of C from {low:.4g} to {high:.4g}"
        if self.scores is None:
            return text + ")"
        best = self.best_index
        return text + f"; best C={self.Cs[best]:.4g}, mean score {self.mean_score[best]:.4f})"


def path_along_C(
    model: Any, X: Any, y: Any, Cs: Any, cv: Any = None, sample_weight: Any = None
) -> SVCPath:
    """Fit a classifier for every C, each from the solution of the one before it.

    Its own C is not used, and it is not changed. Values of C are solved from the smallest to the
    largest and answered in the order given; `cv` are folds to score every C on.
    """
    name = type(model).__name__
    with speaking_for(f"{name}.path"):
        given = check_grid(Cs, "Cs")
        grid, place = np.unique(given, return_inverse=True)
        fresh = clone(model).set_params(C=float(grid[0]))
        checks.check_parameters(fresh)
        data = fresh._prepare(X, y, sample_weight)
        folds = None if cv is None else splits(cv, y, data, model.random_state)
        with speaking_for(name):
            rows = gram_rows(data.kernel, data.X, often=True)
        walk = None if folds is None else FoldWalk(data, rows, fresh._tasks(data), folds)
        models: list[Any] = []
        machines: list[Machine] = []
        tally = Tally()
        for C in grid:
            member = clone(model).set_params(C=float(C))
            for attribute in ("n_features_in_", "feature_names_in_"):
                if attribute in vars(fresh):
                    setattr(member, attribute, getattr(fresh, attribute))
            starts = [grown(m, C / models[-1].C) for m in machines] if models else None
            clock = Clock(member.max_time)
            machines = member._machines(data, rows, starts=starts)
            tally.count(machines)
            member._store(data, machines)
            member._after_fit(data, rows, clock)
            models.append(member)
            if walk is not None:
                walk.step(member, machines, clock)
        with speaking_for(name):
            tally.warn("of the path", "these solutions are approximate")
        if walk is not None:
            with speaking_for(name):
                walk.tally.warn("in the folds of the path", "the scores are approximate")
        solutions = [m.solution_ for m in models]
        return SVCPath(
            Cs=given,
            models=[models[i] for i in place],
            n_support=np.array([len(m.support_) for m in models])[place],
            dual=np.array([s.dual for s in solutions])[place],
            gap=np.array([s.gap for s in solutions])[place],
            n_iter=np.array([s.n_iter for s in solutions])[place],
            scores=None if walk is None else np.array(walk.scores)[place],
            losses=None if walk is None else np.array(walk.losses)[place],
            fold_iter=None if walk is None else np.array(walk.n_iter)[place],
        )


def grown(machine: Machine, factor: float) -> np.ndarray:
    """Return a start for a C that is `factor` times larger.

    Coefficients at their bound stay at it, the others stay where they are: between two changes of
    these sets the solution is linear in C. The solver clips to the bounds, beyond which rounding is
    kept by the last factor, and puts the sums right.
    """
    return np.where(machine.bound, factor * machine.coef * (1 + 1e-9), machine.coef)


class FoldWalk:
    """The folds of a path: their solutions at the last C, and scores and losses so far.

    Parameters
    ----------
    data : Sample
        All points.
    rows : Rows
        Rows of their Gram matrix.
    tasks : sequence of Task
        The two-class problems on all points.
    folds : sequence of tuple
        Training and test positions.
    """

    def __init__(
        self,
        data: Sample,
        rows: Rows,
        tasks: Sequence[Task],
        folds: Sequence[tuple[np.ndarray, np.ndarray]],
    ):
        self.data, self.rows, self.tasks, self.folds = data, rows, tasks, folds
        self.last: dict[int, tuple[list[Machine], float]] = {}
        self.scores: list[list[float]] = []
        self.losses: list[list[float]] = []
        self.n_iter: list[int] = []
        self.tally = Tally()

    def step(
        self,
        model: Any,
        machines: Sequence[Machine] | None = None,
        clock: Clock | None = None,
        limit: float = np.inf,
    ) -> bool:
        """Solve the folds for the C of a model, from its solution on all points if it is there.

        Parameters
        ----------
        model : SVC
            Whose C is not below that of the last step.
        machines : sequence of Machine, optional
            Its solution on all points.
        clock : Clock, optional
            Of the time that `max_time` limits; it begins now by default.
        limit : float, optional
            A mean share of wrong rows. As soon as that of all folds must exceed it the other folds
            are left alone, and nothing is noted.

        Returns
        -------
        bool
            Whether all folds were solved.
        """
        clock = clock or Clock(model.max_time)
        n, begin = len(self.data.y), [np.zeros(len(self.data.y))] * len(self.tasks)
        if machines is not None and not self.last:
            begin = [spread(m.coef, m.index, n) for m in machines]
        scores, losses, steps = [], [], 0
        jobs = []
        for k, (train, _) in enumerate(self.folds):
            if k in self.last:
                machines, C = self.last[k]
                begin = [spread(grown(m, model.C / C), m.index, n) for m in machines]
            jobs.append((train, begin))
        together: list[list[Machine]] = []
        if not self.rows.in_memory:  # a device solves all folds side by side
            part = with_time_left(model, clock)
            together = machines_of_folds([(part, self.data, *job) for job in jobs], self.rows)
        for k, (_, test) in enumerate(self.folds):
            if together:
                fold = together[k]
            else:
                part = with_time_left(model, clock)
                fold = fold_machines(part, self.data, self.rows, *jobs[k])
            self.tally.count(fold)
            score, loss = self._judge(model, values_at(self.rows, fold, test), test)
            self.last[k] = fold, model.C
            scores.append(score)
            losses.append(loss)
            steps += sum(m.solution.n_iter for m in fold)
            if k + 1 < len(self.folds) and len(scores) - sum(scores) > len(self.folds) * limit:
                return False
        self.scores.append(scores)
        self.losses.append(losses)
        self.n_iter.append(steps)
        return True

    def _judge(self, model: Any, values: np.ndarray, test: np.ndarray) -> tuple[float, float]:
        """Return the share that is right, and the mean hinge loss."""
        data = self.data
        codes = data.y[test]
        w = np.ones(len(test)) if data.repeats is None else data.repeats[test]
        k = len(data.classes)  # type: ignore[arg-type]
        if k == 2:
            said = (values[:, 0] > 0).astype(int)
        else:
            said = (votes(values, k) if model.multi_class == "ovo" else values).argmax(axis=1)
        signs = np.zeros(values.shape)
        for j, task in enumerate(self.tasks):
            other = codes == task.negative if task.negative >= 0 else codes != task.positive
            signs[:, j] = (codes == task.positive).astype(float) - other
        counted = w[:, None] * (signs != 0)
        loss = counted * np.maximum(0.0, 1.0 - signs * values)
        return float((w * (said == codes)).sum() / w.sum()), float(loss.sum() / counted.sum())
