"""How members become one prediction: a mean of numbers, a mixture of probabilities.

Weights and slopes are those of least error at rows left out, drawn towards equal weights as far as
these rows cannot tell the members apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize, nnls
from scipy.special import log_softmax, softmax

PULL = 5.0  # rows that weights of a mean are drawn to equal ones by
PRIOR = 2.0  # rows that each member of a mixture has before any is counted
ROUNDS = 200  # of expectation and maximisation
LEAST = 0.02  # part of the largest weight below which a member is left out
CERTAIN = 1e-3  # the smallest probability that a member's verdict on a row counts as
NOTHING = 1e-9  # and of a logarithm


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
        """Return the mean of some members, those that have a weight among them."""
        return Mean(self.weights[kept])

    def __call__(self, values: list[np.ndarray]) -> np.ndarray:
        return np.asarray(sum(w * each for w, each in zip(self.weights, values, strict=True) if w))


def _largest(chosen: np.ndarray, weights: np.ndarray, most: int) -> np.ndarray:
    """Return those of large weight, the order kept."""
    order = np.argsort(-weights, kind="stable")[:most]
    return chosen[np.sort(order[weights[order] > LEAST * weights.max(initial=0.0)])]


@dataclass(frozen=True)
class ClassMixture:
    """Probabilities Σ wₘ softmax(sₘvₘ + oₘ) of members' values v; a softmax of their logarithm.

    The last takes back what a mean of several probabilities loses of its certainty.
    """

    weights: np.ndarray  # (members,)
    slopes: np.ndarray  # (members,)
    offsets: np.ndarray  # (members, classes)
    slope: float
    offset: np.ndarray  # (classes,)

    @classmethod
    def of(
        cls, found: list[np.ndarray], labels: np.ndarray, w: np.ndarray | None, most: int
    ) -> ClassMixture:
        """Return the mixture of small log loss among those of at most so many members."""
        n, counted = len(labels), np.ones(len(labels)) if w is None else w / w.mean()
        lines = [calibrated(two_columns(each), labels, counted) for each in found]
        slopes, offsets = np.array([s for s, _ in lines]), np.array([o for _, o in lines])
        P = [_softmax(v, s, o) for v, s, o in zip(found, slopes, offsets, strict=True)]
        losses = np.array([log_loss(each, labels, w) for each in P])
        right = np.column_stack([each[np.arange(n), labels] for each in P])
        right = np.maximum(right, CERTAIN)
        chosen = np.argsort(losses, kind="stable")[: 2 * most]
        while True:
            shares = _shares(right[:, chosen], counted)
            kept = _largest(chosen, shares, most)
            if len(kept) == len(chosen):
                break
            chosen = kept
        weights = np.zeros(len(found))
        weights[chosen] = shares
        mixed = sum(weights[m] * P[m] for m in chosen)
        slope, offset = calibrated(_logarithm(mixed), labels, counted)
        return cls(weights, slopes, offsets, slope, offset)

    def take(self, kept: np.ndarray) -> ClassMixture:
        """Return the mixture of some members, those that have a weight among them."""
        return ClassMixture(
            self.weights[kept], self.slopes[kept], self.offsets[kept], self.slope, self.offset
        )

    def scores(self, values: list[np.ndarray]) -> np.ndarray:
        """Return the logarithms of the probabilities, up to a number for each row."""
        mixed = sum(
            w * _softmax(v, s, o)
            for w, v, s, o in zip(self.weights, values, self.slopes, self.offsets, strict=True)
            if w
        )
        return self.slope * _logarithm(mixed) + self.offset

    def __call__(self, values: list[np.ndarray]) -> np.ndarray:
        return np.asarray(softmax(self.scores(values), axis=1))


def _softmax(values: np.ndarray, slope: float, offsets: np.ndarray) -> np.ndarray:
    return np.asarray(softmax(slope * two_columns(values) + offsets, axis=1))


def _logarithm(P: Any) -> np.ndarray:
    return np.log(np.maximum(P, NOTHING))


def _shares(right: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Return the weights of a mixture of largest likelihood, by expectation and maximisation."""
    n, m = right.shape
    shares = np.full(m, 1.0 / m)
    for _ in range(ROUNDS):
        belongs = right * shares
        belongs *= (counted / belongs.sum(axis=1))[:, None]
        shares = (belongs.sum(axis=0) + PRIOR) / (n + m * PRIOR)
    return shares


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
    size = float(np.sqrt(weights @ ((values - values.mean(axis=1, keepdims=True)) ** 2).mean(1)))
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
