"""Log densities of parameters and their slopes in the logarithm of the parameter."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["log_density", "why_no_density"]

# Five-point stencil: error h⁴g⁽⁵⁾/30 and rounding ε|g|/h, both near 1e-12 for a smooth density.
STEPS = (1e-3, 1e-5, 1e-7)
OFFSETS, WEIGHTS = np.array([-2.0, -1.0, 1.0, 2.0]), np.array([1.0, -8.0, 8.0, -1.0]) / 12


def log_density(law: Any, theta: float) -> tuple[float, float]:
    """Return g(θ) = log p(e^θ) and g′(θ); (−∞, 0) outside the support.

    Parameters
    ----------
    law : frozen distribution
        Anything with ``logpdf``.
    theta : float
        The logarithm of the parameter.
    """
    value = _logpdf(law, np.array([theta]))[0]
    if not np.isfinite(value):
        return -np.inf, 0.0
    for h in STEPS:
        around = _logpdf(law, theta + h * OFFSETS)
        if np.isfinite(around).all():
            return float(value), float(WEIGHTS @ around) / h
    for h in (STEPS[1], -STEPS[1]):  # at the end of the support: from inside
        one, two = _logpdf(law, theta + h * np.array([1.0, 2.0]))
        if np.isfinite(one) and np.isfinite(two):
            return float(value), float(-1.5 * value + 2 * one - 0.5 * two) / h
    return float(value), 0.0


def why_no_density(law: Any) -> str:
    """Return what is wrong with a density of one number; "" where nothing is."""
    if not callable(getattr(law, "logpdf", None)):
        return "has no logpdf"
    if hasattr(law, "freeze"):  # a family of scipy.stats, whose parameters are not chosen
        return "is not frozen"
    try:
        found = np.shape(law.logpdf(np.array([1.0, 2.0, 3.0])))
    except Exception as error:
        return f"has a logpdf that fails ({error})"
    return "" if found == (3,) else "is not the density of one number"


def _logpdf(law: Any, theta: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        g = np.asarray(law.logpdf(np.exp(theta)), dtype=float).reshape(theta.shape)
    return np.where(np.isnan(g), -np.inf, g)
