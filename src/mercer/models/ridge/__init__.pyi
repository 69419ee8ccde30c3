from mercer.models.ridge.base import Ridge as Ridge
from mercer.models.ridge.cg import RidgeGram as RidgeGram
from mercer.models.ridge.classifier import KernelRidgeClassifier as KernelRidgeClassifier
from mercer.models.ridge.exact import LeastSquares as LeastSquares
from mercer.models.ridge.falkon import given_centers as given_centers, in_own_units as in_own_units
from mercer.models.ridge.left_out import as_groups as as_groups
from mercer.models.ridge.regressor import KernelRidge as KernelRidge
from mercer.models.ridge.spectrum import DualSpectrum as DualSpectrum
from mercer.models.ridge.structured import StructuredKernelRidge as StructuredKernelRidge
