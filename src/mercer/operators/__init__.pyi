from mercer.operators.base import (
    Centered as Centered,
    Dense as Dense,
    Diagonal as Diagonal,
    Index as Index,
    LowRank as LowRank,
    OnDevice as OnDevice,
    Operator as Operator,
    Scaled as Scaled,
    Sum as Sum,
    as_operator as as_operator,
)
from mercer.operators.device import (
    Place as Place,
    device_forms as device_forms,
    gathered_sums as gathered_sums,
    place_of as place_of,
    shuffled_products as shuffled_products,
    with_first as with_first,
)
from mercer.operators.gram import (
    Gram as Gram,
    fingerprint as fingerprint,
    gram_of as gram_of,
    placed as placed,
    product_at as product_at,
    rows_on_device as rows_on_device,
    upper_half as upper_half,
    values_at as values_at,
)
from mercer.operators.neighbors import (
    equal_pairs as equal_pairs,
    find_nearest as find_nearest,
    neighbour_bytes as neighbour_bytes,
)
from mercer.operators.profiles import (
    FEW as FEW,
    PointsAside as PointsAside,
    log_sums as log_sums,
    nearest_squares as nearest_squares,
    rim as rim,
)
from mercer.operators.several import (
    inverses as inverses,
    joint as joint,
    joint_rows as joint_rows,
    many_forms as many_forms,
    shuffled as shuffled,
    shuffled_cells as shuffled_cells,
    shuffled_factors as shuffled_factors,
    shuffled_together as shuffled_together,
    sources_of as sources_of,
)
from mercer.operators.sums import (
    fold as fold,
    group_sums as group_sums,
    judge_points as judge_points,
    member_sums as member_sums,
    nearest as nearest,
    quadratic as quadratic,
    spread as spread,
)

__all__ = [
    "Centered",
    "Dense",
    "Diagonal",
    "Gram",
    "LowRank",
    "Operator",
    "Scaled",
    "Sum",
    "as_operator",
]
