"""Where arrays live: NumPy with threads over tiles, or torch on its device."""

from mercer.engines.base import Engine, namespace, pick
from mercer.engines.numpy import NumpyEngine
from mercer.engines.torch import TorchEngine

__all__ = ["Engine", "NumpyEngine", "TorchEngine", "namespace", "pick"]
