"""Random data of known shape: a noisy sine for regression, rings for classification."""

from __future__ import annotations

from numbers import Real

import numpy as np

from mercer.errors import InvalidInput

__all__ = ["check_number", "check_size", "make_rings", "make_sine"]


def make_sine(
    n: int = 100, noise: float = 0.1, random_state: int | np.random.Generator | None = None
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return points of :math:`y = \sin(2\pi x) + \varepsilon` on [0, 1], sorted by x.

    Parameters
    ----------
    n : int, default=100
        Number of points.
    noise : float, default=0.1
        Standard deviation of ε.
    random_state : int, Generator or None, optional
        Seed of the random numbers.

    Returns
    -------
    X : ndarray of shape (n, 1)
        The places.
    y : ndarray of shape (n,)
        The noisy values.

    Examples
    --------
    >>> from mercer.datasets import make_sine
    >>> X, y = make_sine(50, random_state=0)
    >>> X.shape, y.shape
    ((50, 1), (50,))
    """
    n, noise, rng = _check("make_sine", n, noise, random_state)
    x = np.sort(rng.uniform(0.0, 1.0, n))
    return x[:, None], np.sin(2 * np.pi * x) + noise * rng.standard_normal(n)


def make_rings(
    n: int = 200,
    rings: int = 2,
    noise: float = 0.1,
    random_state: int | np.random.Generator | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return points on concentric circles of radius 1, 2, …; no straight line separates them.

    Parameters
    ----------
    n : int, default=200
        Number of points, shared among the rings as evenly as can be.
    rings : int, default=2
        Number of rings, one class each.
    noise : float, default=0.1
        Standard deviation of the radius.
    random_state : int, Generator or None, optional
        Seed of the random numbers.

    Returns
    -------
    X : ndarray of shape (n, 2)
        The points.
    y : ndarray of shape (n,)
        The ring of each point, from 0.

    Examples
    --------
    >>> from mercer.datasets import make_rings
    >>> X, y = make_rings(9, rings=3, random_state=0)
    >>> [int((y == k).sum()) for k in range(3)]
    [3, 3, 3]
    """
    n, noise, rng = _check("make_rings", n, noise, random_state)
    y = rng.permutation(np.arange(n) % check_size("make_rings", "rings", rings, 1))
    angle = rng.uniform(0.0, 2 * np.pi, n)
    radius = 1.0 + y + noise * rng.standard_normal(n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


def _check(
    owner: str, n: int, noise: float, random_state: int | np.random.Generator | None
) -> tuple[int, float, np.random.Generator]:
    n = check_size(owner, "n", n, 1)
    return n, check_number(owner, "noise", noise), np.random.default_rng(random_state)


def check_number(owner: str, name: str, value: float, high: float | None = None) -> float:
    """Return a finite number of at least 0 and at most ``high``, or refuse it by name."""
    number = isinstance(value, Real) and not isinstance(value, bool) and 0 <= value < np.inf
    if not number or (high is not None and value > high):
        legal = "a finite number >= 0" if high is None else f"a number from 0 to {high:g}"
        raise InvalidInput(f"{owner}: {name}={value!r}; give {legal}.")
    return float(value)


def check_size(owner: str, name: str, value: int, low: int) -> int:
    """Return a whole number of at least ``low``, or refuse it by name."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
        raise InvalidInput(f"{owner}: {name}={value!r}; give a whole number of {low} or more.")
    return int(value)
