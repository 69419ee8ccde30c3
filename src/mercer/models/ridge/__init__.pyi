from mercer.models.ridge.base import Ridge as Ridge
from mercer.models.ridge.cg import (
    RidgeGram as RidgeGram,
    beside_gram as beside_gram,
    storage_for as storage_for,
)
from mercer.models.ridge.classifier import KernelRidgeClassifier as KernelRidgeClassifier
from mercer.models.ridge.exact import (
    PROBED as PROBED,
    SPARSE as SPARSE,
    LeastSquares as LeastSquares,
    is_sparse as is_sparse,
)
from mercer.models.ridge.falkon import in_own_units as in_own_units
from mercer.models.ridge.left_out import as_groups as as_groups
from mercer.models.ridge.regressor import KernelRidge as KernelRidge
from mercer.models.ridge.spectrum import DualSpectrum as DualSpectrum
from mercer.models.ridge.structured import StructuredKernelRidge as StructuredKernelRidge
