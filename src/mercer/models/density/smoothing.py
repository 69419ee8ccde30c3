"""Smoothing kernels: radial densities κ(u) = c φ(‖u‖²) on ℝᵈ, normalised for every d.

∫κ = 1, ∫uκ = 0 and ∫uuᵀκ is a positive multiple of the identity. In one dimension these are the
kernels of the textbooks; in several they are spheres, not products, as scikit-learn's are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import betaln, gammaln

from mercer.domains import Vectors
from mercer.engines.profiles import rim
from mercer.errors import InvalidInput
from mercer.kernels import RBF

__all__ = ["SMOOTHINGS", "Smoothing", "is_smoothing", "smoothing"]

#: Names of smoothing kernels; "linear" is another name of "triangular".
SMOOTHINGS = (
    "gaussian",
    "epanechnikov",
    "tophat",
    "triangular",
    "biweight",
    "cosine",
    "exponential",
)
_ALIASES = {"linear": "triangular"}
TERMS = 24  # of the series of ∫ rᵈ⁻¹ cos(πr/2): more than floats can tell apart


class Smoothing:
    """A density κ(u) = c φ(‖u‖²) on ℝᵈ with φ(0) = 1.

    Parameters
    ----------
    name : str
        One of `SMOOTHINGS`.

    Attributes
    ----------
    name : str
        Its name.
    code : int
        Its number in compiled loops: its place in `SMOOTHINGS`.
    radius : float
        κ(u) = 0 for ‖u‖ ≥ radius: 1, or infinity for "gaussian" and "exponential". So the rim of
        the ball is outside, as scikit-learn has it.
    domain : Vectors
        What it is a density of.
    """

    def __init__(self, name: str):
        self.name = name
        self.code = SMOOTHINGS.index(name)
        self.radius = math.inf if name in ("gaussian", "exponential") else 1.0
        self.domain = Vectors()

    def __repr__(self) -> str:
        return f"Smoothing({self.name!r})"

    @property
    def compact(self) -> bool:
        """Whether κ is 0 outside a ball."""
        return self.radius < math.inf

    def profile(self, s: Any, bandwidth: float = 1.0) -> np.ndarray:
        """Return φ(s/h²) at squared lengths s ≥ 0.

        Parameters
        ----------
        s : array
            Squared lengths ‖u‖².
        bandwidth : float, default=1
            h. A length √s, rounded, that is not below h is outside of a bounded support.
        """
        s = np.asarray(s, dtype=float)
        if not self.compact:
            return np.exp(self.log_profile(s, bandwidth))
        inside = s < rim(bandwidth)
        if self.name == "tophat":
            return inside.astype(float)
        t = np.where(inside, np.minimum(s / bandwidth**2, 1.0), 1.0)
        if self.name == "triangular":
            return 1.0 - np.sqrt(t)
        if self.name == "cosine":
            return np.where(t < 1.0, np.cos(0.5 * math.pi * np.sqrt(t)), 0.0)
        return (1.0 - t) ** (1 if self.name == "epanechnikov" else 2)

    def log_profile(self, s: Any, bandwidth: float = 1.0) -> np.ndarray:
        """Return log φ(s/h²); −inf outside the support, without a warning.

        Parameters
        ----------
        s : array
            Squared lengths ‖u‖².
        bandwidth : float, default=1
            h.
        """
        s = np.asarray(s, dtype=float)
        if self.name == "gaussian":
            return s * (-0.5 / bandwidth**2)
        if self.name == "exponential":
            return np.sqrt(s) * (-1.0 / bandwidth)
        with np.errstate(divide="ignore"):
            return np.log(self.profile(s, bandwidth))

    def log_normaliser(self, d: int) -> float:
        """Return log c in d dimensions: ∫ c φ(‖u‖²) du = 1.

        In polar coordinates the integral is 2πᵈᐟ²/Γ(d/2) ∫ rᵈ⁻¹ φ(r²) dr.

        Parameters
        ----------
        d : int
            Number of columns.
        """
        sphere = math.log(2.0) + 0.5 * d * math.log(math.pi) - gammaln(0.5 * d)
        return -float(sphere + self._log_radial(d))

    def _log_radial(self, d: int) -> float:
        """Return log ∫ rᵈ⁻¹ φ(r²) dr."""
        if self.name == "gaussian":
            return (0.5 * d - 1) * math.log(2.0) + float(gammaln(0.5 * d))
        if self.name == "exponential":
            return float(gammaln(d))
        if self.name == "triangular":
            return float(betaln(d, 2))
        if self.name == "cosine":
            # With t = 1 − r: ∫ (1−t)ᵈ⁻¹ sin(πt/2) dt, the sine as a series; no term is larger
            # than the one before it, so nothing is lost for any d.
            k = np.arange(TERMS)
            logs = (2 * k + 1) * math.log(0.5 * math.pi) + gammaln(d) - gammaln(2 * k + 2 + d)
            terms = np.where(k % 2, -1.0, 1.0) * np.exp(logs - logs[0])
            return float(logs[0] + np.log(terms.sum()))
        return float(betaln(0.5 * d, self._power + 1) - math.log(2.0))

    def deviation(self, d: int) -> float:
        """Return the standard deviation of one coordinate of a draw of κ in d dimensions.

        The mean of ‖u‖² is the ratio of ∫ rᵈ⁺¹ φ(r²) dr and ∫ rᵈ⁻¹ φ(r²) dr, and d coordinates
        share it.

        Parameters
        ----------
        d : int
            Number of columns.
        """
        return math.sqrt(math.exp(self._log_radial(d + 2) - self._log_radial(d)) / d)

    @property
    def _power(self) -> int:
        """p of φ(s) = (1 − s)ᵖ."""
        return {"tophat": 0, "epanechnikov": 1, "biweight": 2}[self.name]

    def sample(self, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        """Return n independent draws of κ as rows.

        A direction at random times a length of density ∝ rᵈ⁻¹ φ(r²).

        Parameters
        ----------
        rng : Generator
            Source of randomness.
        n, d : int
            Rows and columns.
        """
        U = rng.standard_normal((n, d))
        if self.name == "gaussian":
            return U
        length = np.sqrt(np.einsum("ij,ij->i", U, U))
        length[length == 0] = 1.0
        return U * (self._lengths(rng, n, d) / length)[:, None]

    def _lengths(self, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        if self.name == "exponential":
            return rng.gamma(d, size=n)
        if self.name == "triangular":
            return rng.beta(d, 2.0, size=n)
        if self.name == "cosine":
            # Rejection from the parabola: cos(πr/2)/(1 − r²) is between π/4 and 1.
            out = np.empty(n)
            todo = np.arange(n)
            while len(todo):
                s = rng.beta(0.5 * d, 2.0, size=len(todo))
                r = np.sqrt(s)
                taken = rng.random(len(todo)) * (1.0 - s) <= np.cos(0.5 * math.pi * r)
                out[todo[taken]] = r[taken]
                todo = todo[~taken]
            return out
        return np.sqrt(rng.beta(0.5 * d, self._power + 1.0, size=n))


def is_smoothing(name: Any) -> bool:
    """Whether this is the name of a smoothing kernel.

    Parameters
    ----------
    name : object
        Perhaps a name.
    """
    return isinstance(name, str) and _ALIASES.get(name, name) in SMOOTHINGS


def smoothing(name: Any, owner: str = "KernelDensity") -> Smoothing:
    """Return the smoothing kernel of that name.

    Parameters
    ----------
    name : str or Smoothing
        One of `SMOOTHINGS`, or "linear" for "triangular".
    owner : str, default="KernelDensity"
        Whose it is, for the message.
    """
    if isinstance(name, Smoothing):
        return name
    if not is_smoothing(name):
        rbf = isinstance(name, RBF) or (isinstance(name, str) and name == "rbf")
        same = " It is kernel='gaussian', with the length scale as bandwidth." if rbf else ""
        raise InvalidInput(
            f"{owner}: kernel={name!r} is no smoothing kernel; give one of "
            f"{', '.join(repr(n) for n in SMOOTHINGS)}.{same}"
        )
    return Smoothing(_ALIASES.get(name, name))
