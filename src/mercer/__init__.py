"""Kernel methods: any positive definite kernel, any data, any method, with a certificate."""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

# Folder -> its public names, loaded on first use so that `import mercer` stays light; editors and
# type checkers read the same names in __init__.pyi.
_PUBLIC = {
    "mercer.domains": [
        "Graph",
        "RowBlocks",
    ],
    "mercer.features": [
        "Nystroem",
        "Prototypes",
        "RandomFourierFeatures",
        "TableEncoder",
        "TensorSketch",
    ],
    "mercer.io": [
        "load",
        "save",
        "write_predictions",
    ],
    "mercer.kernels": [
        "AttributedPath",
        "GappedKmer",
        "Mismatch",
        "Spectrum",
        "WeightedDegree",
        "ShortestPath",
        "RandomWalk",
        "Graphlet",
        "GCD",
        "RBF",
        "Categorical",
        "BagOfWords",
        "Diffusion",
        "RegularizedLaplacian",
        "Constant",
        "Coregion",
        "Cosine",
        "CosineDifference",
        "EditDistance",
        "ExpProduct",
        "Exponential",
        "FromFeatures",
        "FromFunction",
        "GCDOverLCM",
        "Geometric",
        "GlobalAlignment",
        "Kernel",
        "Laplacian",
        "Linear",
        "LocalAlignment",
        "LongestCommonSubstring",
        "Matern",
        "Minimum",
        "MinMaxRatio",
        "NeighborhoodHash",
        "Ordinal",
        "Periodic",
        "Polynomial",
        "Precomputed",
        "RationalQuadratic",
        "SetKernel",
        "Subsequence",
        "VertexHistogram",
        "WeisfeilerLehman",
        "White",
        "auto_kernel",
        "check_kernel",
    ],
    "mercer.models": [
        "L1VM",
        "PCA",
        "SVC",
        "SVR",
        "DPMeans",
        "GaussianProcessClassifier",
        "GaussianProcessRegressor",
        "KDEClassifier",
        "KernelDensity",
        "KernelERM",
        "KernelHuberRegressor",
        "KernelKMeans",
        "KernelLogisticRegression",
        "KernelMachine",
        "KernelNeighborsClassifier",
        "KernelNeighborsRegressor",
        "KernelPCA",
        "KernelPerceptron",
        "KernelQuantileRegressor",
        "KernelRidge",
        "KernelRidgeClassifier",
        "NadarayaWatson",
        "NadarayaWatsonClassifier",
        "NearestBarycentre",
        "L1VMClassifier",
        "L1VMRegressor",
        "NuSVC",
        "NuSVR",
        "OneClassSVM",
        "Plan",
        "SparseGaussianProcessRegressor",
        "SpectralClustering",
        "StructuredKernelRidge",
        "TableClassifier",
        "TableRegressor",
        "for_output",
        "penalty_from_k",
        "stack_outputs",
    ],
    "mercer.rkhs": [
        "Function",
        "center",
        "distance",
        "distance_to_set",
        "mean_embedding",
    ],
    "mercer.selection": [
        "aic",
        "bayes_rule",
        "bic",
        "evidence",
        "risk_bound",
        "srm",
        "search",
        "tune",
    ],
    "mercer.settings": [
        "config",
        "get_config",
    ],
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}
_FOLDERS = [
    "datasets",
    "domains",
    "engines",
    "errors",
    "features",
    "io",
    "kernels",
    "losses",
    "models",
    "operators",
    "plot",
    "rkhs",
    "selection",
    "solvers",
    "statistics",
    "testing",
]

__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _FOLDERS:
        return importlib.import_module(f"mercer.{name}")
    raise AttributeError(f"module 'mercer' has no attribute {name!r}")


def __dir__() -> list[str]:
    dunder = [name for name in globals() if name.startswith("__")]
    return sorted({*dunder, *_HOME, *_FOLDERS})
