"""Samples in, p-value out: are two distributions one, are two variables independent."""

from mercer.statistics.aggregated import mmd_agg_test
from mercer.statistics.aggregated_pairs import hsic_agg_test
from mercer.statistics.base import ConfidenceInterval, TestResult
from mercer.statistics.conditional import kci_test
from mercer.statistics.dependence import hsic
from mercer.statistics.discrepancy import mmd, witness
from mercer.statistics.independence import hsic_test
from mercer.statistics.k_sample import k_sample_test
from mercer.statistics.splitting import mmd_split_test
from mercer.statistics.splitting_pairs import hsic_split_test
from mercer.statistics.stein import ksd, ksd_test
from mercer.statistics.two_sample import mmd_test

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
