"""Where the matrices of a test are computed: in NumPy's memory, or on a device of torch's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.domains import GramRows, Vectors, is_torch
from mercer.engines import namespace
from mercer.engines.device import chosen_device, free_on, named_when_full
from mercer.errors import InvalidInput
from mercer.settings import get_config

__all__ = ["Place", "place_of", "with_first"]

moved = named_when_full("points, draws or features of a test", "Use fewer rows, or a smaller rank")


@dataclass(frozen=True)
class Place:
    """A device, and the precision of kernel values on it.

    Points, labels and draws are looked at by NumPy first, as everywhere; what is n × n is made on
    the device and stays there.

    Parameters
    ----------
    device : str
        As torch calls it.
    single : bool
        Whether kernel values are float32, as the data are; sums are float64 either way.
    """

    device: str
    single: bool

    @property
    def dtype(self) -> Any:
        """The dtype of kernel values."""
        import torch

        return torch.float32 if self.single else torch.float64

    @property
    def eps(self) -> float:
        """The rounding of kernel values."""
        return float(np.finfo(np.float32 if self.single else np.float64).eps)

    @property
    def remote(self) -> bool:
        """Whether the device has memory of its own."""
        return not self.device.startswith("cpu")

    def memory(self) -> int:
        """Return the bytes that may be taken: of a GPU what is free, else the memory budget."""
        return free_on(self.device)

    def takes(self, kernel: Any, Z: Any) -> bool:
        """Whether kernel values of these points can be computed here: they are arrays."""
        dense = isinstance(Z, np.ndarray) and Z.ndim == 2
        return dense and isinstance(kernel.domain, Vectors | GramRows)

    def points(self, Z: Any) -> Any:
        """Return points, or a Gram matrix, in the precision of kernel values."""
        return self.tensor(Z).to(self.dtype)

    @moved
    def tensor(self, A: Any) -> Any:
        """Return an array on the device, its dtype as it is."""
        import torch

        if is_torch(A):
            return A.to(self.device)
        A = A if A.flags.writeable and min(A.strides, default=0) >= 0 else A.copy()
        return torch.as_tensor(A, device=self.device)

    @moved
    def wide(self, A: Any) -> Any:
        """Return an array on the device in float64."""
        return self.tensor(A).double()

    def vectors(self, V: Any) -> Any:
        """Return label vectors, a column each, in the precision of kernel values.

        Parameters
        ----------
        V : ndarray or tensor of shape (n, b)
            The vectors; rows of the transpose are contiguous, and small numbers travel as such.
        """
        return self.tensor(V.T).to(self.dtype).T


def place_of(*collections: Any, owner: str) -> Place | None:
    """Return where matrices of these collections are computed; None for NumPy's memory.

    That is the device of tensors, or with ``config(engine="torch")`` the device chosen there. In
    single precision where all collections are.
    """
    tensors = [X for X in collections if is_torch(X)]
    engine = get_config().engine
    if engine == "numpy" or not (tensors or engine == "torch"):
        return None
    devices = {str(X.device) for X in tensors}
    if len(devices) > 1:
        raise InvalidInput(
            f"{owner}: the samples are on {' and '.join(sorted(devices))}; move them to one device "
            "with .to(...)."
        )
    single = all(str(getattr(X, "dtype", "")).endswith(("float32", "float16")) for X in collections)
    return Place(devices.pop() if devices else chosen_device(), single)


def with_first(first: np.ndarray, rows: Any) -> Any:
    """Return rows with one more before them, as an array or where the rows are."""
    if isinstance(rows, np.ndarray):
        return np.concatenate([first[None], rows])
    head = namespace(rows).as_tensor(np.array(first), device=rows.device)
    return namespace(rows).cat([head[None].to(rows.dtype), rows])
