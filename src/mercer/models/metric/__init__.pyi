from mercer.models.metric.machines import (
    FeatureMachineClassifier as FeatureMachineClassifier,
    FeatureMachineRegressor as FeatureMachineRegressor,
)

__all__ = ["FeatureMachineClassifier", "FeatureMachineRegressor"]
