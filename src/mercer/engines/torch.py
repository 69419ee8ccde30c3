"""The torch engine: the same formulas on the device of the tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains.vectors import is_torch, to_host
from mercer.engines.base import FEWER, Engine
from mercer.engines.device_guard import named_when_full
from mercer.errors import InvalidInput
from mercer.settings import get_config

__all__ = ["TorchEngine", "chosen_device"]


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


class TorchEngine(Engine):
    """Tensors on one device; NumPy data go where ``config(device=...)`` says."""

    name = "torch"

    def asarray(self, X: Any) -> Any:
        """Return X as a tensor (tensors are kept on their device)."""
        if is_torch(X) or not isinstance(X, np.ndarray | sp.sparray | sp.spmatrix):
            return X
        try:
            import torch
        except ImportError as error:
            raise InvalidInput(
                "config(engine='torch'): torch is not installed; pip install 'mercer[torch]'."
            ) from error
        dense: Any = X.toarray() if sp.issparse(X) else X  # type: ignore[union-attr]
        if dense.dtype.kind not in "fiub":
            return X
        dense = dense if dense.flags.writeable else dense.copy()  # torch warns on read-only memory
        with named_when_full(f"{len(dense)} rows", FEWER):
            return torch.as_tensor(dense, device=chosen_device())

    def to_numpy(self, A: Any) -> np.ndarray:
        """Return a tensor as an array in main memory."""
        return np.asarray(to_host(A))
