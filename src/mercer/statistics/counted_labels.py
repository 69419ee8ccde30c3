"""Labels for the copies of rows that count many times, drawn as numbers of copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.statistics.permutation import Relabel

__all__ = ["CountedRelabel"]

MOST_COPIES = 10**9  # numpy's hypergeometric law takes fewer


class CountedRelabel:
    """How many copies of each row go to each sample, when all copies change labels at random.

    Labels shuffled copy by copy give sample 0 a number of copies of each row that follows the
    multivariate hypergeometric law; of the copies left, sample 1 takes so many, and so on. That
    takes as long for a million copies of a row as for two. Labels change only within strata.

    Parameters
    ----------
    labels : array of integers of shape (n,)
        Which sample a row belongs to.
    counts : array of integers of shape (n,)
        Copies of each row.
    strata : array of shape (n,), optional
        Labels change places only within a stratum.
    owner : str
        Whose arguments they are, for messages.
    """

    def __init__(
        self, labels: Any, counts: np.ndarray, *, strata: Any = None, owner: str = "Relabel"
    ):
        total = int(counts.sum())
        if total >= MOST_COPIES:
            raise InvalidInput(
                f"{owner}: whole-number weights are counts, and these count {total} rows; at most "
                f"{MOST_COPIES} can be shuffled. Divide weights that are no counts by their mean."
            )
        self.counts = counts
        self.groups = Relabel(labels, strata=strata, owner=owner).groups
        # The draw that leaves the data as they are; a draw has as many rows as there are samples.
        own = np.arange(int(np.max(labels)) + 1)[:, None] == labels
        self.labels = np.where(own, counts, 0).astype(np.int32)

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return `size` draws, each with the copies of all rows in each sample: (size, k, n)."""
        drawn = np.broadcast_to(self.labels, (size, *self.labels.shape)).copy()
        totals = [self.labels[:, group].sum(1) for group in self.groups]
        # One draw after the other, so that the draws do not depend on how many are asked at once.
        for one in drawn:
            for group, sizes in zip(self.groups, totals, strict=True):
                left = self.counts[group]
                for sample, taken in enumerate(sizes[:-1]):
                    share = rng.multivariate_hypergeometric(left, taken, method="marginals")
                    one[sample, group] = share
                    left = left - share
                one[-1, group] = left
        return drawn
