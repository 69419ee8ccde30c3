"""The public names of mercer, as editors and type checkers see them."""

from mercer.features import (
    TableEncoder,
)
from mercer.io import (
    load,
    save,
)
from mercer.kernels import (
    GCD,
    RBF,
    Constant,
    Cosine,
    CosineDifference,
    Exponential,
    ExpProduct,
    FromFeatures,
    FromFunction,
    GCDOverLCM,
    Geometric,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Minimum,
    MinMaxRatio,
    Periodic,
    Polynomial,
    Precomputed,
    RationalQuadratic,
    White,
    check_kernel,
)
from mercer.models import (
    SVC,
    KernelPerceptron,
    KernelRidge,
    KernelRidgeClassifier,
    TableClassifier,
    TableRegressor,
)
from mercer.rkhs import (
    Function,
    center,
    distance,
    distance_to_set,
    mean_embedding,
)
from mercer.selection import (
    tune,
)
from mercer.settings import (
    config,
    get_config,
)

__version__: str
__all__ = [
    "GCD",
    "RBF",
    "SVC",
    "Constant",
    "Cosine",
    "CosineDifference",
    "ExpProduct",
    "Exponential",
    "FromFeatures",
    "FromFunction",
    "Function",
    "GCDOverLCM",
    "Geometric",
    "Kernel",
    "KernelPerceptron",
    "KernelRidge",
    "KernelRidgeClassifier",
    "Laplacian",
    "Linear",
    "Matern",
    "MinMaxRatio",
    "Minimum",
    "Periodic",
    "Polynomial",
    "Precomputed",
    "RationalQuadratic",
    "TableClassifier",
    "TableEncoder",
    "TableRegressor",
    "White",
    "center",
    "check_kernel",
    "config",
    "distance",
    "distance_to_set",
    "get_config",
    "load",
    "mean_embedding",
    "save",
    "tune",
]
