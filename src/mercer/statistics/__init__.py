"""Samples in, p-value out: are two distributions one, are two variables independent."""

from mercer.statistics.base import ConfidenceInterval, TestResult
from mercer.statistics.discrepancy import mmd, witness
from mercer.statistics.stein import ksd, ksd_test
from mercer.statistics.two_sample import mmd_test

__all__ = ["ConfidenceInterval", "TestResult", "ksd", "ksd_test", "mmd", "mmd_test", "witness"]
