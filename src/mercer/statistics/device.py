"""Both matrices of a test of independence on a device, where they are made and shuffled."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains import namespace
from mercer.kernels import Kernel
from mercer.operators import Place, device_forms, gathered_sums, sources_of
from mercer.statistics.dependence import ROUNDING, Contrast
from mercer.statistics.permutation import Relabel, Shuffle, Signs
from mercer.statistics.samples import Pair
from mercer.statistics.two_sample import Forms

# ---- Draws made on a device, where those of a host would take longer than what is done with
# them.


MANY = 2**22  # labels in all draws up to which a host draws them, the same for all engines
CHUNK = 256  # draws of one seed; fixed, so that batches do not change the draws


class DeviceDraws:
    """Draws of a design in which any row may change places with any other.

    A random order of the rows is that of independent random numbers. These have 63 bits: that two
    of some thousand agree, and the order prefers one, is an event of probability 1e-12. A generator
    on the device takes its seeds from that of the user, so a seed fixes the draws, on one kind of
    device; they are others than NumPy's from the same seed, and as valid.
    """

    def __init__(self, design: Any, place: Place):
        self.design, self.place = design, place

    def draw(self, rng: np.random.Generator, size: int) -> Any:
        """Return `size` draws, one a row, as a tensor."""
        parts = [
            self._chunk(min(CHUNK, size - start), int(rng.integers(2**63)))
            for start in range(0, size, CHUNK)
        ]
        return namespace(parts[0]).concatenate(parts)

    def _chunk(self, size: int, seed: int) -> Any:
        design, place = self.design, self.place
        if isinstance(design, Signs):
            return place.signs(size, design.n, seed)
        if isinstance(design, Shuffle):
            return place.orders(size, design.n, seed)
        order = place.orders(size, len(design.labels), seed)
        return place.tensor(np.asarray(design.labels))[order]


def drawn_there(design: Any, place: Place | None, draws: int) -> Any:
    """Return the design, or the same made on a device where that pays."""
    if place is None or not place.remote or not plain(design):
        return design
    size = design.n if isinstance(design, Shuffle | Signs) else len(design.labels)
    return DeviceDraws(design, place) if size * draws > MANY else design


def plain(design: Any) -> bool:
    """Whether any row of a design may change places with any other."""
    if isinstance(design, Shuffle):
        return design.plain
    if isinstance(design, Signs):
        return design.count == design.n
    if not isinstance(design, Relabel):
        return False
    return len(design.groups) == 1 and design.moving == len(design.heads) == len(design.labels)


def vectors_there(member: Any, weights: np.ndarray, counts: np.ndarray | None) -> Any:
    """Return how much of each row is in a sample, from draws made on a device, (b, N).

    Parameters
    ----------
    member : tensor of bool of shape (b, N) or (b, number of copies)
        Which rows, or which copies of rows, are in the sample.
    weights : ndarray of shape (N,)
        Weights of the rows.
    counts : ndarray of shape (N,) or None
        The weights, where they are numbers of copies.
    """
    if counts is not None and member.shape[1] != len(counts):
        of = np.repeat(np.arange(len(counts)), counts)
        out = member.new_zeros((len(member), len(counts))).int()
        return out.index_add_(1, namespace(out).as_tensor(of, device=out.device), member.int())
    if (weights == 1).all():
        return member
    return member * namespace(member).as_tensor(weights, device=member.device)


# ---- Quadratic forms vᵀKv of the pooled points on a device, where K is made and forgotten ----


class DeviceForms(Forms):
    """vᵀKv from bands of K, of which half is computed for each batch of vectors."""

    def __init__(self, kernel: Kernel, Z: Any, weights: np.ndarray, place: Place):
        with np.errstate(all="ignore"):  # an overflow is named when its tile comes
            super().__init__(weights, np.asarray(kernel._diag(Z), dtype=np.float64))
        self.place = place
        self.sources, _ = sources_of([kernel], place.points(Z))
        if place.single:  # errors of a mean are as likely of one sign as of the other
            self.resolution *= place.eps / (2.0**-46 * len(weights) ** 0.5)

    def __call__(self, V: Any, squares: bool = False) -> np.ndarray:
        """Return vᵀKv for each column of V; the first call also finds Kt."""
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


# ---- device pairs ----


SINGLE = 2.0**-21  # part of ‖A‖‖L‖ that rounding may change where values have single precision


class DeviceGathered:
    """Both matrices on a device; sums that differ by less than `resolution` may be equal."""

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
    """Return the matrix A of `contrast` as a tensor."""
    K, parts = _gram(kernel, X, w, unbiased, place)
    diagonal = K.diagonal().double().clone().cpu().numpy()  # K is overwritten below
    _add_shift(K, parts, place)
    scaled = place.wide(parts.scale * w).to(K.dtype)
    K *= scaled[:, None]
    K *= place.wide(w).to(K.dtype)
    K.diagonal().sub_(place.wide(parts.excess(diagonal)).to(K.dtype))
    return K


def centred_on_device(kernel: Kernel, Y: Any, place: Place) -> Any:
    """Return a centred kernel matrix as a tensor; points all the same give 0 exactly."""
    L, parts = _gram(kernel, Y, np.ones(len(Y)), False, place)
    if parts.scale == 0.0:
        return L.zero_()
    return _add_shift(L, parts, place)


def rounding(A: Any, L: Any) -> float:
    """Return how far equal sums of products may be apart."""
    part = ROUNDING if A.element_size() == 8 else SINGLE
    return part * float(A.norm().double() * L.norm().double())


def _gram(
    kernel: Kernel, X: Any, w: np.ndarray, unbiased: bool, place: Place
) -> tuple[Any, Contrast]:
    """Return K as a tensor of our own, and the parts of A."""
    K, weights = place.gram(kernel, X), place.wide(w)
    sums = namespace(K).concatenate([(part * weights).sum(1) for part in K.split(4096)])
    diagonal = K.diagonal().double()
    return K, Contrast.of(sums.cpu().numpy(), diagonal.cpu().numpy(), w, unbiased)


def _add_shift(K: Any, parts: Contrast, place: Place) -> Any:
    shift = place.wide(parts.shift).to(K.dtype)
    K += shift[:, None]
    K += shift
    return K
