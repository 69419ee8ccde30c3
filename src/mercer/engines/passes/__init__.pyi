from mercer.engines.passes.base import (
    BYTES as BYTES,
    SHARE as SHARE,
    STORED as STORED,
    MemoryPass as MemoryPass,
    RowPass as RowPass,
    RowSquares as RowSquares,
    Scattered as Scattered,
    row_pass as row_pass,
)
from mercer.engines.passes.cluster import client_for as client_for, each_block as each_block
from mercer.engines.passes.device import values_on_device as values_on_device
