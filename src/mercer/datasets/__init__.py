"""Small real data and generators for examples, documents and tests; nothing is downloaded."""

from mercer.datasets.data import (
    load_diabetes_table,
    load_sentences,
    load_wine_table,
    make_rings,
    make_sine,
)
from mercer.datasets.structures import make_clinic, make_molecules, make_splice

__all__ = [
    "load_diabetes_table",
    "load_sentences",
    "load_wine_table",
    "make_clinic",
    "make_molecules",
    "make_rings",
    "make_sine",
    "make_splice",
]
