"""The protocol of an engine, and the choice of one from the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains import is_torch
from mercer.errors import InvalidInput
from mercer.memory import named_when_full, require_gram
from mercer.settings import get_config

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
        from mercer.engines import tiles

        X, Y = self.asarray(X), None if Y is None else self.asarray(Y)
        require_gram(kernel, X, Y)
        return tiles.gram(self.bound(kernel, X, Y))

    def matmul(self, kernel: Any, X: Any, Y: Any, V: Any) -> Any:
        """Return K(X, Y) V without storing K."""
        from mercer.engines import tiles

        return tiles.matmul(self.bound(kernel, X, Y), V)

    def diag(self, kernel: Any, X: Any) -> Any:
        """Return k(xᵢ, xᵢ)."""
        with named_when_full(kernel, FEWER):
            return kernel._diag(self.asarray(X))


def pick(*collections: Any) -> Engine:
    """Return the engine for these collections, following ``mercer.config(engine=...)``."""
    wanted = get_config().engine
    tensors = any(is_torch(X) for X in collections)
    if wanted == "numpy" and tensors:
        raise InvalidInput(
            "config(engine='numpy'): the data are torch tensors; use engine='auto', or "
            "give X.cpu().numpy()."
        )
    if wanted == "torch" or tensors:
        from mercer.engines.device import TorchEngine

        return TorchEngine()
    return NumpyEngine()


# ---- The NumPy engine: arrays in main memory, threads over tiles ----


class NumpyEngine(Engine):
    """Arrays in main memory; tiles are shared out to threads by `mercer.engines.tiles`."""

    name = "numpy"
