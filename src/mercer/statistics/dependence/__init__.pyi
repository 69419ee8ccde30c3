from mercer.statistics.dependence.aggregated import (
    hsic_agg_test as hsic_agg_test,
    paired_collections as paired_collections,
)
from mercer.statistics.dependence.conditional import kci_test as kci_test
from mercer.statistics.dependence.distance import (
    distance_correlation as distance_correlation,
    distance_correlation_test as distance_correlation_test,
)
from mercer.statistics.dependence.joint import dhsic as dhsic, dhsic_test as dhsic_test
from mercer.statistics.dependence.shuffled import Contrast as Contrast
from mercer.statistics.dependence.test import (
    check_options as check_options,
    hsic as hsic,
    hsic_test as hsic_test,
    pair_test as pair_test,
)
