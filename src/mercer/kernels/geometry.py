"""`Geometry`: distances in feature space as a rising function of a distance of the points.

k(x, x) + k(y, y) − 2k(x, y) loses half the digits where x and y are near, and says nothing where k
has become 0. Where it is g(s) of the squared distance s of some image of the points, g is written
down here without a difference of numbers near one another, and sums, products, powers and column
choices of such kernels keep the form as long as all of them look at one distance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

__all__ = ["Geometry", "geometry_of", "radial"]

Gap = Callable[[np.ndarray], np.ndarray]
# Distances beyond these are not squared: g goes on as the power of s that it is there.
ANCHORS = (2.0**-465, 2.0**480)


@dataclass(frozen=True)
class Geometry:
    """‖φ(x) − φ(y)‖² = gap(s), s = ‖image(x) − image(y)‖²/unit², in the ℓ₂ or the ℓ₁ norm.

    Parameters
    ----------
    key : tuple or None
        What the image is: equal keys have one image. None where no point is looked at.
    image : callable
        A canonical collection ↦ rows of numbers.
    unit : float
        The length scale.
    gap : callable
        g; it never falls, and does not cancel.
    level : float or None
        k(x, x), where it is the same for all points; then k(x, y) = level − ½gap ≥ 0.
    norm : {2, 1}
        Which norm.
    """

    key: tuple | None
    image: Callable[[Any], Any]
    unit: float
    gap: Gap
    level: float | None
    norm: int = 2

    def distance(self, r: np.ndarray) -> np.ndarray:
        """Return ‖φ(x) − φ(y)‖ for distances r in units of `unit`."""
        low, high = ANCHORS
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            d = np.sqrt(self.gap(np.clip(r, low, high) ** 2))
            d[r == 0] = np.sqrt(self.gap(np.zeros(1)))[0]
            for anchor, beyond in ((low, (r > 0) & (r < low)), (high, r > high)):
                if beyond.any():
                    a, b = self.gap(np.array([anchor, 4 * anchor]) ** 2)
                    power = np.log(b / a) / np.log(16.0) if 0 < a < b else 0.0
                    d[beyond] = np.sqrt(a) * (r[beyond] / anchor) ** power
        return d

    def seen_by(self, other: Geometry) -> Gap:
        """Return gap as a function of the s of another geometry with the same image."""
        if self.key is None or self.unit == other.unit:
            return self.gap
        ratio = (other.unit / self.unit) ** 2
        return lambda s: self.gap(np.minimum(s * ratio, ANCHORS[1] ** 2))

    # -- what operations on kernels do ---------------------------------------------------------
    def plus(self, other: Geometry) -> Geometry | None:
        """Return the geometry of k₁ + k₂: squared distances add."""
        lead, rest = (other, self) if self.key is None else (self, other)
        if rest.key not in (None, lead.key):
            return None
        g = rest.seen_by(lead)
        levels = lead.level is None or rest.level is None
        level = None if levels else lead.level + rest.level  # type: ignore[operator]
        return replace(lead, gap=lambda s: lead.gap(s) + g(s), level=level)

    def times(self, other: Geometry) -> Geometry | None:
        """Return the geometry of k₁·k₂, from c·d − (c − a)(d − b) = c·b + a(d − b)."""
        lead, rest = (other, self) if self.key is None else (self, other)
        if rest.key not in (None, lead.key) or rest.level is None or not rest.level > 0:
            return None
        d, c, g = rest.level, lead.level, rest.seen_by(lead)
        if rest.gap is no_gap:
            return replace(lead, gap=lambda s: d * lead.gap(s), level=None if c is None else d * c)
        if c is None:
            return None
        return replace(lead, gap=lambda s: c * g(s) + lead.gap(s) * (d - 0.5 * g(s)), level=c * d)

    def power(self, p: int) -> Geometry | None:
        """Return the geometry of kᵖ: cᵖ − (c − a)ᵖ = −cᵖ(exp(p log(1 − a/c)) − 1)."""
        c = self.level
        if c is None or not c > 0:
            return None

        def gap(s: np.ndarray) -> np.ndarray:
            with np.errstate(divide="ignore"):
                return -2 * c**p * np.expm1(p * np.log1p(-np.minimum(0.5 * self.gap(s) / c, 1.0)))

        return replace(self, gap=gap, level=c**p)

    def exp(self) -> Geometry | None:
        """Return the geometry of exp(k)."""
        if self.level is None:
            return None
        top = float(np.exp(self.level))
        return replace(self, gap=lambda s: -2 * top * np.expm1(-0.5 * self.gap(s)), level=top)

    def normalized(self) -> Geometry | None:
        """Return the geometry of k(x, y)/level."""
        c = self.level
        if c is None or not c > 0:
            return None
        return replace(self, gap=lambda s: self.gap(s) / c, level=1.0)


def no_gap(s: np.ndarray) -> np.ndarray:
    """Return the squared distances of a constant kernel."""
    return np.zeros_like(s)


def geometry_of(kernel: Any) -> Geometry | None:
    """Return the geometry of a kernel whose own class knows it; a subclass may differ."""
    return kernel._geometry() if "_geometry" in type(kernel).__dict__ else None


def radial(kernel: Any, drop: Gap, norm: int = 2) -> Geometry:
    """Return the geometry of a radial kernel κ with drop(s) = 1 − κ(s)."""
    scale = np.asarray(kernel.length_scale, dtype=float).reshape(-1)
    covariance = getattr(kernel, "covariance", None)
    if len(scale) == 1 and covariance is None:
        # One length scale does not change an order, and points that are not scaled do not round.
        key: tuple = (norm,)
        image, unit = _itself, float(scale[0])
    else:
        held = scale if covariance is None else np.asarray(covariance, dtype=float)
        key, image, unit = (norm, held.shape, held.tobytes()), kernel._to_metric, 1.0
    return Geometry(key, image, unit, lambda s: 2 * drop(s), 1.0, norm)


def _itself(X: Any) -> Any:
    return X
