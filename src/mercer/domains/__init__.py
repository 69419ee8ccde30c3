"""What a point is: collections of points, checked once and handed on in canonical form."""

from mercer.domains.base import Domain
from mercer.domains.columns import Tables
from mercer.domains.gram_rows import GramRows
from mercer.domains.numbers import Numbers
from mercer.domains.objects import Objects
from mercer.domains.packed import Packed
from mercer.domains.strings import StringCollection, Strings
from mercer.domains.tables import Table
from mercer.domains.vectors import Vectors

__all__ = [
    "Domain",
    "GramRows",
    "Numbers",
    "Objects",
    "Packed",
    "StringCollection",
    "Strings",
    "Table",
    "Tables",
    "Vectors",
]
