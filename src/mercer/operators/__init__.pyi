from mercer.operators.algebra import (
    Centered as Centered,
    Diagonal as Diagonal,
    LowRank as LowRank,
    Scaled as Scaled,
    Sum as Sum,
)
from mercer.operators.base import (
    Dense as Dense,
    Index as Index,
    OnDevice as OnDevice,
    Operator as Operator,
    as_operator as as_operator,
)
from mercer.operators.gram import Gram as Gram, rows_on_device as rows_on_device

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
