"""Explicit feature maps, as scikit-learn transformers."""

from mercer.features.columns import TableEncoder

__all__ = ["TableEncoder"]
