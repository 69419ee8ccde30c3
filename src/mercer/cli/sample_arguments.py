"""Arguments of the commands that need no target: compare, depend, cluster and embed."""

from __future__ import annotations

import argparse

from mercer.cli import argument_types as types
from mercer.cli.argument_groups import (
    KERNELS,
    TABLE,
    answer_options,
    column_options,
    command,
    row_options,
    table_options,
)

__all__ = ["add_sample_commands"]


def add_sample_commands(commands: argparse._SubParsersAction) -> None:
    """Add the four commands.

    Parameters
    ----------
    commands : subparsers
        Those of ``mercer``.
    """
    _add_compare(commands)
    _add_depend(commands)
    _add_cluster(commands)
    _add_embed(commands)


def _add_compare(commands: argparse._SubParsersAction) -> None:
    parser = command(
        commands,
        "compare",
        "Test whether two tables come from one distribution; say where not.",
    )
    parser.add_argument("a", metavar="A", help=f"the first table, a {TABLE}")
    parser.add_argument("b", metavar="B", help=f"the second table, a {TABLE}")
    _add_kernel(parser, "auto", "auto aggregates 20 kernels of 10 widths")
    _add_test(parser)
    parser.add_argument(
        "--top",
        type=types.natural,
        default=5,
        metavar="N",
        help="columns and rows to name where the tables differ most; 0 names none (default: 5)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=types.answer_path,
        default=False,
        metavar="OUT",
        help="write the witness of every row: table, line, value; - is stdout in place of the "
        "report",
    )
    column_options(parser)
    row_options(parser, "permutations and of chosen rows, of each table")
    table_options(parser)


def _add_depend(commands: argparse._SubParsersAction) -> None:
    parser = command(commands, "depend", "Test whether some columns of a table depend on others.")
    parser.add_argument("table", metavar="TABLE", help=TABLE)
    for name in ("x", "y"):
        parser.add_argument(
            f"--{name}", nargs="+", required=True, metavar="COLUMN", help=f"columns of {name}"
        )
    parser.add_argument(
        "--given",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="test the dependence that is left when these columns are known",
    )
    _add_kernel(parser, None, "")
    _add_test(parser)
    column_options(parser)
    row_options(parser, "permutations and of chosen rows")
    table_options(parser)


def _add_cluster(commands: argparse._SubParsersAction) -> None:
    parser = command(commands, "cluster", "Group the rows of a table.")
    parser.add_argument("table", metavar="TABLE", help=TABLE)
    parser.add_argument(
        "-k", "--clusters", type=types.whole, metavar="K", help="how many; needed without --penalty"
    )
    parser.add_argument(
        "--penalty",
        type=types.positive,
        metavar="P",
        help="price of a further cluster, a squared distance in feature space, for rbf below 2: "
        "DP-means then finds how many",
    )
    parser.add_argument(
        "--method",
        choices=("kmeans", "spectral", "dpmeans"),
        help="kmeans in feature space (default), spectral, or dpmeans (the method of --penalty)",
    )
    _add_kernel(parser, None, "")
    answer_options(parser)
    column_options(parser)
    row_options(parser, "the starts and of chosen rows")
    table_options(parser)


def _add_embed(commands: argparse._SubParsersAction) -> None:
    parser = command(commands, "embed", "Write the principal components of the rows of a table.")
    parser.add_argument("table", metavar="TABLE", help=TABLE)
    parser.add_argument(
        "-n",
        "--components",
        type=types.whole,
        default=2,
        metavar="N",
        help="how many components (default: 2)",
    )
    parser.add_argument(
        "--novelty",
        action="store_true",
        help="add a column with what the components do not explain of a row",
    )
    _add_kernel(parser, None, "")
    answer_options(parser)
    column_options(parser)
    row_options(parser, "starts and of chosen rows")
    table_options(parser)


def _add_kernel(parser: argparse.ArgumentParser, more: str | None, text: str) -> None:
    choices = KERNELS if more is None else (*KERNELS, more)
    parser.add_argument(
        "--kernel",
        choices=choices,
        default="rbf",
        help="kernel, its scale taken from the data"
        + (f"; {text}" if text else "")
        + " (default: rbf)",
    )
    parser.add_argument(
        "--length-scale",
        type=types.positive,
        metavar="L",
        help="of the kernel, in standardised columns (default: the median distance, for spectral "
        "that to the seventh neighbour)",
    )


def _add_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--permutations",
        type=types.whole,
        default=999,
        metavar="B",
        help="draws that the p-value rests on (default: 999)",
    )
    parser.add_argument(
        "--fail-under",
        type=types.probability,
        metavar="P",
        help="exit with 3 when the p-value is below P",
    )
    parser.add_argument(
        "--blocks",
        metavar="COLUMN|N",
        help="rows that belong together and are shuffled as one: a column that names them, or N "
        "rows in a row, for measurements that follow one another",
    )
    parser.add_argument(
        "--strata", metavar="COLUMN", help="shuffle rows only among rows with one value here"
    )
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
