"""Samples in, p-value out: are two distributions one, are two variables independent."""

from mercer.statistics.base import ConfidenceInterval, TestResult

__all__ = ["ConfidenceInterval", "TestResult"]
