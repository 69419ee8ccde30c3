"""Draws made on a device, where those of a host would take longer than what is done with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.statistics.permutation import Relabel, Shuffle, Signs
from mercer.statistics.place import Place

__all__ = ["DeviceDraws", "drawn_there", "vectors_there"]

MANY = 2**22  # labels in all draws up to which a host draws them, the same for all engines
CHUNK = 256  # draws of one seed; fixed, so that batches do not change the draws


class DeviceDraws:
    """Draws of a design in which any row may change places with any other.

    A random order of the rows is that of independent random numbers. These have 63 bits: that two
    of some thousand agree, and the order prefers one, is an event of probability 1e-12. A generator
    on the device takes its seeds from that of the user, so a seed fixes the draws, on one kind of
    device; they are others than NumPy's from the same seed, and as valid.

    Parameters
    ----------
    design : Relabel, Shuffle or Signs
        Without blocks and strata.
    place : Place
        The device.
    """

    def __init__(self, design: Any, place: Place):
        self.design, self.place = design, place

    def draw(self, rng: np.random.Generator, size: int) -> Any:
        """Return `size` draws, one a row, as a tensor."""
        import torch

        generator = torch.Generator(device=self.place.device)
        parts = []
        for start in range(0, size, CHUNK):
            generator.manual_seed(int(rng.integers(2**63)))
            parts.append(self._chunk(min(CHUNK, size - start), generator))
        return torch.cat(parts)

    def _chunk(self, size: int, generator: Any) -> Any:
        import torch

        design, device = self.design, self.place.device
        if isinstance(design, Signs):
            signs = torch.empty((size, design.n), dtype=torch.int8, device=device)
            return signs.random_(0, 2, generator=generator).mul_(2).sub_(1)
        n = design.n if isinstance(design, Shuffle) else len(design.labels)
        keys = torch.empty((size, n), dtype=torch.int64, device=device)
        order = keys.random_(generator=generator).argsort(dim=1)
        if isinstance(design, Shuffle):
            return order
        return self.place.tensor(np.asarray(design.labels))[order]


def drawn_there(design: Any, place: Place | None, draws: int) -> Any:
    """Return the design, or the same made on a device where that pays.

    Parameters
    ----------
    design : Design
        What is drawn.
    place : Place or None
        Where matrices are.
    draws : int
        How many.
    """
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
    import torch

    if counts is not None and member.shape[1] != len(counts):
        of = np.repeat(np.arange(len(counts)), counts)
        out = torch.zeros((len(member), len(counts)), dtype=torch.int32, device=member.device)
        at = torch.as_tensor(of, device=member.device)
        return out.index_add_(1, at, member.to(out.dtype))
    if (weights == 1).all():
        return member
    return member * torch.as_tensor(weights, device=member.device)
