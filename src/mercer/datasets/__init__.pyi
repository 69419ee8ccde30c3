from mercer.datasets.data import (
    load_diabetes_table as load_diabetes_table,
    load_sentences as load_sentences,
    load_wine_table as load_wine_table,
    make_clinic as make_clinic,
    make_molecules as make_molecules,
    make_rings as make_rings,
    make_sine as make_sine,
    make_splice as make_splice,
)

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
