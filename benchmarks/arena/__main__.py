"""mercer's default for tables against boosting on real tables, defaults against defaults.

    python -m benchmarks.arena                  every table that is not held back, every method
    python -m benchmarks.arena --small          ten small tables, five methods: about ten minutes
    python -m benchmarks.arena --held-back      the tables that are held back, and only those
    python -m benchmarks.arena --all            all tables
    python -m benchmarks.arena --list           the tables
    python -m benchmarks.arena --check          loads every table: sums, and none twice
    python -m benchmarks.arena --summary PATH   PATH.md and PATH-*.svg of the results so far

A run does what is missing in its file of results and can be ended at any time.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.arena import summary
from benchmarks.arena.methods import METHODS
from benchmarks.arena.run import read_results, run
from benchmarks.arena.tables import CATALOGUE, Entry, duplicates, load, read_catalogue

RESULTS = Path("benchmarks/arena/results")
#: Tables with numbers, categories and gaps, of 100 to 1500 rows, and methods of each family.
SMALL = {
    "tables": [
        "airfoil",
        "auto_mpg",
        "cpu_performance",
        "fish_toxicity",
        "forest_fires",
        "bone_marrow",
        "breast_cytology",
        "credit_german",
        "glass",
        "hepatitis",
    ],
    "methods": ["mercer", "catboost", "lightgbm", "rbf", "linear"],
    "splits": 3,
}


def main(words: list[str] | None = None) -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.arena", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--small", action="store_true", help="the small selection")
    add("--held-back", action="store_true", help="the tables that are held back")
    add("--all", action="store_true", help="all tables, those that are held back too")
    add("--list", action="store_true", help="print the tables")
    add("--check", action="store_true", help="load the tables")
    add("--summary", type=Path, metavar="PATH", help="write a page and pictures")
    add("--note", default="", help="a paragraph for the page: where the results are from, say")
    add("--against", default="catboost", help="the method that others are compared with")
    add("--tables", nargs="+", metavar="NAME", help="only these")
    add("--methods", nargs="+", metavar="NAME", choices=METHODS, help=f"of {', '.join(METHODS)}")
    add("--rows", type=int, default=10**9, help="leave out tables with more")
    add("--splits", type=int, help="5 unless given; with --small 3")
    add("--limit", type=float, default=600.0, help="seconds for a fit; 0 is none")
    add("--again", action="store_true", help="also what the file of results holds")
    add("--failed", action="store_true", help="also what failed before, or took too long")
    add("--results", type=Path, help="the file of results, lines of JSON")
    add("--catalogue", type=Path, default=CATALOGUE, help="other tables")
    told = parser.parse_args(words)

    entries = _chosen(parser, told)
    parts = {"small": entries} if told.small else _by_part(entries)
    where = {part: told.results or RESULTS / f"{part}.jsonl" for part in parts}
    if told.list:
        for entry in entries:
            where = f"{entry.package} {entry.loader}".strip() if entry.package else "a file"
            mark = "held back" if entry.held_back else ""
            print(
                f"{entry.name:20} {entry.task:10} {entry.rows:6} {entry.kinds:38} {mark:9} {where}"
            )
    elif told.check:
        tables = [load(entry) for entry in entries]
        wrong = [f"{a} and {b} share half of their columns" for a, b in duplicates(tables)]
        for table in tables:
            if (len(table.y), table.kinds()) != (table.entry.rows, table.entry.kinds):
                wrong.append(f"{table.entry.name}: {len(table.y)} rows, {table.kinds()}")
        print("\n".join(wrong) or f"{len(tables)} tables are what the catalogue says")
        raise SystemExit(bool(wrong))
    elif told.summary:
        names = {entry.name for entry in entries}
        chosen = set(told.methods or METHODS)
        lines = [
            line
            for path in dict.fromkeys(where.values())
            for line in read_results(path)
            if line["table"] in names and line["method"] in chosen
        ]
        held_back = {entry.name for entry in entries if entry.held_back}
        for path in summary.write(lines, told.summary, told.against, held_back, told.note):
            print(path)
    else:
        methods = told.methods or (SMALL["methods"] if told.small else list(METHODS))
        splits = told.splits or (SMALL["splits"] if told.small else 5)
        for part, some in parts.items():
            again = {"again": told.again, "failed": told.failed}
            run(some, methods, where[part], splits=splits, limit=told.limit, **again)


def _by_part(entries: list[Entry]) -> dict[str, list[Entry]]:
    """Return tables by the file that their results are in."""
    parts: dict[str, list[Entry]] = {}
    for entry in entries:
        parts.setdefault("held-back" if entry.held_back else "whole", []).append(entry)
    return parts


def _chosen(parser: argparse.ArgumentParser, told: argparse.Namespace) -> list[Entry]:
    """Return the entries that the command line means, the smallest first."""
    entries = read_catalogue(told.catalogue)
    wanted = told.tables or (SMALL["tables"] if told.small else list(entries))
    for name in wanted:
        if name not in entries:
            parser.error(f"--tables {name}: there is no such table; --list prints them")
        if (
            told.tables
            and entries[name].held_back
            and not (told.held_back or told.all or told.check)
        ):
            parser.error(f"--tables {name} is held back; --held-back or --all asks for such tables")
    whatever = told.list or told.check or told.all  # held back or not
    chosen = [
        entry
        for entry in map(entries.get, wanted)
        if entry.rows <= told.rows and (whatever or entry.held_back == told.held_back)
    ]
    if not chosen:
        parser.error("no table is left; --list prints them")
    return sorted(chosen, key=lambda entry: entry.rows)


if __name__ == "__main__":
    main()
