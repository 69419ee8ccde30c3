from mercer.domains.base import is_dask as is_dask
from mercer.domains.blocks.block import (
    Block as Block,
    checksum as checksum,
    column_names as column_names,
    no_weight as no_weight,
)
from mercer.domains.blocks.dask import (
    DaskPart as DaskPart,
    DaskSource as DaskSource,
    partitions as partitions,
)
from mercer.domains.blocks.delimited import text_columns as text_columns
from mercer.domains.blocks.parquet import (
    cell_batches as cell_batches,
    cells_size as cells_size,
    column_types as column_types,
    parquet_libraries as parquet_libraries,
    polars_cells as polars_cells,
    pyarrow_parquet as pyarrow_parquet,
)
from mercer.domains.blocks.parts import (
    ArrayReader as ArrayReader,
    BlockPart as BlockPart,
    Weighing as Weighing,
)
from mercer.domains.blocks.rows import RowBlocks as RowBlocks
