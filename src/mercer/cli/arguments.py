"""The arguments of the command line; imports nothing heavy, so that help is instant."""

from __future__ import annotations

import argparse

from mercer import __version__
from mercer.cli import argument_types as types
from mercer.cli.argument_groups import (
    KERNELS,
    TABLE,
    answer_options,
    column_options,
    command,
    content_options,
    row_options,
    table_options,
)
from mercer.cli.sample_arguments import add_sample_commands

__all__ = ["build_parser"]

_DESCRIPTION = """\
Kernel methods on tables: models that predict, tests that compare, clusters and components.
"""
_EPILOG = """\
examples:
  mercer fit houses.csv --target price -o houses.mercer
  mercer predict houses.mercer new.csv -o prices.csv
  mercer info houses.mercer
  mercer compare lastyear.csv thisyear.csv --fail-under 0.01
  mercer depend houses.csv --x area rooms --y price
  mercer cluster houses.csv -k 4 -o clusters.csv
  mercer embed houses.csv -n 2 -o plane.csv

Exit codes: 0 done, 1 the data or the model stood in the way, 2 wrong usage, 3 the p-value is below
--fail-under, 130 interrupted.
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of ``mercer`` with its commands."""
    parser = argparse.ArgumentParser(
        prog="mercer",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mercer {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_fit(commands)
    _add_predict(commands)
    _add_info(commands)
    add_sample_commands(commands)
    return parser


def _add_fit(commands: argparse._SubParsersAction) -> None:
    parser = command(commands, "fit", "Fit, tune and evaluate a kernel model on a table.")
    parser.add_argument("table", metavar="TABLE", help=TABLE)
    parser.add_argument("--target", required=True, metavar="COLUMN", help="column to predict")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        type=types.model_path,
        metavar="MODEL",
        help="model file to write",
    )
    parser.add_argument(
        "--plan",
        action=types.NothingWritten,
        help="say how the model would be fitted and what that takes, and stop; needs no -o",
    )
    parser.add_argument(
        "--kernel",
        choices=(*KERNELS, "columns", "auto"),
        help="kernel; columns has a part for each kind of column and reads text and sequences as "
        "such; auto takes the best of rbf, matern and linear, and of columns where there is text "
        "(default: rbf, or columns where the table holds text or sequences)",
    )
    parser.add_argument(
        "--task",
        choices=("auto", "regression", "classification"),
        default="auto",
        help="predict numbers or classes (default: decided by the target column)",
    )
    parser.add_argument(
        "--model",
        choices=("auto", "ridge", "svc"),
        default="auto",
        help="ridge, or svc for a support vector classifier; auto takes svc for classification "
        "where every class has 5 rows or more, else ridge (default: auto)",
    )
    parser.add_argument(
        "--alpha",
        type=types.alpha,
        default="loo",
        help="penalty of ridge: loo tunes it with the kernel's scale; a number > 0 fixes it and "
        "takes the scale from the data (default: loo)",
    )
    parser.add_argument(
        "--C",
        type=types.price,
        default="tune",
        metavar="C",
        help="price of a margin violation for svc: tune chooses it with the kernel's scale; a "
        "number > 0 fixes it and takes the scale from the data (default: tune)",
    )
    parser.add_argument(
        "--no-tune", action="store_true", help="take the kernel's scale from the data"
    )
    column_options(parser)
    content_options(parser)
    parser.add_argument(
        "--test-fraction",
        type=types.fraction,
        default=0.2,
        metavar="F",
        help="share of the rows held out to evaluate; 0 holds out none (default: 0.2)",
    )
    row_options(parser, "the random split")
    table_options(parser)


def _add_predict(commands: argparse._SubParsersAction) -> None:
    parser = command(commands, "predict", "Predict the rows of a table with a fitted model.")
    parser.add_argument("model", metavar="MODEL", help="model file written by mercer fit")
    parser.add_argument("table", metavar="TABLE", help=TABLE)
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="add a column of probabilities for each class; svc models have them",
    )
    answer_options(parser)
    table_options(parser)


def _add_info(commands: argparse._SubParsersAction) -> None:
    parser = command(commands, "info", "Say what is in a model file.")
    parser.add_argument("model", metavar="MODEL", help="model file")
