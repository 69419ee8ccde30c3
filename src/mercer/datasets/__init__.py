"""Small real tables and generators for examples, documents and tests; nothing is downloaded."""

from mercer.datasets.generators import make_rings, make_sine
from mercer.datasets.tables import load_diabetes_table, load_wine_table

__all__ = ["load_diabetes_table", "load_wine_table", "make_rings", "make_sine"]
