from mercer.statistics.two_sample.aggregated import (
    collected as collected,
    mmd_agg_test as mmd_agg_test,
)
from mercer.statistics.two_sample.discrepancy import mmd as mmd, witness as witness
from mercer.statistics.two_sample.forms import choose_forms as choose_forms
from mercer.statistics.two_sample.k_sample import holm as holm, k_sample_test as k_sample_test
from mercer.statistics.two_sample.labels import (
    Labelled as Labelled,
    centred_features as centred_features,
    weights_of as weights_of,
)
from mercer.statistics.two_sample.test import (
    NULLS as NULLS,
    compare_samples as compare_samples,
    mmd_test as mmd_test,
)
