"""Where arrays live: NumPy with threads over tiles, or torch on its device."""

from mercer.engines.base import Engine, NumpyEngine, namespace, pick
from mercer.engines.device.place import TorchEngine

__all__ = ["Engine", "NumpyEngine", "TorchEngine", "namespace", "pick"]
