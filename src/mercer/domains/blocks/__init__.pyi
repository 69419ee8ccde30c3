from mercer.domains.blocks.block import (
    Block as Block,
    checksum as checksum,
    column_names as column_names,
    no_weight as no_weight,
)
from mercer.domains.blocks.dask import (
    DaskPart as DaskPart,
    DaskSource as DaskSource,
    is_dask as is_dask,
    partitions as partitions,
)
from mercer.domains.blocks.files import list_files as list_files
from mercer.domains.blocks.parquet import (
    ENDINGS as ENDINGS,
    open_parquet as open_parquet,
    pyarrow_parquet as pyarrow_parquet,
)
from mercer.domains.blocks.parts import (
    ArrayReader as ArrayReader,
    Part as Part,
    Weighing as Weighing,
)
from mercer.domains.blocks.rows import RowBlocks as RowBlocks
