"""Fit and predict: scikit-learn estimators for any kernel."""

import importlib
from typing import TYPE_CHECKING, Any

from mercer.models.barycentre import NearestBarycentre
from mercer.models.base import KernelEstimator
from mercer.models.erm import KernelERM
from mercer.models.huber import KernelHuberRegressor
from mercer.models.kernel_machine import KernelMachine
from mercer.models.l1vm import L1VM
from mercer.models.l1vm_named import L1VMClassifier, L1VMRegressor
from mercer.models.logistic import KernelLogisticRegression
from mercer.models.neighbors import KernelNeighborsClassifier, KernelNeighborsRegressor
from mercer.models.nusvc import NuSVC
from mercer.models.one_class import OneClassSVM
from mercer.models.perceptron import KernelPerceptron
from mercer.models.plan_value import Plan
from mercer.models.quantile import KernelQuantileRegressor
from mercer.models.ridge import KernelRidge
from mercer.models.ridge_classifier import KernelRidgeClassifier
from mercer.models.structured import StructuredKernelRidge
from mercer.models.svc import SVC
from mercer.models.svr import SVR, NuSVR
from mercer.models.table import TableRegressor
from mercer.models.table_classifier import TableClassifier

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
