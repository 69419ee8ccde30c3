from mercer.models.sparse.kernel_machine import KernelMachine as KernelMachine
from mercer.models.sparse.l1vm import (
    L1VM as L1VM,
    L1VMClassifier as L1VMClassifier,
    L1VMRegressor as L1VMRegressor,
)
