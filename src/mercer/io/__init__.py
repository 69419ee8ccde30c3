"""Model files: one safe, whole, checked file for a fitted model; no pickle, no code."""

from mercer.io.modelfile import load, save
from mercer.io.predictions import write_predictions
from mercer.io.registry import register

__all__ = ["load", "register", "save", "write_predictions"]
