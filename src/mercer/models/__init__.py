"""Fit and predict: scikit-learn estimators for any kernel."""

import importlib
from typing import TYPE_CHECKING, Any

from mercer.estimator.base import KernelEstimator
from mercer.estimator.plan import Plan
from mercer.models.margin.nusvc import NuSVC
from mercer.models.margin.one_class import OneClassSVM
from mercer.models.margin.svc import SVC
from mercer.models.margin.svr import SVR, NuSVR
from mercer.models.neighbors.barycentre import NearestBarycentre
from mercer.models.neighbors.models import KernelNeighborsClassifier, KernelNeighborsRegressor
from mercer.models.perceptron.model import KernelPerceptron
from mercer.models.ridge.classifier import KernelRidgeClassifier
from mercer.models.ridge.regressor import KernelRidge
from mercer.models.ridge.structured import StructuredKernelRidge
from mercer.models.risk.erm import KernelERM
from mercer.models.risk.logistic import KernelLogisticRegression
from mercer.models.risk.named import KernelHuberRegressor, KernelQuantileRegressor
from mercer.models.sparse.kernel_machine import KernelMachine
from mercer.models.sparse.l1vm import L1VM, L1VMClassifier, L1VMRegressor
from mercer.models.tables.classifier import TableClassifier
from mercer.models.tables.regressor import TableRegressor

if TYPE_CHECKING:
    from mercer.models.cluster import DPMeans, KernelKMeans, SpectralClustering, penalty_from_k
    from mercer.models.density import (
        KDEClassifier,
        KernelDensity,
        NadarayaWatson,
        NadarayaWatsonClassifier,
    )
    from mercer.models.gp import (
        GaussianProcessClassifier,
        GaussianProcessRegressor,
        SparseGaussianProcessRegressor,
        for_output,
        stack_outputs,
    )
    from mercer.models.pca import PCA, KernelPCA

__all__ = [
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
    "KernelEstimator",
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
    "L1VMClassifier",
    "L1VMRegressor",
    "NadarayaWatson",
    "NadarayaWatsonClassifier",
    "NearestBarycentre",
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
]


#: Packages of many files, loaded when one of their names is used.
_PACKAGES: dict[str, tuple[str, ...]] = {
    "gp": (
        "GaussianProcessClassifier",
        "GaussianProcessRegressor",
        "SparseGaussianProcessRegressor",
        "for_output",
        "stack_outputs",
    ),
    "pca": ("KernelPCA", "PCA"),
    "cluster": ("DPMeans", "KernelKMeans", "SpectralClustering", "penalty_from_k"),
    "density": (
        "KDEClassifier",
        "KernelDensity",
        "NadarayaWatson",
        "NadarayaWatsonClassifier",
    ),
}
_HOME = {name: package for package, names in _PACKAGES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"mercer.models.{_HOME[name]}"), name)
    raise AttributeError(f"module 'mercer.models' has no attribute {name!r}")
