from mercer.rkhs.entries import EntryShares as EntryShares
from mercer.rkhs.explanation import (
    Explanation as Explanation,
    explain as explain,
    explain_answers as explain_answers,
    players_of as players_of,
    rows_with_columns as rows_with_columns,
)
from mercer.rkhs.features import (
    feature_values as feature_values,
    few_features as few_features,
    linear_weights as linear_weights,
    mean_of_rows as mean_of_rows,
    sums_of_features as sums_of_features,
)
from mercer.rkhs.function import (
    Function as Function,
    apart as apart,
    first_equal as first_equal,
)
from mercer.rkhs.games import ProductGame as ProductGame
from mercer.rkhs.geometry import (
    center as center,
    distance as distance,
    distance_to_set as distance_to_set,
    mean_embedding as mean_embedding,
)

__all__ = ["Explanation", "Function", "center", "distance", "distance_to_set", "mean_embedding"]
