"""Where arrays live: NumPy with threads over tiles, or torch on its device."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
