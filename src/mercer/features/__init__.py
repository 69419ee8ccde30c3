"""Explicit feature maps, as scikit-learn transformers."""

from mercer.features.columns import TableEncoder
from mercer.features.fourier import RandomFourierFeatures
from mercer.features.nystroem import Nystroem
from mercer.features.prototypes import Prototypes
from mercer.features.sketch import TensorSketch
from mercer.features.sparse_counts import SparseCounts

__all__ = [
    "Nystroem",
    "Prototypes",
    "RandomFourierFeatures",
    "SparseCounts",
    "TableEncoder",
    "TensorSketch",
]
