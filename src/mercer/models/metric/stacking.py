"""How members become one prediction: a mean of numbers, a pool of probabilities.

Weights and slopes are those of least error at rows left out, drawn towards equal weights as far as
these rows cannot tell the members apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize, nnls
from scipy.special import log_softmax, softmax

PULL = 10.0  # rows that weights of a mean are drawn to equal ones by
PRIOR = 2.0  # rows that the powers of a pool are drawn to equal ones by
LEAST = 0.02  # part of the largest weight below which a member is left out
NOTHING = 1e-9  # the smallest probability whose logarithm counts


def squared_error(found: np.ndarray, T: np.ndarray, w: np.ndarray | None = None) -> float:
    """Return the weighted mean squared error of predictions."""
    return float(np.average(np.mean((found - T) ** 2, axis=1), weights=w))


def log_loss(P: np.ndarray, labels: np.ndarray, w: np.ndarray | None = None) -> float:
    """Return the weighted mean of −log P of the right class."""
    right = P[np.arange(len(labels)), labels]
    return float(np.average(-np.log(np.maximum(right, NOTHING)), weights=w))


@dataclass(frozen=True)
class Mean:
    """A mean of numbers, with weights of sum 1."""

    weights: np.ndarray

    @classmethod
    def of(cls, found: list[np.ndarray], T: np.ndarray, w: np.ndarray | None, most: int) -> Mean:
        """Return the mean of least error among those of at most so many members."""
        s = np.sqrt(np.ones(len(T)) if w is None else w / w.mean())[:, None]
        A = np.column_stack([(s * each).ravel() for each in found])
        b = (s * T).ravel()
        errors = np.array([squared_error(each, T, w) for each in found])
        pull = np.sqrt(PULL * errors.min() * T.shape[1])
        chosen = np.argsort(errors, kind="stable")[: 2 * most]
        while True:
            k = len(chosen)
            drawn = np.vstack([A[:, chosen], pull * np.sqrt(k) * np.eye(k)])
            found_weights, _ = nnls(drawn, np.append(b, np.full(k, pull / np.sqrt(k))))
            kept = _largest(chosen, found_weights, most)
            if len(kept) in (0, k):
                break
            chosen = kept
        weights = np.zeros(A.shape[1])
        if found_weights.sum() > 0:
            weights[chosen] = found_weights / found_weights.sum()
        else:  # nothing is better than the mean of y: the best alone
            weights[errors.argmin()] = 1.0
        return cls(weights)

    def take(self, kept: np.ndarray) -> Mean:
        """Return the mean of some members."""
        return Mean(_shares(self.weights[kept]))

    def __call__(self, values: list[np.ndarray]) -> np.ndarray:
        return np.asarray(sum(w * each for w, each in zip(self.weights, values, strict=True) if w))


def _shares(weights: np.ndarray) -> np.ndarray:
    """Return weights of sum 1, those that have it as they are."""
    total = weights.sum()
    return weights if np.isclose(total, 1.0, rtol=1e-12) else weights / total


def _largest(chosen: np.ndarray, weights: np.ndarray, most: int) -> np.ndarray:
    """Return those of large weight, the order kept."""
    order = np.argsort(-weights, kind="stable")[:most]
    return chosen[np.sort(order[weights[order] > LEAST * weights.max(initial=0.0)])]


@dataclass(frozen=True)
class LogPool:
    """Probabilities in proportion to Π pₘ^aₘ, where pₘ = softmax(sₘvₘ + oₘ) of a member's values v.

    That is one softmax, of Σ aₘsₘvₘ and an offset for each class: a logistic regression whose
    columns are the members.
    """

    weights: np.ndarray  # (members,), each one's share in the sum, 1 in all
    slopes: np.ndarray  # (members,)
    offset: np.ndarray  # (classes,)

    @classmethod
    def of(
        cls, found: list[np.ndarray], labels: np.ndarray, w: np.ndarray | None, most: int
    ) -> LogPool:
        """Return the pool of least log loss among those of at most so many members."""
        counted = np.ones(len(labels)) if w is None else w / w.mean()
        lines = [calibrated(two_columns(each), labels, counted) for each in found]
        slopes, offsets = np.array([s for s, _ in lines]), np.array([o for _, o in lines])
        logs = np.array(
            [
                log_softmax(s * two_columns(v) + o, axis=1)
                for v, s, o in zip(found, slopes, offsets, strict=True)
            ]
        )
        losses = np.array([log_loss(each, labels, w) for each in np.exp(logs)])
        sizes = slopes * np.array([_size(two_columns(v), counted) for v in found])
        chosen = np.sort(np.argsort(losses, kind="stable")[: 2 * most])
        while True:
            powers = _powers(logs[chosen], labels, counted)
            kept = _largest(chosen, powers * sizes[chosen], most)
            if len(kept) in (0, len(chosen)):
                break
            chosen = kept
        pooled = np.zeros(len(found))
        pooled[chosen] = powers
        weights = pooled * sizes
        if not weights.any():  # nothing is better than the shares of the classes: the best alone
            weights[losses.argmin()] = 1.0
        weights /= weights.sum()
        shown = np.divide(pooled * slopes, weights, out=np.zeros(len(found)), where=weights > 0)
        return cls(weights, shown, pooled @ offsets)

    def take(self, kept: np.ndarray) -> LogPool:
        """Return the pool of some members."""
        return LogPool(_shares(self.weights[kept]), self.slopes[kept], self.offset)

    def scores(self, values: list[np.ndarray]) -> np.ndarray:
        """Return the logarithms of the probabilities, up to a number for each row."""
        scaled = (
            w * s * two_columns(v)
            for w, s, v in zip(self.weights, self.slopes, values, strict=True)
            if w
        )
        return np.asarray(sum(scaled, self.offset))

    def __call__(self, values: list[np.ndarray]) -> np.ndarray:
        return np.asarray(softmax(self.scores(values), axis=1))


def _powers(logs: np.ndarray, labels: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Return powers w ≥ 0 of probabilities, given by their logarithms, of least log loss.

    They are drawn to 1/m, as much as so many rows would count.
    """
    m, n, _ = logs.shape
    rows = np.arange(n)

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        pooled = log_softmax(np.tensordot(w, logs, 1), axis=1)
        off = np.exp(pooled)
        off[rows, labels] -= 1.0
        away = w - 1.0 / m
        value = PRIOR * m * float(away @ away) - float(counted @ pooled[rows, labels])
        slopes = np.tensordot(logs, counted[:, None] * off, 2) + 2 * PRIOR * m * away
        return value, slopes

    found = minimize(
        loss, np.full(m, 1.0 / m), jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * m
    )
    return np.asarray(found.x)


def _size(values: np.ndarray, weights: np.ndarray) -> float:
    """Return how far values of classes are from their mean, the root of the mean square."""
    squares = ((values - values.mean(axis=1, keepdims=True)) ** 2).mean(axis=1)
    return float(np.sqrt(np.average(squares, weights=weights)))


def two_columns(values: np.ndarray) -> np.ndarray:
    """Return values for each class; those of the first of two are 0."""
    return np.column_stack([np.zeros(len(values)), values]) if values.shape[1] == 1 else values


def calibrated(
    values: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return slope and offsets of the softmax of least log loss, the slope not negative."""
    n, k = values.shape
    hot = labels[:, None] == np.arange(k)
    weights = weights / weights.sum()
    size = _size(values, weights)
    unit = 1.0 / size if size > 0 else 1.0

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        scores = unit * point[0] * values + point[1:]
        logs = log_softmax(scores, axis=1)
        G = weights[:, None] * (np.exp(logs) - hot)
        # one more row of each class, without values: offsets stay finite for classes far apart,
        # and one more row that every class has its share of: so does the slope
        prior = log_softmax(point[1:])
        value = -float(weights @ logs[hot]) - float(prior.mean()) / n
        value -= float(weights @ logs.mean(axis=1)) / n
        G += weights[:, None] * (np.exp(logs) - 1 / k) / n
        in_offsets = G.sum(axis=0) + (np.exp(prior) - 1 / k) / n
        return value, np.append(unit * float((G * values).sum()), in_offsets)

    found = minimize(
        loss,
        np.append(1.0, np.zeros(k)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] + [(None, None)] * k,
    )
    return unit * float(found.x[0]), found.x[1:] - found.x[1:].mean()
