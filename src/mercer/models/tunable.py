"""Names and limits of parameters that are tuned, as users write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.errors import InvalidInput

__all__ = ["at_theta", "bare_name", "check_bounds", "entries"]


def entries(name: str, names: Sequence[str]) -> list[int]:
    """Return the positions of a parameter in θ; a bare name stands for all its entries.

    ``kernel__`` may stand in front, as in ``set_params`` of the model; "kernel" stands for all θ.
    The end of a name will do where only one parameter ends so: ``length_scale`` for
    ``k2__length_scale`` of ``1.0 * RBF()``.
    """
    if name == "kernel":
        return list(range(len(names)))
    bare = name.removeprefix("kernel__") if isinstance(name, str) else name
    found: list[int] = []
    for given in (name, bare):  # the kernel of k.on(columns) has a kernel__ of its own
        found = found or [i for i, n in enumerate(names) if given in (n, n.partition("[")[0])]
    if found or not isinstance(name, str):
        return found
    ends = [i for i, n in enumerate(names) if _ends(n, bare) or _ends(n.partition("[")[0], bare)]
    return ends if len({names[i].partition("[")[0] for i in ends}) == 1 else []


def _ends(name: str, part: str) -> bool:
    return name.endswith(f"__{part}")


def bare_name(name: Any) -> Any:
    """Return a name without the kernel__ that may stand in front."""
    while isinstance(name, str) and name.startswith("kernel__"):
        name = name.removeprefix("kernel__")
    return name


def check_bounds(
    name: str, limits: Any, option: str = "bounds", owner: str = "tune"
) -> tuple[float, float]:
    """Return two limits of a parameter as numbers, 0 < low ≤ high < ∞."""
    try:
        low, high = (float(v) for v in limits)
    except (TypeError, ValueError):
        low, high = 0.0, 0.0
    if not 0 < low <= high < np.inf:
        raise InvalidInput(f"{owner}: {option}[{name!r}] = {limits!r}; give 0 < low ≤ high.")
    return low, high


def at_theta(kernel: Any, theta: np.ndarray) -> Any:
    """Return the kernel with log-parameters θ; itself, without rounding, where they are its own."""
    return kernel if np.array_equal(theta, kernel.theta) else kernel.with_theta(theta)
