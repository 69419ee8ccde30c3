"""Densities by smoothing kernels, and what follows from them: Bayes' rule, local averages."""

from mercer.models.density.classifier import KDEClassifier
from mercer.models.density.kernel_density import KernelDensity
from mercer.models.density.nadaraya import NadarayaWatson, NadarayaWatsonClassifier

__all__ = ["KDEClassifier", "KernelDensity", "NadarayaWatson", "NadarayaWatsonClassifier"]
