from mercer.domains.bags import BagCollection as BagCollection, Bags as Bags
from mercer.domains.base import Domain as Domain, library_of as library_of
from mercer.domains.blocks import RowBlocks as RowBlocks
from mercer.domains.categories import (
    MISSING as MISSING,
    Categories as Categories,
    CategoryCollection as CategoryCollection,
    codes_of as codes_of,
)
from mercer.domains.gram import GramRows as GramRows
from mercer.domains.graphs import (
    Graph as Graph,
    GraphCollection as GraphCollection,
    Graphs as Graphs,
    NodeCollection as NodeCollection,
    Nodes as Nodes,
)
from mercer.domains.incomplete import (
    IncompleteCollection as IncompleteCollection,
    IncompletePoints as IncompletePoints,
    IncompleteVectors as IncompleteVectors,
)
from mercer.domains.labels import LabelCodes as LabelCodes, is_missing as is_missing, mixed as mixed
from mercer.domains.packed import Packed as Packed
from mercer.domains.points import (
    Objects as Objects,
    concatenate as concatenate,
    largest as largest,
    moderate as moderate,
    point_keys as point_keys,
    same_points as same_points,
    shifted as shifted,
)
from mercer.domains.series import Series as Series, SeriesCollection as SeriesCollection
from mercer.domains.strings import StringCollection as StringCollection, Strings as Strings
from mercer.domains.tables import Table as Table, Tables as Tables
from mercer.domains.vectors import (
    KERNEL_FOR_POINTS as KERNEL_FOR_POINTS,
    KERNEL_FOR_ROWS as KERNEL_FOR_ROWS,
    Numbers as Numbers,
    Vectors as Vectors,
    beside as beside,
    is_torch as is_torch,
    namespace as namespace,
    odd_point as odd_point,
    refuse_odd_arrays as refuse_odd_arrays,
    to_host as to_host,
    told_of_rows as told_of_rows,
)

__all__ = [
    "BagCollection",
    "Bags",
    "Categories",
    "CategoryCollection",
    "Domain",
    "GramRows",
    "Graph",
    "GraphCollection",
    "Graphs",
    "IncompleteCollection",
    "IncompletePoints",
    "IncompleteVectors",
    "NodeCollection",
    "Nodes",
    "Numbers",
    "Objects",
    "Packed",
    "RowBlocks",
    "Series",
    "SeriesCollection",
    "StringCollection",
    "Strings",
    "Table",
    "Tables",
    "Vectors",
]
