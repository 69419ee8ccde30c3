"""Quadratic forms vᵀKv of the pooled points on a device, where K is made and forgotten."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.engines.device.sums import device_forms
from mercer.kernels import Kernel
from mercer.statistics.gram_forms import Forms
from mercer.statistics.kernel_grid import sources_of
from mercer.statistics.place import Place

__all__ = ["DeviceForms"]


class DeviceForms(Forms):
    """vᵀKv from bands of K, of which half is computed for each batch of vectors.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    Z : ndarray
        The points.
    weights : ndarray of shape (N,)
        t, for the row sums Kt.
    place : Place
        The device.
    """

    def __init__(self, kernel: Kernel, Z: Any, weights: np.ndarray, place: Place):
        with np.errstate(all="ignore"):  # an overflow is named when its tile comes
            super().__init__(weights, np.asarray(kernel._diag(Z), dtype=np.float64))
        self.place = place
        self.sources, _ = sources_of([kernel], place.points(Z))
        if place.single:  # errors of a mean are as likely of one sign as of the other
            self.resolution *= place.eps / (2.0**-46 * len(weights) ** 0.5)

    def __call__(self, V: Any, squares: bool = False) -> np.ndarray:
        """Return vᵀKv for each column of V; the first call also finds Kt.

        Parameters
        ----------
        V : tensor of shape (N, b)
            Label vectors.
        squares : bool
            Not found here.
        """
        V, N = self.bring(V), len(self.weights)
        t = None if len(self.sums) else self.place.wide(self.weights)[:, None]
        forms, sums, diagonals = device_forms(self.sources, N, V, t)
        own = (V.double() ** 2).T @ diagonals[0]
        if t is not None:
            self.sums = (sums[0, :, 0] + diagonals[0] * t[:, 0]).cpu().numpy()
        return (forms[0] + own).cpu().numpy()

    def paired(self, R: Any) -> tuple[np.ndarray, tuple[float, float, float]]:
        """Return rᵀHr for columns r of signs, and the sums that do not depend on signs.

        H = Kxx + Kyy − Kxy − Kyx; the sums are Σ (Kxx + Kyy), Σ (Kxy + Kyx) and tr Kxy.

        Parameters
        ----------
        R : ndarray or tensor of shape (n, b)
            Signs of pairs, N = 2n.
        """
        R = self.bring(R)
        n = len(R)
        places = ((0, 0, 1.0), (n, n, 1.0), (0, n, -1.0), (n, 0, -1.0))
        if not len(self.sums):
            self(np.zeros((2 * n, 0)))
        ones = self.place.wide(np.ones((n, 1)))
        forms, sums, diagonals = device_forms(self.sources, n, R, ones, places=places)
        own = float(diagonals.sum())
        apart = float(sums.sum()) + own  # within − between
        whole = float(self.sums.sum())
        pairs = (float(self.diagonal.sum()) - own) / 2
        return (forms[0] + own).cpu().numpy(), ((whole + apart) / 2, (whole - apart) / 2, pairs)
