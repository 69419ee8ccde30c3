"""Where arrays live: the engines of NumPy and of torch, and the choice of one from the data."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import is_torch, to_host
from mercer.engines import tiles
from mercer.errors import InvalidInput
from mercer.memory import named_when_full, require_gram
from mercer.settings import config, get_config

FEWER = "Use fewer points, free tensors"


class Engine:
    """Computes with a kernel where the arrays live.

    A kernel bound to its collections (``kernel._bind(X, Y)``) knows how to evaluate one tile; the
    engine owns allocation, tile sizes and threads through `mercer.engines.tiles`.
    """

    name = "engine"

    def asarray(self, X: Any) -> Any:
        """Bring a canonical collection to where this engine computes."""
        return X

    def to_numpy(self, A: Any) -> np.ndarray:
        """Bring a result back to NumPy."""
        return np.asarray(A)

    def bound(self, kernel: Any, X: Any, Y: Any = None) -> Any:
        """Return the kernel bound to its collections, which are copied where this computes."""
        with named_when_full(kernel, FEWER):
            return kernel._bind(self.asarray(X), None if Y is None else self.asarray(Y))

    def gram(self, kernel: Any, X: Any, Y: Any = None) -> Any:
        """Return the matrix k(xᵢ, yⱼ), all of it."""
        X, Y = self.asarray(X), None if Y is None else self.asarray(Y)
        require_gram(kernel, X, Y)
        return tiles.gram(self.bound(kernel, X, Y))

    def matmul(self, kernel: Any, X: Any, Y: Any, V: Any) -> Any:
        """Return K(X, Y) V without storing K."""
        return tiles.matmul(self.bound(kernel, X, Y), V)

    def diag(self, kernel: Any, X: Any) -> Any:
        """Return k(xᵢ, xᵢ)."""
        with named_when_full(kernel, FEWER):
            return kernel._diag(self.asarray(X))


def pick(*collections: Any) -> Engine:
    """Return the engine for these collections, following ``mercer.config(engine=...)``."""
    wanted = get_config().engine
    tensors = any(map(is_torch, collections))
    if wanted == "numpy" and tensors:
        raise InvalidInput(
            "config(engine='numpy'): the data are torch tensors; use engine='auto', or "
            "give X.cpu().numpy()."
        )
    if wanted == "torch" or tensors:
        return TorchEngine()
    return NumpyEngine()


# ---- The NumPy engine: arrays in main memory, threads over tiles ----


class NumpyEngine(Engine):
    """Arrays in main memory; tiles are shared out to threads by `mercer.engines.tiles`."""

    name = "numpy"


# ---- The torch engine: the same formulas on the device of the tensors ----


def chosen_device() -> str:
    """Return the device of ``config(device=...)``: by default the first GPU, or else the CPU."""
    try:
        import torch
    except ImportError as error:
        raise InvalidInput(
            "config(engine='torch'): torch is not installed; pip install 'mercer[torch]'."
        ) from error
    wanted = get_config().device
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted != "cpu":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(wanted.partition(":")[2] or 0) >= count:
            raise InvalidInput(
                f"config(device={wanted!r}): torch {torch.__version__} sees {count} CUDA devices "
                "here; use device='cpu', or install torch built for CUDA and a driver for it."
            )
    return wanted


def device_of(X: Any) -> str | None:
    """Return the device that the engine for X computes on, None for NumPy's memory."""
    if is_torch(X):
        return str(X.device)
    if get_config().engine == "torch" and (isinstance(X, np.ndarray) or hasattr(X, "toarray")):
        return chosen_device()
    return None


def to_device(A: Any, device: Any) -> Any:
    """Return an array or a tensor on a device, its dtype as it is."""
    import torch

    if is_torch(A):
        return A.to(device)
    # torch warns on read-only memory, and knows no negative strides
    A = A if A.flags.writeable and min(A.strides, default=0) >= 0 else A.copy()
    return torch.as_tensor(A, device=device)


class TorchEngine(Engine):
    """Tensors on one device; NumPy data go where ``config(device=...)`` says."""

    name = "torch"

    def asarray(self, X: Any) -> Any:
        """Return X as a tensor (tensors are kept on their device)."""
        if is_torch(X) or not isinstance(X, np.ndarray | sp.sparray | sp.spmatrix):
            return X
        dense: Any = X.toarray() if sp.issparse(X) else X  # type: ignore[union-attr]
        if dense.dtype.kind not in "fiub":
            return X
        with named_when_full(f"{len(dense)} rows", FEWER):
            return to_device(dense, chosen_device())

    def to_numpy(self, A: Any) -> np.ndarray:
        """Return a tensor as an array in main memory."""
        return np.asarray(to_host(A))


# ---- Computing where the data are ----


def computing_on(device: Any) -> AbstractContextManager:
    """Return options under which everything is computed on a device of torch; None changes nothing.

    ``config(engine="numpy")`` is a wish to stay in main memory, and stronger.

    Parameters
    ----------
    device : torch.device or None
        Where.
    """
    known = device is not None and device.type in ("cpu", "cuda")
    if not known or get_config().engine == "numpy":
        return nullcontext()
    return config(engine="torch", device=str(device))


def where_is(X: Any) -> AbstractContextManager:
    """Return options under which X is worked on: for a tensor, those of its device.

    The rows themselves, checked and in float64, may then be arrays: n × d numbers are little
    beside the n × n that are made of them on the device.
    """
    return computing_on(X.device if is_torch(X) else None)
