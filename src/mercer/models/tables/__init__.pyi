from mercer.models.tables.base import MACHINES as MACHINES
from mercer.models.tables.classifier import TableClassifier as TableClassifier
from mercer.models.tables.proposal import (
    ROWS_OF_A_METRIC as ROWS_OF_A_METRIC,
    TUNING_ROWS as TUNING_ROWS,
    enough_to_tune as enough_to_tune,
    kernel_for as kernel_for,
    model_for as model_for,
    suits_features as suits_features,
    time_for as time_for,
    tuned as tuned,
)
from mercer.models.tables.regressor import TableRegressor as TableRegressor

__all__ = ["TableClassifier", "TableRegressor"]
