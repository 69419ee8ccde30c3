from mercer.models.metric.base import explain_table as explain_table
from mercer.models.metric.classifier import (
    FeatureMachineClassifier as FeatureMachineClassifier,
)
from mercer.models.metric.contents import SAID as SAID, Contents as Contents
from mercer.models.metric.members import fitted_rows as fitted_rows
from mercer.models.metric.regressor import FeatureMachineRegressor as FeatureMachineRegressor
from mercer.models.metric.scores import fingerprint as fingerprint
from mercer.models.metric.streams import RareClass as RareClass
from mercer.models.metric.strings import (
    FREE as FREE,
    Compared as Compared,
    string_kernels as string_kernels,
)

__all__ = ["FeatureMachineClassifier", "FeatureMachineRegressor"]
