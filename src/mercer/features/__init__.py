"""Explicit feature maps, as scikit-learn transformers."""

from mercer.features.counts import SparseCounts
from mercer.features.fourier import RandomFourierFeatures
from mercer.features.nystroem import Nystroem
from mercer.features.prototypes import Prototypes
from mercer.features.sketch import TensorSketch
from mercer.features.tables import TableEncoder

__all__ = [
    "Nystroem",
    "Prototypes",
    "RandomFourierFeatures",
    "SparseCounts",
    "TableEncoder",
    "TensorSketch",
]
