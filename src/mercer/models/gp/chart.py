"""Coordinates in which log evidence is nearly quadratic, also where a parameter stops to matter.

A length scale that goes to infinity, as one of an irrelevant column does, changes the evidence by
c·ℓ⁻²: Newton's method in log ℓ moves by ½ at each step, for ever, while in ℓ⁻² it steps to the
bound at once, and still sees there on which side the evidence rises. A variable is

    x = (exp(q(θ − c)) − 1)/q,   x = θ − c for q = 0,   dx/dθ = 1 at θ = c,

with q = −2 for length scales of little curvature, and c where that curvature would be 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mercer.models.gp.descent import Point

__all__ = ["Chart", "log_chart", "tail_chart"]

Function = Callable[[np.ndarray], Point | None]
FARTHEST = np.log(1e2)  # from θ to c, where rounding hides how little a parameter matters


def log_chart(theta: np.ndarray) -> Chart:
    """Return the coordinates θ themselves."""
    return Chart(np.zeros(len(theta)), np.zeros(len(theta)))


def tail_chart(names: Sequence[str], theta: np.ndarray, curvature: np.ndarray) -> Chart:
    """Return coordinates that are bent for length scales that matter little.

    Parameters
    ----------
    names : sequence of str
        The parameters.
    theta : ndarray of shape (p,)
        Where they are.
    curvature : ndarray of shape (p,)
        Sizes of the second derivatives in θ, in nats.
    """
    scale = np.array(["length_scale" in name for name in names], dtype=bool)
    tail = scale & (curvature < 1.0)
    # of a·exp(−2θ) the second derivative is 1 at θ + ½ log of what it is at θ
    back = np.minimum(-0.5 * np.log(np.maximum(curvature, 1e-300)), FARTHEST)
    return Chart(np.where(tail, -2.0, 0.0), np.where(tail, theta - back, 0.0))


class Chart:
    """One coordinate for each log-parameter.

    Parameters
    ----------
    q : ndarray of shape (p,)
        Powers.
    centre : ndarray of shape (p,)
        The θ with coordinate 0 and unit slope.
    """

    def __init__(self, q: np.ndarray, centre: np.ndarray):
        self.q, self.centre = q, centre
        self._divisor = np.where(q == 0, 1.0, q)

    @property
    def bent(self) -> bool:
        """Whether the coordinates are not θ itself."""
        return bool(self.q.any())

    def x(self, theta: np.ndarray) -> np.ndarray:
        """Return coordinates of θ, of shape (p,) or (p, 2)."""
        q, c, by = (v.reshape(-1, *[1] * (theta.ndim - 1)) for v in self._parts())
        return np.where(q == 0, theta - c, np.expm1(q * (theta - c)) / by)

    def theta(self, x: np.ndarray) -> np.ndarray:
        """Return θ of coordinates."""
        q, c, by = self._parts()
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(q == 0, x + c, c + np.log1p(q * x) / by)

    def _parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.q, self.centre, self._divisor

    def point(self, at: Point) -> Point:
        """Return a point in θ with its gradient, in coordinates."""
        return Point(self.x(at.x), at.value, at.gradient * np.exp(-self.q * (at.x - self.centre)))

    def back(self, at: Point, box: np.ndarray) -> Point:
        """Return a point in coordinates with its gradient, in θ and inside its box."""
        theta = self._inside(at.x, box)
        return Point(theta, at.value, at.gradient * np.exp(self.q * (theta - self.centre)))

    def _inside(self, x: np.ndarray, box: np.ndarray) -> np.ndarray:
        edges = self.x(box)
        theta = np.where(x <= edges[:, 0], box[:, 0], np.where(x >= edges[:, 1], box[:, 1], 0.0))
        inner = (x > edges[:, 0]) & (x < edges[:, 1])
        return np.clip(np.where(inner, self.theta(x), theta), box[:, 0], box[:, 1])

    def over(self, f: Function, box: np.ndarray) -> Function:
        """Return f of θ as a function of coordinates; θ stays in its box in spite of rounding."""

        def of_x(x: np.ndarray) -> Point | None:
            found = f(self._inside(x, box))
            return None if found is None else Point(x, found.value, self.point(found).gradient)

        return of_x
