"""Functions of two points: positive definite kernels and their algebra."""

from mercer.kernels.algebra import Exp, Power, Product, Series, Sum
from mercer.kernels.base import Kernel
from mercer.kernels.categories import Categorical, Ordinal
from mercer.kernels.constant import Constant, White
from mercer.kernels.coregion import Coregion
from mercer.kernels.counted import Counted, Counts
from mercer.kernels.dot import Cosine, Dot, Exponential, Linear, Polynomial
from mercer.kernels.graphs import (
    AttributedPath,
    Diffusion,
    Graphlet,
    NeighborhoodHash,
    RandomWalk,
    RegularizedLaplacian,
    ShortestPath,
    VertexHistogram,
    WeisfeilerLehman,
)
from mercer.kernels.laplacian import Laplacian
from mercer.kernels.metric import Radial
from mercer.kernels.missing import WithMissing
from mercer.kernels.names import as_kernel
from mercer.kernels.normalized import Normalized
from mercer.kernels.numbers import (
    GCD,
    CosineDifference,
    ExpProduct,
    GCDOverLCM,
    Geometric,
    Minimum,
    MinMaxRatio,
    Scalar,
)
from mercer.kernels.periodic import Periodic
from mercer.kernels.precomputed import Precomputed
from mercer.kernels.radial import RBF, Matern, RationalQuadratic
from mercer.kernels.repaired import Repaired
from mercer.kernels.series import GlobalAlignment
from mercer.kernels.set_kernel import SetKernel
from mercer.kernels.strings import (
    EditDistance,
    GappedKmer,
    LocalAlignment,
    LongestCommonSubstring,
    Mismatch,
    Spectrum,
    Subsequence,
    WeightedDegree,
)
from mercer.kernels.tables import auto_kernel, column_kinds
from mercer.kernels.text import BagOfWords
from mercer.kernels.transforms import OnColumns, ScaledBy, Warped
from mercer.kernels.user import (
    Counterexample,
    Explicit,
    FromFeatures,
    FromFunction,
    KernelReport,
    Pairwise,
)
from mercer.kernels.validity import check_kernel

__all__ = [
    "GCD",
    "RBF",
    "AttributedPath",
    "BagOfWords",
    "Categorical",
    "Constant",
    "Coregion",
    "Cosine",
    "CosineDifference",
    "Counted",
    "Counterexample",
    "Counts",
    "Diffusion",
    "Dot",
    "EditDistance",
    "Exp",
    "ExpProduct",
    "Explicit",
    "Exponential",
    "FromFeatures",
    "FromFunction",
    "GCDOverLCM",
    "GappedKmer",
    "Geometric",
    "GlobalAlignment",
    "Graphlet",
    "Kernel",
    "KernelReport",
    "Laplacian",
    "Linear",
    "LocalAlignment",
    "LongestCommonSubstring",
    "Matern",
    "MinMaxRatio",
    "Minimum",
    "Mismatch",
    "NeighborhoodHash",
    "Normalized",
    "OnColumns",
    "Ordinal",
    "Pairwise",
    "Periodic",
    "Polynomial",
    "Power",
    "Precomputed",
    "Product",
    "Radial",
    "RandomWalk",
    "RationalQuadratic",
    "RegularizedLaplacian",
    "Repaired",
    "Scalar",
    "ScaledBy",
    "Series",
    "SetKernel",
    "ShortestPath",
    "Spectrum",
    "Subsequence",
    "Sum",
    "VertexHistogram",
    "Warped",
    "WeightedDegree",
    "WeisfeilerLehman",
    "White",
    "WithMissing",
    "as_kernel",
    "auto_kernel",
    "check_kernel",
    "column_kinds",
]
