from mercer.models.tables.classifier import TableClassifier as TableClassifier
from mercer.models.tables.proposal import (
    Compared as Compared,
    kernel_for as kernel_for,
    model_for as model_for,
)
from mercer.models.tables.regressor import (
    TUNING_ROWS as TUNING_ROWS,
    TableRegressor as TableRegressor,
    enough_to_tune as enough_to_tune,
    tuned as tuned,
)

__all__ = ["TableClassifier", "TableRegressor"]
