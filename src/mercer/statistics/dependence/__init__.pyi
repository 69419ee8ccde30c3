from mercer.statistics.dependence.aggregated import (
    hsic_agg_test as hsic_agg_test,
    paired_collections as paired_collections,
)
from mercer.statistics.dependence.conditional import kci_test as kci_test
from mercer.statistics.dependence.shuffled import Contrast as Contrast
from mercer.statistics.dependence.test import (
    check_options as check_options,
    hsic as hsic,
    hsic_test as hsic_test,
    pair_test as pair_test,
)
