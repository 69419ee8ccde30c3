from mercer.kernels.additive import Additive as Additive
from mercer.kernels.algebra import (
    Combination as Combination,
    Exp as Exp,
    Power as Power,
    Product as Product,
    Series as Series,
    Sum as Sum,
    with_median as with_median,
)
from mercer.kernels.base import (
    DEFAULT_BOUNDS as DEFAULT_BOUNDS,
    Kernel as Kernel,
    unproven as unproven,
)
from mercer.kernels.bound import Bound as Bound
from mercer.kernels.categories import Categorical as Categorical, Ordinal as Ordinal
from mercer.kernels.constant import (
    Constant as Constant,
    Precomputed as Precomputed,
    PrecomputedBound as PrecomputedBound,
    White as White,
    has_white as has_white,
)
from mercer.kernels.counted import (
    Counted as Counted,
    Counts as Counts,
    Naming as Naming,
    beside as beside,
)
from mercer.kernels.dot import (
    Cosine as Cosine,
    Dot as Dot,
    Exponential as Exponential,
    Linear as Linear,
    Polynomial as Polynomial,
)
from mercer.kernels.factors import (
    ColumnFactor as ColumnFactor,
    NoProduct as NoProduct,
    Term as Term,
    Terms as Terms,
    are_effects as are_effects,
    factor_diagonal as factor_diagonal,
    factor_values as factor_values,
    groups_of as groups_of,
    terms_of as terms_of,
)
from mercer.kernels.few import gram_of_few as gram_of_few
from mercer.kernels.geometry import Geometry as Geometry, geometry_of as geometry_of
from mercer.kernels.graphs import (
    AttributedPath as AttributedPath,
    Diffusion as Diffusion,
    Graphlet as Graphlet,
    NeighborhoodHash as NeighborhoodHash,
    Propagation as Propagation,
    RandomWalk as RandomWalk,
    RegularizedLaplacian as RegularizedLaplacian,
    ShortestPath as ShortestPath,
    VertexHistogram as VertexHistogram,
    WeisfeilerLehman as WeisfeilerLehman,
    WeisfeilerLehmanOptimalAssignment as WeisfeilerLehmanOptimalAssignment,
)
from mercer.kernels.laplacian import Laplacian as Laplacian, LaplacianBound as LaplacianBound
from mercer.kernels.metric import (
    LARGEST as LARGEST,
    Radial as Radial,
    RadialBound as RadialBound,
    around_mean as around_mean,
    belongs as belongs,
    slope as slope,
)
from mercer.kernels.missing import StreamedMoments as StreamedMoments, WithMissing as WithMissing
from mercer.kernels.names import (
    SHORT_NAMES as SHORT_NAMES,
    as_kernel as as_kernel,
    names_in_words as names_in_words,
    unknown_name as unknown_name,
)
from mercer.kernels.normalized import Normalized as Normalized
from mercer.kernels.numbers import (
    GCD as GCD,
    Coregion as Coregion,
    CosineDifference as CosineDifference,
    ExpProduct as ExpProduct,
    GCDOverLCM as GCDOverLCM,
    Geometric as Geometric,
    Minimum as Minimum,
    MinMaxRatio as MinMaxRatio,
    Scalar as Scalar,
)
from mercer.kernels.parameters import (
    check_diagonal as check_diagonal,
    require_psd as require_psd,
)
from mercer.kernels.periodic import Periodic as Periodic, SpectralMixture as SpectralMixture
from mercer.kernels.radial import (
    RBF as RBF,
    Attraction as Attraction,
    Matern as Matern,
    PowerExponential as PowerExponential,
    RationalQuadratic as RationalQuadratic,
    matern_profile as matern_profile,
    radial_part as radial_part,
)
from mercer.kernels.repaired import Repaired as Repaired
from mercer.kernels.scales import (
    Pairs as Pairs,
    exponent_of as exponent_of,
    median_distance as median_distance,
    select_distance as select_distance,
    spread_rows as spread_rows,
)
from mercer.kernels.set_kernel import SetKernel as SetKernel, averaged as averaged
from mercer.kernels.spectral import (
    METHODS as METHODS,
    Source as Source,
    require_spectral as require_spectral,
    spectral_measure as spectral_measure,
    stationary as stationary,
)
from mercer.kernels.strings import (
    EditDistance as EditDistance,
    GappedKmer as GappedKmer,
    LocalAlignment as LocalAlignment,
    LongestCommonSubstring as LongestCommonSubstring,
    Mismatch as Mismatch,
    Spectrum as Spectrum,
    Subsequence as Subsequence,
    WeightedDegree as WeightedDegree,
)
from mercer.kernels.tables import (
    ColumnKind as ColumnKind,
    auto_kernel as auto_kernel,
    column_kinds as column_kinds,
    counting as counting,
    identifier as identifier,
    kernel_on_columns as kernel_on_columns,
    moments as moments,
    own_kernel as own_kernel,
)
from mercer.kernels.text import BagOfWords as BagOfWords
from mercer.kernels.time_series import GlobalAlignment as GlobalAlignment
from mercer.kernels.transforms import (
    InMetric as InMetric,
    OnColumns as OnColumns,
    ScaledBy as ScaledBy,
    Warped as Warped,
)
from mercer.kernels.user import (
    Counterexample as Counterexample,
    Explicit as Explicit,
    FromFeatures as FromFeatures,
    FromFunction as FromFunction,
    KernelReport as KernelReport,
    Pairwise as Pairwise,
)
from mercer.kernels.validity import check_kernel as check_kernel
from mercer.kernels.zero_mean import ZeroMean as ZeroMean

__all__ = [
    "GCD",
    "RBF",
    "Additive",
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
    "InMetric",
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
    "PowerExponential",
    "Precomputed",
    "Product",
    "Propagation",
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
    "SpectralMixture",
    "Spectrum",
    "Subsequence",
    "Sum",
    "VertexHistogram",
    "Warped",
    "WeightedDegree",
    "WeisfeilerLehman",
    "WeisfeilerLehmanOptimalAssignment",
    "White",
    "WithMissing",
    "ZeroMean",
    "as_kernel",
    "auto_kernel",
    "check_kernel",
    "column_kinds",
]
