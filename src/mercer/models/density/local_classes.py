"""Bandwidths for the densities of several classes: one for each class, or one for all."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.models.density.bandwidth import (
    Bandwidth,
    Smoothing,
    as_bandwidth,
    centre_of,
    check_word,
    column_scales,
    row_number,
    rule_factor,
)
from mercer.models.density.kernel_density import KernelDensity
from mercer.models.density.leave_one_out import has_lone_rows
from mercer.models.density.local import Near, choose_factor, moderate_weights, rest_of

__all__ = ["Classes", "class_bandwidths", "class_codes", "shared_bandwidth"]

NAMED = 5  # classes that a warning names


def class_codes(y: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes of rows of positive weight, and the place of each row's class in them.

    −1 stands for a class that has no such rows.
    """
    classes = np.unique(y if weights is None else y[weights > 0])
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    return classes, np.where(classes[codes] == y, codes, -1)


@dataclass(frozen=True, eq=False)
class Classes:
    """Rows of positive weight, and the classes that they are of."""

    X: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    names: np.ndarray
    owner: str

    @property
    def count(self) -> int:
        """How many classes there are."""
        return len(self.names)

    @property
    def totals(self) -> np.ndarray:
        """Sums of the weights of the classes, over a power of two."""
        return np.bincount(self.codes, moderate_weights(self.weights), self.count)

    def varying(self) -> tuple[np.ndarray, Classes]:
        """Return which columns vary at all, and the same rows with these alone."""
        varies = (self.X != self.X[0]).any(axis=0)
        return varies, replace(self, X=np.ascontiguousarray(self.X[:, varies]))

    def scales(self, weights: np.ndarray) -> np.ndarray:
        """Return the standard deviation of each column within the classes, pooled.

        That of the column as a whole where it varies in no class. All columns vary.
        """
        out = column_scales(self.X, weights, "scott", self.owner)[0]
        inside = np.zeros(self.X.shape[1], dtype=bool)
        for c in range(self.count):
            rows = self.X[self.codes == c]
            inside |= (rows != rows[0]).any(axis=0)
        if inside.any():
            gaps = (self.X - self._means())[:, inside]
            out[inside] = column_scales(gaps, weights, "scott", self.owner)[0]
        return out

    def _means(self) -> np.ndarray:
        """Return the mean of its class for each row."""
        centre = centre_of(self.X)
        sums = np.zeros((self.count, self.X.shape[1]))
        np.add.at(sums, self.codes, moderate_weights(self.weights)[:, None] * (self.X - centre))
        means = sums / self.totals[:, None] + centre
        return means[self.codes]


def class_bandwidths(asked: Any, kernel: Smoothing, classes: Classes) -> list[Any]:
    """Return a bandwidth for each class, found within it."""
    if not isinstance(asked, str):
        return [as_bandwidth(asked, classes.X, None, classes.owner).value] * classes.count
    check_word(asked, classes.owner)
    varies, classes = classes.varying()
    if not varies.any():
        return [np.ones(len(varies))] * classes.count
    return [_filled(varies, part) for part in _within(asked, kernel, classes)]


def _within(asked: str, kernel: Smoothing, classes: Classes) -> list[np.ndarray]:
    """Return the bandwidth of each class, for columns that vary as a whole.

    With "loo" columns that do not vary in a class do not decide: they add 0 to its distances, and
    for any bandwidth of theirs the likelihood is largest where that of the other columns is.
    """
    pooled = None
    out, unsearched = [], []
    for c, name in enumerate(classes.names.tolist()):
        rows, w = classes.X[classes.codes == c], classes.weights[classes.codes == c]
        varies = (rows != rows[0]).any(axis=0)
        scales = np.ones(rows.shape[1])
        if varies.any():
            scales[varies] = column_scales(rows[:, varies], w, asked, classes.owner)[0]
        if not varies.all():
            pooled = classes.scales(classes.weights) if pooled is None else pooled
            scales[~varies] = pooled[~varies]
        if asked == "loo" and varies.any() and has_lone_rows(rows, w):
            density = KernelDensity("loo", kernel.name).fit(rows[:, varies], sample_weight=w)
            factor = density.solution_.value
        else:
            unsearched.append(name)
            rule = "scott" if asked == "loo" else asked
            factor = rule_factor(rule, row_number(w), len(scales), kernel)
        out.append(factor * scales)
    if asked == "loo" and unsearched:
        several = f", and {len(unsearched) - NAMED} more" if len(unsearched) > NAMED else ""
        warnings.warn(
            f"{classes.owner}: bandwidth='loo' finds nothing for class "
            f"{', '.join(map(repr, unsearched[:NAMED]))}{several}, where every row has a copy or "
            "is alone; it has the bandwidth of Scott's rule. With shared=True all classes have one "
            "bandwidth, found together.",
            stacklevel=5,
        )
    return out


def _filled(varies: np.ndarray, part: Any) -> np.ndarray:
    """Return a bandwidth for all columns, 1 for those that do not vary: they tell nothing."""
    out = np.ones(len(varies))
    out[varies] = part
    return out


def shared_bandwidth(
    asked: Any, kernel: Smoothing, classes: Classes, priors: np.ndarray | None
) -> tuple[Any, float | None, np.ndarray | None]:
    """Return one bandwidth for all classes; with "loo" its log-loss, and all that were tried."""
    if not isinstance(asked, str):
        return as_bandwidth(asked, classes.X, None, classes.owner).value, None, None
    check_word(asked, classes.owner)
    varies, classes = classes.varying()
    w = classes.weights
    if not varies.any():
        return np.ones(len(varies)), None, None
    if asked != "loo":
        mean = max(1.0, row_number(w) / classes.count)
        found = rule_factor(asked, mean, int(varies.sum()), kernel) * classes.scales(w)
        return _filled(varies, found), None, None
    base = Bandwidth(classes.scales(w), int(varies.sum()))
    onehot = (classes.codes[:, None] == np.arange(classes.count)).astype(float)
    Z = base.whiten(classes.X, centre_of(classes.X))
    near = Near(kernel, Z, onehot, w, nearest=False)
    loss = _log_loss(classes, onehot, priors)
    factor, error, path = choose_factor(
        lambda factors: near.errors(factors, loss), near.reach(), not kernel.compact
    )
    return _filled(varies, base.scaled(factor).value), error, path


def _log_loss(
    classes: Classes, onehot: np.ndarray, priors: np.ndarray | None
) -> Callable[[slice, np.ndarray], np.ndarray]:
    """Return the log-loss of Bayes' rule from local shares of the classes, one copy left out.

    A density is a local sum over the weight of its class, so that the posterior is the local share
    times the prior over that weight; with the shares of the classes as priors these cancel.
    """
    w = moderate_weights(classes.weights)
    removed = (w * (1.0 - rest_of(classes.weights)))[:, None]
    left = np.maximum(classes.totals - onehot * removed, 0.0)
    left[left < 1e-12 * w.sum()] = 0.0  # what subtraction left of nothing
    least = 1 / len(np.unique(classes.X, axis=0))
    known = left if priors is None else np.broadcast_to(priors, left.shape)
    ratio = np.ones_like(left)
    if priors is not None:
        ratio = np.divide(priors, left, out=np.zeros_like(left), where=left > 0)

    def loss(rows: slice, shares: np.ndarray) -> np.ndarray:
        joint = shares * ratio[rows]
        lone = ~(joint.sum(axis=1) > 0)
        joint[lone] = known[rows][lone]
        total = joint.sum(axis=1)
        own = np.einsum("ic,ic->i", joint, onehot[rows])
        share = np.divide(own, total, out=np.zeros_like(own), where=total > 0)
        return -np.log(np.maximum(share, least))

    return loss
