"""Explicit feature maps, as scikit-learn transformers."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
