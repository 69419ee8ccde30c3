from mercer.models.risk.base import Risk as Risk
from mercer.models.risk.erm import KernelERM as KernelERM
from mercer.models.risk.logistic import KernelLogisticRegression as KernelLogisticRegression
from mercer.models.risk.named import (
    KernelHuberRegressor as KernelHuberRegressor,
    KernelQuantileRegressor as KernelQuantileRegressor,
)
