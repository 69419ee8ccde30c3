"""Parameters that are numbers: penalties, tolerances and limits, checked in an estimator's name."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.features.parameters import random_source

__all__ = ["as_number", "positive", "random_source", "solver_limits", "step_limit"]


def as_number(value: Any) -> float:
    """Return a number as a float, NaN for anything else."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        return float(value)
    return float("nan")


def positive(
    value: Any, name: str, owner: str, *, infinite: bool = False, zero: bool = False
) -> float:
    """Return a parameter that must be a number > 0 (or ≥ 0)."""
    number = as_number(value)
    low = number >= 0 if zero else number > 0
    if not low or (np.isinf(number) and not infinite):
        legal = f"a {'' if infinite else 'finite '}number {'≥' if zero else '>'} 0"
        raise InvalidInput(f"{owner}: {name}={value!r}; give {legal}.")
    return number


def step_limit(value: Any, owner: str) -> int | None:
    """Return the parameter max_iter, a whole number ≥ 1; None, and −1 for it, mean no limit."""
    if value is None:
        return None
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or (value < 1 and value != -1):
        raise InvalidInput(
            f"{owner}: max_iter={value!r}; give a whole number ≥ 1, or None for no limit."
        )
    return None if value == -1 else int(value)


def solver_limits(model: Any) -> dict[str, Any]:
    """Return an estimator's tol, max_iter and max_time, checked, with its name as owner."""
    owner, seconds = type(model).__name__, model.max_time
    return {
        "tol": positive(model.tol, "tol", owner),
        "max_iter": step_limit(model.max_iter, owner),
        "max_time": None if seconds is None else positive(seconds, "max_time", owner),
        "owner": owner,
    }
