"""Computing where the data are: the torch engine on the device of a tensor that was given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import is_torch, to_host
from mercer.engines.base import FEWER, Engine
from mercer.errors import InvalidInput
from mercer.memory import named_when_full
from mercer.settings import config, get_config

# ---- The torch engine: the same formulas on the device of the tensors ----


def chosen_device() -> str:
    """Return the device of ``config(device=...)``: by default the first GPU, or else the CPU."""
    import torch

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
        try:
            import torch  # noqa: F401
        except ImportError as error:
            raise InvalidInput(
                "config(engine='torch'): torch is not installed; pip install 'mercer[torch]'."
            ) from error
        dense: Any = X.toarray() if sp.issparse(X) else X  # type: ignore[union-attr]
        if dense.dtype.kind not in "fiub":
            return X
        with named_when_full(f"{len(dense)} rows", FEWER):
            return to_device(dense, chosen_device())

    def to_numpy(self, A: Any) -> np.ndarray:
        """Return a tensor as an array in main memory."""
        return np.asarray(to_host(A))


# ---- placement ----


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


# ---- Products of float32 tensors in the precision of float32, whatever a user allowed torch ----


@contextmanager
def full_precision() -> Iterator[None]:
    """Let products of float32 matrices on a GPU be those of float32: TF32 keeps ten bits."""
    import torch

    matmul = torch.backends.cuda.matmul
    # torch 2.9 brought a switch of its own to each backend, and refuses to mix it with the old.
    name = "fp32_precision" if hasattr(matmul, "fp32_precision") else "allow_tf32"
    exact = "ieee" if name == "fp32_precision" else False
    before = getattr(matmul, name)
    if before == exact:
        yield
        return
    setattr(matmul, name, exact)
    try:
        yield
    finally:
        setattr(matmul, name, before)
