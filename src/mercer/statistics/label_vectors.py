"""Points of several samples with labels and weights, and the label vectors of shuffled samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.domains import GramRows
from mercer.engines.blocks import require_memory
from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.statistics.permutation import Relabel
from mercer.statistics.samples import as_counts, pool

__all__ = ["Labelled", "labelled", "submatrix", "weights_of"]


@dataclass(frozen=True, eq=False)
class Labelled:
    """All points, the sample that each belongs to, and how often it counts.

    Parameters
    ----------
    kernel : Kernel
        Without words.
    Z : canonical collection
        The points whose weight is positive; of precomputed kernels their Gram matrix.
    labels : ndarray of integers of shape (N,)
        Sample of each point, counted from 0.
    weights : ndarray of shape (N,)
        Weights > 0.
    counts : ndarray of shape (N,) or None
        The weights as whole numbers, where some differ from one and all are whole.
    given : ndarray of shape (N,)
        Positions of the points among all that were given.
    rows : int
        How many points were given.
    """

    kernel: Kernel
    Z: Any
    labels: np.ndarray
    weights: np.ndarray
    counts: np.ndarray | None
    given: np.ndarray
    rows: int

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def unit(self) -> bool:
        """Whether every weight is one."""
        return bool((self.weights == 1).all())

    def totals(self) -> np.ndarray:
        """Return the sum of the weights of each sample."""
        return np.bincount(self.labels, weights=self.weights)

    def sizes(self) -> tuple[int, ...]:
        """Return the sizes of the samples, copies counted."""
        counts = np.bincount(self.labels) if self.counts is None else self.totals()
        return tuple(int(size) for size in counts)

    def design(self, blocks: Any, strata: Any, owner: str) -> Relabel:
        """Return what is drawn: labels of points, of blocks, or of the copies of each point.

        Parameters
        ----------
        blocks, strata : int, array, sequence of arrays or None
            As the user gave them: one array of all rows, or one for each sample.
        owner : str
            Whose arguments they are.
        """
        blocks = self.rows_of("blocks", blocks, owner)
        strata = self.rows_of("strata", strata, owner)
        labels = self.labels
        if self.counts is not None and blocks is None:
            require_memory(
                32 * int(self.counts.sum()),
                f"{owner}: labels for the {int(self.counts.sum())} rows that the weights count",
                "Give weights that are not whole numbers, which move with their rows",
            )
            labels = np.repeat(labels, self.counts)
            strata = None if strata is None else np.repeat(strata, self.counts)
        return Relabel(labels, blocks=blocks, strata=strata, owner=owner)

    def vectors(self, draws: np.ndarray, label: int) -> np.ndarray:
        """Return how much of each point is in one sample, a column for each draw, (N, b).

        Parameters
        ----------
        draws : ndarray of shape (b, N) or (b, number of copies)
            Labels.
        label : int
            The sample.
        """
        member = draws == label
        if self.counts is not None and member.shape[1] != len(self):
            starts = np.cumsum(self.counts) - self.counts
            return np.add.reduceat(member, starts, axis=1, dtype=np.int32).T
        if self.unit:
            return member.view(np.uint8).T
        return (member * self.weights).T

    def lightest(self, design: Relabel) -> np.ndarray:
        """Return for each sample the least total weight that a draw can give it, or less.

        Parameters
        ----------
        design : Relabel
            What is drawn.
        """
        weights = np.ones(len(design.labels))
        if len(weights) == len(self):
            weights = self.weights
        units = np.sort(np.bincount(design.of, weights=weights))
        reach = np.concatenate([[0.0], np.cumsum(units)])
        return reach[np.bincount(design.labels[design.heads])]

    def words(self, blocks: Any, strata: Any) -> str:
        """Return what is said of blocks, strata and weights in the method of a test.

        Parameters
        ----------
        blocks, strata : object
            As the user gave them.
        """
        said = ", blocks move whole" if blocks is not None else ""
        said += ", within strata" if strata is not None else ""
        if self.counts is not None and blocks is None:
            return said + ", weights are counts and copies move on their own"
        return said + ("" if self.unit else ", weights move with their rows")

    def part(self, index: np.ndarray) -> Labelled:
        """Return some of the points, their samples counted from 0.

        Parameters
        ----------
        index : ndarray of integers
            Which points, in ascending order.
        """
        labels = np.unique(self.labels[index], return_inverse=True)[1].astype(np.uint8)
        counts = None if self.counts is None else self.counts[index]
        Z = submatrix(self.kernel, self.Z, index)
        own = np.arange(len(index))
        return Labelled(self.kernel, Z, labels, self.weights[index], counts, own, len(index))

    def rows_of(self, name: str, values: Any, owner: str) -> Any:
        """Return an int, or the labels of the rows that are left, from one array or one a sample.

        Blocks of two samples are never one block, so that their names may repeat.

        Parameters
        ----------
        name : {"blocks", "strata"}
            Which argument.
        values : int, array, sequence of arrays or None
            As the user gave it.
        owner : str
            Whose argument it is.
        """
        if values is None or (isinstance(values, int | np.integer)):
            return values
        samples = len(np.unique(self.labels))
        several = isinstance(values, tuple | list) and len(values) == samples
        if several and all(np.ndim(part) == 1 for part in values):
            parts = [np.asarray(part) for part in values]
            flat = np.concatenate([part.astype(str) for part in parts])
            if name == "blocks":
                own = np.repeat(np.arange(samples), [len(part) for part in parts])
                flat = np.array([f"{i} {label}" for i, label in zip(own, flat, strict=True)])
            values = flat
        array = np.asarray(values)
        if array.shape != (self.rows,):
            raise InvalidInput(
                f"{owner}: {name} has shape {array.shape}; give a label for each of the "
                f"{self.rows} rows of all samples, or one array for each sample"
                + (", or the length of runs of rows." if name == "blocks" else ".")
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InvalidInput(f"{owner}: {name} holds NaN or infinity; give every row a label.")
        return array[self.given]


def labelled(
    samples: list[Any], kernel: Any, sample_weight: Any, owner: str, names: list[str]
) -> Labelled:
    """Return the points of all samples with labels; points of weight zero are left out.

    Parameters
    ----------
    samples : list of collections
        The samples.
    kernel : Kernel, str, callable or None
        The kernel; RBF at the median distance when left out.
    sample_weight : sequence or None
        Of each sample the weights, or None.
    owner : str
        Whose arguments they are.
    names : list of str
        What the samples are called.
    """
    weights = weights_of(sample_weight, names, owner)
    k, Z, sizes, w = pool(samples, kernel, weights, owner, names)
    kind = np.uint8 if len(sizes) < 256 else np.int64
    labels = np.repeat(np.arange(len(sizes), dtype=kind), sizes)
    rows = len(labels)
    w = np.ones(rows) if w is None else w
    given = np.flatnonzero(w > 0)
    if len(given) < rows:
        Z, labels, w = submatrix(k, Z, given), labels[given], w[given]
    counts = None if (w == 1).all() else as_counts(w)
    return Labelled(k, Z, labels, w, counts, given, rows)


def submatrix(kernel: Kernel, Z: Any, index: np.ndarray) -> Any:
    """Return some of the points; of a precomputed kernel their own Gram matrix.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    Z : canonical collection
        All points.
    index : ndarray of integers
        Which.
    """
    if isinstance(kernel.domain, GramRows):
        return Z[np.ix_(index, index)]
    return kernel.domain.take(Z, index)


def weights_of(sample_weight: Any, names: list[str], owner: str) -> list[Any]:
    """Return weights for each sample, each of which may be None.

    Parameters
    ----------
    sample_weight : sequence or None
        As the user gave it.
    names : list of str
        What the samples are called.
    owner : str
        Whose arguments they are.
    """
    if sample_weight is None:
        return [None] * len(names)
    if not isinstance(sample_weight, tuple | list) or len(sample_weight) != len(names):
        raise InvalidInput(
            f"{owner}: sample_weight is a {type(sample_weight).__name__}"
            + (f" of {len(sample_weight)}" if isinstance(sample_weight, tuple | list) else "")
            + f"; give a tuple of {len(names)}, the weights of {', '.join(names)}, each of which "
            "may be None."
        )
    return list(sample_weight)
