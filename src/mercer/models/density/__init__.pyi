from mercer.models.density.classifier import KDEClassifier as KDEClassifier
from mercer.models.density.kernel_density import KernelDensity as KernelDensity
from mercer.models.density.nadaraya import (
    NadarayaWatson as NadarayaWatson,
    NadarayaWatsonClassifier as NadarayaWatsonClassifier,
)

__all__ = ["KDEClassifier", "KernelDensity", "NadarayaWatson", "NadarayaWatsonClassifier"]
