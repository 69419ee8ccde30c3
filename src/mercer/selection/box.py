"""The box of kernel parameters that tuning searches, around the start and inside what users say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mercer.checks import at_theta, check_bounds, entries
from mercer.errors import InvalidInput

__all__ = [
    "TimeIsUp",
    "at_theta",
    "check_bounds",
    "entries",
    "is_scale",
    "search_box",
    "with_limits",
]

# Three orders of magnitude around the start, for a kernel parameter.
REACH = np.log(1e3)


class TimeIsUp(Exception):
    """The time allowed for tuning is over."""


def search_box(kernel: Any) -> np.ndarray:
    """Return lower and upper limits of θ, shape (p, 2): near the start and inside its bounds."""
    theta, reach = kernel.theta, np.array([[-REACH, REACH]])
    box, near = kernel.bounds, theta[:, None] + reach
    box = np.stack([np.maximum(box[:, 0], near[:, 0]), np.minimum(box[:, 1], near[:, 1])], 1)
    return np.where((box[:, :1] < box[:, 1:]), box, near)  # a start outside its bounds


def with_limits(
    box: np.ndarray,
    kernel: Any,
    fixed: Sequence[str],
    bounds: Mapping[str, Any],
    others: Sequence[str] = (),
) -> np.ndarray:
    """Return the box narrowed to what the user fixed or bounded; `others` are legal names too."""
    box, names = box.copy(), kernel.theta_names
    for name, limits in bounds.items():
        box[_entries(name, names, others)] = np.log(check_bounds(name, limits))
    for name in fixed:
        entries = _entries(name, names, others)
        box[entries] = kernel.theta[entries][:, None]
    return box


def is_scale(kernel: Any) -> np.ndarray:
    """Return 1 for the entries of θ that are length scales, 0 for others."""
    return np.array(["length_scale" in name for name in kernel.theta_names], float)


def _entries(name: str, names: list[str], others: Sequence[str]) -> list[int]:
    """Return the positions of a parameter, or refuse it."""
    found = entries(name, names)
    if not found and name != "kernel":
        legal = ", ".join(map(repr, [*names, *others])) or "none"
        raise InvalidInput(
            f"tune: no parameter {name!r} to tune; there are: {legal}. Those of the kernel may "
            "also be written with kernel__ in front."
        )
    return found
