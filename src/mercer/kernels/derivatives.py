"""Derivatives of a formula that its author did not write: complex-step differentiation."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.errors import InvalidInput

__all__ = ["belongs", "in_log_parameter", "slope"]

# f(x + ih) = f(x) + ih f′(x) + O(h²): no cancellation, so h may be tiny and f′ is exact to
# rounding (Squire & Trapp, SIAM Review 40, 1998).
STEP = 1e-30


def belongs(kernel: Any, hook: str) -> bool:
    """Whether a hook was written for the profile in force, not for one that a subclass replaced."""

    def owner(name: str) -> type:
        return next(c for c in type(kernel).__mro__ if name in c.__dict__)

    return issubclass(owner(hook), owner("_profile"))


def _complex(s: Any, xp: Any) -> Any:
    return s.astype(np.complex128) if xp is np else s.to(xp.complex128)


def slope(formula: Callable, s: Any, xp: Any) -> Any:
    """Return the derivative of ``formula(s, xp)`` in s, zero where it is not finite."""
    d = _imaginary(formula(_complex(s, xp) + 1j * STEP, xp), "_slope") / STEP
    return xp.where(xp.isfinite(d), d, xp.zeros_like(d))


def in_log_parameter(kernel: Any, name: str, s: Any, xp: Any) -> Any:
    """Return the derivative of ``kernel._profile(s, xp)`` in the logarithm of a parameter."""
    moved = copy.copy(kernel)
    object.__setattr__(moved, name, getattr(kernel, name) * (1 + 1j * STEP))
    return _imaginary(moved._profile(_complex(s, xp), xp), "_shape_slopes") / STEP


def _imaginary(value: Any, hook: str) -> Any:
    """Return the imaginary part, unless the formula has dropped it."""
    kept = np.iscomplexobj(value) if isinstance(value, np.ndarray) else value.is_complex()
    if not kept:
        raise InvalidInput(
            "a profile with abs, real or a comparison in it cannot be differentiated by a complex "
            f"step; write {hook} as well (see the guide, How to add a kernel)."
        )
    return value.imag
