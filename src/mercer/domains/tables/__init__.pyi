from mercer.domains.tables.cells import (
    Cells as Cells,
    NumberCells as NumberCells,
    RepeatedCells as RepeatedCells,
    WrittenCells as WrittenCells,
    joined as joined,
)
from mercer.domains.tables.columns import (
    Tables as Tables,
    rows_of_objects as rows_of_objects,
    select as select,
)
from mercer.domains.tables.table import (
    Table as Table,
    check_same_columns as check_same_columns,
    holds_dates as holds_dates,
    holds_spans as holds_spans,
    is_date as is_date,
    is_frame as is_frame,
    only_numbers as only_numbers,
    short as short,
)
