"""`make bench`: every benchmark, one table. Names of files as arguments run only those."""

from __future__ import annotations

import importlib
import sys

from timing import Row, print_table

CAPABILITIES = [
    "startup",
    "gram",
    "ridge",
    "cg",
    "products",
    "falkon",
    "loo",
    "svm",
    "logistic",
    "gp",
    "search",
    "neighbors",
    "pca",
    "rpcholesky",
    "clustering",
    "density",
    "aggregated",
    "independence",
    "two_sample",
    "spectrum",
    "subsequence",
    "graphs",
    "tables",
    "features",
    "planning",
    "cluster",
    "device",
]


def main(names: list[str]) -> None:
    """Run the named benchmarks, or all."""
    table: list[Row] = []
    for name in names or CAPABILITIES:
        print(f"running {name} …", file=sys.stderr, flush=True)
        table += importlib.import_module(name).rows()
    print_table(table)


if __name__ == "__main__":
    main(sys.argv[1:])
