"""Parameters that feature maps and models share, checked in an estimator's name."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from mercer.errors import InvalidInput

__all__ = ["check_count", "random_source"]


def check_count(n_components: Any, owner: str) -> int:
    """Return the number of features, a whole number ≥ 1."""
    whole = isinstance(n_components, int | np.integer) and not isinstance(n_components, bool)
    if not whole or n_components < 1:
        raise InvalidInput(f"{owner}: n_components={n_components!r}; give a whole number ≥ 1.")
    return int(n_components)


def random_source(value: Any, owner: str) -> np.random.RandomState:
    """Return the source of random numbers that the parameter random_state stands for."""
    try:
        return check_random_state(value)
    except ValueError:
        raise InvalidInput(
            f"{owner}: random_state={value!r}; give None, a whole number from 0 to 2³² − 1, or a "
            "numpy.random.RandomState."
        ) from None
