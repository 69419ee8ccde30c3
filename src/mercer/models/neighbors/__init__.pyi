from mercer.models.neighbors.barycentre import NearestBarycentre as NearestBarycentre
from mercer.models.neighbors.models import (
    KernelNeighborsClassifier as KernelNeighborsClassifier,
    KernelNeighborsRegressor as KernelNeighborsRegressor,
    NeighborsBase as NeighborsBase,
)
