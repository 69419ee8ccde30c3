"""Which fits of a fold begin where others ended: regularised risks, from large penalties down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.models.risk.base import RiskEstimator
from mercer.selection.grid import grouped

__all__ = ["WarmStarts"]


class WarmStarts:
    """The last solution on each fold, for a fit that differs in a smaller penalty only.

    Parameters
    ----------
    base : estimator
        The model; models without warm starts are fitted in the order of the settings.
    settings : sequence of dict
        Its parameters, one dict for each fit on a fold.
    """

    def __init__(self, base: Any, settings: Sequence[dict[str, Any]]):
        self.warm = isinstance(base, RiskEstimator)
        self._group, self._rank = np.arange(len(settings)), np.zeros(len(settings))
        self._last: dict[tuple[int, int], Any] = {}
        if self.warm:
            for g, (_, members) in enumerate(grouped(_without(settings, "alpha"))):
                self._group[members] = g
            self._rank = np.array([-_number(s.get("alpha", base.alpha)) for s in settings])

    def order(self, left: np.ndarray, by_fold: bool) -> list[tuple[int, int]]:
        """Return pairs of setting and fold in the order of the fits.

        Parameters
        ----------
        left : ndarray of int of shape (fits, 2)
            The pairs.
        by_fold : bool
            Whether all fits of a fold come together.
        """

        def key(pair: tuple[int, int]) -> tuple:
            i, k = pair
            return (k if by_fold else 0, self._group[i], self._rank[i], i, k)

        return sorted(((int(i), int(k)) for i, k in left), key=key)

    def near(self, i: int, k: int) -> Any:
        """Return a fitted model to begin with, or None."""
        return self._last.get((int(self._group[i]), k))

    def keep(self, i: int, k: int, model: Any) -> None:
        """Note the fitted model of a setting on a fold; those of other groups are done with."""
        if self.warm:
            group = int(self._group[i])
            self._last = {key: held for key, held in self._last.items() if key[0] == group}
            self._last[group, k] = model


def _without(settings: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [{key: value for key, value in s.items() if key != name} for s in settings]


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return np.inf
    return number if number == number else np.inf
