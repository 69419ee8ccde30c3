"""How every loop is compiled: cached, without the GIL, never with Numba's own threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable) -> Any:
    """Compile a function with mercer's options; without a writable cache, compile uncached."""
    options: dict[str, Any] = {"nogil": True, "fastmath": {"contract", "nsz"}}
    try:
        return njit(function, cache=True, **options)
    except RuntimeError:  # Numba: "cannot cache function: no locator available"
        return njit(function, **options)
