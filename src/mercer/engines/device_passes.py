"""Passes over rows that lie on a device: chunks of rows, fused products or tiles, float64 sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.engines import blocks
from mercer.engines.device_memory import free_memory, run_within_memory
from mercer.engines.passes import RowPass
from mercer.engines.precision import full_precision
from mercer.engines.torch import TorchEngine

__all__ = ["DevicePass", "pull_on_device"]

ROWS = 2**22  # rows of a chunk at most
LEAST = 1024  # and at least, before memory is called too small


class DevicePass(RowPass):
    """K of n rows on a device and m centres, known by passes over its rows.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X, Z : canonical collections
        Rows and centres; arrays are brought to the device, X chunk by chunk.
    y : array or tensor of shape (n, t), optional
        Targets.
    w : array or tensor of shape (n,), optional
        Weights.
    """

    def __init__(self, kernel: Any, X: Any, Z: Any, y: Any = None, w: Any = None):
        self.kernel, self.engine = kernel, TorchEngine()
        self.X, self.y, self.w = X, y, w
        self.Z = self.engine.asarray(Z)
        self.n, self.m = kernel.domain.size(X), kernel.domain.size(Z)
        self.single = all(str(A.dtype).endswith("float32") for A in (X, Z))

    def pull(self, V: np.ndarray | None, step: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return Σ over all rows of Kᵀ G, shape (m, width), and the sums, in float64 arrays."""
        import torch

        where: dict[str, Any] = {"dtype": torch.float64, "device": self.Z.device}
        out = torch.zeros(self.m, step.width, **where)
        sums = np.zeros(step.n_sums)
        columns = None if V is None else torch.as_tensor(np.ascontiguousarray(V), **where)

        def work(rows: slice) -> None:
            nonlocal sums
            G, share = self._chunk(rows, columns, step)
            share = self.engine.to_numpy(share)  # all is done, or nothing: what follows needs none
            if G is not None:
                out.add_(G)
            sums = sums + share

        run_within_memory(work, self.n, self._rows(step.width), LEAST, repr(self.kernel), self.Z)
        return self.engine.to_numpy(out), sums

    def _rows(self, width: int) -> int:
        """Rows of a chunk: with operands, values and their copies a quarter of what is free."""
        columns = self.Z.shape[1] if self.Z.ndim == 2 else 1
        row = 8 * (12 * columns + 16 * max(1, width))
        return int(max(LEAST, min(ROWS, free_memory(self.Z) // (4 * row))))

    def _part(self, A: Any, rows: slice) -> Any:
        if A is None:
            return None
        part = A[rows]
        return (
            self.engine.asarray(np.ascontiguousarray(part)) if isinstance(A, np.ndarray) else part
        )

    def _chunk(self, rows: slice, V: Any, step: Any) -> tuple[Any, Any]:
        domain = self.kernel.domain
        X = self.engine.asarray(domain.take(self.X, rows))
        X, Z = domain.match(X, self.Z)
        bound = self.kernel._bind(X, Z)
        return _pull(bound, V, self._part(self.y, rows), self._part(self.w, rows), step)


def pull_on_device(bound: Any, V: Any, y: Any, w: Any, step: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return Kᵀ G and the sums over the rows of one bound kernel of tensors, as float64 arrays.

    Parameters
    ----------
    bound : Bound
        The kernel on some rows and the centres.
    V, y, w, step
        As of `RowPass.pull`.
    """
    engine = TorchEngine()
    V = None if V is None else bound.asarray(V).double()
    G, sums = _pull(bound, V, y, w, step)
    if G is None:
        G = bound.zeros((bound.shape[1], step.width), wide=True)
    return engine.to_numpy(G), np.broadcast_to(engine.to_numpy(sums), (step.n_sums,))


def _pull(bound: Any, V: Any, y: Any, w: Any, step: Any) -> tuple[Any, Any]:
    """Return Kᵀ G, None where the step makes none, and the sums, as tensors."""
    import torch

    fused = bound.fused()
    if fused is None:
        with full_precision():
            return _by_tiles(bound, V, y, w, step)
    F = None if V is None else _finite(fused.times(V), bound)
    G, share = step(F, y, w, torch)
    return None if G is None else _finite(fused.pull(G), bound), share


def _by_tiles(bound: Any, V: Any, y: Any, w: Any, step: Any) -> tuple[Any, Any]:
    import torch

    n, m = bound.shape
    out: Any = None
    sums: Any = torch.zeros(step.n_sums, dtype=torch.float64, device=bound._like.device)
    allowed = free_memory(bound._like) // (2 * 8 * bound.workspace)
    height = int(max(1, min(blocks.DEVICE_ENTRIES, allowed) // max(1, m)))
    for rows in blocks._cuts(n, height):
        # Products of float32 values are float64 too: in float32 KᵀK might not be semidefinite.
        T = blocks._tile(bound, rows, slice(0, m)).double()
        F = None if V is None else T @ V
        G, share = step(F, None if y is None else y[rows], None if w is None else w[rows], torch)
        sums = sums + share.to(sums.device)
        if G is not None:
            part = T.T @ G
            out = part if out is None else out + part
    return out, sums


def _finite(A: Any, bound: Any) -> Any:
    if not bool(A.isfinite().all()):
        blocks.refuse_overflow(bound.name)
    return A
