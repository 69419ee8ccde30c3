"""The loop of active learning: fit, score the rest of the pool, ask for the best label, again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from mercer.checks import check_index, random_source
from mercer.domains import to_host
from mercer.errors import InvalidInput, speaks
from mercer.estimator import check_targets, kernel_of
from mercer.models import KernelEstimator
from mercer.selection.active.acquisition import CRITERIA, next_point


@dataclass(frozen=True, repr=False, eq=False)
class LearnResult:
    """What `learn` did.

    Attributes
    ----------
    model : estimator
        Fitted on all that was labelled.
    order : array of int
        Positions in the pool, in the order they were labelled.
    labels : array
        Their labels.
    n_labels : array of int
        How many labels there were at each entry of `errors`.
    errors : array or None
        Mean squared error, or share of wrong labels, after the first labels and after each query.
    """

    model: Any
    order: np.ndarray
    labels: np.ndarray
    n_labels: np.ndarray
    errors: np.ndarray | None

    def __repr__(self) -> str:
        first, last = self.n_labels[0], self.n_labels[-1]
        told = ""
        if self.errors is not None:
            told = f", error {self.errors[0]:.4g} -> {self.errors[-1]:.4g}"
        return f"LearnResult({first} -> {last} labels{told})"


@speaks("active.learn")
def learn(
    model: Any,
    X_pool: Any,
    y_pool: Any,
    n_queries: int,
    *,
    n_initial: int = 2,
    criterion: str | None = None,
    X_test: Any = None,
    y_test: Any = None,
    random_state: Any = 0,
    **options: Any,
) -> LearnResult:
    """Label a few points of a pool at random, then one after the other those that teach most.

    After each label the model is fitted again. Words in its kernel, such as ``"median"``, are
    resolved on the pool.

    Parameters
    ----------
    model : estimator
        A model that `scores` takes; not changed.
    X_pool : collection of points
        All that could be labelled.
    y_pool : array, or function
        Labels of the pool; or a function from some of its points to their labels, which is asked
        only for those that are queried.
    n_queries : int
        How many labels to ask for after the first.
    n_initial : int, default=2
        How many to begin with, at random; for a classifier more, until there are two classes.
    criterion : str, optional
        What decides: a criterion of `scores`, or "random", for comparison.
    X_test, y_test : data, optional
        For the error curve; by default the pool, where all its labels are given.
    random_state : int, RandomState or None, default=0
        For the first points. The same for the same number, whatever the criterion.
    **options
        `reference`, `goal` and `best` of `scores`.

    Returns
    -------
    LearnResult
        The model, the ``order`` of the labels and the ``errors`` on the way.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, KernelRidge
    >>> from mercer.selection import active
    >>> x = np.linspace(0, 6, 200)[:, None]
    >>> active.learn(KernelRidge(RBF(1.0), alpha=1e-3), x, np.sin(x[:, 0]), 6)
    LearnResult(2 -> 8 labels, error 0.1475 -> 0.0001076)
    """
    if criterion not in (None, *CRITERIA, "random"):
        names = ", ".join(map(repr, CRITERIA))
        raise InvalidInput(f"active.learn: criterion={criterion!r}; give {names} or 'random'.")
    if (X_test is None) != (y_test is None):
        lacks, has = ("y_test", "X_test") if y_test is None else ("X_test", "y_test")
        raise InvalidInput(f"active.learn: got {has} without {lacks}; give both, or neither.")
    X_pool = to_host(X_pool)
    model, m = _on_pool(model, X_pool)
    n_initial = check_index(n_initial, "n_initial", 1, m)
    check_index(n_queries, "n_queries", 0, m - n_initial)
    rng = random_source(random_state)
    ask = _oracle(X_pool, y_pool, m)
    if X_test is None and not callable(y_pool):
        X_test, y_test = X_pool, np.array([ask(i) for i in range(m)])
    shuffled = rng.permutation(m)
    order, labels = _first(model, shuffled, n_initial, ask)
    n_queries = min(n_queries, m - len(order))
    errors, start = [], len(order)
    for step in range(n_queries + 1):
        fit = clone(model).fit(_safe_indexing(X_pool, order), np.array(labels))
        if X_test is not None:
            errors.append(_error(fit, X_test, y_test))
        if step == n_queries:
            break
        rest = np.setdiff1d(shuffled, order)
        if criterion == "random":
            chosen = int(rng.choice(rest))
        else:
            chosen = int(rest[next_point(fit, _safe_indexing(X_pool, rest), criterion, **options)])
        order.append(chosen)
        labels.append(ask(chosen))
    counts = np.arange(start, start + n_queries + 1)
    curve = np.array(errors) if X_test is not None else None
    return LearnResult(fit, np.array(order), np.array(labels), counts, curve)


def _on_pool(model: Any, X_pool: Any) -> tuple[Any, int]:
    """Return the model with its kernel resolved on the pool, and the size of the pool."""
    if not hasattr(model, "fit"):
        raise InvalidInput(f"active.learn: got a {type(model).__name__}; give an estimator.")
    if not isinstance(model, KernelEstimator):
        return model, _num_samples(X_pool)
    if model.kernel is None:  # the model's own, made when it is fitted
        return clone(model), _num_samples(X_pool)
    kernel = kernel_of(model)
    if not kernel.domain.holds_points:
        raise InvalidInput("active.learn: a precomputed matrix has no points; give the kernel.")
    pool = kernel.domain.check(X_pool, "X_pool")
    return clone(model).set_params(kernel=kernel.fit_params(pool)), kernel.domain.size(pool)


def _oracle(X_pool: Any, y_pool: Any, m: int) -> Callable[[int], Any]:
    """Return the function from a position in the pool to its label."""
    if callable(y_pool):

        def told(i: int) -> Any:
            answer = np.asarray(y_pool(_safe_indexing(X_pool, [i])))
            if answer.ndim and len(answer) != 1:
                raise InvalidInput(
                    f"active.learn: y_pool gave shape {answer.shape} for one point; it must return "
                    "one label for each point."
                )
            return answer[0] if answer.ndim else answer[()]

        return lambda i: _usable(told(i), i)
    y = np.asarray(to_host(y_pool))
    if not y.ndim or len(y) != m:
        told_rows = len(y) if y.ndim else "no"
        raise InvalidInput(f"active.learn: X_pool has {m} rows and y_pool has {told_rows}.")
    return lambda i: _usable(y[i], i)


def _usable(label: Any, i: int) -> Any:
    if np.asarray(label).dtype.kind == "f" and not np.isfinite(label).all():
        raise InvalidInput(
            f"active.learn: the label of row {i} of the pool is {label}; give a number, or take "
            "the row out of the pool."
        )
    return label


def _first(
    model: Any, shuffled: np.ndarray, count: int, ask: Callable[[int], Any]
) -> tuple[list[int], list[Any]]:
    """Return the first positions and labels; those of a classifier hold two classes."""
    order = [int(i) for i in shuffled[:count]]
    labels = [ask(i) for i in order]
    while is_classifier(model) and len(set(labels)) < 2 and len(order) < len(shuffled):
        order.append(int(shuffled[len(order)]))
        labels.append(ask(order[-1]))
    return order, labels


@speaks("active.learn")
def _error(model: Any, X: Any, y: Any) -> float:
    values = np.asarray(model.predict(X))
    if is_classifier(model):
        return float((values != np.asarray(y).reshape(-1)).mean())
    return float(((check_targets(y, len(values)) - values) ** 2).mean())


# ---- Active learning: which point to ask the label of next, and a loop that does ----
# `next_point` names the candidate whose label would teach a fitted model most, `scores` says how
# much each would, and `learn` asks for one label after the other.
