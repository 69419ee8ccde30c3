"""Targets in units in which a covariance function can start: centred and scaled, and back again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.errors import InvalidInput

__all__ = ["Targets"]

# A column that varies less than this, relative to its size, is constant but for rounding.
CONSTANT = 1e-13
# Units beyond these have squares, which variances are, that are no float64.
SMALLEST, LARGEST = 1e-151, 1e151


@dataclass(frozen=True)
class Targets:
    """The affine map z = (y − mean)/scale of each output, and what it does to densities.

    Attributes
    ----------
    mean, scale : arrays of shape (t,)
        Weighted mean and standard deviation; 0 and 1 where targets are taken as they are.
    """

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(
        cls,
        Y: np.ndarray,
        weights: np.ndarray | None,
        *,
        normalize: bool,
        units: np.ndarray | None,
        owner: str,
    ) -> Targets:
        """Return the map for targets Y of shape (n, t).

        Parameters
        ----------
        Y : array of shape (n, t)
            Targets.
        weights : array of shape (n,) or None
            A weight of 2 is the row given twice.
        normalize : bool
            Whether to move and scale at all.
        units : array of shape (t,) or None
            What the scales of the outputs are to be proportional to, as the noise is whose
            variance is not tuned; the variances of z are 1 on average then. None for a scale each.
        owner : str
            Whose targets these are, for messages.
        """
        t = Y.shape[1]
        if not normalize:
            out = cls(np.zeros(t), np.ones(t))
            _check_unit(np.abs(Y).max(axis=0, initial=0.0), owner)
            return out
        largest = np.abs(Y).max(axis=0, initial=0.0)
        unit = np.where(largest > 0, largest, 1.0)  # no square or sum of these can overflow
        V = Y / unit
        mean = np.average(V, axis=0, weights=weights)
        scale = np.sqrt(np.average((V - mean) ** 2, axis=0, weights=weights))
        constant = scale <= CONSTANT
        mean, scale = mean * unit, scale * unit
        _check_unit(np.where(constant, 1.0, scale), owner)
        if units is not None and t > 1 and not constant.all():
            ratio = np.where(constant, 0.0, scale / units)
            top = float(ratio.max())
            return cls(mean, units * top * np.sqrt(np.mean((ratio / top)[~constant] ** 2)))
        return cls(mean, np.where(constant, 1.0, scale))

    def forward(self, Y: np.ndarray) -> np.ndarray:
        """Return z for targets y of shape (n, t)."""
        return (Y - self.mean) / self.scale

    def variance_unit(self) -> float:
        """Return what one unit of variance of z is in the user's, on average over the outputs."""
        return float(np.mean(self.scale**2))

    def log_density_shift(self, degrees: float) -> float:
        """Return log p(y) − log p(z): minus `degrees` times log scale, summed over the outputs.

        `degrees` is the number of rows, or the sum of their weights, less the number of
        coefficients with a flat prior, which are in the units of y too.
        """
        return -float(degrees * np.log(self.scale).sum())


def _check_unit(size: np.ndarray, owner: str) -> None:
    wrong = ((size > 0) & (size < SMALLEST)) | (size > LARGEST)
    if wrong.any():
        j = int(np.argmax(wrong))
        raise InvalidInput(
            f"{owner}: y{f'[:, {j}]' if len(size) > 1 else ''} is of the size {size[j]:.3g}, whose "
            "square, a variance, is no float64; give y in other units."
        )
