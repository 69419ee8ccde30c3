from mercer.statistics.base import (
    ConfidenceInterval as ConfidenceInterval,
    TestResult as TestResult,
)
from mercer.statistics.dependence import (
    dhsic as dhsic,
    dhsic_test as dhsic_test,
    distance_correlation as distance_correlation,
    distance_correlation_test as distance_correlation_test,
    hsic as hsic,
    hsic_agg_test as hsic_agg_test,
    hsic_test as hsic_test,
    kci_test as kci_test,
)
from mercer.statistics.samples import paired as paired
from mercer.statistics.shares import (
    TestExplanation as TestExplanation,
    TestShare as TestShare,
)
from mercer.statistics.splitting import (
    hsic_split_test as hsic_split_test,
    mmd_split_test as mmd_split_test,
)
from mercer.statistics.stein import ksd as ksd, ksd_test as ksd_test
from mercer.statistics.tables import (
    ColumnChange as ColumnChange,
    TableComparison as TableComparison,
    TableVectors as TableVectors,
    by_column as by_column,
    compare as compare,
    compare_vectors as compare_vectors,
    table_vectors as table_vectors,
)
from mercer.statistics.two_sample import (
    k_sample_test as k_sample_test,
    mmd as mmd,
    mmd_agg_test as mmd_agg_test,
    mmd_test as mmd_test,
    witness as witness,
)

__all__ = [
    "ColumnChange",
    "ConfidenceInterval",
    "TableComparison",
    "TestExplanation",
    "TestResult",
    "TestShare",
    "compare",
    "dhsic",
    "dhsic_test",
    "distance_correlation",
    "distance_correlation_test",
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
