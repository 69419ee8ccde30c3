"""Bandwidths: a number, one a column, or a matrix H, as a map that makes all of them 1.

A density smoothed by H is κ(H⁻¹(x − xᵢ))/|H|. Points are whitened, z = H⁻¹(x − centre) up to a
rotation, and from then on every bandwidth is 1.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.engines.units import moderate
from mercer.errors import InvalidInput

__all__ = ["RULES", "Bandwidth", "as_bandwidth", "centre_of", "column_scales", "rule_factor"]

#: Rules that make a bandwidth from the data.
RULES = ("scott", "silverman")
ASYMMETRY = 1e-10  # relative, beyond which a matrix is not taken for symmetric
HUGE = 1e300  # whitened coordinates stop here: so far out only the distance matters, and its sign


@dataclass(frozen=True, eq=False)
class Bandwidth:
    """A bandwidth H on ℝᵈ.

    Parameters
    ----------
    value : float, or array of shape (d,) or (d, d)
        H as it was given or found.
    d : int
        Number of columns.
    """

    value: Any
    d: int

    def __post_init__(self) -> None:
        if np.ndim(self.value) == 2:
            # ‖H⁻¹u‖ = ‖Λ⁻¹Vᵀu‖ for H = VΛVᵀ: the rotation V need not be undone.
            lengths, axes = np.linalg.eigh(self.value)
            object.__setattr__(self, "_lengths", lengths)
            object.__setattr__(self, "_axes", axes)

    @property
    def log_det(self) -> float:
        """log |H|."""
        if np.ndim(self.value) == 0:
            return self.d * math.log(self.value)
        lengths = self._lengths if np.ndim(self.value) == 2 else self.value  # type: ignore[attr-defined]
        return float(np.log(lengths).sum())

    def whiten(self, X: np.ndarray, centre: Any = 0.0) -> np.ndarray:
        """Return coordinates of rows in which H is 1, up to a rotation.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows.
        centre : float or array of shape (d,), default=0
            Subtracted first; give the same one for all rows that are to be compared.
        """
        with np.errstate(over="ignore"):
            Z = X - centre
            if np.ndim(self.value) == 2:
                # A product of huge entries may be inf − inf: keep them from overflowing.
                (Z,), shift = moderate([np.clip(Z, -HUGE, HUGE)])
                Z = np.ldexp((Z @ self._axes) / self._lengths, shift)  # type: ignore[attr-defined]
            else:
                Z /= self.value
        return np.clip(Z, -HUGE, HUGE, out=Z)

    def spread(self, U: np.ndarray) -> np.ndarray:
        """Return H u for the rows u of U.

        Parameters
        ----------
        U : array of shape (n, d)
            Rows.
        """
        return U @ self.value if np.ndim(self.value) == 2 else U * self.value

    def scaled(self, factor: float) -> Bandwidth:
        """Return the bandwidth times a number.

        Parameters
        ----------
        factor : float
            The number, positive.
        """
        return Bandwidth(_plain(np.multiply(self.value, factor)), self.d)


def as_bandwidth(
    bandwidth: Any, X: np.ndarray, weights: np.ndarray | None = None, owner: str = "KernelDensity"
) -> Bandwidth:
    """Return the bandwidth that a parameter asks for on these rows.

    Parameters
    ----------
    bandwidth : float, array of shape (d,) or (d, d), "scott" or "silverman"
        A number, one a column, a symmetric positive definite matrix, or a rule.
    X : array of shape (n, d)
        Rows, finite.
    weights : array of shape (n,), optional
        Repetitions of the rows.
    owner : str, default="KernelDensity"
        Whose it is, for messages.
    """
    d = X.shape[1]
    if isinstance(bandwidth, str):
        if bandwidth not in RULES:
            raise InvalidInput(
                f"{owner}: bandwidth={bandwidth!r} is no rule for a bandwidth here; give "
                "'scott', 'silverman', or numbers > 0."
            )
        scales, total = column_scales(X, weights, bandwidth, owner)
        with np.errstate(under="ignore"):
            value = rule_factor(bandwidth, total, d) * scales
        if not (value > 0).all():
            raise InvalidInput(f"{owner}: bandwidth={bandwidth!r} underflows; scale the columns.")
        return Bandwidth(float(value[0]) if d == 1 else value, d)
    return Bandwidth(_checked(bandwidth, d, owner), d)


def centre_of(X: np.ndarray) -> np.ndarray:
    """Return a point near the middle of the rows, of few digits.

    Distances of rows far from 0 keep their digits when it is subtracted first, and whole numbers
    stay whole: it is a multiple of the power of two next to the width of the column.

    Parameters
    ----------
    X : array of shape (n, d)
        Rows.
    """
    low, high = X.min(axis=0), X.max(axis=0)
    with np.errstate(over="ignore", under="ignore"):
        width = high - low
        middle = 0.5 * low + 0.5 * high
        unit = np.ldexp(1.0, np.frexp(np.where(width > 0, width, 1.0))[1])
        steps = np.rint(middle / unit)
        centre = steps * unit
    return np.where(np.isfinite(width) & np.isfinite(centre), centre, 0.0)


def rule_factor(rule: str, total: float, d: int) -> float:
    """Return what a rule multiplies the standard deviations with.

    n^(−1/(d+4)) for Scott's rule, (n(d+2)/4)^(−1/(d+4)) for Silverman's: of least mean squared
    error for normal data and the gaussian kernel.

    Parameters
    ----------
    rule : {"scott", "silverman"}
        The rule.
    total : float
        Number of rows n; with weights their sum.
    d : int
        Number of columns.
    """
    n = total if rule == "scott" else total * (d + 2) / 4
    return float(n ** (-1 / (d + 4)))


def column_scales(
    X: np.ndarray, weights: np.ndarray | None, rule: str, owner: str
) -> tuple[np.ndarray, float]:
    """Return the standard deviation of each column and the number of rows.

    A weight of w is the row given w times: n = Σw and s² = Σ w(x − x̄)²/(n − 1).

    Parameters
    ----------
    X : array of shape (n, d)
        Rows.
    weights : array of shape (n,), optional
        Repetitions of the rows.
    rule, owner : str
        What asks, and whose it is, for messages.
    """
    w = np.ones(len(X)) if weights is None else weights
    total = float(w.sum())
    used = X[w > 0]
    if len(used) < 2:
        raise InvalidInput(
            f"{owner}: bandwidth={rule!r} needs two rows that differ, and there is one; n_samples "
            "= 1 has no spread. Give the bandwidth as a number."
        )
    if not total > 1:
        raise InvalidInput(
            f"{owner}: the sample weights sum to {total:g}, and bandwidth={rule!r} takes that for "
            "the number of rows, since a weight of 2 is a row given twice. Scale the weights to "
            "sum to the number of rows, or give the bandwidth as a number."
        )
    (Z,), shift = moderate([used])
    share = (w[w > 0] / total)[:, None]
    mean = Z[0] + (share * (Z - Z[0])).sum(axis=0)  # exactly Z[0] where a column is constant
    gaps = Z - mean
    variance = (share * gaps * gaps).sum(axis=0) * (total / (total - 1))
    flat = (used == used[0]).all(axis=0)
    scales = np.ldexp(np.sqrt(variance), shift)
    flat |= ~(scales > 0)
    if flat.any():
        j = int(flat.argmax())
        raise InvalidInput(
            f"{owner}: column {j} is constant, so bandwidth={rule!r} would be 0 there, and a "
            "density has no meaning. Drop the column, or give bandwidths as numbers."
        )
    return scales, total


def _checked(bandwidth: Any, d: int, owner: str) -> Any:
    """Return a bandwidth given in numbers, as a float or an array."""
    if isinstance(bandwidth, bool | np.bool_) or bandwidth is None:
        raise InvalidInput(_refusal(bandwidth, owner))
    try:
        H = np.array(bandwidth, dtype=float)
    except (TypeError, ValueError):
        raise InvalidInput(_refusal(bandwidth, owner)) from None
    if H.shape == (1,) and d == 1:
        return _positive(H, owner)
    if H.shape not in ((), (d,), (d, d)):
        raise InvalidInput(
            f"{owner}: bandwidth of shape {H.shape} for {d} columns; give a number, {d} numbers, "
            f"or a {d} × {d} matrix."
        )
    if not np.isfinite(H).all():
        raise InvalidInput(f"{owner}: bandwidth={bandwidth!r} is not finite; give numbers > 0.")
    if H.ndim < 2:
        return _plain(_positive(H, owner))
    if np.abs(H - H.T).max() > ASYMMETRY * np.abs(H).max():
        raise InvalidInput(
            f"{owner}: the bandwidth matrix is not symmetric; give H with H = Hᵀ, for instance "
            "scipy.linalg.sqrtm of a covariance matrix."
        )
    H = 0.5 * H + 0.5 * H.T
    least, most = np.linalg.eigvalsh(H)[[0, -1]]
    if not least > np.finfo(float).eps * d * most:
        raise InvalidInput(
            f"{owner}: the bandwidth matrix has the eigenvalue {least:.3g}, so it is not positive "
            "definite; a density has no meaning where a bandwidth is 0. Add a small multiple of "
            "the identity."
        )
    return H


def _positive(H: np.ndarray, owner: str) -> np.ndarray:
    if not (H > 0).all():
        raise InvalidInput(
            f"{owner}: bandwidth={H.tolist()!r}; bandwidths are > 0, as a density has no meaning "
            "at bandwidth 0."
        )
    return H


def _plain(value: Any) -> Any:
    """Return a number as a float, an array as it is."""
    return float(value) if np.ndim(value) == 0 else value


def _refusal(bandwidth: Any, owner: str) -> str:
    kind = "" if isinstance(bandwidth, numbers.Number) else f" ({type(bandwidth).__name__})"
    return (
        f"{owner}: bandwidth={bandwidth!r}{kind}; give a number > 0, one for each column, a "
        "symmetric positive definite matrix, or 'scott', 'silverman' or 'loo'."
    )
