"""Checks of arguments: numbers, counts, limits, seeds, and names of parameters to be tuned."""

from __future__ import annotations

import numbers
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from mercer.errors import InvalidInput, speaks, who

# ---- Parameters that feature maps and models share, checked in an estimator's name ----


def check_count(n_components: Any) -> int:
    """Return the number of features, a whole number ≥ 1."""
    whole = isinstance(n_components, int | np.integer) and not isinstance(n_components, bool)
    if not whole or n_components < 1:
        raise InvalidInput(f"{who()}: n_components={n_components!r}; give a whole number ≥ 1.")
    return int(n_components)


def random_source(value: Any) -> np.random.RandomState:
    """Return the source of random numbers that the parameter random_state stands for."""
    try:
        return check_random_state(value)
    except ValueError:
        raise InvalidInput(
            f"{who()}: random_state={value!r}; give None, a whole number from 0 to 2³² − 1, or a "
            "numpy.random.RandomState."
        ) from None


# ---- Parameters that are numbers: penalties, tolerances and limits, checked in an estimator's
# name.


def as_number(value: Any) -> float:
    """Return a number as a float, NaN for anything else."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        return float(value)
    return float("nan")


def positive(value: Any, name: str, *, infinite: bool = False, zero: bool = False) -> float:
    """Return a parameter that must be a number > 0 (or ≥ 0)."""
    number = as_number(value)
    low = number >= 0 if zero else number > 0
    if not low or (np.isinf(number) and not infinite):
        legal = f"a {'' if infinite else 'finite '}number {'≥' if zero else '>'} 0"
        raise InvalidInput(f"{who()}: {name}={value!r}; give {legal}.")
    return number


def check_grid(values: Any, name: str) -> np.ndarray:
    """Return the values of a parameter along a path: one or more finite numbers > 0."""
    try:
        grid = np.array(values, dtype=float).reshape(-1)
    except (TypeError, ValueError):
        grid = np.zeros(0)
    if not grid.size or not np.isfinite(grid).all() or (grid <= 0).any():
        raise InvalidInput(f"{who()}: {name}={values!r}; give one or more finite numbers > 0.")
    return grid


def step_limit(value: Any) -> int | None:
    """Return the parameter max_iter, a whole number ≥ 1; None, and −1 for it, mean no limit."""
    if value is None:
        return None
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or (value < 1 and value != -1):
        raise InvalidInput(
            f"{who()}: max_iter={value!r}; give a whole number ≥ 1, or None for no limit."
        )
    return None if value == -1 else int(value)


@speaks
def solver_limits(model: Any) -> dict[str, Any]:
    """Return an estimator's tol, max_iter and max_time, checked, with its name as owner."""
    seconds = model.max_time
    return {
        "tol": positive(model.tol, "tol"),
        "max_iter": step_limit(model.max_iter),
        "max_time": None if seconds is None else positive(seconds, "max_time"),
    }


class Clock:
    """Time from when it is made on; with a limit in seconds it may be late."""

    __slots__ = ("began", "limit")

    def __init__(self, limit: float | None = None):
        self.began, self.limit = time.monotonic(), limit

    @property
    def spent(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.began

    @property
    def late(self) -> bool:
        """Whether the limit is reached."""
        return self.limit is not None and time.monotonic() - self.began >= self.limit

    def rest(self, least: float = 0.0) -> float | None:
        """Return the seconds left, at least so many; None without a limit."""
        return None if self.limit is None else max(least, self.limit - self.spent)


FOREVER = Clock()  # is never late


def check_number(
    value: Any, name: str, low: float, high: float = np.inf, *, closed: bool = False
) -> None:
    """Raise `InvalidInput` unless low < value < high (low ≤ value if closed)."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    if not real or not (low <= value if closed else low < value) or not value < high:
        legal = f"{'≥' if closed else '>'} {low:g}"
        legal += "" if high == np.inf else f" and < {high:g}"
        raise InvalidInput(f"{who()}: {name}={value!r}; give a number {legal}.")


def check_index(value: Any, name: str, low: int, high: int | None = None) -> int:
    """Return a whole number in [low, high], or raise `InvalidInput`."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)
    if not whole or value < low or (high is not None and value > high):
        legal = f"of {low} or more" if high is None else f"from {low} to {high}"
        raise InvalidInput(f"{who()}: {name}={value!r}; give a whole number {legal}.")
    return int(value)


def check_parameter(name: str, value: Any, low: float, *, open: bool = True) -> None:
    """Refuse what is not one finite number > low (or ≥ low when not open)."""
    bad = isinstance(value, bool | str) or np.ndim(value) != 0 or value is None
    if not bad:
        try:
            number = float(value)
        except (TypeError, ValueError):
            bad = True
        else:
            bad = not (np.isfinite(number) and (number > low if open else number >= low))
    if bad:
        raise InvalidInput(
            f"{who()}: {name}={value!r}; it must be a finite number {'>' if open else '≥'} {low:g}."
        )


def check_whole(name: str, value: Any, low: int) -> None:
    """Refuse what is not one whole number ≥ low."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < low:
        raise InvalidInput(f"{who()}: {name}={value!r}; it must be a whole number ≥ {low}.")


def as_rng(value: Any, name: str = "rng") -> Any:
    """Return a generator for None, a seed or a generator; a random_state may be a RandomState."""
    legacy = name == "random_state"
    if legacy and isinstance(value, np.random.RandomState):
        return value
    try:
        return np.random.default_rng(value)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{who()}: {name}={value!r}; give None, a whole number of 0 or more, or a "
            f"numpy.random.Generator{' or RandomState' if legacy else ''}."
        ) from error


# ---- tunable ----


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


@speaks("tune", unless_spoken=True)
def check_bounds(name: str, limits: Any, option: str = "bounds") -> tuple[float, float]:
    """Return two limits of a parameter as numbers, 0 < low ≤ high < ∞."""
    try:
        low, high = (float(v) for v in limits)
    except (TypeError, ValueError):
        low, high = 0.0, 0.0
    if not 0 < low <= high < np.inf:
        raise InvalidInput(f"{who()}: {option}[{name!r}] = {limits!r}; give 0 < low ≤ high.")
    return low, high


def at_theta(kernel: Any, theta: np.ndarray) -> Any:
    """Return the kernel with log-parameters θ; itself, without rounding, where they are its own."""
    return kernel if np.array_equal(theta, kernel.theta) else kernel.with_theta(theta)
