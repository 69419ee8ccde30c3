"""Arguments that several commands share."""

from __future__ import annotations

import argparse

from mercer.cli import argument_types as types

__all__ = [
    "KERNELS",
    "TABLE",
    "answer_options",
    "column_options",
    "command",
    "content_options",
    "row_options",
    "table_options",
]

KERNELS = ("rbf", "matern", "rational_quadratic", "laplacian", "linear", "polynomial")
TABLE = "CSV or Parquet file with a header, or a folder of Parquet files; - is stdin"


def command(commands: argparse._SubParsersAction, name: str, text: str) -> argparse.ArgumentParser:
    """Add a command and return its parser.

    Parameters
    ----------
    commands : subparsers
        Those of ``mercer``.
    name, text : str
        Its name and what it does.
    """
    parser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="progress also without a terminal",
    )
    parser.add_argument("--debug", action="store_true", help="show where an error came from")
    return parser


def table_options(parser: argparse.ArgumentParser) -> None:
    """Add how a table is written, the budget and whether outputs are overwritten."""
    parser.add_argument("--encoding", default="utf-8", help="of a CSV file (default: utf-8)")
    parser.add_argument(
        "--decimal",
        choices=(".", ","),
        default=".",
        metavar="CHAR",
        help="decimal mark of numbers, . or , (default: .)",
    )
    parser.add_argument(
        "--memory", type=types.memory, metavar="SIZE", help="memory budget, for example 2GB"
    )
    parser.add_argument("--force", action="store_true", help="overwrite the output file")


def column_options(parser: argparse.ArgumentParser) -> None:
    """Add which columns are used, and as what."""
    parser.add_argument(
        "--drop",
        nargs="+",
        action="extend",
        default=[],
        metavar="COLUMN",
        help="columns not to use",
    )
    parser.add_argument(
        "--categorical",
        nargs="+",
        action="extend",
        default=[],
        metavar="COLUMN",
        help="columns to be read as categories, whatever they look like",
    )
    parser.add_argument(
        "--max-categories",
        type=types.count,
        default=100,
        metavar="N",
        help="most frequent categories kept of each column (default: 100)",
    )


def content_options(parser: argparse.ArgumentParser) -> None:
    """Add what columns hold where a kernel has a part for each kind of column."""
    for option, what in (
        ("--number", "numbers to be used, also where they look like identifiers"),
        ("--text", "text, read word by word"),
        ("--sequence", "strings compared by their letters, such as DNA"),
    ):
        parser.add_argument(
            option,
            nargs="+",
            action="extend",
            default=[],
            metavar="COLUMN",
            help=f"columns of {what}, whatever they look like",
        )


def row_options(parser: argparse.ArgumentParser, what: str) -> None:
    """Add how many rows are used, and the seed.

    Parameters
    ----------
    parser : ArgumentParser
        That of a command.
    what : str
        What is random.
    """
    parser.add_argument(
        "--max-rows", type=types.count, metavar="N", help="use N random rows at most"
    )
    parser.add_argument("--seed", type=types.seed, default=0, help=f"of {what} (default: 0)")


def answer_options(parser: argparse.ArgumentParser) -> None:
    """Add where a table of answers goes, and what is copied into it."""
    parser.add_argument(
        "-o",
        "--output",
        type=types.answer_path,
        metavar="OUT",
        help="file to write: .csv, .txt, .tsv (tabs) or .parquet (default: CSV to stdout)",
    )
    parser.add_argument(
        "--keep",
        nargs="+",
        action="extend",
        default=[],
        metavar="COLUMN",
        help="columns of TABLE to copy in front of the answers",
    )
    parser.add_argument(
        "--raw-csv",
        action="store_true",
        help="write text cells as they are, also those a spreadsheet would run as a formula",
    )
