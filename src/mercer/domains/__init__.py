"""What a point is: collections of points, checked once and handed on in canonical form."""

from mercer.domains.bags import BagCollection, Bags
from mercer.domains.base import Domain
from mercer.domains.blocks.rows import RowBlocks
from mercer.domains.categories import Categories, CategoryCollection
from mercer.domains.gram import GramRows
from mercer.domains.graphs.collection import GraphCollection, Graphs
from mercer.domains.graphs.nodes import NodeCollection, Nodes
from mercer.domains.graphs.value import Graph
from mercer.domains.incomplete import IncompleteCollection, IncompletePoints, IncompleteVectors
from mercer.domains.numbers import Numbers
from mercer.domains.objects import Objects
from mercer.domains.packed import Packed
from mercer.domains.series import Series, SeriesCollection
from mercer.domains.strings import StringCollection, Strings
from mercer.domains.tables.columns import Tables
from mercer.domains.tables.table import Table
from mercer.domains.vectors import Vectors

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
