from mercer.rkhs.function import (
    Function as Function,
    apart as apart,
    few_features as few_features,
    first_equal as first_equal,
    mean_of_rows as mean_of_rows,
)
from mercer.rkhs.geometry import (
    center as center,
    distance as distance,
    distance_to_set as distance_to_set,
    mean_embedding as mean_embedding,
)

__all__ = ["Function", "center", "distance", "distance_to_set", "mean_embedding"]
