"""Samples in, p-value out: are two distributions one, are two variables independent."""

from mercer.statistics.base import ConfidenceInterval, TestResult
from mercer.statistics.dependence.aggregated import hsic_agg_test
from mercer.statistics.dependence.conditional import kci_test
from mercer.statistics.dependence.test import hsic, hsic_test
from mercer.statistics.splitting import hsic_split_test, mmd_split_test
from mercer.statistics.stein.test import ksd, ksd_test
from mercer.statistics.two_sample.aggregated import mmd_agg_test
from mercer.statistics.two_sample.discrepancy import mmd, witness
from mercer.statistics.two_sample.k_sample import k_sample_test
from mercer.statistics.two_sample.test import mmd_test

__all__ = [
    "ConfidenceInterval",
    "TestResult",
    "hsic",
    "hsic_agg_test",
    "hsic_split_test",
    "hsic_test",
    "k_sample_test",
    "kci_test",
    "ksd",
    "ksd_test",
    "mmd",
    "mmd_agg_test",
    "mmd_split_test",
    "mmd_test",
    "witness",
]
