"""The NumPy engine: arrays in main memory, threads over tiles."""

from __future__ import annotations

from mercer.engines.base import Engine

__all__ = ["NumpyEngine"]


class NumpyEngine(Engine):
    """Arrays in main memory; tiles are shared out to threads by `mercer.engines.blocks`."""

    name = "numpy"
