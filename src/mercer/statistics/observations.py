"""What a test of pairs works with: rows that are there, counted, their kernels near 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.errors import InvalidInput, who
from mercer.kernels import Kernel, around_mean
from mercer.memory import require_memory
from mercer.settings import get_config
from mercer.statistics.base import check_finite
from mercer.statistics.permutation import Design, Null, resample, row_labels
from mercer.statistics.samples import Pair, as_counts

DIGITS = 64  # binary ones that k(x, x) may be away from 1: cubes and their products stay in range
FURTHEST = 1000  # exponent of a power of two that is a number, as is its inverse


@dataclass(frozen=True, eq=False)
class Observations:
    """Pairs without rows of weight 0, in units that neither overflow nor vanish.

    Parameters
    ----------
    pair : Pair
        Kernels and points; weights None where an observation is a row, else those of `effective`.
    index : ndarray of shape (pair.n,)
        The row, as given, that an observation is.
    counted : bool
        Whether weights said how often a row is repeated.
    exponents : tuple of int
        The kernels of the pair times these powers of two are those given.
    """

    pair: Pair
    index: np.ndarray
    counted: bool
    exponents: tuple[int, int]

    @property
    def weights(self) -> np.ndarray:
        """The weights, ones where there are none."""
        return np.ones(self.pair.n) if self.pair.weights is None else self.pair.weights


def observations(given: Pair, repeat: bool = True, centred: bool = True) -> Observations:
    """Return the observations of a pair of variables.

    Points far from the origin are moved to their mean where the kernel sees differences alone, up
    to what centring takes away.

    Parameters
    ----------
    given : Pair
        As the user gave it, checked.
    repeat : bool, default=True
        Whether rows of whole weights are repeated, as is needed to move copies on their own; else
        they keep their weights.
    centred : bool, default=True
        Whether the matrix of X will be centred as it is; that of Y always will be.
    """
    index, weights, counted = rows_at(given.weights, given.n, repeat)
    pair = replace(given, weights=None)
    if len(index) < given.n or (counted and repeat):
        pair = taken(pair, index)
    first = around_mean(pair.kernel_x, pair.X) if centred else pair.X
    kx, X, a = in_range(pair.kernel_x, first)
    ky, Y, b = in_range(pair.kernel_y, around_mean(pair.kernel_y, pair.Y))
    seen = Pair(kx, X, ky, Y, pair.n, weights, given.place)
    return Observations(seen, index, counted, (a, b))


def rows_at(
    weights: np.ndarray | None, n: int, repeat: bool
) -> tuple[np.ndarray, np.ndarray | None, bool]:
    """Return rows that are observations, their weights or None, and whether these are counts."""
    counts = as_counts(weights)
    if weights is None or (counts is not None and (counts == 1).all()):
        return np.arange(n), None, False
    kept = np.flatnonzero(weights > 0)
    if not len(kept):
        raise InvalidInput(f"{who()}: all weights are 0; give at least one row a weight.")
    if counts is None:
        return kept, effective(weights[kept]), False
    if not repeat:
        return kept, weights[kept], True
    require_memory(
        64 * int(counts.sum()),
        f"{who()}: the {int(counts.sum())} rows that the weights count",
        "Give weights that are not whole numbers, such as shares of 1",
    )
    return np.repeat(np.arange(n), counts), None, True


def labels_at(labels: Any, index: np.ndarray, n: int, name: str) -> np.ndarray | None:
    """Return the labels of observations: runs of a length are those of the rows as given."""
    codes = row_labels(labels, [n], name)
    return None if codes is None else codes[index]


def effective(weights: np.ndarray) -> np.ndarray:
    """Return weights that are no counts in units in which they are worth (Σw)²/Σw² observations.

    Then Σw² = Σw, the weight of an observation that meets itself in the sums where nothing is to
    meet itself: these are unbiased, whatever the unit was. Equal weights become ones.
    """
    w = weights / weights.max()
    return w * (float(w.sum()) / float(w @ w))


def in_range(kernel: Kernel, X: Any) -> tuple[Kernel, Any, int]:
    """Return a kernel with k(x, x) near 1 and its points, and e: times 2^e it is the one given."""
    try:
        largest = float(np.abs(np.asarray(kernel.diag(X), dtype=float)).max(initial=0.0))
    except InvalidInput as error:  # k(x, x) overflows
        raise InvalidInput(f"{who()}: {error}") from None
    e = int(np.frexp(largest)[1])
    if largest == 0.0 or abs(e) <= DIGITS:
        return kernel, X, 0
    e = max(-FURTHEST, min(FURTHEST, e))
    if not kernel.domain.holds_points:
        return kernel, np.ldexp(np.asarray(X, dtype=float), -e), e
    return 2.0**-e * kernel, X, e


def draw_rescaled(
    way: Any,
    design: Design,
    n_permutations: int,
    rng: np.random.Generator,
    early_stop: int | None,
    rows: int,
    exponent: int,
) -> Null:
    """Draw the null of kernels near 1 and return it in the units of the kernels given."""
    drawn = resample(
        way.observed,
        way.evaluate,
        design,
        n_permutations,
        rng,
        early_stop=early_stop,
        largest_batch=int(max(16, get_config().memory // (128 * rows))),
        resolution=way.resolution,
    )
    return replace(
        drawn,
        observed=rescaled(drawn.observed, exponent),
        values=rescaled(drawn.values, exponent),
    )


def rescaled(values: Any, exponent: Any) -> Any:
    """Return statistics times a power of two, all of them numbers.

    Parameters
    ----------
    values : float or ndarray
        Statistics of kernels near 1.
    exponent : int or ndarray of int
        Of the power of two, of all or of each.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        out = np.ldexp(values, exponent)
    check_finite(out)
    return float(out) if np.ndim(out) == 0 else out


def taken(pair: Pair, index: np.ndarray) -> Pair:
    """Return the rows at some positions, any of them several times; without weights."""

    X = points_at(pair.kernel_x, pair.X, index)
    Y = points_at(pair.kernel_y, pair.Y, index)
    return Pair(pair.kernel_x, X, pair.kernel_y, Y, len(index), None, pair.place)


def points_at(kernel: Kernel, X: Any, index: np.ndarray) -> Any:
    """Return the points at some positions, of a precomputed kernel their Gram matrix."""
    if kernel.domain.holds_points:
        return kernel.domain.take(X, index)
    require_memory(
        8 * len(index) ** 2,
        f"{who()}: the Gram matrix of {len(index)} rows",
        "Give weights that are not whole numbers, such as shares of 1",
    )
    return kernel.domain.subset(X, index)
