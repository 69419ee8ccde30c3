"""Passes over rows that lie on a device: chunks of rows, fused products or tiles, float64 sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import is_torch
from mercer.engines import tiles as blocks
from mercer.engines.base import TorchEngine
from mercer.engines.device import full_precision
from mercer.engines.passes.base import RowPass
from mercer.memory import free_memory, run_within_memory

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

        run_within_memory(work, self.n, self._rows(step.width), LEAST, str(self.kernel), self.Z)
        return self.engine.to_numpy(out), sums

    def _rows(self, width: int) -> int:
        """Rows of a chunk: with operands, values and their copies a quarter of what is free."""
        columns = self.Z.shape[1] if self.Z.ndim == 2 else 1
        row = 8 * (12 * columns + 16 * max(1, width))
        return int(max(LEAST, min(ROWS, free_memory(self.Z) // (4 * row))))

    def _part(self, A: Any, rows: slice) -> Any:
        """Return some rows, where the centres are."""
        import torch

        if A is None:
            return None
        part = A[rows]
        if not is_torch(part):  # an array of its own, that torch may write to
            part = torch.from_numpy(part.toarray() if sp.issparse(part) else np.array(part))
        return part.to(self.Z.device)

    def _chunk(self, rows: slice, V: Any, step: Any) -> tuple[Any, Any]:
        domain = self.kernel.domain
        X, Z = domain.match(self._part(self.X, rows), self.Z)
        bound = self.kernel._bind(X, Z)
        return _pull(bound, V, self._part(self.y, rows), self._part(self.w, rows), step)


def values_on_device(kernel: Any, X: Any, Z: Any, V: Any) -> np.ndarray:
    """Return k(X, Z) V at rows on a device, as a float64 array in main memory, chunk by chunk.

    Kernel values have the precision of X, products with them that of V.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : tensor of shape (n, d)
        Rows.
    Z : array or tensor of shape (m, d)
        Points of the function; brought to the device and the precision of X.
    V : array of shape (m,) or (m, t)
        Coefficients.
    """
    import torch

    engine = TorchEngine()
    Z = torch.as_tensor(Z, dtype=X.dtype, device=X.device)
    columns = torch.as_tensor(np.asarray(V, dtype=np.float64), device=X.device)
    columns = columns[:, None] if columns.ndim == 1 else columns
    out = np.empty((len(X), columns.shape[1]))

    def work(rows: slice) -> None:
        bound = kernel._bind(X[rows], Z)
        fused = bound.fused()
        if fused is not None:
            values = _finite(fused.times(columns), bound)
        else:
            tiles = _tiles(bound)
            values = torch.cat(
                [blocks.make_tile(bound, *tile).double() @ columns for tile in tiles]
            )
        out[rows] = engine.to_numpy(values)

    row = 8 * (12 * Z.shape[1] + 16 * columns.shape[1])
    step = int(max(LEAST, min(ROWS, free_memory(X) // (4 * row))))
    with full_precision():
        run_within_memory(work, len(X), step, LEAST, str(kernel), X)
    return out[:, 0] if np.ndim(V) == 1 else out


def pull_on_device(bound: Any, V: Any, y: Any, w: Any, step: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return Kᵀ G and the sums over the rows of one bound kernel of tensors, as float64 arrays."""
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


def _tiles(bound: Any) -> list[tuple[slice, slice]]:
    """Return bands of whole rows that fit the memory of the device."""
    n, m = bound.shape
    allowed = free_memory(bound._like) // (2 * 8 * bound.workspace)
    height = int(max(1, min(blocks.DEVICE_ENTRIES, allowed) // max(1, m)))
    return [(rows, slice(0, m)) for rows in blocks.cuts(n, height)]


def _by_tiles(bound: Any, V: Any, y: Any, w: Any, step: Any) -> tuple[Any, Any]:
    import torch

    out: Any = None
    sums: Any = torch.zeros(step.n_sums, dtype=torch.float64, device=bound._like.device)
    for rows, columns in _tiles(bound):
        # Products of float32 values are float64 too: in float32 KᵀK might not be semidefinite.
        T = blocks.make_tile(bound, rows, columns).double()
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
