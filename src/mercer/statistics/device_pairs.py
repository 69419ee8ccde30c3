"""Both matrices of a test of independence on a device, where they are made and shuffled."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.engines.device.sums import gathered_sums
from mercer.engines.tiles import gram
from mercer.kernels import Kernel
from mercer.statistics.contrast import Contrast
from mercer.statistics.place import Place
from mercer.statistics.samples import Pair
from mercer.statistics.shuffled_pairs import ROUNDING

__all__ = ["DeviceGathered", "centred_on_device", "contrast_on_device", "rounding"]

SINGLE = 2.0**-21  # part of ‖A‖‖L‖ that rounding may change where values have single precision


class DeviceGathered:
    """Both matrices on a device; sums that differ by less than `resolution` may be equal.

    Parameters
    ----------
    pair : Pair
        The variables, whose place the device is.
    w : ndarray of shape (n,)
        Weights, which stay with X.
    unbiased : bool
        Which estimator.
    """

    words, error = "", 0.0

    def __init__(self, pair: Pair, w: np.ndarray, unbiased: bool):
        place: Any = pair.place
        self.place: Place = place
        self.A = contrast_on_device(pair.kernel_x, pair.X, w, unbiased, self.place)
        self.L = centred_on_device(pair.kernel_y, pair.Y, self.place)
        self.resolution = rounding(self.A, self.L)
        self.observed = float(self.evaluate(np.arange(pair.n)[None])[0])

    def evaluate(self, P: Any) -> np.ndarray:
        """Return the estimates of arrangements."""
        return np.asarray(gathered_sums([self.A], self.L, self.place.tensor(P))[:, 0].cpu())


def contrast_on_device(kernel: Kernel, X: Any, w: np.ndarray, unbiased: bool, place: Place) -> Any:
    """Return the matrix A of `contrast` as a tensor.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : ndarray
        The points.
    w : ndarray of shape (n,)
        Weights.
    unbiased : bool
        Which estimator.
    place : Place
        The device.
    """
    K, parts = _gram(kernel, X, w, unbiased, place)
    diagonal = K.diagonal().double().clone().cpu().numpy()  # K is overwritten below
    _add_shift(K, parts, place)
    scaled = place.wide(parts.scale * w).to(K.dtype)
    K *= scaled[:, None]
    K *= place.wide(w).to(K.dtype)
    K.diagonal().sub_(place.wide(parts.excess(diagonal)).to(K.dtype))
    return K


def centred_on_device(kernel: Kernel, Y: Any, place: Place) -> Any:
    """Return a centred kernel matrix as a tensor; points all the same give 0 exactly.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    Y : ndarray
        The points.
    place : Place
        The device.
    """
    L, parts = _gram(kernel, Y, np.ones(len(Y)), False, place)
    if parts.scale == 0.0:
        return L.zero_()
    return _add_shift(L, parts, place)


def rounding(A: Any, L: Any) -> float:
    """Return how far equal sums of products may be apart.

    Parameters
    ----------
    A, L : tensors of shape (n, n)
        The matrices.
    """
    part = ROUNDING if A.element_size() == 8 else SINGLE
    return part * float(A.norm().double() * L.norm().double())


def _gram(
    kernel: Kernel, X: Any, w: np.ndarray, unbiased: bool, place: Place
) -> tuple[Any, Contrast]:
    """Return K as a tensor of our own, and the parts of A."""
    import torch

    K = gram(kernel._bind(place.points(X)))
    weights = place.wide(w)
    sums = torch.cat([(part * weights).sum(1) for part in K.split(4096)])
    diagonal = K.diagonal().double()
    return K, Contrast.of(sums.cpu().numpy(), diagonal.cpu().numpy(), w, unbiased)


def _add_shift(K: Any, parts: Contrast, place: Place) -> Any:
    shift = place.wide(parts.shift).to(K.dtype)
    K += shift[:, None]
    K += shift
    return K
