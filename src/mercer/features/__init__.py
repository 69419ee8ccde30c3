"""Explicit feature maps, as scikit-learn transformers."""

from mercer.features.columns import TableEncoder
from mercer.features.prototypes import Prototypes

__all__ = ["Prototypes", "TableEncoder"]
