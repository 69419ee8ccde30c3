"""Whether the parts of a loss of one's own belong together: value, gradient and conjugate."""

from __future__ import annotations

import numpy as np

from mercer.losses import Loss

__all__ = ["fault_of"]

STEP = 1e-6  # of the targets, for differences of the value
WRONG = 1e-2  # relative error of a slope from which it is not rounding
HALF = 0.5  # of the rows that must be wrong: the others may be near a corner
ROUNDING = 4e-15  # of a formula with terms of size 1, of which small values may be made
OURS = "mercer.losses"


def fault_of(loss: Loss, y: np.ndarray) -> str:
    """Return what is wrong with a loss whose formulas are not those of this project, or "".

    Its gradient is compared with differences of its value, at values of f near the targets and far
    away; then its conjugate with u f − ℓ at u = ℓ', which is what ℓ* is there.

    Parameters
    ----------
    loss : Loss
        The loss.
    y : ndarray of shape (n,)
        The targets.
    """
    if type(loss).__module__.startswith(OURS):
        return ""
    size = float(np.abs(y).max(initial=0.0)) or 1.0
    middle = float(np.median(np.abs(y))) or size
    for f in (np.zeros(len(y)), y + middle, y - middle):
        with np.errstate(all="ignore"):
            h = STEP * np.maximum(np.maximum(np.abs(y), np.abs(f)), middle)
            g, value = loss.gradient(y, f), loss.value(y, f)
            d = (loss.value(y, f + h) - loss.value(y, f - h)) / (2 * h)
            noise = ROUNDING * np.maximum(1.0, np.abs(value)) / h
            conjugate = g * f - loss.conjugate(y, g)
        seen = np.isfinite(value) & np.isfinite(d)
        if not seen.any():
            continue
        where = f"at y = {y[seen][0]:.4g}, f = {f[seen][0]:.4g}"
        wrong = ~(np.abs(g - d) <= WRONG * np.maximum(np.abs(g), np.abs(d)) + noise)
        if wrong[seen].mean() > HALF:
            return (
                f"the gradient of {loss!r} is not the slope of its value, so that the objective "
                f"does not decrease ({where} it is {g[seen][0]:.4g}, by differences "
                f"{d[seen][0]:.4g}); check the gradient of the loss"
            )
        terms = np.abs(value) + np.abs(g * f) + np.abs(conjugate)
        wrong = ~(np.abs(value - conjugate) <= 1e-6 * terms + ROUNDING)
        if wrong[seen & np.isfinite(conjugate)].sum() > HALF * seen.sum():
            return (
                f"the conjugate of {loss!r} does not belong to its value ({where} u f − ℓ*(u) at "
                f"u = ℓ' is {conjugate[seen][0]:.4g}, the value {value[seen][0]:.4g}); check the "
                "conjugate of the loss"
            )
    return ""
