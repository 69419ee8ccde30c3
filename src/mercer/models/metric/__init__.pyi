from mercer.models.metric.feature_machines import (
    FeatureMachineClassifier as FeatureMachineClassifier,
    FeatureMachineRegressor as FeatureMachineRegressor,
)

__all__ = ["FeatureMachineClassifier", "FeatureMachineRegressor"]
