"""Which values of the span rule cannot be believed, and fits without the row in their place.

The rule lets only the free points answer when a point goes. Where they are few, as with few
features, and a bound coefficient is large, for a small alpha or a large C, no free point may be
left in some direction of feature space; then the rule moves the value as far as the coefficient
reaches, though points that now lie at their bounds would stop it much earlier.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from mercer.errors import InvalidInput, NotConverged

__all__ = ["FAILS", "check_enough", "only_one", "refitted", "rows_to_doubt"]

FAILS = "the span rule does not hold for this fit"
SMALL, REFITS = 200, 50  # rows up to which all doubtful ones are fitted again; else so many
PROBES = 5  # of many rows, so many are fitted first: where the rule holds there, it is believed
PER_FEATURE = 50  # rows for each feature, from which the part D/n of an error does no harm
TINY = 10  # so few rows are all fitted again


def refitted(
    values: np.ndarray,
    fitted: np.ndarray,
    spread: np.ndarray,
    again: Callable[[int], np.ndarray | float],
    owner: str,
    leave: np.ndarray | None = None,
    small: int = SMALL,
) -> np.ndarray:
    """Return values of the span rule, those that moved too far replaced by those of fits.

    Parameters
    ----------
    values : ndarray of shape (n, p)
        Values of p problems by the rule, each row left out.
    fitted : ndarray of shape (n, p)
        Values of the fit.
    spread : ndarray of shape (p,)
        The size of its errors: of many rows a move that is not larger does no harm, of few one of
        half the size.
    again : callable
        Returns the values at a row of a fit without it.
    owner : str
        Who asks; a warning begins with it.
    leave : ndarray of bool, shape (n,), optional
        Rows without which other coefficients would leave their box, by the rule.
    small : int
        Rows up to which all doubtful ones are fitted again.
    """
    n, out = len(values), values.copy()
    moves = np.abs(values - fitted)
    lost = ~np.isfinite(values)
    far = moves > (0.0 if n <= TINY else 0.5 * spread if n <= small else spread)
    doubtful = np.flatnonzero((far | lost).any(axis=1) | (False if leave is None else leave))
    if not len(doubtful):
        return out
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.where(lost, np.inf, moves / np.where(spread > 0, spread, 1.0)).max(axis=1)
    doubtful = doubtful[np.argsort(-size[doubtful], kind="stable")]
    bad, limit = 0, len(doubtful) if n <= small else REFITS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        for done, i in enumerate(doubtful[:limit]):
            if n > small and done == PROBES and not bad:
                return out
            out[i] = again(int(i))
            off = np.abs(out[i] - values[i])
            bad += not bool((off <= np.maximum(spread, 0.5 * moves[i])).all())
    rest = len(doubtful) - limit
    if rest > 0 and bad:
        warnings.warn(
            f"{owner}: {FAILS}: {bad} of the {limit} rows that it moves most were off by more than "
            f"half of the move, and {rest} others that it moves far, or whose absence would break "
            "bounds, are unreliable. Use cross-validation, such as mercer.search, or a larger "
            "alpha (a smaller C).",
            UserWarning,
            stacklevel=4,
        )
    return out


def rows_to_doubt(n: int, free: int, features: int | None) -> bool:
    """Return whether to look for rows without which coefficients leave their boxes.

    Of D features a row changes about D/n of its own error, which the rule may miss; for n > 50 D
    that does no harm.
    """
    few = features is not None and n <= PER_FEATURE * features and 4 * free <= n
    return n <= SMALL or few


def check_enough(n: int, offset: bool, owner: str) -> None:
    """Refuse to leave a row out where nothing would be left to fit."""
    if n < 2 and offset:
        raise InvalidInput(
            f"{owner}: with an offset it needs at least 2 rows of positive weight, got {n}; give "
            "more rows."
        )


def only_one(row: int, owner: str) -> InvalidInput:
    """Return the refusal to leave out the only row of a class."""
    return InvalidInput(
        f"{owner}: row {row} is the only one of its class, so there is no fit without it; give "
        "more rows of that class."
    )
