"""Rows that come in blocks as the data of a fit: their targets, their classes, their columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.domains.blocks.block import Block, no_weight
from mercer.domains.blocks.dask import is_dask
from mercer.domains.blocks.parts import Weighing
from mercer.domains.blocks.rows import RowBlocks
from mercer.engines.passes.cluster import each_block
from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.models.base import check_targets
from mercer.models.labels import (
    check_kept_classes,
    check_labels,
    class_signs,
    class_weights,
    find_classes,
)

__all__ = [
    "NumericTargets",
    "SignedTargets",
    "as_stream",
    "coded",
    "is_stream",
    "resolved",
]

SEEN = 2000  # rows of a stream that decide words such as length_scale="median"


@dataclass(frozen=True)
class NumericTargets:
    """Turns the targets of a block into float64 of shape (rows, t).

    Parameters
    ----------
    owner : str
        The estimator, for messages.
    """

    owner: str

    def __call__(self, y: Any) -> np.ndarray:
        """Return the targets of a block."""
        return check_targets(y, len(y), self.owner).reshape(len(y), -1)


@dataclass(frozen=True, eq=False)
class SignedTargets:
    """Turns the labels of a block into ±1, one column a class; of two classes one column in all.

    Parameters
    ----------
    classes : ndarray
        All classes, sorted.
    owner : str
        The estimator, for messages.
    """

    classes: np.ndarray
    owner: str

    def __call__(self, y: Any) -> np.ndarray:
        """Return the signs of a block."""
        labels = check_labels(y, len(y), self.owner)
        return np.ascontiguousarray(class_signs(labels, self.classes).T)


@dataclass(frozen=True)
class _BlockLabels:
    """The classes of a block, the weights of their rows together, and where the block comes from.

    Parameters
    ----------
    owner : str
        The estimator, for messages.
    """

    owner: str

    def __call__(self, block: Block) -> tuple[np.ndarray, np.ndarray, str]:
        y = check_labels(block.y, len(block), self.owner)
        w = np.ones(len(y)) if block.weight is None else np.asarray(block.weight, dtype=float)
        classes, codes = np.unique(y, return_inverse=True)
        where = f"rows {block.place.first} to {block.place.first + len(y) - 1} of {block.source}"
        return classes, np.bincount(codes, w, len(classes)), where


@dataclass(frozen=True, eq=False)
class _ClassFactors:
    """Turns the labels of a block into the weights of their classes."""

    classes: np.ndarray
    weights: np.ndarray
    owner: str

    def __call__(self, y: Any) -> np.ndarray:
        labels = check_labels(y, len(y), self.owner)
        return self.weights[np.searchsorted(self.classes, labels)]


def is_stream(X: Any) -> bool:
    """Whether rows come in blocks: `RowBlocks`, or a collection of dask's."""
    return isinstance(X, RowBlocks) or is_dask(X)


def as_stream(X: Any, y: Any, sample_weight: Any, owner: str) -> RowBlocks:
    """Return blocks that carry their targets, and the weights given.

    Parameters
    ----------
    X : RowBlocks, or dask array or frame
        The rows.
    y, sample_weight : array, or what dask has beside X, optional
        In place of those of the blocks.
    owner : str
        The estimator, for messages.
    """
    if is_dask(X):
        X = RowBlocks.from_dask(X, y, sample_weight)
    elif y is not None or sample_weight is not None:
        X = X.with_values(y, sample_weight)
    if not X.has_target:
        raise InvalidInput(
            f"{owner}: the blocks carry no target; name its column, as in "
            "RowBlocks.from_parquet(path, target='y'), or pass y."
        )
    return X


def resolved(kernel: Kernel, rows: RowBlocks, random_state: Any) -> Kernel:
    """Return the kernel with words resolved on some rows, drawn by weight.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    rows : RowBlocks
        The rows.
    random_state : int, RandomState or None
        Source of the draw; None takes the same rows each time.
    """
    if not kernel._asks():
        return kernel
    seed = 0 if random_state is None else random_state
    index, weight = rows.draw(SEEN, seed, each_block)
    return kernel.fit_params(rows.take(index, domain=kernel.domain), weight)


def coded(rows: RowBlocks, class_weight: Any, owner: str) -> tuple[RowBlocks, np.ndarray]:
    """Return the rows with ±1 for labels, and the classes; `class_weight` is in the weights.

    One pass, of which the classes of each block and their weights are kept.

    Parameters
    ----------
    rows : RowBlocks
        The rows, with labels.
    class_weight : dict, "balanced" or None
        Weights of the classes.
    owner : str
        The estimator, for messages.
    """
    found = each_block(rows, _BlockLabels(owner))
    for labels, _, where in found:
        if (labels.dtype.kind in "OSU") != (found[0][0].dtype.kind in "OSU"):
            raise InvalidInput(
                f"{owner}: the labels are {found[0][0].dtype} in {found[0][2]} and {labels.dtype} "
                f"in {where}; give them one type in all blocks."
            )
    labels, totals = (np.concatenate(parts) for parts in list(zip(*found, strict=True))[:2])
    if not (totals > 0).any():
        raise no_weight(owner)
    if class_weight is not None:
        # A class of a block counts here as a row with the weight of all its rows.
        balance = class_weights(class_weight, labels, totals, owner)
        known, first = np.unique(labels, return_index=True)
        rows = rows.with_targets(Weighing(_ClassFactors(known, balance[first], owner)))
        totals = totals * balance
    check_kept_classes(labels, labels[totals > 0], owner)
    classes = find_classes(labels[totals > 0], owner)
    return rows.with_targets(SignedTargets(classes, owner)), classes
