from mercer.features.centred import centred_rows as centred_rows
from mercer.features.coordinates import PrincipalCoordinates as PrincipalCoordinates
from mercer.features.counts import SparseCounts as SparseCounts
from mercer.features.fourier import RandomFourierFeatures as RandomFourierFeatures
from mercer.features.landmarks import choose_landmarks as choose_landmarks
from mercer.features.named_columns import (
    NamedColumn as NamedColumn,
    numbers as numbers,
    read_columns as read_columns,
)
from mercer.features.nystroem import Nystroem as Nystroem, spanning_factor as spanning_factor
from mercer.features.points import distinct as distinct, equal_points as equal_points
from mercer.features.prototypes import (
    CHOICE as CHOICE,
    PROTOTYPES as PROTOTYPES,
    Prototypes as Prototypes,
    choose_prototypes as choose_prototypes,
    map_to_prototypes as map_to_prototypes,
    prototype_blocks as prototype_blocks,
    with_prototypes as with_prototypes,
)
from mercer.features.sketch import TensorSketch as TensorSketch
from mercer.features.table_columns import (
    TableColumns as TableColumns,
    read_rows as read_rows,
    table as table,
    table_params as table_params,
)
from mercer.features.tables import TableEncoder as TableEncoder

__all__ = [
    "Nystroem",
    "Prototypes",
    "RandomFourierFeatures",
    "SparseCounts",
    "TableEncoder",
    "TensorSketch",
]
