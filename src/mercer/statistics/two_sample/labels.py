"""Points of several samples with labels and weights, and the label vectors of shuffled samples."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import is_torch, namespace
from mercer.errors import InvalidInput, users_level, who
from mercer.kernels import Kernel, Linear, around_mean
from mercer.memory import require_memory
from mercer.operators import Place, place_of
from mercer.settings import get_config
from mercer.statistics.permutation import CountedRelabel, Relabel, Signs, row_labels
from mercer.statistics.samples import as_counts, pool

FEW = 64  # features that are always few
MANY = 20  # copies of a row, on average, that are shuffled one by one
SHARE = 8  # part of the memory budget that features may take is one in so many


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
    sizes : tuple of int
        How many points were given, of each sample.
    names : list of str
        What the samples are called.
    place : Place or None
        Where matrices are computed; None for NumPy's memory.
    """

    kernel: Kernel
    Z: Any
    labels: np.ndarray
    weights: np.ndarray
    counts: np.ndarray | None
    given: np.ndarray
    sizes: tuple[int, ...]
    names: list[str]
    place: Place | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def unit(self) -> bool:
        """Whether every weight is one."""
        return bool((self.weights == 1).all())

    @property
    def own(self) -> np.ndarray:
        """What a point of weight v has of itself: v·own is v for counts, v² for other weights."""
        return np.ones(len(self)) if self.unit or self.counts is not None else self.weights

    def totals(self) -> np.ndarray:
        """Return the sum of the weights of each sample."""
        return np.bincount(self.labels, weights=self.weights)

    def require_two(self) -> None:
        """Refuse samples without a pair of points, which the unbiased estimator is made of."""
        whole = self.unit or self.counts is not None
        sizes = self.totals() if whole else np.bincount(self.labels)
        if sizes.min() <= 1:
            raise InvalidInput(
                f"{who()}: the unbiased estimator needs two points or more in each sample, and "
                f"{self.names[int(np.argmin(sizes))]} has {sizes.min():g}. Use "
                "estimator='biased', or more points."
            )

    def require_weights(self) -> None:
        """Refuse a test where weights of one sample are no counts and another has none.

        Weights move with their rows. That leaves the law of the data as it is only if weights
        have one law in all samples. Counts that are very many get a warning.

        """
        if self.unit or self.counts is not None:
            means = self.totals() / np.bincount(self.labels)
            if means.max() > MANY:
                warnings.warn(
                    f"{who()}: are these counts? The weights of {self.names[int(means.argmax())]} "
                    f"are whole numbers, {means.max():.4g} on average, so a row is taken as that "
                    "many observations. Divide weights of surveys, or others that are no counts, "
                    "by their mean.",
                    UserWarning,
                    stacklevel=users_level(),
                )
            return
        for label, name in enumerate(self.names):
            if (self.weights[self.labels == label] == 1).all():
                raise InvalidInput(
                    f"{who()}: {name} has no weights, and those of another sample are not whole "
                    "numbers; rows that change places would carry them over. Give weights to "
                    f"{'both' if len(self.names) == 2 else 'all'} samples, or whole-number counts."
                )

    def centred(self) -> Labelled:
        """Return the samples as features about their mean, where the kernel has few features.

        A discrepancy of samples is the same for k(x, y) and for ⟨φ(x) − c, φ(y) − c⟩, and near
        the mean no digits are lost in differences of large kernel values.
        """
        kernel, Z = centred_features(self.kernel, self.Z, self.weights)
        return replace(self, kernel=kernel, Z=Z)

    @property
    def crowded(self) -> bool:
        """Whether rows have so many copies that these are not shuffled one by one."""
        return self.counts is not None and int(self.counts.sum()) > MANY * len(self)

    def design(self, blocks: Any, strata: Any) -> Relabel | CountedRelabel:
        """Return what is drawn: labels of points, of blocks, or of the copies of each point.

        Parameters
        ----------
        blocks, strata : int, array, sequence of arrays or None
            As the user gave them: one array of all rows, or one for each sample.
        """
        codes = row_labels(blocks, self.sizes, "blocks")
        kinds = row_labels(strata, self.sizes, "strata")
        codes = None if codes is None else codes[self.given]
        kinds = None if kinds is None else kinds[self.given]
        counts = self.counts
        if codes is not None:
            given = np.asarray(blocks, dtype=object)  # parts of a pair have no block in common
            names = given[self.given] if given.shape == (sum(self.sizes),) else None
            return Relabel(self.labels, blocks=codes, strata=kinds, counts=counts, names=names)
        if counts is None:
            return Relabel(self.labels, strata=kinds)
        if self.crowded:
            return CountedRelabel(self.labels, counts, strata=kinds)
        require_memory(
            32 * int(counts.sum()),
            f"{who()}: labels for the {int(counts.sum())} rows that the weights count",
            "Give smaller counts",
        )
        kinds = None if kinds is None else np.repeat(kinds, counts)
        return Relabel(np.repeat(self.labels, counts), strata=kinds)

    def pairs(self, blocks: Any) -> Signs:
        """Return signs for pairs (xᵢ, yᵢ), which change places or stay.

        Parameters
        ----------
        blocks : int, array, pair of arrays or None
            As the user gave it: a label for each pair, or for each row, in which both rows of a
            pair agree.
        """
        n, m = self.sizes
        kept = self.given[self.labels == 0]
        if n != m or not np.array_equal(kept, self.given[self.labels == 1] - n):
            raise InvalidInput(
                f"{who()}: null='wild' exchanges x_i with y_i and needs samples of one size, but X "
                f"has {n} points and Y has {m}"
                + (", not the same ones of weight 0" if n == m else "")
                + ". Use null='permutation'."
            )
        if not self.unit:
            raise InvalidInput(
                f"{who()}: null='wild' does not go with sample_weight other than 0 and 1; use "
                "null='permutation', which does."
            )
        if blocks is None:
            return Signs(len(kept))
        listed = isinstance(blocks, tuple | list) and len(blocks) == 2 and np.ndim(blocks[0]) == 1
        if not listed and np.shape(blocks) != (2 * n,):
            codes = row_labels(blocks, [n], "blocks")
            return Signs(len(kept), blocks=np.asarray(codes)[kept])
        codes = row_labels(blocks, self.sizes, "blocks")
        # The first row of the block of each row tells which rows are together.
        first = []
        for part in np.split(np.asarray(codes), 2):
            _, at, of = np.unique(part, return_index=True, return_inverse=True)
            first.append(at[of])
        if not np.array_equal(first[0], first[1]):
            raise InvalidInput(
                f"{who()}: null='wild' lets pairs of rows change places, and the blocks of X and "
                "of Y are not the same pairs; give a label for each pair."
            )
        return Signs(len(kept), blocks=first[0][kept])

    def vectors(self, draws: Any, label: int) -> Any:
        """Return how much of each point is in one sample, a column for each draw, (N, b).

        Parameters
        ----------
        draws : ndarray of shape (b, N), (b, number of copies) or (b, number of samples, N)
            Labels, or how many copies are in each sample. Labels may be a tensor, as is the
            answer then.
        label : int
            The sample.
        """
        if draws.ndim == 3:
            return draws[:, label].T
        member = draws == label
        if is_torch(member):
            return vectors_there(member, self.weights, self.counts).T
        if self.counts is not None and member.shape[1] != len(self):
            starts = np.cumsum(self.counts) - self.counts
            return np.add.reduceat(member, starts, axis=1, dtype=np.int32).T
        if self.unit:
            return member.view(np.uint8).T
        return (member * self.weights).T

    def words(self, blocks: Any, strata: Any, design: Relabel | CountedRelabel) -> str:
        """Return what is said of blocks, strata and weights in the method of a test.

        Parameters
        ----------
        blocks, strata : object
            As the user gave them.
        design : Relabel or CountedRelabel
            What is drawn.
        """
        said = ""
        if isinstance(design, Relabel) and blocks is not None:
            said = f", blocks move whole ({design.moving} of {len(design.heads)} can)"
        said += ", within strata" if strata is not None else ""
        if self.unit:
            return said
        if self.counts is None:
            return said + ", weights move with their rows (valid if of one law in all samples)"
        alone = "copies move on their own" if blocks is None else "copies move with their block"
        return said + f", weights are counts and {alone}"

    def part(self, labels: tuple[int, ...]) -> tuple[Labelled, np.ndarray]:
        """Return some of the samples, and where their rows are among all that were given.

        Parameters
        ----------
        labels : tuple of int
            Which samples, in ascending order.
        """
        index = np.flatnonzero(np.isin(self.labels, labels))
        ends = np.cumsum(self.sizes)
        rows = np.concatenate([np.arange(ends[i] - self.sizes[i], ends[i]) for i in labels])
        own = replace(
            self,
            Z=self.kernel.domain.subset(self.Z, index),
            labels=np.searchsorted(labels, self.labels[index]).astype(np.uint8),
            weights=self.weights[index],
            counts=None if self.counts is None else self.counts[index],
            given=np.searchsorted(rows, self.given[index]),
            sizes=tuple(self.sizes[i] for i in labels),
            names=[self.names[i] for i in labels],
        )
        return own, rows


def labelled(
    samples: list[Any], kernel: Any, sample_weight: Any, names: list[str], fit: bool = True
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
    names : list of str
        What the samples are called.
    fit : bool, default=True
        Whether words of the kernel are resolved.
    """
    weights = weights_of(sample_weight, names)
    k, Z, sizes, w = pool(samples, kernel, weights, names, fit)
    kind = np.uint8 if len(sizes) < 256 else np.int64
    labels = np.repeat(np.arange(len(sizes), dtype=kind), sizes)
    w = np.ones(len(labels)) if w is None else w
    given = np.flatnonzero(w > 0)
    if len(given) < len(labels):
        Z, labels, w = k.domain.subset(Z, given), labels[given], w[given]
    counts = None if (w == 1).all() else as_counts(w)
    place = place_of(*samples)
    return Labelled(k, Z, labels, w, counts, given, tuple(sizes), names, place)


def centred_features(kernel: Kernel, Z: Any, weights: np.ndarray) -> tuple[Kernel, Any]:
    """Return the linear kernel and features about their mean, or the kernel and points given.

    These are moved to their mean where that changes no distance of features, as with
    ``Linear() + RBF()``.

    Parameters
    ----------
    kernel : Kernel
        Without words.
    Z : canonical collection
        The points.
    weights : ndarray of shape (N,)
        Weights of the points.
    """
    N, width = len(weights), Z.shape[1] if isinstance(Z, np.ndarray) and Z.ndim == 2 else 0
    D = kernel._n_features(Z)
    if D is None or D > max(N, FEW, width) or 16 * N * D > get_config().memory // SHARE:
        return kernel, around_mean(kernel, Z)
    with np.errstate(all="ignore"):
        F = kernel._features(Z)
        F = np.asarray(F.toarray() if sp.issparse(F) else F, dtype=np.float64)
        F = F - F[:1]  # equal points become 0 exactly
        F -= (weights @ F) / weights.sum()
    return (Linear(), F) if np.isfinite(F).all() else (kernel, Z)


def weights_of(sample_weight: Any, names: list[str]) -> list[Any]:
    """Return weights for each sample, each of which may be None.

    Parameters
    ----------
    sample_weight : sequence or None
        As the user gave it.
    names : list of str
        What the samples are called.
    """
    if sample_weight is None:
        return [None] * len(names)
    if not isinstance(sample_weight, tuple | list) or len(sample_weight) != len(names):
        raise InvalidInput(
            f"{who()}: sample_weight is a {type(sample_weight).__name__}"
            + (f" of {len(sample_weight)}" if isinstance(sample_weight, tuple | list) else "")
            + f"; give a tuple of {len(names)}, the weights of {', '.join(names)}, each of which "
            "may be None."
        )
    return list(sample_weight)


def vectors_there(member: Any, weights: np.ndarray, counts: np.ndarray | None) -> Any:
    """Return how much of each row is in a sample, from draws made on a device, (b, N).

    Parameters
    ----------
    member : tensor of bool of shape (b, N) or (b, number of copies)
        Which rows, or which copies of rows, are in the sample.
    weights : ndarray of shape (N,)
        Weights of the rows.
    counts : ndarray of shape (N,) or None
        The weights, where they are numbers of copies.
    """
    if counts is not None and member.shape[1] != len(counts):
        of = np.repeat(np.arange(len(counts)), counts)
        out = member.new_zeros((len(member), len(counts))).int()
        return out.index_add_(1, namespace(out).as_tensor(of, device=out.device), member.int())
    if (weights == 1).all():
        return member
    return member * namespace(member).as_tensor(weights, device=member.device)
